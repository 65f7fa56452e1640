"""Beside the overview: what is selected, in one sentence, the one list of a target, and the close-up of the layer by its lenses."""

import dataclasses
import re
from typing import Any

import pytest
import torch

from tests.page.screen import Builder, Screen, Shower
from tests.page.test_graph_page import drawn
from tests.page.test_logit_view import HEADS, LAYERS, attribution
from tests.page.test_memories import card
from tests.page.test_overview import patching, sweep
from tl_ffblock.attribution import Attribution
from tl_ffblock.page import page
from tl_ffblock.page.data import GraphBlock
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.tables import HeadTable
from tl_ffblock.views import page_of

pytestmark = pytest.mark.browser
TOKENS = tuple(f"token{at}" for at in range(5))


def of_everything(build: Builder) -> tuple[ContributionMaps, Attribution]:
    """Maps, and a target with heads, edges and neurons."""
    draw = torch.Generator().manual_seed(4)
    result = attribution(TOKENS)
    neurons = {f"neurons.{layer}": torch.randn(len(TOKENS), 6, generator=draw) for layer in range(LAYERS)}
    return build(len(TOKENS), tokens=TOKENS, layers=range(LAYERS)), dataclasses.replace(
        result, parts={**result.parts, **neurons}
    )


def numbers(words: str) -> list[float]:
    """The signed numbers of a sentence."""
    return [float(number.replace("−", "-")) for number in re.findall(r"(?<= )[+−][\d.]*\d", words)]


def said(screen: Screen) -> str:
    """The sentence of the card."""
    return str(screen.page.locator(".said").inner_text())


def listed(screen: Screen, kind: str) -> dict[str, list[str]]:
    """The lines of a kind: by name, the numbers."""
    screen.page.locator(".logit-card select").first.select_option(kind)
    screen.settle()
    rows = screen.page.locator(".logit-card tr").all()[1:]
    cells = [row.locator("td").all_inner_texts() for row in rows]
    return {name: rest[1:] for name, *rest in cells}


def test_a_click_on_an_arc_and_on_a_neuron_is_what_the_card_speaks_of(build: Builder, show: Shower) -> None:
    """An arc: its head, both tokens, its share; it is drawn thicker. A neuron: its share over all positions, a ring. A stream: its token."""
    maps, result = of_everything(build)
    screen = show(maps, view="overview", beside=result, layer=0)
    assert screen.page.locator(".arc-chosen, .neuron-chosen").count() == 0
    arc = screen.page.locator(".arc").nth(3)
    layer, head, query, key, share = arc.evaluate("({ arc }) => [arc.layer, arc.head, arc.query, arc.key, arc.share]")
    wide = float(str(arc.get_attribute("stroke-width")))
    arc.dispatch_event("click")
    screen.settle()
    screen.page.wait_for_timeout(60)
    assert f"L{layer}H{head} moves " in said(screen)
    assert f"of 8 logits from “token{key}” to “token{query}”, " in said(screen)
    whole = float(result.heads[layer, head].sum())
    exact = float(result.edges[layer, head, query, key])
    assert share == pytest.approx(exact, rel=1e-3)
    assert numbers(said(screen)) == pytest.approx([exact, *[100 * exact / 8] * (exact < 0), whole], rel=6e-3)
    assert f"{abs(100 * exact / 8):.3g}\u00a0% of the answer" in said(screen)
    thick = screen.page.locator(".arc-chosen.bold")
    assert thick.count() == 1 and thick.get_attribute("d") == arc.get_attribute("d")
    assert float(str(thick.get_attribute("stroke-width"))) > wide + 1
    assert "list=edges" in screen.page.url
    line = screen.page.locator(".logit-card [aria-current=true]").inner_text()
    assert line == f"H{head}: token{key} → token{query}"
    assert screen.page.locator("g.arc-chosen").count() == 1, "names of arcs lie above it"

    mark = screen.page.locator(".logit circle").last
    layer, neuron = mark.evaluate("({ neuron }) => [neuron.layer, neuron.neuron]")
    mark.dispatch_event("click")
    screen.settle()
    assert said(screen).startswith(f"L{layer}N{neuron} contributes ") and "over all positions" in said(screen)
    exact = float(result.neurons(layer)[:, neuron].sum())
    assert numbers(said(screen))[0] == pytest.approx(exact, rel=6e-3)
    assert screen.page.locator(".arc-chosen").count() == 0 and screen.page.locator(".neuron-chosen").count() == 1
    assert "heads=" not in screen.page.url and "list=neurons" in screen.page.url

    screen.page.go_back()
    screen.page.wait_for_timeout(60)
    screen.settle()
    assert said(screen).startswith("At layer ")
    band = screen.page.locator(".logit [data-share='1,1']")
    place = band.bounding_box()
    band.dispatch_event("click", {"clientX": place["x"] + 1, "clientY": place["y"] + 2})
    screen.settle()
    exact = float(result.residual[1, 1])
    assert said(screen).startswith("At the input of layer 1, “token1” contributes ")
    assert numbers(said(screen))[0] == pytest.approx(exact, rel=6e-3)
    assert screen.problems == []


def test_the_kinds_of_the_list_hold_the_numbers_of_the_result(build: Builder, show: Shower) -> None:
    """One table of one kind: heads, edges, neurons, tokens, sources, biases; the kind is in the address. Pairs have their own place."""
    maps, result = of_everything(build)
    screen = show(maps, view="overview", beside=result, layer=1, query=3)
    tables = screen.page.locator("#why table:visible:not(.cell-card table)")
    assert tables.count() == 1
    brought = lambda kind: {name: numbers(f" {cells[0]}")[0] for name, cells in listed(screen, kind).items()}  # noqa: E731
    expected: dict[str, dict[str, Any]] = {
        "heads": {f"L1H{head}": result.heads[1, head].sum() for head in range(HEADS)},
        "tokens": {TOKENS[at]: share for at, share in enumerate(result.residual[1]) if share},
        "biases": {"unembed.b (end)": 1.0},
        "neurons": {f"L1N{number}": share for number, share in enumerate(result.neurons(1).sum(dim=0))},
    }
    for kind, entries in expected.items():
        found = brought(kind)
        assert found == pytest.approx({name: float(share) for name, share in entries.items()}, rel=6e-3), kind
        sizes = [abs(number) for number in found.values()]
        assert sizes == sorted(sizes, reverse=True) and tables.count() == 1
    assert "list=neurons" in screen.page.url
    found = brought("edges")
    assert len(found) == 6 * HEADS
    for name, share in found.items():
        head, key, query = (int(number) for number in re.findall(r"\d+", name))
        assert share == pytest.approx(float(result.edges[1, head, query, key]), rel=6e-3)
    cells = maps["AtbLnFf", 1][3].clone()
    cells[3] = 0
    shares = {name: float(line[0].removesuffix("\u00a0%")) for name, line in listed(screen, "sources").items()}
    assert shares == pytest.approx({TOKENS[at]: 100 * float(cells[at] / cells.sum()) for at in (0, 1, 2)}, rel=6e-3)
    assert screen.page.locator("#which-pairs").is_hidden()
    screen.page.locator(".logit-card select").first.select_option("pairs")
    screen.settle()
    assert screen.page.locator("#which-pairs").is_visible() and tables.count() == 1
    assert screen.problems == []


def test_one_sort_and_what_was_measured_in_every_kind(build: Builder, show: Shower) -> None:
    """Heads by what their removal changes, or by number; of sources what the sweep measured."""
    maps, result = of_everything(build)
    found = patching(TOKENS)
    screen = show(maps, view="overview", beside=(result, found, sweep(maps)), layer=1, query=4)
    sort = screen.page.locator(".logit-card select").nth(1)
    assert sort.locator("option").all_inner_texts() == ["contributes", "if removed", "number"]
    for order, expected in (
        ("removed", sorted(range(HEADS), key=lambda head: -abs(float(found.values["head"][0, head, 4])))),
        ("place", [*range(HEADS)]),
    ):
        sort.select_option(order)
        screen.settle()
        assert [*listed(screen, "heads")] == [f"L1H{head}" for head in expected]
        assert f"order={order}" in screen.page.url
    for name, (_, measured) in listed(screen, "sources").items():
        key = TOKENS.index(name)
        assert float(measured.replace("−", "-")) == pytest.approx(float(sweep(maps).effect[0, 4, key]), rel=6e-3)
    assert listed(screen, "sources") != {}
    screen.page.locator(".logit-card td button").nth(1).click()
    screen.settle()
    screen.page.wait_for_timeout(60)
    assert "from=1" in screen.page.url
    assert screen.problems == []


def lenses(screen: Screen) -> dict[str, str]:
    """The lenses that are offered, and whether each is the one of now."""
    buttons = screen.page.locator(".lenses button").all()
    return {button.inner_text(): str(button.get_attribute("aria-pressed")) for button in buttons}


def with_graph(maps: ContributionMaps, graph: GraphBlock, *beside: Any) -> str:
    """The page of maps with results and a graph beside them."""
    data = page_of(maps, beside=beside, view="overview")
    (run,) = data.runs
    runs = (dataclasses.replace(run, blocks={**run.blocks, "graph": graph}),)
    return page(dataclasses.replace(data, runs=runs), circuitsvis=False)


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("width", [380, 1280])
def test_a_layer_has_four_lenses_beside_the_overview(build: Builder, show: Shower, width: int, asked: bool) -> None:
    """Map, heads, neurons, inside, on one line: each draws its view, is in the address, and is undone by Back; a link opens it."""
    maps, result = of_everything(build)
    cells = {scope: torch.stack([values] * 2, 1) for scope, values in maps.values.items()}
    maps = dataclasses.replace(maps, heads=HeadTable(cells, maps.layers, ("head 0", "head 1")))
    graph = drawn(columns=("layer 1\nin", "layer 1\nkeys", "layer 1\nvalues", "layer 1\nout"))
    html = with_graph(maps, graph, card("1:3", TOKENS), *([result] if asked else []))
    context = {"viewport": {"width": width, "height": 900}}
    screen = show(html=html, context=context, address="#layer=1")
    screen.settle()
    drawings = {"map": ".panel", "heads": ".lines svg", "neurons": ".memory", "inside": ".graph svg"}
    assert lenses(screen) == {"map": "true", "heads": "false", "neurons": "false", "inside": "false"}
    heights = screen.page.evaluate(
        "Array.from(document.querySelectorAll('.lenses button'), (b) => b.getBoundingClientRect().top)"
    )
    assert len({round(top) for top in heights}) == 1
    before = ["map", "heads", "neurons"]
    for lens, place in drawings.items():
        screen.page.locator(".lenses button", has_text=lens).click()
        screen.settle()
        screen.page.wait_for_timeout(
            800
        )  # the address is written after the picture, quick changes of one field are one step
        assert lenses(screen)[lens] == "true"
        assert [name for name, of in drawings.items() if screen.page.locator(f"#close-up {of}").count()] == [lens], (
            place
        )
        assert (f"lens={lens}" in screen.page.url) == (lens != "map")
        assert screen.page.locator("#figure .logit").is_visible() and screen.overflow() <= 0
        inside = "(place) => { const [a, b] = ['#close-up', '#why'].map((of) => document.querySelector(of).getBoundingClientRect()); return a.right <= b.right + 1; }"
        assert screen.page.evaluate(inside)
    if asked:
        screen.page.locator(".lenses button", has_text="neurons").click()
        screen.settle()
        rows = {
            name: numbers(f" {line}")[0]
            for name, line in (
                row.locator("td").all_inner_texts()[::2]
                for row in screen.page.locator("#close-up .profile tr").all()[1:]
            )
        }
        assert rows == pytest.approx(
            {f"L1N{at}": float(share) for at, share in enumerate(result.neurons(1).sum(dim=0))}, rel=6e-3
        )
        screen.page.wait_for_timeout(800)
        screen.page.go_back()
        screen.page.wait_for_timeout(100)
        screen.settle()
    again = show(html=html, context=context, address=screen.page.evaluate("location.hash"))
    again.settle()
    assert again.page.locator("#close-up .graph svg").count() > 0 and lenses(again) == lenses(screen)
    for lens in reversed(before):
        screen.page.go_back()
        screen.page.wait_for_timeout(100)
        screen.settle()
        assert lenses(screen)[lens] == "true"
    screen.go("#layer=2&lens=inside")
    assert "no nodes of layer 2" in screen.page.locator("#close-up").inner_text()
    screen.page.locator("#close-up .note button").click()
    screen.settle()
    assert screen.page.locator("#close-up .graph svg").count() > 0
    screen.page.locator("#close-up .ways button").click()
    screen.settle()
    assert screen.page.locator("#figure .graph").is_visible() and screen.page.locator("#close-up").is_hidden()
    assert screen.page.evaluate("window.x") is None and screen.problems == []


def test_lenses_are_those_that_the_page_has(build: Builder, show: Shower) -> None:
    """Maps alone have no row of lenses, whatever the address asks for."""
    maps, _ = of_everything(build)
    screen = show(maps, view="overview", address="#lens=heads")
    assert lenses(screen) == {} and screen.page.locator("#close-up .panel").count() == 1
    assert screen.problems == []
