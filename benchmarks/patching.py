"""What patching and knockouts take beside TransformerLens alone: the same sweeps of the same prompts, CPU seconds in turn.

    python benchmarks/patching.py [--rounds 3] [--only NAME ...] [--json docs/patching.json]

SmolLM2-135M-Instruct, a pair of prompts of 15 tokens, one thread. Patching, clean activations into the corrupted run: the residual
stream at each layer's input and position, and each head's z over all positions, beside transformer_lens.patching. Ours begins each
run at its layer and has the patches of a layer in one batch. Attention knockout of four sources in windows of five layers, beside a
loop of runs whose hooks mask scores. Our checks are part of our time. A figure is the median over rounds of the ratio within a
round. The largest difference of the two is given relative to the largest effect. With --only the file keeps its other rows.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeAlias

import torch
from prompts import seconds
from speed import machine
from torch import Tensor
from transformer_lens import patching

import tl_ffblock as ffb

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPTED = "When Mary and John went to the store, Mary gave a drink to"
SOURCES: dict[str, list[int]] = {"IO": [2], "S1": [4], "S2": [10], "both names": [2, 4, 10]}
WINDOW = 5
Sweep: TypeAlias = tuple[Callable[[], tuple[Tensor, Tensor]], Callable[[], Tensor]]
"""Ours, which gives the target under every change and what that changes; theirs, which gives the first."""


def knockouts(model: Any, tokens: Tensor, read: Callable[[Tensor], Tensor]) -> Tensor:
    """The target [layer source] of runs whose hooks mask the scores of the last query, one run after the other."""
    values = torch.zeros(model.cfg.n_layers, len(SOURCES))
    for layer in range(model.cfg.n_layers):
        window = range(max(0, layer - WINDOW // 2), min(model.cfg.n_layers, layer + WINDOW // 2 + 1))
        for number, keys in enumerate(SOURCES.values()):

            def mask(scores: Tensor, hook: object, keys: list[int] = keys) -> Tensor:
                scores[:, :, -1, keys] = -torch.inf
                return scores

            hooks = [(f"blocks.{number}.attn.hook_attn_scores", mask) for number in window]
            values[layer, number] = read(model.run_with_hooks(tokens, fwd_hooks=hooks))
    return values


def sweeps(model: Any) -> dict[str, Sweep]:
    """What is measured, by name."""
    target = ffb.logit(" Mary", minus=" John", model=model)
    clean, corrupted = (model.to_tokens(text) for text in (CLEAN, CORRUPTED))
    _, cache = model.run_with_cache(clean)

    def patched(kind: str) -> Callable[[], tuple[Tensor, Tensor]]:
        options: dict[str, Any] = {"of": kind, "layers": range(model.cfg.n_layers), "progress": False}

        def run() -> tuple[Tensor, Tensor]:
            sweep = ffb.activation_patching(model, clean[0], corrupted[0], target, **options)
            return sweep.patched[kind], sweep.values[kind]

        return run

    def knocked_out() -> tuple[Tensor, Tensor]:
        result = ffb.attention_knockout(model, clean[0], target, keys=SOURCES, window=WINDOW, progress=False)
        return result.values, result.effect

    theirs = (patching.get_act_patch_resid_pre, patching.get_act_patch_attn_head_out_all_pos)
    by_patching = [lambda function=function: function(model, corrupted, cache, target.mean) for function in theirs]
    return {
        "residual stream by position": (patched("residual"), by_patching[0]),
        "heads over all positions": (patched("head"), by_patching[1]),
        "attention knockout by window and source": (knocked_out, lambda: knockouts(model, clean, target.mean)),
    }


def measure(rounds: int, only: Collection[str]) -> tuple[float, list[dict[str, Any]]]:
    """Seconds of a forward pass; of every sweep seconds of both, ratios, and how far they differ."""
    model = ffb.load_model("smollm2")
    tokens, rows = model.to_tokens(CLEAN), []
    with torch.no_grad():
        forward = statistics.median(seconds(lambda: model(tokens)) for _ in range(5))
        for name, (ours, theirs) in sweeps(model).items():
            if only and name not in only:
                continue
            made: dict[str, Any] = {}
            times = [
                (
                    seconds(lambda made=made, ours=ours: made.update(ours=ours())),
                    seconds(lambda made=made, theirs=theirs: made.update(theirs=theirs())),
                )
                for _ in range(rounds)
            ]
            values, effects = made["ours"]
            rows.append(
                {
                    "sweep": name,
                    "runs": values.numel(),
                    "ours_s": statistics.median(mine for mine, _ in times),
                    "theirs_s": statistics.median(other for _, other in times),
                    "ratios": sorted(other / mine for mine, other in times),
                    "difference": float((values - made["theirs"]).abs().max() / effects.abs().max()),
                }
            )
            print(rows[-1], flush=True)
    return forward, rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=(), metavar="NAME", help="sweeps to measure")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    forward, rows = measure(options.rounds, options.only)
    if options.only and options.json:
        measured = {row["sweep"] for row in rows}
        rows = [*(row for row in json.loads(options.json.read_text())["rows"] if row["sweep"] not in measured), *rows]
    results = {**machine(), "rounds": options.rounds, "tokens": 15, "forward_s": forward, "rows": rows}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
