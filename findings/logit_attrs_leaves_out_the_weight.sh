#!/usr/bin/env bash
set -euo pipefail

# Guess: cache.logit_attrs over cache.decompose_resid() sums to the logit, up to the unembedding's bias, on any model
#   that TransformerLens has loaded.
# Truth: On a bridge as it is loaded, the sum is off by a large amount: the final norm's learned weight is left out.
#   accumulated_resid(apply_ln=True) of the same cache applies it and gives the logits exactly. After
#   enable_compatibility_mode(), which folds the weight, both agree.
# Where: transformer-lens==4.3.0 (torch==2.13.0, transformers==5.23.0), Llama and GPT-NeoX.
# Why it matters: A bar chart of direct logit attribution of the model as loaded has bars of wrong length and sign,
#   and no warning; two functions of one cache disagree.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 transformer-lens==4.3.0
#   Llama     as loaded  logits up to 1.75; off by: logit_attrs 1.1204, accumulated_resid 0.0000
#   Llama     folded     logits up to 1.39; off by: logit_attrs 0.0000, accumulated_resid 0.0000
#   GPT-NeoX  as loaded  logits up to 1.68; off by: logit_attrs 0.6937, accumulated_resid 0.0000
#   GPT-NeoX  folded     logits up to 1.57; off by: logit_attrs 0.0000, accumulated_resid 0.0000

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
    num_hidden_layers=2, hidden_size=16, intermediate_size=32, num_attention_heads=4, vocab_size=50,
    max_position_embeddings=64,
)
kinds = {
    "Llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(**small)),
    "GPT-NeoX": (transformers.GPTNeoXForCausalLM, transformers.GPTNeoXConfig(**small)),
}
tokens = torch.arange(3, 11)[None]
gaps = {}
for name, (kind, config) in kinds.items():
    config._attn_implementation = "eager"
    bridge = build_bridge_from_module(randomise(kind(config)), kind.__name__, hf_config=config).eval()
    for mode in ("as loaded", "folded"):
        if mode == "folded":
            bridge.enable_compatibility_mode()
        logits, cache = bridge.run_with_cache(tokens)
        parts = cache.logit_attrs(cache.decompose_resid(layer=-1), tokens=5).sum(0)[0]
        lens = (cache.accumulated_resid(layer=-1, apply_ln=True)[-1] @ bridge.W_U + bridge.b_U)[0, :, 5]
        wanted = logits[0, :, 5]
        by_parts = (parts + bridge.b_U[5] - wanted).abs().max().item()
        by_lens = (lens - wanted).abs().max().item()
        gaps[name, mode] = by_parts
        print(
            f"{name:9} {mode:10} logits up to {wanted.abs().max().item():.2f}; off by: "
            f"logit_attrs {by_parts:.4f}, accumulated_resid {by_lens:.4f}"
        )
        assert by_lens < 1e-3
    assert gaps[name, "as loaded"] > 0.1
    assert gaps[name, "folded"] < 1e-3
PYTHON
venv/bin/python run.py
