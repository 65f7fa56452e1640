"""Compression of tables of numbers to text for the page.

1. A number becomes a code on a logarithmic scale that begins at the smallest size of its layer. There are 65 534 codes in two bytes
   (254 in one), half of them negative if signs differ. Code 0 is zero, the last code is NaN. Steps are not finer than displayed
   digits, because coarse steps compress better.
2. Numbers below `FLOOR` (with one byte `COARSE_FLOOR`) of their layer's largest become zero.
3. A table can be stored as the difference of its codes from another's: neighbouring scopes are similar, which saves a third.
4. All high bytes are before all low bytes, which compresses better. The result is text in base64.
5. A causal map only has reachable cells, row by row.
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
# Smallest ratio of neighbouring codes minus 1: three digits are exact.
STEP = 2e-4
# Significant digits of single numbers: all of a float32, so that nothing is rounded twice.
FULL_DIGITS = 9
# Smallest step for maps of more than `LONG` cells: three digits, the last one up to half a unit.
LONG_STEP = 1e-3
LONG = 64 * 64


@dataclass(frozen=True)
class Packed:
    """A packed table for the page's script `numbers.js`: the codes and the parameters of their scale.

    `precision` is the largest relative error of a number, `codes` are the codes before compression.
    """

    payload: dict[str, Any]
    precision: float
    codes: Int64[np.ndarray, "layer cell"]


def pack(
    table: Float[Tensor, "layer ..."], *, coarse: bool = False, reference: tuple[str, Packed] | None = None
) -> Packed:
    """A packed table, with one scale per layer.

    Args:
        table: The numbers.
        coarse: Whether a number has one byte and not two.
        reference: Name and codes of a table of the same shape, from which differences are stored; not with `coarse`.
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
        "step": steps.tolist() if len(set(steps.tolist())) != 1 else float(steps[0]),  # most pages have one step
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
    """Packed maps by channel, with the reachable cells only.

    All except `root` (None: the first) are stored as the difference from their neighbour towards `root`. The page opens with `root`
    and its neighbours, which then need few others to be unpacked.
    """
    names = list(maps)
    at = names.index(root or names[0])
    neighbours = {name: names[i - 1] if i > at else names[i + 1] for i, name in enumerate(names) if i != at}
    packed: dict[str, Packed] = {}
    for name in [*names[at:], *reversed(names[:at])]:  # from the root outwards: each neighbour is packed before
        known = None if coarse or name not in neighbours else (neighbours[name], packed[neighbours[name]])
        packed[name] = pack(maps[name].cpu()[:, cells], coarse=coarse, reference=known)
    return {name: packed[name] for name in names}


def _folded(differences: Int64[np.ndarray, "layer cell"]) -> Int64[np.ndarray, "layer cell"]:
    """Differences modulo 2**16, with small ones of both signs as small numbers: 0, -1, 1, -2, 2 become 0, 1, 2, 3, 4."""
    wrapped = (differences + 32768) % 65536 - 32768
    return np.where(wrapped < 0, -2 * wrapped - 1, 2 * wrapped)


def rounded(value: Any, digits: int) -> Any:
    """Nested data with tensors as lists and floats rounded to some significant digits; NaN and infinity become None."""
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
    """Codes, and for each layer the logarithm of its smallest size above the floor and the step; zeros for a layer of zeros."""
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
