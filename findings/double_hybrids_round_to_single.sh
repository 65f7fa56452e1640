#!/usr/bin/env bash
set -euo pipefail

# Guess: A model in float64 computes in float64 throughout, so finite differences with a step of 1e-7 agree with
#   autograd to five digits in any of its layers, as they do in attention and in feed-forwards.
# Truth: The reference implementations of recurrences cast their inputs to float32 and their results back: gated delta
#   nets, Mamba-2 and Mamba return float64 tensors with the digits of float32. A finite difference with a step of 1e-9 (relative to the lengths of gradient and direction)
#   is off by more than its own size. A short convolution (LFM2) stays in float64.
# Where: transformers==5.23.0 (torch==2.13.0), Qwen3.5, Mamba-2, Mamba; without the optional kernels.
# Why it matters: torch.autograd.gradcheck fails on such a model, and a comparison in float64 cannot tell a fault of
#   1e-8 from rounding. An exact reference has to be written apart.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   Qwen3_5ForCausalLM  float64 in, float64 out; slope by differences is off by 7e-01
#   Mamba2ForCausalLM   float64 in, float64 out; slope by differences is off by 1e+00
#   MambaForCausalLM    float64 in, float64 out; slope by differences is off by 2e-03
#   Lfm2ForCausalLM     float64 in, float64 out; slope by differences is off by 3e-08

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
print(*(f"{name}=={version(name)}" for name in ("torch", "transformers")))

small = dict(num_hidden_layers=1, hidden_size=32, vocab_size=60, pad_token_id=0, bos_token_id=1, eos_token_id=2)
heads = dict(num_attention_heads=4, num_key_value_heads=2, intermediate_size=48)
kinds = {
    "Qwen3_5ForCausalLM": dict(
        **heads, head_dim=8, linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=8,
        linear_value_head_dim=8, layer_types=["linear_attention"],
    ),
    "Mamba2ForCausalLM": dict(num_heads=4, head_dim=16, n_groups=1, state_size=8, chunk_size=8),
    "MambaForCausalLM": dict(state_size=8),
    "Lfm2ForCausalLM": dict(**heads, layer_types=["conv"]),
}
names = ("linear_attn", "mixer", "conv")
for architecture, extra in kinds.items():
    torch.manual_seed(0)
    model_class = getattr(transformers, architecture)
    model = model_class(model_class.config_class(**small, **extra)).double().eval()
    layer = next(module for name, module in model.named_modules() if name.split(".")[-1] in names)
    x = torch.randn(1, 12, 32, dtype=torch.float64, requires_grad=True)
    out = layer(x)
    weights = torch.randn_like(out)
    (gradient,) = torch.autograd.grad((out * weights).sum(), x)
    errors = []
    for direction in torch.randn(5, *x.shape, dtype=torch.float64):
        with torch.no_grad():
            near = layer(x + 1e-9 * direction)
        slope, measured = float((gradient * direction).sum()), float(((near - out) * weights).sum()) / 1e-9
        errors.append(abs(measured - slope) / float(gradient.norm() * direction.norm()))
    error = max(errors)
    print(f"{architecture:19} float64 in, {str(out.dtype)[6:]} out; slope by differences is off by {error:.0e}")
    assert out.dtype == torch.float64
    assert error < 1e-4 if architecture.startswith("Lfm2") else error > 1e-3, architecture
PYTHON
venv/bin/python run.py
