"""Self-contained HTML pages from page data; this package imports neither models nor results."""

from tl_ffblock.page.data import (
    DataBlock,
    GraphBlock,
    MapsBlock,
    NumbersBlock,
    PageBlock,
    PageData,
    PageEdge,
    PageNode,
    PageRun,
    PageStart,
    PageTarget,
    PageText,
    View,
    graph_page,
    maps_labels,
    numbers_page,
    shares_map,
)
from tl_ffblock.page.document import component_page, page
from tl_ffblock.page.notebook import PageView, iframe

__all__ = [
    "DataBlock",
    "GraphBlock",
    "MapsBlock",
    "NumbersBlock",
    "PageBlock",
    "PageData",
    "PageEdge",
    "PageNode",
    "PageRun",
    "PageStart",
    "PageTarget",
    "PageText",
    "PageView",
    "View",
    "component_page",
    "graph_page",
    "iframe",
    "maps_labels",
    "numbers_page",
    "page",
    "shares_map",
]
