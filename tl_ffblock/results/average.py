"""Maps of many prompts as one: the mean of every cell with its 95 % interval, and each prompt's own.

Prompts of equally many tokens are averaged position by position. Others are aligned by name: with
`positions={"IO": [4, 2], "END": -1}` a cell is (query "END", key "IO"), wherever these stand in a prompt.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import NamedPositions, aligned, whole_number
from tl_ffblock.results.average_maps import AverageMaps
from tl_ffblock.results.intervals import N_DRAWS, refuse_mixed
from tl_ffblock.results.page_blocks import ATTENTION, SHARES
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import joined
from tl_ffblock.signatures import strict


@runtime_checkable
class AsTokenMaps(Protocol):
    """A result that is token maps in a form of its own: `ContributionMaps`, `Attribution`."""

    def token_maps(self) -> TokenMaps: ...


AnyMaps = AsTokenMaps | TokenMaps
_EXPECTED = "average: expected one result or more, as contribution_maps gives them for a list of texts."


@strict
def average(
    maps: Sequence[AnyMaps], positions: NamedPositions | None = None, *, n_draws: int = N_DRAWS, seed: int = 0
) -> AverageMaps:
    """The mean of several prompts' maps with its 95 % interval (percentile bootstrap over prompts).

    Args:
        maps: One result a prompt, as `contribution_maps` and `attribute` give them for a list of texts, or their `token_maps`.
        positions: Names by which the prompts are aligned, each one position for all or one a prompt. Rows are those of
            the names that are queries of the maps; shares by position (an attribution's heads, its residual stream) have one
            row, "written at" or "flowing at" the names. None aligns prompts of equally many tokens by position.
        n_draws: Draws of the bootstrap.
        seed: Same seed, same intervals.

    Raises:
        InputError: if there is no result, they are of different quantities, models or rules, they differ in layers, channels,
            queries or (without names) in length, or a position does not exist or is a query of some of the maps only.
    """
    several = _several(maps)
    whole_number(n_draws, "n_draws", at_least=1)
    whole_number(seed, "seed", at_least=0)
    first, lengths = several[0], [len(result.tokens) for result in several]
    refuse_mixed(several, "average")
    _refuse_unlike(several, named=positions is not None)
    named = {str(place): place for place in range(lengths[0])} if positions is None else positions
    keys = aligned(named, lengths)
    rows = _rows(several, keys)
    cells = [_cells(result, number, rows, keys) for number, result in enumerate(several)]
    shared = first.whole and not (first.signed or first.by_position or first.kind in (ATTENTION, SHARES))
    shares = (
        [_cells(_as_shares(result), number, rows, keys) for number, result in enumerate(several)] if shared else None
    )
    labels = [joined([result.tokens[at[number]] for number, result in enumerate(several)], "|") for at in keys.values()]
    return AverageMaps(
        values=torch.stack(cells),
        layers=first.layers,
        channels=first.channels,
        queries=tuple(rows),
        keys=tuple(keys),
        labels=tuple(labels),
        model=first.model,
        kind=first.kind,
        signed=first.signed,
        causal=positions is None and first.causal,
        n_draws=n_draws,
        seed=seed,
        layered=first.layered,
        prompts=tuple(result.tokens for result in several),
        column=first.column,
        provenance=first.provenance,
        shares=None if shares is None else torch.stack(shares),
        whole=positions is None and first.whole,
        sides=first.sides if all(result.sides == first.sides for result in several) else (),
    )


def _several(maps: Any) -> list[TokenMaps]:
    """One result or more, as token maps."""
    one = isinstance(maps, AnyMaps | AverageMaps) or not isinstance(maps, Iterable)
    several = [] if one else [_as_maps(result) for result in maps]
    if not several:
        raise InputError(
            f"{_EXPECTED} Given is {f'a {type(maps).__name__}' if one else 'none'}; of one give average([maps])."
        )
    return several


def _as_maps(result: AnyMaps) -> TokenMaps:
    if isinstance(result, TokenMaps):
        return result
    if isinstance(result, AsTokenMaps) and not isinstance(result, AverageMaps):
        return result.token_maps()
    raise InputError(
        f"{_EXPECTED} One of them is a {type(result).__name__}; shares of attributions and estimates of patching are averaged by "
        "ffb.average_shares."
    )


def _refuse_unlike(several: Sequence[TokenMaps], *, named: bool) -> None:
    """Maps whose layers or channels are not the same, and without names whose positions are not."""
    lengths = sorted({len(result.tokens) for result in several})
    if not named and len(lengths) > 1:
        raise InputError(
            f"average: the maps have {', '.join(map(str, lengths))} tokens. Align them by name, "
            'positions={"subject": [2, 3, ...], "END": -1}, or average prompts of equally many. Attributions are summed over '
            "positions by ffb.average_shares."
        )
    same = ("layers", "layered", "channels", "column", "causal", "whole")
    for name in same if named or several[0].by_position else (*same, "queries"):
        first, *others = (getattr(result, name) for result in several)
        if different := [theirs for theirs in others if theirs != first]:
            raise InputError(
                f"cannot average maps with different {name}: {brief(first)} against {brief(different[0])}."
            )


def _rows(several: Sequence[TokenMaps], keys: dict[str, list[int]]) -> dict[str, list[int]]:
    """Of every name that is a query of all maps, the number of its row in each; the one row of shares by position."""
    if several[0].by_position:
        return {several[0].column: [0] * len(several)}
    rows: dict[str, list[int]] = {}
    for name, places in keys.items():
        present = [place in result.queries for place, result in zip(places, several, strict=True)]
        if all(present):
            rows[name] = [result.queries.index(place) for place, result in zip(places, several, strict=True)]
        elif any(present):
            number = present.index(False)
            raise InputError(
                f"average: position {places[number]} ({name!r}) is no query of maps {number}, though {name!r} is one of others: "
                "make all with the same names as queries, or with all queries."
            )
    if not rows:
        raise InputError(
            f"average: none of {', '.join(map(repr, keys))} is a query of the maps (positions {brief(several[0].queries)}): there "
            "is no row to average."
        )
    return rows


def _as_shares(result: TokenMaps) -> TokenMaps:
    """Each cell as a share of what its row takes from all other tokens, named or not; NaN where there is no such share."""
    others = others_of(result.reachable(), result.queries)
    made = shares_of_others(result.values, others)
    return replace(result, values=made.masked_fill(~others | (made.sum(dim=-1, keepdim=True) == 0), float("nan")))


def _cells(
    result: TokenMaps, number: int, rows: dict[str, list[int]], keys: dict[str, list[int]]
) -> Float[Tensor, "layer channel query key"]:
    """One prompt's values at the named cells; NaN at those that do not exist in it."""
    chosen_rows, chosen_keys = ([places[number] for places in names.values()] for names in (rows, keys))
    values = result.values[:, :, chosen_rows][..., chosen_keys].detach().cpu().double()
    reached = result.reachable()[chosen_rows][:, chosen_keys]
    return values.masked_fill(~reached, float("nan"))
