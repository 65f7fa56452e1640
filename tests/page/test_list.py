"""What is selected, in one sentence, and the one list beside the overview of a target."""

import dataclasses
import re
from typing import Any

import pytest
import torch

from tests.page.screen import Builder, Screen, Shower
from tests.page.test_logit_view import HEADS, LAYERS, attribution
from tests.page.test_overview import patching, sweep
from tl_ffblock.attribution import Attribution
from tl_ffblock.results.maps import ContributionMaps

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
    assert said(screen).startswith(f"L{layer}H{head} contributes ")
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
    assert said(screen).startswith("L") and "H" in said(screen).split()[0]
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
