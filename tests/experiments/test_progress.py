"""The bar: read by a person in a terminal, absent where nobody looks."""

import io
import os
import sys
from collections.abc import Callable

import pytest

fcntl = pytest.importorskip("fcntl", reason="pseudo-terminals are of Unix")


@pytest.mark.parametrize("size", [(24, 80), (0, 0)], ids=["24x80", "unknown"])
def test_a_terminal_sees_what_is_done(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch, everything_from: Callable[[int], bytes]
) -> None:
    """Name, sequences done of all, those of an earlier run among them; also where a terminal tells no size."""
    import struct
    import termios

    from tl_ffblock.corpus.running.progress import Progress

    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        with Progress("norms", total=10, done=4) as progress:
            progress.step(6)
    shown = everything_from(master).decode()
    os.close(master)
    assert "norms:  40%" in shown and "norms: 100%" in shown
    assert "4/10" in shown and "10/10" in shown


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one character."""
    from tl_ffblock.corpus.running.progress import Progress

    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with Progress("norms", total=10, done=0) as progress:
        progress.step(10)
    assert pipe.getvalue() == ""
