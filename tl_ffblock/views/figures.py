"""Still figures of Matplotlib of every kind of page, in its colours and shares, and of results that have a figure of their own."""

import importlib.util
import io
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import fill
from typing import Any

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
from tl_ffblock.numerals import significant
from tl_ffblock.page import AnyPage, DataBlock, GraphPage, MapsBlock, NumbersBlock, PageData, PageEdge
from tl_ffblock.results.figures import COLOURS, COLUMN, axes, layer_lines
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.signatures import strict
from tl_ffblock.views.registry import figure_of, page_of

INK, GAIN, LOSS = "#003f5c", "#b35806", "#6a5fc0"
# Colours end at this percentile of the cells of other tokens, so that they do not hang on one cell.
PERCENTILE = 99
DPI = 100
# Different colours of a PNG, which is half as large as with all.
COLOURS_OF_PNG = 128
# Inches of a still picture; a higher figure has fewer dots per inch.
STILL_HEIGHT = 3.6
# Columns and rows up to which each has its label.
MOST_COLUMNS, MOST_ROWS = 60, 24
# Letters; longer texts are cut.
LONGEST_LABEL, LONGEST_TITLE = 16, 110
# Points of a scatter plot that are named, the largest.
MOST_NAMED = 8
# Parts of an axis that names of points are apart, four times as many along the other.
LEAST_APART = 0.04
# Arcs of the overview: how many, the least share of the widest stream, and how many have names.
MOST_ARCS, LEAST_ARC, NAMED_ARCS = 14, 0.05, 3
NAME_BOX = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5}
# Edges of a graph that are drawn, the largest.
MOST_LINES = 600
# Vermilion, blue, orange and grey: kinds of predictors.
COLOUR_OF = {"map of what is edited": COLOURS[5], "other maps": COLOURS[0], ATTENTION: COLOURS[1], PLACEBO: COLOURS[6]}

Cells = Float64[np.ndarray, "row column"]


def still_of(data: AnyPage) -> bytes | None:
    """What a page opens with as a PNG of few colours; None where Matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        return None
    from PIL import Image  # which Matplotlib needs, too

    drawn, small = io.BytesIO(), io.BytesIO()
    figure = page_figure(data)
    figure.savefig(drawn, format="png", dpi=DPI * min(1.0, STILL_HEIGHT / figure.get_figheight()))
    drawn.seek(0)
    Image.open(drawn).convert("RGB").quantize(COLOURS_OF_PNG).save(small, format="png", optimize=True)
    return small.getvalue()


@figure_of.register(CausalValidation)
@strict
def validation_figure(result: CausalValidation, *, cells: CellChoice = "off-diagonal") -> Any:
    """Mean rho over layers of every predictor, one panel per effect, with 95 % intervals.

    Args:
        result: Cells with their predictors and effects.
        cells: Which cells are correlated.
    """
    from matplotlib.lines import Line2D

    columns = min(4, len(result.effects))
    rows = math.ceil(len(result.effects) / columns)
    size = {"width": 2.2 * columns + 1.4, "height": rows * (0.6 + 0.22 * len(result.predictors)) + 0.6}
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
    figure.legend(handles=marks, loc="outside upper center", ncols=len(marks), fontsize=7, frameon=False)
    figure.supxlabel(
        f"Spearman's rho with |change of {result.metric}|, mean over layers; 95 % intervals over prompts\n"
        f"{result.model} · {len(result.tokens)} prompts · {correlated} {cells} cells at most a panel",
        fontsize=8,
    )
    return figure


@figure_of.register(CircuitFaithfulness)
@strict
def circuit_figure(result: CircuitFaithfulness) -> Any:
    """Faithfulness by circuit size, with its interval over pairs; CMD is the area between the line and 1.

    Args:
        result: Of circuits of several sizes.
    """
    table = result.to_dataframe().sort_values("edges", kind="stable")
    area = f"CMD {significant(result.cmd)} · CPR {significant(result.cpr)}" if len(table) > 1 else ""
    figure = lines(
        {"faithfulness": table["value"].to_numpy()},
        title=f"{_title(result.summary()[0])}\n{area}",
        xlabel="edges of the circuit, per cent of all",
        x=[f"{100 * fraction:.2g}" for fraction in table["fraction"]],
    )
    place = figure.axes[0]
    place.fill_between(range(len(table)), table["low"], table["high"], color=COLOURS[0], alpha=0.2, linewidth=0)
    place.axhline(1, color="0.7", linewidth=1, zorder=0)
    return figure


@figure_of.register(EdgeEffects)
@strict
def effects_figure(result: EdgeEffects, *, against: EdgeGraph | None = None) -> Any:
    """Estimates of edges over their measured effects, or without estimates the graph.

    Args:
        result: Measured effects.
        against: Edges of `attribution_patching(edges=True)`.
    """
    if against is None:
        return page_figure(page_of(result))
    table = result.compare(against)
    labels = (table["source"] + " -> " + table["target"]).tolist()
    columns, names = (table[name].to_numpy() for name in ("effect", "estimate")), ("measured", "estimated")
    return scatter(*columns, names=names, labels=labels, title=result.targets[0].name)


def page_figure(data: AnyPage) -> Any:
    """What a page opens with."""
    if isinstance(data, PageData):
        if data.start.view == "overview":
            return _overview_figure(data)
        numbers = data.runs[0].blocks.get("numbers")
        if isinstance(numbers, NumbersBlock) and data.start.view == "numbers":
            return _numbers_figure(numbers, data.runs[0].tokens)
        block = next(block for block in data.runs[0].blocks.values() if isinstance(block, MapsBlock))
        return maps_figure(data, next(c["before"] for c in block.channels if c["name"] == data.start.scope))
    return _graph_figure(data)


def maps_figure(data: PageData, against: str | None = None, width: float | None = None) -> Any:
    """The map that a page opens with, or before, after and difference; cells as shares of the others where the page's are.

    Args:
        data: Of the page.
        against: The channel to compare with; None means that there is none.
        width: Inches; None means one column of a paper for one map, two for three.
    """
    run, start = data.runs[data.start.run], data.start
    block = next(block for block in run.blocks.values() if isinstance(block, MapsBlock))
    there, row = data.text.reachable(), data.text.layers.index(start.layer)
    shared = block.labels["cells"] == "others" and len(run.tokens) > 1
    if shared:
        there = others_of(there, data.text.queries)

    def cells(channel: str) -> Cells:
        numbers = block.values[channel][row].detach().cpu().double()
        return (shares_of_others(numbers, there) if shared else numbers).where(there, torch.nan).numpy()

    after = cells(start.scope)
    panels = [(start.scope, after, block.labels["signed"], _limit(after))]
    if against is not None:
        before = cells(against)
        change, limit = after - before, max(_limit(before), _limit(after))
        panels = [(against, before, block.labels["signed"], limit), (start.scope, after, block.labels["signed"], limit)]
        panels.append((f"{start.scope} − {against}", change, True, _limit(change)))
    figure, grid = axes(columns=len(panels), width=width or COLUMN * min(2, len(panels)), height=2.9, squeeze=False)
    rows = [run.tokens[query] for query in data.text.queries]
    for place, (title, numbers, signed, limit) in zip(grid[0], panels, strict=True):
        _heat(figure, place, numbers, signed, limit)
        place.set_title(title)
        place.set_xlabel("from")
        _label(place.set_xticks, run.tokens, MOST_COLUMNS, rotation=90)
        _label(place.set_yticks, rows if place is grid[0][0] else [""] * len(rows), MOST_ROWS)
    grid[0][0].set_ylabel("to")
    unit = (
        "share of what each row takes from the other tokens"
        if shared or block.labels["shares"]
        else block.labels["unit"]
    )
    layer = f", layer {start.layer}" if data.layered else ""
    figure.suptitle(_title(f"{data.model}{layer}: {unit}"), fontsize=8)
    return figure


@strict
def heat_map(
    values: Any,
    rows: Sequence[object] | None = None,
    columns: Sequence[object] | None = None,
    *,
    title: str = "",
    row: str = "layer",
    column: str = "head",
    unit: str = "",
    signed: bool | None = None,
) -> Any:
    """A table of numbers as a Matplotlib figure: colours that end at the 99th percentile of sizes, grey where there is no number.

    Args:
        values: [row column], such as [layer head], [layer position], [layer neuron]: a tensor, an array, or a pandas table of
            one number per cell, such as `table.pivot(index="layer", columns="channel", values="previous")`, with its labels.
        rows: A label per row; None means those of the table, else numbers.
        columns: A label per column, likewise.
        title: Above the figure.
        row: What a row is.
        column: What a column is.
        unit: What the numbers are.
        signed: Whether colours have two ends, with white at 0; None means if a number is negative.

    Raises:
        InputError: if the values have not two axes, or there is not one label per row and column.
    """
    table = values if isinstance(values, pd.DataFrame) else pd.DataFrame(_numbers(values, 2))
    labels = [table.index if rows is None else rows, table.columns if columns is None else columns]
    if tuple(map(len, labels)) != table.shape:
        raise InputError(
            f"heat_map: {len(labels[0])} rows and {len(labels[1])} columns are named, the values have {table.shape[0]} and "
            f"{table.shape[1]}: expected one label for each."
        )
    cells = table.to_numpy(dtype=float)
    figure, place = axes(width=1.5 * COLUMN, height=3.6)
    _heat(figure, place, cells, bool((cells < 0).any()) if signed is None else signed, _limit(cells), unit)
    place.set_ylabel(row)
    place.set_xlabel(column)
    _label(place.set_xticks, [*map(str, labels[1])], MOST_COLUMNS, rotation=90)
    _label(place.set_yticks, [*map(str, labels[0])], MOST_ROWS)
    figure.suptitle("\n".join(fill(_title(line), 80) for line in title.splitlines()), fontsize=8)
    return figure


@strict
def scatter(
    first: Any,
    second: Any,
    *,
    names: tuple[str, str] = ("first", "second"),
    labels: Sequence[str] = (),
    title: str = "",
) -> Any:
    """Two numbers per thing as a Matplotlib figure, with the line of equal numbers and Pearson's r.

    Args:
        first: Of each thing, along the horizontal axis: a tensor or an array of any shape.
        second: Of the same things, along the vertical axis.
        names: What the two are.
        labels: A name per thing; the `MOST_NAMED` that are largest in either are written.
        title: Above the figure; r and the number of things follow.

    Raises:
        InputError: if the two differ in shape, or have no number in common.
    """
    one, two = _numbers(first), _numbers(second)
    if one.shape != two.shape or not (known := np.isfinite(one) & np.isfinite(two)).any():
        raise InputError(
            f"scatter of {one.shape} and {two.shape} numbers: expected two of one shape, with finite numbers."
        )
    x, y = one[known], two[known]
    figure, place = axes(width=COLUMN, height=COLUMN)
    place.axline((0, 0), slope=1, color="0.7", linewidth=0.8, zorder=0)
    place.scatter(x, y, s=8, color=COLOURS[0], alpha=0.6, linewidths=0)
    named = np.array(labels, dtype=object)[known.flatten()] if len(labels) else []
    for at in _apart(x, y, np.argsort(-np.maximum(abs(x), abs(y))))[:MOST_NAMED] if len(named) else []:
        place.annotate(_title(named[at]), (x[at], y[at]), fontsize=6, textcoords="offset points", xytext=(2, 2))
    varies = len(x) > 1 and x.std() > 0 and y.std() > 0
    r = f"r = {np.corrcoef(x, y)[0, 1]:.3f}, " if varies else ""
    place.set_xlabel(names[0])
    place.set_ylabel(names[1])
    figure.suptitle(f"{fill(_title(title), 48)}\n{r}{len(x)} numbers".strip(), fontsize=8)
    return figure


def _apart(
    x: Float64[np.ndarray, " point"], y: Float64[np.ndarray, " point"], order: Int64[np.ndarray, " point"]
) -> list[int]:
    """Numbers of points in an order, without those so near an earlier one that their names would lie on each other."""
    wide, high = (LEAST_APART * (np.ptp(axis) or 1.0) for axis in (x, y))
    kept: list[int] = []
    for at in order.tolist():
        if all(abs(x[at] - x[one]) > 4 * wide or abs(y[at] - y[one]) > high for one in kept):
            kept.append(at)
    return kept


@strict
def lines(values: Mapping[str, Any], *, title: str = "", xlabel: str = "layer", ylabel: str = "", x: Any = None) -> Any:
    """Lines by layer as a Matplotlib figure.

    Args:
        values: By name a number per layer.
        title: Above the figure.
        xlabel: What lies along the lines.
        ylabel: What the numbers are.
        x: Labels along the lines; None means numbers from 0.

    Raises:
        InputError: if there is no line, or lines have more than one axis or no number.
    """
    drawn = {name: _numbers(line, 1) for name, line in values.items()}
    if not drawn:
        raise InputError("lines: expected one line or more by name, each a number per layer.")
    figure = layer_lines(drawn, ylabel=ylabel, xlabel=xlabel)
    if x is not None:
        _label(figure.axes[0].set_xticks, [*map(str, x)], MOST_COLUMNS)
    figure.axes[0].set_title("\n".join(fill(_title(line), 48) for line in title.splitlines()), fontsize=8)
    return figure


def _numbers(values: Any, n_axes: int | None = None) -> Shaped[np.ndarray, "..."]:
    """Numbers of a tensor, an array or a list in float64.

    Raises:
        InputError: for another number of axes, and where there is no number.
    """
    plain = values.detach().cpu() if isinstance(values, torch.Tensor) else values
    try:
        found = np.asarray(plain, dtype=float)
    except (TypeError, ValueError):
        raise InputError(f"{brief(values)}: expected numbers, such as a tensor.") from None
    if found.size == 0 or (n_axes is not None and found.ndim != n_axes):
        raise InputError(f"values of shape {found.shape}: expected numbers on {n_axes or 'the same'} axes.")
    return found


def _overview_figure(data: PageData) -> Any:
    """A target through all layers: tokens' streams as bands as wide as their shares, heads that carry across as arcs, heads by layer."""
    from matplotlib.patches import Rectangle

    run = data.runs[0]
    block = next(b.json for b in run.blocks.values() if isinstance(b, DataBlock) and b.json["kind"] == "logit")
    streams = np.array(block["residual"])
    limit = float(np.abs(streams).max()) or 1.0
    heads = None if block["heads"] is None else np.array(block["heads"])
    panels: dict[str, Any] = {"columns": 2, "width_ratios": (3, 1)} if heads is not None else {}
    figure, grid = axes(width=2 * COLUMN, height=4.2, squeeze=False, **panels)
    place = grid[0][0]
    for row, column in np.argwhere(streams != 0):
        share, wide = streams[row, column], 0.9 * abs(streams[row, column]) / limit
        look: dict[str, Any] = {
            "color": LOSS if share < 0 else GAIN,
            "alpha": min(1.0, 0.25 + 0.75 * abs(share) / limit),
        }
        place.add_patch(Rectangle((column - wide / 2, row - 0.5), wide, 1, linewidth=0, **look))
    _draw_arcs(place, block["edges"], limit)
    place.set(xlim=(-0.6, streams.shape[1] - 0.4), ylim=(len(streams) - 0.5, -0.5), ylabel="layer")
    _label(place.set_xticks, run.tokens, MOST_COLUMNS, rotation=90)
    _label(place.set_yticks, [*map(str, range(len(streams) - 1)), "end"], MOST_ROWS)
    place.set_title("what flows through each token", fontsize=8)
    if heads is not None:
        _heat(figure, grid[0][1], heads, True, _limit(heads))
        grid[0][1].set(xlabel="head")
        grid[0][1].set_title("heads", fontsize=8)
    unit = f" {block['unit']}" if block["unit"] else ""
    figure.suptitle(_title(f"{block['question']} {significant(block['value'])}{unit}, {data.model}"), fontsize=9)
    return figure


def _draw_arcs(place: Any, edges: Mapping[str, Sequence[tuple[int, int, float]]], limit: float) -> None:
    """The largest of what heads carry to another token, from the key's stream to the query's; the first have names."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    parts = ((*map(int, at.split(",")), *edge) for at, held in edges.items() for edge in held)
    carried = sorted((e for e in parts if e[2] != e[3] and abs(e[4]) >= LEAST_ARC * limit), key=lambda e: -abs(e[4]))
    for number, (layer, head, query, key, share) in enumerate(carried[:MOST_ARCS]):
        ink, low = LOSS if share < 0 else GAIN, layer + 1 + min(6.0, 0.5 * abs(query - key))
        path = Path(
            [(key, layer), ((key + query) / 2, low), (query, layer + 1)], [Path.MOVETO, Path.CURVE3, Path.CURVE3]
        )
        place.add_patch(PathPatch(path, fill=False, edgecolor=ink, linewidth=0.5 + 3 * abs(share) / limit, alpha=0.8))
        if number < NAMED_ARCS:
            name = f"L{layer}H{head} {significant(share)}"
            place.text(
                (key + query) / 2,
                (layer + low) / 2 + 0.5,
                name,
                color=ink,
                fontsize=6.5,
                ha="center",
                va="top",
                bbox=NAME_BOX,
            )


def _numbers_figure(data: NumbersBlock, tokens: Sequence[str]) -> Any:
    """The first map of numbers; of a continuation its matrix, of a target without maps its tokens' shares, else a table's bars."""
    heading = fill(_title(data.heading), 80)
    if not data.maps and not data.rows:
        figure, place = axes(width=1.5 * COLUMN, height=3.6)
        figure.suptitle(_title(heading), fontsize=8)
        entries = data.tables[0]["entries"][:MOST_ROWS] if data.tables else []
        place.barh(
            range(len(entries)), [share for _, share in entries], color=[LOSS if s < 0 else GAIN for _, s in entries]
        )
        _label(place.set_yticks, [name for name, _ in entries], MOST_ROWS)
        place.invert_yaxis()
        place.set_xlabel(data.tables[0]["title"] if data.tables else "")
        return figure
    drawn: dict[str, Any] = data.maps[0] if data.maps else {"row": "target", "column": "source", "columns": tokens}
    if not data.maps:
        drawn |= {
            "rows": [row["name"] for row in data.rows],
            "values": torch.stack([row["shares"] for row in data.rows]),
        }
    title = f"{data.heading}\n{data.maps[0]['title']}" if data.maps else data.heading
    named = {name: drawn[name] for name in ("rows", "columns", "row", "column")}
    return heat_map(drawn["values"], **named, title=title, signed=True)


def _graph_figure(data: GraphPage) -> Any:
    """Nodes by column and lane, the largest edges between them in the colours of their shares."""
    from matplotlib.collections import LineCollection

    def weight(edge: PageEdge) -> float:  # its share of the first target, else its size
        number = abs(edge.shares[0]) if edge.shares else edge.size
        return 0.0 if math.isnan(number) else number

    # Nodes of one column and lane are drawn one below the other: a lane is as high as the fullest of them.
    seen: Counter[tuple[int, int]] = Counter()
    rank = []
    for node in data.nodes:
        rank.append(seen[node.column, node.lane])
        seen[node.column, node.lane] += 1
    depth = max(seen.values())
    figure, place = axes(width=2 * COLUMN, height=min(5.0, 2.0 + 0.16 * data.lanes * depth))
    edges = sorted(data.edges, key=weight, reverse=True)[:MOST_LINES]
    at = [
        (node.column, -node.lane * depth - own + seen[node.column, node.lane] / 2)
        for node, own in zip(data.nodes, rank, strict=True)
    ]
    strength = np.array([weight(edge) for edge in edges])
    strength = strength / (strength.max(initial=0.0) or 1.0)
    inks = [LOSS if edge.shares and edge.shares[0] < 0 else GAIN if edge.shares else INK for edge in edges]
    lines = [(at[edge.source], at[edge.target]) for edge in edges]
    widths: dict[str, Any] = {"alpha": 0.1 + 0.9 * strength, "linewidths": 0.4 + 1.6 * strength} if edges else {}
    place.add_collection(LineCollection(lines, colors=inks, **widths))
    place.scatter(*zip(*at, strict=True), s=6, color=INK, zorder=3)
    _label(place.set_xticks, data.columns, MOST_COLUMNS, rotation=90)
    place.set_yticks([])
    figure.suptitle(_title(f"{data.model}: {data.heading}"), fontsize=8)
    return figure


def _kind(predictor: str, effect: str) -> str:
    if predictor in (ATTENTION, VALUES, change_of(ATTENTION)):
        return ATTENTION
    if predictor == PLACEBO:
        return PLACEBO
    return "map of what is edited" if predictor in (effect, change_of(effect)) else "other maps"


def _heat(figure: Any, place: Any, cells: Cells, signed: bool, limit: float, unit: str = "") -> None:
    """Cells in the page's colours, grey where there is no number, with their scale below."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = [LOSS, "white", GAIN] if signed else ["white", INK]
    colour_map = LinearSegmentedColormap.from_list("map", colours).with_extremes(bad="#e6e9ec")
    ends = {"vmin": -limit if signed else 0, "vmax": limit}
    image = place.imshow(cells, cmap=colour_map, interpolation="nearest", aspect="auto", **ends)
    beyond = bool((np.abs(np.nan_to_num(cells)) > limit).any())
    extend = "both" if beyond and signed else "max" if beyond else "neither"
    figure.colorbar(image, ax=place, orientation="horizontal", shrink=0.8, extend=extend, label=unit)


def _limit(cells: Cells) -> float:
    sizes = np.abs(cells[np.isfinite(cells)])
    if len(sizes) == 0 or sizes.max() == 0:
        return 1.0
    return float(np.percentile(sizes, PERCENTILE)) or float(sizes.max())


def _label(set_ticks: Any, labels: Sequence[str], most: int, **options: Any) -> None:
    every = max(1, -(-len(labels) // most))
    size = min(6.5, 300 / min(most, max(1, len(labels))))
    cut = (label if len(label) <= LONGEST_LABEL else label[: LONGEST_LABEL - 1] + "…" for label in labels[::every])
    set_ticks(range(0, len(labels), every), [label.replace("$", r"\$") for label in cut], fontsize=size, **options)


def _title(text: str) -> str:
    """A title as long as there is room for, without what Matplotlib would read as mathematics."""
    return (text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…").replace("$", r"\$")
