"""`tl-ffblock run` of what cannot be run: one sentence, a status, no traceback."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tl_ffblock.cli.main import main
from tl_ffblock.corpus import settings

Answer = Callable[..., SimpleNamespace]


@pytest.fixture
def answer(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    model_folder: Callable[[str], str],
) -> Answer:
    """`answer("bypass", data="a.txt")`: status and lines on standard error, in a folder with some bad files."""
    model = model_folder("bert")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    Path("good.txt").write_text("the cat sat on the mat .\na dog and the bird\n")
    Path("empty.txt").write_text("")
    Path("table.csv").write_text("sentence,label\nthe cat,1\n")
    Path("rows.jsonl").write_text('{"sentence": "the cat"}\n')

    def run(studies: str, **options: str) -> SimpleNamespace:
        options = {"model": model, "data": "good.txt", "out": "run", "examples": "0", **options}
        flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        try:
            status = main(["run", studies, *flags])
        except SystemExit as end:  # of argparse
            status = end.code
        return SimpleNamespace(status=status, lines=capsys.readouterr().err.splitlines())

    return run


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"studies": "norms"}, "there is no study 'norms'; expected one or several of contextualization, "),
        ({"studies": "bypass,cost,bypass"}, "'bypass,cost,bypass' names a study twice"),
        ({"window": "3"}, "--window is an option of amplification, which is not among the studies."),
        ({"data": "missing.txt"}, "data='missing.txt': there is no such file."),
        ({"data": "./missing"}, "data='./missing': there is no such file."),
        ({"data": "empty.txt"}, "data='empty.txt' holds no text to read."),
        ({"data": "table.csv"}, "table.csv has no column 'text'; it has 'sentence', 'label'."),
        ({"data": "rows.jsonl"}, "(1 lines cannot be read; rows.jsonl:1 has no text under 'text')."),
        ({"out": "good.txt"}, "out='good.txt' is a file; give a folder."),
        ({"out": "good.txt/run"}, "out='good.txt/run': nothing can be written to "),
        ({"limit": "0"}, "limit=0: expected a whole number of at least 1."),
        ({"tagger": "no.such:module"}, "tagger='no.such:module': expected module:function"),
    ],
)
def test_wrong_input_is_one_sentence(answer: Answer, options: dict[str, str], says: str) -> None:
    """It says what is wrong with which argument; the status is 2 and nothing is computed."""
    found = answer(**{"studies": "bypass", **options})
    assert found.status == 2
    assert len(found.lines) == 1 and found.lines[0].startswith("tl-ffblock: error: ") and says in found.lines[0]
    assert not any(Path().glob("*/shards/shard-*"))


def test_numbers_that_are_none_are_refused(answer: Answer) -> None:
    """The last line names the option and what it expects."""
    found = answer("cost", lengths="8,x")
    assert found.status == 2
    assert found.lines[-1].endswith("argument --lengths: expected whole numbers with commas between them, not '8,x'")


def test_the_folder_of_another_run_stays_as_it_is(answer: Answer) -> None:
    """The message says what differs; the run that is there can still be continued."""
    assert answer("bypass").status == 0
    before = sorted(Path("run").rglob("*"))
    found = answer("bypass", seed="1")
    assert (found.status, len(found.lines)) == (2, 1)
    assert "run holds a run of other settings: config.seed was 0, is 1." in found.lines[0]
    assert sorted(Path("run").rglob("*")) == before
    assert answer("bypass").status == 0


@pytest.mark.parametrize(
    ("missing", "options", "install"),
    [
        ("ray", {"engine": "ray"}, 'pip install -c constraints.txt ".[experiments,ray]"'),
        ("shap", {"studies": "attribution-methods"}, 'pip install -c constraints.txt ".[experiments]"'),
        ("pyarrow", {}, 'pip install -c constraints.txt ".[experiments]"'),
    ],
)
def test_a_missing_package_is_told_with_its_extra(
    answer: Answer, monkeypatch: pytest.MonkeyPatch, missing: str, options: dict[str, str], install: str
) -> None:
    """Before any work, with the command that installs it."""
    find: Any = settings.find_spec
    monkeypatch.setattr(settings, "find_spec", lambda name: None if name == missing else find(name))
    found = answer(**{"studies": "bypass", **options})
    assert found.status == 2
    assert found.lines == [
        f"tl-ffblock: error: this run needs {missing}; in the folder of the repository run: {install}"
    ]
    assert not Path("run").exists()


def test_an_interrupted_run_says_how_it_goes_on(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C loses nothing that was computed; the status is that of a program that was interrupted."""

    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tl_ffblock.cli.run.run_studies", interrupted)
    found = answer("bypass")
    assert found.status == 130
    assert found.lines[0] == "what was computed is kept; run the same command again to continue"
