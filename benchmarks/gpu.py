"""What maps and attributions take on a GPU, in forward passes of the same model there, and beside the same machine's CPU.

    python benchmarks/gpu.py [--json docs/gpu.json]

Wall seconds up to the end of the GPU's work, the median of repetitions after two to warm up; float32 without TF32, the
default of torch. A GPU does the one large product in so little time that what surrounds it decides: the figures say how much
of the CPU's speed carries over. Memory is what torch held at most, weights included.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from speed import BERT, GPT2, build, machine

import tl_ffblock as ffb

LENGTHS = {GPT2: (32, 128, 512, 1024), BERT: (32, 128, 512)}
PROMPTS, PROMPT_LENGTH = 100, 16


def seconds(action: Callable[[], Any], repeats: int) -> float:
    """Wall seconds until the GPU has done its work."""
    times = []
    for number in range(repeats + 2):
        torch.cuda.synchronize()
        start = time.perf_counter()
        action()
        torch.cuda.synchronize()
        if number >= 2:
            times.append(time.perf_counter() - start)
    return statistics.median(times)


@torch.no_grad()
def forward(model: Any, tokens: torch.Tensor) -> None:
    """The model alone, with logits."""
    model(tokens)


def row(model: Any, name: str, tokens: torch.Tensor, repeats: int, logits: bool) -> dict[str, Any]:
    """Figures of one batch [batch pos]."""
    passes = seconds(partial(forward, model, tokens), repeats)
    torch.cuda.reset_peak_memory_stats()
    ways: dict[str, Callable[[], Any]] = {
        "maps": partial(ffb.contribution_maps, model, tokens),
        "last_row": partial(ffb.contribution_maps, model, tokens, queries=-1),
    }
    if logits:
        ways["attribution"] = partial(
            ffb.attribute, model, tokens, ffb.logit(7, minus=11), of=("heads", "edges", "neurons")
        )
    times = {way: seconds(action, repeats) for way, action in ways.items()}
    figures = {"model": name, "prompts": len(tokens), "n": tokens.shape[1], "forward_ms": 1e3 * passes}
    figures |= {f"{way}_ms": 1e3 * value for way, value in times.items()}
    figures |= {f"{way}_in_forwards": value / passes for way, value in times.items()}
    return figures | {"peak_gb": torch.cuda.max_memory_allocated() / 1e9}


def measure() -> dict[str, Any]:
    """All rows."""
    results: dict[str, Any] = machine() | {"gpu": torch.cuda.get_device_name(), "cpu_threads": torch.get_num_threads()}
    rows = []
    for size, lengths in LENGTHS.items():
        on_cpu = build(size)
        on_gpu = build(size).to("cuda")
        batches = [(1, n) for n in lengths] + ([(PROMPTS, PROMPT_LENGTH)] if size is GPT2 else [])
        for batch, n in batches:
            tokens = torch.randint(5, 20000, (batch, n), generator=torch.Generator().manual_seed(n))
            repeats = 9 if batch * n <= 512 else 3
            figures = row(on_gpu, size.name, tokens.to("cuda"), repeats, logits=size is GPT2)
            if batch * n <= 512:
                start = time.perf_counter()
                ffb.contribution_maps(on_cpu, tokens)
                figures["cpu_over_gpu"] = 1e3 * (time.perf_counter() - start) / figures["maps_ms"]
            worst = max(m.worst_completeness()[0] for m in ffb.contribution_maps(on_gpu, tokens.to("cuda")))
            figures["completeness"] = float(worst)
            rows.append(figures)
            print(
                "  ".join(f"{k} {v:.3g}" if isinstance(v, float) else f"{k} {v}" for k, v in figures.items()),
                flush=True,
            )
        del on_gpu
        torch.cuda.empty_cache()
    return results | {"rows": rows}


def main() -> None:
    """Print the rows; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    results = measure()
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
