"""An attribution as token maps, so that what reads maps reads it: averages over prompts by named positions, figures, pages."""

from typing import TYPE_CHECKING, Literal, TypeAlias, cast, get_args

import torch
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.heads import head_names
from tl_ffblock.results.page_blocks import BETWEEN_TOKENS
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from tl_ffblock.attribution.attribution import Attribution

Reading: TypeAlias = Literal["residual", "heads", "edges"]
_COLUMNS: dict[Reading, str] = {"residual": "flowing at", "heads": "written at", "edges": BETWEEN_TOKENS}
"""What a column is."""


@strict
class PositionedShares:
    """The method of `Attribution` that makes token maps of it."""

    def token_maps(self, of: Reading = "residual") -> TokenMaps:
        """Signed shares as `TokenMaps`, which `ffb.average(results, positions={"IO": [2, 4], "END": -1})` takes as they are.

        "residual" and "heads" are numbers by position, in one row: a head's share is what it writes at the column's position,
        wherever it took that from (the edges say), and through the residual stream flows what does at the column's position.
        "residual" has one layer more than the model: its first is what enters, its last the end.

        Args:
            of: "residual" [boundary 1 1 pos], "heads" [layer head 1 pos] or "edges" [layer head query key].

        Raises:
            InputError: for another name.
            ScopeKeyError: if it was not asked for.
        """
        result = cast("Attribution", self)
        if of not in get_args(Reading):
            raise InputError(f"of={brief(of)}: expected one of {', '.join(map(repr, get_args(Reading)))}.")
        if of == "edges":
            values, causal = result.edges, not bool(result.edges.triu(1).any())
            queries = tuple(range(len(result.labels)))
        else:
            values = result.residual[:, None, None] if of == "residual" else result.heads[:, :, None]
            causal, queries = False, (_read_at(result.residual),)
        return TokenMaps(
            values=values,
            tokens=result.labels,
            layers=tuple(range(len(values))),
            channels=("residual",) if of == "residual" else head_names(range(values.shape[1])),
            queries=queries,
            causal=causal,
            column=_COLUMNS[of],
            model=result.model,
            signed=True,
            kind=f"shares of the {result.quantity}",
            provenance={"fingerprint": result.fingerprint, "rules": result.rules},
        )


def _read_at(residual: Tensor) -> int:
    """The last position at which anything reaches the target at the last layer from which anything does."""
    reaching = residual.any(dim=1).nonzero()
    if not len(reaching):
        return residual.shape[1] - 1
    return int(torch.nonzero(residual[int(reaching.max())]).max())
