"""Draws causal_validation.png from causal_validation_SET.csv and causal_validation_SET_differences.csv.

    python -m docs.results.causal_figure

A column a set of prompts, a row what is done. Above, how well predictors rank the effects; below, by how much the map
leads over attention: a difference has a narrower interval than its two sides, which were drawn on the same prompts.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import matplotlib as mpl
import pandas as pd

from docs.results.causal_tables import ATTENTION, EFFECTS, FOLDER, OUTPUT, PLACEBO, SETS, VALUES, lead_of, rho_of
from tl_ffblock.results.figures import COLOURS, COLUMN, MARKERS, STYLE, axes, sign

if TYPE_CHECKING:
    from matplotlib.axes import Axes

OWN = "own map"
PREDICTORS = {OWN: OWN, ATTENTION: "attention", VALUES: "attention × value norm", PLACEBO: "placebo"}
LOOKS = {name: (COLOURS[look], MARKERS[look]) for name, look in zip(PREDICTORS, (0, 1, 3, 6), strict=True)}
CELLS = "off-diagonal"
SAMPLE = "100 prompts a set, key ≠ query, layers 1, 5, … 29, mean over layers, 95 % intervals by bootstrap over prompts"


def _own(effect: str) -> str:
    """The map of what is removed; of the knockout, which removes no scope's vector, that of the layer's output."""
    return effect if effect in EFFECTS[:-1] else OUTPUT


def _draw(panel: "Axes", values: Mapping[str, pd.DataFrame], middle: str) -> None:
    """A point and its interval a row and predictor, the predictors of a row under one another."""
    for number, (predictor, rows) in enumerate(values.items()):
        at = [row + 0.17 * (number - (len(values) - 1) / 2) for row in range(len(rows))]
        sides = [rows[middle] - rows["low"], rows["high"] - rows[middle]]
        colour, marker = LOOKS[predictor]
        look = dict(color=colour, marker=marker, markersize=3, linestyle="none", elinewidth=1)
        panel.errorbar(rows[middle], at, xerr=sides, label=PREDICTORS[predictor], **look)
    panel.axvline(0, color="black", linewidth=0.5, zorder=0)


def main() -> None:
    """Write the figure beside its tables."""
    figure, grid = axes(rows=2, columns=len(SETS), width=2 * COLUMN, height=4.6, sharey=True, sharex="row")
    for (above, below), name in zip(grid.T, SETS, strict=True):
        rho, lead = rho_of(name, CELLS), lead_of(name, CELLS)
        rows = {
            predictor: rho.loc[[(effect, _own(effect) if predictor == OWN else predictor) for effect in EFFECTS]]
            for predictor in PREDICTORS
        }
        _draw(above, rows, "rho")
        _draw(
            below,
            {other: lead.loc[[(effect, _own(effect), other) for effect in EFFECTS]] for other in (ATTENTION, VALUES)},
            "difference",
        )
        above.set_title(f"{name}: {rho['n'].max()} cells", fontsize=8)
        above.set_xlabel("Spearman's ρ with the effect's size")
        below.set_xlabel("lead of the own map's ρ")
        below.xaxis.get_major_locator().set_params(nbins=4)
    grid[0, 0].set_yticks(range(len(EFFECTS)), EFFECTS)
    grid[0, 0].invert_yaxis()
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(labels), frameon=False, fontsize=6.5)
    sign(figure, f"SmolLM2-135M-Instruct · {SAMPLE}")
    with mpl.rc_context(STYLE):
        figure.savefig(FOLDER / "causal_validation.png", metadata={"Software": None})


if __name__ == "__main__":
    main()
