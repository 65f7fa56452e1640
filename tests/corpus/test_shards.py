"""The corpus as shards: the same choice at every reading, nothing left out, nothing twice."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.corpus.shards import Shards, cut_into_shards
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config


def shards_of(path: Path, **fields: Any) -> Shards:
    return cut_into_shards(Config("m", str(path), "out", **fields))


def everything(shards: Shards) -> list[str]:
    return [text for shard in texts(shards) for text in shard]


def texts(shards: Shards, wanted: set[int] | None = None) -> list[list[str]]:
    wanted = set(shards.numbers) if wanted is None else wanted
    return [[text.text for text in shard] for _, shard in shards.texts(wanted)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(f"line {i}" for i in range(10)))
    return path


def test_shards_hold_every_sequence_once(lines: Path) -> None:
    """Cut in order; the last shard is the rest."""
    shards = shards_of(lines, shard_size=4)
    assert [len(shard) for shard in texts(shards)] == [4, 4, 2] == [shards.size(shard) for shard in shards.numbers]
    assert everything(shards) == [f"line {i}" for i in range(10)]
    assert texts(shards, {1}) == [[f"line {i}" for i in range(4, 8)]]


def test_samples_follow_the_seed(lines: Path) -> None:
    """The first ones, or random ones in the corpus's order: the same for the same seed, others for another."""
    assert everything(shards_of(lines, limit=3)) == ["line 0", "line 1", "line 2"]
    drawn = [tuple(shards_of(lines, limit=5, sample="random", seed=seed).chosen) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert list(drawn[0]) == sorted(drawn[0]) and len(drawn[0]) == 5


def test_digest_is_of_what_is_read(lines: Path) -> None:
    """A change of a chosen line changes the digest, a change behind the limit does not."""
    before = [shards_of(lines, limit=limit).digest for limit in (None, 3)]
    lines.write_text(lines.read_text().replace("line 9", "line X"))
    after = [shards_of(lines, limit=limit).digest for limit in (None, 3)]
    assert before[0] != after[0] and before[1] == after[1]


def test_long_texts_are_split_into_pieces(tmp_path: Path) -> None:
    """No word is lost; pieces below `min_words` are."""
    path = tmp_path / "long.txt"
    path.write_text(" ".join(map(str, range(25))))
    pieces = everything(shards_of(path, long="split", max_tokens=10, min_words=2))
    assert " ".join(pieces).split() == [str(i) for i in range(25)]
    assert all(len(piece.split()) <= 7 for piece in pieces)


@pytest.mark.parametrize(
    ("change", "shard"),
    [
        (lambda text: text.replace("line 5", "line X"), 1),
        (lambda text: text.replace("line 5\n", ""), 1),
        (lambda text: "line Y\n" + text, 0),
        (lambda text: text.replace("\nline 9", ""), 2),
        (lambda _: "line 0", 0),
    ],
)
def test_a_corpus_that_changes_after_its_digest_is_refused_at_its_first_shard(
    change: Callable[[str], str], shard: int, lines: Path
) -> None:
    """Shards before it are those that were digested; what is not there any more is not waited for."""
    shards = shards_of(lines, shard_size=4)
    before = texts(shards)
    lines.write_text(change(lines.read_text()))
    reading = shards.texts(set(shards.numbers))
    assert [[text.text for text in next(reading)[1]] for _ in range(shard)] == before[:shard]
    with pytest.raises(InputError, match=rf"lines\.txt.* changed while.*shard {shard} ") as refused:
        next(reading)
    assert "Restore the data" in str(refused.value)
    assert texts(shards, set(range(shard))) == before[:shard]
    with pytest.raises(InputError, match="changed while"):
        texts(shards, {shard})
