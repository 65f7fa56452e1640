"""Statistics of planted heads are the numbers they were planted with: shares, distances, words, antecedents."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon
from scipy.stats import entropy as scipy_entropy

from tests import tiny
from tests.heads.planted import drawn, labelled, pointing, uniform
from tests.tolerances import ALGEBRA
from tl_ffblock import heads, load_model
from tl_ffblock.experiments.clark.coreference import SENTENCES, antecedents, marked
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
        "period or comma": [3],
    }
    marked = heads.token_groups(("Ġ,", "▁«", "##.", "#", "Ġa", "▁", "$", "'s"))
    assert marked["punctuation"].tolist() == [True, True, True, True, False, False, False, False]
    assert marked["period or comma"].tolist() == [True, False, True, False, False, False, False, False]


def test_planted_heads_have_their_shares_and_names() -> None:
    """By real counts: the first token has no previous one and the last no next one, so both heads are at 1."""
    shares = heads.means(heads.target_shares(PLANTED, GROUPS))
    expected = {
        "previous": [1, 0, 0, 1 / 6],
        "next": [0, 1, 1 / 5, 1 / 6],
        "own": [1 / 6, 1 / 6, 1 / 6, 1 / 6],
        "separator": [0, 2 / 6, 1, 1 / 6],
        "special": [2 / 6, 2 / 6, 1, 2 / 6],
        "punctuation": [1 / 6, 1 / 6, 0, 1 / 6],
    }
    for name, values in expected.items():
        assert shares[name][0].tolist() == pytest.approx(values), name
    table = heads.summary(PLANTED, GROUPS).set_index("channel")
    assert table["behaviour"].to_dict() == {name: name for name in PLANTED.channels[:3]} | {"uniform": "evenness"}
    assert table.loc["uniform", "entropy"] == pytest.approx(np.log(6))


def test_targets_out_of_reach_do_not_count() -> None:
    """In a causal model no query has a next token, the comma is a target from position 3 on, and the first row is not uneven."""
    lower = torch.ones(6, 6).tril()
    causal = labelled({"all": lower / lower.sum(-1, keepdim=True)}, tokens=TOKENS, causal=True)
    shares = {name: values[0, 0] for name, values in heads.target_shares(causal, GROUPS).items()}
    assert np.isnan(shares["next"]).all()
    np.testing.assert_allclose(shares["punctuation"], [np.nan, np.nan, np.nan, 1 / 4, 1 / 5, 1 / 6])
    np.testing.assert_allclose(shares["previous"], [np.nan, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6])
    np.testing.assert_allclose(heads.evenness(causal)[0, 0], [np.nan, 1, 1, 1, 1, 1], **ALGEBRA)
    some = labelled({"previous": PREVIOUS[[4, 1]]}, tokens=TOKENS, queries=(4, 1))  # row r is position queries[r]
    assert heads.target_shares(some, GROUPS)["previous"][0, 0].tolist() == [1, 1]


def test_entropy_is_scipys() -> None:
    """Of random rows, in nats; 0 of a pointing row, ln n of a uniform one, which has an evenness of 1."""
    rows = drawn(2, 3, 5, 5)
    maps = TokenMaps(torch.from_numpy(rows), tuple("abcde"), (0, 1), ("x", "y", "z"), tuple(range(5)), False)
    np.testing.assert_allclose(heads.entropy(maps), scipy_entropy(rows, axis=-1), **ALGEBRA)
    planted = heads.means({"entropy": heads.entropy(PLANTED), "evenness": heads.evenness(PLANTED)})
    np.testing.assert_allclose(planted["entropy"][0], [0, 0, 0, np.log(6)], **ALGEBRA)
    np.testing.assert_allclose(planted["evenness"][0], [0, 0, 0, 1], **ALGEBRA)


def test_norms_are_read_as_shares_of_their_row() -> None:
    """A map times any number has the same statistics; a row of zeros has none."""
    norms = uniform(3) * torch.tensor([[7.0], [1.0], [0.0]], dtype=torch.float64)
    rows = heads.distributions(labelled({"norms": norms}))[0, 0]
    np.testing.assert_allclose(rows, [[1 / 3] * 3, [1 / 3] * 3, [np.nan] * 3], **ALGEBRA)


def test_a_planted_paraphrase_head_is_told_by_its_share_on_the_other_sentence() -> None:
    """A head that points to the same word of the other sentence has 1, one that stays 0, an even one what it has; [SEP] counts for none."""
    tokens = ("[CLS]", "cats", "sleep", "[SEP]", "cats", "doze", "[SEP]")
    channels = {
        "paraphrase": pointing([0, 4, 5, 3, 1, 2, 6]),
        "own": pointing([0, 1, 2, 3, 4, 5, 6]),
        "even": uniform(7),
    }
    groups = heads.token_groups(tokens, special=[0, 3, 6])
    table = heads.summary(labelled(channels, tokens=tokens), groups).set_index("channel")["other segment"]
    assert table.to_dict() == pytest.approx({"paraphrase": 1, "own": 0, "even": 2 / 7})
    rows = heads.target_shares(labelled(channels, tokens=tokens), {})["other segment"][0, 0]
    np.testing.assert_array_equal(rows, [np.nan, 1, 1, np.nan, 1, 1, np.nan])
    prompt = labelled({"all": uniform(4)}, tokens=("the", "cat", "it", "sat"), causal=True)
    shares = heads.target_shares(prompt, {}, segments={"prompt": 0, "generated": 2})["other segment"][0, 0]
    np.testing.assert_array_equal(shares, [np.nan, np.nan, 1 / 2, 1 / 2])  # a causal model sees the prompt alone
    assert "other segment" not in heads.summary(PLANTED, GROUPS)


def test_no_op_shares_are_by_kind_of_query() -> None:
    """A head that sends [SEP] and [CLS] to [SEP] and all else to the next token: 1 from separators, and 1 where next is one."""
    share = heads.target_shares(labelled({"h": pointing([5, 2, 3, 4, 5, 5])}, tokens=TOKENS), GROUPS)["special"]
    kinds = {"special": GROUPS["special"], "text": ~GROUPS["special"], "none": np.zeros(6, dtype=bool)}
    by_kind = heads.by_query_kind(share, labelled({"h": uniform(6)}, tokens=TOKENS), kinds)
    assert (by_kind["special"][0, 0], by_kind["text"][0, 0]) == pytest.approx((1, 1 / 4))
    assert np.isnan(by_kind["none"][0, 0])
    of_rows = heads.by_query_kind(heads.entropy(PLANTED), PLANTED, GROUPS)
    assert of_rows["first"][0] == pytest.approx([0, 0, 0, np.log(6)])  # that of [CLS]


# --- distances ----------------------------------------------------------------------------------------------------


def test_divergences_are_scipys() -> None:
    """Mean over queries of the squared Jensen-Shannon distance, maps counted layer by layer."""
    rows = drawn(2, 3, 4, 5)
    maps = TokenMaps(torch.from_numpy(rows), tuple("abcde"), (0, 1), ("x", "y", "z"), (0, 2, 3, 4), False)
    flat = rows.reshape(6, 4, 5)
    expected = (jensenshannon(flat[:, None], flat[None], axis=-1) ** 2).mean(axis=-1)
    np.testing.assert_allclose(heads.divergences(maps), np.nan_to_num(expected), rtol=1e-9, atol=1e-12)


def test_closed_forms() -> None:
    """Disjoint rows are ln 2 apart; one token against two alike: H(3/4, 1/4) - H(1/2, 1/2) / 2."""
    maps = labelled({"a": pointing([0, 0]), "b": pointing([1, 1]), "even": uniform(2)})
    mixed = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - np.log(2) / 2
    expected = [[0, np.log(2), mixed], [np.log(2), 0, mixed], [mixed, mixed, 0]]
    np.testing.assert_allclose(heads.divergences(maps), expected, **ALGEBRA)


def test_sums_add_up_over_sequences() -> None:
    """Sums and counts of two halves of the queries are those of all; rows of zeros count for no pair."""
    values = torch.from_numpy(drawn(1, 3, 6, 6))
    values[0, 1, 2] = 0
    names = tuple("abcdef")
    parts = [TokenMaps(values[:, :, rows], names, (0,), tuple("xyz"), rows, False) for rows in ((0, 1, 2), (3, 4, 5))]
    whole = heads.divergence_sums(TokenMaps(values, names, (0,), tuple("xyz"), tuple(range(6)), False))
    for total, halves in zip(whole, zip(*map(heads.divergence_sums, parts), strict=True), strict=True):
        np.testing.assert_allclose(total, halves[0] + halves[1], **ALGEBRA)
    assert whole[1].tolist() == [[6, 5, 6], [5, 5, 5], [6, 5, 6]]


def test_a_plane_keeps_distances_of_a_plane() -> None:
    """Points of a plane come back up to turns and mirrors, and the same seed gives the same points."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra heads)")
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [3.0, 4.0]])
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    placed = heads.plane(distances)
    np.testing.assert_allclose(np.linalg.norm(placed[:, None] - placed, axis=-1), distances, atol=1e-3)
    np.testing.assert_array_equal(placed, heads.plane(distances))


def test_clusters_are_numbered_in_order() -> None:
    """Two close pairs are two clusters, the first map's is number 0; as many clusters as maps are the maps."""
    at = np.array([0.0, 10.0, 0.1, 10.1])
    distances = np.abs(at[:, None] - at)
    assert heads.clusters(distances, 2).tolist() == [0, 1, 0, 1]
    assert heads.clusters(distances, 4).tolist() == [0, 1, 2, 3]
    assert heads.clusters(distances[:1, :1], 1).tolist() == [0]


# --- words --------------------------------------------------------------------------------------------------------

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
PIECES = ("[CLS]", "un", "##do", "it", "[SEP]")
MAPS = labelled({"head": ROWS}, tokens=PIECES)

UNITS: dict[str, tuple[tuple[str, ...], list[list[float]]]] = {
    "drop": (("undo", "it"), [[0.5, 0.3], [0.4, 0.2]]),
    "renormalise": (("undo", "it"), [[5 / 8, 3 / 8], [2 / 3, 1 / 3]]),
    "keep": (
        ("[CLS]", "undo", "it", "[SEP]"),
        [[1, 0, 0, 0], [0.1, 0.5, 0.3, 0.1], [0.2, 0.4, 0.2, 0.2], [0, 0, 0, 1]],
    ),
}
"""`undo` is the mean of (0.5, 0.4) and (0.5, 0.2), `it` (0.4, 0.2); special tokens go with their weight, or stay as units."""


@pytest.mark.parametrize("special", UNITS)
def test_to_a_word_the_sum_from_a_word_the_mean(special: Any) -> None:
    """With special tokens left out, out and the rest made 1 again (a row that had nothing else stays zero), or kept as units."""
    tokens, expected = UNITS[special]
    words = heads.word_maps(MAPS, WORD, **({} if special == "drop" else {"special": special}))
    assert heads.word_maps(MAPS, special=special) == words
    np.testing.assert_allclose(words["head", 0], expected, rtol=1e-6)
    assert (words.tokens, words.queries, words.kind) == (tokens, tuple(range(len(tokens))), "attention")
    if special == "renormalise":
        nothing = ROWS.clone()
        nothing[3] = torch.tensor([0.5, 0.0, 0.0, 0.0, 0.5])
        left = heads.word_maps(labelled({"head": nothing}, tokens=PIECES), WORD, special=special)
        assert left["head", 0][1].tolist() == [0, 0]


def test_words_of_one_piece_change_nothing_and_pieces_may_stand_apart() -> None:
    """Pooling by one word a token is the identity, causal or not; words are in the order of their first pieces."""
    maps = labelled({"a": torch.from_numpy(drawn(6, 6)), "b": torch.from_numpy(drawn(6, 6, seed=1))}, causal=True)
    np.testing.assert_allclose(heads.word_maps(maps, range(6)).values, maps.values, **ALGEBRA)
    words = heads.word_maps(labelled({"head": torch.eye(3)}), (7, 2, 7))
    np.testing.assert_allclose(words["head", 0], [[1, 0], [0, 1]])
    assert words.tokens == ("t0t2", "t1")


# --- coreference --------------------------------------------------------------------------------------------------

MENTIONS = [(0, 1), (2, 2), (4, 1), (5, 2)]
"""Two things, each named twice: the anaphors are words 4 and 5."""


def test_planted_maps_resolve() -> None:
    """Pointing to the antecedents is right, to the nearest mention half; a uniform map ties, a miss; a lone candidate is right."""
    even = uniform(6)
    words = labelled({"right": pointing([0, 0, 0, 0, 0, 2]), "nearest": pointing([0, 0, 0, 0, 2, 4]), "uniform": even})
    assert heads.antecedent_hits(words, MENTIONS)[0].tolist() == [[True, True], [False, False], [False, False]]
    assert heads.nearest_hits(MENTIONS).tolist() == [False, False]
    assert heads.nearest_hits([(0, 1), (3, 2), (5, 2)]).tolist() == [True]
    assert heads.antecedent_hits(words, [(0, 1), (2, 2)]).shape == (1, 3, 0)
    assert heads.antecedent_hits(labelled({"uniform": even}), [(0, 1), (2, 1)]).all()


def test_sentences_are_balanced() -> None:
    """Every one has an anaphor with an antecedent and another candidate; the nearest mention is right in about half."""
    read = [marked(sentence, number) for number, sentence in enumerate(SENTENCES)]
    nearest = [heads.nearest_hits(mentions).tolist() for _, mentions in read]
    assert len(read) == 30 and all(len(answers) == 1 for answers in nearest)
    assert 0.4 <= np.mean(nearest) <= 0.6
    for text, mentions in read:
        assert "/" not in text.text and text.words is not None
        assert [text.text[slice(*span)] for span in text.words] == text.text.split()
        assert len({entity for _, entity in mentions}) >= 2


def test_any_model_can_be_asked(tmp_path: Path) -> None:
    """A row a kind of map and one for the nearest mention, with intervals around the accuracy."""
    table = antecedents(load_model(str(tiny.save_local("bert", tmp_path))))
    assert table["map"].tolist() == ["attention", "Atb", "AtbFf", "AtbFfResLn", "value-weighted", "nearest mention"]
    assert (table["anaphors"] == 30).all() and (table["accuracy_low"] <= table["accuracy"]).all()
