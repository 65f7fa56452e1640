"""Mergeable statistics, as dataclasses of arrays in a shard: moments of samples, sums over token pairs, top items of a stream."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import reduce
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

MERGED_AT_A_TIME = 1_000_000
"""Approximate number of entries, over all shards, that are merged at a time."""
_SHIFT = 32
_Kept = TypeVar("_Kept", bound="Kept")


@runtime_checkable
class ShardArrays(Protocol):
    """Arrays of a shard by name, whole or by rows."""

    def __getitem__(self, name: str) -> np.ndarray: ...

    def __contains__(self, name: str) -> bool: ...

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows from `start` to before `stop` of an array."""


class Kept:
    """Base of dataclasses of arrays that a shard stores, each under a prefix and the name of its field."""

    def arrays(self, prefix: str = "") -> dict[str, np.ndarray]:
        """The arrays by their names in a shard."""
        return {f"{prefix}{field.name}": getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def read(cls: type[_Kept], shard: ShardArrays, prefix: str = "") -> _Kept:
        """The dataclass from the arrays of a shard, named as by `arrays`."""
        return cls(*(shard[f"{prefix}{field.name}"] for field in fields(cls)))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Moments(Kept):
    """Count, mean and squared deviations of samples of one shape, per cell, in one pass.

    The pairwise update of Chan, Golub and LeVeque 1979 ("Updating formulae and a pairwise algorithm for computing sample
    variances", eq. 2.1). Merging in the same order gives the same bits. NaN is not counted in its cell.
    """

    count: Int[np.ndarray, "*cells"]
    mean: Float[np.ndarray, "*cells"]
    squares: Float[np.ndarray, "*cells"]
    """Sum of squared deviations from the mean."""

    @classmethod
    def of(cls, samples: Shaped[np.ndarray, "sample ..."]) -> "Moments":
        """Moments of numbers or booleans along the first axis."""
        values = np.asarray(samples, dtype=np.float64)
        known = ~np.isnan(values)
        count = known.sum(axis=0)
        mean = np.where(known, values, 0).sum(axis=0) / np.maximum(count, 1)
        squares = np.where(known, values - mean, 0) ** 2
        return cls(np.asarray(count, dtype=np.int64), np.asarray(mean), np.asarray(squares.sum(axis=0)))

    def merge(self, other: "Moments") -> "Moments":
        """Moments of both sets of samples together."""
        count = self.count + other.count
        share = other.count / np.maximum(count, 1)
        gap = other.mean - self.mean
        mean = self.mean + gap * share
        return Moments(count, mean, self.squares + other.squares + gap**2 * self.count * share)

    @property
    def value(self) -> Float[np.ndarray, "*cells"]:
        """The mean; NaN for a count of zero."""
        return np.where(self.count > 0, self.mean, np.nan)

    @property
    def deviation(self) -> Float[np.ndarray, "*cells"]:
        """Standard deviation of the samples (n - 1); NaN for fewer than two."""
        spread = self.squares / np.maximum(self.count - 1, 1)
        return np.where(self.count > 1, np.sqrt(spread), np.nan)


def merged(moments: Iterable[Moments]) -> Moments:
    """Moments of all sets together, merged in order."""
    return reduce(Moments.merge, moments)


@dataclass(frozen=True)
class PairSums(Kept):
    """Sums over all occurrences of pairs of vocabulary entries, one row per pair, sorted by key.

    A key is the pair as one integer, `query << 32 | key`; see `pair_keys` and `split_keys`.
    """

    keys: Int[np.ndarray, " pair"]
    count: Int[np.ndarray, " pair"]
    """Number of occurrences."""
    kinds: Int[np.ndarray, "pair kind"]
    """Number of occurrences of each kind."""
    total: Float[np.ndarray, "pair layer"]
    """Sum of the quantity over occurrences."""

    @property
    def mean(self) -> Float[np.ndarray, "pair layer"]:
        """Mean of the quantity over occurrences."""
        return self.total / self.count[:, None]

    def where(self, keep: Bool[np.ndarray, " pair"]) -> "PairSums":
        """The sums of some of the pairs."""
        return PairSums(*(array[keep] for array in self.arrays().values()))


def pair_keys(query: Int[np.ndarray, " pair"], key: Int[np.ndarray, " pair"]) -> Int[np.ndarray, " pair"]:
    """One integer per pair of vocabulary entries."""
    return (query.astype(np.int64) << _SHIFT) | key.astype(np.int64)


def split_keys(keys: Int[np.ndarray, " pair"]) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Queries and keys of the integers of `pair_keys`."""
    return keys >> _SHIFT, keys & ((1 << _SHIFT) - 1)


def add_up(sets: Sequence[PairSums]) -> PairSums:
    """Sum of several sets of pairs, in order; a pair may occur several times in one set."""
    keys, row = np.unique(np.concatenate([pairs.keys for pairs in sets]), return_inverse=True)

    def sums(name: str) -> Shaped[np.ndarray, "pair ..."]:
        values = np.concatenate([getattr(pairs, name) for pairs in sets])
        total = np.zeros((len(keys), *values.shape[1:]), dtype=values.dtype)
        np.add.at(total, row, values)
        return total

    return PairSums(keys, sums("count"), sums("kinds"), sums("total"))


def merge_ranges(
    shards: Sequence[ShardArrays], prefix: str, *, at_a_time: int = MERGED_AT_A_TIME
) -> Iterator[PairSums]:
    """Sums of all pairs of all shards, in ascending ranges of keys, so that memory stays bounded.

    A shard stores its pairs sorted. The same range of keys is read from every shard, so each pair is in exactly one range. The
    cuts between ranges are quantiles of every hundredth key, so that the ranges have about equally many entries.

    Args:
        shards: Shards whose arrays are `PairSums.arrays` under a prefix.
        prefix: Prefix of the arrays' names.
        at_a_time: Approximate number of entries of all shards in one range.
    """
    keys = [shard[f"{prefix}keys"] for shard in shards]
    ranges = max(1, sum(map(len, keys)) // at_a_time)
    sample = np.sort(np.concatenate([of_shard[::100] for of_shard in keys]))
    cuts = [int(sample[len(sample) * i // ranges]) for i in range(1, ranges)]
    bounds = [np.r_[0, np.searchsorted(of_shard, cuts), len(of_shard)].tolist() for of_shard in keys]
    for i in range(ranges):
        pieces = [
            PairSums(*(shard.rows(f"{prefix}{field.name}", bound[i], bound[i + 1]) for field in fields(PairSums)))
            for shard, bound in zip(shards, bounds, strict=True)
            if bound[i + 1] > bound[i]
        ]
        if pieces:
            yield add_up(pieces)


@dataclass(frozen=True)
class Best:
    """Items of one cell, best first."""

    scores: Float[np.ndarray, " item"]
    keys: Int[np.ndarray, " item"]
    columns: Mapping[str, np.ndarray]
    """Further columns, one row per item."""

    def with_others(self, more: "Best") -> "Best":
        """All items of both, unsorted."""
        columns = {name: np.concatenate([rows, more.columns[name]]) for name, rows in self.columns.items()}
        return Best(np.concatenate([self.scores, more.scores]), np.concatenate([self.keys, more.keys]), columns)


class Top:
    """The `size` highest positive scores of every cell, such as a layer; the smaller key wins a tie."""

    def __init__(self, size: int) -> None:
        self._size = size
        self.cells: tuple[Best, ...] = ()
        """Top items of every cell; empty before the first offer."""

    def offer(
        self,
        scores: Float[np.ndarray, "item cell"],
        keys: Int[np.ndarray, " item"],
        columns: Mapping[str, np.ndarray],
    ) -> None:
        """Add the items that are better than the current ones.

        Args:
            scores: Score of each item in each cell.
            keys: Unique numbers of the items, over all offers.
            columns: Further columns to store, one row per item.
        """
        offered = [Best(column, keys, columns) for column in scores.T]
        if self.cells:
            offered = [kept.with_others(new) for kept, new in zip(self.cells, offered, strict=True)]
        self.cells = tuple(map(self._best, offered))

    def _best(self, items: Best) -> Best:
        order = np.lexsort((items.keys, -items.scores))[: self._size]
        order = order[items.scores[order] > 0]
        return Best(items.scores[order], items.keys[order], {name: rows[order] for name, rows in items.columns.items()})
