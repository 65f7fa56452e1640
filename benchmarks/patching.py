"""What activation patching takes beside transformer_lens.patching: the same sweeps of the same prompts, CPU seconds in turn.

    python benchmarks/patching.py [--rounds 3] [--json docs/patching.json]

SmolLM2-135M-Instruct, a pair of prompts of 15 tokens, clean activations into the corrupted run, one thread: the residual stream at
each layer's input and position, and each head's z over all positions. Ours begins each run at its layer and has the patches of a
layer in one batch; its checks (a run patched by itself, the stream patched at all positions) are part of its time. A figure is the
median over rounds of the ratio within a round. The largest difference of the two is given relative to the largest effect.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from prompts import seconds
from speed import machine
from torch import Tensor
from transformer_lens import patching

import tl_ffblock as ffb

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPTED = "When Mary and John went to the store, Mary gave a drink to"
SWEEPS: dict[str, tuple[str, Callable[..., Tensor]]] = {
    "residual stream by position": ("residual", patching.get_act_patch_resid_pre),
    "heads over all positions": ("head", patching.get_act_patch_attn_head_out_all_pos),
}


def measure(rounds: int) -> list[dict[str, Any]]:
    """Seconds of both, ratios, and how far they differ, by sweep."""
    model = ffb.load_model("smollm2")
    target = ffb.logit(" Mary", minus=" John", model=model)
    clean, corrupted = (model.to_tokens(text) for text in (CLEAN, CORRUPTED))
    rows = []
    with torch.no_grad():
        forward = statistics.median(seconds(lambda: model(clean)) for _ in range(5))
        _, cache = model.run_with_cache(clean)
        for name, (kind, function) in SWEEPS.items():
            options: dict[str, Any] = {"of": kind, "layers": range(model.cfg.n_layers), "progress": False}
            made: dict[str, Any] = {}

            def ours(made: dict[str, Any] = made, options: dict[str, Any] = options) -> None:
                made["ours"] = ffb.activation_patching(model, clean[0], corrupted[0], target, **options)

            def theirs(made: dict[str, Any] = made, function: Callable[..., Tensor] = function) -> None:
                made["theirs"] = function(model, corrupted, cache, target.mean)

            times = [(seconds(ours), seconds(theirs)) for _ in range(rounds)]
            sweep = made["ours"]
            apart = (sweep.patched[kind] - made["theirs"]).abs().max() / sweep.values[kind].abs().max()
            rows.append(
                {
                    "sweep": name,
                    "runs": sweep.patched[kind].numel(),
                    "tokens": clean.shape[1],
                    "forward_s": forward,
                    "ours_s": statistics.median(mine for mine, _ in times),
                    "theirs_s": statistics.median(other for _, other in times),
                    "ratios": sorted(other / mine for mine, other in times),
                    "difference": float(apart),
                }
            )
            print(rows[-1], flush=True)
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {**machine(), "rounds": options.rounds, "rows": measure(options.rounds)}
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
