"""Progress of long calls: a bar for a person at a terminal or in a notebook, a line now and then for a log."""

import os
import sys
import time
import warnings
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

    A `passing` bar appears on a terminal or in a notebook cell when the call takes long, goes away at its end, and is
    nothing in a pipe. A `lasting` one is there from the start and stays; where there is neither, it gets lines.
    With `TQDM_DISABLE=1` in the environment, as tqdm reads it, or `shown=False` there is nothing.
    """

    def __init__(
        self, name: str, total: int, units: str, *, done: int = 0, kind: Kind = "passing", shown: bool = True
    ) -> None:
        """Begin to count.

        Args:
            name: What is being done, at the head of the bar.
            total: How many units there are to do, those of `done` included.
            units: What is counted, in the plural: "batches".
            done: How many were done before.
            kind: Whether the bar passes or lasts.
            shown: A caller's `progress`: False shows nothing.
        """
        self.done = done
        self._name, self._total, self._units = name, total, units
        terminal, notebook = sys.stderr.isatty(), in_notebook()
        silenced = bool(os.environ.get("TQDM_DISABLE")) or not shown
        self._logs = kind == "lasting" and not terminal and not notebook and not silenced
        self._next_line = time.monotonic() + SECONDS_BETWEEN_LINES
        empty = terminal and 0 in os.get_terminal_size(sys.stderr.fileno())
        self._bar = (_notebook_bar() if notebook else tqdm)(
            total=total,
            initial=done,
            desc=name,
            unit=f" {units}",
            disable=silenced or not (terminal or notebook),
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
        print(f"{self._name}: {self.done} of {self._total} {self._units}", file=sys.stderr, flush=True)


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook, as tqdm.auto tells it; IPython at a terminal is a terminal."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return "IPKernelApp" in getattr(shell, "config", {})


def _notebook_bar() -> Any:
    """The bar that tqdm.auto chooses: a widget where ipywidgets is installed, else text in the cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that ipywidgets is not installed; the text says as much
        from tqdm.auto import tqdm as bar
    return bar
