"""Figures of studies: what is written in them can be read."""

import numpy as np

from tl_ffblock.results.figures import Spread, layer_panels


def test_a_long_title_of_a_panel_stays_in_the_picture() -> None:
    """Every title lies within the figure and above its own panel, however long it is."""
    spread = Spread(np.linspace(0.1, 0.2, 6), np.full(6, 0.05), 20)
    figure = layer_panels(
        {"all": spread, "some": spread, "a title longer than " * 3 + "its panel": spread}, ylabel="change"
    )
    figure.canvas.draw()
    panels = [panel for panel in figure.axes if panel.get_visible()]
    for panel in panels:
        title = panel.title.get_window_extent()
        assert title.x0 >= 0 and title.x1 <= figure.bbox.x1 and title.y1 <= figure.bbox.y1
        assert all(not title.overlaps(side.title.get_window_extent()) for side in panels if side is not panel)
