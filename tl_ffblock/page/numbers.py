"""Numbers as short text for the page: float32 without its last byte, in base64.

1. Round to 16 significant bits: relative error at most 2**-16 = 1.5e-5, so four decimal digits are sure.
2. Three bytes a number, least significant first; NaN, signs and zeros survive.
3. A causal map sends only the cells that can be reached, row by row.
"""

import base64
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

PRECISION = 2.0**-16
"""Largest relative error of a packed number."""


def pack(values: Shaped[Tensor, "..."]) -> str:
    """The numbers in row-major order, three bytes each, as base64."""
    numbers = values.detach().cpu().to(torch.float32).contiguous().numpy().reshape(-1)
    numbers = np.where(np.isnan(numbers), np.float32(np.nan), numbers).astype("<f4")
    rounded = (numbers.view("<u4") + np.uint32(0x80)) >> np.uint32(8)
    return base64.b64encode(rounded.astype("<u4").view(np.uint8).reshape(-1, 4)[:, :3].tobytes()).decode("ascii")


def pack_reachable(matrix: Float[Tensor, "query key"], queries: Sequence[int], causal: bool) -> str:
    """A map's cells, row by row; of a causal map those up to the row's own position."""
    rows = torch.tensor(queries, device=matrix.device)[:, None]
    keys = torch.arange(matrix.shape[1], device=matrix.device)
    return pack(matrix[keys <= rows] if causal else matrix)


def finite(values: Float[Tensor, " entry"]) -> list[float | None]:
    """Plain numbers for JSON; what is not finite becomes None."""
    numbers: list[Any] = values.detach().cpu().double().reshape(-1).tolist()
    return [number if math.isfinite(number) else None for number in numbers]
