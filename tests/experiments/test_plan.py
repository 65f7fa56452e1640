"""The corpus as shards: the same choice at every reading, nothing left out, nothing twice."""

from pathlib import Path
from typing import Any

import pytest


def plan_of(path: Path, **fields: Any) -> Any:
    from tl_ffblock.corpus.running.shards import make_plan
    from tl_ffblock.experiments import Config

    return make_plan(Config("norms", "m", str(path), "out", **fields))


def everything(plan: Any) -> list[str]:
    return [text for shard in numbers(plan) for text in shard]


def numbers(plan: Any, wanted: set[int] | None = None) -> list[list[str]]:
    wanted = set(range(plan.n_shards)) if wanted is None else wanted
    return [[sequence.text for sequence in shard] for _, shard in plan.shards(wanted)]


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("\n".join(f"line {i}" for i in range(10)))
    return path


def test_shards_hold_every_sequence_once(lines: Path) -> None:
    """Cut in order; the last shard is the rest."""
    plan = plan_of(lines, shard_size=4)
    assert [len(shard) for shard in numbers(plan)] == [4, 4, 2]
    assert everything(plan) == [f"line {i}" for i in range(10)]
    assert numbers(plan, {1}) == [[f"line {i}" for i in range(4, 8)]]


def test_samples_follow_the_seed(lines: Path) -> None:
    """The first ones, or random ones in the corpus's order: the same for the same seed, others for another."""
    assert everything(plan_of(lines, limit=3)) == ["line 0", "line 1", "line 2"]
    drawn = [tuple(plan_of(lines, limit=5, sample="random", seed=seed).chosen) for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert list(drawn[0]) == sorted(drawn[0]) and len(drawn[0]) == 5


def test_digest_is_of_what_is_read(lines: Path) -> None:
    """A change of a chosen line changes the digest, a change behind the limit does not."""
    before = [plan_of(lines, limit=limit).digest for limit in (None, 3)]
    lines.write_text(lines.read_text().replace("line 9", "line X"))
    after = [plan_of(lines, limit=limit).digest for limit in (None, 3)]
    assert before[0] != after[0] and before[1] == after[1]


def test_long_texts_are_split_into_pieces(tmp_path: Path) -> None:
    """No word is lost; pieces below `min_words` are."""
    path = tmp_path / "long.txt"
    path.write_text(" ".join(map(str, range(25))))
    pieces = everything(plan_of(path, long="split", max_tokens=10, min_words=2))
    assert " ".join(pieces).split() == [str(i) for i in range(25)]
    assert all(len(piece.split()) <= 7 for piece in pieces)


def test_no_text_at_all_is_refused(tmp_path: Path) -> None:
    """A run of nothing is an error."""
    from tl_ffblock.errors import InputError

    path = tmp_path / "empty.txt"
    path.write_text("\n\n")
    with pytest.raises(InputError, match="holds no text"):
        plan_of(path)
