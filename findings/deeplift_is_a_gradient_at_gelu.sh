#!/usr/bin/env bash
set -euo pipefail

# Guess: DeepLift sends the difference from the baseline through each nonlinearity, so its attributions sum to the
#   change of the output in a network with GELU as they do with ReLU.
# Truth: Captum has the rule for ReLU, tanh, sigmoid and a few more. GELU, SiLU and LayerNorm have none, and there the
#   plain gradient is used without a warning: in an MLP with GELU the result equals gradient times difference exactly,
#   and its sum misses.
# Where: captum==0.9.0 (torch==2.13.0).
# Why it matters: Those are the nonlinearities of Transformers. What is published as DeepLift of such a model is
#   gradient times input.
# seen:
#   torch==2.13.0+cpu captum==0.9.0
#   ReLU  change -0.6628, sum of DeepLift -0.6628, equal to gradient times input: False, warnings about it: 0
#   Tanh  change -0.3694, sum of DeepLift -0.3694, equal to gradient times input: False, warnings about it: 0
#   GELU  change -0.6688, sum of DeepLift -0.6487, equal to gradient times input: True, warnings about it: 0
#   SiLU  change -0.6391, sum of DeepLift -0.6769, equal to gradient times input: True, warnings about it: 0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 captum==0.9.0
cat >run.py <<'PYTHON'
import warnings
from importlib.metadata import version

import torch
from captum.attr import DeepLift, InputXGradient
from torch import nn

print(*(f"{name}=={version(name)}" for name in ("torch", "captum")))

seen = {}
for kind in (nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 16), kind(), nn.Linear(16, 1)).eval()
    x = 2 * torch.randn(1, 4)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        given = DeepLift(model).attribute(x.clone().requires_grad_(), baselines=torch.zeros_like(x))
    about = [str(item.message) for item in caught if kind.__name__.lower() in str(item.message).lower()]
    change = (model(x) - model(torch.zeros_like(x))).item()
    gradient = InputXGradient(model).attribute(x.clone().requires_grad_())
    same = torch.allclose(given, gradient, atol=1e-6)
    seen[kind.__name__] = abs(given.sum().item() - change), same
    print(
        f"{kind.__name__:5} change {change:7.4f}, sum of DeepLift {given.sum().item():7.4f}, "
        f"equal to gradient times input: {same}, warnings about it: {len(about)}"
    )
    assert not about
for name in ("ReLU", "Tanh"):
    assert seen[name][0] < 1e-5
    assert not seen[name][1]
for name in ("GELU", "SiLU"):
    assert seen[name][0] > 1e-2
    assert seen[name][1]
PYTHON
venv/bin/python run.py
