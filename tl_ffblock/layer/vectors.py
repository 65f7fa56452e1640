"""The reference implementation: all vectors of one layer, scope by scope, from a record.

Every source token goes through the layer's jvp alone (linear.py), and the activation's output is attributed by Integrated
Gradients (activations.py, or captum as in the paper). After every step the sum of the parts can be compared with the model's
own tensor. `fast/norms.py` gives the norms of the same vectors without making them; this file is what tests it.
"""

from collections.abc import Mapping, Sequence
from copy import copy

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.layer.linear import LinearLayer, Parts
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import Order, missing_scope
from tl_ffblock.layer.settings import Settings
from tl_ffblock.signatures import strict


@strict
class Decomposition:
    """One layer's vectors of one sequence: parts, bias, remainder and the model's own tensor, by scope.

    For every scope and query: `parts.sum(1) + bias + remainder = whole`, up to `completeness`.
    """

    def __init__(self, record: LayerRecord, parts: dict[str, Parts]) -> None:
        self.layer = record.layer
        self.order: Order = record.block.order
        self.queries = tuple(record.queries.tolist())
        self.channels: tuple[str, ...] = ()
        """Names of the head axis of `heads`: "head 0", ..., and "residual", last; empty where heads were not asked for."""
        self._parts = parts
        self._whole = record.whole
        self._heads: Mapping[str, Tensor] = {}

    def with_heads(
        self, channels: Sequence[str], vectors: Mapping[str, Float[Tensor, "head query key d_model"]]
    ) -> "Decomposition":
        """The same with the vectors of named heads."""
        result = copy(self)
        result.channels, result._heads = tuple(channels), vectors
        return result

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes in sequence."""
        return tuple(self._parts)

    def parts(self, scope: str) -> Float[Tensor, "query key d_model"]:
        """The vectors `F_i(x_j)`."""
        return self._at(scope).tokens

    def heads(self, scope: str) -> Float[Tensor, "head query key d_model"]:
        """The vectors through each head, then the residual connection, as `channels` names them; they sum to `parts`.

        Raises:
            InputError: if heads were not asked for.
        """
        self._at(scope)
        if not self._heads:
            raise InputError("no heads here: decompose(model, input, layer=..., heads=True) keeps their vectors.")
        return self._heads[scope]

    def bias(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The bias part."""
        return self._at(scope).bias

    def remainder(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The effect of edits that other hooks made inside the block, else zero."""
        part = self._at(scope)
        return torch.zeros_like(part.bias) if part.remainder is None else part.remainder

    def whole(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The model's own tensor at this point."""
        self._at(scope)
        return self._whole[scope]

    def completeness(self, scope: str) -> Float[Tensor, " query"]:
        """Relative completeness error `||sum of parts + bias + remainder - whole|| / ||whole||` (`Parts.error`)."""
        return self._at(scope).error(self.whole(scope))

    def _at(self, scope: str) -> Parts:
        if scope not in self._parts:
            raise ScopeKeyError(missing_scope(scope, self._parts))
        return self._parts[scope]

    def __repr__(self) -> str:
        first = next(iter(self._parts.values())).tokens
        return (
            f"Decomposition of layer {self.layer} ({self.order}): {first.shape[0]} queries x {first.shape[1]} keys "
            f"x {first.shape[2]} d_model, scopes {', '.join(self.scopes)}"
        )


def decompose_record(record: LayerRecord, settings: Settings) -> Decomposition:
    """All scopes of one sequence's record (without batch axis)."""
    return Decomposition(record, LinearLayer(record, settings).parts())
