"""Pages and figures of results, registered by the type of the result: what draws is apart from what is drawn."""

from typing import Any

from tl_ffblock.page import AnyPage, PageView, iframe, page
from tl_ffblock.views import graphs as graphs
from tl_ffblock.views.figures import still_of
from tl_ffblock.views.maps import circuitsvis_view
from tl_ffblock.views.registry import figure_of, page_of, panel_of
from tl_ffblock.views.shares import attribution_page

__all__ = ["attribution_page", "circuitsvis_view", "figure_of", "html_of", "page_of", "panel_of", "shown"]


def html_of(result: Any, **options: Any) -> str:
    """The page of a result as HTML that needs no network; options as `page_of` of its type has them."""
    return page(page_of(result, **options))


def shown(result: Any, *, height: int, **options: Any) -> PageView:
    """The page in a notebook cell, with a still picture of it; options as `page_of` of the result's type has them."""
    return page_view(page_of(result, **options), height)


def page_view(data: AnyPage, height: int) -> PageView:
    """A page in a notebook cell, without CircuitsVis, with a still picture of what it opens with."""
    return iframe(page(data, circuitsvis=False), height=height, title=data.heading, still=still_of(data))
