"""Estimates of patching beside true patching, on one pair of prompts: Pearson's r by kind of component.

Each component of the clean run becomes the corrupted run's, by plain hooks: heads' z, queries, keys and values over all positions,
the residual stream, attention and feed-forwards at each position at which the prompts' runs differ. `estimated` are the sums of
`ffb.attribution_patching` over the same places.

    python benchmarks/estimates.py [--json FILE] [--layers 0 5 10]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import tl_ffblock as ffb

CLEAN = "When Mary and John went to the store, John gave a drink to"
CORRUPTED = "When Mary and John went to the store, Mary gave a drink to"
BY_HEAD = {"head": "attn.hook_z", "q": "attn.hook_q", "k": "attn.hook_k", "v": "attn.hook_v"}
BY_POSITION = {
    "residual": "hook_resid_pre",
    "residual_mid": "hook_attn_out",
    "attention": "hook_attn_out",
    "mlp": "hook_mlp_out",
}
WAYS: dict[str, dict[str, Any]] = {
    "gradient": {"rules": "gradient"},
    "patching": {"rules": "patching"},
    "patching, 5 steps": {"rules": "patching", "steps": 5},
}


def effects(model: Any, layers: list[int]) -> dict[str, Tensor]:
    """By kind what patching does to the logit difference: [layer head], or [layer pos] of positions from the first that differs."""
    clean, corrupted = (model.to_tokens(text) for text in (CLEAN, CORRUPTED))
    caches = [model.run_with_cache(tokens)[1] for tokens in (clean, corrupted)]
    mary, john = (model.to_single_token(word) for word in (" Mary", " John"))
    first = int((clean != corrupted).nonzero()[0, 1])

    @torch.no_grad()
    def patched(name: str, given: Tensor) -> Tensor:
        logits = model.run_with_hooks(clean.expand(len(given), -1), fwd_hooks=[(name, lambda x, hook: given)])[:, -1]
        return logits[:, mary] - logits[:, john]

    found: dict[str, list[Tensor]] = {kind: [] for kind in BY_HEAD | BY_POSITION}
    for layer in layers:
        for kind, point in (BY_HEAD | BY_POSITION).items():
            name = f"blocks.{layer}.{point}"
            own, other = (cache[name] for cache in caches)
            if kind == "residual_mid":
                before = (cache[f"blocks.{layer}.hook_resid_pre"] for cache in caches)
                other = other - torch.sub(*before)
            places = range(own.shape[2]) if kind in BY_HEAD else range(first, own.shape[1])
            given = own.repeat(len(places), *[1] * (own.ndim - 1))
            for row, place in enumerate(places):
                at = (slice(None), place) if kind in BY_HEAD else (place,)
                given[(row, *at)] = other[(0, *at)]
            found[kind].append(patched(name, given) - patched(name, own))
    return {kind: torch.stack(of_layers) for kind, of_layers in found.items()}


def estimated(model: Any, kind: str, layers: list[int], like: Tensor, estimates: Any) -> Tensor:
    """Estimates at the places of a kind's effects."""
    values = estimates[kind][layers]
    return values.sum(dim=-1) if kind in BY_HEAD else values[:, -like.shape[1] :]


def correlations(model: Any, layers: list[int]) -> dict[str, Any]:
    """Pearson's r by kind and way, with the number of places."""
    true = effects(model, layers)
    rows: dict[str, Any] = {kind: {"n": found.numel()} for kind, found in true.items()}
    for way, options in WAYS.items():
        target, of = ffb.logit(" Mary", minus=" John"), ("q", "k", "v", "attention", "residual_mid")
        estimates = ffb.attribution_patching(model, CLEAN, CORRUPTED, target, of=of, **options)
        for kind, found in true.items():
            both = torch.stack(
                [found.flatten().double(), estimated(model, kind, layers, found, estimates).flatten().double()]
            )
            rows[kind][way] = float(torch.corrcoef(both)[0, 1])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--layers", type=int, nargs="+")
    options = parser.parse_args()
    model = ffb.load_model("smollm2")
    rows = correlations(model, options.layers or [*range(model.cfg.n_layers)])
    text = json.dumps(
        {"model": "SmolLM2-135M-Instruct", "clean": CLEAN, "corrupted": CORRUPTED, "kinds": rows}, indent=2
    )
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
