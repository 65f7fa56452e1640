#!/usr/bin/env bash
set -euo pipefail

# Guess: Calling a model with head_mask masks the heads, as it did for years, or raises a TypeError if the argument is
#   gone.
# Truth: The argument is gone, and forward() takes it without a word: a mask of zeros for every head of every layer
#   changes no logit.
# Where: transformers==5.23.0 (torch==2.13.0), GPT-2, BERT and ELECTRA.
# Why it matters: Head ablations and head importance scores of older code run through and say that no head matters at
#   all.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   GPT-2    all heads masked: largest change 0.0
#   BERT     all heads masked: largest change 0.0
#   ELECTRA  all heads masked: largest change 0.0

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
small = dict(num_hidden_layers=2, hidden_size=16, num_attention_heads=2, intermediate_size=32, vocab_size=50)
models = {
    "GPT-2": transformers.GPT2Model(
        transformers.GPT2Config(n_layer=2, n_head=2, n_embd=16, vocab_size=50, bos_token_id=0, eos_token_id=0)
    ),
    "BERT": transformers.BertModel(transformers.BertConfig(**small)),
    "ELECTRA": transformers.ElectraModel(transformers.ElectraConfig(**small)),
}
for name, model in models.items():
    model.eval()
    whole = model(ids).last_hidden_state
    masked = model(ids, head_mask=torch.zeros(2, 2)).last_hidden_state
    print(f"{name:8} all heads masked: largest change {(whole - masked).abs().max().item()}")
    assert torch.equal(whole, masked)
PYTHON
venv/bin/python run.py
