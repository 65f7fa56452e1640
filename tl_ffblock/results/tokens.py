"""Tokens as a reader can see them."""


def visible(token: str) -> str:
    """A token with its white space made visible: `·` space, `↵` newline, `⇥` tab; empty text is `∅`."""
    shown = token.replace(" ", "·").replace("\r", "␍").replace("\n", "↵").replace("\t", "⇥")
    return "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown) or "∅"
