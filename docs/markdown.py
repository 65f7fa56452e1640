"""Tables and numbers of the generated blocks in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of ready cells."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])


def claim(sentence: str, *holds: object) -> str:
    """A sentence of a page, which is written only if the tables bear it out.

    Raises:
        ValueError: if one of the conditions does not hold.
    """
    if not all(map(bool, holds)):
        raise ValueError(f"the stored tables do not say, or no longer, that: {sentence}")
    return sentence


def interval(values: Iterable[float], digits: int = 2, sign: str = "-", scale: float = 1) -> str:
    """A mean and its interval, as 0.5 [0.4, 0.6]."""
    mean, low, high = (number(scale * value, digits, sign) for value in values)
    return f"{mean} [{low}, {high}]"


def percent(share: float) -> str:
    """Per cent, with a digit after the point below half of one."""
    return f"{100 * share:.1f} %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def number(value: float, digits: int = 2, sign: str = "-") -> str:
    """With so many digits, no minus before zero; `sign="+"` writes both signs."""
    return f"{round(float(value), digits) + 0.0:{sign}.{digits}f}"
