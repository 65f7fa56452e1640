"""Tokens of a result grouped to words, spans of a text, or named groups, in rows and columns."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

import numpy as np
import regex
import torch
from jaxtyping import Bool

from tl_ffblock.errors import CompletenessError, InputError, brief
from tl_ffblock.layer.positions import positions
from tl_ffblock.layer.records import TOLERANCE
from tl_ffblock.results.ranks import shares
from tl_ffblock.results.token_maps import ATTENTION, TokenMaps
from tl_ffblock.results.tokens import joined_text, spelled, without_prefixes, word_numbers
from tl_ffblock.signatures import strict, whole

Span: TypeAlias = str | tuple[str, int] | tuple[int, int] | Sequence[int] | int
"""A text; a text and the number of its occurrence; first and last character + 1; or positions."""
Groups: TypeAlias = Mapping[str, Span] | Sequence[int] | None
Members: TypeAlias = Bool[np.ndarray, "group token"]
RowsBy: TypeAlias = Literal["sum", "mean"]
"""How the rows of a group are combined."""


@strict
def group_tokens(result: Any, groups: Groups = None, *, text: str | None = None) -> TokenMaps:
    """Maps with one row and one column per word, or per named span; tokens without a span are kept.

    A column is the sum over its tokens. A row depends on the kind of numbers:

    - Signed attributions of a target, such as those of `attribute` and `attribute_continuation`: the sum of its tokens' rows, so that
      groups and tokens have the same sum.
    - Attention: the mean of its tokens' rows, so that a row still sums to 1 (Clark et al. 2019, section 4.1).
    - Norms, such as contributions and value-weighted attention: each row is first divided by its sum, since the norm of a sum is not
      the sum of norms. The shares are grouped as attention.

    Args:
        result: `TokenMaps`, or a result of `attribute`, `attribute_continuation` or `contribution_maps`.
        groups: None groups pieces of words by the marks of the tokenizer. A sequence has one group number per token; a negative
            number keeps the token. A mapping has spans by name: a text, `"the tall man"`; `("John", 1)`, its second occurrence;
            positions, `[3, 4]` or `range(3, 5)`; or characters of `text`, `(9, 21)`.
        text: The model's input text, for spans of characters.

    Returns:
        `TokenMaps` [layer channel group group]; rows that the result does not have are omitted.

    Raises:
        InputError: if a span does not exist or cuts a token, if spans overlap, if only some tokens of a group are rows, or if
            the numbers cannot be summed, as in differences of norms.
        CompletenessError: if groups and tokens have different sums.
    """
    maps = result if isinstance(result, TokenMaps) else getattr(result, "token_maps", lambda: None)()
    if not isinstance(maps, TokenMaps):
        raise InputError(
            f"result is of type {type(result).__name__}: expected TokenMaps, or a result with a method token_maps."
        )
    members, labels = _groups(maps.tokens, groups, text)
    if maps.signed and ("contributions" in maps.kind or "value-weighted" in maps.kind):
        raise InputError(
            f"{maps.kind} of {maps.model}: differences of norms cannot be summed to the difference of a group's norm. Group each "
            "result by itself and compare shares."
        )
    if not (maps.signed or maps.kind == ATTENTION):
        if not maps.whole:
            raise InputError(
                f"{maps.kind} of {maps.model}: rows of named positions have no shares, since they lack other tokens."
            )
        maps = replace(maps, values=shares(maps.values, "row"), kind=f"shares of each row's {maps.kind}")
    # Attributions are also summed over rows; a difference of attention keeps the mean.
    summed = maps.signed and ATTENTION not in maps.kind
    return grouped(maps, members, labels, "sum" if summed else "mean")


def grouped(maps: TokenMaps, members: Members, labels: Sequence[str], rows: RowsBy) -> TokenMaps:
    """Maps of groups of tokens: columns are sums, rows are sums or means; cells that no token has stay NaN.

    Args:
        maps: Maps with each row once.
        members: Tokens of each group, in the order of the groups.
        labels: Labels of the groups.
        rows: How the rows of a group are combined.

    Raises:
        InputError: if only some tokens of a group are rows, or if a row occurs twice.
        CompletenessError: if groups and tokens have different sums.
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
                f"{', '.join(map(repr, partly)) or 'no group'} some tokens are rows and some are not, or a row occurs twice. Compute the "
                "maps with queries=None, or use groups of rows alone."
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
        raise CompletenessError(f"groups differ from the sum of their tokens by {float(missed.max()):.1e}.")
    if not bool(known.all()):
        values = values.where(weights @ known.to(values) @ by_group.T > 0, torch.nan)
    gaps = any(np.diff(np.flatnonzero(row)).max(initial=1) > 1 for row in members)
    causal = maps.causal and not gaps
    return replace(maps, values=values, tokens=tuple(labels), queries=tuple(held), causal=causal)


def _groups(tokens: Sequence[str], groups: Groups, text: str | None) -> tuple[Members, list[str]]:
    """Tokens and name of each group, in the order of their first tokens; a token without a group is a group."""
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
    pieces = np.array(without_prefixes(tokens), dtype=object)
    texts = (joined_text(pieces[row].tolist()) for row in members)
    return members, [
        names[number] if names and number >= 0 else joined for number, joined in zip(held, texts, strict=True)
    ]


def _positions(tokens: Sequence[str], name: str, span: Span, text: str | None) -> list[int]:
    """Positions of a span: those of the tokens with its characters, ignoring white space.

    Raises:
        InputError: if there are none, if several spans have the text, if the span cuts a token, or if tokens do not give `text`.
    """
    first, second = span if isinstance(span, tuple) and len(span) == 2 else (span, None)
    if not isinstance(first, str) and (second is None or whole(first) is None):
        return positions(span, len(tokens), f"groups[{name!r}]")  # type: ignore[arg-type]  # no text
    said, (written, characters) = f"groups[{name!r}]={span!r}", spelled(tokens)
    read = _plain(written, 0)
    plain = np.cumsum([0, *(not char.isspace() for char in written)])  # characters before each, without white space
    begins, ends = plain[np.array(characters)].T
    if isinstance(first, str):
        start, stop = _occurrence(_plain(first, read), second, read, (begins, ends, word_numbers(tokens)), said)
    else:
        if text is None or _plain(text, read) != read:
            why = (
                "no text is given"
                if text is None
                else f"text={brief(text)} is not the text of the tokens, {brief(read)}"
            )
            raise InputError(
                f"{said} are characters, and {why}. Pass text=, the model's input; or positions as a list."
            )
        start, stop = (len(_plain(text[: whole(end)], read)) for end in (first, second))
    touched = np.flatnonzero((begins < ends) & (begins < stop) & (ends > start)).tolist()
    if not touched or min(begins[touched]) < start or max(ends[touched]) > stop:
        cut = [tokens[at] for at in touched]
        raise InputError(f"{said} begins or ends inside a token of {cut}: expected whole tokens.")
    return touched


def _plain(text: str, like: str | int) -> str:
    """A text without white space, and in lower case if the compared text is."""
    lower = isinstance(like, str) and like == like.lower()
    return "".join((text.lower() if lower else text).split())


def _occurrence(
    needle: str, number: object, read: str, edges: tuple[np.ndarray, np.ndarray, Sequence[int]], said: str
) -> tuple[int, int]:
    """First and last character + 1 of an occurrence: of whole words if there are any, else of any characters.

    Signs inside words bound whole words, too: "John" occurs in "John's".
    """
    begins, ends, words = edges
    found = [(at.start(), at.start() + len(needle)) for at in re.finditer(f"(?={re.escape(needle)})", read) if needle]
    apart = np.diff(words) != 0
    apart |= [not regex.match(r"\w\w", read[end - 1 : end + 1]) for end in ends[:-1].tolist()]
    first, last = {*begins[[True, *apart]]}, {*ends[[*apart, True]]}
    found = [(start, stop) for start, stop in found if start in first and stop in last] or found
    which = 0 if number is None and len(found) == 1 else whole(number)
    if which is None or not -len(found) <= which < len(found):
        raise InputError(
            f"{said}: this text occurs {len(found)} times in {brief(read, 400)} (white space apart). Expected a text that occurs, "
            "with its number if it occurs several times: (text, 0) is the first; or positions as a list."
        )
    return found[which]
