"""Tables and numbers of the generated blocks in Markdown."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of ready cells."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])


def percent(share: float) -> str:
    """Per cent, with a digit after the point below half of one."""
    return f"{100 * share:.1f} %" if 0 < share < 0.005 else f"{100 * share:.0f} %"


def number(value: float, digits: int = 2, sign: str = "-") -> str:
    """With so many digits and the minus sign of typography, no minus before zero; `sign="+"` writes both signs."""
    return f"{round(float(value), digits) + 0.0:{sign}.{digits}f}".replace("-", "−")
