"""Comparison of a bridge's logits with those of the Hugging Face model that it wraps.

A bridge computes some components in its own code. An option of the configuration that this code does not know has no effect: all
identities of the blocks hold, but for another model. Therefore both models run once:

1. Components of a bridge replace modules of the Hugging Face model, which they keep as `original_component`. A copy of the module
   tree with the original modules is Hugging Face's model again. Parameters and buffers are shared, not copied.
2. Both get the same eight tokens, without callbacks on HookPoints.
3. Their logits may differ by rounding in the model's dtype (`TOLERANCE`).

Processed weights, compatibility mode, HookedTransformer and HookedEncoder (which wrap no model) are not compared. Neither are
models whose Hugging Face side does not run alone, nor bridges with adapters that the Hugging Face side does not have.
"""

from collections.abc import Mapping
from functools import partial
from types import MethodType
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor, nn

from tl_ffblock.bridge.callbacks import HookedModel, module_callbacks, silence
from tl_ffblock.bridge.linears import adapted_linears, unwrapped
from tl_ffblock.bridge.offloaded import weight_on_device
from tl_ffblock.errors import FFBlockError, UnsupportedModelError, out_of_memory

PROBE_LENGTH = 8
TOLERANCE = {torch.float64: 1e-5, torch.float32: 1e-4, torch.float16: 5e-2, torch.bfloat16: 2e-1}
"""Largest accepted relative difference of the logits, by the model's dtype. The largest measured ones of the families in
tests/tiny.py with 32 random layers are 8e-7 (rotary tables are float32), 4e-6, 1e-2 and 1e-1."""

_FAILURES = (AttributeError, IndexError, KeyError, NotImplementedError, RuntimeError, TypeError, ValueError)
# Components with copies of parts of one matrix of Hugging Face's.
_SPLITS = {"split_qkv_matrix": ("q", "k", "v"), "split_gate_up_matrix": ("gate", "in")}


def probe_tokens(model: HookedModel) -> Int[Tensor, "1 pos"]:
    """Eight token ids from 5 on, since the first ids are often special tokens; fewer if the context is shorter."""
    length = min(PROBE_LENGTH, getattr(model.cfg, "n_ctx", None) or PROBE_LENGTH)
    first = 5
    return torch.arange(first, first + length)[None] % (getattr(model.cfg, "d_vocab", None) or first + length)


def difference_from_hugging_face(
    model: HookedModel, name: str, tokens: Int[Tensor, "1 pos"] | None = None, media: Mapping[str, Tensor] | None = None
) -> float | None:
    """Difference of a bridge's logits from Hugging Face's, relative to their norm; NaN if they cannot be compared.

    None means that they cannot be compared now: torch hooks, which `silence` does not disable, are on components of the bridge.

    Args:
        model: The bridge.
        name: Its name, for errors.
        tokens: Token ids; None means `probe_tokens`.
        media: Further tensors of this input, such as those of an image.

    Raises:
        UnsupportedModelError: if the difference is above `TOLERANCE`.
    """
    wrapped = getattr(model, "original_model", None)
    processed = getattr(model, "_weights_processed", False) or getattr(model, "compatibility_mode", False)
    if not isinstance(wrapped, nn.Module) or processed:
        return float("nan")
    if module_callbacks(module for module in wrapped.modules() if unwrapped(module) is not module):
        return None
    first = weight_on_device(wrapped)
    assert first is not None, "a model has parameters"
    tokens = probe_tokens(model).to(first.device) if tokens is None else tokens
    copies, media = dict[int, nn.Module](), media or {}
    with silence(model.hook_dict.values()), torch.no_grad():
        try:
            expected = _logits(_without_bridges(wrapped, copies)(tokens, **media))
        except _FAILURES:
            _refuse_both_failing(model, name, tokens)
            return float("nan")  # Hugging Face's model does not run alone
        actual = _logits(model(tokens, **media))
    if actual is None or expected is None or actual.shape != expected.shape or not expected.isfinite().all():
        return float("nan")
    # Relative to centred logits: a constant added to all logits of a position has no effect on the prediction.
    size = float((expected - expected.mean(dim=-1, keepdim=True)).norm()) or 1.0
    error, tolerance = float((actual - expected).norm()) / size, TOLERANCE.get(first.dtype, TOLERANCE[torch.float32])
    if error <= tolerance:
        return error
    if any(id(module) not in copies for module in adapted_linears(model).values()) or _pieces_were_edited(model):
        return float("nan")
    raise UnsupportedModelError(
        f"{name}: the TransformerBridge is not the Hugging Face model that it wraps. On {tokens.shape[1]} tokens its logits "
        f"differ by {error:.1e} of their norm (tolerance {tolerance:.0e}), so maps of it would be of another model. "
        "An option of the configuration may be unknown to TransformerLens, or the bridge was changed outside its HookPoints."
    )


def _refuse_both_failing(model: HookedModel, name: str, tokens: Int[Tensor, "1 pos"]) -> None:
    """Refuse a bridge that does not run either, such as one with weights of several dtypes."""
    try:
        model(tokens)
    except _FAILURES as error:
        if out_of_memory(error) or isinstance(error, FFBlockError):
            raise
        raise UnsupportedModelError(
            f"{name}: the model itself does not run on {tokens.shape[1]} tokens, without this package's callbacks: "
            f"{str(error).rstrip('.')}. Check the dtypes and devices of its weights and the entries of its configuration."
        ) from error


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
    """Whether a bridge's copies of parts of a matrix were trained or edited, so that they differ from Hugging Face's matrix."""
    for component in model.modules():
        for split, names in _SPLITS.items():
            if hasattr(component, split) and getattr(component, "original_component", None) is not None:
                whole = getattr(component, split)(component.original_component)
                pairs = zip((unwrapped(getattr(component, name)) for name in names), whole, strict=True)
                if any(not torch.equal(new.get_parameter("weight"), old.get_parameter("weight")) for new, old in pairs):
                    return True
    return False
