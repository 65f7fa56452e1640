"""The command line, in this process on a tiny model and as a process of its own on a real one."""

import dataclasses
import functools
import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tl_ffblock
from tests import tiny
from tl_ffblock.bridge import loading
from tl_ffblock.cli.main import main


@dataclasses.dataclass(frozen=True)
class Ran:
    """What a command gave."""

    status: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture(scope="session")
def process(tmp_path_factory: pytest.TempPathFactory) -> Command:
    """`process("map", ..., stdin=b"")`: `python -m tl_ffblock` elsewhere than in the source folder."""
    here = tmp_path_factory.mktemp("process")
    package = str(Path(tl_ffblock.__file__).parent.parent)

    def run(*arguments: str, stdin: bytes = b"", **environment: str) -> Ran:
        ran = subprocess.run(
            [sys.executable, "-m", "tl_ffblock", *arguments],
            input=stdin,
            capture_output=True,
            cwd=here,
            env={**os.environ, "PYTHONPATH": package, **environment},
            check=False,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    return run


@pytest.fixture(scope="session")
def load_once() -> Callable[..., Any]:
    """`load_model`, which loads the tiny GPT-2 once for all commands of this process."""
    return functools.cache(loading.load_model)


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: Path,
    load_once: Callable[..., Any],
) -> Command:
    """`command("map", ..., stdin=b"")`: the same in this process, in an empty folder."""
    load = loading.load_model
    monkeypatch.setattr(
        loading, "load_model", lambda name, **rest: (load_once if name == str(folder) else load)(name, **rest)
    )
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, stdin: bytes = b"") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"))
        try:
            status = main(arguments)
        except SystemExit as end:  # argparse's own way out
            status = end.code if isinstance(end.code, int) else 1
        captured = capsys.readouterr()
        return Ran(status, captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny GPT-2 of three layers with a tokenizer, saved in Hugging Face format."""
    return tiny.save_local("gpt2", tmp_path_factory.mktemp("models") / "tiny-gpt2")
