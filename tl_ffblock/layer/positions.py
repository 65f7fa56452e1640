"""Token positions and layer numbers as callers pass them: whole numbers of any type, negative ones from the end."""

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, SupportsIndex, TypeAlias

from jaxtyping import Shaped
from torch import Tensor

from tl_ffblock.errors import InputError, LayerError, brief, did_you_mean
from tl_ffblock.signatures import real, whole

Positions: TypeAlias = Iterable[SupportsIndex] | SupportsIndex | Shaped[Tensor, "..."] | None
"""Token positions, negative ones from the end; None means all."""
NamedPositions: TypeAlias = Mapping[str, SupportsIndex | Sequence[SupportsIndex] | Shaped[Tensor, "..."]]
"""Positions by name, which align prompts of different lengths: one for all prompts, such as -1, or a list with one per prompt."""
ChosenPositions: TypeAlias = Positions | str | Sequence[str]
"""Positions as numbers, or names of `NamedPositions`; None means all."""


def positions(asked: Positions, length: int, name: str) -> list[int]:
    """Positions of a sequence as numbers from 0, in the order given, with repetitions.

    Args:
        asked: One position or several, as ints, numpy integers or integer tensors; None means all.
        length: Number of tokens in the sequence.
        name: The argument's name, for the error.

    Raises:
        InputError: if there is no position, one does not exist, or one is not a whole number (a boolean mask).
    """
    if asked is None:
        return list(range(length))
    numbers = [whole(position) for position in several(asked)]
    found = [number % length for number in numbers if number is not None and -length <= number < length]
    if not found or len(found) != len(numbers):
        raise InputError(
            f"{name}={brief(asked)}: expected positions from {-length} to {length - 1} of a sequence of {length} tokens, "
            "or None for all."
        )
    return found


def one_position(asked: SupportsIndex | Shaped[Tensor, ""], length: int, name: str) -> int:
    """One position of a sequence as a number from 0.

    Args:
        asked: An int, a numpy integer or an integer tensor of one number; negative ones count from the end.
        length: Number of tokens in the sequence.
        name: The argument's name, for the error.

    Raises:
        InputError: if it does not exist, or is not a whole number (None, a list).
    """
    number = whole(asked)
    if number is None or not -length <= number < length:
        raise InputError(
            f"{name}={brief(asked)}: expected one position, from {-length} to {length - 1} of a sequence of {length} tokens."
        )
    return number % length


def chosen_positions(
    asked: ChosenPositions, name: str, lengths: Sequence[int], named: NamedPositions | None
) -> tuple[tuple[str, ...], list[list[int]]]:
    """Names of the chosen positions (empty for positions given as numbers), and the positions of each prompt.

    Args:
        asked: Positions, or names of `named`; None means all.
        name: The argument's name, for the error.
        lengths: Number of tokens in each prompt.
        named: Positions by name; None if they are given as numbers.

    Raises:
        InputError: if a position or a name does not exist.
    """
    names = [asked] if isinstance(asked, str) else list(asked) if isinstance(asked, Sequence) else []
    if named is None:
        if any(isinstance(label, str) for label in names):
            raise InputError(
                f"{name}={brief(asked)}: a name needs named positions, such as positions={{{names[0]!r}: -1}}."
            )
        return (), [positions(asked, length, name) for length in lengths]  # type: ignore[arg-type]  # no names
    numbers = aligned(named, lengths)
    labels = [label for label in (numbers if asked is None else names) if isinstance(label, str) and label in numbers]
    if not labels or len(labels) != len(numbers if asked is None else names):
        meant = did_you_mean(names[0], numbers) if names and isinstance(names[0], str) else ""
        known = ", ".join(map(repr, numbers))
        raise InputError(f"{name}={brief(asked)}: expected names of positions, {known}. {meant}".rstrip())
    return tuple(labels), [[numbers[label][prompt] for label in labels] for prompt in range(len(lengths))]


def aligned(asked: NamedPositions, lengths: Sequence[int]) -> dict[str, list[int]]:
    """Named positions of every prompt, as numbers from 0.

    For two prompts of 5 and 7 tokens, {"subject": [2, 3], "END": -1} gives {"subject": [2, 3], "END": [4, 6]}.

    Args:
        asked: By name one position for all prompts, or one per prompt.
        lengths: Number of tokens in each prompt.

    Raises:
        InputError: if there is no name, a list does not have one position per prompt, or a position does not exist.
    """
    if not isinstance(asked, Mapping) or not asked or not all(isinstance(name, str) for name in asked):
        raise InputError(
            f'positions={brief(asked)}: expected positions by name, such as {{"subject": [2, 3], "END": -1}}.'
        )
    return {name: one_per_prompt(given, lengths, f"positions[{name!r}]") for name, given in asked.items()}


def one_per_prompt(given: object, lengths: Sequence[int], name: str) -> list[int]:
    """One position of every prompt, as numbers from 0, from one position for all or a list with one per prompt.

    Raises:
        InputError: if their number differs from that of the prompts, or a position does not exist.
    """
    if isinstance(given, str):
        raise InputError(
            f"{name}={brief(given)}: a string is not a position; expected a number such as -1, or one per prompt."
        )
    listed = several(given) * (len(lengths) if whole(given) is not None else 1)
    if any(whole(place) is None for place in listed):
        raise InputError(f"{name}={brief(given)}: expected a whole number such as -1, or a list with one per prompt.")
    if len(listed) != len(lengths):
        raise InputError(
            f"{name}={brief(given)}: {len(listed)} positions of {len(lengths)} prompts; expected one per prompt, or one for all."
        )
    return [
        one_position(place, length, f"{name} of prompt {number}")
        for number, (place, length) in enumerate(zip(listed, lengths, strict=True))
    ]


def layer_number(layer: SupportsIndex | Shaped[Tensor, ""], layers: int | Sequence[int], where: str = "here") -> int:
    """Layer of a number: one of `layers`, or a negative number counted from their end.

    With layers (1, 4): 1 is 1, 4 is 4, -1 is 4, -2 is 1.

    Args:
        layer: A whole number of any type.
        layers: Existing layers, ascending, or their number (layers 0, 1, ...).
        where: Owner of the layers, for the error, such as "in gpt2".

    Raises:
        LayerError: if there is no such layer.
    """
    present = range(layers) if isinstance(layers, int) else tuple(layers)
    number = whole(layer)
    if number is not None and number in present:
        return number
    if number is None or not -len(present) <= number < 0:
        raise LayerError(
            f"no layer {brief(layer)} {where}; there are layers {spans(present)} (negative numbers count from the end)"
        )
    return present[number]


def spans(layers: Sequence[int]) -> str:
    """Numbers as text: "0-11", or "0, 3, 5" if numbers between them are missing."""
    contiguous = len(layers) > 2 and list(layers) == list(range(layers[0], layers[-1] + 1))
    return f"{layers[0]}-{layers[-1]}" if contiguous else ", ".join(map(str, layers))


def several(asked: object) -> list[Any]:
    """Items as a list; a single item, or a string, as a list of one; arrays and tensors as Python numbers."""
    plain = asked.tolist() if hasattr(asked, "tolist") else asked
    return list(plain) if isinstance(plain, Iterable) and not isinstance(plain, str) else [plain]


def whole_number(given: object, name: str, at_least: int | None = None) -> int:
    """An option's value as an int.

    Args:
        given: An int, a numpy integer or an integer tensor of one number.
        name: The option's name, for the error.
        at_least: Smallest allowed value; None means no limit.

    Raises:
        InputError: if it is not a whole number, or is too small.
    """
    number = whole(given)
    if number is None or (at_least is not None and number < at_least):
        least = "" if at_least is None else f", {at_least} or more"
        raise InputError(f"{name}={brief(given)}: expected a whole number{least}.")
    return number


def real_number(
    given: object, name: str, *, above: float | None = None, at_least: float | None = None, at_most: float | None = None
) -> float:
    """An option's value as a float.

    Args:
        given: A number of any type.
        name: The option's name, for the error.
        above: Limit that the value must exceed.
        at_least: Smallest allowed value.
        at_most: Largest allowed value.

    Raises:
        InputError: if it is not a finite number, or is outside the limits.
    """
    number = real(given)
    checks = (("above", above, operator.gt), ("at least", at_least, operator.ge), ("at most", at_most, operator.le))
    limits = [(word, limit, holds) for word, limit, holds in checks if limit is not None]
    if number is None or not all(holds(number, limit) for _, limit, holds in limits):
        said = " and ".join(f"{word} {limit:g}" for word, limit, _ in limits)
        raise InputError(f"{name}={brief(given)}: expected a finite number{', ' * bool(said)}{said}.")
    return number
