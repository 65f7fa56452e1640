"""Coreference: planted maps resolve, the nearest mention is counted, and sentences are marked as they are meant."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.heads.planted import labelled, pointing, uniform
from tl_ffblock import heads
from tl_ffblock.errors import InputError
from tl_ffblock.experiments.clark.coreference import SENTENCES, marked

MENTIONS = [(0, 1), (2, 2), (4, 1), (5, 2)]
"""Two things, each named twice: the anaphors are words 4 and 5."""


def test_planted_maps_resolve() -> None:
    """Pointing to the antecedents is right, to the nearest mention half; a uniform map ties, and a tie is a miss."""
    words = labelled(
        {"right": pointing([0, 0, 0, 0, 0, 2]), "nearest": pointing([0, 0, 0, 0, 2, 4]), "uniform": uniform(6)}
    )
    assert heads.antecedent_hits(words, MENTIONS)[0].tolist() == [[True, True], [False, False], [False, False]]
    assert heads.nearest_hits(MENTIONS).tolist() == [False, False]
    assert heads.nearest_hits([(0, 1), (3, 2), (5, 2)]).tolist() == [True]


def test_mentions_without_antecedent_are_no_anaphors() -> None:
    """Nothing to resolve gives no answers; a lone candidate is right."""
    words = labelled({"uniform": uniform(4)})
    assert heads.antecedent_hits(words, [(0, 1), (2, 2)]).shape == (1, 1, 0)
    assert heads.antecedent_hits(words, [(0, 1), (2, 1)]).all()


def test_mentions_out_of_order_are_refused() -> None:
    """Words ascend, and are words of the maps."""
    with pytest.raises(InputError, match="expected ascending words from 0 to 3"):
        heads.antecedent_hits(labelled({"uniform": uniform(4)}), [(3, 1), (0, 1)])


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


@pytest.mark.parametrize("family", ["bert"])
def test_any_model_can_be_asked(
    family: str, tmp_path_factory: pytest.TempPathFactory, tiny_model: Callable[[str], Any]
) -> None:
    """A row a kind of map and one for the nearest mention, with intervals around the accuracy."""
    from tl_ffblock.experiments.clark.coreference import antecedents

    table = antecedents(tiny_model(family))
    assert table["map"].tolist() == ["attention", "Atb", "AtbFf", "AtbFfResLn", "value-weighted", "nearest mention"]
    assert (table["anaphors"] == 30).all() and (table["accuracy_low"] <= table["accuracy"]).all()
