"""A record -> all vectors of one layer, scope by scope: the slow road, obvious and exact.

The steps of a layer are walked in the model's order, each a linear map of the parts (parts.py) except
the activation, whose output is shared by Integrated Gradients (activations.py, or captum as in the
paper). After every step the sum of the parts can be held against the model's own tensor.

`norms.py` gives the norms of the same vectors without making them; this file is what tests it.
"""

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.parts import Parts, attend, normalise, project, reconcile, residual, weigh
from tl_ffblock.layer.quadrature import captum_shares
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.scopes import (
    INPUT,
    PROGRAMS,
    Add,
    Attend,
    Feed,
    Normalise,
    Operation,
    Order,
    missing_scope,
    scope_names,
)
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
        """The vectors through each head, then what the residual brings, as `channels` names them; they sum to `parts`.

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
    parts = dict(walk(LayerWalk(record, settings)))
    return Decomposition(record, {scope: parts[scope] for scope in scope_names(record.block.order)})


def walk(layer_walk: "LayerWalk") -> Iterator[tuple[str, Parts]]:
    """Every step of a layer with the parts after it, in the model's order.

    The norm before attention is no step of this walk: it is taken at the keys, where a token is still
    alone, and the values behind it were captured. A walk from parts of the layer's input (several
    tokens in one position, as behind an earlier layer) takes it, and `AttentionWeights.values`.
    """
    done: dict[str, Parts] = {}
    for step in PROGRAMS[layer_walk.block.order]:
        if not step.at_keys:
            done[step.scope] = layer_walk.settle(step.scope, layer_walk.apply(step.operation, done))
            yield step.scope, done[step.scope]


class LayerWalk:
    """The steps of one layer's record, on all parts of every query."""

    def __init__(self, record: LayerRecord, settings: Settings) -> None:
        self.record = record
        self.block = record.block
        self.settings = settings

    def apply(self, operation: Operation, done: Mapping[str, Parts]) -> Parts:
        """One step."""

        def operand(name: str) -> Parts:
            return self.input() if name == INPUT else done[name]

        match operation:
            case Attend():
                return self.attend()
            case Add(left, right):
                return operand(left) + operand(right)
            case Normalise(of, name):
                norm = self.block.norm(name)
                return normalise(operand(of), norm, norm.scale(self.record.tensor(of)))
            case Feed(of):
                return self.feed_forward(operand(of), self.record.tensor(of))

    def settle(self, scope: str, parts: Parts) -> Parts:
        """With edits inside the block: what the edit added becomes the remainder."""
        return reconcile(parts, self.record.whole[scope], self.settings.rtol) if self.record.edited else parts

    def attend(self) -> Parts:
        """Attention."""
        return attend(self.record, value_bias=self.settings.value_bias)

    def input(self) -> Parts:
        """The layer's input, all of it its own token's."""
        return residual(self.record.tensor(INPUT), self.record.queries, self.record.resid_pre.shape[0])

    def feed_forward(self, parts: Parts, x: Float[Tensor, "query d"]) -> Parts:
        """Feed-forward of parts whose whole is x; experts each on their own, weighed by the frozen router."""
        ff = self.block.feed_forward
        if isinstance(ff, FeedForward):
            return self._dense(parts, ff, x, 0)
        assert ff is not None and self.record.routing is not None
        out = Parts(torch.zeros_like(parts.tokens), torch.zeros_like(parts.bias))
        for number, (expert, weight) in enumerate(zip(ff.experts, self.record.routing.T, strict=True)):
            if bool(weight.any()):
                out = out + weigh(self._dense(parts, expert, x, number), weight[:, None])
        return out

    def coefficients(
        self,
        ff: FeedForward,
        pre: Float[Tensor, "query d_mlp"],
        pre_linear: Float[Tensor, "query d_mlp"] | None,
        expert: int,
    ) -> PathCoefficients:
        """What Integrated Gradients multiplies the parts of the pre-activations by, for the expert of a number."""
        return ff.activation.coefficients(pre, pre_linear)

    def _dense(self, parts: Parts, ff: FeedForward, x: Float[Tensor, "query d"], expert: int) -> Parts:
        return project(self.neuron_shares(parts, ff, x, expert), ff.w_out, ff.b_out)

    def neuron_shares(self, parts: Parts, ff: FeedForward, x: Float[Tensor, "query d"], expert: int) -> Parts:
        """Every neuron's output as a sum over source tokens: Integrated Gradients through the activation (eq. 12-14, 44)."""
        pre, pre_linear = self.record.pre_activations(ff, x)
        if ff.w_gate is None:
            players = self.players(parts, ff.w_in, ff.b_in, pre)
            linear = None
        else:
            assert ff.b_gate is not None and pre_linear is not None
            players = self.players(parts, ff.w_gate, ff.b_gate, pre)
            linear = self.players(parts, ff.w_in, ff.b_in, pre_linear)
        if self.settings.method == "captum":
            shared = captum_shares(ff.activation, players, linear, self.settings.n_steps)
        else:
            coefficients = self.coefficients(ff, pre, pre_linear, expert)
            shared = weigh(players, coefficients.on_pre)
            if linear is not None:
                assert coefficients.on_linear is not None
                shared = shared + weigh(linear, coefficients.on_linear)
            shared = replace(shared, bias=shared.bias + coefficients.baseline)
        return shared

    def players(
        self,
        parts: Parts,
        weight: Float[Tensor, "d d_mlp"],
        bias: Float[Tensor, " d_mlp"],
        real: Float[Tensor, "query d_mlp"],
    ) -> Parts:
        """The parts of a pre-activation, whose real value is known."""
        players = project(parts, weight, bias)
        return reconcile(players, real, self.settings.rtol) if self.record.edited else players
