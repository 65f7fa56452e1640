"""One of CircuitsVis's own components as a page of its own: its script from the wheel, tokens as data, nothing loaded."""

from string import Template
from typing import Any, Literal

from tl_ffblock.page.bundle import bundle
from tl_ffblock.page.document import policy, to_json

_PAGE = Template(
    '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="$policy">'
    '<title>CircuitsVis</title><style>$style</style></head><body><h1>$heading</h1><div id="view"></div>'
    '<script type="application/json" id="data">$data</script><script>$bundle</script><script>$start</script></body></html>'
)
_STYLE = "body{margin:12px;font:14px system-ui,sans-serif;background:#fff;color:#17202a}h1{font-size:15px}"
_START = """
const given = JSON.parse(document.getElementById("data").textContent);
document.querySelector("h1").textContent = given.heading;
document.title = given.heading;
CircuitsVis.render("view", CircuitsVis[given.component], given.properties);
"""


def component_page(
    component: Literal["AttentionPattern", "AttentionHeads"], properties: dict[str, Any], *, heading: str
) -> str:
    """A page with a component of CircuitsVis; tokens and heading reach it as data and cannot become markup.

    Raises:
        ModuleNotFoundError: if CircuitsVis is not installed.
    """
    script = bundle()
    return _PAGE.substitute(
        policy=policy([script, _START], _STYLE),
        style=_STYLE,
        heading="",
        data=to_json({"component": component, "properties": properties, "heading": heading}),
        bundle=script,
        start=_START,
    )
