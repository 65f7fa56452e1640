"""Results as one, cell by cell: what sums, differences and means of `ContributionMaps` share."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.results.scope_table import cell_by_cell
from tl_ffblock.results.tokens import joined, joined_provenance

if TYPE_CHECKING:
    from tl_ffblock.results.maps import ContributionMaps


def combined(
    results: Sequence["ContributionMaps"], operation: Callable[[Tensor, Tensor], Tensor], between: str, verb: str
) -> "ContributionMaps":
    """Results as one, cell by cell; labels that differ are joined, of completeness errors the worst is kept."""
    first = results[0]
    for maps in results[1:]:
        _refuse_other_cells(first, maps, verb)
    return dataclasses.replace(
        first,
        tokens=tuple(joined(labels, between) for labels in zip(*(maps.tokens for maps in results), strict=True)),
        model=joined([maps.model for maps in results], between),
        signed=any(maps.signed for maps in results),
        provenance=joined_provenance([maps.provenance for maps in results], "|"),
        values=cell_by_cell([maps.values for maps in results], operation),
        bias=cell_by_cell([maps.bias for maps in results], operation),
        remainder=cell_by_cell([maps.remainder for maps in results], operation),
        heads=cell_by_cell([maps.heads for maps in results], operation),
        completeness=cell_by_cell([maps.completeness for maps in results], torch.maximum),
    )


def _refuse_other_cells(first: "ContributionMaps", second: "ContributionMaps", verb: str) -> None:
    if len(first.tokens) != len(second.tokens):
        raise InputError(
            f"cannot {verb} maps of {len(first.tokens)} and of {len(second.tokens)} tokens: use texts of equally many."
        )
    for name in ("layers", "scopes", "queries", "order", "causal"):
        mine, theirs = getattr(first, name), getattr(second, name)
        if mine != theirs:
            raise InputError(f"cannot {verb} maps with different {name}: {brief(mine)} against {brief(theirs)}.")
    if first.heads.channels != second.heads.channels:
        mine, theirs = (", ".join(maps.heads.channels) or "no heads" for maps in (first, second))
        raise InputError(f"cannot {verb} maps of {mine} and of {theirs}: make both with the same heads=.")
