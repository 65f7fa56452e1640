"""Notebooks as they are stored: what their cells print is of this version, and all of them were run."""

import importlib.util
import re
import shlex
import types
from pathlib import Path
from typing import Any

import pytest

from docs.site.notebooks import page_in
from tl_ffblock import __version__
from tl_ffblock.page import PageView, iframe
from tl_ffblock.page.document import script_of

nbformat = pytest.importorskip("nbformat")
NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
LARGEST = 700_000
"""Bytes of a notebook that GitHub still draws and that a reader waits for."""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_was_run_whole_by_this_version(notebook: Path) -> None:
    """Cells were run once each, from the first to the last, without errors or warnings; pages in them name this version."""
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    versions = [version for page in _pages(outputs) for version in re.findall(r'"tl_ffblock": ?"([^"]+)"', page)]
    assert set(versions) <= {__version__}
    assert notebook.stat().st_size < LARGEST


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_first_cell_installs_the_package_where_it_is_missing(
    notebook: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the repository, with versions held; it runs nothing where the package is there."""
    transformer = pytest.importorskip("IPython.core.inputtransformer2").TransformerManager()
    first = next(cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code")
    called: list[list[str]] = []
    shell = types.SimpleNamespace(run_line_magic=lambda name, line: called.append([name, *shlex.split(line)]))
    code = compile(transformer.transform_cell(first.source), notebook.name, "exec")
    exec(code, {"get_ipython": lambda: shell})
    assert called == []
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    exec(code, {"get_ipython": lambda: shell})
    assert [words[:2] for words in called] == [["pip", "install"]] * 2
    for words in called:
        assert (notebook.parent / words[words.index("-c") + 1]).resolve().name == "constraints.txt"
    folder, _, extras = called[0][-1].partition("[")
    assert (notebook.parent / folder / "pyproject.toml").is_file() and "demo" in extras


def test_some_notebooks_hold_pages_with_their_version() -> None:
    """The pattern that the test above looks for is what pages have."""
    pages = [page for path in NOTEBOOKS for page in _pages(_outputs(path))]
    assert sum(f'"tl_ffblock":"{__version__}"' in page.replace(": ", ":") for page in pages) >= 2


def outdated(output: str) -> str:
    """What of a stored output, which holds a page, this version would write otherwise; nothing where it is of this version."""
    page = page_in(output)
    if page is None or script_of() not in page[1]:
        return "the page's script"
    if 'src="data:image/png;base64,' not in output or "trust the notebook" not in output:
        return "the picture for notebooks that are not trusted"
    return ""


def test_an_older_page_is_found() -> None:
    """By one letter of its script, or by the picture that it lacks."""
    html_of = "<script>{}</script>".format
    now = iframe(html_of(script_of()), still=b"png")
    assert outdated(now._repr_html_()) == ""
    older = PageView(html_of(script_of().replace("let ", "var ", 1)), still=b"png")
    assert outdated(older._repr_html_()) == "the page's script"
    assert outdated(PageView(now.html)._repr_html_()) == "the picture for notebooks that are not trusted"


def test_stored_pages_are_those_of_this_version() -> None:
    """Script and frame of every page that a notebook stores are what this version writes."""
    found = {
        path.stem: [outdated(output["data"]["text/html"]) for output in _outputs(path) if _is_page(output)]
        for path in NOTEBOOKS
    }
    assert sum(map(len, found.values())) >= 5
    assert not {name: [why for why in reasons if why] for name, reasons in found.items() if any(reasons)}


def _outputs(path: Path) -> list[Any]:
    cells = nbformat.read(path, as_version=4).cells
    return [output for cell in cells if cell.cell_type == "code" for output in cell.outputs]


def _pages(outputs: list[Any]) -> list[str]:
    found = [page_in(output.get("data", {}).get("text/html", "")) for output in outputs]
    return [page[1] for page in found if page]


def _is_page(output: Any) -> bool:
    return "<iframe" in output.get("data", {}).get("text/html", "")
