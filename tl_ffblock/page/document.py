"""A self-contained page: template, style, scripts and data, with a strict content security policy; views are in assets/*_view.js."""

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

# Largest number of tokens for CircuitsVis: it draws three maps of 64 x 64 in one to two seconds (benchmarks/page.py).
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
    """HTML of a page without network access.

    Tokens are in the page as data only. The content security policy allows only the scripts of this function, by their hashes.

    Args:
        data: Data of the page.
        circuitsvis: Whether to offer CircuitsVis, for data with `circuitsvis` and square maps of up to `LARGEST` tokens (it draws every
            cell as an object). Its compressed bundle adds half a megabyte to the page, and runs on request.

    Raises:
        InputError: if numbers of a block do not fit its labels.
        ModuleNotFoundError: if CircuitsVis is offered and not installed.
    """
    offered = circuitsvis and data.circuitsvis and data.text.is_square(LARGEST)
    bundles = [bundle()] if offered else []
    return document("page.html", "Contribution maps", data.payload(), script_of(), style_of(), bundles)


def component_page(
    component: Literal["AttentionPattern", "AttentionHeads"], properties: dict[str, Any], *, heading: str
) -> str:
    """HTML of a page with a component of CircuitsVis. Tokens and heading are data and cannot become markup.

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
    """Script of the installed CircuitsVis, which defines a global of this name, for use inside a script element.

    The Python functions of CircuitsVis are not used: they request google.com at every display, and do not escape tokens.

    Raises:
        ModuleNotFoundError: if CircuitsVis is not installed, or has no bundle.
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
    """HTML of a page with the common head and its own body.

    Args:
        body: File of the body in `assets/`.
        title: Title of the window until the script sets another.
        payload: Data for the script.
        script: Script of the page.
        style: Style sheet of the page.
        bundles: Scripts of CircuitsVis that may run on request; they are compressed in the page.
    """
    head = Template(asset("head.html")).substitute(policy=policy([script, *bundles], style), title=title, style=style)
    deflated = [base64.b64encode(zlib.compress(script.encode("utf-8"), 9)).decode("ascii") for script in bundles]
    lying = (f'<script type="text/plain" id="circuitsvis-bundle">{script}</script>' for script in deflated)
    scripts = "".join(lying) + f"<script>{script}</script>"
    return head + Template(asset(body)).substitute(data=to_json(payload), scripts=scripts)


def to_json(payload: dict[str, Any]) -> str:
    """JSON text that cannot close or open a script element, with any tokens."""
    text = json.dumps(payload, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def script_of() -> str:
    """Script of the page: the modules in assets/, bundled and minified (CONTRIBUTING.md)."""
    return asset("page.bundle.js").partition("\n")[2]


def style_of() -> str:
    """Style sheet of the page, minified (CONTRIBUTING.md)."""
    return asset("page.bundle.css").partition("\n")[2]


def policy(scripts: list[str], style: str) -> str:
    """Content security policy that allows exactly these scripts and this style, and loads nothing."""
    allowed = " ".join(_hash(script) for script in scripts)
    return f"default-src 'none'; script-src {allowed}; style-src {_hash(style)}; img-src data:; base-uri 'none'; form-action 'none'"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode('utf-8')).digest()).decode('ascii')}'"


def asset(name: str) -> str:
    """Text of a file in assets/."""
    return (files("tl_ffblock.page") / "assets" / name).read_text(encoding="utf-8")
