"""A model's own parameters -> `Block`: one convention for every API and family.

Everything is read from the modules that run, not from the configuration, which is wrong or empty
in places (activation names, widths): the activation is the module's own function, recognised by its
values; the gain of an offset RMSNorm is 1 + weight; absent biases are zero.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.linears import SHARED_EXPERT, Linear, bias, linear_of, matrix
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import has_experts, is_gated, norm_module
from tl_ffblock.errors import FFBlockError, UnsupportedModelError
from tl_ffblock.layer.activations import Activation, ClampedGate, recognise
from tl_ffblock.layer.records import AttentionWeights, Block, Experts, FeedForward, Norm
from tl_ffblock.layer.scopes import PROGRAMS, Normalise, NormName

_ACTIVATION_ATTRIBUTES = ("act", "act_fn", "activation_fn", "gelu_impl", "activation")


def read_block(model: Model, layer: int, dtype: torch.dtype) -> Block:
    """The weights of one layer in the decomposition's dtype, on their own device, detached.

    Raises:
        UnsupportedModelError: if they are not where a block of this family has them.
    """
    try:
        return _read_block(model, layer, dtype)
    except (AttributeError, TypeError, ValueError, IndexError, RuntimeError) as error:
        if isinstance(error, FFBlockError):
            raise
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}), layer {layer}: its weights are not laid out as a {model.family.order} "
            f"block's: {error}"
        ) from error


def _read_block(model: Model, layer: int, dtype: torch.dtype) -> Block:
    block = model.hooked.blocks[layer]
    return Block(
        layer=layer,
        order=model.family.order,
        causal=model.family.causal,
        attention=_attention(block.attn, dtype),
        feed_forward=_feed_forward(model, layer, dtype),
        **_norms(model, layer, dtype),
    )


def _norms(model: Model, layer: int, dtype: torch.dtype) -> dict[NormName, Norm]:
    """Every norm of the layer's program."""
    like = _like(model, layer, dtype)
    roles = [step.operation.norm for step in PROGRAMS[model.family.order] if isinstance(step.operation, Normalise)]
    return {role: _norm(model, norm_module(model, layer, role), like) for role in roles}


def working_dtype(model: Model) -> torch.dtype:
    """float64 for float64 models, else float32: half-precision weights are read exactly into it."""
    dtype = next(model.hooked.parameters()).dtype
    return torch.float64 if dtype == torch.float64 else torch.float32


def is_processed(model: Model) -> bool:
    """Whether weights were folded or centred after loading (norms are not invariant to that)."""
    hooked = model.hooked
    if model.api == "TransformerBridge":
        return bool(getattr(hooked, "_weights_processed", False))
    if str(getattr(hooked.cfg, "normalization_type", "")).endswith("Pre"):
        return True  # fold_ln
    block = hooked.blocks[0]
    if model.family.order == "post_ln" or (hasattr(block, "mlp") and has_experts(block.mlp)):
        return False
    w_out = block.mlp.W_out if hasattr(block, "mlp") else block.attn.W_O  # center_writing_weights
    return bool(w_out.mean(dim=-1).abs().max() < 1e-5 * w_out.abs().max())


def _attention(attn: Any, dtype: torch.dtype) -> AttentionWeights:
    w_o, w_v = (_tensor(matrix(attn, name), dtype) for name in ("W_O", "W_V"))
    return AttentionWeights(
        w_o=w_o,
        b_o=_bias(bias(attn, "b_O"), (w_o.shape[-1],), w_o),
        w_v=w_v,
        b_v=_bias(bias(attn, "b_V"), (w_v.shape[0], w_o.shape[1]), w_o),
    )


def _feed_forward(model: Model, layer: int, dtype: torch.dtype) -> FeedForward | Experts | None:
    if model.family.order == "attn_only":
        return None
    mlp = model.hooked.blocks[layer].mlp
    if has_experts(mlp):
        return read_experts(model, layer, dtype)
    w_in, w_out = (_tensor(matrix(mlp, name), dtype) for name in ("W_in", "W_out"))
    gated = is_gated(mlp)
    d_mlp, d_model = w_out.shape
    return FeedForward(
        w_in=w_in,
        b_in=_bias(bias(mlp, "b_in"), (d_mlp,), w_in),
        w_out=w_out,
        b_out=_bias(bias(mlp, "b_out"), (d_model,), w_in),
        activation=read_activation(model, layer),
        w_gate=_tensor(matrix(mlp, "W_gate"), dtype) if gated else None,
        b_gate=_bias(bias(mlp, "b_gate"), (d_mlp,), w_in) if gated else None,
    )


def read_experts(model: Model, layer: int, dtype: torch.dtype) -> Experts:
    """The experts of a layer, shared ones last.

    Raises:
        UnsupportedModelError: if they are of no known form.
    """
    mlp = model.hooked.blocks[layer].mlp
    if model.api != "TransformerBridge":
        return Experts(
            tuple(
                _linear_expert(e.W_gate, e.W_in, e.W_out, recognise(e.act_fn, f"layer {layer}"), dtype)
                for e in mlp.experts
            )
        )
    original = mlp.original_component
    experts = _inner(original.experts)
    if hasattr(experts, "gate_up_proj_bias"):
        routed = _interleaved_experts(experts, dtype)
    elif hasattr(experts, "gate_up_proj"):
        routed = _stacked_experts(experts, recognise(experts.act_fn, f"layer {layer}"), dtype)
    else:
        raise UnsupportedModelError(f"layer {layer}: experts of type {type(experts).__name__} are of no known form.")
    if hasattr(original, "shared_expert"):
        shared = _inner(original.shared_expert)
        activation = recognise(shared.act_fn, f"layer {layer}")
        gate, up, down = (_inner(getattr(shared, name)) for name in SHARED_EXPERT)
        routed += (_linear_expert(gate, up, down, activation, dtype),)
    return Experts(routed)


def read_norm(model: Model, name: str, dtype: torch.dtype) -> Norm:
    """A norm by the name of its module."""
    return _norm(model, name, _like(model, 0, dtype))


def normalises_routing(model: Model, layer: int) -> bool:
    """Whether the chosen experts' weights are scaled to sum to 1 (Qwen routers may not)."""
    mlp = model.hooked.blocks[layer].mlp
    owner = _router(mlp) if model.api == "TransformerBridge" else mlp.cfg
    return bool(getattr(owner, "norm_topk_prob", True))


def router_bias(model: Model, layer: int) -> Float[Tensor, " expert"] | None:
    """The bias in the logits of a router whose weights are the softmax of those of the chosen experts (gpt_oss); else None."""
    if model.api != "TransformerBridge" or not normalises_routing(model, layer):
        return None
    bias = getattr(_router(model.hooked.blocks[layer].mlp), "bias", None)
    return bias.detach() if isinstance(bias, Tensor) else None


def experts_per_token(model: Model, layer: int) -> int:
    """How many experts a router chooses."""
    return int(_router(model.hooked.blocks[layer].mlp).top_k)


def _router(mlp: Any) -> Any:
    original = mlp.original_component
    return _inner(getattr(original, "gate", getattr(original, "router", None)))


def _linear_expert(gate: Any, up: Any, down: Any, activation: Activation, dtype: torch.dtype) -> FeedForward:
    """An expert of three linear modules."""
    gate, up, down = (linear_of(m, "an expert") or Linear(m.weight.T, m.bias) for m in (gate, up, down))
    w_gate, w_in, w_out = (_tensor(linear.weight, dtype) for linear in (gate, up, down))
    d_mlp, d_model = w_out.shape
    b_in, b_gate = (_bias(linear.bias, (d_mlp,), w_in) for linear in (up, gate))
    return FeedForward(w_in, b_in, w_out, _bias(down.bias, (d_model,), w_in), activation, w_gate, b_gate)


def _stacked_experts(experts: Any, activation: Activation, dtype: torch.dtype) -> tuple[FeedForward, ...]:
    """Mixtral, Qwen: gate_up_proj [expert 2 d_mlp d_model], the gate first; no biases."""
    experts_read = []
    for gate_up, down in zip(_tensor(experts.gate_up_proj, dtype), _tensor(experts.down_proj, dtype), strict=True):
        gate, up = gate_up.chunk(2, dim=0)
        none = gate.new_zeros(len(gate))
        experts_read.append(FeedForward(up.T, none, down.T, gate.new_zeros(len(down)), activation, gate.T, none))
    return tuple(experts_read)


def _interleaved_experts(experts: Any, dtype: torch.dtype) -> tuple[FeedForward, ...]:
    """gpt_oss: gate_up_proj [expert d_model 2 d_mlp], gate and linear branch alternating, biases, both clamped."""
    alpha, limit = float(experts.alpha), float(experts.limit)

    def gate(s: Tensor) -> Tensor:
        return torch.sigmoid(alpha * s)

    activation = ClampedGate("clamped_silu", lambda s: s * gate(s), gate, limit=limit)
    weights = (experts.gate_up_proj, experts.gate_up_proj_bias, experts.down_proj, experts.down_proj_bias)
    return tuple(
        FeedForward(w[:, 1::2], b[1::2], w_out, b_out, activation, w[:, ::2], b[::2])
        for w, b, w_out, b_out in zip(*(_tensor(weight, dtype) for weight in weights), strict=True)
    )


def _inner(module: Any) -> Any:
    """The Hugging Face module behind a bridge component."""
    return getattr(module, "original_component", module)


def read_activation(model: Model, layer: int) -> Activation:
    """The activation of a dense feed-forward.

    Raises:
        UnsupportedModelError: if it is not elementwise, or cannot be found.
    """
    block = model.hooked.blocks[layer]
    where = f"layer {layer}"
    if model.api != "TransformerBridge":
        return recognise(block.mlp.act_fn, f"{where}, act_fn={model.hooked.cfg.act_fn!r}")
    owners = [getattr(block.mlp, "original_component", None)]
    original = getattr(block, "original_component", None)
    owners += [getattr(original, "intermediate", None), original]
    for owner in owners:
        for attribute in (*_ACTIVATION_ATTRIBUTES, "intermediate_act_fn"):
            function = getattr(owner, attribute, None)
            if callable(function):
                return recognise(function, where)
    raise UnsupportedModelError(
        f"{where}: no activation function found in {type(block.mlp).__name__}; it cannot be certified."
    )


def _norm(model: Model, name: str | None, like: Float[Tensor, " d"]) -> Norm:
    """A norm on the layer's own device: the next layer's may be elsewhere."""
    if name is None:
        return Norm.absent(like)
    norm, cfg = _module(model.hooked, name), model.hooked.cfg
    if model.api == "TransformerBridge":
        centred = not norm.uses_rms_norm
        offset = _gain_is_offset(norm, cfg, centred=centred)
    else:
        centred = str(cfg.normalization_type).startswith("LN")
        offset = False
    own_eps = (getattr(_inner(norm), attribute, None) for attribute in ("eps", "variance_epsilon"))
    eps = next((eps for eps in own_eps if eps is not None), cfg.eps)
    weight, shift = (getattr(norm, attribute, None) for attribute in ("w", "b"))
    gain = torch.ones_like(like) if weight is None else weight.detach().to(like)
    return Norm(gain + 1 if offset else gain, _bias(shift, like.shape, like), float(eps), centred)


def _gain_is_offset(norm: Any, cfg: Any, *, centred: bool) -> bool:
    """Whether the gain is 1 + weight: Gemma's RMSNorm, Nemotron's LayerNorm1P."""
    if hasattr(norm, "uses_weight_offset"):
        return bool(norm.uses_weight_offset)
    if centred:
        return type(_inner(norm)).__name__.endswith("1P")
    return bool(getattr(cfg, "rmsnorm_uses_offset", False))


def _like(model: Model, layer: int, dtype: torch.dtype) -> Float[Tensor, " d"]:
    """An empty vector of d_model on the layer's device, in the decomposition's dtype."""
    w_o = matrix(model.hooked.blocks[layer].attn, "W_O")
    return w_o.new_empty(w_o.shape[-1], dtype=dtype)


def _tensor(parameter: Tensor, dtype: torch.dtype) -> Tensor:
    return parameter.detach().to(dtype)


def _bias(parameter: Tensor | None, shape: tuple[int, ...], like: Tensor) -> Float[Tensor, "..."]:
    return like.new_zeros(shape) if parameter is None else parameter.detach().to(like)


def _module(root: Any, name: str) -> Any:
    for part in name.split("."):
        root = root[int(part)] if part.isdigit() else getattr(root, part)
    return root
