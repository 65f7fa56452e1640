"""A page inside a notebook cell."""

from html import escape
from typing import Any

from tl_ffblock.errors import InputError


def iframe(html: str, height: int = 820) -> Any:
    """An IPython `HTML` object that shows a page in a sandboxed frame of its own.

    The frame keeps the page's style and scripts apart from the notebook's; it may run scripts and
    save files, nothing else.

    Raises:
        InputError: if `height` is not positive.
        ModuleNotFoundError: if IPython is not installed.
    """
    if height <= 0:
        raise InputError(f"height={height!r}: expected a positive number of pixels.")
    try:
        from IPython.display import HTML
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "showing maps in a notebook needs IPython: pip install ipython, or write a page with maps.to_html(path)."
        ) from error
    frame = (
        f'<iframe title="contribution maps" sandbox="allow-scripts allow-downloads" srcdoc="{escape(html)}"'
        f' style="width: 100%; height: {int(height)}px; border: 1px solid #d5dbe1; border-radius: 6px"></iframe>'
    )
    return HTML(f"<div>{frame}</div>")  # type: ignore[no-untyped-call]  # the div: IPython warns of a bare iframe
