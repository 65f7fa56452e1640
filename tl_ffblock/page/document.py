"""One self-contained page: template, style, scripts and data, under a strict content policy."""

import base64
import hashlib
import json
import zlib
from collections.abc import Sequence
from importlib.resources import files
from string import Template
from typing import Any

from tl_ffblock.page.bundle import LARGEST, bundle
from tl_ffblock.page.data import PageData

PURE = (
    "numbers",
    "text",
    "tables",
    "shares",
    "selection",
    "scene",
    "tracks",
    "ranking",
    "phrases",
    "csv",
    "logit",
    "colours",
)
"""Scripts that know no document: arithmetic, the selection, words."""
DRAWING = (
    "svg",
    "place",
    "layout",
    "cells",
    "furniture",
    "marks",
    "tooltip",
    "pointing",
    "maps_view",
    "biography_view",
    "where",
    "sentence",
    "card",
    "pairs_view",
    "circuitsvis_view",
    "controls",
    "heads_view",
    "heads_figure",
    "scores_view",
    "grid_view",
    "memory_view",
    "logit_view",
    "logit_card",
    "figure",
    "exports",
    "page",
)
SCRIPTS = PURE + DRAWING
"""In the order in which they stand on the page: each uses what scripts before it define, never after."""


def page(data: PageData, *, circuitsvis: bool = False) -> str:
    """One HTML page that asks nothing of any network.

    Tokens reach the page as data only: the content policy lets no script run but those put here, each named by its hash.

    Args:
        data: What is shown.
        circuitsvis: Whether its reader may have square maps of up to `LARGEST` tokens drawn by CircuitsVis too. The bundle then
            lies deflated in the page, runs when asked for, and adds half a megabyte.

    Raises:
        InputError: if a block's numbers do not fit the labels.
        ModuleNotFoundError: if CircuitsVis is asked for and not installed.
    """
    bundles = [bundle()] if circuitsvis and _is_square(data) else []
    return document("page.html", "Contribution maps", data.payload(), script_of(SCRIPTS), asset("page.css"), bundles)


def document(
    body: str, title: str, payload: dict[str, Any], script: str, style: str, bundles: Sequence[str] = ()
) -> str:
    """A page of ours: the head that all have, then a body of its own.

    Args:
        body: The body's file in `assets/`.
        title: The window's title until the script writes another.
        payload: What the script finds as data.
        script: The page's script.
        style: Its style.
        bundles: Scripts of CircuitsVis that may run when they are asked for; they lie deflated in the page.
    """
    head = Template(asset("head.html")).substitute(policy=policy([script, *bundles], style), title=title, style=style)
    lying = (f'<script type="text/plain" id="circuitsvis-bundle">{deflated(bundle)}</script>' for bundle in bundles)
    scripts = "".join(lying) + f"<script>{script}</script>"
    return head + Template(asset(body)).substitute(data=to_json(payload), scripts=scripts)


def _is_square(data: PageData) -> bool:
    """CircuitsVis draws square maps, and every cell as an object of its own."""
    n = len(data.text.words)
    return n <= LARGEST and data.text.queries == tuple(range(n))


def to_json(payload: dict[str, Any]) -> str:
    """JSON that cannot end or open a script element, whatever the tokens say."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def deflated(text: str) -> str:
    """Text as base64 of its deflated bytes, as the page's `inflate` reads it."""
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def script_of(names: Sequence[str]) -> str:
    """The script of a page: its files in order, in a scope of their own."""
    return "(() => {\n'use strict';\n" + "\n".join(asset(f"{name}.js") for name in names) + "\n})();"


def policy(scripts: list[str], style: str) -> str:
    """The content policy under which exactly these scripts and this style run, and nothing is loaded."""
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def asset(name: str) -> str:
    """A file of the page's own."""
    return (files("tl_ffblock.page") / "assets" / name).read_text(encoding="utf-8")
