"""Whether a page shows what a run printed."""

import math
import re


def same_print(given: str, shown: str) -> bool:
    """Word by word: errors of rounding may differ tenfold, measured numbers in their last digit, and where an error is worst."""
    given_words, shown_words = (
        re.sub(r" \((?:.*query \d.*|blocks\.[\w.]+)\)", "", text).split() for text in (given, shown)
    )
    return len(given_words) == len(shown_words) and all(
        word == expected or _close(word, expected) for word, expected in zip(given_words, shown_words, strict=True)
    )


def _close(given: str, expected: str) -> bool:
    try:
        a, b = (float(word) for word in (given, expected))
    except ValueError:
        return False
    return abs(math.log10(a / b)) < 1 if "e" in expected and a and b else abs(a - b) <= 0.011
