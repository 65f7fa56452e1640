"""Where a vector must be added so that exactly one scope's tensor changes, and what follows from it.

Adding to the attention output adds to `x + attention`, whichever of the two a model shows; a bridge's
HookPoint between the two residuals is the input of the second norm alone, so an edit there would miss
the residual.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.layers import BEFORE_GAIN, patching_name
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import InputError, UnsupportedModelError, brief
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.records import Block
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Normalise, NormName, select_scopes
from tl_ffblock.signatures import strict

AXES = {"dest_pos": "query", "pos": "query", "src_pos": "key", "head": "head", "head_index": "head"}
"""What TransformerLens's patching functions call the axes of an index, and what we call them."""


@strict
@dataclass(frozen=True)
class EditPoint:
    """A HookPoint at which one scope's tensor can be changed."""

    name: str
    """HookPoint name, as `run_with_hooks` takes it."""
    norm: NormName | None = None
    """A norm of the block whose gain the tensor has not met yet (HookedTransformer, HookedEncoder)."""

    def onto(self, vector: Float[Tensor, "*lead d_model"], block: Block) -> Float[Tensor, "*lead d_model"]:
        """What to add here so that the scope's tensor changes by `vector`: before a gain, `vector / gain`."""
        return vector if self.norm is None else vector / block.norm(self.norm).gain


@strict
def edit_point(model: Model, layer: int, scope: str) -> EditPoint:
    """The HookPoint for one scope of one layer, read off the layer's program.

    Raises:
        LayerError: if the model has no such layer.
        InputError: if its order has no such scope.
        UnsupportedModelError: if no HookPoint carries this tensor in a form that can be changed.
    """
    layer, order = number_of(model, layer), model.family.order
    select_scopes(order, scope)
    operation = next(step.operation for step in PROGRAMS[order] if step.scope == scope)
    if isinstance(operation, Add) and operation.right == INPUT:
        scope = operation.left  # x + attention changes by what attention's output changes by
    if isinstance(operation, Normalise) and operation.norm == "ff_norm" and model.api == "TransformerBridge":
        return EditPoint(model.layers[layer].ff_input_name)
    name = model.layers[layer].sites[f"whole.{scope}"]
    if isinstance(operation, Normalise) and operation.norm == "ff_norm" and not name.endswith(f".{BEFORE_GAIN}"):
        raise UnsupportedModelError(
            f"{model.name} ({model.api}) has no norm before the feed-forward, and no HookPoint carries {scope} apart from the "
            "residual: it cannot be changed alone."
        )
    if not name.endswith(f".{BEFORE_GAIN}"):
        return EditPoint(name)
    if not isinstance(operation, Normalise):
        raise UnsupportedModelError(
            f"{model.name} ({model.api}): no HookPoint carries {scope} of layer {layer} before the norm that follows it, so it "
            "cannot be changed alone. Use a TransformerBridge, or the scope after that norm."
        )
    return EditPoint(name, operation.norm)


def activation_name(model: Model, scope: str) -> str:
    """The short name by which TransformerLens's patching functions know a scope's HookPoint, such as "mlp_out".

    Raises:
        InputError: if they cannot name it.
    """
    point = edit_point(model, 0, scope)
    short = patching_name(point.name)
    if short is None:
        raise InputError(
            f"TransformerLens's patching functions reach HookPoints of the block only, and {scope} is changed at "
            f"{point.name}. Use contribution_sweep, or give Contributions' hooks to run_with_hooks."
        )
    return short


def index_axes(axes: Sequence[str]) -> list[str]:
    """Our words for the axes of an index of TransformerLens's patching functions, those behind the layer.

    Raises:
        InputError: for axes that are none of these.
    """
    if isinstance(axes, str) or not isinstance(axes, Sequence):
        raise InputError(f"axes={brief(axes)}: expected a list: layer, then some of {', '.join(AXES)}.")
    unknown = [axis for axis in axes[1:] if axis not in AXES]
    if unknown or not axes or axes[0] != "layer":
        raise InputError(f"axes={tuple(axes)}: expected layer, then some of {', '.join(AXES)}.")
    return [AXES[axis] for axis in axes[1:]]


def number_of(model: Model, layer: int) -> int:
    """The model's own number of a layer, which may be counted from the end.

    Raises:
        LayerError: if the model has no such layer.
    """
    return layer_number(layer, model.n_layers, f"in {model.name}")
