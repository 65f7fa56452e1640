"""The picture of a causal validation: a panel an effect, a line a predictor, with its interval."""

import math
from typing import TYPE_CHECKING

from tl_ffblock.interventions.validation import ATTENTION, KNOCKOUT, PLACEBO, VALUES, change_of
from tl_ffblock.results.figures import COLOURS, axes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from tl_ffblock.interventions.validation import CausalValidation, CellChoice

OWN_MAP, OTHER_MAP = "map of what is edited", "other maps"
COLOUR_OF = {OWN_MAP: COLOURS[5], OTHER_MAP: COLOURS[0], ATTENTION: COLOURS[1], PLACEBO: COLOURS[6]}
"""Vermilion, blue, orange and grey: kinds of predictors."""

LARGEST_ROW = 4
"""Panels side by side."""


def draw(result: "CausalValidation", cells: "CellChoice") -> "Figure":
    """Mean rho over layers of every predictor, with 95 % intervals.

    Raises:
        ModuleNotFoundError: if matplotlib is not installed.
    """
    from matplotlib.lines import Line2D

    columns = min(LARGEST_ROW, len(result.effects))
    rows = math.ceil(len(result.effects) / columns)
    figure, grid = axes(
        rows=rows,
        columns=columns,
        width=2.2 * columns + 1.4,
        height=rows * (0.6 + 0.22 * len(result.predictors)) + 0.6,
        sharey=True,
        sharex=True,
        squeeze=False,
    )
    panels = list(grid.flat)
    done = "removed" if result.corrupted is None else "exchanged"
    for spare in panels[len(result.effects) :]:
        spare.set_visible(False)
    correlated = 0
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


def _kind(predictor: str, effect: str) -> str:
    if predictor in (ATTENTION, VALUES, change_of(ATTENTION)):
        return ATTENTION
    if predictor == PLACEBO:
        return PLACEBO
    return OWN_MAP if predictor in (effect, change_of(effect)) else OTHER_MAP
