"""Progress: a bar for a person at a terminal, lines for a log, nothing of what passes in a pipe."""

import os
import struct
import sys
import time
from collections.abc import Callable
from multiprocessing import resource_tracker

import pytest

from tl_ffblock import progress as module
from tl_ffblock.progress import Progress

fcntl = pytest.importorskip("fcntl", reason="pseudo-terminals are of Unix")
termios = pytest.importorskip("termios", reason="pseudo-terminals are of Unix")

Shown = Callable[[Callable[[], None]], str]


@pytest.fixture(params=[(24, 80), (0, 0)], ids=["24x80", "unknown"])
def on_a_terminal(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, everything_from: Callable[[int], bytes]
) -> Shown:
    """`on_a_terminal(work)`: what a person sees of the work, on terminals of a size and of none."""
    resource_tracker.ensure_running()  # from Python 3.14 on the first bar starts it, and it would keep the terminal open

    def shown(work: Callable[[], None]) -> str:
        master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", *request.param, 0, 0))
        with os.fdopen(slave, "w") as terminal:
            monkeypatch.setattr(sys, "stderr", terminal)
            work()
        text = everything_from(master).decode()
        os.close(master)
        return text

    return shown


def test_a_terminal_sees_what_is_done(on_a_terminal: Shown) -> None:
    """Name, units done of all, those of an earlier run among them; also where a terminal tells no size."""

    def work() -> None:
        with Progress("bypass", 10, "sequence", done=4, kind="lasting") as progress:
            progress.step(6)

    shown = on_a_terminal(work)
    assert "bypass:  40%" in shown and "bypass: 100%" in shown
    assert "4/10" in shown and "10/10" in shown


def test_a_short_call_shows_no_passing_bar(on_a_terminal: Shown) -> None:
    """It appears only where a call takes long."""

    def work() -> None:
        with Progress("gpt2", 3, "layer") as progress:
            progress.step(3)

    assert on_a_terminal(work) == ""


def test_a_long_call_shows_a_passing_bar(on_a_terminal: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts, and the line it stood on is empty at the end."""
    monkeypatch.setattr(module, "SECONDS_BEFORE_PASSING_BAR", 1e-9)

    def work() -> None:
        with Progress("gpt2", 3, "layer") as progress:
            for _ in range(3):
                time.sleep(0.2)  # a bar is drawn anew ten times a second at most
                progress.step()

    shown = on_a_terminal(work)
    assert "gpt2" in shown and shown.split("\r")[-1].strip() == ""


@pytest.mark.parametrize(("seconds", "expected"), [(1e6, ["0", "10"]), (0.0, ["0", "4", "10"])])
def test_a_log_gets_lines(
    seconds: float, expected: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One at the start, one at the end, and between them no more often than the pause between lines allows."""
    monkeypatch.setattr(module, "SECONDS_BETWEEN_LINES", seconds)
    with Progress("bypass", 10, "sequence", kind="lasting") as progress:
        progress.step(4)
        progress.step(6)
    assert capsys.readouterr().err.splitlines() == [f"bypass: {done} of 10 sequences" for done in expected]


def test_a_pipe_sees_nothing_of_what_passes(capsys: pytest.CaptureFixture[str]) -> None:
    """Not one character."""
    with Progress("gpt2", 3, "layer") as progress:
        progress.step(3)
    assert capsys.readouterr().err == ""


def test_tqdm_s_variable_silences_bars_and_lines(
    on_a_terminal: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`TQDM_DISABLE=1`: nothing on a terminal and nothing in a log."""
    monkeypatch.setenv("TQDM_DISABLE", "1")

    def work() -> None:
        with Progress("bypass", 10, "sequence", kind="lasting") as progress:
            progress.step(10)

    work()
    assert capsys.readouterr().err == ""
    assert on_a_terminal(work) == ""
