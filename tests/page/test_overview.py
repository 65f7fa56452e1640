"""The overview: what stands before its first cell, what it draws without a target, and what was measured beside what contributes."""

import dataclasses
import re
from typing import Any

import numpy as np
import pytest
import torch

from tests.page.node import needs_node, payload, run
from tests.page.screen import COLLIDING, Builder, Shower
from tests.page.test_logit_view import HEADS, LAYERS, attribution
from tests.page.test_scores import made
from tl_ffblock.errors import InputError
from tl_ffblock.interventions import ActivationPatching, ContributionSweep
from tl_ffblock.results.average import average
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable, ScopeTable
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.views import page_of

BEFORE = """() => {
    const first = document.querySelector("#figure .logit > svg > rect[fill=none], #figure .cells canvas, #figure canvas, #figure svg");
    const { top } = first.getBoundingClientRect();
    const own = new Set(Array.from(document.querySelectorAll("main bdi"), (node) => node.textContent.trim()));
    const seen = (node) => node.checkVisibility() && node.getBoundingClientRect().height > 0 && node.getBoundingClientRect().top < top && !node.closest("#why");
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const words = [];
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const said = node.textContent.trim();
        const parent = node.parentElement;
        const token = own.has(said) || parent.closest(".tokens, option, .unseen, #data, script") || /^[0-9]+$/.test(said) || (parent.closest("svg") && said.endsWith("…"));
        if (said && !token && seen(parent)) words.push(...said.split(/\\s+/));
    }
    const controls = Array.from(document.querySelectorAll("button:not(.grid-cell), input, select, summary, a[href]")).filter(seen);
    return { top, words: words.length, said: words.join(" "), controls: controls.map((node) => node.id || node.textContent) };
}"""
"""Of a page at its opening: where the first cell is, words that are not the text's own, controls above it."""
TEXT = (
    "<|im_start|>", "The", " committee", " met", " on", " Tuesday", " to", " discuss", " the", " budget", " for", " the", " coming",
    " year", ".", " Several", " members", " argued", " that", " the", " library", " should", " receive", " more", " money", ",",
)  # fmt: skip
"""A text as readers have it: a long special token first, and words of several lengths."""


def of_length(build: Builder, n: int) -> ContributionMaps:
    """Maps of a text of so many tokens."""
    return build(n, tokens=tuple(TEXT[at % len(TEXT)] for at in range(n)), layers=range(LAYERS))


def with_heads(maps: ContributionMaps) -> ContributionMaps:
    """With two heads, each half of the maps."""
    cells = {scope: torch.stack([values / 2] * 2, 1) for scope, values in maps.values.items()}
    return dataclasses.replace(maps, heads=HeadTable(cells, maps.layers, ("head 0", "head 1")))


def html_of(build: Builder, n: int, of: str) -> str:
    """A page of so many tokens: of a target, a text, of two runs, of means."""
    maps = dataclasses.replace(of_length(build, n), model="before")
    one = attribution(maps.tokens, model="before")
    other = dataclasses.replace(one, tokens=one.tokens / 2, residual=one.residual / 2, value=4.0)
    after = dataclasses.replace(maps * 2.0, model="after")
    pages: dict[str, Any] = {
        "target": lambda: maps.to_html(beside=(one,)),
        "text": lambda: maps.to_html(),
        "text without order": lambda: build(n, tokens=maps.tokens, layers=range(LAYERS), causal=False).to_html(),
        "two runs": lambda: maps.to_html(against=after),
        "two runs with heads": lambda: with_heads(maps).to_html(against=with_heads(after)),
        "difference": lambda: (maps - 0.5 * maps).to_html(),
        "two targets": lambda: one.to_html(against=other),
        "mean": lambda: average([maps, 2.0 * maps]).to_html(),
        "heads": lambda: with_heads(maps).to_html(view="heads"),
        "all heads": lambda: with_heads(maps).to_html(view="all"),
        "scores": lambda: made(maps.tokens).to_html(layer=2),
    }
    html: str = pages[of]()
    return html


@pytest.mark.browser
@pytest.mark.parametrize("n", [9, 15, 41, 130])
@pytest.mark.parametrize("of", ["target", "text", "text without order", "two runs", "two runs with heads", "difference", "two targets", "mean"])  # fmt: skip
def test_little_stands_before_the_first_cell(build: Builder, show: Shower, n: int, of: str) -> None:
    """At 1280 x 900 it is above 260 px, after at most 80 words and 8 controls, with a target, without, of two runs or targets, and of their difference.

    The question has one line.
    """
    screen = show(html=html_of(build, n, of), context={"viewport": {"width": 1280, "height": 900}})
    screen.settle()
    if of == "two targets":
        screen.go("#run=2")
    assert screen.page.locator("#pair").is_visible() == (of.startswith("two") or of == "mean")
    assert screen.page.locator("h1").bounding_box()["height"] < 32
    found = screen.page.evaluate(BEFORE)
    assert found["top"] <= 260
    assert found["words"] <= 80, found["said"]
    assert len(found["controls"]) <= 8, found["controls"]
    assert screen.problems == [] and screen.overflow() <= 0


@pytest.mark.browser
@pytest.mark.parametrize("of", ["heads", "all heads", "scores"])
def test_views_of_heads_say_little_before_their_cells(build: Builder, show: Shower, of: str) -> None:
    """At most 80 words, and as many controls as choose heads and eight more; what else there is to say is in the help."""
    screen = show(html=html_of(build, 9, of), context={"viewport": {"width": 1280, "height": 900}})
    screen.settle()
    found = screen.page.evaluate(BEFORE)
    assert found["top"] <= 260 and found["words"] <= 80, found["said"]
    choosing = screen.page.locator("#figure .toggles :is(button, select)").count()
    assert len(found["controls"]) <= 8 + choosing, found["controls"]
    screen.page.locator("#help-mode").click()
    said = screen.page.locator("#help-drawn").inner_text()
    assert said.startswith(screen.page.locator("#meaning").inner_text()) and said.count(".") > 1


LINES = """(selector) => {
    const host = document.querySelector(selector);
    const box = host.getBoundingClientRect();
    const chips = Array.from(host.children, (chip) => chip.getBoundingClientRect());
    const sliced = chips.filter(({ top, bottom }) => bottom > box.top + 1 && top < box.bottom - 1 && (top < box.top - 0.6 || bottom > box.bottom + 0.6));
    const read = host.querySelector("[aria-selected=true], [aria-current=true]").getBoundingClientRect();
    return { sliced: sliced.length, read: read.top >= box.top - 1 && read.bottom <= box.bottom + 1, scrolls: host.scrollHeight > host.clientHeight };
}"""
"""Of the sentence: how many of its tokens are in sight in part, whether the one that is read is, whether there are more."""


@pytest.mark.browser
@pytest.mark.parametrize("width", [380, 1280])
@pytest.mark.parametrize("n", [15, 41, 130])
@pytest.mark.parametrize("of", ["target", "text"])
def test_the_sentence_shows_the_token_that_is_read_in_whole_lines(build: Builder, show: Shower, n: int, of: str, width: int) -> None:  # fmt: skip
    """At the opening, at a token in its middle, and after scrolling by hand."""
    screen = show(html=html_of(build, n, of), width=width)
    screen.settle()
    selector = ".attributed" if of == "target" else "#sentence"
    for address in ("", f"#to={n // 2}&from=0", f"#to={n - 1}&from=0", "#to=1&from=0"):
        if address:
            screen.go(address)
        screen.page.wait_for_timeout(50)
        found = screen.page.evaluate(LINES, selector)
        assert found["sliced"] == 0 and found["read"], address
    assert found["scrolls"] or n < 41
    screen.page.locator(selector).evaluate("(host) => { host.scrollTop = 37; }")
    screen.page.wait_for_timeout(150)
    assert screen.page.evaluate(LINES, selector)["sliced"] == 0


def by_hand(maps: ContributionMaps, scope: str, query: int) -> np.ndarray:
    """[layer key]: of what the query takes from all other tokens, the part of each; NaN for its own."""
    rows = []
    for layer in maps.layers:
        row = maps[scope, layer][maps.queries.index(query)].double().numpy().copy()
        row[query] = np.nan
        rows.append(row / np.nansum(row))
    return np.stack(rows)


@needs_node
def test_without_a_target_streams_are_what_a_token_takes(build: Builder) -> None:
    """At every layer the shares after the step and before it, by hand; the own share of the row beside them."""
    maps = build(7, layers=(0, 3, 4), causal=False)
    found = run(
        """
        const scene = await scened({ to: 5, scope: "AtbLnFf" });
        const { rows, before, layers, strip, block } = streamOf(scene);
        return { after: rows.map(plain), before: before.map(plain), layers, own: plain(strip.values), block, question: mapsQuestion(scene), table: [...logitTable(scene).lines()].length };
        """,
        payload=payload(maps),
    )
    assert found["layers"] == [0, 3, 4] and found["block"] is None
    assert found["question"] == "What does each layer's feed-forward change?"
    for side, scope in (("after", "AtbLnFf"), ("before", "AtbLn")):
        seen = np.array([[np.nan if cell is None else cell for cell in row] for row in found[side]])
        np.testing.assert_allclose(seen, by_hand(maps, scope, 5), rtol=2e-3)
    own = [float(maps["AtbLnFf", layer][5, 5] / maps["AtbLnFf", layer][5].sum()) for layer in maps.layers]
    np.testing.assert_allclose(found["own"], own, rtol=2e-3)
    assert found["table"] == 3 * 6, "each layer has the six other tokens"


@pytest.mark.browser
def test_a_band_is_as_wide_as_its_share(build: Builder, show: Shower) -> None:
    """Its outer width is the larger of before and after; a click on it chooses layer and source, on a change its step."""
    maps = build(5, layers=(0, 1, 2), causal=False)
    screen = show(maps, view="overview", layer=1, query=2)
    after, before = by_hand(maps, "AtbLnFf", 2), by_hand(maps, "AtbLn", 2)
    script = "Array.from(document.querySelectorAll('.logit [data-share]'), (n) => [n.dataset.share, Number(n.getAttribute('width'))])"
    widths = {tuple(map(int, place.split(","))): width for place, width in screen.page.evaluate(script)}
    most = np.fmax(after, before)
    scale = max(widths.values()) / np.nanmax(most)
    for place, width in widths.items():
        assert width == pytest.approx(scale * most[place], rel=5e-3), place
    assert len(widths) == 3 * 4
    grounds = screen.page.evaluate(
        "Array.from(document.querySelectorAll('#sentence .chip'), (c) => -getComputedStyle(c).backgroundColor.match(/\\d+/)[0])"
    )
    others = [0, 1, 3, 4]
    darkest, shares, former = (np.argsort(np.array(of)[others]).tolist() for of in (grounds, after[1], before[1]))
    assert darkest == shares != former, "the sentence's ground is what is taken after the step"
    inks = screen.page.evaluate(
        "Array.from(document.querySelectorAll('.logit [data-share]'), (n) => [n.dataset.share, n.getAttribute('fill')])"
    )
    gain, loss = (screen.page.evaluate(SWATCH, words) for words in ("more than before", "less"))
    for place, ink in inks:
        at = tuple(map(int, place.split(",")))
        assert ink == (gain if after[at] > before[at] else loss), place
    assert gain == "#b35806" and loss == "#6a5fc0"
    kept = screen.page.evaluate(
        "Array.from(document.querySelectorAll('.logit [data-share]'), (n) => n.nextElementSibling.getAttribute('fill'))"
    )
    assert max(int(fill[1:3], 16) for fill in kept) < 215, "narrow bands are seen, too"
    screen.page.locator(".logit [data-share='1,3']").hover(force=True)
    said = re.findall(r"([+−]?[\d.]+)(?:\u00a0%|[\u00a0 ]points)", screen.page.locator("#tooltip").inner_text())
    told = [float(number.replace("−", "-")) for number in said]
    assert told == pytest.approx(
        [100 * before[1, 3], 100 * after[1, 3], 100 * (after - before)[1, 3]], rel=6e-3, abs=6e-3
    )
    screen.page.locator(".logit [data-share='2,4']").click(force=True)
    screen.settle()
    assert "#layer=2&from=4" in screen.page.url or "layer=2" in screen.page.url
    assert screen.page.locator(".said").inner_text().startswith("Layer 2: the feed-forward block")
    box = screen.page.locator(".logit canvas").first.bounding_box()
    screen.page.mouse.click(box["x"] + 3, box["y"] + 3)
    screen.settle()
    assert "layer=0" in screen.page.url and "scope=" in screen.page.url
    screen.go("#layer=1&from=0&zoom=2-4,2-4")
    screen.page.locator(".logit [data-share='1,4']").click(force=True)
    screen.settle()
    assert "from=4" in screen.page.url, "of the columns that are drawn"
    assert screen.problems == []


WHISKERS = """() => Array.from(document.querySelectorAll(".logit .whisker"), (whisker) => {
    const [, from, to] = /^M([\\d.]+) [\\d.]+H([\\d.]+)/.exec(whisker.getAttribute("d")).map(Number);
    const band = whisker.previousElementSibling;
    const [x, width] = ["x", "width"].map((name) => Number(band.getAttribute(name)));
    return [band.dataset.share, (from - x - width / 2) / width * 2, (to - x - width / 2) / width * 2];
})"""
"""Of each band with a whisker: its row and column, and both ends as parts of the band's own share."""


@pytest.mark.browser
def test_a_whisker_goes_from_the_low_end_to_the_high_one(build: Builder, show: Shower) -> None:
    """Each on the scale of its band, whose layer and column it has."""
    mean = average([build(n, layers=(3, 8)) for n in (6, 7, 8)], {"IO": [1, 2, 3], "S2": [3, 4, 5], "END": -1})
    screen = show(html=mean.to_html(view="overview"))
    screen.settle()
    shares = mean.as_shares()
    channel = shares.channels.index("AtbLnFf")
    found = screen.page.evaluate(WHISKERS)
    assert {place for place, *_ in found} >= {"0,0", "0,1", "1,0", "1,1"}
    for place, *ends in found:
        row, column = map(int, place.split(","))
        middle, low, high = (
            float(table[row, channel, 2, column]) for table in (shares.mean, shares.interval.low, shares.interval.high)
        )
        assert ends == pytest.approx([low / middle, high / middle], rel=0.02), place


SWATCH = """(words) => Array.from(document.querySelectorAll(".logit text")).find((text) => text.textContent === words)
    .previousElementSibling.getAttribute("fill")"""
"""The colour beside words of the legend."""


@pytest.mark.browser
def test_an_arc_runs_from_its_source_in_the_colour_of_its_sign(build: Builder, show: Shower) -> None:
    """It starts at the layer and the column of the key, ends one layer below at the query; its share is that of its head."""
    maps, draw = of_length(build, 5), torch.Generator().manual_seed(4)
    neurons = {f"neurons.{layer}": torch.randn(5, 6, generator=draw) for layer in range(LAYERS)}
    result = attribution(maps.tokens, parts={**attribution(maps.tokens).parts, **neurons})
    screen = show(maps, view="overview", beside=result)
    arcs = screen.page.evaluate(ARCS)
    lanes = screen.page.evaluate(
        "Array.from(document.querySelectorAll('.logit > svg > line'), (l) => l.x1.baseVal.value)"
    )
    frame = screen.page.evaluate("document.querySelector('.logit .legend').y.baseVal.value") - 8
    heights = {arc["down"] for arc in arcs}
    assert len(arcs) > 3 and {arc["share"] < 0 for arc in arcs} == {True, False} and len(heights) > 0
    for arc in arcs:
        assert arc["ink"] == ("#6a5fc0" if arc["share"] < 0 else "#b35806")
        assert [arc["x"], arc["end"]] == pytest.approx([lanes[arc["key"]], lanes[arc["query"]]])
        number = float(result.edges[arc["layer"], arc["head"], arc["query"], arc["key"]])
        assert arc["share"] == pytest.approx(number, rel=1e-3)
        rows = len(result.residual)
        top = frame - rows * arc["down"]
        assert arc["y"] == pytest.approx(top + (arc["layer"] + 0.5) * arc["down"], abs=0.1)
    marks = screen.page.evaluate(
        "Array.from(document.querySelectorAll('.logit circle'), (c) => [c.cy.baseVal.value, c.getAttribute('fill'), c.neuron])"
    )
    assert len({neuron["layer"] for _, _, neuron in marks}) == LAYERS
    for y, ink, neuron in marks:
        assert y == pytest.approx(top + (neuron["layer"] + 0.5) * arcs[0]["down"], abs=0.1)
        assert ink == ("#6a5fc0" if neuron["share"] < 0 else "#b35806")
        assert neuron["share"] == pytest.approx(
            float(result.neurons(neuron["layer"])[:, neuron["neuron"]].sum()), rel=1e-3
        )
    box = screen.page.locator(".logit canvas").last.bounding_box()
    for layer, head in ((0, 0), (2, HEADS - 1)):
        at = (box["x"] + (head + 0.6) * box["width"] / HEADS, box["y"] + (layer + 0.5) * box["height"] / LAYERS)
        screen.page.mouse.move(*at)
        said = screen.page.locator("#tooltip").inner_text()
        (number,) = re.findall(r"([+−][\d.]+)", said)
        assert f"L{layer}H{head}" in said
        assert float(number.replace("−", "-")) == pytest.approx(float(result.heads[layer, head].sum()), rel=6e-3)


DARKNESS = """([columns, rows]) => {
    const canvas = document.querySelector(".logit canvas");
    const pen = canvas.getContext("2d");
    const at = (part, count, size) => Math.floor((part + 0.5) / count * size);
    const dark = (row, column) => 255 - pen.getImageData(at(column, columns, canvas.width), at(row, rows, canvas.height), 1, 1).data[0];
    return Array.from({ length: rows }, (_, row) => Array.from({ length: columns }, (_, column) => dark(row, column)));
}"""
"""Of the first picture of the overview, [row column]: how much red is missing."""


@pytest.mark.browser
@pytest.mark.parametrize("asked", [True, False])
def test_changes_stand_beside_their_layers(build: Builder, show: Shower, asked: bool) -> None:
    """The darker, the more a step changed the ranking at that layer; layers without maps have none."""
    layers = (0, 2) if asked else (1, 4, 6)
    maps = build(7, tokens=tuple(f"token{at}" for at in range(7)), layers=layers, causal=False)
    beside = (attribution(maps.tokens),) if asked else ()
    (track, *_) = payload(maps)["runs"][0]["blocks"]["contributions"]["tracks"]
    values = np.array([track["values"][column["channel"]] for column in track["columns"]])
    screen = show(maps, view="overview", beside=beside)
    dark = np.array(screen.page.evaluate(DARKNESS, [len(values), LAYERS if asked else len(layers)])).T
    shown = dark[:, list(layers)] if asked else dark
    assert np.corrcoef(shown.ravel(), values.ravel())[0, 1] > 0.98


@pytest.mark.browser
def test_columns_of_sizes_are_not_called_changes(build: Builder, show: Shower) -> None:
    """Beside a difference they are sizes by scope, beside maps changes by step."""
    maps = of_length(build, 9)
    for shown, heading in ((maps, "change"), (maps - 0.5 * maps, "size")):
        texts = show(shown, view="overview").page.locator(".logit > svg > text").all_text_contents()
        assert (heading in texts) and not {"change", "size"} - {heading} & set(texts), heading


@pytest.mark.browser
@pytest.mark.parametrize("n", [9, 41, 130])
def test_arcs_stay_in_their_frame(build: Builder, show: Shower, n: int) -> None:
    """Those of the last layer and of far tokens as well, however many are below each other."""
    maps = of_length(build, n)
    edges = torch.zeros(LAYERS, HEADS, n, n)
    edges[-1, :, -1, :4] = 9.0
    result = attribution(maps.tokens, parts={**attribution(maps.tokens).parts, "edges": edges})
    screen = show(maps, view="overview", beside=result)
    script = """() => {
        const frame = document.querySelector(".logit > svg > rect[fill=none]").getBBox();
        return Array.from(document.querySelectorAll(".logit path.arc"), (arc) => {
            const box = arc.getBBox();
            return frame.y + frame.height - box.y - box.height - Number(arc.getAttribute("stroke-width")) / 2;
        });
    }"""
    room = screen.page.evaluate(script)
    assert len(room) > 3 and min(room) >= -0.1


@pytest.mark.parametrize("signed", [False, True])
def test_a_causal_page_opens_late(build: Builder, signed: bool) -> None:
    """In the last third of the text, where at most a third of the overview is out of reach; at the token that is asked for."""
    for n in (4, 15, 41):
        maps = of_length(build, n)
        maps = maps - 0.5 * maps if signed else maps
        assert page_of(maps).start.to >= 2 * n // 3
        asked = page_of(maps, query=2).start
        assert (asked.to, asked.from_) in {(2, 0), (2, 1)}
    early = build(15, queries=(1, 2, 3))
    assert page_of(early).start.to in (1, 2, 3)


ARCS = """() => Array.from(document.querySelectorAll(".logit path.arc"), (path) => {
    const [x, y, , , end, below] = path.getAttribute("d").match(/-?[\\d.]+/g).map(Number);
    const { layer, head, query, key, share } = path.arc;
    return { x, y, end, down: below - y, layer, head, query, key, share, ink: path.getAttribute("stroke") };
})"""
"""Of each arc: where it starts and ends, and what it is."""


@pytest.mark.browser
@pytest.mark.parametrize("asked", [True, False])
def test_the_words_are_of_what_is_drawn(build: Builder, show: Shower, asked: bool) -> None:
    """Bands where columns are wide, cells where they are narrow, in zooms and in files too; a share is one of lengths."""
    n = 150
    maps = build(n, layers=range(LAYERS), scopes=("AtbLn", "AtbLnFf"))
    beside = (attribution(maps.tokens),) if asked else ()
    screen = show(maps, view="overview", beside=beside, query=30, layer=1)
    said, help_says = screen.page.locator("#meaning").inner_text, screen.page.locator("#help-drawn").text_content
    bands = screen.page.locator(".logit [data-share]")
    cells, wide = ("Colour: ", "Width and colour: ") if asked else ("Cells: ", "Bands: ")
    assert bands.count() == 0 and said().startswith(cells)
    if not asked:
        assert "vector length, as a share of all other tokens'" in said()
        assert "Orange" not in help_says() and "Zoom in" in help_says()
    screen.go("#zoom=0-30,0-30")
    assert bands.count() > 0 and said().startswith(wide)
    assert asked or "Orange: more than before; violet: less." in help_says()
    screen.page.locator("#figure-mode").click()
    screen.page.locator("#figure-size").select_option("slide")
    assert wide in screen.page.locator("#caption").inner_text()
    screen.go("#zoom=0-80,0-80")
    assert said().startswith(wide), "of 80 columns on the screen"
    screen.page.locator("#figure-size").select_option("column")
    caption = screen.page.locator("#caption").inner_text()
    assert cells in caption and wide not in caption, "in 3.4 inches"
    assert screen.problems == []


@needs_node
@pytest.mark.parametrize(
    ("changes", "amount"),
    [
        ({"cells": "row"}, "vector length, as a share of all tokens'."),
        ({"cells": "none"}, "vector length."),
        ({"cells": "column", "read": "column"}, "a share of the same token's to all."),
    ],
)
def test_a_band_is_a_length(build: Builder, changes: dict[str, str], amount: str) -> None:
    """However cells are shown."""
    found = run(
        "return takenWords(await scened({ ...given.changes, ref: '' })).meaning;",
        payload=payload(build(4)),
        changes=changes,
    )
    assert found.endswith(amount)


@needs_node
def test_weights_are_no_lengths() -> None:
    """The overview of attention patterns says attention weight."""
    weights = TokenMaps(
        values=torch.full((2, 1, 3, 3), 0.25).tril(),
        kind="attention",
        channels=("head 0",),
        layers=(0, 1),
        queries=(0, 1, 2),
        tokens=("a", "b", "c"),
        causal=True,
        model="tiny",
    )
    found = run("return takenWords(await scened({ to: 2 })).meaning;", payload=page_of(weights).payload())
    assert found == "Bands: attention of “c” to each token through head 0: attention weight."


@pytest.mark.browser
def test_tokens_that_come_later_are_hatched(build: Builder, show: Shower) -> None:
    """As many columns as the token that is read cannot see, or as cannot see it; a tooltip says so."""
    screen = show(build(6, layers=(0, 1)), view="overview", layer=0, query=2)
    hatched = screen.page.locator(".logit > svg > rect[fill^='url(#not']")
    places = lambda: sorted(float(one.get_attribute("x")) for one in hatched.all())  # noqa: E731
    for address, later in (("", {3, 4, 5}), ("#to=5&from=1", set()), ("#to=4&from=2&read=column", {0, 1})):
        if address:
            screen.go(address)
        lanes = [float(line.get_attribute("x1")) for line in screen.page.locator(".logit > svg > line").all()][:6]
        half = (lanes[1] - lanes[0]) / 2
        assert places() == pytest.approx([lanes[at] - half for at in sorted(later)]), address
    hatched.first.hover(force=True)
    assert "a later token" in screen.page.locator("#tooltip").inner_text()
    assert screen.problems == []


@pytest.mark.browser
@pytest.mark.parametrize("view", ["overview", "maps"])
def test_names_are_smaller_before_they_are_cut(build: Builder, show: Shower, view: str) -> None:
    """`<|im_start|>` above a wide column is whole, chosen and not; a token that no letters make fit is cut."""
    tokens = ("<|im_start|>", "tokyo / paris", "x" * 40, "a")
    maps = build(4, tokens=tokens, layers=(0, 1), causal=False)
    screen = show(maps, view=view, layer=1, query=3, width=1280)
    for column in (0, 1):
        screen.go(f"#from={column}&to=3&view={view}")
        drawn = screen.page.locator({"overview": ".logit text", "maps": ".panel text"}[view]).all_text_contents()
        assert set(tokens[:2]) <= set(drawn) and tokens[2] not in drawn, column
    assert any(words.startswith("xxx") and words.endswith("…") for words in drawn)


@pytest.mark.browser
def test_few_layers_fill_the_window(build: Builder, show: Shower) -> None:
    """Six layers end in the lower fifth of 1280 x 900, with the legend in sight, and so do thirty."""
    for layers in (6, 30):
        context = {"viewport": {"width": 1280, "height": 900}}
        screen = show(build(9, layers=range(layers), causal=False), view="overview", context=context)
        legend = screen.page.locator(".logit .legend").bounding_box()
        assert 0.8 * 900 < legend["y"] < 900 - 24, layers


def patching(tokens: tuple[str, ...], **changes: Any) -> ActivationPatching:
    """Heads replaced by nothing, one position at a time, in the last two layers."""
    draw = torch.Generator().manual_seed(3)
    n = len(tokens)
    fields: dict[str, Any] = {
        "measured": {"head": torch.randn(1, 2, HEADS, n, generator=draw)},
        "layers": {"head": (1, 2)},
        "positions": tuple(range(n)),
        "position_tokens": tokens,
        "labels": tokens,
        "targets": ("logit ' Mary'",),
        "quantities": ("logit",),
        "clean": torch.tensor([0.5]),
        "corrupted": torch.tensor([float("nan")]),
        "direction": "noising",
        "replacement": "zero",
        "model": "tiny",
    }
    return ActivationPatching(**(fields | changes))


def sweep(maps: ContributionMaps) -> ContributionSweep:
    """Every contribution of two layers removed, one at a time."""
    n = len(maps.tokens)
    return ContributionSweep(
        by_prompt=torch.arange(2.0 * n * n).reshape(1, 2, 1, n, n),
        baselines=torch.tensor([10.0]),
        metric="logit ' Mary'",
        scope="AtbLnFf",
        layers=(1, 2),
        heads=None,
        queries=tuple(range(n)),
        keys=tuple(range(n)),
        query_tokens=maps.tokens,
        key_tokens=maps.tokens,
        tokens=(maps.tokens,),
    )


@pytest.mark.browser
def test_what_was_measured_stands_beside_what_contributes(build: Builder, show: Shower) -> None:
    """Of each head the change at the token that is read, a dash where none was measured; of a cell that of the sweep."""
    maps = of_length(build, 6)
    found = patching(maps.tokens)
    screen = show(maps, view="overview", beside=(attribution(maps.tokens), found, sweep(maps)), layer=1)
    screen.go("#layer=1&to=4&from=2")
    table = screen.page.locator(".logit-card table.measured").filter(has_text="L1H0")
    heads = table.locator("th").all_inner_texts()
    assert heads == ["contributes", "if removed"]
    for row in table.locator("tr").all()[1:]:
        name, _, _, shown = row.locator("td").all_inner_texts()
        number = int(name.removeprefix("L1H"))
        expected = float(found.values["head"][0, number, 4])
        assert float(shown.replace("−", "-")) == pytest.approx(expected, rel=6e-3)
    effect = float(sweep(maps).effect[0, 4, 2])
    line = screen.page.locator("#card tr").filter(has_text="logit ' Mary' if removed").locator("td").first.inner_text()
    assert float(line.replace("−", "-")) == pytest.approx(effect, rel=6e-3)
    screen.go("#layer=0&to=4&from=2")
    table = screen.page.locator(".logit-card table.measured").filter(has_text="L0H0")
    assert set(table.locator("td:nth-child(4)").all_inner_texts()) == {"–"}
    assert screen.problems == []


@needs_node
def test_a_number_is_that_of_its_own_component(build: Builder) -> None:
    """By the numbers of layers, heads and positions, not by their places in the table; NaN for what was not measured."""
    maps = of_length(build, 6)
    result = patching(maps.tokens)
    found = run(
        "const { data } = await open(); const [block] = effectsOf(data);"
        "return [[1, 0, 3], [2, 1, 4], [0, 0, 3], [2, 1, 9]].map((place) => plain([effectAt(block, 'head', ...place)])[0]);",
        payload=payload(maps, beside=result),
    )
    effects = result.values["head"]
    assert found[:2] == pytest.approx([float(effects[0, 0, 3]), float(effects[1, 1, 4])], rel=1e-3)
    assert found[2:] == [None, None]


def test_what_was_measured_of_another_text_is_refused(build: Builder) -> None:
    """By its tokens, its model, or as a mean over several prompts; a corrupted token beside the clean one is no other text."""
    maps = of_length(build, 6)
    with pytest.raises(InputError, match=r"activation patching is of 2 tokens \(a b\), these maps are of 6"):
        maps.to_html(beside=patching(("a", "b")))
    with pytest.raises(InputError, match="is of 6 tokens .*, these maps are of 6"):
        maps.to_html(beside=patching(("other", *maps.tokens[1:])))
    with pytest.raises(InputError, match="patching is of other, these maps are of tiny"):
        maps.to_html(beside=patching(maps.tokens, model="other"))
    several = dataclasses.replace(
        sweep(maps), by_prompt=torch.zeros(2, 2, 1, 6, 6), baselines=torch.zeros(2), tokens=(maps.tokens,) * 2
    )
    with pytest.raises(InputError, match="contribution sweep is of several prompts, the first of 6 tokens"):
        maps.to_html(beside=several)
    both = (f"{maps.tokens[0]}→other", *maps.tokens[1:])
    corrupted = patching(maps.tokens, labels=both, clean_labels=maps.tokens, replacement="run")
    sent = payload(maps, beside=corrupted)["runs"][0]["blocks"]["effects"]
    assert sent["short"] == "if replaced" and sent["tables"]["head"]["axes"] == [[1, 2], [0, 1], list(range(6))]


@pytest.mark.browser
def test_two_results_of_one_text_are_beside_each_other(build: Builder, show: Shower) -> None:
    """Maps of two checkpoints: bands are those of the first, with what the second has less or more of; text, layers are the same."""
    maps, other = (build(5, layers=(0, 1, 2), causal=False, model=name) for name in ("before", "after"))
    other = dataclasses.replace(
        other, values=ScopeTable({s: t.roll(1, -1) for s, t in other.values.items()}, other.layers)
    )
    data = page_of(maps, against=other)
    assert [run.name for run in data.runs] == ["A: before", "B: after"] and (data.start.run, data.start.ref_run) == (
        0,
        1,
    )
    screen = show(maps, against=other, view="overview", layer=1, query=2)
    assert screen.page.locator("h1").inner_text().startswith("How does “A: before” differ from “B: after”?")
    screen.page.locator(".logit [data-share='1,3']").first.hover(force=True)
    shares = [100 * by_hand(one, "AtbLnFf", 2)[1, 3] for one in (other, maps)]
    said = [
        float(number.replace("−", "-"))
        for number in re.findall(r"([−\d.]+)\u00a0%", screen.page.locator("#tooltip").inner_text())
    ]
    assert said == pytest.approx(shares, rel=6e-3)
    assert screen.problems == []
    same = page_of(maps, against=maps)
    assert [run.name for run in same.runs] == ["A", "B"]
    with pytest.raises(InputError, match="cannot subtract"):
        maps.to_html(against=build(6, layers=(0, 1, 2), causal=False))
    with pytest.raises(InputError, match="panels are shown for one result"):
        maps.to_html(against=other, beside=(attribution(maps.tokens),))


@pytest.mark.browser
@pytest.mark.parametrize("view", ["overview", "maps"])
@pytest.mark.parametrize("most", [0.514, 0.39, 0.62, 0.801, 0.1999])
def test_scales_have_round_numbers_at_their_places(build: Builder, show: Shower, view: str, most: float) -> None:
    """25 % and 50 %, not 26 % and 51 %: twice the same round step, each above its mark, by hand from the largest share."""
    maps = build(4, layers=(0, 1), causal=False)
    for values in maps.values.values():
        values[:] = torch.tensor([[1.0, most, (1 - most) * 0.6, (1 - most) * 0.4]] * 4).roll(1, 1)
        values.diagonal(dim1=-2, dim2=-1).fill_(1.0)
    columns = {"overview": ".logit", "maps": ".panel[data-role=after]"}
    screen = show(maps, view=view, layer=1, query=0)
    shares = torch.stack([maps["AtbLnFf", layer] for layer in (0, 1)])
    shares = shares - torch.eye(4)
    shares = shares / shares.sum(-1, keepdim=True)
    largest = float(shares[:, 0].max() if view == "overview" else shares.max())
    script = """(place) => {
        const bar = document.querySelector(`${place} .legend`);
        const [left, wide] = [bar.x.baseVal.value, bar.width.baseVal.value];
        const marks = Array.from(document.querySelectorAll(`${place} .tick`), (mark) => [(Number(mark.getAttribute("d").match(/^M([-.\\d]+)/)[1]) - left) / wide, mark.nextSibling.textContent]);
        return marks.sort((a, b) => a[0] - b[0]);
    }"""
    marks = screen.page.evaluate(script, columns[view])
    numbers = [float(words.removesuffix("\u00a0%")) for _, words in marks]
    assert numbers[0] == 0 and len(numbers) == 3 and numbers[2] == 2 * numbers[1] and numbers[2] > 0.6 * 100 * largest
    assert f"{numbers[1]:g}".strip("0.").replace(".", "") in {"1", "15", "2", "25", "3", "4", "5", "6", "8"}
    assert [place for place, _ in marks] == pytest.approx([number / 100 / largest for number in numbers], abs=0.01)


@pytest.mark.browser
def test_two_attributions_and_their_difference_have_one_scale(show: Shower) -> None:
    """A run is chosen; what it draws is its own, on the scale of the largest; the heading asks of the difference."""
    tokens = tuple(f"token{at}" for at in range(4))
    one, two = attribution(tokens), attribution(tokens, value=4.0)
    two = dataclasses.replace(two, residual=one.residual / 2, tokens=one.tokens / 2)
    screen = show(html=one.to_html(against=two))
    screen.settle()
    ends = []
    for number, expected in enumerate((one, two, one - two)):
        screen.go(f"#run={number}")
        brought = [
            float(text.replace("−", "-")) for text in screen.page.locator(".shared .chip span").all_inner_texts()
        ]
        assert brought == pytest.approx(expected.token_attributions.tolist(), rel=6e-3)
        ends.append(screen.page.locator("#figure .legend ~ text").all_text_contents()[:3])
        assert screen.page.locator("#pair").input_value() == f"{number}-{number}"
    assert ends[0] == ends[1] == ends[2]
    assert screen.page.locator("h1").inner_text() == "Why “<b·onclick=x>” and not “·John”? Difference: +4 logits"
    screen.page.locator("#pair").select_option("0-0")
    screen.settle()
    assert screen.page.locator("h1").inner_text().endswith("? +8 logits")
    assert screen.problems == []


def said_of(texts: list[str]) -> bool:
    """Whether one of them is above heads or neurons."""
    return any(text.startswith(("heads", "largest neurons")) for text in texts)


@pytest.mark.browser
@pytest.mark.parametrize("width", [380, 1280])
def test_what_is_said_above_the_heads_is_whole(build: Builder, show: Shower, width: int) -> None:
    """Few heads are narrower than the words above them, which were cut at the picture's edge and ran into the neurons'."""
    maps = of_length(build, 41)
    for html in (attribution(maps.tokens).to_html(), with_heads(maps).to_html()):
        screen = show(html=html, width=width)
        screen.settle()
        said = screen.page.locator(".logit text", has_text="heads").bounding_box()
        place = screen.page.locator(".logit > svg").bounding_box()
        assert said["x"] >= place["x"] and said["x"] + said["width"] <= place["x"] + place["width"]
        assert [pair for pair in screen.page.evaluate(COLLIDING, ".logit > svg") if said_of(pair)] == []


@needs_node
def test_averages_have_the_ends_of_their_intervals(build: Builder) -> None:
    """Whiskers are drawn from them: by hand those of the average itself."""
    mean = average([build(n, layers=(3, 8)) for n in (6, 7, 8)], {"IO": [1, 2, 3], "S2": [3, 4, 5], "END": -1})
    data = page_of_average(mean)
    found = run(
        """
        const scene = await scened({ to: 2, scope: "AtbLnFf" });
        const { ends, rows } = streamOf(scene);
        return { ends: ends.map((rows) => rows.map(plain)), mean: rows.map(plain), runs: intervalRuns(scene.data), said: takenWords(scene).further };
        """,
        payload=data,
    )
    shares = mean.as_shares()
    channel = shares.channels.index("AtbLnFf")
    for side, end in zip(found["ends"], (shares.interval.low, shares.interval.high), strict=True):
        for row, expected in zip(side, end[:, channel, 2], strict=True):
            assert row[:2] == pytest.approx(expected[:2].tolist(), rel=2e-3)
    assert found["runs"] == [1, 2] and "95 % intervals" in found["said"]


def page_of_average(mean: Any) -> dict[str, Any]:
    """What the page of an average is sent."""
    sent: dict[str, Any] = page_of(mean).payload()
    return sent
