#!/usr/bin/env bash
set -euo pipefail

# Guess: In a causal model the row of a padding token is zero or looks at padding; at least no row looks ahead, and
#   eager and SDPA attention agree.
# Truth: Under eager attention a padding token on the left attends evenly to all tokens, later real ones included.
#   Under SDPA its attention adds nothing. The two implementations agree at real tokens and differ greatly at padding.
# Where: transformers==5.23.0 (torch==2.13.0), Llama.
# Why it matters: States collected over all places of padded batches, for dictionaries, PCA or means, hold rows that
#   have read the future, and other rows after a change of implementation.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   eager norm of what attention adds at each place: [10.35, 10.35, 10.35, 18.63, 19.1, 15.43]
#         first row of the pattern, padding first: [0.167, 0.167, 0.167, 0.167, 0.167, 0.167]
#   sdpa  norm of what attention adds at each place: [0.0, 0.0, 0.0, 18.63, 19.1, 15.43]
#   eager against SDPA after layer 0, by place: [23.05, 23.05, 23.05, 0.0, 0.0, 0.0]

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

ids = torch.tensor([[0, 0, 0, 5, 6, 7]])
mask = torch.tensor([[0, 0, 0, 1, 1, 1]])
states = {}
for kind in ("eager", "sdpa"):
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        num_hidden_layers=2, hidden_size=16, intermediate_size=32, num_attention_heads=2, vocab_size=50,
        initializer_range=0.5, attn_implementation=kind,
    )
    model = transformers.LlamaModel(config).eval()
    added = {}
    model.layers[0].self_attn.register_forward_hook(lambda module, args, output: added.update(value=output))
    states[kind] = model(ids, attention_mask=mask, output_hidden_states=True).hidden_states[1]
    norms = [round(value, 2) for value in added["value"][0][0].norm(dim=-1).tolist()]
    print(f"{kind:5} norm of what attention adds at each place: {norms}")
    if kind == "eager":
        row = added["value"][1][0, 0, 0]
        print("      first row of the pattern, padding first:", [round(value, 3) for value in row.tolist()])
        assert torch.allclose(row, torch.full((6,), 1 / 6))
    else:
        assert added["value"][0][0, :3].abs().max() == 0
gap = (states["eager"] - states["sdpa"])[0].abs().amax(-1)
print("eager against SDPA after layer 0, by place:", [round(value, 2) for value in gap.tolist()])
assert (gap[:3] > 1).all()
assert (gap[3:] < 1e-3).all()
PYTHON
venv/bin/python run.py
