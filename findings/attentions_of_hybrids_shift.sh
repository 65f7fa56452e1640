#!/usr/bin/env bash
set -euo pipefail

# Guess: output_attentions=True gives one entry per layer, None where a layer has no attention, so attentions[i]
#   belongs to layer i.
# Truth: Models that mix attention with other layers return the attention layers alone, without gaps: attentions[0] of
#   a Qwen3-Next model is its fourth layer. Jamba's router_logits are packed in the same way. hidden_states stays
#   complete, so the two tuples cannot be read with one index.
# Where: transformers==5.23.0 (torch==2.13.0), Qwen3-Next, Jamba, RecurrentGemma, LFM2.
# Why it matters: A table "layer, head, pattern" made with enumerate() names the wrong layer, and ablating the head
#   that it names changes something else.
# seen:
#   torch==2.13.0+cpu transformers==5.23.0
#   qwen3_next       layers 4, hidden_states 5, attentions 1: entry 0 is layer 3
#   jamba            layers 4, hidden_states 5, attentions 2: entry 0 is layer 1
#                    layers 4, router_logits 2
#   recurrent_gemma  layers 4, hidden_states 5, attentions 2: entry 0 is layer 1
#   lfm2             layers 4, hidden_states 5, attentions 2: entry 0 is layer 1

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

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

small = dict(
    num_hidden_layers=4, hidden_size=32, intermediate_size=32, num_attention_heads=4, num_key_value_heads=2,
    vocab_size=60, max_position_embeddings=64, pad_token_id=0, bos_token_id=1, eos_token_id=2,
)
experts = dict(num_experts=4, num_experts_per_tok=2)
kinds = {
    "qwen3_next": dict(
        head_dim=8, moe_intermediate_size=16, shared_expert_intermediate_size=16, linear_num_key_heads=2,
        linear_num_value_heads=2, linear_key_head_dim=8, linear_value_head_dim=8, **experts,
    ),
    "jamba": dict(attn_layer_period=2, attn_layer_offset=1, mamba_d_state=4, use_mamba_kernels=False, **experts),
    "recurrent_gemma": dict(head_dim=8, lru_width=32, block_types=["recurrent", "attention"]),
    "lfm2": dict(layer_types=["conv", "full_attention", "conv", "full_attention"]),
}
for name, extra in kinds.items():
    config = CONFIG_MAPPING[name](**small, **extra)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    found = {}
    for position, block in enumerate(model.model.layers):
        for path, module in block.named_modules():
            if hasattr(module, "q_proj") and hasattr(module, "k_proj"):
                module.register_forward_hook(
                    lambda module, args, output, position=position: found.update({position: output[1]})
                )
    output = model(torch.arange(3, 11)[None], output_attentions=True, output_hidden_states=True)
    layers = sorted(found)
    print(
        f"{name:16} layers {len(model.model.layers)}, hidden_states {len(output.hidden_states)}, "
        f"attentions {len(output.attentions)}: entry 0 is layer {layers[0]}"
    )
    assert len(output.hidden_states) == 5
    assert None not in output.attentions
    assert len(output.attentions) == len(layers) < 4
    assert all(torch.equal(pattern, found[layer]) for pattern, layer in zip(output.attentions, layers, strict=True))
    assert layers[0] > 0
    if name == "jamba":
        routed = model(torch.arange(3, 11)[None], output_router_logits=True).router_logits
        print(f"{'':16} layers 4, router_logits {len(routed)}")
        assert len(routed) == 2
PYTHON
venv/bin/python run.py
