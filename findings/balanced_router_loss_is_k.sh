#!/usr/bin/env bash
set -euo pipefail

# Guess: The load-balancing loss of a mixture of experts is 1 where the load is balanced, as in the Switch
#   Transformer's paper, which the function's docstring names.
# Truth: It is k, the number of experts per token, in Mixtral and the many models that share its function, and 1 in
#   the same library's Switch Transformer. The value of full collapse is the number of experts in each case, so the
#   range shrinks as k grows.
# Where: transformers==5.23.0 (torch==2.13.0), Mixtral's and Switch Transformer's load_balancing_loss_func.
# Why it matters: An aux_loss of 2 reads as "twice as bad as balanced" and is the best value that top-2 routing can
#   have; models of different k cannot be compared by it.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   Mixtral, top 1: balanced 1.000, collapsed 8.000
#   Mixtral, top 2: balanced 2.000, collapsed 8.000
#   Mixtral, top 4: balanced 4.000, collapsed 8.000
#   Switch,  top 1: balanced 1.000

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 transformers==5.23.0
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
import transformers

transformers.logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.manual_seed(0)
print(*(f"{name}=={version(name)}" for name in ("torch", "transformers")))

from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func as mixtral
from transformers.models.switch_transformers.modeling_switch_transformers import load_balancing_loss_func as switch

experts, tokens = 8, 64
for k in (1, 2, 4):
    balanced = torch.zeros(tokens, experts)
    for token in range(tokens):
        for place in range(k):
            balanced[token, (token + place) % experts] = 5.0
    collapsed = torch.zeros(tokens, experts)
    collapsed[:, 0] = 50.0
    low = mixtral((balanced,), experts, k).item()
    high = mixtral((collapsed,), experts, k).item()
    print(f"Mixtral, top {k}: balanced {low:.3f}, collapsed {high:.3f}")
    assert abs(low - k) < 1e-4
    assert abs(high - experts) < 1e-3
balanced = torch.zeros(tokens, experts)
balanced[torch.arange(tokens), torch.arange(tokens) % experts] = 5.0
probabilities = balanced.softmax(-1)[None]
low = switch(probabilities, probabilities.argmax(-1)).item()
print(f"Switch,  top 1: balanced {low:.3f}")
assert abs(low - 1) < 1e-4
PYTHON
venv/bin/python run.py
