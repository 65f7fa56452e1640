"""Integrated Gradients against Shapley values on short inputs (Fig. 11, appendix E).

Methods: `ig` closed form, `captum` Gauss-Legendre as in the paper, `shapley` exact by enumeration,
`sampling` and `kernel` its estimates by the `shap` package. Inputs are the first tokens of each sequence
(option `short_tokens`).

- `agreement`: of each method with `ig` (and with `shapley`), per layer: Spearman's rho of the maps after
  the feed-forward and of FF-amp, the largest difference of a cell relative to the map's largest, and the
  change of mixing by FF that the method gives.
- `time`: seconds a layer.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.runs import kept_records, open_run
from tl_ffblock.corpus.fields import check_at_least
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsStudy, Tables
from tl_ffblock.errors import InputError
from tl_ffblock.experiments.kobayashi.shapley import Estimate, ShapleyLayer, estimated_values, exact_values
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.settings import Settings
from tl_ffblock.results import figures as draw
from tl_ffblock.results.ranks import rank_change, shares, spearman

Method: TypeAlias = Literal["ig", "captum", "shapley", "sampling", "kernel"]
METHODS: tuple[Method, ...] = ("ig", "captum", "shapley", "sampling", "kernel")
REFERENCES = ("ig", "shapley")
_SCATTER = draw.scatter_words("sequences")
DRAWN = ("map_rho", "change")
"""Agreements of the figures."""
AGREEMENTS = ("map_rho", "amplification_rho", "largest_difference", "change", "completeness")


@dataclass(frozen=True)
class AttributionOptions:
    """Sizes of the games."""

    short_tokens: int = 6
    """Tokens of a sequence in attribution-methods; exact Shapley values take 2 to the power of it."""
    shapley_samples: int = 128
    """Coalitions that sampling and kernel Shapley values may look at, for each position and layer."""

    def __post_init__(self) -> None:
        check_at_least(self, "short_tokens", 2)
        check_at_least(self, "shapley_samples", 1)
        if self.short_tokens > 12:
            raise InputError(f"short_tokens={self.short_tokens}: enumeration of coalitions is meant for at most 12.")


@dataclass(frozen=True)
class SharedLayer:
    """What one method says of one layer."""

    before: Float[Tensor, "query key"]
    """The map before the feed-forward."""
    after: Float[Tensor, "query key"]
    """The map after it."""
    completeness: float
    """Relative error of the parts' sum after it."""


class AttributionMethods(MomentsStudy):
    """Methods that share a feed-forward's output among tokens."""

    name = "attribution-methods"
    title = "Integrated Gradients against Shapley values"
    captions: ClassVar[Mapping[str, str]] = {
        "agreement": f"Rank correlation of each method's maps with those of Integrated Gradients, {_SCATTER}.",
        "change": f"Change of the map by the feed-forward, by method, {_SCATTER}.",
        "time": "Seconds a layer, by method: mean, least and most of the layers.",
    }
    packages = ("shap",)
    options: AttributionOptions

    def measure(self, observed: Observation) -> dict[str, Moments]:
        tokens = observed.tokens[: self.options.short_tokens]
        (records,) = kept_records(open_run(observed.model, tokens, precision="float64"))
        agreement = np.full((self.facts.n_layers, len(REFERENCES), len(METHODS), len(AGREEMENTS)), np.nan)
        seconds = np.zeros((self.facts.n_layers, len(METHODS)))
        for row, record in enumerate(records.values()):
            layers = []
            for i, method in enumerate(METHODS):
                start = time.perf_counter()
                layers.append(self._layer(record, method, observed.tokenised.source.number))
                seconds[row, i] = time.perf_counter() - start
            for r, reference in enumerate(REFERENCES):
                for i in range(len(METHODS)):
                    agreement[row, r, i] = _agreement(layers[i], layers[METHODS.index(reference)], record.block.causal)
        return {"agreement": Moments.of(agreement[None]), "seconds": Moments.of(seconds[None])}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        agreement, seconds = self.moments(shards, "agreement"), self.moments(shards, "seconds")
        counted = [AGREEMENTS.index(name) for name in DRAWN]
        rows = []
        for r, reference in enumerate(REFERENCES):
            for i, method in enumerate(METHODS):
                for layer in range(self.facts.n_layers):
                    values = dict(zip(AGREEMENTS, agreement.value[layer, r, i].tolist(), strict=True))
                    scatter = dict(zip(DRAWN, agreement.deviation[layer, r, i, counted].tolist(), strict=True))
                    values |= {f"{name}_deviation": value for name, value in scatter.items()}
                    sequences = int(agreement.count[layer, r, i].max())
                    rows.append(dict(reference=reference, method=method, layer=layer, **values, sequences=sequences))
        times = [
            dict(method=method, layer=layer, seconds=seconds.value[layer, i], sequences=int(seconds.count[layer, i]))
            for i, method in enumerate(METHODS)
            for layer in range(self.facts.n_layers)
        ]
        return {"agreement": pd.DataFrame(rows), "time": pd.DataFrame(times)}

    def figures(self, tables: Tables) -> Figures:
        to_ig = tables["agreement"].query("reference == 'ig'")
        methods = dict(iter(to_ig.groupby("method", sort=False)))
        rho, change = (
            {str(m): draw.Spread.of(group, name, deviation=f"{name}_deviation") for m, group in methods.items()}
            for name in DRAWN
        )
        del rho["ig"]
        seconds = tables["time"].groupby("method", sort=False)["seconds"].agg(["mean", "min", "max"])
        sides = [seconds["mean"] - seconds["min"], seconds["max"] - seconds["mean"]]
        figure, ax = draw.axes(height=1.6)
        look = dict(color=draw.COLOURS[0], marker="o", linestyle="none", elinewidth=0.8)
        ax.errorbar(seconds["mean"].to_numpy(), list(seconds.index), xerr=sides, **look)
        ax.set_xscale("log")
        ax.grid(axis="y", linewidth=0.4)
        ax.invert_yaxis()
        ax.set_xlabel(f"seconds a layer, {self.options.short_tokens} tokens")
        agreement = draw.layer_lines(rho, ylabel="Spearman of maps with IG")
        agreement.axes[0].set_ylim(min(line.mean.min() for line in rho.values()) - 0.02, 1.005)
        return {
            "agreement": agreement,
            "change": draw.layer_panels(change, ylabel="change by FF, 1 − ρ"),
            "time": figure,
        }

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        agreement = tables["agreement"].query("reference == 'ig' and method == 'shapley'")
        if agreement.empty:
            return ()
        least = agreement.loc[agreement["map_rho"].idxmin()]
        return (
            f"Maps by exact Shapley values and by Integrated Gradients correlate at {agreement['map_rho'].mean():.3f} in the mean "
            f"of layers (least {least['map_rho']:.3f}, layer {int(least['layer'])}); their largest difference is "
            f"{agreement['largest_difference'].max():.1%} of the map's largest cell.",
        )

    def _layer(self, record: LayerRecord, method: Method, number: int) -> SharedLayer:
        """One layer by one method; `number` is the sequence's, which seeds the estimates."""
        step = self.facts.feed_forward
        with torch.no_grad():  # captum asks for gradients itself
            parts_at = self._linear(record, method, number).parts([step.scope])
        before, after = (parts_at[scope].tokens.detach().norm(dim=-1) for scope in (str(step.before), step.scope))
        whole = record.whole[step.scope]
        error = float((parts_at[step.scope].total().detach() - whole).norm() / whole.norm())
        return SharedLayer(before, after, error)

    def _linear(self, record: LayerRecord, method: Method, number: int) -> LinearLayer:
        settings = Settings(method="captum" if method == "captum" else "exact", precision="float64")
        if method in ("ig", "captum"):
            return LinearLayer(record, settings)
        if method == "shapley":
            return ShapleyLayer(record, settings, exact_values)
        seed = int(np.random.default_rng([self.config.seed, max(number, 0), record.layer]).integers(2**31))
        kind: Estimate = "sampling" if method == "sampling" else "kernel"
        return ShapleyLayer(record, settings, estimated_values(kind, self.options.shapley_samples, seed))


def _agreement(layer: SharedLayer, reference: SharedLayer, causal: bool) -> list[float]:
    """The numbers of `AGREEMENTS`."""
    cells = torch.ones_like(layer.after, dtype=torch.bool)
    cells = cells.tril() if causal else cells
    gained, gained_by_reference = (shares(each.after) - shares(each.before) for each in (layer, reference))
    return [
        spearman(layer.after, reference.after, cells),
        spearman(gained, gained_by_reference, cells),
        float((layer.after - reference.after).abs().max() / reference.after.max()),
        rank_change(layer.before, layer.after, cells),
        layer.completeness,
    ]
