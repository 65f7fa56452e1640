"""Arrays in, numbers out: rank correlation of two maps, and shares of columns or rows.

A map is [query, key]; nothing here knows its labels, so that every statistic of maps can use it.
"""

from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from tl_ffblock.errors import InputError

Normalise: TypeAlias = Literal["column", "row"]
"""What sums to 1: all that one source token gives, or all that one position receives."""


def spearman(
    first: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    second: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    cells: Bool[Tensor, "*cell"] | Bool[np.ndarray, "*cell"] | None = None,
) -> float:
    """Spearman's rho of two arrays over the chosen cells (None: all); NaN where one of them is constant."""
    x, y = (centred_ranks(_flat(values, cells)) for values in (first, second))
    lengths = float(np.linalg.norm(x) * np.linalg.norm(y))
    return float(x @ y) / lengths if lengths != 0 else float("nan")


def rank_change(
    before: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    after: Shaped[Tensor, "*cell"] | Shaped[np.ndarray, "*cell"],
    cells: Bool[Tensor, "*cell"] | Bool[np.ndarray, "*cell"] | None = None,
) -> float:
    """1 - Spearman's rho (section 5.1 of Kobayashi et al. 2024): 0 is the same ranking, 2 the reversed one."""
    return 1 - spearman(before, after, cells)


def centred_ranks(values: Shaped[np.ndarray, " cell"]) -> Float[np.ndarray, " cell"]:
    """Ranks minus their mean; equal values share the mean of their ranks."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    return ranks - ranks.mean()


def shares(maps: Float[Tensor, "*lead query key"], normalise: Normalise = "column") -> Float[Tensor, "*lead query key"]:
    """Each map divided by the sums of its columns or rows; a column or row of zeros stays zero.

    Raises:
        InputError: if `normalise` is not one of the two.
    """
    if normalise not in get_args(Normalise):
        raise InputError(f'normalise={normalise!r}: expected "column" or "row".')
    total = maps.sum(dim=-2 if normalise == "column" else -1, keepdim=True)
    return maps / total.where(total != 0, 1)


def _flat(values: Tensor | np.ndarray, cells: Tensor | np.ndarray | None) -> Float[np.ndarray, " cell"]:
    """The chosen cells in one row, in float64 (numpy has no bfloat16)."""
    chosen = (values if cells is None else values[cells]).reshape(-1)
    return chosen.detach().double().cpu().numpy() if isinstance(chosen, Tensor) else chosen.astype(np.float64)
