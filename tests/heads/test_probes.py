"""Probes find a planted tree and nothing in noise; baselines are counted."""

import dataclasses

import numpy as np
import pytest
import torch

from tl_ffblock import heads
from tl_ffblock.heads.probes import ROOT, UNKNOWN

N_SENTENCES = 60


def sentence(random: np.random.Generator, number: int, *, planted: bool) -> heads.ProbeSentence:
    """A random tree over six words; of its three maps one points from words to their heads, or all are noise."""
    n_words = 6
    head = np.array([ROOT if word == 0 else int(random.integers(0, word)) for word in range(n_words)])
    order = random.permutation(n_words)
    heads_of = np.empty(n_words, dtype=np.int64)
    heads_of[order] = [ROOT if k == ROOT else order[k] for k in head]
    maps = random.random((3, n_words, n_words)) / n_words
    if planted:
        maps[1] = 0
        maps[1, heads_of != ROOT, heads_of[heads_of != ROOT]] = 1
    return heads.ProbeSentence(
        maps, random.normal(size=(n_words, 4)), heads_of, np.ones(n_words, dtype=bool), number // 2
    )


def drawn(*, planted: bool) -> list[heads.ProbeSentence]:
    """Thirty documents of two sentences."""
    random = np.random.default_rng(0)
    return [sentence(random, number, planted=planted) for number in range(N_SENTENCES)]


@pytest.mark.parametrize("kind", ["maps", "maps and words"])
def test_a_planted_head_is_read_off(kind: heads.ProbeKind) -> None:
    """Every word's head on documents not seen, the root by what its row gives to no word."""
    answers = heads.attachments(drawn(planted=True), kind, heads.Training(epochs=40, learning_rate=0.05))
    assert answers.right.all() and len(answers.right) == 6 * N_SENTENCES
    assert answers.document.tolist() == np.repeat(np.arange(N_SENTENCES // 2), 12).tolist()


@pytest.mark.parametrize("kind", ["maps", "maps and words", "distance and words"])
def test_noise_gives_chance(kind: heads.ProbeKind) -> None:
    """Six candidates a word: one in six on documents not seen, within three standard errors of so many coins."""
    right = heads.attachments(drawn(planted=False), kind, heads.Training(epochs=5)).right
    assert right.mean() == pytest.approx(1 / 6, abs=3 * np.sqrt(1 / 6 * 5 / 6 / len(right)))


def test_distance_alone_finds_right_branching() -> None:
    """Heads that are always the next word, the last word the root: known by place and without maps."""
    random = np.random.default_rng(0)
    chain = np.array([1, 2, 3, 4, 5, ROOT])
    sentences = [dataclasses.replace(sentence(random, number, planted=False), head=chain) for number in range(40)]
    assert heads.attached_at(sentences, 1).right.mean() == pytest.approx(5 / 6)
    assert heads.attached_at(sentences, -1).right.mean() == 0
    answers = heads.attachments(sentences, "distance and words", heads.Training(epochs=20))
    assert answers.right.mean() > 0.95


def test_words_that_are_not_asked_for_do_not_count() -> None:
    """Punctuation and words without a head in the data are candidates, and give no answer."""
    sentences = [
        dataclasses.replace(each, counted=np.arange(6) != 2, head=np.where(np.arange(6) == 4, UNKNOWN, each.head))
        for each in drawn(planted=True)
    ]
    answers = heads.attachments(sentences, "maps", heads.Training(epochs=30, learning_rate=0.05))
    assert len(answers.right) == 4 * N_SENTENCES and answers.right.mean() > 0.99


def test_the_same_seed_gives_the_same_answers() -> None:
    """Training draws from its own seed, and leaves torch's generator as it was."""
    torch.manual_seed(3)
    before, training = torch.get_rng_state(), heads.Training(epochs=2)
    first, second = (heads.attachments(drawn(planted=False), "distance and words", training) for _ in range(2))
    assert np.array_equal(first.right, second.right) and torch.equal(before, torch.get_rng_state())
