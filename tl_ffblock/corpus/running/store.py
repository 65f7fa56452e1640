"""A run's folder: shards under checksums, one process a shard, a fingerprint at the door.

1. `run.json` holds the fingerprint. It is written once, under a lock; a run of another one is refused.
   A run that only has more texts behind the same first ones takes the folder over: it keeps the full shards.
2. A shard is written under a temporary name, flushed to the disk and renamed to a name that carries its
   digest: it is there as a whole or not at all, and a file whose bytes do not match its name is damaged.
3. Whoever computes a shard holds its lock, which the kernel frees when the process dies.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from safetensors import safe_open
from safetensors.numpy import save

from tl_ffblock.corpus.running.fingerprint import changed_names, differences
from tl_ffblock.errors import InputError
from tl_ffblock.files import write_atomically

DIGITS = 32
"""Hexadecimal digits of SHA-256 in a shard's name."""

_NAME = re.compile(rf"shard-(\d{{6}})\.([0-9a-f]{{{DIGITS}}})\.safetensors")


GROWS = {"config.limit", "data", "data.sequences"}
"""Entries of a fingerprint that may differ where a run is extended."""


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

    def __init__(
        self,
        folder: Path,
        fingerprint: dict[str, Any],
        whole_shards_of: Callable[[int, str], int | None] = lambda n_texts, digest: None,
    ) -> None:
        """Open a folder, or make it.

        Args:
            folder: Of the run.
            fingerprint: What its numbers depend on.
            whole_shards_of: How many shards of a run over so many texts of such a digest are this run's too, see
                `Shards.whole_shards_of`; by default none, and no run is extended.

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
            _make(path)
        self.damaged: list[str] = []
        """Shards whose bytes did not match their names: removed, to be redone."""
        self._fingerprint = json.loads(json.dumps(fingerprint))
        with self.lock("run"):
            self._guard(whole_shards_of)

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
            self.check_mine()
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

    def check_mine(self) -> None:
        """Hold the folder against this run: another process may have extended it meanwhile.

        Raises:
            ForeignFolderError: if it is another run's now.
        """
        if self._stored_fingerprint() != self._fingerprint:
            raise ForeignFolderError(f"{self.folder} was extended by another process; this run ends here.")

    def _guard(self, whole_shards_of: Callable[[int, str], int | None]) -> None:
        if (self.folder / "run.json").is_file():
            before = self._stored_fingerprint()
            if before != self._fingerprint:
                self._extend(before, whole_shards_of)
        elif any(self.shards.iterdir()):
            raise ForeignFolderError(f"{self.folder} holds shards but no run.json; use another folder.")
        else:
            self._write_fingerprint()

    def _extend(self, before: dict[str, Any], whole_shards_of: Callable[[int, str], int | None]) -> None:
        """Take a run's folder over, but for its last shard where that is not full: it gets more texts."""
        grows = all(name in GROWS for name in changed_names(before, self._fingerprint))
        kept = whole_shards_of(before["data.sequences"], before["data"]) if grows else None
        if kept is None:
            random = grows and before.get("config.sample") == "random"
            raise ForeignFolderError(
                f"{self.folder} holds a run of other settings: {'; '.join(differences(before, self._fingerprint))}. Use "
                "another folder, or the settings of that run to continue it."
                + (" Random samples of two sizes share no shards: such a run cannot be extended." if random else "")
            )
        # Under the shard's lock nobody writes it between its removal and the new fingerprint, and a process of the
        # smaller run that gets the lock later finds that fingerprint.
        with self.lock(f"shard-{kept:06d}"):
            for path in self._files(kept):
                path.unlink()
            self._write_fingerprint()

    def _stored_fingerprint(self) -> dict[str, Any]:
        path = self.folder / "run.json"
        try:
            return json.loads(path.read_text("utf-8"))["fingerprint"]
        except (ValueError, KeyError, TypeError) as error:
            raise ForeignFolderError(f"{path} cannot be read ({error}); use another folder.") from error

    def _write_fingerprint(self) -> None:
        data = json.dumps({"fingerprint": self._fingerprint}, indent=1)
        write_atomically(self.folder / "run.json", data.encode())


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}; give another out.") from error


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
