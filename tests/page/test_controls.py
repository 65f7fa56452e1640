"""Controls of the toolbar: a view shows those that change what it draws, and no other."""

import dataclasses
from collections.abc import Callable

import pytest
import torch

from tests.page.screen import Builder, Screen, Shower
from tests.page.test_heads import planted_heads
from tests.page.test_logit_view import LAYERS, attribution
from tests.page.test_scores import made
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable

pytestmark = pytest.mark.browser

TOKENS = tuple(f"t{i}" for i in range(8))
TOOLS = ("scope", "run", "ref", "ref-run", "layer", "cells", "range", "root", "each", "closer")
OFFERED = {
    "maps": {"scope", "ref", "layer", "cells", "range", "root", "each", "closer"},
    "heads": {"layer"},
    "all": {"cells", "range", "root"},
    "scores": {"layer"},
    "logit": {"layer", "range", "root", "closer"},
}
DRAWN = """() => { for (const node of document.querySelectorAll("[id^=ramp], [fill^='url(#ramp']")) { node.removeAttribute("id"); node.removeAttribute("fill"); }
    return document.querySelector('#figure').innerHTML + Array.from(document.querySelectorAll('#figure canvas'), (canvas) => canvas.toDataURL()).join(); }"""
MENU = "open => { document.querySelector('#colours').open = open; }"


@pytest.fixture
def with_heads(build: Builder) -> Callable[..., ContributionMaps]:
    """Maps with two heads of eight tokens."""

    def make() -> ContributionMaps:
        maps = build(8, layers=range(LAYERS), tokens=TOKENS)
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


def test_scales_that_end_alike_are_offered_once(with_heads: Callable[..., ContributionMaps], show: Shower) -> None:
    """In the view of a target no cell is a row's own: one of the two largest values is offered there, both in maps."""
    screen = show(with_heads(), beside=attribution(TOKENS))
    ends = "Array.from(document.querySelectorAll('#range option:not([hidden])'), (end) => end.textContent)"
    three = ["99th percentile", "largest of another token", "largest of all"]
    for address, expected in (
        ("#view=logit", [three[0], three[2]]),
        ("#view=logit&range=all", [three[0], three[2]]),
        ("#range=all", three),
    ):
        screen.go(address)
        assert screen.page.evaluate(ends) == expected
        assert screen.page.evaluate("document.querySelector('#range').selectedOptions[0].textContent") == three[2]
    assert screen.problems == []


def test_a_page_without_heads_says_how_to_have_them(
    build: Builder, with_heads: Callable[..., ContributionMaps], show: Shower
) -> None:
    """Of contributions without heads one line; none where heads are there, or can not be."""
    screen = show(build(4))
    assert "heads=True" in screen.page.locator("#views-hint").inner_text()
    screen.page.emulate_media(media="print")
    assert screen.page.locator("#views-hint").is_hidden()
    for html in (with_heads().to_html(), planted_heads(4, 1, 2).to_html(), (build(4) - build(4) * 2.0).to_html()):
        assert show(html=html).page.locator("#views-hint").is_hidden()


def test_lines_with_signs_have_the_colours_of_gain_and_loss(show: Shower) -> None:
    """Positive and negative lines of signed maps differ in colour as cells do, on the screen and in files, each with a legend; unsigned ones have heads' colours."""
    maps = planted_heads(6, 1, 2)
    maps.values[:, 1] *= -0.75
    signed = dataclasses.replace(maps, signed=True, kind="effect")
    screen = show(html=signed.to_html(), address="#view=heads&to=4")
    screen.settle()
    assert screen.page.locator(".signs").inner_text().split() == ["positive", "negative"]
    swatches = screen.page.locator(".swatch").evaluate_all(
        "all => all.map((node) => getComputedStyle(node).backgroundColor)"
    )
    assert swatches == ["rgb(179, 88, 6)", "rgb(106, 95, 192)"]
    _, svg = screen.save("svg")
    text = svg.decode()
    assert text.count('stroke="#b35806"') == 6 and text.count('stroke="#6a5fc0"') == 6
    assert ">positive<" in text and ">negative<" in text and ">head 0<" not in text
    assert ink(screen, [179, 88, 6]) > 50 and ink(screen, [106, 95, 192]) > 50
    screen.page.locator("button.head").nth(1).click()
    screen.settle()
    assert ink(screen, [106, 95, 192]) == 0 and ink(screen, [179, 88, 6]) > 50
    plain = show(html=maps.to_html(), address="#view=heads")
    plain.settle()
    assert plain.page.locator(".signs").count() == 0 and screen.problems == []


def ink(screen: Screen, colour: list[int]) -> int:
    """Pixels of the lines that have a colour, whatever their strength."""
    script = """(colour) => {
        const canvas = document.querySelector('.lines canvas');
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
        let count = 0;
        for (let at = 0; at < data.length; at += 4) count += data[at + 3] > 100 && colour.every((part, i) => Math.abs(part - data[at + i]) < 8);
        return count;
    }"""
    return int(screen.page.evaluate(script, colour))
