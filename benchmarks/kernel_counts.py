"""Kernels, waits for the device and bytes copied back of maps and attributions, counted without a GPU.

    python -m benchmarks.kernel_counts [--json docs/kernels.json] [--before OLD.json]

A model of GPT-2-small size (12 layers, random weights, a vocabulary of 1000) lies on a device that counts (tests/counted.py), and
every figure is that of a second call. `--before` stores the figures of another run of this script, by an older version,
beside them; `--lines` prints which lines of the package ask for what.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tl_ffblock as ffb
from benchmarks.speed import GPT2, Size, build
from tests.counted import DEVICE, CountedDevice

LENGTHS = (32, 128)
LONG = (512,)
"""Of attributions alone: their tables grow with the square of the text."""


def gradient_x_input(model: Any, tokens: Tensor) -> None:
    """What a plain gradient x input of a difference of logits takes."""
    embedded: list[Tensor] = []

    def keep(x: Tensor, hook: Any = None) -> Tensor:
        embedded.append(x.detach().requires_grad_())
        return embedded[0]

    with torch.enable_grad(), model.hooks(fwd_hooks=[("embed.hook_out", keep)]):
        logits = model(tokens[None].to(DEVICE, non_blocking=True))[0, -1]
    (gradient,) = torch.autograd.grad(logits[7] - logits[9], embedded)
    (gradient * embedded[0]).sum(dim=-1).cpu()


def calls(model: Any, tokens: Tensor) -> dict[str, Callable[[], Any]]:
    """What is counted, by name."""
    target = ffb.logit(7, minus=9)
    found: dict[str, Callable[[], Any]] = {
        "attribution": lambda: ffb.attribute(model, tokens, target, progress=False),
        "attribution of tokens alone": lambda: ffb.attribute(model, tokens, target, of=(), progress=False),
    }
    if len(tokens) in LENGTHS:
        found["maps"] = lambda: ffb.contribution_maps(model, tokens, progress=False)
        found["maps of the last row"] = lambda: ffb.contribution_maps(model, tokens, queries=-1, progress=False)
        found["gradient x input"] = lambda: gradient_x_input(model, tokens)
    return found


def counted(device: CountedDevice, call: Callable[[], Any]) -> dict[str, int]:
    """The figures of a second call."""
    call()
    device.clear()
    call()
    return {
        "kernels": device.kernels.total(),
        "waits": device.waits.total(),
        "bytes_to_host": device.bytes_to_host,
        "copies_to_host": device.waits["read"],
    }


def measured(lines: bool) -> dict[str, Any]:
    """All rows."""
    model = build(Size(GPT2.name, GPT2.architecture, vocabulary=1000))
    device, rows = CountedDevice(where=lines), []
    with device, device.holding(model):
        for n in (*LENGTHS, *LONG):
            tokens = torch.randint(5, 999, (n,), generator=torch.Generator().manual_seed(n))
            with torch.no_grad():
                forward = counted(device, lambda: model(tokens[None].to(DEVICE, non_blocking=True)))
            for name, call in calls(model, tokens).items():
                rows.append({"n": n, "call": name, **counted(device, call), "forward": forward["kernels"]})
                print(rows[-1], flush=True)
                for (kind, line), count in device.lines.most_common(40):
                    print(f"    {count:5} {kind:20} {line}")
    return {"layers": GPT2.layers, "torch": str(torch.__version__), "rows": rows}


def main() -> None:
    """Print the figures; write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--before", type=Path, help="the figures of an older version")
    parser.add_argument("--lines", action="store_true", help="print where kernels and waits come from")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = measured(options.lines)
    if options.before:
        results["before"] = json.loads(options.before.read_text())["rows"]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
