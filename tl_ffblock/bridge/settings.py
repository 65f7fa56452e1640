"""A call's settings, completed by what the model is: its dtype gives arithmetic and tolerance."""

import warnings
from dataclasses import fields
from typing import Any, TypedDict

import torch

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.weights import is_processed, working_dtype
from tl_ffblock.errors import ProcessedWeightsWarning
from tl_ffblock.layer.settings import TOLERANCE, Method, Precision, Settings, ValueBias


class SettingsOptions(TypedDict, total=False):
    """How a decomposition is made; None leaves it to the model."""

    method: Method
    """"exact" (closed form of Integrated Gradients) or "captum" (Gauss-Legendre, slow)."""
    n_steps: int
    """Quadrature steps of "captum"."""
    value_bias: ValueBias
    """"bias" gives b_V to the bias part (eq. 7, 21), "token" to its token."""
    rtol: float | None
    """Largest relative completeness error accepted."""
    precision: Precision | None
    """Arithmetic of the decomposition, whatever the model's."""


class ChunkOption(TypedDict, total=False):
    """How the norms of many pairs are made."""

    chunk_bytes: int | None
    """What the rows of the large product may occupy at a time."""


class _AllOptions(SettingsOptions, ChunkOption, total=False):
    pass


def settings_of(model: Model, options: _AllOptions) -> Settings:
    """The settings of a call on a model.

    Warns:
        ProcessedWeightsWarning: if the model's weights were folded or centred.

    Raises:
        InputError: for options that cannot be used.
    """
    if is_processed(model):
        warnings.warn(
            f"{model.name} has processed weights (folded norms or centred weights): these maps are of the processed model, "
            "whose norms differ by up to a fifth from the original's. Load it without processing: TransformerBridge without "
            "enable_compatibility_mode(), or HookedTransformer.from_pretrained_no_processing.",
            ProcessedWeightsWarning,
            stacklevel=4,
        )
    given: dict[str, Any] = {
        option.name: options[option.name]  # type: ignore[literal-required]  # both name the same options
        for option in fields(Settings)
        if options.get(option.name) is not None
    }
    precision = given.setdefault("precision", "float64" if working_dtype(model) == torch.float64 else "float32")
    tolerance = tolerance_of(model)
    given.setdefault("rtol", max(tolerance, TOLERANCE[torch.bfloat16]) if precision == "bfloat16" else tolerance)
    return Settings(**given)


def tolerance_of(model: Model) -> float:
    """Relative error above which a result is refused, by the dtype of the model's parameters."""
    return TOLERANCE.get(next(model.hooked.parameters()).dtype, TOLERANCE[torch.float32])


def eps_of(model: Model, settings: Settings) -> float:
    """The unit of rounding of a decomposition: of the coarser of the model's dtype and the arithmetic's."""
    return max(torch.finfo(dtype).eps for dtype in (next(model.hooked.parameters()).dtype, settings.dtype))
