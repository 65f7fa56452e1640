"""One self-contained page: template, style, scripts and data, under a strict content policy; views are drawn in assets/*_view.js."""

import base64
import hashlib
import importlib.metadata
import json
import zlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Literal

from tl_ffblock.page.data import PageData

# Tokens up to which a page offers CircuitsVis: three maps of 64 x 64 take it a second or two (benchmarks/page.py).
LARGEST = 64
_COMPONENT = Template(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="$policy">'
    '<title>CircuitsVis</title><style>$style</style></head><body><h1></h1><div id="view"></div>'
    '<script type="application/json" id="data">$data</script><script>$bundle</script><script>$start</script></body></html>'
)
_COMPONENT_STYLE = "body{margin:12px;font:14px system-ui,sans-serif;background:#fff;color:#17202a}h1{font-size:15px}"
_COMPONENT_START = """
const given = JSON.parse(document.getElementById("data").textContent);
document.querySelector("h1").textContent = given.heading;
document.title = given.heading;
CircuitsVis.render("view", CircuitsVis[given.component], given.properties);
"""


def page(data: PageData, *, circuitsvis: bool = True) -> str:
    """One HTML page that asks nothing of any network.

    Tokens reach the page as data only: the content policy lets no script run but those put here, each named by its hash.

    Args:
        data: What is shown.
        circuitsvis: Whether maps that say so may be drawn by CircuitsVis, too, where they are square and of up to `LARGEST` tokens:
            it draws every cell as an object. The bundle then lies deflated in the page, runs when asked for, and adds half a megabyte.

    Raises:
        InputError: if a block's numbers do not fit the labels.
        ModuleNotFoundError: if CircuitsVis is asked for and not installed.
    """
    offered = circuitsvis and data.circuitsvis and data.text.is_square(LARGEST)
    bundles = [bundle()] if offered else []
    return document("page.html", "Contribution maps", data.payload(), script_of(), style_of(), bundles)


def component_page(
    component: Literal["AttentionPattern", "AttentionHeads"], properties: dict[str, Any], *, heading: str
) -> str:
    """A page with a component of CircuitsVis; tokens and heading reach it as data and cannot become markup.

    Raises:
        ModuleNotFoundError: if CircuitsVis is not installed.
    """
    script = bundle()
    return _COMPONENT.substitute(
        policy=policy([script, _COMPONENT_START], _COMPONENT_STYLE),
        style=_COMPONENT_STYLE,
        data=to_json({"component": component, "properties": properties, "heading": heading}),
        bundle=script,
        start=_COMPONENT_START,
    )


def bundle() -> str:
    """The script of the installed CircuitsVis, which defines a global of that name, ready to stand inside a script element.

    Its Python functions are not used: they ask google.com at every display and do not escape tokens.

    Raises:
        ModuleNotFoundError: if CircuitsVis is not installed or ships no bundle.
    """
    try:
        wheel = importlib.metadata.distribution("circuitsvis")
    except importlib.metadata.PackageNotFoundError as error:
        raise ModuleNotFoundError("drawing maps needs CircuitsVis: pip install circuitsvis") from error
    path = Path(str(wheel.locate_file("circuitsvis/dist/cdn/iife.js")))
    if not path.is_file():
        raise ModuleNotFoundError(f"CircuitsVis {wheel.version} has no {path}: install the wheel from PyPI.")
    script = path.read_text(encoding="utf-8").replace("</script", "<\\/script")
    return script.partition("//# sourceMappingURL=")[0]


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
    deflated = [base64.b64encode(zlib.compress(script.encode("utf-8"), 9)).decode("ascii") for script in bundles]
    lying = (f'<script type="text/plain" id="circuitsvis-bundle">{script}</script>' for script in deflated)
    scripts = "".join(lying) + f"<script>{script}</script>"
    return head + Template(asset(body)).substitute(data=to_json(payload), scripts=scripts)


def to_json(payload: dict[str, Any]) -> str:
    """JSON that cannot end or open a script element, whatever the tokens say."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_of() -> str:
    """The page's script: the modules beside it, joined and made small (CONTRIBUTING.md)."""
    return asset("page.bundle.js").partition("\n")[2]


def style_of() -> str:
    """The page's style: the sheet beside it, made small (CONTRIBUTING.md)."""
    return asset("page.bundle.css").partition("\n")[2]


def policy(scripts: list[str], style: str) -> str:
    """The content policy under which exactly these scripts and this style run, and nothing is loaded."""
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def asset(name: str) -> str:
    """A file of the page's own."""
    return (files("tl_ffblock.page") / "assets" / name).read_text(encoding="utf-8")
