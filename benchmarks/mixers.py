"""What a layer without a softmax costs: its maps, beside those of a softmax layer of the same width and feed-forward.

    python benchmarks/mixers.py [--tokens 64 256] [--json docs/mixers.json]

Models are random, of the widths of a published model's layer. Each layer's `contribution_maps` is called in turn, in CPU seconds of
one thread; a row is the smallest of its calls, and its ratio to the softmax layer of the same row.
"""

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from speed import machine
from transformer_lens.model_bridge.sources import build_bridge_from_module

import tl_ffblock as ffb

REPEATS = 3
_WIDTH = dict(hidden_size=1024, intermediate_size=3584, vocab_size=1000, max_position_embeddings=4096)
_ATTENTION = dict(num_attention_heads=16, num_key_value_heads=4)
# Architecture, its configuration, and the numbers of the mixer's and of the softmax layer.
MODELS: Mapping[str, tuple[str, dict[str, Any], int, int | None]] = {
    "gated delta net (Qwen3.5-0.8B)": (
        "Qwen3_5ForCausalLM",
        dict(
            num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], head_dim=64, linear_num_key_heads=16,
            linear_num_value_heads=16, linear_key_head_dim=128, linear_value_head_dim=128, **_ATTENTION, **_WIDTH,
        ),
        0, None,
    ),
    "Mamba-2 (Bamba)": (
        "BambaForCausalLM",
        dict(num_hidden_layers=2, attn_layer_indices=[1], mamba_n_heads=32, mamba_d_head=64, mamba_d_state=64, mamba_n_groups=1,
             **_ATTENTION, **_WIDTH),
        0, 1,
    ),
    "Mamba (Jamba)": (
        "JambaForCausalLM",
        dict(num_hidden_layers=2, attn_layer_period=2, attn_layer_offset=1, num_experts=1, num_experts_per_tok=1, mamba_dt_rank=64,
             use_mamba_kernels=False, **_ATTENTION, **_WIDTH),
        0, 1,
    ),
    "short convolution (LFM2)": (
        "Lfm2ForCausalLM",
        dict(num_hidden_layers=2, layer_types=["conv", "full_attention"], block_auto_adjust_ff_dim=False, **_ATTENTION, **_WIDTH),
        0, 1,
    ),
}  # fmt: skip


def bridge(architecture: str, entries: Mapping[str, Any]) -> Any:
    """A random model of an architecture."""
    model_class = getattr(transformers, architecture)
    config = model_class.config_class(**entries)
    config.architectures = [architecture]
    torch.manual_seed(0)
    return build_bridge_from_module(model_class(config).eval(), architecture, hf_config=config).eval()


def seconds(model: Any, tokens: torch.Tensor, layer: int) -> float:
    """Smallest CPU seconds of the maps of one layer."""
    found = []
    for _ in range(REPEATS):
        begin = time.process_time()
        ffb.contribution_maps(model, tokens, layers=[layer])
        found.append(time.process_time() - begin)
    return min(found)


def main() -> None:
    """Print and store all rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    softmax = bridge("Lfm2ForCausalLM", MODELS["short convolution (LFM2)"][1])  # a plain layer for models without one
    for name, (architecture, entries, mixer, plain) in MODELS.items():
        model = bridge(architecture, entries)
        for n in given.tokens:
            tokens = torch.randint(5, 900, (n,), generator=torch.Generator().manual_seed(0))
            own = seconds(model, tokens, mixer)
            other = seconds(softmax, tokens, 1) if plain is None else seconds(model, tokens, plain)
            rows.append({"mixer": name, "tokens": n, "seconds": own, "softmax": other, "ratio": own / other})
            print(f"{name}, {n} tokens: {own:.2f} s, softmax {other:.2f} s, ratio {own / other:.1f}", flush=True)
    if given.json is not None:
        given.json.write_text(json.dumps({"machine": machine(), "rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
