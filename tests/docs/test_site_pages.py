"""What the documentation site is made of, without building it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml

import tl_ffblock
from docs.site import links, notebooks, reference, repository

DOCS = repository.ROOT / "docs"


def test_the_reference_documents_what_the_package_exports() -> None:
    """Every name of `__all__` has a place on one page, and what else a page has is in the `__all__` of its module."""
    documented = [name for names in reference.public_names().values() for name in names]
    assert len(documented) == len(set(documented))
    exported = {f"tl_ffblock.{name}" for name in tl_ffblock.__all__ if not name.startswith("__")}
    assert exported <= set(documented)
    for name in set(documented) - exported:
        module, _, last = name.rpartition(".")
        assert last in __import__(module, fromlist=["__all__"]).__all__


def test_a_name_of_a_type_has_one_meaning() -> None:
    """No two types that signatures print, or that the package exports, share a name: a signature says which is meant."""
    meanings = defaultdict(set)
    for full in (*reference.type_names(), *(name for names in reference.public_names().values() for name in names)):
        home, _, name = full.rpartition(".")
        if not name.isupper():
            meanings[name].add(id(getattr(import_module(home), name)))
    assert [name for name, meant in meanings.items() if len(meant) > 1] == []


def test_a_page_of_the_reference_begins_with_its_functions() -> None:
    """They are shown one by one, after what the page is about."""
    page = reference.pages()["reference/metrics.md"]
    assert page.startswith("# Metrics\n")
    assert page.index("::: tl_ffblock.metrics.logit\n") < page.index("::: tl_ffblock.metrics.Metric\n")
    assert "answers.py" not in page


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ("[a](docs/models.md#supported)", "[a](../models.md#supported)"),
        ("[a](README.md)", "[a](../index.md)"),
        ("[a](tl_ffblock/README.md)", "[a](index.md)"),
        ("[a](notebooks/01_first_map.ipynb)", "[a](../gallery/01_first_map.md)"),
        ("[a](tests/tiny.py)", "[a](../source/tests/tiny.py.md)"),
        ("[a](https://example.org/x)", "[a](https://example.org/x)"),
        ("[a](docs/results)", "a"),
        ("cells[0](no_file)", "cells[0](no_file)"),
    ],
)
def test_links_of_the_repository_lead_to_pages_of_the_site(link: str, shown: str) -> None:
    """A page's links, written for its place in the repository, are written for its place on the site."""
    assert repository.with_links(link, "CONTRIBUTING.md", "architecture/contributing.md") == shown


def entries(menu: list[Any]) -> Iterator[tuple[str, str]]:
    """Titles of a menu with their pages, at every depth."""
    for entry in menu:
        for title, page in entry.items() if isinstance(entry, dict) else ():
            yield from entries(page) if isinstance(page, list) else [(title, page)]


def title_of(page: Path) -> str:
    """The first heading of a page or a notebook."""
    found = re.search(r"(?m)^# (.+)$", page.read_text(encoding="utf-8")) if page.suffix == ".md" else None
    return found[1] if found else notebooks.title(page)


def test_a_page_has_one_title() -> None:
    """Its heading is what the menu and the lists of how-tos and of the gallery call it."""
    menu = yaml.safe_load((repository.ROOT / "mkdocs.yml").read_text(encoding="utf-8"))["nav"]
    named = [(title, DOCS / page) for title, page in entries(menu) if page != "index.md"]
    for index in (DOCS / "how_to/index.md", DOCS / "gallery/index.md"):
        links_of = re.findall(r"(?<!!)\[([^\]!]+)\]\(([^)]+\.(?:md|ipynb))\)", index.read_text(encoding="utf-8"))
        named += [(title, (index.parent / page).resolve()) for title, page in links_of]
    assert len(named) > 70
    assert [(title, title_of(page)) for title, page in named if title != title_of(page)] == []


def test_a_flowchart_of_imports_is_a_table() -> None:
    """An arrow is an entry of its room's row."""
    chart = '```mermaid\nflowchart TD\n  cli["cli/"]\n  page["page/"]\n  layer["layer/"]\n  cli --> page & layer\n```'
    assert repository.without_flowcharts(chart).splitlines()[-1] == "| `cli/` | `page/`, `layer/` |"


def test_what_a_broken_site_is(tmp_path: Path) -> None:
    """A missing file, a missing anchor and everything that is loaded from elsewhere are seen; a link to another site is free."""
    (tmp_path / "b.html").write_text("<h1 id='there'>b</h1>", encoding="utf-8")
    (tmp_path / "a.html").write_text(
        "<a href='b.html#there'></a><a href='https://example.org'></a><a href='b.html#gone'></a><a href='c.html'></a>"
        "<script src='https://example.org/x.js'></script><link rel='stylesheet' href='//example.org/x.css'>",
        encoding="utf-8",
    )
    assert [line.partition(" ")[2] for line in sorted(links.problems(tmp_path))] == [
        "-> b.html#gone: no such anchor",
        "-> c.html: no such file",
        "loads //example.org/x.css",
        "loads https://example.org/x.js",
    ]
