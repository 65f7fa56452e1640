"""Whole runs: their tables, what interrupts them, and what they say."""

import dataclasses
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

from tests.corpora import ENVIRONMENT, assert_kills_change_nothing
from tests.own_studies import Lengths, lengths
from tests.tolerances import BATCH_FLOAT32
from tl_ffblock.corpus import runs
from tl_ffblock.corpus.runs import run_corpus
from tl_ffblock.corpus.store import ForeignFolderError
from tl_ffblock.corpus.study import StudySpec
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config, run_studies, study

FOUR = "contextualization,amplification,bypass,outliers"
Tables = Callable[[Path], dict[str, bytes]]


@pytest.fixture
def measured() -> list[int]:
    """Numbers of the sequences that `lengths` measures from here on."""
    Lengths.measured.clear()
    return Lengths.measured


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_one_pass_gives_tables_figures_and_a_report(
    family: str, config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """Every study that needs no clock, in both orders of norms: Parquet equals CSV, figures as PNG and SVG."""
    finished = run_studies(FOUR, config_of(family=family, examples=1, limit=6), model=loaded(family))
    assert (finished.status, finished.left_out) == (0, 0)
    files = {path.relative_to(finished.folder).as_posix() for path in finished.folder.rglob("*") if path.is_file()}
    for name, table in finished.tables.items():
        assert {f"tables/{name}.csv", f"tables/{name}.parquet"} <= files
        stored = pd.read_parquet(finished.folder / "tables" / f"{name}.parquet")
        pd.testing.assert_frame_equal(stored, table, check_dtype=False)
        assert len(pd.read_csv(finished.folder / "tables" / f"{name}.csv")) == len(table)
    assert {"figures/contextualization_" + ("changes_reachable" if family == "llama" else "changes") + ".svg"} <= files
    assert {"report.html", "maps/example-1.html", "summary.json", "run.json"} <= files
    assert finished.outputs.summary["sequences"] == 6


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_corpus_without_pairs_has_empty_tables(
    family: str, config_of: Callable[..., Config], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """Texts of one word, masked or not: nothing to rank and no pair to name, which is said by NaN and empty tables."""
    (tmp_path / "words.txt").write_text("cat\ndog\n")
    config = config_of(family=family, data=str(tmp_path / "words.txt"), mask_fraction=0.99)
    finished = run_studies(FOUR, config, model=loaded(family))
    assert (finished.status, finished.left_out) == (0, 0)
    assert finished.tables["amplification_pmi"]["pairs"].eq(0).all()
    assert finished.tables["amplification_pmi"]["spearman"].isna().all()
    assert set(finished.tables["amplification_top_pairs"].columns) >= {"layer", "query", "key", "count"}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_timed_experiments_run_too(config_of: Callable[..., Config], loaded: Callable[[str], Any]) -> None:
    """Closed form and captum agree; kernel estimates that see all coalitions are the exact Shapley values."""
    pytest.importorskip("shap", reason="shap is not installed")
    specs = [study("attribution-methods", short_tokens=4), study("cost", lengths=(4, 8, 512), captum_length=4)]
    finished = run_studies(specs, config_of(family="llama", limit=1), model=loaded("llama"))
    agreement = finished.tables["attribution-methods_agreement"].query("reference == 'ig'").set_index("method")
    assert agreement.loc["captum", "largest_difference"].max() < 1e-5
    assert agreement["completeness"].max() < 1e-4
    to_shapley = finished.tables["attribution-methods_agreement"].query("reference == 'shapley'").set_index("method")
    assert to_shapley.loc["kernel", "largest_difference"].max() < 1e-5
    assert to_shapley.loc["kernel", "map_rho"].min() == pytest.approx(1)
    time = finished.tables["cost_time"].set_index("tokens")
    assert (time.loc[[4, 8], "maps"] > 0).all() and pd.isna(time.loc[512, "maps"])


def test_batches_give_the_numbers_of_single_sequences(
    config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """Padding changes nothing but the last digits."""
    names = ("contextualization", "bypass", "amplification")
    for family in ("bert", "llama"):
        single, batched = (
            run_studies(
                [*names, study("outliers", ignored_dimensions=0)],
                config_of(family=family, out=f"{family}{size}", limit=5, batch_size=size),
                model=loaded(family),
            ).tables
            for size in (1, 3)
        )
        for name in ("contextualization_changes", "bypass_norms", "outliers_correlation", "amplification_pmi"):
            pd.testing.assert_frame_equal(single[name], batched[name], rtol=1e-3, atol=1e-3)


def test_a_finished_run_is_not_computed_again(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tables_of: Tables, measured: list[int]
) -> None:
    """The second call only reads shards; lost tables come back byte for byte."""
    config = config_of(limit=6)
    first = run_corpus(config, [lengths()], model=loaded("bert"))
    assert measured == list(range(6))
    before = tables_of(first.folder)
    for path in (first.folder / "tables").iterdir():
        path.unlink()
    assert tables_of(run_corpus(config, [lengths()], model=loaded("bert")).folder) == before
    assert len(measured) == 6


def test_a_damaged_shard_is_done_again(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tables_of: Tables
) -> None:
    """Found by its checksum, told, and the tables are as before."""
    config = config_of(limit=10)
    first = run_studies("contextualization", config, model=loaded("bert"))
    before = tables_of(first.folder)
    shard = sorted((first.folder / "shards").iterdir())[1]
    data = bytearray(shard.read_bytes())
    data[-1] ^= 255
    shard.write_bytes(data)
    second = run_studies("contextualization", config, model=loaded("bert"))
    assert second.damaged_shards == (shard.name,)
    assert (second.status, tables_of(second.folder)) == (0, before)


def test_another_model_or_corpus_is_refused(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """A folder continues its own run only; the message says which of weights, data, settings and options differ."""
    config = config_of(limit=2)
    run_corpus(config, [lengths()], model=loaded("bert"))
    (tmp_path / "other.txt").write_text("the cat\nthe dog\n")
    for changed, spec, family, says in (
        (config, lengths(), "llama", r"model\.weights was '.*', is '"),
        (dataclasses.replace(config, seed=1), lengths(), "bert", r"config\.seed was 0, is 1"),
        (config, lengths(add=1), "bert", r"study\.lengths\.add was 0, is 1"),
        (dataclasses.replace(config, data=str(tmp_path / "other.txt")), lengths(), "bert", "data was"),
    ):
        with pytest.raises(ForeignFolderError, match=says):
            run_corpus(changed, [spec], model=loaded(family))


def test_the_head_counts_for_studies_that_read_it(
    config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """With another unembedding a run is continued, unless a study's numbers depend on it."""
    model, readers = loaded("llama"), [StudySpec("tests.own_studies:LengthsOfReader", lengths().options)]
    config = config_of(family="llama", out="maps", limit=2)
    reading = config_of(family="llama", out="head", limit=2)
    run_corpus(config, [lengths()], model=model)
    run_corpus(reading, readers, model=model)
    weight = model.state_dict()["unembed.weight"]
    with torch.no_grad():
        weight += 1
    try:
        assert run_corpus(config, [lengths()], model=model).status == 0
        with pytest.raises(ForeignFolderError, match=r"model\.weights was '.*', is '"):
            run_corpus(reading, readers, model=model)
    finally:
        with torch.no_grad():
            weight -= 1


@pytest.mark.parametrize(("before", "after"), [(8, 16), (10, 15), (30, None)])
def test_a_larger_limit_extends_a_run(
    before: int,
    after: int | None,
    config_of: Callable[..., Config],
    loaded: Callable[[str], Any],
    tables_of: Tables,
    measured: list[int],
) -> None:
    """Full shards are kept, the last one is done again if it grew; the tables are those of the larger run, byte for byte."""
    specs, model = [lengths(), study("contextualization")], loaded("bert")
    run_corpus(config_of(limit=before), specs, model=model)
    measured.clear()
    extended = run_corpus(config_of(limit=after), specs, model=model)
    assert measured == list(range(before - before % 4 if before < 30 else 30, after or 30))
    whole = run_corpus(config_of(limit=after, out="whole"), specs, model=model)
    assert extended.status == 0 and tables_of(extended.folder) == tables_of(whole.folder)


def test_texts_added_to_the_corpus_extend_a_run(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], corpus: Path, tables_of: Tables, tmp_path: Path
) -> None:
    """Without a limit a corpus that grew at its end is the same run; one that changed in the middle is not."""
    lines = corpus.read_text().splitlines()
    grown = tmp_path / "grown.txt"
    grown.write_text("\n".join(lines[:9]))
    run_corpus(config_of(data=str(grown)), [lengths()], model=loaded("bert"))
    grown.write_text("\n".join(lines))
    extended = run_corpus(config_of(data=str(grown)), [lengths()], model=loaded("bert"))
    assert extended.outputs is not None and extended.outputs.summary["sequences"] == 30
    grown.write_text("\n".join([*lines[:4], "the mat", *lines]))
    with pytest.raises(ForeignFolderError, match="data was"):
        run_corpus(config_of(data=str(grown)), [lengths()], model=loaded("bert"))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        (dict(limit=5), r"config\.limit was 8, is 5"),
        (dict(limit=9, seed=1), r"config\.seed was 0, is 1"),
        (dict(limit=9, sample="random"), r"config\.sample was 'first', is 'random'"),
    ],
)
def test_what_is_no_extension_is_refused(
    fields: dict[str, Any], says: str, config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """A smaller limit, or another setting beside it; the folder stays as it was."""
    run_corpus(config_of(limit=8), [lengths()], model=loaded("bert"))
    before = sorted(config_of().folder.rglob("*"))
    with pytest.raises(ForeignFolderError, match=says):
        run_corpus(config_of(**fields), [lengths()], model=loaded("bert"))
    assert sorted(config_of().folder.rglob("*")) == before


def test_random_samples_are_not_extended(config_of: Callable[..., Config], loaded: Callable[[str], Any]) -> None:
    """Their shards are others; the message says so."""
    run_corpus(config_of(limit=8, sample="random"), [lengths()], model=loaded("bert"))
    with pytest.raises(ForeignFolderError, match="Random samples of two sizes share no shards"):
        run_corpus(config_of(limit=12, sample="random"), [lengths()], model=loaded("bert"))


def test_masks_are_told(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """The run says how many tokens it masks, and its table what stood at each of them."""
    finished = run_corpus(config_of(limit=6), [lengths()], model=loaded("bert"))
    assert "12% of the tokens of text become [MASK]" in capsys.readouterr().err
    assert finished.outputs is not None
    masked = finished.tables["masked"]
    assert len(masked) == finished.outputs.summary["masked"] > 0
    words = Path(finished.folder.parent / config_of().data).read_text().splitlines()
    for row in masked.itertuples():
        assert row.where == f"corpus.txt:{row.sequence + 1}"
        assert words[row.sequence].split()[row.position - 1] == row.token  # [CLS] comes first
    plain = run_corpus(config_of(limit=6, out="plain", mask_fraction=0.0), [lengths()], model=loaded("bert"))
    assert "masked" not in plain.tables


def test_a_corpus_that_changes_during_a_run_is_refused(
    config_of: Callable[..., Config],
    loaded: Callable[[str], Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    tables_of: Tables,
) -> None:
    """Nothing of the other text stands under the fingerprint of the first; with that back the run ends as without a change."""
    data, lines = tmp_path / "data.txt", [f"the cat sat on the mat {'. ' * n}" for n in range(1, 7)]
    data.write_text("\n".join(lines))
    config = config_of(data=str(data), shard_size=2, out="changed")
    shipped = runs.fingerprint

    def changing(*arguments: Any) -> dict[str, Any]:
        mark = shipped(*arguments)
        data.write_text("\n".join([*lines[:3], "a dog and the bird", *lines[4:]]))
        return mark

    monkeypatch.setattr(runs, "fingerprint", changing)
    with pytest.raises(InputError, match=r"data=.*data\.txt.* was changed.*shard 1 "):
        run_corpus(config, [lengths()], model=loaded("bert"))
    monkeypatch.undo()
    data.write_text("\n".join(lines))
    finished = run_corpus(config, [lengths()], model=loaded("bert"))
    expected = run_corpus(config_of(data=str(data), shard_size=2, out="unchanged"), [lengths()], model=loaded("bert"))
    assert finished.status == 0
    assert tables_of(finished.folder) == tables_of(expected.folder)


def test_threads_of_the_process_stay_as_they_were(
    config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """A run computes with its own number of threads and gives the process back as many as it had."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        run_corpus(config_of(limit=2, threads=1), [lengths()], model=loaded("bert"))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_lines_and_sequences_that_fail_are_left_out(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """Named with their line, counted, and the rest is as if they were not there; the status is 3."""
    good = ["the cat sat on the mat .", "a dog and the bird", "He said he would not ."]
    path = tmp_path / "bad.txt"
    path.write_bytes(b"\n".join([good[0].encode(), b"\xff\xfe", good[1].encode(), b"[SEP] [CLS]", good[2].encode()]))
    config = config_of(data=str(path), mask_fraction=0.0, batch_size=4)
    finished = run_studies("bypass", config, model=loaded("bert"))
    problems = finished.tables["problems"]
    assert (finished.status, finished.left_out) == (3, 2)
    assert problems["where"].tolist() == ["bad.txt:2", "bad.txt:4"]
    (tmp_path / "good.txt").write_text("\n".join(good))
    config = config_of(out="clean", data=str(tmp_path / "good.txt"), mask_fraction=0.0)
    clean = run_studies("bypass", config, model=loaded("bert"))
    pd.testing.assert_frame_equal(finished.tables["bypass_norms"], clean.tables["bypass_norms"], **BATCH_FLOAT32)


def test_a_sequence_that_fails_in_a_batch_is_found(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], measured: list[int]
) -> None:
    """Its neighbours in the batch still count."""
    finished = run_corpus(config_of(limit=5, batch_size=4), [lengths(fails_at=2)], model=loaded("bert"))
    assert finished.tables["problems"]["why"].tolist() == ["CompletenessError: parts do not sum"]
    assert len(finished.tables["lengths_tokens"]) == 4 and set(measured) == {0, 1, 3, 4}


def test_mistakes_of_the_program_are_not_blamed_on_sequences(
    config_of: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """A NameError ends the run; no shard records it."""
    config = config_of(limit=2)
    with pytest.raises(NameError):
        run_corpus(config, [lengths(mistaken=True)], model=loaded("bert"))
    assert not any(config.folder.glob("shards/*"))


def test_a_shard_that_cannot_be_written_is_left_for_later(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tables_of: Tables
) -> None:
    """As on a full disk: the shard is told, the others are kept, no tables are made; a further run completes them."""
    config = config_of(limit=10)
    obstacle = config.folder / "shards" / ".shard-000001.part"
    (config.folder / "locks").mkdir(parents=True)
    run_corpus(config_of(limit=10, out="whole"), [lengths()], model=loaded("bert"))
    (config.folder / "run.json").write_bytes((config.folder.with_name("whole") / "run.json").read_bytes())
    obstacle.mkdir(parents=True)  # where the shard would be written
    finished = run_corpus(config, [lengths()], model=loaded("bert"))
    assert finished.status == 1 and finished.outputs is None
    assert list(finished.failed_shards) == [1] and "Is a directory" in finished.failed_shards[1]
    assert not (config.folder / "tables").exists()
    obstacle.rmdir()
    again = run_corpus(config, [lengths()], model=loaded("bert"))
    assert again.status == 0 and tables_of(again.folder) == tables_of(config.folder.with_name("whole"))


def test_tables_that_cannot_be_written_lose_nothing(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tables_of: Tables, measured: list[int]
) -> None:
    """The error reaches the caller; a further run reads the shards and writes the tables."""
    config = config_of(limit=6)
    config.folder.mkdir()
    (config.folder / "tables").write_text("in the way")
    with pytest.raises(OSError, match=r"File exists: tables .* is kept, run the same command again"):
        run_corpus(config, [lengths()], model=loaded("bert"))
    (config.folder / "tables").unlink()
    tables = tables_of(run_corpus(config, [lengths()], model=loaded("bert")).folder)
    assert measured == list(range(6))
    whole = run_corpus(config_of(limit=6, out="whole"), [lengths()], model=loaded("bert"))
    assert tables == tables_of(whole.folder)


def test_a_run_of_failures_only_is_no_success(
    config_of: Callable[..., Config], loaded: Callable[[str], Any], tmp_path: Path
) -> None:
    """Without one sequence measured the status is 1, and the report says why."""
    (tmp_path / "bad.txt").write_text("[SEP]\n[CLS]\n")
    finished = run_studies("bypass", config_of(data=str(tmp_path / "bad.txt")), model=loaded("bert"))
    assert finished.status == 1
    assert "no token of text" in finished.outputs.report.read_text()


@pytest.mark.parametrize("kills", [3, pytest.param(12, marks=pytest.mark.slow)])
def test_killed_runs_end_as_uninterrupted_ones(
    kills: int, treebank_run: Callable[..., Config], loaded: Callable[[str], Any]
) -> None:
    """Killed at random moments, then started a last time: the tables are those of an uninterrupted run, byte for byte.

    Of each kind of what shards keep: moments, sums over pairs, hits, the best of a stream.
    """
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra heads)")
    config = treebank_run(family="llama", shard_size=1)
    assert_kills_change_nothing("bypass,amplification,heads,memories", config, loaded("llama"), kills=kills)


@pytest.mark.slow
def test_processes_share_a_folder(
    config_of: Callable[..., Config],
    loaded: Callable[[str], Any],
    tables_of: Tables,
    everything_from: Callable[[int], bytes],
) -> None:
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
    of_pipe, of_terminal = (
        subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=stderr, text=True)
        for stderr in (subprocess.PIPE, slave)
    )
    os.close(slave)
    shown = everything_from(master)
    out, err = of_pipe.communicate()
    of_terminal.communicate()
    assert (of_pipe.returncode, of_terminal.returncode) == (0, 0), err
    assert b"contextualization" in shown and b"30/30" in shown and b"sequence" in shown
    assert "sequences/s" not in err and "30 of 30 sequences" in err and "report" in out
    assert len(list((config.folder / "shards").glob("shard-*"))) == 30
    whole = run_studies(
        "contextualization", dataclasses.replace(config, out=config.out + "-whole"), model=loaded("bert")
    )
    assert tables_of(config.folder) == tables_of(whole.folder)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_corpus(model_folder: Callable[[str], str], tmp_path: Path) -> None:
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
        fields = dict(model=model_folder("bert"), examples=0, batch_size=8, data=str(path))
        configs.append({**fields, "out": str(tmp_path / f"out{size}")})
    command = [sys.executable, "-W", "ignore", "-c", program, json.dumps(configs)]
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    small, large = (int(peak) / 1024 for peak in done.stdout.split())
    assert large < small + 40, (small, large)
