"""A page's selection, back in Python."""

import json
import sys

import pytest

from tests.page.screen import Builder, Shower

MODEL = """import widget from "data:text/javascript;base64,%s";
const held = %s;
window.saved = [];
window.listeners = [];
const model = { get: (name) => held[name], set: (name, value) => { held[name] = value; }, save_changes: () => saved.push(held.selection) };
model.on = (name, listen) => { window.listeners.push([name, listen]); };
model.off = (name, listen) => { window.listeners = window.listeners.filter(([, other]) => other !== listen); };
window.change = (page) => { held.page = page; window.listeners.forEach(([name, listen]) => name === "change:page" && listen()); };
window.remove = widget.render({ model, el: document.body });"""


@pytest.mark.browser
def test_the_widget_has_what_is_selected_in_its_page(build: Builder, show: Shower) -> None:
    """At first where the page opens, then what is clicked; another page is drawn in its place; nothing is heard when it is gone."""
    pytest.importorskip("anywidget", reason="anywidget is not installed (extra widget)")
    from base64 import b64encode

    maps = build(5, causal=False)
    widget = maps.show(layer=1, query=3).widget()
    assert widget.selection == {} and widget.height == 820
    held = {name: getattr(widget, name) for name in ("page", "title", "height", "most")}
    script = b64encode(str(widget._esm).encode()).decode()
    code = MODEL % (script, json.dumps(held).replace("<", "\\u003c"))
    screen = show(html=f"<!doctype html><body><script type=module>{code}</script>", width=900)
    frame = screen.page.frame_locator("iframe")
    frame.locator("body[data-state=drawn]").wait_for()
    frame.locator(".chip").nth(4).click()
    frame.locator(".chip[aria-selected=true] bdi", has_text="t4").wait_for()
    screen.page.wait_for_timeout(200)
    first, *_, last = screen.page.evaluate("saved")
    assert (first["layer"], first["query"], first["scope"]) == (1, 3, "AtbLnFf") and last["query"] == 4
    assert screen.page.locator("iframe").bounding_box()["height"] != 820
    screen.page.evaluate("(page) => change(page)", maps.show(layer=0, query=2).html)
    frame.locator(".chip[aria-selected=true] bdi", has_text="t2").wait_for()
    screen.page.wait_for_timeout(200)
    told = len(screen.page.evaluate("saved"))
    screen.page.evaluate("window.remove()")
    assert screen.page.evaluate("listeners") == []
    frame.locator(".chip").nth(2).click()
    screen.page.wait_for_timeout(200)
    assert len(screen.page.evaluate("saved")) == told and screen.problems == []


def test_without_anywidget_the_error_names_it(build: Builder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything else of a view works without it."""
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(ModuleNotFoundError, match="pip install anywidget"):
        build(3).show().widget()
