"""Means over prompts with 95 % intervals, by bootstrap: prompts are drawn again with replacement, whole.

All that is read of a prompt is drawn together, so that differences of two readings of the same prompts
are paired; it is the percentile interval, as `scipy.stats.bootstrap(..., method="percentile")` has it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Num
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.results.ranks import centred_ranks

# Draws of the bootstrap unless told otherwise.
N_DRAWS = 2000
# The ends of a 95 % interval.
PERCENTILES = (2.5, 97.5)
_CELLS_AT_A_TIME = 4096


@dataclass(frozen=True)
class MeanInterval:
    """A mean over prompts with its 95 % interval, cell by cell."""

    mean: Float[Tensor, "*cell"]
    """NaN where no prompt has the cell."""
    low: Float[Tensor, "*cell"]
    """NaN, as is `high`, where fewer than two prompts have the cell: one says nothing of others."""
    high: Float[Tensor, "*cell"]
    counts: Int[Tensor, "*cell"]
    """How many prompts have the cell."""


# Entries of a result's provenance that are part of its identity.
MADE_HOW = ("fingerprint", "rules", "method", "value_bias", "precision")
# What a result says that does not know its fingerprint, or whose model was not named.
UNKNOWN = ("", "model")


def identity_of(quantity: str, model: str, made: Mapping[str, str]) -> dict[str, str]:
    """What must be the same of results of which there is a mean: quantity, model and weights, how they were made."""
    return {"quantity": quantity, "model": model} | {name: made.get(name, "") for name in MADE_HOW}


def refuse_mixed(results: Sequence[Any], verb: str) -> None:
    """Refuse a mean of unlike results: it is of one quantity, one model and one kind of rules.

    What a result does not know of itself, such as the fingerprint of weights in an older file, is not compared.

    Args:
        results: One or more.
        verb: What is done, for the error.

    Raises:
        InputError: naming the first two that differ, and in what.
    """
    known: dict[str, tuple[int, str]] = {}
    for number, result in enumerate(results):
        for name, value in result.identity.items():
            first, expected = (number, value) if value in UNKNOWN else known.setdefault(name, (number, value))
            if value != expected:
                what = "weights, by their fingerprints" if name == "fingerprint" else name
                raise InputError(
                    f"cannot {verb} results {first} and {number}, which differ in {what}: {brief(expected)} against {brief(value)}. "
                    "A mean is of one quantity, one model and one kind of rules; subtract results to compare them."
                )


def bootstrap_weights(n_prompts: int, n_draws: int, seed: int) -> Float[np.ndarray, "draw prompt"]:
    """How often each draw takes each prompt."""
    drawn = np.random.default_rng(seed).integers(0, n_prompts, (n_draws, n_prompts))
    weights = np.zeros((n_draws, n_prompts))
    np.add.at(weights, (np.arange(n_draws)[:, None], drawn), 1.0)
    return weights


def mean_interval(values: Float[Tensor, "prompt ..."], *, n_draws: int = N_DRAWS, seed: int = 0) -> MeanInterval:
    """The mean over prompts of every cell, with its interval.

    A prompt that does not have a cell (NaN) is left out of the cell's mean, and of every draw's.

    Args:
        values: One number a prompt and cell.
        n_draws: Draws of the bootstrap.
        seed: Same seed, same draws; those of results with as many prompts are the same, too.
    """
    table = values.detach().cpu().double().reshape(len(values), -1).numpy()
    present = ~np.isnan(table)
    filled = np.where(present, table, 0.0)
    counts = present.sum(axis=0)
    low, high = (np.full(table.shape[1], np.nan) for _ in PERCENTILES)
    weights = bootstrap_weights(len(table), n_draws, seed)
    for begin in range(0, table.shape[1], _CELLS_AT_A_TIME):
        cells = slice(begin, begin + _CELLS_AT_A_TIME)
        ends = _ends(_ratio(weights @ filled[:, cells], weights @ present[:, cells]))
        low[cells], high[cells] = np.where(counts[cells] > 1, ends, np.nan)
    mean = _ratio(filled.sum(axis=0), counts)
    return MeanInterval(*(torch.from_numpy(numbers).reshape(values.shape[1:]) for numbers in (mean, low, high, counts)))


def _ratio(sums: Float[np.ndarray, "*cell"], counts: Num[np.ndarray, "*cell"]) -> Float[np.ndarray, "*cell"]:
    """A mean; NaN of nothing."""
    return np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=counts > 0)


def _ends(means: Float[np.ndarray, "draw cell"]) -> Float[np.ndarray, "end cell"]:
    """Percentiles of the draws that have the cell."""
    ends = np.percentile(means, PERCENTILES, axis=0)
    known = np.isnan(means).any(axis=0) & ~np.isnan(means).all(axis=0)
    ends[:, known] = np.nanpercentile(means[:, known], PERCENTILES, axis=0)
    return ends


@dataclass(frozen=True, eq=False)
class Correlation:
    """Spearman's rho with what the bootstrap drew: per layer, and the mean over layers."""

    layers: Int[np.ndarray, " layer"]
    rho: Float[np.ndarray, " layer"]
    """NaN where a variable is constant."""
    draws: Float[np.ndarray, "draw layer"]
    """Rho of every draw of the bootstrap."""
    counts: Int[np.ndarray, " layer"]
    """Cells by layer."""

    def of_layer(self, number: int) -> tuple[float, float, float]:
        """Rho and its 95 % interval for one entry of `layers`."""
        return _summary(self.rho[number], self.draws[:, number])

    def mean(self) -> tuple[float, float, float]:
        """The mean over layers and its 95 % interval."""
        return _summary(_mean(self.rho[None])[0], _mean(self.draws))

    def minus(self, other: "Correlation") -> tuple[float, float, float]:
        """Difference of the two means over layers with its interval, on the same draws."""
        return _summary(_mean(self.rho[None])[0] - _mean(other.rho[None])[0], _mean(self.draws) - _mean(other.draws))


def rank_correlation(
    prediction: Float[np.ndarray, " cell"],
    effect: Float[np.ndarray, " cell"],
    layer: Int[np.ndarray, " cell"],
    prompt: Int[np.ndarray, " cell"],
    weights: Float[np.ndarray, "draw prompt"],
) -> Correlation:
    """Spearman's rho within every layer.

    Args:
        prediction: What is correlated; no NaN.
        effect: With what; no NaN.
        layer: The layer of each cell; cells of different layers are never ranked together.
        prompt: The prompt of each cell, from 0.
        weights: How often each draw of the bootstrap took each prompt, as `intervals.bootstrap_weights` gives it.
    """
    layers = np.unique(layer)
    moments = np.zeros((weights.shape[1], len(layers), 6))
    for number, name in enumerate(layers):
        cells = layer == name
        x, y = (centred_ranks(values[cells]) for values in (prediction, effect))
        np.add.at(moments[:, number], prompt[cells], np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1))
    counts = moments[:, :, 0].sum(axis=0).astype(np.int64)
    draws = np.einsum("dp,plm->dlm", weights, moments)
    return Correlation(layers, _pearson(moments.sum(axis=0)), _pearson(draws), counts)


def _pearson(moments: Float[np.ndarray, "*lead 6"]) -> Float[np.ndarray, "*lead"]:
    """Of the sums of 1, x, y, x^2, y^2, x y."""
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = xy - x * y / n
        spread = np.sqrt(np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0))
        return np.where(spread > 1e-9, covariance / spread, np.nan)


def _mean(rho: Float[np.ndarray, "row layer"]) -> Float[np.ndarray, " row"]:
    """Mean over layers, those without a correlation left out."""
    known = ~np.isnan(rho)
    return _ratio(np.where(known, rho, 0).sum(axis=1), known.sum(axis=1))


def _summary(value: float, draws: Float[np.ndarray, " draw"]) -> tuple[float, float, float]:
    known = draws[~np.isnan(draws)]
    low, high = np.percentile(known, PERCENTILES) if len(known) else (np.nan, np.nan)
    return float(value), float(low), float(high)
