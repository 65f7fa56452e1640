"""Numbers as text, such as `1.3e-7` and `-0.31`, in one format for reports, tables, summaries and the terminal.

Pages and figures have the typographic minus sign (`typographic`), everything else the ASCII hyphen. Errors keep Python's own
format (`1.3e-07`), which can be copied into a call.
"""

import math
import re
from contextlib import suppress

from tl_ffblock.errors import InputError, brief

QUOTED = r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
"""Regular expression of a quoted token in a target's name."""
_MINUS = re.compile(rf"(?P<token>{QUOTED})|(?<!\w)-(?=\d)|(?<=\de)-(?=\d)| - ")
_UNITS = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


def scientific(value: float, digits: int = 2) -> str:
    """A number in scientific notation with some significant digits, `1.3e-7`; zero is `0`."""
    if value == 0:
        return "0"
    mantissa, mark, exponent = f"{value:.{digits - 1}e}".partition("e")
    return f"{mantissa}e{int(exponent):+d}" if mark else mantissa


def signed(value: float, digits: int = 2) -> str:
    """A number with its sign and some digits after the point: `+0.25`, `-0.31`."""
    return f"{value:+.{digits}f}"


def significant(value: float, digits: int = 3, sign: str = "+") -> str:
    """A number with some significant digits: `+5.29`, `-0.303`; with `sign="-"` without the plus."""
    return f"{value:{sign}.{digits}g}"


def typographic(number: str) -> str:
    """The text of a number with the typographic minus sign: `−0.303`, `1.3e−7`."""
    return number.replace("-", "−")


def typographic_words(words: str) -> str:
    """A sentence with typographic minus signs, except in quoted tokens, ranges and words: `logit ' a-b' − ' c' = −0.3`."""
    return _MINUS.sub(lambda found: found["token"] or found[0].replace("-", "−"), words)


def percent(part: float) -> str:
    """A fraction in per cent: without decimals from 10 % on, else with two: `441 %`, `3.25 %`."""
    return f"{100 * part:.{0 if abs(part) >= 0.1 else 2}f} %"


def bytes_of(max_memory: float | int | str) -> float:
    """Number of bytes of a number or of a text such as "4GB" or "512 MiB".

    Raises:
        InputError: for anything else, and for numbers that are not positive and finite.
    """
    written = re.fullmatch(r"([0-9.]+) ?([kMGT]i?|)B?", str(max_memory).strip())
    with suppress(ValueError):
        if written and not isinstance(max_memory, bool) and 0 < (size := float(written[1])) < math.inf:
            return size * _UNITS[written[2]]
    raise InputError(f'max_memory={brief(max_memory)}: expected bytes above 0, or a text such as "4GB" or "512MiB".')


def bytes_as_text(data: bytes) -> str:
    """Text of bytes in UTF-8; bytes of incomplete characters are written as in SentencePiece, `<0xC3>`."""
    text = data.decode("utf-8", "surrogateescape")
    return "".join(f"<0x{ord(char) - 0xDC00:02X}>" if "\udc80" <= char <= "\udcff" else char for char in text)
