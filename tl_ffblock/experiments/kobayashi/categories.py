"""Kinds of token pairs, by rule; the first that fits counts.

1. same token: both are the same entry of the vocabulary.
2. subwords of one word (gold words where the data has them, else runs of letters and digits).
3. within a multi-word expression or named entity, where the data or a tagger marks them.
4. adjacent: next to each other in the sequence.
5. other.
"""

import numpy as np

from tl_ffblock.corpus.texts.tokenised import Encoded

CATEGORIES = ("same token", "subwords of one word", "within an expression", "adjacent", "other")


def categorise(encoded: Encoded, query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """The category of each pair of positions, as its place in `CATEGORIES`."""
    first, second = encoded.word[query], encoded.word[key]
    rules = (
        encoded.ids[query] == encoded.ids[key],
        (first == second) & (first >= 0),
        _together(encoded, first, second),
        adjacent(query, key),
    )
    return np.select(rules, range(len(rules)), default=len(rules))


def adjacent(query: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Whether two positions are next to each other."""
    return np.abs(query - key) == 1


def _together(encoded: Encoded, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    found = np.zeros(len(first), dtype=bool)
    for group in encoded.groups:
        members = np.array(sorted(group - {-1}))
        found |= np.isin(first, members) & np.isin(second, members)
    return found
