"""Shares over a corpus with intervals over its documents, and candidates that are chosen on other documents.

The best of many heads is better by chance than it is. So each fold of documents is measured with the candidate that
does best on the other folds, and since that depends on which documents share a fold, the share is a mean over several
deals of documents into folds. Intervals are the bootstrap's over documents, whose arcs are drawn together; each draw
makes the choice again.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.results.intervals import N_DRAWS, PERCENTILES, bootstrap_weights
from tl_ffblock.signatures import strict

FOLDS = 5
DEALS = 20
"""Deals of documents into folds over which the share of a chosen candidate is a mean."""


@strict
@dataclass(frozen=True, eq=False)
class Share:
    """A share of right answers with what the bootstrap drew."""

    value: float
    draws: Float[np.ndarray, " draw"]

    def interval(self) -> tuple[float, float]:
        """95 %, of the draws that have a value."""
        low, high = np.nanpercentile(self.draws, PERCENTILES)
        return float(low), float(high)

    def columns(self, name: str) -> dict[str, float]:
        """The value and its interval as columns of a table: `name`, `name_low`, `name_high`."""
        low, high = self.interval()
        return {name: self.value, f"{name}_low": low, f"{name}_high": high}

    def minus(self, other: "Share") -> "Share":
        """The difference, draw by draw: both have to be drawn from the same documents."""
        return Share(self.value - other.value, self.draws - other.draws)


@strict
def mean_share(shares: Sequence[Share]) -> Share:
    """The mean of several shares, draw by draw, of those that have a value: all have to be drawn from the same documents."""
    if not shares or not all(isinstance(share, Share) for share in shares):
        raise InputError(f"shares={brief(shares)}: expected one Share or more, as share_of_hits gives it.")
    draws = np.stack([share.draws for share in shares])
    with np.errstate(invalid="ignore"):
        means = np.nansum(draws, axis=0) / np.isfinite(draws).sum(axis=0)
    return Share(float(np.mean([share.value for share in shares])), means)


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
def folds_of(document: Int[np.ndarray, " arc"], n_folds: int = FOLDS, deal: int = 0) -> Int[np.ndarray, " arc"]:
    """The fold of each answer.

    Args:
        document: A number for the document of each answer.
        n_folds: Folds, at most one per document.
        deal: Deal 0 takes the documents in the order of their numbers, each other one in a random order of its own.

    Raises:
        InputError: if there are fewer than two documents or folds.
    """
    whole_number(n_folds, "n_folds", at_least=2)
    names, row = np.unique(document, return_inverse=True)
    if len(names) < 2:
        raise InputError(f"{len(names)} document: choosing on other documents needs two at least.")
    order = np.random.default_rng(deal).permutation(len(names)) if deal else np.arange(len(names))
    return order[row] % min(n_folds, len(names))


@strict
def chosen_elsewhere(
    hits: Bool[np.ndarray, "arc candidate"], document: Int[np.ndarray, " arc"], n_folds: int = FOLDS
) -> tuple[Bool[np.ndarray, " arc"], Int[np.ndarray, " fold"]]:
    """Each fold's answers by the candidate that has most hits in the other folds, and which that was.

    The first of several equals is chosen. This is one deal of documents into folds; `share_of_chosen` is the mean over several.

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
    """Share of right answers by the candidate that is chosen on the other folds, mean over deals of documents into folds.

    Every draw of the bootstrap makes the choice of every fold and deal again, so that the interval has the uncertainty of the choice.
    A draw has fewer distinct documents to choose on: it loses the more, the more candidates there are.

    Args:
        hits: Whether each candidate answers right.
        document: A number for the document of each answer.
        drawn_from: Documents that the bootstrap draws, where some have no answer here: shares of the same ones have the same draws.
            A draw without any answer to choose on and to measure is NaN.
        n_deals: Deals of documents into folds.
        n_folds: Folds of each.
        n_draws: Draws of the bootstrap.
        seed: Of the draws.

    Raises:
        InputError: if there are fewer than two documents with answers, `drawn_from` lacks one of them, or there is no deal.
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


def _refuse_unpaired(hits: Shaped[np.ndarray, "arc ..."], document: Int[np.ndarray, " arc"]) -> None:
    if len(hits) != len(document):
        raise InputError(f"{len(hits)} answers and {len(document)} documents: expected the document of each answer.")
