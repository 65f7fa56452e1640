"""Matplotlib figures: of the opening view of every kind of page, in its colours, and of results with figures of their own."""

import importlib.util
import io
import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from textwrap import wrap
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import torch
from jaxtyping import Float64, Int64, Shaped

from tl_ffblock.errors import InputError, brief
from tl_ffblock.graphs.edge_estimates import EdgeGraph
from tl_ffblock.interventions.circuits import CircuitFaithfulness, EdgeEffects
from tl_ffblock.interventions.validation import (
    ATTENTION,
    KNOCKOUT,
    PLACEBO,
    VALUES,
    CausalValidation,
    CellChoice,
    change_of,
)
from tl_ffblock.layer.positions import real_number
from tl_ffblock.numerals import significant, typographic, typographic_words
from tl_ffblock.page import DataBlock, GraphBlock, MapsBlock, NumbersBlock, PageData, PageEdge
from tl_ffblock.result import Result
from tl_ffblock.results.figures import COLOURS, COLUMN, axes, layer_lines, sign
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.results.tokens import told_apart
from tl_ffblock.signatures import strict
from tl_ffblock.views.registry import figure_of, page_of

INK, GAIN, LOSS = "#003f5c", "#b35806", "#6a5fc0"
DPI = 100
# Colours of a PNG; with all colours it would be twice as large.
COLOURS_OF_PNG = 128
# Largest height of a still picture in inches at full resolution; a higher figure has fewer dots per inch.
STILL_HEIGHT = 3.6
# Smallest distance in points between labels of ticks; characters per inch of titles and of captions.
LABEL_STEP, TITLE_LETTERS, CAPTION_LETTERS = 6.5, 15.5, 21.0
# Inches that a line of a title and of a caption adds to a figure's height.
TITLE_LINE, CAPTION_LINE = 0.15, 0.115
# Numbers of characters above which texts are cut.
LONGEST_LABEL, LONGEST_TITLE, LONGEST_CAPTION = 16, 160, 600
# Width in inches from which a figure has three maps next to each other.
WIDE = 5.0
# Height of a single map over its width.
MAP_SHAPE = 0.8
# Fraction of a picture that the colour of the largest number covers.
PICTURE_COVERED = 0.8
# Largest numbers of bars of a table, and of lines of one head.
MOST_BARS, MOST_HEAD_LINES = 24, 300
SIGNS = "Orange raises it, violet lowers it."
REMOVALS = "Orange: the target falls, so this part supports it. Violet: it rises."
# Largest number of labelled points of a scatter plot.
MOST_NAMED = 8
# Smallest vertical distance between labels of points, as a fraction of the axis; the horizontal one is four times as large.
LEAST_APART = 0.04
# Arcs of the overview: largest number, smallest size as a fraction of the widest stream, number of labelled ones.
MOST_ARCS, LEAST_ARC, NAMED_ARCS = 14, 0.05, 3
# Largest number of positions of a figure of a logit lens.
MOST_LENS = 8
# Distance between labels of arcs, as a fraction of the overview's height.
NAME_ROWS = 0.06
NAME_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
# Largest numbers of drawn edges of a graph, and of its labelled nodes.
MOST_LINES, MOST_NODE_NAMES = 600, 20
# Inches per label of a graph's axes; pixels around labels of its nodes.
TICK_ROOM, NAME_APART = 0.14, 1.0
# Colours of kinds of predictors: vermilion, blue, orange and grey.
COLOUR_OF = {"map of what is edited": COLOURS[5], "other maps": COLOURS[0], ATTENTION: COLOURS[1], PLACEBO: COLOURS[6]}

Cells = Float64[np.ndarray, "row column"]


def headline_and_facts(result: Result) -> tuple[str, str]:
    """First line of a result's printed text, and its other lines as one, with the minus of pages and figures."""
    headline, facts = result.summary()
    return typographic_words(headline), typographic_words(" · ".join(f"{name} {fact}" for name, fact in facts.items()))


def still_of(data: PageData) -> bytes | None:
    """PNG with few colours of a page's opening view; None without Matplotlib."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from PIL import Image  # a requirement of Matplotlib

    drawn, small = io.BytesIO(), io.BytesIO()
    figure = page_figure(data)
    figure.savefig(drawn, format="png", dpi=DPI * min(1.0, STILL_HEIGHT / figure.get_figheight()))
    drawn.seek(0)
    Image.open(drawn).convert("RGB").quantize(COLOURS_OF_PNG).save(small, format="png", optimize=True)
    return small.getvalue()


@figure_of.register(CausalValidation)
@strict
def validation_figure(
    result: CausalValidation, *, cells: CellChoice = "off-diagonal", width: float | None = None
) -> Any:
    """Figure of the mean rho over layers of every predictor, one panel per effect, with 95 % intervals.

    Args:
        result: Effects and predictors of cells.
        cells: Cells that are correlated.
        width: Inches; None means a width that depends on the number of panels.
    """
    from matplotlib.lines import Line2D

    columns = min(4, len(result.effects))
    if width is not None:
        columns = min(columns, max(1, int((_inches(width, COLUMN) - 1.4) / 1.3)))
    rows = math.ceil(len(result.effects) / columns)
    wide = _inches(width, 2.2 * columns + 1.4)
    size = {"width": wide, "height": rows * (0.6 + 0.22 * len(result.predictors)) + 0.6}
    figure, grid = axes(rows=rows, columns=columns, sharey=True, sharex=True, squeeze=False, **size)
    panels, correlated = list(grid.flat), 0
    done = "removed" if result.corrupted is None else "exchanged"
    for spare in panels[len(result.effects) :]:
        spare.set_visible(False)
    for panel, effect in zip(panels, result.effects, strict=False):
        for row, predictor in enumerate(result.predictors):
            correlation = result.correlation(effect, predictor, cells=cells)
            correlated = max(correlated, int(correlation.counts.sum()))
            value, low, high = correlation.mean()
            colour = COLOUR_OF[_kind(predictor, effect)]
            panel.plot([low, high], [row, row], color=colour, linewidth=2)
            panel.plot(value, row, "o", color=colour)
        panel.axvline(0, color="0.7", linewidth=1, zorder=0)
        panel.set_title(effect if effect == KNOCKOUT else f"{done}: {effect}", fontsize=8)
        panel.tick_params(labelbottom=True)
    panels[0].set_yticks(range(len(result.predictors)), result.predictors)
    panels[0].invert_yaxis()
    marks = [Line2D([], [], marker="o", linewidth=2, color=colour, label=kind) for kind, colour in COLOUR_OF.items()]
    figure.legend(
        handles=marks, loc="outside upper center", ncols=len(marks) if wide >= WIDE else 2, fontsize=7, frameon=False
    )
    said = f"Spearman's rho with |change of {result.metric}|, mean over layers; 95 % intervals over prompts. {result.model} · "
    said += f"{len(result.tokens)} prompts · {correlated} {cells} cells at most a panel."
    return _framed(figure, "", said)


@figure_of.register(CircuitFaithfulness)
@strict
def circuit_figure(result: CircuitFaithfulness, *, width: float | None = None) -> Any:
    """Figure of faithfulness by circuit size, with its interval over pairs; CMD is the area between the line and 1.

    Args:
        result: Faithfulness of circuits of several sizes.
        width: Inches; None means one column of a paper.
    """
    table = result.to_dataframe().sort_values("edges", kind="stable")
    area = (
        f"CMD {typographic(significant(result.cmd))} · CPR {typographic(significant(result.cpr))}"
        if len(table) > 1
        else ""
    )
    figure = lines(
        {"faithfulness": table["value"].to_numpy()},
        title=f"{headline_and_facts(result)[0]}\n{area}",
        xlabel="edges of the circuit, per cent of all",
        x=[f"{100 * fraction:.3g}" for fraction in table["fraction"]],
        width=width,
        caption="Faithfulness 1: the circuit gives the model's own value; 0: that of the ablated model.",
    )
    place = figure.axes[0]
    place.fill_between(range(len(table)), table["low"], table["high"], color=COLOURS[0], alpha=0.2, linewidth=0)
    place.axhline(1, color="0.7", linewidth=1, zorder=0)
    return figure


@figure_of.register(EdgeEffects)
@strict
def effects_figure(result: EdgeEffects, *, against: EdgeGraph | None = None, width: float | None = None) -> Any:
    """Scatter plot of estimated over measured effects of edges, or without estimates a figure of the graph.

    Args:
        result: Measured effects.
        against: Edges of `attribution_patching(edges=True)`.
        width: Inches; None means one column of a paper, for the graph two.
    """
    if against is None:
        return page_figure(page_of(result), width)
    table = result.compare(against)
    labels = (table["source"] + " -> " + table["target"]).tolist()
    columns, names = (table[name].to_numpy() for name in ("effect", "estimate")), ("measured", "estimated")
    return scatter(*columns, names=names, labels=labels, title=typographic_words(result.targets[0].name), width=width)


def page_figure(data: PageData, width: float | None = None) -> Any:
    """Figure of the view with which a page opens.

    Args:
        data: Data of the page.
        width: Inches; None means the default of the kind of figure.
    """
    blocks, start = data.runs[0].blocks, data.start
    if start.view == "overview":
        return _overview_figure(data, width)
    numbers, graph = blocks.get("numbers"), blocks.get("graph")
    if isinstance(numbers, NumbersBlock) and start.view == "numbers":
        return _numbers_figure(numbers, data, width)
    if isinstance(graph, GraphBlock) and start.view == "graph":
        return _graph_figure(graph, data.runs[0].tokens, data.model, width)
    maps = [block for block in blocks.values() if isinstance(block, MapsBlock)]
    by_head = [block for block in maps if block.labels["axis"] == "head"]
    if by_head and start.view in ("all", "heads"):
        return (_all_heads_figure if start.view == "all" else _head_figure)(data, by_head[0], width)
    return maps_figure(data, next(c["before"] for c in maps[0].channels if c["name"] == start.scope), width)


def maps_figure(data: PageData, against: str | None = None, width: float | None = None) -> Any:
    """Figure of the map with which a page opens, or of two maps and their difference; cells are shares if the page's are.

    Args:
        data: Data of the page.
        against: Channel to compare with; None means one map only.
        width: Inches; None means one column of a paper for one map, two columns for three.
    """
    run, start = data.runs[data.start.run], data.start
    block = next(block for block in run.blocks.values() if isinstance(block, MapsBlock))
    shared = block.labels["cells"] == "others" and len(run.tokens) > 1
    percent, signed = shared or bool(block.labels["shares"]), block.labels["signed"]
    after = _cells(data, block, start.scope, shared)
    labels = {str(channel["name"]): _panel_title(channel) for channel in block.channels}
    panels = [(labels[start.scope], after, signed, _limit(after))]
    if against is not None:
        before = _cells(data, block, against, shared)
        change, limit = after - before, max(_limit(before), _limit(after))
        panels = [(labels[against], before, signed, limit), (labels[start.scope], after, signed, limit)]
        panels.append((f"change\n({start.scope} − {against})", change, True, _limit(change)))
    wide = _inches(width, COLUMN * min(2, len(panels)))
    figure, places, bars = _map_places(len(panels), wide, len(data.text.queries) / len(run.tokens), _room(run.tokens))
    rows = [run.tokens[query] for query in data.text.queries]
    for number, (place, (title, numbers, two_ends, limit)) in enumerate(zip(places, panels, strict=True)):
        image = _image(place, numbers, two_ends, limit, aspect="equal" if len(panels) == 3 else "auto")
        place.set_title(title, fontsize=7)
        size = wide - 0.7 if len(panels) == 1 else (wide - 0.7) / 3 if wide >= WIDE else (wide - 1) / 2
        left = number % (3 if wide >= WIDE else 2) == 0
        lowest = len(panels) == 1 or wide >= WIDE or number == 2
        _label(place.set_xticks, run.tokens if lowest else [""] * len(run.tokens), size, rotation=90)
        high = size * (MAP_SHAPE if len(panels) == 1 else len(rows) / len(run.tokens))
        _label(place.set_yticks, rows if left else [""] * len(rows), high)
        if number != 1:
            _scale(figure, image, bars[number], percent, points=two_ends)
    layer = f"Layer {start.layer}: " if data.layered else ""
    unit = "share of the row's sum over other tokens" if percent else block.labels["unit"]
    said = f"{data.model}. Row: destination; column: source. Cell: {unit}."
    said += " Change in points; orange: more, violet: less." if against is not None and percent else ""
    return _framed(figure, f"{layer}{block.labels['title']}", said)


def _cells(data: PageData, block: MapsBlock, channel: str, shared: bool, layer: int | None = None) -> Cells:
    """Map of a channel [query key] at a layer (None: the layer at which the page opens); NaN at cells that are not reachable."""
    there, row = data.text.reachable(), data.text.layers.index(data.start.layer if layer is None else layer)
    if shared:
        there = others_of(there, data.text.queries)
    numbers = block.values[channel][row].detach().cpu().double()
    return (shares_of_others(numbers, there) if shared else numbers).where(there, torch.nan).numpy()


def _panel_title(channel: Mapping[str, str | None]) -> str:
    """Label of a channel, with its name on a second line."""
    name, label = str(channel["name"]), str(channel["label"])
    return name if label == name else f"{label}\n({name})"


def _map_places(panels: int, width: float, rows_per_column: float, room: float) -> tuple[Any, list[Any], list[Any]]:
    """Figure, axes of one or three maps, and places of their colour bars; in a narrow figure the third map is on a second row."""
    across = 1 if panels == 1 else 3 if width >= WIDE else 2
    down = 1 if panels != 3 or width >= WIDE else 2
    if panels == 1:
        rows_per_column = min(rows_per_column, MAP_SHAPE if width < WIDE else MAP_SHAPE / 2)
    height = down * (rows_per_column * (width - 0.7) / across + 0.25) + 0.2 + room + 0.35 * (down == 1)
    figure, grid = axes(rows=down, columns=across, width=width, height=min(height, 8.0), squeeze=False)
    places = [*grid.flat][:panels]
    if down == 1:
        ends = [{"ax": places[:2]}, {}, {"ax": places[2:]}] if panels == 3 else [{"ax": places}]
        return figure, places, ends
    grid[1][1].set_axis_off()
    boxes = [grid[1][1].inset_axes((0.05, up, 0.9, 0.06)) for up in (0.75, 0.3)]
    return figure, places, [{"cax": boxes[0]}, {}, {"cax": boxes[1]}]


def _all_heads_figure(data: PageData, block: MapsBlock, width: float | None) -> Any:
    """Figure of small maps of all layers and heads, on one scale."""
    names, layers = [str(channel["name"]) for channel in block.channels], data.text.layers
    there = data.text.reachable()
    maps = torch.stack([block.values[name].detach().cpu().double() for name in names], dim=1).where(there, torch.nan)
    *_, rows, columns = maps.shape
    gap = max(1, round(columns / 12))
    cells = np.full((len(layers) * (rows + gap) - gap, len(names) * (columns + gap) - gap), np.nan)
    for layer, head in np.ndindex(*maps.shape[:2]):
        top, left = layer * (rows + gap), head * (columns + gap)
        cells[top : top + rows, left : left + columns] = maps[layer, head].numpy()
    wide = _inches(width, 2 * COLUMN)
    figure, place = axes(width=wide, height=min(0.65 * wide, (wide - 0.6) * cells.shape[0] / cells.shape[1] + 0.7))
    image = _image(place, cells, block.labels["signed"], _limit(cells), aspect="equal", absent="white")
    at = [number * (rows + gap) + (rows - 1) / 2 for number in range(len(layers))]
    _label(place.set_yticks, [*map(str, layers)], (wide - 0.6) * cells.shape[0] / cells.shape[1], at=at)
    at = [number * (columns + gap) + (columns - 1) / 2 for number in range(len(names))]
    _label(place.set_xticks, [name.removeprefix("head ") for name in names], wide - 0.6, at=at)
    place.set(xlabel="head", ylabel="layer")
    place.spines[:].set_visible(False)
    percent, points = bool(block.labels["shares"]), bool(block.labels["signed"])
    _scale(figure, image, {"ax": [place]}, percent, points=points)
    said = f"{data.model}. Each small map: rows are destinations, columns sources. Cell: {block.labels['unit']}."
    return _framed(figure, f"All heads: {block.labels['title']}", said)


def _head_figure(data: PageData, block: MapsBlock, width: float | None) -> Any:
    """Figure of the lines of one head: from query tokens on the left to key tokens on the right."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgba

    run, names = data.runs[0], [str(channel["name"]) for channel in block.channels]
    name = data.start.scope if data.start.scope in names else names[0]
    numbers = block.values[name][data.text.layers.index(data.start.layer)].detach().cpu().double()
    cells = numbers.where(data.text.reachable(), 0.0).nan_to_num(0.0).numpy()
    order = np.argsort(-np.abs(cells), axis=None)[:MOST_HEAD_LINES]
    ends = [divmod(int(cell), cells.shape[1]) for cell in order]
    limit = float(np.abs(cells).max()) or 1.0
    n, wide = len(run.tokens), _inches(width, COLUMN)
    figure, place = axes(width=wide, height=min(8.0, 0.3 + max(1.2, 0.14 * n)))
    inks = [to_rgba(LOSS if cells[end] < 0 else INK, float(abs(cells[end])) / limit) for end in ends]
    lines = [((0, data.text.queries[row]), (1, column)) for row, column in ends]
    place.add_collection(LineCollection(lines, colors=inks, linewidths=[0.5 + 2 * ink[3] for ink in inks]))
    place.set(xlim=(-0.02, 1.02), ylim=(n - 0.5, -0.5))
    every = max(1, math.ceil(n / (72 * figure.get_figheight() / LABEL_STEP)))
    for at in range(0, n, every):
        for x, side in ((-0.04, "right"), (1.04, "left")):
            place.text(x, at, _cut(run.tokens[at]), ha=side, va="center", fontsize=6.5, parse_math=False)
    place.set_axis_off()
    layer = f"Layer {data.start.layer}, {name}" if data.layered else name
    said = f"{data.model}. A line: destination (left) and source (right); darkest {limit:.3g}"
    return _framed(figure, f"{layer}: {block.labels['title']}", f"{said} ({block.labels['unit']}).")


@strict
def heat_map(
    values: Any,
    rows: Sequence[object] | None = None,
    columns: Sequence[object] | None = None,
    *,
    title: str | None = None,
    row: str = "layer",
    column: str = "head",
    unit: str = "",
    signed: bool | None = None,
    width: float | None = None,
    caption: str | None = None,
) -> Any:
    """Heat map of a table of numbers as a Matplotlib figure. Colours end at the largest absolute value; NaN is grey.

    Args:
        values: Numbers [row column], such as [layer head], [layer position] or [layer neuron]: a tensor, an array, or a pandas
            table with labels and one number per cell, such as
            `table.pivot(index="layer", columns="channel", values="previous")`.
        rows: One label per row; None means those of the table, else numbers from 0.
        columns: One label per column; None means those of the table, else numbers from 0.
        title: Text above the figure; None means none.
        row: Label of the vertical axis.
        column: Label of the horizontal axis.
        unit: Label of the colour bar.
        signed: Whether colours have two ends, with white at 0; None means if a number is negative.
        width: Inches; None means one column of a paper.
        caption: Text below the figure; None means none.

    Returns:
        A Matplotlib figure.

    Raises:
        InputError: if the values do not have two axes or are not numbers, or if there is not one label per row and column.
    """
    table = values if isinstance(values, pd.DataFrame) else pd.DataFrame(_numbers(values, 2))
    labels = [table.index if rows is None else rows, table.columns if columns is None else columns]
    if tuple(map(len, labels)) != table.shape:
        raise InputError(
            f"heat_map: {len(labels[0])} labels of rows and {len(labels[1])} of columns, the values have {table.shape[0]} and "
            f"{table.shape[1]}: expected one label per row and column."
        )
    cells = table.to_numpy(dtype=float)
    two_ends = bool((cells < 0).any()) if signed is None else signed
    named = {"row": row, "column": column, "rows": labels[0], "columns": labels[1]}
    return map_figure(named | {"values": cells, "signed": two_ends}, title, caption, width, unit)


def map_figure(
    drawn: Mapping[str, Any], title: str | None, caption: str | None, width: float | None, unit: str = ""
) -> Any:
    """Heat map of a map of a `NumbersBlock`, in the page's colours.

    Args:
        drawn: A map of `shares_map`.
        title: Text above the figure; None means none.
        caption: Text below the figure; None means none.
        width: Inches; None means one column of a paper.
        unit: Label of the colour bar; of changes by a removal it says which end lowers the target.
    """
    cells, removal = _numbers(drawn["values"], 2), bool(drawn.get("removal"))
    wide, high = _inches(width, COLUMN), min(2.6, max(0.6, 0.11 * len(cells)))
    names = [*map(str, drawn["columns"])]
    turned = max(map(len, names)) > 2
    figure, place = axes(width=wide, height=high + 0.75 + turned * _room(names))
    image = _image(place, cells, bool(drawn.get("signed", True)), _limit(cells), removal=removal)
    _scale(figure, image, {"ax": [place]}, False, "← lowers the target · raises it →" if removal else unit)
    place.set(ylabel=drawn["row"], xlabel=drawn["column"])
    _label(place.set_xticks, names, wide - 0.5, rotation=90 if turned else 0)
    _label(place.set_yticks, [*map(str, drawn["rows"])], high)
    return _framed(figure, title, caption)


def over_picture(
    cells: Cells, picture: Shaped[np.ndarray, "height width rgb"], signed: bool, title: str, caption: str, width: float
) -> Any:
    """Figure of cells in colour over a picture in grey, which they cover evenly; colours are deeper for larger numbers.

    Args:
        cells: Numbers [row column].
        picture: The picture; without rows, cells are on white.
        signed: Whether colours have two ends.
        title: Text above the figure.
        caption: Text below the figure.
        width: Inches.
    """
    rows, columns = cells.shape
    aspect = picture.shape[0] / picture.shape[1] if picture.size else rows / columns
    figure, place = axes(width=width, height=min(8.0, 0.9 * width * aspect + 0.5))
    extent = (-0.5, columns - 0.5, rows - 0.5, -0.5)
    if picture.size:
        place.imshow(picture.mean(axis=2), extent=extent, cmap="gray", vmin=0, vmax=255)
    image = _image(place, cells, signed, limit := _limit(cells))
    image.set_alpha(PICTURE_COVERED * np.abs(cells) / limit if picture.size else 1.0)
    place.set(xticks=[], yticks=[], xlim=extent[:2], ylim=extent[2:], aspect=aspect * columns / rows)
    place.spines[:].set_visible(False)
    _scale(figure, image, {"ax": [place]}, percent=False)
    return _framed(figure, title, caption)


@strict
def scatter(
    first: Any,
    second: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    labels: Sequence[str] = (),
    title: str | None = None,
    width: float | None = None,
    caption: str | None = None,
) -> Any:
    """Scatter plot of two values per item as a Matplotlib figure, with the diagonal and Pearson's r.

    Args:
        first: Values on the horizontal axis: a tensor or an array of any shape.
        second: Values of the same items on the vertical axis.
        names: Labels of the axes.
        labels: One name per item; the `MOST_NAMED` items with the largest values are labelled.
        title: Title above the figure; r and the number of items are added.
        width: Inches; None means one column of a paper.
        caption: Text below the figure; None means none.

    Raises:
        InputError: if both differ in shape, or if no item has two finite numbers.
    """
    one, two = _numbers(first), _numbers(second)
    if one.shape != two.shape or not (known := np.isfinite(one) & np.isfinite(two)).any():
        raise InputError(
            f"scatter of shapes {one.shape} and {two.shape}: expected two arrays of one shape, with finite numbers."
        )
    x, y = one[known], two[known]
    wide = _inches(width, COLUMN)
    figure, place = axes(width=wide, height=min(0.8 * wide, COLUMN))
    place.axline((0, 0), slope=1, color="0.7", linewidth=0.8, zorder=0)
    place.scatter(x, y, s=8, color=COLOURS[0], alpha=0.6, linewidths=0)
    named = np.array(labels, dtype=object)[known.flatten()] if len(labels) else []
    for at in _apart(x, y, np.argsort(-np.maximum(abs(x), abs(y))))[:MOST_NAMED] if len(named) else []:
        place.annotate(_title(named[at]), (x[at], y[at]), fontsize=6, textcoords="offset points", xytext=(2, 2))
    varies = len(x) > 1 and x.std() > 0 and y.std() > 0
    r = f"r = {np.corrcoef(x, y)[0, 1]:.3f}, " if varies else ""
    place.set_xlabel(names[0])
    place.set_ylabel(names[1])
    return _framed(figure, f"{title or ''}\n{r}{len(x)} numbers".strip(), caption)


def _apart(
    x: Float64[np.ndarray, " point"], y: Float64[np.ndarray, " point"], order: Int64[np.ndarray, " point"]
) -> list[int]:
    """Indices of points in an order, without those so near an earlier one that their labels would overlap."""
    wide, high = (LEAST_APART * (np.ptp(axis) or 1.0) for axis in (x, y))
    kept: list[int] = []
    for at in order.tolist():
        if all(abs(x[at] - x[one]) > 4 * wide or abs(y[at] - y[one]) > high for one in kept):
            kept.append(at)
    return kept


@strict
def lines(
    values: Mapping[str, Any],
    *,
    title: str | None = None,
    xlabel: str = "layer",
    ylabel: str = "",
    x: Any = None,
    width: float | None = None,
    caption: str | None = None,
) -> Any:
    """Lines by layer as a Matplotlib figure.

    Args:
        values: Lines by name, each [layer].
        title: Text above the figure; None means none.
        xlabel: Label of the horizontal axis.
        ylabel: Label of the vertical axis.
        x: Labels of the layers; None means numbers from 0.
        width: Inches; None means one column of a paper.
        caption: Text below the figure; None means none.

    Raises:
        InputError: if there is no line, or if a line has no number or several axes.
    """
    drawn = {name: _numbers(line, 1) for name, line in values.items()}
    if not drawn:
        raise InputError("lines: expected one or more lines by name, each with one number per layer.")
    wide = _inches(width, COLUMN)
    figure = layer_lines(drawn, ylabel=ylabel, xlabel=xlabel, width=wide)
    for legend in figure.legends:  # it overlaps the title
        legend.remove()
    if len(drawn) > 1:
        around = {
            "loc": 8,
            "bbox_to_anchor": (0.5, 1.0),
            "ncols": max(1, min(len(drawn), int(1.2 * wide))),
        }
        figure.axes[0].legend(**around, fontsize=6.5, frameon=False, handlelength=1.4, columnspacing=1)
        figure.set_figheight(figure.get_figheight() + 0.15)
    if x is not None:
        names = [*map(str, x)]
        turned = 4.5 * max(map(len, names)) > 72 * (wide - 0.5) / len(names)
        _label(figure.axes[0].set_xticks, names, wide - 0.5, rotation=90 if turned else 0)
        figure.set_figheight(figure.get_figheight() + turned * _room(names))
    return _framed(figure, title, caption)


def _numbers(values: Any, n_axes: int | None = None) -> Shaped[np.ndarray, "..."]:
    """Numbers of a tensor, an array or a list, in float64.

    Raises:
        InputError: for another number of axes, for no numbers, and for other values than numbers.
    """
    plain = values.detach().cpu() if isinstance(values, torch.Tensor) else values
    try:
        found = np.asarray(plain, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{brief(values)}: expected numbers, such as a tensor.") from None
    if found.size == 0 or (n_axes is not None and found.ndim != n_axes):
        raise InputError(f"values of shape {found.shape}: expected numbers on {n_axes or 'the same'} axes.")
    return found


def _overview_figure(data: PageData, width: float | None) -> Any:
    """Overview of all layers: attributions of residual streams as bands, edges of heads as arcs, and a heat map of heads.

    Without a target, see `_taken_figure`.
    """
    run = data.runs[data.start.run]
    blocks = (b.json for b in run.blocks.values() if isinstance(b, DataBlock) and b.json["kind"] == "logit")
    block: Mapping[str, Any] | None = next(blocks, None)
    if block is None:
        return _taken_figure(data, width)
    if block.get("says"):
        return _lens_figure(data, block, width)
    streams = np.array(block["residual"], dtype=float)
    heads = _heads_of(block, data.start.to)
    panels: dict[str, Any] = {"columns": 2, "width_ratios": (3, 1)} if heads is not None else {}
    wide, high = _inches(width, 2 * COLUMN), min(4.0, max(1.6, 0.085 * len(streams)))
    turned = 0.04 + 0.07 * max(map(len, run.tokens)) > 0.68 * wide / len(run.tokens)
    figure, grid = axes(
        width=wide, height=high + 0.4 + turned * _room(run.tokens), squeeze=False, sharey=True, **panels
    )
    place, removal = grid[0][0], block.get("scale") == "removal"
    limit = _limit(streams) if block.get("one_scale") is None or heads is None else max(_limit(streams), _limit(heads))
    known = np.nan_to_num(streams) / limit
    one_sign = block.get("scale") == "contribution"
    inks = np.where((known > 0) if removal else (known < 0), LOSS, INK if one_sign else GAIN)
    _draw_bands(place, np.abs(known), inks, 0.25 + 0.75 * np.abs(known))
    _draw_whiskers(place, streams, block["ends"], limit)
    _draw_arcs(place, block["edges"], limit, NAME_ROWS * len(streams))
    _label(place.set_xticks, run.tokens, wide * (0.68 if heads is not None else 0.9), rotation=90 * turned)
    _label(place.set_yticks, block["names"], high)
    if heads is not None:
        image = _image(grid[0][1], heads, True, limit if block.get("one_scale") else _limit(heads), removal=removal)
        _scale(figure, image, {"ax": [grid[0][1]]}, False, ticks=2)
        _label(grid[0][1].set_xticks, [*map(str, range(heads.shape[1]))], wide * 0.2)
        at = f" at {run.tokens[data.start.to]}" if np.array(block["heads"]).ndim == 3 else ""
        grid[0][1].set_title(_cut(f"heads{at}", 2 * LONGEST_LABEL), fontsize=7)
        grid[0][1].tick_params(labelleft=False)
    place.set(xlim=(-0.6, streams.shape[1] - 0.4), ylim=(len(streams) - 0.5, -0.5), ylabel="layer")
    return _framed(figure, *_overview_words(data, block, limit))


def _heads_of(block: Mapping[str, Any], column: int) -> Cells | None:
    """Numbers of heads [row head] of an overview's block, at a column if they have one number for each."""
    if block["heads"] is None:
        return None
    heads = np.array(block["heads"], dtype=float)[: len([layer for layer in block["layers"] if layer is not None])]
    return heads[..., column] if heads.ndim == 3 else heads


def _overview_words(data: PageData, block: Mapping[str, Any], limit: float) -> tuple[str, str]:
    """Title and caption of an overview: the question with its answer, and what bands, lines and arcs are."""
    unit = f" {block['unit']}" if block["unit"] else ""
    widest = f"{typographic(significant(limit, sign='-'))}{unit}"
    ends = " Lines: 95 % intervals." if block["ends"] else ""
    if measure := block.get("measure"):
        answer = block["answer"] or (
            "" if block["value"] is None else f"{typographic(significant(block['value']))}{unit}"
        )
        inks = "" if block["scale"] == "contribution" else f" {signs(block['scale'] == 'removal')}"
        said = f"{data.model}. {block['target']}. {measure['how']} Widest: {widest}.{ends}{inks}"
        return f"{block['question']} {answer}\n{_finding(data, block)}", said
    arcs = " Arcs: attention heads between positions." if block["edges"] else ""
    said = f"{data.model}. Bands: the tokens' streams; width and colour are the attribution, at most {widest}.{ends}{arcs} {SIGNS}"
    return f"{block['question']} {typographic(significant(block['value']))}{unit}{_move(data, block)}", said


def _move(data: PageData, block: Mapping[str, Any]) -> str:
    """Line on the largest edge between two tokens, else on the head at which the page opens; empty without both."""
    parts = ((at, *edge) for at, held in block["edges"].items() for edge in held if edge[0] != edge[1])
    at, query, key, share = max(parts, key=lambda part: abs(part[3]), default=("", 0, 0, 0.0))
    heads = _heads_of(block, data.start.to)
    if not share and heads is not None and data.start.heads:
        head, layer = int(data.start.heads), data.start.layer
        at = f" at {data.runs[0].tokens[data.start.to]}" if np.array(block["heads"]).ndim == 3 else ""
        return f"\nL{layer}H{head} contributes {typographic(significant(heads[layer, head]))}{at}"
    if not share:
        return ""
    layer, head = at.split(",")
    names = told_apart(data.runs[0].tokens)
    return f"\nAt layer {layer}, L{layer}H{head} moves {typographic(significant(share))} from “{names[key]}” to “{names[query]}”"


def _finding(data: PageData, block: Mapping[str, Any]) -> str:
    """Sentence on the number at which an overview of measured numbers opens."""
    start, measure = data.start, block["measure"]
    row = block["layers"].index(start.layer)
    share, base = block["residual"][row][start.to], measure["base"]
    words = {"layer": start.layer, "name": block["names"][row], "column": data.runs[0].tokens[start.to]}
    if share is None:
        return ""
    change = typographic(significant(share))
    said = (
        change
        if base is None
        else f"{typographic(significant(base, sign='-'))} → {typographic(significant(base + share, sign='-'))} ({change})"
    )
    place = str(measure["stream"]).format(**words)
    return f"{place[:1].upper()}{place[1:]}: {said}"


def _draw_whiskers(place: Any, streams: Cells, ends: Any, limit: float) -> None:
    """Draw 95 % intervals over bands, on their right half."""
    if not ends:
        return
    low, high = (np.array(end, dtype=float) for end in ends)
    for row, column in np.argwhere(np.isfinite(low) & (np.abs(np.nan_to_num(streams)) > LEAST_ARC * limit)):
        sign_of = np.sign(streams[row, column])
        edges = sorted(column + 0.45 * max(0.0, sign_of * end[row, column]) / limit for end in (low, high))
        place.plot(edges, [row, row], color="0.2", linewidth=0.6, solid_capstyle="butt")


def _lens_figure(data: PageData, block: Mapping[str, Any], width: float | None) -> Any:
    """Logit lens: the most probable token of each layer and position, as dark as it is probable, and the target by layer."""
    chances = np.array(block["residual"], dtype=float)
    tokens = data.runs[0].tokens
    shown = range(max(0, len(tokens) - MOST_LENS), len(tokens))
    strip = block.get("strip")
    wide = _inches(width, COLUMN if len(shown) < 4 else 2 * COLUMN)
    panels: dict[str, Any] = {"columns": 2, "width_ratios": (max(2, len(shown)), 2)} if strip else {}
    figure, grid = axes(
        width=wide, height=0.5 + 0.1 * len(chances) + _room(tokens), squeeze=False, sharey=True, **panels
    )
    place = grid[0][0]
    image = _image(place, chances[:, list(shown)], False, 1.0)
    letters = max(4, int(13 * wide * (0.5 if strip else 0.85) / len(shown)))
    for row, at in product(range(len(chances)), range(len(shown))):
        (said, chance), *_ = block["says"][row][shown[at]]
        ink = "white" if chance > 0.45 else "black"
        place.text(at, row, _cut(said, letters), color=ink, fontsize=5.5, ha="center", va="center", parse_math=False)
    _label(place.set_xticks, [tokens[at] for at in shown], wide, rotation=0 if len(shown) < 4 else 90)
    _label(place.set_yticks, block["names"], 0.1 * len(chances))
    place.set_ylabel("layer")
    _scale(figure, image, {"ax": [place]}, True, "probability", ticks=2)
    if strip:
        grid[0][1].plot(strip["values"], range(len(chances)), "o-", color=GAIN, markersize=2.5, linewidth=0.8)
        grid[0][1].axvline(0, color="0.7", linewidth=0.8, zorder=0)
        grid[0][1].set_title(_cut(strip["name"], 2 * LONGEST_LABEL), fontsize=7)
    last, chance = block["says"][-1][-1][0]
    first = next(row for row in range(len(chances)) if all(rows[-1][0][0] == last for rows in block["says"][row:]))
    since = "at the end" if block["layers"][first] is None else f"from layer {block['names'][first]} on"
    title = f"“{last}” ({chance:.0%}) is the most probable next token {since}"
    return _framed(
        figure, title, f"{data.model}. Logit lens {block['choice']}: the most probable next token after each token."
    )


def _taken_figure(data: PageData, width: float | None) -> Any:
    """Figure of the row of the opening token at every layer: cells before and after the step, with increases and decreases."""
    start, other = data.start, data.runs[data.start.ref_run]
    run, row = data.runs[start.run], data.text.queries.index(start.to)
    block, against = (next(b for b in r.blocks.values() if isinstance(b, MapsBlock)) for r in (run, other))
    shared = block.labels["cells"] == "others" and len(run.tokens) > 1
    percent, signed = shared or bool(block.labels["shares"]), block.labels["signed"]

    def through(of: MapsBlock, channel: str) -> Cells:
        rows = [_cells(data, of, channel, shared, layer)[row] for layer in data.text.layers]
        return np.nan_to_num(np.stack(rows))

    step = next(c["before"] for c in block.channels if c["name"] == start.scope)
    before_of = start.scope if start.run != start.ref_run else step
    after = through(block, start.scope)
    before = after if before_of is None or signed else through(against, before_of)
    limit = float(max(np.abs(after).max(), np.abs(before).max())) or 1.0
    wide, high = _inches(width, 2 * COLUMN), min(4.0, max(1.6, 0.085 * len(after)))
    figure, place = axes(width=wide, height=high + 0.4 + _room(run.tokens))
    kept = np.minimum(after, before) if not signed else after
    _draw_bands(place, np.maximum(after, before) / limit, np.where(after < before, LOSS, GAIN), np.ones(after.shape))
    inks = np.where(kept < 0, LOSS, GAIN) if signed else np.full(kept.shape, INK)
    _draw_bands(place, np.abs(kept) / limit, inks, 0.25 + 0.75 * np.abs(kept) / limit, paper=True)
    _label(place.set_xticks, run.tokens, wide * 0.9, rotation=90)
    _label(place.set_yticks, [*map(str, data.text.layers)], high)
    place.set(xlim=(-0.6, after.shape[1] - 0.4), ylim=(len(after) - 0.5, -0.5), ylabel="layer")
    ends = f"{limit:.0%}" if percent else typographic(significant(limit))
    compared = "" if before is after else f" Orange: more than before ({before_of}); violet: less."
    said = f"{data.model}. Bands: contributions of each token to “{run.tokens[start.to]}”, {start.scope}; widest {ends}.{compared}"
    return _framed(figure, f"Contributions of the other tokens to “{run.tokens[start.to]}”", said)


def _draw_bands(
    place: Any, widths: Float64[np.ndarray, "row column"], inks: Any, strength: Any, paper: bool = False
) -> None:
    """Draw one band per row and column, as wide as its number on a scale that ends at 1; with `paper` on a white background."""
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(widths != 0):
        band = 0.9 * widths[row, column]
        look: dict[str, Any] = {"color": inks[row, column], "alpha": min(1.0, strength[row, column]), "linewidth": 0}
        if paper:
            place.add_patch(Rectangle((column - band / 2, row - 0.5), band, 1, color="white", linewidth=0))
        place.add_patch(Rectangle((column - band / 2, row - 0.5), band, 1, **look))


def _draw_arcs(place: Any, edges: Mapping[str, Sequence[Sequence[int | float]]], limit: float, apart: float) -> None:
    """Draw arcs for the largest edges of heads, from the key's stream to the query's; the largest are labelled."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    parts = ((*map(int, at.split(",")), *edge) for at, held in edges.items() for edge in held)
    carried = sorted((e for e in parts if e[2] != e[3] and abs(e[4]) >= LEAST_ARC * limit), key=lambda e: -abs(e[4]))
    named: list[tuple[float, float]] = []
    for number, (layer, head, query, key, share) in enumerate(carried[:MOST_ARCS]):
        ink, low = LOSS if share < 0 else GAIN, layer + 1 + min(6.0, 0.5 * abs(query - key))
        path = Path(
            [(key, layer), ((key + query) / 2, low), (query, layer + 1)], [Path.MOVETO, Path.CURVE3, Path.CURVE3]
        )
        place.add_patch(PathPatch(path, fill=False, edgecolor=ink, linewidth=0.5 + 3 * abs(share) / limit, alpha=0.8))
        if number < NAMED_ARCS:
            middle, down = (key + query) / 2, (layer + low) / 2 + 0.5
            while down > apart and any(abs(middle - x) < 6 and abs(down - y) < apart for x, y in named):
                down -= apart
            named.append((middle, down))
            look = {"color": ink, "fontsize": 6.5, "ha": "center", "va": "top", "bbox": NAME_BOX}
            place.text(middle, down, f"L{layer}H{head} {typographic(significant(share))}", **look)


def _numbers_figure(data: NumbersBlock, page: PageData, width: float | None) -> Any:
    """Heat map of the first map of numbers, or else of the attributions of tokens [target source]; bars if there is neither."""
    if not data.maps and not data.rows:
        return _bars_figure(data, width)
    tokens = page.runs[0].tokens
    drawn: dict[str, Any] = data.maps[0] if data.maps else {"row": "target", "column": "source", "columns": tokens}
    if not data.maps:
        drawn |= {
            "rows": [row["name"] for row in data.rows],
            "values": torch.stack([row["shares"] for row in data.rows]),
            "note": "Each row is a token of the continuation, each column an earlier token.",
        }
    title = f"{data.heading}: {data.maps[0]['title'].lower()}" if data.maps else data.heading
    return map_figure(drawn, title, ". ".join(filter(None, [page.model, drawn["note"]])), width)


def _bars_figure(data: NumbersBlock, width: float | None) -> Any:
    """Bars of the largest entries of the first table, in its order."""
    table: Mapping[str, Any] = data.tables[0] if data.tables else {"title": "", "note": "", "entries": []}
    places = sorted(range(len(table["entries"])), key=lambda at: -abs(table["entries"][at][1]))[:MOST_BARS]
    entries, removal = [table["entries"][at] for at in sorted(places)], bool(table.get("removal"))
    figure, place = axes(width=_inches(width, COLUMN), height=0.4 + max(0.6, 0.16 * len(entries)))
    inks = [_ink(share, removal) for _, share in entries]
    place.barh(range(len(entries)), [share for _, share in entries], color=inks)
    _label(place.set_yticks, [name for name, _ in entries], 9.0, longest=2 * LONGEST_LABEL)
    place.invert_yaxis()
    place.set_xlabel(table["title"])
    cut = f" Bars: the {len(entries)} largest of these." if len(entries) < len(table["entries"]) else ""
    signed = f" {signs(removal)}" if removal else ""
    return _framed(figure, data.heading, f"{data.facts}. {table['note']}{cut}{signed}")


def _graph_figure(data: GraphBlock, tokens: Sequence[str], model: str, width: float | None) -> Any:
    """Nodes by column and row, the edges between them coloured by attribution, and names of the largest nodes that fit."""
    from matplotlib.collections import LineCollection

    edges, gaps, said = _drawn_edges(data)
    ends = [(edge.source, edge.target) for edge in edges]
    largest = dict.fromkeys(number for pair in ends + gaps for number in pair)
    columns = sorted({data.nodes[number].column for number in largest})
    at, rows = _node_places(data, sorted(largest), columns)
    names = told_apart(tokens) if data.lanes == len(tokens) + 1 else ()
    labels, xlabel = _column_labels([data.columns[column] for column in columns])
    turned, wide = xlabel != "layer", _inches(width, 2 * COLUMN)
    deep = 1 - min((y for _, y in at.values()), default=0.0)
    high = min(3.2 if wide >= WIDE else 2.2, 0.4 + 0.12 * deep)
    figure, place = axes(width=wide, height=high + 0.4 + turned * _room([*labels.values(), ""]))
    strength = np.array([_weight(edge) for edge in edges])
    strength = strength / (strength.max(initial=0.0) or 1.0)
    inks = [_ink(edge.shares[0], data.removal) if edge.shares and data.signed else INK for edge in edges]
    look: dict[str, Any] = {"alpha": 0.1 + 0.9 * strength, "linewidths": 0.4 + 2.1 * strength} if edges else {}
    place.add_collection(LineCollection([(at[a], at[b]) for a, b in ends], colors=inks, **look))
    place.add_collection(LineCollection([(at[a], at[b]) for a, b in gaps], colors="0.5", linestyles=":", linewidths=1))
    place.scatter(*np.array([*at.values()]).reshape(-1, 2).T, s=4, color=INK, zorder=3, linewidths=0)
    _spaced_ticks(
        place.set_xticks, dict(sorted(labels.items())), TICK_ROOM * len(columns) / (wide - 1), rotation=90 * turned
    )
    lanes = dict.fromkeys(data.nodes[number].lane for number in largest)
    tokens_at = {rows[lane]: names[lane] for lane in lanes if lane < len(names)}
    _spaced_ticks(place.set_yticks, tokens_at, TICK_ROOM * deep / high)
    place.set_xlabel(xlabel, fontsize=6.5)
    place.spines["left"].set_visible(False)
    _framed(figure, data.heading, f"{model}. {said}")
    # A name of the residual stream would repeat its row and column.
    _name_nodes(place, data, {number: at[number] for number in largest if not (names and data.nodes[number].label)})
    return figure


def _drawn_edges(data: GraphBlock) -> tuple[list[PageEdge], list[tuple[int, int]], str]:
    """The largest edges, of those with tokens the ones on paths to the target; gaps of these paths; and both in words.

    Where pruning left no such path, these are all edges.
    """
    always = sum(edge.always for edge in data.edges)  # as the page opens
    ordered = sorted(data.edges, key=lambda edge: (edge.always, _weight(edge)), reverse=True)
    edges = ordered[: min(MOST_LINES, always + data.shown) if always and data.targets else MOST_LINES]
    whole = max(data.n_edges, len(data.edges))
    gaps, which = _gaps(data, edges), ", the largest"
    if any(node.short.isdecimal() for node in data.nodes):
        there = _on_paths(data, [(edge.source, edge.target) for edge in edges] + gaps)
        which = f", on {'' if there else 'no '}paths from tokens to the target"
        edges = [edge for edge in edges if not there or {edge.source, edge.target} <= there]
        gaps = [pair for pair in gaps if not there or {*pair} <= there]
    elif len(edges) == len(data.edges):
        which = ""
    drawn, page = (sum(map(_weight, those)) for those in (edges, data.edges))
    part = f" ({100 * drawn / data.size:.3g} % of their size)" if data.size else ""
    if not data.size and len(edges) < len(data.edges) and data.targets:
        part = f" ({100 * drawn / (page or 1.0):.3g} % of the size of those on the page)"
    lines = "all edges" if len(edges) == whole and not which else f"{len(edges):,} of {whole:,} edges{part}{which}"
    of = f"of {data.targets[0].name}" if data.targets else ""
    size = f"attribution {of}. {signs()}" if of else "size in the edge's unit."
    size = f"change {of}. {signs(removal=True)}" if data.removal else size if data.signed else f"absolute effect {of}."
    dotted = " Dotted: the residual stream where its edges are pruned." if gaps else ""
    return edges, gaps, f"Lines: {lines}; width is the {size}{dotted}"


def _gaps(data: GraphBlock, edges: Sequence[PageEdge]) -> list[tuple[int, int]]:
    """Nodes of the residual stream that none of the edges enters, each after the node before it in the row of its token."""
    into, out = {edge.target for edge in edges}, {edge.source for edge in edges}
    gaps: list[tuple[int, int]] = []
    before: dict[int, int] = {}
    for number, node in enumerate(data.nodes):
        stream = node.label and node.lane in before and number in into | out
        if stream and number not in into:
            gaps.append((before[node.lane], number))
        if stream or node.short.isdecimal():
            before[node.lane] = number
    return gaps


def _on_paths(data: GraphBlock, ends: Sequence[tuple[int, int]]) -> set[int]:
    """Nodes on paths from a token to the target, the last node."""
    paths, end = nx.DiGraph(ends), len(data.nodes) - 1
    paths.add_edges_from((-1, number) for number, node in enumerate(data.nodes) if node.short.isdecimal())
    return nx.descendants(paths, -1) & {end, *(nx.ancestors(paths, end) if end in paths else ())}


def _weight(edge: PageEdge) -> float:
    """Absolute value of an edge's attribution of the first target, else of its size."""
    number = abs(edge.shares[0] if edge.shares else edge.size)
    return 0.0 if math.isnan(number) else number


def _node_places(
    data: GraphBlock, shown: Sequence[int], columns: Sequence[int]
) -> tuple[dict[int, tuple[float, float]], dict[int, float]]:
    """Places of nodes, columns side by side and those of one column and lane below each other, and the middle of each lane."""
    stacks: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for number in shown:
        stacks[data.nodes[number].lane][columns.index(data.nodes[number].column)].append(number)
    at: dict[int, tuple[float, float]] = {}
    middles, top = {}, 0.0
    for lane in sorted(stacks):
        deep = max(map(len, stacks[lane].values()))
        middles[lane] = top - (deep - 1) / 2
        for x, stack in stacks[lane].items():
            at |= {number: (float(x), middles[lane] + (len(stack) - 1) / 2 - own) for own, number in enumerate(stack)}
        top -= deep
    return at, middles


def _column_labels(titles: Sequence[str]) -> tuple[dict[float, str], str]:
    """Labels by number of column and of the axis: of one layer the kind in each, else the layer at its first column."""
    layers = {column: found[1] for column, title in enumerate(titles) if (found := re.search(r"layer (\d+)", title))}
    firsts = {layer: float(column) for column, layer in reversed(layers.items())}
    if len(firsts) != 1:
        return {column: layer for layer, column in firsts.items()}, "layer"
    (name,) = (f"layer {layer}" for layer in firsts)
    return {float(column): title.replace(name, "").strip() for column, title in enumerate(titles)}, name


def _spaced_ticks(set_ticks: Any, labels: Mapping[float, str], apart: float, **options: Any) -> None:
    """Labels at their places, without those nearer than `apart` to an earlier one."""
    kept: list[float] = []
    for at in labels:
        if all(abs(at - other) >= apart for other in kept):
            kept.append(at)
    set_ticks(kept, [_cut(labels[at]).replace("$", r"\$") for at in kept], fontsize=6.5, **options)


def _name_nodes(place: Any, data: GraphBlock, at: Mapping[int, tuple[float, float]]) -> None:
    """Names beside nodes, the target's and those of heads first, which lie in the picture and not on each other."""
    place.figure.canvas.draw()
    first, taken = re.compile(r"target|L\d+H\d+(@\d+)?"), list[Any]()
    for number in sorted(at, key=lambda number: not first.fullmatch(data.nodes[number].short)):
        words = filter(None, (data.nodes[number].short, data.nodes[number].label))
        text = place.annotate(
            _cut(" ".join(dict.fromkeys(words)), 2 * LONGEST_LABEL),
            at[number],
            (0, 0),
            textcoords="offset points",
            fontsize=6,
            bbox=NAME_BOX,
            zorder=4,
            parse_math=False,
        )
        for x, y in product((1, -1), repeat=2):
            text.set(ha="left" if x > 0 else "right", va="bottom" if y > 0 else "top", position=(x, 1.5 * y))
            box = text.get_window_extent().padded(NAME_APART)
            if all(place.bbox.contains(*corner) for corner in (box.min, box.max)) and not box.count_overlaps(taken):
                taken.append(box)
                break
        else:
            text.remove()
        if len(taken) == MOST_NODE_NAMES:
            break


def _kind(predictor: str, effect: str) -> str:
    if predictor in (ATTENTION, VALUES, change_of(ATTENTION)):
        return ATTENTION
    if predictor == PLACEBO:
        return PLACEBO
    return "map of what is edited" if predictor in (effect, change_of(effect)) else "other maps"


def signs(removal: bool = False) -> str:
    """Meaning of the colours of changes of a target, by a component or by its `removal`."""
    return REMOVALS if removal else SIGNS


def _ink(number: float, removal: bool = False) -> str:
    """Colour of a number: orange supports the target, as negative changes by a `removal` say."""
    return LOSS if (number > 0 if removal else number < 0) else GAIN


def _image(
    place: Any,
    cells: Cells,
    signed: bool,
    limit: float,
    aspect: str = "auto",
    absent: str = "#e6e9ec",
    *,
    removal: bool = False,
) -> Any:
    """Image of cells in the page's colours; NaN has the colour `absent`."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = [_ink(-1.0, removal), "white", _ink(1.0, removal)] if signed else ["white", INK]
    colour_map = LinearSegmentedColormap.from_list("map", colours).with_extremes(bad=absent)
    ends = {"vmin": -limit if signed else 0, "vmax": limit}
    return place.imshow(cells, cmap=colour_map, interpolation="nearest", aspect=aspect, **ends)


def _scale(
    figure: Any,
    image: Any,
    where: Mapping[str, Any],
    percent: bool,
    unit: str = "",
    ticks: int = 4,
    *,
    points: bool = False,
) -> None:
    """Draw a colour bar below the axes of an image; differences of shares are in `points`."""
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    look: dict[str, Any] = {} if "cax" in where else {"shrink": 0.7, "aspect": 7 * figure.get_figwidth(), "pad": 0.02}
    bar = figure.colorbar(image, **where, orientation="horizontal", ticks=MaxNLocator(ticks), **look)
    if percent:
        bar.ax.xaxis.set_major_formatter(PercentFormatter(1, symbol="" if points else " %"))
        unit = "points" if points else unit
    bar.ax.tick_params(labelsize=6, width=0.5, length=2)
    bar.outline.set_linewidth(0.5)
    bar.set_label(unit, fontsize=6.5)


def _limit(cells: Cells) -> float:
    """End of a colour scale: the largest absolute value, so that larger cells have darker ink."""
    return float(np.abs(cells[np.isfinite(cells)]).max(initial=0.0)) or 1.0


def _inches(width: float | None, usual: float) -> float:
    return usual if width is None else real_number(width, "width", above=0.0)


def _framed(figure: Any, title: str | None, caption: str | None = None) -> Any:
    """The figure with a title and a caption of this package, cut if they are long."""
    cut = "\n".join(_cut(part, LONGEST_TITLE) for part in (title or "").splitlines())
    return framed(figure, cut, _cut(caption or "", LONGEST_CAPTION))


def framed(figure: Any, title: str | bool | None = True, caption: str | bool | None = True) -> Any:
    """The figure with a title above and a caption below, wrapped to its width. Its height grows by their lines.

    Args:
        figure: Matplotlib figure.
        title: Text above; True keeps the present one, None means none.
        caption: Text below; True keeps the present one, None means none.
    """
    wide, grown = figure.get_figwidth(), 0.0
    if title is not True:
        parts = (title or "").replace("$", r"\$").splitlines()
        head = [line for part in parts for line in wrap(part, int(TITLE_LETTERS * wide))]
        grown += TITLE_LINE * (len(head) - len(figure.get_suptitle().splitlines()))
        figure.suptitle("\n".join(head), x=0.01, ha="left", fontsize=8)
        below = (0, 0, 1, 1 - TITLE_LINE * len(head) / (figure.get_figheight() + grown))
        for legend in figure.legends:  # it would overlap the title
            legend.set_bbox_to_anchor(below)
            figure.get_layout_engine().set(rect=below)
    if caption is not True:
        foot = wrap(caption or "", int(CAPTION_LETTERS * wide))
        grown += CAPTION_LINE * (len(foot) - len(figure.get_supxlabel().splitlines()))
        if foot or figure.get_supxlabel():
            sign(figure, "\n".join(foot))
    if title is not True or caption is not True:
        figure.set_figheight(figure.get_figheight() + grown)
        figure.canvas.draw()
        figure.set_figheight(min(figure.get_figheight(), figure.get_tightbbox().height + 0.06))
    return figure


def _label(
    set_ticks: Any,
    labels: Sequence[str],
    inches: float,
    *,
    at: Sequence[float] | None = None,
    longest: int = LONGEST_LABEL,
    **options: Any,
) -> None:
    """Set labels along an axis of some inches: all, or every second, third and so on if they would overlap."""
    step = 72 * inches / max(1, len(labels))
    every = max(1, math.ceil(LABEL_STEP / step))
    cut = [_cut(label, longest).replace("$", r"\$") for label in labels[::every]]
    places = range(len(labels)) if at is None else at
    set_ticks(places[::every], cut, fontsize=6.5, **options)


def _room(labels: Sequence[str]) -> float:
    """Inches for rotated labels below an axis."""
    return 0.06 * min(LONGEST_LABEL, max(map(len, labels)))


def _cut(label: str, longest: int = LONGEST_LABEL) -> str:
    """A label in so many letters; the position after it, `@12`, stays whole."""
    at = "".join(re.findall(r"@\d+$", label))
    return label if len(label) <= longest else f"{label[: longest - 1 - len(at)]}…{at}"


def _title(text: str) -> str:
    """A title cut to `LONGEST_TITLE`, with `$` escaped, which Matplotlib would read as mathematics."""
    return (text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…").replace("$", r"\$")
