"""Maps of pieces become maps of words (Clark et al. 2019, section 4.1).

    to a word    the sum of what goes to its pieces
    from a word  the mean over its pieces

So rows of attention still sum to 1. For "un ##do it" with the row of `it` (0.1, 0.3, 0.6): 0.4 on the first word, 0.6
on its own.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Float, Int

from tl_ffblock.errors import InputError
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

SpecialTokens: TypeAlias = Literal["keep", "drop", "renormalise"]
"""What becomes of tokens of no word: each stays as a unit of its own, or they go with their weight, or they go and every
row is divided by what is left of it."""


@strict
def word_maps(
    maps: TokenMaps, word: Sequence[int] | Int[np.ndarray, " token"], *, special: SpecialTokens = "drop"
) -> TokenMaps:
    """The maps with one row and column a word, in the order of their first pieces; a word's label is that of its pieces.

    Args:
        maps: Any maps, with all tokens as rows.
        word: The number of the word that each token belongs to; -1 for tokens of no word, such as [CLS].
        special: What becomes of tokens of no word: "keep", "drop" or "renormalise" (a row of zeros stays zero).

    Raises:
        InputError: if `word` is not one number a token, no word is left, or rows are missing.
    """
    if special not in get_args(SpecialTokens):
        raise InputError(f"special={special!r}: expected one of {', '.join(get_args(SpecialTokens))}.")
    members = _members(np.asarray(word), maps, keep=special == "keep")
    by_word = torch.from_numpy(members).to(maps.values)
    mean = by_word / by_word.sum(dim=1, keepdim=True)
    values = mean @ maps.values @ by_word.T
    if special == "renormalise":
        total = values.sum(dim=-1, keepdim=True)
        values = values / total.where(total != 0, 1)
    labels = tuple("".join(np.array(maps.tokens, dtype=object)[row > 0]) for row in members)
    return replace(maps, values=values, tokens=labels, queries=tuple(range(len(labels))))


def _members(word: Int[np.ndarray, " token"], maps: TokenMaps, *, keep: bool) -> Float[np.ndarray, "word token"]:
    """1 where a token is a piece of a word."""
    count = len(maps.tokens)
    if word.shape != (count,) or word.dtype.kind != "i":
        raise InputError(f"word has shape {word.shape} of {word.dtype}: expected {count} whole numbers, one a token.")
    if maps.queries != tuple(range(count)):
        raise InputError(
            f"these maps have rows {maps.queries[:5]} ... of {count} tokens: a word's row is the mean of all its pieces' "
            "rows. Make the maps with queries=None."
        )
    numbers = np.where(word >= 0, word, -1 - np.arange(count)) if keep else word  # kept tokens get names of their own
    names = [name for name in dict.fromkeys(numbers.tolist()) if keep or name >= 0]
    if not names:
        raise InputError("word: no token belongs to a word, so no word is left.")
    return (numbers[None] == np.array(names)[:, None]).astype(float)
