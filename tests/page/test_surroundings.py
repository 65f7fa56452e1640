"""The page where it is read: narrow and wide, dark, in high contrast, on paper, in notebooks, with CircuitsVis."""

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.integration.test_results import RESULTS, made
from tests.page.screen import Builder, Screen, Shower
from tests.page.test_logit_view import attribution
from tests.page.test_overview import html_of, of_length
from tests.page.test_pictures import PAGES
from tl_ffblock.page import iframe

pytestmark = pytest.mark.browser

BOXES = "Array.from(document.querySelectorAll('.panel'), (panel) => { const box = panel.getBoundingClientRect(); return [box.left, box.top, box.right, box.bottom]; })"


@pytest.mark.parametrize("n", [9, 128])
def test_nothing_sticks_out_of_the_page(build: Builder, show: Shower, n: int) -> None:
    """From a phone to a wide screen, its menu open, the page is no wider than its window, and maps do not overlap."""
    tokens = tuple("unusually-long-token" * 3 if i == 4 else f"t{i}" for i in range(n))
    screen = show(build(n, tokens=tokens, model="a-model-with-a-very-long-name" * 3), width=350)
    screen.page.locator("#colours summary").click()
    for width in (350, 380, 640, 700, 1000, 1400, 2200):
        screen.page.set_viewport_size({"width": width, "height": 900})
        screen.page.wait_for_timeout(120)
        screen.settle()
        assert screen.overflow() <= 0, width
        menu = screen.page.locator("#colours .menu").bounding_box()
        assert menu["x"] >= 0 and menu["x"] + menu["width"] <= width
        boxes = screen.page.evaluate(BOXES)
        for i, (left, top, right, bottom) in enumerate(boxes):
            assert left >= 0 and right <= width
            assert all(b[0] >= right or b[1] >= bottom or b[2] <= left or b[3] <= top for b in boxes[i + 1 :])
    assert screen.problems == []


PAPER = 900
"""Pixels that a printed page is drawn wide; A4 portrait between margins of 12 mm shrinks them to 0.78 of their size."""


@pytest.mark.parametrize("n", [9, 41, 130])
def test_paper_holds_the_difference_and_the_colours(build: Builder, show: Shower, n: int) -> None:
    """On A4 portrait the maps are on the first of two sheets, nothing is cut, colours are printed, and a dark screen prints on white."""
    screen = show(build(n, layers=range(12)), width=1400, context={"color_scheme": "dark"})
    assert screen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 31)"
    paper = screen.page.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b", paper)) <= 2
    screen.settle()
    screen.page.set_viewport_size({"width": PAPER, "height": 1000})
    screen.page.emulate_media(media="print")
    screen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    boxes = screen.page.evaluate(BOXES)
    sheet = PAPER * (297 - 24) / (210 - 24)
    seen = 3 if n < 60 else 1  # of a long text the change alone
    assert len(boxes) == seen and all(box[0] >= 0 and box[2] <= PAPER and box[3] <= sheet for box in boxes)
    assert boxes[0][1] == boxes[-1][1] and screen.overflow() <= 0
    canvas = screen.page.locator(".panel[data-role=difference] .cells canvas")
    assert canvas.evaluate("canvas => [canvas.width, canvas.height]") == [n, n]
    assert screen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert screen.page.evaluate("getComputedStyle(document.querySelector('.chip')).printColorAdjust") == "exact"
    assert screen.page.locator(".toolbar").is_hidden() and screen.page.locator("#headline").is_visible()
    assert screen.page.locator("button:visible").evaluate_all("all => all.every((one) => one.className === 'plain')")
    screen.page.emulate_media(media="screen")
    screen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert screen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 31)"
    assert screen.page.locator(".toolbar").is_visible() and screen.problems == []


def test_print_without_colour_tells_negative_from_positive(build: Builder, show: Shower) -> None:
    """Gain and loss are equally light: in print and in files for paper negative bands, heads and chips are striped, on the screen none."""
    screen = show(html=html_of(build, 9, "target"))
    screen.settle()
    page, striped = screen.page, "document.querySelectorAll('.logit > svg > rect[fill=\"url(#negative)\"]').length"
    result = attribution(of_length(build, 9).tokens)
    chips = "Array.from(document.querySelectorAll('.attributed .chip'), (chip) => getComputedStyle(chip).backgroundImage !== 'none')"
    assert page.evaluate(striped) == 0 and not any(page.evaluate(chips))
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    heads = result.heads.sum(dim=-1)
    fewest = int((heads < -0.05 * heads.abs().max()).sum()) + int((result.residual < -0.5).sum())
    assert page.evaluate(striped) >= fewest > 0
    assert page.evaluate(chips) == (result.token_attributions < 0).tolist()
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(striped) == 0
    for size, there in (("page", True), ("screen", False)):
        if page.locator("#figure-tools").is_hidden():
            page.locator("#figure-mode").click()
            screen.settle()
        page.locator("#figure-size").select_option(size)
        assert ('fill="url(#negative)"' in screen.save("svg")[1].decode()) == there
    assert screen.problems == []


def test_high_contrast_keeps_colours_and_choices(build: Builder, show: Shower) -> None:
    """In forced colours the sentence keeps its own, and what is pressed has an outline."""
    screen = show(build(6), context={"forced_colors": "active"})
    screen.page.locator("#read").click()
    screen.settle()
    assert screen.page.evaluate("getComputedStyle(document.getElementById('read')).outlineStyle") == "solid"
    colours = (
        "new Set(Array.from(document.querySelectorAll('.chip'), (chip) => getComputedStyle(chip).backgroundColor)).size"
    )
    assert screen.page.evaluate(colours) > 2
    covers = (
        "Array.from(document.querySelectorAll('.panel > svg'), (drawing) => getComputedStyle(drawing).backgroundColor)"
    )
    assert set(screen.page.evaluate(covers)) == {"rgba(0, 0, 0, 0)"}  # the cells' canvas lies below


@pytest.mark.parametrize("width", [640, 830, 1000])
@pytest.mark.parametrize("n", [9, 41])
@pytest.mark.parametrize("of", ["text", "target", "two runs with heads"])
def test_a_frame_shows_the_overview_alone(build: Builder, show: Shower, width: int, n: int, of: str) -> None:
    """No higher than 640 pixels, in thirty layers too, with heads below the streams; the rest is a click away."""
    tokens = of_length(build, n).tokens
    html = build(n, tokens=tokens, layers=range(30)).to_html() if of == "text" else html_of(build, n, of)
    screen = show(html=f"<!doctype html><body>{iframe(html)._repr_html_()}", width=width)
    frame = screen.page.frame_locator("iframe")
    frame.locator("body[data-state=drawn]").wait_for()
    screen.page.wait_for_timeout(200)
    assert screen.page.locator("iframe").bounding_box()["height"] <= 640
    assert frame.locator(".logit").is_visible() and frame.locator("#why").is_hidden()


def test_a_notebook_frame_grows_with_its_page_and_tells_the_selection(build: Builder, show: Shower) -> None:
    """The frame is as high as the page, compact until asked, reaches nothing, saves files, and posts what is selected."""
    view = iframe(build(6).to_html(view="maps"), height=300)
    listen = "<script>window.got = []; addEventListener('message', (event) => got.push(event.data));</script>"
    screen = show(html=f"<!doctype html><body>{listen}{view._repr_html_()}", width=900)
    frame = screen.page.frame_locator("iframe")
    frame.locator("body[data-state=drawn]").wait_for()
    screen.page.wait_for_timeout(200)
    height = screen.page.locator("iframe").bounding_box()["height"]
    assert height == pytest.approx(frame.locator("body").evaluate("body => body.scrollHeight"), abs=6)
    assert frame.locator("#why").is_hidden() and frame.locator(".panel").count() == 3
    frame.locator("#more").click()
    frame.locator("#why").wait_for()
    screen.page.wait_for_timeout(300)
    assert screen.page.locator("iframe").bounding_box()["height"] > height + 100
    frame.locator(".chip").nth(5).click()
    screen.page.wait_for_timeout(300)
    told = [
        m["selection"] for m in json.loads(screen.page.evaluate("JSON.stringify(got)")) if m["tlFfblock"] == "selection"
    ]
    assert told[-1]["query"] == 5
    frame.locator("#figure-mode").click()
    with screen.page.expect_download() as download:
        frame.locator("#save-png").click()
    assert download.value.suggested_filename.endswith(".png")
    assert [url for url in screen.requests if not url.startswith(("file:", "about:", "data:", "blob:"))] == []
    assert screen.problems == []


def test_the_close_up_is_printed_below_the_overview(build: Builder, show: Shower) -> None:
    """Of 41 tokens, 30 layers and a target it ends on the first sheet, which was half empty; lists are short, so that two sheets do."""
    n, layers = 41, 30
    tokens, draw = tuple(f"token{at}" for at in range(n)), torch.Generator().manual_seed(0)
    flows = torch.rand(layers + 1, n, generator=draw)
    parts = {
        "heads": torch.randn(layers, 9, n, generator=draw),
        "edges": torch.randn(layers, 9, n, n, generator=draw).tril(),
    }
    fields: dict[str, Any] = dict(residual=flows, tokens=flows[0], bias_layers=(0, layers), parts=parts)
    target = dataclasses.replace(attribution(tokens), **fields)
    maps = build(n, tokens=tokens, layers=range(layers))
    screen = show(maps, view="overview", beside=(target,), context={"viewport": {"width": 1280, "height": 900}})
    paper = screen.page.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b", paper)) == 2
    screen.settle()
    screen.page.set_viewport_size({"width": PAPER, "height": 900})
    screen.page.emulate_media(media="print")
    screen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    box = screen.page.locator(".close-up").bounding_box()
    assert box["y"] + box["height"] < PAPER * (297 - 24) / (210 - 24)
    assert screen.page.locator("#pair-list tbody tr").count() == 25
    assert "the first 25 of" in screen.page.locator("#pairs-note").inner_text()


@pytest.mark.parametrize("view", ["overview", "maps"])
def test_a_very_long_token_takes_little_room(build: Builder, show: Shower, view: str) -> None:
    """Of 300 letters the headline has the beginning, card and list an ellipsis; files and tooltip have them all."""
    tokens = ("a", "x" * 300, "b", "\U0001f469\u200d\U0001f469\u200d\U0001f467" * 100)
    screen = show(build(4, tokens=tokens, causal=False), view=view, layer=0, query=1, width=1280)
    screen.go(f"#to=1&from=3&layer=0&view={view}")
    said = screen.page.locator("#headline").text_content()
    assert said.count("x") == 47 and "x…”" in said and "\U0001f467…”" in said
    high = "(selector) => Math.max(...Array.from(document.querySelectorAll(selector), (node) => node.getBoundingClientRect().height))"
    assert screen.page.evaluate(high, ".card h3") < 45 and screen.page.evaluate(high, "#pair-list tbody tr") < 45
    assert screen.page.evaluate(high, ".profile tr") < 25 and screen.overflow() <= 0
    assert tokens[3].encode() in screen.save("csv")[1]


def test_circuitsvis_draws_when_asked(build: Builder, show: Shower) -> None:
    """Its bundle is unpacked at the press of a button and draws the three maps, tokens as text; larger maps do not carry it."""
    screen = show(build(6, tokens=("<img src=x onerror=window.x=1>", *"abcde")))
    assert screen.page.evaluate("typeof CircuitsVis") == "undefined"
    screen.page.locator("#circuitsvis-place button").click()
    screen.page.locator("#circuitsvis-place[data-drawn] canvas").nth(2).wait_for()
    assert screen.page.locator("#circuitsvis-place figure").count() == 3
    assert screen.page.evaluate("window.x") is None and screen.page.locator("img").count() == 0
    assert screen.problems == [] and len(screen.requests) == 1
    assert '<script type="text/plain"' not in build(65, layers=(0,), scopes=("Atb",)).to_html()


@pytest.mark.parametrize("kind", ["pattern", "heads", "token maps"])
def test_a_circuitsvis_view_stands_alone(build: Builder, show: Shower, kind: str) -> None:
    """`to_circuitsvis` draws with the component's own names, offline; a hostile token is text."""
    from tl_ffblock.results.tables import HeadTable

    maps = build(4, tokens=("</script><img src=x onerror=window.x=1>", "b", "c", "d"))
    heads = {scope: values[:, None].expand(-1, 2, -1, -1) for scope, values in maps.values.items()}
    maps = build(4, tokens=maps.tokens, heads=HeadTable(heads, maps.layers, ("head 0", "residual")))
    view = maps.token_maps().to_circuitsvis(1) if kind == "token maps" else maps.to_circuitsvis("Atb", 1, kind=kind)
    screen = show(html=view.html)
    screen.page.locator("#view canvas").first.wait_for()
    assert screen.page.evaluate("window.x") is None and screen.page.locator("img").count() == 0
    assert screen.problems == [] and len(screen.requests) == 1


OVERLAPS = """() => Array.from(document.querySelectorAll(".panel"), (panel) => {
    const texts = Array.from(panel.querySelectorAll("text")).filter((node) => node.textContent && !node.closest("[visibility=hidden]"));
    const title = texts.find((node) => node.textContent.startsWith("from (source"));
    const box = title.getBoundingClientRect();
    const meets = (other) => other.left < box.right - 1 && other.right > box.left + 1 && other.top < box.bottom - 1 && other.bottom > box.top + 1;
    return texts.filter((node) => node !== title && meets(node.getBoundingClientRect())).map((node) => node.textContent);
})"""


@pytest.mark.parametrize("n", [4, 9, 41])
def test_long_tokens_leave_the_axis_title_alone(build: Builder, show: Shower, n: int) -> None:
    """Names of columns end below "from (source, key)", at every width, however long the first token is, in bold too."""
    tokens = ("capitalise", *(f"W{i}" for i in range(n - 1)))
    screen = show(build(n, tokens=tokens, causal=False), address="#from=0", width=380)
    for width in (380, 1000, 1400, 2200):
        screen.page.set_viewport_size({"width": width, "height": 900})
        screen.page.wait_for_timeout(200)
        screen.settle()
        assert screen.page.evaluate(OVERLAPS) == [[], [], []], width


AXE = Path(__file__).parents[2] / "node_modules/axe-core/axe.min.js"


needs_axe = pytest.mark.skipif(not AXE.is_file(), reason="axe-core is not installed: npm ci")


def grave_findings(screen: Screen) -> list[Any]:
    """What axe finds in each view of a page, critical or serious: view, rule, places."""
    screen.page.locator("body[data-state=drawn]").wait_for(timeout=60_000)
    screen.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = []
    views = screen.page.evaluate(VIEWS)
    for view in views if len(views) > 1 else [""]:
        if view:
            screen.see(view)
        screen.page.evaluate("document.querySelectorAll('details').forEach((menu) => { menu.open = true; })")
        violations = screen.page.evaluate("axe.run(document, { resultTypes: ['violations'] })")["violations"]
        found += [
            (view, each["impact"], each["id"], [node["html"][:90] for node in each["nodes"]]) for each in violations
        ]
    return [finding for finding in found if finding[1] in ("critical", "serious") or finding[2] in EASY]


EASY = ("region", "heading-order")
"""Rules of less weight that the pages keep, too: everything lies in a landmark, headings leave out no level."""
VIEWS = """() => [...Array.from(document.querySelectorAll("#views [data-view]"), (tab) => tab.dataset.view),
    ...Array.from(document.querySelectorAll("#further option[value]:not([value=''])"), (option) => option.value)]"""
"""The views of a page: tabs, and those of the list of further ones."""


@needs_axe
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing_critical_or_serious(show: Shower, name: str) -> None:
    """Contrast, names and roles, landmarks, order of headings, of every view of every kind of page, light and dark."""
    html = PAGES[name]()
    for scheme in ("light", "dark"):
        screen = show(html=html, width=1280, context={"color_scheme": scheme})
        screen.page.locator("body[data-state=drawn]").wait_for(timeout=60_000)
        for button in ("#help-mode", "#figure-mode"):
            screen.page.locator(button).click()
        assert grave_findings(screen) == [], scheme


@needs_axe
@pytest.mark.slow
@pytest.mark.parametrize("name", RESULTS)
def test_axe_finds_nothing_on_the_page_of_any_result(show: Shower, name: str) -> None:
    """Of each class of results one, in all its views."""
    assert grave_findings(show(html=made(name).to_html())) == []
