"""Time and memory of a model of 1.2 billion parameters on a CPU: a forward pass, one attribution, maps; and of a long text.

    python benchmarks/large.py [--threads 2] [--only TEXT] [--json docs/large.json]

A Llama of the size of Llama-3.2-1B with random weights in bfloat16: 16 layers, d_model 2048, 32 heads over 8 key-value heads,
feed-forwards of 8192, a vocabulary of 128256. Each call once, as the first of its kind, checks included. Memory is the highest
resident memory of the process during the call (`VmHWM`), and what it is over the memory before it. Then one layer of gpt-oss-20b's
size in bfloat16 (d_model 2880, 64 heads, 32 experts of 2880, 4 of them at a token; a vocabulary of 1000), and SmolLM2-135M in float32
on 8192 random tokens. `--only` measures the calls whose names hold a text and keeps the others' rows.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from speed import machine
from transformer_lens.model_bridge.sources import build_bridge_from_module

import tl_ffblock as ffb

SIZE = dict(
    hidden_size=2048,
    intermediate_size=8192,
    num_hidden_layers=16,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=64,
    vocab_size=128256,
    max_position_embeddings=131072,
    tie_word_embeddings=True,
)


EXPERTS = dict(
    hidden_size=2880,
    intermediate_size=2880,
    num_hidden_layers=1,
    num_attention_heads=64,
    num_key_value_heads=8,
    head_dim=64,
    vocab_size=1000,
    num_local_experts=32,
    num_experts_per_tok=4,
)


@torch.no_grad()
def build(architecture: str, config: Any) -> Any:
    """A model with random weights in bfloat16, gains that are not one, and experts that are not zero."""
    torch.manual_seed(0)
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    model = getattr(transformers, architecture)._from_config(config, attn_implementation="eager")
    torch.set_default_dtype(kept)
    for name, parameter in model.named_parameters():
        if "experts" in name:
            parameter.normal_(std=0.02)
        elif parameter.ndim == 1:
            parameter.add_(0.1 * torch.randn_like(parameter))
    return build_bridge_from_module(model.eval(), architecture, hf_config=config)


def llama() -> Any:
    """The Llama."""
    return build("LlamaForCausalLM", transformers.LlamaConfig(**SIZE))


def experts() -> Any:
    """One layer with experts."""
    return build("GptOssForCausalLM", transformers.GptOssConfig(**EXPERTS, layer_types=["full_attention"]))


def memory(entry: str) -> int:
    """Bytes of this process by an entry of its status: VmRSS now, VmHWM the highest since it was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line.split()[1] for line in lines if line.startswith(entry)))


def measured(call: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What a call gives, with its seconds on the clock and of the CPU and its memory."""
    Path("/proc/self/clear_refs").write_text("5")
    before, start, cpu = memory("VmRSS"), time.perf_counter(), time.process_time()
    result = call()
    figures = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    peak = memory("VmHWM")
    return result, figures | {"peak_gb": peak / 1e9, "over_gb": (peak - before) / 1e9}


TOKENS, SOME, LONG = 512, 128, 8192


def ids(model: Any, n: int) -> torch.Tensor:
    """Random tokens [pos]."""
    return torch.randint(5, int(model.cfg.d_vocab), (n,), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def forward(model: Any, n: int = TOKENS) -> Any:
    """One forward pass."""
    return model(ids(model, n)[None])


Call = Callable[[Any], Any]
_OF_EXPERTS = f"one layer with 32 experts, {SOME} tokens"
_OF_LONG = f"SmolLM2-135M, {LONG} tokens"
CALLS: dict[Callable[[], Any], dict[str, Call]] = {
    llama: {
        "forward pass": forward,
        "one attribution": lambda model: ffb.attribute(model, ids(model, TOKENS), ffb.logit(7)),
        "maps of the last row, all layers": lambda model: ffb.contribution_maps(model, ids(model, TOKENS), queries=-1),
        "maps of all rows, all layers": lambda model: ffb.contribution_maps(model, ids(model, TOKENS)),
    },
    experts: {
        f"forward pass, {_OF_EXPERTS}": lambda model: forward(model, SOME),
        f"maps of all rows, {_OF_EXPERTS}": lambda model: ffb.contribution_maps(model, ids(model, SOME)),
        f"one attribution, {_OF_EXPERTS}": lambda model: ffb.attribute(model, ids(model, SOME), ffb.logit(7)),
    },
    lambda: ffb.load_model("smollm2"): {
        f"attribution of tokens, {_OF_LONG}": lambda model: ffb.attribute(model, ids(model, LONG), ffb.logit(7), of=()),
        f"maps of the last row, {_OF_LONG}": lambda model: ffb.contribution_maps(model, ids(model, LONG), queries=-1),
    },
}
"""What is measured, by what makes the model."""


def main() -> None:
    """Measure; write after each call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    again = options.only and options.json is not None
    stored: dict[str, Any] = json.loads(options.json.read_text()) if again else {"calls": {}}
    for make, of_model in CALLS.items():
        calls = {name: call for name, call in of_model.items() if options.only in name}
        if not calls:
            continue
        model = make()
        weights = sum(parameter.nbytes for parameter in model.parameters()) / 1e9
        if make is llama:
            stored["parameters"] = sum(parameter.numel() for parameter in model.parameters())
            stored |= {"weights_gb": weights, "tokens": TOKENS, "layers": SIZE["num_hidden_layers"]}
        if make is experts:
            stored["experts_gb"] = weights
        for name, call in calls.items():
            result, figures = measured(partial(call, model))
            figures |= machine() | {"threads": options.threads}
            if isinstance(result, ffb.ContributionMaps):
                figures["completeness"] = float(result.worst_completeness()[0])
            stored["calls"][name] = figures
            print(name, figures, flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(stored, indent=1) + "\n")
        del model


if __name__ == "__main__":
    main()
