"""Where a vector must be added so that exactly one scope's tensor changes, and what follows from it.

Adding to the attention output adds to `x + attention`, whichever of the two a model shows; a bridge's
`hook_resid_mid` is the input of the second norm alone, so an edit there would miss the residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import BEFORE_GAIN, norm_module, site_names
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.records import Norm
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Normalise, select_scopes

Positions: TypeAlias = Sequence[int] | int | None
"""Token positions, negative ones from the end; None means all."""


@dataclass(frozen=True)
class Place:
    """A HookPoint at which a scope's tensor can be changed."""

    name: str
    """HookPoint name, as `run_with_hooks` takes it."""
    norm: str | None = None
    """A norm of the block whose gain the tensor has not met yet (HookedTransformer, HookedEncoder)."""

    def onto(self, vector: Float[Tensor, "*lead d_model"], norm: Norm | None) -> Float[Tensor, "*lead d_model"]:
        """What to add here so that the scope's tensor changes by `vector`."""
        return vector if norm is None else vector / norm.gain


def place_of(model: Model, layer: int, scope: str) -> Place:
    """The HookPoint for one scope of one layer.

    Raises:
        InputError: if the model's order has no such scope.
        UnsupportedModelError: if no HookPoint carries this tensor in a form that can be changed.
    """
    order = model.family.order
    select_scopes(order, scope)
    step = next(step for step in PROGRAMS[order] if step.scope == scope)
    names, operation = site_names(model, layer), step.operation
    if isinstance(operation, Add) and operation.right == INPUT:
        scope = operation.left
    if isinstance(operation, Normalise) and operation.norm == "ff_norm" and model.api == "TransformerBridge":
        shared = norm_module(model, layer, "ff_norm") == f"blocks.{layer}.ln1"
        return Place(f"blocks.{layer}.mlp.hook_in" if shared else names[f"whole.{scope}"])
    name = names[f"whole.{scope}"]
    if not name.endswith(f".{BEFORE_GAIN}"):
        return Place(name)
    if not isinstance(operation, Normalise):
        raise UnsupportedModelError(
            f"{model.name} ({model.api}): no HookPoint carries {scope} of layer {layer} before the norm that follows it, so it "
            "cannot be changed alone. Use a TransformerBridge, or the scope after that norm."
        )
    return Place(name, operation.norm)


def activation_name(model: Model, scope: str) -> str:
    """The short name by which TransformerLens's patching functions know a scope's HookPoint, such as "mlp_out".

    Raises:
        InputError: if they cannot name it.
    """
    name = place_of(model, 0, scope).name.removeprefix("blocks.0.")
    if not name.startswith("hook_"):
        raise InputError(
            f"TransformerLens's patching functions reach HookPoints of the block only, and {scope} is changed at {name}. Use "
            "contribution_sweep, or give Contributions' hooks to run_with_hooks."
        )
    return name.removeprefix("hook_")


def positions(asked: Positions, length: int, name: str) -> list[int]:
    """Positions as non-negative numbers.

    Raises:
        InputError: if one does not exist.
    """
    if asked is None:
        return list(range(length))
    given = [asked] if isinstance(asked, int) else list(asked)
    if not all(isinstance(position, int) and -length <= position < length for position in given):
        raise InputError(f"{name}={asked!r}: expected positions from {-length} to {length - 1}, or None for all.")
    return sorted({position % length for position in given})
