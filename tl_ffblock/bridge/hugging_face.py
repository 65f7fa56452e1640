"""Is a bridge the Hugging Face model that it wraps?

A bridge runs some components in code of its own, and an option of the configuration that this code does
not know changes nothing: every identity of the blocks holds, on another model. So both run once:

1. A bridge stands inside the Hugging Face model, each of its components in the place of a module that it
   keeps as `original_component`. A copy of the tree of modules with the originals back in their places
   is Hugging Face's model again. Parameters and buffers are the same tensors: nothing is doubled.
2. Both get the same eight tokens, without callbacks on HookPoints.
3. Their logits are compared: they may differ by what rounding in the model's dtype explains.

Not compared are processed weights and compatibility mode, HookedTransformer and HookedEncoder (which wrap
nothing), models whose Hugging Face side does not run as it stands, and bridges with adapters that it does not have.
"""

from functools import partial
from types import MethodType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from tl_ffblock.bridge.callbacks import HookedModel, module_callbacks, silence
from tl_ffblock.bridge.linears import adapted_linears, unwrapped
from tl_ffblock.bridge.offloaded import weight_on_device
from tl_ffblock.errors import UnsupportedModelError

PROBE_LENGTH = 8
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 2e-1}
"""Relative difference of the logits, by the model's dtype. The worst seen of the families in tests/tiny.py
with 32 random layers: 8e-7 (rotary tables are float32), 4e-6, 1e-2, 1e-1."""

# Components that hold copies of one matrix of Hugging Face's in pieces.
_SPLITS = {"split_qkv_matrix": ("q", "k", "v"), "split_gate_up_matrix": ("gate", "in")}


def probe_tokens(model: HookedModel) -> Int[Tensor, "1 pos"]:
    """Eight token ids that every vocabulary has, none of them among the first, which are often padding and brackets."""
    length = min(PROBE_LENGTH, getattr(model.cfg, "n_ctx", None) or PROBE_LENGTH)
    first = 5
    return torch.arange(first, first + length)[None] % (getattr(model.cfg, "d_vocab", None) or first + length)


def difference_from_hugging_face(model: HookedModel, name: str) -> float | None:
    """How far a bridge's logits are from Hugging Face's, relative to their size; NaN where they cannot be compared.

    None means not now: callbacks of torch, which `silence` does not reach, sit on components of the bridge.

    Raises:
        UnsupportedModelError: if rounding does not explain the difference.
    """
    wrapped = getattr(model, "original_model", None)
    processed = getattr(model, "_weights_processed", False) or getattr(model, "compatibility_mode", False)
    if not isinstance(wrapped, nn.Module) or processed:
        return float("nan")
    if module_callbacks(module for module in wrapped.modules() if unwrapped(module) is not module):
        return None
    first = weight_on_device(wrapped)
    assert first is not None, "a model has parameters"
    tokens, copies = probe_tokens(model).to(first.device), dict[int, nn.Module]()
    with silence(model.hook_dict.values()), torch.no_grad():
        try:
            expected = _logits(_without_bridges(wrapped, copies)(tokens))
        except (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError):
            return float("nan")  # Hugging Face's model does not run like this: there is nothing to compare with
        actual = _logits(model(tokens))
    if actual is None or expected is None or actual.shape != expected.shape or not expected.isfinite().all():
        return float("nan")
    # Over the size of what distinguishes the tokens: a constant added to all logits of a position means nothing.
    size = float((expected - expected.mean(dim=-1, keepdim=True)).norm()) or 1.0
    error, tolerance = float((actual - expected).norm()) / size, TOLERANCE.get(first.dtype, TOLERANCE[torch.float32])
    if error <= tolerance:
        return error
    if any(id(module) not in copies for module in adapted_linears(model).values()) or _pieces_were_edited(model):
        return float("nan")
    raise UnsupportedModelError(
        f"{name}: the TransformerBridge is not the Hugging Face model that it wraps. On {tokens.shape[1]} tokens its logits "
        f"differ by {error:.1e} of their size (rounding explains {tolerance:.0e}), so maps of it would be of another model. "
        "An option of the configuration may be unknown to TransformerLens, or the bridge was changed outside its HookPoints."
    )


def _without_bridges(module: nn.Module, copies: dict[int, nn.Module]) -> nn.Module:
    module = unwrapped(module)
    if id(module) not in copies:
        copy: Any = module.__new__(type(module))
        copies[id(module)] = copy
        copy.__dict__ = {
            **vars(module),
            "_parameters": dict(module._parameters),
            "_buffers": dict(module._buffers),
            "_modules": {n: m and _without_bridges(m, copies) for n, m in module._modules.items()},
        }
        runs: Any = vars(module).get("forward")
        if isinstance(runs, partial) and "_old_forward" in vars(
            module
        ):  # accelerate's, of the module that it was made for
            copy.__dict__["_old_forward"] = MethodType(vars(module)["_old_forward"].__func__, copy)
            copy.__dict__["forward"] = partial(runs.func, copy)
    return copies[id(module)]


def _logits(output: Any) -> Tensor | None:
    logits = getattr(output, "logits", output)
    return logits.double() if isinstance(logits, Tensor) else None


def _pieces_were_edited(model: HookedModel) -> bool:
    """Whether a bridge was trained or edited in the pieces of a matrix, of which Hugging Face's side has the old whole."""
    for component in model.modules():
        for split, names in _SPLITS.items():
            if hasattr(component, split) and getattr(component, "original_component", None) is not None:
                whole = getattr(component, split)(component.original_component)
                pairs = zip((unwrapped(getattr(component, name)) for name in names), whole, strict=True)
                if any(not torch.equal(new.get_parameter("weight"), old.get_parameter("weight")) for new, old in pairs):
                    return True
    return False
