#!/usr/bin/env bash
set -euo pipefail

# Guess: output_hidden_states=True returns the residual stream as the model computed it, so a forward hook that
#   replaces a block's output shows in it.
# Truth: Each block's state is recorded by a forward hook that is installed at the first call that asks for it and
#   stays. A hook of yours that is registered later runs after it: the model computes with your patch, and
#   hidden_states still holds the value before the patch. The same code on a fresh model shows the patch.
# Where: transformers==5.23.0 (torch==2.13.0), GPT-2's classes.
# Why it matters: A patched run that reads hidden_states reports that the patched layer did not move, depending on
#   whether anybody asked for hidden states earlier in the session.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   hidden states asked for before: False  recorded  7.0000  read by the next block 7.0000
#   hidden states asked for before: True   recorded -0.0015  read by the next block 7.0000

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

ids = torch.arange(8)[None]


def recorded_and_real(asked_before):
    config = transformers.GPT2Config(
        n_layer=3, n_head=2, n_embd=16, vocab_size=50, bos_token_id=0, eos_token_id=0
    )
    model = transformers.GPT2LMHeadModel(config).eval()
    if asked_before:
        model(ids, output_hidden_states=True)
    blocks = model.transformer.h
    real = {}
    blocks[0].register_forward_hook(lambda module, args, output: torch.full_like(output, 7.0))
    blocks[1].register_forward_pre_hook(lambda module, args: real.update(value=args[0][0, 0, 0].item()))
    recorded = model(ids, output_hidden_states=True).hidden_states[1][0, 0, 0].item()
    return recorded, real["value"]


seen = {asked: recorded_and_real(asked) for asked in (False, True)}
for asked, (recorded, real) in seen.items():
    print(f"hidden states asked for before: {asked!s:5}  recorded {recorded:7.4f}  read by the next block {real:.4f}")
assert seen[False] == (7.0, 7.0)
assert seen[True][1] == 7.0
assert abs(seen[True][0]) < 1
PYTHON
venv/bin/python run.py
