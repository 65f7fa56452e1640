"""A run's folder: shards under checksums, one process a shard, a fingerprint at the door.

1. `run.json` holds the fingerprint. It is written once, under a lock; a run of another one is refused.
2. A shard is written under a temporary name, flushed to the disk and renamed to a name that carries its
   digest: it is there as a whole or not at all, and a file whose bytes do not match its name is damaged.
3. Whoever computes a shard holds its lock, which the kernel frees when the process dies.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import safe_open
from safetensors.numpy import save

from tl_ffblock.corpus.running.fingerprint import differences
from tl_ffblock.errors import InputError
from tl_ffblock.results.files import write_atomically

DIGITS = 32
"""Hexadecimal digits of SHA-256 in a shard's name."""

_NAME = re.compile(rf"shard-(\d{{6}})\.([0-9a-f]{{{DIGITS}}})\.safetensors")


class ForeignFolderError(InputError):
    """The folder holds a run of other settings, weights or data."""


class StoredShard:
    """One finished shard; arrays are read when asked for."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = _opened(path)
        self.meta: dict[str, Any] = json.loads(self._file.metadata()["meta"])
        self.names = frozenset(self._file.keys())

    def __getitem__(self, name: str) -> np.ndarray:
        return self._file.get_tensor(name)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Read some rows of an array."""
        return self._file.get_slice(name)[start:stop]


class Store:
    """The folder of one run."""

    def __init__(self, folder: Path, fingerprint: dict[str, Any]) -> None:
        """Open a folder, or make it.

        Raises:
            InputError: if the path is no folder, or the folder holds something else.
            ForeignFolderError: if it holds another run, with what differs.
        """
        if folder.exists() and not folder.is_dir():
            raise InputError(f"out={str(folder)!r} is a file; give a folder.")
        self.folder = folder
        self.shards = folder / "shards"
        self.locks = folder / "locks"
        for path in (self.shards, self.locks):
            path.mkdir(parents=True, exist_ok=True)
        self.damaged: list[str] = []
        """Shards whose bytes did not match their names: removed, to be redone."""
        with self.lock("run"):
            self._guard(fingerprint)

    def lock(self, name: str) -> FileLock:
        """A lock among processes."""
        return FileLock(self.locks / f"{name}.lock")

    @contextmanager
    def claim(self, shard: int) -> Iterator[bool]:
        """Whether this process may compute a shard: nobody else is at it, and it is not done."""
        lock = self.lock(f"shard-{shard:06d}")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            yield False
            return
        try:
            yield not self._files(shard)
        finally:
            lock.release()

    def write(self, shard: int, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Keep a shard; all of it or nothing."""
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        data = save(contiguous, metadata={"meta": json.dumps(meta, sort_keys=True)})
        # one name a shard: its lock is held, and what a killed process left is written over
        temporary = self.shards / f".shard-{shard:06d}.part"
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.shards / f"shard-{shard:06d}.{hashlib.sha256(data).hexdigest()[:DIGITS]}.safetensors")
        _flush(self.shards)

    def done(self) -> set[int]:
        """Shards that are there."""
        names = (_NAME.fullmatch(path.name) for path in self.shards.iterdir())
        return {int(match[1]) for match in names if match}

    def verify(self) -> set[int]:
        """Shards that are there and whole; damaged ones are removed and noted in `damaged`."""
        for shard in sorted(self.done()):
            with self.lock(f"shard-{shard:06d}"):
                for path in self._files(shard):
                    match = _NAME.fullmatch(path.name)
                    if match and _digest(path) != match[2]:
                        self.damaged.append(path.name)
                        path.unlink()
        return self.done()

    def read(self, shard: int) -> StoredShard:
        """A finished shard."""
        return StoredShard(self._files(shard)[0])

    def _files(self, shard: int) -> list[Path]:
        return sorted(self.shards.glob(f"shard-{shard:06d}.*.safetensors"))

    def _guard(self, fingerprint: dict[str, Any]) -> None:
        path = self.folder / "run.json"
        if path.is_file():
            try:
                before = json.loads(path.read_text("utf-8"))["fingerprint"]
            except (ValueError, KeyError, TypeError) as error:
                raise ForeignFolderError(f"{path} cannot be read ({error}); use another folder.") from error
            differing = differences(before, json.loads(json.dumps(fingerprint)))
            if differing:
                raise ForeignFolderError(
                    f"{self.folder} holds a run of other settings: {'; '.join(differing)}. Use another folder, or the "
                    "settings of that run to continue it."
                )
        elif any(self.shards.iterdir()):
            raise ForeignFolderError(f"{self.folder} holds shards but no run.json; use another folder.")
        else:
            write_atomically(path, json.dumps({"fingerprint": fingerprint}, indent=1).encode())


def _opened(path: Path) -> Any:
    return safe_open(path, framework="numpy")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]


def _flush(folder: Path) -> None:
    """Have the rename itself on the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
