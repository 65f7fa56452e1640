"""Faults that files, disks and signals have, tried on the library one by one: what survives, what is refused, what is lost or wrong.

    python benchmarks/faults.py [corpora results models folders disk kills ray] [--cases 200] [--moments 30] [--json docs/faults.json]

- corpora: one byte of a corpus of every format is changed, put in or taken out. Survived: all rows but those next to the byte are read.
- results: the same of a file of every class of results. Survived: what is loaded is what was saved.
- models: the same of the header of a model's weights. Survived: the model's map is the same.
- folders: something else stands in the place of one of a run's files. Survived: the run ends with the tables of a whole one.
- disk: one call of the system fails from the k-th time on, with one of several errors. Lost: the next start does not end with these tables.
- kills, ray: a run in this process or on a Ray cluster is ended at random moments by each signal, and by a disk that is full. Lost: the
  last start does not end with the tables of an uninterrupted run, byte for byte.

Refused is an error of the library or of the disk. Wrong is any other table, row or result. Without a sentence is any other error, and
whatever takes more than a minute. Tiny models with random weights; seeded. A part that is run replaces its row of the stored file.
"""

import argparse
import errno
import fcntl
import io
import json
import os
import shutil
import signal
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import replace
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from speed import machine

import tl_ffblock as ffb
from tests import tiny
from tests.corpora import SIGNALS, WORDS, assert_kills_change_nothing, stored_tables
from tests.integration.test_results import RESULTS, made
from tests.own_studies import lengths
from tl_ffblock import load_model
from tl_ffblock.corpus.texts import CorpusText, read_texts
from tl_ffblock.errors import FFBlockError
from tl_ffblock.experiments import Config, run_studies

LIMIT = 60
"""Seconds after which a case counts as hanging."""
ROWS = 20
TEXTS = [f"{' '.join(WORDS[place % 3].split()[: 3 + place % 4])} {place}" for place in range(ROWS)]
CORPORA = {
    "a.txt": "\n".join(TEXTS) + "\n",
    "a.csv": "id,text\n" + "".join(f'{place},"{text}"\n' for place, text in enumerate(TEXTS)),
    "a.tsv": "text\n" + "".join(f"{text}\n" for text in TEXTS),
    "a.jsonl": "".join(json.dumps({"text": text}) + "\n" for text in TEXTS),
    "a.conllu": "".join(
        "".join("\t".join([str(at), word, *"_" * 8]) + "\n" for at, word in enumerate(text.split(), start=1)) + "\n"
        for text in TEXTS
    ),
}


def outcome(case: Callable[[], bool], lost: str = "wrong") -> str:
    """The word for what came of a case, which says whether everything is as it was."""

    def hang(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, hang)
    signal.alarm(LIMIT)
    try:
        with redirect_stderr(io.StringIO()):
            return "survived" if case() else lost
    except (FFBlockError, OSError):
        return "refused"
    except (Exception, KeyboardInterrupt) as error:
        print(f"no sentence: {error!r}"[:200])
        return "no sentence"
    finally:
        signal.alarm(0)


def changed(data: bytes, random: np.random.Generator, number: int) -> tuple[bytes, int]:
    """Data with one byte changed, put in or taken out, or an end cut off; and where."""
    place, byte = int(random.integers(len(data))), bytes([int(random.integers(256))])
    if number % 3 == 0:
        byte = bytes([int(random.choice(list(b'"\r\n\t\0,{}[]0123456789\\-')))])
    kept = data[:place] + byte * (number % 4 != 3)
    return kept + (b"" if number % 20 == 1 else data[place + (number % 4 != 2) :]), place


def corpora(cases: int) -> Iterator[str]:
    """Every format."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in CORPORA.items():
            path, data = Path(folder, name), content.encode()
            whole = rows_of(path, data)
            for number in range(cases):
                mutated, place = changed(data, random, number)
                unit = b"\n\n" if name == "a.conllu" else b"\n"
                row = data[:place].count(unit) - (name in ("a.csv", "a.tsv"))
                near = range(row - 1, ROWS if number % 20 == 1 else row + 2)
                expected = [text for at, text in enumerate(whole) if at not in near]
                yield outcome(
                    lambda mutated=mutated, path=path, expected=expected: set(expected) <= set(rows_of(path, mutated))
                )


def rows_of(path: Path, data: bytes) -> list[str]:
    """The texts of a corpus of these bytes."""
    path.write_bytes(data)
    config = Config("m", str(path), "out", unreadable=0.9)
    return [item.text for item in read_texts(config) if isinstance(item, CorpusText)]


def results(cases: int) -> Iterator[str]:
    """Every class."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "result")
        for name in RESULTS:
            right = made(name)
            data = right.save(path).read_bytes()
            for number in range(cases):
                part = data[:4000] if number % 2 else data  # labels are a small part of the largest files
                mutated = changed(part, random, number)[0] + data[len(part) :]
                path.write_bytes(mutated)
                yield outcome(lambda right=right: bool(type(right).load(path) == right))


def models(cases: int) -> Iterator[str]:
    """The header of the weights of a GPT-2."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        file = tiny.save_local("gpt2", Path(folder), list(WORDS)) / "model.safetensors"
        data = file.read_bytes()
        end = 8 + int.from_bytes(data[:8], "little")
        expected = ffb.contribution_maps(load_model(folder), WORDS[0])
        for number in range(cases):
            file.write_bytes(changed(data[:end], random, number)[0] + data[end:])
            yield outcome(lambda: ffb.contribution_maps(load_model(folder), WORDS[0]).values.equal(expected.values))


class Run:
    """A finished run of a tiny model, and others that have to end as it did."""

    def __init__(self, place: Path) -> None:
        self.place, self.number = place, 0
        (place / "model").mkdir()
        self.config = Config(
            str(tiny.save_local("bert", place / "model", list(WORDS))), str(place / "a.txt"), str(place / "whole")
        )
        self.config = replace(self.config, shard_size=4, examples=1)
        (place / "a.txt").write_text(CORPORA["a.txt"])
        self.model = load_model(self.config.model)
        self.finish(place / "whole")
        self.tables = stored_tables(place / "whole")

    def finish(self, folder: Path) -> bool:
        """Run to the end; whether the tables are those of the whole one."""
        finished = run_studies((lengths(),), replace(self.config, out=str(folder)), model=self.model)
        if finished.outputs is None:
            raise OSError(next(iter(finished.failed_shards.values())))
        found = stored_tables(folder)  # a link to nothing is followed: what it leads to is a file more
        return not hasattr(self, "tables") or {name: found.get(name) for name in self.tables} == self.tables

    def copy(self) -> Path:
        """A copy of the finished folder."""
        self.number += 1
        return Path(shutil.copytree(self.place / "whole", self.place / f"run-{self.number}"))


FORMS: dict[str, Callable[[Path], object]] = {
    "nothing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a circle": lambda path: path.symlink_to(path.name),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nothing": lambda path: path.symlink_to("gone"),
    "an empty file": lambda path: path.write_bytes(b""),
    "null": lambda path: path.write_bytes(b"null"),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "noise": lambda path: path.write_bytes(bytes(range(256)) * 9),
}


def folders(_: int) -> Iterator[str]:
    """Each of a run's files, locks and all."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        names = sorted(
            path.relative_to(run.place / "whole") for path in (run.place / "whole").rglob("*") if path.is_file()
        )
        for name in names:
            for form in FORMS.values():
                copy = run.copy()
                (copy / name).unlink()
                form(copy / name)
                yield outcome(lambda copy=copy: run.finish(copy))
                shutil.rmtree(copy)


CALLS = {"fsync": os, "replace": os, "open": os, "mkdir": os, "fchmod": os, "scandir": os, "flock": fcntl}
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS, errno.ESTALE)


@contextmanager
def failing(name: str, first: int, code: int) -> Iterator[None]:
    """A call of the system fails from the n-th time on, in the folder of the runs where it has a path."""
    real, count = getattr(CALLS[name], name), 0

    def call(*given: Any, **options: Any) -> Any:
        nonlocal count
        count += not isinstance(given[0], str | Path) or tempfile.gettempdir() in str(given[0])
        if count >= first:
            raise OSError(code, os.strerror(code))
        return real(*given, **options)

    with patch.object(CALLS[name], name, call):
        yield


RUNS: list[Run] = []
"""The run whose process meets the faults."""


def faulty(out: Path, name: str, first: int, code: int) -> str:
    """What becomes of a run while a call of the system fails."""
    with failing(name, first, code):
        return outcome(lambda: RUNS[0].finish(out))


def disk(_: int) -> Iterator[str]:
    """Every call and error from several moments on; when that process has ended, another one starts the run again.

    A process in which a lock could not be let go of holds it as long as it lives.
    """
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        RUNS.append(run)
        for name, first, code in product(CALLS, (1, 3, 8), ERRORS):
            run.number += 1
            out = run.place / f"run-{run.number}"
            with get_context("fork").Pool(1) as process:
                word = process.apply(faulty, (out, name, first, code))
            yield word if outcome(lambda out=out: run.finish(out), "lost") == "survived" else "lost"
            shutil.rmtree(out, ignore_errors=True)


def kills(moments: int, **options: Any) -> Iterator[str]:
    """By each signal as often; the tables have to be those of an uninterrupted run at the end of each round."""
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        config = replace(run.config, out=str(run.place / "killed"), shard_size=1, examples=0, **options)
        try:
            ended = assert_kills_change_nothing("amplification", config, run.model, kills=moments * len(SIGNALS))
        except AssertionError as error:
            print(error)
            yield "lost"
        else:
            yield from ["survived"] * ended.total()
            print(dict(ended))


def ray(moments: int) -> Iterator[str]:
    """On a cluster of this machine."""
    from ray.cluster_utils import Cluster

    os.environ["PYTHONPATH"] = str(Path.cwd())
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2, "include_dashboard": False})
    try:
        yield from kills(moments, engine="ray", workers=1, ray_address=cluster.address)
    finally:
        cluster.shutdown()


PARTS = {part.__name__: part for part in (corpora, results, models, folders, disk, kills, ray)}


def main() -> None:
    """Run the parts and store their rows."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=list(PARTS), choices=[*PARTS, []])
    parser.add_argument("--cases", type=int, default=200, help="changes of every file")
    parser.add_argument("--moments", type=int, default=30, help="moments for each signal")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, Any] = {}
    for name in options.parts:
        words = Counter(PARTS[name](options.moments if name in ("kills", "ray") else options.cases))
        rows[name] = {"cases": words.total(), **dict(sorted(words.items()))}
        print(name, rows[name], flush=True)
        if options.json:
            held = json.loads(options.json.read_text())["rows"] if options.json.is_file() else {}
            options.json.write_text(json.dumps({**machine(), "rows": {**held, name: rows[name]}}, indent=1) + "\n")


if __name__ == "__main__":
    main()
