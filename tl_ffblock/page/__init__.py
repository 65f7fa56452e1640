"""One self-contained HTML page; knows neither models nor results, only the `PageData` it is given.

1. `blocks` are what other rooms hand over by name; `data` puts text, runs and blocks together; `numbers` packs tables.
2. `bundle` reads CircuitsVis's JavaScript from the installed wheel.
3. `document` puts template, style, scripts and data together under a strict content policy.
4. `logit` is the block of a target shared out, beside maps; `graph` is a page of a layered graph, `shares` one of signed shares of a target, each with scripts of its own.
5. `component` is a page of one of CircuitsVis's own components; `notebook` wraps a page for a notebook cell.

The page's own JavaScript lies in `assets/`, one idea a file: arithmetic and selection without DOM, then one file a view.
"""

from tl_ffblock.page.blocks import BlockPayload, MapsBlock, PageBlock, PageChannel, PageText, PageTrack, TrackColumn
from tl_ffblock.page.component import component_page
from tl_ffblock.page.data import PageCertificate, PageData, PageRun, PageStart, View
from tl_ffblock.page.document import page
from tl_ffblock.page.graph import GraphPage, PageEdge, PageNode, PageTarget, graph_page
from tl_ffblock.page.logit import LogitBlock
from tl_ffblock.page.notebook import PageView, iframe
from tl_ffblock.page.shares import SharesData, SharesMap, SharesRow, SharesTable, shares_page

__all__ = [
    "PageBlock",
    "BlockPayload",
    "GraphPage",
    "LogitBlock",
    "MapsBlock",
    "PageCertificate",
    "PageChannel",
    "PageData",
    "PageEdge",
    "PageNode",
    "PageRun",
    "PageStart",
    "PageTarget",
    "PageText",
    "PageTrack",
    "PageView",
    "SharesData",
    "SharesMap",
    "SharesRow",
    "SharesTable",
    "TrackColumn",
    "View",
    "component_page",
    "graph_page",
    "iframe",
    "page",
    "shares_page",
]
