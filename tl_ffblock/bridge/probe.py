"""A small clean run of a model: are its layers read rightly, whatever a user's hooks do to theirs?

An edited run cannot tell a wrong reading of the model from the effect of the edit, so the identities of
its layers are checked on eight tokens without any callback but ours, once a model.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from tl_ffblock.bridge.assembly import CaptureSpec
from tl_ffblock.bridge.batching import Batch
from tl_ffblock.bridge.collector import collecting
from tl_ffblock.bridge.hugging_face import probe_tokens
from tl_ffblock.bridge.inputs import forward
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.selfcheck import check_once
from tl_ffblock.bridge.settings import tolerance_of
from tl_ffblock.bridge.sites import norm_module, output_name
from tl_ffblock.bridge.taps import Tap, silence
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.scopes import PROGRAMS

_HEADS = ("unembed", "mlm_head")
"""TransformerLens's own modules that read the last layer's last scope."""


def probe(model: Model, dtype: torch.dtype, layers: tuple[int, ...]) -> None:
    """Check the identities of layers on a small clean run, unless this model's were.

    Raises:
        IdentityError: naming layer and identity.
    """
    if model.memory.probed.issuperset(layers):
        return
    with silence(model.hook_points.values()), collecting(model, CaptureSpec(layers, dtype)) as records:
        forward(model, Batch(probe_tokens(model.hooked)))
    for layer in layers:
        check_once(model, records[layer].sequence(0), tolerance_of(model))
    model.memory.probed.update(layers)
    hold_end(model, dtype, layers)


def hold_end(model: Model, dtype: torch.dtype, layers: Collection[int], *, always: bool = False) -> None:
    """Compare the last layer's last scope with what the model reads next: what enters its unembedding, or a matrix before it.

    A bridge need not have a component for every norm that runs (OPT with word_embed_proj_dim, TransformerLens 4.3): the scope
    would omit such a norm.

    Args:
        model: The model.
        dtype: Of the tensors that are compared.
        layers: Those that are wanted; without the last one there is nothing to compare.
        always: Whether also where the scope ends with a norm that the identities hold; it costs a run of eight tokens.

    Raises:
        UnsupportedModelError: if they differ, naming the modules that ran between.
    """
    last = model.n_layers - 1
    if last not in layers or model.memory.ends_held:
        return
    if not always and norm_module(model, last, "out_norm") is not None:
        return
    with silence(model.hook_points.values()), collecting(model, CaptureSpec((last,), dtype)) as records:
        end = _End(model)
        try:
            forward(model, Batch(probe_tokens(model.hooked)))
        finally:
            end.remove()
    if last in records:
        end.refuse_other(records[last].whole[PROGRAMS[model.family.order][-1].scope])
        model.memory.ends_held = True


class _End:
    """What enters the first matrix after the last layer, and which modules run before it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._begun = False
        self._between: list[str] = []
        self._entered: tuple[str, Tensor] | None = None
        inside = {id(module) for block in model.hooked.blocks for module in block.modules()}
        named: dict[int, tuple[str, nn.Module]] = {}
        wrapped = getattr(model.hooked, "original_model", model.hooked)
        for name, module in (*model.hooked.named_modules(), *wrapped.named_modules()):
            if id(module) not in inside:
                named.setdefault(id(module), (name.replace("._original_component", ""), module))
        self._handles: list[Any] = [Tap(model.hook_points[output_name(model)], self._begin)]
        self._handles += [
            module.register_forward_pre_hook(partial(self._enter, name))
            for name, module in named.values()
            if name in _HEADS or (not list(module.children()) and list(module.parameters(recurse=False)))
        ]

    def _begin(self, x: Tensor) -> None:
        self._begun = True

    def _enter(self, name: str, module: nn.Module, args: tuple[Any, ...]) -> None:
        if not self._begun or self._entered is not None or not args or not isinstance(args[0], Tensor):
            return
        if name in _HEADS or isinstance(module, nn.Linear):
            self._entered = name, args[0].detach()
        else:
            self._between.append(f"{name} ({type(module).__name__})")

    def remove(self) -> None:
        """Leave the model as it was."""
        for handle in self._handles:
            handle.remove()

    def refuse_other(self, scope: Float[Tensor, "batch pos d"]) -> None:
        """Refuse a last scope that is not what enters that matrix."""
        if self._entered is None:
            return
        name, entered = self._entered
        entered, model = entered.to(scope), self._model
        if entered.shape == scope.shape:
            error = float((entered - scope).norm() / scope.norm())
            if error <= tolerance_of(model):
                return
        else:
            error = float("nan")
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}): what enters {name} is not the last layer's "
            f"{PROGRAMS[model.family.order][-1].scope} (relative difference {error:.1e}), so that scope would leave out "
            f"{', '.join(self._between) or 'code without a module of its own'}, which runs between and has no HookPoint in this "
            f"TransformerLens. Earlier layers can be decomposed: give layers=range({model.n_layers - 1})."
        )
