"""Whole runs: their tables, what interrupts them, and what they say."""

import dataclasses
import errno
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from tests.corpora import ENVIRONMENT, OF_TREEBANK, assert_kills_change_nothing, stored_tables
from tests.own_studies import Lengths, lengths
from tests.tolerances import BATCH_FLOAT32
from tl_ffblock.corpus import runs, worker
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.store import ForeignFolderError, Store
from tl_ffblock.corpus.study import StudySpec
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config, study

FOUR = "contextualization,amplification,bypass,outliers"
LENGTHS = (lengths(),)
Run = Callable[..., CorpusRun]
Configs = Callable[..., Config]


@pytest.fixture
def measured() -> list[int]:
    """Numbers of the sequences that `lengths` measures from here on."""
    Lengths.measured.clear()
    return Lengths.measured


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_one_pass_gives_tables_figures_and_a_report(family: str, run: Run) -> None:
    """Every study that needs no clock, in both orders of norms: Parquet equals CSV, figures as PNG and SVG."""
    finished = run(FOUR, family=family, examples=1, limit=6)
    assert (finished.status, finished.left_out) == (0, 0)
    files = {path.relative_to(finished.folder).as_posix() for path in finished.folder.rglob("*") if path.is_file()}
    for name, table in finished.tables.items():
        path = finished.folder / "tables" / name
        pd.testing.assert_frame_equal(pd.read_parquet(f"{path}.parquet"), table, check_dtype=False)
        assert len(pd.read_csv(f"{path}.csv")) == len(table)
    assert {"figures/contextualization_" + ("changes_reachable" if family == "llama" else "changes") + ".svg"} <= files
    assert {"report.html", "maps/example-1.html", "summary.json", "run.json"} <= files
    assert finished.outputs.summary["sequences"] == 6


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_corpus_without_pairs_has_empty_tables(family: str, run: Run, tmp_path: Path) -> None:
    """Texts of one word, masked or not: nothing to rank and no pair to name, which is said by NaN and empty tables."""
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    finished = run(FOUR, family=family, data=str(tmp_path / "words.txt"), mask_fraction=0.99)
    assert (finished.status, finished.left_out) == (0, 0)
    assert finished.tables["amplification_pmi"]["pairs"].eq(0).all()
    assert finished.tables["amplification_pmi"]["spearman"].isna().all()
    assert set(finished.tables["amplification_top_pairs"].columns) >= {"layer", "query", "key", "count"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_timed_experiments_run_too(run: Run) -> None:
    """Closed form and captum agree; kernel estimates that see all coalitions are the exact Shapley values."""
    pytest.importorskip("shap", reason="shap is not installed")
    specs = [study("attribution-methods", short_tokens=4), study("cost", lengths=(4, 8, 512), captum_length=4)]
    finished = run(specs, family="llama", limit=1)
    table = finished.tables["attribution-methods_agreement"].set_index("method")
    to_ig, to_shapley = (table[table["reference"] == reference] for reference in ("ig", "shapley"))
    assert to_ig.loc["captum", "largest_difference"].max() < 1e-5
    assert to_ig["completeness"].max() < 1e-4
    assert to_shapley.loc["kernel", "largest_difference"].max() < 1e-5
    assert to_shapley.loc["kernel", "map_rho"].min() == pytest.approx(1)
    time = finished.tables["cost_time"].set_index("tokens")
    assert (time.loc[[4, 8], "maps"] > 0).all() and pd.isna(time.loc[512, "maps"])


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_batches_give_the_numbers_of_single_sequences(family: str, run: Run) -> None:
    """Padding, and texts of nearly equal length in batches by default, change nothing but the last digits."""
    specs = ["contextualization", "bypass", "amplification", study("outliers", ignored_dimensions=0)]
    single, *others = (
        run(specs, family=family, out=str(size), limit=8, shard_size=8, batch_size=size).tables for size in (1, 3, None)
    )
    for batched in others:
        for name in ("contextualization_changes", "bypass_norms", "outliers_correlation", "amplification_pmi"):
            pd.testing.assert_frame_equal(single[name], batched[name], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("family", ["bert", "llama", "mixtral"])
def test_default_batches_follow_from_model_texts_and_config(
    family: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts of a shard that are nearly as long share one, as many as fit; with no memory, and of experts, each runs alone.

    Processes that share a run, and one that continues it, make the same, since max_memory is in its fingerprint.
    """
    seen: list[int] = []
    observe = worker.observe
    monkeypatch.setattr(
        worker, "observe", lambda m, texts, *others: seen.append(len(texts)) or observe(m, texts, *others)
    )
    batches = {}
    for out, fields in {"default": {}, "again": {}, "none": {"max_memory": 1.0}}.items():
        seen.clear()
        run([lengths()], family=family, out=out, limit=16, shard_size=8, **fields)
        batches[out] = list(seen)
    assert batches["none"] == [1] * 16 and batches["default"] == batches["again"]
    assert (max(batches["default"]) > 2) == (family != "mixtral") and sum(batches["default"]) == 16
    with pytest.raises(ForeignFolderError, match=r"config\.max_memory was '2GB', is '1GB'"):
        run([lengths()], family=family, out="default", limit=16, shard_size=8, max_memory="1GB")


def test_a_finished_run_is_not_computed_again(run: Run, measured: list[int]) -> None:
    """The second call only reads shards; lost tables come back byte for byte; a damaged shard alone is done again, and told."""
    first = run(LENGTHS, limit=10)
    assert sorted(measured) == list(range(10))
    before = stored_tables(first.folder)
    for path in (first.folder / "tables").iterdir():
        path.unlink()
    assert stored_tables(run(LENGTHS, limit=10).folder) == before
    assert len(measured) == 10
    shard = sorted((first.folder / "shards").iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 255
    shard.write_bytes(data)
    second = run(LENGTHS, limit=10)
    assert second.damaged_shards == (shard.name,) and sorted(measured[10:]) == [4, 5, 6, 7]
    assert (second.status, stored_tables(second.folder)) == (0, before)


OTHER_RUNS = [
    ({"limit": 8, "family": "llama"}, {}, r"model\.weights was '.*', is '"),
    ({"limit": 8, "seed": 1}, {}, r"config\.seed was 0, is 1"),
    ({"limit": 8}, {"add": 1}, r"study\.lengths\.add was 0, is 1"),
    ({"limit": 8, "data": "other.txt"}, {}, "data was"),
    ({"limit": 5}, {}, r"config\.limit was 8, is 5"),
    ({"limit": 9, "seed": 1}, {}, r"config\.seed was 0, is 1"),
    ({"limit": 9, "sample": "random"}, {}, r"config\.sample was 'first', is 'random'"),
]
"""Another model, setting, option or corpus; a smaller limit, or another setting beside a larger one."""


def test_another_run_is_refused(run: Run, config_of: Configs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder continues its own run only, and stays as it was; the message says what differs."""
    monkeypatch.chdir(tmp_path)
    Path("other.txt").write_text("the cat\nthe dog\n")
    run(LENGTHS, limit=8)
    before = sorted(config_of().folder.rglob("*"))
    for fields, options, says in OTHER_RUNS:
        with pytest.raises(ForeignFolderError, match=says):
            run([lengths(**options)], **fields)
        assert sorted(config_of().folder.rglob("*")) == before
    run(LENGTHS, out="random", limit=8, sample="random")
    with pytest.raises(ForeignFolderError, match="Random samples of different sizes share no shards"):
        run(LENGTHS, out="random", limit=12, sample="random")


@torch.no_grad()
def test_the_head_counts_for_studies_that_read_it(run: Run, loaded: Callable[[str], Any]) -> None:
    """With another unembedding a run is continued, unless a study's numbers depend on it."""
    readers, fields = [StudySpec("tests.own_studies:LengthsOfReader", lengths().options)], dict(family="llama", limit=2)
    run(LENGTHS, out="maps", **fields)
    run(readers, out="head", **fields)
    weight = loaded("llama").state_dict()["unembed.weight"]
    before = weight.clone()  # added and taken away again, one would change the last digits of later tests
    weight += 1
    try:
        assert run(LENGTHS, out="maps", **fields).status == 0
        with pytest.raises(ForeignFolderError, match=r"model\.weights was '.*', is '"):
            run(readers, out="head", **fields)
    finally:
        weight.copy_(before)


@pytest.mark.parametrize(("before", "after"), [(8, 16), (10, 15), (30, None)])
def test_a_larger_limit_extends_a_run(before: int, after: int | None, run: Run, measured: list[int]) -> None:
    """Full shards are kept, the last one is done again if it grew; the tables are those of the larger run, byte for byte."""
    specs = [lengths(), study("bypass")]
    run(specs, limit=before)
    measured.clear()
    extended = run(specs, limit=after)
    assert sorted(measured) == list(range(before - before % 4 if before < 30 else 30, after or 30))
    whole = run(specs, limit=after, out="whole")
    assert extended.status == 0 and stored_tables(extended.folder) == stored_tables(whole.folder)


def test_texts_added_to_the_corpus_extend_a_run(run: Run, corpus: Path, tmp_path: Path) -> None:
    """Without a limit a corpus that grew at its end is the same run; one that changed in the middle is not."""
    lines = corpus.read_text().splitlines()
    grown = tmp_path / "grown.txt"
    grown.write_text("\n".join(lines[:9]))
    run(LENGTHS, data=str(grown))
    grown.write_text("\n".join(lines))
    assert run(LENGTHS, data=str(grown)).outputs.summary["sequences"] == 30
    grown.write_text("\n".join([*lines[:4], "the mat", *lines]))
    with pytest.raises(ForeignFolderError, match="data was"):
        run(LENGTHS, data=str(grown))


def test_masks_are_told(run: Run, corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The run says how many tokens it masks, and its table what stood at each of them."""
    finished = run(LENGTHS, limit=6)
    assert "12% of the tokens of text are replaced by [MASK]" in capsys.readouterr().err
    masked, words = finished.tables["masked"], corpus.read_text().splitlines()
    assert len(masked) == finished.outputs.summary["masked"] > 0
    for row in masked.itertuples():
        assert row.where == f"corpus.txt:{row.sequence + 1}"
        assert words[row.sequence].split()[row.position - 1] == row.token  # [CLS] comes first
    assert "masked" not in run(LENGTHS, limit=6, out="plain", mask_fraction=0.0).tables


def test_a_corpus_that_changes_during_a_run_is_refused(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of the other text stands under the fingerprint of the first; with that back the run ends as without a change."""
    data, lines = tmp_path / "data.txt", [f"the cat sat on the mat {'. ' * n}" for n in range(1, 7)]
    data.write_text("\n".join(lines))
    fields = dict(data=str(data), shard_size=2)
    shipped = runs.fingerprint

    def changing(*arguments: Any) -> dict[str, Any]:
        mark = shipped(*arguments)
        data.write_text("\n".join([*lines[:3], "a dog and the bird", *lines[4:]]))
        return mark

    monkeypatch.setattr(runs, "fingerprint", changing)
    with pytest.raises(InputError, match=r"data=.*data\.txt.* changed while.*shard 1 "):
        run(LENGTHS, out="changed", **fields)
    monkeypatch.undo()
    data.write_text("\n".join(lines))
    finished, expected = (run(LENGTHS, out=out, **fields) for out in ("changed", "unchanged"))
    assert finished.status == 0
    assert stored_tables(finished.folder) == stored_tables(expected.folder)


def test_threads_of_the_process_stay_as_they_were(run: Run) -> None:
    """A run computes with its own number of threads and gives the process back as many as it had."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run(LENGTHS, limit=2, threads=1)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_lines_and_sequences_that_fail_are_left_out(run: Run, tmp_path: Path) -> None:
    """Named with their line, counted, and the rest is as if they were not there; the status is 3."""
    good = ["the cat sat on the mat .", "a dog and the bird", "He said he would not ."]
    bad = [good[0].encode(), b"\xff\xfe", good[1].encode(), b"[SEP] [CLS]", good[2].encode()]
    (tmp_path / "bad.txt").write_bytes(b"\n".join(bad))
    (tmp_path / "good.txt").write_text("\n".join(good))
    finished = run("bypass", data=str(tmp_path / "bad.txt"), mask_fraction=0.0, batch_size=4)
    assert (finished.status, finished.left_out) == (3, 2)
    assert finished.tables["problems"]["where"].tolist() == ["bad.txt:2", "bad.txt:4"]
    clean = run("bypass", out="clean", data=str(tmp_path / "good.txt"), mask_fraction=0.0)
    pd.testing.assert_frame_equal(finished.tables["bypass_norms"], clean.tables["bypass_norms"], **BATCH_FLOAT32)


@pytest.mark.parametrize("size", [4, None])
def test_a_sequence_that_fails_in_a_batch_is_found(size: int | None, run: Run, measured: list[int]) -> None:
    """Its neighbours in the batch still count."""
    finished = run([lengths(fails_at=2)], limit=5, batch_size=size)
    assert finished.tables["problems"]["why"].tolist() == ["CompletenessError: parts do not sum"]
    assert len(finished.tables["lengths_tokens"]) == 4 and set(measured) == {0, 1, 3, 4}


def test_mistakes_of_the_program_are_not_blamed_on_sequences(run: Run, config_of: Configs) -> None:
    """A NameError ends the run; no shard records it."""
    with pytest.raises(NameError):
        run([lengths(mistaken=True)], limit=2)
    assert not any(config_of().folder.glob("shards/*"))


def test_what_cannot_be_written_is_left_for_later(
    run: Run, config_of: Configs, measured: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a full disk: no shard that can be written is lost, and a further run completes shards and tables.

    A shard is told, the others are kept, no tables are made; with the tables the error reaches the caller.
    """
    whole, folder = run(LENGTHS, limit=10, out="whole"), config_of().folder
    replace = os.replace

    def full(source: str, target: Path) -> None:
        if "shard-000001" in str(target):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, target)

    monkeypatch.setattr(os, "replace", full)
    finished = run(LENGTHS, limit=10)
    assert finished.status == 1 and finished.outputs is None
    assert list(finished.failed_shards) == [1] and "No space left" in finished.failed_shards[1]
    assert not (folder / "tables").exists() and len(list((folder / "shards").iterdir())) == 2
    monkeypatch.setattr(os, "replace", replace)
    (folder / "tables").write_text("in the way")
    measured.clear()
    with pytest.raises(OSError, match=r"File exists: tables .* are kept: run the same command again"):
        run(LENGTHS, limit=10)
    (folder / "tables").unlink()
    again = run(LENGTHS, limit=10)
    assert sorted(measured) == [4, 5, 6, 7]
    assert again.status == 0 and stored_tables(folder) == stored_tables(whole.folder)


def test_a_run_of_failures_only_is_no_success(run: Run, tmp_path: Path) -> None:
    """Without one sequence measured the status is 1, and the report says why."""
    (tmp_path / "bad.txt").write_text("[SEP]\n[CLS]\n")
    finished = run("bypass", data=str(tmp_path / "bad.txt"))
    assert finished.status == 1
    assert "no token of text" in finished.outputs.report.read_text()


@pytest.mark.parametrize("kills", [6, pytest.param(24, marks=pytest.mark.slow)])
def test_killed_runs_end_as_uninterrupted_ones(kills: int, config_of: Configs, loaded: Callable[[str], Any]) -> None:
    """Ended at random moments by each signal and by a full disk, then started a last time: the tables of an uninterrupted run.

    Of each kind of what shards keep: moments, sums over pairs, hits, the best of a stream.
    """
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra heads)")
    config = config_of(family="llama", **OF_TREEBANK | {"shard_size": 1})
    assert_kills_change_nothing("bypass,amplification,heads,memories", config, loaded("llama"), kills=kills)


def test_a_shard_that_another_process_writes_meanwhile_is_counted(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Written after the folder was looked through and before the work begins: the last line says that all is done."""
    whole = run(LENGTHS, limit=10, shard_size=1, out="whole")
    verify = Store.verify

    def verify_and_be_overtaken(store: Store) -> set[int]:
        there = verify(store)
        written = min((whole.folder / "shards").glob("shard-*"))
        shutil.copy(written, store.shards / written.name)
        return there

    monkeypatch.setattr(Store, "verify", verify_and_be_overtaken)
    capsys.readouterr()
    assert run(LENGTHS, limit=10, shard_size=1).status == 0
    assert "10 of 10 sequences" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.slow
def test_processes_share_a_folder(run: Run, config_of: Configs, everything_from: Callable[[int], bytes]) -> None:
    """Two processes at once: every shard is there once, tables are those of one; a terminal sees a bar, a pipe lines."""
    import fcntl
    import pty
    import struct
    import termios

    config = config_of(shard_size=1)
    command = [sys.executable, "-W", "ignore", "-m", "tl_ffblock", "run", "contextualization", "--model", config.model]
    command += ["--data", config.data, "--out", config.out, "--shard-size", "1", "--examples", "0"]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    of_terminal = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=slave)
    os.close(slave)
    shown = b""
    while b"/30" not in shown:  # on a busy machine the other would be done before this one has begun
        shown += os.read(master, 4096)
    of_pipe = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    shown += everything_from(master)
    out, err = of_pipe.communicate()
    of_terminal.communicate()
    assert (of_pipe.returncode, of_terminal.returncode) == (0, 0), err
    assert b"contextualization" in shown and b"30/30" in shown and b"sequence" in shown
    assert "sequences/s" not in err and "30 of 30 sequences" in err and "report" in out
    assert len(list((config.folder / "shards").glob("shard-*"))) == 30
    whole = run("contextualization", out="whole", shard_size=1)
    assert stored_tables(config.folder) == stored_tables(whole.folder)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(config_of: Configs, tmp_path: Path) -> None:
    """A thousand sequences after a hundred need no more memory than these, up to 40 MB of noise."""
    draw, words = random.Random(0), ["the", "cat", "sat", "on", "mat", ".", "a", "dog", "and", "bird", "saw", "her"]
    program = (
        "import json, resource, sys\nfrom tl_ffblock.experiments import Config, run_studies, study\n"
        "specs = [study('amplification'), study('bypass'), study('outliers', ignored_dimensions=0)]\n"
        "for fields in json.loads(sys.argv[1]):\n    run_studies(specs, Config(**fields))\n"
        "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    )
    configs = []
    for size in (100, 1000):
        path = tmp_path / f"{size}.txt"
        path.write_text("\n".join(" ".join(draw.choice(words) for _ in range(6)) for _ in range(size)))
        configs.append(dataclasses.asdict(config_of(out=f"out{size}", batch_size=8, shard_size=64, data=str(path))))
    command = [sys.executable, "-W", "ignore", "-c", program, json.dumps(configs)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    small, large = (int(peak) / 1024 for peak in done.stdout.split())
    assert large < small + 40, (small, large)
