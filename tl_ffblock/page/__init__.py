"""One self-contained HTML page; knows neither models nor results, only the `PageData` it is given.

1. `blocks` are what other rooms hand over by name; `data` puts text, runs and blocks together; `numbers` packs tables.
2. `bundle` reads CircuitsVis's JavaScript from the installed wheel.
3. `document` puts template, style, scripts and data together under a strict content policy.
4. `shares` is a page of signed shares of a target. `component` is a page of one of CircuitsVis's own components; `notebook` wraps a page for a notebook cell.

The page's own JavaScript lies in `assets/`, one idea a file: arithmetic and selection without DOM, then one file a view.
"""

from tl_ffblock.page.blocks import BlockPayload, MapsBlock, PageBlock, PageChannel, PageText, PageTrack, TrackColumn
from tl_ffblock.page.component import component_page
from tl_ffblock.page.data import PageCertificate, PageData, PageRun, PageStart
from tl_ffblock.page.document import page
from tl_ffblock.page.notebook import PageView, iframe
from tl_ffblock.page.shares import SharesData, SharesMap, SharesRow, SharesTable, shares_page

__all__ = [
    "PageBlock",
    "BlockPayload",
    "MapsBlock",
    "PageCertificate",
    "PageChannel",
    "PageData",
    "PageRun",
    "PageStart",
    "PageText",
    "PageTrack",
    "PageView",
    "SharesData",
    "SharesMap",
    "SharesRow",
    "SharesTable",
    "TrackColumn",
    "component_page",
    "iframe",
    "page",
    "shares_page",
]
