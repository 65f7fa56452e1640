"""One self-contained HTML page; knows neither models nor results, only the data that it is given."""

from tl_ffblock.page.data import (
    AnyPage,
    DataBlock,
    GraphPage,
    MapsBlock,
    PageBlock,
    PageData,
    PageEdge,
    PageNode,
    PageRun,
    PageStart,
    PageTarget,
    PageText,
    SharesData,
    View,
    maps_labels,
    shares_map,
)
from tl_ffblock.page.document import component_page, page
from tl_ffblock.page.notebook import PageView, iframe

__all__ = [
    "AnyPage",
    "DataBlock",
    "GraphPage",
    "MapsBlock",
    "PageBlock",
    "PageData",
    "PageEdge",
    "PageNode",
    "PageRun",
    "PageStart",
    "PageTarget",
    "PageText",
    "PageView",
    "SharesData",
    "View",
    "component_page",
    "iframe",
    "maps_labels",
    "page",
    "shares_map",
]
