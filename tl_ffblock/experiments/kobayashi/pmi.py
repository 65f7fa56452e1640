"""Pointwise mutual information of token pairs by article, sentence and window (section 5.2).

`PMI(a, b) = log(p(a, b) / (p(a) p(b)))` with p the share of units (articles, sentences, windows) that
hold a token, or both. Tokens are vocabulary entries, special ones left out.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int
from scipy import sparse

Unit: TypeAlias = Literal["article", "sentence", "window"]
UNITS: tuple[Unit, ...] = ("article", "sentence", "window")

_CHUNK = 200_000


@dataclass(frozen=True)
class Text:
    """The tokens of one sequence, without special ones."""

    ids: Int[np.ndarray, " token"]
    document: int
    """Number of its article."""
    sentence: Int[np.ndarray, " token"]
    """Number of the sentence of every token, from 0."""


class Incidence:
    """Which token occurs in which unit."""

    def __init__(self, texts: Iterable[Text], unit: Unit, window: int) -> None:
        tokens, units = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        self.n_units = 0
        for ids, numbers in _occurrences(texts, unit, window):
            tokens.append(ids)
            units.append(numbers + self.n_units if unit != "article" else numbers)
            self.n_units = int(units[-1].max()) + 1 if unit != "article" else self.n_units
        rows, columns = np.concatenate(tokens), np.concatenate(units)
        if unit == "article":
            self.n_units = len(np.unique(columns))
        shape = (rows.max(initial=-1) + 1, columns.max(initial=-1) + 1)
        matrix = sparse.csr_matrix((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape)
        matrix.data[:] = 1
        self._matrix = matrix
        self._frequency = np.asarray(matrix.sum(axis=1)).ravel()

    def pmi(self, first: Int[np.ndarray, " pair"], second: Int[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
        """Give the PMI of each pair; NaN where the two are never in one unit."""
        both = np.concatenate(
            [
                np.zeros(0),
                *(self._together(first[i : i + _CHUNK], second[i : i + _CHUNK]) for i in range(0, len(first), _CHUNK)),
            ]
        )
        with np.errstate(divide="ignore"):
            pmi = np.log(both) + np.log(self.n_units) - np.log(self._frequency[first]) - np.log(self._frequency[second])
        return np.where(both > 0, pmi, np.nan)

    def _together(self, first: Int[np.ndarray, " pair"], second: Int[np.ndarray, " pair"]) -> Int[np.ndarray, " pair"]:
        """How many units hold both."""
        return np.asarray(self._matrix[first].multiply(self._matrix[second]).sum(axis=1)).ravel()


def _occurrences(
    texts: Iterable[Text], unit: Unit, window: int
) -> Iterator[tuple[Int[np.ndarray, " occurrence"], Int[np.ndarray, " occurrence"]]]:
    """Tokens of one sequence with the units they are in; a sequence of special tokens only is in none."""
    for text in texts:
        n = len(text.ids)
        if n == 0:
            continue
        if unit == "article":
            yield text.ids, np.full(n, text.document)
        elif unit == "sentence":
            yield text.ids, text.sentence
        else:
            size = min(window, n)
            starts = np.arange(n - size + 1)
            inside = starts[:, None] + np.arange(size)[None]
            yield text.ids[inside].ravel(), np.repeat(starts, size)


SentenceEnd: TypeAlias = Callable[[int], bool]


def sentences(ids: Int[np.ndarray, " token"], ends: SentenceEnd) -> Int[np.ndarray, " token"]:
    """Give the number of the sentence of every token: one ends after a token for which `ends` is true."""
    last = np.array([ends(int(token)) for token in ids], dtype=bool)
    return np.concatenate([[0], np.cumsum(last[:-1])]) if len(ids) else np.zeros(0, dtype=np.int64)
