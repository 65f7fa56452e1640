"""Readable labels of tokens, and positions of named tokens."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, TypeAlias

import regex

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import one_per_prompt, several, whole_number
from tl_ffblock.numerals import bytes_as_text
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
    held = next(filter(None, found), None)
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


_SPECIAL = re.compile(r"(?!\[MASK\]|<mask>|<0x[0-9A-F]{2}>)(\[[A-Z]+\d*\]|<\|?[^<>|\s]+\|?>)")
_SPACES = ("Ġ", "▁")
"""Marks of a space in vocabularies."""
_CONTINUES = re.compile(r"^##(?=.)", re.S)
"""WordPiece's prefix of a piece that continues a word."""


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


# Words


_SIGN = r"[^\w\s\p{Cf}]"
_LETTER = r"[\w--\p{M}--\p{Cf}]"
_ONE_WORD = (  # no boundary: in scripts without spaces between words (UAX 14, class SA), and at characters that are not known
    r"(?<=\p{Line_Break=SA}[\p{M}\p{Cf}--\u200b]*)(?=\p{Line_Break=SA})|(?<=\ufffd)(?=[\w\ufffd])|(?<=\w)(?=\ufffd)"
)
_BOUNDARY = regex.compile(rf"(?V1w)(?!{_ONE_WORD})\b")
"""Word boundaries of UAX 29; `w` chooses its rules for `\\b`."""
_BOUNDARY_AT_SIGNS = regex.compile(
    rf"(?V1w)(?<={_LETTER}[\p{{M}}\p{{Cf}}]*)(?={_SIGN})|(?<={_SIGN})(?={_LETTER})|(?!{_ONE_WORD}|(?<={_SIGN})(?={_SIGN}))\b"
)
_BYTE = re.compile("<0x([0-9A-F]{2})>")
"""A byte of a character that is several tokens, as SentencePiece writes it."""
_CLINGS = regex.compile(r"(?V1)[\p{M}\p{Cf}]")
_SOUTHEAST_ASIAN = regex.compile(r"(?V1)\p{Line_Break=SA}")


def word_spans(text: str, *, at_signs: bool = False) -> tuple[tuple[int, int], ...]:
    """First and last character + 1 of each word of a text, in order; white space belongs to no word.

    Words are those of Unicode's UAX 29: "don't", "3.14" and "नमस्ते" are one each, every other sign and every Han character is
    one. A run of Thai, Lao, Khmer or Burmese is one word, since finding its words needs a dictionary.

    Args:
        text: Any text.
        at_signs: Whether words end at signs, as for BERT's tokenizer: "don", "'", "t". A run of signs is then one word.
    """
    found = (_BOUNDARY_AT_SIGNS if at_signs else _BOUNDARY).finditer(text)
    return tuple(span for span in pairwise(at.start() for at in found) if text[slice(*span)].strip())


def word_numbers(tokens: Sequence[str]) -> tuple[int, ...]:
    """Number of each token's word; tokens that share a word of `word_spans` have one number.

    Special tokens and white space are words of their own. `##` continues the word before. If no token shows a space, `##` or a
    byte, each token is a word.
    """
    text, spans = spelled(tokens)
    starts, pieces = [start for start, _ in word_spans(text)], _mark(tokens) == "##"
    numbers: list[int] = []
    before = 0  # word in which the token before ends, from 1; 0 for special tokens and white space
    for token, (start, end) in zip(tokens, spans, strict=True):
        stripped = text[start:end].strip()
        first = start + text[start:end].find(stripped)
        word, last = (bisect_right(starts, at) if stripped else 0 for at in (first, first + len(stripped) - 1))
        continues = before and (word == before or (pieces and _CONTINUES.match(token)))
        numbers.append((numbers[-1] if numbers else -1) + (not continues))
        before = last
    return tuple(numbers)


def spelled(tokens: Sequence[str]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """Text of tokens, and first and last character + 1 of each; tokens that share a character overlap.

    Special tokens have no characters. They are separated from others by a newline.
    """
    special, mark, texts = set(special_positions(tokens)), _mark(tokens), without_prefixes(tokens)
    data, ends = bytearray(), []
    for at, text in enumerate(texts):
        if at == 0 or {at - 1, at} & special:
            data += b"\n"
        elif not _continues(tokens[at - 1], tokens[at], mark):
            data += b" "
        start = len(data)
        if at not in special:
            data += _bytes(text.replace("Ġ", " ").replace("Ċ", "\n") if mark == "Ġ" else text.replace(mark or " ", " "))
        ends.append((start, len(data)))
    read = data.decode("utf-8", "surrogateescape")
    sizes = [1 if "\udc80" <= char <= "\udcff" else len(char.encode()) for char in read]
    firsts = [0, *accumulate(sizes)]
    spans = ((bisect_right(firsts, start) - 1, bisect_left(firsts, end)) for start, end in ends)
    return read, tuple((start, max(start, end)) for start, end in spans)


def without_prefixes(tokens: Sequence[str]) -> tuple[str, ...]:
    """Tokens without WordPiece's prefix `##`; those of other tokenizers are unchanged."""
    return (*tokens[:1], *(_CONTINUES.sub("", token) for token in tokens[1:])) if _mark(tokens) == "##" else (*tokens,)


def joined_text(tokens: Sequence[str]) -> str:
    """Text of neighbouring tokens, as `without_prefixes` returns them; bytes of a complete character become it."""
    return bytes_as_text(b"".join(map(_bytes, tokens))) if any(map(_BYTE.search, tokens)) else "".join(tokens)


def _mark(tokens: Sequence[str]) -> str:
    """How tokens show words: a space or its mark before words, `##` in continuations, or "" if neither occurs."""
    # Tokenizers of bytes keep spaces, also where a text has none.
    if any(token[:1].isspace() or _BYTE.search(token) or "\ufffd" in token for token in tokens):
        return " "
    marks = (mark for mark in _SPACES if any(token.startswith(mark) for token in tokens))
    return next(marks, "##" * any(map(_CONTINUES.match, tokens)))


def _continues(before: str, token: str, mark: str) -> bool:
    """Whether no space is between two tokens; without marks, only where the second cannot begin a word."""
    if mark:
        return mark != "##" or bool(_CONTINUES.match(token))
    return bool(_CLINGS.match(token)) or all(map(_SOUTHEAST_ASIAN.match, (before[-1:], token)))


def _bytes(token: str) -> bytes:
    """Bytes of a token's text, in which `<0xC3>` is one byte."""
    texts = _BYTE.split(token)  # text, byte, text, byte, ..., text
    return b"".join(
        bytes.fromhex(each) if number % 2 else each.encode("utf-8", "surrogatepass")
        for number, each in enumerate(texts)
    )
