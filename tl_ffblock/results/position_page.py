"""Numbers by position as a page of shares: what heads write at each position, what flows there, of one text or on average."""

from collections.abc import Iterator, Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.numerals import significant
from tl_ffblock.page import SharesData, SharesMap
from tl_ffblock.results.page_blocks import ChannelMaps
from tl_ffblock.results.tokens import visible

MOST_MAPS = 12
"""Positions up to which heads have a map [layer, head] each; of more there is one map [layer and head, position]."""

Numbers = Float[Tensor, "run row column"]


def position_page(runs: Mapping[str, ChannelMaps], labels: Sequence[str], statement: str = "") -> SharesData:
    """The page of numbers by position; it is headed by the largest, as a sentence.

    Args:
        runs: The numbers, or their mean, first; others are named in a cell's details: the ends of its interval.
        labels: What stands at each position.
        statement: What is known of the numbers, in a sentence.
    """
    first = next(iter(runs.values()))
    places = tuple(visible(label) for label in labels)
    numbers = torch.stack([maps.values[:, :, 0] for maps in runs.values()])
    _, n_layers, n_channels, n_places = numbers.shape
    layers, channels = tuple(map(str, first.layers)), tuple(name.removeprefix("head ") for name in first.channels)
    names, note = list(runs)[1:], f"Each cell is the share {first.column} the position."
    if n_channels == 1:
        maps = [_map(first.kind, note, ("layer", layers), (first.column, places), numbers[:, :, 0], names)]
    elif n_places <= MOST_MAPS:
        maps = [
            _map(f"{first.column} {place}", note, ("layer", layers), ("head", channels), numbers[..., at], names)
            for at, place in enumerate(places)
        ]
    else:
        rows = tuple(f"{layer}.{channel}" for layer in layers for channel in channels)
        flat = numbers.flatten(1, 2)
        maps = [_map(first.kind, note, ("layer.head", rows), (first.column, places), flat, names)]
    largest = int(numbers[0].abs().nan_to_num(0.0).argmax())
    layer, rest = divmod(largest, n_channels * n_places)
    channel, at = divmod(rest, n_places)
    where = f"Layer {layers[layer]}, {first.channels[channel]}"
    return SharesData(
        heading=f"{where}: {significant(float(numbers[0, layer, channel, at]))} {first.column} “{places[at]}”",
        facts=f"{first.model} · {first.kind} · {n_layers} layers · {n_places} positions",
        tokens=places,
        rows=(),
        maps=tuple(maps),
        certificate=statement,
    )


def refuse_choices(**choices: object) -> None:
    """Refuse to open at a layer or a channel where all are shown at once.

    Raises:
        InputError: if there is such a choice.
    """
    for name, choice in choices.items():
        if choice is not None:
            raise InputError(f"{name}={brief(choice)}: the page of numbers by position has all layers; leave it out.")


def _map(
    title: str,
    note: str,
    rows: tuple[str, tuple[str, ...]],
    columns: tuple[str, tuple[str, ...]],
    numbers: Numbers,
    names: Sequence[str],
) -> SharesMap:
    """The first run's numbers, in whose details the others stand.

    Args:
        title: Of the map.
        note: What a cell is.
        rows: What a row is called, and the rows' names.
        columns: Likewise.
        numbers: Of all runs.
        names: Of the other runs.
    """
    return SharesMap(
        title=title[:1].upper() + title[1:],
        note=note,
        row=rows[0],
        column=columns[0],
        rows=rows[1],
        columns=columns[1],
        values=numbers[0],
        details=dict(_details(numbers[1:], names)) if names else {},
    )


def _details(numbers: Numbers, names: Sequence[str]) -> Iterator[tuple[tuple[int, int], tuple[tuple[str, float], ...]]]:
    """By row and column, the other runs' numbers of a cell, where they are known."""
    for row, of_row in enumerate(numbers.permute(1, 2, 0).tolist()):
        for column, known in enumerate(of_row):
            if all(number == number for number in known):
                yield (row, column), tuple(zip(names, known, strict=True))
