#!/usr/bin/env bash
set -euo pipefail

# Guess: model(inputs_embeds=model.get_input_embeddings()(ids)) gives what model(input_ids=ids) gives, masks being
#   equal: only the look-up is taken out.
# Truth: ESM-2 multiplies the looked-up vectors by 0.88 (its token dropout, also in eval mode) only where it has ids.
#   RoBERTa counts positions from the ids and skips padding, and counts from the first place where it has embeddings,
#   so with padding on the left the same tokens get other positions. BERT agrees in all cases.
# Where: transformers==5.23.0 (torch==2.13.0), ESM, RoBERTa and MPNet.
# Why it matters: Integrated gradients, soft prompts and gradients by embedding run the second form: they attribute
#   the output of a model that nobody else runs.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   ESM      no padding          largest difference at real tokens 0.19
#   ESM      3 pads on the left  largest difference at real tokens 0.19
#   RoBERTa  no padding          largest difference at real tokens 0.00
#   RoBERTa  3 pads on the left  largest difference at real tokens 2.29
#   MPNet    no padding          largest difference at real tokens 0.00
#   MPNet    3 pads on the left  largest difference at real tokens 3.55
#   BERT     no padding          largest difference at real tokens 0.00
#   BERT     3 pads on the left  largest difference at real tokens 0.00

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

small = dict(
    num_hidden_layers=2, hidden_size=32, intermediate_size=32, num_attention_heads=4, vocab_size=60,
    max_position_embeddings=64, pad_token_id=1,
)
esm = dict(token_dropout=True, mask_token_id=5, position_embedding_type="rotary")
models = {
    "ESM": transformers.EsmModel(transformers.EsmConfig(**small, **esm)),
    "RoBERTa": transformers.RobertaModel(transformers.RobertaConfig(**small)),
    "MPNet": transformers.MPNetModel(transformers.MPNetConfig(**small)),
    "BERT": transformers.BertModel(transformers.BertConfig(**small)),
}
tokens = torch.arange(6, 14)[None]
padded = torch.cat([torch.full((1, 3), 1), tokens], dim=1)
gaps = {}
for name, model in models.items():
    model.eval()
    for where, ids in (("no padding", tokens), ("3 pads on the left", padded)):
        mask = (ids != 1).long()
        by_ids = model(input_ids=ids, attention_mask=mask).last_hidden_state[:, -8:]
        looked_up = model.get_input_embeddings()(ids)
        by_vectors = model(inputs_embeds=looked_up, attention_mask=mask).last_hidden_state[:, -8:]
        gaps[name, where] = (by_ids - by_vectors).abs().max().item()
        print(f"{name:8} {where:19} largest difference at real tokens {gaps[name, where]:.2f}")
assert gaps["ESM", "no padding"] > 0.1
assert gaps["ESM", "3 pads on the left"] > 0.1
for name in ("RoBERTa", "MPNet"):
    assert gaps[name, "no padding"] == 0
    assert gaps[name, "3 pads on the left"] > 0.1
assert gaps["BERT", "no padding"] == gaps["BERT", "3 pads on the left"] == 0
PYTHON
venv/bin/python run.py
