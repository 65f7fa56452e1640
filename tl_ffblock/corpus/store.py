"""Folder of a study run: shards with checksums, one process per shard, and the fingerprint of all inputs.

1. `run.json` holds the fingerprint. It is written once, under a lock; a run with another fingerprint raises an error. A run
   that only has more texts after the same first ones may extend it, and keeps the full shards.
2. A shard is written under a temporary name, flushed to disk and renamed to a name with its digest. So it is stored completely
   or not at all. A file whose bytes do not match its name is damaged. Its metadata identify the run, the shard's number and its
   texts; a shard of another run, or under another number, raises an error.
3. A process that computes a shard holds its lock, which the kernel releases when the process dies.
"""

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from tl_ffblock._version import __version__
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.shards import Shards
from tl_ffblock.corpus.study import StudySpec
from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.files import read_json, write_atomically

DIGITS = 32
"""Hexadecimal digits of SHA-256 in a shard's name."""
NOT_IN_FINGERPRINT = (
    "out",
    "engine",
    "workers",
    "gpus",
    "ray_address",
    "device",
    "data",
    "subset",
    "model",
    "examples",
    "unreadable",
)
"""Fields of a config that may change when a run is continued: where it is computed, and names of inputs that have a digest."""
GROWS = {"config.limit", "data", "data.sequences"}
"""Entries of a fingerprint that may change when a run is extended."""
_NAME = re.compile(rf"shard-(\d{{6,}})\.([0-9a-f]{{{DIGITS}}})\.safetensors")


def fingerprint(config: Config, specs: Sequence[StudySpec], weights: str, shards: Shards) -> dict[str, Any]:
    """Settings, digests of weights and data, and versions, which determine a shard's results.

    Args:
        config: The run.
        specs: Its studies, whose options are settings too.
        weights: Digest of the weights that the studies use.
        shards: The corpus.
    """
    settings = {f"config.{name}": value for name, value in vars(config).items() if name not in NOT_IN_FINGERPRINT}
    for spec in specs:
        settings |= {f"study.{name}": value for name, value in spec.fingerprint().items()}
    return {
        **{name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()},
        "model.weights": weights,
        "data": shards.digest,
        "data.sequences": len(shards.chosen),
        **versions(),
    }


def versions() -> dict[str, str]:
    """Versions of the libraries that results depend on."""
    held = {"torch": str(torch.__version__), "transformer_lens": version("transformer-lens")}
    return {"tl_ffblock": __version__, **held}


class ForeignFolderError(InputError):
    """The folder has a run of other settings, weights or data."""


class StoredShard:
    """One finished shard; its arrays are read at each access.

    The file is closed between reads, since a process can have only some 65,000 files open.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._open() as file:
            metadata = file.metadata() or {}
        self.mark: str = metadata.get("mark", "")
        """Digest of its run, its number and its texts."""
        self.meta: dict[str, Any] = json.loads(metadata.get("meta", "{}"))

    def __getitem__(self, name: str) -> np.ndarray:
        with self._open() as file:
            return file.get_tensor(name)

    def __contains__(self, name: str) -> bool:
        with self._open() as file:
            return name in file.keys()  # noqa: SIM118  # not a dictionary

    def rows(self, name: str, start: int, stop: int) -> np.ndarray:
        """Rows from `start` to before `stop` of an array."""
        with self._open() as file:
            return file.get_slice(name)[start:stop]

    def _open(self) -> Any:
        return safe_open(self._path, framework="numpy")


class Store:
    """Folder of one study run."""

    def __init__(
        self,
        folder: Path,
        fingerprint: dict[str, Any],
        whole_shards_of: Callable[[int, str], int | None] = lambda _, __: None,
        digests: Sequence[bytes] = (),
    ) -> None:
        """Open the folder, or create it.

        Args:
            folder: Folder of the run.
            fingerprint: All inputs of the run.
            whole_shards_of: Number of shared shards with a run over so many texts of such a digest, see
                `Shards.whole_shards_of`; by default none, and no run can be extended.
            digests: Digest of each shard's texts.

        Raises:
            InputError: if the folder cannot be created, or does not support locks.
            ForeignFolderError: if it has another run, with the differences.
        """
        self.folder = folder
        self.shards = folder / "shards"
        self.locks = folder / "locks"
        for path in (self.shards, self.locks):
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise InputError(f"the folder {path} cannot be created: {error.strerror}. Use another out.") from error
        self._check_locks()
        self.damaged: list[str] = []
        """Shards whose bytes did not match their names; they are removed and computed again."""
        self._fingerprint = json.loads(json.dumps(fingerprint))
        self._digests = digests
        with self.lock("run"):
            if (folder / "run.json").is_file():
                before = self._stored_fingerprint()
                if before != self._fingerprint:
                    self._extend(before, whole_shards_of)
            elif any(self.shards.glob("shard-*")):
                raise ForeignFolderError(f"{folder} has shards but no run.json. Use another folder.")
            else:
                self._write_fingerprint()

    def lock(self, name: str) -> FileLock:
        """Lock among processes; the same process may acquire it again, in case a disk error prevented its release."""
        return FileLock(self.locks / f"{name}.lock", is_singleton=True)

    def _check_locks(self) -> None:
        """Check that the file system supports locks, before the work starts.

        Raises:
            InputError: if it does not, with the folder.
        """
        try:
            with self.lock("check"):
                pass
        except OSError as error:
            raise InputError(
                f"files in {self.locks} cannot be locked ({error.strerror}), as on some network file systems. Use another out."
            ) from error

    @contextmanager
    def claim(self, shard: int) -> Iterator[bool]:
        """Context: whether this process may compute a shard, which no other process computes and which is not finished.

        Raises:
            ForeignFolderError: if another process extended the run.
        """
        try:
            held = self.lock(f"shard-{shard:06d}").acquire(timeout=0)
        except Timeout:
            yield False
            return
        with held:
            self.check_mine()
            yield not self._files(shard)

    def write(self, shard: int, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
        """Write a shard, completely or not at all.

        Raises:
            OSError: if it cannot be written.
        """
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        data = save(contiguous, metadata={"mark": self._mark(shard), "meta": json.dumps(meta, sort_keys=True)})
        name = f"shard-{shard:06d}.{hashlib.sha256(data).hexdigest()[:DIGITS]}.safetensors"
        write_atomically(self.shards / name, data)

    def done(self) -> set[int]:
        """Numbers of the shards that have a file."""
        return set(self._listed())

    def verify(self) -> set[int]:
        """Numbers of the undamaged shards; damaged ones are removed and noted in `damaged`.

        Raises:
            ForeignFolderError: if a file is not a shard of this run.
        """
        for shard, paths in sorted(self._listed().items()):
            with self.lock(f"shard-{shard:06d}"):
                for path in paths:
                    if not os.path.lexists(path):
                        continue  # removed by another process
                    if not path.is_file():
                        raise self._foreign(path, shard)
                    with path.open("rb") as file:
                        digest = hashlib.file_digest(file, "sha256").hexdigest()[:DIGITS]
                    if digest != path.name.split(".")[1]:
                        self.damaged.append(path.name)
                        path.unlink()
                    else:
                        self._read(shard, paths)
        return self.done()

    def read(self, shards: Iterable[int]) -> list[StoredShard]:
        """Finished shards of these numbers.

        Raises:
            ForeignFolderError: if a file is a shard of another run, of other texts, or has another number.
        """
        listed = self._listed()
        return [self._read(shard, listed[shard]) for shard in shards]

    def _read(self, shard: int, paths: Sequence[Path]) -> StoredShard:
        try:
            stored = StoredShard(paths[0])
        except (SafetensorError, ValueError, RecursionError) as error:
            raise self._foreign(paths[0], shard) from error
        if len(paths) > 1 or stored.mark != self._mark(shard):
            raise self._foreign(paths[0], shard)
        return stored

    def _foreign(self, path: Path, shard: int) -> ForeignFolderError:
        return ForeignFolderError(
            f"{path} is not shard {shard} of this run: it comes from another run, or was renamed. Move it away and run the same "
            "command again."
        )

    def _listed(self) -> dict[int, list[Path]]:
        """Files of all shards by number; the folder is read once."""
        listed: dict[int, list[Path]] = {}
        for path in sorted(self.shards.iterdir()):
            if match := _NAME.fullmatch(path.name):
                listed.setdefault(int(match[1]), []).append(path)
        return listed

    def _mark(self, shard: int) -> str:
        """Digest of all inputs of a shard: settings, weights, versions, its number and its texts."""
        own = {name: value for name, value in self._fingerprint.items() if name not in GROWS}
        texts = b"".join(self._digests[shard : shard + 1])
        return hashlib.sha256(json.dumps([own, shard], sort_keys=True).encode() + texts).hexdigest()

    def _files(self, shard: int) -> list[Path]:
        with os.scandir(self.shards) as entries:
            return [Path(entry.path) for entry in entries if entry.name.startswith(f"shard-{shard:06d}.")]

    def check_mine(self) -> None:
        """Check that the folder is still this run's: another process may have extended it.

        Raises:
            ForeignFolderError: if it is another run's now.
        """
        if self._stored_fingerprint() != self._fingerprint:
            raise ForeignFolderError(f"{self.folder} was extended by another process, so this run stops.")

    def _extend(self, before: dict[str, Any], whole_shards_of: Callable[[int, str], int | None]) -> None:
        """Extend the stored run by more texts. Its last shard is removed unless it is full, since it gets more texts.

        Raises:
            ForeignFolderError: if this run does not only add texts after the same first ones.
        """
        now = self._fingerprint
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        grows = set(changed) <= GROWS
        n_before = before.get("data.sequences")
        kept = whole_shards_of(n_before, str(before.get("data"))) if grows and isinstance(n_before, int) else None
        if kept is None:
            differences = [f"{name} was {_short(before.get(name))}, is {_short(now.get(name))}" for name in changed]
            random = grows and before.get("config.sample") == "random"
            raise ForeignFolderError(
                f"{self.folder} has a run of other settings: {'; '.join(differences)}. Use "
                "another folder, or the settings of that run to continue it."
                + (
                    " Random samples of different sizes share no shards, so such a run cannot be extended."
                    if random
                    else ""
                )
            )
        # No process can write the shard between its removal and the new fingerprint, since this one holds its lock. A process
        # of the smaller run that gets the lock later finds the new fingerprint.
        with self.lock(f"shard-{kept:06d}"):
            for path in self._files(kept):
                path.unlink()
            self._write_fingerprint()

    def _stored_fingerprint(self) -> dict[str, Any]:
        path = self.folder / "run.json"
        try:
            held = read_json(path)
        except MapFileError as error:
            raise ForeignFolderError(f"{error} Use another folder.") from error
        found = held.get("fingerprint") if isinstance(held, dict) else None
        if not isinstance(found, dict):
            raise ForeignFolderError(f"{path} has no fingerprint of a run. Use another folder.")
        return found

    def _write_fingerprint(self) -> None:
        data = json.dumps({"fingerprint": self._fingerprint}, indent=1)
        write_atomically(self.folder / "run.json", data.encode())


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:12]}…{text[-4:]}"
