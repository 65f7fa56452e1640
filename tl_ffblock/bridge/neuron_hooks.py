"""Hook functions that set single neurons' activations, and the HookPoint where a model obeys them."""

from collections.abc import Callable, Mapping

from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.sites import has_experts, site_names
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.positions import positions as numbers_of

NeuronHook = tuple[str, Callable[..., Tensor]]
"""HookPoint name and function, as `run_with_hooks` takes them."""


def setting_neurons(
    model: Model, layer: int, values: Mapping[int, float], positions: tuple[int, ...] | None = None
) -> NeuronHook:
    """A hook that sets neurons' activations (behind the activation function, gated: the product).

    Args:
        model: The model.
        layer: Number of a layer with a dense feed-forward.
        values: New activation by neuron.
        positions: Where; None means everywhere.

    Raises:
        UnsupportedModelError: for experts, whose activations no HookPoint carries.
    """
    if has_experts(model.hooked.blocks[layer].mlp):
        raise UnsupportedModelError(
            f"{model.name}, layer {layer}: no HookPoint carries the activations of single experts, so their memories cannot be "
            "knocked out."
        )

    def set_neurons(tensor: Tensor, hook: object = None) -> Tensor:
        changed = tensor.clone()
        rows = slice(None) if positions is None else numbers_of(positions, tensor.shape[-2], "positions")
        for neuron, value in values.items():
            changed[..., rows, neuron] = value
        return changed

    return site_names(model, layer)["post"], set_neurons
