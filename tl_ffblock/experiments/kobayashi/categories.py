"""Kinds of token pairs, by rule; the first that fits counts.

1. same token: both are the same entry of the vocabulary.
2. subwords of one word (gold words where the data has them, else runs of letters and digits).
3. within a multi-word expression or named entity, where the data or a tagger marks them.
4. adjacent: next to each other in the sequence.
5. other.
"""

import numpy as np
from jaxtyping import Bool, Int

from tl_ffblock.corpus.texts.tokenised import TokenisedText

CATEGORIES = ("same token", "subwords of one word", "within an expression", "adjacent", "other")


def categorise(
    tokenised: TokenisedText, query: Int[np.ndarray, " pair"], key: Int[np.ndarray, " pair"]
) -> Int[np.ndarray, " pair"]:
    """Give the category of each pair of positions, as its index in `CATEGORIES`."""
    first, second = tokenised.word[query], tokenised.word[key]
    rules = (
        tokenised.ids[query] == tokenised.ids[key],
        (first == second) & (first >= 0),
        _together(tokenised, first, second),
        adjacent(query, key),
    )
    return np.select(rules, range(len(rules)), default=len(rules))


def adjacent(query: Int[np.ndarray, " pair"], key: Int[np.ndarray, " pair"]) -> Bool[np.ndarray, " pair"]:
    """Say whether two positions are next to each other."""
    return np.abs(query - key) == 1


def _together(
    tokenised: TokenisedText, first: Int[np.ndarray, " pair"], second: Int[np.ndarray, " pair"]
) -> Bool[np.ndarray, " pair"]:
    """Whether two words are in one group."""
    together = np.zeros(len(first), dtype=bool)
    for group in tokenised.groups:
        members = np.array(sorted(group - {-1}))
        together |= np.isin(first, members) & np.isin(second, members)
    return together
