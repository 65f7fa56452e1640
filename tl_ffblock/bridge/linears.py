"""Effective weight and bias of a bridge's linear modules, including adapters (LoRA) and quantised weights.

1. A plain linear module, `nn.Linear` or `Conv1D` with its own forward function, has its parameters as effective weights.
2. The effective weight of any other module may differ from its parameter `weight`: an adapter adds to its base module's. It is
   computed from outputs: `W = m(I) - m(0)` and `b = m(0)`.
3. This costs as much as `d_in` tokens, so the result is cached with the module's response to three fixed vectors. A changed
   response means a changed weight.
4. A quantised module has the dequantised weight `W = scale (Q - zero)`. It is computed at every reading, so that one layer at a time
   has full size. A response that differs from it means that inputs are rounded too: then the module is not linear.
5. The vector-Jacobian product of a module that is not plain may differ from that with its effective weight (peft's C3A). Forward
   passes with gradients then use the latter.

HookedTransformer and HookedEncoder have no linear modules: their matrices are parameters.
"""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from transformers.pytorch_utils import Conv1D

from tl_ffblock.bridge.callbacks import HookedModel
from tl_ffblock.bridge.offloaded import offloading_hook, runs_its_class, weight_on_device, weights_on_device
from tl_ffblock.errors import UnsupportedModelError, out_of_memory
from tl_ffblock.layer.linear import carried

KEPT_BYTES = 2**30
"""Largest size of all cached weights, in bytes; those of further modules are computed at every reading."""

_LINEARS = {"attn": ("q", "k", "v", "o"), **dict.fromkeys(("mlp", "shared_mlp"), ("gate", "in", "out"))}
_LATENT = ("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj")
"""Linear modules of multi-head latent attention, beside "o"."""
_HEAD = ("unembed", "mlm_head")
# Submodule of attention or feed-forward, by the suffix of its weight and bias (`W_Q`, `b_Q`).
_ROLES = {"Q": "q", "K": "k", "V": "v", "O": "o", "gate": "gate", "in": "in", "out": "out"}
_BY_HEAD = {
    **dict.fromkeys(("W_Q", "W_K", "W_V"), "d_in (head e) -> head d_in e"),
    "W_O": "(head e) d_out -> head e d_out",
    **dict.fromkeys(("b_Q", "b_K", "b_V"), "(head e) -> head e"),
}
SHARED_EXPERT = ("gate_proj", "up_proj", "down_proj")
"""Linear modules of a shared expert, which every token passes through; one without a gate has the last two."""
SHARED_EXPERTS = ("shared_expert", "shared_experts")
"""Attributes of mixtures with their shared expert."""
_PLAIN_FORWARDS: frozenset[Callable[..., Tensor]] = frozenset((nn.Linear.forward, Conv1D.forward))
_INPUT_ROUNDED = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Largest accepted relative difference of the responses of a quantised module and of its dequantised weight; `_HALF` for half
precision. Rounding of inputs to 8 bits gives a larger one, since the first entry of each vector is large."""
_HALF, _LARGE_ENTRY = 5e-3, 8.0
# Largest relative difference of a vector-Jacobian product that rounding explains, by the module's dtype.
_OTHER_GRADIENT = {torch.float64: 1e-6, torch.float32: 1e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
# Number of unit vectors per call of a module.
_ROWS = 512


class Linear(NamedTuple):
    """`x W + b`."""

    weight: Float[Tensor, "d_in d_out"]
    bias: Float[Tensor, " d_out"] | None


# By module: its response when it was read, and its effective weights; None if these are its parameters.
_kept: WeakKeyDictionary[nn.Module, tuple[Float[Tensor, "vector d_out"], Linear | None]] = WeakKeyDictionary()


def adapted_linears(hooked: HookedModel) -> dict[str, nn.Module]:
    """Linear modules of a bridge's layers and head that are not plain, by name, such as "blocks.3.attn.o".

    Found by type, without calling a module. They are adapters, modules with torch hooks or another forward function, and fused
    projections with either, which a bridge never runs ("blocks.3.attn.qkv"). Empty for plain models.
    """
    found: dict[str, nn.Module | None] = {}
    for layer, block in enumerate(getattr(hooked, "blocks", ())):
        for part, roles in _LINEARS.items():
            owner = block._modules.get(part)
            if owner is not None:
                pieces = {role: owner._modules.get(role) for role in roles} | _others(owner)
                found |= {f"blocks.{layer}.{part}.{name}": module for name, module in pieces.items()}
    head = ((name, hooked._modules.get(name)) for name in _HEAD)
    found |= {name: module for name, module in head if module is not None and unwrapped(module) is not module}
    # A feed-forward's `gate` without an `in` is a router.
    routers = {name for name in found if name.endswith(".gate") and found[f"{name[:-4]}in"] is None}
    acting = {name: unwrapped(module) for name, module in found.items() if module is not None and name not in routers}
    return {name: module for name, module in acting.items() if not is_plain(module)}


def responses_of(hooked: HookedModel) -> dict[str, Tensor]:
    """Responses of the linear modules whose effective weights are not their parameters, by name, for the model's fingerprint.

    Raises:
        UnsupportedModelError: if one is not linear, or if its input width is not known.
    """
    adapted = adapted_linears(hooked).items()
    return {name: response(module, name) for name, module in adapted if linear_of(module, name) is not None}


def plain_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """The plain tensors inside a tensor: itself, or for a quantised one its integers, scales and zero points."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from plain_tensors(getattr(tensor, name))


def dequantised(module: nn.Module) -> Linear | None:
    """Dequantised weight and bias of a linear module; None if its weight is not quantised.

    Quantised weights are tensor subclasses with a method `dequantize`, such as those of torchao.
    """
    if not isinstance(module, nn.Linear):
        return None
    with weights_on_device(module):
        weight = module.weight
        if not (is_traceable_wrapper_subclass(weight) and hasattr(weight, "dequantize")):
            return None
        return Linear(weight.dequantize().detach().T, None if module.bias is None else module.bias.detach())


def refuse_unreadable(hooked: HookedModel) -> None:
    """Read the effective weights of all linear modules that are not plain.

    Raises:
        UnsupportedModelError: for a module that is not linear, or an adapter that the bridge does not run.
    """
    for name, module in adapted_linears(hooked).items():
        quantised = dequantised(module)
        if quantised is not None:
            _refuse_rounded_inputs(module, name, quantised)
        elif linear_of(module, name) is not None and _is_copied(name) and _adds(module, name):
            raise UnsupportedModelError(
                f"{name} has an adapter that the TransformerBridge does not run: it runs split copies of the projection without "
                "the adapter. Merge the adapter into its base (peft: merge_and_unload()) before making the bridge."
            )


def other_gradients(hooked: HookedModel) -> tuple[str, ...]:
    """Names of the linear modules whose vector-Jacobian product is not that with their effective weight, on three fixed vectors."""
    return tuple(name for name, module in adapted_linears(hooked).items() if _has_other_gradient(module, name))


@contextmanager
def effective_gradients(hooked: HookedModel, names: Sequence[str]) -> Iterator[None]:
    """Context in which derivatives by the inputs of linear modules are products with their effective weights.

    Args:
        hooked: The model.
        names: Names of the modules, from `other_gradients`.
    """
    with ExitStack() as stack:
        for name in names:
            module = adapted_linears(hooked)[name]
            stack.callback(module.register_forward_hook(_with_gradient_of(_effective(module, name))).remove)
        yield


def _with_gradient_of(linear: Linear) -> Callable[..., Tensor | None]:
    def onward(_: nn.Module, args: tuple[Any, ...], y: Tensor) -> Tensor | None:
        return carried(y, args[0].to(linear.weight) @ linear.weight) if torch.is_grad_enabled() else None

    return onward


def _effective(module: Any, name: str) -> Linear:
    """Effective weight and bias of a module, also if they are its parameters."""
    linear = linear_of(module, name)
    if linear is not None:
        return linear
    with weights_on_device(module):
        weight = module.weight.detach()
        return Linear(weight.T if isinstance(module, nn.Linear) else weight, module.bias)


@torch.inference_mode(False)
def _has_other_gradient(module: nn.Module, name: str) -> bool:
    like, linear = _parameter(module, name), _effective(module, name)
    x = _fixed_vectors(len(linear.weight)).to(like.device, like.dtype).clone().requires_grad_()
    cotangents = _fixed_vectors(linear.weight.shape[1]).to(like.device, like.dtype)
    with torch.enable_grad():
        y: Tensor = module(x[None])[0]
        found = torch.autograd.grad(y, x, cotangents, allow_unused=True)[0] if y.requires_grad else None
    expected = cotangents.to(linear.weight) @ linear.weight.T
    error = float("inf") if found is None else float((found.to(expected) - expected).norm() / expected.norm())
    return error > _OTHER_GRADIENT.get(like.dtype, _OTHER_GRADIENT[torch.bfloat16])


def is_plain(module: nn.Module) -> bool:
    """Whether a module is an `nn.Linear` or `Conv1D` with its own forward function, without hooks or a quantised weight.

    Modules whose weights or inputs are moved by accelerate are plain too.
    """
    return (
        type(module).forward in _PLAIN_FORWARDS
        and runs_its_class(module)
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not is_traceable_wrapper_subclass(module._parameters.get("weight"))
    )


@torch.no_grad()
def response(module: nn.Module, name: str) -> Float[Tensor, "vector d_out"]:
    """Outputs of a linear module for three fixed vectors [vector d_out], in its own dtype. They change with its weight or bias.

    Args:
        module: The module that a bridge's component wraps.
        name: Name of the module, for errors.

    Raises:
        UnsupportedModelError: if the module's input width is not known.
    """
    like = _parameter(module, name)
    return _rows_through(module, name, _fixed_vectors(_width(module, name)).to(like.device, like.dtype))


def linear_of(module: nn.Module, name: str) -> Linear | None:
    """Effective weight and bias of a module, in float64 for float64 modules, else float32; None if they are its parameters.

    Args:
        module: The module that a bridge's component wraps.
        name: Name of the module, for errors.

    Raises:
        UnsupportedModelError: if its output is not a linear function of its input, or differs between calls.
    """
    if is_plain(module):
        return None
    quantised = dequantised(module)
    if quantised is not None:
        return quantised
    own, kept = response(module, name), _kept.get(module)
    if kept and (kept[0].dtype, kept[0].device) == (own.dtype, own.device) and torch.equal(kept[0], own):
        return kept[1]
    _kept.pop(module, None)
    linear = None if _acts_as_shown(module, own) else _read(module, name)
    if (
        sum(each.weight.nbytes for each in [*(of for _, of in _kept.values()), linear] if each is not None)
        <= KEPT_BYTES
    ):
        _kept[module] = own, linear
    return linear


def matrix(part: Any, name: str) -> Tensor:
    """Effective weight of attention or a feed-forward, in TransformerLens's layout.

    Args:
        part: Attention or feed-forward of a layer, of any API.
        name: "W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate" or "W_out".

    Raises:
        UnsupportedModelError: for latent attention, whose queries, keys and values are products of several matrices.
    """
    if "kv_b_proj" in part._modules:
        raise UnsupportedModelError(
            f"{part.name}: latent attention has no {name}; its queries, keys and values are made of latent vectors. Use estimates or "
            "patches of heads, without edges."
        )
    linear = _linear_of_part(part, name)
    if linear is not None:
        return _by_head(part, name, linear.weight)
    with weights_on_device(part):
        return torch.as_tensor(getattr(part, name))


def has_matrix(part: Any, name: str) -> bool:
    """Whether attention or a feed-forward has a weight of this name."""
    if _linear_of_part(part, name) is not None:
        return True
    with weights_on_device(part):
        return getattr(part, name, None) is not None


def bias(part: Any, name: str) -> Tensor | None:
    """Effective bias of attention or a feed-forward ("b_Q" ... "b_out"), in TransformerLens's layout; None if there is none."""
    if "kv_b_proj" in part._modules:  # a bridge of latent attention raises an error for any of these names
        return getattr(unwrapped(part._modules["o"]), "bias", None) if name == "b_O" else None
    linear = _linear_of_part(part, name)
    if linear is not None:
        return None if linear.bias is None else _by_head(part, name, linear.bias)
    shown: Tensor | None = getattr(part, name, None)
    if shown is None or not shown.is_meta:
        return shown
    return _by_head(part, name, loaded(part._modules[_ROLES[name[2:]]], "bias", shown))


def loaded(component: nn.Module, name: str, shown: Tensor) -> Tensor:
    """A parameter of a bridge's component with its numbers; if it is offloaded, `shown` is an empty (meta) tensor."""
    if not shown.is_meta:
        return shown
    module = unwrapped(component)
    with weights_on_device(module):
        return module.get_parameter(name)


def head_linear(hooked: Any, name: str) -> Linear | None:
    """Effective weight and bias of "unembed" or "mlm_head"; None if they are its parameters."""
    component = hooked.get_submodule(name)
    wrapped = unwrapped(component)
    return None if wrapped is component else linear_of(wrapped, name)


def unwrapped(module: nn.Module) -> nn.Module:
    """The module that a bridge's component wraps; any other module unchanged."""
    wrapped = module._modules.get("_original_component")
    return module if wrapped is None else unwrapped(wrapped)


def _linear_of_part(part: Any, name: str) -> Linear | None:
    component = part._modules.get(_ROLES[name[2:]])
    return None if component is None else linear_of(unwrapped(component), f"{part.name}.{component.name}")


def _by_head(part: Any, name: str, tensor: Tensor) -> Tensor:
    return rearrange(tensor, _BY_HEAD[name], e=int(part.config.d_head)) if name in _BY_HEAD else tensor


def _others(owner: nn.Module) -> dict[str, nn.Module | None]:
    """Further linear modules: those of latent attention, fused projections, of which a bridge runs split copies, and shared experts'."""
    found: dict[str, nn.Module | None] = {name: owner._modules[name] for name in _LATENT if name in owner._modules}
    if "split_qkv_matrix" in vars(owner):
        found["qkv"] = owner._modules.get("qkv")
    original: Any = unwrapped(owner)
    fused = vars(owner).get("fused_attr")
    if fused is not None:
        found[fused] = getattr(original, fused, None)
    for shared in SHARED_EXPERTS:
        if original._modules.get(shared) is not None:
            expert: Any = unwrapped(getattr(original, shared))
            found |= {f"{shared}.{name}": getattr(expert, name, None) for name in SHARED_EXPERT}
    return found


@cache
def _fixed_vectors(width: int) -> Float[Tensor, "vector d_in"]:
    return torch.randn(3, width, dtype=torch.float32, generator=torch.Generator().manual_seed(0))


def _rows_through(module: nn.Module, name: str, rows: Float[Tensor, "row d_in"]) -> Float[Tensor, "row d_out"]:
    try:
        answer: Tensor = module(rows[None])[0]
    except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        if out_of_memory(error):
            raise
        raise UnsupportedModelError(
            f"{name}: {type(module).__name__} cannot be called with an input alone ({error}), so its weight cannot be read. Merge the "
            "adapter into its base, or use a linear module."
        ) from error
    return answer.detach()


def _is_copied(name: str) -> bool:
    part, _, role = name.rpartition(".")
    return part.endswith(tuple(_LINEARS)) and role not in (*_LINEARS[part.rpartition(".")[2]], *_LATENT)


@torch.no_grad()
def _adds(module: Any, name: str) -> bool:
    """Whether a module's response differs from that of its parameters, in both layouts of the weight."""
    own = response(module, name)
    with weights_on_device(module):
        shown, added = getattr(module, "weight", torch.empty(0, 0)), getattr(module, "bias", None)
    layouts = [weight for weight in (shown, shown.T) if weight.shape == (_width(module, name), own.shape[1])]
    return not any(_gives(own, weight, added) for weight in layouts)


def _parameter(module: nn.Module, name: str) -> Tensor:
    parameter = weight_on_device(module)
    if parameter is None:
        raise UnsupportedModelError(
            f"{name}: {type(module).__name__} has no parameters, expected a linear module. Replace it by a linear module."
        )
    return parameter


def _width(module: nn.Module, name: str) -> int:
    width = getattr(module, "in_features", getattr(module, "nx", None))
    if width is None:
        raise UnsupportedModelError(
            f"{name}: {type(module).__name__} in the place of a linear module has no attribute `in_features`, its input width. Set "
            "it, or merge the adapter into its base."
        )
    return int(width)


@torch.no_grad()
def _acts_as_shown(module: Any, own: Float[Tensor, "vector d_out"]) -> bool:
    with weights_on_device(module):
        if isinstance(module, nn.Linear):
            return _gives(own, module.weight.T, module.bias)
        return type(module).forward in _PLAIN_FORWARDS and _gives(own, module.weight, module.bias)


def _gives(own: Float[Tensor, "vector d_out"], weight: Float[Tensor, "d_in d_out"], bias: Tensor | None) -> bool:
    expected = _fixed_vectors(len(weight)).to(own) @ weight + (0 if bias is None else bias)
    return bool((own - expected).abs().max() <= 16 * torch.finfo(own.dtype).eps * own.abs().max())


@torch.no_grad()
def _refuse_rounded_inputs(module: nn.Module, name: str, linear: Linear) -> None:
    like = _parameter(module, name)
    vectors = _fixed_vectors(_width(module, name)).clone()
    vectors[:, 0] = _LARGE_ENTRY
    vectors = vectors.to(like.device, like.dtype)
    own, expected = _rows_through(module, name, vectors), vectors @ linear.weight.to(like.dtype)
    expected = expected if linear.bias is None else expected + linear.bias
    error = float((own - expected).double().norm() / expected.double().norm())
    if error > _INPUT_ROUNDED.get(like.dtype, _HALF):
        raise UnsupportedModelError(
            f"{name}: {type(module).__name__} with a quantised weight is not linear in its input (relative error {error:.1e}): it "
            "also rounds its inputs. Use weight-only quantisation, such as torchao's Int8WeightOnlyConfig."
        )


@torch.no_grad()
def _read(module: nn.Module, name: str) -> Linear:
    dtype = _parameter(module, name).dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    # In half precision, outputs for unit vectors would be rounded weights.
    if dtype != wide:
        hooks = {id(hook): hook for inner in module.modules() if (hook := offloading_hook(inner)) is not None}
        module = copy.deepcopy(module, hooks).to(wide)  # not copied: hooks have the weights of the whole model
    like, width = _parameter(module, name), _width(module, name)
    with torch.inference_mode(False):
        at_zero = _rows_through(module, name, like.new_zeros(1, width))[0]
        unit = torch.eye(width, dtype=wide, device=like.device)
        weight = torch.cat([_rows_through(module, name, rows) - at_zero for rows in torch.split(unit, _ROWS)])
    vectors = _fixed_vectors(width).to(like)
    found, again = _rows_through(module, name, vectors), _rows_through(module, name, vectors)
    if not found.isfinite().all():
        return Linear(weight, at_zero)  # NaN is refused in the forward pass
    if not torch.equal(found, again):
        raise UnsupportedModelError(
            f"{name}: outputs of {type(module).__name__} differ between calls, so it has no fixed weight. Call model.eval(), or "
            "remove its dropout or noise."
        )
    error = float((vectors @ weight + at_zero - found).abs().max()) / (float(found.abs().max()) or 1.0)
    if not error <= (1e-4 if wide == torch.float32 else 1e-10):
        raise UnsupportedModelError(
            f"{name}: the output of {type(module).__name__} is not a linear function of its input (error {error:.1e} of the "
            "largest output). Expected a linear module, or an adapter that adds a linear function (LoRA)."
        )
    return Linear(weight, at_zero if bool(at_zero.any()) else None)
