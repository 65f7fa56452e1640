"""Contributions of an image's tokens by row and column, to be drawn over the image."""

# Noun: saliency map (Simonyan et al. 2014)
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Shaped, UInt8
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result
from tl_ffblock.signatures import strict

_LABEL = re.compile(r"image (?:(\d+): )?(\d+),(\d+)")
"""Label of an image's token: number of the image if there are several, row, column."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ImageMap(Result):
    """Numbers of one image's tokens, by row and column."""

    values: Float[Tensor, "row column"]
    other: float
    """Sum of the numbers of all other tokens."""
    quantity: str
    """Kind of the numbers: "attribution of logit ' cat'"."""
    signed: bool
    """Whether numbers can be negative."""
    image: int
    """Number of the image in the prompt, from 1."""
    picture: UInt8[Tensor, "height width rgb"]
    """The picture, without rows if none was passed."""
    model: str = "model"
    """Name of the model, for labels."""

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """A headline, the sums, and the largest numbers."""
        rows, columns = self.values.shape
        order = self.values.abs().flatten().argsort(descending=True)[:5].tolist()
        largest = [
            f"{at // columns},{at % columns} {significant(float(self.values.flatten()[at]), 3, '-')}" for at in order
        ]
        sums = f"{significant(float(self.values.sum()), 4, '-')}, of all other tokens {significant(self.other, 4, '-')}"
        headline = f"{self.quantity} by image token, {rows} x {columns} of image {self.image}"
        return headline, {"model": self.model, "sum": sums, "largest": " · ".join(largest)}

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per image token."""
        rows, columns = np.indices(self.values.shape)
        numbers = self.values.detach().cpu().double().numpy()
        return pd.DataFrame({"row": rows.ravel(), "column": columns.ravel(), "value": numbers.ravel()})


def image_map_of(
    numbers: Float[Tensor, " key"],
    labels: Sequence[str],
    picture: Any,
    image: SupportsIndex,
    *,
    quantity: str,
    signed: bool,
    model: str,
) -> ImageMap:
    """Numbers of an image's tokens by row and column.

    Args:
        numbers: One number per token of the prompt.
        labels: The tokens.
        picture: The picture: a PIL image, numbers [height width] or [height width rgb], or `pixel_values` [rgb height width], which
            are scaled to their range. None means none.
        image: Number of the image in the prompt, from 1.
        quantity: Kind of the numbers.
        signed: Whether numbers can be negative.
        model: Name of the model.

    Raises:
        InputError: if there is no such image, or the picture cannot be read.
    """
    number = whole_number(image, "image", at_least=1)
    where, shape = _places(labels, number)
    values = numbers[where].reshape(shape)
    other = float(numbers.sum() - values.sum())
    return ImageMap(values, other, quantity, signed, number, read_picture(picture), model)


def _places(labels: Sequence[str], image: int) -> tuple[list[int], tuple[int, int]]:
    """Positions of an image's tokens, row by row, and the numbers of rows and columns.

    Raises:
        InputError: if no token of the image has a row and a column.
    """
    found: dict[int, dict[tuple[int, int], int]] = {}
    for position, text in enumerate(labels):
        if match := _LABEL.fullmatch(text):
            found.setdefault(int(match[1] or 1), {})[int(match[2]), int(match[3])] = position
    if image not in found:
        there = f"it has images {', '.join(map(str, found))}" if found else "none of its tokens does"
        raise InputError(
            f"image={image}: expected a result of a prompt with this image, whose tokens have rows and columns in their labels "
            f'("image 3,5"); {there}. Models that join several scales of an image (LLaVA-NeXT) have no single grid.'
        )
    cells = found[image]
    shape = max(row for row, _ in cells) + 1, max(column for _, column in cells) + 1
    return [cells[divmod(number, shape[1])] for number in range(shape[0] * shape[1])], shape


def read_picture(given: Any) -> UInt8[Tensor, "height width rgb"]:
    """A picture as numbers from 0 to 255.

    Raises:
        InputError: for other shapes, NaN and objects that are not pictures.
    """
    if given is None:
        return torch.zeros(0, 0, 3, dtype=torch.uint8)
    held = given.convert("RGB") if hasattr(given, "convert") else given
    try:
        numbers = held.detach().cpu() if isinstance(held, Tensor) else torch.as_tensor(np.array(held))
    except (TypeError, ValueError, RuntimeError):
        numbers = torch.zeros(())
    shape = tuple(numbers.shape)
    while numbers.ndim > 3 and numbers.shape[0] == 1:
        numbers = numbers[0]
    if numbers.ndim == 3 and numbers.shape[0] in (1, 3) and numbers.shape[2] not in (1, 3):
        numbers = numbers.permute(1, 2, 0)
    numbers = numbers[..., None] if numbers.ndim == 2 else numbers
    if numbers.ndim != 3 or numbers.shape[2] not in (1, 3) or not numbers.numel() or not bool(numbers.isfinite().all()):
        raise InputError(
            f"picture is {type(given).__name__} {shape or ''}: expected a PIL image, or finite numbers [height width], [height width "
            "rgb] or [rgb height width]."
        )
    return _in_bytes(numbers).expand(-1, -1, 3).contiguous()


def _in_bytes(numbers: Shaped[Tensor, "height width channel"]) -> UInt8[Tensor, "height width channel"]:
    if numbers.dtype == torch.uint8:
        return numbers
    wide = numbers.double()
    low, high = float(wide.min()), float(wide.max())
    if numbers.is_floating_point():  # from 0 to 1, or normalised
        low, high = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high)
        wide = 255 * (wide - low) / ((high - low) or 1.0)
    return wide.round().clamp(0, 255).to(torch.uint8)
