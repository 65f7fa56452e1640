#!/usr/bin/env bash
set -euo pipefail

# Guess: Captum's LayerIntegratedGradients on an embedding that a forward pass calls twice (two sentences, two
#   branches) adds up both calls, and the attributions sum to the change of the output.
# Truth: It keeps one tensor for the layer: the vectors of the last call are interpolated and stand in for those of
#   both. The sum is twice the second sentence's effect, and the first sentence has none. The convergence delta is the
#   only sign.
# Where: captum==0.9.0 (torch==2.13.0).
# Why it matters: Siamese encoders, sentence pairs and weight-shared blocks get attributions that belong to an input
#   with one sentence twice.
# seen:
#   torch==2.13.0+cpu captum==0.9.0
#   shape of the attributions (1, 3, 4), their sum -3.172, delta -1.886
#   change of the output -1.286, of which 0.300 and -1.586 by sentence

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 captum==0.9.0
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
from captum.attr import LayerIntegratedGradients
from torch import nn

print(*(f"{name}=={version(name)}" for name in ("torch", "captum")))

torch.manual_seed(0)


class Pair(nn.Module):
    """The sum of a score of two sentences, which one embedding reads."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 4)
        self.score = nn.Linear(4, 1)

    def side(self, ids):
        return torch.tanh(self.score(self.embed(ids)).sum(1))

    def forward(self, one, two):
        return self.side(one) + self.side(two)


model = Pair().eval()
one, two = torch.tensor([[1, 2, 3]]), torch.tensor([[4, 5, 6]])
blank = torch.zeros_like(one)
method = LayerIntegratedGradients(model, model.embed)
given, delta = method.attribute(
    (one, two), baselines=(blank, blank), target=0, n_steps=300, return_convergence_delta=True
)
with torch.no_grad():
    change = (model(one, two) - model(blank, blank)).item()
    side = [(model.side(ids) - model.side(blank)).item() for ids in (one, two)]
print(f"shape of the attributions {tuple(given.shape)}, their sum {given.sum().item():.3f}, delta {delta.item():.3f}")
print(f"change of the output {change:.3f}, of which {side[0]:.3f} and {side[1]:.3f} by sentence")
assert given.shape == (1, 3, 4)
assert abs(given.sum().item() - change) > 0.1
assert abs(given.sum().item() - 2 * side[1]) < 1e-3
PYTHON
venv/bin/python run.py
