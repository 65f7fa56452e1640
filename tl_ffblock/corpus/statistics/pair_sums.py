"""Sums over all occurrences of a token pair, merged range by range so that memory stays bounded.

A pair of vocabulary entries is one integer key, `query << 32 | key`, which `pair_keys` makes and `split_keys` takes
apart. A shard keeps its pairs sorted; merging reads the same range of keys from every shard, so each pair is met
exactly once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from tl_ffblock.corpus.statistics.arrays import ShardArrays

MERGED_AT_A_TIME = 1_000_000
"""Entries of all shards that are merged at a time, about."""

_SHIFT = 32


@dataclass(frozen=True)
class PairSums:
    """Sums over occurrences, one row a pair of vocabulary entries, sorted by key."""

    keys: Int[np.ndarray, " pair"]
    count: Int[np.ndarray, " pair"]
    """Occurrences."""
    kinds: Int[np.ndarray, "pair kind"]
    """Occurrences of each kind."""
    total: Float[np.ndarray, "pair layer"]
    """Sum of a quantity over occurrences."""

    @property
    def query(self) -> Int[np.ndarray, " pair"]:
        """Vocabulary entries of the queries."""
        return split_keys(self.keys)[0]

    @property
    def key(self) -> Int[np.ndarray, " pair"]:
        """Vocabulary entries of the keys."""
        return split_keys(self.keys)[1]

    @property
    def mean(self) -> Float[np.ndarray, "pair layer"]:
        """Mean of the quantity over occurrences."""
        return self.total / self.count[:, None]

    def where(self, keep: Bool[np.ndarray, " pair"]) -> "PairSums":
        """Keep some of the pairs."""
        return PairSums(*(array[keep] for array in self.arrays().values()))

    def arrays(self) -> dict[str, np.ndarray]:
        """Name the arrays as a shard keeps them."""
        return {name: getattr(self, name) for name in FIELDS}


FIELDS = tuple(field.name for field in fields(PairSums))


def pair_keys(query: Int[np.ndarray, " pair"], key: Int[np.ndarray, " pair"]) -> Int[np.ndarray, " pair"]:
    """Make one integer of each pair of vocabulary entries."""
    return (query.astype(np.int64) << _SHIFT) | key.astype(np.int64)


def split_keys(keys: Int[np.ndarray, " pair"]) -> tuple[Int[np.ndarray, " pair"], Int[np.ndarray, " pair"]]:
    """Take queries and keys out of what `pair_keys` made."""
    return keys >> _SHIFT, keys & ((1 << _SHIFT) - 1)


def add_up(sets: Sequence[PairSums]) -> PairSums:
    """Sum over several sets of pairs, in order; a pair may come several times in one set."""
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
    """Merge all pairs of all shards, in ascending ranges of keys.

    The cuts between ranges are quantiles of every hundredth key, so that each range holds about as many entries.

    Args:
        shards: Whose arrays are `PairSums.arrays` under a prefix.
        prefix: Before the names of the arrays.
        at_a_time: Entries of all shards in one range, about.
    """
    keys = [shard[f"{prefix}keys"] for shard in shards]
    total = sum(map(len, keys))
    sample = np.sort(np.concatenate([k[::100] for k in keys])) if total else np.array([], dtype=np.int64)
    ranges = max(1, total // at_a_time)
    cuts = [int(sample[len(sample) * i // ranges]) for i in range(1, ranges)]
    bounds = [np.r_[0, np.searchsorted(k, cuts), len(k)].tolist() for k in keys]
    for i in range(ranges):
        pieces = [
            PairSums(*(shard.rows(f"{prefix}{name}", bound[i], bound[i + 1]) for name in FIELDS))
            for shard, bound in zip(shards, bounds, strict=True)
            if bound[i + 1] > bound[i]
        ]
        if pieces:
            yield add_up(pieces)
