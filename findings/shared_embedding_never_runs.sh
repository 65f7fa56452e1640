#!/usr/bin/env bash
set -euo pipefail

# Guess: get_input_embeddings() returns the module that embeds the tokens, so a forward hook on it sees, or changes,
#   every token's vector.
# Truth: In T5 and BART that module, "shared", never runs. The encoder and the decoder have embedding modules of their
#   own that hold the same weight: a hook on "shared" fires zero times without a word, while an edit of its weight
#   takes effect. GPT-2's hook fires.
# Where: transformers==5.23.0 (torch==2.13.0), T5 and BART.
# Why it matters: Noise added at the embedding, or integrated gradients by a hook of one's own, change nothing in
#   these two families, and a robustness curve comes out flat.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   T5    shared           the hook fired 0 times; doubling its weight moves a logit by 4.17
#   BART  model.shared     the hook fired 0 times; doubling its weight moves a logit by 0.35
#   GPT-2 transformer.wte  the hook fired 1 times; doubling its weight moves a logit by 0.45

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

models = {
    "T5": transformers.T5ForConditionalGeneration(
        transformers.T5Config(vocab_size=30, d_model=16, d_kv=8, num_layers=1, num_heads=2, d_ff=16)
    ),
    "BART": transformers.BartForConditionalGeneration(
        transformers.BartConfig(
            vocab_size=30, d_model=16, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2,
            decoder_attention_heads=2, encoder_ffn_dim=16, decoder_ffn_dim=16,
        )
    ),
    "GPT-2": transformers.GPT2LMHeadModel(
        transformers.GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=30, bos_token_id=0, eos_token_id=0)
    ),
}
ids = torch.tensor([[3, 4, 5]])
fired = {}
for name, model in models.items():
    model.eval()
    both = {} if name == "GPT-2" else {"decoder_input_ids": ids}
    calls = []
    embedding = model.get_input_embeddings()
    embedding.register_forward_hook(lambda module, args, output, calls=calls: calls.append(output))
    before = model(ids, **both).logits
    fired[name] = len(calls)
    embedding.weight.mul_(2)
    change = (model(ids, **both).logits - before).abs().max().item()
    path = next(path for path, module in model.named_modules() if module is embedding)
    print(f"{name:5} {path:16} the hook fired {fired[name]} times; doubling its weight moves a logit by {change:.2f}")
    assert change > 0.01
assert fired == {"T5": 0, "BART": 0, "GPT-2": 1}
PYTHON
venv/bin/python run.py
