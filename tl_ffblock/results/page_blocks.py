"""Maps as the named blocks of a page: contributions by scope, by head, any `TokenMaps`, each with its overview of layers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from tl_ffblock.layer.scopes import STEPS, Order, Step
from tl_ffblock.page import MapsBlock, PageChannel, PageTrack, TrackColumn
from tl_ffblock.results.ranks import shares, unit_ranks
from tl_ffblock.results.scope_table import HeadTable, ScopeTable

FINE_TOKENS = 64
"""Tokens beyond which heads are sent with two digits."""
HEADS_BYTES = 3_000_000
"""Room for heads on a page; scopes beyond it are left out."""
BETWEEN_TOKENS = "key"
"""What a column is of maps between tokens."""
CONTRIBUTES = "how much the column's token contributes to the row's vector"
NORM = "norm, in units of the residual stream"
ATTENTION = "attention"
"""The kind of attention weights."""
SHARES = "shares of other tokens"
"""The kind of maps whose cells are shares of what a row takes from all other tokens."""
_NAMED = {"Attn": "value-weighted attention", "Atb": "attention block"}


@runtime_checkable
class ChannelMaps(Protocol):
    """What a page reads of maps by channel (`TokenMaps`, which can so call the page itself)."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def layers(self) -> tuple[int, ...]: ...
    @property
    def channels(self) -> tuple[str, ...]: ...
    @property
    def queries(self) -> tuple[int, ...]: ...
    @property
    def values(self) -> Float[Tensor, "layer channel query key"]: ...
    @property
    def causal(self) -> bool: ...
    @property
    def model(self) -> str: ...
    @property
    def identity(self) -> Mapping[str, str]: ...
    @property
    def signed(self) -> bool: ...
    @property
    def kind(self) -> str: ...
    @property
    def layered(self) -> bool: ...
    @property
    def column(self) -> str: ...
    @property
    def whole(self) -> bool: ...
    @property
    def sides(self) -> tuple[str, ...]: ...
    def reachable(self) -> Bool[Tensor, "query key"]: ...


Changes = Mapping[str, Float[Tensor, " layer"]]


@dataclass(frozen=True)
class StepChanges:
    """How much the ranking of token pairs changed (1 - Spearman's rho, NaN where undefined), by the scope at the end."""

    by_step: Changes
    """By the step alone."""
    since_block: Changes
    """Since the attention block, step after step."""


def steps_of(order: Order, values: ScopeTable, signed: bool) -> dict[str, tuple[Step, str | None]]:
    """By scope: its step, and the scope before it where the two can be compared."""
    comparable = () if signed else tuple(values)
    return {
        step.scope: (step, step.before if step.before in comparable else None)
        for step in STEPS[order]
        if step.scope in values
    }


def steps_since(steps: Mapping[str, tuple[Step, str | None]], base: str) -> list[str]:
    """The scopes that follow from `base` step by step."""
    chain = [base] if base in steps else []
    for scope, (_, before) in steps.items():
        if chain and before == chain[-1]:
            chain.append(scope)
    return chain[1:]


def step_changes(
    values: ScopeTable, steps: Mapping[str, tuple[Step, str | None]], cells: Bool[Tensor, "query key"]
) -> StepChanges:
    """The changes of one run; every map is ranked once."""

    @cache
    def ranked(scope: str) -> Float64[np.ndarray, "layer cell"]:
        return unit_ranks(values[scope].cpu()[:, cells].double().numpy())

    def change(before: str, after: str) -> Float[Tensor, " layer"]:
        return torch.from_numpy(1 - (ranked(before) * ranked(after)).sum(axis=-1))

    by_step = {scope: change(before, scope) for scope, (_, before) in steps.items() if before is not None}
    return StepChanges(by_step, {scope: change("Atb", scope) for scope in steps_since(steps, "Atb")})


def contribution_block(
    values: ScopeTable,
    columns: Mapping[str, ScopeTable],
    steps: Mapping[str, tuple[Step, str | None]],
    tracks: Sequence[PageTrack],
    *,
    signed: bool,
    sides: tuple[str, ...],
) -> MapsBlock:
    """The maps by scope; of a difference `sides` names the two results, and is empty for norms."""
    title = " minus ".join(sides) or "first result minus second"
    return MapsBlock(
        title=title if signed else "contributions",
        short="difference" if signed else "norm",
        unit=f"difference of norms: {title}" if signed else NORM,
        meaning=_more(sides) if signed else CONTRIBUTES,
        channels=tuple(
            PageChannel(scope, _NAMED.get(scope) or f"after {step.shows}", before, step.component)
            for scope, (step, before) in steps.items()
        ),
        values=values,
        columns=columns,
        tracks=tuple(tracks),
        signed=signed,
        sides=sides,
        exact=True,
    )


def _more(sides: tuple[str, ...]) -> str:
    """What a cell of a difference says."""
    first, second = sides or ("the first result", "the second")
    return f"how much more the column's token contributes to the row's vector in {first} than in {second}"


def step_tracks(steps: Mapping[str, tuple[Step, str | None]], changes: StepChanges) -> list[PageTrack]:
    """The change by each step, and the change since the attention block: what is left of it after every further step."""
    words = "change of the ranking of token pairs"
    columns = [
        TrackColumn(scope, before, step.component, f"{words} by {step.shows} ({before} → {scope})")
        for scope, (step, before) in steps.items()
        if before is not None
    ]
    if not columns:
        return []
    note = "Strong colour: the step changed the ranking of token pairs much (1 − Spearman's ρ, up to {:.2g})."
    every = [*changes.by_step.values(), *changes.since_block.values()]
    largest = max(float(change.nan_to_num(0).max()) for change in every)
    tracks = [PageTrack("by each step", note.format(largest), tuple(columns), changes.by_step)]
    if len(changes.since_block) > 1:
        later = [
            TrackColumn(s, "Atb", f"+{steps[s][0].component}", f"{words} since the attention block (Atb → {s})")
            for s in changes.since_block
        ]
        note = "“since Atb”: the change since the attention block; where it fades again, later steps take back what earlier ones did."
        tracks.append(PageTrack("since Atb", note, tuple(later), changes.since_block, cumulative=True))
    return tracks


def size_track(
    values: Mapping[str, Float[Tensor, "layer query key"]], names: Mapping[str, str], cells: Bool[Tensor, "query key"]
) -> PageTrack:
    """For signed maps: how large those of their cells are in the mean that exist, reachable and not NaN."""
    sizes = {name: values[name].cpu()[:, cells].double().abs().nanmean(dim=1) for name in names}
    columns = tuple(TrackColumn(n, None, n, f"mean size of a cell, {words}") for n, words in names.items())
    return PageTrack("size", "Strong colour: large cells in the mean.", columns, sizes)


def head_blocks(heads: HeadTable, queries: Sequence[int], first: Sequence[str], n_sent: int) -> dict[str, MapsBlock]:
    """Contributions by head, one block a scope, those of `first` before the rest, as many as there is room for.

    Args:
        heads: The table, empty where no heads were asked for.
        queries: Position of each row.
        first: Scopes that the page opens with.
        n_sent: Cells of one map that are sent, times layers.
    """
    order = [*(scope for scope in first if scope in heads), *(scope for scope in heads if scope not in first)]
    blocks: dict[str, MapsBlock] = {}
    for scope in order:
        maps = heads[scope]
        coarse = maps.shape[-1] > FINE_TOKENS
        if (len(blocks) + 1) * n_sent * len(heads.channels) * (1 if coarse else 2) > HEADS_BYTES and blocks:
            break
        values = {name: maps[:, number] for number, name in enumerate(heads.channels)}
        blocks[f"{scope} by head"] = MapsBlock(
            title=f"{scope} by head",
            short="norm",
            unit=NORM,
            meaning=f"{CONTRIBUTES} through this head",
            channels=tuple(PageChannel(name, name) for name in heads.channels),
            values=values,
            tracks=(others_track(values, queries),),
            axis="head",
            of=scope,
            exact=True,
            coarse=coarse,
        )
    return blocks


def token_maps_block(
    maps: ChannelMaps, layers: Sequence[int] | None = None, queries: Sequence[int] | None = None
) -> MapsBlock:
    """Any token maps: attention patterns, value-weighted attention, maps of one's own.

    Args:
        maps: With their labels.
        layers: Those of the page, all of which the maps have; None means all.
        queries: Likewise.
    """
    weights, shares = maps.kind == ATTENTION, maps.kind.endswith(SHARES)
    kept = [maps.layers.index(layer) for layer in (maps.layers if layers is None else layers)]
    rows = [maps.queries.index(query) for query in (maps.queries if queries is None else queries)]
    cells = maps.values if len(rows) == len(maps.queries) else maps.values[:, :, rows]
    cells = cells if len(kept) == len(maps.layers) else cells[kept]
    values = {name: cells[:, number] for number, name in enumerate(maps.channels)}
    return MapsBlock(
        title=maps.kind,
        short="weight" if weights else "share" if shares else "value",
        unit="attention weight" if weights else maps.kind,
        meaning=_meaning(maps),
        channels=tuple(PageChannel(name, name) for name in maps.channels),
        values=values,
        tracks=(
            size_track(values, {n: n for n in maps.channels}, maps.reachable()[rows])
            if maps.signed or not maps.whole
            else others_track(values, [maps.queries[row] for row in rows]),
        ),
        axis="head" if any(name.startswith("head ") for name in maps.channels) else "scope",
        signed=maps.signed,
        sides=maps.sides,
        cells="none" if weights or maps.signed or not maps.whole else "others",
        shares="others" if shares else "",
        whole=maps.whole,
        coarse=len(maps.tokens) > FINE_TOKENS and len(maps.channels) > 1,
    )


def _meaning(maps: ChannelMaps) -> str:
    """What a cell of token maps says."""
    if maps.kind == ATTENTION:
        return "how much weight the row's token gives to the column's"
    if maps.kind == SHARES:
        return CONTRIBUTES
    return _more(maps.sides) if maps.sides else f"what the column's token brings to the row's ({maps.kind})"


def others_track(values: Mapping[str, Float[Tensor, "layer query key"]], queries: Sequence[int]) -> PageTrack:
    """How much of the rows comes from other positions than their own, as a mean share.

    Cells that are NaN do not exist; a row of zeros has no shares.
    """
    rows = torch.arange(len(queries))
    shared = {}
    for name, maps in values.items():
        cells = maps.cpu().double().nan_to_num(0.0)
        own = shares(cells, "row")[:, rows, list(queries)]
        shared[name] = 1 - own.where(cells.sum(dim=-1) != 0, torch.nan).nanmean(dim=1)
    columns = tuple(
        TrackColumn(n, None, n.removeprefix("head "), f"share that comes from other tokens, {n}") for n in values
    )
    note = "Strong colour: more comes from other tokens than elsewhere (mean share of a row)."
    return PageTrack("from others", note, columns, shared, stretched=True)
