"""Integrated Gradients compared with Shapley values on short inputs (Fig. 11, appendix E).

Methods: `ig` in closed form, `captum` by Gauss-Legendre quadrature as in the paper, `shapley` exactly by enumeration,
`sampling` and `kernel` as estimates by the `shap` package. Two linear approximations answer what an approximation of the
activation, as in DecompX (Modarressi et al. 2023), would change (future work of appendix A.2): `tangent` has its slope at the
model's pre-activations, `mask` the slope of ReLU there, 0 or 1. The part of the output that they do not attribute is in the bias.
DecompX's own slope f(x) / x is `ig` in feed-forwards without a gate. Inputs are the first tokens of each sequence (option
`short_tokens`).

- `agreement`: of each method with `ig` (and with `shapley`), per layer: Spearman's rho of the maps after the feed-forward and
  of FF-amp, the largest difference of a cell relative to the map's largest, and the method's contextualization change by FF.
- `time`: seconds per layer.
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

METHODS = ("ig", "captum", "shapley", "sampling", "kernel", "tangent", "mask")
REFERENCES = ("ig", "shapley")
_SCATTER = draw.scatter_words("sequences")
DRAWN = ("map_rho", "change")
"""Numbers of `AGREEMENTS` in figures."""
AGREEMENTS = ("map_rho", "amplification_rho", "largest_difference", "change", "completeness")
Game: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Worth of coalitions: [coalition player], 1 for a player in it -> [coalition d]."""
Estimate: TypeAlias = Literal["sampling", "kernel"]
Slope: TypeAlias = Literal["tangent", "mask"]
Values: TypeAlias = Callable[[Game, int], Float[np.ndarray, "player d"]]
"""Function of a game and its number of players that gives each player's value."""


def exact_values(game: Game, players: int) -> Float[np.ndarray, "player d"]:
    """Shapley values of a feed-forward's players (tokens' terms and bias part), by enumeration of all coalitions.

    The game at one position (appendix E): the worth of a coalition is the feed-forward's output [d_model] if only its players'
    pre-activations are summed. Shapley values are linear in the worth, so attributing the output equals attributing the
    activations and multiplying by the output matrix.
    """
    coalitions, weights = _enumeration(players)
    return weights @ game(coalitions)


def estimated_values(kind: Estimate, samples: int, seed: int) -> Values:
    """Estimator of the `shap` package: sampled permutations with their reverses, or KernelSHAP (Lundberg and Lee 2017)."""

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
    """A layer whose feed-forward's output is attributed by Shapley values instead of Integrated Gradients."""

    def __init__(self, record: LayerRecord, settings: Settings, values: Values = exact_values) -> None:
        super().__init__(record, settings)
        self._values = values

    def feed_forward(self, parts: Parts, _x: Tensor) -> Parts:
        ff, gate, linear = _pre_activations(self.block.feed_forward, parts)
        shared = torch.stack([self._row(ff, linear, gate, query) for query in range(len(parts.bias))])
        keys = parts.tokens.shape[1]
        start = ff.activation.output(
            torch.zeros_like(linear.bias), None if gate is None else torch.zeros_like(linear.bias)
        )
        return Parts(shared[:, :keys], shared[:, keys] + start @ ff.w_out + ff.b_out)

    def _row(self, ff: FeedForward, linear: Parts, gate: Parts | None, query: int) -> Float[Tensor, "player d"]:
        """Shapley values at one position; players with a zero pre-activation are not in the game.

        Without a gate the activation reads the linear branch, which then replaces the gate.
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


class SlopedLayer(LinearLayer):
    """A layer whose activation is replaced by a slope at its pre-activations; the rest of the output is in the bias part."""

    def __init__(self, record: LayerRecord, settings: Settings, slope: Slope) -> None:
        super().__init__(record, settings)
        self._slope = slope

    def feed_forward(self, parts: Parts, _x: Tensor) -> Parts:
        ff, gate, linear = _pre_activations(self.block.feed_forward, parts)
        sides = [linear] if gate is None else [gate, linear]
        with torch.enable_grad():
            points = [side.total().detach().requires_grad_() for side in sides]
            output = ff.activation.output(points[0], None if gate is None else points[1])
            line = output if self._slope == "tangent" else torch.relu(points[0]) * (1 if gate is None else points[1])
            slopes = torch.autograd.grad(line.sum(), points)
        tokens = torch.stack([s[:, None] * side.tokens for s, side in zip(slopes, sides, strict=True)]).sum(dim=0)
        return Parts(tokens @ ff.w_out, (output.detach() - tokens.sum(dim=1)) @ ff.w_out + ff.b_out)


def _pre_activations(ff: object, parts: Parts) -> tuple[FeedForward, Parts | None, Parts]:
    """The feed-forward, and its pre-activations of the gate, if it has one, and of the linear branch."""
    if not isinstance(ff, FeedForward):
        raise UnsupportedModelError("attribution-methods needs dense feed-forwards, not a mixture of experts.")
    gate = None if ff.w_gate is None or ff.b_gate is None else project(parts, ff.w_gate, ff.b_gate)
    return ff, gate, project(parts, ff.w_in, ff.b_in)


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
    """Number of tokens per sequence in attribution-methods; the cost of exact Shapley values is proportional to 2 to its power."""
    shapley_samples: int = 128
    """Number of coalitions that sampling and kernel Shapley values may evaluate, per position and layer."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.short_tokens > 12:
            raise InputError(
                f"short_tokens={self.short_tokens}: expected at most 12, since all coalitions are enumerated."
            )


@dataclass(frozen=True)
class SharedLayer:
    """Maps of one layer by one method."""

    before: Float[Tensor, "query key"]
    """Map before the feed-forward."""
    after: Float[Tensor, "query key"]
    """Map after it."""
    completeness: float
    """Relative completeness error after it."""

    def agreement(self, reference: "SharedLayer", causal: bool) -> list[float]:
        """Numbers of `AGREEMENTS`, compared with a reference."""
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
    """Methods that attribute a feed-forward's output to tokens."""

    name = "attribution-methods"
    title = "Integrated Gradients and Shapley values"
    repeats = "appendix E, Fig. 11"
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
        with torch.no_grad():  # captum enables gradients itself
            parts_at = self._linear(record, method, number).parts([step.scope])
        before, after = (parts_at[scope].tokens.detach().norm(dim=-1) for scope in (str(step.before), step.scope))
        whole = record.whole[step.scope]
        error = float((parts_at[step.scope].total().detach() - whole).norm() / whole.norm())
        return SharedLayer(before, after, error)

    def _linear(self, record: LayerRecord, method: str, number: int) -> LinearLayer:
        settings = Settings(method="captum" if method == "captum" else "exact", precision="float64")
        if method in ("ig", "captum"):
            return LinearLayer(record, settings)
        if method in ("tangent", "mask"):
            return SlopedLayer(record, settings, "tangent" if method == "tangent" else "mask")
        seed = int(np.random.default_rng([self.config.seed, max(number, 0), record.layer]).integers(2**31))
        kind: Estimate = "sampling" if method == "sampling" else "kernel"
        estimated = estimated_values(kind, self.options.shapley_samples, seed)
        return ShapleyLayer(record, settings, exact_values if method == "shapley" else estimated)
