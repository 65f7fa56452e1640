"""Token mixers without a softmax, read from the modules of transformers.

A mixer is recognised by its parts: `x_proj` (Mamba), `dt_bias` and `D` (Mamba-2), `A_log` without `D` (gated delta nets), a convolution
without any of them (LFM2). What is read is confirmed by the module's own output in every forward pass (selfcheck.py).
"""

# Noun: token mixers (linear attention, state-space models) of `layer_types` in transformers
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn

from tl_ffblock.bridge.linears import Linear, linear_of
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.mixers import (
    Convolution,
    DeltaNet,
    GatedNorm,
    Mixer,
    Projection,
    SelectiveScan,
    ShortConvolution,
    StateSpace,
)
from tl_ffblock.layer.records import AttentionWeights

MIXERS = ("linear_attn", "mixer", "mamba", "conv")
"""Names of a layer's token mixer in a bridge, beside "attn"."""


def read_mixer(module: Any, dtype: torch.dtype, where: str) -> Mixer:
    """Weights of a mixer in the decomposition's dtype.

    Args:
        module: The bridge's component, or the module of transformers.
        dtype: Dtype of the weights.
        where: Model and layer, for errors.

    Raises:
        UnsupportedModelError: if its form is not known.
    """
    inner = _inner(module)
    form = next((form for parts, form in _FORMS if all(hasattr(inner, part) for part in parts)), None)
    if form is None or str(getattr(inner, "activation", "silu")) not in ("silu", "swish"):
        raise UnsupportedModelError(
            f"{where}: its token mixer ({type(inner).__name__}) has no known form; expected a gated delta net, Mamba, Mamba-2 or a "
            "short convolution with silu."
        )
    return form(_Reader(inner, dtype))


def _inner(module: Any) -> Any:
    return getattr(module, "original_component", module)


class _Reader:
    """Weights of one module of transformers, by role and head."""

    def __init__(self, module: Any, dtype: torch.dtype) -> None:
        self.module, self.dtype = module, dtype

    def tensor(self, name: str) -> Tensor:
        held: Tensor = getattr(self.module, name)
        return held.detach().to(self.dtype)

    def linear(self, name: str) -> Linear:
        module = _inner(getattr(self.module, name))
        weight, bias = linear_of(module, f"a mixer's {name}") or Linear(module.weight.T, module.bias)
        return Linear(weight.detach().to(self.dtype), None if bias is None else bias.detach().to(self.dtype))

    def convolution(self, name: str, channels: slice, n_heads: int, *, activates: bool = True) -> Convolution:
        """Convolution of some channels; Hugging Face's kernels have the present token last."""
        module = _inner(getattr(self.module, name))
        kernel = module.weight.detach().to(self.dtype)[channels, 0].flip(-1)
        bias = None if module.bias is None else module.bias.detach().to(self.dtype)[channels]
        by_head = None if bias is None else rearrange(bias, "(head e) -> head e", head=n_heads)
        return Convolution(rearrange(kernel, "(head e) tap -> head e tap", head=n_heads), by_head, activates)


def _projection(linear: Linear, columns: slice, n_heads: int) -> Projection:
    """Some columns of a linear module as one matrix for each head."""
    weight = rearrange(linear.weight[:, columns], "d (head e) -> d head e", head=n_heads)
    bias = None if linear.bias is None else rearrange(linear.bias[columns], "(head e) -> head e", head=n_heads)
    return Projection(weight, bias)


def _slices(sizes: Sequence[int]) -> list[slice]:
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]


def _attention(value: Projection, out: Linear, gain: Float[Tensor, "..."] | None = None) -> AttentionWeights:
    """W_V and W_O by head, with the gain of a norm before W_O, which may be one for all heads."""
    w_v = rearrange(value.weight, "d head e -> head d e")
    w_o = rearrange(out.weight, "(head e) d -> head e d", head=len(w_v))
    if gain is not None:
        w_o = w_o * gain.reshape(-1, w_o.shape[1], 1)
    b_o = w_o.new_zeros(w_o.shape[-1]) if out.bias is None else out.bias
    return AttentionWeights(w_o, b_o, w_v, w_o.new_zeros(w_o.shape[:2]) if value.bias is None else value.bias)


def _delta_net(reader: _Reader) -> DeltaNet:
    own = reader.module
    keys, values, split = own.num_k_heads, own.num_v_heads, hasattr(own, "q_proj")
    if hasattr(own, "in_proj_qkvz"):
        w_q, w_k, w_v, w_gate, w_beta, w_decay = _fused_delta_net(reader)
    else:
        parts = [own.key_dim, own.key_dim, own.value_dim]
        qkv = [(reader.linear(f"{name}_proj"), slice(None)) for name in "qkv"] if split else [
            (reader.linear("in_proj_qkv"), part) for part in _slices(parts)
        ]  # fmt: skip
        w_q, w_k, w_v = (_projection(*part, n) for part, n in zip(qkv, (keys, keys, values), strict=True))
        names = ("g_proj", "b_proj", "a_proj") if split else ("in_proj_z", "in_proj_b", "in_proj_a")
        w_gate, w_beta, w_decay = (_projection(reader.linear(name), slice(None), values) for name in names)
    q, k, v = _slices([own.key_dim, own.key_dim, own.value_dim])
    norm, out = _inner(own.o_norm if split else own.norm), reader.linear("o_proj" if split else "out_proj")
    return DeltaNet(
        attention=_attention(w_v, out, norm.weight.detach().to(reader.dtype)),
        convolution=reader.convolution("conv1d", v, values),
        norm=GatedNorm(_epsilon(norm), own.head_v_dim, after_gate=False),
        w_q=w_q, w_k=w_k, w_gate=w_gate, w_beta=w_beta, w_decay=w_decay,
        q_convolution=reader.convolution("conv1d", q, keys), k_convolution=reader.convolution("conv1d", k, keys),
        log_a=reader.tensor("A_log"), dt_bias=reader.tensor("dt_bias"),
        largest_beta=2.0 if getattr(own, "allow_neg_eigval", False) else 1.0,
    )  # fmt: skip


def _fused_delta_net(reader: _Reader) -> list[Projection]:
    """Matrices of queries, keys, values, gate, beta and decay from two, in which the parts of a key head are together."""
    own, shared = reader.module, reader.module.num_v_heads // reader.module.num_k_heads
    sizes = [own.head_k_dim, own.head_k_dim, shared * own.head_v_dim, shared * own.head_v_dim]
    found: list[Projection] = []
    for name, parts in (("in_proj_qkvz", sizes), ("in_proj_ba", [shared, shared])):
        weight = rearrange(reader.linear(name).weight, "d (group e) -> d group e", group=own.num_k_heads)
        found += [Projection(weight[..., part]) for part in _slices(parts)]
    return found[:2] + [
        replace(each, weight=rearrange(each.weight, "d group (head e) -> d (group head) e", head=shared))
        for each in found[2:]
    ]


def _state_space(reader: _Reader) -> StateSpace:
    own = reader.module
    heads, states, groups = own.num_heads, own.ssm_state_size, own.n_groups
    sizes = [own.intermediate_size, own.intermediate_size, groups * states, groups * states, heads]
    linear, multipliers = reader.linear("in_proj"), getattr(own, "mup_vector", None)
    if multipliers is not None:  # Falcon-H1: x ssm_in_multiplier W * multipliers, the bias without the first
        factor = multipliers.detach().to(reader.dtype).flatten()
        bias = None if linear.bias is None else linear.bias * factor
        linear = Linear(linear.weight * float(own.ssm_in_multiplier) * factor, bias)
    names = ("gate", "v", "b", "c", "dt")
    of = {
        name: _projection(linear, columns, groups if name in "bc" else heads)
        for name, columns in zip(names, _slices(sizes), strict=True)
    }
    x, b, c = _slices(sizes[1:4])
    norm, gated = _inner(getattr(own, "norm", None)), None
    if norm is not None and not isinstance(norm, nn.Identity):
        width = getattr(norm, "group_size", own.intermediate_size // getattr(norm, "n_groups", 1))
        gated = GatedNorm(_epsilon(norm), width, after_gate=not getattr(norm, "norm_before_gate", False))
    gain = None if gated is None else norm.weight.detach().to(reader.dtype)
    return StateSpace(
        attention=_attention(of["v"], reader.linear("out_proj"), gain),
        convolution=reader.convolution("conv1d", x, heads), norm=gated,
        w_b=of["b"], w_c=of["c"], w_dt=of["dt"], w_gate=of["gate"],
        b_convolution=reader.convolution("conv1d", b, groups), c_convolution=reader.convolution("conv1d", c, groups),
        log_a=reader.tensor("A_log"), dt_bias=reader.tensor("dt_bias"), skip=reader.tensor("D"),
        dt_limit=tuple(getattr(own, "time_step_limit", (0.0, float("inf")))),
    )  # fmt: skip


def _selective_scan(reader: _Reader) -> SelectiveScan:
    own, linear = reader.module, reader.linear("in_proj")
    width, rank = own.intermediate_size, own.time_step_rank
    values, gates = _slices([width, width])
    names = ("dt_layernorm", "b_layernorm", "c_layernorm")
    return SelectiveScan(
        attention=_attention(_projection(linear, values, width), reader.linear("out_proj")),
        convolution=reader.convolution("conv1d", slice(None), width), norm=None,
        w_x=_projection(reader.linear("x_proj"), slice(None), 1), w_dt=_projection(reader.linear("dt_proj"), slice(None), width),
        sizes=(rank, own.ssm_state_size), norms=tuple(_inner(getattr(own, name)) for name in names) if hasattr(own, names[0]) else None,
        log_a=reader.tensor("A_log"), skip=reader.tensor("D"), w_gate=_projection(linear, gates, width),
    )  # fmt: skip


def _short_convolution(reader: _Reader) -> ShortConvolution:
    linear = reader.linear("in_proj")
    width = linear.weight.shape[1] // 3
    source, gate, value = (_projection(linear, part, 1) for part in _slices([width] * 3))
    convolution = reader.convolution("conv", slice(None), 1, activates=False)
    return ShortConvolution(_attention(value, reader.linear("out_proj")), convolution, None, source, gate)


# Attributes of a module that tell its form, the first match counts.
_FORMS: tuple[tuple[tuple[str, ...], Callable[[_Reader], Mixer]], ...] = (
    (("x_proj", "dt_proj", "A_log"), _selective_scan),
    (("in_proj", "dt_bias", "D"), _state_space),
    (("num_v_heads", "A_log", "dt_bias"), _delta_net),
    (("conv", "in_proj", "out_proj"), _short_convolution),
)


def _epsilon(norm: Any) -> float:
    return float(next(getattr(norm, name) for name in ("variance_epsilon", "eps") if hasattr(norm, name)))
