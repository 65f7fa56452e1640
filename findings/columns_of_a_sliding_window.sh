#!/usr/bin/env bash
set -euo pipefail

# Guess: In the attentions that generate() returns, column j is token j in every layer and step.
# Truth: In the first step it is. From the second step on, a layer with a sliding window returns the columns of its
#   window alone, so column 0 is the oldest token that is kept; in Gemma 2 neighbouring layers of one step count from
#   different tokens. Nothing says where the columns start.
# Where: transformers==5.23.0 (torch==2.13.0), Mistral and Gemma 2.
# Why it matters: "The head looks at the first token" is read off column 0, and for half of Gemma's layers column 0 is
#   another token at every step.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   Mistral: columns by step and layer [[8, 8], [4, 4], [4, 4]]
#            layer 0, second step: the columns are tokens 5 to 8: True
#   Gemma 2: columns by step and layer [[8, 8], [4, 9], [4, 10]]
#            layer 0, second step: the columns are tokens 5 to 8: True

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
    num_hidden_layers=2, hidden_size=32, intermediate_size=32, num_attention_heads=4, num_key_value_heads=2,
    head_dim=8, vocab_size=60, pad_token_id=0, bos_token_id=1, eos_token_id=2, sliding_window=4, initializer_range=0.3,
    attn_implementation="eager",
)
models = {
    "Mistral": transformers.MistralForCausalLM(transformers.MistralConfig(**small)),
    "Gemma 2": transformers.Gemma2ForCausalLM(transformers.Gemma2Config(**small)),
}
prompt = torch.arange(3, 11)[None]
widths = {}
for name, model in models.items():
    model.eval()
    output = model.generate(
        prompt, max_new_tokens=3, do_sample=False, eos_token_id=None, use_cache=True,
        return_dict_in_generate=True, output_attentions=True,
    )
    widths[name] = [[layer.shape[-1] for layer in step] for step in output.attentions]
    print(f"{name}: columns by step and layer {widths[name]}")
    whole = model(output.sequences[:, :9], output_attentions=True, use_cache=False).attentions[0]
    step = output.attentions[1][0]
    same = torch.allclose(step[0, :, 0], whole[0, :, 8, 5:], atol=1e-5)
    print(f"{'':7}  layer 0, second step: the columns are tokens 5 to 8: {same}")
    assert same
assert widths["Mistral"] == [[8, 8], [4, 4], [4, 4]]
assert widths["Gemma 2"] == [[8, 8], [4, 9], [4, 10]]
PYTHON
venv/bin/python run.py
