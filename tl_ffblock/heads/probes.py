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

A probe minimises the sum of -log p(head of i | i) over the training words, plus half the penalty times the sum of squared weights.
For "maps" and "maps and words" this is convex, so that the answers depend on the definition and not on the optimiser. L-BFGS (Liu
and Nocedal 1989) runs over all sentences until the gradient is small, and an unfinished training is an error.
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

    penalty: float = 1.0
    """Factor of half the sum of squared weights, added to the sum of all words' losses. Without any, weights that separate the
    training words grow without end."""
    tolerance: float = 1e-4
    """Largest partial derivative of the loss per word at which training ends. Maps with small values need a smaller one."""
    max_iterations: int = 2000
    """Largest number of iterations of L-BFGS."""
    n_folds: int = FOLDS
    seed: int = 0
    """Seed of the first weights of "distance and words"; the others start at zero."""

    def __post_init__(self) -> None:
        for name, least in {"max_iterations": 1, "n_folds": 2, "seed": 0}.items():
            whole_number(getattr(self, name), name, at_least=least)
        real_number(self.penalty, "penalty", at_least=0.0)
        real_number(self.tolerance, "tolerance", above=0.0)


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
        InputError: for another kind, fewer than two documents, or a training that does not reach its tolerance.
    """
    training = training or Training()
    fold = folds_of(np.array([sentence.document for sentence in sentences]), training.n_folds)
    right: list[Bool[np.ndarray, " word"]] = [np.zeros(0, dtype=bool)] * len(sentences)
    for number in range(int(fold.max()) + 1):
        inside, outside = (np.flatnonzero(mask).tolist() for mask in (fold == number, fold != number))
        probe = _trained([sentences[place] for place in outside], kind, training)
        for places in _by_length([len(sentences[place].head) for place in inside]):
            places = [inside[place] for place in places]
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

    # Of the word i and the candidate k every map's a_ik, then every map's a_ki.
    maps: Float[Tensor, "sentence word word feature"]
    # Of every map the part of the row on no word, and a constant.
    beyond: Float[Tensor, "sentence word feature"]
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
        maps = [torch.from_numpy(sentence.maps).double() for sentence in sentences]
        words = torch.arange(longest + 1) < torch.tensor([[len(sentence.head)] for sentence in sentences])
        others = words[:, None] & ~torch.eye(longest, longest + 1, dtype=torch.bool)
        padded = torch.stack(
            [nn.functional.pad(each, (0, by, 0, by)) for each, by in zip(maps, short, strict=True)]
        ).movedim(1, 3)
        return cls(
            torch.cat([padded, padded.transpose(1, 2)], dim=-1),
            nn.functional.pad(1 - padded.sum(dim=2), (0, 1), value=1.0),
            filled([torch.from_numpy(sentence.vectors).double() for sentence in sentences]),
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
        else:
            by_words = 1 + (width if kind == "maps and words" else 0)  # the first column is the weight without words
            self.to_word = nn.Parameter(torch.zeros(2 * n_maps, by_words))
            self.to_root = nn.Parameter(torch.zeros(n_maps + 1, by_words))
        self.double()

    def forward(self, batch: _Batch) -> Float[Tensor, "sentence word candidate"]:
        words = (batch.vectors - self.mean) @ self.components
        if self.kind == "distance and words":
            scores = self._by_distance(words)
        else:
            to_root = (batch.beyond * self._weights(self.to_root, words)).sum(dim=-1)
            scores = torch.cat([self._to_words(batch.maps, words), to_root[:, :, None]], dim=2)
        return scores.masked_fill(~batch.open, -torch.inf)

    def _weights(
        self, by_words: Tensor, words: Tensor, *, candidate: bool = False
    ) -> Float[Tensor, "sentence word feature"]:
        """Part of each feature's weight that depends on the word, with the constant, or on the candidate."""
        half = (by_words.shape[1] - 1) // 2
        start = 1 + half * candidate
        depending = words[..., :half] @ by_words[:, start : start + half].T
        return depending if candidate else depending + by_words[:, 0]

    def _to_words(self, features: Tensor, words: Tensor) -> Float[Tensor, "sentence word candidate"]:
        """Sum over features of f(i, k) (w + W [v_i; v_k]), without forming the weights of every pair.

        The term of v_k is the one of v_i with i and k exchanged, which exchanges the two halves of the features.
        """
        weights = [self._weights(self.to_word, words)]
        if self.kind == "maps and words":
            weights.append(self._weights(self.to_word, words, candidate=True).roll(features.shape[-1] // 2, dims=-1))
        scores: Tensor = features @ torch.stack(weights, dim=-1)
        return sum((scores[..., 1].mT for _ in weights[1:]), scores[..., 0])

    def _by_distance(self, words: Float[Tensor, "sentence word d"]) -> Float[Tensor, "sentence word candidate"]:
        """MLP of places and both words; its first layer is a sum of three terms, of which the root has no word."""
        first, n_words = self.layers[0], words.shape[1]
        assert isinstance(first, nn.Linear)
        of_place, of_word, of_candidate = first.weight.tensor_split(
            [len(NEAR) + 3, len(NEAR) + 3 + words.shape[2]], dim=1
        )
        candidates = nn.functional.pad(words @ of_candidate.T, (0, 0, 0, 1))
        hidden = _places(n_words).double() @ of_place.T + first.bias + (words @ of_word.T)[:, :, None]
        scores: Tensor = self.layers[1:](hidden + candidates[:, None]).squeeze(-1)
        return scores


def _by_length(lengths: Sequence[int], size: int = 16) -> list[list[int]]:
    """Indices of sentences in batches of nearly equal length."""
    order = np.argsort(lengths, kind="stable").tolist()
    return [order[start : start + size] for start in range(0, len(order), size)]


def _trained(sentences: Sequence[ProbeSentence], kind: ProbeKind, training: Training) -> _Probe:
    words = torch.cat([torch.from_numpy(sentence.vectors).double() for sentence in sentences])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(training.seed)
        probe = _Probe(kind, words, len(sentences[0].maps))
    lengths = [len(sentence.head) for sentence in sentences]
    batches = [_Batch.of([sentences[place] for place in places]) for places in _by_length(lengths)]
    n_words = max(sum(int(batch.asked.sum()) for batch in batches), 1)
    parameters = list(probe.parameters())
    optimiser = torch.optim.LBFGS(
        parameters,
        max_iter=training.max_iterations,
        max_eval=2 * training.max_iterations,
        tolerance_grad=training.tolerance,
        tolerance_change=0.0,
        line_search_fn="strong_wolfe",
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        total = training.penalty / 2 * sum((weights**2).sum() for weights in parameters) / n_words
        torch.as_tensor(total).backward()  # type: ignore[no-untyped-call]
        for batch in batches:
            of_words = nn.functional.cross_entropy(
                probe(batch)[batch.asked], batch.target[batch.asked], reduction="sum"
            )
            (of_words / n_words).backward()  # type: ignore[no-untyped-call]
            total = total + of_words.detach() / n_words
        return torch.as_tensor(total).detach()

    optimiser.step(loss)  # type: ignore[no-untyped-call]
    steepest = max(float(weights.grad.abs().max()) for weights in parameters if weights.grad is not None)
    if not steepest <= training.tolerance:
        raise InputError(
            f"the probe {kind!r} has not converged: its largest partial derivative is {steepest:.1e}, expected at most "
            f"tolerance={training.tolerance:.1e}. Use a larger penalty (now {training.penalty:g}) or more max_iterations "
            f"({training.max_iterations})."
        )
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
