"""Pointwise mutual information, against numbers made by hand."""

import math

import numpy as np
import pytest
import torch

from tests.experiments.hand_made import CONFIG, facts, observed, tokenised
from tl_ffblock.bridge.model import Model
from tl_ffblock.experiments.kobayashi.amplification import Amplification, AmplificationOptions, Incidence, Text, Unit


def test_pmi_by_unit() -> None:
    """log p(a, b) / (p(a) p(b)) over articles, sentences and windows, by hand."""
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


def test_pmi_of_strangers_is_nan() -> None:
    """Tokens that never meet have no PMI; they are left out of the correlation."""
    texts = [Text(np.array([0]), 0, np.array([0])), Text(np.array([1]), 1, np.array([0]))]
    assert np.isnan(Incidence(texts, "article", 2).pmi(np.array([0]), np.array([1]))).all()


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


def test_sentences_end_at_marks(bert: Model) -> None:
    """The mark belongs to the sentence it ends."""
    study = Amplification(CONFIG, facts(), AmplificationOptions())
    maps = dict.fromkeys(("Atb", "AtbFf"), torch.ones(6, 6))
    observation = observed(bert, study, maps, tokenised([10, 13, 11, 10, 13, 12]))
    assert study.measure(observation)[1].sentence.tolist() == [0, 0, 1, 1, 1, 2]
