"""Rows of maps as distributions over source tokens."""

from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from tl_ffblock.errors import InputError, brief
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

Rows: TypeAlias = Float[np.ndarray, "layer channel query key"]
QueryNumbers: TypeAlias = Float[np.ndarray, "layer channel query"]


@strict
def distributions(maps: TokenMaps) -> Rows:
    """Every row divided by its sum, in float64; NaN where a row is all zeros, since it points nowhere.

    Attention's rows sum to 1 already, except with attention sinks, whose weight no token gets.

    Raises:
        InputError: if a value is negative or no number, as in a difference of maps, or named positions are all that there is.
    """
    if not maps.whole:
        raise InputError(
            f"{maps.kind} of {maps.model} at {brief(maps.tokens)}: these are some of the tokens that a row takes from, and have no "
            "shares of its sum. Give each prompt's whole maps."
        )
    values = maps.values.detach().double().cpu().numpy()
    if not (values >= 0).all():
        raise InputError(
            f"{maps.kind} of {maps.model}: {int((~(values >= 0)).sum())} values are negative or no number. Rows are read as "
            "shares of a sum, so they have to be weights or norms; give the maps themselves and not their difference."
        )
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.full_like(values, np.nan), where=total > 0)


@strict
def entropy(maps: TokenMaps) -> QueryNumbers:
    """`-sum p ln p` of every row, in nats: 0 for one token, ln n for n tokens alike; NaN for a row of zeros."""
    from scipy.special import entr

    return entr(distributions(maps)).sum(axis=-1)


@strict
def evenness(maps: TokenMaps) -> QueryNumbers:
    """Entropy over its largest value, ln of the tokens that a query can reach; NaN where it reaches one alone."""
    reached = maps.reachable().sum(dim=-1).numpy()
    most = np.log(np.maximum(reached, 1))
    rows = entropy(maps)
    return np.divide(rows, most, out=np.full_like(rows, np.nan), where=np.broadcast_to(reached > 1, rows.shape))
