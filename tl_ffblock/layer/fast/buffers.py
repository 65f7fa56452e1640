"""Memory that outlives a layer, how much is worked on at a time, and which sequences together.

The optimised implementation writes its few large matrices to the same buffers, layer after layer: memory fresh from
the system costs a page fault every 4 kB, together a twentieth of a map's time.
"""

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from tl_ffblock.layer.records import BatchRecords, FeedForward, LayerRecord
from tl_ffblock.layer.settings import Settings


@dataclass(frozen=True)
class Budget:
    """How much is worked on at a time. It moves time and memory, and no number by more than rounding."""

    group_bytes: int
    """What the heads' pre-activations of one group of source tokens may occupy."""
    row_bytes: int
    """What the packed rows may occupy, where `Settings.chunk_bytes` leaves it open."""
    sequence_bytes: int
    """What the coefficients of sequences that are worked on together may occupy: they are read once a source token."""
    call_operations: int
    """What a tile costs beside its pairs, in operations of the large product. A causal layer's tile of several source
    tokens also holds pairs that cannot be reached, so its tiles grow in that direction only up to here."""

    def sequences(self, record: LayerRecord, settings: Settings) -> int:
        """How many sequences like this one to work on at a time."""
        ff = record.block.feed_forward
        if _stays_alone(record, settings) or not isinstance(ff, FeedForward):
            return 1
        number = ff.w_in.element_size()
        bytes_a_row = (1 if ff.w_gate is None else 2) * ff.w_in.shape[1] * number
        bytes_a_key = record.block.attention.w_o.shape[0] * bytes_a_row
        bytes_a_pair = bytes_a_row + 2 * ff.w_in.shape[0] * number
        fitting = (
            self.sequence_bytes // (record.queries.shape[-1] * bytes_a_row),
            self.group_bytes // bytes_a_key,
            (settings.chunk_bytes or self.row_bytes) // bytes_a_pair,
        )
        return max(1, min(fitting))


ON_CPU = Budget(group_bytes=16 * 2**20, row_bytes=24 * 2**20, sequence_bytes=8 * 2**20, call_operations=15 * 10**6)
ON_GPU = Budget(group_bytes=512 * 2**20, row_bytes=2**30, sequence_bytes=512 * 2**20, call_operations=3 * 10**9)

_Key: TypeAlias = tuple[Hashable, torch.dtype, torch.device]


class Buffers:
    """Uninitialised memory under keys, for one call on one thread.

    A key's memory is one and the same every time: whoever reserves it overwrites what was there.

    Args:
        budget: How much is worked on at a time; None means what suits the device.
    """

    def __init__(self, budget: Budget | None = None) -> None:
        self._budget = budget
        self._memory: dict[_Key, Tensor] = {}
        self._owner: dict[_Key, object] = {}

    def budget(self, device: torch.device) -> Budget:
        """How much to work on at a time on a device."""
        return self._budget or (ON_CPU if device.type == "cpu" else ON_GPU)

    def reserve(self, key: Hashable, *shape: int, like: Tensor) -> Tensor:
        """Memory of a shape, with the dtype and device of `like`, whatever it holds."""
        full_key = (key, like.dtype, like.device)
        self._owner.pop(full_key, None)
        return self._view(full_key, shape, like)

    def filled_by(
        self, owner: object, key: Hashable, *shape: int, like: Tensor, fill: Callable[[Tensor], object]
    ) -> Tensor:
        """The same memory as `fill` left it for this owner; it is filled again once anybody else had the key.

        Args:
            owner: Whose content it is, told from others by identity. It is kept alive, lest its id be used again.
            key: Whose memory it is.
            *shape: The shape of the memory.
            like: A tensor of the dtype and on the device that are wanted.
            fill: Writes the content; called only where it is not there already.
        """
        full_key = (key, like.dtype, like.device)
        memory = self._view(full_key, shape, like)
        if self._owner.get(full_key) is not owner:
            fill(memory)
            self._owner[full_key] = owner
        return memory

    def _view(self, key: _Key, shape: tuple[int, ...], like: Tensor) -> Tensor:
        size = math.prod(shape)
        if key not in self._memory or self._memory[key].numel() < size:
            self._memory[key] = like.new_empty(size)
            self._owner.pop(key, None)
        return self._memory[key][:size].view(shape)


@dataclass(frozen=True)
class Stack:
    """Sequences of one layer, equally long and with the same queries, as one record (`LayerRecord.below_each_other`)."""

    numbers: tuple[int, ...]
    """Which sequences they are, the first above."""
    record: LayerRecord

    @property
    def n_sequences(self) -> int:
        """How many sequences."""
        return len(self.numbers)


def stacks(records: Mapping[int, LayerRecord], buffers: Buffers, settings: Settings) -> Iterator[Stack]:
    """A layer's records in stacks that fit the budget.

    Edited records stay alone, and those of a mixture of experts, whose queries are served by different experts.

    Args:
        records: By number of the sequence; of a batch they are not cut apart first where that can be helped.
        buffers: Their budget says how much is worked on at a time.
        settings: Of the decomposition; captum takes sequences one by one.
    """
    whole = None
    if isinstance(records, BatchRecords) and records.whole and not _stays_alone(records.batch, settings):
        whole = records.batch
    by_form: dict[Hashable, list[int]] = {}
    for number, record in records.items() if whole is None else ():
        form = (record.edited, id(record.block), len(record.resid_pre), *record.queries.tolist())
        by_form.setdefault(form, []).append(number)
    for alike in by_form.values() if whole is None else [list(records)]:
        record = whole or records[alike[0]]
        at_once = buffers.budget(record.block.attention.w_o.device).sequences(record, settings)
        for start in range(0, len(alike), at_once):
            numbers = alike[start : start + at_once]
            below = LayerRecord.below_each_other
            stacked = whole.flattened(slice(start, start + at_once)) if whole else below([records[n] for n in numbers])
            yield Stack(tuple(numbers), stacked)


def _stays_alone(record: LayerRecord, settings: Settings) -> bool:
    return record.edited or settings.method == "captum" or not isinstance(record.block.feed_forward, FeedForward)
