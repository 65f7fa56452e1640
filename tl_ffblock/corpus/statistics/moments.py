"""Count, mean and spread of arrays, cell by cell, in one pass and mergeable.

The pairwise update of Chan, Golub and LeVeque 1979 ("Updating formulae and a pairwise algorithm for
computing sample variances", eq. 2.1): merging in the same order gives the same bits. NaN is no value:
it counts in no cell.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Moments:
    """Streaming statistics of samples of one shape."""

    count: np.ndarray
    mean: np.ndarray
    squares: np.ndarray
    """Sum of squared deviations from the mean."""

    @classmethod
    def of(cls, samples: np.ndarray) -> "Moments":
        """Of samples along the first axis."""
        samples = np.asarray(samples, dtype=np.float64)
        known = ~np.isnan(samples)
        count = known.sum(axis=0)
        mean = np.where(known, samples, 0).sum(axis=0) / np.maximum(count, 1)
        squares = np.where(known, samples - mean, 0) ** 2
        return cls(count.astype(np.int64), mean, squares.sum(axis=0))

    def merge(self, other: "Moments") -> "Moments":
        """Of both sets of samples."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        gap = other.mean - self.mean
        mean = self.mean + gap * share
        return Moments(count, mean, self.squares + other.squares + gap**2 * self.count * share)

    @property
    def value(self) -> np.ndarray:
        """The mean; NaN where nothing was counted."""
        return np.where(self.count > 0, self.mean, np.nan)

    @property
    def deviation(self) -> np.ndarray:
        """Standard deviation of the samples (n - 1); NaN below two."""
        spread = self.squares / np.maximum(self.count - 1, 1)
        return np.where(self.count > 1, np.sqrt(spread), np.nan)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """For a shard."""
        return {f"{name}.count": self.count, f"{name}.mean": self.mean, f"{name}.squares": self.squares}

    @classmethod
    def read(cls, shard: Mapping[str, np.ndarray], name: str) -> "Moments":
        """From a shard."""
        return cls(*(shard[f"{name}.{part}"] for part in ("count", "mean", "squares")))


def merged(moments: Iterable[Moments]) -> Moments:
    """All of them, in order."""
    first, *others = moments
    for other in others:
        first = first.merge(other)
    return first
