"""Numbers as people read them: `1.3e-7`, `-0.31`, the same in reports, tables, summaries and at a terminal.

Pages and figures write the minus sign of typography (`typographic`), everything else the hyphen of the keyboard.

Messages of errors keep Python's own form (`1.3e-07`): a tolerance that they name can be copied into a call.
"""

import math
import re
from contextlib import suppress

from tl_ffblock.errors import InputError, brief

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
"""A token as targets have it."""
_MINUS = re.compile(rf"(?P<token>{QUOTED})|(?<!\w)-(?=\d)|(?<=\de)-(?=\d)| - ")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def scientific(value: float, digits: int = 2) -> str:
    """Write a number with a power of ten to so many significant digits; nothing at all is `0`."""
    if value == 0:
        return "0"
    mantissa, mark, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent):+d}" if mark else mantissa


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign and so many digits after the point: `+0.25`, `-0.31`."""
    return f"{value:+.{digits}f}"


def significant(value: float, digits: int = 3, sign: str = "+") -> str:
    """Write a number to so many significant digits: `+5.29`, `-0.303`; without the plus where `sign` is `-`."""
    return f"{value:{sign}.{digits}g}"


def typographic(number: str) -> str:
    """A written number with the minus sign that pages and figures have: `−0.303`, `1.3e−7`."""
    return number.replace("-", "−")


def typographic_words(words: str) -> str:
    """The same of a sentence or a target's name, but not of quoted tokens, ranges and words: `logit difference ' a-b' − ' c' = −0.3`."""
    return _MINUS.sub(lambda found: found["token"] or found[0].replace("-", "−"), words)


def percent(part: float) -> str:
    """Write a part of 1 in per cent, whole from ten on: `441 %`, `3.25 %`."""
    return f"{100 * part:.{0 if abs(part) >= 0.1 else 2}f} %"


def bytes_of(max_memory: float | int | str) -> float:
    """Bytes that a number or a text such as "4GB" or "512 MiB" means.

    Raises:
        InputError: for anything else.
    """
    written = re.fullmatch(r"([0-9.]+) ?([kMGT]i?|)B?", str(max_memory).strip())
    with suppress(ValueError):
        if written and not isinstance(max_memory, bool) and 0 < (size := float(written[1])) < math.inf:
            return size * _UNITS[written[2]]
    raise InputError(f'max_memory={brief(max_memory)}: expected bytes above 0, or a text such as "4GB" or "512MiB".')
