"""How the type of a result finds its page and its figure: functions that the modules of this package register.

A view of a class of one's own is one registration:

    from tl_ffblock.views import page_of

    @page_of.register
    def _(result: MyResult) -> PageData: ...
"""

from functools import singledispatch
from typing import TYPE_CHECKING, Any, TypeAlias

from tl_ffblock.errors import InputError
from tl_ffblock.page import GraphPage, PageData, PageView, SharesData, graph_page, iframe, page, shares_page
from tl_ffblock.results.stills import still_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Page: TypeAlias = PageData | SharesData | GraphPage
"""What a page is made of."""


@singledispatch
def page_of(result: Any, **options: Any) -> Page:
    """The data of a result's page.

    Args:
        result: Any result whose type is registered.
        **options: Where the page opens, by the type of the result.

    Raises:
        InputError: if there is no page of such a result.
    """
    raise InputError(f"there is no page of a {type(result).__name__}; it has {_others(result)}.")


@singledispatch
def figure_of(result: Any, **options: Any) -> "Figure":
    """A Matplotlib figure of a result.

    Args:
        result: Any result whose type is registered.
        **options: What is drawn, by the type of the result.

    Raises:
        InputError: if there is no figure of such a result.
        ModuleNotFoundError: if Matplotlib is not installed.
    """
    raise InputError(f"there is no figure of a {type(result).__name__}; it has {_others(result)}.")


def html_of(result: Any, **options: Any) -> str:
    """The page of a result as HTML that needs no network; options as `page_of` of its type has them."""
    return html_page(page_of(result, **options), circuitsvis=True)


def html_page(data: Page, *, circuitsvis: bool = False) -> str:
    """The page of some data; with `circuitsvis` short maps can be drawn by CircuitsVis, too."""
    if isinstance(data, PageData):
        return page(data, circuitsvis=circuitsvis)
    return shares_page(data) if isinstance(data, SharesData) else graph_page(data)


def shown(result: Any, *, height: int, **options: Any) -> PageView:
    """The page in a notebook cell, with a still picture of it; options as `page_of` of the result's type has them."""
    data = page_of(result, **options)
    title = "flow graph" if isinstance(data, GraphPage) else "contribution maps"
    return iframe(html_page(data), height=height, title=title, still=still_of(data))


def _others(result: Any) -> str:
    """What else a result has to be looked at, for errors."""
    return ", ".join(name for name in ("to_dataframe", "to_html", "figure") if hasattr(result, name)) or "no table"
