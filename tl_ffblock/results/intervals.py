"""Means over prompts with 95 % intervals by bootstrap: whole prompts are sampled with replacement.

All values of a prompt are sampled together, so that differences between values of the same prompts are paired. Intervals are
percentile intervals, as in `scipy.stats.bootstrap(..., method="percentile")`.
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

# Default number of bootstrap samples.
N_DRAWS = 2000
# Percentiles of a 95 % interval.
PERCENTILES = (2.5, 97.5)
_CELLS_AT_A_TIME = 4096


@dataclass(frozen=True)
class MeanInterval:
    """Mean over prompts with its 95 % interval, cell by cell."""

    mean: Float[Tensor, "*cell"]
    """NaN if no prompt has the cell."""
    low: Float[Tensor, "*cell"]
    """Lower end; NaN, as is `high`, if fewer than two prompts have the cell."""
    high: Float[Tensor, "*cell"]
    counts: Int[Tensor, "*cell"]
    """Number of prompts that have the cell."""


# Entries of a result's provenance that are part of its identity.
MADE_HOW = ("fingerprint", "rules", "method", "value_bias", "precision")
# Values of unknown fingerprints and unnamed models.
UNKNOWN = ("", "model")


def identity_of(quantity: str, model: str, made: Mapping[str, str]) -> dict[str, str]:
    """What results must have in common to be averaged: quantity, model and weights, settings."""
    return {"quantity": quantity, "model": model} | {name: made.get(name, "") for name in MADE_HOW}


def refuse_mixed(results: Sequence[Any], verb: str) -> None:
    """Refuse a mean of results that differ in quantity, model or rules.

    Unknown values, such as the fingerprint of weights in an older file, are not compared.

    Args:
        results: One or more.
        verb: Name of the operation, for the error.

    Raises:
        InputError: with the first two that differ, and the attribute.
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
    """How often each bootstrap sample has each prompt [draw prompt]."""
    drawn = np.random.default_rng(seed).integers(0, n_prompts, (n_draws, n_prompts))
    weights = np.zeros((n_draws, n_prompts))
    np.add.at(weights, (np.arange(n_draws)[:, None], drawn), 1.0)
    return weights


def mean_interval(values: Float[Tensor, "prompt ..."], *, n_draws: int = N_DRAWS, seed: int = 0) -> MeanInterval:
    """Mean over prompts of every cell, with its interval.

    A prompt without a cell (NaN) is omitted from the cell's mean, and from every bootstrap sample.

    Args:
        values: One number per prompt and cell.
        n_draws: Number of bootstrap samples.
        seed: Seed of the bootstrap. Results with equally many prompts and the same seed have the same samples.
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
    """A mean; NaN if there is no number."""
    return np.divide(sums, counts, out=np.full(np.shape(sums), np.nan), where=counts > 0)


def _ends(means: Float[np.ndarray, "draw cell"]) -> Float[np.ndarray, "end cell"]:
    """Percentiles of the bootstrap samples that have the cell."""
    ends = np.percentile(means, PERCENTILES, axis=0)
    known = np.isnan(means).any(axis=0) & ~np.isnan(means).all(axis=0)
    ends[:, known] = np.nanpercentile(means[:, known], PERCENTILES, axis=0)
    return ends


@dataclass(frozen=True, eq=False)
class Correlation:
    """Spearman's rho per layer and its mean over layers, with bootstrap samples."""

    layers: Int[np.ndarray, " layer"]
    rho: Float[np.ndarray, " layer"]
    """NaN if a variable is constant."""
    draws: Float[np.ndarray, "draw layer"]
    """Rho of every bootstrap sample."""
    counts: Int[np.ndarray, " layer"]
    """Number of cells by layer."""

    def of_layer(self, number: int) -> tuple[float, float, float]:
        """Rho and the ends of its 95 % interval for one entry of `layers`."""
        return _summary(self.rho[number], self.draws[:, number])

    def mean(self) -> tuple[float, float, float]:
        """Mean over layers and the ends of its 95 % interval."""
        return _summary(_mean(self.rho[None])[0], _mean(self.draws))

    def minus(self, other: "Correlation") -> tuple[float, float, float]:
        """Difference of two means over layers with its interval, on the same bootstrap samples."""
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
        prediction: Predictor; no NaN.
        effect: Effect; no NaN.
        layer: Layer of each cell; cells of different layers are ranked separately.
        prompt: Prompt of each cell, from 0.
        weights: How often each bootstrap sample has each prompt, from `intervals.bootstrap_weights`.
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
    """Pearson's r from the sums of 1, x, y, x^2, y^2, x y."""
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        covariance = xy - x * y / n
        spread = np.sqrt(np.maximum(xx - x * x / n, 0) * np.maximum(yy - y * y / n, 0))
        return np.where(spread > 1e-9, covariance / spread, np.nan)


def _mean(rho: Float[np.ndarray, "row layer"]) -> Float[np.ndarray, " row"]:
    """Mean over layers that have a correlation."""
    known = ~np.isnan(rho)
    return _ratio(np.where(known, rho, 0).sum(axis=1), known.sum(axis=1))


def _summary(value: float, draws: Float[np.ndarray, " draw"]) -> tuple[float, float, float]:
    known = draws[~np.isnan(draws)]
    low, high = np.percentile(known, PERCENTILES) if len(known) else (np.nan, np.nan)
    return float(value), float(low), float(high)
