"""The page where it is read: narrow and wide, dark, in high contrast, on paper, in notebooks, with CircuitsVis."""

import dataclasses
import json
import re

import pytest

from tests.page.screen import Builder, Shower
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


@pytest.mark.parametrize("high", [700, 1000])
def test_a_map_alone_is_no_higher_than_the_window(build: Builder, show: Shower, high: int) -> None:
    """Names of columns and the last of 130 rows are seen together, and its cells take most of the height."""
    screen = show(build(130, layers=(0,), scopes=("Atb", "AtbLn")), width=1400)
    screen.page.set_viewport_size({"width": 1400, "height": high})
    screen.go("#panel=after")
    panel, cells = (screen.page.locator(place).bounding_box() for place in (".panel", ".panel .cells"))
    assert panel["height"] <= high and cells["height"] >= 0.55 * high
    screen.page.locator(".enlarge").click()
    screen.settle()
    assert screen.page.locator(".panel").count() == 3


PAPER = 900
"""Pixels that a printed page is drawn wide; A4 portrait between margins of 12 mm shrinks them to 0.78 of their size."""


@pytest.mark.parametrize("n", [9, 41, 130])
def test_paper_holds_the_difference_and_the_colours(build: Builder, show: Shower, n: int) -> None:
    """On A4 portrait all three maps are on the first of two sheets, nothing is cut, colours are printed, and a dark screen prints on white."""
    screen = show(build(n, layers=range(12)), width=1400, context={"color_scheme": "dark"})
    assert screen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 31)"
    paper = screen.page.pdf(format="A4", prefer_css_page_size=True)
    assert len(re.findall(rb"/Type /Page\b", paper)) == 2
    screen.settle()
    screen.page.set_viewport_size({"width": PAPER, "height": 1000})
    screen.page.emulate_media(media="print")
    screen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    boxes = screen.page.evaluate(BOXES)
    sheet = PAPER * (297 - 24) / (210 - 24)
    assert len(boxes) == 3 and all(box[0] >= 0 and box[2] <= PAPER and box[3] <= sheet for box in boxes)
    assert boxes[0][1] == boxes[2][1] and screen.overflow() <= 0
    canvas = screen.page.locator(".panel[data-role=difference] .cells canvas")
    assert canvas.evaluate("canvas => [canvas.width, canvas.height]") == [n, n]
    assert screen.page.locator("#biography svg").evaluate("drawing => drawing.clientWidth") <= PAPER
    assert screen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert screen.page.evaluate("getComputedStyle(document.querySelector('.chip')).printColorAdjust") == "exact"
    assert screen.page.locator(".toolbar").is_hidden() and screen.page.locator("#headline").is_visible()
    assert screen.page.locator("button:visible").evaluate_all("all => all.every((one) => one.className === 'plain')")
    screen.page.emulate_media(media="screen")
    screen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert screen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 25, 31)"
    assert screen.page.locator(".toolbar").is_visible() and screen.problems == []


def test_all_heads_are_on_paper(show: Shower) -> None:
    """Small maps, which the screen paints a few at a time, are all there before the browser prints."""
    from tests.page.test_heads import planted_heads

    screen = show(html=planted_heads(40, 12, 12).to_html(), address="#view=all")
    screen.settle()
    screen.page.emulate_media(media="print")
    painted = "window.dispatchEvent(new Event('beforeprint')); document.querySelectorAll('.grid-cell canvas').length"
    assert screen.page.evaluate(painted) == 144 and screen.problems == []
    screen.page.emulate_media(media="screen")
    screen.page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    screen.go("#view=heads&heads=2.5")
    screen.page.emulate_media(media="print")
    shown = screen.page.locator("button.head:visible")
    assert shown.all_inner_texts() == ["2", "5"]  # what each colour is
    assert screen.page.locator("select:visible").count() == 0


def test_the_page_never_says_dark(build: Builder, show: Shower) -> None:
    """In the dark scheme what is much is bright: words of colour are true in both schemes."""
    maps = build(6, layers=(0, 1))
    screen = show(
        maps, beside=dataclasses.replace(maps.token_maps("Atb"), kind="attention"), context={"color_scheme": "dark"}
    )
    words = screen.page.locator("body").inner_text()
    assert "Strong colour: the step changed" in words and "Strongest: " in words
    screen.choose(scope="attention: Atb")
    assert "Strong colour: more comes from other tokens" in screen.page.locator("#where-note").inner_text()
    for text in (words, screen.page.locator("body").inner_text()):
        assert "dark" not in text.lower()


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
    covers = "Array.from(document.querySelectorAll('.panel > svg, .biography > svg'), (drawing) => getComputedStyle(drawing).backgroundColor)"
    assert set(screen.page.evaluate(covers)) == {"rgba(0, 0, 0, 0)"}  # the cells' canvas lies below


def test_a_notebook_frame_grows_with_its_page_and_tells_the_selection(build: Builder, show: Shower) -> None:
    """The frame is as high as the page, compact until asked, reaches nothing, saves files, and posts what is selected."""
    view = iframe(build(6).to_html(), height=300)
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


@pytest.mark.parametrize("kind", ["pattern", "heads"])
def test_a_circuitsvis_view_stands_alone(build: Builder, show: Shower, kind: str) -> None:
    """`to_circuitsvis` draws with the component's own names, offline; a hostile token is text."""
    from tl_ffblock.results.tables import HeadTable

    maps = build(4, tokens=("</script><img src=x onerror=window.x=1>", "b", "c", "d"))
    heads = {scope: values[:, None].expand(-1, 2, -1, -1) for scope, values in maps.values.items()}
    maps = build(4, tokens=maps.tokens, heads=HeadTable(heads, maps.layers, ("head 0", "residual")))
    screen = show(html=maps.to_circuitsvis("Atb", 1, kind=kind).html)
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


HEADS = """(host, names) => {
    const heads = host.querySelector(names).getBoundingClientRect();
    const shown = Array.from(host.querySelector(names).querySelectorAll("text")).filter((node) => node.textContent && !node.closest("[visibility=hidden]"));
    const first = shown.find((node) => node.textContent === "t0").getBoundingClientRect();
    return { top: heads.top, bottom: heads.bottom, name: [first.left + first.width / 2, first.top, first.bottom], over: document.elementFromPoint(first.left + first.width / 2, first.top + 4).closest(names) !== null };
}"""
"""Where the names of columns are, and whether they lie on top."""


@pytest.mark.parametrize("width", [380, 1400])
def test_names_of_columns_stay_while_a_map_is_scrolled(build: Builder, show: Shower, width: int) -> None:
    """Of 130 tokens they stand at the window's top as long as cells are below; pointing at them reads a column, below them the cell that is seen."""
    n = 130
    screen = show(build(n, layers=(0,), scopes=("Atb",), causal=False), width=width, address="#to=129&from=0")
    panel, box = screen.page.locator(".panel"), screen.page.locator(".panel .cells").bounding_box()
    still = panel.evaluate(HEADS, ".heads")
    assert still["bottom"] <= box["y"] and still["over"]
    label = panel.locator("svg:not(.heads svg) text").get_by_text("t0", exact=True).bounding_box()
    assert label["y"] + 2 >= still["bottom"]
    screen.page.evaluate("y => window.scrollTo(0, y)", box["y"] + box["height"] / 2)
    moved = panel.evaluate(HEADS, ".heads")
    assert moved["top"] == pytest.approx(0, abs=1) and moved["over"] and moved["name"][1] >= 0
    cells = screen.page.locator(".panel .cells").bounding_box()
    assert cells["y"] < 0 and moved["name"][0] == pytest.approx(cells["x"], abs=15)
    screen.page.mouse.move(cells["x"] + 1, moved["bottom"] - 3)
    assert screen.tooltip()["tokens"] == ["t0 (position 0)"]
    screen.page.mouse.move(cells["x"] + 1, moved["bottom"] + 6)
    row = int((moved["bottom"] + 6 - cells["y"]) / cells["height"] * n)
    assert screen.tooltip()["tokens"][0] == f"t{row} (position {row})"
    screen.page.mouse.click(cells["x"] + cells["width"] / 2, moved["bottom"] - 3)
    screen.settle()
    assert "read=column" in screen.page.evaluate("location.hash")
    assert screen.overflow() <= 0 and screen.problems == []


@pytest.mark.parametrize("width", [380, 1400])
def test_headings_of_lists_stay_while_they_are_scrolled(build: Builder, show: Shower, width: int) -> None:
    """Of the list of pairs; of all heads the heads' numbers above and the layers' beside; of scores the query."""
    from tests.page.test_heads import planted_heads
    from tests.page.test_scores import made

    tokens = tuple(f"t{i}" for i in range(130))
    screen = show(build(130, layers=(0, 2), causal=True), beside=made(tokens), width=width)
    listed = screen.page.locator("#pair-list")
    listed.evaluate("list => { list.scrollTop = 150; }")
    head, body = (screen.page.locator(f"#pair-list {part}").first.bounding_box() for part in ("thead th", "tbody tr"))
    assert head["y"] == pytest.approx(listed.bounding_box()["y"], abs=1) and body["y"] < head["y"] - 50
    screen.go("#view=scores&to=129")
    scores = screen.page.locator(".scores")
    screen.page.evaluate("y => window.scrollTo(0, y)", scores.bounding_box()["y"] + 700)
    assert scores.locator(".heads").bounding_box()["y"] == pytest.approx(0, abs=1)
    assert scores.locator(".heads text").first.text_content() == "t129 q"
    many = show(html=planted_heads(6, 40, 24).to_html(), address="#view=all", width=width)
    many.settle()
    grid = many.page.locator(".grid")
    grid.evaluate("grid => { grid.scrollTop = 9000; grid.scrollLeft = 9000; }")
    place = grid.bounding_box()
    assert min(grid.evaluate("grid => [grid.scrollTop, grid.scrollLeft + (innerWidth > 1000 ? 50 : 0)]")) >= 50
    assert many.page.locator(".grid-head").nth(20).bounding_box()["y"] == pytest.approx(place["y"], abs=8)
    assert many.page.locator(".grid-layer").nth(30).bounding_box()["x"] == pytest.approx(place["x"], abs=1)
    assert many.overflow() <= 0 and screen.problems == [] and many.problems == []
