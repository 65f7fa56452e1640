"""Which HookPoint carries which tensor of a block, and which module a norm of its program is.

A site is our word for a tensor of the block; `whole.<scope>` is the model's own tensor at the end of
a scope. Both tables follow from the layer's program (scopes.py), with the exceptions named here: some
aliases mean other sums in a Post-LN bridge (there `hook_attn_out` is the output of the first LayerNorm
and `hook_resid_mid` the input of the second).

A norm's output is `hook_out` on a bridge. HookedTransformer and HookedEncoder only have
`hook_normalized`, the same before gain and shift, and no HookPoint at all before a norm inside a
branch: that tensor is `hook_normalized * hook_scale` (site `scale.<scope>`).
"""

import re
from collections.abc import Collection, Sequence
from importlib.metadata import version
from typing import Any, Literal, TypeAlias

from torch import nn

from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.scopes import (
    INPUT,
    PROGRAMS,
    Add,
    Attend,
    Feed,
    Normalise,
    NormName,
    Step,
    feed_step,
    output_step,
)

BEFORE_GAIN = "hook_normalized"

_POST_LN_BRIDGE = {
    "Attn": "attn.o.hook_out",
    "AttnRes": "ln1.hook_in",
    "AtbFfRes": "ln2.hook_in",
    "AtbFfResLn": "hook_resid_post",
}
_POST_LN_HOOKED = {"AtbFfResLn": "hook_normalized_resid_post"}
"""Where the HookPoints of a Post-LN block are others than a step's kind says."""


Owner: TypeAlias = Literal["head", "mid", "mlp", "stream"]
"""Heads; the residual stream between attention and feed-forward, where attention comes first; the feed-forward from its norm
before to its norm behind; the residual stream at the layer's output."""
_OWNERS_OF_SHIFTS: dict[NormName, Owner] = {
    "attn_norm": "head",  # of a norm that both branches share, what attention reads
    "attn_out_norm": "mid",
    "mid_norm": "mid",
    "ff_norm": "mlp",
    "ff_out_norm": "mlp",
    "out_norm": "stream",
}


def site_names(model: Model, layer: int, extra: Collection[str] = ()) -> dict[str, str]:
    """HookPoint name of every site of a layer, and of the further ones asked for.

    Raises:
        UnsupportedModelError: if no HookPoint carries one of them.
    """
    sites = {"resid_pre": "hook_resid_pre", "pattern": "attn.hook_pattern", "value": "attn.hook_v"}
    sites |= _dense(model, layer) | {site: _query_or_key(model, layer, site) for site in extra}
    absolute = {site: f"blocks.{layer}.{name}" for site, name in sites.items()}
    if model.family.order != "attn_only" and has_experts(model.hooked.blocks[layer].mlp):
        absolute |= routing_names(model, layer)
    for step in PROGRAMS[model.family.order]:
        absolute |= _of_step(model, layer, step)
    return absolute


def norm_module(model: Model, layer: int, norm: NormName) -> str | None:
    """Name of the module that a norm of the layer's program is; None where this model has none."""
    name = _norm_name(model, layer, norm)
    return name if name is not None and has_norm(model, name) else None


def _norm_name(model: Model, layer: int, norm: NormName) -> str | None:
    block, order = model.hooked.blocks[layer], model.family.order
    prefix = f"blocks.{layer}."
    after_attention, after_ff = ("ln1_post", "ln2_post") if hasattr(block, "ln1_post") else ("ln1", "ln2")
    match norm:
        case "attn_norm" | "mid_norm":
            return f"{prefix}ln1"
        case "ff_norm":
            return f"{prefix}ln2" if hasattr(block, "ln2") else f"{prefix}ln1"  # some parallel blocks share the first
        case "attn_out_norm":
            return prefix + after_attention
        case "ff_out_norm":
            return prefix + after_ff
        case "out_norm" if order == "post_ln":
            return f"{prefix}ln2"
        case "out_norm" if layer + 1 == model.n_layers:
            return "ln_final"
        case "out_norm":
            return None if order == "norm_after" else f"blocks.{layer + 1}.ln1"


def has_norm(model: Model, name: str) -> bool:
    """Whether a module of this name is a norm that the model has: with `normalization_type=None` it is not there, or gives back what it gets."""
    module: Any = model.hooked
    for part in name.split("."):
        module = module[int(part)] if part.isdigit() else getattr(module, part, None)
    return module is not None and not isinstance(getattr(module, "original_component", module), nn.Identity)


def has_experts(mlp: Any) -> bool:
    """Whether a layer's feed-forward is a mixture of experts."""
    if getattr(mlp, "bound_dense", False):
        return False
    return hasattr(getattr(mlp, "original_component", mlp), "experts")


def is_gated(mlp: Any) -> bool:
    """Whether a dense feed-forward multiplies its activations with a second, linear branch."""
    return getattr(mlp, "W_gate", None) is not None


def values_name(layer: int) -> str:
    """HookPoint of z, the weighted values before the output matrix; every model obeys an edit there."""
    return f"blocks.{layer}.attn.hook_z"


def branch_output_name(model: Model, layer: int, branch: Literal["attn", "mlp"]) -> str:
    """HookPoint of what a bridge's attention or feed-forward gives, before any norm of its branch."""
    order = model.family.order
    attend_step = next(step for step in PROGRAMS[order] if isinstance(step.operation, Attend))
    step = attend_step if branch == "attn" else feed_step(order)
    return _of_step(model, layer, step)[f"whole.{step.scope}"]


def owner_of_bias(model: Model, layer: int, name: str) -> Owner:
    """Which summand of a layer's flow brings a bias: see `Owner`."""
    serial = model.family.order not in ("parallel", "attn_only")
    short = name.removeprefix(f"blocks.{layer}.")
    if short.startswith("mlp."):
        return "mlp"
    if short.startswith("attn."):
        return "head" if short == "attn.b_V" else "mid" if serial else "stream"
    norms = (step.operation.norm for step in PROGRAMS[model.family.order] if isinstance(step.operation, Normalise))
    return next(_OWNERS_OF_SHIFTS[norm] for norm in norms if norm_module(model, layer, norm) == name.removesuffix(".b"))


def is_stream(name: str) -> bool:
    """Whether a HookPoint of a layer shows the residual stream at the layer's input or output."""
    return re.fullmatch(r"blocks\.\d+\.hook_(resid_pre|in|resid_post|out)", name) is not None


def output_name(model: Model) -> str:
    """HookPoint of the residual stream behind the last layer."""
    step = output_step(model.family.order)
    return _of_step(model, model.n_layers - 1, step)[f"whole.{step.scope}"]


def ff_input_name(model: Model, layer: int) -> str:
    """HookPoint of what the feed-forward, and nothing else, reads.

    Where one norm serves attention too (Phi, GPT-J, Falcon), that lies behind the norm's own HookPoint.
    """
    shared = norm_module(model, layer, "ff_norm") == norm_module(model, layer, "attn_norm")
    return f"blocks.{layer}.mlp.hook_in" if shared else site_names(model, layer)["whole.AtbLn"]


def patching_name(name: str) -> str | None:
    """What TransformerLens's patching functions call a HookPoint, such as "mlp_out"; None inside a component."""
    short = re.fullmatch(r"blocks\.\d+\.hook_(\w+)", name)
    return None if short is None else short[1]


def routing_names(model: Model, layer: int) -> dict[str, str]:
    """HookPoint of every tensor that says how a layer's experts are weighed.

    Raises:
        UnsupportedModelError: if no HookPoint carries one of them.
    """
    mlp, prefix = model.hooked.blocks[layer].mlp, f"blocks.{layer}.mlp"
    routing = {"probabilities": f"{prefix}.hook_expert_weights", "chosen": f"{prefix}.hook_expert_indices"}
    if hasattr(mlp, "gate"):  # a bridge of TransformerLens 3.9 has the router's logits only
        routing = {"router_logits": f"{prefix}.gate.hook_out"}
    missing = [name.removeprefix(f"blocks.{layer}.") for name in routing.values() if name not in model.hook_points]
    if missing:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}), layer {layer}: the router of its experts has no HookPoint "
            f"{', '.join(missing)} in TransformerLens {version('transformer-lens')}, so the experts' weights of a run are "
            f"not known.{' It needs TransformerLens 4.' if model.family.name == 'gpt_oss' else ''}"
        )
    shared = {"shared": f"{prefix}.shared_expert_gate.hook_out"} if hasattr(mlp, "shared_expert_gate") else {}
    return routing | shared


def _dense(model: Model, layer: int) -> dict[str, str]:
    """The sites inside a feed-forward that is no mixture of experts."""
    block = model.hooked.blocks[layer]
    if model.family.order == "attn_only" or has_experts(block.mlp):
        return {}
    inside = {"pre": "mlp.hook_pre", "post": "mlp.hook_post"}
    return inside | ({"pre_linear": "mlp.hook_pre_linear"} if is_gated(block.mlp) else {})


def _of_step(model: Model, layer: int, step: Step) -> dict[str, str]:
    """The sites of a step's tensor: one HookPoint, or two whose product it is; none where the model makes no such tensor."""
    order, operation, scope = model.family.order, step.operation, step.scope
    on_bridge, prefix = model.api == "TransformerBridge", f"blocks.{layer}."
    if step.at_keys or (order == "parallel" and operation == Add("Attn", INPUT)):
        return {}  # a parallel block adds x, attention and feed-forward at once
    name = _post_ln_exception(model, scope)
    if name is not None:
        return {f"whole.{scope}": prefix + name}
    match operation:
        case Attend() | Feed():
            branch = "attn" if isinstance(operation, Attend) else "mlp"
            inner = _norm_in_branch(PROGRAMS[order], scope)
            if inner is not None and not on_bridge:
                gain = norm_module(model, layer, inner)
                return {f"whole.{scope}": f"{gain}.{BEFORE_GAIN}", f"scale.{scope}": f"{gain}.hook_scale"}
            # Granite's scaled branches have HookPoints that stay silent; at a scale of 1 these carry the same.
            silent = hasattr(model.hooked.blocks[layer], "residual_contribution_scale")
            name = f"{prefix}{branch}.hook_out" if inner is not None or silent else f"{prefix}hook_{branch}_out"
        case Normalise(_, "attn_out_norm" | "ff_out_norm" as norm):
            name = f"{prefix}hook_{'attn' if norm == 'attn_out_norm' else 'mlp'}_out"
        case Normalise(of, norm):
            module = norm_module(model, layer, norm)
            if module is None:  # no norm: what it would have read
                before = next((step for step in PROGRAMS[order] if step.scope == of), None)
                unchanged = (
                    f"{prefix}hook_resid_pre" if before is None else _of_step(model, layer, before)[f"whole.{of}"]
                )
                return {f"whole.{scope}": unchanged}
            name = f"{module}.{'hook_out' if on_bridge else BEFORE_GAIN}"
        case Add():
            last = [step.scope for step in PROGRAMS[order] if isinstance(step.operation, Add)][-1]
            name = f"{prefix}hook_resid_{'post' if scope == last else 'mid'}"
    return {f"whole.{scope}": name}


def _query_or_key(model: Model, layer: int, site: str) -> str:
    """Where the vectors are whose products are the scores: behind the rotation, where there is one."""
    rotated, plain = f"attn.hook_rot_{site[0]}", f"attn.hook_{site[0]}"
    if f"blocks.{layer}.{rotated}" in model.hook_points:
        return rotated
    if getattr(model.hooked.cfg, "positional_embedding_type", None) == "rotary":
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}) rotates its {site} vectors, but has no HookPoint {rotated} that shows them "
            "rotated, as attention multiplies them."
        )
    return plain


def _post_ln_exception(model: Model, scope: str) -> str | None:
    if model.family.order != "post_ln":
        return None
    if model.api != "TransformerBridge":
        return _POST_LN_HOOKED.get(scope)
    if model.family.name == "GPT" and scope == "AtbFfResLn":
        return None  # its block returns a list, which its own output HookPoint lets pass unseen
    return _POST_LN_BRIDGE.get(scope)


def _norm_in_branch(program: Sequence[Step], scope: str) -> NormName | None:
    """The norm that a branch's output goes through before it is added, if there is one."""
    for step in program:
        if isinstance(step.operation, Normalise) and step.operation.of == scope:
            return step.operation.norm
    return None
