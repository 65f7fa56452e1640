"""The page in a real browser with the network off."""

import csv
import io
import itertools
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import pytest
import torch

from tests.page.screen import Builder, Shower
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.page import iframe
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.measures import contextualization_change
from tl_ffblock.results.tokens import visible

pytestmark = pytest.mark.browser

SHOWN = dict(rel=5.2e-4)  # four significant digits on the screen: half a unit of the last of 1.000, and packing 1.5e-5
SENT = dict(rel=3.6e-5)  # packing 1.5e-5 (twice in a share), six digits in the file 5e-6
COLOUR = 6  # CircuitsVis mixes in rounded Lab, our ramp in exact Lab
DARKEST = {"contribution": [0x00, 0x3F, 0x5C], "gain": [0xB3, 0x58, 0x06], "loss": [0x44, 0x3A, 0x94]}
SIZES = pytest.mark.parametrize("n", [6, 40], ids=["circuitsvis", "canvas"])
TAGS = {"svg": "{http://www.w3.org/2000/svg}"}


def number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace("−", "-").replace("\u00a0%", "").replace(" %", ""))


def close(colour: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether two colours are the same up to rounding."""
    return all(abs(a - b) <= COLOUR for a, b in zip(colour, expected, strict=True))


def planted(maps: ContributionMaps, scope: str, query: int, key: int, value: float) -> ContributionMaps:
    """The same result with one value put in at every layer."""
    maps[scope][:, maps.queries.index(query), key] = value
    return maps


@SIZES
def test_the_page_asks_nothing_of_any_network(build: Builder, show: Shower, n: int) -> None:
    """Opening, hovering and changing layer and step request the page's own file and nothing else."""
    screen = show(build(n))
    screen.choose("layers", 1)
    screen.choose("steps", "Attn")
    screen.hover("only", 3, 1, (n, n))
    assert len(screen.requests) == 1 and screen.requests[0].startswith("file:")
    assert screen.problems == []


HOSTILE = (
    "</script><script>window.x=1</script>",
    "<img src=x onerror=window.x=1>",
    "<s>",
    "\n",
    "",
    "🙂",
    "שלום",
    "a\u200bb",
    "&lt;",
    " the",
    "${alert(1)}",
)


def test_hostile_tokens_are_text(build: Builder, show: Shower) -> None:
    """Script, markup, white space, zero-width and right-to-left tokens run nothing and are all there to read."""
    screen = show(build(len(HOSTILE), tokens=HOSTILE, model="<b onclick=x>"))
    n = len(HOSTILE)
    for position in range(n):
        screen.hover("before", n - 1, position, (n, n))
    assert screen.page.evaluate("window.x") is None
    assert screen.page.locator(".line[data-role=before] .chip").all_inner_texts() == [
        visible(token) for token in HOSTILE
    ]
    assert screen.page.locator("img, #figure script, b[onclick]").count() == 0
    assert screen.page.locator("#model").inner_text() == "<b onclick=x>"
    assert screen.problems == []


@SIZES
def test_the_tooltip_gives_the_numbers_of_the_maps(build: Builder, show: Shower, n: int) -> None:
    """Norm and share before, after and their difference are the result's own, to the digits shown."""
    maps = build(n)
    screen = show(maps, layer=1, scope="AtbLnFf")
    before, after = maps["AtbLn", 1], maps["AtbLnFf", 1]
    shares = [100 * m / m.sum(1, keepdim=True) for m in (before, after)]
    for query, key in ((3, 1), (5, 5), (n - 1, 0)):
        tip = screen.hover("difference", query, key, (n, n))
        assert tip["tokens"] == [f"t{query} (position {query})", f"t{key} (position {key})"]
        norms = [number(text) for text in tip["numbers"]["norm"]]
        parts = [number(text) for text in tip["numbers"]["share of row"]]
        assert norms[:2] == pytest.approx([float(before[query, key]), float(after[query, key])], **SHOWN)
        assert parts[:2] == pytest.approx([float(share[query, key]) for share in shares], **SHOWN)
        assert norms[2] == pytest.approx(float(after[query, key] - before[query, key]), abs=1e-3)


@SIZES
def test_a_planted_maximum_stands_at_its_row_and_column(build: Builder, show: Shower, n: int) -> None:
    """A value at query 3, key 1 is the darkest cell in row 3, column 1, is read there, and row 1, column 3 is not it."""
    maps = build(n, causal=False)
    for query, key, scope, other in ((3, 1, "AtbLnFf", "AtbLn"), (2, 4, "AtbLn", "AtbLnFf")):
        planted(planted(maps, scope, query, key, 9.0), other, query, key, 0.0)
    screen = show(maps, layer=0, scope="AtbLnFf")
    screen.choose("normalise", "none")
    assert close(screen.colour("after", 3, 1, (n, n)), DARKEST["contribution"])
    assert not close(screen.colour("after", 1, 3, (n, n)), DARKEST["contribution"])
    assert close(screen.colour("difference", 3, 1, (n, n)), DARKEST["gain"])
    assert close(screen.colour("difference", 2, 4, (n, n)), DARKEST["loss"])
    tip = screen.hover("after", 3, 1, (n, n))
    assert tip["tokens"] == ["t3 (position 3)", "t1 (position 1)"]
    assert number(tip["numbers"]["norm"][1]) == pytest.approx(9.0, **SHOWN)


@SIZES
def test_cells_have_the_colours_of_the_legend(build: Builder, show: Shower, n: int) -> None:
    """Both ways of drawing give every cell the colour of its value on the shown scale."""
    maps = build(n, causal=False)
    screen = show(maps, layer=0, scope="Attn")
    screen.choose("normalise", "none")
    screen.page.locator("#range").select_option("all")
    screen.settle()
    cells = maps["Attn", 0]
    ground, ink = torch.tensor([255.0, 255, 255]), torch.tensor([float(c) for c in DARKEST["contribution"]])
    darkness = []
    for column in range(6):
        share = float(cells[2, column] / cells.max())
        red, green, blue = screen.colour("only", 2, column, (n, n))
        assert all(
            min(a, b) - 12 <= c <= max(a, b) + 12 for a, b, c in zip(ground, ink, (red, green, blue), strict=True)
        )
        darkness.append((share, red + green + blue))
    assert [total for _, total in sorted(darkness)] == sorted((total for _, total in darkness), reverse=True)


@SIZES
@pytest.mark.parametrize("causal", [True, False])
def test_only_a_causal_model_has_cells_out_of_reach(build: Builder, show: Shower, n: int, causal: bool) -> None:
    """Above the diagonal a causal model's cells are hatched and named unreachable; a bidirectional one has all its cells."""
    screen = show(build(n, causal=causal))
    hatched = screen.page.evaluate(
        """n => Array.from(document.querySelectorAll('.panel'), (panel) => {
            const path = panel.querySelector('.unreachable');
            const box = panel.getBoundingClientRect(), cells = panel.querySelector('.cells').getBoundingClientRect();
            const inside = (row, column) => Boolean(path) && path.isPointInFill(new DOMPoint(
                cells.x - box.x + (column + 0.5) * cells.width / n, cells.y - box.y + (row + 0.5) * cells.height / n));
            return [inside(1, 3), inside(3, 1), inside(2, 2)];
        })""",
        n,
    )
    assert hatched == [[causal, False, False]] * 3
    assert ("Not reachable" in screen.hover("after", 1, 3, (n, n))["text"]) == causal


def test_every_layer_and_step_of_every_order_draws(build: Builder, show: Shower) -> None:
    """Each choice shows one map, or before, after and difference where the step has a before; nothing is complained of."""
    for order, steps in STEPS.items():
        screen = show(build(5, order=order, layers=(1, 4)))
        for layer, step in zip(itertools.cycle((1, 4)), steps):
            screen.choose("layers", layer)
            screen.choose("steps", step.scope)
            assert screen.page.locator(".panel").count() == (3 if step.before else 1)
            assert screen.page.locator(".plot").count() == 1
        assert screen.problems == []


@SIZES
def test_the_csv_holds_the_data(build: Builder, show: Shower, n: int) -> None:
    """Every reachable cell of both scopes with its tokens, and the bias of every row, as in the result."""
    maps = build(n, tokens=tuple(f'a"b,{i}' for i in range(n)))
    screen = show(maps, layer=1, scope="AtbLnFf")
    name, content = screen.save("csv")
    assert name == "tiny_layer1_AtbLn-AtbLnFf.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    cells = [row for row in rows if row["part"] == "token"]
    assert len(cells) == n * (n + 1) // 2 and len(rows) == len(cells) + n
    for row in cells:
        query, key = int(row["query"]), int(row["key"])
        assert (row["query_token"], row["key_token"]) == (maps.tokens[query], maps.tokens[key])
        for scope in ("AtbLn", "AtbLnFf"):
            assert float(row[scope]) == pytest.approx(float(maps[scope, 1][query, key]), **SENT)
        share = maps["AtbLn", 1][query, key] / maps["AtbLn", 1][query].sum()
        assert float(row["AtbLn_share_of_row"]) == pytest.approx(float(share), **SENT)
    biases = [float(row["AtbLnFf"]) for row in rows if row["part"] == "bias"]
    assert biases == pytest.approx(maps.bias["AtbLnFf", 1].tolist(), **SENT)


def test_the_svg_has_a_rectangle_for_every_cell(build: Builder, show: Shower) -> None:
    """The file parses, is inert, and its darkest cell stands where the maximum was planted."""
    maps = planted(build(6, causal=False), "Attn", 3, 1, 9.0)
    screen = show(maps, layer=0, scope="Attn")
    screen.choose("normalise", "none")
    name, content = screen.save("svg")
    root = ElementTree.fromstring(content)
    assert name == "tiny_layer0_Attn.svg" and root.tag == TAGS["svg"] + "svg"
    assert not list(root.iter(TAGS["svg"] + "script"))
    group = root.find(f"{TAGS['svg']}g")
    cells = group.findall(f"{TAGS['svg']}rect")[:36]
    dark = [cell for cell in cells if cell.get("fill") == "#003f5c"]
    columns, rows = (sorted({float(cell.get(axis)) for cell in cells}) for axis in "xy")
    places = {(rows.index(float(cell.get("y"))), columns.index(float(cell.get("x")))) for cell in dark}
    assert (3, 1) in places and (1, 3) not in places


@SIZES
def test_the_png_is_a_picture(build: Builder, show: Shower, n: int) -> None:
    """The file is a PNG of more than the maps' size, twice the resolution of the page."""
    screen = show(build(n))
    name, content = screen.save("png")
    assert name.endswith(".png") and content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    assert width > 600 and height > 500 and len(content) > 10_000


def test_a_choice_of_rows_shows_these_rows(build: Builder, show: Shower) -> None:
    """With a subset of queries, rows carry their own positions and columns cannot be normalised."""
    maps = build(12, queries=(2, 7, 11))
    screen = show(maps, layer=0, scope="AtbLnFf")
    tip = screen.hover("after", 1, 4, (3, 12))
    assert tip["tokens"] == ["t7 (position 7)", "t4 (position 4)"]
    assert number(tip["numbers"]["norm"][1]) == pytest.approx(float(maps["AtbLnFf", 0][1, 4]), **SHOWN)
    assert screen.page.locator("#normalise input[value=column]").is_disabled()


def test_a_choice_of_scopes_shows_single_maps(build: Builder, show: Shower) -> None:
    """A step whose before-scope is absent shows its own map alone."""
    screen = show(build(4, scopes=("Atb", "AtbLnFf")), scope="AtbLnFf")
    assert screen.page.locator(".panel").count() == 1
    assert screen.page.locator(".bar").count() == 0


def test_a_difference_shows_one_signed_map(build: Builder, show: Shower) -> None:
    """A difference of two results: one map a scope, both signs coloured, no bars, numbers with their sign."""
    one, two = build(6, causal=False), build(6, causal=False)
    planted(one, "Atb", 3, 1, 30.0)
    planted(two, "Atb", 1, 4, 30.0)
    screen = show(one - two, layer=0, scope="Atb")
    assert screen.page.locator(".panel").count() == 1 and screen.page.locator(".bar").count() == 0
    assert close(screen.colour("only", 3, 1, (6, 6)), DARKEST["gain"])
    assert close(screen.colour("only", 1, 4, (6, 6)), DARKEST["loss"])
    assert number(screen.hover("only", 1, 4, (6, 6))["numbers"]["norm"][0]) < 0


def test_a_click_reads_the_sentence_from_that_row(build: Builder, show: Shower) -> None:
    """Clicking a row marks its token and colours the others by that row; later tokens of a causal model stay plain."""
    maps = planted(build(6), "AtbLnFf", 4, 2, 50.0)
    screen = show(maps, layer=0, scope="AtbLnFf")
    screen.page.locator(".panel").first.scroll_into_view_if_needed()
    screen.page.mouse.click(*screen.point("before", 4, 1, (6, 6)))
    chips = screen.page.locator(".line[data-role=after] .chip")
    assert chips.nth(4).get_attribute("aria-selected") == "true"
    assert chips.nth(2).evaluate("chip => getComputedStyle(chip).backgroundColor") == "rgb(0, 63, 92)"
    assert "later" in chips.nth(5).get_attribute("class")


def test_the_keyboard_reads_cells(build: Builder, show: Shower) -> None:
    """Arrow keys on a focused map walk its cells, Enter pins the row, arrows on the layers change the layer."""
    screen = show(build(5, causal=False), layer=0)
    screen.page.locator(".panel[data-role=before]").focus()
    for _ in range(5):
        screen.page.keyboard.press("ArrowUp")
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        screen.page.keyboard.press(key)
    assert screen.tooltip()["tokens"] == ["t2 (position 2)", "t1 (position 1)"]
    screen.page.keyboard.press("Enter")
    assert screen.page.locator(".line[data-role=before] .chip[aria-selected=true]").inner_text() == "t2"
    screen.page.locator("#layers input").first.focus()
    screen.page.keyboard.press("ArrowRight")
    screen.settle()
    assert screen.page.locator("#layers input:checked").get_attribute("value") == "1"


def test_a_bar_leads_to_its_layer_and_step(build: Builder, show: Shower) -> None:
    """Clicking a bar chooses both its layer and its step, and its title is the measured change."""
    maps = build(6, layers=(0, 3))
    screen = show(maps, layer=0)
    bar = screen.page.locator("#steps .card").nth(2).locator(".bar").nth(1)
    change = float(contextualization_change(maps, "Atb", "AtbLn")[1])
    assert number(bar.locator("title").text_content().split(": ")[1]) == pytest.approx(change, **SHOWN)
    bar.click()
    screen.settle()
    assert screen.page.locator("#layers input:checked").get_attribute("value") == "3"
    assert screen.page.locator("#steps input:checked").get_attribute("value") == "AtbLn"


def test_bias_and_remainder_stand_beside_the_map(build: Builder, show: Shower) -> None:
    """Their columns are labelled and give each row's norm; the remainder's is there only when it is not zero."""
    maps = build(5, remainder=0.5)
    screen = show(maps, layer=0, scope="Attn")
    assert {"bias", "remainder"} <= set(screen.page.locator(".panel text").all_text_contents())
    box = screen.page.locator(".cells").bounding_box()
    screen.page.locator(".panel").first.scroll_into_view_if_needed()
    screen.page.mouse.move(box["x"] + box["width"] + 12, box["y"] + 3.5 * box["height"] / 5)
    assert number(screen.tooltip()["numbers"]["bias"][0]) == pytest.approx(float(maps.bias["Attn", 0][3]), **SHOWN)
    assert "remainder" not in show(build(5)).page.locator(".panel").first.inner_text()


def test_the_diagonal_does_not_set_the_scale(build: Builder, show: Shower) -> None:
    """By default the scale ends at the largest off-diagonal cell and says so; hiding the diagonal says that."""
    screen = show(build(6), scope="Attn")
    legend = " ".join(screen.page.locator(".panel text").all_text_contents())
    assert "≥" in legend and "largest off-diagonal" in legend
    screen.page.locator("#hide-diagonal").check()
    screen.settle()
    legend = " ".join(screen.page.locator(".panel text").all_text_contents())
    assert "≥" not in legend and "Diagonal hidden." in legend


def test_a_notebook_frame_draws_and_saves(build: Builder, show: Shower) -> None:
    """Inside its sandboxed frame the page draws, reaches nothing, and can still save a picture."""
    screen = show(html=f"<!doctype html><body>{iframe(build(6).to_html()).data}", width=900)
    frame = screen.page.frame_locator("iframe")
    frame.locator("body[data-state=drawn]").wait_for()
    assert frame.locator(".panel canvas").count() == 3
    with screen.page.expect_download() as download:
        frame.locator("#save-png").click()
    assert download.value.suggested_filename.endswith(".png")
    assert [url for url in screen.requests if not url.startswith(("file:", "about:", "data:", "blob:"))] == []
    assert screen.problems == []


@pytest.mark.parametrize("width", [900, 1100, 1920])
@pytest.mark.parametrize("n", [9, 128])
def test_nothing_sticks_out_of_the_page(build: Builder, show: Shower, n: int, width: int) -> None:
    """From a notebook's width to a full screen the maps fit and do not overlap."""
    screen = show(build(n), width=width)
    boxes = [panel.bounding_box() for panel in screen.page.locator(".panel").all()]
    assert screen.page.evaluate("document.documentElement.scrollWidth") <= width
    for i, one in enumerate(boxes):
        assert one["x"] >= 0 and one["x"] + one["width"] <= width
        for other in boxes[i + 1 :]:
            apart = other["x"] >= one["x"] + one["width"] or other["y"] >= one["y"] + one["height"]
            assert apart
