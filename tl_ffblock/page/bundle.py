"""CircuitsVis's JavaScript, from the installed wheel and never from a network."""

import importlib.metadata
from pathlib import Path

LARGEST = 64
"""Tokens up to which a page offers CircuitsVis: three maps of 64 x 64 take it a second or two (benchmarks/page.py)."""


def bundle() -> str:
    """The script of the installed CircuitsVis, which defines a global of that name, ready to stand inside a script element.

    Its Python functions are not used: they ask google.com at every display and do not escape tokens.

    Raises:
        ModuleNotFoundError: if CircuitsVis is not installed or ships no bundle.
    """
    try:
        wheel = importlib.metadata.distribution("circuitsvis")
    except importlib.metadata.PackageNotFoundError as error:
        raise ModuleNotFoundError("drawing maps needs CircuitsVis: pip install circuitsvis") from error
    path = Path(str(wheel.locate_file("circuitsvis/dist/cdn/iife.js")))
    if not path.is_file():
        raise ModuleNotFoundError(f"CircuitsVis {wheel.version} has no {path}: install the wheel from PyPI.")
    script = path.read_text(encoding="utf-8").replace("</script", "<\\/script")
    return script.partition("//# sourceMappingURL=")[0]
