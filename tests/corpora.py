"""Tiny models saved to folders, tiny corpora, and runs of them: fixtures that tests of corpus runs and of studies share."""

import dataclasses
import functools
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import tiny
from tl_ffblock import load_model
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.experiments import Config, run_studies

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
"""Of processes that tests start."""
TREEBANK = ROOT / "tests" / "experiments" / "treebank.conllu"
OF_TREEBANK = {"data": str(TREEBANK), "mask_fraction": 0.0}
"""A run over a treebank of six sentences, without masks."""
WORDS = (
    "the cat sat on the mat .",
    "a dog and the bird saw her , but they did not move !",
    "He said he would not . Why ?",
)


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """`model_folder("bert")`: a tiny saved model with a word-level tokenizer."""
    made: dict[str, str] = {}

    def folder(family: str) -> str:
        if family not in made:
            made[family] = str(tiny.save_local(family, tmp_path_factory.mktemp(family), list(WORDS)))
        return made[family]

    return folder


@pytest.fixture(scope="session")
def loaded(model_folder: Callable[[str], str]) -> Callable[[str], Any]:
    """`loaded("bert")`: the same model, loaded once."""
    models: dict[str, Any] = {}

    def model(family: str) -> Any:
        if family not in models:
            models[family] = load_model(model_folder(family))
        return models[family]

    return model


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirty random texts of three to fourteen known words, one a line."""
    draw = random.Random(0)
    words = " ".join(WORDS).split()
    lines = [" ".join(draw.choice(words) for _ in range(draw.randint(3, 14))) for _ in range(30)]
    path = tmp_path_factory.mktemp("corpus") / "corpus.txt"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def config_of(model_folder: Callable[[str], str], corpus: Path, tmp_path: Path) -> Callable[..., Config]:
    """`config_of(family="llama", out="other", limit=4)`: a run of a tiny model."""

    def config(*, family: str = "bert", out: str = "run", **fields: Any) -> Config:
        fields = {"data": str(corpus), "examples": 0, "shard_size": 4, **fields}
        return Config(model_folder(family), out=str(tmp_path / out), **fields)

    return config


@pytest.fixture
def run(config_of: Callable[..., Config], loaded: Callable[[str], Any]) -> Callable[..., CorpusRun]:
    """`run("bypass", family="llama", limit=4)`: such a run of these studies, finished."""

    def finished(studies: Any, *, family: str = "bert", **fields: Any) -> CorpusRun:
        return run_studies(studies, config_of(family=family, **fields), model=loaded(family))

    return finished


@pytest.fixture(scope="session")
def shared_run(
    model_folder: Callable[[str], str],
    loaded: Callable[[str], Any],
    corpus: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., CorpusRun]:
    """As `run`; equal calls of the session give one run, in which no test changes anything."""

    @functools.cache
    def finished(studies: Any, *, family: str = "bert", **fields: Any) -> CorpusRun:
        fields = {"data": str(corpus), "examples": 0, "shard_size": 4, **fields}
        config = Config(model_folder(family), out=str(tmp_path_factory.mktemp("shared") / "run"), **fields)
        return run_studies(studies, config, model=loaded(family))

    return finished


def stored_tables(folder: Path) -> dict[str, bytes]:
    """The bytes of every table of a run, by file name."""
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


SIGNALS = ("KILL", "TERM", "FULL", "INT", "HUP", "QUIT")
"""What ends runs: signals, and a disk that is full."""


def assert_kills_change_nothing(names: str, config: Config, model: Any, *, kills: int) -> Counter[str]:
    """Ended by each of `SIGNALS` at random moments, then started a last time: the tables are those of an uninterrupted run to the byte.

    Returns how many processes each of them ended.
    """
    fields = config.folder.with_name("config.json")
    fields.write_text(json.dumps(dataclasses.asdict(config)))
    program = str(ROOT / "tests" / "corpus" / "killed.py")
    command = [sys.executable, "-W", "ignore", program, str(kills), "0", names, str(fields), ",".join(SIGNALS)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=fields.parent)
    assert done.returncode == 0, done.stderr
    left, n_shards = json.loads(done.stdout.splitlines()[-1]), len(list(config.folder.glob("shards/shard-*")))
    assert len(left) >= max(1, kills // 2), "most of the processes were ended and did not finish before"
    assert any(0 < shards < n_shards for _, shards in left), "some were ended in the midst of the work"
    whole = run_studies(names, dataclasses.replace(config, out=config.out + "-whole", engine="local"), model=model)
    assert stored_tables(config.folder) == stored_tables(whole.folder)
    return Counter(word for word, _ in left)


class InMemory(dict[str, np.ndarray]):
    """What `summarise` gave, read as a shard is."""

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        return self[name][start:stop]
