"""Weights of a layer, its layer record of one forward pass, and the options of a decomposition: dataclasses, no model, no hooks.

`Block` has a layer's weights in one convention for all model families. `LayerRecord` has the few tensors of a forward pass from
which all others follow. `Settings` says how a decomposition is made, and the error above which it is refused. Axis names: `head
query key d d_head d_mlp`; `d` is d_model.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias, get_args

import torch
from einops import einsum, rearrange
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.activations import Activation, PathCoefficients
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.layer.scopes import INPUT, Add, Branch, NormName, Order, output_step
from tl_ffblock.signatures import real

Method: TypeAlias = Literal["exact", "captum"]
ValueBias: TypeAlias = Literal["bias", "token"]
Precision: TypeAlias = Literal["float32", "bfloat16", "float64"]

TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
"""Relative completeness error above which a result is refused, by the model's dtype."""


_COPIED_TOGETHER = 2**22
"""Largest tensor, in bytes, that is copied to the CPU together with others."""
N_STEPS = 50
"""Default number of integration steps of `method="captum"` (quadrature nodes)."""


def refuse_tolerance(rtol: object) -> None:
    """Raise an error if a tolerance would refuse no result or every result.

    Raises:
        InputError: if it is not a positive, finite number.
    """
    number = real(rtol)
    if number is None or number <= 0:
        raise InputError(
            f"rtol={brief(rtol)}: expected a positive number, such as 1e-3, or None for that of the model's dtype."
        )


@dataclass(frozen=True)
class Settings:
    """Options of a decomposition.

    Raises:
        InputError: if a value is unknown or out of range, or if two options contradict each other.
    """

    method: Method = "exact"
    """"exact": closed form of Integrated Gradients; "captum": Gauss-Legendre, as in the paper."""
    n_steps: int = N_STEPS
    """Integration steps of "captum"."""
    value_bias: ValueBias = "bias"
    """Where b_V goes: to the bias part ("bias", eq. 7 and 21), or to the tokens ("token", the code of 2020 and 2021)."""
    rtol: float = TOLERANCE[torch.float32]
    """Relative completeness error above which a result is refused."""
    precision: Precision = "float32"
    """Arithmetic: float32 or float64 throughout; with bfloat16 the product with W_out is rounded, which is an approximation."""
    chunk_bytes: int | None = None
    """Largest memory of the packed rows, in bytes; None means 24 MB on a CPU, 1 GB on a GPU."""

    def __post_init__(self) -> None:
        for name, kind in (("method", Method), ("value_bias", ValueBias), ("precision", Precision)):
            if getattr(self, name) not in get_args(kind):
                expected = " or ".join(f'"{value}"' for value in get_args(kind))
                raise InputError(f"{name}={getattr(self, name)!r}: expected {expected}.")
        whole_number(self.n_steps, "n_steps", at_least=1)
        if self.method != "captum" and self.n_steps != N_STEPS:
            raise InputError(
                f'n_steps={self.n_steps} without method="captum": the closed form has no steps. Omit n_steps.'
            )
        refuse_tolerance(self.rtol)
        if self.precision == "bfloat16" and self.method == "captum":
            raise InputError(
                'precision="bfloat16" with method="captum": the quadrature is not rounded. Use "float32" or "float64", or '
                'method="exact".'
            )
        if self.chunk_bytes is not None:
            whole_number(self.chunk_bytes, "chunk_bytes", at_least=1)

    def refuse_rounding(self, made: str) -> None:
        """Raise an error for bfloat16 if no large product is made: it would loosen the tolerance and change no number.

        Args:
            made: What is computed, for the error.

        Raises:
            InputError: for `precision="bfloat16"`.
        """
        if self.precision == "bfloat16":
            raise InputError(
                f'precision="bfloat16" rounds only the large product of contribution_maps, and changes nothing in {made}. Use '
                '"float32" or "float64".'
            )

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of all arithmetic except the large product."""
        return torch.float64 if self.precision == "float64" else torch.float32


InputMatrix: TypeAlias = Literal["in", "gate"]


@dataclass(frozen=True)
class Norm:
    """LayerNorm or RMSNorm: `gain * (x - mean(x)) / scale(x) + shift`; RMSNorm has no mean."""

    gain: Float[Tensor, " d"]
    shift: Float[Tensor, " d"]
    eps: float
    centred: bool
    divides: bool = True
    """False if the model has no norm at this point: the scale is 1."""

    @classmethod
    def absent(cls, like: Float[Tensor, " d"]) -> "Norm":
        """Identity in place of a norm that a model does not have, with weights like `like`."""
        return cls(torch.ones_like(like), torch.zeros_like(like), 0.0, centred=False, divides=False)

    def scale(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead 1"]:
        """Denominator [*lead 1]: `sqrt(var + eps)`, for RMSNorm `sqrt(mean(x^2) + eps)`."""
        return self.centred_and_scale(x)[1]

    def centred_and_scale(self, x: Float[Tensor, "*lead d"]) -> tuple[Tensor, Tensor]:
        """Numerator before the gain, [*lead d], which is x minus its mean for LayerNorm; and the scale, [*lead 1]."""
        x = x - x.mean(dim=-1, keepdim=True) if self.centred else x
        size = x.square().mean(dim=-1, keepdim=True)
        return x, (size + self.eps).sqrt() if self.divides else torch.ones_like(size)

    def linear(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        """Linear part: x centred (LayerNorm only) and multiplied by the gain, without the scale."""
        return (x - x.mean(dim=-1, keepdim=True)).mul_(self.gain) if self.centred else x * self.gain

    def linear_(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        """The same in place."""
        if self.centred:
            x -= x.mean(dim=-1, keepdim=True)
        return x.mul_(self.gain)

    def __call__(self, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        return self.linear(x) / self.scale(x) + self.shift


@dataclass(frozen=True)
class Latent:
    """Latent vector from which keys and values are made: `norm(x W_down)` (DeepSeek-AI 2024, arXiv 2405.04434, eq. 9)."""

    w_down: Float[Tensor, "d rank"]
    norm: Norm

    def __call__(self, x: Float[Tensor, "key d"]) -> Float[Tensor, "key rank"]:
        return self.norm(x @ self.w_down)


@dataclass(frozen=True)
class AttentionWeights:
    """Weights from attention's input to values, and from values to attention's output."""

    w_o: Float[Tensor, "head d_head d"]
    b_o: Float[Tensor, " d"]
    w_v: Float[Tensor, "kv_head d_in d_head"]
    """From attention's input, or from its latent vector."""
    b_v: Float[Tensor, "kv_head d_head"]
    latent: Latent | None = None
    """Of multi-head latent attention; the scale of its norm is a constant of the linearised layer, at each source token."""
    norm: Norm | None = None
    """Norm of the weighted values of all heads before W_O (BitNet), its gain [head * d_head]; its scale is a constant of the
    linearised layer, at each query."""
    value_norm: Norm | None = None
    """Norm of the values of each head, without a gain (Gemma-4); its scale is a constant of the linearised layer, at each source
    token and key-value head. Values have no bias then."""

    @property
    def gain(self) -> Float[Tensor, "head d_head"]:
        """Gain of the norm before W_O, ones without it."""
        ones = self.w_o.new_ones(()).expand(self.w_o.shape[:2])
        return ones if self.norm is None else self.norm.gain.view(ones.shape)

    def normed(self, z: Float[Tensor, "*lead head d_head"]) -> Float[Tensor, "*lead head d_head"]:
        """Weighted values of all heads after the norm before W_O; unchanged without it."""
        return z if self.norm is None else self.norm(z.flatten(-2)).view(z.shape)

    def reciprocal_scale(
        self, pattern: Float[Tensor, "*batch head query key"], value: Float[Tensor, "*batch key kv_head d_head"]
    ) -> Float[Tensor, "*batch query head 1"]:
        """1 / scale of the norm before W_O, the same for all heads: its factor of every query's weighted values, but for the gain."""
        assert self.norm is not None, "no norm before W_O"
        heads = value.to(self.w_o).repeat_interleave(len(self.w_o) // value.shape[-2], dim=-2)
        z = einsum(pattern.to(heads), heads, "... head query key, ... key head e -> ... query head e")
        return (1 / self.norm.scale(z.flatten(-2)))[..., None].expand(*z.shape[:-1], 1)

    def values(self, x: Float[Tensor, "key d"]) -> Float[Tensor, "key kv_head d_head"]:
        """Values `x W_V + b_V` of attention's input x, or of its latent vector."""
        x = x if self.latent is None else self.latent(x)
        values = einsum(x, self.w_v, "key d, kv_head d d_head -> key kv_head d_head") + self.b_v
        return values if self.value_norm is None else self.value_norm(values)


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
    scaled_input: bool = False
    """Whether an expert's router weight multiplies its input instead of its output (Llama-4); such experts have no biases."""

    @property
    def inputs(self) -> tuple[tuple[InputMatrix, Float[Tensor, "d d_mlp"], Float[Tensor, " d_mlp"]], ...]:
        """Each input matrix with its name and bias: of the pre-activation, then (gated) of the linear branch."""
        plain: tuple[InputMatrix, Tensor, Tensor] = ("in", self.w_in, self.b_in)
        return (plain,) if self.w_gate is None or self.b_gate is None else (("gate", self.w_gate, self.b_gate), plain)

    def pre_activations(self, x: Float[Tensor, "query d"]) -> tuple[Tensor, Tensor | None]:
        """Pre-activation (of the gate, if there is one) and linear branch, [query d_mlp]; None for the branch without a gate."""
        pre, *linear = (x @ w + b for _, w, b in self.inputs)
        return pre, linear[0] if linear else None

    def weighed(self, x: Float[Tensor, "query d"], weight: Float[Tensor, " query"]) -> Float[Tensor, "query d_mlp"]:
        """Activations of an expert with input x times its router weights, which multiply x itself if they scale its input."""
        pre, linear = self.pre_activations(x)
        if self.scaled_input:
            return self.activation.output(weight[:, None] * pre, None if linear is None else weight[:, None] * linear)
        return self.activation.output(pre, linear) * weight[:, None]

    def neurons(self, chosen: Int[Tensor, " neuron"]) -> "FeedForward":
        """The feed-forward restricted to some neurons, with the whole output bias."""
        return replace(
            self,
            w_in=self.w_in[:, chosen],
            b_in=self.b_in[chosen],
            w_out=self.w_out[chosen],
            w_gate=None if self.w_gate is None else self.w_gate[:, chosen],
            b_gate=None if self.b_gate is None else self.b_gate[chosen],
        )


@dataclass(frozen=True)
class Block:
    """Weights of one layer. The order determines which norms exist; the others are None."""

    layer: int
    order: Order
    causal: bool
    attention: AttentionWeights
    feed_forward: FeedForward | tuple[FeedForward, ...] | None
    """Feed-forward, or every expert of a mixture, shared ones last, which are summed with the router's weights; None in
    attention-only models."""
    attn_norm: Norm | None = None
    """Norm before attention (pre_ln, sandwich, parallel, attn_only)."""
    ff_norm: Norm | None = None
    """Norm before the feed-forward (pre_ln, sandwich, parallel)."""
    attn_out_norm: Norm | None = None
    """Norm of the attention output inside its branch (sandwich, norm_after)."""
    ff_out_norm: Norm | None = None
    """Norm of the feed-forward output inside its branch (sandwich, norm_after)."""
    mid_norm: Norm | None = None
    """LayerNorm after the first residual (post_ln)."""
    out_norm: Norm | None = None
    """post_ln: LayerNorm after the second residual. Other orders: the norm that reads the layer's output, which is the next
    layer's first norm or the final norm. norm_after: only the last layer has one."""
    multipliers: Mapping[Branch | Literal["layer"], float] = field(default_factory=dict)
    """Factors of the branches in their sums with the residual stream (Granite), and of the layer's output (Gemma-4); 1 for those that
    are not named."""

    @cached_property
    def value_constant(self) -> Float[Tensor, "head d_head"]:
        """Constant part of every value vector, which no token contributes: b_V, and the shift of the norm before attention times W_V."""
        attention, norm = self.attention, self.attn_norm
        constant = attention.b_v
        if norm is not None and attention.latent is None:  # RMSNorm before a latent vector has no shift
            constant = constant + einsum(norm.shift, attention.w_v, "d, kv_head d d_head -> kv_head d_head")
        return constant.repeat_interleave(attention.w_o.shape[0] // len(constant), dim=0)

    def factors(self, operation: Add) -> tuple[float, float]:
        """Factors of a sum's left and right operand."""
        whole = self.multipliers.get("layer", 1.0) if operation == output_step(self.order).operation else 1.0
        return whole * self.multipliers.get(operation.branch, 1.0), whole

    def norm(self, name: NormName) -> Norm:
        """One of the norms that the order has."""
        norm: Norm | None = getattr(self, name)
        assert norm is not None, f"a {self.order} block has no {name}"
        return norm


def on_cpu(tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors on the CPU. Small tensors of one device and dtype are copied together, since each copy waits for the device."""
    found, together = list(tensors), dict[tuple[torch.device, torch.dtype], list[int]]()
    for number, tensor in enumerate(tensors):
        if tensor.device.type != "cpu" and tensor.nbytes <= _COPIED_TOGETHER:
            together.setdefault((tensor.device, tensor.dtype), []).append(number)
        else:
            found[number] = tensor.cpu()
    for numbers in together.values():
        several = [found[number] for number in numbers]
        flat = torch.cat([tensor.reshape(-1) for tensor in several]).cpu()
        parts = torch.split(flat, [tensor.numel() for tensor in several])
        for number, tensor, part in zip(numbers, several, parts, strict=True):
            found[number] = part.view(tensor.shape).clone()  # own memory, not a view of the joint copy
    return found


def feed_forwards(block: Block) -> tuple[FeedForward, ...]:
    """Feed-forward of the layer as a tuple of one, or its experts; empty in attention-only models."""
    ff = block.feed_forward
    return () if ff is None else (ff,) if isinstance(ff, FeedForward) else ff


@dataclass(frozen=True)
class LayerRecord:
    """Tensors of one layer in one forward pass, with a leading `batch` axis until `sequence` selects one sequence.

    `whole[scope]` is the model's own tensor at the end of a scope, read by its hooks; the sum of the contributions is compared
    with it. The axes of each tensor are read from its field's annotation, so that `sequence` and `rows` index all tensors
    without naming them.
    """

    block: Block
    queries: Int[Tensor, "*batch query"]
    """Positions of the rows."""
    resid_pre: Float[Tensor, "*batch key d"]
    pattern: Float[Tensor, "*batch head query own_key"]
    """Attention pattern over the keys of a query's own sequence, which are all keys unless sequences are concatenated."""
    value: Float[Tensor, "*batch key kv_head d_head"]
    pre: Float[Tensor, "*batch query d_mlp"] | None
    """Pre-activation (of the gate where there is one)."""
    pre_linear: Float[Tensor, "*batch query d_mlp"] | None
    post: Float[Tensor, "*batch query d_mlp"] | None
    whole: Mapping[str, Float[Tensor, "*batch query d"]]
    gate: Float[Tensor, "*batch query head gated"] | None = None
    """Gate of attention, by which every query multiplies its weighted values before W_O, one number for each channel of a head or one
    for all (gated attention, arXiv 2505.06708; 1 / scale of a norm before W_O); a constant of the linearised layer, like the pattern."""
    taps: Float[Tensor, "*batch key head d_head tap"] | None = None
    """Of a mixer with a convolution (mixers.py): factor with which the value t positions before a key is part of the key's."""
    constant: Float[Tensor, "*batch query head d_head"] | None = None
    """Of a mixer with a convolution: part of the weighted values that no token contributes, before the gate."""
    post_factor: Float[Tensor, "*batch query d_mlp"] | None = None
    """Gain over scale of a norm of the activations before W_out (BitNet), a constant of the linearised layer; None without one."""
    routing: Float[Tensor, "*batch query expert"] | None = None
    """Router weights, zero for experts that were not chosen; constants of the linearised layer, like the pattern."""
    query: Float[Tensor, "*batch query head d_head"] | None = None
    """Query vectors as multiplied in attention (after any rotation and query norm); None if they were not asked for."""
    key: Float[Tensor, "*batch key kv_head d_head"] | None = None
    """Key vectors, likewise."""
    edited: bool = False
    """Whether user hooks changed a tensor inside the block: a gap is then the effect of the edit, the remainder."""

    @property
    def layer(self) -> int:
        """Layer number in the model."""
        return self.block.layer

    def tensor(self, operand: str) -> Float[Tensor, "query d"]:
        """The model's own tensor of a scope, or the layer's input at the queries; of one sequence only."""
        return self._own_input if operand == INPUT else self.whole[operand]

    @cached_property
    def _own_input(self) -> Float[Tensor, "query d"]:
        return self.resid_pre[self.queries]

    def scale(self, operand: str, name: NormName) -> Float[Tensor, "query 1"]:
        """Scale of a norm of the block in the forward pass, at the queries."""
        if (operand, name) not in self._scales:
            self._scales[operand, name] = self.block.norm(name).scale(self.tensor(operand))
        return self._scales[operand, name]

    @cached_property
    def _scales(self) -> dict[tuple[str, NormName], Tensor]:
        return {}

    @cached_property
    def pattern_sums(self) -> Float[Tensor, "*batch head query"]:
        """Row sums of the attention pattern: 1 without attention sinks."""
        return self.pattern.sum(dim=-1)

    @property
    def head_values(self) -> Float[Tensor, "*batch key head d_head"]:
        """Value vectors of all heads; those of a key-value head are repeated for each head that shares it."""
        shared = self.block.attention.w_o.shape[0] // self.value.shape[-2]
        return self.value if shared == 1 else self.value.repeat_interleave(shared, dim=-2)

    def gated(
        self, z: Float[Tensor, "row head d_head"], query: int | slice = slice(None)
    ) -> Float[Tensor, "row head d_head"]:
        """Weighted values of every query times its gate, and the gain of a norm before W_O; unchanged without one.

        Args:
            z: Values of each query, or of any rows for one query.
            query: The query; all by default.
        """
        if self.gate is None:
            return z
        gated = z * self.gate[query]
        return gated if self.block.attention.norm is None else gated * self.block.attention.gain

    @property
    def z(self) -> Float[Tensor, "query head d_head"]:
        """Weighted values of every query, times its gate and the gain of a norm before W_O, by which they are multiplied."""
        own, attention = self.by_channel, self.block.attention
        z = einsum(own.pattern, own.head_values, "head query key, key head e -> query head e")
        z = z if own.constant is None else z + own.constant
        return z.reshape(-1, *attention.w_o.shape[:2]) * attention.gain

    @property
    def is_by_channel(self) -> bool:
        """Whether weights of source tokens differ between channels of a head, by a gate or a convolution."""
        return self.gate is not None or self.taps is not None

    @property
    def by_channel(self) -> "LayerRecord":
        """The same layer without gate and convolution, which become part of the pattern; itself without them.

        A channel e of a head is then a head of its own, of width 1, whose weights have any sign:

            sum_j P_ij (g_i * v_j) W_O = sum_e sum_s (g_ie sum_n P_i,s+n k_s+n,ne) u_se W_O[e]

        with v_j = sum_n k_jn * u_j-n. A gate of one number per head leaves heads as they are. Queries and keys are omitted.
        """
        return self._by_channel if self.is_by_channel else self

    @cached_property
    def _by_channel(self) -> "LayerRecord":
        attention, constant = self.block.attention, self.constant
        shared = len(attention.w_o) // len(attention.w_v)
        channels = self.pattern[:, None]
        if self.gate is not None:
            channels = rearrange(self.gate, "query head e -> head e query 1") * channels
            constant = None if constant is None else constant * self.gate
        if self.taps is not None:
            channels = _convolved(channels, self.taps)
        value, w_o = self.head_values, attention.w_o * attention.gain[..., None]
        w_v, b_v = (tensor.repeat_interleave(shared, dim=0) for tensor in (attention.w_v, attention.b_v))
        if channels.shape[1] > 1:
            value, w_o = rearrange(value, "key head e -> key (head e) 1"), rearrange(w_o, "head e d -> (head e) 1 d")
            w_v, b_v = rearrange(w_v, "head d e -> (head e) d 1"), rearrange(b_v, "head e -> (head e) 1")
            constant = None if constant is None else rearrange(constant, "query head e -> query (head e) 1")
        block = replace(self.block, attention=replace(attention, w_o=w_o, w_v=w_v, b_v=b_v, norm=None))
        pattern = channels.flatten(0, 1)
        return replace(
            self,
            block=block,
            pattern=pattern,
            value=value,
            constant=constant,
            gate=None,
            taps=None,
            query=None,
            key=None,
        )

    def pre_activations(
        self, ff: FeedForward, x: Float[Tensor, "query d"]
    ) -> tuple[Float[Tensor, "query d_mlp"], Float[Tensor, "query d_mlp"] | None]:
        """Pre-activations of a feed-forward with input x: captured, or recomputed from x for an expert."""
        return ff.pre_activations(x) if self.pre is None else (self.pre, self.pre_linear)

    def input_weight(self, number: int, ff: FeedForward) -> Float[Tensor, "query 1"] | None:
        """Router weights of an expert if they multiply its input; else None."""
        return self.routing[:, number, None] if ff.scaled_input and self.routing is not None else None

    def coefficients(self, number: int, ff: FeedForward, x: Float[Tensor, "query d"]) -> PathCoefficients:
        """Path coefficients of Integrated Gradients of a feed-forward with input x, at all queries.

        A router weight that multiplies the input is a factor of every term of a pre-activation, as one that multiplies the output;
        coefficients are those of the multiplied pre-activations.
        """
        (pre, linear), weight = self.pre_activations(ff, x), self.input_weight(number, ff)
        if weight is not None:
            pre, linear = weight * pre, None if linear is None else weight * linear
        found = ff.activation.coefficients(pre, linear)
        return found if self.post_factor is None else found.times(self.post_factor)

    def feed_forwards(self) -> Iterator[tuple[int, FeedForward, Float[Tensor, " query"] | None]]:
        """Number, weights and router weights of the feed-forward, or of each expert that some query was sent to."""
        for number, ff in enumerate(feed_forwards(self.block)):
            weight = None if self.routing is None else self.routing[:, number]
            if weight is None or bool(weight.any()):
                yield number, ff, weight

    def sequence(self, index: int, keep: Int[Tensor, " key"] | None = None) -> "LayerRecord":
        """Record of one sequence of the batch, in the decomposition's dtype and on the layer's device.

        Args:
            index: Index in the batch.
            keep: Real (unpadded) positions of the sequence, ascending; they are renumbered from 0. None means all.
        """
        weights = self.block.attention.w_o

        def take(_: Sequence[str], tensor: Tensor) -> Tensor:
            return tensor[index].to(weights if tensor.is_floating_point() else weights.device)

        record = self._changed(take)
        if keep is None:
            return record
        keep = keep.to(weights.device)
        real = record._cut({"query": torch.isin(record.queries, keep), "key": keep})
        return replace(real, queries=torch.searchsorted(keep, real.queries))

    @classmethod
    def below_each_other(cls, records: Sequence["LayerRecord"]) -> "LayerRecord":
        """Record of equally long sequences of one layer, concatenated along rows and keys in their order.

        A row of the pattern is over the keys of its own sequence; queries are numbered over all keys.
        """
        if len(records) == 1:
            return records[0]
        return records[0]._changed(lambda _, *tensors: torch.stack(tensors), *records[1:]).flattened(slice(None))

    def flattened(self, sequences: slice) -> "LayerRecord":
        """Record of some sequences of a batch, concatenated as by `below_each_other`, with all their rows and keys."""
        weights, n_keys = self.block.attention.w_o, self.resid_pre.shape[1]

        def take(axes: Sequence[str], tensor: Tensor) -> Tensor:
            chosen = tensor[sequences].to(weights if tensor.is_floating_point() else weights.device)
            return chosen.transpose(0, 1).flatten(1, 2) if axes[0] == "head" else chosen.flatten(0, 1)

        flat = self._changed(take)
        if len(flat.resid_pre) == n_keys:
            return flat
        first_keys = n_keys * torch.arange(len(flat.resid_pre) // n_keys, device=flat.queries.device)
        return replace(flat, queries=flat.queries + first_keys.repeat_interleave(self.queries.shape[1]))

    def rows(self, chosen: slice | Bool[Tensor, " query"] | Int[Tensor, " chosen"]) -> "LayerRecord":
        """Record of the same sequence with some of its queries."""
        return self._cut({"query": chosen})

    def keys(self, chosen: slice) -> "LayerRecord":
        """Record of the same sequence with the values and weights of some keys; its queries keep their numbers."""
        return self._cut({"key": chosen})

    def neurons(self, chosen: Int[Tensor, " neuron"]) -> "LayerRecord":
        """Record of the same sequence with the activations of some neurons of a dense feed-forward."""
        return self._cut({"d_mlp": chosen})

    def _cut(self, chosen: Mapping[str, slice | Tensor]) -> "LayerRecord":
        """Record with the chosen entries of the named axes, in every tensor that has them."""

        def cut(axes: Sequence[str], tensor: Tensor) -> Tensor:
            for number, axis in enumerate(axes):
                if axis in chosen:
                    tensor = tensor[(slice(None),) * number + (chosen[axis],)]
            return tensor

        return self._changed(cut)

    def _changed(self, change: Callable[..., Tensor], *others: "LayerRecord") -> "LayerRecord":
        """Record whose every tensor is `change(axes, tensor, *tensors of the other records)`."""
        changed: dict[str, Any] = {}
        for name, axes in _AXES.items():
            held = [getattr(record, name) for record in (self, *others)]
            if isinstance(held[0], Mapping):
                changed[name] = {scope: change(axes, *(tensors[scope] for tensors in held)) for scope in held[0]}
            elif held[0] is not None:
                changed[name] = change(axes, *held)
        return replace(self, **changed)


def _convolved(
    channels: Float[Tensor, "head _e query key"], taps: Float[Tensor, "key head e tap"]
) -> Float[Tensor, "head e query key"]:
    """Weights of values before a convolution: `sum_t P_i,s+t k_s+t,t`."""
    n_keys, *_, n_taps = taps.shape
    factors = rearrange(taps, "key head e tap -> tap head e 1 key")
    made = channels * factors[0]
    for tap in range(1, min(n_taps, n_keys)):
        made[..., :-tap] += channels[..., tap:] * factors[tap, ..., tap:]
    return made


# Axes of every tensor field after the batch axis, from the field's annotation.
_AXES = {
    field_.name: tuple(axes[1].replace("own_", "").split())
    for field_ in fields(LayerRecord)
    if (axes := re.search(r"\*batch ([\w ]+)", str(field_.type)))
}


@dataclass(eq=False)
class BatchRecords(Mapping[int, LayerRecord]):
    """Records of a layer by number of the sequence in a batch; each is selected at its first use.

    `batch` is the layer's record with its batch axis. `numbers` are the numbers of its sequences in the input. `real` are their
    unpadded positions, ascending; None means all. `asked` are the positions of the rows asked for, ascending, counted within
    each sequence. `lengthened` says that padding follows each sequence, masked out for it, and was part of the forward pass.
    """

    batch: LayerRecord
    numbers: Sequence[int]
    real: Sequence[Int[Tensor, " _pos"] | None]
    asked: Sequence[Sequence[int]]
    lengthened: bool = False
    rows: Sequence[Sequence[int]] | None = None
    """Positions of the batch's rows, if they are known without reading them from the device."""
    _cut: dict[int, LayerRecord] = field(default_factory=dict)

    @cached_property
    def alike(self) -> bool:
        """Whether the batch equals what was asked for: no padding, and the same rows of every sequence."""
        same = [list(asked) for asked in self.asked] == [list(rows) for rows in self.captured]
        return same and all(real is None for real in self.real)

    @cached_property
    def captured(self) -> Sequence[Sequence[int]]:
        """Positions of the captured rows of each sequence."""
        rows: Sequence[Sequence[int]] = self.batch.queries.tolist() if self.rows is None else self.rows
        return rows

    @cached_property
    def whole(self) -> bool:
        """Whether the batch equals what was asked for, up to rows and keys after each sequence's end.

        These can be cut off after the decomposition.
        """
        if not self.lengthened:
            return self.alike
        every_row = list(range(self.batch.resid_pre.shape[1]))
        pairs = zip(self.asked, self.captured, strict=True)
        return all(list(asked) == every_row[: len(asked)] and list(rows) == every_row for asked, rows in pairs)

    def __getitem__(self, number: int) -> LayerRecord:
        """Record of one sequence: its real tokens, and the rows asked for.

        Raises:
            KeyError: if the batch has no sequence of this number.
            InputError: if a row was not captured.
        """
        if number not in self.numbers:
            raise KeyError(number)
        if number not in self._cut:
            index = self.numbers.index(number)
            record, asked = self.batch.sequence(index, self.real[index]), list(self.asked[index])
            if record.queries.tolist() != asked:
                record = record.rows(torch.isin(record.queries, torch.tensor(asked, device=record.queries.device)))
            if len(record.queries) != len(asked):
                raise InputError(
                    f"cache: layer {record.layer} was captured at queries {self.batch.queries[index].tolist()}; asked for are "
                    f"{asked}. Capture them too, or omit cache."
                )
            self._cut[number] = record
        return self._cut[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)
