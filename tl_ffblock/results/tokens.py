"""Tokens as a reader can see them."""

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
