"""Notebooks as they are stored: what their cells print is of this version, and all of them were run."""

import html
import re
from pathlib import Path

import pytest

from tl_ffblock import __version__

nbformat = pytest.importorskip("nbformat")
NOTEBOOKS = sorted((Path(__file__).resolve().parents[2] / "notebooks").glob("*.ipynb"))
LARGEST = 900_000
"""Bytes of a notebook that GitHub still draws and that a reader waits for."""


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_stored_notebook_was_run_whole_by_this_version(notebook: Path) -> None:
    """Cells were run once each, from the first to the last, without errors or warnings; pages in them name this version."""
    cells = [cell for cell in nbformat.read(notebook, as_version=4).cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell.outputs]
    assert not [output for output in outputs if output.output_type == "error" or output.get("name") == "stderr"]
    pages = [html.unescape(output.get("data", {}).get("text/html", "")) for output in outputs]
    versions = [version for page in pages for version in re.findall(r'"tl_ffblock": ?"([^"]+)"', page)]
    assert set(versions) <= {__version__}
    assert notebook.stat().st_size < LARGEST


def test_some_notebooks_hold_pages_with_their_version() -> None:
    """The pattern that the test above looks for is what pages have."""
    texts = [html.unescape(path.read_text(encoding="utf-8")).replace("\\", "") for path in NOTEBOOKS]
    assert sum(f'"tl_ffblock":"{__version__}"' in text.replace(": ", ":") for text in texts) >= 2
