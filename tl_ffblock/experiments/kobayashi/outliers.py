"""Outlier dimensions of the feed-forward and the gain of the next norm (Fig. 8, 28-32).

- `correlation`: Pearson and Spearman correlation of FF's output (mean absolute value over tokens) with the gain of the next
  norm after it, over the dimensions of a layer. The same for FF's input.
- `dimensions`: its values, one row per layer and dimension.
- `ignored`: contextualization change by FF (1 - Spearman's rho) with all dimensions, and without the fraction with the smallest
  absolute gain (option `ignored_dimensions`). `cells` says which cells are ranked, as in the study of contextualization; the
  paper's numbers are over all cells, structural zeros included. Controls omit as many of the other dimensions, those largest in
  FF's output (mean absolute value in the sequence), or as many random ones. Maps are norms over the remaining dimensions,
  before and after FF; in one more row only after it, because "in calculating FF's contextualization" has both readings.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from scipy.stats import pearsonr, spearmanr
from torch import Tensor

from tl_ffblock.corpus.study import (
    Figures,
    Moments,
    MomentsStudy,
    Observation,
    Options,
    ShardArrays,
    Tables,
    table_over,
)
from tl_ffblock.layer.linear import decompose_record
from tl_ffblock.layer.records import LayerRecord, Norm, Settings
from tl_ffblock.layer.scopes import PROGRAMS, Normalise, feed_step
from tl_ffblock.numerals import signed
from tl_ffblock.results import figures as draw
from tl_ffblock.results.ranks import rank_change

QUERIES = 32
"""Number of rows decomposed at a time."""
VARIANTS = (
    "all",
    "without smallest gains",
    "without smallest gains, after FF only",
    "without largest others",
    "without random",
)


@dataclass(frozen=True)
class OutliersOptions(Options):
    """Options of the slow part."""

    shares: ClassVar[tuple[str, ...]] = ("ignored_dimensions",)
    ignored_dimensions: float = 0.01
    """Fraction of the dimensions, those with the smallest gain, that is omitted when the change by FF is measured again; 0 skips this."""


class Outliers(MomentsStudy):
    """Dimensions with large values, and the next norm's gain."""

    name = "outliers"
    title = "Outlier dimensions and the gain of the next norm"
    repeats = "Fig. 8, 28-32"
    captions: ClassVar[Mapping[str, str]] = {
        "correlation": "Over all dimensions of a layer: correlation of the feed-forward's mean size with the next norm's gain. "
        "They are not a sample of dimensions, so there is no standard error.",
        "scatter": "All dimensions of the two extreme layers: means over tokens with standard errors, mostly within the dots.",
        "ignored": "Change of the map by the feed-forward without some dimensions, and with all: "
        f"{draw.SCATTER_OF_MEAN}.",
    }
    options: OutliersOptions

    def measure(self, observed: Observation) -> dict[str, Moments]:
        feed = feed_step(self.facts.order)
        (operand,) = feed.operands
        moments = {
            name: Moments.of(np.stack([r.tensor(of).double().abs().cpu().numpy() for r in observed.records], axis=1))
            for name, of in (("input", operand), ("output", feed.scope))
        }
        gains = [self._next_norm(record).gain.double().cpu().numpy() for record in observed.records]
        moments["gain"] = Moments.of(np.stack(gains)[None])
        if self.options.ignored_dimensions:
            changes = np.array([self._changes(record) for record in observed.records])  # [layer cells variant]
            moments["changes"] = Moments.of(changes.transpose(1, 2, 0)[None])
        return moments

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        gain = self.moments(shards, "gain").mean
        sides = {name: self.moments(shards, name) for name in ("input", "output")}
        columns = dict(
            gain=gain,
            input=sides["input"].mean,
            output=sides["output"].mean,
            output_deviation=sides["output"].deviation,
            tokens=sides["output"].count,
        )
        axes: dict[str, Sequence[object]] = {"layer": range(gain.shape[0]), "dimension": range(gain.shape[1])}
        tables = {"correlation": _correlation(sides, gain), "dimensions": table_over(axes, columns)}
        if self.options.ignored_dimensions:
            changes = self.moments(shards, "changes")
            columns = dict(change=changes.value, deviation=changes.deviation, sequences=changes.count)
            axes = {"cells": self.facts.cells, "dimensions": VARIANTS, "layer": range(self.facts.n_layers)}
            tables["ignored"] = table_over(axes, columns)
        return tables

    def figures(self, tables: Tables) -> Figures:
        correlation = tables["correlation"]
        lines = {
            f"{of} ({how})": group[how.lower()].to_numpy()
            for of, group in correlation.groupby("of", sort=False)
            for how in ("Pearson", "Spearman")
        }
        over_layers = draw.layer_lines(lines, ylabel="correlation of |FF| with gain")
        over_layers.axes[0].axhline(0, color="black", linewidth=0.5)
        figures: Figures = {"correlation": over_layers, "scatter": _scatter(tables["dimensions"], correlation)}
        if "ignored" in tables:
            panels = {
                str(variant): draw.Spread.of(rows, "change")
                for variant, rows in self._ranked(tables["ignored"]).groupby("dimensions", sort=False)
            }
            figures["ignored"] = draw.layer_panels(panels, ylabel="change by FF, 1 − ρ")
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        rho = tables["correlation"].query("of == 'output'").set_index("layer")["spearman"].dropna()
        if rho.empty:
            return ()
        return (
            f"Where the feed-forward's output is large the next norm's gain is small in {int((rho < 0).sum())} of {len(rho)} "
            f"layers: Spearman from {signed(rho.min())} (layer {rho.idxmin()}) to {signed(rho.max())} (layer {rho.idxmax()}).",
        )

    def overview(self, tables: Tables) -> Tables:
        output = tables["correlation"].query("of == 'output'")
        shown = {
            "correlation of FF's output with the gain": output[["layer", "pearson", "spearman", "largest_to_median"]]
        }
        if "ignored" in tables:
            wide = self._ranked(tables["ignored"]).pivot(index="layer", columns="dimensions", values="change")
            shown["change by FF, 1 − ρ"] = wide[list(VARIANTS)].reset_index()
        return shown

    def _ranked(self, ignored: pd.DataFrame) -> pd.DataFrame:
        return ignored[ignored["cells"] == self.facts.cells[0]]

    def _next_norm(self, record: LayerRecord) -> Norm:
        program = PROGRAMS[self.facts.order]
        behind = program[program.index(feed_step(self.facts.order)) :]
        operation = next(step.operation for step in behind if isinstance(step.operation, Normalise))
        return record.block.norm(operation.norm)

    def _changes(self, record: LayerRecord) -> list[list[float]]:
        """Change by FF, one row per set of cells and one column per variant."""
        scopes = str(self.facts.feed_forward.before), self.facts.feed_forward.scope
        left_out = self._left_out(record)
        maps: dict[tuple[int, str], list[Tensor]] = {}
        for start in range(0, len(record.queries), QUERIES):
            with torch.no_grad():
                vectors = decompose_record(record.rows(slice(start, start + QUERIES)), Settings())
            for scope in scopes:
                squares = vectors.parts(scope).square()
                for number, dimensions in enumerate(left_out):
                    keep = torch.ones(squares.shape[-1], dtype=torch.bool, device=squares.device)
                    keep[dimensions.to(squares.device)] = False
                    maps.setdefault((number, scope), []).append(squares[..., keep].sum(dim=-1).sqrt())
        everything, smallest, largest, random = range(len(left_out))
        pairs = ((everything,) * 2, (smallest,) * 2, (everything, smallest), (largest,) * 2, (random,) * 2)
        compared = [[torch.cat(maps[less, scope]) for less, scope in zip(pair, scopes, strict=True)] for pair in pairs]
        ones = torch.ones_like(compared[0][0], dtype=torch.bool)
        ranked = {"reachable": ones.tril(), "all": ones}
        return [[rank_change(before, after, ranked[kind]) for before, after in compared] for kind in self.facts.cells]

    def _left_out(self, record: LayerRecord) -> tuple[Int[Tensor, " dimension"], ...]:
        """Omitted dimensions: none; those with the smallest gains; the largest of FF's output among the others; random ones."""
        d_model = record.resid_pre.shape[-1]
        ignored = max(1, round(self.options.ignored_dimensions * d_model))
        by_gain = self._next_norm(record).gain.abs().argsort(stable=True).cpu()
        smallest, others = by_gain[:ignored], by_gain[ignored:].sort().values
        size = record.tensor(self.facts.feed_forward.scope).abs().mean(dim=0).cpu()
        largest = others[size[others].argsort(descending=True, stable=True)[:ignored]]
        random = np.random.default_rng([self.config.seed, record.layer]).choice(d_model, ignored, replace=False)
        return by_gain[:0], smallest, largest, torch.as_tensor(random)


def _correlation(sides: Mapping[str, Moments], gain: Float[np.ndarray, "layer dimension"]) -> pd.DataFrame:
    def varying(measure: Any, size: np.ndarray, gains: np.ndarray) -> float:
        return float(measure(size, gains)[0]) if np.ptp(gains) > 0 and np.ptp(size) > 0 else np.nan

    rows = [
        dict(
            of=name,
            layer=layer,
            pearson=varying(pearsonr, size, gains),
            spearman=varying(spearmanr, size, gains),
            spearman_size=varying(spearmanr, size, np.abs(gains)),
            largest_to_median=float(size.max() / np.median(size)),
            tokens=int(side.count.flat[0]),
        )
        for name, side in sides.items()
        for layer, (size, gains) in enumerate(zip(side.mean, gain, strict=True))
    ]
    return pd.DataFrame(rows)


def _scatter(dimensions: pd.DataFrame, correlation: pd.DataFrame) -> Any:
    """Value against gain in the layers of the strongest negative and of the weakest correlation."""
    output = correlation.query("of == 'output'").set_index("layer")["spearman"]
    layers = [int(output.fillna(1).idxmin()), int(output.fillna(-1).idxmax())]
    figure, panels = draw.axes(columns=2, width=2 * draw.COLUMN, height=2.3, sharey=False)
    for ax, layer in zip(panels, layers, strict=True):
        rows = dimensions.query("layer == @layer")
        size = draw.Spread.of(rows, "output", deviation="output_deviation", count="tokens")
        look = dict(color=draw.COLOURS[0], alpha=0.6, linestyle="none", elinewidth=0.6)
        ax.errorbar(rows["gain"], size.mean, size.error, marker="o", markersize=2.2, markeredgewidth=0, **look)
        ax.set_yscale("log")
        ax.set_title(f"layer {layer}: Spearman {signed(output[layer])}", fontsize=8)
        ax.set_xlabel("gain of the next norm")
        ax.set_ylabel("mean |FF output|, by dimension")
    return figure
