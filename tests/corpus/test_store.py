"""A run's folder: whole shards or none, damage found, strangers refused."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tl_ffblock.corpus.store import ForeignFolderError, Store
from tl_ffblock.errors import InputError


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "run", {"config.seed": 0, "data": "abc"})


def test_a_shard_is_read_as_written(store: Store) -> None:
    """Arrays, slices and metadata; what a killed process left under the temporary name does not count and is written over."""
    (store.shards / ".shard-000003.part").write_bytes(b"half")
    assert store.verify() == set()
    with store.claim(3) as mine:
        assert mine
        store.write(3, {"x/a": np.arange(6).reshape(3, 2), "x/b": np.array(2.5)}, {"sequences": 1})
    shard = store.read(3)
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


def test_one_process_a_shard(store: Store, tmp_path: Path) -> None:
    """A claim excludes others while it is held, and everyone once the shard is done."""
    other = Store(tmp_path / "run", {"config.seed": 0, "data": "abc"})
    with store.claim(0) as mine, other.claim(0) as theirs, other.claim(1) as next_one:
        assert (mine, theirs, next_one) == (True, False, True)
        store.write(0, {"a": np.arange(4)}, {})
    with other.claim(0) as theirs:
        assert not theirs


def test_folders_that_hold_something_else_are_refused(store: Store, tmp_path: Path) -> None:
    """Another run, with every difference, old and new; a file, a folder with a broken run.json, shards without one."""
    with pytest.raises(ForeignFolderError, match=r"config\.seed was 0, is 1; data was 'abc', is 'xyz'"):
        Store(tmp_path / "run", {"config.seed": 1, "data": "xyz"})
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match="cannot be made"):
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
