"""The weight and bias that the linear modules of a bridge act with, adapters (LoRA) on them included.

1. A plain linear module, `nn.Linear` or `Conv1D` with its own forward function, acts with the parameters that it shows.
2. Any other may show one weight and act with another: an adapter adds to its base and shows the base's. What it acts with
   is read from what it does: `W = m(I) - m(0)` and `b = m(0)`.
3. That costs as much as `d_in` tokens, so it is kept, with the module's response to three fixed vectors: another weight
   gives another response.
4. A quantised one acts with what its weight stands for, `W = scale (Q - zero)`, which is made anew at every reading, so that
   one layer at a time is in full size. Its response tells whether it rounds its inputs also: then it is not linear.

HookedTransformer and HookedEncoder have no linear modules: their matrices are parameters.
"""

import copy
from collections.abc import Callable, Iterator
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
from tl_ffblock.errors import UnsupportedModelError

KEPT_BYTES = 2**30
"""How much kept weights may occupy together; those of further modules are made anew at every reading."""

_LINEARS = {"attn": ("q", "k", "v", "o"), "mlp": ("gate", "in", "out")}
_HEAD = ("unembed", "mlm_head")
# Submodule of attention or feed-forward by the end of the names of its weight and bias, `W_Q` and `b_Q`.
_ROLES = {"Q": "q", "K": "k", "V": "v", "O": "o", "gate": "gate", "in": "in", "out": "out"}
_BY_HEAD = {
    **dict.fromkeys(("W_Q", "W_K", "W_V"), "d_in (head e) -> head d_in e"),
    "W_O": "(head e) d_out -> head e d_out",
    **dict.fromkeys(("b_Q", "b_K", "b_V"), "(head e) -> head e"),
}
SHARED_EXPERT = ("gate_proj", "up_proj", "down_proj")
"""Linear modules of an expert that every token goes through."""
_PLAIN_FORWARDS: frozenset[Callable[..., Tensor]] = frozenset((nn.Linear.forward, Conv1D.forward))
_INPUT_ROUNDED = {torch.float64: 1e-6, torch.float32: 1e-4}
"""Relative difference of the responses of a quantised module and of its dequantised weight that rounding of products explains;
half precision is `_HALF`. One that rounds its inputs to 8 bits is off by more, since the first entry of each is large."""
_HALF, _LARGE_ENTRY = 5e-3, 8.0
# Unit vectors that go through a module at once.
_ROWS = 512


class Linear(NamedTuple):
    """`x W + b`."""

    weight: Float[Tensor, "d_in d_out"]
    bias: Float[Tensor, " d_out"] | None


# The response that a module had when it was read, and what was read; None where it acts with the parameters that it
# shows.
_kept: WeakKeyDictionary[nn.Module, tuple[Float[Tensor, "vector d_out"], Linear | None]] = WeakKeyDictionary()


def adapted_linears(hooked: HookedModel) -> dict[str, nn.Module]:
    """The linear modules of a bridge's layers and head that are not plain, by name, such as "blocks.3.attn.o".

    By their types alone: no module is called. They are adapters, modules with callbacks of torch or another forward
    function, and fused projections with either, which a bridge never runs ("blocks.3.attn.qkv"). Empty for plain models.
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
    # A feed-forward's `gate` without an `in` is a router, and no linear.
    routers = {name for name in found if name.endswith(".gate") and found[f"{name[:-4]}in"] is None}
    acting = {name: unwrapped(module) for name, module in found.items() if module is not None and name not in routers}
    return {name: module for name, module in acting.items() if not is_plain(module)}


def responses_of(hooked: HookedModel) -> dict[str, Tensor]:
    """The responses of the linear modules that act with other parameters than they show, by name: others make another model.

    Raises:
        UnsupportedModelError: if one is not linear, or does not say how wide its input is.
    """
    adapted = adapted_linears(hooked).items()
    return {name: response(module, name) for name, module in adapted if linear_of(module, name) is not None}


def plain_tensors(tensor: Tensor) -> Iterator[Tensor]:
    """The tensors of numbers that a tensor is made of: itself, or of a quantised one its integers, scales and zeros."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    for name in tensor.__tensor_flatten__()[0]:
        yield from plain_tensors(getattr(tensor, name))


def dequantised(module: nn.Module) -> Linear | None:
    """The weight and bias that a linear module with a quantised weight stands for; None where its weight is not quantised.

    Quantised are tensors of a class that can dequantise itself, as torchao makes them.
    """
    if not isinstance(module, nn.Linear):
        return None
    with weights_on_device(module):
        weight = module.weight
        if not (is_traceable_wrapper_subclass(weight) and hasattr(weight, "dequantize")):
            return None
        return Linear(weight.dequantize().detach().T, None if module.bias is None else module.bias.detach())


def refuse_unreadable(hooked: HookedModel) -> None:
    """Read what every linear module acts with that is not plain.

    Raises:
        UnsupportedModelError: naming one that is not linear, or that is adapted and not run.
    """
    for name, module in adapted_linears(hooked).items():
        quantised = dequantised(module)
        if quantised is not None:
            _refuse_rounded_inputs(module, name, quantised)
        elif linear_of(module, name) is not None and _is_copied(name) and _adds(module, name):
            raise UnsupportedModelError(
                f"{name} has an adapter that the TransformerBridge does not run: it runs split copies of the projection that "
                "the adapter is on. Merge the adapter into its base (peft: merge_and_unload()) before making the bridge."
            )


def is_plain(module: nn.Module) -> bool:
    """Whether a module is an `nn.Linear` or `Conv1D` that runs its own forward function on its weight and nothing else.

    One whose weights or inputs accelerate moves to a device for it does.
    """
    return (
        type(module).forward in _PLAIN_FORWARDS
        and runs_its_class(module)
        and not (module._forward_hooks or module._forward_pre_hooks)
        and not is_traceable_wrapper_subclass(module._parameters.get("weight"))
    )


@torch.no_grad()
def response(module: nn.Module, name: str) -> Float[Tensor, "vector d_out"]:
    """What a linear module makes of three fixed vectors, in its own dtype: another weight or bias gives another response.

    Args:
        module: Not a bridge's component but what it wraps.
        name: For errors.

    Raises:
        UnsupportedModelError: if it does not say how wide its input is.
    """
    like = _parameter(module, name)
    return _rows_through(module, _fixed_vectors(_width(module, name)).to(like.device, like.dtype))


def linear_of(module: nn.Module, name: str) -> Linear | None:
    """The weight and bias that a module acts with, in float64 for float64 modules, else float32; None: those it shows.

    Args:
        module: Not a bridge's component but what it wraps.
        name: For errors.

    Raises:
        UnsupportedModelError: if its output is not a linear form of its input, or another at each call.
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
    """The weight by which attention or a feed-forward acts, laid out as TransformerLens does.

    Args:
        part: Attention or feed-forward of a layer, of any API.
        name: "W_Q", "W_K", "W_V", "W_O", "W_in", "W_gate" or "W_out".
    """
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
    """The bias by which attention or a feed-forward acts ("b_Q" ... "b_out"), laid out likewise; None: there is none."""
    linear = _linear_of_part(part, name)
    if linear is not None:
        return None if linear.bias is None else _by_head(part, name, linear.bias)
    shown: Tensor | None = getattr(part, name, None)
    if shown is None or not shown.is_meta:
        return shown
    return _by_head(part, name, loaded(part._modules[_ROLES[name[2:]]], "bias", shown))


def loaded(component: nn.Module, name: str, shown: Tensor) -> Tensor:
    """A parameter that a bridge's component shows, with its numbers: where it is offloaded, the bridge keeps an empty one."""
    if not shown.is_meta:
        return shown
    module = unwrapped(component)
    with weights_on_device(module):
        return module.get_parameter(name)


def head_linear(hooked: Any, name: str) -> Linear | None:
    """The weight and bias by which "unembed" or "mlm_head" acts; None where that is what it shows."""
    component = hooked.get_submodule(name)
    wrapped = unwrapped(component)
    return None if wrapped is component else linear_of(wrapped, name)


def unwrapped(module: nn.Module) -> nn.Module:
    """The module that a bridge's component wraps, and any other as it is."""
    wrapped = module._modules.get("_original_component")
    return module if wrapped is None else unwrapped(wrapped)


def _linear_of_part(part: Any, name: str) -> Linear | None:
    component = part._modules.get(_ROLES[name[2:]])
    return None if component is None else linear_of(unwrapped(component), f"{part.name}.{component.name}")


def _by_head(part: Any, name: str, tensor: Tensor) -> Tensor:
    return rearrange(tensor, _BY_HEAD[name], e=int(part.config.d_head)) if name in _BY_HEAD else tensor


def _others(owner: nn.Module) -> dict[str, nn.Module | None]:
    """Linear modules that are not components: what a part of a layer runs split copies of, and those of a shared expert."""
    found: dict[str, nn.Module | None] = {}
    if "split_qkv_matrix" in vars(owner):
        found["qkv"] = owner._modules.get("qkv")
    original: Any = unwrapped(owner)
    fused = vars(owner).get("fused_attr")
    if fused is not None:
        found[fused] = getattr(original, fused, None)
    shared = original._modules.get("shared_expert")
    if shared is not None:
        expert: Any = unwrapped(shared)
        found |= {f"shared_expert.{name}": getattr(expert, name, None) for name in SHARED_EXPERT}
    return found


@cache
def _fixed_vectors(width: int) -> Float[Tensor, "vector d_in"]:
    return torch.randn(3, width, generator=torch.Generator().manual_seed(0))


def _rows_through(module: nn.Module, rows: Float[Tensor, "row d_in"]) -> Float[Tensor, "row d_out"]:
    answer: Tensor = module(rows[None])[0]
    return answer.detach()


def _is_copied(name: str) -> bool:
    part, _, role = name.rpartition(".")
    return part.endswith(tuple(_LINEARS)) and role not in _LINEARS[part.rpartition(".")[2]]


@torch.no_grad()
def _adds(module: Any, name: str) -> bool:
    """Whether a module does anything else than the weight that it shows, laid out either way."""
    own = response(module, name)
    with weights_on_device(module):
        shown, added = getattr(module, "weight", torch.empty(0, 0)), getattr(module, "bias", None)
    layouts = [weight for weight in (shown, shown.T) if weight.shape == (_width(module, name), own.shape[1])]
    return not any(_gives(own, weight, added) for weight in layouts)


def _parameter(module: nn.Module, name: str) -> Tensor:
    parameter = weight_on_device(module)
    if parameter is None:
        raise UnsupportedModelError(
            f"{name}: a {type(module).__name__} without parameters stands in the place of a linear module. Put a linear one there."
        )
    return parameter


def _width(module: nn.Module, name: str) -> int:
    width = getattr(module, "in_features", getattr(module, "nx", None))
    if width is None:
        raise UnsupportedModelError(
            f"{name}: a {type(module).__name__} in the place of a linear module does not say how wide its input is. Give it "
            "the attribute `in_features`, or merge the adapter into its base."
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
    own, expected = _rows_through(module, vectors), vectors @ linear.weight.to(like.dtype)
    expected = expected if linear.bias is None else expected + linear.bias
    error = float((own - expected).double().norm() / expected.double().norm())
    if error > _INPUT_ROUNDED.get(like.dtype, _HALF):
        raise UnsupportedModelError(
            f"{name}: a {type(module).__name__} with a quantised weight is not a linear form of its input (off by {error:.1e}): it "
            "rounds its inputs as well. Expected weight-only quantisation, such as torchao's Int8WeightOnlyConfig."
        )


@torch.no_grad()
def _read(module: nn.Module, name: str) -> Linear:
    dtype = _parameter(module, name).dtype
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    # Unit vectors through half-precision products would round every weight to that precision.
    if dtype != wide:
        hooks = {id(hook): hook for inner in module.modules() if (hook := offloading_hook(inner)) is not None}
        module = copy.deepcopy(module, hooks).to(wide)  # hooks hold the weights of the whole model
    like, width = _parameter(module, name), _width(module, name)
    with torch.inference_mode(False):
        at_zero = _rows_through(module, like.new_zeros(1, width))[0]
        unit = torch.eye(width, dtype=wide, device=like.device)
        weight = torch.cat([_rows_through(module, rows) - at_zero for rows in torch.split(unit, _ROWS)])
    vectors = _fixed_vectors(width).to(like)
    found, again = _rows_through(module, vectors), _rows_through(module, vectors)
    if not found.isfinite().all():
        return Linear(weight, at_zero)  # NaN is refused where it flows
    if not torch.equal(found, again):
        raise UnsupportedModelError(
            f"{name}: a {type(module).__name__} gives other numbers at every call, so it has no weight to read. Call "
            "model.eval(), or take its dropout or noise away."
        )
    error = float((vectors @ weight + at_zero - found).abs().max()) / (float(found.abs().max()) or 1.0)
    if not error <= (1e-4 if wide == torch.float32 else 1e-10):
        raise UnsupportedModelError(
            f"{name}: the output of a {type(module).__name__} is not a linear form of its input (off by {error:.1e} of the "
            "largest), so it cannot be decomposed. Expected a linear module, or an adapter that adds a linear form (LoRA)."
        )
    return Linear(weight, at_zero if bool(at_zero.any()) else None)
