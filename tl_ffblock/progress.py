"""Progress of long calls on standard error: a bar for a person at a terminal, a line now and then for a log."""

import os
import sys
import time
from typing import Any, Literal

from tqdm import tqdm

UNKNOWN_SIZE: dict[str, Any] = {"ncols": 80, "nrows": 24}
"""For terminals that call themselves empty, as in containers: there a bar would be drawn on no column."""
SECONDS_BEFORE_PASSING_BAR = 1.0
"""A passing bar appears when the call has taken so long."""
SECONDS_BETWEEN_LINES = 30.0
"""How often a log gets a line."""

Kind = Literal["passing", "lasting"]


class Progress:
    """Counts what is done of a number of things to do; a context manager.

    A `passing` bar appears on a terminal when the call takes long, goes away at its end, and is nothing in a
    pipe. A `lasting` one is there from the start and stays; where standard error is no terminal, it gets lines.
    With `TQDM_DISABLE=1` in the environment, as tqdm reads it, there is neither.
    """

    def __init__(self, name: str, total: int, unit: str, *, done: int = 0, kind: Kind = "passing") -> None:
        """Begin to count.

        Args:
            name: What is being done, at the head of the bar.
            total: How many units there are to do, those of `done` included.
            unit: What is counted, in the singular.
            done: How many were done before.
            kind: Whether the bar passes or lasts.
        """
        self.done = done
        self._name, self._total, self._unit = name, total, unit
        terminal, silenced = sys.stderr.isatty(), bool(os.environ.get("TQDM_DISABLE"))
        self._logs = kind == "lasting" and not terminal and not silenced
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        empty = terminal and 0 in os.get_terminal_size(sys.stderr.fileno())
        self._bar = tqdm(
            total=total,
            initial=done,
            desc=name,
            unit=f" {unit}s",
            disable=silenced or not terminal,
            leave=kind == "lasting",
            delay=0 if kind == "lasting" else SECONDS_BEFORE_PASSING_BAR,
            smoothing=0.1,
            **UNKNOWN_SIZE if empty else {"dynamic_ncols": True},
        )

    def __enter__(self) -> "Progress":
        if self._logs:
            self._print_line()
        return self

    def step(self, number: int = 1) -> None:
        """Count some more as done."""
        self.done += number
        self._bar.update(number)
        if self._logs and time.monotonic() >= self._next_line and self.done < self._total:
            self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            self._print_line()

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        tqdm.write(text, file=sys.stderr)

    def __exit__(self, *_: object) -> None:
        self._bar.close()
        if self._logs:
            self._print_line()

    def _print_line(self) -> None:
        print(f"{self._name}: {self.done} of {self._total} {self._unit}s", file=sys.stderr, flush=True)
