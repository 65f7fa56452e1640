#!/usr/bin/env bash
set -euo pipefail

# Guess: cache.get_full_resid_decomposition() breaks the residual stream down into heads, neurons and biases, which
#   sum to it as the layers of decompose_resid() do.
# Truth: In models with a norm after attention and after the MLP (Gemma 2 and 3, OLMo 2) heads and neurons are taken
#   before that norm, and the stream gets what comes out of it. The sum misses the stream by as much as the stream's
#   own size; for Llama it fits.
# Where: transformer-lens==4.3.0 (torch==2.13.0, transformers==5.23.0), Gemma 3, OLMo 2, Llama.
# Why it matters: Head-by-head and neuron-by-neuron attributions of the Gemma family are in another scale and
#   direction than what the model adds; nothing refuses.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0 transformer-lens==4.3.0
#   Llama    relative error of the sum: by layer 0.0e+00, by head 6.3e-08, by head and neuron 1.1e-07
#   Gemma 3  relative error of the sum: by layer 0.0e+00, by head 3.0e-01, by head and neuron 2.2e+00
#   OLMo 2   relative error of the sum: by layer 0.0e+00, by head 5.5e-01, by head and neuron 2.0e+00

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
    num_hidden_layers=2, hidden_size=16, intermediate_size=32, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=50, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0,
)
kinds = {
    "Llama": (transformers.LlamaForCausalLM, transformers.LlamaConfig(**small)),
    "Gemma 3": (transformers.Gemma3ForCausalLM, transformers.Gemma3TextConfig(**small, head_dim=4)),
    "OLMo 2": (transformers.Olmo2ForCausalLM, transformers.Olmo2Config(**small)),
}
tokens = torch.arange(3, 11)[None]
gaps = {}
for name, (kind, config) in kinds.items():
    config._attn_implementation = "eager"
    bridge = build_bridge_from_module(randomise(kind(config)), kind.__name__, hf_config=config).eval()
    _, cache = bridge.run_with_cache(tokens)
    stream = cache["resid_post", 1]
    layers = (cache.decompose_resid(layer=-1).sum(0) - stream).norm() / stream.norm()
    for neurons in (False, True):
        parts = cache.get_full_resid_decomposition(layer=-1, expand_neurons=neurons)
        gaps[name, neurons] = ((parts.sum(0) - stream).norm() / stream.norm()).item()
    print(
        f"{name:8} relative error of the sum: by layer {layers.item():.1e}, by head {gaps[name, False]:.1e}, "
        f"by head and neuron {gaps[name, True]:.1e}"
    )
    assert layers < 1e-4
assert gaps["Llama", False] < 1e-4
assert gaps["Llama", True] < 1e-4
for name in ("Gemma 3", "OLMo 2"):
    assert gaps[name, False] > 0.05
    assert gaps[name, True] > 0.3
PYTHON
venv/bin/python run.py
