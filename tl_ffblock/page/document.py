"""One self-contained page: template, style, scripts and data, under a strict content policy."""

import base64
import hashlib
import json
from importlib.resources import files
from string import Template
from typing import Any

from tl_ffblock.page.bundle import LARGEST, circuitsvis
from tl_ffblock.page.data import PageData

SCRIPTS = (
    "numbers",
    "colours",
    "views",
    "svg",
    "words",
    "layout",
    "figure",
    "cells",
    "pointing",
    "reading",
    "controls",
    "exports",
    "page",
)


def page(data: PageData) -> str:
    """One HTML page that asks nothing of any network.

    CircuitsVis draws the maps where it is fast enough (square maps of up to 32 tokens), a canvas of
    the page's own draws larger ones. Tokens reach the page as data only: the content policy lets no
    script run but those put here, each named by its hash.

    Raises:
        ModuleNotFoundError: if CircuitsVis is needed and not installed.
    """
    bundle = circuitsvis() if _suits_circuitsvis(data) else None
    drawn_by = {"version": bundle.version if bundle else None, "largest": LARGEST}
    scripts = [bundle.script] if bundle else []
    scripts.append("(() => {\n'use strict';\n" + "\n".join(_asset(f"{name}.js") for name in SCRIPTS) + "\n})();")
    style = _asset("page.css")
    return Template(_asset("page.html")).substitute(
        policy=_policy(scripts, style),
        style=style,
        data=to_json(data.payload() | {"circuitsvis": drawn_by}),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def to_json(payload: dict[str, Any]) -> str:
    """JSON that cannot end or open a script element, whatever the tokens say."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _suits_circuitsvis(data: PageData) -> bool:
    """Its component draws square maps only, and every cell as an object of its own."""
    return len(data.tokens) <= LARGEST and data.queries == tuple(range(len(data.tokens)))


def _policy(scripts: list[str], style: str) -> str:
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return (files("tl_ffblock.page") / "assets" / name).read_text(encoding="utf-8")
