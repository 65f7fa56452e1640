"""What an attribution costs, in forward passes of the model, and what memory it takes.

1. SmolLM2-135M (or `--model`), one thread, prompts of 16, 128 and 512 tokens: rounds of forward pass and `ffb.attribute`
   by turns, in CPU seconds of the process; the ratio is that of the medians.
2. The same with layers that run again in the backward pass (`--twice`), one round.
3. Memory of a model of GPT-2-small size: the growth of the largest resident size in a process of its own for each length
   and way, beside what a training step's forward pass leaves for its backward pass (its activations) and the whole step,
   with the gradients of the parameters. Tensors of a MB and more are given back to the system as soon as they are free
   (`--malloc` leaves that to the C library), so that this is what tensors take.

    python benchmarks/propagation.py [--json FILE] [--repeats 5] [--model smollm2] [--sizes 16 128] [--twice 1024] [--memory 128 512 1024]

`--json` keeps the rows of other sizes that the file has.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
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
    for work in works.values() if length <= 256 else ():
        work()
    times = [{name: seconds(work) for name, work in works.items()} for _ in range(repeats)]
    medians = {name: statistics.median(row[name] for row in times) for name in works}
    result = ffb.attribute(model, tokens[0], target)
    return {
        "tokens": length,
        "forward_s": medians["forward"],
        "passes": {way: medians[way] / medians["forward"] for way in WAYS},
        "worst_boundary": float(result.certificate.layer_inputs.max()),
    }


def twice(model: Any, length: int) -> dict[str, Any]:
    """What it costs to run layers again."""
    import tl_ffblock as ffb

    tokens = prompt(model, length)
    forward = seconds(torch.no_grad()(lambda: model(tokens)))
    costs = {
        name: seconds(lambda asked=asked: ffb.attribute(model, tokens[0], target, of=(), checkpoint=asked)) / forward
        for name, asked in (("kept", False), ("run again", True))
    }
    return {"tokens": length, "forward_s": forward, "passes": costs}


def largest_size() -> float:
    """The largest resident size of this process so far, in MB."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM"))) / 1024


_MMAP_THRESHOLD = -3
"""Of mallopt: from how many bytes on memory comes from the system at once, and goes back at once."""


def growth(work: Callable[[], Any], as_it_is: bool) -> float:
    """By how many MB a call makes a process of its own grow at most."""
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        libc = ctypes.CDLL("libc.so.6")
        libc.malloc_trim(0)
        if not as_it_is:
            libc.mallopt(_MMAP_THRESHOLD, 2**20)
        Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
        before = largest_size()
        kept = work()
        os.write(writer, str(largest_size() - before).encode())
        del kept
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    return float(os.read(reader, 100))


def memory(lengths: list[int], as_it_is: bool) -> list[dict[str, Any]]:
    """Peaks by length of the prompt."""
    from speed import GPT2, build

    import tl_ffblock as ffb

    torch.set_num_threads(1)
    model = build(GPT2, 2048)
    ffb.attribute(model, torch.arange(8), target)  # what is checked once a model
    rows = []
    for length in lengths:
        tokens = torch.randint(0, 50000, (1, length), generator=torch.Generator().manual_seed(0))
        works: dict[str, Callable[[], Any]] = {
            "activations": lambda: target(model(tokens)).sum(),
            "training step": lambda: target(model(tokens)).sum().backward(),
        }
        for name, of in (("tokens", ()), ("all", ("heads", "edges", "neurons"))):
            for asked, ending in ((False, ""), (True, ", run again")):
                works[name + ending] = lambda of=of, asked=asked: ffb.attribute(
                    model, tokens[0], target, of=of, checkpoint=asked
                )
        rows.append({"tokens": length, **{f"{name}_mb": growth(work, as_it_is) for name, work in works.items()}})
        print(rows[-1], file=sys.stderr, flush=True)
    return rows


def main() -> None:
    """Measure what is asked for, and write JSON if asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES)
    parser.add_argument("--twice", type=int, nargs="*", default=())
    parser.add_argument("--memory", type=int, nargs="*", default=())
    parser.add_argument("--malloc", action="store_true", help="memory as the C library gives it back")
    options = parser.parse_args()
    model = load(options.model) if options.sizes or options.twice else None
    timed = []
    for length in options.sizes:
        timed.append(measure(model, length, options.repeats))
        print(timed[-1], file=sys.stderr, flush=True)
    again = [twice(model, length) for length in options.twice]
    peaks = memory(options.memory, options.malloc) if options.memory else []
    of_memory = "memory as malloc gives it back" if options.malloc else "memory"
    if options.json:
        stored = json.loads(options.json.read_text(encoding="utf-8")) if options.json.exists() else {}
        report: dict[str, Any] = stored | {
            "model": options.model,
            "machine": f"{platform.machine()}, {torch.get_num_threads()} thread",
        }
        for name, rows in (("rows", timed), ("run again", again), (of_memory, peaks)):
            by_size = {row["tokens"]: row for row in [*stored.get(name, ()), *rows]}
            report[name] = [by_size[size] for size in sorted(by_size)]
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
