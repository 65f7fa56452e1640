"""Probes find a planted tree and nothing in noise; baselines are counted."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import softmax

from tl_ffblock import heads
from tl_ffblock.errors import InputError
from tl_ffblock.heads.probes import ROOT, UNKNOWN, folds_of

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
    answers = heads.attachments(drawn(planted=True), kind, heads.Training())
    assert answers.right.all() and len(answers.right) == 6 * N_SENTENCES
    assert answers.document.tolist() == np.repeat(np.arange(N_SENTENCES // 2), 12).tolist()


@pytest.mark.parametrize("kind", ["maps", "maps and words", "distance and words"])
def test_noise_gives_chance(kind: heads.ProbeKind) -> None:
    """Six candidates a word: one in six on documents not seen, within three standard errors of the documents' means."""
    answers = heads.attachments(drawn(planted=False), kind)
    of_documents = answers.right.reshape(N_SENTENCES // 2, 12).mean(axis=1)
    assert np.unique(answers.document, return_counts=True)[1].tolist() == [12] * len(of_documents)
    error = of_documents.std(ddof=1) / np.sqrt(len(of_documents))
    assert of_documents.mean() == pytest.approx(1 / 6, abs=3 * error) and error < 0.05


def own_answers(sentences: list[heads.ProbeSentence], penalty: float) -> list[bool]:
    """Attachments by scipy's BFGS on features made pair by pair, for each of the same five folds."""
    fold = folds_of(np.array([each.document for each in sentences]), 5)
    features, targets, right = [], [], {}
    for each in sentences:
        of_sentence = np.zeros((6, 7, 3 * len(each.maps) + 1))
        for i in range(6):
            for k in range(6):
                of_sentence[i, k, : 2 * len(each.maps)] = [*each.maps[:, i, k], *each.maps[:, k, i]]
            of_sentence[i, 6, 2 * len(each.maps) :] = [*(1 - each.maps[:, i].sum(axis=1)), 1]
        features.append(of_sentence)
        targets.append([6 if head == ROOT else head for head in each.head])
    not_self = np.where(np.eye(6, 7) == 1, -np.inf, 0.0)
    for number in range(5):
        x, y = (np.concatenate([side[n] for n in np.flatnonzero(fold != number)]) for side in (features, targets))
        closed = np.tile(not_self, (len(x) // 6, 1))

        def loss(weights: np.ndarray, x: np.ndarray = x, y: np.ndarray = y, closed: np.ndarray = closed) -> Any:
            p = softmax(x @ weights + closed, axis=1)
            surprise = -np.log(p[np.arange(len(y)), y]).sum() + penalty / 2 * weights @ weights
            p[np.arange(len(y)), y] -= 1
            return surprise, np.einsum("wk,wkf->f", p, x) + penalty * weights

        weights = minimize(loss, np.zeros(x.shape[-1]), jac=True, method="BFGS", options={"gtol": 1e-5}).x
        for n in np.flatnonzero(fold == number):
            right[n] = (features[n] @ weights + not_self).argmax(axis=1) == targets[n]
    return np.concatenate([right[n] for n in range(len(sentences))]).tolist()


@pytest.mark.parametrize(("n_maps", "scale", "penalty"), [(8, 1.0, 1.0), (1, 0.02, 1.0), (20, 0.2, 0.1)])
def test_probes_are_those_of_another_optimiser(n_maps: int, scale: float, penalty: float) -> None:
    """On maps of several numbers and scales, whose training converges at other rates: within .005, and not at chance."""
    random = np.random.default_rng(1)
    sentences = drawn(planted=True)
    noisy = [
        dataclasses.replace(
            each, maps=scale * (0.25 * each.maps[[1] * n_maps] + random.random((n_maps, 6, 6)) ** 2) / 6
        )
        for each in sentences
    ]
    found = heads.attachments(noisy, "maps", heads.Training(penalty=penalty, tolerance=1e-6)).right.mean()
    assert found == pytest.approx(np.mean(own_answers(noisy, penalty)), abs=0.005)
    assert found > 0.25


def test_a_training_that_has_not_converged_is_refused() -> None:
    """With what to change: a few steps are not enough, with any penalty."""
    for training in (heads.Training(max_iterations=3), heads.Training(penalty=0.0, max_iterations=2)):
        with pytest.raises(InputError, match=r"has not converged: .* Use a larger penalty \(now"):
            heads.attachments(drawn(planted=True), "maps", training)


def test_distance_alone_finds_right_branching() -> None:
    """Heads that are always the next word, the last word the root: known by place and without maps."""
    random = np.random.default_rng(0)
    chain = np.array([1, 2, 3, 4, 5, ROOT])
    sentences = [dataclasses.replace(sentence(random, number, planted=False), head=chain) for number in range(40)]
    assert heads.attached_at(sentences, 1).right.mean() == pytest.approx(5 / 6)
    assert heads.attached_at(sentences, -1).right.mean() == 0
    answers = heads.attachments(sentences, "distance and words", heads.Training())
    assert answers.right.mean() > 0.95


def test_words_that_are_not_asked_for_do_not_count() -> None:
    """Punctuation and words without a head in the data are candidates, and give no answer."""
    sentences = [
        dataclasses.replace(each, counted=np.arange(6) != 2, head=np.where(np.arange(6) == 4, UNKNOWN, each.head))
        for each in drawn(planted=True)
    ]
    answers = heads.attachments(sentences, "maps", heads.Training())
    assert len(answers.right) == 4 * N_SENTENCES and answers.right.mean() > 0.99


def test_the_same_seed_gives_the_same_answers() -> None:
    """Training draws from its own seed, and leaves torch's generator as it was."""
    torch.manual_seed(3)
    before, training = torch.get_rng_state(), heads.Training()
    first, second = (heads.attachments(drawn(planted=False), "distance and words", training) for _ in range(2))
    assert np.array_equal(first.right, second.right) and torch.equal(before, torch.get_rng_state())
