"""Measures of maps: contextualization change and amplification."""

from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.ranks import NormaliseBy, rank_change, shares
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

Cells: TypeAlias = Literal["reachable", "all"]


@strict
def contextualization_change(
    maps: ContributionMaps | TokenMaps, before: str, after: str, *, cells: Cells = "reachable"
) -> Float[Tensor, " layer"]:
    """Contextualization change between two scopes, 1 - Spearman's rho of their cells [layer].

    Section 5.1 of Kobayashi et al. 2024. 0 is the same ranking of all token pairs, 1 an unrelated one, 2 the reversed one. NaN if
    a map is constant (one token).

    Args:
        maps: A result, or token maps, with both scopes.
        before: Scope before the component, such as "Atb".
        after: Scope after it, such as "AtbFf".
        cells: "reachable" omits cells that are zero in every causal model (key after query). "all" keeps these zeros, which
            makes the change about five times smaller. Without causal mask both are the same.

    Returns:
        One number per layer, from 0 to 2.

    Raises:
        InputError: if `maps` is a difference, or for another value of `cells`.
        ScopeKeyError: if a scope is missing.
    """
    _refuse_all_but_norms(maps)
    if cells not in get_args(Cells):
        raise InputError(f'cells={cells!r}: expected "reachable" or "all".')
    if isinstance(maps, TokenMaps) and bool(maps.values.isnan().any()):
        raise InputError(
            "contextualization_change: some cells of these maps are NaN, as in averages by name and in shares, so they have no ranking. "
            "Use each prompt's maps, or an average by position."
        )
    keep = maps.reachable() if cells == "reachable" else None
    changes = [rank_change(*pair, keep) for pair in zip(maps[before].cpu(), maps[after].cpu(), strict=True)]
    return torch.tensor(changes, dtype=torch.float64)


@strict
def amplification(
    maps: ContributionMaps | TokenMaps, before: str, after: str, *, normalise: NormaliseBy = "column"
) -> Float[Tensor, "layer query key"]:
    """Amplification of token pairs between two scopes: difference of the normalised maps [layer query key].

    The FF-amp of section 5.2 of Kobayashi et al. 2024. First, every column of a map (footnote 3: all contributions of one source
    token) or every row (all contributions to one position) is scaled to sum to 1. Positive means amplified.

    Args:
        maps: A result, or token maps, with both scopes; columns need all queries.
        before: Scope before the component, such as "Atb".
        after: Scope after it, such as "AtbFf".
        normalise: "column" as in the paper, or "row".

    Returns:
        Differences of normalised cells [layer query key]; 0 for a key after its query of a causal model.

    Raises:
        InputError: if `maps` is a difference, has not all rows that columns need, or has named positions, or for another value of
            `normalise`.
        ScopeKeyError: if a scope is missing.
    """
    _refuse_all_but_norms(maps)
    if isinstance(maps, TokenMaps) and not maps.whole:
        raise InputError(
            f"amplification: these maps have only some of a row's keys ({brief(maps.tokens)}), so rows have no shares. For an "
            "average by name use its as_shares(), or amplify each prompt's maps."
        )
    if normalise == "column" and len(maps.queries) != len(maps.tokens):
        raise InputError(
            f"columns can be normalised only over all queries; these maps have {len(maps.queries)} of "
            f'{len(maps.tokens)}. Compute all queries or use normalise="row".'
        )
    return shares(maps[after], normalise) - shares(maps[before], normalise)


def _refuse_all_but_norms(maps: ContributionMaps | TokenMaps) -> None:
    if not isinstance(maps, ContributionMaps | TokenMaps):
        raise InputError(
            f"a measure needs the maps of one sequence, not a {type(maps).__name__}: call it for each, or average results of "
            "equally many tokens with ContributionMaps.mean first."
        )
    if maps.signed:
        raise InputError(
            "this measure needs norms; these maps are a difference. Call it for both results of the difference."
        )
