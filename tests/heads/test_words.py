"""Pieces to words by hand: to a word the sum, from a word the mean."""

import numpy as np
import pytest
import torch

from tests.heads.planted import drawn, labelled
from tests.tolerances import ALGEBRA
from tl_ffblock import heads
from tl_ffblock.errors import InputError

TOKENS = ("[CLS]", "un", "##do", "it", "[SEP]")
WORD = (-1, 0, 0, 1, -1)
ROWS = torch.tensor(
    [
        [1.0, 0.0, 0.0, 0.0, 0.0],
        [0.1, 0.2, 0.3, 0.4, 0.0],
        [0.1, 0.0, 0.5, 0.2, 0.2],
        [0.2, 0.1, 0.3, 0.2, 0.2],
        [0.0, 0.0, 0.0, 0.0, 1.0],
    ]
)
MAPS = labelled({"head": ROWS}, tokens=TOKENS)


def test_special_tokens_go_with_their_weight() -> None:
    """`undo`: the mean of (0.5, 0.4) and (0.5, 0.2); `it`: (0.4, 0.2)."""
    words = heads.word_maps(MAPS, WORD)
    np.testing.assert_allclose(words["head", 0], [[0.5, 0.3], [0.4, 0.2]], rtol=1e-6)
    assert (words.tokens, words.queries, words.kind) == (("un##do", "it"), (0, 1), "attention")


def test_special_tokens_stay_as_units() -> None:
    """Each is a row and a column where it stood, and rows of attention still sum to 1."""
    units = heads.word_maps(MAPS, WORD, special="keep")
    assert units.tokens == ("[CLS]", "un##do", "it", "[SEP]")
    expected = [[1, 0, 0, 0], [0.1, 0.5, 0.3, 0.1], [0.2, 0.4, 0.2, 0.2], [0, 0, 0, 1]]
    np.testing.assert_allclose(units["head", 0], expected, rtol=1e-6)


def test_rows_are_divided_by_what_is_left() -> None:
    """0.5 and 0.3 become 5/8 and 3/8; a row that had all its weight on special tokens stays zero."""
    words = heads.word_maps(MAPS, WORD, special="renormalise")
    np.testing.assert_allclose(words["head", 0], [[5 / 8, 3 / 8], [2 / 3, 1 / 3]], rtol=1e-6)
    nothing = ROWS.clone()
    nothing[3] = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5])
    left = heads.word_maps(labelled({"head": nothing}, tokens=TOKENS), WORD, special="renormalise")
    assert left["head", 0][1].tolist() == [0, 0]


def test_words_of_one_piece_change_nothing() -> None:
    """Pooling by one word a token is the identity, causal or not, for every layer and channel."""
    maps = labelled({"a": torch.from_numpy(drawn(6, 6)), "b": torch.from_numpy(drawn(6, 6, seed=1))}, causal=True)
    np.testing.assert_allclose(heads.word_maps(maps, range(6)).values, maps.values, **ALGEBRA)


def test_pieces_of_a_word_may_stand_apart() -> None:
    """Words are in the order of their first pieces, whatever their numbers."""
    words = heads.word_maps(labelled({"head": torch.eye(3)}), (7, 2, 7))
    np.testing.assert_allclose(words["head", 0], [[1, 0], [0, 1]])
    assert words.tokens == ("t0t2", "t1")


@pytest.mark.parametrize(
    ("word", "says"), [((0, 1), r"shape \(2,\)"), ((0.5,) * 5, "whole numbers"), ((-1,) * 5, "no word is left")]
)
def test_numbers_that_name_no_words_are_refused(word: tuple[int, ...], says: str) -> None:
    """One whole number a token, and at least one word."""
    with pytest.raises(InputError, match=says):
        heads.word_maps(MAPS, np.array(word))


def test_missing_rows_are_refused() -> None:
    """The mean over a word's pieces needs them all."""
    with pytest.raises(InputError, match="queries=None"):
        heads.word_maps(labelled({"head": ROWS[[1]]}, tokens=TOKENS, queries=(1,)), WORD)
