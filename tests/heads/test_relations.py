"""Heads as parsers: planted trees are found, offsets are counted, causal models are asked what they can see."""

import numpy as np
import pytest
import torch

from tests.heads.planted import drawn, labelled, pointing, uniform
from tl_ffblock import heads
from tl_ffblock.errors import InputError
from tl_ffblock.heads.relations import ALL, DIRECTIONS
from tl_ffblock.results.intervals import bootstrap_weights
from tl_ffblock.results.token_maps import TokenMaps

GOLD = heads.Arcs.of([(0, 1, "det"), (1, 2, "nsubj"), (3, 2, "obj"), (4, 2, "punct")])
"""the cat saw her . -> the root "saw" has no arc."""
TREE = pointing([1, 2, 2, 2, 2])
"""Each word's row is all on its head, the root's on itself."""


def test_a_planted_tree_is_found_from_its_end_only() -> None:
    """Read from dependents a head that points to heads is right everywhere; read from heads its transpose is; ties are misses."""
    words = labelled({"tree": TREE, "turned": TREE.T + 1e-9, "uniform": uniform(5)})
    from_dependent, from_head = (heads.hits(words, GOLD, direction)[0] for direction in DIRECTIONS)
    assert from_dependent.tolist() == [[True] * 4, [False, False, False, False], [False] * 4]
    assert from_head[1].tolist() == [True] * 4
    halves = torch.tensor([[0.0, 0.5, 0.5], [0.0, 1.0, 0.0], [0.0, 1.0, 0.0]])
    assert not heads.hits(labelled({"h": halves}), heads.Arcs.of([(0, 1, "r")])).any()


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


def test_folds_of_a_deal_are_even_and_deals_differ() -> None:
    """Every deal gives each document one fold, all folds as many; deal 0 is in the order of numbers."""
    document = np.repeat(np.arange(10), 3)
    assert heads.folds_of(document).tolist() == (np.repeat(np.arange(10), 3) % 5).tolist()
    deals = [heads.folds_of(document, deal=deal)[::3] for deal in range(20)]
    assert all(np.bincount(deal).tolist() == [2] * 5 for deal in deals)
    assert len({tuple(deal) for deal in deals}) > 15
    np.testing.assert_array_equal(heads.folds_of(document, deal=3)[::3], heads.folds_of(np.arange(10), deal=3))


def test_the_mean_over_deals_is_that_of_a_plain_loop() -> None:
    """The value by `chosen_elsewhere` of every deal; a draw by the same on its documents, each as often as it was drawn."""
    random = np.random.default_rng(0)
    hits, document = random.random((90, 7)) < 0.4, np.sort(random.integers(0, 11, 90))
    share = heads.share_of_chosen(hits, document, n_deals=4, n_draws=3)
    weights = np.vstack([np.ones(11), bootstrap_weights(11, 3, 0)])[:, document]
    expected = np.zeros((4, 4))
    for (draw, deal), _ in np.ndenumerate(expected):
        fold, right = heads.folds_of(document, deal=deal), 0.0
        for number in range(5):
            inside = fold == number
            chosen = (weights[draw, ~inside] @ hits[~inside]).argmax()
            right += weights[draw, inside] @ hits[inside, chosen]
        expected[draw, deal] = right / weights[draw].sum()
    np.testing.assert_allclose([share.value, *share.draws], expected.mean(axis=1), rtol=1e-6)


def test_shares_of_one_corpus_are_drawn_together() -> None:
    """A question without answers in some documents has the draws of one that has them everywhere, and their mean is theirs."""
    document = np.arange(10)
    right = np.ones((10, 1), dtype=bool)
    everywhere = heads.share_of_chosen(document[:, None] < 5, document)
    part = heads.share_of_chosen(document[:5, None] < 5, document[:5], drawn_from=document)
    weights = bootstrap_weights(10, len(everywhere.draws), 0)
    several = (weights[:, :5] > 0).sum(axis=1) > 1
    assert (part.draws[several] == 1).all() and np.isnan(part.draws[~several]).all()
    np.testing.assert_allclose(everywhere.draws, weights[:, :5].sum(axis=1) / 10, rtol=1e-6)
    mean = heads.mean_share([everywhere, heads.share_of_chosen(right, document)])
    assert mean.value == 0.75 and mean.interval()[0] == pytest.approx((1 + everywhere.interval()[0]) / 2)


def test_a_draw_without_a_choice_has_no_value() -> None:
    """Two documents: a draw of one of them twice has no other to choose on, and the interval leaves it out."""
    share = heads.share_of_chosen(np.array([[True], [False]]), np.array([0, 1]), n_draws=50)
    assert share.value == 0.5 and np.isnan(share.draws).any() and share.interval() == (0.5, 0.5)


def test_a_possessor_is_read_from_its_marker_on_request() -> None:
    """`the dog 's tail`: the paper's program takes the row of 's; other relations, and possessors without a marker, keep theirs."""
    arcs = heads.Arcs.of([(0, 1, "det"), (1, 3, "nmod:poss"), (4, 5, "poss"), (2, 1, "case")])
    words = ("the", "Ġdog", "'s", "tail", "her", "head")
    rows = labelled({"h": pointing([1, 2, 3, 3, 5, 5])}, tokens=words)
    assert heads.hits(rows, arcs)[0, 0].tolist() == [True, False, True, False]
    marked = arcs.from_markers(words)
    assert marked.dependent.tolist() == [0, 2, 4, 2] and marked.name == arcs.name
    assert heads.hits(rows, marked)[0, 0].tolist() == [True, True, True, False]
    assert arcs.from_markers(("the", "dog", "of", "tail", "her", "head")).dependent.tolist() == [0, 1, 4, 2]
    assert heads.Arcs.of([(1, 0, "poss")]).from_markers(("a", "dog")).dependent.tolist() == [1]
    with pytest.raises(InputError, match="words="):
        arcs.from_markers(("the", "dog"))
