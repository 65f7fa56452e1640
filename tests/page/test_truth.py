"""What pages and figures say is true: sums, inks, signs, order, labels and counts, of every kind of result that has them."""

import dataclasses
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.integration.test_results import made
from tests.page.screen import Builder, Screen, Shower, build_result
from tests.page.test_logit_view import attribution
from tests.page.test_memories import TOKENS, card
from tests.page.test_overview import patching
from tests.page.test_shares import number, opened
from tl_ffblock.memories import CardValue
from tl_ffblock.metrics import CENTRED_LOGIT
from tl_ffblock.page import DataBlock, GraphBlock, NumbersBlock
from tl_ffblock.result import Result, Results
from tl_ffblock.results.tokens import visible
from tl_ffblock.views import page_of
from tl_ffblock.views.figures import GAIN, INK, LOSS

NAMES = {"IO": [1, 2, 2], "S1": [2, 3, 1], "S2": [3, 1, 4], "END": -1}


def prompts_of(family: str, **options: Any) -> Results[Any]:
    """Attributions of three prompts of unlike lengths."""
    return Results(ffb.attribute(model_of(family), tiny.tokens(family, n), ffb.logit(7), **options) for n in (5, 6, 7))


def edges_of(family: str, n: int = 5) -> Any:
    """Edge estimates of a random model."""
    tokens = tiny.tokens(family, n)
    return ffb.attribution_patching(model_of(family), tokens, tokens.flip(0), ffb.logit(7), edges=True).edges


def numbers_of(result: Any) -> NumbersBlock:
    """Maps and tables of a page."""
    block = page_of(result).runs[0].blocks["numbers"]
    assert isinstance(block, NumbersBlock)
    return block


def overviews_of(result: Any) -> list[dict[str, Any]]:
    """Blocks of a page's overviews: numbers [row column], by head, and words."""
    blocks = page_of(result).runs[0].blocks.values()
    return [dict(block.json) for block in blocks if isinstance(block, DataBlock) and block.json["kind"] == "logit"]


def graph_of(graph: Any, **options: Any) -> GraphBlock:
    """The graph that a page opens with."""
    block = page_of(graph, **options).runs[0].blocks["graph"]
    assert isinstance(block, GraphBlock)
    return block


def sums(rows: Any) -> list[float]:
    """Sum of each row."""
    return np.asarray(rows, dtype=float).sum(axis=1).tolist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("options", [{}, {"rules": "gradient"}], ids=["path", "gradient"])
@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_named_positions_and_others_sum_to_the_heading(family: str, options: dict[str, Any]) -> None:
    """At every layer, of one prompt and of several, on the overview and in its table; the equation of the page too."""
    several = prompts_of(family, **options)
    for results in (several, several[:1]):
        names = {name: at[: len(results)] if isinstance(at, list) else at for name, at in NAMES.items()}
        mean = results.mean(names)
        data = page_of(mean)
        block = data.runs[0].blocks["logit"].json  # type: ignore[union-attr]
        value = float(np.mean([one.value for one in results]))
        assert data.runs[0].tokens == (*NAMES, "others") and block["value"] == pytest.approx(value, rel=1e-5)
        assert sums(block["residual"]) == pytest.approx([value] * len(block["residual"]), rel=1e-4, abs=1e-4)
        assert [name for name, _ in block["sums"]] == [*NAMES, "others"]
        assert sum(share for _, share in block["sums"]) == pytest.approx(value, rel=1e-4, abs=1e-4)
        (alone,) = overviews_of(mean["residual"])
        assert page_of(mean["residual"]).runs[0].tokens == (*NAMES, "others")
        assert alone["residual"] == block["residual"] and alone["ends"] == block["ends"]


def test_the_remainder_has_a_name_of_its_own() -> None:
    """Where a position is called "others"; estimates of patching have no target, so none."""
    results = prompts_of("gpt2")
    assert page_of(results.mean({"others": 1, "END": -1})).runs[0].tokens == ("others", "END", "all-others")
    texts = [tiny.tokens("gpt2", 5)] * 2
    estimates = ffb.attribution_patching(model_of("gpt2"), texts, [one.flip(0) for one in texts], ffb.logit(7))
    assert "others" not in page_of(estimates.mean(NAMES | {"IO": 1, "S1": 2, "S2": 3})).runs[0].tokens


@pytest.mark.browser
def test_chips_of_named_positions_sum_to_the_heading(show: Shower) -> None:
    """As they are read on the page, whose head counts the named positions alone."""
    screen = opened(show, prompts_of("llama").mean(NAMES).to_html())
    chips = [number(text) for text in screen.page.locator(".shared .chip span").all_inner_texts()]
    heading = number(screen.page.locator("#answer").inner_text().split()[0])
    assert len(chips) == len(NAMES) + 1 and sum(chips) == pytest.approx(
        heading, rel=0.01, abs=0.01 * max(map(abs, chips))
    )
    assert "4 named positions" in screen.page.locator("#facts").inner_text()
    said = screen.page.locator("details.note p").first.text_content()
    assert said is not None and " · others " in said and "the rest" not in said
    assert screen.problems == []


def heads(values: torch.Tensor) -> Any:
    """A mean over two prompts of numbers [layer head position]."""
    places = {"layer": range(len(values)), "head": range(values.shape[1]), "position": ("IO", "END")}
    shares = ffb.average_shares(prompts_of("gpt2", of="heads"), "heads", {"IO": 1, "END": -1})
    fields = {name: tuple(held) for name, held in places.items()}
    return dataclasses.replace(shares, values=torch.stack([values, values]).double(), places=fields)


def loud(*shape: int) -> torch.Tensor:
    """Small numbers, of which two are large, one twice the other."""
    values = 0.1 * torch.randn(*shape, generator=torch.Generator().manual_seed(1))
    values.view(-1)[7], values.view(-1)[11] = 6.0, 3.0
    return values


FIGURES: dict[str, Callable[[], Any]] = {
    "a table": lambda: ffb.heat_map(loud(30, 9)),
    "a large table": lambda: ffb.heat_map(loud(40, 40).abs()),
    "heads of a mean": lambda: heads(loud(30, 9, 2)).figure(),
    "patching of heads": lambda: patching(("a", "b"), measured={"head": loud(1, 12, 9)}, layers={"head": tuple(range(12))}).figure(of="heads"),
    "attention of all heads": lambda: ffb.attention_maps(model_of("gpt2"), tiny.tokens("gpt2", 12)).figure(view="all"),
    "a map of tokens": lambda: build_result(24).figure(layer=0, scope="AtbLnFf"),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURES)
def test_the_largest_number_of_a_figure_has_the_darkest_ink(name: str) -> None:
    """A scale ends at it, so that twice as large is darker, however many small cells there are."""
    (image,) = [image for place in FIGURES[name]().axes[:2] for image in place.images]
    cells = np.abs(np.ma.filled(image.get_array().astype(float), np.nan))
    assert image.get_clim()[1] == pytest.approx(np.nanmax(cells))
    inks = image.to_rgba(image.get_array())[..., :3].sum(axis=-1)
    inks[np.isnan(cells)] = np.inf
    largest, second = np.argsort(-np.nan_to_num(cells), axis=None)[:2]
    darker = inks.flat[largest] < inks.flat[second]
    assert darker or cells.flat[largest] < 1.01 * cells.flat[second]


def noising(direction: str) -> Any:
    """Patching in one direction."""
    tokens = tiny.tokens("llama", 5)
    options: dict[str, Any] = {"of": ("residual", "heads"), "direction": direction, "progress": False}
    return ffb.activation_patching(model_of("llama"), tokens, tokens.flip(0), ffb.logit(7), **options)


def estimates_mean() -> Any:
    """Mean estimates at named positions."""
    texts = [tiny.tokens("llama", n) for n in (5, 6)]
    estimates = ffb.attribution_patching(model_of("llama"), texts, [one.flip(0) for one in texts], ffb.logit(7))
    return estimates.mean({"first": 1, "END": -1})


MAPS: dict[str, tuple[Callable[[], Any], bool]] = {
    "noising": (lambda: noising("noising"), True),
    "denoising": (lambda: noising("denoising"), False),
    "estimates": (lambda: made("PatchingEstimates"), True),
    "mean of estimates": (estimates_mean, True),
    "knockout": (lambda: made("AttentionKnockout"), True),
    "mean of attributions": (lambda: prompts_of("llama").mean(NAMES)["residual"], False),
    "direct attribution": (lambda: made("DirectLogitAttribution"), False),
}
"""Results with signed maps, and whether a negative number says that a component supports the target."""


def expected_ink(value: float, removal: bool) -> str:
    """Orange supports the target."""
    return GAIN if (value < 0) == removal else LOSS


@pytest.mark.parametrize("name", MAPS)
def test_orange_supports_the_target_in_every_map(name: str) -> None:
    """Bands of the figure, and of a kind by itself the cells; numbers are the result's own, and the caption says what is drawn."""
    build, removal = MAPS[name]
    result = build()
    block = overviews_of(result)[0]
    assert block["scale"] == ("removal" if removal else "signed")
    if name == "knockout":
        torch.testing.assert_close(torch.tensor(block["residual"]), result.effect, rtol=1e-5, atol=1e-9)
        return  # its figure has lines
    figure = result.figure()
    numbers = np.array(block["residual"], dtype=float)
    bands = figure.axes[0].patches[: np.count_nonzero(np.nan_to_num(numbers))]
    for (row, column), band in zip(np.argwhere(np.nan_to_num(numbers) != 0), bands, strict=True):
        assert to_rgb(band.get_facecolor()) == to_rgb(expected_ink(numbers[row, column], removal))
    said = figure.get_supxlabel().replace("\n", " ")
    assert ("the target falls, so this part supports it" in said) == removal
    if name in ("noising", "denoising", "estimates", "mean of estimates"):
        image = result.figure(of="residual").axes[0].images[0]
        cells = image.get_array().astype(float)
        for at in (np.argmin(cells), np.argmax(cells)):
            ink = image.cmap(image.norm(cells.flat[at]))[:3]
            faint = abs(cells.flat[at]) < 0.05 * image.get_clim()[1]
            assert faint or (ink[0] > ink[2]) == (expected_ink(cells.flat[at], removal) == GAIN)
        assert ("lowers the target" in image.colorbar.ax.get_xlabel()) == removal


@pytest.mark.browser
@pytest.mark.parametrize("name", ["noising", "denoising", "knockout", "estimates"])
def test_orange_supports_the_target_on_the_page(show: Shower, name: str) -> None:
    """The band of the largest number, the line of the list, and the words at the ends of the colours."""
    build, removal = MAPS[name]
    result = build()
    values = np.array(overviews_of(result)[0]["residual"], dtype=float)[:-1]
    row, column = np.unravel_index(int(np.abs(values).argmax()), values.shape)
    screen = opened(show, result.to_html())
    band = screen.page.locator(f"[data-share='{row},{column}']")
    shade = band.get_attribute("stroke") or band.get_attribute("fill")  # hollow where the interval contains 0
    assert shade is not None
    red, _, blue = to_rgb(shade)
    orange = expected_ink(float(values[row, column]), removal) == GAIN
    assert (red > blue) == orange
    drawn = screen.page.locator(".logit svg").text_content()
    assert drawn is not None and ("lowers the target" in drawn and "raises it" in drawn) == removal
    assert screen.problems == []


def absolute_effects() -> Any:
    """Mean absolute effects among random edges."""
    tokens = tiny.tokens("gpt2", 4)
    options: dict[str, Any] = {"draws": 2, "progress": False}
    edges = ffb.Circuit.topn(edges_of("gpt2", 4), 12)
    return ffb.edge_patching(model_of("gpt2"), tokens, tokens.flip(0), ffb.logit(7), edges, **options)


def measured_effects() -> Any:
    """Changes by one edge at a time."""
    tokens = tiny.tokens("gpt2", 4)
    edges = ffb.Circuit.topn(edges_of("gpt2", 4), 12)
    return ffb.edge_patching(model_of("gpt2"), tokens, tokens.flip(0), ffb.logit(7), edges, progress=False)


GRAPHS: dict[str, tuple[Callable[[], Any], bool | None]] = {
    "estimates": (lambda: edges_of("gpt2"), True),
    "circuit": (lambda: ffb.Circuit.topn(edges_of("llama"), 25), True),
    "measured": (measured_effects, True),
    "absolute": (absolute_effects, None),
    "circuit of absolute effects": (lambda: ffb.Circuit.topn(absolute_effects(), 5), None),
    "attribution": (lambda: ffb.attribute(model_of("gpt2"), tiny.tokens("gpt2", 5), ffb.logit(7), of="graph").graph(0.8), False),
    "flow": (lambda: ffb.flow_graph(model_of("gpt2"), tiny.tokens("gpt2", 5), target=7), False),
}  # fmt: skip
"""Graphs, and whether a negative number supports the target; None for numbers without a sign."""


@pytest.mark.parametrize("name", GRAPHS)
def test_orange_supports_the_target_in_every_graph(name: str) -> None:
    """Lines of a figure have the colours of their signs; absolute effects have none. Numbers stay those of the result."""
    build, removal = GRAPHS[name]
    graph = build()
    block = graph_of(graph)
    assert block.removal == bool(removal) and block.signed == (removal is not None)
    figure = graph.figure()
    lines = next(one for one in figure.axes[0].collections if isinstance(one, LineCollection))
    inks = {tuple(np.round(ink[:3], 6)) for ink in lines.get_colors()}
    if removal is None:
        assert inks == {tuple(np.round(to_rgb(INK), 6))}
        return
    shown = {edge.shares[0] for edge in block.edges}
    allowed = {expected_ink(share, removal) for share in shown if share}
    assert inks <= {tuple(np.round(to_rgb(ink), 6)) for ink in allowed | {GAIN}}
    biggest = max(block.edges, key=lambda edge: abs(edge.shares[0]))
    widest = lines.get_colors()[int(np.argmax(np.broadcast_to(lines.get_linewidth(), len(lines.get_colors()))))][:3]
    assert tuple(widest) == pytest.approx(to_rgb(expected_ink(biggest.shares[0], removal)))
    caption = figure.get_supxlabel().replace("\n", " ")
    assert ("Orange: the target falls" in caption) == removal


@pytest.mark.browser
@pytest.mark.parametrize("name", ["circuit", "measured", "attribution"])
def test_orange_supports_the_target_in_a_graph_on_the_page(show: Shower, name: str) -> None:
    """The node of largest absolute number, and the words at the ends of the colours."""
    build, removal = GRAPHS[name]
    graph = build()
    block = graph_of(graph)
    screen = opened(show, graph.to_html())
    screen.page.locator(".amount").fill(screen.page.locator(".amount").get_attribute("max"))
    screen.settle()
    at = max(range(len(block.nodes)), key=lambda n: abs(block.nodes[n].shares[0]))
    fill = str(screen.page.locator(f"[data-node='{at}'] rect").get_attribute("fill"))
    red, blue = int(fill[1:3], 16), int(fill[5:7], 16)
    assert (red > blue) == (expected_ink(block.nodes[at].shares[0], bool(removal)) == GAIN)
    legend = screen.page.locator(".graph-legend").inner_text()
    assert ("lowers the target" in legend and "raises it" in legend) == bool(removal)
    assert screen.problems == []


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox"])
def test_a_circuit_knows_its_part_of_the_sizes(family: str) -> None:
    """Of all edges, through every way to choose it; its page and figure say so, and say nothing where it is not known."""
    whole = ffb.Circuit.topn(edges_of(family), len(ffb.Circuit.full(model_of(family))))
    total = float(whole.sizes.sum())
    assert whole.kept == pytest.approx(1)
    small, large = ffb.Circuit.topn(whole, 10), ffb.Circuit.greedy(whole, 40)
    for circuit in (
        small,
        large,
        small | large,
        large & small,
        large - small,
        large.connected(),
        whole.choose(np.arange(len(whole)) % 3 == 0),
    ):
        assert circuit.kept == pytest.approx(float(circuit.sizes.sum()) / total, rel=1e-5)
        part = f"{len(circuit):,} of {len(whole):,} edges"
        block = graph_of(circuit)
        assert f"Drawn: {part}, {100 * circuit.kept:.3g} % of their size" in block.drawn and part in block.counts
        caption = circuit.figure().get_supxlabel().replace("\n", " ")
        assert f"{part} ({100 * circuit.kept:.3g} % of their size)" in caption and "all edges" not in caption
    assert "kept" in repr(small) and "100 %" not in small.to_html()


def test_a_circuit_of_some_measured_edges_has_no_part_of_all() -> None:
    """The sizes of the others are not known."""
    circuit = ffb.Circuit.topn(measured_effects(), 5)
    assert np.isnan(circuit.kept) and "%" not in graph_of(circuit).drawn
    assert "% of" not in circuit.figure().get_supxlabel()


@pytest.mark.parametrize("scored", [False, True])
def test_a_circuit_without_scores_has_a_page(scored: bool, tmp_path: Any) -> None:
    """All edges of a model, or some by name: nothing is coloured, and no part of sizes is claimed."""
    model = model_of("gpt2")
    full = ffb.Circuit.full(model)
    for circuit in (full, ffb.Circuit.of(model, [*full][::7])):
        if scored:  # scores of a file have no target
            circuit = dataclasses.replace(circuit, weights=circuit.weights + 0.5, sizes=circuit.sizes + 0.5)
        block = graph_of(circuit)
        assert (
            len(block.edges) == len(circuit)
            and block.targets == ()
            and block.heading == f"Circuit of {len(circuit):,} edges"
        )
        assert all(edge.shares == () for edge in block.edges) and "%" not in block.drawn
        lines = next(one for one in circuit.figure().axes[0].collections if isinstance(one, LineCollection))
        assert {tuple(ink[:3]) for ink in lines.get_colors()} == {to_rgb(INK)}
        with io.BytesIO() as file:
            circuit.figure().savefig(file)


@pytest.mark.browser
def test_a_circuit_without_scores_opens(show: Shower) -> None:
    """Without a word in the console; a node's card lists its edges."""
    screen = opened(show, ffb.Circuit.full(model_of("llama")).to_html())
    assert screen.page.locator(".graph-node").count() > 5 and "%" not in screen.page.locator(".shown").inner_text()
    screen.page.locator(".graph-node").nth(3).click()
    assert "share" not in screen.page.locator(".node-card").inner_text() and screen.problems == []


def reversed_sizes() -> Any:
    """Faithfulness of circuits, the largest first."""
    result = made("CircuitFaithfulness")
    order = [2, 0, 3, 1]
    return dataclasses.replace(result, n_edges=result.n_edges[order], values=result.values[order])


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Windows(Result):
    """A result of a user's own over windows."""

    values: tuple[float, ...]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per window."""
        return pd.DataFrame({"window": range(len(self.values)), "value": self.values})

    def summary(self) -> tuple[str, dict[str, object]]:
        """A title."""
        return "windows", {}


ORDERED: dict[str, Callable[[], Any]] = {
    "windows of a user": lambda: Windows(tuple(np.random.default_rng(0).normal(size=140).tolist())),
    "keys of a sweep": lambda: made("ContributionSweep"),
}


@pytest.mark.parametrize("name", ORDERED)
def test_sizes_and_windows_keep_their_order(name: str) -> None:
    """On the page and in its figure, where the largest are kept of many; a number that is a name has no order."""
    result = ORDERED[name]()
    (table,) = numbers_of(result).tables
    along = [int(re.search(r"\d+", entry)[0]) for entry, _ in table["entries"]]  # type: ignore[index]
    assert along == sorted(along) and len({*along}) == len(along) > 3
    figure = result.figure()
    place = figure.axes[0]
    shown = [float(bar.get_width()) for bar in place.patches]
    values = [value for _, value in table["entries"]]
    assert sorted(map(abs, shown)) == sorted(sorted(map(abs, values))[-24:])
    assert [value for value in values if value in shown] == shown
    assert (f"the {len(shown)} largest of these" in figure.get_supxlabel().replace("\n", " ")) == (
        len(shown) < len(values)
    )


def test_layers_and_sizes_of_circuits_keep_their_order() -> None:
    """Rows of an overview are layers; a curve begins at the smallest circuit."""
    (block,) = overviews_of(ffb.average_shares(prompts_of("gpt2"), "residual"))
    assert block["layers"] == [*range(len(block["layers"]) - 1), None]
    (curve,) = numbers_of(reversed_sizes()).curves
    faithfulness = reversed_sizes().to_dataframe().sort_values("edges")
    assert curve["y"] == faithfulness["value"].tolist() and curve["x"] == sorted(curve["x"])


def test_neurons_are_listed_by_size() -> None:
    """Their numbers are names."""
    (table,) = numbers_of(made("NeuronShares")).tables
    values = [abs(value) for _, value in table["entries"]]
    assert values == sorted(values, reverse=True)


def test_positions_have_their_names_in_the_order_asked_for() -> None:
    """However alike their tokens are; in maps, tables and figures of means, estimates and patching."""
    results = [dataclasses.replace(one, labels=("same",) * len(one.labels)) for one in prompts_of("gpt2", of="heads")]
    means = [Results(results).mean(NAMES), ffb.average_shares(results, "heads", NAMES)]
    for result in means:
        assert page_of(result).runs[0].tokens[: len(NAMES)] == (*NAMES,)
    tokens = ("a", "b", "a", "b", "a")
    named = patching(
        tokens,
        measured={"residual": torch.randn(1, 4, 4)},
        layers={"residual": (0, 1, 2, 3)},
        positions=(*NAMES,),
        position_tokens=("a",) * 4,
    )
    assert page_of(named).runs[0].tokens == (*NAMES,)
    place = named.figure().axes[0]
    assert [tick.get_text() for tick in place.get_xticklabels()] == [*NAMES]
    biases = ffb.average_shares(results, "biases", NAMES)
    rows = [row for one in numbers_of(biases).maps for row in one["columns"]]
    assert {*NAMES} <= {*rows}


def test_two_tokens_have_two_labels_in_a_figure() -> None:
    """However long they are, and however often they occur: the position is not cut."""
    word = "·internationalisation"
    columns = [f"{word}@{at}" for at in (3, 12, 104)]
    ticks = [tick.get_text() for tick in ffb.heat_map(torch.eye(3), columns=columns).axes[0].get_xticklabels()]
    assert len({*ticks}) == 3 and [tick.split("@")[1] for tick in ticks] == ["3", "12", "104"]
    assert max(map(len, ticks)) <= 16


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9, 1.0])
@pytest.mark.parametrize("family", ["gpt2", "llama", "phi"])
def test_counts_of_a_graph_are_those_that_it_prints(family: str, keep: float) -> None:
    """Drawn, folded and summed ones are all; page, figure and print have one number."""
    model, tokens = model_of(family), tiny.tokens(family, 6)
    graphs = [
        ffb.attribute(model, tokens, ffb.logit(7), of="graph").graph(keep),
        ffb.flow_graph(model, tokens, target=7).prune(keep),
    ]
    for graph in graphs:
        block = graph_of(graph)
        n_nodes, n_edges = map(int, re.search(r"(\d+) nodes, (\d+) edges", repr(graph)).groups())  # type: ignore[union-attr]
        assert block.counts == f"{n_nodes:,} nodes · {n_edges:,} edges" and block.n_edges == n_edges
        said = block.drawn.replace(",", "")
        drawn, of_edges, shown, of_nodes = map(
            int, re.search(r"Drawn: (\d+) of (\d+) edges; (\d+) of (\d+) nodes", said).groups()
        )  # type: ignore[union-attr]
        folded, others = (
            int((re.search(form, said) or ["", "0"])[1])
            for form in (r"(\d+) nodes of the residual", r"the other (\d+) edges")
        )
        assert (drawn, shown, of_edges, of_nodes) == (len(block.edges), len(block.nodes), n_edges, n_nodes)
        assert drawn + folded + others == n_edges
        assert shown + folded + any(node.kind == "pruned" for node in graph.nodes) == n_nodes
        caption = graph.figure().get_supxlabel().replace("\n", " ").replace(",", "")
        assert f"of {n_edges} edges" in caption or ("all edges" in caption and drawn == n_edges)


@pytest.mark.browser
@pytest.mark.parametrize("name", ["attribution", "estimates", "circuit"])
def test_counts_stand_in_the_head_and_by_the_slider(show: Shower, name: str) -> None:
    """As data say them."""
    graph = GRAPHS[name][0]()
    block = graph_of(graph)
    screen = opened(show, graph.to_html())
    assert block.counts in screen.page.locator("#facts").inner_text()
    assert block.drawn in screen.page.locator(".shown").inner_text()


def lists(screen: Screen) -> dict[str, list[str]]:
    """Tokens that a memory's card says to be promoted and demoted."""
    lines = screen.page.locator(".memory-words")
    return {line.inner_text().split()[0]: line.locator("bdi").all_inner_texts() for line in lines.all()}


@pytest.mark.browser
@pytest.mark.parametrize("activation", [-15.7, -0.001, 2.0])
def test_a_negative_activation_pushes_down_what_the_value_promotes(
    show: Shower, build: Builder, activation: float
) -> None:
    """The lists change places with its sign, token by token, and a sentence says why; without a text nothing does."""
    value = CardValue("final_norm", ("woman", "women", "girl"), ("man", "boy"), 0.25, 0, 3)
    text = card().text
    assert text is not None
    along = (1.0, *(activation for _ in TOKENS[1:]))
    one = dataclasses.replace(card(value=value), text=dataclasses.replace(text, along=along))
    screen = show(build(4, tokens=TOKENS), beside=[one], view="memories")
    first = screen.page.locator(".memory-part").first
    chips = screen.page.locator(".memory-part").nth(1).locator(".chip")
    for at in (0, 2):
        chips.nth(at).click()
        screen.settle()
        negative = along[at] < 0
        up, down = [*value.bottom], [*value.top]
        assert lists(screen) == ({"promotes": up, "demotes": down} if negative else {"promotes": down, "demotes": up})
        assert ("pushes down “woman” and “women”" in first.inner_text()) == negative
    assert "It comes next in 0 of 3 top-activating examples." in first.inner_text()
    assert "follows" not in first.inner_text()
    unread = show(build(4, tokens=TOKENS), beside=[dataclasses.replace(one, text=None)], view="memories")
    assert lists(unread) == {"promotes": [*value.top], "demotes": [*value.bottom]}


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize("parts", ["none", "edges"])
def test_two_attributions_of_which_one_has_biases_have_a_page(parts: str, swapped: bool) -> None:
    """As `a - b` has; the one without shows no table of them."""
    given = attribution(parts={name: table for name, table in attribution().parts.items() if name == parts})
    without = dataclasses.replace(
        given, bias_names=(), bias_layers=(), bias_shares=torch.zeros(0, len(given.labels)), model="other"
    )
    first, second = (without, given) if swapped else (given, without)
    runs = page_of(first, against=second).runs
    tables = [[table["title"] for table in run.blocks["numbers"].tables] for run in runs]  # type: ignore[union-attr]
    assert tables == ([[], ["Biases"], ["Biases"]] if swapped else [["Biases"], [], ["Biases"]])
    assert first.to_html(against=second).startswith("<!doctype html>")


@pytest.mark.browser
def test_every_target_of_patching_has_a_column(show: Shower, build: Builder) -> None:
    """Beside an attribution: none is shown as if it were the only one."""
    tokens = tuple(f"t{at}" for at in range(4))
    values = torch.randn(2, 3, 2, 4)
    sweep = patching(
        tokens,
        measured={"head": values},
        layers={"head": (0, 1, 2)},
        targets=("logit 'a'", "logit 'b'"),
        quantities=("logit", "logit"),
        clean=torch.zeros(2),
        corrupted=torch.zeros(2),
    )
    maps = build(4, tokens=tokens, layers=range(3))
    blocks = [
        block.json
        for name, block in page_of(maps, beside=(attribution(tokens), sweep)).runs[0].blocks.items()
        if "effects" in name
    ]  # type: ignore[union-attr]
    assert [one["target"] for one in blocks] == ["logit 'a'", "logit 'b'"]
    for number_of, one in enumerate(blocks):
        assert torch.tensor(one["tables"]["head"]["values"]).flatten().tolist() == pytest.approx(
            sweep.values["head"][number_of].flatten().tolist(), rel=1e-3
        )
    screen = opened(show, maps.to_html(beside=(attribution(tokens), sweep)))
    screen.page.evaluate("() => { location.hash += '&list=heads'; }")  # it opens at the edges, of the largest move
    screen.settle()
    heads_row = screen.page.locator("table.measured tr").first.inner_text()
    assert "logit 'a'" in heads_row and "logit 'b'" in heads_row and screen.problems == []


HOSTILE = (" Mary", "'", '"', "it's 5", "' - '", " - 'x", "\\", "'3'", "1'2", "\"'7", "\n", "a' - 'b")


@pytest.mark.parametrize("quantity", ["logit", "logit difference", CENTRED_LOGIT])
def test_a_question_has_the_tokens_of_its_target(quantity: str) -> None:
    """Whatever quotes, digits and signs they have; names of other targets ask nothing of tokens."""
    for first in HOSTILE:
        for second in HOSTILE if quantity == "logit difference" else (None,):
            words = repr(first) if second is None else f"{first!r} - {second!r}"
            block = page_of(attribution(target=f"{quantity} {words}", quantity=quantity)).runs[0].blocks["logit"]
            asked = f"“{visible(first)}”" if second is None else f"“{visible(first)}” and not “{visible(second)}”"
            assert block.json["question"] == f"Why {asked}?"  # type: ignore[union-attr]
    for words in ("('a', 'b') - 'c'", "token 7", "'a' at 3", "'a' 'b'", "'a' - 'b' - 'c'", "'a' + 'b'", "", "'a"):
        block = page_of(attribution(target=f"{quantity} {words}", quantity=quantity)).runs[0].blocks["logit"]
        assert block.json["question"].startswith("What makes the ")  # type: ignore[union-attr]
