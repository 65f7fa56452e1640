"""Names of neurons ("12:305"), the neurons of a call, and tables with one row per neuron."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from tl_ffblock.bridge.model import Model, select_layers
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import feed_forwards, located
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.records import Block
from tl_ffblock.result import Result, Values, tabulated
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import strict, whole

SHOWN = 3
"""Number of neurons in the printed summary."""
MOST_CHARACTERS = 120
"""Of a printed list of tokens; the table has it whole."""


@strict
@dataclass(frozen=True)
class MemoryName(Values):
    """A neuron of a feed-forward, "12:305"; of an expert "12:3:305" (layer, expert, neuron)."""

    layer: int
    neuron: int
    """Number of the neuron in the feed-forward, or in its expert."""
    expert: int | None = None

    @classmethod
    def read(cls, name: "MemoryLike") -> "MemoryName":
        """A name from text, numbers, or a MemoryName.

        Raises:
            InputError: for anything else.
        """
        if isinstance(name, MemoryName):
            return name
        try:
            numbers = [int(piece) for piece in name.split(":")] if isinstance(name, str) else [whole(n) for n in name]
        except (TypeError, ValueError):
            numbers = []
        given = [number for number in numbers if number is not None]
        if len(given) not in (2, 3) or len(given) != len(numbers):
            raise InputError(f"memory {brief(name)}: expected LAYER:NEURON such as '12:305', or LAYER:EXPERT:NEURON.")
        return cls(given[0], given[-1], given[1] if len(given) == 3 else None)

    def __str__(self) -> str:
        pieces = (self.layer, self.neuron) if self.expert is None else (self.layer, self.expert, self.neuron)
        return ":".join(map(str, pieces))


MemoryLike: TypeAlias = str | tuple[SupportsIndex, ...] | MemoryName
"""Name of a neuron in a call."""
Memories: TypeAlias = str | MemoryName | Iterable[MemoryLike] | None
"""One name or several; None for none."""


def named_table(names: Sequence[MemoryName], columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """A table with one neuron per row: memory, layer and neuron are the first columns.

    Args:
        names: Neuron of each row.
        columns: Further columns.
    """
    first = {
        "memory": map(str, names),
        "layer": (name.layer for name in names),
        "neuron": (name.neuron for name in names),
    }
    return tabulated({column: list(values) for column, values in first.items()} | dict(columns))


@strict
@dataclass(frozen=True, repr=False, eq=False)
class MemoryTable(Result):
    """A result with one row per neuron."""

    memories: tuple[MemoryName, ...]

    def row_of(self, memory: MemoryLike) -> int:
        """The row of a memory.

        Raises:
            InputError: if it is not in the result.
        """
        name = MemoryName.read(memory)
        if name not in self.memories:
            raise InputError(f"memory {name} is not among these {len(self.memories)}: {', '.join(self._shown())}.")
        return self.memories.index(name)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Number of neurons, and for the first ones the row with the largest number."""
        frame = self.to_dataframe()
        if "value" in frame:
            frame = frame.sort_values("value", key=abs, ascending=False, kind="stable")
        first = frame.groupby("memory", sort=False).head(1).set_index("memory").drop(columns=["layer", "neuron"])
        lines = {
            str(name): ", ".join(f"{column} {_shortly(value)}" for column, value in first.loc[str(name)].items())
            for name in self.memories[:SHOWN]
            if str(name) in first.index
        }
        return f"{len(self.memories)} memories, {', '.join(self._shown())}", lines

    def _shown(self) -> list[str]:
        return [*map(str, self.memories[:SHOWN]), *(["..."] if len(self.memories) > SHOWN else [])]


def _shortly(value: object) -> str:
    return (
        f"{value:.4g}"
        if isinstance(value, float)
        else visible(shorten(str(value), MOST_CHARACTERS, placeholder=" ..."))
    )


@dataclass(frozen=True)
class Cells:
    """The neurons of a call in the given order: one row each in every table."""

    names: tuple[MemoryName, ...]
    numbers: Int[np.ndarray, " memory"]
    """Number of each among all neurons of its layer; experts are concatenated."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Layers of these neurons, ascending."""
        return tuple(sorted({name.layer for name in self.names}))

    def rows(self, layer: int) -> Int[np.ndarray, " row"]:
        """Rows of one layer's neurons."""
        return np.array([row for row, name in enumerate(self.names) if name.layer == layer], dtype=np.int64)

    def in_order(self, by_layer: Shaped[Tensor, "memory ..."]) -> Shaped[Tensor, "memory ..."]:
        """Values by layer, `rows` of each, in the order of the names."""
        rows = np.concatenate([self.rows(layer) for layer in self.layers])
        return by_layer[torch.from_numpy(np.argsort(rows)).to(by_layer.device)]


def named_memories(memories: Memories) -> list[MemoryName]:
    """Names of one or several neurons, in the given order.

    Raises:
        InputError: if there is no name, or one is not valid.
    """
    if memories is None or (not isinstance(memories, str | MemoryName) and not isinstance(memories, Iterable)):
        raise InputError(f"memories={brief(memories)}: expected names of memories, such as '12:305', one or a list.")
    asked: list[MemoryLike] = [memories] if isinstance(memories, str | MemoryName) else list(memories)
    if not asked:
        raise InputError("no memory is named; expected names such as '12:305'.")
    return [MemoryName.read(name) for name in asked]


def refuse_twice(names: Sequence[MemoryName]) -> None:
    """Refuse a neuron that is named twice: a table has one row per neuron.

    Raises:
        InputError: with its name.
    """
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise InputError(f"memory {twice[0]} is named twice: expected each once.")


def select_memories(model: Model, memories: Memories = None, layers: Sequence[int] | int | None = None) -> Cells:
    """Neurons by name in the given order, or all of some layers; without both, all.

    Raises:
        InputError: if there is no such neuron, none is chosen, one is named twice, or both names and layers are given.
        LayerError: if there is no such layer.
    """
    if memories is not None and layers is not None:
        raise InputError(
            "memories and layers were given: expected names of memories, or layers with all their memories."
        )
    names = [] if memories is None else named_memories(memories)
    asked = [layer_number(name.layer, model.n_layers, f"in {model.name}") for name in names]
    wanted = select_layers(model, layers) if memories is None else dict.fromkeys(asked)
    blocks = {layer: model.layers[layer].read(settings_of(model, {}).dtype) for layer in wanted}
    if memories is None:
        return cells_of([(block, range(n_neurons(block))) for block in blocks.values()])
    cells = cells_of(
        [(blocks[layer], [_number(blocks[layer], name)]) for layer, name in zip(asked, names, strict=True)]
    )
    refuse_twice(cells.names)
    return cells


def n_neurons(block: Block) -> int:
    """Number of neurons of a layer, over all experts."""
    return sum(len(ff.w_out) for ff in feed_forwards(block))


def cells_of(chosen: Iterable[tuple[Block, Iterable[int]]]) -> Cells:
    """Cells of blocks and their neuron numbers.

    Raises:
        InputError: for a block without a feed-forward.
    """
    names, numbers = [], []
    for block, neurons in chosen:
        several = len(feed_forwards(block)) > 1
        if not feed_forwards(block):
            raise InputError(f"layer {block.layer} has attention alone, and no feed-forward with memories.")
        for number in neurons:
            expert, inside = located(block, number)
            names.append(MemoryName(block.layer, inside, expert if several else None))
            numbers.append(number)
    return Cells(tuple(names), np.array(numbers, dtype=np.int64))


def _number(block: Block, name: MemoryName) -> int:
    widths = [len(ff.w_out) for ff in feed_forwards(block)]
    if (name.expert is None) != (len(widths) == 1):
        form = "LAYER:NEURON" if len(widths) == 1 else "LAYER:EXPERT:NEURON"
        raise InputError(f"memory {name}: layer {block.layer} has {len(widths)} feed-forward(s); name it {form}.")
    expert = name.expert or 0
    if not (0 <= expert < len(widths) and 0 <= name.neuron < widths[expert]):
        raise InputError(
            f"memory {name}: layer {block.layer} has {len(widths)} feed-forward(s) of {', '.join(map(str, widths))} neurons, "
            "numbered from 0."
        )
    return sum(widths[:expert]) + name.neuron
