"""Time and memory of a model of 1.2 billion parameters on a CPU: a forward pass, one attribution, maps; and of a long text.

    python benchmarks/large.py [--tokens 512] [--threads 2] [--only TEXT] [--json docs/large.json]

A Llama of the size of Llama-3.2-1B with random weights in bfloat16: 16 layers, d_model 2048, 32 heads over 8 key-value heads,
feed-forwards of 8192, a vocabulary of 128256. Each call once, as the first of its kind, checks included. Memory is the highest
resident memory of the process during the call (`VmHWM`), and what it is over the memory before it. The last call is of another
model, SmolLM2-135M in float32 on 8192 random tokens. `--only` measures the calls whose names hold a text and keeps the others' rows.
"""

import argparse
import json
import time
from collections.abc import Callable
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


def build(**changes: int) -> Any:
    """The model, with gains that are not one."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**{**SIZE, **changes})
    kept = torch.get_default_dtype()
    torch.set_default_dtype(torch.bfloat16)
    model = transformers.LlamaForCausalLM._from_config(config, attn_implementation="eager")
    torch.set_default_dtype(kept)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return build_bridge_from_module(model.eval(), "LlamaForCausalLM", hf_config=config)


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


LONG, LONG_NAME = 8192, "attribution of tokens, SmolLM2-135M, 8192 tokens"


def calls_of_llama(options: argparse.Namespace, stored: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """What is measured of the Llama, by name; its sizes are stored."""
    model = build(num_hidden_layers=options.layers)
    ids = torch.randint(5, SIZE["vocab_size"], (options.tokens,), generator=torch.Generator().manual_seed(0))
    parameters = list(model.parameters())
    stored.update(tokens=options.tokens, layers=options.layers)
    stored["parameters"] = sum(parameter.numel() for parameter in parameters)
    stored["weights_gb"] = sum(parameter.nbytes for parameter in parameters) / 1e9

    def forward() -> Any:
        with torch.no_grad():
            return model(ids[None])

    return {
        "forward pass": forward,
        "one attribution": lambda: ffb.attribute(model, ids, ffb.logit(7)),
        "maps of the last row, all layers": lambda: ffb.contribution_maps(model, ids, queries=-1),
        "maps of all rows, all layers": lambda: ffb.contribution_maps(model, ids),
    }


def calls_of_long() -> dict[str, Callable[[], Any]]:
    """The same of the long text."""
    model = ffb.load_model("smollm2")
    ids = torch.randint(5, int(model.cfg.d_vocab), (LONG,), generator=torch.Generator().manual_seed(0))
    return {LONG_NAME: lambda: ffb.attribute(model, ids, ffb.logit(7), of=())}


def main() -> None:
    """Measure; write after each call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--layers", type=int, default=SIZE["num_hidden_layers"])
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    again = options.only and options.json is not None
    stored: dict[str, Any] = json.loads(options.json.read_text()) if again else {}
    stored["calls"] = stored.pop("calls", {})  # the last entry
    for make in (lambda: calls_of_llama(options, stored), calls_of_long):
        if options.only and (options.only in LONG_NAME) != (make is calls_of_long):
            continue
        calls = {name: call for name, call in make().items() if options.only in name}
        for name, call in calls.items():
            result, figures = measured(call)
            figures |= machine() | {"threads": options.threads}
            if isinstance(result, ffb.ContributionMaps):
                figures["completeness"] = float(result.worst_completeness()[0])
            stored["calls"][name] = figures
            print(name, figures, flush=True)
            if options.json is not None:
                options.json.write_text(json.dumps(stored, indent=1) + "\n")


if __name__ == "__main__":
    main()
