"""Integrated Gradients against Shapley values on short inputs (Fig. 11, appendix E).

Methods: `ig` closed form, `captum` Gauss-Legendre as in the paper, `shapley` exact by enumeration,
`sampling` and `kernel` its estimates by the `shap` package. Inputs are the first tokens of each sequence
(config `short_tokens`).

- `agreement`: of each method with `ig` (and with `shapley`), per layer: Spearman's rho of the maps after
  the feed-forward and of FF-amp, the largest difference of a cell relative to the map's largest, and the
  change of mixing by FF that the method gives.
- `time`: seconds a layer.
"""

import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from scipy.stats import spearmanr
from torch import Tensor

from tl_ffblock.bridge.capture import capture
from tl_ffblock.bridge.inputs import forward, prepare
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsExperiment, Tables
from tl_ffblock.experiments.kobayashi.shapley import ShapleyRun, estimated_values
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk, walk
from tl_ffblock.results import figures as draw

METHODS = ("ig", "captum", "shapley", "sampling", "kernel")
REFERENCES = ("ig", "shapley")
AGREEMENTS = ("map_rho", "amplification_rho", "largest_difference", "change", "completeness")


class AttributionMethods(MomentsExperiment):
    """Methods that share a feed-forward's output among tokens."""

    name = "attribution-methods"
    timed = True

    def measure(self, seen: Observation) -> dict[str, Moments]:
        tokens = seen.tokens[: self.config.short_tokens]
        batch = prepare(seen.model, tokens, None)[0]
        with torch.no_grad(), capture(seen.model, dtype=torch.float64) as records:
            forward(seen.model, batch)
        agreement = np.full((self.subject.n_layers, len(REFERENCES), len(METHODS), len(AGREEMENTS)), np.nan)
        seconds = np.zeros((self.subject.n_layers, len(METHODS)))
        for place, layer in enumerate(records.layers):
            record = records[layer].sequence(0)
            maps = []
            for i, method in enumerate(METHODS):
                start = time.perf_counter()
                maps.append(self._maps(record, method, seen.encoded.sequence.number))
                seconds[place, i] = time.perf_counter() - start
            for r, reference in enumerate(REFERENCES):
                for i in range(len(METHODS)):
                    agreement[place, r, i] = _agreement(maps[i], maps[METHODS.index(reference)], record.block.causal)
        return {"agreement": Moments.of(agreement[None]), "seconds": Moments.of(seconds[None])}

    def tables(self, shards: Sequence[Any]) -> Tables:
        agreement, seconds = self.moments(shards, "agreement"), self.moments(shards, "seconds")
        rows = []
        for r, reference in enumerate(REFERENCES):
            for i, method in enumerate(METHODS):
                for layer in range(self.subject.n_layers):
                    values = dict(zip(AGREEMENTS, agreement.value[layer, r, i].tolist(), strict=True))
                    rows.append(dict(reference=reference, method=method, layer=layer, **values))
        times = [
            dict(method=method, layer=layer, seconds=seconds.value[layer, i], sequences=int(seconds.count[layer, i]))
            for i, method in enumerate(METHODS)
            for layer in range(self.subject.n_layers)
        ]
        return {"agreement": pd.DataFrame(rows), "time": pd.DataFrame(times)}

    def figures(self, tables: Tables) -> Figures:
        to_ig = tables["agreement"].query("reference == 'ig'")
        methods = dict(iter(to_ig.groupby("method", sort=False)))
        rho = {m: group["map_rho"].to_numpy() for m, group in methods.items() if m != "ig"}
        change = {m: group["change"].to_numpy() for m, group in methods.items()}
        seconds = tables["time"].groupby("method", sort=False)["seconds"].mean()
        figure, ax = draw.axes(height=1.6)
        ax.barh(list(seconds.index), seconds.to_numpy(), color=draw.COLOURS[0])
        ax.set_xscale("log")
        ax.invert_yaxis()
        ax.set_xlabel(f"seconds a layer, {self.config.short_tokens} tokens")
        return {
            "agreement": draw.layer_lines(rho, ylabel="Spearman of maps with IG"),
            "change": draw.layer_lines(change, ylabel="change by FF, 1 − ρ"),
            "time": figure,
        }

    def _maps(self, record: LayerRecord, method: str, number: int) -> tuple[Tensor, Tensor, float]:
        """Maps before and after the feed-forward, and the completeness error after it."""
        runs: LayerWalk
        if method in ("ig", "captum"):
            runs = LayerWalk(record, Settings(method="exact" if method == "ig" else "captum", precision="float64"))
        else:
            runs = ShapleyRun(record, Settings(precision="float64"))
            if method != "shapley":
                seed = int(np.random.default_rng([self.config.seed, max(number, 0), record.layer]).integers(2**31))
                kind: Any = method
                runs.values = estimated_values(kind, self.config.shapley_samples, seed)
        step = self.subject.feed_forward
        found = {}
        with torch.no_grad():  # captum asks for gradients itself
            for scope, parts in walk(runs):
                found[scope] = parts
                if scope == step.scope:
                    break
        before, after = (found[scope].tokens.detach().norm(dim=-1) for scope in (str(step.before), step.scope))
        whole = record.whole[step.scope]
        error = float((found[step.scope].total().detach() - whole).norm() / whole.norm())
        return before, after, error


def _agreement(one: tuple[Tensor, Tensor, float], other: tuple[Tensor, Tensor, float], causal: bool) -> list[float]:
    """The numbers of `AGREEMENTS`."""
    before, after, error = one
    cells = torch.ones_like(after, dtype=torch.bool)
    cells = cells.tril() if causal else cells
    gained = [_columns(m[1]) - _columns(m[0]) for m in (one, other)]
    return [
        _rho(after[cells], other[1][cells]),
        _rho(gained[0][cells], gained[1][cells]),
        float((after - other[1]).abs().max() / other[1].max()),
        1 - _rho(before[cells], after[cells]),
        error,
    ]


def _columns(map_: Tensor) -> Tensor:
    return map_ / map_.sum(dim=0, keepdim=True)


def _rho(first: Tensor, second: Tensor) -> float:
    if len(first) < 3 or min(float(t.max() - t.min()) for t in (first, second)) == 0:
        return float("nan")
    return float(spearmanr(first.double().numpy(), second.double().numpy())[0])
