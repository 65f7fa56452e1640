"""A bar over sequences on a terminal; nothing in a pipe."""

import sys

from tqdm import tqdm


class Progress:
    """Sequences done, of those that this run has still to do."""

    def __init__(self, name: str, total: int, done: int) -> None:
        self._bar = tqdm(
            total=total,
            initial=done,
            desc=name,
            unit="sequence",
            disable=not sys.stderr.isatty(),
            smoothing=0.1,
            dynamic_ncols=True,
        )

    def __enter__(self) -> "Progress":
        return self

    def step(self, sequences: int = 1) -> None:
        """Some more are done."""
        self._bar.update(sequences)

    def at(self, sequences: int) -> None:
        """So many are done in all."""
        self._bar.update(sequences - self._bar.n)

    def __exit__(self, *_: object) -> None:
        self._bar.close()
