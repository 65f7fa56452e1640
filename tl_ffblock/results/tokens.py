"""Tokens as a reader can see them."""

import re
from collections.abc import Sequence

MOST_NAMES = 3
"""Different tokens that a label of several results names; further ones become an ellipsis."""


def visible(token: str) -> str:
    """A token with its white space made visible: `·` space, `↵` newline, `⇥` tab; empty text is `∅`."""
    shown = token.replace(" ", "·").replace("\r", "␍").replace("\n", "↵").replace("\t", "⇥")
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) or "∅"


def shortened(tokens: Sequence[str]) -> str:
    """All tokens in one line, made visible and cut at 100 characters."""
    text = " ".join(visible(token) for token in tokens)
    return text if len(text) <= 100 else text[:97] + "..."


def joined(labels: Sequence[str], between: str) -> str:
    """One label for several: each different one once, in order; "she|he|…" where there are more than three."""
    names = list(dict.fromkeys(labels))
    return between.join(names[:MOST_NAMES] + ["…"] * (len(names) > MOST_NAMES))


_SPECIAL = re.compile(r"(?!\[MASK\]|<mask>)(\[[A-Z]+\d*\]|<\|?[^<>|\s]+\|?>)")
_SPACES = (" ", "Ġ", "▁")


def special_positions(tokens: Sequence[str]) -> tuple[int, ...]:
    """Positions of tokens that have the form of special ones, `[CLS]`, `<s>`, `<|im_start|>`; a mask stands for a word."""
    return tuple(position for position, token in enumerate(tokens) if _SPECIAL.fullmatch(token))


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
