#!/usr/bin/env bash
set -euo pipefail

# Guess: An SAE's decode() is a function of its features: decode(features) gives the same before and after other texts
#   are encoded.
# Truth: With normalize_activations "layer_norm" or "constant_norm_rescale", encode() leaves the statistics of its
#   input in the SAE, and decode() undoes the norm with whatever is there. Features that were kept and decoded after
#   another encode of the same shape come out in the other text's scale. Without normalisation they are right.
# Where: sae-lens==6.54.12 (torch==2.13.0, transformers==5.23.0, transformer-lens==3.9.0).
# Why it matters: Encode two prompts, swap a feature, decode: the usual order of a patching experiment decodes the
#   first prompt with the second one's mean and spread.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 transformer-lens==3.9.0 sae-lens==6.54.12
#   normalize_activations=none                   decoded later against at once: relative difference 0.00
#   normalize_activations=layer_norm             decoded later against at once: relative difference 9.67
#   normalize_activations=constant_norm_rescale  decoded later against at once: relative difference 10.16

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 transformers==5.23.0 transformer-lens==3.9.0 sae-lens==6.54.12
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
from sae_lens import StandardSAE, StandardSAEConfig

print(*(f"{name}=={version(name)}" for name in ("torch", "transformers", "transformer-lens", "sae-lens")))

torch.set_grad_enabled(False)
errors = {}
for kind in ("none", "layer_norm", "constant_norm_rescale"):
    torch.manual_seed(0)
    config = StandardSAEConfig(
        d_in=8, d_sae=32, dtype="float32", device="cpu", normalize_activations=kind, apply_b_dec_to_input=False
    )
    sae = StandardSAE(config)
    for weight in sae.parameters():
        weight.normal_(0, 0.4)
    one, two = torch.randn(5, 8), 10 * torch.randn(5, 8) + 3
    features = sae.encode(one)
    at_once = sae.decode(features)
    sae.encode(two)
    later = sae.decode(features)
    errors[kind] = ((later - at_once).norm() / at_once.norm()).item()
    print(f"normalize_activations={kind:22} decoded later against at once: relative difference {errors[kind]:.2f}")
assert errors["none"] == 0
assert errors["layer_norm"] > 1
assert errors["constant_norm_rescale"] > 1
PYTHON
venv/bin/python run.py
