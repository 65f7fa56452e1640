"""Maps as resolvers of coreference: whether a mention points to an earlier one of the same thing (Clark et al. 2019, section 4.3).

A mention is the row of its head word. Of every mention that has an antecedent the candidates are the head words of all
earlier mentions; it is found if an antecedent's weight in the mention's row is larger than that of every candidate that
is none. A tie is a miss. The baseline takes the nearest earlier mention.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import several
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict, whole

Mentions: TypeAlias = Sequence[tuple[int, int]]
"""The row of each mention's head word and a number for what it is a mention of, in the order of the text."""


@strict
def antecedent_hits(words: TokenMaps, mentions: Mentions) -> Bool[np.ndarray, "layer channel anaphor"]:
    """Which anaphors each map resolves: the mentions, in order, that have an antecedent.

    Args:
        words: Maps of words, as `word_maps` gives them, with all rows.
        mentions: In the order of the text, each word once.

    Raises:
        InputError: if rows are missing, or mentions are not ascending words of the maps.
    """
    _refuse_others(mentions)
    count, rows = len(words.tokens), [word for word, _ in mentions]
    if words.queries != tuple(range(count)):
        raise InputError(f"these maps have {len(words.queries)} rows of {count} words: coreference needs them all.")
    if rows != sorted(set(rows)) or not all(0 <= word < count for word in rows):
        raise InputError(f"mentions at words {rows}: expected ascending words from 0 to {count - 1}, each once.")
    values = words.values.detach().double().cpu().numpy()
    found = []
    for word, antecedents, others in _anaphors(mentions):
        right = values[:, :, word, antecedents].max(axis=-1)
        wrong = values[:, :, word, others].max(axis=-1) if others else np.full(right.shape, -np.inf)
        found.append(right > wrong)
    return np.stack(found, axis=-1) if found else np.zeros((*values.shape[:2], 0), dtype=bool)


@strict
def nearest_hits(mentions: Mentions) -> Bool[np.ndarray, " anaphor"]:
    """Which anaphors the nearest earlier mention resolves.

    Raises:
        InputError: for mentions that are no pairs of numbers.
    """
    _refuse_others(mentions)
    return np.array(
        [max(antecedents) > max(others, default=-1) for _, antecedents, others in _anaphors(mentions)], dtype=bool
    )


def _refuse_others(mentions: object) -> None:
    pairs = several(mentions)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 and None not in map(whole, pair) for pair in pairs):
        raise InputError(f"mentions={brief(mentions)}: expected pairs (row of the word, number of what it mentions).")


def _anaphors(mentions: Mentions) -> Iterator[tuple[int, list[int], list[int]]]:
    """Every mention with an antecedent: its word, its antecedents' words, and those of the other earlier mentions."""
    for place, (word, entity) in enumerate(mentions):
        earlier = mentions[:place]
        antecedents = [row for row, named in earlier if named == entity]
        if antecedents:
            yield word, antecedents, [row for row, named in earlier if named != entity]
