"""Rank correlation of predictions with effects, with bootstrap intervals over prompts.

Spearman's rho is Pearson's correlation of ranks. For the intervals prompts are drawn again with
replacement, with their cells together, since cells of one prompt are not independent. Ranks are those
of the full sample, so that a draw is a weighted sum of per-prompt moments.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tl_ffblock.results.ranks import centred_ranks

Numbers = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Correlation:
    """Spearman's rho with what the bootstrap drew: per layer, and the mean over layers."""

    layers: Labels
    rho: Numbers
    """[layer]; NaN where a variable is constant."""
    draws: Numbers
    """[draw layer]."""
    counts: Labels
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
    prediction: Numbers, effect: Numbers, layer: Labels, prompt: Labels, weights: Numbers
) -> Correlation:
    """Spearman's rho within every layer; `weights` [draw prompt] counts how often a draw took each prompt."""
    layers = np.unique(layer)
    moments = np.zeros((weights.shape[1], len(layers), 6))
    for number, one in enumerate(layers):
        here = layer == one
        x, y = (centred_ranks(values[here]) for values in (prediction, effect))
        columns = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=1)
        np.add.at(moments[:, number], prompt[here], columns)
    counts = moments[:, :, 0].sum(axis=0).astype(np.int64)
    draws = np.einsum("dp,plm->dlm", weights, moments)
    return Correlation(layers, _pearson(moments.sum(axis=0)), _pearson(draws), counts)


def bootstrap_weights(n_prompts: int, n_draws: int, seed: int) -> Numbers:
    """How often each draw takes each prompt, [draw prompt]."""
    generator = np.random.default_rng(seed)
    return generator.multinomial(n_prompts, np.full(n_prompts, 1 / n_prompts), size=n_draws).astype(np.float64)


def _pearson(moments: Numbers) -> Numbers:
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = xy - x * y / n
        spread = np.sqrt(np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0))
        return np.where(spread > 1e-9, covariance / spread, np.nan)


def _mean(rho: Numbers) -> Numbers:
    """Mean over layers, those without a correlation left out."""
    known = ~np.isnan(rho)
    total = np.where(known, rho, 0).sum(axis=1)
    return np.where(known.any(axis=1), total / np.maximum(known.sum(axis=1), 1), np.nan)


def _summary(value: float, draws: Numbers) -> tuple[float, float, float]:
    known = draws[~np.isnan(draws)]
    low, high = np.quantile(known, [0.025, 0.975]) if len(known) else (np.nan, np.nan)
    return float(value), float(low), float(high)
