"""The page's script is its modules joined: the joined one is of the modules of now, and these are sound by themselves."""

import dataclasses
import hashlib
import shutil
import subprocess
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from tests.page import data_types
from tests.page.node import ASSETS, NODE, imports
from tests.page.screen import Builder
from tl_ffblock.page import PageStart, PageText, document
from tl_ffblock.views.maps import page_data

ROOT = Path(__file__).parents[2]
BUNDLES = sorted(ASSETS.glob("*.bundle.*"))
SOURCES = sorted({*ASSETS.glob("*.js"), *ASSETS.glob("*.css")} - {*BUNDLES})
needs_tools = pytest.mark.skipif(
    NODE is None or not (ROOT / "node_modules").is_dir(), reason="Node or its packages are not installed: npm ci"
)


def digest(sources: list[Path]) -> str:
    """Of the names and texts of modules and style sheet, as tests/page/bundle.mjs writes it into the joined script and the small sheet."""
    read = hashlib.sha256()
    for path in sources:
        read.update(f"{path.name}\n".encode() + path.read_bytes())
    return read.hexdigest()


def stale(bundle: Path, sources: list[Path]) -> bool:
    """Whether a joined script or sheet is of other sources."""
    return bundle.read_text(encoding="utf-8").partition("\n")[0] != f"/* sources {digest(sources)} */"


@pytest.mark.parametrize("bundle", BUNDLES, ids=lambda path: path.name)
def test_the_script_is_of_the_modules_of_now(bundle: Path, tmp_path: Path) -> None:
    """Whoever changes a module or the sheet writes both anew; a change of one letter, or a module more, is noticed without Node."""
    assert not stale(bundle, SOURCES), "npm ci && npm run build"
    for path in SOURCES:
        shutil.copy(path, tmp_path)
    copies = sorted(tmp_path.iterdir())
    assert not stale(bundle, copies)
    for changed in (copies[3], tmp_path / "page.css"):
        before = changed.read_text(encoding="utf-8")
        changed.write_text(before + " ", encoding="utf-8")
        assert stale(bundle, copies)
        changed.write_text(before, encoding="utf-8")
    assert stale(bundle, copies[1:])


def test_every_module_is_in_a_script() -> None:
    """Each is imported by another, but for those that scripts begin with, and none imports one that imports it."""
    imported = imports()
    assert sum(map(len, imported.values())) > 100
    starts = {path.name.removesuffix(".bundle.js") for path in BUNDLES if path.suffix == ".js"}
    assert set(imported) - {name for names in imported.values() for name in names} == starts
    TopologicalSorter(imported).prepare()


def test_a_script_can_stand_in_a_page() -> None:
    """In strict mode, without what would end its element; nor does the style hold such, or ask for anything."""
    script, style = document.script_of(), document.style_of()
    assert not any(part in style for part in ("</", "<!--", "url(", "@import", "/*"))
    assert script.startswith('"use strict";') and "</script" not in script and "<!--" not in script


@needs_tools
@pytest.mark.parametrize("check", ["types", "lint"])
def test_modules_pass_the_checks_of_their_language(check: str) -> None:
    """TypeScript's of types, ESLint's of habits."""
    done = subprocess.run(["npm", "run", "-s", check], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@needs_tools
def test_the_modules_give_the_script() -> None:
    """Joined anew, they give the committed script and style, byte for byte."""
    command = [str(NODE), "tests/page/bundle.mjs", "--print"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=120)
    assert done.stdout == b"".join(path.read_bytes() for path in BUNDLES)


def test_types_are_those_of_what_is_sent(build: Builder) -> None:
    """The scripts' types are written from the dataclasses of now, and a page has just these fields."""
    assert data_types.WRITTEN.read_text(encoding="utf-8") == data_types.text()
    payload = page_data({"run": build(3)}).payload()
    (_, _, run), (_, _, sent) = data_types.SENT
    text = {field.name for field in dataclasses.fields(PageText)}
    assert set(payload) == text | set(sent) and set(payload["runs"][0]) == set(run)
    start = {data_types.RENAMED.get(field.name, field.name) for field in dataclasses.fields(PageStart)}
    assert set(payload["start"]) == start
    with pytest.raises(TypeError, match="no page is made of it"):
        data_types.written(set)
