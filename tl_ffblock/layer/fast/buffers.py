"""Large buffers that outlive a layer: fresh memory costs a page fault every 4 kB, together a twentieth of a map's time."""

import math
from collections.abc import Callable

import torch
from torch import Tensor


class Buffers:
    """Uninitialised memory by name, for one call on one thread: who takes a name overwrites what was there."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, torch.dtype, torch.device], Tensor] = {}
        self._owner: dict[tuple[str, torch.dtype, torch.device], object] = {}

    def take(self, name: str, *shape: int, like: Tensor) -> Tensor:
        """Memory of a shape, with the dtype and device of `like`."""
        key = (name, like.dtype, like.device)
        self._owner.pop(key, None)
        return self._memory(key, shape, like)

    def made(self, name: str, owner: object, *shape: int, like: Tensor, make: Callable[[Tensor], None]) -> Tensor:
        """The same as `make` has left it for this owner; made anew when the name was taken by another since."""
        key = (name, like.dtype, like.device)
        memory = self._memory(key, shape, like)
        if self._owner.get(key) is not owner:
            make(memory)
            self._owner[key] = owner
        return memory

    def _memory(self, key: tuple[str, torch.dtype, torch.device], shape: tuple[int, ...], like: Tensor) -> Tensor:
        size = math.prod(shape)
        if key not in self._kept or self._kept[key].numel() < size:
            self._kept[key] = like.new_empty(size)
            self._owner.pop(key, None)
        return self._kept[key][:size].view(shape)
