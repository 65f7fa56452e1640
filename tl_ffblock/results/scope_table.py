"""Tensors by scope and layer: the form in which a result holds its numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar, overload

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import ScopeKeyError
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.result import identical

TABLES = ("values", "bias", "remainder", "completeness")
"""The numbers of a result: one table by scope each."""

Table = TypeVar("Table", bound="ScopeTable")
Heads = TypeVar("Heads", bound="HeadTable")


class ScopeTable(Mapping[str, Tensor]):
    """Tensors by scope, their first axis the layers: `table[scope]` or `table[scope, layer]`, -1 the last layer held."""

    def __init__(self, data: Mapping[str, Tensor], layers: Sequence[int]) -> None:
        self._data = dict(data)
        self.layers = tuple(layers)
        """Layer numbers of the first axis, ascending."""

    @overload
    def __getitem__(self, key: str) -> Float[Tensor, "layer ..."]: ...
    @overload
    def __getitem__(self, key: tuple[str, int]) -> Float[Tensor, "..."]: ...
    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        scope, layer = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        if not isinstance(scope, str) or scope not in self._data:
            raise ScopeKeyError(self._missing(scope))
        if layer is None:
            return self._data[scope]
        return self._data[scope][self.layers.index(layer_number(layer, self.layers))]

    def each(self: Table, function: Callable[[Tensor], Tensor]) -> Table:
        """The table with a function applied to every scope's numbers."""
        return self.with_data({scope: function(rows) for scope, rows in self._data.items()})

    def with_data(self: Table, data: Mapping[str, Tensor]) -> Table:
        """A table of the same labels with other numbers."""
        return type(self)(data, self.layers)

    def _missing(self, scope: object) -> str:
        said = missing_scope(scope, self)
        return said if isinstance(scope, str) else f"{said}; expected [scope] or [scope, layer]"

    def __iter__(self) -> Iterator[str]:
        return iter(self._data)

    def __len__(self) -> int:
        return len(self._data)

    def __repr__(self) -> str:
        shape = ", ".join(map(str, next(iter(self._data.values())).shape)) if self._data else ""
        layers = f"layers {spans(self.layers)}, each [{shape}]" if self._data else "empty"
        return f"{type(self).__name__}: {', '.join(self._data) or 'no scopes'} · {layers}"

    def __eq__(self, other: object) -> bool:
        """Whether scopes, layers, types and all numbers are the same; NaN equals NaN."""
        if not isinstance(other, ScopeTable):
            return NotImplemented
        same_labels = (tuple(self), self.layers) == (tuple(other), other.layers)
        return same_labels and all(identical(self._data[scope], other._data[scope]) for scope in self._data)


class HeadTable(ScopeTable):
    """The same by attention head: `table[scope, layer]` is `Float[head query key]`, its first axis named by `channels`.

    Empty where no heads were asked for.
    """

    def __init__(
        self, data: Mapping[str, Tensor] | None = None, layers: Sequence[int] = (), channels: Sequence[str] = ()
    ) -> None:
        super().__init__(data or {}, layers)
        self.channels = tuple(channels)
        """Names of the head axis: "head 0", ..., and "residual", last."""

    def with_data(self: Heads, data: Mapping[str, Tensor]) -> Heads:
        return type(self)(data, self.layers, self.channels)

    def _missing(self, scope: object) -> str:
        if not self.channels:
            return "no heads here: these maps were made without. contribution_maps(model, input, heads=True) has them."
        return super()._missing(scope)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeadTable):
            return NotImplemented
        return self.channels == other.channels and super().__eq__(other)


def cell_by_cell(tables: Sequence[Table], function: Callable[[Tensor, Tensor], Tensor]) -> Table:
    """Tables of the same labels as one, two at a time from the left: ((a, b), c)."""
    result = tables[0]
    for table in tables[1:]:
        result = result.with_data({scope: function(rows, table[scope]) for scope, rows in result.items()})
    return result
