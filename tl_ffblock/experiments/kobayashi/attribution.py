"""Integrated Gradients against Shapley values on short inputs (Fig. 11, appendix E).

Methods: `ig` closed form, `captum` Gauss-Legendre as in the paper, `shapley` exact by enumeration,
`sampling` and `kernel` its estimates by the `shap` package. Inputs are the first tokens of each sequence
(option `short_tokens`).

- `agreement`: of each method with `ig` (and with `shapley`), per layer: Spearman's rho of the maps after
  the feed-forward and of FF-amp, the largest difference of a cell relative to the map's largest, and the
  contextualization change by FF that the method gives.
- `time`: seconds a layer.
"""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.runs import kept_records, open_run
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
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.linear import LinearLayer, Parts, project
from tl_ffblock.layer.records import FeedForward, LayerRecord, Settings
from tl_ffblock.results import figures as draw
from tl_ffblock.results.ranks import rank_change, shares, spearman

METHODS = ("ig", "captum", "shapley", "sampling", "kernel")
REFERENCES = ("ig", "shapley")
_SCATTER = draw.scatter_words("sequences")
DRAWN = ("map_rho", "change")
"""Agreements of the figures."""
AGREEMENTS = ("map_rho", "amplification_rho", "largest_difference", "change", "completeness")
Game: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Worth of coalitions: [coalition player], 1 where a player takes part -> [coalition d]."""
Estimate: TypeAlias = Literal["sampling", "kernel"]
Values: TypeAlias = Callable[[Game, int], Float[np.ndarray, "player d"]]
"""A game and its number of players -> the share of each."""


def exact_values(game: Game, players: int) -> Float[np.ndarray, "player d"]:
    """Shapley values of a feed-forward's players, the tokens' parts and the bias part, by enumeration of all coalitions.

    The game at one position (appendix E): a coalition's worth is the feed-forward's output, [d_model] at once, when only
    its players' pre-activations are summed. Shapley values are linear in the worth, so attributing after the output matrix is
    attributing before it and multiplying.
    """
    coalitions, weights = _enumeration(players)
    return weights @ game(coalitions)


def estimated_values(kind: Estimate, samples: int, seed: int) -> Values:
    """Share by the `shap` package: permutations sampled with their reverses, or KernelSHAP (Lundberg and Lee 2017)."""

    def values(game: Game, players: int) -> Float[np.ndarray, "player d"]:
        import shap

        absent, present = np.zeros((1, players)), np.ones((1, players))
        state = np.random.get_state()
        np.random.seed(seed)  # shap draws from numpy's global generator
        try:
            if kind == "sampling":
                explainer: Any = shap.explainers.Permutation(game, absent, seed=seed)
                shares = explainer(present, max_evals=max(samples, 2 * players + 1), silent=True).values
            else:
                explainer = shap.KernelExplainer(game, absent)
                shares = explainer.shap_values(present, nsamples=samples, l1_reg=False, silent=True)
        finally:
            np.random.set_state(state)
        return np.asarray(shares).reshape(players, -1)

    return values


class ShapleyLayer(LinearLayer):
    """A layer whose feed-forward shares its output by Shapley values instead of Integrated Gradients."""

    def __init__(self, record: LayerRecord, settings: Settings, values: Values = exact_values) -> None:
        super().__init__(record, settings)
        self._values = values

    def feed_forward(self, parts: Parts, _x: Tensor) -> Parts:
        ff = self.block.feed_forward
        if not isinstance(ff, FeedForward):
            raise UnsupportedModelError("Shapley values are computed for a dense feed-forward, not for experts.")
        gate = None if ff.w_gate is None or ff.b_gate is None else project(parts, ff.w_gate, ff.b_gate)
        linear = project(parts, ff.w_in, ff.b_in)
        shared = torch.stack([self._row(ff, linear, gate, query) for query in range(len(parts.bias))])
        keys = parts.tokens.shape[1]
        start = ff.activation.output(
            torch.zeros_like(linear.bias), None if gate is None else torch.zeros_like(linear.bias)
        )
        return Parts(shared[:, :keys], shared[:, keys] + start @ ff.w_out + ff.b_out)

    def _row(self, ff: FeedForward, linear: Parts, gate: Parts | None, query: int) -> Float[Tensor, "player d"]:
        """The shares at one position; players that contribute nothing are left out of the game.

        Without a gate the activation reads the linear branch, which then stands in the gate's place.
        """
        stacked = [torch.cat([p.tokens[query], p.bias[query][None]]) for p in (gate or linear, linear)]
        active = stacked[0].abs().sum(dim=1) + stacked[1].abs().sum(dim=1) > 0
        gated, linear_parts = (players[active] for players in stacked)

        def game(coalitions: np.ndarray) -> np.ndarray:
            chosen = torch.as_tensor(np.asarray(coalitions), dtype=gated.dtype)
            out = ff.activation.output(chosen @ gated, None if gate is None else chosen @ linear_parts)
            return (out @ ff.w_out).numpy()

        shares = self._values(game, int(active.sum()))
        row = torch.zeros(len(active), ff.w_out.shape[1], dtype=gated.dtype)
        row[active] = torch.as_tensor(np.ascontiguousarray(shares), dtype=gated.dtype)
        return row


@cache
def _enumeration(
    players: int,
) -> tuple[Int[np.ndarray, "coalition player"], Float[np.ndarray, "player coalition"]]:
    """All coalitions, and the factor of each one's worth in each player's value."""
    coalitions = (np.arange(2**players)[:, None] >> np.arange(players)) & 1
    size = coalitions.sum(axis=1)
    factorial = [math.factorial(k) for k in range(players + 1)]
    joined = np.array([factorial[max(s - 1, 0)] * factorial[players - s] / factorial[players] for s in size])
    without = np.array([factorial[s] * factorial[max(players - s - 1, 0)] / factorial[players] for s in size])
    return coalitions, np.where(coalitions.T == 1, joined, -without)


@dataclass(frozen=True)
class AttributionOptions(Options):
    """Sizes of the games."""

    least: ClassVar[Mapping[str, int]] = {"short_tokens": 2, "shapley_samples": 1}
    short_tokens: int = 6
    """Tokens of a sequence in attribution-methods; exact Shapley values take 2 to the power of it."""
    shapley_samples: int = 128
    """Coalitions that sampling and kernel Shapley values may look at, for each position and layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def agreement(self, reference: "SharedLayer", causal: bool) -> list[float]:
        """The numbers of `AGREEMENTS`."""
        cells = torch.ones_like(self.after, dtype=torch.bool)
        cells = cells.tril() if causal else cells
        gained, gained_by_reference = (shares(each.after) - shares(each.before) for each in (self, reference))
        return [
            spearman(self.after, reference.after, cells),
            spearman(gained, gained_by_reference, cells),
            float((self.after - reference.after).abs().max() / reference.after.max()),
            rank_change(self.before, self.after, cells),
            self.completeness,
        ]


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
                    agreement[row, r, i] = layers[i].agreement(layers[METHODS.index(reference)], record.block.causal)
        return {"agreement": Moments.of(agreement[None]), "seconds": Moments.of(seconds[None])}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        agreement, seconds = self.moments(shards, "agreement"), self.moments(shards, "seconds")
        scatter = dict(zip(AGREEMENTS, agreement.deviation.T, strict=True))
        columns = dict(zip(AGREEMENTS, agreement.value.T, strict=True))  # [method reference layer]
        columns |= {f"{name}_deviation": scatter[name] for name in DRAWN}
        columns["sequences"] = agreement.count.max(axis=-1).T
        axes = {"reference": REFERENCES, "method": METHODS, "layer": range(self.facts.n_layers)}
        by_reference = {name: values.swapaxes(0, 1) for name, values in columns.items()}
        axes_of_time = {name: axes[name] for name in ("method", "layer")}
        return {
            "agreement": table_over(axes, by_reference),
            "time": table_over(axes_of_time, {"seconds": seconds.value.T, "sequences": seconds.count.T}),
        }

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

    def _layer(self, record: LayerRecord, method: str, number: int) -> SharedLayer:
        step = self.facts.feed_forward
        with torch.no_grad():  # captum asks for gradients itself
            parts_at = self._linear(record, method, number).parts([step.scope])
        before, after = (parts_at[scope].tokens.detach().norm(dim=-1) for scope in (str(step.before), step.scope))
        whole = record.whole[step.scope]
        error = float((parts_at[step.scope].total().detach() - whole).norm() / whole.norm())
        return SharedLayer(before, after, error)

    def _linear(self, record: LayerRecord, method: str, number: int) -> LinearLayer:
        settings = Settings(method="captum" if method == "captum" else "exact", precision="float64")
        if method in ("ig", "captum"):
            return LinearLayer(record, settings)
        seed = int(np.random.default_rng([self.config.seed, max(number, 0), record.layer]).integers(2**31))
        kind: Estimate = "sampling" if method == "sampling" else "kernel"
        estimated = estimated_values(kind, self.options.shapley_samples, seed)
        return ShapleyLayer(record, settings, exact_values if method == "shapley" else estimated)
