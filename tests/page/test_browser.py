"""The page in a real browser with the network off: what it shows is what the result holds."""

import csv
import io
import re
import struct
import xml.etree.ElementTree as ElementTree
from collections.abc import Sequence

import pytest

from tests.page.screen import Builder, Shower
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tokens import visible

pytestmark = pytest.mark.browser

SHOWN = dict(rel=5.2e-3)  # three significant digits on the screen: half a unit of the last of 1.00, and packing 1e-4
SENT = dict(rel=4e-4)  # packing 1e-4 (twice in a share), five digits in the file
COLOUR = 3  # rounding of a ramp of 256 shades
DARKEST = {"contribution": [0x00, 0x3F, 0x5C], "gain": [0xB3, 0x58, 0x06], "loss": [0x6A, 0x5F, 0xC0]}
TAGS = {"svg": "{http://www.w3.org/2000/svg}"}
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
    "=1+1",
    "${alert(1)}",
)


def number(text: str) -> float:
    """A number as the page writes it."""
    return float(text.replace("−", "-").replace("\u00a0%", "").replace("+", ""))


def close(colour: Sequence[int], expected: Sequence[int]) -> bool:
    """Whether two colours are the same up to rounding."""
    return all(abs(a - b) <= COLOUR for a, b in zip(colour, expected, strict=True))


def planted(maps: ContributionMaps, scope: str, query: int, key: int, value: float) -> ContributionMaps:
    """The same result with one value put in at every layer."""
    maps[scope][:, maps.queries.index(query), key] = value
    return maps


def test_hostile_tokens_are_text_everywhere(build: Builder, show: Shower) -> None:
    """Script, markup, white space, emoji and right-to-left tokens run nothing in any view, list, card, hash or file."""
    n = len(HOSTILE)
    hash_ = "#find=%3Cimg%20src%3Dx%20onerror%3Dwindow.x%3D1%3E&scope=%3Cscript%3E&to=0"
    screen = show(build(n, tokens=HOSTILE, model="<b onclick=x>", causal=False), address=hash_)
    assert screen.page.locator("#find").input_value() == "<img src=x onerror=window.x=1>"
    screen.page.locator("#find").fill("")
    for position in range(n):
        screen.hover("before", n - 1, position, (n, n))
        screen.page.locator(".chip").nth(position).click()
        screen.settle()
    assert screen.page.locator(".chip bdi").all_inner_texts() == [visible(token) for token in HOSTILE]
    screen.page.locator("#read").click()
    screen.page.locator("#figure-mode").click()
    screen.settle()
    assert "<img" in screen.page.locator("#caption").inner_text()
    _, table = screen.save("csv")
    assert b'"\'=1+1"' in table
    _, drawing = screen.save("svg")
    tags = {element.tag for element in ElementTree.fromstring(drawing).iter()}
    assert not {tag for tag in tags if tag.endswith(("script", "img", "foreignObject"))}
    assert screen.page.evaluate("window.x") is None
    assert screen.page.locator("img, #bench script, b[onclick]").count() == 0
    assert "<b onclick=x>" in screen.page.locator("#facts").inner_text()
    assert screen.problems == [] and len(screen.requests) == 1


def test_the_numbers_are_those_of_the_maps(build: Builder, show: Shower) -> None:
    """Tooltip, card, list and CSV give norms and shares before and after as the result has them."""
    n = 6
    maps = build(n, tokens=tuple(f'a"b,{i}' for i in range(n)))
    screen = show(maps, layer=1, scope="AtbLnFf")
    before, after = maps["AtbLn", 1], maps["AtbLnFf", 1]
    screen.choose(cells="row")
    shares = [100 * m / m.sum(1, keepdim=True) for m in (before, after)]
    for query, key in ((3, 1), (n - 1, 0)):
        tip = screen.hover("difference", query, key, (n, n))
        assert tip["tokens"] == [f'a"b,{query} (position {query})', f'a"b,{key} (position {key})']
        norms = [number(text) for text in tip["numbers"]["norm"]]
        *written, change = tip["numbers"]["share of row"]
        parts = [number(text) for text in written]
        assert all(text.endswith("\u00a0%") for text in written) and change.endswith("\u00a0points")
        gained = float((shares[1] - shares[0])[query, key])
        assert number(change.removesuffix("\u00a0points")) == pytest.approx(gained, rel=1e-2)
        assert norms[:2] == pytest.approx([float(before[query, key]), float(after[query, key])], **SHOWN)
        assert parts[:2] == pytest.approx([float(share[query, key]) for share in shares], **SHOWN)
    screen.page.mouse.click(*screen.point("after", 4, 2, (n, n)))
    screen.settle()
    card = screen.page.locator("#card table").first.locator("tr").nth(1).locator("td").all_inner_texts()
    assert number(card[0]) == pytest.approx(float(before[4, 2]), **SHOWN)
    name, content = screen.save("csv")
    assert name == "tiny_ab0-ab1-ab2-ab3-ab4-ab5_layer1_AtbLn-AtbLnFf_row.csv"
    rows = list(csv.DictReader(io.StringIO(content.decode())))
    cells = [row for row in rows if row["part"] == "token"]
    assert len(cells) == n * (n + 1) // 2 and len(rows) == len(cells) + n
    for row in cells:
        query, key = int(row["query"]), int(row["key"])
        assert (row["query_token"], row["key_token"]) == (maps.tokens[query], maps.tokens[key])
        assert float(row["AtbLn"]) == pytest.approx(float(before[query, key]), **SENT)
        assert float(row["AtbLn_share_of_row"]) == pytest.approx(float(shares[0][query, key]) / 100, **SENT)
        change = float((shares[1] - shares[0])[query, key]) / 100
        assert float(row["difference_of_share_of_row"]) == pytest.approx(change, abs=2e-4)
    biases = [float(row["AtbLnFf"]) for row in rows if row["part"] == "bias"]
    assert biases == pytest.approx(maps.bias["AtbLnFf", 1].tolist(), **SENT)


def test_a_planted_maximum_stands_at_its_row_and_column(build: Builder, show: Shower) -> None:
    """A value at query 3, key 1 is the darkest cell in row 3, column 1, on screen and in the SVG; row 1, column 3 is not it."""
    n = 6
    maps = build(n, causal=False)
    for query, key, scope, opposite in ((3, 1, "AtbLnFf", "AtbLn"), (2, 4, "AtbLn", "AtbLnFf")):
        planted(planted(maps, scope, query, key, 9.0), opposite, query, key, 0.0)
    screen = show(maps, layer=0, scope="AtbLnFf")
    screen.choose(cells="none", range="all")
    assert close(screen.colour("after", 3, 1, (n, n)), DARKEST["contribution"])
    assert not close(screen.colour("after", 1, 3, (n, n)), DARKEST["contribution"])
    assert close(screen.colour("difference", 3, 1, (n, n)), DARKEST["gain"])
    assert close(screen.colour("difference", 2, 4, (n, n)), DARKEST["loss"])
    name, content = screen.save("svg")
    root = ElementTree.fromstring(content)
    panel = root.findall(f"{TAGS['svg']}g")[1]
    cells = panel.findall(f"{TAGS['svg']}rect")[: n * n]
    dark = [index for index, cell in enumerate(cells) if cell.get("fill") == "#003f5c"]
    assert dark == [3 * n + 1] and name.endswith(".svg")
    _, picture = screen.save("png")
    assert picture[:8] == b"\x89PNG\r\n\x1a\n" and struct.unpack(">I", picture[16:20])[0] > 1500


@pytest.mark.parametrize("causal", [True, False])
def test_only_a_causal_model_has_cells_out_of_reach(build: Builder, show: Shower, causal: bool) -> None:
    """Above the diagonal a causal model's cells are hatched and named unreachable; a bidirectional one has all its cells."""
    n = 6
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


def test_any_two_scopes_are_compared(build: Builder, show: Shower) -> None:
    """Of a choice of scopes too; the difference is the one minus the other, and its title names both."""
    maps = build(5, scopes=("Atb", "AtbLnFfRes"), causal=False)
    screen = show(maps, layer=0)
    assert screen.page.locator(".panel").count() == 1
    screen.choose(cells="none", scope="AtbLnFfRes", ref="Atb")
    tip = screen.hover("difference", 2, 1, (5, 5))
    expected = float(maps["AtbLnFfRes", 0][2, 1] - maps["Atb", 0][2, 1])
    assert number(tip["numbers"]["norm"][2]) == pytest.approx(expected, abs=6e-3)
    assert "AtbLnFfRes − Atb" in screen.page.locator(".panel[data-role=difference] text").all_text_contents()


def test_a_choice_of_rows_shows_these_rows(build: Builder, show: Shower) -> None:
    """With a subset of queries, rows carry their own positions and columns cannot be normalised."""
    maps = build(12, queries=(2, 7, 11))
    screen = show(maps, layer=0, scope="AtbLnFf")
    tip = screen.hover("after", 1, 4, (3, 12))
    assert tip["tokens"] == ["t7 (position 7)", "t4 (position 4)"]
    assert number(tip["numbers"]["norm"][1]) == pytest.approx(float(maps["AtbLnFf", 0][1, 4]), **SHOWN)
    assert screen.page.locator("#cells option[value=column]").evaluate("option => option.disabled")


def test_a_difference_names_its_sides(build: Builder, show: Shower) -> None:
    """A difference of two results: one signed map a scope, both texts named, certificate of both."""
    one, two = build(6, causal=False), build(6, causal=False, tokens=tuple(f"u{i}" for i in range(6)))
    planted(one, "Atb", 3, 1, 30.0)
    planted(two, "Atb", 1, 4, 30.0)
    screen = show(one - two, layer=0, scope="Atb")
    assert screen.page.locator(".panel").count() == 1
    screen.choose(range="all")
    assert close(screen.colour("only", 3, 1, (6, 6)), DARKEST["gain"])
    assert close(screen.colour("only", 1, 4, (6, 6)), DARKEST["loss"])
    assert number(screen.hover("only", 1, 4, (6, 6))["numbers"]["difference"][0]) < 0
    words = " ".join(screen.page.locator(".panel text").all_text_contents())
    assert "“t0 t1 t2 t3 t4 t5” minus “u0 u1 u2 u3 u4 u5”" in words
    assert screen.page.locator("#certificate").inner_text().startswith("Both results are exact")
    texts = ("“t0 t1 t2 t3 t4 t5”", "“u0 u1 u2 u3 u4 u5”")
    assert screen.page.locator("#meaning").inner_text().endswith(f"in {texts[0]} than in {texts[1]}.")
    for to, from_, more in ((3, 1, "more"), (1, 4, "less")):
        screen.go(f"#scope=Atb&layer=0&to={to}&from={from_}")
        size = abs(float((one - two)["Atb", 0][to, from_]))
        line = screen.page.locator("#headline").inner_text()
        said = re.fullmatch(
            rf"Layer 0, Atb: “t{from_} / u{from_}” contributes (\S+) {more} to “t{to} / u{to}” in {texts[0]} than in {texts[1]}\.",
            line,
        )
        assert said and number(said[1]) == pytest.approx(size, **SHOWN), line


def test_own_share_bias_and_remainder_stand_beside_the_map(build: Builder, show: Shower) -> None:
    """Their columns are labelled and give each row's number; the remainder's is there only when it is not zero."""
    maps = build(5, remainder=0.5)
    screen = show(maps, layer=0, scope="Attn")
    names = screen.page.locator(".panel text").all_text_contents()
    assert {"own", "bias", "remainder"} <= set(names)
    box = screen.page.locator(".cells").bounding_box()
    screen.page.mouse.move(box["x"] + box["width"] + 31, box["y"] + 3.5 * box["height"] / 5)
    assert number(screen.tooltip()["numbers"]["bias"][0]) == pytest.approx(float(maps.bias["Attn", 0][3]), **SHOWN)
    assert "remainder" not in show(build(5)).page.locator(".panel").first.inner_text()


def test_runs_stand_beside_each_other_on_one_scale(build: Builder, show: Shower) -> None:
    """Clean, corrupted and patched in one page: any two, their difference, and the same colours for the same numbers."""
    from tl_ffblock.interventions.patched import PatchedMaps

    n = 6
    runs = PatchedMaps(*(build(n, causal=False, tokens=tuple(f"{name}{i}" for i in range(n))) for name in "abc"))
    for maps, value in ((runs.clean, 11.75), (runs.corrupted, 23.5), (runs.patched, 58.25)):
        maps["Atb"][:, 3, 1] = value
    screen = show(html=runs.to_html(layer=0, scope="Atb"))
    screen.settle()
    screen.choose(cells="none")
    norms = screen.hover("difference", 3, 1, (n, n))["numbers"]["norm"]
    assert [number(text) for text in norms] == pytest.approx([23.5, 58.25, 34.75], **SHOWN)
    screen.choose(run=0, ref_run=2)
    tip = screen.hover("difference", 3, 1, (n, n))
    assert [number(text) for text in tip["numbers"]["norm"]] == pytest.approx([58.25, 11.75, -46.5], **SHOWN)
    assert tip["tokens"] == ["c3→a3 (position 3)", "c1→a1 (position 1)"]
    assert screen.problems == [] and len(screen.requests) == 1
