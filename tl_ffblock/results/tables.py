"""Tables of tensors by scope and layer, and arithmetic of results.

A class says in an `Arithmetic` how a sum, a difference or a mean combines its fields; `combined` computes it:

    combined([first, second], pairwise(torch.sub), " / ", "subtract", Arithmetic(same=("layers",), numbers=("values",)))
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias, TypeVar

import torch
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.result import Result, Values
from tl_ffblock.results.intervals import refuse_mixed
from tl_ffblock.results.tokens import joined
from tl_ffblock.signatures import strict

One = TypeVar("One", bound=Result)
Table = TypeVar("Table", bound="ScopeTable")
Operation: TypeAlias = Callable[[Sequence[Any]], Any]
"""A function of several numbers, which are tensors or floats."""


# Numbers of a result: one table by scope each.
TABLES = ("values", "bias", "remainder", "completeness")


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ScopeTable(Values, Mapping[str, Tensor]):
    """Tensors by scope: `table[scope]` is `Float[layer ...]`, `table[scope, layer]` one layer's, -1 the last one."""

    data: Mapping[str, Tensor] = dataclasses.field(default_factory=dict)
    """By scope, in sequence."""
    layers: tuple[int, ...] = ()
    """Layer numbers of the first axis, ascending."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "layers", tuple(self.layers))

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        scope, layer = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        if not isinstance(scope, str) or scope not in self.data:
            raise ScopeKeyError(self._missing(scope))
        rows = self.data[scope]
        return rows if layer is None else rows[self.layers.index(layer_number(layer, self.layers))]

    @strict
    def faults(self) -> Iterator[str]:
        """Layers that do not ascend from 0, or numbers for other layers."""
        if list(self.layers) != sorted({layer for layer in self.layers if layer >= 0}):
            yield f"layers={brief(self.layers)}, expected ascending numbers from 0 on"
        for scope, rows in self.data.items():
            if rows.ndim < 2 or len(rows) != len(self.layers):
                yield f"{scope} has shape {tuple(rows.shape)}, expected {len(self.layers)} layers"

    def each(self: Table, function: Callable[[Tensor], Tensor]) -> Table:
        """Table with a function applied to the numbers of every scope."""
        return dataclasses.replace(self, data={scope: function(rows) for scope, rows in self.data.items()})

    def _missing(self, scope: object) -> str:
        said = missing_scope(scope, self)
        return said if isinstance(scope, str) else f"{said}; expected [scope] or [scope, layer]"

    def __iter__(self) -> Iterator[str]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, next(iter(self.data.values())).shape)) if self.data else ""
        layers = f"layers {spans(self.layers)}, each [{shape}]" if self.data else "empty"
        return f"{type(self).__name__}: {', '.join(self.data) or 'no scopes'} · {layers}"


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class HeadTable(ScopeTable):
    """Table by attention head: `table[scope, layer]` is `Float[head query key]`, and `channels` names its first axis.

    Empty without `heads=`.
    """

    channels: tuple[str, ...] = ()
    """Names of the head axis: "head 0", ..., and "residual", last."""

    def _missing(self, scope: object) -> str:
        none = "these maps have no heads: use contribution_maps(model, input, heads=True)."
        return super()._missing(scope) if self.channels else none


class ExpertTable(HeadTable):
    """Table by expert of a mixture of experts: "expert 0", ..., and "no expert", last."""

    def _missing(self, scope: object) -> str:
        none = "these maps have no experts: use contribution_maps(model, input, experts=True)."
        return super()._missing(scope) if self.channels else none


class Arithmetic(NamedTuple):
    """How fields of several results are combined; every other field is that of the first.

    `same` must be equal. `joined` are labels: texts, sequences of texts or texts by name; different ones are joined. `numbers` are
    computed: tensors, floats, or tables of them by name, in which missing ones are 0; None stays None. `largest` are errors, of
    which the largest is kept, and truth values, which are or-ed. `rows` has fields for names, layers and numbers of rows, such as
    biases: missing rows are 0.
    """

    same: tuple[str, ...] = ()
    joined: tuple[str, ...] = ()
    numbers: tuple[str, ...] = ()
    largest: tuple[str, ...] = ()
    rows: tuple[str, str, str] | None = None


def combined(results: Sequence[One], operation: Operation, between: str, verb: str, fields: Arithmetic) -> One:
    """One result from several.

    Args:
        results: One or more.
        operation: Function of each cell's numbers.
        between: Separator of labels that differ.
        verb: Name of the operation, for the error.
        fields: How fields are combined.

    Raises:
        InputError: if the results have different cells.
    """
    first = results[0]
    refuse_different(results, fields.same, verb)
    for other in results[1:]:
        for name in fields.joined:
            mine, theirs = getattr(first, name), getattr(other, name)
            if isinstance(mine, tuple) and len(mine) != len(theirs):
                unit, by_name = ("tokens", " or `mean(positions)`") if name == "labels" else (name, "")
                raise InputError(
                    f"cannot {verb} results of {len(mine)} and of {len(theirs)} {unit}: use texts of equally many"
                    f"{by_name * (verb == 'average')}."
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


def refuse_different(results: Sequence[Any], names: Iterable[str], verb: str) -> None:
    """Refuse results that differ in one of these attributes.

    Raises:
        InputError: with its name and both values.
    """
    for name in names:
        first, *others = map(attrgetter(name), results)
        for other in others:
            if other != first:
                raise InputError(f"cannot {verb} results with different {name}: {brief(first)} against {brief(other)}.")


def pairwise(operation: Callable[[Any, Any], Any]) -> Operation:
    """A binary operation applied from the left: ((a, b), c)."""
    return lambda numbers: reduce(operation, numbers)


def weighed(factors: Sequence[float]) -> Operation:
    """Weighted sum, with one factor per result."""

    def total(numbers: Sequence[Any]) -> Any:
        products = [factor * number for factor, number in zip(factors, numbers, strict=True)]
        return torch.stack(products).sum(dim=0) if isinstance(products[0], Tensor) else sum(products)

    return total


def alike(results: object, kind: type[One], made_by: str) -> list[One]:
    """Checked results for a mean.

    Args:
        results: The caller's argument.
        kind: Class of the results.
        made_by: Function that returns lists of them, for the error.

    Raises:
        InputError: if there is none, or if one differs in class, quantity, model or rules.
    """
    given = list(results) if isinstance(results, Iterable) and not isinstance(results, kind) else []
    if not given or not all(isinstance(result, kind) for result in given):
        raise InputError(
            f"mean: expected one result or more, as {made_by} returns for a list of texts; got a {type(results).__name__}."
        )
    refuse_mixed(given, "average")
    return given


def _larger(first: Any, second: Any) -> Any:
    return torch.maximum(first, second) if isinstance(first, Tensor) else max(first, second)


def _label(labels: Sequence[Any], between: str) -> Any:
    first = labels[0]
    if all(label == first for label in labels):
        return first
    if isinstance(first, tuple):
        return tuple(_label(texts, between) for texts in zip(*labels, strict=True))
    if isinstance(first, Mapping):
        return {name: _label([texts.get(name, "?") for texts in labels], between) for name in first}
    return joined(labels, between)


def _computed(numbers: Sequence[Any], operation: Operation) -> Any:
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
    """Rows by name, for results that may have different rows; equal names are numbered."""
    names, places, numbers = fields
    keys = [
        [(name, own[:at].count(name)) for at, name in enumerate(own)] for own in (getattr(r, names) for r in results)
    ]
    held = [dict(zip(own, getattr(r, numbers), strict=True)) for own, r in zip(keys, results, strict=True)]
    known = {
        key: place
        for own, r in zip(keys, results, strict=True)
        for key, place in zip(own, getattr(r, places), strict=True)
    }
    zero = getattr(results[0], numbers).new_zeros(getattr(results[0], numbers).shape[1:])
    rows = [torch.stack([one.get(key, zero) for key in known]) if known else zero[None][:0] for one in held]
    return {names: tuple(name for name, _ in known), places: tuple(known.values()), numbers: operation(rows)}
