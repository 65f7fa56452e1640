"""Rank correlation of predictions with effects, with bootstrap intervals over prompts.

Spearman's rho is Pearson's correlation of ranks. For the intervals prompts are drawn again with
replacement, with their cells together, since cells of one prompt are not independent. Ranks are those
of the full sample, so that a draw is a weighted sum of per-prompt moments.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from tl_ffblock.results.intervals import PERCENTILES
from tl_ffblock.results.ranks import centred_ranks


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
        columns = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
        np.add.at(moments[:, number], prompt[cells], columns)
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
    total = np.where(known, rho, 0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def _summary(value: float, draws: Float[np.ndarray, " draw"]) -> tuple[float, float, float]:
    known = draws[~np.isnan(draws)]
    low, high = np.percentile(known, PERCENTILES) if len(known) else (np.nan, np.nan)
    return float(value), float(low), float(high)
