#!/usr/bin/env bash
set -euo pipefail

# Guess: A graph's replacement and completeness scores say how much of the logit comes through features rather than
#   error nodes, and pruning at 0.8 keeps what makes the logit.
# Truth: Edges count by absolute value. Two features that write +10 and -10 cancel, and the whole logit of 1 is the
#   error node's: the scores are 0.95 and 0.98, and pruning throws the error node out, so the pruned graph's edges
#   into the logit sum to 0. Without the two features the replacement score is 0.
# Where: circuit-tracer==0.5.0 (torch==2.13.0), compute_graph_scores and prune_graph.
# Why it matters: Features that cancel are common (suppression, copies of one direction). A high score is read as "the
#   graph explains the output", and here it explains none of it.
# seen:
#   torch==2.13.0+cpu circuit-tracer==0.5.0
#   features +10 and -10, error +1: replacement 0.95, completeness 0.98; edges into the logit 1, after pruning 0
#   features +0 and +0, error +1: replacement 0.00, completeness 0.50; edges into the logit 1, after pruning 1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 circuit-tracer==0.5.0
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
from circuit_tracer.graph import Graph, LogitTarget, compute_graph_scores, prune_graph
from circuit_tracer.utils.tl_nnsight_mapping import UnifiedConfig

print(*(f"{name}=={version(name)}" for name in ("torch", "circuit-tracer")))

config = UnifiedConfig(
    n_layers=1, d_model=8, d_head=4, n_heads=2, d_mlp=16, d_vocab=10, tokenizer_name="none", model_name="none",
    original_architecture="none",
)


def graph_of(plus, minus, error):
    """One token; two features and the error node of layer 0, all of which write to one logit."""
    edges = torch.zeros(5, 5)  # rows read, columns write: feature, feature, error, token, logit
    edges[0, 3] = edges[1, 3] = 1.0
    edges[4, :3] = torch.tensor([plus, minus, error])
    return Graph(
        input_string="a", input_tokens=torch.tensor([1]), active_features=torch.tensor([[0, 0, 0], [0, 0, 1]]),
        adjacency_matrix=edges, cfg=config, selected_features=torch.arange(2), activation_values=torch.ones(2),
        logit_targets=[LogitTarget("x", 3)], logit_probabilities=torch.tensor([0.5]), vocab_size=10,
    )


scores = {}
for plus, minus in ((10.0, -10.0), (0.0, 0.0)):
    graph = graph_of(plus, minus, 1.0)
    scores[plus] = compute_graph_scores(graph)
    pruned = prune_graph(graph, node_threshold=0.8, edge_threshold=0.98)
    left = (graph.adjacency_matrix * pruned.edge_mask)[4].sum().item()
    print(
        f"features {plus:+.0f} and {minus:+.0f}, error +1: replacement {scores[plus][0]:.2f}, "
        f"completeness {scores[plus][1]:.2f}; edges into the logit {graph.adjacency_matrix[4].sum().item():.0f}, "
        f"after pruning {left:.0f}"
    )
    if plus:
        assert not pruned.node_mask[2]
        assert left == 0
assert scores[10.0][0] > 0.9
assert scores[10.0][1] > 0.9
assert scores[0.0][0] == 0
PYTHON
venv/bin/python run.py
