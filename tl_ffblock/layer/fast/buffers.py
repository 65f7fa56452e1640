"""Memory that outlives a layer, and how much is worked on at a time.

The fast road writes its few large matrices to the same buffers, layer after layer: memory fresh from
the system costs a page fault every 4 kB, together a twentieth of a map's time.
"""

import math
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from tl_ffblock.layer.records import FeedForward, LayerRecord


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

    def sequences(self, record: LayerRecord, chunk_bytes: int | None = None) -> int:
        """How many sequences like this one to work on at a time; `chunk_bytes` as in `Settings`."""
        ff = record.block.feed_forward
        if not isinstance(ff, FeedForward):
            return 1
        number = ff.w_in.element_size()
        bytes_a_row = (1 if ff.w_gate is None else 2) * ff.w_in.shape[1] * number
        bytes_a_key = record.block.attention.w_o.shape[0] * bytes_a_row
        bytes_a_pair = bytes_a_row + 2 * ff.w_in.shape[0] * number
        fitting = (
            self.sequence_bytes // (record.queries.shape[-1] * bytes_a_row),
            self.group_bytes // bytes_a_key,
            (chunk_bytes or self.row_bytes) // bytes_a_pair,
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
        self, owner: object, key: Hashable, *shape: int, like: Tensor, fill: Callable[[Tensor], None]
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
