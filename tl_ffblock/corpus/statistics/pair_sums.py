"""Sums over all occurrences of a token pair, merged range by range so that memory stays bounded.

A pair of vocabulary entries is one integer key, `query << 32 | key`. A shard keeps its pairs sorted;
merging reads the same range of keys from every shard, so each pair is met exactly once.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

ENTRIES = 1_000_000
"""Entries of all shards that are merged at a time, about."""

_SHIFT = 32


@dataclass(frozen=True)
class Pairs:
    """Sums over occurrences, one row a pair of vocabulary entries, sorted by key."""

    keys: np.ndarray
    count: np.ndarray
    """Occurrences."""
    kinds: np.ndarray
    """Occurrences by category, and adjacent ones in the last column."""
    total: np.ndarray
    """Sum of a quantity over occurrences, by layer."""

    @property
    def query(self) -> np.ndarray:
        """Vocabulary entries of the queries."""
        return self.keys >> _SHIFT

    @property
    def key(self) -> np.ndarray:
        """Vocabulary entries of the keys."""
        return self.keys & ((1 << _SHIFT) - 1)

    @property
    def mean(self) -> np.ndarray:
        """Mean of the quantity, [pair, layer]."""
        return self.total / self.count[:, None]

    def where(self, keep: np.ndarray) -> "Pairs":
        """Some of them."""
        return Pairs(*(array[keep] for array in (self.keys, self.count, self.kinds, self.total)))

    def arrays(self) -> dict[str, np.ndarray]:
        """For a shard."""
        return {"keys": self.keys, "count": self.count, "kinds": self.kinds, "total": self.total}


def pair_keys(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """One integer a pair."""
    return (query.astype(np.int64) << _SHIFT) | key.astype(np.int64)


def add_up(parts: Sequence[Pairs]) -> Pairs:
    """Sums over several sets of pairs, in order."""
    keys, place = np.unique(np.concatenate([part.keys for part in parts]), return_inverse=True)

    def sums(name: str) -> np.ndarray:
        values = np.concatenate([getattr(part, name) for part in parts])
        found = np.zeros((len(keys), *values.shape[1:]), dtype=values.dtype)
        np.add.at(found, place, values)
        return found

    return Pairs(keys, sums("count"), sums("kinds"), sums("total"))


def merge_ranges(shards: Sequence[Mapping[str, np.ndarray] | Any], prefix: str) -> Iterator[Pairs]:
    """All pairs of all shards, in ascending ranges of keys."""
    keys = [shard[f"{prefix}keys"] for shard in shards]
    total = sum(map(len, keys))
    sample = np.sort(np.concatenate([k[::100] for k in keys])) if total else np.array([], dtype=np.int64)
    parts = max(1, total // ENTRIES)
    cuts = [int(sample[len(sample) * i // parts]) for i in range(1, parts)]
    bounds = [np.r_[0, np.searchsorted(k, cuts), len(k)] for k in keys]
    for i in range(parts):
        ranges = [(shard, int(bound[i]), int(bound[i + 1])) for shard, bound in zip(shards, bounds, strict=True)]
        pieces = [
            Pairs(*(_rows(shard, f"{prefix}{name}", start, stop) for name in ("keys", "count", "kinds", "total")))
            for shard, start, stop in ranges
            if stop > start
        ]
        if pieces:
            yield add_up(pieces)


def _rows(shard: Any, name: str, start: int, stop: int) -> np.ndarray:
    return shard.rows(name, start, stop) if hasattr(shard, "rows") else shard[name][start:stop]
