"""Whole runs: their tables, what interrupts them, and what they say."""

import dataclasses
import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[2]
FOUR = "contextualization,amplification,norms,outliers"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
Tables = Callable[[Path], dict[str, bytes]]


def finish(config: Any, model: Any) -> Any:
    from tl_ffblock.experiments import run

    return run(config, model=model)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_one_pass_gives_tables_figures_and_a_report(
    family: str, config_of: Callable[..., Any], loaded: Callable[[str], Any]
) -> None:
    """Every experiment that needs no clock, in both orders of norms: Parquet equals CSV, figures as PNG and SVG."""
    outcome = finish(config_of(FOUR, family=family, examples=1, limit=6), loaded(family))
    assert (outcome.status, outcome.left_out) == (0, 0)
    files = {path.relative_to(outcome.folder).as_posix() for path in outcome.folder.rglob("*") if path.is_file()}
    for name, table in outcome.tables.items():
        assert {f"tables/{name}.csv", f"tables/{name}.parquet"} <= files
        stored = pd.read_parquet(outcome.folder / "tables" / f"{name}.parquet")
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)
        assert len(pd.read_csv(outcome.folder / "tables" / f"{name}.csv")) == len(table)
    assert {"figures/contextualization_" + ("changes_reachable" if family == "llama" else "changes") + ".svg"} <= files
    assert {"report.html", "maps/example-1.html", "summary.json", "run.json"} <= files
    assert outcome.finished.summary["sequences"] == 6


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_corpus_without_pairs_has_empty_tables(
    family: str, config_of: Callable[..., Any], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """Texts of one word, masked or not: nothing to rank and no pair to name, which is said by NaN and empty tables."""
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    config = config_of(FOUR, family=family, data=str(tmp_path / "words.txt"), limit=None, mask_fraction=0.99)
    outcome = finish(config, loaded(family))
    assert (outcome.status, outcome.left_out) == (0, 0)
    assert outcome.tables["amplification_pmi"]["pairs"].eq(0).all()
    assert outcome.tables["amplification_pmi"]["spearman"].isna().all()
    assert set(outcome.tables["amplification_top_pairs"].columns) >= {"layer", "query", "key", "count"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_timed_experiments_run_too(config_of: Callable[..., Any], loaded: Callable[[str], Any]) -> None:
    """Closed form and captum agree, exact Shapley values are close, kernel estimates near the exact ones."""
    pytest.importorskip("shap", reason="shap is not installed")
    config = config_of(
        "attribution-methods,cost", family="llama", limit=1, short_tokens=4, lengths=(4, 8, 512), captum_length=4
    )
    outcome = finish(config, loaded("llama"))
    agreement = outcome.tables["attribution-methods_agreement"].query("reference == 'ig'").set_index("method")
    assert agreement.loc["captum", "largest_difference"].max() < 1e-5
    assert agreement["completeness"].max() < 1e-4
    assert agreement.loc["shapley", "map_rho"].min() > 0.8
    time = outcome.tables["cost_time"].set_index("tokens")
    assert (time.loc[[4, 8], "maps"] > 0).all() and pd.isna(time.loc[512, "maps"])


def test_batches_give_the_numbers_of_single_sequences(
    config_of: Callable[..., Any], loaded: Callable[[str], Any]
) -> None:
    """Padding changes nothing but the last digits."""
    for family in ("bert", "llama"):
        config = config_of(FOUR, family=family, out=f"{family}1", limit=7)
        one, five = (
            finish(dataclasses.replace(config, out=f"{config.out}x{size}", batch_size=size), loaded(family)).tables
            for size in (1, 5)
        )
        for name in ("contextualization_changes", "norms_norms", "outliers_correlation", "amplification_pmi"):
            pd.testing.assert_frame_equal(one[name], five[name], rtol=1e-3, atol=1e-3)


def test_a_finished_run_is_not_computed_again(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tables_of: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second call only reads shards; lost tables come back byte for byte."""
    from tl_ffblock.corpus.running.worker import Worker

    config = config_of("norms", limit=6)
    first = finish(config, loaded("bert"))
    before = tables_of(first.folder)
    for path in (first.folder / "tables").iterdir():
        path.unlink()
    monkeypatch.setattr(Worker, "compute", lambda *_: pytest.fail("computed again"))
    assert tables_of(finish(config, loaded("bert")).folder) == before


def test_a_damaged_shard_is_done_again(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tables_of: Tables
) -> None:
    """Found by its checksum, told, and the tables are as before."""
    config = config_of("contextualization", limit=10)
    first = finish(config, loaded("bert"))
    before = tables_of(first.folder)
    shard = sorted((first.folder / "shards").iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 255
    shard.write_bytes(data)
    second = finish(config, loaded("bert"))
    assert second.damaged_shards == (shard.name,)
    assert (second.status, tables_of(second.folder)) == (0, before)


def test_another_model_or_corpus_is_refused(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """A folder continues its own run only; the message says which of weights, data and settings differ."""
    from tl_ffblock.corpus.running.store import ForeignFolderError

    config = config_of("norms", limit=2)
    finish(config, loaded("bert"))
    with pytest.raises(ForeignFolderError, match=r"model\.weights was '.*', is '"):
        finish(config, loaded("llama"))
    with pytest.raises(ForeignFolderError, match=r"config\.seed was 0, is 1"):
        finish(dataclasses.replace(config, seed=1), loaded("bert"))
    (tmp_path / "other.txt").write_text("the cat\nthe dog\n")
    with pytest.raises(ForeignFolderError, match="data was"):
        finish(dataclasses.replace(config, data=str(tmp_path / "other.txt")), loaded("bert"))


def test_lines_and_sequences_that_fail_are_left_out(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """Named with their line, counted, and the rest is as if they were not there; the status is 3."""
    good = ["the cat sat on the mat .", "a dog and the bird", "He said he would not ."]
    path = tmp_path / "bad.txt"
    path.write_bytes(b"\n".join([good[0].encode(), b"\xff\xfe", good[1].encode(), b"[SEP] [CLS]", good[2].encode()]))
    outcome = finish(config_of("norms", data=str(path), mask_fraction=0.0, batch_size=4), loaded("bert"))
    problems = outcome.tables["problems"]
    assert (outcome.status, outcome.left_out) == (3, 2)
    assert problems["where"].tolist() == ["bad.txt:2", "bad.txt:4"]
    (tmp_path / "good.txt").write_text("\n".join(good))
    clean = finish(config_of("norms", out="clean", data=str(tmp_path / "good.txt"), mask_fraction=0.0), loaded("bert"))
    pd.testing.assert_frame_equal(outcome.tables["norms_norms"], clean.tables["norms_norms"], rtol=1e-5)


def test_a_sequence_that_fails_in_a_batch_is_found(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its neighbours in the batch still count."""
    from tl_ffblock.errors import CompletenessError
    from tl_ffblock.experiments.kobayashi.bypass import BypassNorms

    measure = BypassNorms.measure

    def failing(self: Any, seen: Any) -> Any:
        if seen.encoded.sequence.number == 2:
            raise CompletenessError("parts do not sum")
        return measure(self, seen)

    monkeypatch.setattr(BypassNorms, "measure", failing)
    outcome = finish(config_of("norms", limit=5, batch_size=4), loaded("bert"))
    assert outcome.finished.summary["sequences"] == 4
    assert outcome.tables["problems"]["why"].tolist() == ["CompletenessError: parts do not sum"]


def test_mistakes_of_the_program_are_not_blamed_on_sequences(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A NameError ends the run; no shard records it."""
    from tl_ffblock.experiments.kobayashi.bypass import BypassNorms

    monkeypatch.setattr(BypassNorms, "measure", lambda *_: undefined)  # type: ignore[name-defined] # noqa: F821
    config = config_of("norms", limit=2)
    with pytest.raises(NameError):
        finish(config, loaded("bert"))
    assert not any(config.folder.glob("shards/*"))


def test_a_full_disk_leaves_shards_for_later(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tables_of: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shards that could not be written are told, the others are kept, no tables are made; a further run completes them."""
    from tl_ffblock.corpus.running.store import Store

    write = Store.write

    def full(self: Any, shard: int, *rest: Any) -> None:
        if shard == 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(self, shard, *rest)

    config = config_of("norms", limit=10)
    monkeypatch.setattr(Store, "write", full)
    outcome = finish(config, loaded("bert"))
    assert outcome.status == 1 and outcome.finished is None
    assert list(outcome.failed_shards) == [1] and "No space left" in outcome.failed_shards[1]
    assert not (config.folder / "tables").exists()
    monkeypatch.undo()
    again = finish(config, loaded("bert"))
    whole = finish(dataclasses.replace(config, out=config.out + "2"), loaded("bert"))
    assert again.status == 0 and tables_of(again.folder) == tables_of(whole.folder)


def test_a_disk_that_fills_up_at_the_tables_loses_nothing(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tables_of: Tables, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error reaches the caller; a further run reads the shards and writes the tables."""
    from tl_ffblock.corpus.outputs import outputs as module
    from tl_ffblock.corpus.running.worker import Worker

    def full(path: Path, data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    config = config_of("norms", limit=6)
    monkeypatch.setattr(module, "write_atomically", full)
    with pytest.raises(OSError, match=r"No space left on device: tables .* is kept, run the same command again"):
        finish(config, loaded("bert"))
    monkeypatch.undo()
    whole = finish(dataclasses.replace(config, out=config.out + "2"), loaded("bert"))
    monkeypatch.setattr(Worker, "compute", lambda *_: pytest.fail("computed again"))
    assert tables_of(finish(config, loaded("bert")).folder) == tables_of(whole.folder)


def test_a_run_of_failures_only_is_no_success(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """Without one sequence measured the status is 1, and the report says why."""
    (tmp_path / "bad.txt").write_text("[SEP]\n[CLS]\n")
    outcome = finish(config_of("norms", data=str(tmp_path / "bad.txt")), loaded("bert"))
    assert outcome.status == 1
    assert "no token of text" in outcome.finished.report.read_text()


@pytest.mark.parametrize("kills", [3, pytest.param(20, marks=pytest.mark.slow)])
def test_killed_runs_end_as_uninterrupted_ones(
    kills: int, config_of: Callable[..., Any], loaded: Callable[[str], Any], tables_of: Tables, tmp_path: Path
) -> None:
    """SIGKILL at random moments, then a last start: the tables are those of an uninterrupted run, byte for byte."""
    config = config_of("contextualization,amplification,norms", shard_size=1)
    (tmp_path / "config.json").write_text(json.dumps(dataclasses.asdict(config)))
    program = str(Path(__file__).with_name("killed.py"))
    command = [sys.executable, "-W", "ignore", program, str(kills), "0", str(tmp_path / "config.json")]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    left = json.loads(done.stdout)
    assert len(left) >= kills // 2, "most of the processes were killed and did not finish before"
    assert any(0 < shards < 30 for shards in left), "some were killed in the midst of the work"
    whole = finish(dataclasses.replace(config, out=config.out + "-whole"), loaded("bert"))
    assert tables_of(config.folder) == tables_of(whole.folder)


@pytest.mark.slow
def test_processes_share_a_folder(
    config_of: Callable[..., Any], loaded: Callable[[str], Any], tables_of: Tables, model_folder: Callable[[str], str]
) -> None:
    """Two processes at once: both succeed, every shard is there once, tables are those of one process."""
    config = config_of("contextualization", shard_size=1)
    command = [sys.executable, "-W", "ignore", "-m", "tl_ffblock", "run", "contextualization", "--model", config.model]
    command += ["--data", config.data, "--out", config.out, "--shard-size", "1", "--examples", "0"]
    both = [
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    answers = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], answers
    assert all("%" not in err and "of 30 sequences" in err for _, err in answers), "lines, not a bar"
    assert all("report" in out for out, _ in answers)
    assert len(list((config.folder / "shards").glob("shard-*"))) == 30
    whole = finish(dataclasses.replace(config, out=config.out + "-whole"), loaded("bert"))
    assert tables_of(config.folder) == tables_of(whole.folder)


@pytest.mark.slow
def test_a_terminal_sees_a_bar(config_of: Callable[..., Any], everything_from: Callable[[int], bytes]) -> None:
    """On a terminal a person reads what is done of how much."""
    import fcntl
    import pty
    import struct
    import termios

    config = config_of("norms")
    command = [
        sys.executable,
        "-W",
        "ignore",
        "-m",
        "tl_ffblock",
        "run",
        "norms",
        "--model",
        config.model,
        "--data",
        config.data,
    ]
    command += ["--out", config.out, "--examples", "0"]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(command, env=ENVIRONMENT, stderr=slave, stdout=subprocess.PIPE)
    os.close(slave)
    shown = everything_from(master)
    process.communicate()
    assert process.returncode == 0
    assert b"norms" in shown and b"30/30" in shown and b"sequence" in shown


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(model_folder: Callable[[str], str], tmp_path: Path) -> None:
    """A thousand sequences need no more memory than a hundred, up to 40 MB of noise."""
    import random

    draw, words = random.Random(0), ["the", "cat", "sat", "on", "mat", ".", "a", "dog", "and", "bird", "saw", "her"]
    fields = dict(experiment="amplification,norms,outliers", model=model_folder("bert"), examples=0, batch_size=8)
    program = (
        "import json, resource, sys\nfrom tl_ffblock.experiments import Config, run\n"
        "run(Config(**json.loads(sys.argv[1])))\nprint(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    peaks = []
    for size in (100, 1000):
        path = tmp_path / f"{size}.txt"
        path.write_text("\n".join(" ".join(draw.choice(words) for _ in range(6)) for _ in range(size)))
        config = {**fields, "data": str(path), "out": str(tmp_path / f"out{size}"), "ignored_dimensions": 0}
        command = [sys.executable, "-W", "ignore", "-c", program, json.dumps(config)]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
        peaks.append(int(done.stdout) / 1024)
    assert peaks[1] < peaks[0] + 40, peaks
