"""Shares over a corpus with intervals over its documents, and candidates that are chosen on other documents.

The best of many heads is better by chance than it is. So each fold of documents is measured with the candidate that
does best on the other folds. Intervals are the bootstrap's over documents, whose arcs are drawn together; the choice
is not made again in a draw.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.results.intervals import N_DRAWS, PERCENTILES, bootstrap_weights
from tl_ffblock.signatures import strict

FOLDS = 5


@strict
@dataclass(frozen=True, eq=False)
class Share:
    """A share of right answers with what the bootstrap drew."""

    value: float
    draws: Float[np.ndarray, " draw"]

    def interval(self) -> tuple[float, float]:
        """95 %, of the draws."""
        low, high = np.percentile(self.draws, PERCENTILES)
        return float(low), float(high)

    def columns(self, name: str) -> dict[str, float]:
        """The value and its interval as columns of a table: `name`, `name_low`, `name_high`."""
        low, high = self.interval()
        return {name: self.value, f"{name}_low": low, f"{name}_high": high}

    def minus(self, other: "Share") -> "Share":
        """The difference, draw by draw: both have to be drawn from the same documents."""
        return Share(self.value - other.value, self.draws - other.draws)


@strict
def share_of_hits(
    hit: Shaped[np.ndarray, " arc"], document: Int[np.ndarray, " arc"], *, n_draws: int = N_DRAWS, seed: int = 0
) -> Share:
    """Share of right answers; of the same documents in the same order, the draws are the same.

    Args:
        hit: Whether each answer is right.
        document: A number for the document of each.
        n_draws: Draws of the bootstrap.
        seed: Of the draws.

    Raises:
        InputError: if there is no answer.
    """
    if not len(hit):
        raise InputError("no answer to count: a share of nothing has no value.")
    _refuse_unpaired(hit, document)
    whole_number(n_draws, "n_draws", at_least=1)
    whole_number(seed, "seed", at_least=0)
    names, row = np.unique(document, return_inverse=True)
    right, answers = (np.bincount(row, weights=values, minlength=len(names)) for values in (hit, np.ones(len(hit))))
    weights = bootstrap_weights(len(names), n_draws, seed)
    return Share(float(np.mean(hit)), (weights @ right) / (weights @ answers))


@strict
def folds_of(document: Int[np.ndarray, " arc"], n_folds: int = FOLDS) -> Int[np.ndarray, " arc"]:
    """The fold of each answer: documents are dealt out in the order of their numbers.

    Raises:
        InputError: if there are fewer than two documents.
    """
    whole_number(n_folds, "n_folds", at_least=2)
    names, row = np.unique(document, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{len(names)} document: choosing on other documents needs two at least.")
    return row % min(n_folds, len(names))


@strict
def chosen_elsewhere(
    hits: Bool[np.ndarray, "arc candidate"], document: Int[np.ndarray, " arc"], n_folds: int = FOLDS
) -> tuple[Bool[np.ndarray, " arc"], Int[np.ndarray, " fold"]]:
    """Each fold's answers by the candidate that has most hits in the other folds, and which that was.

    The first of several equals is chosen.

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


def _refuse_unpaired(hits: Shaped[np.ndarray, "arc ..."], document: Int[np.ndarray, " arc"]) -> None:
    if len(hits) != len(document):
        raise InputError(f"{len(hits)} answers and {len(document)} documents: expected the document of each answer.")
