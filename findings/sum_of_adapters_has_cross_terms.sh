#!/usr/bin/env bash
set -euo pipefail

# Guess: add_weighted_adapter with combination_type="linear" and weights 0.5 and 0.5 gives an adapter whose change of
#   the weights is half of one plus half of the other.
# Truth: It averages the factors A and B, and the product of two sums has cross terms: (B1 + B2)(A1 + A2) holds B1 A2
#   and B2 A1. For two unrelated adapters the error is about as large as the wanted change. "cat" gives the sum
#   exactly; two active adapters without merging do, too.
# Where: peft==0.21.2 (torch==2.13.0, transformers==5.23.0).
# Why it matters: Task arithmetic on adapters, "behaviour A minus behaviour B", and its reading by singular vectors
#   look at directions that neither adapter has.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 peft==0.21.2
#   linear weights [0.5, 0.5]: relative error of the change 1.0e+00
#   cat    weights [0.5, 0.5]: relative error of the change 4.1e-08
#   linear weights [1.0, -1.0]: relative error of the change 9.7e-01
#   cat    weights [1.0, -1.0]: relative error of the change 4.5e-08

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 transformers==5.23.0 peft==0.21.2
cat >run.py <<'PYTHON'
from importlib.metadata import version

import peft
import torch
import transformers

transformers.logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.manual_seed(0)
print(*(f"{name}=={version(name)}" for name in ("torch", "transformers", "peft")))

config = transformers.LlamaConfig(
    num_hidden_layers=1, hidden_size=32, intermediate_size=32, num_attention_heads=2, vocab_size=50
)
lora = peft.LoraConfig(r=2, lora_alpha=2, target_modules=["q_proj"])
model = peft.get_peft_model(transformers.LlamaForCausalLM(config), lora, adapter_name="one")
model.add_adapter("two", lora)
for name, weight in model.named_parameters():
    if "lora_" in name:
        torch.nn.init.normal_(weight, std=0.3)
layer = model.base_model.model.model.layers[0].self_attn.q_proj
one, two = layer.get_delta_weight("one"), layer.get_delta_weight("two")
errors = {}
for weights in ([0.5, 0.5], [1.0, -1.0]):
    wanted = weights[0] * one + weights[1] * two
    for kind in ("linear", "cat"):
        name = f"{kind}{len(errors)}"
        model.add_weighted_adapter(["one", "two"], weights, name, combination_type=kind)
        error = (layer.get_delta_weight(name) - wanted).norm() / wanted.norm()
        errors[kind, weights[1]] = error.item()
        print(f"{kind:6} weights {weights}: relative error of the change {error.item():.1e}")
assert errors["linear", 0.5] > 0.5
assert errors["linear", -1.0] > 0.5
assert errors["cat", 0.5] < 1e-5
assert errors["cat", -1.0] < 1e-5
PYTHON
venv/bin/python run.py
