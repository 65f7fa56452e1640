"""What statistics read of a shard."""

from typing import Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class ShardArrays(Protocol):
    """The arrays of a shard by name, as a whole or some rows of one."""

    def __getitem__(self, name: str) -> np.ndarray: ...

    def __contains__(self, name: str) -> bool: ...

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read the rows from `start` to before `stop` of an array."""
