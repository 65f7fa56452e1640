"""Still figures of Matplotlib of every kind of page, in its colours and shares, and of results that have a figure of their own."""

import importlib.util
import io
import math
from collections import Counter
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
import torch
from jaxtyping import Float64

from tl_ffblock.interventions.validation import (
    ATTENTION,
    KNOCKOUT,
    PLACEBO,
    VALUES,
    CausalValidation,
    CellChoice,
    change_of,
)
from tl_ffblock.page import AnyPage, GraphPage, MapsBlock, PageData, PageEdge, SharesData
from tl_ffblock.result import Result
from tl_ffblock.results.figures import COLOURS, COLUMN, axes
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.signatures import refuse_options, strict
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


@figure_of.register(Result)
def result_figure(result: Result, **options: Any) -> Any:
    """What the result's page opens with; options are those of the page."""
    refuse_options(f"{type(result).__name__}.figure", page_of.dispatch(type(result)), options)
    return page_figure(page_of(result, **options))


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


def page_figure(data: AnyPage) -> Any:
    """What a page opens with."""
    if isinstance(data, PageData):
        block = next(block for block in data.runs[0].blocks.values() if isinstance(block, MapsBlock))
        return maps_figure(data, next(c["before"] for c in block.channels if c["name"] == data.start.scope))
    return _graph_figure(data) if isinstance(data, GraphPage) else _shares_figure(data)


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


def _shares_figure(data: SharesData) -> Any:
    """The first map of a page of shares; of a continuation its matrix, of a target without maps its tokens' shares, else a table's bars."""
    figure, place = axes(width=1.5 * COLUMN, height=3.6)
    heading = fill(_title(data.heading), 80)
    figure.suptitle(_title(f"{heading}\n{data.maps[0]['title']}" if data.maps else heading), fontsize=8)
    if not data.maps and not data.rows:
        entries = data.tables[0]["entries"][:MOST_ROWS] if data.tables else []
        place.barh(
            range(len(entries)), [share for _, share in entries], color=[LOSS if s < 0 else GAIN for _, s in entries]
        )
        _label(place.set_yticks, [name for name, _ in entries], MOST_ROWS)
        place.invert_yaxis()
        place.set_xlabel(data.tables[0]["title"] if data.tables else "")
        return figure
    drawn: dict[str, Any] = data.maps[0] if data.maps else {"row": "target", "column": "source", "columns": data.tokens}
    if not data.maps:
        drawn |= {
            "rows": [row["name"] for row in data.rows],
            "values": torch.stack([row["shares"] for row in data.rows]),
        }
    numbers: Cells = drawn["values"].detach().cpu().double().numpy()
    _heat(figure, place, numbers, True, _limit(numbers))
    place.set_ylabel(drawn["row"])
    place.set_xlabel(drawn["column"])
    _label(place.set_xticks, drawn["columns"], MOST_COLUMNS, rotation=90)
    _label(place.set_yticks, drawn["rows"], MOST_ROWS)
    return figure


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


def _heat(figure: Any, place: Any, cells: Cells, signed: bool, limit: float) -> None:
    """Cells in the page's colours, grey where there is no number, with their scale below."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = [LOSS, "white", GAIN] if signed else ["white", INK]
    colour_map = LinearSegmentedColormap.from_list("map", colours).with_extremes(bad="#e6e9ec")
    ends = {"vmin": -limit if signed else 0, "vmax": limit}
    image = place.imshow(cells, cmap=colour_map, interpolation="nearest", aspect="auto", **ends)
    beyond = bool((np.abs(np.nan_to_num(cells)) > limit).any())
    extend = "both" if beyond and signed else "max" if beyond else "neither"
    figure.colorbar(image, ax=place, orientation="horizontal", shrink=0.8, extend=extend)


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
