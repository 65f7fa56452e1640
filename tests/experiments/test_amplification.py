"""FF-amp of token pairs, against numbers made by hand."""

import numpy as np
import pytest
import torch

from tests.experiments.hand_made import CONFIG, facts, observed, tables_of_shards, tokenised
from tl_ffblock.bridge.model import Model
from tl_ffblock.experiments.kobayashi.amplification import Amplification, AmplificationOptions
from tl_ffblock.experiments.kobayashi.categories import CATEGORIES, categorise


def amplification(study_facts: object = None, **options: int) -> Amplification:
    """The study, of a one-layer Post-LN model unless told otherwise."""
    return Amplification(CONFIG, study_facts or facts(), AmplificationOptions(**options))  # type: ignore[arg-type]


def test_pairs_are_averaged_over_the_corpus(bert: Model) -> None:
    """Mean FF-amp of column-normalised maps by (query, key); the diagonal, special tokens and pairs met once are out."""
    study = amplification(top_pairs=9)
    before = torch.tensor([[2.0, 1.0, 1.0], [1.0, 2.0, 1.0], [1.0, 1.0, 2.0]])
    after = torch.tensor([[2.0, 1.0, 0.0], [4.0, 2.0, 4.0], [2.0, 1.0, 4.0]])
    gaining = observed(bert, study, {"Atb": before, "AtbFf": after}, tokenised([10, 11, 12], word=[0, 1, 1]))
    unchanged = observed(bert, study, {"Atb": before, "AtbFf": before}, tokenised([10, 11, 12], special=[2]))
    tables = tables_of_shards(study, [gaining], [unchanged])
    top = tables["top_pairs"].set_index(["query", "key"])
    # column a: 2 4 2 of 8 after, 2 1 1 of 4 before; b: 1 2 1 of 4, the same before; the second text gains nothing
    assert list(top.index) == [("b", "a")]
    assert top.loc[("b", "a"), "amplification"] == pytest.approx((2 / 4 - 1 / 4) / 2)
    assert top.loc[("b", "a"), "count"] == 2
    assert top.loc[("b", "a"), "category"] == "adjacent"
    shares = tables["shares"].set_index(["pairs", "category"])
    assert shares.loc[("random", "adjacent"), "number"] == 2  # (a, b) is counted too, though nothing amplifies it


def test_repeated_tokens_add_up_within_a_text(bert: Model) -> None:
    """Occurrences of a pair in one text count one by one."""
    study = amplification()
    before = torch.ones(3, 3)
    after = torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 2.0], [2.0, 1.0, 1.0]])
    observation = observed(bert, study, {"Atb": before, "AtbFf": after}, tokenised([10, 11, 10]))
    top = tables_of_shards(study, [observation])["top_pairs"].set_index(["query", "key"])
    assert top.loc[("b", "a"), "amplification"] == pytest.approx(((1 / 4 - 1 / 3) + (2 / 4 - 1 / 3)) / 2)
    assert top.loc[("a", "a"), "amplification"] == pytest.approx(((1 / 4 - 1 / 3) + (2 / 4 - 1 / 3)) / 2)
    assert top.loc[("a", "a"), "category"] == "same token"


def test_causal_models_have_half_the_pairs(bert: Model) -> None:
    """A key after its query is no pair."""
    study = amplification(facts("pre_ln", causal=True))
    lower = torch.ones(3, 3).tril()
    observation = observed(bert, study, {"AtbLn": lower, "AtbLnFf": lower}, tokenised([10, 11, 12]))
    pairs = study.measure(observation).pairs
    assert set(zip(pairs.query.tolist(), pairs.key.tolist(), strict=True)) == {(11, 10), (12, 10), (12, 11)}


def test_categories_by_rule() -> None:
    """The first rule that fits counts: same token, one word, an expression, side by side, other."""
    tokens = tokenised([10, 11, 12, 10, 13], word=[0, 1, 1, 2, 3], groups=(frozenset({0, 1}),))
    kinds = {
        (query, key): CATEGORIES[int(categorise(tokens, np.array([query]), np.array([key]))[0])]
        for query in range(5)
        for key in range(query)
    }
    assert kinds == {
        (1, 0): "within an expression",
        (2, 0): "within an expression",
        (2, 1): "subwords of one word",
        (3, 0): "same token",
        (3, 1): "other",
        (3, 2): "adjacent",
        (4, 0): "other",
        (4, 1): "other",
        (4, 2): "other",
        (4, 3): "adjacent",
    }
