"""A figure inside a page: SVG with the page's inks and font, so that it follows the page's scheme and is there once.

1. Colours that figures are drawn with become variables of the page's style sheet (`VARIABLES`); others stay as they are.
   Matplotlib leaves out what is black, which the page therefore sets for all of a drawing.
2. The font is the page's. Matplotlib has laid texts out in a wider one, and anchors them where they belong.
3. A name that the drawing refers to gets the figure's in front, since figures share one document; other names go.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tl_ffblock.results.figures import COLOURS

DARK_COLOURS = ("#3f9be0", "#f0ad2e", "#21b589", "#dc8fba", "#8ed1f7", "#f0773a", "#a9b1ba", "#f2e96b")
"""The colours of figures on dark paper, in the order of `COLOURS`."""
VARIABLES = {
    "#000000": "--ink",
    "#17202a": "--ink",
    "#5b6672": "--grey",
    "#b0b0b0": "--line",
    "#cccccc": "--line",
    "#ffffff": "--paper",
    **{colour.lower(): f"--series-{number}" for number, colour in enumerate(COLOURS)},
}
"""The page's variable for each colour of a figure: ink, signature, grids and frames, ground, series."""
PIXELS_OF_AN_INCH = 130
"""As large as figures are shown: their smallest letters are ten pixels high."""
LEAST_SCALE = 0.75
"""Of that size: where the page is narrower a figure is scrolled and not shrunk further."""

_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_FONT = re.compile(r"(font: [^;']*?[\d.]+px)[^;]*")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LEFT_OUT = ("metadata", "style")


@dataclass(frozen=True)
class Drawing:
    """A figure inside a page."""

    svg: str
    """The element."""
    width: int
    """Pixels that it takes where there is room."""


def inline_figure(svg: Path, label: str) -> Drawing:
    """Make of an SVG file of Matplotlib an element of a page; `label` is its text for those who do not see it."""
    root = ElementTree.fromstring(svg.read_bytes())
    names = _referred(root)
    _clear(root, names, svg.stem)
    inches = float(root.attrib["width"].removesuffix("pt")) / 72
    width = round(inches * PIXELS_OF_AN_INCH)
    style = f"min-width: {round(LEAST_SCALE * width)}px"
    root.attrib = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": label, "style": style}
    return Drawing(ElementTree.tostring(root, encoding="unicode"), width)


def _referred(root: ElementTree.Element) -> set[str]:
    """The names that some element refers to."""
    names = set()
    for element in root.iter():
        for key, value in element.attrib.items():
            names |= {value[1:]} if key.endswith("href") else set(_REFERENCE.findall(value))
    return names


def _clear(element: ElementTree.Element, names: set[str], prefix: str) -> None:
    """Turn an element and all in it into the page's: no namespaces, its variables, names of this figure alone."""
    element.tag = _local(element.tag)
    if element.tag != "text" and not (element.text or "").strip():
        element.text = None
    attributes = {_local(key): value for key, value in element.attrib.items()}
    if attributes.get("id") not in names:
        attributes.pop("id", None)
    else:
        attributes["id"] = f"{prefix}-{attributes['id']}"
    if "href" in attributes:
        attributes["href"] = f"#{prefix}-{attributes['href'][1:]}"
    for key, value in attributes.items():
        value = _REFERENCE.sub(rf"url(#{prefix}-\1)", value)
        attributes[key] = _in_page_style(value) if key == "style" else value
    element.attrib = attributes
    for child in list(element):
        if _local(child.tag) in _LEFT_OUT:
            element.remove(child)
        else:
            child.tail = child.tail if (child.tail or "").strip() else None
            _clear(child, names, prefix)


def _local(name: str) -> str:
    """A name without its namespace, which a page does not need."""
    return name.rpartition("}")[2]


def _in_page_style(style: str) -> str:
    def variable(match: re.Match[str]) -> str:
        name = VARIABLES.get(match[0])
        return f"var({name})" if name else match[0]

    return _FONT.sub(r"\1 var(--font)", _COLOUR.sub(variable, style))
