"""Positions and layers as callers name them."""

from typing import Any

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests.cases import model_of
from tl_ffblock.errors import InputError, LayerError
from tl_ffblock.layer.positions import layer_number, positions, spans


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (None, [0, 1, 2, 3, 4]),
        (2, [2]),
        (-1, [4]),
        ((4, 0, -5, 4), [4, 0, 0, 4]),
        (range(1, 3), [1, 2]),
        (np.int64(3), [3]),
        (np.array([3, -1]), [3, 4]),
        (torch.tensor(3), [3]),
        (torch.tensor([3, -1]), [3, 4]),
        ([torch.tensor(1), np.int32(2)], [1, 2]),
    ],
    ids=repr,
)
def test_positions_keep_order_and_repeats(asked: Any, expected: list[int]) -> None:
    """Whole numbers of any type, one or several, come back as numbers from 0, as often as asked for."""
    assert positions(asked, 5, "queries") == expected


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    "asked",
    [5, -6, [], [0, 5], 1.0, "1", [1.5], True, [True, False], np.array([True, False]), torch.tensor([0.0])],
    ids=repr,
)
def test_positions_that_are_not_there_are_refused(asked: Any) -> None:
    """Out of range, none at all, no whole number, or a mask: the argument is named, and what can be asked for."""
    with pytest.raises(InputError, match="queries=.*expected positions from -5 to 4 of a sequence of 5 tokens"):
        positions(asked, 5, "queries")


@pytest.mark.parametrize(("asked", "expected"), [(1, 1), (4, 4), (-1, 4), (-2, 1), (torch.tensor(-1), 4)], ids=repr)
def test_a_layer_is_a_number_of_the_model_or_counted_from_the_end(asked: Any, expected: int) -> None:
    """Among layers 1 and 4 the last is 4; of five layers -5 is layer 0."""
    assert layer_number(asked, (1, 4)) == expected
    assert layer_number(-5, 5) == 0


@pytest.mark.wrong_types
@pytest.mark.parametrize("asked", [0, -3, 5, "4", [1, 4], None, True, 1.0], ids=repr)
def test_a_layer_that_is_not_there_is_refused(asked: Any) -> None:
    """The error is the wrong argument and the missing key in one, and says what there is."""
    with pytest.raises(
        LayerError, match=r"no layer .* in toy; there are layers 1, 4 \(negative numbers count"
    ) as error:
        layer_number(asked, (1, 4), "in toy")
    assert isinstance(error.value, ValueError) and isinstance(error.value, KeyError)
    assert str(error.value).startswith("no layer"), "without the quotes that Python puts around a KeyError's text"


def test_numbers_without_gaps_are_shown_as_a_span() -> None:
    """Three or more in a row by first and last, all else in full."""
    assert [spans(numbers) for numbers in ((3,), (0, 1), (0, 1, 2), (0, 2, 3))] == ["3", "0, 1", "0-2", "0, 2, 3"]


def test_named_tokens_are_found_in_every_prompt() -> None:
    """One token for all or one per prompt, an occurrence from either end, a position; arrows are text."""
    first, second = ["<s>", "When", " Mary", " John", " John", " to"], ["When", " Anna", " Tom", " Tom"]
    found = ffb.find_positions(
        [first, second], IO=[" Mary", " Anna"], S2=[(" John", 1), (" Tom", -1)], END=-1, ONE="When"
    )
    assert found == {"IO": [2, 1], "S2": [4, 3], "END": [5, 3], "ONE": [1, 0]}
    assert ffb.find_positions(first, S1=(" John", 0)) == {"S1": [3]}
    assert ffb.find_positions(["Mary", " Mary", " met"], A="Mary", B=" Mary", C="met") == {"A": [0], "B": [1], "C": [2]}
    assert ffb.find_positions(["hot", " →", " a→b", " →"], A=("→", -1), B=" a→b") == {"A": [3], "B": [2]}
    with pytest.raises(InputError, match="'a' is nowhere"):
        ffb.find_positions(["hot", " a→b"], A="a")
    results = ffb.attribute(model_of("gpt2"), torch.tensor([[7, 9, 11], [9, 7, 11]]), ffb.logit(7))
    assert ffb.find_positions(results, it="7") == {"it": [0, 1]}
    assert ffb.average(results, ffb.find_positions(results, it="7")).keys == ("it",)
