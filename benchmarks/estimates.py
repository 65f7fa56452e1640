"""Estimates of patching beside true patching, on one pair of prompts: Pearson's r by kind of component.

Each component of the clean run becomes the corrupted run's, by plain hooks: heads' z, queries, keys and values over all positions,
the residual stream, attention and feed-forwards at each position at which the prompts' runs differ. `estimated` are the sums of
`ffb.attribution_patching` over the same places. `heads` compares every call that gives heads a number with patching them.

    python benchmarks/estimates.py [--json FILE] [--layers 0 5 10]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import pandas
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


def correlations(model: Any, layers: list[int], true: dict[str, Tensor]) -> dict[str, Any]:
    """Pearson's r by kind and way, with the number of places."""
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


def of_heads(model: Any, true: Tensor) -> dict[str, Any]:
    """Each call's number of every head, summed over positions, beside the fall of the target by patching the head."""
    target = ffb.logit(" Mary", minus=" John")
    maps = ffb.contribution_maps(model, CLEAN, scopes="Attn", queries=-1, heads=True, progress=False).heads
    n_layers, n_heads = true.shape
    numbers = {
        "attribute": ffb.attribute(model, CLEAN, target, of="heads").heads.sum(dim=-1),
        "direct_logit_attribution": ffb.direct_logit_attribution(model, CLEAN, target).heads.sum(dim=-1),
        "contribution_maps": torch.stack(
            [maps["Attn", layer][:n_heads, 0, 1:].sum(dim=-1) for layer in range(n_layers)]
        ),
    }
    for rules in ("gradient", "patching"):
        estimates = ffb.attribution_patching(model, CLEAN, CORRUPTED, target, rules=rules, of="heads")
        numbers[f"attribution_patching, {rules}"] = -estimates["head"].sum(dim=-1)
    table = pandas.DataFrame({name: number.detach().flatten().double().numpy() for name, number in numbers.items()})
    table["patching"] = -true.flatten().double().numpy()
    table.index = [f"L{layer}H{head}" for layer in range(n_layers) for head in range(n_heads)]
    signed, sizes = {kind: table.corr(method=kind)["patching"] for kind in ("pearson", "spearman")}, table.abs()
    said = {**signed, "spearman of sizes": sizes.corr(method="spearman")["patching"]}
    shown = sorted({head for name in table if name != "contribution_maps" for head in sizes[name].nlargest(4).index})
    return {
        "correlations": {name: {kind: float(found[name]) for kind, found in said.items()} for name in numbers},
        "largest": {head: {name: float(table[name][head]) for name in table} for head in shown},
        "receivers": receivers(model, ["L20H0", "L17H4", "L19H2", "L23H3", "L29H1"]),
    }


def receivers(model: Any, heads: list[str]) -> dict[str, dict[str, float]]:
    """Edge estimates out of heads, summed by what receives them: queries, keys, values, feed-forwards, the target."""
    target = ffb.logit(" Mary", minus=" John")
    edges = ffb.attribution_patching(model, CLEAN, CORRUPTED, target, edges=True, steps=5).edges
    table = edges.to_dataframe()
    table = table[table.source.isin(heads)]
    kinds = table.target.map(lambda name: name.rpartition(".")[2])
    sums = (-table.weight).groupby([table.source, kinds]).sum()
    return {head: {str(kind): float(value) for kind, value in sums[head].items()} for head in heads}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--layers", type=int, nargs="+")
    options = parser.parse_args()
    model = ffb.load_model("smollm2")
    layers = options.layers or [*range(model.cfg.n_layers)]
    true = effects(model, layers)
    found = {"kinds": correlations(model, layers, true)}
    if layers == [*range(model.cfg.n_layers)]:
        found["heads"] = of_heads(model, true["head"])
    text = json.dumps({"model": "SmolLM2-135M-Instruct", "clean": CLEAN, "corrupted": CORRUPTED, **found}, indent=2)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
