"""Probes: how much of a parse is in all maps together? (Clark et al. 2019, section 5).

A probe says of every word which word is its head, or that it is the root. It is trained on some documents and asked
on others; the model is not trained. Of word i and candidate k it reads features f(i, k), one weight each:

    a word   every map's a_ik and a_ki
    root     of every map what i's row gives to no word (to special tokens), and a constant

    "maps"                score = w . f(i, k)
    "maps and words"      score = (W [v_i; v_k] + w) . f(i, k), v the word's vector: weights that depend on the words
    "distance and words"  score = MLP of [v_i; v_k] and the place of k as seen from i; reads no map

and p(k | i) is the softmax of the score over all k but i. Word vectors are reduced to principal components of the
training words. Answers come from cross-validation over documents: of every document by a probe that has not seen it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from tl_ffblock.errors import InputError
from tl_ffblock.heads.comparison import FOLDS, folds_of
from tl_ffblock.layer.positions import real_number, whole_number
from tl_ffblock.signatures import strict

ProbeKind: TypeAlias = Literal["maps", "maps and words", "distance and words"]
ROOT = -1
"""The head of a root."""
UNKNOWN = -2
"""The head of a word that has none in the data: a candidate, but not asked for."""
N_COMPONENTS = 64
N_HIDDEN = 256
NEAR = (-2, -1, 1, 2)
"""Distances that the distance probe tells apart, beside near and far."""


@strict
@dataclass(frozen=True, eq=False)
class ProbeSentence:
    """One sentence as a probe reads it."""

    maps: Float[np.ndarray, "map word word"]
    """Maps of words; rows sum to 1 or, where special tokens were dropped, to less."""
    vectors: Float[np.ndarray, "word d"]
    """A vector a word, of the same width in all sentences."""
    head: Int[np.ndarray, " word"]
    """The row of each word's head, `ROOT`, or `UNKNOWN`."""
    counted: Bool[np.ndarray, " word"]
    """Which words are asked for: Clark et al. leave punctuation out."""
    document: int
    """A number for the document."""


@strict
@dataclass(frozen=True)
class Training:
    """How probes are trained."""

    epochs: int = 30
    learning_rate: float = 0.01
    batch_size: int = 16
    """Sentences a step."""
    n_folds: int = FOLDS
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what no training can be made of.

        Raises:
            InputError: for a number that is too small or not one.
        """
        for name, least in {"epochs": 1, "batch_size": 1, "n_folds": 2, "seed": 0}.items():
            whole_number(getattr(self, name), name, at_least=least)
        real_number(self.learning_rate, "learning_rate", above=0.0)


@strict
@dataclass(frozen=True, eq=False)
class Attachments:
    """Which words were given their head: unlabelled attachment, a truth value a word asked for."""

    right: Bool[np.ndarray, " word"]
    document: Int[np.ndarray, " word"]


@strict
def attachments(
    sentences: Sequence[ProbeSentence], kind: ProbeKind = "maps", training: Training | None = None
) -> Attachments:
    """Train probes on folds of documents, and ask each for the documents that it has not seen.

    Words are in the order of the sentences, so that two probes' answers can be compared word by word.

    Args:
        sentences: With maps of the same number and vectors of the same width.
        kind: What the probe reads.
        training: How it is trained.

    Raises:
        InputError: for another kind, or fewer than two documents.
    """
    if kind not in get_args(ProbeKind):
        raise InputError(f"kind={kind!r}: expected one of {', '.join(get_args(ProbeKind))}.")
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
    """The baseline that every word's head is `offset` words behind it; 1 is right-branching."""
    if not sentences:
        raise InputError("sentences: expected one sentence at least.")
    right = [
        (sentence.head == np.arange(len(sentence.head)) + offset)[_asked(sentence)] & (offset != 0)
        for sentence in sentences
    ]
    return Attachments(np.concatenate(right), _documents(sentences))


@dataclass(frozen=True, eq=False)
class _Batch:
    """Sentences side by side, filled up with zeros to the longest; the root is the candidate behind the last place."""

    maps: Float[Tensor, "sentence map word word"]
    vectors: Float[Tensor, "sentence word d"]
    open: Bool[Tensor, "sentence word candidate"]
    """Candidates: the sentence's other words, and the root."""
    target: Int[Tensor, "sentence word"]
    asked: Bool[Tensor, "sentence word"]

    @classmethod
    def of(cls, sentences: Sequence[ProbeSentence]) -> "_Batch":
        longest, first = max(len(sentence.head) for sentence in sentences), sentences[0]
        maps = torch.zeros(len(sentences), len(first.maps), longest, longest)
        vectors = torch.zeros(len(sentences), longest, first.vectors.shape[1])
        candidates = torch.zeros(len(sentences), longest, longest + 1, dtype=torch.bool)
        target = torch.zeros(len(sentences), longest, dtype=torch.long)
        asked = torch.zeros(len(sentences), longest, dtype=torch.bool)
        for row, sentence in enumerate(sentences):
            count = len(sentence.head)
            maps[row, :, :count, :count] = torch.from_numpy(sentence.maps)
            vectors[row, :count] = torch.from_numpy(sentence.vectors)
            candidates[row, :, :count] = ~torch.eye(longest, count, dtype=torch.bool)
            target[row, :count] = torch.from_numpy(np.where(sentence.head == ROOT, longest, sentence.head))
            asked[row, :count] = torch.from_numpy(_asked(sentence))
        candidates[:, :, longest] = True
        return cls(maps, vectors, candidates, target, asked)


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
            nowhere = 1 - batch.maps.sum(dim=-1)
            to_root = torch.einsum("smi,mc->sic", nowhere, self.to_root) + self.root
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
    kept = directions[:, -N_COMPONENTS:]
    return kept / values[-N_COMPONENTS:].clamp(min=0).sum().sqrt().clamp(min=1e-6)


def _places(n_words: int) -> Float[Tensor, "word candidate place"]:
    """Signed distance over the length to either side, whether the candidate is near by each of `NEAR`, whether it is the root."""
    offset = torch.arange(n_words)[None] - torch.arange(n_words)[:, None]
    places = torch.zeros(n_words, n_words + 1, len(NEAR) + 3)
    places[:, :-1, 0] = offset.clamp(min=0) / n_words
    places[:, :-1, 1] = (-offset).clamp(min=0) / n_words
    for place, near in enumerate(NEAR, start=2):
        places[:, :-1, place] = (offset == near).float()
    places[:, -1, -1] = 1
    return places


def _asked(sentence: ProbeSentence) -> Bool[np.ndarray, " word"]:
    return sentence.counted & (sentence.head != UNKNOWN)


def _documents(sentences: Sequence[ProbeSentence]) -> Int[np.ndarray, " word"]:
    return np.repeat(
        np.array([sentence.document for sentence in sentences]), [int(_asked(sentence).sum()) for sentence in sentences]
    )
