"""What the checks of a call cost: operations of maps and attributions with all checks, and with each replaced by nothing.

    python benchmarks/checks.py [--json docs/checks.json]

Counted are floating-point operations (products of matrices as torch counts them; of every other operation one for each number
that it reads or writes, whichever are more) and dispatched operations of torch, views left out. Both are of a second call:
identities of a layer, the comparison with Hugging Face and the probe without hooks belong to the first call of a model, and
have a row of their own. A fingerprint of weights is no operation of torch: it is timed, in CPU seconds beside those of the call.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from speed import machine
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

import tl_ffblock as ffb
from tl_ffblock.bridge import model as bridge_model
from tl_ffblock.layer import linear
from tl_ffblock.layer.fast import vector_norms as norms
from tl_ffblock.layer.fast.buffers import Stack
from tl_ffblock.layer.linear import Parts
from tl_ffblock.layer.records import Norm, Settings

TOKENS = (15, 128)
MODELS = ("minilm", "smollm2")
REPEATS = 5


class Counted(TorchDispatchMode):
    """Operations inside, views left out."""

    def __init__(self) -> None:
        super().__init__()
        self.flops = 0
        self.calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count it."""
        out = func(*args, **(kwargs or {}))
        if not func.is_view:
            self.calls += 1
            known = flop_registry.get(func.overloadpacket)
            if known is None:
                tensors = [leaf for leaf in tree_leaves((args, kwargs, out)) if isinstance(leaf, Tensor)]
                self.flops += max((one.numel() for one in tensors if one.is_floating_point()), default=0)
            else:
                self.flops += known(*args, **(kwargs or {}), out_val=out)
        return out


def _no_sums(stack: Stack, settings: Settings) -> Parts:
    """The bias part alone, which is a result; the sum of the tokens' parts is there to be checked."""
    parts = _tokens_sum(stack, settings)
    return Parts(parts.tokens[:, :0], parts.bias)


_tokens_sum, _alone = norms._tokens_sum, norms.alone


def _no_input(x: Tensor) -> Parts:
    parts = _alone(x)
    return Parts(parts.tokens[:, :0], parts.bias)


def _normed_without_form(value: Tensor, norm: Norm, x: Tensor) -> tuple[Tensor, Tensor]:
    wide = x.to(norm.gain.dtype)
    with torch.no_grad():
        _, scale = norm.centred_and_scale(wide.detach())
    vjp = partial(linear._vjp_of_norm, x.shape, norm.centred)
    return linear._linearised(value.detach(), vjp, [wide], norm.gain, scale), value


def _nothing(*args: Any, **options: Any) -> None:
    return None


CHECKS: dict[str, dict[str, dict[str, Any]]] = {
    "maps": {
        "completeness": {
            "tl_ffblock.layer.fast.vector_norms.completeness_errors": lambda _, whole, sizes: whole.new_zeros(
                whole.shape[:-1]
            ),
            "tl_ffblock.layer.fast.vector_norms._tokens_sum": _no_sums,
            "tl_ffblock.layer.fast.vector_norms.alone": _no_input,
            "tl_ffblock.layer.fast.vector_norms.PairRows._add_to_sum": _nothing,
        },
        "norms of a column": {"tl_ffblock.contributions.errors_of_column": lambda *args: {}},
        "mask, NaN and infinity": {"tl_ffblock.bridge.runs.refuse_at_once": _nothing},
    },
    "attribution": {
        "linear forms": {
            "tl_ffblock.bridge.gradient_cache.GradientCache.compare": _nothing,
            "tl_ffblock.bridge.linearised.normed": _normed_without_form,
            "tl_ffblock.layer.linear.shared": lambda coefficients, pre, pre_linear: pre,
        },
        "sums at every layer": {
            "tl_ffblock.attribution.attribution.Attribution.boundary_errors": lambda result, last: torch.zeros(1)
        },
        "NaN and infinity": {
            "tl_ffblock.bridge.traced.Traced.sum_of_logits": lambda traced_run: traced_run.logits.new_zeros(())
        },
    },
}
"""By what is made: each check, and what stands in the place of its functions."""


@contextmanager
def without(replaced: Mapping[str, Any]) -> Iterator[None]:
    """Functions replaced by others inside."""
    with ExitStack() as stack:
        for path, other in replaced.items():
            stack.enter_context(patch(path, other))
        yield


def counted(call: Callable[[], Any]) -> dict[str, int]:
    """Operations of a call."""
    with Counted() as mode:
        call()
    return {"flops": mode.flops, "calls": mode.calls}


def seconds(call: Callable[[], Any]) -> float:
    """CPU seconds, the least of some."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def measured(name: str, n: int, made: str) -> dict[str, Any]:
    """Two calls of a fresh model, one with all checks left out and, of the shorter text, one with each."""
    model = ffb.load_model(name)
    tokens = torch.randint(1000, 5000, (n,), generator=torch.Generator().manual_seed(n))
    vector = torch.ones(model.cfg.d_model)
    target = ffb.direction(vector, layer=-1) if name == "minilm" else ffb.logit(7, minus=11)
    calls: dict[str, Callable[[], Any]] = {
        "maps": lambda: ffb.contribution_maps(model, tokens),
        "attribution": lambda: ffb.attribute(model, tokens, target),
    }
    call, checks = calls[made], CHECKS[made]
    first = counted(call)
    whole = counted(call)
    rows = {}
    for check, replaced in checks.items() if n == TOKENS[0] else ():
        with without(replaced):
            rows[check] = counted(call)
    with without({path: other for replaced in checks.values() for path, other in replaced.items()}):
        bare = counted(call)
    row = {"model": name, "n": n, "made": made, "first": first, "whole": whole, "without": rows, "bare": bare}
    fingerprint = getattr(bridge_model, "weights_fingerprint", None)
    if fingerprint is not None:
        row["fingerprint_over_call"] = seconds(lambda: fingerprint(model)) / seconds(call)
    return row


def shares(row: Mapping[str, Any], kind: str) -> dict[str, float]:
    """The part of a call's operations that each check takes, and all of them."""
    whole = row["whole"][kind]
    each = {check: 1 - counts[kind] / whole for check, counts in row["without"].items()}
    return {**each, "all checks": 1 - row["bare"][kind] / whole, "first call more": row["first"][kind] / whole - 1}


def main() -> None:
    """Print the shares, and store the counts."""
    asked = argparse.ArgumentParser(description="the share of a call's operations that its checks take")
    asked.add_argument("--json", type=Path, help="where to store the counts")
    options = asked.parse_args()
    results: dict[str, Any] = {**machine(), "rows": []}
    for name in MODELS:
        for n in TOKENS:
            for made in CHECKS:
                row = measured(name, n, made)
                results["rows"].append(row)
                whole = row["whole"]
                print(
                    f"{name}, {n} tokens, {made}: {whole['flops'] / 1e9:.2f} GFLOP in {whole['calls']} operations of torch"
                )
                for check, share in shares(row, "flops").items():
                    print(
                        f"  {check:20} {share:8.3%} of the floating-point operations, "
                        f"{shares(row, 'calls')[check]:7.2%} of those dispatched"
                    )
                if "fingerprint_over_call" in row:
                    print(f"  {'fingerprint':20} {row['fingerprint_over_call']:8.3%} of the CPU seconds")
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
