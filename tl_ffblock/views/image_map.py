"""Page and figure of an image's tokens: their numbers in colour over the picture."""

# Noun: saliency map (Simonyan et al. 2014)
import base64
import io
from typing import Any

from jaxtyping import UInt8
from torch import Tensor

from tl_ffblock.layer.positions import real_number
from tl_ffblock.page import NumbersBlock, PageData, numbers_page, shares_map
from tl_ffblock.results.figures import COLUMN
from tl_ffblock.results.image_map import ImageMap
from tl_ffblock.signatures import strict
from tl_ffblock.views.figures import headline_and_facts, over_picture
from tl_ffblock.views.registry import figure_of, page_of

_MOST_PIXELS = 768
"""Longest side of the picture in a page."""


@figure_of.register(ImageMap)
@strict
def image_map_figure(result: ImageMap, *, width: float | None = None) -> Any:
    """Figure of an image's tokens in colour over the picture in grey.

    Args:
        result: Numbers by row and column.
        width: Inches; None means one column of a paper.
    """
    headline, facts = headline_and_facts(result)
    return over_picture(
        result.values.detach().cpu().double().numpy(),
        result.picture.numpy(),
        signed=result.signed,
        title=headline,
        caption=f"Deeper colours are larger numbers. {facts}",
        width=COLUMN if width is None else real_number(width, "width", above=0.0),
    )


@page_of.register
def image_map_page(result: ImageMap) -> PageData:
    """Page of an image's tokens in colour over the picture in grey; each says its number."""
    headline, facts = headline_and_facts(result)
    rows, columns = ([str(number) for number in range(size)] for size in result.values.shape)
    note = "Each cell is a token of the image. Deeper colours are larger numbers."
    drawn = shares_map(headline, note, ("row", rows), ("column", columns), result.values, signed=result.signed)
    if result.picture.numel():
        height, width, _ = result.picture.shape
        drawn |= {"picture": _as_address(result.picture), "aspect": height / width}
    return numbers_page(result.model, NumbersBlock(heading=headline, facts=facts, maps=(drawn,)))


def _as_address(picture: UInt8[Tensor, "height width rgb"]) -> str:
    """The picture in grey as a data address of a JPEG file, at most `_MOST_PIXELS` wide and high."""
    from PIL import Image

    image, written = Image.fromarray(picture.numpy()).convert("L"), io.BytesIO()
    image.thumbnail((_MOST_PIXELS, _MOST_PIXELS))
    image.save(written, format="jpeg", quality=90)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()
