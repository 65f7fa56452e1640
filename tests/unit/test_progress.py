"""Progress: a bar for a person at a terminal, lines for a log, nothing of what passes in a pipe."""

import os
import struct
import sys
import time
import types
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
        with Progress("bypass", 10, "sequences", done=4, kind="lasting") as progress:
            progress.step(6)

    shown = on_a_terminal(work)
    assert "bypass:  40%" in shown and "bypass: 100%" in shown
    assert "4/10" in shown and "10/10" in shown


def test_a_long_call_shows_a_passing_bar(on_a_terminal: Shown, monkeypatch: pytest.MonkeyPatch) -> None:
    """It counts, and the line it stood on is empty at the end."""
    monkeypatch.setattr(module, "SECONDS_BEFORE_PASSING_BAR", 1e-9)

    def work() -> None:
        with Progress("gpt2", 3, "layers") as progress:
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
    with Progress("bypass", 10, "sequences", kind="lasting") as progress:
        progress.step(4)
        progress.step(6)
    assert capsys.readouterr().err.splitlines() == [f"bypass: {done} of 10 sequences" for done in expected]


LONG = """with module.Progress("gpt2", 2, "batches") as bar:
    time.sleep(0.3); bar.step(); time.sleep(0.3); bar.step()"""


def test_a_notebook_cell_shows_the_bar() -> None:
    """Of a long call, in the plural; none with progress=False, with tqdm's variable, or of a short call."""
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    cells = [
        "import os, time; from tl_ffblock import progress as module; module.SECONDS_BEFORE_PASSING_BAR = 0.01",
        LONG,
        LONG.replace('"batches"', '"batches", shown=False'),
        'os.environ["TQDM_DISABLE"] = "1"\n' + LONG + '\ndel os.environ["TQDM_DISABLE"]',
        'module.SECONDS_BEFORE_PASSING_BAR = 60.0\nwith module.Progress("gpt2", 3, "batches") as bar: bar.step(3)',
        'with module.Progress("bypass", 3, "sequences", kind="lasting") as bar: bar.step(3)',
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    shown = [[str(output) for output in cell.outputs] for cell in notebook.cells]
    assert ["batches" in "".join(said) for said in shown[1:5]] == [True, False, False, False]
    assert "batchs" not in "".join(shown[1]) and "gpt2" in "".join(shown[1])
    assert shown[2:5] == [[], [], []]
    assert "sequences" in "".join(shown[5]) and "3 of 3" not in "".join(shown[5]), "a bar, and no lines of a log"


def test_ipython_at_a_terminal_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a process that has merely imported IPython."""
    shells = {"terminal": types.SimpleNamespace(config={"TerminalIPythonApp": {}}), "none": None}
    for shell in shells.values():
        monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda shell=shell: shell))  # type: ignore[misc]
        assert not module.in_notebook()
    kernel = types.SimpleNamespace(config={"IPKernelApp": {}})
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: kernel))
    assert module.in_notebook()


SILENT = {
    "a short call": ({}, 1e9, ""),
    "progress=False": ({"shown": False}, 1e-9, ""),
    "progress=False, lasting": ({"shown": False, "kind": "lasting"}, 1e-9, ""),
    "TQDM_DISABLE": ({"kind": "lasting"}, 1e-9, "1"),
}


@pytest.mark.parametrize("name", SILENT)
def test_what_is_silent_is_silent_everywhere(
    on_a_terminal: Shown, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A short call, a caller's `progress=False`, tqdm's variable: nothing on a terminal and nothing in a log or a pipe."""
    options, seconds, disabled = SILENT[name]
    monkeypatch.setattr(module, "SECONDS_BEFORE_PASSING_BAR", seconds)
    monkeypatch.setenv("TQDM_DISABLE", disabled)

    def work() -> None:
        with Progress("gpt2", 3, "batches", **options) as progress:
            time.sleep(0.2 if seconds < 1 else 0)
            progress.step(3)

    work()
    assert capsys.readouterr().err == ""
    assert on_a_terminal(work) == ""
