"""`tl-ffblock run` without a package, and interrupted: one sentence, a status, no traceback. Wrong options: tests/cli."""

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
    """`answer("bypass", data="a.txt")`: status and lines on standard error."""
    model = model_folder("bert")
    capsys.readouterr()
    monkeypatch.chdir(tmp_path)
    Path("good.txt").write_text("the cat sat on the mat .\na dog and the bird\n")

    def run(studies: str, **options: str) -> SimpleNamespace:
        options = {"model": model, "data": "good.txt", "out": "run", "examples": "0", **options}
        flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
        status = main(["run", studies, *flags])
        return SimpleNamespace(status=status, lines=capsys.readouterr().err.splitlines())

    return run


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
    assert found.lines[0] == "finished shards are kept; run the same command again to continue"
