"""A page in a notebook cell."""

import base64
import zlib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import Any

from tl_ffblock.errors import InputError
from tl_ffblock.files import write_atomically

# The page is compressed in the output, to a third of its size. A short script outside the frame decompresses it into the frame, sets
# the frame's height, and removes the still picture. A notebook that is not trusted removes frame and script; the picture and a line
# of text stay. The sandbox allows scripts and downloads only.
_FRAME = Template(
    "<div><div>$still<p>Run this cell, or trust the notebook, to use the page.</p></div>"
    '<iframe title="$title" sandbox="allow-scripts allow-downloads" data-tl-ffblock="$page" style="width: 100%; height: ${height}px; '
    'border: 1px solid #d5dbe1; border-radius: 6px"></iframe><script>(async () => { const frame = '
    'document.currentScript?.previousElementSibling ?? document.querySelector("iframe[data-tl-ffblock]:not([srcdoc])"); '
    'addEventListener("message", (event) => { if (event.source === '
    'frame.contentWindow && event.data?.tlFfblock === "height") frame.style.height = '
    'Math.min(event.data.height, $most) + "px"; }); '
    'const theme = () => frame.contentWindow?.postMessage({ tlFfblock: "theme", '
    'dark: document.body.dataset.jpThemeLight === "false" }, "*"); '
    'if (document.body.dataset.jpThemeLight) { frame.addEventListener("load", theme); new MutationObserver(theme)'
    '.observe(document.body, { attributeFilter: ["data-jp-theme-light"] }); } '
    "const bytes = Uint8Array.from(atob(frame.dataset.tlFfblock), (letter) => letter.charCodeAt(0)); "
    'const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate")); '
    "frame.srcdoc = await new Response(stream).text(); frame.previousElementSibling.remove(); })();</script></div>"
)
_STILL = Template('<img src="data:image/png;base64,$png" alt="$title" style="max-width: 100%">')
# Largest height of a frame in pixels; a higher page scrolls.
MOST = 4000
_WIDGET = """
function render({ model, el }) {
  const frame = document.createElement("iframe");
  frame.setAttribute("sandbox", "allow-scripts allow-downloads");
  frame.title = model.get("title");
  frame.srcdoc = model.get("page");
  Object.assign(frame.style, { width: "100%", height: model.get("height") + "px", border: "1px solid #d5dbe1", borderRadius: "6px" });
  const hear = (event) => {
    if (event.source !== frame.contentWindow || !event.data) return;
    if (event.data.tlFfblock === "height") frame.style.height = Math.min(event.data.height, model.get("most")) + "px";
    if (event.data.tlFfblock === "selection") { model.set("selection", event.data.selection); model.save_changes(); }
  };
  const theme = () => frame.contentWindow?.postMessage({ tlFfblock: "theme", dark: document.body.dataset.jpThemeLight === "false" }, "*");
  const themes = new MutationObserver(theme);
  if (document.body.dataset.jpThemeLight) {
    frame.addEventListener("load", theme);
    themes.observe(document.body, { attributeFilter: ["data-jp-theme-light"] });
  }
  const redraw = () => { frame.srcdoc = model.get("page"); };
  window.addEventListener("message", hear);
  model.on("change:page", redraw);
  el.append(frame);
  return () => { window.removeEventListener("message", hear); model.off("change:page", redraw); themes.disconnect(); };
}
export default { render };
"""


@dataclass(frozen=True, repr=False)
class PageView:
    """A page that a notebook cell displays; `save` writes it to a file."""

    html: str
    """HTML of the page."""
    height: int = 820
    """Height of the frame in pixels, until the page reports its own."""
    title: str = "contribution maps"
    still: bytes | None = None
    """PNG for viewers that show no frames, such as a PDF of the notebook or an untrusted notebook; None means no picture."""

    def save(self, path: str | Path) -> Path:
        """Write the page to a file, completely or not at all, and return its path.

        Raises:
            InputError: if the folder does not exist, or the path is not that of a regular file.
        """
        return write_atomically(path, self.html.encode("utf-8"))

    def widget(self) -> Any:
        """The page as a widget. `widget.selection` is a dict of the current selection on the page.

        Set `widget.page` to the HTML of another page to show it instead.

        Raises:
            ModuleNotFoundError: if anywidget is not installed.
        """
        try:
            import anywidget
            import traitlets
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError("a widget needs anywidget: pip install anywidget") from error

        texts, numbers = (
            dict.fromkeys(("page", "title"), traitlets.Unicode),
            dict.fromkeys(("height", "most"), traitlets.Int),
        )
        synced = {
            name: kind().tag(sync=True) for name, kind in (texts | numbers | {"selection": traitlets.Dict}).items()
        }
        widget = type("PageWidget", (anywidget.AnyWidget,), {"_esm": _WIDGET} | synced)
        return widget(page=self.html, height=self.height, most=MOST, title=self.title)

    def _repr_html_(self) -> str:
        title = escape(self.title)
        still = (
            ""
            if self.still is None
            else _STILL.substitute(png=base64.b64encode(self.still).decode("ascii"), title=title)
        )
        page = base64.b64encode(zlib.compress(self.html.encode("utf-8"), 9)).decode("ascii")
        return _FRAME.substitute(title=title, page=page, height=int(self.height), most=MOST, still=still)

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """Formats that a notebook stores: frame, still picture, and a line of text. Viewers choose the richest one they support."""
        bundle = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        if self.still is not None:
            bundle["image/png"] = base64.b64encode(self.still).decode("ascii")
        return bundle

    def __repr__(self) -> str:
        return f"{self.title}: a page of {len(self.html) / 1e6:.2f} MB, shown in a notebook; .save(path) writes it"


def iframe(html: str, height: int = 820, title: str = "contribution maps", still: bytes | None = None) -> PageView:
    """The page in a sandboxed frame, isolated from the notebook's style and scripts, as high as its content.

    Args:
        html: HTML of the page.
        height: Height of the frame in pixels, until the page reports its own.
        title: Title of the frame, for screen readers.
        still: PNG for viewers that show no frames.

    Raises:
        InputError: if `height` is not positive.
    """
    if height <= 0:
        raise InputError(f"height={height!r}: expected a positive number of pixels.")
    return PageView(html, height, title, still)
