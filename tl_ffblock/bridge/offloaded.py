"""Weights that are elsewhere: offloaded by accelerate to CPU memory or disk, and on a device only while their module runs.

accelerate leaves a tensor without numbers ("meta") in a module's place and a hook (`_hf_hook`) that loads the numbers when the
module is called. What reads weights without a call loads them likewise, one layer at a time.
"""

# Noun: offloading (accelerate, big model inference)
from collections import ChainMap
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from tl_ffblock.errors import UnsupportedModelError


class StoredWeight(NamedTuple):
    """A parameter or buffer of a module, wherever it is."""

    shown: Tensor
    """What the module holds."""
    hook: Any
    """accelerate's, where it has offloaded this tensor; else None."""
    name: str
    """In its module."""

    @property
    def file(self) -> Path | None:
        """The file that it was offloaded to; None for memory."""
        if self.hook is None:
            return None
        weights, key = self.hook.weights_map, self.name
        if isinstance(weights, ChainMap):  # TransformerLens adds a bias of zero before the offloaded weights
            if key in weights.maps[0]:
                return None
            weights = weights.maps[-1]
        while hasattr(weights, "prefix"):
            weights, key = weights.dataset, weights.prefix + key
        if key in getattr(weights, "state_dict", weights) or key not in getattr(weights, "index", ()):
            return None
        return Path(weights.index[key].get("safetensors_file") or Path(weights.save_folder) / f"{key}.dat")

    def equals(self, other: "StoredWeight") -> bool:
        """Whether the numbers of both are the same."""
        return self.shown.shape == other.shown.shape and torch.equal(self.read(), other.read())

    def read(self) -> Tensor:
        """Its numbers, where they are kept.

        Raises:
            UnsupportedModelError: if accelerate has none, as of a bias that TransformerLens 3 adds to an offloaded module.
        """
        try:
            weight: Tensor = self.shown if self.hook is None else self.hook.weights_map[self.name]
        except KeyError as error:
            raise UnsupportedModelError(
                f"the offloaded weight {error} has no numbers: it was added after the model was offloaded, as TransformerLens 3 does. "
                "Use TransformerLens 4, or a model that is not offloaded."
            ) from error
        return weight.detach()


def offloading_hook(module: nn.Module) -> Any | None:
    """The hook of accelerate's that loads a module's own weights when it is called; None where it has none."""
    owner = vars(module).get(
        "_original_container", module
    )  # a bridge shows a container's own tensors in a module of its own
    pending = [vars(owner).get("_hf_hook")]
    while pending:
        hook = pending.pop()
        pending.extend(getattr(hook, "hooks", ()))
        if getattr(hook, "offload", False):
            return hook
    return None


def runs_its_class(module: nn.Module) -> bool:
    """Whether a module runs the forward function of its class, around which accelerate may place weights and inputs."""
    own = vars(module)
    if "forward" not in own:
        return True
    hooks = getattr(own.get("_hf_hook"), "hooks", (own.get("_hf_hook"),))
    before = own.get("_old_forward")
    return (
        all(type(hook).__name__ == "AlignDevicesHook" for hook in hooks)
        and getattr(own["forward"], "__wrapped__", None) == before
        and getattr(before, "__func__", None) is type(module).forward
    )


def stored_weights(module: nn.Module, *, buffers: bool = True) -> Iterator[StoredWeight]:
    """A module's own parameters and buffers, not those of modules inside it."""
    hook = offloading_hook(module)
    for name, tensor in (*module._parameters.items(), *(module._buffers.items() if buffers else ())):
        if tensor is not None:
            yield StoredWeight(tensor, hook if tensor.is_meta else None, name)


def has_lost_weights(model: nn.Module) -> bool:
    """Whether a model has weights without numbers that nothing loads."""
    return any(
        weight.shown.is_meta and weight.hook is None for module in model.modules() for weight in stored_weights(module)
    )


@contextmanager
def weights_on_device(*modules: nn.Module) -> Iterator[None]:
    """Inside, the offloaded weights of modules and of all modules in them are where their modules run.

    Weights that are there already, since their module is running, stay after it.
    """
    with ExitStack() as stack:
        for module in {inner: None for outer in modules for inner in outer.modules()}:
            if (hook := offloading_hook(module)) and any(weight.hook for weight in stored_weights(module)):
                hook.pre_forward(module)
                stack.callback(hook.post_forward, module, None)
        yield


def weight_on_device(module: Any) -> Tensor | None:
    """A tensor of the dtype of a module's first parameter on the device where it runs; None for a module without any."""
    for inner in module.modules():
        for weight in stored_weights(inner, buffers=False):
            if weight.hook is None:
                return weight.shown
            return torch.empty(0, dtype=weight.shown.dtype, device=weight.hook.execution_device)
    return None
