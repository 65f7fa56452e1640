"""A page in a notebook cell that tells Python what is selected; needs anywidget."""

from typing import Any

_SCRIPT = """
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
  window.addEventListener("message", hear);
  el.append(frame);
  return () => window.removeEventListener("message", hear);
}
export default { render };
"""


def page_widget(html: str, *, height: int, most: int, title: str) -> Any:
    """A widget of anywidget's whose `selection` follows the page: run, scope, layer, against, query and key, by name.

    Args:
        html: The page.
        height: Pixels of its frame until the page says how high it is.
        most: Pixels that the frame grows to.
        title: What the frame is called.

    Raises:
        ModuleNotFoundError: if anywidget is not installed.
    """
    try:
        import anywidget
        import traitlets
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a page that tells Python its selection needs anywidget: pip install anywidget"
        ) from error

    class PageWidget(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = _SCRIPT
        page = traitlets.Unicode().tag(sync=True)
        title = traitlets.Unicode().tag(sync=True)
        height = traitlets.Int().tag(sync=True)
        most = traitlets.Int().tag(sync=True)
        selection = traitlets.Dict().tag(sync=True)

    return PageWidget(page=html, height=height, most=most, title=title)
