#!/usr/bin/env bash
set -euo pipefail

# Guess: Within disable_adapter() a LoRA model computes what the base model computed before the adapter was added.
# Truth: With init_lora_weights "pissa" or "olora" the start values of the adapter are subtracted from the base
#   weights in place. The model with the adapter switched off lacks the largest singular directions of its weights,
#   and is neither the base model nor the tuned one.
# Where: peft==0.21.2 (torch==2.13.0, transformers==5.23.0).
# Why it matters: Model diffing takes the switched-off model as "before tuning": states, patches and circuits of the
#   baseline belong to a damaged model.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 peft==0.21.2
#   init_lora_weights=True   untrained adapter on: 0e+00 from the base model, off: 0 of logits up to 3.4
#   init_lora_weights=pissa  untrained adapter on: 2e-06 from the base model, off: 3.5 of logits up to 3.4
#   init_lora_weights=olora  untrained adapter on: 2e-06 from the base model, off: 2.9 of logits up to 3.4

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

ids = torch.arange(8)[None]
gaps = {}
for start in (True, "pissa", "olora"):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=32, intermediate_size=64, num_attention_heads=2, vocab_size=50,
        initializer_range=0.2,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    before = model(ids).logits
    lora = peft.LoraConfig(r=4, lora_alpha=4, target_modules=["q_proj", "v_proj"], init_lora_weights=start)
    tuned = peft.get_peft_model(model, lora).eval()
    untrained = (tuned(ids).logits - before).abs().max().item()
    with tuned.disable_adapter():
        gaps[start] = (tuned(ids).logits - before).abs().max().item()
    print(
        f"init_lora_weights={start!s:6} untrained adapter on: {untrained:.0e} from the base model, "
        f"off: {gaps[start]:.2g} of logits up to {before.abs().max().item():.2g}"
    )
    assert untrained < 1e-3
assert gaps[True] == 0
assert gaps["pissa"] > 0.05
assert gaps["olora"] > 0.05
PYTHON
venv/bin/python run.py
