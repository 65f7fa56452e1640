"""What statistics read of a shard."""

from typing import Protocol

import numpy as np


class ShardArrays(Protocol):
    """The arrays of a shard by name, as a whole or some rows of one."""

    def __getitem__(self, name: str) -> np.ndarray: ...

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read the rows from `start` to before `stop` of an array."""
