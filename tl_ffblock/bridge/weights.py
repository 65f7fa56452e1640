"""A model's own parameters -> `Block`: one convention for every API and family.

Everything is read from the modules that run, not from the configuration, which is wrong or empty
in places (activation names, widths): the activation is the module's own function, recognised by its
values; the gain of an offset RMSNorm is 1 + weight; absent biases are zero.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.activations import Activation, recognise
from tl_ffblock.bridge.families import Model
from tl_ffblock.bridge.sites import next_norm
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.records import AttentionWeights, Block, FeedForward, Norm

_ACTIVATION_ATTRIBUTES = ("act", "act_fn", "activation_fn", "gelu_impl", "activation")


def read_block(model: Model, layer: int, dtype: torch.dtype) -> Block:
    """The weights of one layer in the decomposition's dtype, on their own device, detached."""
    block = model.lens.blocks[layer]
    order = model.family.order
    post_ln = order == "post_ln"
    first, second = _norm(model, block.ln1, dtype), _norm(model, block.ln2, dtype)
    after = second if post_ln else _norm(model, _module(model.lens, next_norm(model, layer)), dtype)
    return Block(
        layer=layer,
        order=order,
        causal=model.family.causal,
        attention=_attention(block.attn, None if post_ln else first, dtype),
        feed_forward=_feed_forward(model, layer, dtype),
        ff_norm=None if post_ln else second,
        mid_norm=first if post_ln else None,
        out_norm=after,
    )


def working_dtype(model: Model) -> torch.dtype:
    """float64 for float64 models, else float32: half-precision weights are read exactly into it."""
    dtype = next(model.lens.parameters()).dtype
    return torch.float64 if dtype == torch.float64 else torch.float32


def is_processed(model: Model) -> bool:
    """Whether weights were folded or centred after loading (norms are not invariant to that)."""
    lens = model.lens
    if getattr(lens, "_weights_processed", False):
        return True
    if str(getattr(lens.cfg, "normalization_type", "")).endswith("Pre"):
        return True
    if model.api == "TransformerBridge" and not lens.compatibility_mode:
        return False
    if model.family.order == "post_ln":
        return False
    w_out = lens.blocks[0].mlp.W_out
    centred = w_out.mean(dim=-1).abs().max() < 1e-5 * w_out.abs().max()
    gain = getattr(lens.blocks[0].ln1, "w", None)
    return bool(centred) or gain is None or bool((gain == 1).all())


def _attention(attn: Any, norm: Norm | None, dtype: torch.dtype) -> AttentionWeights:
    w_o = _tensor(attn.W_O, dtype)
    heads, d_head, d_model = w_o.shape
    w_v = _tensor(attn.W_V, dtype)
    constant = _bias(attn.b_V, (w_v.shape[0], d_head), w_o)
    if norm is not None:
        constant = constant + torch.einsum("d,hde->he", norm.shift, w_v)
    return AttentionWeights(
        w_o=w_o,
        b_o=_bias(attn.b_O, (d_model,), w_o),
        value_constant=constant.repeat_interleave(heads // w_v.shape[0], dim=0),
    )


def _feed_forward(model: Model, layer: int, dtype: torch.dtype) -> FeedForward:
    mlp = model.lens.blocks[layer].mlp
    w_in, w_out = _tensor(mlp.W_in, dtype), _tensor(mlp.W_out, dtype)
    gated = getattr(mlp, "W_gate", None) is not None
    d_mlp, d_model = w_out.shape
    return FeedForward(
        w_in=w_in,
        b_in=_bias(mlp.b_in, (d_mlp,), w_in),
        w_out=w_out,
        b_out=_bias(mlp.b_out, (d_model,), w_in),
        activation=_activation(model, layer),
        w_gate=_tensor(mlp.W_gate, dtype) if gated else None,
        b_gate=_bias(getattr(mlp, "b_gate", None), (d_mlp,), w_in) if gated else None,
    )


def _activation(model: Model, layer: int) -> Activation:
    block = model.lens.blocks[layer]
    where = f"layer {layer}"
    if model.api != "TransformerBridge":
        return recognise(block.mlp.act_fn, where)
    owners = [getattr(block.mlp, "original_component", None)]
    original = getattr(block, "original_component", None)
    owners += [getattr(original, "intermediate", None), original]
    for owner in owners:
        for attribute in (*_ACTIVATION_ATTRIBUTES, "intermediate_act_fn"):
            function = getattr(owner, attribute, None)
            if callable(function):
                return recognise(function, where)
    raise UnsupportedModelError(f"{where}: no activation function found in {type(block.mlp).__name__}; it cannot be certified.")


def _norm(model: Model, norm: Any, dtype: torch.dtype) -> Norm:
    original = getattr(norm, "original_component", None)
    if model.api == "TransformerBridge":
        centred = not norm.uses_rms_norm
        offset = centred is False and bool(getattr(norm, "uses_weight_offset", getattr(model.lens.cfg, "rmsnorm_uses_offset", False)))
    else:
        centred = str(model.lens.cfg.normalization_type).startswith("LN")
        offset = False
    eps = next((e for e in (getattr(original, a, None) for a in ("eps", "variance_epsilon")) if e is not None), model.lens.cfg.eps)
    weight, shift = getattr(norm, "w", None), getattr(norm, "b", None)
    like = _tensor(model.lens.blocks[0].attn.W_O, dtype)
    d_model = like.shape[-1]
    gain = torch.ones(d_model, dtype=dtype, device=like.device) if weight is None else _tensor(weight, dtype)
    return Norm(gain + 1 if offset else gain, _bias(shift, (d_model,), gain), float(eps), centred)


def _tensor(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return parameter.detach().to(dtype)


def _bias(parameter: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "..."]:
    return like.new_zeros(shape) if parameter is None else parameter.detach().to(like.dtype)


def _module(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = root[int(part)] if part.isdigit() else getattr(root, part)
    return root
