"""Tokens as a reader can see them."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number

# Between the two labels of a difference's position: the first's, then the second's that is subtracted.
BETWEEN_SIDES = " / "
# Of the name of a difference's side.
MOST_LETTERS = 60
# Different tokens that a label of several results names; further ones become an ellipsis.
MOST_NAMES = 3

# What tokenizers write behind each of two sentences.
SEPARATORS = ("[SEP]", "</s>")
# Parts of a text that a reader can tell apart.
MOST_SEGMENTS = 6


def visible(token: str) -> str:
    """A token with its white space made visible: `·` space, `↵` newline, `⇥` tab; empty text is `∅`.

    Between the two tokens of a difference's label stays what divides them.
    """
    sides = token.split(BETWEEN_SIDES)
    if len(sides) > 1 and all(sides):
        return BETWEEN_SIDES.join(map(visible, sides))
    shown = token.replace(" ", "·").replace("\r", "␍").replace("\n", "↵").replace("\t", "⇥")
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) or "∅"


def told_apart(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens made visible; those that occur several times with their position: `·John@4`."""
    names = [visible(token) for token in tokens]
    counts = Counter(names)
    return tuple(f"{name}@{place}" if counts[name] > 1 else name for place, name in enumerate(names))


def shortened(tokens: Sequence[str], most: int = 100) -> str:
    """All tokens in one line, made visible and cut at so many characters."""
    text = " ".join(visible(token) for token in tokens)
    return text if len(text) <= most else text[: most - 3] + "..."


def sides_of(first: Sequence[str], second: Sequence[str], models: tuple[str, str]) -> tuple[str, str]:
    """Names of the two sides of a difference, in quotation marks: their texts from where they differ, else their models.

    Args:
        first: The first's tokens.
        second: Those of what is subtracted, as many.
        models: Both models' names.
    """
    apart = [place for place, (mine, theirs) in enumerate(zip(first, second, strict=True)) if mine != theirs][:1]
    if apart:
        start = "… " if apart[0] else ""
        texts = tuple(start + shortened(tokens[apart[0] :], MOST_LETTERS) for tokens in (first, second))
    names = texts if apart else models
    return (f"“{names[0]}”", f"“{names[1]}”") if names[0] != names[1] else ("the first result", "the second result")


def joined(labels: Sequence[str], between: str) -> str:
    """One label for several: each different one once, in order; "she|he|…" where there are more than three."""
    names = list(dict.fromkeys(labels))
    return between.join(names[:MOST_NAMES] + ["…"] * (len(names) > MOST_NAMES))


_SPECIAL = re.compile(r"(?!\[MASK\]|<mask>)(\[[A-Z]+\d*\]|<\|?[^<>|\s]+\|?>)")
_SPACES = (" ", "Ġ", "▁")


def special_positions(tokens: Sequence[str]) -> tuple[int, ...]:
    """Positions of tokens that have the form of special ones, `[CLS]`, `<s>`, `<|im_start|>`; a mask stands for a word."""
    return tuple(position for position, token in enumerate(tokens) if _SPECIAL.fullmatch(token))


def text_segments(tokens: Sequence[str], given: Mapping[str, int] | None) -> tuple[tuple[str, int], ...]:
    """Names of the segments of a text and where each begins, in order.

    Args:
        tokens: The text.
        given: Where each segment begins, by its name; None means the sentences A and B, where one separator
            (`[SEP]`, `</s></s>`) stands between two texts, and else no segments.

    Raises:
        InputError: if the first segment does not begin at 0, two begin at one position, one is beyond the text, or there
            are more than `MOST_SEGMENTS`.
    """
    if given is None:
        separates = [token in SEPARATORS for token in tokens]
        inner = [
            at + 1
            for at in range(1, len(tokens) - 1)
            if separates[at] and not separates[at + 1] and not all(separates[1:at])
        ]
        return (("A", 0), ("B", inner[0])) if len(inner) == 1 else ()
    if not isinstance(given, Mapping):
        raise InputError(
            f"segments={brief(given)}: expected positions by name, such as {{'prompt': 0, 'generated': 2}}."
        )
    begins = ((str(name), whole_number(start, f"segments[{name!r}]")) for name, start in given.items())
    segments = tuple(sorted(begins, key=lambda pair: pair[1]))
    starts = [start for _, start in segments]
    if segments and (starts[0] != 0 or len(set(starts)) < len(starts) or starts[-1] >= len(tokens)):
        raise InputError(
            f"segments={dict(given)}: expected the position at which each segment begins, the first at 0, each another, none "
            f"beyond {len(tokens) - 1}, such as {{'prompt': 0, 'generated': {max(1, len(tokens) // 2)}}}."
        )
    if len(segments) > MOST_SEGMENTS:
        raise InputError(f"segments names {len(segments)} segments: expected at most {MOST_SEGMENTS}.")
    return segments


def word_numbers(tokens: Sequence[str]) -> tuple[int, ...]:
    """For each token the number of its word, by the marks that tokenizers leave.

    Where a token begins with `##`, such tokens continue a word. Where tokens begin with white space (or its marks), those that
    begin with a letter or digit continue what stands before them, if that ends with one. Else every token is a word.
    """
    pieces = any(token.startswith("##") and len(token) > 2 for token in tokens)
    spaced = any(token.startswith(_SPACES) and len(token) > 1 for token in tokens)
    special = set(special_positions(tokens))
    numbers: list[int] = []
    for position, token in enumerate(tokens):
        earlier = tokens[position - 1] if position else ""
        alone = position == 0 or position in special or position - 1 in special
        joins = token[:1].isalnum() and earlier[-1:].isalnum() and not token.startswith(_SPACES)
        continues = not alone and (token.startswith("##") if pieces else spaced and joins)
        numbers.append(numbers[-1] if continues else (numbers[-1] + 1 if numbers else 0))
    return tuple(numbers)
