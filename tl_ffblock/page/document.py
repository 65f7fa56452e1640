"""One self-contained page: template, style, scripts and data, under a strict content policy."""

import base64
import hashlib
from importlib.resources import files
from string import Template

from tl_ffblock.page.bundle import LARGEST, circuitsvis
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.page_data import payload, to_json

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


def page(maps: ContributionMaps, *, layer: int | None = None, scope: str | None = None) -> str:
    """One HTML page of a result that asks nothing of any network.

    CircuitsVis draws the maps where it is fast enough (square maps of up to 32 tokens), a canvas of
    the page's own draws larger ones. Tokens reach the page as data only: the content policy lets no
    script run but those put here, each named by its hash.

    Args:
        maps: What to show.
        layer: Layer to open at; default is the one the step changed most.
        scope: Step to open at, named by the scope it ends in; default is the feed-forward block.

    Raises:
        InputError: if `layer` or `scope` is not in the result.
        ModuleNotFoundError: if CircuitsVis is needed and not installed.
    """
    data = payload(maps, layer=layer, scope=scope)
    bundle = circuitsvis() if _suits_circuitsvis(maps) else None
    data["circuitsvis"] = {"version": bundle.version if bundle else None, "largest": LARGEST}
    scripts = [bundle.script] if bundle else []
    scripts.append("(() => {\n'use strict';\n" + "\n".join(_asset(f"{name}.js") for name in SCRIPTS) + "\n})();")
    style = _asset("page.css")
    return Template(_asset("page.html")).substitute(
        policy=_policy(scripts, style),
        style=style,
        data=to_json(data),
        scripts="\n".join(f"<script>{script}</script>" for script in scripts),
    )


def _suits_circuitsvis(maps: ContributionMaps) -> bool:
    """Its component draws square maps only, and every cell as an object of its own."""
    return len(maps.tokens) <= LARGEST and maps.queries == tuple(range(len(maps.tokens)))


def _policy(scripts: list[str], style: str) -> str:
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def _asset(name: str) -> str:
    return (files("tl_ffblock.page") / "assets" / name).read_text(encoding="utf-8")
