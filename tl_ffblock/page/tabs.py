"""Several pages in one file, as tabs that need no script."""

from collections.abc import Mapping
from html import escape


def side_by_side(pages: Mapping[str, str], *, title: str) -> str:
    """Several self-contained pages as tabs of one; the tabs are plain HTML, the pages keep their own content policy.

    Pages that are not chosen keep their size: a page without one cannot draw its maps.
    """
    names = list(pages)
    inputs = "".join(
        f'<input type="radio" name="tab" id="tab{number}"{" checked" if number == 0 else ""}>'
        for number in range(len(names))
    )
    labels = "".join(f'<label for="tab{number}">{escape(name)}</label>' for number, name in enumerate(names))
    frames = "".join(
        f'<iframe title="{escape(name)}" sandbox="allow-scripts allow-downloads" srcdoc="{escape(html)}"></iframe>'
        for name, html in pages.items()
    )
    rules = "".join(
        f"#tab{n}:checked~nav label:nth-of-type({n + 1}){{background:#fff;border-bottom-color:#fff}}"
        f"#tab{n}:checked~main iframe:nth-of-type({n + 1}){{visibility:visible}}"
        f"#tab{n}:focus-visible~nav label:nth-of-type({n + 1}){{outline:2px solid #1a5fb4}}"
        for n in range(len(names))
    )
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>'
        "body{margin:0;font:15px system-ui,sans-serif;background:#eef1f4}input{position:absolute;opacity:0}"
        "nav{padding:10px 10px 0}label{display:inline-block;padding:7px 14px;border:1px solid #c5ccd3;border-radius:6px 6px 0 0;"
        "margin-right:4px;cursor:pointer}main{position:relative;background:#fff;height:calc(100vh - 46px)}"
        "iframe{position:absolute;visibility:hidden;width:100%;height:100%;border:0}"
        f"{rules}</style></head><body>{inputs}<nav>{labels}</nav><main>{frames}</main></body></html>"
    )
