"""The page of a layered graph: what it shows, hides and saves, in a browser that has no network."""

import dataclasses
import json
from types import ModuleType
from typing import Any

import pytest

from tests.page.screen import Shower
from tl_ffblock.page import GraphPage, PageEdge, PageNode, PageTarget, page

pytestmark = pytest.mark.browser
EVIL = "</script><script>document.title='pwned'</script><img src=x onerror=alert(1)>"


def node(column: int, lane: int, label: str, share: float, **fields: Any) -> PageNode:
    """A node with two targets' shares."""
    given = dict(says=(label, "other"), facts=(("norm", 1.5),), own_shares=(0.0, 0.0), rest_shares=(0.0, 0.0))
    shares = dict(shares=(share, -share), ranks=(3, 0), probabilities=(0.25, float("nan")))
    return PageNode(column, lane, label, "short", f"name of {label}", **{**given, **shares, **fields})


def edge(source: int, target: int, share: float, *, always: bool = False, unit: str = "residual") -> PageEdge:
    """An edge whose weight is its share."""
    return PageEdge(source, target, unit, 2.0, (share, -share), (share, share / 2), always=always)


def drawn(**fields: Any) -> GraphPage:
    """A stream with three branches of 1, 0.5 and 0.1, the last of them a chain with a number on it."""
    nodes = (
        node(0, 0, EVIL, 1.0),
        node(1, 1, "big", 1.0),
        node(1, 1, "middle", 0.5, unseen=7, rest_shares=(0.25, 0.5), own_shares=(0.125, 0.0)),
        node(1, 1, "small", 0.1),
        node(2, 1, "end", 0.1),
        node(3, 0, "out", 1.6),
    )
    edges = (
        edge(0, 5, 0.7, always=True),
        *(edge(0, n, s) for n, s in ((1, 1.0), (2, 0.5), (3, 0.1))),
        edge(3, 4, 0.1, unit="activation"),
        *(edge(n, 5, s) for n, s in ((1, 1.0), (2, 0.5), (4, 0.1))),
    )
    given: dict[str, Any] = dict(
        model="tiny",
        heading="flow through a test",
        tokens=(EVIL, "·b"),
        meaning="What it means.",
        columns=("layer 0\nin", "keys", "values", "out"),
        lanes=2,
        nodes=nodes,
        edges=edges,
        targets=(PageTarget("logit", 1.6, "·b"), PageTarget("direction", -1.6)),
        certificate="sums 1e-7",
        provenance={"tl_ffblock": "0"},
        widths={"residual": "norm"},
        shown=4,
        position=1,
    )
    return GraphPage(**{**given, **fields})


def opened(show: Shower, data: GraphPage, width: int = 1400) -> Any:
    """The page, drawn; nothing went wrong and nothing was asked of a network."""
    screen = show(html=page(data), width=width)
    screen.settle()
    assert screen.problems == []
    assert len(screen.requests) == 1
    return screen


def labels(screen: Any) -> set[str]:
    """What the shown nodes are called."""
    return {
        group.get_attribute("aria-label").split(" name of ")[0] for group in screen.page.locator(".graph-node").all()
    }


def test_the_slider_says_what_it_shows(show: Shower) -> None:
    """Largest first, chains whole; the stream always; the words give the number and the part that is carried."""
    screen = opened(show, drawn())
    assert labels(screen) == {EVIL, "big", "middle", "out"}
    assert screen.page.locator(".graph-edge[data-edge]").count() == 5
    assert (
        "4 of the page's 7 edges and 1 that always are; they carry 91 %" in screen.page.locator("#shown").inner_text()
    )
    screen.page.locator("#amount").fill("7")
    assert labels(screen) >= {"small", "end"}
    assert "7 of the page's 7 edges" in screen.page.locator("#shown").inner_text()
    screen.page.locator("#amount").fill("0")
    assert labels(screen) == {EVIL, "out"}


def test_tokens_are_words_and_nothing_else(show: Shower) -> None:
    """In the text, on nodes, in the card and in the saved picture."""
    screen = opened(show, drawn())
    assert screen.page.title() == "flow through a test · tiny"
    assert EVIL in screen.page.locator("#words-read").inner_text()
    screen.page.locator("[data-node='0']").click()
    assert EVIL in screen.page.locator("#node-card .says").inner_text()
    assert screen.page.locator("img").count() == 0
    assert screen.problems == []


def test_a_card_adds_up(show: Shower) -> None:
    """What enters, what the node brings and what is not on the page are listed; a click on a row goes there."""
    screen = opened(show, drawn())
    screen.page.locator("[data-node='2']").click()
    card = screen.page.locator("#node-card").inner_text()
    assert "name of middle" in card
    assert "not on this page (7)" in card
    assert "+0.25" in card
    assert "brought by the node itself" in card
    assert "+0.125" in card
    assert "rank of ·b" in card
    assert screen.page.locator(".graph-edge.lit").count() == 2
    screen.page.locator("#node-card button.plain", has_text="out").click()
    assert "name of out" in screen.page.locator("#node-card").inner_text()
    screen.page.locator("#graph").press("Escape")
    assert "Choose a node" in screen.page.locator("#node-card").inner_text()
    screen.page.locator("#graph").press("ArrowRight")
    assert "name of" in screen.page.locator("#node-card").inner_text()


def test_targets_are_switched(show: Shower) -> None:
    """The other target's shares, colours and weights; it is no token, so it has no rank."""
    screen = opened(show, drawn())
    screen.page.locator("[data-node='1']").click()
    colour = "document.querySelector(\"[data-edge='1']\").getAttribute('stroke')"
    first = screen.page.evaluate(colour)
    screen.page.locator("#target").select_option("1")
    assert screen.page.evaluate(colour) != first
    card = screen.page.locator("#node-card").inner_text()
    assert "share of direction" in card
    assert "−1 of −1.6" in card
    assert "rank of" not in card


def test_search_marks_and_counts_what_is_hidden(show: Shower) -> None:
    """By tokens and names, whether on the picture or behind the slider."""
    screen = opened(show, drawn())
    screen.page.locator("#search").fill("MIDDLE")
    assert screen.page.locator(".graph-node.found").count() == 1
    screen.page.locator("#search").fill("small")
    assert screen.page.locator("#search-note").inner_text() == "0 shown, 1 hidden"
    screen.page.locator("#search").fill("name of")
    chosen = []
    for _ in range(2):
        screen.page.keyboard.press("Enter")
        chosen.append(screen.page.locator("#node-card h2").inner_text())
    assert len(set(chosen)) == 2, "Enter goes from one found node to the next"


def test_pictures_and_data_are_saved(show: Shower) -> None:
    """SVG with words in it, PNG, and all the data as JSON."""
    screen = opened(show, drawn())
    saved = {}
    for kind in ("svg", "png", "json"):
        with screen.page.expect_download() as download:
            screen.page.locator(f"#save-{kind}").click()
        assert download.value.suggested_filename == f"tiny_flow_through_a_test.{kind}"
        saved[kind] = download.value.path().read_bytes()
    assert b"middle" in saved["svg"]
    assert b"<img" not in saved["svg"]
    assert saved["png"].startswith(b"\x89PNG")
    assert json.loads(saved["json"])["nodes"][1]["label"] == "big"


def test_it_fits_a_telephone_and_needs_no_target(show: Shower) -> None:
    """Nothing sticks out; without a target there is none to choose, and edges go by size."""
    plain = drawn()
    none = dict(shares=(), own_shares=(), rest_shares=(), ranks=(), probabilities=())
    data = dataclasses.replace(
        plain,
        targets=(),
        nodes=tuple(dataclasses.replace(node, **none) for node in plain.nodes),
        edges=tuple(dataclasses.replace(edge, shares=(), weights=()) for edge in plain.edges),
    )
    screen = opened(show, data, width=380)
    assert screen.overflow() <= 0
    assert screen.page.locator("#target-group").is_hidden()
    screen.page.locator("[data-node='1']").click()
    assert "share" not in screen.page.locator("#node-card").inner_text()


def test_pages_of_models_open(ffb: ModuleType, model_of: Any, tokens_of: Any, show: Shower) -> None:
    """A flow graph and routes of a model, conserved: drawn without a word in the console."""
    model, tokens = model_of("gpt2"), tokens_of("gpt2", 10)
    graph = ffb.flow_graph(model, tokens, layers=[1, 2], target=[7, 9])
    html = graph.to_html()
    assert len(html) < 3e6
    screen = show(html=html)
    screen.settle()
    assert 20 < screen.page.locator(".graph-node").count() < 100
    screen.page.locator("#amount").fill(screen.page.locator("#amount").get_attribute("max"))
    assert screen.page.locator(".graph-node").count() > 100
    screen.page.locator(".graph-node").last.click()
    assert "rank of 7" in screen.page.locator("#node-card").inner_text()
    result = ffb.attribute(model, tokens, ffb.logit(7), of="graph")
    routes = show(html=result.graph(0.7).to_html())
    routes.settle()
    assert "paths to logit" in routes.page.title()
    assert screen.problems == routes.problems == []
