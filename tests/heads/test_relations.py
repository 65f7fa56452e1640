"""Heads as parsers: planted trees are found, offsets are counted, causal models are asked what they can see."""

import numpy as np
import pytest
import torch

from tests.heads.planted import drawn, labelled, pointing, uniform
from tl_ffblock import heads
from tl_ffblock.errors import InputError
from tl_ffblock.heads.relations import ALL, DIRECTIONS
from tl_ffblock.results.token_maps import TokenMaps

GOLD = heads.Arcs.of([(0, 1, "det"), (1, 2, "nsubj"), (3, 2, "obj"), (4, 2, "punct")])
"""the cat saw her . -> the root "saw" has no arc."""
TREE = pointing([1, 2, 2, 2, 2])
"""Each word's row is all on its head, the root's on itself."""


def test_a_planted_tree_is_found_from_its_end_only() -> None:
    """Read from dependents a head that points to heads is right everywhere; read from heads its transpose is."""
    words = labelled({"tree": TREE, "turned": TREE.T + 1e-9, "uniform": uniform(5)})
    from_dependent, from_head = (heads.hits(words, GOLD, direction)[0] for direction in DIRECTIONS)
    assert from_dependent.tolist() == [[True] * 4, [False, False, False, False], [False] * 4]
    assert from_head[1].tolist() == [True] * 4


def test_hits_are_those_of_a_plain_loop() -> None:
    """Random maps, every arc on its own: no other word has as much."""
    for causal in (False, True):
        maps = np.tril(drawn(2, 3, 6, 6)) if causal else drawn(2, 3, 6, 6)
        words = TokenMaps(torch.from_numpy(maps), tuple("abcdef"), (0, 1), ("x", "y", "z"), tuple(range(6)), causal)
        arcs = heads.Arcs.of([(d, h, "r") for d in range(6) for h in range(6) if d != h])
        for direction in DIRECTIONS:
            found = heads.hits(words, arcs, direction)
            reach = heads.reachable_arcs(arcs.offset, direction, causal=causal)
            for layer, channel, arc in np.ndindex(2, 3, len(arcs.name)):
                d, h = int(arcs.dependent[arc]), int(arcs.head[arc])
                cells = {
                    k: maps[layer, channel, d, k] if direction == "from dependent" else maps[layer, channel, k, d]
                    for k in range(6)
                    if k != d and (not causal or (k < d) == (direction == "from dependent"))
                }
                expected = h in cells and all(cells[h] > cells[k] for k in cells if k != h)
                assert found[layer, channel, arc] == expected
                assert (h in cells) == reach[arc]


def test_ties_are_misses() -> None:
    """Half on each of two words names neither."""
    halves = torch.tensor([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert not heads.hits(labelled({"h": halves}), heads.Arcs.of([(0, 1, "r")])).any()


def test_relations_are_counted_with_their_subtypes() -> None:
    """`all` leaves punctuation out; nsubj has nsubj:pass, which is a relation too."""
    arcs = heads.Arcs.of([(0, 1, "nsubj:pass"), (2, 1, "nsubj"), (1, 0, "punct")])
    hits = heads.relation_hits([(labelled({"h": uniform(3)}), arcs)])
    counted = {name: np.flatnonzero(group).tolist() for name, group in hits.relations.items()}
    assert counted == {ALL: [0, 1], "nsubj": [0, 1], "nsubj:pass": [0], "punct": [2]}
    assert next(iter(counted)) == ALL


def test_sentences_add_up() -> None:
    """Arcs in order, with their offsets and documents; several sentences may be of one document."""
    words = labelled({"tree": TREE})
    hits = heads.relation_hits([(words, GOLD), (words, GOLD), (words, GOLD)], documents=[4, 4, 9])
    assert hits.hits.shape == (2, 12, 1, 1) and hits.hits[0].all()
    assert hits.offset.tolist() == [1, 1, -1, -2] * 3
    assert hits.document.tolist() == [4] * 8 + [9] * 4


def test_arcs_of_other_words_are_refused() -> None:
    """A word that is not there, rows that are not there, maps of different layers."""
    with pytest.raises(InputError, match="names word 0 or 7: the maps have words 0 to 4"):
        heads.hits(labelled({"h": TREE}), heads.Arcs.of([(0, 7, "det")]))
    with pytest.raises(InputError, match="1 rows of 5 words"):
        heads.hits(labelled({"h": TREE[[1]]}, queries=(1,)), GOLD)
    with pytest.raises(InputError, match="2 kinds"):
        heads.relation_hits([(labelled({"h": TREE}), GOLD), (labelled({"g": TREE}), GOLD)])


def test_a_candidate_is_chosen_on_other_documents() -> None:
    """Candidate 0 is right in document 0 alone, 1 everywhere else: the others choose 1 for document 0, which it misses."""
    document = np.repeat([0, 1, 2, 3], 4)
    hits = np.stack([document == 0, document != 0], axis=1)
    answers, chosen = heads.chosen_elsewhere(hits, document)
    assert answers.tolist() == [False] * 4 + [True] * 12
    assert chosen.tolist() == [1, 1, 1, 1]


def test_the_best_of_many_by_chance_is_not_better_elsewhere() -> None:
    """Two hundred candidates that toss a coin: the best seems above 60 %, chosen elsewhere it is a coin again."""
    random = np.random.default_rng(0)
    hits, document = random.random((400, 200)) < 0.5, np.repeat(np.arange(40), 10)
    assert hits.mean(axis=0).max() > 0.55
    answers, _ = heads.chosen_elsewhere(hits, document)
    share = heads.share_of_hits(answers, document)
    low, high = share.interval()
    assert low < 0.5 < high and share.value == answers.mean()


def test_intervals_draw_documents_together() -> None:
    """Ten documents all right or all wrong: the interval is that of ten coins and not of a thousand."""
    document = np.repeat(np.arange(10), 100)
    share = heads.share_of_hits(document % 2 == 0, document)
    low, high = share.interval()
    assert share.value == 0.5 and high - low > 0.5
    assert share.minus(share).interval() == (0, 0)


def test_one_document_gives_no_choice() -> None:
    """Refused, since there is no other to choose on; and a share of nothing is none."""
    with pytest.raises(InputError, match="needs two at least"):
        heads.chosen_elsewhere(np.ones((3, 2), dtype=bool), np.zeros(3, dtype=np.int64))
    with pytest.raises(InputError, match="no answer to count"):
        heads.share_of_hits(np.zeros(0), np.zeros(0, dtype=np.int64))
