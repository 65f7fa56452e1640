"""Builds the documentation site and checks it: `python -m docs.site`, from the root of the repository.

The site lies in build/site and is opened from disk, build/site/index.html: nothing in it comes from a network.
"""

import logging
import shutil
import sys

from mkdocs.commands.build import build
from mkdocs.config import load_config

from docs.site import links
from docs.site.repository import ROOT


def main() -> int:
    """Build with warnings as errors, then check links; returns the exit status."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    site = ROOT / "build" / "site"
    shutil.rmtree(site, ignore_errors=True)
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True))
    (site / "404.html").unlink()  # a page for servers, whose links begin at their root
    lines = links.problems(site)
    pages = len(list(site.rglob("*.html")))
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) / 1e6
    print(*lines, f"{pages} pages, {size:.0f} MB, {len(lines)} broken links: {site / 'index.html'}", sep="\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
