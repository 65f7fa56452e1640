"""Maps as a still figure of Matplotlib, in the page's colours and shares."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float64

from tl_ffblock.layer.positions import real_number
from tl_ffblock.results.figures import COLUMN, axes
from tl_ffblock.results.page_data import Result
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.results.tokens import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INK, GAIN, LOSS = "#003f5c", "#b35806", "#6a5fc0"
LABELLED = 60
"""Tokens up to which each has its label."""
PERCENTILE = 99
"""Colours end at this percentile of the cells of other tokens, so that they do not hang on one cell."""


def map_figure(maps: Result, layer: int, scope: str, against: str | None, width: float | None) -> "Figure":
    """One map, or before, after and difference; cells as shares of the others, of a difference of results as they are."""
    from matplotlib.colors import LinearSegmentedColormap

    panels = _panels(maps, layer, scope, against)
    usual = COLUMN if len(panels) == 1 else 2 * COLUMN
    wide = usual if width is None else real_number(width, "width", above=0.0)
    figure, ax = axes(columns=len(panels), width=wide, height=2.9, squeeze=False)
    for place, (title, cells, signed, limit) in zip(ax[0], panels, strict=True):
        colours = [LOSS, "white", GAIN] if signed else ["white", INK]
        colour_map = LinearSegmentedColormap.from_list("map", colours).with_extremes(bad="#e6e9ec")
        image = place.imshow(
            cells, cmap=colour_map, vmin=-limit if signed else 0, vmax=limit, interpolation="nearest", aspect="auto"
        )
        place.set_title(title)
        _label(place, maps, first=place is ax[0][0])
        beyond = bool((np.abs(np.nan_to_num(cells)) > limit).any())
        figure.colorbar(
            image,
            ax=place,
            orientation="horizontal",
            shrink=0.8,
            extend="both" if beyond and signed else "max" if beyond else "neither",
        )
    unit = "difference of norms" if maps.signed else "share of what each row takes from the other tokens"
    figure.suptitle(f"{maps.model}, layer {layer}: {unit}", fontsize=8)
    return figure


def _panels(
    maps: Result, layer: int, scope: str, against: str | None
) -> list[tuple[str, Float64[np.ndarray, "query key"], bool, float]]:
    """Title, cells, whether they are signed, and the end of the scale, for each panel."""
    after = _others(maps, layer, scope)
    if against is None:
        return [(scope, after, maps.signed, _limit(after))]
    before = _others(maps, layer, against)
    shared = max(_limit(before), _limit(after))
    change = after - before
    pair = [(against, before, maps.signed, shared), (scope, after, maps.signed, shared)]
    return [*pair, (f"{scope} − {against}", change, True, _limit(change))]


def _others(maps: Result, layer: int, scope: str) -> Float64[np.ndarray, "query key"]:
    """Cells as shares of their row, the row's own left out; NaN where there is nothing to show."""
    cells, there = maps.values[scope, layer].detach().cpu().double(), maps.reachable()
    if not maps.signed and len(maps.tokens) > 1:
        there = others_of(there, maps.queries)
        cells = shares_of_others(cells, there)
    return cells.where(there, torch.nan).numpy()


def _limit(cells: Float64[np.ndarray, "query key"]) -> float:
    sizes = np.abs(cells[np.isfinite(cells)])
    if len(sizes) == 0 or sizes.max() == 0:
        return 1.0
    return float(np.percentile(sizes, PERCENTILE)) or float(sizes.max())


def _label(place: Any, maps: Result, *, first: bool) -> None:
    tokens = [visible(token).replace("$", r"\$") for token in maps.tokens]
    place.set_xlabel("from")
    if first:
        place.set_ylabel("to")
    if len(tokens) <= LABELLED:
        size = max(2.5, min(6.5, 150 / len(tokens)))
        place.set_xticks(range(len(tokens)), tokens, rotation=90, fontsize=size)
        place.set_yticks(range(len(maps.queries)), [tokens[q] for q in maps.queries] if first else [], fontsize=size)
