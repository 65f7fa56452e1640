"""Memories by name, and those that a call looks at."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import SupportsIndex, TypeAlias

import numpy as np
import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from tl_ffblock.bridge.model import Model, select_layers
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import feed_forwards, located
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.records import Block
from tl_ffblock.signatures import strict, whole


@strict
@dataclass(frozen=True)
class MemoryName:
    """A neuron of a feed-forward, "12:305"; of an expert "12:3:305" (layer, expert, neuron)."""

    layer: int
    neuron: int
    """Its number in the feed-forward, or in its expert."""
    expert: int | None = None

    @classmethod
    def read(cls, name: "Named") -> "MemoryName":
        """A name as callers write it: text, numbers, or a MemoryName.

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


Named: TypeAlias = str | tuple[SupportsIndex, ...] | MemoryName
"""A memory as callers name it."""
Memories: TypeAlias = str | MemoryName | Iterable[Named] | None
"""A name, or several; None where none is named."""


def row_of(memory: Named, memories: Sequence[MemoryName]) -> int:
    """The row of a memory in a table of these.

    Raises:
        InputError: if it is not among them.
    """
    name = MemoryName.read(memory)
    if name not in memories:
        shown = ", ".join(map(str, memories[:3])) + (", ..." if len(memories) > 3 else "")
        raise InputError(f"memory {name} is not among these {len(memories)}: {shown}.")
    return memories.index(name)


@dataclass(frozen=True)
class Cells:
    """The memories of a call in the order given: a row each in every table."""

    names: tuple[MemoryName, ...]
    numbers: Int[np.ndarray, " memory"]
    """Of each among all neurons of its layer, experts one after the other."""

    @property
    def layers(self) -> tuple[int, ...]:
        """The layers that have some, ascending."""
        return tuple(sorted({name.layer for name in self.names}))

    def rows(self, layer: int) -> Int[np.ndarray, " row"]:
        """The rows of one layer's memories."""
        return np.array([row for row, name in enumerate(self.names) if name.layer == layer], dtype=np.int64)

    def in_order(self, by_layer: Shaped[Tensor, "memory ..."]) -> Shaped[Tensor, "memory ..."]:
        """What was made layer by layer, `rows` of each, in the order of the names."""
        rows = np.concatenate([self.rows(layer) for layer in self.layers])
        return by_layer[torch.from_numpy(np.argsort(rows)).to(by_layer.device)]


def named_memories(memories: Memories) -> list[MemoryName]:
    """Memories as callers name them, one or several, in the order given.

    Raises:
        InputError: if none is named, or a name is not one.
    """
    if memories is None or (not isinstance(memories, str | MemoryName) and not isinstance(memories, Iterable)):
        raise InputError(f"memories={brief(memories)}: name the memories, such as '12:305', one or a list.")
    asked: list[Named] = [memories] if isinstance(memories, str | MemoryName) else list(memories)
    if not asked:
        raise InputError("no memory is named; expected names such as '12:305'.")
    return [MemoryName.read(name) for name in asked]


def refuse_twice(names: Sequence[MemoryName]) -> None:
    """Refuse a memory that is named twice: a table has one row per memory.

    Raises:
        InputError: naming it.
    """
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise InputError(f"memory {twice[0]} is named twice; name each once.")


def select_memories(model: Model, memories: Memories = None, layers: Sequence[int] | int | None = None) -> Cells:
    """Memories by name in the order given, or all of some layers; of neither, all.

    Raises:
        InputError: if there is no such memory, none is asked for, one is named twice, or both names and layers are given.
        LayerError: if there is no such layer.
    """
    if memories is not None and layers is not None:
        raise InputError("memories and layers were given: name memories, or layers whose memories are all meant.")
    if memories is None:
        blocks = [_block(model, layer) for layer in select_layers(model, layers)]
        return cells_of([(block, range(n_neurons(block))) for block in blocks])
    names = named_memories(memories)
    layer_of = [layer_number(name.layer, model.n_layers, f"in {model.name}") for name in names]
    blocks_by_layer = {layer: _block(model, layer) for layer in dict.fromkeys(layer_of)}
    asked_of = [(blocks_by_layer[layer], name) for layer, name in zip(layer_of, names, strict=True)]
    cells = cells_of([(block, [_number(block, name)]) for block, name in asked_of])
    refuse_twice(cells.names)
    return cells


def n_neurons(block: Block) -> int:
    """Neurons of a layer, all experts' together."""
    return sum(len(ff.w_out) for ff in feed_forwards(block))


def cells_of(chosen: Iterable[tuple[Block, Iterable[int]]]) -> Cells:
    """Cells of blocks and the numbers of their neurons.

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


def _block(model: Model, layer: int) -> Block:
    return model.layers[layer].read(settings_of(model, {}).dtype)


def _number(block: Block, name: MemoryName) -> int:
    """The number of a memory among all its layer's."""
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
