"""How the commands write on a terminal, or into a file or a pipe."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

WIDTH_OF_FILES = 120
"""Columns of a table that goes to a file or a pipe."""


def console(*, stderr: bool = False) -> "Console":
    """Standard output or standard error, as wide as the terminal."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(stderr=stderr, highlight=False, width=None if stream.isatty() else WIDTH_OF_FILES)


def plain_table() -> dict[str, Any]:
    """The looks of every table."""
    from rich import box

    return {"box": box.SIMPLE_HEAD, "title_justify": "left", "title_style": "", "pad_edge": False}


@contextmanager
def working(what: str) -> Iterator[None]:
    """Say on a terminal what is being waited for."""
    err = console(stderr=True)
    if err.is_terminal:
        with err.status(f"{what} ..."):
            yield
    else:
        yield


def written(out: "Console", kind: str, file: Path) -> None:
    """Say that a file was written, and how large it is."""
    n_bytes = file.stat().st_size
    size = f"{n_bytes / 1e6:.1f} MB" if n_bytes >= 1e6 else f"{max(1, round(n_bytes / 1e3))} kB"
    out.print(f"{kind:5} {file} ({size})", markup=False, soft_wrap=True)
