"""Measures that read maps: how much a component changed the mixing, and which pairs it amplified."""

from typing import Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.results.maps import ContributionMaps

Cells: TypeAlias = Literal["reachable", "all"]


def contextualization_change(
    maps: ContributionMaps, before: str, after: str, *, cells: Cells = "reachable"
) -> Float[Tensor, " layer"]:
    """How much the mixing of tokens changed between two scopes: 1 - Spearman's rho, per layer.

    Section 5.1 of Kobayashi et al. 2024. 0 = the same ranking of all token pairs, 1 = unrelated,
    up to 2 = reversed. NaN where a map is constant (one token).

    Args:
        maps: A result that holds both scopes.
        before: Scope before the component, e.g. "Atb".
        after: Scope after it, e.g. "AtbFf".
        cells: "reachable" leaves out the cells a causal model can never fill (key after query);
            "all" keeps these structural zeros, which shrinks the change about fivefold. Without
            causal mask the two are the same.

    Raises:
        InputError: if `maps` is a difference or `cells` is not one of the two.
        ScopeKeyError: if a scope is missing.
    """
    from scipy.stats import rankdata

    _refuse_differences(maps)
    if cells not in ("reachable", "all"):
        raise InputError(f'cells={cells!r}: expected "reachable" or "all".')
    keep = reachable(maps) if cells == "reachable" else torch.ones_like(reachable(maps))
    changes = []
    for first, second in zip(maps[before], maps[after], strict=True):
        ranks = torch.stack([torch.as_tensor(rankdata(m.cpu()[keep].double().numpy())) for m in (first, second)])
        ranks = ranks - ranks.mean(dim=1, keepdim=True)
        changes.append(1 - (ranks[0] @ ranks[1]) / (ranks[0].norm() * ranks[1].norm()))
    return torch.stack(changes)


def amplification(
    maps: ContributionMaps, before: str, after: str, *, normalise: Literal["column", "row"] = "column"
) -> Float[Tensor, "layer query key"]:
    """How much each token pair gained between two scopes: the difference of the normalised maps.

    The FF-amp of section 5.2 of Kobayashi et al. 2024. Each map is first scaled so that every column
    (footnote 3: all that one source token gives) or every row (all that one position receives)
    sums to 1; positive = amplified.

    Args:
        maps: A result that holds both scopes; columns need all queries.
        before: Scope before the component, e.g. "Atb".
        after: Scope after it, e.g. "AtbFf".
        normalise: "column" as in the paper, or "row".

    Raises:
        InputError: if `maps` is a difference, lacks rows needed for columns, or `normalise` is unknown.
        ScopeKeyError: if a scope is missing.
    """
    _refuse_differences(maps)
    if normalise not in ("column", "row"):
        raise InputError(f'normalise={normalise!r}: expected "column" or "row".')
    if normalise == "column" and len(maps.queries) != len(maps.tokens):
        raise InputError(
            f"columns can be normalised only over all queries; these maps hold {len(maps.queries)} of "
            f'{len(maps.tokens)}. Compute all queries or use normalise="row".'
        )
    axis = -2 if normalise == "column" else -1

    def shares(scope: str) -> Tensor:
        total = maps[scope].sum(dim=axis, keepdim=True)
        return maps[scope] / torch.where(total == 0, torch.ones_like(total), total)

    return shares(after) - shares(before)


def reachable(maps: ContributionMaps) -> Bool[Tensor, "query key"]:
    """The cells that can be non-zero: all, or key <= query in a causal model."""
    queries, keys = torch.tensor(maps.queries), torch.arange(len(maps.tokens))
    if not maps.causal:
        return torch.ones(len(queries), len(keys), dtype=torch.bool)
    return keys[None, :] <= queries[:, None]


def _refuse_differences(maps: ContributionMaps) -> None:
    if maps.signed:
        raise InputError(
            "this measure reads norms; the maps given are a difference. Use the two results it was made from."
        )
