"""Controls of the toolbar: a view shows those that change what it draws, and no other."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from tests.page.screen import Builder, Screen, Shower
from tests.page.test_logit_view import LAYERS, attribution
from tests.page.test_scores import made
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable

pytestmark = pytest.mark.browser

TOKENS = tuple(f"t{i}" for i in range(20))
TOOLS = ("scope", "run", "ref", "ref-run", "layer", "cells", "range", "root", "each", "closer")
OFFERED = {
    "maps": {"scope", "ref", "layer", "cells", "range", "root", "each", "closer"},
    "heads": {"layer"},
    "all": {"cells", "range", "root"},
    "scores": {"layer"},
    "overview": {"range", "root", "closer"},
}
DRAWN = """() => { for (const node of document.querySelectorAll("[id^=ramp], [fill^='url(#ramp']")) { node.removeAttribute("id"); node.removeAttribute("fill"); }
    return document.querySelector('#figure').innerHTML + Array.from(document.querySelectorAll('#figure canvas'), (canvas) => canvas.toDataURL()).join(); }"""
MENU = "open => { document.querySelector('#colours').open = open; }"


@pytest.fixture
def with_heads(build: Builder) -> Callable[..., ContributionMaps]:
    """Maps with two heads of twenty tokens, from which on one can zoom in."""

    def make() -> ContributionMaps:
        maps = build(len(TOKENS), layers=range(LAYERS), tokens=TOKENS)
        cells = {scope: torch.stack([values, values.roll(1, -1).tril()], 1) for scope, values in maps.values.items()}
        return dataclasses.replace(maps, heads=HeadTable(cells, maps.layers, ("head 0", "head 1")))

    return make


def drawn(screen: Screen) -> str:
    """What the view has drawn, small maps too, which are painted a few at a time."""
    screen.settle()
    seen, now = "", str(screen.page.evaluate(DRAWN))
    while seen != now:
        screen.page.wait_for_timeout(120)
        seen, now = now, str(screen.page.evaluate(DRAWN))
    return now


def changes(screen: Screen, tool: str) -> bool:
    """Whether another value of a control makes another drawing; a list has one such value at least."""
    control = screen.page.locator(f"#{tool}")
    before = drawn(screen)
    if tool in ("root", "each", "closer"):
        control.click()
        return drawn(screen) != before
    script = "list => Array.from(list.options).filter((o) => !o.selected && !o.disabled).map((o) => o.value)"
    for value in reversed(control.evaluate(script)):
        control.select_option(value)
        if drawn(screen) != before:
            return True
    return False


@pytest.mark.parametrize("view", OFFERED)
def test_what_is_offered_changes_what_is_drawn(
    with_heads: Callable[..., ContributionMaps], show: Shower, view: str
) -> None:
    """Every control in sight changes the drawing; those that would not are not there."""
    beside = (made(TOKENS), attribution(TOKENS))
    screen = show(with_heads(), beside=beside, view=view, layer=0, query=5)
    screen.page.evaluate(MENU, True)
    assert {tool for tool in TOOLS if screen.page.locator(f"#{tool}").is_visible()} == OFFERED[view]
    for tool in sorted(OFFERED[view]):
        screen.go("#to=6")
        screen.go("#cells=none")
        screen.page.evaluate(MENU, True)
        assert changes(screen, tool), tool
    assert screen.problems == []
