#!/usr/bin/env bash
set -euo pipefail

# Guess: enable_compatibility_mode() rewrites the weights and keeps the function: log-probabilities stay the same up
#   to rounding.
# Truth: For gpt-oss they do not. Folding moves the values' bias behind the attention, which is right where each row
#   of the pattern sums to 1. A gpt-oss head also attends to a sink that is dropped from the pattern, so its rows sum
#   to less. The same call leaves Qwen 2, which has that bias and no sink, as it is.
# Where: transformer-lens==4.3.0 (torch==2.13.0, transformers==5.23.0), gpt-oss and Qwen 2.
# Why it matters: Every number that is read off the folded model belongs to another model, and no warning is given.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 transformer-lens==4.3.0
#   Qwen 2   smallest row sum 1.000; values' biases folded: False a log-probability moves by 0.00000
#   Qwen 2   smallest row sum 1.000; values' biases folded: True  a log-probability moves by 0.00000
#   gpt-oss  smallest row sum 0.000; values' biases folded: False a log-probability moves by 0.00000
#   gpt-oss  smallest row sum 0.000; values' biases folded: True  a log-probability moves by 5.04377

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install -qq --no-compile torch==2.13.0 transformers==5.23.0 transformer-lens==4.3.0
cat >run.py <<'PYTHON'
from importlib.metadata import version

import torch
import transformers

from transformer_lens.model_bridge.sources import build_bridge_from_module

transformers.logging.set_verbosity_error()
torch.set_grad_enabled(False)
torch.manual_seed(0)
print(*(f"{name}=={version(name)}" for name in ("torch", "transformers", "transformer-lens")))


def randomise(model):
    for name, weight in model.named_parameters():
        is_scale = "norm" in name and name.endswith("weight")
        torch.nn.init.normal_(weight, 1.0 if is_scale else 0.0, 0.5 if weight.dim() == 1 else 0.3)
    return model.eval()


small = dict(
    num_hidden_layers=2, hidden_size=16, intermediate_size=16, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=50, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
kinds = {
    "Qwen 2": (transformers.Qwen2ForCausalLM, transformers.Qwen2Config(**small)),
    "gpt-oss": (
        transformers.GptOssForCausalLM,
        transformers.GptOssConfig(**small, head_dim=4, num_local_experts=4, num_experts_per_tok=2),
    ),
}
tokens = torch.arange(3, 11)[None]
gaps = {}
for name, (kind, config) in kinds.items():
    config._attn_implementation = "eager"
    for fold in (False, True):
        torch.manual_seed(0)
        bridge = build_bridge_from_module(randomise(kind(config)), kind.__name__, hf_config=config).eval()
        before, cache = bridge.run_with_cache(tokens)
        row = cache["blocks.0.attn.hook_pattern"].sum(-1).min().item()
        bridge.enable_compatibility_mode(fold_value_biases=fold)
        gaps[name, fold] = (bridge(tokens).log_softmax(-1) - before.log_softmax(-1)).abs().max().item()
        print(
            f"{name:8} smallest row sum {row:.3f}; values' biases folded: {fold!s:5} "
            f"a log-probability moves by {gaps[name, fold]:.5f}"
        )
    assert (row < 0.99) == (name == "gpt-oss")
assert gaps["gpt-oss", True] > 0.05
del gaps["gpt-oss", True]
assert max(gaps.values()) < 1e-3
PYTHON
venv/bin/python run.py
