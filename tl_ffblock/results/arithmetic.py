"""Several results of one kind as one: sums, differences and means, cell by cell.

A class says in an `Arithmetic` what becomes of its fields; `combined` does it:

    combined([first, second], pairwise(torch.sub), " / ", "subtract", Arithmetic(same=("layers",), numbers=("values",)))
"""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import refuse_mixed
from tl_ffblock.results.scope_table import ScopeTable
from tl_ffblock.results.tokens import joined

One = TypeVar("One", bound=Result)
Operation: TypeAlias = Callable[[Sequence[Any]], Any]
"""One number of several, whether these are tensors or floats."""


class Arithmetic(NamedTuple):
    """What becomes of the fields of several results that become one; every other field is the first's."""

    same: tuple[str, ...] = ()
    """Attributes that must be equal."""
    joined: tuple[str, ...] = ()
    """Labels: texts, sequences of them or texts by name; where they differ, each different one is named."""
    numbers: tuple[str, ...] = ()
    """What is computed: tensors, floats, or tables of them by name, in which what one result lacks is 0; None of None."""
    largest: tuple[str, ...] = ()
    """Errors, of which the worst is kept, and truth values, of which one is enough."""
    rows: tuple[str, str, str] | None = None
    """Names of rows, their places and their numbers, such as of biases: rows that one result lacks are 0."""


def combined(results: Sequence[One], operation: Operation, between: str, verb: str, fields: Arithmetic) -> One:
    """Results as one.

    Args:
        results: One or more.
        operation: What is computed of each cell's numbers.
        between: What joins labels that differ.
        verb: What is done, for the error.
        fields: What becomes of each field.

    Raises:
        InputError: if they do not describe the same cells.
    """
    first = results[0]
    for other in results[1:]:
        for name in fields.same:
            mine, theirs = (attrgetter(name)(result) for result in (first, other))
            if mine != theirs:
                raise InputError(f"cannot {verb} results with different {name}: {brief(mine)} against {brief(theirs)}.")
        for name in fields.joined:
            mine, theirs = getattr(first, name), getattr(other, name)
            if isinstance(mine, tuple) and len(mine) != len(theirs):
                raise InputError(
                    f"cannot {verb} results of {len(mine)} and of {len(theirs)} {name}: use texts of equally many."
                )
    by_kind: tuple[tuple[tuple[str, ...], Operation], ...] = (
        (fields.joined, lambda labels: _label(labels, between)),
        (fields.numbers, lambda numbers: _computed(numbers, operation)),
        (fields.largest, lambda numbers: _computed(numbers, pairwise(_larger))),
    )
    changed = {name: made([getattr(r, name) for r in results]) for names, made in by_kind for name in names}
    if fields.rows is not None:
        changed |= _rows(results, operation, fields.rows)
    return dataclasses.replace(first, **changed)  # type: ignore[type-var]  # every result is a dataclass


def pairwise(operation: Callable[[Any, Any], Any]) -> Operation:
    """An operation on two numbers, from the left: ((a, b), c)."""
    return lambda numbers: reduce(operation, numbers)


def weighed(factors: Sequence[float]) -> Operation:
    """The sum of numbers times factors, one for each result."""

    def total(numbers: Sequence[Any]) -> Any:
        products = [factor * number for factor, number in zip(factors, numbers, strict=True)]
        return torch.stack(products).sum(dim=0) if isinstance(products[0], Tensor) else sum(products)

    return total


def alike(results: object, kind: type[One], made_by: str) -> list[One]:
    """One result or more of which there is a mean.

    Args:
        results: As a caller gave them.
        kind: What they must be.
        made_by: What makes lists of them, for the error.

    Raises:
        InputError: if there is none, or one is of another kind, quantity, model or rules.
    """
    given = list(results) if isinstance(results, Iterable) and not isinstance(results, kind) else []
    if not given or not all(isinstance(result, kind) for result in given):
        raise InputError(
            f"mean: expected one result or more, as {made_by} gives them for a list of texts; got a {type(results).__name__}."
        )
    refuse_mixed(given, "average")
    return given


def _larger(first: Any, second: Any) -> Any:
    return torch.maximum(first, second) if isinstance(first, Tensor) else max(first, second)


def _label(labels: Sequence[Any], between: str) -> Any:
    """One label of several: each different text once."""
    first = labels[0]
    if all(label == first for label in labels):
        return first
    if isinstance(first, tuple):
        return tuple(_label(texts, between) for texts in zip(*labels, strict=True))
    if isinstance(first, Mapping):
        return {name: _label([texts.get(name, "?") for texts in labels], between) for name in first}
    return joined(labels, between)


def _computed(numbers: Sequence[Any], operation: Operation) -> Any:
    """One table of several, or one number."""
    first = numbers[0]
    if any(number is None for number in numbers):
        return None
    if isinstance(first, ScopeTable):
        return dataclasses.replace(first, data=_computed([table.data for table in numbers], operation))
    if not isinstance(first, Mapping):
        return operation(numbers)
    like = {name: number for table in reversed(numbers) for name, number in table.items()}
    zeros = {name: torch.zeros_like(n) if isinstance(n, Tensor) else type(n)(0) for name, n in like.items()}
    return {name: operation([table.get(name, zero) for table in numbers]) for name, zero in zeros.items()}


def _rows(results: Sequence[Result], operation: Operation, fields: tuple[str, str, str]) -> dict[str, Any]:
    """Rows by name, of results that need not have the same ones."""
    names, places, numbers = fields
    held = [dict(zip(getattr(r, names), getattr(r, numbers), strict=True)) for r in results]
    known = {name: place for r in results for name, place in zip(getattr(r, names), getattr(r, places), strict=True)}
    zero = getattr(results[0], numbers).new_zeros(getattr(results[0], numbers).shape[1:])
    rows = [torch.stack([one.get(name, zero) for name in known]) if known else zero[None][:0] for one in held]
    return {names: tuple(known), places: tuple(known.values()), numbers: operation(rows)}
