"""Pages, figures and panels of results, registered by the type of the result. Results do not import this package."""

from tl_ffblock.page import PageData, PageView, iframe, page as page
from tl_ffblock.views import graphs as graphs, image_map as image_map, maps as maps, shares as shares
from tl_ffblock.views.figures import framed as framed, still_of
from tl_ffblock.views.maps import circuitsvis_view as circuitsvis_view
from tl_ffblock.views.registry import figure_of, page_of, panel_of

__all__ = ["figure_of", "page_of", "panel_of"]


def page_view(data: PageData, height: int) -> PageView:
    """A page for a notebook cell, without CircuitsVis, with a still picture of its opening view."""
    return iframe(page(data, circuitsvis=False), height=height, title=data.heading, still=still_of(data))
