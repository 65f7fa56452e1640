#!/usr/bin/env bash
set -euo pipefail

# Guess: A decoder block returns a tuple, so nnsight's block.output[0] is the residual stream of the whole batch; if
#   the form changed, it changed for all models of a release.
# Truth: In one release, GPT-2, GPT-NeoX and Llama blocks return a bare tensor, and GPT-Neo, GPT-J, BLOOM and Falcon
#   blocks a tuple. On the former, output[0] is the first sentence of the batch: reading gives one sentence, and
#   writing patches that one and leaves the rest.
# Where: nnsight==0.8.1 with transformers==5.23.0 (torch==2.13.0).
# Why it matters: The line that half of the published notebooks use still runs, on a batch as on one prompt, and a
#   patched batch mixes patched and clean sentences.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 nnsight==0.8.1
#   GPT-2     output[0] has shape (8, 16)      sentences changed by writing to it: [True, False, False]
#   GPT-NeoX  output[0] has shape (8, 16)      sentences changed by writing to it: [True, False, False]
#   Llama     output[0] has shape (8, 16)      sentences changed by writing to it: [True, False, False]
#   GPT-Neo   output[0] has shape (3, 8, 16)   sentences changed by writing to it: [True, True, True]
#   GPT-J     output[0] has shape (3, 8, 16)   sentences changed by writing to it: [True, True, True]
#   BLOOM     output[0] has shape (3, 8, 16)   sentences changed by writing to it: [True, True, True]
#   Falcon    output[0] has shape (3, 8, 16)   sentences changed by writing to it: [True, True, True]

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 transformers==5.23.0 nnsight==0.8.1
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
import transformers
from nnsight import NNsight

transformers.logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.manual_seed(0)
print(*(f"{name}=={version(name)}" for name in ("torch", "transformers", "nnsight")))

gpt = dict(n_layer=2, n_head=2, n_embd=16, vocab_size=50, bos_token_id=0, eos_token_id=0)
plain = dict(
    num_hidden_layers=2, hidden_size=16, intermediate_size=32, num_attention_heads=2, vocab_size=50,
    bos_token_id=0, eos_token_id=0,
)
neo = dict(hidden_size=16, num_layers=2, num_heads=2, attention_types=[[["global"], 2]], vocab_size=50)
models = {
    "GPT-2": (transformers.GPT2Model(transformers.GPT2Config(**gpt)), "h"),
    "GPT-NeoX": (transformers.GPTNeoXModel(transformers.GPTNeoXConfig(**plain)), "layers"),
    "Llama": (transformers.LlamaModel(transformers.LlamaConfig(**plain)), "layers"),
    "GPT-Neo": (transformers.GPTNeoModel(transformers.GPTNeoConfig(**neo)), "h"),
    "GPT-J": (transformers.GPTJModel(transformers.GPTJConfig(**gpt, rotary_dim=4)), "h"),
    "BLOOM": (transformers.BloomModel(transformers.BloomConfig(**plain)), "h"),
    "Falcon": (transformers.FalconModel(transformers.FalconConfig(**plain)), "h"),
}
ids = torch.arange(1, 9)[None].repeat(3, 1)
changed = {}
for name, (model, place) in models.items():
    clean = model.eval()(ids).last_hidden_state
    traced = NNsight(model)
    with traced.trace(ids):
        first = getattr(traced, place)[0].output[0].save()
        getattr(traced, place)[0].output[0][:] = torch.linspace(-1, 1, 16)
        patched = traced.output.last_hidden_state.save()
    changed[name] = ((patched - clean).abs().amax((1, 2)) > 1e-4).tolist()
    print(f"{name:9} output[0] has shape {tuple(first.shape)!s:12} sentences changed by writing to it: {changed[name]}")
assert all(changed[name] == [True, False, False] for name in ("GPT-2", "GPT-NeoX", "Llama"))
assert all(changed[name] == [True, True, True] for name in ("GPT-Neo", "GPT-J", "BLOOM", "Falcon"))
PYTHON
venv/bin/python run.py
