#!/usr/bin/env bash
set -euo pipefail

# Guess: The weight of an edge means the same to all of NetworkX's layouts: the stronger the edge, the closer its two
#   nodes.
# Truth: spring_layout, spectral_layout and forceatlas2_layout pull the ends of a heavy edge together.
#   kamada_kawai_layout reads the same argument as a length and puts them farthest apart.
# Where: networkx==3.6.1 (numpy==2.4.6, scipy==1.17.1).
# Why it matters: In a picture of a circuit by attribution, the strongest pair of heads is drawn as the most distant
#   one, with the same call but for the layout's name.
# seen:
#   networkx==3.6.1 numpy==2.4.6 scipy==1.17.1
#   spring_layout        edge of weight 10: 0.46 times as long as an edge of weight 1
#   spectral_layout      edge of weight 10: 0.05 times as long as an edge of weight 1
#   forceatlas2_layout   edge of weight 10: 0.23 times as long as an edge of weight 1
#   kamada_kawai_layout  edge of weight 10: 1.94 times as long as an edge of weight 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile networkx==3.6.1 numpy==2.4.6 scipy==1.17.1
cat >run.py <<'PYTHON'
from importlib.metadata import version

import networkx as nx
import numpy as np

print(*(f"{name}=={version(name)}" for name in ("networkx", "numpy", "scipy")))

graph = nx.Graph()
graph.add_weighted_edges_from([(0, 1, 10.0), (1, 2, 1.0), (2, 0, 1.0), (2, 3, 1.0), (3, 0, 1.0)])
layouts = {
    "spring_layout": nx.spring_layout(graph, weight="weight", seed=1),
    "spectral_layout": nx.spectral_layout(graph, weight="weight"),
    "forceatlas2_layout": nx.forceatlas2_layout(graph, weight="weight", seed=1),
    "kamada_kawai_layout": nx.kamada_kawai_layout(graph, weight="weight"),
}
for name, places in layouts.items():
    length = {(a, b): float(np.linalg.norm(places[a] - places[b])) for a, b in graph.edges}
    heavy, light = length.pop((0, 1)), np.mean(list(length.values()))
    print(f"{name:20} edge of weight 10: {heavy / light:.2f} times as long as an edge of weight 1")
    assert (heavy > light) == (name == "kamada_kawai_layout")
PYTHON
venv/bin/python run.py
