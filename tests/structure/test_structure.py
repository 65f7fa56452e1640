"""How files of the package hang together, imports for type checkers included."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import lower, size
from tests.__main__ import SHAPES


def test_no_module_imports_itself_through_others() -> None:
    """A circle is one module in several files."""
    assert size.circles() == []


def test_a_file_with_one_importer_says_which_noun_it_is() -> None:
    """Else it is a piece of that importer: `# Noun: ...` above its imports names the term of the field and its source."""
    assert size.single_importers() == []


def test_steps_name_tests_that_are_there() -> None:
    """A path that pytest does not find would end the step."""
    assert [path for path in (*SHAPES, *lower.SAMPLE) if not (size.ROOT / path).exists()] == []
    assert lower.lowest(["numpy>=1.26", "a-b[c,d]>=3.9,<5", "e"]) == ["numpy==1.26", "a-b==3.9"]


def test_refusals_hold_without_asserts() -> None:
    """No refusal is an `assert`: `python -O` leaves those out."""
    options = ["-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestConfigWarning"]
    command = [sys.executable, "-O", "-m", "pytest", *options, "tests/integration/test_odd_calls.py"]
    done = subprocess.run(command, cwd=size.ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:]


def test_what_counts_as_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one for type checkers or inside a function; a comment with a noun is read at the head of a file alone."""
    package = tmp_path / size.PACKAGE
    package.mkdir()
    texts = {
        "__init__": "from tl_ffblock.a import x",
        "a": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from tl_ffblock.b import y\nx = 1",
        "b": "def y():\n    import tl_ffblock.a\n    from tl_ffblock import c, d",
        "c": "# Noun: norm (a paper)\nimport os",
        "d": "import os\n# Noun: too late",
    }
    for name, text in texts.items():
        (package / f"{name}.py").write_text(text)
    monkeypatch.setattr(size, "ROOT", tmp_path)
    for cached in (size.modules, size.tree, size.imports):
        cached.cache_clear()
    try:
        assert size.circles() == [["tl_ffblock.a", "tl_ffblock.b"]]
        assert size.single_importers() == ["tl_ffblock.a", "tl_ffblock.b", "tl_ffblock.d"]
    finally:
        for cached in (size.modules, size.tree, size.imports):
            cached.cache_clear()
