"""One self-contained HTML page; knows neither models nor results, only the `PageData` it is given.

1. `data` says what a page is made of, and turns it into JSON with packed `numbers`.
2. `bundle` reads CircuitsVis's JavaScript from the installed wheel.
3. `document` puts template, style, scripts and data together under a strict content policy.
4. `notebook` wraps a page for a notebook cell, `tabs` puts several pages into one file.

The page's own JavaScript lies in `assets/`, one idea a file.
"""

from tl_ffblock.page.data import PageCertificate, PageData, PageStart, PageStep
from tl_ffblock.page.document import page
from tl_ffblock.page.notebook import iframe
from tl_ffblock.page.tabs import side_by_side

__all__ = ["PageCertificate", "PageData", "PageStart", "PageStep", "iframe", "page", "side_by_side"]
