"""Readable labels of tokens, and positions of named tokens."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import one_per_prompt, several, whole_number
from tl_ffblock.signatures import strict, whole

TokenLike: TypeAlias = str | tuple[str, int] | int
"""A token as text, which occurs once; a token and the number of its occurrence, from 0; or a position."""

# Separator of the two labels of a difference's position.
BETWEEN_SIDES = " / "
# Zero-width joiner of pictographs, such as a family; elsewhere it is invisible, and shown as its code.
JOINER = re.compile("(?<=[\u2190-\U0001faff])\u200d(?=[\u2190-\U0001faff])")
# Largest length of the name of a difference's side.
MOST_LETTERS = 60
# Largest number of different tokens in a joined label; further ones become an ellipsis.
MOST_NAMES = 3

# Separators that tokenizers put after each of two sentences.
SEPARATORS = ("[SEP]", "</s>")
# Largest number of segments that a reader can distinguish.
MOST_SEGMENTS = 6


def visible(token: str) -> str:
    """A token with visible white space: `·` space, `↵` newline, `⇥` tab; empty text is `∅`.

    The separator between both tokens of a difference's label is kept.
    """
    sides = token.split(BETWEEN_SIDES)
    if len(sides) > 1 and all(sides):
        return BETWEEN_SIDES.join(map(visible, sides))
    shown = token.replace(" ", "·").replace("\r", "␍").replace("\n", "↵").replace("\t", "⇥")
    kept = {found.start() for found in JOINER.finditer(shown)}
    written = (c if c.isprintable() or at in kept else f"\\u{ord(c):04x}" for at, c in enumerate(shown))
    return "".join(written) or "∅"


def told_apart(tokens: Sequence[str]) -> tuple[str, ...]:
    """Visible tokens; tokens that occur several times have their position: `·John@4`."""
    names = [visible(token) for token in tokens]
    counts = Counter(names)
    return tuple(f"{name}@{place}" if counts[name] > 1 else name for place, name in enumerate(names))


@strict
def find_positions(results: Any, /, **named: TokenLike | Sequence[TokenLike]) -> dict[str, list[int]]:
    """Positions of named tokens in every prompt: `find_positions(results, IO=[" Mary", " Anna"], S2=(" John", 1), END=-1)`.

    The result can be passed as `positions` to `ffb.average` and to every other call that aligns prompts by name.

    Args:
        results: Results of several prompts or of one, or their tokens as texts: a list, or a list of lists.
        **named: By name a token for all prompts, or a list with one per prompt. A token is the text that the result shows (for a
            pair of prompts, that of the clean one). Its space may be omitted if no token has the text without it. A text that
            occurs several times needs a number: (" John", 0) is the first, (" John", -1) the last. A whole number is a position.

    Returns:
        By name a list of positions, one per prompt.

    Raises:
        InputError: if a prompt has no such token, or several, with the tokens of the prompt.
    """
    one = hasattr(results, "to_dataframe") and not isinstance(results, list)
    listed = [results] if one or all(isinstance(token, str) for token in several(results)) else several(results)
    prompts = [texts_of(result) for result in listed]
    if not named or not all(prompts):
        raise InputError(
            f"find_positions: {len(prompts)} prompts and {len(named)} names: expected results or lists of tokens, and names "
            'such as IO=" Mary", END=-1.'
        )
    found = {}
    for name, given in named.items():
        each: list[Any] = list(given) if isinstance(given, list) else [given] * len(prompts)
        if len(each) != len(prompts):
            raise InputError(
                f"{name}={brief(given)}: {len(each)} tokens of {len(prompts)} prompts: expected one per prompt."
            )
        numbers = [_position(name, *pair) for pair in zip(each, enumerate(prompts), strict=True)]
        found[name] = one_per_prompt(numbers, [len(tokens) for tokens in prompts], name)
    return found


def texts_of(result: Any) -> tuple[str, ...]:
    """Tokens of a result, or a list of tokens, as texts.

    Raises:
        InputError: if there are none.
    """
    names = ("clean_labels", "labels", "tokens")  # of a pair the clean prompt's own, not "clean→corrupted"
    found = [result] if isinstance(result, Sequence) else [getattr(result, name, None) for name in names]
    held = next(filter(None, found), ())
    if not isinstance(held, Sequence) or isinstance(held, str) or not all(isinstance(token, str) for token in held):
        raise InputError(
            f"{brief(result)}: expected a result of one prompt, or its tokens as a list of texts: "
            "model.to_str_tokens(text)."
        )
    return tuple(held)


def _position(name: str, given: TokenLike, prompt: tuple[int, Sequence[str]]) -> int:
    """Position of a token in a prompt; the prompt comes with its number."""
    number, tokens = prompt
    if (position := whole(given)) is not None:
        return position
    text, occurrence = given if isinstance(given, tuple) and len(given) == 2 else (given, None)
    places = [at for at, token in enumerate(tokens) if text == token]
    if not places and isinstance(text, str):
        places = [at for at, token in enumerate(tokens) if text.strip() == token.strip()]
    which = 0 if occurrence is None and len(places) == 1 else whole(occurrence)
    if which is None or not -len(places) <= which < len(places):
        shown = f"at {', '.join(map(str, places))}" if places else "nowhere"
        raise InputError(
            f"{name}={given!r}: {text!r} is {shown} in prompt {number}, {brief(list(tokens), 400)}. Expected one of these "
            f"tokens{f', with its number: ({text!r}, 0) is the first' if places else ''}, or a position."
        )
    return places[which]


def shortened(tokens: Sequence[str], most: int = 100) -> str:
    """All tokens in one line, visible and cut to `most` characters."""
    text = " ".join(visible(token) for token in tokens)
    return text if len(text) <= most else text[: most - 3] + "..."


def sides_of(first: Sequence[str], second: Sequence[str], models: tuple[str, str]) -> tuple[str, str]:
    """Names of the two sides of a difference, in quotation marks: their texts from the first difference, else their models.

    Args:
        first: Tokens of the first.
        second: Tokens of the second, which is subtracted; equally many.
        models: Names of both models.
    """
    apart = [place for place, (mine, theirs) in enumerate(zip(first, second, strict=True)) if mine != theirs][:1]
    if apart:
        start = "… " if apart[0] else ""
        texts = tuple(start + shortened(tokens[apart[0] :], MOST_LETTERS) for tokens in (first, second))
    names = texts if apart else models
    return (f"“{names[0]}”", f"“{names[1]}”") if names[0] != names[1] else ("the first result", "the second result")


def joined(labels: Sequence[str], between: str) -> str:
    """One label for several: each different one once, in order; "she|he|…" for more than three."""
    names = list(dict.fromkeys(labels))
    return between.join(names[:MOST_NAMES] + ["…"] * (len(names) > MOST_NAMES))


_SPECIAL = re.compile(r"(?!\[MASK\]|<mask>)(\[[A-Z]+\d*\]|<\|?[^<>|\s]+\|?>)")
_SPACES = (" ", "Ġ", "▁")


def special_positions(tokens: Sequence[str]) -> tuple[int, ...]:
    """Positions of special tokens by their form, `[CLS]`, `<s>`, `<|im_start|>`; a mask token is not special."""
    return tuple(position for position, token in enumerate(tokens) if _SPECIAL.fullmatch(token))


def text_segments(tokens: Sequence[str], given: Mapping[str, int] | None) -> tuple[tuple[str, int], ...]:
    """Names and start positions of the segments of a text, in order.

    Args:
        tokens: Tokens of the text.
        given: Start position of each segment by name; None means sentences A and B if one separator (`[SEP]`, `</s></s>`) is
            between two texts, and else no segments.

    Raises:
        InputError: if the first segment does not start at 0, two start at one position, one is outside the text, or there are
            more than `MOST_SEGMENTS`.
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
    """Number of each token's word, by the marks of the tokenizer.

    If tokens begin with `##`, these continue a word. If tokens begin with white space (or its marks), those that begin with a letter
    or digit continue the token before, if that ends with one. Else every token is a word.
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
