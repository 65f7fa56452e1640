"""Named blocks of a page: what other rooms hand over, each with the numbers of one kind of view."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.page.numbers import finite, pack, pack_reachable, worst_precision


@dataclass(frozen=True)
class PageText:
    """The positions that all blocks and runs of a page share."""

    queries: tuple[int, ...]
    """Position of each row."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    causal: bool
    """Whether a position sees only itself and earlier ones; the other cells are not sent."""
    words: tuple[int, ...]
    """For each position the number of its word; pieces of a word are neighbours with the same number."""
    special: tuple[int, ...] = ()
    """Positions of special tokens."""
    segments: tuple[tuple[str, int], ...] = ()
    """Names of the parts that readers tell apart, such as two sentences, and where each begins; the first at 0."""
    named: bool = False
    """Whether the labels are names of positions, wherever these stand in a text; their numbers then say nothing."""

    def reachable(self) -> Bool[Tensor, "query key"]:
        """The cells that are sent."""
        keys = torch.arange(len(self.words))
        rows = torch.tensor(self.queries)[:, None]
        return keys <= rows if self.causal else torch.ones(len(self.queries), len(self.words), dtype=torch.bool)


@dataclass(frozen=True)
class BlockPayload:
    """A block as JSON can hold it."""

    json: Mapping[str, Any]
    precision: float
    """Largest relative error of its numbers."""


@runtime_checkable
class PageBlock(Protocol):
    """What a page can show beside its text. `kind` names the form, which a view of the page's scripts reads."""

    @property
    def kind(self) -> str: ...

    def payload(self, text: PageText) -> BlockPayload:
        """The block as JSON can hold it, with packed numbers."""


@dataclass(frozen=True)
class PageChannel:
    """One map of a block that the reader can choose."""

    name: str
    """Short name: a scope such as "Atb", or "head 3"."""
    label: str
    """What it is, in words."""
    before: str | None = None
    """The channel it is usually compared with."""
    component: str | None = None
    """The kind of step between the two: "ATTN", "RES", "LN" or "FF"."""


@dataclass(frozen=True)
class TrackColumn:
    """One column of the overview of layers."""

    channel: str
    """Where a click leads."""
    ref: str | None
    """What it is compared with then."""
    label: str
    """Its heading, a word or two."""
    words: str
    """What its numbers say, for a tooltip."""


@dataclass(frozen=True)
class PageTrack:
    """A group of columns of the overview: one number for each layer and channel."""

    title: str
    """Its heading, a word or two."""
    note: str
    """What the numbers are, in a sentence."""
    columns: tuple[TrackColumn, ...]
    values: Mapping[str, Float[Tensor, " layer"]]
    """The numbers by channel."""
    stretched: bool = False
    """Whether colours begin at the smallest number and not at zero."""
    cumulative: bool = False
    """Whether each column holds what all columns up to it have changed together, so that their numbers read as a way."""

    def payload(self) -> dict[str, Any]:
        """As JSON can hold it; a column's `ref` is null where it has none."""
        return asdict(self) | {"values": {channel: finite(numbers) for channel, numbers in self.values.items()}}


@dataclass(frozen=True)
class MapsBlock:
    """Maps of tokens by channel and layer: contributions by scope or by head, attention patterns, signed attributions."""

    title: str
    """What the maps are: "contributions"."""
    short: str
    """One of their numbers, in a word: "norm"."""
    unit: str
    """The same with its unit: "norm, in units of the residual stream"."""
    meaning: str
    """What a cell says, as the end of the sentence "Each cell: ..."."""
    channels: tuple[PageChannel, ...]
    values: Mapping[str, Float[Tensor, "layer query key"]]
    """Maps by channel."""
    columns: Mapping[str, Mapping[str, Float[Tensor, "layer query"]]] = field(default_factory=dict)
    """Further numbers of each row, by name and channel: "bias", "remainder"."""
    tracks: tuple[PageTrack, ...] = ()
    """The overview of layers."""
    axis: Literal["scope", "head"] = "scope"
    """What the channels are."""
    of: str = ""
    """Of heads: the scope whose maps they add up to."""
    signed: bool = False
    """Whether values can be negative; then there are no shares."""
    sides: tuple[str, ...] = ()
    """Of a difference: what it is of, the first less the second; empty where they have no names."""
    cells: Literal["others", "none"] = "others"
    """What cells are shown as when the page opens: shares of what a row takes from the others, or the values."""
    shares: Literal["others", ""] = ""
    """What the values themselves are shares of, made before the page: then the page makes none."""
    whole: bool = True
    """Whether all that a row takes from is on the page; else the page makes no shares of rows or columns."""
    exact: bool = False
    """Whether they are contributions of the layers, of which the page's certificate speaks."""
    coarse: bool = False
    """Whether two digits are enough, in half the space: for many heads of long texts."""
    kind: str = field(default="maps", init=False)

    def payload(self, text: PageText) -> BlockPayload:
        """Labels, and each channel's numbers packed.

        Raises:
            InputError: if a table has another shape than the labels say, or a channel has no values.
        """
        cells = text.reachable()
        shape = (len(text.layers), *cells.shape)
        for channel in self.channels:
            maps = self.values.get(channel.name)
            if maps is None or tuple(maps.shape) != shape:
                there = "no values" if maps is None else f"shape {tuple(maps.shape)}"
                raise InputError(
                    f"values of {channel.name} have {there}, the page's labels say [layer query key] = {shape}."
                )
        by_name = {channel.name: self.values[channel.name] for channel in self.channels}
        opening = next((c.before for c in self.channels if c.component == "FF" and c.before in by_name), None)
        values = pack_reachable(by_name, cells, coarse=self.coarse, root=opening)
        columns = {name: {c: pack(rows) for c, rows in table.items()} for name, table in self.columns.items()}
        labels = (
            "kind",
            "title",
            "short",
            "unit",
            "meaning",
            "axis",
            "of",
            "signed",
            "sides",
            "cells",
            "shares",
            "whole",
            "exact",
        )
        json = {label: getattr(self, label) for label in labels} | {
            "channels": [asdict(channel) for channel in self.channels],
            "tracks": [track.payload() for track in self.tracks],
            "values": {name: table.payload for name, table in values.items()},
            "columns": {n: {c: rows.payload for c, rows in table.items()} for n, table in columns.items()},
        }
        tables = [*values.values(), *(rows for table in columns.values() for rows in table.values())]
        return BlockPayload(json, worst_precision(tables))
