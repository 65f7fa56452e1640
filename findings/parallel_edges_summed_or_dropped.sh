#!/usr/bin/env bash
set -euo pipefail

# Guess: Turning a graph with parallel edges (a head read by another through q, k and v) into one with single edges
#   treats the weights in one way within NetworkX, and "undirected" is symmetric.
# Truth: to_numpy_array adds the weights up; DiGraph(multigraph) keeps the last edge and drops the others;
#   to_undirected() of edges there and back keeps the weight of one direction, and which one depends on the order in
#   which nodes were added.
# Where: networkx==3.6.1 (numpy==2.4.6).
# Why it matters: PageRank, flows and communities of the same circuit come out different by the way it was flattened,
#   and a weight of 0.9 can vanish behind one of 0.05.
# seen:
#   networkx==3.6.1 numpy==2.4.6
#   edges q 0.9, k 0.3, v 0.05: to_numpy_array 1.25, DiGraph 0.05
#   a -> b 1, b -> a 5, nodes added as ('a', 'b'): to_undirected keeps 5.0
#   a -> b 1, b -> a 5, nodes added as ('b', 'a'): to_undirected keeps 1.0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile networkx==3.6.1 numpy==2.4.6
cat >run.py <<'PYTHON'
from importlib.metadata import version

import networkx as nx

print(*(f"{name}=={version(name)}" for name in ("networkx", "numpy")))

heads = nx.MultiDiGraph()
for reads, weight in (("q", 0.9), ("k", 0.3), ("v", 0.05)):
    heads.add_edge("L0H1", "L5H5", key=reads, weight=weight)
summed = nx.to_numpy_array(heads)[0, 1]
kept = nx.DiGraph(heads).edges["L0H1", "L5H5"]["weight"]
print(f"edges q 0.9, k 0.3, v 0.05: to_numpy_array {summed:.2f}, DiGraph {kept:.2f}")
assert abs(summed - 1.25) < 1e-12
assert kept == 0.05
flat = {}
for order in (("a", "b"), ("b", "a")):
    graph = nx.DiGraph()
    graph.add_nodes_from(order)
    graph.add_edge("a", "b", weight=1.0)
    graph.add_edge("b", "a", weight=5.0)
    flat[order] = graph.to_undirected().edges["a", "b"]["weight"]
    print(f"a -> b 1, b -> a 5, nodes added as {order}: to_undirected keeps {flat[order]}")
assert flat == {("a", "b"): 5.0, ("b", "a"): 1.0}
PYTHON
venv/bin/python run.py
