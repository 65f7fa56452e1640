"""A bar over sequences on a terminal; nothing in a pipe."""

import os
import sys
from typing import Any

from tqdm import tqdm

UNKNOWN_SIZE: dict[str, Any] = {"ncols": 80, "nrows": 24}
"""For terminals that call themselves empty, as in containers: there a bar would be drawn on no column."""


class Progress:
    """Sequences done, of those that this run has still to do."""

    def __init__(self, name: str, total: int, done: int) -> None:
        shown = sys.stderr.isatty()
        empty = shown and 0 in os.get_terminal_size(sys.stderr.fileno())
        self._bar = tqdm(
            total=total,
            initial=done,
            desc=name,
            unit=" sequences",
            disable=not shown,
            smoothing=0.1,
            **UNKNOWN_SIZE if empty else {"dynamic_ncols": True},
        )

    def __enter__(self) -> "Progress":
        return self

    def step(self, sequences: int = 1) -> None:
        """Some more are done."""
        self._bar.update(sequences)

    def __exit__(self, *_: object) -> None:
        self._bar.close()
