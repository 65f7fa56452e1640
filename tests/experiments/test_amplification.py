"""FF-amp and mutual information of token pairs, against numbers made by hand."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from tests.experiments.hand_made import CONFIG, facts, observed, tables_of_shards, tokenised
from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.statistics import split_keys
from tl_ffblock.corpus.study import Observation
from tl_ffblock.experiments.kobayashi import amplification
from tl_ffblock.experiments.kobayashi.amplification import (
    CATEGORIES,
    Amplification,
    AmplificationOptions,
    Incidence,
    Text,
    Unit,
    categorise,
    chunks,
)

Seen = Callable[..., Observation]
STUDY = Amplification(CONFIG, facts(), AmplificationOptions(top_pairs=9))


@pytest.fixture
def seen(bert: Model) -> Seen:
    """`seen([10, 11, 12], after, before)`: what the study is shown of ids and maps; all cells are one before unless said."""

    def make(ids: list[int], after: list[list[float]], before: list[list[float]] | None = None, **fields: Any) -> Any:
        maps = {"Atb": torch.ones(len(after), len(after)) if before is None else torch.tensor(before)}
        return observed(bert, STUDY, {**maps, "AtbFf": torch.tensor(after)}, tokenised(ids, **fields))

    return make


def top_pairs(*shards: list[Observation]) -> pd.DataFrame:
    return tables_of_shards(STUDY, *shards)["top_pairs"].set_index(["query", "key"])


def test_pairs_are_averaged_over_the_corpus(seen: Seen) -> None:
    """Mean FF-amp of column-normalised maps by (query, key); the diagonal, special tokens and pairs met once are out."""
    before, after = [[2.0, 1, 1], [1, 2, 1], [1, 1, 2]], [[2.0, 1, 0], [4, 2, 4], [2, 1, 4]]
    shards = [seen([10, 11, 12], after, before, word=[0, 1, 1])], [seen([10, 11, 12], before, before, special=[2])]
    top = top_pairs(*shards)
    # column a: 2 4 2 of 8 after, 2 1 1 of 4 before; b: 1 2 1 of 4, the same before; the second text gains nothing
    assert list(top.index) == [("b", "a")]
    assert top.loc[("b", "a"), "amplification"] == pytest.approx((2 / 4 - 1 / 4) / 2)
    assert top.loc[("b", "a"), ["count", "category"]].tolist() == [2, "adjacent"]
    shares = tables_of_shards(STUDY, *shards)["shares"].set_index(["occurrences", "pairs", "category"])
    assert shares.loc[(2, "random", "adjacent"), "number"] == 2  # (a, b) is counted too, though nothing amplifies it
    assert shares.loc[(3, "random", "adjacent"), "number"] == 0  # but no pair is met three times


def test_repeated_tokens_add_up_within_a_text(seen: Seen) -> None:
    """Occurrences of a pair in one text count one by one."""
    top = top_pairs([seen([10, 11, 10], [[1.0, 1, 1], [1, 1, 2], [2, 1, 1]])])
    for query in ("b", "a"):
        assert top.loc[(query, "a"), "amplification"] == pytest.approx(((1 / 4 - 1 / 3) + (2 / 4 - 1 / 3)) / 2)
    assert top.loc[("a", "a"), "category"] == "same token"


def test_a_pair_counts_in_each_category_by_its_occurrences(seen: Seen) -> None:
    """Shares of kinds are means of the pairs' own shares, so that a tie of two kinds is half of each."""
    after = [[1.0, 1, 1], [2, 1, 1], [2, 1, 1]]
    both = [seen([10, 11, 12], after), seen([10, 12, 11], after)]
    # (b, a) and (c, a) gain: each is once side by side and once not; (b, c) and (c, b) are side by side both times
    top = top_pairs(both)
    assert set(top.index) == {("b", "a"), ("##c", "a")}
    assert top["agreement"].tolist() == [0.5, 0.5]
    assert set(top["category"]) == {"adjacent"}, "of equally frequent kinds the first rule's"
    shares = tables_of_shards(STUDY, both)["shares"].set_index(["occurrences", "pairs", "category"])["share"]
    assert shares[2, "layer 0", "adjacent"] == shares[2, "layer 0", "other"] == 0.5
    # of all six pairs (a, b), (a, c), (b, a), (c, a) are half side by side and two wholly; so are those met side by side
    assert shares[2, "random", "adjacent"] == pytest.approx(4 / 6)
    assert shares[2, "random", "adjacent"] + shares[2, "random", "other"] == pytest.approx(1)


def test_frequent_pairs_have_a_correlation_of_their_own(seen: Seen) -> None:
    """The correlation with mutual information of pairs met twenty times is over these pairs alone."""
    after = [[1.0, 1, 1], [2, 1, 1], [3, 1, 1]]
    texts = [seen([10, 11, 12], after)] * 20 + [seen([10, 11, 13], after)] * 2
    pmi = tables_of_shards(STUDY, texts)["pmi"].query("unit == 'article'").set_index("occurrences")
    assert pmi["pairs"].to_dict() == {2: 10, 20: 6}  # without and with the four that hold "."


def test_causal_models_have_half_the_pairs(bert: Model) -> None:
    """A key after its query is no pair."""
    study = Amplification(CONFIG, facts("pre_ln", causal=True), AmplificationOptions())
    maps = dict.fromkeys(("AtbLn", "AtbLnFf"), torch.ones(3, 3).tril())
    query, key = split_keys(study.measure(observed(bert, study, maps, tokenised([10, 11, 12])))[0].keys)
    assert set(zip(query.tolist(), key.tolist(), strict=True)) == {(11, 10), (12, 10), (12, 11)}


def test_sentences_end_at_marks(seen: Seen) -> None:
    """The mark belongs to the sentence it ends."""
    observation = seen([10, 13, 11, 10, 13, 12], torch.ones(6, 6).tolist())
    assert STUDY.measure(observation)[1].sentence.tolist() == [0, 0, 1, 1, 1, 2]


def test_mutual_information_counts_what_stood_at_masks(bert: Model) -> None:
    """Or takes it out, if told so; special tokens are out either way, and pairs are of what the model read."""
    tokens = tokenised([10, 99, 11, 12], special=[3], masked={1: 13})
    maps = dict.fromkeys(("Atb", "AtbFf"), torch.ones(4, 4))
    for option, expected, sentences in (("kept", [10, 13, 11], [0, 0, 1]), ("dropped", [10, 11], [0, 0])):
        study = Amplification(CONFIG, facts(), AmplificationOptions(pmi_masked=option))
        pairs, text = study.measure(observed(bert, study, maps, tokens))
        assert (text.ids.tolist(), text.sentence.tolist()) == (expected, sentences)
        assert set(zip(*(side.tolist() for side in split_keys(pairs.keys)), strict=True)) == {(10, 11), (11, 10)}
    assert AmplificationOptions().pmi_masked == "kept"


def test_categories_by_rule() -> None:
    """The first rule that fits counts: same token, one word, an expression, side by side, other."""
    tokens = tokenised([10, 11, 12, 10, 13], word=[0, 1, 1, 2, 3], groups=(frozenset({0, 1}),))
    query, key = np.tril_indices(5, -1)
    kinds = [CATEGORIES[int(kind)] for kind in categorise(tokens, query, key)]
    assert dict(zip(zip(query.tolist(), key.tolist(), strict=True), kinds, strict=True)) == {
        **dict.fromkeys([(1, 0), (2, 0)], "within an expression"),
        (2, 1): "subwords of one word",
        (3, 0): "same token",
        **dict.fromkeys([(3, 2), (4, 3)], "adjacent"),
        **dict.fromkeys([(3, 1), (4, 0), (4, 1), (4, 2)], "other"),
    }


def test_pmi_by_unit() -> None:
    """log p(a, b) / (p(a) p(b)) over articles, sentences and windows, by hand; tokens that never meet have none."""
    # article 0: "a b ." "a c"; article 1: "a ." ; sentence numbers start at 0 in each text
    texts = [
        Text(np.array([0, 1, 3, 0, 2]), 0, np.array([0, 0, 0, 1, 1])),
        Text(np.array([0, 3]), 1, np.array([0, 0])),
    ]
    first, second = np.array([0, 1, 0]), np.array([1, 3, 2])
    found = {unit: Incidence(texts, unit, 2).pmi(first, second) for unit in ("article", "sentence", "window")}
    np.testing.assert_allclose(found["article"], [math.log(0.5 / (1 * 0.5)), math.log(0.5 / (0.5 * 1)), 0], atol=1e-12)
    third = 1 / 3
    np.testing.assert_allclose(found["sentence"], [0, math.log(third / (third * 2 * third)), 0], atol=1e-12)
    # windows of two: ab b. .a ac | a.
    np.testing.assert_allclose(
        found["window"],
        [math.log((1 / 5) / (4 / 5 * 2 / 5)), math.log((1 / 5) / (2 / 5 * 3 / 5)), math.log((1 / 5) / (4 / 5 * 1 / 5))],
    )
    strangers = [Text(np.array([0]), 0, np.array([0])), Text(np.array([1]), 1, np.array([0]))]
    assert np.isnan(Incidence(strangers, "article", 2).pmi(np.array([0]), np.array([1]))).all()


@pytest.mark.parametrize("unit", ["article", "sentence", "window"])
def test_equal_pmi_is_exactly_equal(unit: Unit) -> None:
    """PMI is symmetric and has as many values as fractions of counts: Spearman ranks no rounding."""
    random = np.random.default_rng(0)
    texts = [Text(random.integers(0, 40, 30), number, np.arange(30) // 7) for number in range(30)]
    counted = [set[int]() for _ in range(40)]  # units of each token, by hand
    for number, text in enumerate(texts):
        for token, place in zip(*text.units(unit, 5), strict=True):
            counted[token].add(1000 * number + (0 if unit == "article" else int(place)))
    first, second = (side.ravel() for side in np.indices((40, 40)))
    pmi = Incidence(texts, unit, 5).pmi(first, second)
    np.testing.assert_array_equal(pmi, Incidence(texts, unit, 5).pmi(second, first))
    fractions = {
        Fraction(len(counted[a] & counted[b]), len(counted[a]) * len(counted[b]))
        for a, b in zip(first.tolist(), second.tolist(), strict=True)
    } - {0}
    assert len(np.unique(pmi[~np.isnan(pmi)])) == len(fractions)


def test_pairs_are_counted_so_many_units_at_a_time() -> None:
    """A hundred thousand pairs of a token with windows all over the corpus have more units than 32 bits count."""
    sizes = np.random.default_rng(0).integers(0, 30, 500)
    found = [*chunks(sizes, 60)]
    np.testing.assert_array_equal(np.concatenate([np.arange(500)[each] for each in found]), np.arange(500))
    sums = np.array([sizes[each].sum() for each in found])
    assert sums.max() <= 60 and (sums[:-1] + sizes[[each.start for each in found[1:]]] > 60).all()
    assert [*chunks(np.array([90, 1, 90]), 60)] == [slice(0, 1), slice(1, 2), slice(2, 3)] and not [
        *chunks(sizes[:0], 60)
    ]
    texts = [Text(np.array([0, 1, 2, 3]), 0, np.zeros(4, dtype=np.int64))] * 3
    pairs = np.array([0, 1, 2, 0]), np.array([1, 2, 3, 3])
    by_pair = [float(Incidence(texts, "window", 2).pmi(*(ends[[n]] for ends in pairs))[0]) for n in range(4)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(amplification, "_ENTRIES", 7)
        np.testing.assert_array_equal(Incidence(texts, "window", 2).pmi(*pairs), by_pair)


@pytest.mark.parametrize("unit", ["article", "sentence", "window"])
def test_texts_of_special_tokens_only_are_in_no_unit(unit: Unit) -> None:
    """As a text of one word that was masked: it changes nothing, and a corpus of such texts has no pairs."""
    empty = Text(np.zeros(0, dtype=np.int64), 7, np.zeros(0, dtype=np.int64))
    texts = [Text(np.array([0, 1, 2]), 0, np.array([0, 0, 1])), Text(np.array([0, 2]), 1, np.array([0, 0]))]
    first, second = np.array([0, 0, 1]), np.array([1, 2, 2])
    expected = Incidence(texts, unit, 2).pmi(first, second)
    found = Incidence([empty, texts[0], empty, texts[1], empty], unit, 2).pmi(first, second)
    np.testing.assert_array_equal(found, expected)
    assert Incidence([empty, empty], unit, 2).pmi(first[:0], second[:0]).shape == (0,)
