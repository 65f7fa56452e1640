"""Count, mean and spread of arrays, cell by cell, in one pass and mergeable.

The pairwise update of Chan, Golub and LeVeque 1979 ("Updating formulae and a pairwise algorithm for
computing sample variances", eq. 2.1): merging in the same order gives the same bits. NaN is no value:
it counts in no cell.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int, Shaped

from tl_ffblock.corpus.statistics.arrays import ShardArrays


@dataclass(frozen=True)
class Moments:
    """Streaming statistics of samples of one shape."""

    count: Int[np.ndarray, "*cells"]
    mean: Float[np.ndarray, "*cells"]
    squares: Float[np.ndarray, "*cells"]
    """Sum of squared deviations from the mean."""

    @classmethod
    def of(cls, samples: Shaped[np.ndarray, "sample ..."]) -> "Moments":
        """Count numbers or truth values along the first axis."""
        values = np.asarray(samples, dtype=np.float64)
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        mean = np.where(known, values, 0).sum(axis=0) / np.maximum(count, 1)
        squares = np.where(known, values - mean, 0) ** 2
        return cls(np.asarray(count, dtype=np.int64), np.asarray(mean), np.asarray(squares.sum(axis=0)))

    def merge(self, other: "Moments") -> "Moments":
        """Give the statistics of both sets of samples together."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        gap = other.mean - self.mean
        mean = self.mean + gap * share
        return Moments(count, mean, self.squares + other.squares + gap**2 * self.count * share)

    @property
    def value(self) -> Float[np.ndarray, "*cells"]:
        """The mean; NaN where nothing was counted."""
        return np.where(self.count > 0, self.mean, np.nan)

    @property
    def deviation(self) -> Float[np.ndarray, "*cells"]:
        """Standard deviation of the samples (n - 1); NaN below two."""
        spread = self.squares / np.maximum(self.count - 1, 1)
        return np.where(self.count > 1, np.sqrt(spread), np.nan)

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        """Name the arrays as a shard keeps them."""
        return {f"{name}.count": self.count, f"{name}.mean": self.mean, f"{name}.squares": self.squares}

    @classmethod
    def read(cls, shard: ShardArrays, name: str) -> "Moments":
        """Read what `arrays` named so."""
        return cls(*(shard[f"{name}.{part}"] for part in ("count", "mean", "squares")))


def merged(moments: Iterable[Moments]) -> Moments:
    """Merge all of them, in order."""
    first, *rest = moments
    for more in rest:
        first = first.merge(more)
    return first
