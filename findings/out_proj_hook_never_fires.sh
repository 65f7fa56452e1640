#!/usr/bin/env bash
set -euo pipefail

# Guess: A forward hook on out_proj of torch's MultiheadAttention sees what the heads write, and can replace it.
# Truth: It never fires, trained or not, with gradients or without: the module hands out_proj's weight to a function
#   and does not call out_proj. A hook that returns zeros changes nothing, while the weight itself matters. The
#   projections of queries, keys and values are no modules at all.
# Where: torch==2.13.0, nn.MultiheadAttention and nn.TransformerEncoderLayer.
# Why it matters: CLIP towers and many encoders outside Transformers are built on it. Ablating a layer's attention
#   there shows "no effect" for every layer.
# seen:
#   torch==2.13.0+cpu
#   training gradients True  the hook fired 0 times and moved the output by 0e+00; zeroing the weight: 0.89
#   training gradients False the hook fired 0 times and moved the output by 0e+00; zeroing the weight: 0.50
#   eval     gradients True  the hook fired 0 times and moved the output by 0e+00; zeroing the weight: 0.85
#   eval     gradients False the hook fired 0 times and moved the output by 0e+00; zeroing the weight: 0.70

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 numpy==2.4.6
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
from torch import nn

print(*(f"{name}=={version(name)}" for name in ("torch",)))

torch.manual_seed(0)
x = torch.randn(2, 5, 8)
for mode in ("training", "eval"):
    for gradients in (True, False):
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).train(mode == "training")
        with torch.set_grad_enabled(gradients):
            before = layer(x)
            calls = []
            layer.self_attn.out_proj.register_forward_hook(
                lambda module, args, output, calls=calls: calls.append(1) or torch.zeros_like(output)
            )
            hooked = layer(x)
            with torch.no_grad():
                layer.self_attn.out_proj.weight.zero_()
            zeroed = layer(x)
        by_hook = (hooked - before).abs().max().item()
        by_weight = (zeroed - before).abs().max().item()
        print(
            f"{mode:8} gradients {gradients!s:5} the hook fired {len(calls)} times and moved the output by "
            f"{by_hook:.0e}; zeroing the weight: {by_weight:.2f}"
        )
        assert not calls
        assert by_hook < 1e-5
        assert by_weight > 0.05
PYTHON
venv/bin/python run.py
