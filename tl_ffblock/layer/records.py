"""What one layer is and what one run of it was: frozen dataclasses of tensors, no model, no hooks.

`Block` holds a layer's weights in one convention for every family; `LayerRecord` the few tensors of
a run from which everything else follows. Axis names: `head query key d d_head d_mlp`; `d` is d_model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.layer.activations import Activation
from tl_ffblock.layer.scopes import INPUT, NormName, Order


@dataclass(frozen=True)
class Norm:
    """LayerNorm or RMSNorm: `gain * (x - mean(x)) / scale(x) + shift`, no mean for RMSNorm."""

    gain: Float[Tensor, " d"]
    shift: Float[Tensor, " d"]
    eps: float
    centred: bool

    def scale(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead 1"]:
        """The denominator: sqrt(var + eps), for RMSNorm sqrt(mean(x^2) + eps)."""
        x = x - x.mean(dim=-1, keepdim=True) if self.centred else x
        return (x.square().mean(dim=-1, keepdim=True) + self.eps).sqrt()

    def linear(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        """The part that is linear in x: centre and multiply by the gain, without the scale."""
        return self.linear_(x.clone())

    def linear_(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        """The same, written over x."""
        if self.centred:
            x -= x.mean(dim=-1, keepdim=True)
        x *= self.gain
        return x

    def __call__(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        return self.linear(x) / self.scale(x) + self.shift


@dataclass(frozen=True)
class AttentionWeights:
    """What turns values into attention output."""

    w_o: Float[Tensor, "head d_head d"]
    b_o: Float[Tensor, " d"]
    value_constant: Float[Tensor, "head d_head"]
    """The part of every value that no token brings: b_V, and the beta of the norm before through W_V."""


@dataclass(frozen=True)
class FeedForward:
    """`g(x W_in + b_in) W_out + b_out`, or gated `(g(x W_gate + b_gate) * (x W_in + b_in)) W_out + b_out`."""

    w_in: Float[Tensor, "d d_mlp"]
    b_in: Float[Tensor, " d_mlp"]
    w_out: Float[Tensor, "d_mlp d"]
    b_out: Float[Tensor, " d"]
    activation: Activation
    w_gate: Float[Tensor, "d d_mlp"] | None = None
    b_gate: Float[Tensor, " d_mlp"] | None = None

    def pre_activations(self, x: Float[Tensor, "query d"]) -> tuple[Tensor, Tensor | None]:
        """Pre-activation (of the gate where there is one) and linear branch, [query d_mlp]."""
        linear = x @ self.w_in + self.b_in
        if self.w_gate is None or self.b_gate is None:
            return linear, None
        return x @ self.w_gate + self.b_gate, linear


@dataclass(frozen=True)
class Experts:
    """Mixture of experts: each a feed-forward, summed with the router's weights; shared experts last."""

    experts: tuple[FeedForward, ...]


@dataclass(frozen=True)
class Block:
    """One layer's weights. Which norms exist depends on the order; the others are None."""

    layer: int
    order: Order
    causal: bool
    attention: AttentionWeights
    feed_forward: FeedForward | Experts
    ff_norm: Norm | None = None
    """Norm before the feed-forward (pre_ln, sandwich, parallel)."""
    attn_out_norm: Norm | None = None
    """Norm of the attention output inside its branch (sandwich, norm_after)."""
    ff_out_norm: Norm | None = None
    """Norm of the feed-forward output inside its branch (sandwich, norm_after)."""
    mid_norm: Norm | None = None
    """LayerNorm after the first residual (post_ln)."""
    out_norm: Norm | None = None
    """post_ln: LayerNorm after the second residual; else the next layer's first norm or the final norm."""

    def norm(self, name: NormName) -> Norm:
        """A norm that the order has."""
        norm: Norm | None = getattr(self, name)
        assert norm is not None, f"a {self.order} block has no {name}"
        return norm


@dataclass(frozen=True)
class LayerRecord:
    """One layer of one run; leading `batch` axis until `sequence` takes one out.

    `whole[scope]` is the model's own tensor at the end of a scope, read from its hooks; the sum of
    the parts is held against it.
    """

    block: Block
    queries: Int[Tensor, "*batch query"]
    """Positions of the rows."""
    resid_pre: Float[Tensor, "*batch key d"]
    pattern: Float[Tensor, "*batch head query key"]
    value: Float[Tensor, "*batch key kv_head d_head"]
    pre: Float[Tensor, "*batch query d_mlp"] | None
    """Pre-activation (of the gate where there is one)."""
    pre_linear: Float[Tensor, "*batch query d_mlp"] | None
    post: Float[Tensor, "*batch query d_mlp"] | None
    whole: Mapping[str, Float[Tensor, "*batch query d"]]
    routing: Float[Tensor, "*batch query expert"] | None = None
    """The router's weights, zero where an expert was not chosen; frozen like the pattern."""
    edited: bool = False
    """Whether other hooks changed a tensor inside the block: a gap is then their effect, the remainder."""

    @property
    def layer(self) -> int:
        """The model's number of this layer."""
        return self.block.layer

    def tensor(self, operand: str) -> Float[Tensor, "query d"]:
        """The model's own tensor: of a scope, or the layer's input at the queries (one sequence only)."""
        return self.resid_pre[self.queries] if operand == INPUT else self.whole[operand]

    def sequence(self, index: int, keep: Int[Tensor, " key"] | None = None) -> "LayerRecord":
        """One sequence of the batch, in the decomposition's dtype and on the layer's device.

        `keep` are its real (unpadded) positions.
        """
        weights = self.block.attention.w_o

        def take(tensor: Tensor) -> Tensor:
            return tensor[index].to(weights)

        one = self._changed(
            take,
            queries=self.queries[index].to(weights.device),
            resid_pre=take(self.resid_pre),
            pattern=take(self.pattern),
            value=take(self.value),
        )
        return one if keep is None else one._without_padding(keep.to(weights.device))

    def _without_padding(self, keep: Int[Tensor, " key"]) -> "LayerRecord":
        real = self.rows(torch.isin(self.queries, keep))
        return replace(
            real,
            queries=torch.searchsorted(keep, real.queries),
            resid_pre=real.resid_pre[keep],
            pattern=real.pattern[:, :, keep],
            value=real.value[keep],
        )

    def rows(self, chosen: slice | Bool[Tensor, " query"] | Int[Tensor, " chosen"]) -> "LayerRecord":
        """The same sequence with some of its queries only."""
        return self._changed(
            lambda tensor: tensor[chosen],
            queries=self.queries[chosen],
            resid_pre=self.resid_pre,
            pattern=self.pattern[:, chosen],
            value=self.value,
        )

    def _changed(
        self, change: Callable[[Tensor], Tensor], *, queries: Tensor, resid_pre: Tensor, pattern: Tensor, value: Tensor
    ) -> "LayerRecord":
        """Other queries and sources, with every tensor whose rows are the queries changed alike."""

        def optional(tensor: Tensor | None) -> Tensor | None:
            return None if tensor is None else change(tensor)

        return replace(
            self,
            queries=queries,
            resid_pre=resid_pre,
            pattern=pattern,
            value=value,
            pre=optional(self.pre),
            pre_linear=optional(self.pre_linear),
            post=optional(self.post),
            routing=optional(self.routing),
            whole={scope: change(tensor) for scope, tensor in self.whole.items()},
        )
