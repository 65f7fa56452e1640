"""Runs functions of the page's modules in Node, where there is no document."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tl_ffblock.page import document
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.views.maps import page_data

ASSETS = Path(document.__file__).parent / "assets"
NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")

HELPERS = """
const open = async (selection = {}) => {
  const data = openData(given.payload);
  for (let run = 0; run < data.runs.length; run++) for (const key of data.channels.keys()) await data.load(run, key);
  return { data, selection: changed(data, openingSelection(data), selection) };
};
const scened = async (selection) => { const { data, selection: whole } = await open(selection); return sceneOf(data, whole); };
const plain = (numbers) => Array.from(numbers, (value) => (Number.isNaN(value) ? null : value));
"""

IMPORTS = re.compile(r'^(?:import|\}) .*from "\./(\w+)\.js";$', re.MULTILINE)


def imports() -> dict[str, list[str]]:
    """By module, those that it imports."""
    paths = sorted({*ASSETS.glob("*.js")} - {*ASSETS.glob("*.bundle.js")})
    return {path.stem: IMPORTS.findall(path.read_text(encoding="utf-8")) for path in paths}


def without_document() -> list[str]:
    """Modules that can be read where there is no document: those that do not import what draws."""
    known, left = {"svg", "place"}, imports()
    while drawing := {name for name, names in left.items() if name in known or known & {*names}}:
        known |= drawing
        left = {name: names for name, names in left.items() if name not in known}
    return list(left)


MODULES = "\n".join(
    f"Object.assign(globalThis, await import({json.dumps((ASSETS / f'{name}.js').as_uri())}));"
    for name in without_document()
)


def run(body: str, **given: Any) -> Any:
    """What the body of an async function returns, with `given` in sight, through JSON."""
    code = f"{MODULES}\nconst given = {json.dumps(given)};\n{HELPERS}\n(async () => {{ {body} }})().then((result) => console.log(JSON.stringify(result)));"
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-"], input=code, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def payload(maps: ContributionMaps, **options: Any) -> dict[str, Any]:
    """A result's page as its scripts get it."""
    return page_data({"run": maps}, **options).payload()
