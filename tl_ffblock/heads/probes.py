"""Accuracy over documents with a chosen candidate, and probes for a parse in all maps together (Clark et al. 2019, section 5).

Candidates are chosen on other documents, since the best of many heads is partly best by chance. Each fold of documents is measured
with the candidate that is best on the other folds. This depends on the folds, so the share is a mean over several random partitions
into folds. Intervals are bootstrap intervals over documents, which are sampled with all their arcs; each sample repeats the choice.

A probe predicts the head of every word, or that it is the root. It is trained on some documents and tested on others; the model is
not trained. For word i and candidate k it reads features f(i, k), with one weight each:

    a word   every map's a_ik and a_ki
    root     for every map the part of row i on no word (on special tokens), and a constant

    "maps"                score = w . f(i, k)
    "maps and words"      score = (W [v_i; v_k] + w) . f(i, k), v the word's vector: weights that depend on the words
    "distance and words"  score = MLP of [v_i; v_k] and the distance of k from i; without maps

p(k | i) is the softmax of the score over all k except i. Word vectors are reduced to principal components of the training words.
Predictions are by cross-validation over documents: for every document by a probe that was not trained on it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor, nn

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import real_number, whole_number
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import N_DRAWS, PERCENTILES, bootstrap_weights
from tl_ffblock.signatures import strict

FOLDS = 5
DEALS = 20
"""Number of random partitions of documents into folds."""
ProbeKind: TypeAlias = Literal["maps", "maps and words", "distance and words"]
ROOT = -1
"""Head of a root."""
UNKNOWN = -2
"""Head of a word without one in the data: the word is a candidate, but is not tested."""
N_COMPONENTS = 64
N_HIDDEN = 256
NEAR = (-2, -1, 1, 2)
"""Distances with a feature of their own in the distance probe."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Share(Result):
    """Fraction of right answers, with bootstrap samples."""

    value: float
    draws: Float[np.ndarray, " draw"]

    def interval(self) -> tuple[float, float]:
        """Ends of the 95 % interval, from the samples that have a value."""
        low, high = np.nanpercentile(self.draws, PERCENTILES)
        return float(low), float(high)

    def columns(self, name: str) -> dict[str, float]:
        """The value and its interval as columns of a table: `name`, `name_low`, `name_high`."""
        low, high = self.interval()
        return {name: self.value, f"{name}_low": low, f"{name}_high": high}

    def to_dataframe(self) -> pd.DataFrame:
        """One row: value, low, high."""
        low, high = self.interval()
        return pd.DataFrame({"value": [self.value], "low": low, "high": high})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """The value and its interval."""
        low, high = self.interval()
        return f"{self.value:.4g} [{low:.4g}, {high:.4g}]", {}

    def minus(self, other: "Share") -> "Share":
        """Difference, sample by sample: both need the same documents."""
        return Share(self.value - other.value, self.draws - other.draws)


@strict
def mean_share(shares: Sequence[Share]) -> Share:
    """Mean of several fractions that have a value, sample by sample: all need the same documents."""
    if not shares or not all(isinstance(share, Share) for share in shares):
        raise InputError(f"shares={brief(shares)}: expected one Share or more, as share_of_hits returns.")
    draws = np.stack([share.draws for share in shares])
    with np.errstate(invalid="ignore"):
        means = np.nansum(draws, axis=0) / np.isfinite(draws).sum(axis=0)
    return Share(float(np.mean([share.value for share in shares])), means)


@strict
def share_of_hits(
    hit: Shaped[np.ndarray, " arc"], document: Int[np.ndarray, " arc"], *, n_draws: int = N_DRAWS, seed: int = 0
) -> Share:
    """Fraction of right answers. The same documents in the same order have the same bootstrap samples.

    Args:
        hit: Whether each answer is right.
        document: Number of each answer's document.
        n_draws: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Raises:
        InputError: if there is no answer.
    """
    if not len(hit):
        raise InputError("there is no answer: expected at least one.")
    _refuse_unpaired(hit, document)
    whole_number(n_draws, "n_draws", at_least=1)
    whole_number(seed, "seed", at_least=0)
    names, row = np.unique(document, return_inverse=True)
    right, answers = (np.bincount(row, weights=values, minlength=len(names)) for values in (hit, np.ones(len(hit))))
    weights = bootstrap_weights(len(names), n_draws, seed)
    return Share(float(np.mean(hit)), (weights @ right) / (weights @ answers))


@strict
def folds_of(document: Int[np.ndarray, " arc"], n_folds: int = FOLDS, deal: int = 0) -> Int[np.ndarray, " arc"]:
    """Fold of each answer.

    Args:
        document: Number of each answer's document.
        n_folds: Number of folds, at most one per document.
        deal: 0 keeps the documents in the order of their numbers; other numbers are seeds of a random order.

    Raises:
        InputError: if there are fewer than two documents or folds.
    """
    whole_number(n_folds, "n_folds", at_least=2)
    names, row = np.unique(document, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{len(names)} document: expected at least two, to choose on other documents.")
    order = np.random.default_rng(deal).permutation(len(names)) if deal else np.arange(len(names))
    return order[row] % min(n_folds, len(names))


@strict
def chosen_elsewhere(
    hits: Bool[np.ndarray, "arc candidate"], document: Int[np.ndarray, " arc"], n_folds: int = FOLDS
) -> tuple[Bool[np.ndarray, " arc"], Int[np.ndarray, " fold"]]:
    """Answers of each fold by the candidate with most hits in the other folds, and that candidate by fold.

    Of equal candidates the first is chosen. This is one partition into folds; `share_of_chosen` is the mean over several.

    Raises:
        InputError: if there are fewer than two documents.
    """
    _refuse_unpaired(hits, document)
    fold = folds_of(document, n_folds)
    answers = np.zeros(len(hits), dtype=bool)
    chosen = []
    for number in range(fold.max() + 1):
        inside = fold == number
        chosen.append(int(hits[~inside].sum(axis=0).argmax()))
        answers[inside] = hits[inside, chosen[-1]]
    return answers, np.array(chosen, dtype=np.int64)


@strict
def share_of_chosen(
    hits: Bool[np.ndarray, "arc candidate"],
    document: Int[np.ndarray, " arc"],
    *,
    drawn_from: Int[np.ndarray, " document"] | None = None,
    n_deals: int = DEALS,
    n_folds: int = FOLDS,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> Share:
    """Fraction of right answers by the candidate that is chosen on the other folds, mean over random partitions into folds.

    Every bootstrap sample repeats the choice in every fold and partition, so that the interval has its uncertainty. A sample has fewer
    distinct documents to choose on, so its values are lower, the more candidates there are.

    Args:
        hits: Whether each candidate's answer is right.
        document: Number of each answer's document.
        drawn_from: Documents to sample from, if some have no answer here: fractions with the same documents have the same samples.
            A sample without answers is NaN.
        n_deals: Number of random partitions into folds.
        n_folds: Number of folds.
        n_draws: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Raises:
        InputError: if there are fewer than two documents with answers, if `drawn_from` lacks one of them, or if `n_deals` is 0.
    """
    whole_number(n_deals, "n_deals", at_least=1)
    names = np.unique(document)
    folds = [folds_of(names, n_folds, deal) for deal in range(n_deals)]
    everything = names if drawn_from is None else np.unique(drawn_from)
    if not np.isin(names, everything).all():
        raise InputError("drawn_from lacks documents that have answers; pass the documents of all questions.")
    weights = bootstrap_weights(len(everything), n_draws, seed)[:, np.searchsorted(everything, names)]
    # Row 0 is the sample itself; sums of float32 counts are exact below 2^24.
    weights = np.vstack([np.ones(len(names)), weights]).astype(np.float32)
    order = np.argsort(document, kind="stable")
    begins = np.searchsorted(document[order], names)
    right = np.add.reduceat(hits[order].astype(np.float32), begins, axis=0)
    answers = np.diff([*begins, len(document)]).astype(np.float32)
    all_right, all_answers = weights @ right, weights @ answers
    found, asked = np.zeros(len(weights)), np.zeros(len(weights))
    for fold in folds:
        for number in range(fold.max() + 1):
            inside = fold == number
            own_right, own_answers = weights[:, inside] @ right[inside], weights[:, inside] @ answers[inside]
            chosen = (all_right - own_right).argmax(axis=1)
            can_choose = all_answers > own_answers
            found += can_choose * own_right[np.arange(len(weights)), chosen]
            asked += can_choose * own_answers
    with np.errstate(invalid="ignore"):
        shares = found / asked
    return Share(float(shares[0]), shares[1:])


@strict
@dataclass(frozen=True, eq=False)
class ProbeSentence:
    """One sentence for a probe."""

    maps: Float[np.ndarray, "map word word"]
    """Maps of words; rows sum to 1 or, where special tokens were dropped, to less."""
    vectors: Float[np.ndarray, "word d"]
    """One vector per word, of the same width in all sentences."""
    head: Int[np.ndarray, " word"]
    """The row of each word's head, `ROOT`, or `UNKNOWN`."""
    counted: Bool[np.ndarray, " word"]
    """Words that are tested: Clark et al. omit punctuation."""
    document: int
    """Number of the document."""


@strict
@dataclass(frozen=True)
class Training:
    """Training parameters of probes."""

    epochs: int = 30
    learning_rate: float = 0.01
    batch_size: int = 16
    """Sentences per step."""
    n_folds: int = FOLDS
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in {"epochs": 1, "batch_size": 1, "n_folds": 2, "seed": 0}.items():
            whole_number(getattr(self, name), name, at_least=least)
        real_number(self.learning_rate, "learning_rate", above=0.0)


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Attachments(Result):
    """Unlabelled attachment: whether each tested word got its head."""

    right: Bool[np.ndarray, " word"]
    document: Int[np.ndarray, " word"]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per tested word: document, right."""
        return pd.DataFrame({"document": self.document, "right": self.right})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Number of words, and the fraction of right ones."""
        return f"{self.right.mean():.1%} of {len(self.right)} words", {}


@strict
def attachments(
    sentences: Sequence[ProbeSentence], kind: ProbeKind = "maps", training: Training | None = None
) -> Attachments:
    """Train probes on folds of documents, and test each on the other documents.

    Words are in the order of the sentences, so that answers of two probes can be compared word by word.

    Args:
        sentences: Sentences with equally many maps and vectors of equal width.
        kind: Kind of probe.
        training: Training parameters.

    Raises:
        InputError: for another kind, or fewer than two documents.
    """
    training = training or Training()
    fold = folds_of(np.array([sentence.document for sentence in sentences]), training.n_folds)
    right: list[Bool[np.ndarray, " word"]] = [np.zeros(0, dtype=bool)] * len(sentences)
    for number in range(int(fold.max()) + 1):
        inside, outside = (np.flatnonzero(mask).tolist() for mask in (fold == number, fold != number))
        probe = _trained([sentences[place] for place in outside], kind, training)
        for start in range(0, len(inside), training.batch_size):
            places = inside[start : start + training.batch_size]
            batch = _Batch.of([sentences[place] for place in places])
            with torch.no_grad():
                hit = (probe(batch).argmax(dim=-1) == batch.target).numpy()
            for row, place in enumerate(places):
                right[place] = hit[row, : len(sentences[place].head)][_asked(sentences[place])]
    return Attachments(np.concatenate(right), _documents(sentences))


@strict
def attached_at(sentences: Sequence[ProbeSentence], offset: int) -> Attachments:
    """Baseline: every word's head is `offset` words after it; 1 is right-branching."""
    if not sentences:
        raise InputError("sentences: expected one sentence at least.")
    right = [
        (sentence.head == np.arange(len(sentence.head)) + offset)[_asked(sentence)] & (offset != 0)
        for sentence in sentences
    ]
    return Attachments(np.concatenate(right), _documents(sentences))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Sentences side by side, filled up with zeros to the longest; the root is the candidate after the last place."""

    maps: Float[Tensor, "sentence map word word"]
    vectors: Float[Tensor, "sentence word d"]
    # Candidates: the sentence's other words, and the root.
    open: Bool[Tensor, "sentence word candidate"]
    target: Int[Tensor, "sentence word"]
    asked: Bool[Tensor, "sentence word"]

    @classmethod
    def of(cls, sentences: Sequence[ProbeSentence]) -> "_Batch":
        longest = max(len(sentence.head) for sentence in sentences)
        filled = partial(nn.utils.rnn.pad_sequence, batch_first=True)
        short = [longest - len(sentence.head) for sentence in sentences]
        maps = [torch.from_numpy(sentence.maps).float() for sentence in sentences]
        words = torch.arange(longest + 1) < torch.tensor([[len(sentence.head)] for sentence in sentences])
        others = words[:, None] & ~torch.eye(longest, longest + 1, dtype=torch.bool)
        return cls(
            torch.stack([nn.functional.pad(each, (0, by, 0, by)) for each, by in zip(maps, short, strict=True)]),
            filled([torch.from_numpy(sentence.vectors).float() for sentence in sentences]),
            others | (torch.arange(longest + 1) == longest),
            filled([torch.from_numpy(np.where(s.head == ROOT, longest, s.head)).long() for s in sentences]),
            filled([torch.from_numpy(_asked(sentence)) for sentence in sentences]),
        )


class _Probe(nn.Module):
    """Scores of all candidates of a batch's words."""

    def __init__(self, kind: ProbeKind, words: Float[Tensor, "word d"], n_maps: int) -> None:
        super().__init__()
        self.kind, self.mean = kind, words.mean(dim=0)
        self.components = _components(words - self.mean)
        width = 2 * self.components.shape[1]
        if kind == "distance and words":
            self.layers = nn.Sequential(nn.Linear(len(NEAR) + 3 + width, N_HIDDEN), nn.Tanh(), nn.Linear(N_HIDDEN, 1))
            return
        by_words = 1 + (width if kind == "maps and words" else 0)  # the first column is the weight without words
        self.to_head, self.from_head, self.to_root = (nn.Parameter(torch.zeros(n_maps, by_words)) for _ in range(3))
        self.root = nn.Parameter(torch.zeros(by_words))

    def forward(self, batch: _Batch) -> Float[Tensor, "sentence word candidate"]:
        both = self._words_of_pairs(batch)
        if self.kind == "distance and words":
            places = _places(batch.maps.shape[-1]).expand(len(both), -1, -1, -1)
            scores = self.layers(torch.cat([places, both], dim=-1)).squeeze(-1)
        else:
            to_words = torch.einsum("smik,mc->sikc", batch.maps, self.to_head)
            to_words = to_words + torch.einsum("smki,mc->sikc", batch.maps, self.from_head)
            to_root = torch.einsum("smi,mc->sic", 1 - batch.maps.sum(dim=-1), self.to_root) + self.root
            weighted = torch.cat([to_words, to_root[:, :, None]], dim=2)
            scores = weighted[..., 0] + (weighted[..., 1:] * both[..., : weighted.shape[-1] - 1]).sum(dim=-1)
        return scores.masked_fill(~batch.open, -torch.inf)

    def _words_of_pairs(self, batch: _Batch) -> Float[Tensor, "sentence word candidate d"]:
        """Of every pair the two words' vectors in their components; the root's is zero."""
        vectors = (batch.vectors - self.mean) @ self.components
        candidates = nn.functional.pad(vectors, (0, 0, 0, 1))
        length = vectors.shape[1]
        return torch.cat(
            [vectors[:, :, None].expand(-1, -1, length + 1, -1), candidates[:, None].expand(-1, length, -1, -1)], dim=-1
        )


def _trained(sentences: Sequence[ProbeSentence], kind: ProbeKind, training: Training) -> _Probe:
    generator = torch.Generator().manual_seed(training.seed)
    words = torch.cat([torch.from_numpy(sentence.vectors).float() for sentence in sentences])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        probe = _Probe(kind, words, len(sentences[0].maps))
    optimiser = torch.optim.Adam(probe.parameters(), lr=training.learning_rate)
    for _ in range(training.epochs):
        order = torch.randperm(len(sentences), generator=generator).tolist()
        for start in range(0, len(order), training.batch_size):
            batch = _Batch.of([sentences[place] for place in order[start : start + training.batch_size]])
            loss = nn.functional.cross_entropy(probe(batch)[batch.asked], batch.target[batch.asked], reduction="sum")
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return probe


def _components(words: Float[Tensor, "word d"]) -> Float[Tensor, "d component"]:
    """Directions of most variance, scaled so that the words have about unit length in them."""
    values, directions = torch.linalg.eigh(words.T @ words / max(len(words), 1))
    return directions[:, -N_COMPONENTS:] / values[-N_COMPONENTS:].clamp(min=0).sum().sqrt().clamp(min=1e-6)


def _places(n_words: int) -> Float[Tensor, "word candidate place"]:
    """Signed distance over the length to either side, whether the candidate is near by each of `NEAR`, whether it is the root."""
    offset = torch.arange(n_words)[None] - torch.arange(n_words)[:, None]
    places = torch.zeros(n_words, n_words + 1, len(NEAR) + 3)
    places[:, :-1, 0] = offset.clamp(min=0) / n_words
    places[:, :-1, 1] = (-offset).clamp(min=0) / n_words
    places[:, :-1, 2:-1] = (offset[..., None] == torch.tensor(NEAR)).float()
    places[:, -1, -1] = 1
    return places


def _asked(sentence: ProbeSentence) -> Bool[np.ndarray, " word"]:
    return sentence.counted & (sentence.head != UNKNOWN)


def _documents(sentences: Sequence[ProbeSentence]) -> Int[np.ndarray, " word"]:
    return np.repeat(
        np.array([sentence.document for sentence in sentences]), [int(_asked(sentence).sum()) for sentence in sentences]
    )


def _refuse_unpaired(hits: Shaped[np.ndarray, "arc ..."], document: Int[np.ndarray, " arc"]) -> None:
    if len(hits) != len(document):
        raise InputError(f"{len(hits)} answers and {len(document)} documents: expected the document of each answer.")
