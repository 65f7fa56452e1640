"""Tensors by scope and layer: the form in which a result holds its numbers."""

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Self

from torch import Tensor

from tl_ffblock.errors import ScopeKeyError
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.result import Values

# The numbers of a result: one table by scope each.
TABLES = ("values", "bias", "remainder", "completeness")


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ScopeTable(Values, Mapping[str, Tensor]):
    """Tensors by scope: `table[scope]` is `Float[layer ...]`, `table[scope, layer]` one layer's, -1 the last one held."""

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

    def each(self, function: Callable[[Tensor], Tensor]) -> Self:
        """The table with a function applied to every scope's numbers."""
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
    """The same by attention head: `table[scope, layer]` is `Float[head query key]`, its first axis named by `channels`.

    Empty where no heads were asked for.
    """

    channels: tuple[str, ...] = ()
    """Names of the head axis: "head 0", ..., and "residual", last."""

    def _missing(self, scope: object) -> str:
        if not self.channels:
            return "no heads here: these maps were made without. contribution_maps(model, input, heads=True) has them."
        return super()._missing(scope)
