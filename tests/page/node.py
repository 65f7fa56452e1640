"""Runs the page's scripts that know no document, in Node."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tl_ffblock.page.document import PURE, asset
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.views.maps import page_data

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


def run(body: str, **given: Any) -> Any:
    """What the body of an async function returns, with `given` in sight, through JSON."""
    scripts = "\n".join(asset(f"{name}.js") for name in PURE)
    code = f"{scripts}\nconst given = {json.dumps(given)};\n{HELPERS}\n(async () => {{ {body} }})().then((result) => console.log(JSON.stringify(result)));"
    done = subprocess.run(
        [str(NODE), "--input-type=module", "-"], input=code, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def payload(maps: ContributionMaps, **options: Any) -> dict[str, Any]:
    """A result's page as its scripts get it."""
    return page_data({"run": maps}, **options).payload()
