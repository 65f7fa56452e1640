"""Files of every view: what is seen as SVG, PNG and CSV, with a headline and a caption; hostile tokens are text in them."""

import base64
import csv
import dataclasses
import io
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping

import pytest
import torch

from tests.page.screen import Builder, Screen, Shower
from tests.page.test_browser import HOSTILE
from tests.page.test_heads import planted_heads
from tests.page.test_logit_view import LAYERS, attribution
from tests.page.test_scores import made

pytestmark = pytest.mark.browser

SVG = "{http://www.w3.org/2000/svg}"
SENT = dict(rel=4e-4)  # packing 1e-4, five digits in the file


def opened(show: Shower, html: str, address: str) -> Screen:
    """A page at an address, with the tools for figures open."""
    screen = show(html=html, address=address)
    screen.settle()
    screen.page.locator("#figure-mode").click()
    screen.settle()
    return screen


def drawing(screen: Screen) -> ElementTree.Element:
    """The SVG of what is seen; its headline is the page's, and it holds nothing that could run."""
    _, content = screen.save("svg")
    root = ElementTree.fromstring(content)
    words = " ".join(text.text or "" for text in root.findall(f"{SVG}text"))
    assert screen.page.locator("#headline").inner_text()[:40] in words
    assert not {node.tag for node in root.iter() if node.tag.endswith(("script", "img", "foreignObject"))}
    return root


def table(screen: Screen) -> list[dict[str, str]]:
    """The CSV of what is seen."""
    _, content = screen.save("csv")
    return list(csv.DictReader(io.StringIO(content.decode())))


def ink(screen: Screen) -> Mapping[str, int]:
    """Of the PNG of what is seen: its width, and how many of its pixels are coloured."""
    _, content = screen.save("png")
    script = """async (bytes) => {
        const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
        const context = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
        context.drawImage(image, 0, 0);
        const { data } = context.getImageData(0, 0, image.width, image.height);
        let coloured = 0;
        for (let at = 0; at < data.length; at += 4) coloured += Math.max(data[at], data[at + 1], data[at + 2]) - Math.min(data[at], data[at + 1], data[at + 2]) > 40;
        return coloured;
    }"""
    return {
        "width": struct.unpack(">I", content[16:20])[0],
        "coloured": int(screen.page.evaluate(script, list(content))),
    }


def size_of(root: ElementTree.Element) -> tuple[float, float]:
    """Width and height of a drawing in pixels."""
    return float(root.attrib["width"]), float(root.attrib["height"])


@pytest.mark.parametrize("view", ["maps", "overview"])
def test_slides_are_no_wider_than_what_is_drawn(build: Builder, show: Shower, view: str) -> None:
    """Of one map, or of few layers, nothing is left white to the right or below; its words are wrapped to it. Paper keeps its widths."""
    screen = opened(show, build(9, layers=range(6), causal=False).to_html(view=view), "")
    screen.page.locator("#figure-size").select_option("slide")
    if view == "maps":
        screen.page.locator("#figure-maps").select_option("after")
    root = drawing(screen)
    width, height = size_of(root)
    assert 420 <= width < 1100 and height <= 720
    frames = [float(frame.attrib["x"]) + float(frame.attrib["width"]) for frame in root.iter(f"{SVG}rect")]
    inside = max(edge for edge in frames if edge < width - 8)
    assert inside > 0.8 * width, "frames and strips come near the edge"
    for size, paper in (("column", 326), ("page", 672)):
        screen.page.locator("#figure-size").select_option(size)
        assert size_of(drawing(screen))[0] == paper


def test_a_column_of_paper_holds_thirty_layers(build: Builder, show: Shower) -> None:
    """With heads and neurons below the streams the file is no higher than nine inches."""
    tokens = tuple(f"t{at}" for at in range(9))
    result = attribution(tokens)
    screen = opened(show, build(9, tokens=tokens, layers=range(LAYERS)).to_html(beside=result, view="overview"), "")
    screen.page.locator("#figure-size").select_option("column")
    few = size_of(drawing(screen))[1]
    parts = {"heads": result.heads.repeat(10, 1, 1), "edges": result.edges.repeat(10, 1, 1, 1)}
    rows = torch.cat([result.residual[:1].expand(30, -1), result.residual[-1:]])
    deep = dataclasses.replace(result, residual=rows, parts=parts, bias_layers=(0, 30))
    screen = opened(show, deep.to_html(), "")
    screen.page.locator("#figure-size").select_option("column")
    assert few < size_of(drawing(screen))[1] <= 9 * 96 + 1
    assert screen.problems == []


@pytest.mark.parametrize(("read", "marked"), [("row", "the row of “t4”"), ("column", "the column of “t2”")])
def test_files_mark_what_the_headline_speaks_of(build: Builder, show: Shower, read: str, marked: str) -> None:
    """In every map of the file a frame goes round the line that is read and one round the cell; of cells of few pixels arrows point at both."""
    screen = opened(show, build(6, causal=False).to_html(view="maps"), f"#to=4&from=2&read={read}")
    for group in drawing(screen).findall(f"{SVG}g"):
        cells = [node for node in group.findall(f"{SVG}rect") if node.get("shape-rendering")][: 6 * 6]
        (marks,) = group.findall(f"{SVG}g[@class='marks']")
        frames = [[float(rect.get(name, 0)) for name in ("x", "y", "width", "height")] for rect in marks]
        row = [[float(cells[4 * 6 + c].get(name, 0)) for name in ("x", "y", "width", "height")] for c in range(6)]
        column = [[float(cells[r * 6 + 2].get(name, 0)) for name in ("x", "y", "width", "height")] for r in range(6)]
        line = row if read == "row" else column
        for (x, y, width, height), inside in zip(frames, (line, [row[2]]), strict=True):
            assert x == pytest.approx(inside[0][0], abs=2) and y == pytest.approx(inside[0][1], abs=2)
            assert x + width == pytest.approx(inside[-1][0] + inside[-1][2], abs=2)
            assert y + height == pytest.approx(inside[-1][1] + inside[-1][3], abs=2)
    assert f"Marked: {marked} and the cell from “t2” to “t4”." in screen.page.locator("#caption").inner_text()
    screen = opened(show, build(300, layers=(0,), causal=False).to_html(view="maps"), f"#to=4&from=2&read={read}")
    for group in drawing(screen).findall(f"{SVG}g"):
        (marks,) = group.findall(f"{SVG}g[@class='marks']")
        assert [node.tag for node in marks] == 2 * [f"{SVG}polygon"]
    assert screen.problems == []


def test_lines_of_heads_are_saved(show: Shower) -> None:
    """A curve for each line in its head's colour, a legend of the heads that are shown, and their numbers as a table."""
    n, tokens = 6, ("=1+1", "<img src=x onerror=window.x=1>", *"abcd")
    maps = planted_heads(n, 2, 3, tokens)
    screen = opened(show, maps.to_html(), "#view=heads&layer=1&heads=1.2&to=4&from=3")
    headline = "Layer 1, from “b” to “c”: head 1 has the largest weight of the 2 shown: 1."
    assert screen.page.locator("#headline").inner_text() == headline
    assert screen.page.locator("#caption").inner_text().startswith(headline)
    root = drawing(screen)
    curves = [path.get("stroke") for path in root.iter(f"{SVG}path") if "C" in str(path.get("d"))]
    assert sorted(set(curves)) == ["#009f81", "#e20134"] and len(curves) == 2 * n
    assert [text.text for text in root.findall(f"{SVG}g")[0].findall(f"{SVG}text")] == ["head 1", "head 2"]
    rows = table(screen)
    assert len(rows) == n * (n + 1) // 2 and rows[0]["key_token"] == "'=1+1"
    for row in rows:
        query, key = int(row["query"]), int(row["key"])
        assert [float(row[f"head {head} weight"]) for head in (1, 2)] == pytest.approx(
            maps.values[1, 1:, query, key].tolist(), **SENT
        )
    picture = ink(screen)
    screen.page.locator("button.head").nth(1).click(modifiers=["Shift"])
    screen.settle()
    assert picture["width"] > 1500 and 0 < ink(screen)["coloured"] < picture["coloured"]
    assert screen.page.evaluate("window.x") is None and screen.problems == []


def test_all_heads_are_saved(show: Shower) -> None:
    """One framed map a layer and head, dark where the head looks; every layer's numbers stand in the table."""
    n, maps = 5, planted_heads(5, 3, 4, HOSTILE[:5])
    screen = opened(show, maps.to_html(), "#view=all&cells=none&range=all")
    (group,) = drawing(screen).findall(f"{SVG}g")
    cells = [node for node in group.findall(f"{SVG}rect") if node.get("fill") != "none"]
    assert len(cells) == 3 * 4 * n * n and len(group.findall(f"{SVG}rect")) == len(cells) + 12
    dark = [at for at, node in enumerate(cells[n * n : 2 * n * n]) if node.get("fill") == "#003f5c"]
    assert dark == [0, *(row * n + row - 1 for row in range(1, n))]
    rows = table(screen)
    assert len(rows) == 3 * n * (n + 1) // 2 and {row["layer"] for row in rows} == {"0", "1", "2"}
    assert all(float(row[f"head {head} weight"]) in (0, 1) for row in rows for head in range(4))
    assert ink(screen)["coloured"] > 1000
    assert screen.page.evaluate("window.x") is None and screen.problems == []


DARK = """async (bytes) => {
    const image = await createImageBitmap(new Blob([new Uint8Array(bytes)]));
    const context = Object.assign(document.createElement("canvas"), { width: image.width, height: image.height }).getContext("2d");
    context.drawImage(image, 0, 0);
    const { data } = context.getImageData(0, 0, image.width, image.height);
    const columns = Array.from({ length: image.width }, (_, column) => column);
    return Array.from({ length: image.height }, (_, row) => columns.filter((column) => data[4 * (row * image.width + column)] < 10));
}"""
"""Of a PNG, the columns of each row's dark pixels."""


def test_no_cell_is_lost_in_files_of_many_small_maps(show: Shower) -> None:
    """Of cells below a pixel an SVG has a pixel each; of cells below a PNG's pixel the strongest is shown, so that no line is blank."""
    n, heads = 300, 12
    screen = opened(show, planted_heads(n, 1, heads).to_html(), "#view=all&cells=none&range=all")
    root = drawing(screen)
    pictures = list(root.iter(f"{SVG}image"))
    assert len(pictures) == heads and float(pictures[0].get("width", n)) < n / 3
    sent = base64.b64decode(pictures[1].get("href", "").partition(",")[2])
    assert screen.page.evaluate(DARK, list(sent)) == [[max(0, row - 1)] for row in range(n)]
    _, content = screen.save("png")
    scale = struct.unpack(">I", content[16:20])[0] / float(root.get("width", 0))
    group = next(node for node in root.findall(f"{SVG}g") if node.find(f"{SVG}image") is not None)
    across, down = map(float, group.get("transform", "")[len("translate(") : -1].split())
    x, y, width, height = (float(pictures[1].get(name, 0)) for name in ("x", "y", "width", "height"))
    rows = screen.page.evaluate(DARK, list(content))[
        round((down + y + 9) * scale) : round((down + y + height + 7) * scale)
    ]
    left, right = (across + x + 8) * scale, (across + x + width + 8) * scale
    assert all(any(left - 2 < column < right for column in row) for row in rows) and len(rows) < n


def test_scores_are_saved(show: Shower) -> None:
    """The query, keys and products as cells, the numbers beside them; in the table a key's products sum to its score."""
    scores = made(tuple(HOSTILE[:6]))
    screen = opened(show, scores.to_html(layer=2), "#view=scores&to=4&from=1&scope=head%203")
    assert screen.page.locator("#headline").inner_text().startswith("Layer 2, head 3: “<s>”"[:18])
    (group,) = drawing(screen).findall(f"{SVG}g")
    assert len([node for node in group.findall(f"{SVG}rect") if node.get("fill") != "none"]) == 8 + 2 * 6 * 8 + 2 * 5
    rows = table(screen)
    assert [int(row["key"]) for row in rows] == list(range(5))
    for row in rows:
        key = int(row["key"])
        products = [float(row[f"product {dimension}"]) for dimension in range(8)]
        assert products == pytest.approx(scores.products(2, 3, 4, key).tolist(), rel=4e-4, abs=1e-6)
        assert sum(products) == pytest.approx(float(row["score"]), rel=2e-3, abs=2e-4)
        assert float(row["weight"]) == pytest.approx(float(scores.pattern[1, 1, 4, key]), **SENT)
    assert ink(screen)["coloured"] > 1000
    assert screen.page.evaluate("window.x") is None and screen.problems == []
