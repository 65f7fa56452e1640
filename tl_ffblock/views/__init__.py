"""Pages and figures of results, registered by the type of the result: what draws is apart from what is drawn."""

from tl_ffblock.views import graphs as graphs
from tl_ffblock.views.registry import Page, figure_of, html_of, html_page, page_of, shown

__all__ = ["Page", "figure_of", "html_of", "html_page", "page_of", "shown"]
