"""Functions of arrays: largest numbers, rank correlation of two maps, and shares of columns or rows.

A map is [query, key]. These functions need no labels, so that every statistic of maps can use them.
"""

from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import whole_number

NormaliseBy: TypeAlias = Literal["column", "row"]
"""What sums to 1: a column (one source token) or a row (one query)."""


def largest(values: Float[Tensor, "..."], k: int | None = None) -> Int[Tensor, " place"]:
    """Indices into a flattened tensor, the largest absolute values first; `k` of them (without sorting), None means all.

    Raises:
        InputError: for a `k` below 1.
    """
    sizes = values.detach().cpu().abs().flatten()
    most = None if k is None else min(whole_number(k, "k", at_least=1), len(sizes))
    return sizes.argsort(descending=True, stable=True) if most is None else sizes.topk(most).indices


def spearman(
    first: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    second: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    cells: Bool[Tensor, "*cell"] | Bool[np.ndarray, "*cell"] | None = None,
) -> float:
    """Spearman's rho of two arrays over the chosen cells (None: all); NaN if one of them is constant."""
    x, y = (unit_ranks(_flat(values, cells)) for values in (first, second))
    return float(x @ y)


def rank_change(
    before: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    after: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    cells: Bool[Tensor, "*cell"] | Bool[np.ndarray, "*cell"] | None = None,
) -> float:
    """1 - Spearman's rho (section 5.1 of Kobayashi et al. 2024): 0 is the same ranking, 2 the reversed one."""
    return 1 - spearman(before, after, cells)


def centred_ranks(values: Shaped[np.ndarray, "*lead cell"]) -> Float[np.ndarray, "*lead cell"]:
    """Ranks along the last axis minus their mean; equal values share the mean of their ranks."""
    from scipy.stats import rankdata  # noqa: PLC0415  # half a second, which maps do not need

    ranks = rankdata(values, axis=-1)
    ranks -= ranks.mean(axis=-1, keepdims=True)
    return ranks


def unit_ranks(values: Shaped[np.ndarray, "*lead cell"]) -> Float[np.ndarray, "*lead cell"]:
    """Centred ranks divided by their norm: sums of products are Spearman's rho. NaN if all values are equal.

    Ranks that are compared several times are computed once.
    """
    ranks = centred_ranks(values)
    lengths = np.linalg.norm(ranks, axis=-1, keepdims=True)
    return ranks / np.where(lengths > 0, lengths, np.nan)


def shares(
    maps: Float[Tensor, "*lead query key"], normalise: NormaliseBy = "column"
) -> Float[Tensor, "*lead query key"]:
    """Each map divided by the sums of its columns or rows; a column or row of zeros stays zero.

    Raises:
        InputError: if `normalise` is not one of the two.
    """
    if normalise not in get_args(NormaliseBy):
        raise InputError(f'normalise={normalise!r}: expected "column" or "row".')
    total = maps.sum(dim=-2 if normalise == "column" else -1, keepdim=True)
    return maps / total.where(total != 0, 1)


def shares_of_others(
    maps: Float[Tensor, "*lead query key"], others: Bool[Tensor, "query key"]
) -> Float[Tensor, "*lead query key"]:
    """Shares of each row without its own token: cells of `others`, divided by their sum; zero elsewhere."""
    return shares(maps.detach().cpu().double().where(others, 0.0), "row")


def others_of(reachable: Bool[Tensor, "query key"], queries: Sequence[int]) -> Bool[Tensor, "query key"]:
    """Reachable cells without each row's own token."""
    others = reachable.clone()
    others[range(len(queries)), list(queries)] = False
    return others


def _flat(values: Tensor | np.ndarray, cells: Tensor | np.ndarray | None) -> Float[np.ndarray, " cell"]:
    """The chosen cells as one array, in float64 (numpy has no bfloat16)."""
    chosen = (values if cells is None else values[cells]).reshape(-1)
    return chosen.detach().double().cpu().numpy() if isinstance(chosen, Tensor) else chosen.astype(np.float64)
