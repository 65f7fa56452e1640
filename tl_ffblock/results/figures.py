"""Figures for people: column width, labelled axes, colours that colour-blind readers tell apart.

Colours are those of Okabe and Ito (2008, "Color Universal Design"); bars also differ by hatching.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Shaped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMN = 3.4
"""Inches of one column of a paper."""
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442")
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "||||", "----", "++++")
MARKERS = "osD^vP*X"
BARS_IN_ONE_COLUMN = 48
"""Bars of a figure beyond which it takes two columns."""
LOG_SPREAD = 20
"""A logarithmic axis is for values that differ by more than this factor."""
PANEL_TITLE = 30
"""Letters in a line above a small panel; longer titles take a second line instead of leaving the picture."""
LABELLED_LAYERS = 20
"""Layers beyond which every other one has its number."""
STYLE: dict[str, Any] = {
    "font.size": 8,
    "axes.labelsize": 8,
    "axes.titlesize": 8,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 6.5,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "hatch.linewidth": 0.5,
    "svg.hashsalt": "tl_ffblock",
    "svg.fonttype": "none",
    "figure.dpi": 100,
    "savefig.dpi": 200,
}


def axes(
    *, rows: int = 1, columns: int = 1, width: float = COLUMN, height: float = 2.1, **options: Any
) -> tuple["Figure", Any]:
    """A figure without a window, in the style above."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, **options)


def layer_bars(
    bars: Mapping[str, Shaped[np.ndarray, " layer"]],
    *,
    ylabel: str,
    stacked: bool = False,
    xticks: Sequence[str] = (),
    among: Sequence[str] = (),
) -> "Figure":
    """Groups of bars, one group a layer; bars too thin for a hatch have their colour alone.

    Args:
        bars: Heights by label.
        ylabel: What a height is, with its unit.
        stacked: Whether the bars of a group stand on one another and not side by side.
        xticks: Names of the groups; empty means layer numbers.
        among: All labels of a series of figures: one looks the same in each, whichever of the others are there.
    """
    n_layers = len(next(iter(bars.values())))
    many = n_layers * len(bars) > BARS_IN_ONE_COLUMN
    figure, ax = axes(width=2 * COLUMN if many else COLUMN)
    width = 0.8 if stacked else 0.84 / len(bars)
    at = np.arange(n_layers)
    bottom = np.zeros(n_layers)
    for i, (label, values) in enumerate(bars.items()):
        shift = 0 if stacked else (i - (len(bars) - 1) / 2) * width
        heights = np.nan_to_num(values)
        style = (among.index(label) if among else i) % len(COLOURS)
        look = dict(color=COLOURS[style], hatch=HATCHES[style] if stacked or not many else None)
        bottoms = bottom if stacked else 0
        ax.bar(at + shift, heights, width, bottom=bottoms, label=label, edgecolor="white", linewidth=0, **look)
        bottom = bottom + heights
    ax.set_xticks(at, xticks or [str(layer) for layer in at])
    ax.margins(x=0.02)
    if n_layers > LABELLED_LAYERS and not xticks:
        ax.set_xticks(at[::2], [str(layer) for layer in at[::2]])
    ax.set_xlabel("" if xticks else "layer")
    ax.set_ylabel(ylabel)
    _legend(figure, ax, len(bars))
    return figure


@dataclass(frozen=True)
class Spread:
    """Means of samples, with what is known of their scatter."""

    mean: Float[np.ndarray, " layer"]
    deviation: Float[np.ndarray, " layer"]
    """Standard deviation of the samples."""
    count: int
    """Samples."""

    @classmethod
    def of(cls, rows: "pd.DataFrame", mean: str) -> "Spread":
        """Read the column `mean` of a table with a row a layer, its `deviation` (0 where there was one sample) and `sequences`."""
        return cls(rows[mean].to_numpy(), rows["deviation"].fillna(0).to_numpy(), int(rows["sequences"].max()))

    @property
    def error(self) -> Float[np.ndarray, " layer"]:
        """The standard error of the mean."""
        return self.deviation / np.sqrt(max(self.count, 1))


def layer_panels(panels: Mapping[str, Spread], *, ylabel: str, columns: int = 3) -> "Figure":
    """One small panel a quantity, all on one scale: means with their standard errors, and a thin line for the spread.

    Args:
        panels: Quantities by title.
        ylabel: What a height is, with its unit.
        columns: Panels in a row at most.
    """
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure, grid = axes(
        rows=rows,
        columns=columns,
        width=min(2 * COLUMN, 1.75 * columns + 0.4),
        height=1.35 * rows + 0.35,
        sharex=True,
        sharey=True,
        squeeze=False,
    )
    for panel in grid.flat[len(panels) :]:
        panel.set_visible(False)
    for panel, (title, spread) in zip(grid.flat, panels.items(), strict=False):
        layers = np.arange(len(spread.mean))
        panel.vlines(
            layers,
            np.maximum(spread.mean - spread.deviation, 0),
            spread.mean + spread.deviation,
            color=COLOURS[6],
            linewidth=0.6,
        )
        panel.errorbar(
            layers, spread.mean, spread.error, color=COLOURS[0], marker="o", markersize=2.2, linewidth=0.8, elinewidth=2
        )
        panel.set_title(fill(title, PANEL_TITLE), fontsize=7.5)
        panel.xaxis.get_major_locator().set_params(integer=True)
    grid.flat[0].set_ylim(bottom=0)  # last, for it ends the scaling of all
    for panel in grid.flat[max(0, len(panels) - columns) : len(panels)]:  # the lowest of each column
        panel.set_xlabel("layer")
        panel.tick_params(labelbottom=True)
    for panel in grid[:, 0]:
        panel.set_ylabel(ylabel)
    return figure


def sign(figure: "Figure", text: str) -> None:
    """Write below a figure what it is of, so that it can be read apart from its page."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=5.5, color="#5b6672", wrap=True, parse_math=False)


def layer_lines(
    lines: Mapping[str, Shaped[np.ndarray, " point"]],
    *,
    ylabel: str,
    log: bool = False,
    xlabel: str = "layer",
    x: Mapping[str, Any] | None = None,
    deviations: Mapping[str, Float[np.ndarray, " point"]] | None = None,
) -> "Figure":
    """One line a quantity over layers; earlier lines are thicker and show below those that cover them.

    A logarithmic axis starts where the values do, any other at zero where no value is negative: a ratio can be read off.

    Args:
        lines: Heights by label.
        ylabel: What a height is, with its unit.
        log: Whether the axis is logarithmic where the values differ by much.
        xlabel: What lies along the lines.
        x: Where the points of each label lie; None means at layer numbers.
        deviations: Standard deviations by label, drawn as thin lines; they do not stretch the axis.
    """
    figure, ax = axes()
    for i, (label, values) in enumerate(lines.items()):
        at = np.arange(len(values)) if x is None else x[label]
        over = len(lines) - 1 - i
        size = dict(markersize=3 + 0.7 * over, linewidth=1 + 0.4 * over)
        ax.plot(at, values, color=COLOURS[i % 8], marker=MARKERS[i % 8], label=label, **size)
    lowest = min(float(np.nanmin(values)) if np.isfinite(values).any() else 0.0 for values in lines.values())
    if log and _spread(lines) > LOG_SPREAD:
        ax.set_yscale("log")
    elif lowest >= 0:
        ax.set_ylim(bottom=0)
    limits = ax.get_ylim()
    for i, (label, spread) in enumerate((deviations or {}).items()):
        at = np.arange(len(spread)) + 0.12 * i
        ax.vlines(at, lines[label] - spread, lines[label] + spread, color=COLOURS[i % 8], linewidth=0.5)
    ax.set_ylim(limits)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if x is None:
        ax.xaxis.get_major_locator().set_params(integer=True)
    _legend(figure, ax, len(lines))
    return figure


def _spread(lines: Mapping[str, Shaped[np.ndarray, " point"]]) -> float:
    """Largest value over smallest."""
    values = np.concatenate([np.asarray(line, dtype=float) for line in lines.values()])
    values = values[np.isfinite(values)]
    return float(values.max() / values.min()) if len(values) and values.min() > 0 else 0.0


def _legend(figure: "Figure", ax: "Axes", entries: int) -> None:
    if entries > 1:
        handles, labels = ax.get_legend_handles_labels()
        per_row = max(1, int(figure.get_figwidth() / (0.052 * max(map(len, labels)) + 0.42)))
        rows = -(-entries // per_row)
        height = figure.get_figheight() + 0.15 * (rows - 1)
        figure.set_figheight(height)
        figure.legend(
            handles,
            labels,
            loc="outside upper center",
            ncols=min(per_row, entries),
            fontsize=6.5,
            frameon=False,
            handlelength=1.4,
            columnspacing=1,
        )
