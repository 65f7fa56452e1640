"""The page of a layered graph: what it shows, hides and saves, in a browser that has no network."""

import dataclasses
from types import ModuleType
from typing import Any

import pytest

from tests.page.screen import Shower
from tl_ffblock.page import GraphBlock, PageData, PageEdge, PageNode, PageTarget, graph_page, page

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


def drawn(**fields: Any) -> GraphBlock:
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
        heading="flow through a test",
        meaning="What it means.",
        columns=("layer 0\nin", "keys", "values", "out"),
        lanes=2,
        nodes=nodes,
        edges=edges,
        targets=(PageTarget("logit", 1.6, "·b"), PageTarget("direction", -1.6)),
        certificate="sums 1e-7",
        widths={"residual": "norm"},
        shown=4,
        position=1,
    )
    return GraphBlock(**{**given, **fields})


def alone(block: GraphBlock) -> PageData:
    """The page of a graph alone."""
    return graph_page("tiny", block, (EVIL, "·b"), {"tl_ffblock": "0"})


def opened(show: Shower, data: GraphBlock, width: int = 1400) -> Any:
    """The page, drawn; nothing went wrong and nothing was asked of a network."""
    screen = show(html=page(alone(data)), width=width)
    screen.settle()
    assert screen.problems == []
    assert len(screen.requests) == 1
    return screen


def labels(screen: Any) -> set[str]:
    """What the shown nodes are called."""
    screen.settle()
    return {
        group.get_attribute("aria-label").split(" name of ")[0] for group in screen.page.locator(".graph-node").all()
    }


def card_of(screen: Any) -> str:
    """What the card says of the node that is chosen now."""
    screen.settle()
    return str(screen.page.locator(".node-card").inner_text())


def test_the_slider_says_what_it_shows(show: Shower) -> None:
    """Largest first, chains whole; the stream always; the words give the number and the part that is carried."""
    screen = opened(show, drawn())
    assert labels(screen) == {EVIL, "big", "middle", "out"}
    assert screen.page.locator(".graph-edge[data-edge]").count() == 5
    assert "4 of the page's 7 edges, and 1 that are always shown: 91 %" in screen.page.locator(".shown").inner_text()
    screen.page.locator(".amount").fill("7")
    assert labels(screen) >= {"small", "end"}
    assert "7 of the page's 7 edges" in screen.page.locator(".shown").inner_text()
    screen.page.locator(".amount").fill("0")
    assert labels(screen) == {EVIL, "out"}


def test_tokens_are_words_and_nothing_else(show: Shower) -> None:
    """In the text, on nodes, in the card and in the saved picture."""
    screen = opened(show, drawn())
    assert screen.page.title() == "flow through a test · tiny"
    assert EVIL in screen.page.locator(".graph-text").inner_text()
    screen.page.locator("[data-node='0']").click()
    assert EVIL in screen.page.locator(".node-card .says").inner_text()
    assert screen.page.locator("img").count() == 0
    assert screen.problems == []


def test_a_card_adds_up(show: Shower) -> None:
    """What enters, what the node brings and what is not on the page are listed; a click on a row goes there."""
    screen = opened(show, drawn())
    screen.page.locator("[data-node='2']").click()
    card = card_of(screen)
    assert "name of middle" in card
    assert "not on this page (7)" in card
    assert "+0.25" in card
    assert "own contribution" in card
    assert "+0.125" in card
    assert "rank of ·b" in card
    screen.settle()
    assert screen.page.locator(".graph-edge.lit").count() == 2
    screen.page.locator(".node-card button.plain", has_text="out").click()
    assert "name of out" in card_of(screen)
    screen.page.locator(".graph").press("Escape")
    assert "Choose a node" in card_of(screen)
    screen.page.locator(".graph").press("ArrowRight")
    assert "name of" in card_of(screen)


def test_targets_are_switched(show: Shower) -> None:
    """The other target's shares, colours and weights; it is no token, so it has no rank."""
    screen = opened(show, drawn())
    screen.page.locator("[data-node='1']").click()
    colour = "document.querySelector(\"[data-edge='1']\").getAttribute('stroke')"
    first = screen.page.evaluate(colour)
    screen.page.locator(".target").select_option("1")
    screen.settle()
    assert screen.page.evaluate(colour) != first
    card = card_of(screen)
    assert "share of direction" in card
    assert "−1 of −1.6" in card
    assert "rank of" not in card


def test_nodes_and_edges_are_coloured_by_entropy(show: Shower) -> None:
    """Clear ones are dark and flat ones pale, an edge as the node it leaves; numbers and nodes that say nothing are not coloured."""
    block = drawn(shown=7)
    entropies = (1.0, 0.0, 4.0, None, None, 2.0)
    nodes = tuple(
        dataclasses.replace(one, entropy=entropy) for one, entropy in zip(block.nodes, entropies, strict=True)
    )
    screen = opened(show, dataclasses.replace(block, nodes=nodes))
    assert "coloured by" in screen.page.locator(".graph-controls").inner_text()
    screen.page.locator("select", has_text="entropy").select_option("entropy")
    screen.settle()
    fills = [screen.page.locator(f"[data-node='{n}'] rect").get_attribute("fill") for n in range(6)]
    strokes = [screen.page.locator(f"[data-edge='{n}']").get_attribute("stroke") for n in range(8)]
    light = [sum(int(fills[n][at : at + 2], 16) for at in (1, 3, 5)) for n in (1, 0, 5, 2)]
    assert light == sorted(light) and len({*light}) == 4 and fills[3] == fills[4]
    assert (strokes[1], strokes[5]) == (fills[0], fills[1]) and strokes[4] == strokes[7] not in fills[:3]
    assert (
        "entropy" in screen.page.locator(".graph-legend").inner_text()
        and "4 nats" in screen.page.locator(".graph-legend").inner_text()
    )
    again = show(
        html=page(alone(dataclasses.replace(block, nodes=nodes))), address=screen.page.evaluate("location.hash")
    )
    again.settle()
    assert again.page.locator("select", has_text="entropy").input_value() == "entropy"
    assert opened(show, block).page.locator("select", has_text="entropy").count() == 0


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
        screen.settle()
        chosen.append(screen.page.locator(".node-card h2").inner_text())
    assert len(set(chosen)) == 2, "Enter goes from one found node to the next"


def test_pictures_and_data_are_saved(show: Shower) -> None:
    """SVG with words and legend in it, PNG, and every edge, hidden ones too, as CSV; names say what is in the file."""
    screen = opened(show, drawn())
    screen.page.locator("#figure-mode").click()
    saved = {}
    for kind in ("svg", "png", "csv"):
        with screen.page.expect_download() as download:
            screen.page.locator(f"#save-{kind}").click()
        assert download.value.suggested_filename.endswith(f"_graph_flow_through_a_test.{kind}")
        saved[kind] = download.value.path().read_bytes()
    assert b"middle" in saved["svg"] and b"What it means" not in saved["svg"] and b"sums 1e-7" in saved["svg"]
    assert b"<img" not in saved["svg"]
    assert saved["png"].startswith(b"\x89PNG")
    lines = saved["csv"].decode("utf-8-sig").splitlines()
    assert len(lines) == 1 + len(drawn().edges) and "name of small" in saved["csv"].decode()


def test_the_address_has_node_target_and_slider(show: Shower) -> None:
    """A link restores them, Back takes them away one by one; a search shows as much as it takes to see what it finds."""
    screen = opened(show, drawn())
    screen.page.locator(".target").select_option("1")
    screen.settle()
    screen.page.locator("#search").fill("small")
    screen.page.keyboard.press("Enter")
    screen.settle()
    assert "small" in labels(screen)
    address = screen.page.evaluate("location.hash")
    assert {"target=1", "node=3"} <= set(address.removeprefix("#").split("&")) and "amount=" in address
    again = show(html=page(alone(drawn())), address=address)
    again.settle()
    assert "name of small" in again.page.locator(".node-card").inner_text()
    assert again.page.locator(".target").input_value() == "1"
    screen.page.go_back()
    screen.page.locator(".node-card", has_text="Choose a node").wait_for()
    assert screen.page.locator(".target").input_value() == "1"


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
    assert screen.page.locator("label:has(.target)").is_hidden()
    screen.page.locator("[data-node='1']").click()
    assert "share" not in card_of(screen)


def chain(n: int, **fields: Any) -> GraphBlock:
    """Nodes in as many layers as there are, in turn in two lanes."""
    given: dict[str, Any] = {
        "nodes": tuple(node(at, at % 2, f"word {at}", 1.0) for at in range(n)),
        "edges": tuple(edge(at, at + 1, 1.0) for at in range(n - 1)),
        "columns": tuple(f"layer {at}\nheads" for at in range(n)),
    }
    return drawn(**given | {"shown": n} | fields)


def boxes_of(screen: Any, *numbers: int) -> list[dict[str, float]]:
    """Where nodes are on the screen."""
    return [screen.page.locator(f"[data-node='{at}'] rect").bounding_box() for at in numbers]


@pytest.mark.parametrize("n", [12, 40, 400])
def test_the_whole_graph_is_in_the_window_at_first(show: Shower, n: int) -> None:
    """Layers run downwards and have names; wheel, keys, buttons and a drag move it; words are shown where they can be read."""
    screen = opened(show, chain(n), width=1280)
    page = screen.page
    first, second, last = boxes_of(screen, 0, 1, n - 1)
    frame = page.locator(".graph").bounding_box()
    assert frame["y"] + frame["height"] <= 1000 and page.evaluate("innerWidth") >= frame["x"] + frame["width"]
    for box in (first, second, last):
        assert frame["x"] <= box["x"] and box["x"] + box["width"] <= frame["x"] + frame["width"]
        assert frame["y"] <= box["y"] and box["y"] + box["height"] <= frame["y"] + frame["height"] + 1
    assert first["y"] < second["y"] < last["y"]
    assert page.locator("[data-node='0'] text").first.is_visible() == (n == 12)
    names = page.locator(".graph-names text").all_text_contents()
    assert "layer 0 heads" in names and len(names) <= n
    page.mouse.move(frame["x"] + frame["width"] / 2, frame["y"] + frame["height"] / 2)
    for _ in range(8):
        page.mouse.wheel(0, -300)
    page.wait_for_timeout(50)
    (near,) = boxes_of(screen, n // 2)
    assert near["height"] > 30 and page.locator(f"[data-node='{n // 2}'] text").first.is_visible()
    page.mouse.down()
    page.mouse.move(frame["x"] + frame["width"] / 2 + 40, frame["y"] + frame["height"] / 2 - 30, steps=3)
    page.mouse.up()
    (dragged,) = boxes_of(screen, n // 2)
    assert dragged["y"] - near["y"] == pytest.approx(-30, abs=1)
    assert "node=" not in page.evaluate("location.hash"), "a drag chooses no node"
    page.locator(".graph").press("0")
    assert boxes_of(screen, n - 1)[0]["height"] == pytest.approx(last["height"], abs=0.1)
    page.locator(".zooms button", has_text="+").click()
    assert boxes_of(screen, n - 1)[0]["height"] > last["height"]
    page.locator("#search").fill("word 1")
    page.keyboard.press("Enter")
    screen.settle()
    (found,) = boxes_of(screen, 1)
    assert frame["y"] <= found["y"] and found["y"] + found["height"] <= frame["y"] + frame["height"]
    assert screen.overflow() <= 0 and screen.problems == []


def test_a_folded_stretch_says_its_layers(show: Shower) -> None:
    """A double bar over the line, and the layers; a line of its own has none."""
    block = chain(4)
    edges = (dataclasses.replace(block.edges[0], span="1-22"), *block.edges[1:])
    screen = opened(show, dataclasses.replace(block, edges=edges))
    assert screen.page.locator(".graph-fold").count() == 1
    assert "1-22" in screen.page.locator(".graph").text_content()


def test_names_and_shares_are_whole(show: Shower) -> None:
    """However long a component's name and its word: the card is as wide as the name, and of the two below the word is cut."""
    nodes = tuple(
        dataclasses.replace(one, short=short, label="a word that is long")
        for one, short in zip(drawn().nodes, ("L29.resid_mid", "L29H13.v@1234", *["L0"] * 4), strict=True)
    )
    screen = opened(show, drawn(nodes=nodes, shown=7))
    said = [screen.page.locator(f"[data-node='{n}'] text").all_text_contents() for n in range(len(nodes))]
    assert [name for name, _ in said] == [one.short for one in nodes]
    below = [words.rsplit(" ", 1) for _, words in said]
    assert [share for _, share in below] == ["+1", "+1", "+0.5", "+0.1", "+0.1", "+1.6"]
    assert all(word.startswith("a word") for word, _ in below)
    inside = """() => Array.from(document.querySelectorAll(".graph-node"), (group) => {
        const card = group.querySelector("rect").getBoundingClientRect();
        return Array.from(group.querySelectorAll("text"), (node) => node.getBoundingClientRect()).every((box) => box.left >= card.left && box.right <= card.right);
    }).every(Boolean)"""
    assert screen.page.evaluate(inside)


def test_pages_of_models_open(ffb: ModuleType, model_of: Any, tokens_of: Any, show: Shower) -> None:
    """A flow graph and routes of a model, conserved: drawn without a word in the console."""
    model, tokens = model_of("gpt2"), tokens_of("gpt2", 10)
    graph = ffb.flow_graph(model, tokens, layers=[1, 2], target=[7, 9])
    html = graph.to_html()
    assert len(html) < 3e6
    screen = show(html=html)
    screen.settle()
    assert 20 < screen.page.locator(".graph-node").count() < 100
    screen.page.locator(".amount").fill(screen.page.locator(".amount").get_attribute("max"))
    screen.settle()
    assert screen.page.locator(".graph-node").count() > 100
    screen.page.locator(".graph-node").last.click()
    assert "rank of 7" in card_of(screen)
    result = ffb.attribute(model, tokens, ffb.logit(7), of="graph")
    routes = show(html=result.graph(0.7).to_html())
    routes.settle()
    assert "Paths to logit" in routes.page.title()
    assert screen.problems == routes.problems == []
