"""Notebooks as pages, with the pictures, tables and pages that they have stored; nothing is run."""

import base64
import re
import zlib
from pathlib import Path

import nbformat
from nbconvert import MarkdownExporter

from docs.site.repository import ROOT

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
_FRAME = re.compile(r'<iframe title="([^"]*)"[^>]* data-tl-ffblock="([^"]*)"')


def title(notebook: Path) -> str:
    """Its first heading."""
    cells = nbformat.read(notebook, as_version=4).cells
    return next(line.lstrip("# ") for cell in cells for line in cell.source.splitlines() if line.startswith("# "))


def page_in(output: str) -> tuple[str, str] | None:
    """Title, as markup, and HTML of the page that a cell's output holds deflated; None where it holds none."""
    found = _FRAME.search(output)
    return found and (found[1], zlib.decompress(base64.b64decode(found[2])).decode("utf-8"))


def files(notebook: Path) -> dict[str, str | bytes]:
    """A notebook's page and all that the page shows, by place in the gallery."""
    written: dict[str, str | bytes] = {}
    stored = nbformat.read(notebook, as_version=4)
    for number, cell in enumerate(stored.cells):
        for output in cell.get("outputs", ()):
            page = page_in(output.get("data", {}).get("text/html", ""))
            if page:
                name = f"{notebook.stem}/page_{number}.html"
                written[f"gallery/{name}"] = page[1]
                output.data = {"text/html": f'<iframe class="live" title="{page[0]}" src="{name}"></iframe>'}
    folder = {"output_files_dir": notebook.stem, "unique_key": "cell"}
    text, resources = MarkdownExporter().from_notebook_node(stored, resources=folder)
    outputs = {f"gallery/{name}": content for name, content in resources["outputs"].items()}
    return {f"gallery/{notebook.stem}.md": _tidy(text), **outputs, **written}


def _tidy(text: str) -> str:
    """Without the style sheets that data frames bring, whose page would not be ours."""
    return re.sub(r"<style scoped>.*?</style>\s*", "", text, flags=re.DOTALL)
