"""Reads a built site as a browser without a network would: every link, anchor, picture, script and style has to be there."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

_LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src"}
_NOT_LOADED = {"canonical", "next", "prev", "edit"}
"""Relations of `link` elements that name an address and load nothing."""


class _Page(HTMLParser):
    """What a page loads, where it leads, and which anchors it has."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        address = values.get(_LOADED.get(tag, ""), "")
        if address and values.get("rel") not in _NOT_LOADED and not address.startswith("data:"):
            self.loaded.append(address)


def problems(site: Path) -> list[str]:
    """A line for every link that leads nowhere, and for everything that would be loaded from elsewhere."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    lines = []
    for path, page in pages.items():
        outside = [each for each in page.loaded if urlsplit(each).scheme or each.startswith("//")]
        lines += [f"{path.relative_to(site)} loads {address}" for address in outside]
        for address in {*page.links, *page.loaded}:
            reason = _broken(address, path, pages)
            if reason:
                lines.append(f"{path.relative_to(site)} -> {address}: {reason}")
    return lines


def _broken(address: str, path: Path, pages: dict[Path, _Page]) -> str | None:
    """Why a link leads nowhere; None if it leads somewhere, or to another site."""
    parts = urlsplit(address)
    if parts.scheme or address.startswith("//"):
        return None
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return "no such file"
    # A live page writes its selection behind the sign #: it has no anchors of its own.
    if parts.fragment and target in pages and pages[target].anchors and "=" not in parts.fragment:
        return None if unquote(parts.fragment) in pages[target].anchors else "no such anchor"
    return None
