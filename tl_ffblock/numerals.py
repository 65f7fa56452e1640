"""Numbers as people read them: `1.3e−7`, `−0.31`, the same in pages, reports, tables, summaries and at a terminal.

Messages of errors keep Python's own form (`1.3e-07`): a tolerance that they name can be copied into a call.
"""


def scientific(value: float, digits: int = 2) -> str:
    """Write a number with a power of ten to so many significant digits; nothing at all is `0`."""
    if value == 0:
        return "0"
    mantissa, mark, exponent = f"{value:.{digits - 1}e}".partition("e")
    return (f"{mantissa}e{int(exponent):+d}" if mark else mantissa).replace("-", "−")


def signed(value: float, digits: int = 2) -> str:
    """Write a number with its sign and so many digits after the point: `+0.25`, `−0.31`."""
    return f"{value:+.{digits}f}".replace("-", "−")


def significant(value: float, digits: int = 3, sign: str = "+") -> str:
    """Write a number to so many significant digits: `+5.29`, `−0.303`; without the plus where `sign` is `-`."""
    return f"{value:{sign}.{digits}g}".replace("-", "−")


def percent(part: float) -> str:
    """Write a part of 1 in per cent, whole from ten on: `441 %`, `3.25 %`."""
    return f"{100 * part:.{0 if abs(part) >= 0.1 else 2}f} %"
