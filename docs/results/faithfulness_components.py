"""Estimates of patching against patching: heads, feed-forwards and the residual stream of SmolLM2 on pairs of prompts.

A pair is an indirect-object prompt and the same with the other name at its second mention, so that the answer turns round.
Measured is what the logit difference becomes when a clean run's tensor is the corrupted run's: of each head at all
positions, of each feed-forward at all positions, of the residual stream at every third layer and each position that differs.
"""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import torch
from torch import Tensor

import tl_ffblock as ffb
from docs.results.faithfulness_sets import logits_of, single
from tl_ffblock.results.ranks import spearman

NAMES = ("Mary", "John", "Anna", "Tom", "Sarah", "David", "Emma", "Paul", "Laura", "Mark")
TEMPLATES = (
    "When {io} and {s} went to the store, {s2} gave a drink to",
    "After {io} and {s} had lunch at the park, {s2} handed a book to",
)
EVERY = 3
"""The residual stream is patched at every such layer."""
AT_ONCE = 32
ESTIMATES: dict[str, dict[str, Any]] = {
    "attribution patching (gradient)": {"rules": "gradient"},
    "patching rules": {"rules": "patching"},
    "path rules": {"rules": "path"},
    "EAP-IG inputs (gradient 5 steps)": {"rules": "gradient", "steps": 5},
    "patching rules (5 steps)": {"rules": "patching", "steps": 5},
}
"""Nodes of both five-step estimates are Gauss-Legendre's; EAP-IG as published takes equal steps."""


def pairs(model: Any, templates: tuple[str, ...] = TEMPLATES) -> Iterator[tuple[Tensor, Tensor, Any]]:
    """Clean and corrupted tokens with the target: a difference above 0.5 which the corruption lowers by more than 1."""
    names = [name for name in NAMES if single(model, f" {name}") is not None]
    for template, (io, s) in product(templates, [(a, b) for a in names for b in names if a != b][::3]):
        texts = (template.format(io=io, s=s, s2=s2) for s2 in (s, io))
        clean, corrupted = (model.to_tokens(text)[0].cpu() for text in texts)
        target = ffb.logit(single(model, f" {io}"), minus=single(model, f" {s}"))
        before, after = (float(target(logits_of(model, tokens))) for tokens in (clean, corrupted))
        if len(clean) == len(corrupted) and before > 0.5 and before - after > 1:
            yield clean, corrupted, target


def measured_pairs(
    model: Any, number: int, done: set[int], seconds: Callable[[Callable[[], Any]], tuple[Any, float]]
) -> Iterator[tuple[int, list[tuple[str, str, str]]]]:
    """Each pair that is not done: estimates held against patching."""
    for index, (clean, corrupted, target) in zip(range(number), pairs(model), strict=False):
        if index not in done:
            truth = patched(model, clean, corrupted, target)
            rows: list[tuple[str, str, str]] = []
            for name, options in ESTIMATES.items():
                result, took = seconds(partial(ffb.attribution_patching, model, clean, corrupted, target, **options))
                rows += [(name, measure, f"{value:.6g}") for measure, value in held(result, truth, clean, corrupted)]
                rows.append((name, "seconds", f"{took:.4f}"))
            yield index, rows


def held(result: Any, truth: dict[str, Tensor], clean: Tensor, corrupted: Tensor) -> Iterator[tuple[str, float]]:
    """Pearson's r of every kind; of heads also the ten per cent that matter most, and the ranks of sizes."""
    heads, real = result.heads.sum(dim=-1).flatten().double().numpy(), truth["heads"].flatten().double().numpy()
    yield "heads r", pearson(heads, real)
    top = max(1, len(real) // 10)
    best = [set(np.argsort(-np.abs(values))[:top].tolist()) for values in (heads, real)]
    yield "heads top 10 %", len(best[0] & best[1]) / top
    yield "heads rho of sizes", spearman(np.abs(heads), np.abs(real))
    yield "feed-forward r", pearson(result.mlps.sum(dim=-1).double().numpy(), truth["mlps"].double().numpy())
    places = differing(clean, corrupted)
    streams = result.residual[: len(result.mlps) : EVERY][:, places].flatten().double().numpy()
    yield "residual r", pearson(streams, truth["residual"].flatten().double().numpy())


def differing(clean: Tensor, corrupted: Tensor) -> list[int]:
    """The positions from the first token that differs on."""
    return list(range(int((clean != corrupted).nonzero()[0]), len(clean)))


def pearson(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's r."""
    return float(np.corrcoef(first, second)[0, 1])


@torch.no_grad()
def patched(model: Any, clean: Tensor, corrupted: Tensor, target: Any) -> dict[str, Tensor]:
    """By kind, what the target changes by when a tensor is the corrupted run's."""
    device = next(model.parameters()).device
    layers, n_heads = model.cfg.n_layers, model.cfg.n_heads
    names = [
        f"blocks.{layer}.{site}"
        for layer in range(layers)
        for site in ("attn.hook_z", "hook_mlp_out", "hook_resid_pre")
    ]
    _, cache = model.run_with_cache(corrupted[None].to(device), names_filter=names)
    base = float(target(model(clean[None].to(device))))

    def effects(edits: list[tuple[str, Any]]) -> Tensor:
        """One run an edit: the HookPoint, and where of its tensor the corrupted run's stands."""
        changed = []
        for begin in range(0, len(edits), AT_ONCE):
            batch = edits[begin : begin + AT_ONCE]
            tokens = clean[None].to(device).expand(len(batch), -1)

            def put(x: Tensor, hook: Any, site: str, batch: list[tuple[str, Any]] = batch) -> Tensor:
                x = x.clone(memory_format=torch.contiguous_format)
                for row, (name, where) in enumerate(batch):
                    if name == site:
                        x[row][where] = cache[site].reshape(1, *x.shape[1:])[0][where]
                return x

            sites = dict.fromkeys(name for name, _ in batch)
            logits = model.run_with_hooks(tokens, fwd_hooks=[(site, partial(put, site=site)) for site in sites])
            changed.append(target(logits).cpu() - base)
        return torch.cat(changed)

    every, z = slice(None), cache["blocks.0.attn.hook_z"]
    width = z.shape[-1] // n_heads
    by_head = [
        (every, head) if z.ndim == 4 else (every, slice(head * width, (head + 1) * width)) for head in range(n_heads)
    ]
    head_edits = [(f"blocks.{layer}.attn.hook_z", where) for layer in range(layers) for where in by_head]
    places = differing(clean, corrupted)
    streams = [(f"blocks.{layer}.hook_resid_pre", place) for layer in range(0, layers, EVERY) for place in places]
    return {
        "heads": effects(head_edits).reshape(layers, n_heads),
        "mlps": effects([(f"blocks.{layer}.hook_mlp_out", every) for layer in range(layers)]),
        "residual": effects(streams).reshape(-1, len(places)),
    }
