"""Maps as one self-contained HTML page; knows nothing of how maps are made.

1. `payload` turns a result into JSON: tokens, steps, measures, packed numbers.
2. `bundle` reads CircuitsVis's JavaScript from the installed wheel.
3. `document` puts template, style, scripts and payload together under a strict content policy.
4. `notebook` wraps a page for a notebook cell.

The page's own JavaScript lies in `assets/`, one idea a file.
"""

from tl_ffblock.page.document import page
from tl_ffblock.page.notebook import iframe

__all__ = ["iframe", "page"]
