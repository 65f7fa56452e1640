#!/usr/bin/env bash
set -euo pipefail

# Guess: Each entry of output.attentions has the shape (batch, heads, queries, keys), and what is not softmax
#   attention is left out.
# Truth: MiniMax returns an entry for every layer, and that of a linear-attention layer is its memory: the sum of keys
#   times values, (batch, heads, head_dim, head_dim). Nothing marks it, and with head_dim tokens it has the very shape
#   of a pattern.
# Where: transformers==5.23.0 (torch==2.13.0), MiniMax.
# Why it matters: Averages over layers, rollouts and entropy of "attention" take a table of features by features for
#   one of tokens by tokens, wherever the two sizes agree.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   5 tokens, full_attention   shape (1, 4, 5, 5), first row sums [1.0, 1.0, 1.0]
#   5 tokens, linear_attention shape (1, 4, 8, 8), first row sums [14.9, 11.58, 2.95]
#   8 tokens, full_attention   shape (1, 4, 8, 8), first row sums [1.0, 1.0, 1.0]
#   8 tokens, linear_attention shape (1, 4, 8, 8), first row sums [36.53, 26.44, 8.12]

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

config = transformers.MiniMaxConfig(
    num_hidden_layers=2, hidden_size=32, intermediate_size=32, num_attention_heads=4, num_key_value_heads=4,
    head_dim=8, vocab_size=60, num_local_experts=4, bos_token_id=1, eos_token_id=2, initializer_range=0.3,
    layer_types=["full_attention", "linear_attention"],
)
model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
for tokens in (5, 8):
    output = model(torch.arange(3, 3 + tokens)[None], output_attentions=True)
    for kind, entry in zip(config.layer_types, output.attentions, strict=True):
        rows = [round(value, 2) for value in entry[0, 0].sum(-1)[:3].tolist()]
        print(f"{tokens} tokens, {kind:16} shape {tuple(entry.shape)}, first row sums {rows}")
    attention, state = output.attentions
    assert attention.shape == (1, 4, tokens, tokens)
    assert torch.allclose(attention.sum(-1), torch.ones(()))
    assert state.shape == (1, 4, 8, 8)
    assert (state < 0).any()
    assert not torch.allclose(state.sum(-1), torch.ones(()), atol=0.1)
PYTHON
venv/bin/python run.py
