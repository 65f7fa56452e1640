"""Views of heads: lines between tokens, and every layer and head as a small map."""

import dataclasses
from collections.abc import Mapping

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import bridge_of
from tests.page.screen import Builder, Screen, Shower
from tl_ffblock.results.token_maps import TokenMaps

pytestmark = pytest.mark.browser
INK = """() => { const canvas = document.querySelector('.lines canvas');
    const image = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    let inked = 0; for (let at = 3; at < image.length; at += 4) inked += image[at] > 60; return inked; }"""


TOUCHED = """() => { const canvas = document.querySelector('.lines canvas'), scale = canvas.width / canvas.clientWidth;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const inked = (label, x) => { const y = Number(label.getAttribute('y')) - Number(label.getAttribute('font-size')) * 0.35;
        const { data } = copy.getImageData(Math.round(x * scale), Math.round((y - 2) * scale), 1, Math.round(4 * scale));
        return data.some((value, at) => at % 4 === 3 && value > 10); };
    const ends = { start: [], end: [] }, counts = { start: 0, end: 0 };
    for (const label of document.querySelectorAll('.line-token')) {
        const anchor = label.getAttribute('text-anchor'), x = Number(label.getAttribute('x')) + (anchor === 'end' ? 28 : -28);
        if (inked(label, x)) ends[anchor].push(counts[anchor]);
        counts[anchor] += 1; }
    return [ends.end, ends.start]; }"""
"""Which rows and which columns have a line's end beside them, in the picture itself."""


def planted_heads(n: int, layers: int, heads: int, tokens: tuple[str, ...] | None = None) -> TokenMaps:
    """Head k of every layer looks k positions back, and at nothing else."""
    values = torch.zeros(layers, heads, n, n)
    for head in range(heads):
        rows = torch.arange(n)
        values[:, head, rows, (rows - head).clamp(min=0)] = 1.0
    return TokenMaps(
        values=values,
        tokens=tokens or tuple(f"t{i}" for i in range(n)),
        layers=tuple(range(layers)),
        channels=tuple(f"head {head}" for head in range(heads)),
        queries=tuple(range(n)),
        causal=True,
        model="planted",
        kind="attention",
    )


def opened(show: Shower, maps: TokenMaps, address: str, width: int = 1000) -> Screen:
    """The page of token maps at an address."""
    screen = show(html=maps.to_html(), address=address, width=width)
    screen.settle()
    return screen


def test_lines_are_the_attention_of_the_chosen_heads(show: Shower) -> None:
    """Fewer heads, less ink; a token's label selects it; hostile tokens are text; nothing sticks out on a phone."""
    tokens = ("<img src=x onerror=window.x=1>", *(f"t{i}" for i in range(1, 8)))
    screen = opened(show, planted_heads(8, 2, 3, tokens), "#view=heads&layer=1")
    assert screen.page.locator(".line-token").count() == 16
    everyone = screen.page.evaluate(INK)
    screen.page.locator("button.head").nth(1).click(modifiers=["Shift"])
    screen.settle()
    alone = screen.page.evaluate(INK)
    assert 0 < alone < everyone
    assert screen.page.evaluate("location.hash").endswith("heads=1")
    screen.page.locator(".line-token").nth(5).click()
    screen.settle()
    assert screen.page.locator(".chip[aria-selected=true] bdi").inner_text() == "t5"
    screen.page.set_viewport_size({"width": 360, "height": 800})
    screen.page.wait_for_timeout(200)
    screen.settle()
    assert screen.overflow() <= 0 and screen.page.evaluate("window.x") is None
    assert screen.problems == []


def test_all_heads_are_small_maps_that_open(show: Shower) -> None:
    """One cell a layer and head, all painted, each different from its neighbour; a click opens the map at its number."""
    screen = opened(show, planted_heads(9, 3, 4), "#view=all")
    screen.page.locator(".grid-cell canvas").nth(11).wait_for()
    pictures = screen.page.evaluate("Array.from(document.querySelectorAll('.grid-cell canvas'), (c) => c.toDataURL())")
    assert len(pictures) == 12 and len(set(pictures[:4])) == 4 and pictures[0] == pictures[4]
    screen.page.locator(".grid-cell").nth(6).click()
    screen.settle()
    assert (screen.selection()["layer"], screen.selection()["scope"]) == ("1", "head 2")
    tip = screen.hover("only", 7, 5, (9, 9))
    assert tip["numbers"]["weight"] == ["1"]
    assert screen.problems == []


def test_a_chosen_head_stands_out_among_all(show: Shower) -> None:
    """The others are pale, on the page and in its file; of lines there are its own alone; Escape lets go, and no head chosen is none pale."""
    pale = "Array.from(document.querySelectorAll('.grid-line:nth-child(2) .grid-cell'), (cell) => Number(getComputedStyle(cell).opacity) < 0.5)"
    maps = planted_heads(6, 2, 3)
    screen = show(html=maps.to_html(view="all", layer=1, channel="head 2"))
    screen.settle()
    assert screen.page.evaluate(pale) == [True, True, False]
    assert screen.page.locator(".grid-head.chosen").all_inner_texts() == ["2"]
    assert screen.save("svg")[1].decode().count('fill-opacity="0.7"') == 2
    screen.page.locator(".rail rect[data-channel='head 1']").first.click()
    screen.settle()
    assert screen.page.evaluate(pale) == [True, False, True]
    screen.page.keyboard.press("Escape")
    screen.settle()
    assert screen.page.evaluate(pale) == [False] * 3 and screen.page.locator(".grid-head.chosen").count() == 0
    lines = show(html=maps.to_html(view="heads", layer=1, channel="head 2"))
    lines.settle()
    assert lines.page.evaluate(TOUCHED) == [list(range(6)), list(range(4))]
    assert show(html=maps.to_html()).page.evaluate(pale) == [False] * 3
    assert screen.problems == [] and lines.problems == []


@pytest.mark.parametrize("n", [2, 300])
def test_lines_of_short_and_long_texts(show: Shower, n: int) -> None:
    """Of two tokens as of three hundred every row and every column that has a line shows its end."""
    screen = opened(show, planted_heads(n, 1, 2), "#view=heads&heads=1")
    assert screen.page.evaluate(TOUCHED) == [list(range(n)), list(range(n - 1))]  # one back, the first at itself
    assert screen.overflow() <= 0 and screen.problems == []


def test_twelve_by_twelve_heads_of_a_long_text_stay_small() -> None:
    """144 heads at 128 tokens that look both ways: below 4 MB."""
    scores = torch.randn(12, 12, 128, 128, generator=torch.Generator().manual_seed(0))
    noisy = dataclasses.replace(planted_heads(128, 12, 12), values=scores.softmax(-1), causal=False)
    assert len(noisy.to_html()) < 4e6


def test_contributions_by_head_have_the_same_views(build: Builder, show: Shower) -> None:
    """A result with heads shows their lines, the residual's only when asked; the block can be chosen; without heads there are no such views."""
    from tl_ffblock.results.tables import HeadTable

    maps = build(5)
    heads = {scope: torch.stack([values, 0.5 * values], 1) for scope, values in maps.values.items()}
    screen = show(dataclasses.replace(maps, heads=HeadTable(heads, maps.layers, ("head 0", "residual"))))
    screen.see("heads")
    screen.page.locator("#figure select").select_option("Atb by head")
    screen.settle()
    assert screen.page.evaluate(INK) > 0
    pressed = "Array.from(document.querySelectorAll('button.head'), (button) => button.getAttribute('aria-pressed'))"
    assert screen.page.evaluate(pressed) == ["true", "false"]
    assert screen.page.locator(".bar-line").first.inner_text().startswith("head 0")
    assert show(build(5)).page.locator("#views button").all_inner_texts() == ["Overview", "Maps"]
    assert screen.problems == []


def test_experts_of_a_layer_are_shown(show: Shower) -> None:
    """The card has the cell through each expert, largest first, and their maps can be chosen; scopes before the feed-forward have none."""
    maps = ffb.contribution_maps(bridge_of("mixtral"), tiny.tokens("mixtral", 6), experts=True)
    screen = show(maps, layer=1, address="#to=5&from=2&scope=AtbLnFf")
    screen.page.locator(".bar-line").first.wait_for()
    assert "Through each expert" in screen.page.locator("#card").inner_text()
    shown = [line.split("\n") for line in screen.page.locator(".bar-line").all_inner_texts()]
    through = maps.experts["AtbLnFf", 1][:, 5, 2]
    order = through.argsort(descending=True, stable=True)[:6]
    assert [name for name, *_ in shown][:2] == [maps.experts.channels[at] for at in order[:2]]
    assert [float(line[-1]) for line in shown] == pytest.approx(through[order].tolist(), rel=6e-3)
    groups = screen.page.locator("#scope optgroup").evaluate_all("all => all.map((one) => one.label)")
    assert groups[:2] == ["contributions", "AtbLnFf by expert"] and "Atb by expert" not in groups
    screen.choose(scope="AtbLnFf by expert: expert 1", ref="")
    assert screen.page.locator("#where-title").inner_text() == "Layers and experts"
    assert screen.problems == [] and screen.page.get_by_role("tab", name="Heads", exact=True).count() == 0


def test_twelve_heads_and_the_residual_have_colours_of_their_own(build: Builder, show: Shower) -> None:
    """The residual of twelve heads had that of head 0."""
    from tl_ffblock.results.tables import HeadTable

    maps = build(3)
    heads = {scope: torch.stack([values] * 13, 1) for scope, values in maps.values.items()}
    names = (*(f"head {head}" for head in range(12)), "residual")
    screen = show(dataclasses.replace(maps, heads=HeadTable(heads, maps.layers, names)), view="heads")
    inks = screen.page.locator("button.head").evaluate_all(
        "all => all.map((one) => one.style.getPropertyValue('--head'))"
    )
    assert len(inks) == len(set(inks)) == 13


PAIR = ("[CLS]", "<b>x</b>", "it", "[SEP]", "so", "on", "[SEP]")
HOSTILE = "<img src=x onerror=window.x=1>"
FIRST, SECOND = [0, 1, 2, 3], [4, 5, 6]


def both_ways() -> TokenMaps:
    """Every token of `PAIR` looks at itself, at the token four before it and at the token four behind it."""
    eye = torch.eye(7)
    values = (eye + eye.roll(4, 1).triu(1) + eye.roll(-4, 1).tril(-1))[None, None]
    return dataclasses.replace(planted_heads(7, 1, 1, PAIR), values=values, causal=False)


def offered(screen: Screen) -> list[str]:
    """The pairs of segments that can be chosen, as addresses have them."""
    script = "Array.from(document.querySelectorAll('[aria-label=\"lines between segments\"] option'), (o) => o.value)"
    return list(screen.page.evaluate(script))


@pytest.mark.parametrize("segments", [None, {"A": 0, HOSTILE: 4}], ids=["by separators", "named"])
def test_lines_of_two_sentences_are_told_apart(show: Shower, segments: Mapping[str, int] | None) -> None:
    """Each choice shows its lines and no other, counted by hand; names are text; the address keeps the choice."""
    screen = show(html=both_ways().to_html(view="heads", segments=segments))
    screen.settle()
    assert offered(screen) == ["", "0-0", "0-1", "1-0", "1-1"]
    chosen = {
        "": ([*FIRST, *SECOND], [*FIRST, *SECOND]),
        "0-0": (FIRST, FIRST),
        "0-1": ([0, 1, 2], SECOND),  # 0 looks at 4, 1 at 5, 2 at 6; 3 has nobody four behind it
        "1-0": (SECOND, [0, 1, 2]),
        "1-1": (SECOND, SECOND),
    }
    for between, ends in chosen.items():
        screen.page.get_by_label("lines between segments").select_option(between)
        screen.settle()
        assert tuple(screen.page.evaluate(TOUCHED)) == ends, between
    assert screen.page.evaluate("location.hash") == "#between=1-1"
    screen.page.reload()
    screen.settle()
    assert tuple(screen.page.evaluate(TOUCHED)) == chosen["1-1"]
    assert screen.page.evaluate("window.x") is None and screen.problems == []


def test_a_prompt_takes_nothing_from_what_it_generated(show: Shower) -> None:
    """In a causal model there is no such choice, and an address that asks for it shows all lines; nor is there any of one segment."""
    html = planted_heads(6, 1, 3).to_html(view="heads", segments={"prompt": 0, "generated": 4})
    screen = show(html=html, address="#between=0-1")
    screen.settle()
    assert offered(screen) == ["", "0-0", "1-0", "1-1"]
    assert screen.page.evaluate(TOUCHED) == [list(range(6)), list(range(6))]
    screen.go("#between=1-0")  # heads 1 and 2 look one and two back: 4 at 3 and 2, 5 at 3
    assert screen.page.evaluate(TOUCHED) == [[4, 5], [2, 3]]
    assert offered(opened(show, planted_heads(6, 1, 3), "#view=heads")) == []
    assert screen.problems == []
