"""Measures that read maps: how much a component changed the mixing, and which pairs it amplified."""

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
    """How much the mixing of tokens changed between two scopes: 1 - Spearman's rho, per layer.

    Section 5.1 of Kobayashi et al. 2024. 0 = the same ranking of all token pairs, 1 = unrelated,
    up to 2 = reversed. NaN where a map is constant (one token).

    Args:
        maps: A result, or token maps, that hold both scopes.
        before: Scope before the component, e.g. "Atb".
        after: Scope after it, e.g. "AtbFf".
        cells: "reachable" leaves out the cells a causal model can never fill (key after query);
            "all" keeps these structural zeros, which shrinks the change about fivefold. Without
            causal mask the two are the same.

    Raises:
        InputError: if `maps` is a difference or `cells` is not one of the two.
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
    """How much each token pair gained between two scopes: the difference of the normalised maps.

    The FF-amp of section 5.2 of Kobayashi et al. 2024. Each map is first scaled so that every column
    (footnote 3: all that one source token gives) or every row (all that one position receives)
    sums to 1; positive = amplified.

    Args:
        maps: A result, or token maps, that hold both scopes; columns need all queries.
        before: Scope before the component, e.g. "Atb".
        after: Scope after it, e.g. "AtbFf".
        normalise: "column" as in the paper, or "row".

    Raises:
        InputError: if `maps` is a difference, lacks rows needed for columns or is of named positions, or `normalise` is unknown.
        ScopeKeyError: if a scope is missing.
    """
    _refuse_all_but_norms(maps)
    if isinstance(maps, TokenMaps) and not maps.whole:
        raise InputError(
            f"amplification: these maps hold only some of a row's keys ({brief(maps.tokens)}), of which no shares can be made. Of an "
            "average by name use its as_shares(), or amplify each prompt's maps."
        )
    if normalise == "column" and len(maps.queries) != len(maps.tokens):
        raise InputError(
            f"columns can be normalised only over all queries; these maps hold {len(maps.queries)} of "
            f'{len(maps.tokens)}. Compute all queries or use normalise="row".'
        )
    return shares(maps[after], normalise) - shares(maps[before], normalise)


def _refuse_all_but_norms(maps: ContributionMaps | TokenMaps) -> None:
    if not isinstance(maps, ContributionMaps | TokenMaps):
        raise InputError(
            f"a measure reads the maps of one sequence, not a {type(maps).__name__}: call it for each, or average results of "
            "equally many tokens with ContributionMaps.mean first."
        )
    if maps.signed:
        raise InputError(
            "this measure reads norms; the maps given are a difference. Use the two results it was made from."
        )
