"""Progress of long calls: a bar in a terminal or notebook, occasional lines in a log."""

import os
import sys
import time
import warnings
from typing import Any, Literal

from tqdm import tqdm

UNKNOWN_SIZE: dict[str, Any] = {"ncols": 80, "nrows": 24}
"""Size of terminals that report 0 columns or rows, as in containers: else tqdm would draw a bar of width 0."""
SECONDS_BEFORE_PASSING_BAR = 1.0
"""Duration of a call after which a passing bar appears."""
SECONDS_BETWEEN_LINES = 30.0
"""Time between two lines of a log."""

Kind = Literal["passing", "lasting"]


class Progress:
    """Progress of a call with a known number of units; a context manager.

    A "passing" bar appears in a terminal or notebook cell after `SECONDS_BEFORE_PASSING_BAR` and is cleared at the end; elsewhere
    nothing is printed. A "lasting" bar appears at once and stays; elsewhere lines are printed to stderr. With `shown=False`, or
    with `TQDM_DISABLE` in the environment, there is no bar and no line.
    """

    def __init__(
        self, name: str, total: int, units: str, *, done: int = 0, kind: Kind = "passing", shown: bool = True
    ) -> None:
        """Start the bar or the log.

        Args:
            name: Label of the bar.
            total: Number of units, including those of `done`.
            units: Name of the units in the plural, such as "batches".
            done: Number of units that were done before.
            kind: "passing" or "lasting".
            shown: Whether anything is shown: the argument `progress` of public calls.
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
        """Count further units as done."""
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
    """Whether this process is the kernel of a notebook, tested as in tqdm.auto; IPython in a terminal is not."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return "IPKernelApp" in getattr(shell, "config", {})


def _notebook_bar() -> Any:
    """The bar class of tqdm.auto: a widget if ipywidgets is installed, else text in the cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # tqdm warns if ipywidgets is not installed; the bar is text then
        from tqdm.auto import tqdm as bar
    return bar
