"""Tables of numbers as short text for the page.

1. A number becomes a code on a logarithmic scale from the smallest size of its layer on: 65 534 codes in two bytes (254 in
   one), half of them negative where signs can differ. Code 0 is zero, the last code NaN. Steps are not finer than a reader
   sees, because coarse ones deflate better.
2. What is below `FLOOR` (of one byte `COARSE_FLOOR`) of its layer's largest counts as zero.
3. A table may be sent as its codes' difference to those of another: neighbouring scopes are alike, which saves a third.
4. All high bytes stand before all low ones, which deflates better; then base64.
5. A causal map sends only the cells that can be reached, row by row.
"""

import base64
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Float64, Int64
from torch import Tensor

FLOOR = 1e-9
COARSE_FLOOR = 1e-4
# Ratio of neighbouring codes, less one: three digits are sure.
STEP = 2e-4
# Of numbers of which there are few: whatever a float32 holds, so that nothing is rounded twice.
FULL_DIGITS = 9
# The same for maps of more than `LONG` cells: three digits, the last one by half.
LONG_STEP = 1e-3
LONG = 64 * 64


@dataclass(frozen=True)
class Packed:
    """A table as the page's script `numbers.js` reads it: the packed codes and what turns them into numbers again.

    `precision` is the largest relative error of a number, `codes` are those before they were compressed.
    """

    payload: dict[str, Any]
    precision: float
    codes: Int64[np.ndarray, "layer cell"]


def pack(
    table: Float[Tensor, "layer ..."], *, coarse: bool = False, reference: tuple[str, Packed] | None = None
) -> Packed:
    """A table with one scale for each layer.

    Args:
        table: The numbers.
        coarse: Whether a number takes one byte and not two.
        reference: Name and codes of a table of the same shape to send differences to; not for coarse ones.
    """
    numbers = table.detach().cpu().double().numpy().reshape(len(table), -1)
    signed = bool((numbers < 0).any())
    last = 255 if coarse else 65535
    levels = (last - 1) // 2 if signed else last - 1
    finest = LONG_STEP if numbers.shape[1] > LONG else STEP
    codes, low, steps = _codes(numbers, levels, last, COARSE_FLOOR if coarse else FLOOR, finest)
    sent = codes if reference is None else _folded(codes - reference[1].codes)
    raw = b"".join(plane.astype(np.uint8).tobytes() for plane in ([sent] if coarse else [sent >> 8, sent & 255]))
    payload = {
        "packed": base64.b64encode(zlib.compress(raw, 6)).decode("ascii"),
        "bytes": 1 if coarse else 2,
        "low": rounded(low.tolist(), FULL_DIGITS),
        "step": steps.tolist(),
        **({"signed": True} if signed else {}),
        **({"reference": reference[0]} if reference else {}),
    }
    return Packed(payload, float(np.expm1(steps.max(initial=0.0) / 2)), codes)


def pack_reachable(
    maps: Mapping[str, Float[Tensor, "layer query key"]],
    cells: Bool[Tensor, "query key"],
    *,
    coarse: bool = False,
    root: str | None = None,
) -> dict[str, Packed]:
    """Maps of all layers by channel, the cells that can be reached.

    All but `root` (the first where it is None) are sent as difference to their neighbour on the side of `root`, so that it
    and its neighbours, which a page opens with, need few others to be unpacked.
    """
    names = list(maps)
    at = names.index(root or names[0])
    neighbours = {name: names[i - 1] if i > at else names[i + 1] for i, name in enumerate(names) if i != at}
    packed: dict[str, Packed] = {}
    for name in [*names[at:], *reversed(names[:at])]:  # from the root on, so that each one's neighbour is there
        known = None if coarse or name not in neighbours else (neighbours[name], packed[neighbours[name]])
        packed[name] = pack(maps[name].cpu()[:, cells], coarse=coarse, reference=known)
    return {name: packed[name] for name in names}


def _folded(differences: Int64[np.ndarray, "layer cell"]) -> Int64[np.ndarray, "layer cell"]:
    """Differences modulo 2**16 so that small ones of either sign are small numbers: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4."""
    wrapped = (differences + 32768) % 65536 - 32768
    return np.where(wrapped < 0, -2 * wrapped - 1, 2 * wrapped)


def rounded(value: Any, digits: int) -> Any:
    """Plain data of tables with their numbers rounded to so many significant digits; what is not finite becomes None."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().double().tolist()
    if isinstance(value, Mapping):
        return {name: rounded(item, digits) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    if not isinstance(value, float):
        return value
    return float(f"{value:.{digits}g}") if np.isfinite(value) else None


def _codes(
    numbers: Float64[np.ndarray, "layer cell"], levels: int, last: int, floor: float, finest: float
) -> tuple[Int64[np.ndarray, "layer cell"], Float64[np.ndarray, " layer"], Float64[np.ndarray, " layer"]]:
    """Codes, the logarithm of the smallest size of each layer that is told apart from zero, and steps; 0 for a layer of zeros."""
    sizes = np.where(np.isfinite(numbers), np.abs(numbers), 0.0)
    largest = sizes.max(axis=1, initial=0.0)
    kept = np.where((sizes >= floor * largest[:, None]) & (sizes > 0), sizes, np.inf)
    low, high = (np.log(np.where(largest > 0, end, 1.0)) for end in (kept.min(axis=1, initial=np.inf), largest))
    steps = np.maximum((high - low) / (levels - 1), finest)
    with np.errstate(divide="ignore"):
        place = (np.log(sizes) - low[:, None]) / steps[:, None]
    place = np.where(place > -1e-6, np.rint(np.clip(place, 0, levels - 1)) + 1, 0)
    codes = place.astype(np.int64) + np.where((numbers < 0) & (place > 0), levels, 0)
    return np.where(np.isfinite(numbers), codes, last), low, steps
