"""Figures of studies: what is written in them can be read."""

from dataclasses import replace
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import torch
from matplotlib.collections import LineCollection
from scipy.stats import spearmanr

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.page.screen import build_result
from tl_ffblock.results.figures import Spread, layer_lines, layer_panels
from tl_ffblock.results.tokens import told_apart
from tl_ffblock.views.figures import lines, scatter


def test_a_long_title_of_a_panel_stays_in_the_picture() -> None:
    """Every title lies within the figure and above its own panel, however long it is."""
    spread = Spread(np.linspace(0.1, 0.2, 6), np.full(6, 0.01), np.full(6, 0.05))
    figure = layer_panels(
        {"all": spread, "some": spread, "a title longer than " * 3 + "its panel": spread}, ylabel="change"
    )
    figure.canvas.draw()
    panels = [panel for panel in figure.axes if panel.get_visible()]
    for panel in panels:
        title = panel.title.get_window_extent()
        assert title.x0 >= 0 and title.x1 <= figure.bbox.x1 and title.y1 <= figure.bbox.y1
        assert all(not title.overlaps(side.title.get_window_extent()) for side in panels if side is not panel)


def test_errors_and_deviations_are_drawn_where_they_are_known() -> None:
    """A thick line is as long as two standard errors, a thin one as two deviations; one sample has neither."""
    rows = pd.DataFrame({"value": [2.0, 3.0, 4.0], "deviation": [0.4, 0.8, np.nan], "sequences": [16, 4, 1]})
    spread = Spread.of(rows, "value")
    for figure in (layer_lines({"one": spread}, ylabel=""), layer_panels({"one": spread}, ylabel="")):
        lengths = {}
        for drawn in figure.axes[0].collections:
            ends = np.array([segment[:, 1] for segment in drawn.get_segments() if len(segment)])
            lengths[float(drawn.get_linewidth()[0])] = np.diff(ends).ravel()
        thin, thick = (lengths[width] for width in sorted(lengths))
        np.testing.assert_allclose(thick[:2], [0.2, 0.8])
        np.testing.assert_allclose(thin[:2], [0.8, 1.6])
        assert not np.isfinite(thick[2:]).any() and not np.isfinite(thin[2:]).any()


def test_the_error_of_a_share_is_that_of_its_yes_and_no() -> None:
    """Counted one by one, ones and zeros have the same mean and the same standard error; nothing counted has none."""
    samples = np.array([1.0] * 3 + [0.0] * 9)
    rows = pd.DataFrame({"share": [samples.mean(), np.nan], "n": [len(samples), 0]})
    spread = Spread.of_shares(rows, "share", count="n")
    assert spread.error[0] == pytest.approx(samples.std() / np.sqrt(len(samples)))
    assert np.isnan(spread.error[1]) and spread.deviation is None


def test_the_error_of_a_rank_correlation_is_its_scatter() -> None:
    """Over many draws of related pairs, rho scatters as its stated error says, to a tenth."""
    random = np.random.default_rng(0)
    x = random.normal(size=(1500, 60))
    y = 0.4 * x + random.normal(size=x.shape)
    rho = np.array([spearmanr(*pair)[0] for pair in zip(x, y, strict=True)])
    spread = Spread.of_rank_correlations(pd.DataFrame({"rho": [rho.mean()], "n": [60]}), "rho", count="n")
    assert spread.error[0] == pytest.approx(rho.std(), rel=0.1)


def test_a_heat_map_has_the_numbers_and_labels_of_its_table() -> None:
    """Of a pivoted table as of a tensor with labels; two colours and white at 0 where a number is negative."""
    table = pd.DataFrame({"layer": [0, 0, 4, 4], "head": [1, 2, 1, 2], "value": [0.5, -1.0, np.nan, 2.0]})
    cells = table.pivot(index="layer", columns="head", values="value")
    for figure in (ffb.heat_map(cells), ffb.heat_map(torch.tensor(cells.to_numpy()), [0, 4], ["1", "2"])):
        place = figure.axes[0]
        np.testing.assert_array_equal(place.images[0].get_array().filled(np.nan), cells.to_numpy())
        assert [text.get_text() for text in place.get_yticklabels()] == ["0", "4"]
        assert [text.get_text() for text in place.get_xticklabels()] == ["1", "2"]
        assert -place.images[0].norm.vmin == place.images[0].norm.vmax
    assert ffb.heat_map(cells.abs()).axes[0].images[0].norm.vmin == 0


def test_a_scale_of_shares_is_in_per_cent_and_of_their_change_in_points() -> None:
    """A share that goes from 10 % to 4 % changes by 6 points, and by 60 %."""
    figure = build_result(6).figure(layer=0, scope="AtbLnFf", against="AtbLn")
    figure.canvas.draw()
    shares, change = (place for place in figure.axes if place.get_label() == "<colorbar>")
    said = [[tick.get_text() for tick in place.get_xticklabels()] for place in (shares, change)]
    assert all(words.endswith(" %") for words in said[0]) and shares.get_xlabel() == ""
    assert not any("%" in words for words in said[1]) and change.get_xlabel() == "points"
    ends = figure.axes[2].images[0].get_clim()
    assert max(abs(float(words.replace("\u2212", "-"))) for words in said[1]) == pytest.approx(100 * ends[1], rel=0.5)


def test_pictures_of_a_result_are_of_its_numbers() -> None:
    """Heads summed over positions; points at the numbers that two results have of a component; sums of every layer."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    estimates = ffb.attribution_patching(model, tokens, tokens.flip(0), ffb.logit(7))
    attribution = ffb.attribute(model, tokens, ffb.logit(7), of="heads")
    shown = estimates.figure(of="heads").axes[0].images[0].get_array()
    with pytest.warns(DeprecationWarning, match='of="head" is of="heads" now'):
        np.testing.assert_array_equal(estimates.figure(of="head").axes[0].images[0].get_array(), shown)
    np.testing.assert_allclose(shown, estimates.heads.sum(dim=-1), rtol=1e-6)
    points = estimates.figure(against=attribution, of="heads").axes[0].collections[0].get_offsets()
    pairs = torch.stack([estimates.heads, attribution.heads], dim=-1).reshape(-1, 2)
    np.testing.assert_allclose(sorted(points.tolist()), sorted(pairs.tolist()), rtol=1e-6)
    assert f"r = {torch.corrcoef(pairs.T)[0, 1]:.3f}, {len(pairs)} numbers" in (
        estimates.figure(against=attribution, of="heads").get_suptitle()
    )
    drawn = {line.get_label(): line.lines[0].get_ydata() for line in estimates.figure(by_layer=True).axes[0].containers}
    np.testing.assert_allclose(drawn["residual"], estimates.residual.sum(dim=1), rtol=1e-5)
    np.testing.assert_allclose(drawn["head"], estimates.heads.sum(dim=(1, 2)), rtol=1e-5)


def clashes(figure: Any, named: bool = False) -> list[str]:
    """Texts that leave a figure or lie on each other; labels of a scatter plot's points may, of nodes if they are not `named`."""
    figure.canvas.draw()
    renderer, whole = figure.canvas.get_renderer(), figure.bbox
    drawn = [figure._suptitle, figure._supxlabel] if figure._supxlabel else [figure._suptitle]
    for place in figure.axes:
        axes = (place.xaxis, place.get_xlim(), 0), (place.yaxis, place.get_ylim(), 1)
        ticks = [
            t
            for axis, ends, at in axes
            for t in axis.get_ticklabels()
            if min(ends) <= t.get_position()[at] <= max(ends)
        ]
        legend = [] if place.get_legend() is None else place.get_legend().get_texts()
        drawn += [place.title, place.xaxis.label, place.yaxis.label, *legend, *(ticks if place.axison else [])]
        drawn += place.texts if named else []
    shown = [text for text in drawn if text.get_text().strip() and text.get_visible()]
    boxes = [(text.get_text(), text.get_window_extent(renderer).padded(-1)) for text in shown]
    out = [
        name
        for name, box in boxes
        if not (box.x0 >= -2 and box.x1 <= whole.x1 + 2 and box.y0 >= -2 and box.y1 <= whole.y1 + 2)
    ]
    pairs = [f"{a} on {b}" for i, (a, one) in enumerate(boxes) for b, two in boxes[i + 1 :] if one.overlaps(two)]
    return out + pairs


def test_heads_of_an_attribution_are_coloured_up_to_the_largest() -> None:
    """As on the page: up to a percentile the few that matter would look alike; arcs are named where there are some."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 12)
    for of in (("heads",), ("heads", "edges")):
        result = ffb.attribute(model, tokens, ffb.logit(7), of=of)
        figure, largest = result.figure(), float(result.heads.sum(dim=-1).abs().max())
        (drawn,) = (image for ax in figure.axes if ax.get_title() == "heads" for image in ax.images)
        assert drawn.get_clim() == pytest.approx((-largest, largest), rel=1e-5)
        assert any("Arcs" in text.get_text() for text in figure.texts) == ("edges" in of)


@pytest.mark.parametrize("width", [3.3, 6.8])
def test_figures_are_readable_at_both_widths(width: float) -> None:
    """At one column and at two no text leaves the figure or lies on another, and none is higher than half a page."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 24)
    attribution = ffb.attribute(model, tokens, ffb.logit(7), of=("heads", "edges", "graph"))
    maps, attention = ffb.contribution_maps(model, tokens), ffb.attention_maps(model, tokens)
    long = "a title of many words that is longer than one column of a paper is wide, by far"
    random = np.random.default_rng(0).normal(size=(30, 12))
    drawn = {
        "overview": attribution.figure(width=width),
        "map": maps.figure(layer=0, scope="AtbLnFf", width=width),
        "three maps": maps.figure(layer=0, scope="AtbLnFf", against="AtbLn", width=width),
        "all heads": attention.figure(view="all", width=width),
        "lines of a head": attention.figure(view="heads", width=width),
        "graph": attribution.graph(0.9).figure(width=width),
        "heat map": ffb.heat_map(random, title=long, caption=long * 3, width=width),
        "lines": lines(dict.fromkeys(("residual", "heads", "feed-forward"), random[:, 0]), title=long, width=width),
        "scatter": scatter(random[0], random[1], title=long, width=width),
        "sums": attribution.figure(by_layer=True, width=width),
    }
    assert {name: found for name, figure in drawn.items() if (found := clashes(figure))} == {}
    assert {name: figure.get_figwidth() for name, figure in drawn.items()} == dict.fromkeys(drawn, width)
    assert max(figure.get_figheight() for figure in drawn.values()) <= 5


def graphs_of(family: str) -> dict[str, Any]:
    """An attribution graph with more and fewer edges, and flow graphs of one layer and of two."""
    model, tokens = model_of(family), tiny.tokens(family, 12)
    target = ffb.direction(torch.ones(model.cfg.d_model), layer=-1) if family == "bert" else ffb.logit(7)
    whole = ffb.attribute(model, tokens, target, of="graph").graph(1.0)
    flows = {f"flow of {n}": ffb.flow_graph(model, tokens, layers=range(n), target=7) for n in (1, 2)}
    return {f"keep={keep}": whole.prune(keep) for keep in (0.1, 0.3, 0.6, 0.9)} | flows


@pytest.mark.parametrize("family", ["llama", "phi", "bert"])
def test_names_in_the_figure_of_a_graph_do_not_lie_on_each_other(family: str) -> None:
    """Names of nodes, tokens and layers, at both widths and without the texts around; there are names, and words are whole."""
    for name, graph in graphs_of(family).items():
        for width, title in ((3.4, True), (6.8, True), (6.8, None)):
            figure = graph.figure(width=width, title=title, caption=title)
            assert clashes(figure, named=True) == [], (name, width)
            texts = [text.get_text() for text in figure.axes[0].texts]
            ticks = [text.get_text() for text in (*figure.axes[0].get_xticklabels(), *figure.axes[0].get_yticklabels())]
            assert texts and not any("…" in text for text in texts + ticks), (name, width)


@pytest.mark.parametrize("family", ["llama", "phi", "bert"])
def test_nodes_in_the_figure_of_a_graph_are_on_paths_from_tokens_to_the_target(family: str) -> None:
    """Every node that is drawn, with the part of the edges; where no path is left, the caption says so, and lines have nodes."""
    connected = 0
    for name, graph in graphs_of(family).items():
        figure = graph.figure()
        lines_of = [drawn for drawn in figure.axes[0].collections if isinstance(drawn, LineCollection)]
        paths = nx.DiGraph([tuple(map(tuple, ends)) for drawn in lines_of for ends in drawn.get_segments()])
        (nodes,) = ({*map(tuple, drawn.get_offsets())} for drawn in figure.axes[0].collections if drawn not in lines_of)
        assert nodes == {*paths}, name
        if "no paths" in figure.get_supxlabel() or name.startswith("flow"):
            continue
        connected += 1
        end = max(nodes)
        starts = {node for node in nodes if not paths.in_degree(node)}
        assert nodes == {end} | nx.ancestors(paths, end) and {x for x, _ in starts} == {0.0}, name
        tokens = [text.get_text() for text in figure.axes[0].get_yticklabels()]
        assert len(tokens) == len({*tokens}) and {*tokens} <= {*told_apart(graph.labels)}, name
    assert connected


def test_a_graph_without_a_target_has_a_figure() -> None:
    """Sizes may be negative, as scores are."""
    graph = ffb.flow_graph(model_of("bert"), tiny.tokens("bert", 8), layers=1)
    none: dict[str, Any] = dict.fromkeys(("shares", "own_shares", "rest_shares", "ranks", "probabilities"), ())
    nodes, sizes = tuple(replace(node, **none) for node in graph.nodes), -graph.sizes
    figure = replace(graph, targets=(), weights=graph.weights[:, :0], nodes=nodes, sizes=sizes).figure()
    assert "all edges; width is the size" in figure.get_supxlabel()
