"""Still pictures of pages, small PNGs that stand where a notebook shows no page: one of every kind of page."""

import importlib.util
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from tl_ffblock.page import GraphPage, MapsBlock, PageData, SharesData
from tl_ffblock.results.figures import COLUMN, axes
from tl_ffblock.results.map_figure import GAIN, INK, LOSS, drawn_label, heat, limit_of
from tl_ffblock.results.ranks import others_of, shares_of_others

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100
COLOURS = 128
"""Different colours of a PNG, which is half as large as with all."""
COLUMNS, ROWS = 60, 24
"""Columns and rows up to which each has its label."""
LONGEST_TITLE = 110
"""Letters of a title; longer ones are cut."""
MOST_LINES = 600
"""Edges of a graph that are drawn, the largest."""


def still_of(data: PageData | SharesData | GraphPage) -> bytes | None:
    """What a page opens with as a PNG; None where Matplotlib is not installed."""
    if not has_figures():
        return None
    if isinstance(data, PageData):
        return png(_of_maps(data))
    return png(graph_figure(data) if isinstance(data, GraphPage) else _of_shares(data))


def has_figures() -> bool:
    """Whether Matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


def png(figure: "Figure") -> bytes:
    """A figure as a PNG of few colours."""
    from PIL import Image  # which Matplotlib needs, too

    drawn, small = io.BytesIO(), io.BytesIO()
    figure.savefig(drawn, format="png", dpi=DPI)
    drawn.seek(0)
    Image.open(drawn).convert("RGB").quantize(COLOURS).save(small, format="png", optimize=True)
    return small.getvalue()


def _of_maps(data: PageData) -> "Figure":
    """The map that a page opens with: values, or shares of the others where these are what its cells are."""
    run, start = data.runs[data.start.run], data.start
    block = next(block for block in run.blocks.values() if isinstance(block, MapsBlock))
    cells = block.values[start.scope][data.text.layers.index(start.layer)].detach().cpu().double()
    there = data.text.reachable()
    shared = block.cells == "others" and len(run.tokens) > 1
    if shared:
        there = others_of(there, data.text.queries)
        cells = shares_of_others(cells, there)
    where = f", layer {start.layer}, {start.scope}" if data.layered else ""
    unit = "share of what each row takes from the other tokens" if shared or block.shares else block.unit
    rows = [run.tokens[query] for query in data.text.queries]
    return _one(
        cells.where(there, torch.nan), rows, run.tokens, ("to", "from"), block.signed, f"{data.model}{where}: {unit}"
    )


def _of_shares(data: SharesData) -> "Figure":
    """The first map of a page of shares; of a continuation its matrix, of a target without maps the tokens' shares."""
    if data.maps:
        first = data.maps[0]
        return _one(
            first.values, first.rows, first.columns, (first.row, first.column), True, f"{data.heading}\n{first.title}"
        )
    matrix = torch.stack([row.shares for row in data.rows])
    return _one(matrix, [row.name for row in data.rows], data.tokens, ("target", "source"), True, data.heading)


def _one(
    cells: Float[Tensor, "row column"],
    rows: Sequence[str],
    columns: Sequence[str],
    named: tuple[str, str],
    signed: bool,
    title: str,
) -> "Figure":
    """A map with its labels and its scale."""
    figure, place = axes(width=1.5 * COLUMN, height=3.6)
    numbers: Float64[np.ndarray, "row column"] = cells.detach().cpu().double().numpy()
    heat(figure, place, numbers, signed, limit_of(numbers))
    place.set_ylabel(named[0])
    place.set_xlabel(named[1])
    _label(place.set_xticks, columns, COLUMNS, rotation=90)
    _label(place.set_yticks, rows, ROWS)
    figure.suptitle(_title(title), fontsize=8)
    return figure


def _label(set_ticks: Any, labels: Sequence[str], most: int, **options: Any) -> None:
    """Every label of few, else every so many."""
    every = -(-len(labels) // most)
    size = min(6.5, 300 / min(most, len(labels)))
    set_ticks(range(0, len(labels), every), [drawn_label(label) for label in labels[::every]], fontsize=size, **options)


def graph_figure(data: GraphPage) -> "Figure":
    """Nodes by column and lane, the largest edges between them in the colours of their shares."""
    from matplotlib.collections import LineCollection

    figure, place = axes(width=2 * COLUMN, height=min(5.0, 2.0 + 0.16 * data.lanes))
    edges = sorted(data.edges, key=lambda edge: -_weight(edge.shares, edge.size))[:MOST_LINES]
    at = [(node.column, -node.lane) for node in data.nodes]
    sizes = np.array([_weight(edge.shares, edge.size) for edge in edges] or [1.0])
    strength = np.nan_to_num(sizes / (sizes.max() or 1.0))
    inks = [LOSS if edge.shares and edge.shares[0] < 0 else GAIN if edge.shares else INK for edge in edges]
    lines = [(at[edge.source], at[edge.target]) for edge in edges]
    place.add_collection(
        LineCollection(
            lines,
            colors=inks[: len(lines)],
            alpha=0.1 + 0.9 * strength[: len(lines)],
            linewidths=0.4 + 1.6 * strength[: len(lines)],
        )
    )
    place.scatter(*zip(*at, strict=True), s=6, color=INK, zorder=3)
    _label(place.set_xticks, data.columns, COLUMNS, rotation=90)
    place.set_yticks([])
    figure.suptitle(_title(f"{data.model}: {data.heading}"), fontsize=8)
    return figure


def _weight(shares: Sequence[float], size: float) -> float:
    """What an edge is drawn by: its share of the first target, else its size."""
    number = abs(shares[0]) if shares else size
    return number if number == number else 0.0


def _title(text: str) -> str:
    """A title as long as there is room for, without what Matplotlib would read as mathematics."""
    return (text if len(text) <= LONGEST_TITLE else text[: LONGEST_TITLE - 1] + "…").replace("$", r"\$")
