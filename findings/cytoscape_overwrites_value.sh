#!/usr/bin/env bash
set -euo pipefail

# Guess: nx.cytoscape_graph(nx.cytoscape_data(G)) gives the graph back, with the attributes of its nodes.
# Truth: A node attribute "value" comes back as the node's own name: 0.7 becomes "L0H3". node_link_data drops a node's
#   "id" and an edge's "source" and "target" likewise, and GEXF takes "id" as the node's name. No function complains;
#   GraphML keeps them all.
# Where: networkx==3.6.1.
# Why it matters: "value" is what one calls a node's attribution. A circuit that went through the page's format has
#   names where its numbers were, in the file too.
# seen:
#   networkx==3.6.1
#   given          node 'L0H3' {'value': 0.7, 'id': 17}
#                  edge {'weight': 0.5, 'source': 'k', 'target': 'q'}
#   cytoscape_data node 'L0H3' {'value': 'L0H3', 'id': 17, 'name': 'L0H3'}
#                  edge {'weight': 0.5, 'source': 'L0H3', 'target': 'L1H2'}
#   node_link_data node 'L0H3' {'value': 0.7}
#                  edge {'weight': 0.5}
#   GEXF           node '17' {'value': 0.7, 'label': 'L0H3'}
#                  edge {'source': 'k', 'target': 'q', 'id': '0', 'weight': 0.5}
#   GraphML        node 'L0H3' {'value': 0.7, 'id': 17}
#                  edge {'weight': 0.5, 'source': 'k', 'target': 'q'}
#   in Cytoscape's file: {'value': 'L0H3', 'id': 17, 'name': 'L0H3'}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile networkx==3.6.1
cat >run.py <<'PYTHON'
import io
from importlib.metadata import version

import networkx as nx

print(*(f"{name}=={version(name)}" for name in ("networkx",)))

graph = nx.DiGraph()
graph.add_node("L0H3", value=0.7, id=17)
graph.add_node("L1H2", value=0.1, id=18)
graph.add_edge("L0H3", "L1H2", weight=0.5, source="k", target="q")


def by_file(write, read):
    file = io.BytesIO()
    write(graph, file)
    file.seek(0)
    return read(file)


back = {
    "cytoscape_data": nx.cytoscape_graph(nx.cytoscape_data(graph)),
    "node_link_data": nx.node_link_graph(nx.node_link_data(graph)),
    "GEXF": by_file(nx.write_gexf, nx.read_gexf),
    "GraphML": by_file(nx.write_graphml, nx.read_graphml),
}
for name, read in {"given": graph, **back}.items():
    (node, told), *_ = read.nodes(data=True)
    ((*_, edge),) = read.edges(data=True)
    print(f"{name:14} node {node!r} {told}")
    print(f"{'':14} edge {edge}")
written = nx.cytoscape_data(graph)["elements"]["nodes"][0]["data"]
print("in Cytoscape's file:", written)
assert written["value"] == "L0H3"
assert back["cytoscape_data"].nodes["L0H3"]["value"] == "L0H3"
assert back["node_link_data"].nodes["L0H3"] == {"value": 0.7}
assert back["node_link_data"].edges["L0H3", "L1H2"] == {"weight": 0.5}
assert set(back["GEXF"]) == {"17", "18"}
assert back["GraphML"].nodes["L0H3"] == graph.nodes["L0H3"]
assert back["GraphML"].edges["L0H3", "L1H2"] == graph.edges["L0H3", "L1H2"]
PYTHON
venv/bin/python run.py
