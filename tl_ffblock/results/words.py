"""Words: tokens of a result grouped to words, spans of a text, or named groups, in rows and columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool

from tl_ffblock.errors import CompletenessError, InputError, brief
from tl_ffblock.layer.positions import positions
from tl_ffblock.layer.records import TOLERANCE
from tl_ffblock.results.ranks import shares
from tl_ffblock.results.token_maps import ATTENTION, TokenMaps
from tl_ffblock.results.tokens import special_positions, word_numbers
from tl_ffblock.signatures import strict, whole

Span: TypeAlias = str | tuple[str, int] | tuple[int, int] | Sequence[int] | int
"""A text, a text and which of its occurrences, first and last character + 1, or positions."""
Groups: TypeAlias = Mapping[str, Span] | Sequence[int] | None
Members: TypeAlias = Bool[np.ndarray, "group token"]
RowsBy: TypeAlias = Literal["sum", "mean"]
"""What becomes of the rows of a group."""
_CONTINUES = re.compile(r"^##(?=.)")
"""What WordPiece puts before a piece that continues a word."""
_SPACE = re.compile(r"[\sĠĊ▁]+")
"""White space and the marks that tokenizers have for it."""


@strict
def group_tokens(result: Any, groups: Groups = None, *, text: str | None = None) -> TokenMaps:
    """Maps with one row and one column per word, or per named span; tokens of no span stay as they are.

    A column is the sum over its tokens. A row depends on what the numbers are:

    - Signed shares of a target, such as those of `attribute` and `attribute_continuation`: the sum of its tokens' rows, so that
      all groups sum to what all tokens sum to.
    - Attention: the mean of its tokens' rows, so that a row still sums to 1 (Clark et al. 2019, section 4.1).
    - Norms, such as contributions and value-weighted attention: the norm of a sum is not the sum of norms, so each row is divided
      by its sum first, and shares are grouped as attention is.

    Args:
        result: `TokenMaps`, or a result that has them: of `attribute`, `attribute_continuation`, `contribution_maps`.
        groups: None groups pieces of words by the marks of the tokenizer. A sequence has one number per token, that of its
            group; a negative number leaves the token as it is. A mapping has spans by name: a text, `"the tall man"`;
            `("John", 1)`, its second occurrence; positions, `[3, 4]` or `range(3, 5)`; or characters of `text`, `(9, 21)`.
        text: What the model read, for spans of characters.

    Raises:
        InputError: if a span is not there or cuts a token, two spans overlap, a group has some of its tokens as rows only, or the
            numbers have no sum, as differences of norms.
        CompletenessError: if groups do not sum to what tokens do.
    """
    maps = result if isinstance(result, TokenMaps) else getattr(result, "token_maps", lambda: None)()
    if not isinstance(maps, TokenMaps):
        raise InputError(
            f"result is a {type(result).__name__}: expected TokenMaps, or a result with a method token_maps."
        )
    members, labels = _groups(maps.tokens, groups, text)
    if maps.signed and ("contributions" in maps.kind or "value-weighted" in maps.kind):
        raise InputError(
            f"{maps.kind} of {maps.model}: differences of norms, which do not sum to the difference of a group's norm. Group each "
            "result by itself and compare shares."
        )
    if not (maps.signed or maps.kind == ATTENTION):
        if not maps.whole:
            raise InputError(f"{maps.kind} of {maps.model}: rows of named positions have no sum to be shares of.")
        maps = replace(maps, values=shares(maps.values, "row"), kind=f"shares of each row's {maps.kind}")
    # Shares of a target sum over rows, too; of attention a difference keeps the mean.
    summed = maps.signed and ATTENTION not in maps.kind
    return grouped(maps, members, labels, "sum" if summed else "mean")


def grouped(maps: TokenMaps, members: Members, labels: Sequence[str], rows: RowsBy) -> TokenMaps:
    """Maps of groups of tokens: columns are sums, rows sums or means; cells that no token has stay NaN.

    Args:
        maps: Any maps, each row once.
        members: Which tokens belong to each group, in the order of the groups.
        labels: Of the groups.
        rows: What becomes of the rows of a group.

    Raises:
        InputError: if some but not all tokens of a group are rows, or a row stands twice.
        CompletenessError: if groups do not sum to what their tokens do.
    """
    by_group = torch.from_numpy(members.astype(float)).to(maps.values)
    if maps.by_position:
        weights, held = by_group.new_ones(1, 1), [int(members[:, maps.queries[0]].argmax())]
    else:
        inside = members[:, list(maps.queries)]
        partly = [label for label, n, m in zip(labels, inside.sum(1), members.sum(1), strict=True) if n not in (0, m)]
        if partly or len(set(maps.queries)) < len(maps.queries):
            raise InputError(
                f"these maps have {len(maps.queries)} rows of {len(maps.tokens)} tokens or words, {brief(maps.queries)}: of "
                f"{', '.join(map(repr, partly)) or 'no group'} some tokens are rows and some are not, or a row stands twice. Make the "
                "maps with queries=None, or groups of rows alone."
            )
        held = np.flatnonzero(inside.any(axis=1)).tolist()
        weights = by_group[held][:, list(maps.queries)]
    if rows == "mean":
        weights = weights / weights.sum(dim=1, keepdim=True)
    known = ~maps.values.isnan()
    cells = maps.values if bool(known.all()) else maps.values.nan_to_num(0.0)
    values = weights @ cells @ by_group.T
    everything = weights @ (cells * by_group.any(dim=0))
    missed = (values.sum(dim=-1) - everything.sum(dim=-1)).abs()
    if bool((missed > TOLERANCE[values.dtype] * everything.abs().sum(dim=-1)).any()):
        raise CompletenessError(f"groups miss the sum of their tokens by {float(missed.max()):.1e}.")
    if not bool(known.all()):
        values = values.where(weights @ known.to(values) @ by_group.T > 0, torch.nan)
    gaps = any(np.diff(np.flatnonzero(row)).max(initial=1) > 1 for row in members)
    causal = maps.causal and not gaps
    return replace(maps, values=values, tokens=tuple(labels), queries=tuple(held), causal=causal)


def _groups(tokens: Sequence[str], groups: Groups, text: str | None) -> tuple[Members, list[str]]:
    """Which tokens belong to each group, in the order of their first tokens, and its name; a token of no group is one."""
    names: list[str] = []
    if isinstance(groups, Mapping):
        numbers = -1 - np.arange(len(tokens))
        for number, (name, span) in enumerate(groups.items()):
            places = _positions(tokens, str(name), span, text)
            if taken := [at for at in places if numbers[at] >= 0]:
                raise InputError(
                    f"groups: {name!r} and {names[numbers[taken[0]]]!r} both hold {tokens[taken[0]]!r}@{taken[0]}."
                )
            numbers[places] = number
            names.append(str(name))
    else:
        numbers = np.asarray(word_numbers(tokens) if groups is None else groups)
        if numbers.shape != (len(tokens),) or numbers.dtype.kind != "i":
            raise InputError(
                f"groups={brief(groups)}: expected {len(tokens)} whole numbers, one per token, or a mapping of spans by name."
            )
        numbers = np.where(numbers >= 0, numbers, -1 - np.arange(len(tokens)))
    held = [*dict.fromkeys(numbers.tolist())]
    members = numbers[None] == np.array(held)[:, None]
    pieces = np.array([*tokens[:1], *(_CONTINUES.sub("", token) for token in tokens[1:])], dtype=object)
    texts = ("".join(pieces[row]) for row in members)
    return members, [
        names[number] if names and number >= 0 else joined for number, joined in zip(held, texts, strict=True)
    ]


def _positions(tokens: Sequence[str], name: str, span: Span, text: str | None) -> list[int]:
    """The positions of a span: those of the tokens whose characters, white space apart, are those of the span.

    Raises:
        InputError: if there are none, several spans have the text, the span cuts a token, or tokens are not those of `text`.
    """
    first, second = span if isinstance(span, tuple) and len(span) == 2 else (span, None)
    if not isinstance(first, str) and (second is None or whole(first) is None):
        return positions(span, len(tokens), f"groups[{name!r}]")  # type: ignore[arg-type]  # no text
    special, said = special_positions(tokens), f"groups[{name!r}]={span!r}"
    pieces = ["" if at in special else _plain(token, 0) for at, token in enumerate(tokens)]
    read = "".join(pieces)
    ends = np.cumsum([len(piece) for piece in pieces])
    begins = ends - [len(piece) for piece in pieces]
    if isinstance(first, str):
        start, stop = _occurrence(
            _plain(first, read), second, read, (begins, ends, np.array(word_numbers(tokens))), said
        )
    else:
        if text is None or _plain(text, read) != read:
            why = (
                "no text is given" if text is None else f"text={brief(text)} is not what the tokens say, {brief(read)}"
            )
            raise InputError(
                f"{said} are characters, and {why}. Give text=, what the model read; or positions as a list."
            )
        start, stop = (len(_plain(text[: whole(end)], read)) for end in (first, second))
    places = [at for at, piece in enumerate(pieces) if piece and start <= begins[at] and ends[at] <= stop]
    if sum(len(pieces[at]) for at in places) != stop - start or not places:
        cut = [token for token, begin, end in zip(tokens, begins, ends, strict=True) if begin < stop and end > start]
        raise InputError(f"{said} begins or ends inside a token of {cut}: expected whole tokens.")
    return places


def _plain(text: str, like: str | int) -> str:
    """A text without white space, and without capitals where what it is compared with has none."""
    lower = isinstance(like, str) and like == like.lower()
    return _SPACE.sub("", _CONTINUES.sub("", text.lower() if lower else text))


def _occurrence(
    needle: str, number: object, read: str, edges: tuple[np.ndarray, np.ndarray, np.ndarray], said: str
) -> tuple[int, int]:
    """First and last character + 1 of an occurrence: of whole words where there are any, else of any characters."""
    begins, ends, words = edges
    found = [(at.start(), at.start() + len(needle)) for at in re.finditer(f"(?={re.escape(needle)})", read) if needle]
    first, last = {*begins[np.diff(words, prepend=-1) != 0]}, {*ends[np.diff(words, append=-1) != 0]}
    found = [(start, stop) for start, stop in found if start in first and stop in last] or found
    which = 0 if number is None and len(found) == 1 else whole(number)
    if which is None or not -len(found) <= which < len(found):
        raise InputError(
            f"{said}: this text occurs {len(found)} times in {brief(read, 400)} (white space apart). Expected a text that is there, "
            "with its number where it occurs more than once: (text, 0) is the first; or positions as a list."
        )
    return found[which]
