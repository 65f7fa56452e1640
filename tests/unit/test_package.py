"""What `import tl_ffblock` gives."""

import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import tl_ffblock as ffb

ROOT = Path(ffb.__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(str(page) for page in (ROOT / "docs").rglob("*.md"))]
PATH = re.compile(r"\b(?:ffb|tl_ffblock)((?:\.[a-zA-Z_]\w*)+)")
REACH = """
import json, pydoc, sys
import tl_ffblock as ffb
heavy = sorted({"torch", "transformer_lens", "numpy"} & set(sys.modules))
def reached(path):
    return hasattr(ffb, path.split(".")[0]) and pydoc.locate("tl_ffblock." + path) is not None
print(json.dumps([heavy, [path for path in json.load(sys.stdin) if not reached(path)]]))
"""


def documented() -> set[str]:
    """Every dotted path of the package that a document or a public docstring writes, files and domains left out."""
    texts = [(ROOT / page).read_text(encoding="utf-8") for page in PAGES]
    texts += [inspect.getdoc(getattr(ffb, name)) or "" for name in ffb.__all__]
    paths = {path.removeprefix(".") for text in texts for path in PATH.findall(text)}
    return {path for path in paths if not path.endswith((".py", ".md"))}


def test_what_is_documented_is_reached_in_a_fresh_interpreter() -> None:
    """Importing loads nothing heavy; each name of the documents and of `dir` is there as an attribute, deeper paths by their import."""
    paths = sorted(documented()) + dir(ffb)
    assert {"check.check_model", "contribution_maps", "interventions", "layer.scopes"} <= set(paths)
    # In both orders: a room must not be there only because something before it was imported from it.
    for order in (paths, paths[::-1]):
        result = subprocess.run(
            [sys.executable, "-c", REACH], input=json.dumps(order), capture_output=True, text=True, check=True
        )
        assert json.loads(result.stdout) == [[], []]


def test_dir_lists_names_and_modules() -> None:
    """What completion offers: the public names and the rooms that documents name."""
    assert set(ffb.__all__) <= set(dir(ffb))
    assert {"check", "experiments", "interventions", "page", "results", "scopes"} <= set(dir(ffb))


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Python's own error."""
    with pytest.raises(AttributeError, match="module 'tl_ffblock' has no attribute 'patching'"):
        ffb.patching  # noqa: B018
