"""Figures: column width, labelled axes, and colours that colour-blind readers can distinguish.

Colours are those of Okabe and Ito (2008); lines also differ by their markers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float, Shaped

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Width of one column of a paper in inches.
COLUMN = 3.4
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#999999", "#F0E442")
MARKERS = "osD^vP*X"
# An axis is logarithmic if values differ by more than this factor.
LOG_SPREAD = 20
# Characters in one line above a small panel; longer titles have a second line.
PANEL_TITLE = 30
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
    "svg.hashsalt": "tl_ffblock",
    "svg.fonttype": "none",
    "figure.dpi": 100,
    "savefig.dpi": 200,
}


def axes(
    *, rows: int = 1, columns: int = 1, width: float = COLUMN, height: float = 2.1, **options: Any
) -> tuple["Figure", Any]:
    """A figure without a window, in this style."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.subplots(rows, columns, **options)


@dataclass(frozen=True)
class Spread:
    """Means of samples, with standard errors and standard deviations."""

    mean: Float[np.ndarray, " point"]
    error: Float[np.ndarray, " point"]
    """Standard error of the mean; NaN for one sample."""
    deviation: Float[np.ndarray, " point"] | None = None
    """Standard deviation of the samples; None for binary samples, whose mean determines it."""

    @classmethod
    def of(cls, rows: "pd.DataFrame", mean: str, *, deviation: str = "deviation", count: str = "sequences") -> "Spread":
        """From columns of a table with one row per point: means, standard deviations and numbers of samples."""
        samples, scatter = rows[count].to_numpy(dtype=float), rows[deviation].to_numpy(dtype=float)
        return cls(rows[mean].to_numpy(dtype=float), scatter / np.sqrt(np.maximum(samples, 1)), scatter)

    @classmethod
    def of_shares(cls, rows: "pd.DataFrame", share: str, *, count: str) -> "Spread":
        """From fractions of a number of independent samples: their error is `sqrt(p (1 - p) / n)`."""
        shares, things = rows[share].to_numpy(dtype=float), rows[count].to_numpy(dtype=float)
        return cls(shares, np.sqrt(shares * (1 - shares) / np.where(things > 0, things, np.nan)))

    @classmethod
    def of_rank_correlations(cls, rows: "pd.DataFrame", rho: str, *, count: str) -> "Spread":
        """From Spearman's rho over a number of pairs: the error of its Fisher z is `1.03 / sqrt(n - 3)` (Fieller et al. 1957)."""
        values, pairs = rows[rho].to_numpy(dtype=float), rows[count].to_numpy(dtype=float)
        return cls(values, (1 - values**2) * 1.03 / np.sqrt(np.where(pairs > 3, pairs - 3, np.nan)))


def scatter_words(samples: str) -> str:
    """Caption of error bars in the figures below."""
    return f"with standard errors (thick) and standard deviations over {samples} (thin)"


# The same for captions that name the samples elsewhere.
SCATTER_OF_MEAN = "mean, standard error (thick) and standard deviation (thin)"


def layer_panels(panels: Mapping[str, Spread], *, ylabel: str, columns: int = 3) -> "Figure":
    """One small panel per quantity, with a common scale: means with standard errors, and a thin line for the standard deviation.

    Args:
        panels: Quantities by title.
        ylabel: Label of the vertical axis, with its unit.
        columns: Largest number of panels in a row.
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
        if spread.deviation is not None:
            ends = np.maximum(spread.mean - spread.deviation, 0), spread.mean + spread.deviation
            panel.vlines(layers, *ends, color=COLOURS[6], linewidth=0.4)
        panel.errorbar(
            layers,
            spread.mean,
            spread.error,
            color=COLOURS[0],
            marker="o",
            markersize=2.2,
            linewidth=0.8,
            elinewidth=1.2,
        )
        panel.set_title(fill(title, PANEL_TITLE), fontsize=7.5)
        panel.xaxis.get_major_locator().set_params(integer=True)
    grid.flat[0].set_ylim(bottom=0)  # last, since it ends autoscaling of all panels
    for panel in grid.flat[max(0, len(panels) - columns) : len(panels)]:  # the lowest of each column
        panel.set_xlabel("layer")
        panel.tick_params(labelbottom=True)
    for panel in grid[:, 0]:
        panel.set_ylabel(ylabel)
    return figure


def sign(figure: "Figure", text: str) -> None:
    """Write a caption below a figure, so that it can be read apart from its page."""
    figure.supxlabel(text, x=0.01, ha="left", fontsize=6, color="#5b6672", wrap=True, parse_math=False)


def layer_lines(
    lines: Mapping[str, Spread | Shaped[np.ndarray, " point"]],
    *,
    ylabel: str,
    log: bool = False,
    xlabel: str = "layer",
    x: Mapping[str, Any] | None = None,
    width: float = COLUMN,
) -> "Figure":
    """One line per quantity over layers; earlier lines are thicker, so that later ones do not hide them.

    Standard errors are thick, standard deviations thin and without effect on the axis. A linear axis starts at zero if no value is
    negative, a logarithmic one at the smallest value.

    Args:
        lines: Values by label.
        ylabel: Label of the vertical axis, with its unit.
        log: Whether the axis is logarithmic if the values differ by much.
        xlabel: Label of the horizontal axis.
        x: Horizontal positions by label; None means layer numbers.
        width: Inches.
    """
    figure, ax = axes(width=width)
    means = {label: line.mean if isinstance(line, Spread) else line for label, line in lines.items()}
    for i, (label, line) in enumerate(lines.items()):
        at = np.arange(len(means[label])) if x is None else x[label]
        over = len(lines) - 1 - i
        size = dict(markersize=3 + 0.7 * over, linewidth=1 + 0.4 * over, elinewidth=1 + 0.4 * over)
        error = line.error if isinstance(line, Spread) else None
        ax.errorbar(at, means[label], error, color=COLOURS[i % 8], marker=MARKERS[i % 8], label=label, **size)
    lowest = min(float(np.nanmin(values)) if np.isfinite(values).any() else 0.0 for values in means.values())
    if log and _spread(means) > LOG_SPREAD:
        ax.set_yscale("log")
    elif lowest >= 0:
        ax.set_ylim(bottom=0)
    limits = ax.get_ylim()
    for i, (label, line) in enumerate(lines.items()):
        if isinstance(line, Spread) and line.deviation is not None:
            at = (np.arange(len(line.mean)) if x is None else x[label]) + (0.12 * i if x is None else 0)
            ax.vlines(at, line.mean - line.deviation, line.mean + line.deviation, color=COLOURS[i % 8], linewidth=0.5)
    ax.set_ylim(limits)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if x is None:
        ax.xaxis.get_major_locator().set_params(integer=True)
    _legend(figure, ax, len(lines))
    return figure


def _spread(lines: Mapping[str, Shaped[np.ndarray, " point"]]) -> float:
    values = np.concatenate([np.asarray(line, dtype=float) for line in lines.values()])
    values = values[np.isfinite(values)]
    return float(values.max() / values.min()) if len(values) and values.min() > 0 else 0.0


def _legend(figure: "Figure", ax: "Axes", entries: int) -> None:
    if entries > 1:
        handles, labels = ax.get_legend_handles_labels()
        per_row = max(1, int(figure.get_figwidth() / (0.052 * max(map(len, labels)) + 0.42)))
        rows = -(-entries // per_row)
        figure.set_figheight(figure.get_figheight() + 0.15 * (rows - 1))
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
