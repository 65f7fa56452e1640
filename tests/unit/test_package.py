"""What `import tl_ffblock` gives."""

import inspect
import json
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import tl_ffblock as ffb

ROOT = Path(ffb.__file__).parents[1]
PAGES = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", *(str(page) for page in (ROOT / "docs").rglob("*.md"))]
PATH = re.compile(r"\b(?:ffb|tl_ffblock)((?:\.[a-zA-Z_]\w*)+)")
REACH = """
import json, os, pydoc, sys
import tl_ffblock as ffb
heavy = sorted({"torch", "transformer_lens", "numpy", "pandas"} & set(sys.modules))
import pandas, torch, transformer_lens  # once for both orders
def reached(path):
    return hasattr(ffb, path.split(".")[0]) and pydoc.locate("tl_ffblock." + path) is not None
paths = json.load(sys.stdin)
# A room must not be there only because something before it was imported from it.
for order in (paths, paths[::-1]):
    if not os.fork():
        print(json.dumps([heavy, [path for path in order if not reached(path)]]), flush=True)
        os._exit(0)
    os.wait()
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
    command = [sys.executable, "-c", REACH]
    result = subprocess.run(command, input=json.dumps(paths), capture_output=True, text=True, check=True)
    assert [json.loads(line) for line in result.stdout.splitlines()] == [[[], []]] * 2


def test_dir_lists_names_and_modules() -> None:
    """What completion offers: the public names and the modules for users, about forty and eleven; nothing internal."""
    assert set(ffb.__all__) <= set(dir(ffb))
    assert {"check", "experiments", "graphs", "heads", "interventions", "memories", "scopes"} <= set(dir(ffb))
    assert not {"bridge", "layer", "page", "results", "views", "flow", "propagation"} & set(dir(ffb))
    assert len(ffb.__all__) <= 55
    assert len(dir(ffb)) <= 67


@pytest.mark.parametrize(("former", "now"), [("propagation", "attribution"), ("flow", "graphs")])
def test_a_former_name_warns_and_is_the_same(former: str, now: str) -> None:
    """Of a module: each of its names is there, and is the one that is documented now."""
    sys.modules.pop(f"tl_ffblock.{former}", None)
    with pytest.warns(DeprecationWarning, match=f"tl_ffblock.{former} is tl_ffblock.{now} now"):
        module = import_module(f"tl_ffblock.{former}")
    home = getattr(ffb, now)
    same = [name for name in module.__all__ if getattr(module, name) is getattr(home, name, None)]
    assert {"propagation": {"attribute", "Attribution"}, "flow": {"FlowGraph", "top_tokens", "Pruning"}}[former] <= set(
        same
    )


def test_a_former_name_of_a_function_warns() -> None:
    """Annotation sheets, which are of a study; neurons are ablated; types that share no name with another."""
    with pytest.warns(DeprecationWarning, match="geva.annotation"):
        assert ffb.memories.read_annotations is import_module("tl_ffblock.experiments.geva.annotation").read_annotations
    with pytest.warns(DeprecationWarning, match="memories.ablate_neurons now"):
        assert ffb.memories.knock_out is ffb.memories.ablate_neurons
    with pytest.warns(DeprecationWarning, match="heads.Direction is tl_ffblock.heads.ArcDirection now"):
        assert ffb.heads.Direction is ffb.heads.ArcDirection


def test_an_unknown_name_is_an_attribute_error() -> None:
    """Python's own error."""
    with pytest.raises(AttributeError, match="module 'tl_ffblock' has no attribute 'patching'"):
        ffb.patching  # noqa: B018


@pytest.mark.parametrize("name", [name for name in ffb.__all__ if inspect.isfunction(getattr(ffb, name))])
def test_docstrings_name_every_argument_and_what_is_returned(name: str) -> None:
    """In the order of the signature, options of a call among them."""
    parameters = inspect.signature(getattr(ffb, name)).parameters.values()
    told = inspect.getdoc(getattr(ffb, name)) or ""
    arguments = told.partition("\nArgs:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^    \**(\w+):", arguments, re.MULTILINE) == [parameter.name for parameter in parameters]
    assert "\n\nReturns:\n" in told or "\n\nYields:\n" in told
