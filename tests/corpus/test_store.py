"""A run's folder: whole shards or none, damage found, strangers refused."""

import errno
import fcntl
import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save

from tl_ffblock.corpus.store import DIGITS, ForeignFolderError, Store
from tl_ffblock.errors import InputError
from tl_ffblock.files import UNFINISHED


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "run", {"config.seed": 0, "data": "abc"})


def test_a_shard_is_read_as_written(store: Store) -> None:
    """Arrays, slices and metadata; what a killed process left does not count and is removed."""
    (store.shards / f"{UNFINISHED}0").write_bytes(b"half")
    assert store.verify() == set()
    with store.claim(3) as mine:
        assert mine
        store.write(3, {"x/a": np.arange(6).reshape(3, 2), "x/b": np.array(2.5)}, {"sequences": 1})
    (shard,) = store.read([3])
    np.testing.assert_array_equal(shard["x/a"], [[0, 1], [2, 3], [4, 5]])
    np.testing.assert_array_equal(shard.rows("x/a", 1, 3), [[2, 3], [4, 5]])
    assert shard["x/b"] == 2.5 and shard.meta == {"sequences": 1} and "x/c" not in shard
    assert store.done() == {3}
    assert [path.name[:12] for path in store.shards.iterdir()] == ["shard-000003"]


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-1], lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: b""]
)
def test_a_damaged_shard_is_found(store: Store, damage: Callable[[bytes], bytes]) -> None:
    """Shorter, one bit off, or empty: removed, named, to be done again; the others stay."""
    for number in (0, 1):
        store.write(number, {"a": np.arange(4)}, {})
    path = next(store.shards.glob("shard-000001.*"))
    path.write_bytes(damage(path.read_bytes()))
    assert store.verify() == {0}
    assert store.damaged == [path.name]


@pytest.mark.parametrize("fault", ["noise", "empty", "nested", "folder", "pipe", "circle"])
def test_what_stands_in_the_place_of_a_shard_is_refused(store: Store, fault: str) -> None:
    """Under a name that fits its bytes, or as no file at all: by its path; nothing is waited for or removed."""
    content = {"noise": b"x" * 99, "nested": save({}, {"mark": "", "meta": "[" * 100_000})}.get(fault, b"")
    path = store.shards / f"shard-000001.{hashlib.sha256(content).hexdigest()[:DIGITS]}.safetensors"
    places: dict[str, Callable[[], object]] = {
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "circle": lambda: path.symlink_to(path),
    }
    places.get(fault, lambda: path.write_bytes(content))()
    with pytest.raises(ForeignFolderError, match=rf"{path.name} is not shard 1 of this run"):
        store.verify()
    assert os.path.lexists(path)


def test_a_run_has_more_shards_than_a_process_has_files(store: Store) -> None:
    """A process maps some 65,000 files: none stays open between reads. Numbers may have more digits than six."""
    for number in (7, 1_234_567):
        store.write(number, {"a": np.arange(4) + number}, {})
    shards = store.read([7, 1_234_567])
    assert shards[1]["a"][0] == 1_234_567 and "a" in shards[0]
    assert str(store.shards) not in Path("/proc/self/maps").read_text()
    assert store.verify() == {7, 1_234_567}


def test_a_file_system_without_locks_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is computed."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(InputError, match=r"files in .*locks cannot be locked \(No locks available\).*Use another out"):
        Store(tmp_path / "run", {})


def test_one_process_a_shard(store: Store, tmp_path: Path) -> None:
    """A claim excludes others while it is held, and everyone once the shard is done. A thread holds locks of its own, as a process does."""
    other = Store(tmp_path / "run", {"config.seed": 0, "data": "abc"})

    def claimed(shard: int) -> bool:
        with other.claim(shard) as mine:
            return mine

    with ThreadPoolExecutor(1) as elsewhere:
        with store.claim(0) as mine:
            assert [mine, *elsewhere.map(claimed, (0, 1))] == [True, False, True]
            store.write(0, {"a": np.arange(4)}, {})
        assert not elsewhere.submit(claimed, 0).result()


def test_a_lock_that_could_not_be_given_back_stops_no_second_start(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run fails with the system's error; the next one in the same process takes the lock again, and another process may after it."""
    flock = fcntl.flock

    def fails(file: int, operation: int) -> None:
        if operation == fcntl.LOCK_UN:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        flock(file, operation)

    with monkeypatch.context() as disk:
        disk.setattr(fcntl, "flock", fails)
        with pytest.raises(OSError, match="Input/output error") as failed, store.claim(0):
            store.write(0, {"a": np.arange(4)}, {})
    again = Store(tmp_path / "run", {"config.seed": 0, "data": "abc"})
    assert again.verify() == {0} and failed.value.errno == errno.EIO  # the error's frames hold the lock


def test_folders_that_hold_something_else_are_refused(store: Store, tmp_path: Path) -> None:
    """Another run, with every difference, old and new; a file, a folder with a broken run.json, shards without one."""
    with pytest.raises(ForeignFolderError, match=r"config\.seed was 0, is 1; data was 'abc', is 'xyz'"):
        Store(tmp_path / "run", {"config.seed": 1, "data": "xyz"})
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be created"):
        Store(tmp_path / "file", {})
    for name, file in (("broken", "run.json"), ("strange", "shards/shard-000000.0.safetensors")):
        (tmp_path / name / "shards").mkdir(parents=True)
        (tmp_path / name / file).write_text("x")
        with pytest.raises(ForeignFolderError):
            Store(tmp_path / name, {})


def test_a_process_of_the_smaller_run_stops_when_the_run_is_extended(tmp_path: Path) -> None:
    """It finds the new fingerprint with its next claim, and writes no shard of too few texts."""
    smaller = Store(tmp_path / "run", {"config.limit": 6, "data": "abc", "data.sequences": 6})
    with smaller.claim(1):
        smaller.write(1, {"a": np.arange(2)}, {})
    larger = Store(
        tmp_path / "run", {"config.limit": 9, "data": "abcd", "data.sequences": 9}, lambda n_texts, digest: n_texts // 4
    )
    assert larger.done() == set()
    with pytest.raises(ForeignFolderError, match="was extended by another process"), smaller.claim(1):
        pass
    with larger.claim(1) as mine:
        assert mine
