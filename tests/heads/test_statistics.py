"""Statistics of planted heads are the numbers they were planted with."""

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from tests.heads.planted import drawn, labelled, pointing, uniform
from tests.tolerances import ALGEBRA
from tl_ffblock import heads
from tl_ffblock.errors import InputError
from tl_ffblock.results.token_maps import TokenMaps

TOKENS = ("[CLS]", "the", "cat", ",", "sat", "[SEP]")
GROUPS = heads.token_groups(TOKENS, special=[0, -1])
PREVIOUS = pointing([0, 0, 1, 2, 3, 4])
NEXT = pointing([1, 2, 3, 4, 5, 5])
SEPARATOR = pointing([5] * 6)
PLANTED = labelled({"previous": PREVIOUS, "next": NEXT, "separator": SEPARATOR, "uniform": uniform(6)}, tokens=TOKENS)


def test_groups_are_told_by_position_and_text() -> None:
    """The first token is special too here; a comma is punctuation, [SEP] is not."""
    assert {name: np.flatnonzero(group).tolist() for name, group in GROUPS.items()} == {
        "first": [0],
        "special": [0, 5],
        "separator": [5],
        "punctuation": [3],
    }
    marked = heads.token_groups(("Ġ,", "▁«", "##,", "#", "Ġa", "▁", "$", "'s"))["punctuation"]
    assert marked.tolist() == [True, True, True, True, False, False, False, False]


def test_planted_heads_have_their_shares() -> None:
    """By real counts: the first token has no previous one and the last no next one, so both heads are at 1."""
    shares = heads.means(heads.target_shares(PLANTED, GROUPS))
    by_name = {name: dict(zip(PLANTED.channels, values[0].tolist(), strict=True)) for name, values in shares.items()}
    assert by_name["previous"] == pytest.approx({"previous": 1, "next": 0, "separator": 0, "uniform": 1 / 6})
    assert by_name["next"] == pytest.approx({"previous": 0, "next": 1, "separator": 1 / 5, "uniform": 1 / 6})
    assert by_name["own"] == pytest.approx({"previous": 1 / 6, "next": 1 / 6, "separator": 1 / 6, "uniform": 1 / 6})
    assert by_name["separator"] == pytest.approx({"previous": 0, "next": 2 / 6, "separator": 1, "uniform": 1 / 6})
    assert by_name["special"] == pytest.approx({"previous": 2 / 6, "next": 2 / 6, "separator": 1, "uniform": 2 / 6})
    assert by_name["punctuation"] == pytest.approx({"previous": 1 / 6, "next": 1 / 6, "separator": 0, "uniform": 1 / 6})


def test_targets_out_of_reach_do_not_count() -> None:
    """In a causal model no query has a next token, and the comma at position 3 is a target from there on."""
    causal = labelled({"all": torch.ones(6, 6).tril()}, tokens=TOKENS, causal=True)
    shares = {name: values[0, 0] for name, values in heads.target_shares(causal, GROUPS).items()}
    assert np.isnan(shares["next"]).all()
    np.testing.assert_allclose(shares["punctuation"], [np.nan, np.nan, np.nan, 1 / 4, 1 / 5, 1 / 6])
    np.testing.assert_allclose(shares["previous"], [np.nan, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6])


def test_rows_of_some_queries_know_their_position() -> None:
    """Row r is position queries[r]: of query 4 alone the previous token is 3."""
    maps = labelled({"previous": PREVIOUS[[4, 1]]}, tokens=TOKENS, queries=(4, 1))
    assert heads.target_shares(maps, GROUPS)["previous"][0, 0].tolist() == [1, 1]


def test_entropy_is_scipys() -> None:
    """Of random rows, in nats; 0 of a pointing row, ln n of a uniform one, which has an evenness of 1."""
    rows = drawn(2, 3, 5, 5)
    maps = TokenMaps(torch.from_numpy(rows), tuple("abcde"), (0, 1), ("x", "y", "z"), tuple(range(5)), False)
    np.testing.assert_allclose(heads.entropy(maps), scipy_entropy(rows, axis=-1), **ALGEBRA)
    planted = heads.means({"entropy": heads.entropy(PLANTED), "evenness": heads.evenness(PLANTED)})
    np.testing.assert_allclose(planted["entropy"][0], [0, 0, 0, np.log(6)], **ALGEBRA)
    np.testing.assert_allclose(planted["evenness"][0], [0, 0, 0, 1], **ALGEBRA)


def test_evenness_is_of_what_can_be_reached() -> None:
    """Uniform over what a causal query sees is even in every row; the first query sees itself alone and says nothing."""
    lower = torch.ones(4, 4).tril()
    evenness = heads.evenness(labelled({"all": lower / lower.sum(-1, keepdim=True)}, causal=True))[0, 0]
    np.testing.assert_allclose(evenness, [np.nan, 1, 1, 1], **ALGEBRA)


def test_norms_are_read_as_shares_of_their_row() -> None:
    """A map times any number has the same statistics; a row of zeros has none."""
    norms = uniform(3) * torch.tensor([[7.0], [1.0], [0.0]], dtype=torch.float64)
    rows = heads.distributions(labelled({"norms": norms}))[0, 0]
    np.testing.assert_allclose(rows, [[1 / 3] * 3, [1 / 3] * 3, [np.nan] * 3], **ALGEBRA)


def test_a_difference_of_maps_is_refused() -> None:
    """Negative numbers are shares of nothing."""
    with pytest.raises(InputError, match=r"9 values are negative or no number.*not their difference"):
        heads.distributions(labelled({"difference": -uniform(3)}))


def test_no_op_shares_are_by_kind_of_query() -> None:
    """A head that sends [SEP] and [CLS] to [SEP] and all else to the next token: 1 from separators, and 1 where next is one."""
    share = heads.target_shares(labelled({"h": pointing([5, 2, 3, 4, 5, 5])}, tokens=TOKENS), GROUPS)["special"]
    kinds = {"special": GROUPS["special"], "text": ~GROUPS["special"], "none": np.zeros(6, dtype=bool)}
    by_kind = heads.by_query_kind(share, labelled({"h": uniform(6)}, tokens=TOKENS), kinds)
    assert (by_kind["special"][0, 0], by_kind["text"][0, 0]) == pytest.approx((1, 1 / 4))
    assert np.isnan(by_kind["none"][0, 0])


def test_behaviours_are_what_was_planted() -> None:
    """Each head is called by what it does, in the summary too."""
    table = heads.summary(PLANTED, GROUPS).set_index("channel")
    assert table["behaviour"].to_dict() == {
        "previous": "previous",
        "next": "next",
        "separator": "separator",
        "uniform": "evenness",
    }
    assert table.loc["uniform", "entropy"] == pytest.approx(np.log(6))


def test_a_group_of_another_length_is_refused() -> None:
    """The message names the group and both lengths."""
    with pytest.raises(InputError, match=r"group 'verbs' has shape \(2,\) of bool: expected 6 truth values"):
        heads.target_shares(PLANTED, {"verbs": np.array([True, False])})
