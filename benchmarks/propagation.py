"""What an attribution costs, in forward passes of the model, and what memory it takes.

1. SmolLM2-135M (or `--model`), one thread, prompts of 16, 128 and 512 tokens: rounds of forward pass and `ffb.attribute`
   by turns, in CPU seconds of the process; the ratio is that of the medians.
2. Memory is the growth of the process's largest resident size in a process of its own for each size, beside that of a
   forward and backward pass through the model as it is, with gradients for parameters, as a training step has them.

    python benchmarks/propagation.py [--json FILE] [--repeats 5] [--model smollm2]
"""

import argparse
import json
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SIZES = (16, 128, 512)
WAYS: dict[str, dict[str, Any]] = {
    "tokens": {"of": ()},
    "all": {"of": ("heads", "edges", "neurons")},
    "patching, all": {"of": ("heads", "edges", "neurons"), "rules": "patching"},
    "gradient, all": {"of": ("heads", "edges", "neurons"), "rules": "gradient"},
    "all and maps": {"of": ("heads", "edges", "neurons", "maps")},
}


def load(name: str) -> Any:
    """The model, with text to fill prompts with."""
    import tl_ffblock as ffb

    torch.set_num_threads(1)
    return ffb.load_model(name)


def prompt(model: Any, length: int) -> torch.Tensor:
    """The first tokens of a text that does not repeat itself at once."""
    text = " ".join(f"The {n} engineers wrote report {n * n} for the committee of {n + 7}." for n in range(200))
    return model.to_tokens(text, truncate=False)[:, :length]


def target(logits: torch.Tensor) -> torch.Tensor:
    """A logit difference."""
    return logits[:, -1, 1000] - logits[:, -1, 2000]


def seconds(work: Callable[[], Any]) -> float:
    """CPU seconds of a call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(model: Any, length: int, repeats: int) -> dict[str, Any]:
    """Medians of one size."""
    import tl_ffblock as ffb

    tokens = prompt(model, length)
    forward = torch.no_grad()(lambda: model(tokens))
    works: dict[str, Callable[[], Any]] = {"forward": forward}
    repeats = max(1, repeats // (4 if length > 256 else 1))
    works |= {way: lambda o=o: ffb.attribute(model, tokens[0], target, **o) for way, o in WAYS.items()}
    for work in works.values():
        work()
    times = [{name: seconds(work) for name, work in works.items()} for _ in range(repeats)]
    medians = {name: statistics.median(row[name] for row in times) for name in works}
    result = ffb.attribute(model, tokens[0], target)
    return {
        "tokens": length,
        "forward_s": medians["forward"],
        "passes": {way: medians[way] / medians["forward"] for way in WAYS},
        "worst_boundary": float(result.certificate.boundaries.max()),
    }


def peak(name: str, length: int, way: str) -> None:
    """Print the growth of the resident size by one call, in MB."""
    import tl_ffblock as ffb

    model = load(name)
    tokens = prompt(model, length)
    with torch.no_grad():
        model(tokens)
    ffb.attribute(model, tokens[0, :4], target)  # what is checked once a model
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    if way == "attribute":
        ffb.attribute(model, tokens[0], target)
    else:
        target(model(tokens)).sum().backward()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)


def main() -> None:
    """Measure, print a table, write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--peak", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peak:
        peak(options.model, int(options.peak[0]), options.peak[1])
        return
    model = load(options.model)
    rows = []
    for length in SIZES:
        rows.append(row := measure(model, length, options.repeats))
        print(row, file=sys.stderr, flush=True)
        for way in ("attribute", "backward"):
            command = [sys.executable, __file__, "--model", options.model, "--peak", str(row["tokens"]), way]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            row[f"{way}_mb"] = float(out.strip().splitlines()[-1])
    report = {
        "model": options.model,
        "machine": f"{platform.machine()}, {torch.get_num_threads()} thread",
        "torch": torch.__version__,
        "rows": rows,
    }
    print(f"{report['model']}, {report['machine']}; medians of {options.repeats}, in forward passes\n")
    print("tokens  forward s  " + "  ".join(f"{way:>13}" for way in WAYS) + "  MB  MB of a training step's backward")
    for row in rows:
        passes = "  ".join(f"{row['passes'][way]:13.2f}" for way in WAYS)
        print(
            f"{row['tokens']:6}  {row['forward_s']:9.3f}  {passes}  {row['attribute_mb']:.0f}  {row['backward_mb']:.0f}"
        )
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
