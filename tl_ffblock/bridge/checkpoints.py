"""Layers that run again in the backward pass, so that a run keeps what enters each and not what happens inside.

Torch's checkpoints do it: in the forward pass what a layer would keep for its derivatives is forgotten; in the backward pass
the layer runs once more, and the same tensors, in the same order, are what it would have kept. So local rules have to be in
place both times, which is why only callbacks of ours may sit on a model whose layers run twice.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop
from transformers import Cache

from tl_ffblock.bridge.batching import Batch
from tl_ffblock.bridge.inputs import drop_graph
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.taps import is_listened_to
from tl_ffblock.errors import InputError, UnsupportedModelError

KEPT_WHOLE = 1024
"""Tokens of a batch's sequences up to which layers keep what happens inside, unless asked otherwise."""


def layers_run_twice(run: Run, batch: Batch, asked: bool | None) -> bool:
    """Whether a batch runs with checkpoints; None leaves it to its length.

    Raises:
        InputError: if they are asked for under callbacks of the caller's own.
    """
    hooked = bool(run.fwd_hooks) or is_listened_to(run.model.hook_points.values())
    if asked and hooked:
        raise InputError(
            "checkpoint=True under hooks of your own: layers would run twice, and your hooks see every tensor twice. Give "
            "checkpoint=False, or take the hooks off."
        )
    return batch.tokens.shape[1] > KEPT_WHOLE and not hooked if asked is None else asked


@contextmanager
def forgetful_layers(model: Model) -> Iterator[None]:
    """Layers of the forward pass inside keep their inputs alone, and run again in a backward pass.

    Raises:
        UnsupportedModelError: if a layer runs again before that pass is over.
    """
    layers = [_Forgetful(model, block) for block in model.hooked.blocks]
    with set_checkpoint_early_stop(False):  # callbacks see a layer to its end
        try:
            for layer in layers:
                layer.fit()
            yield
        finally:
            for layer in layers:
                layer.remove()


class _Forgetful:
    """A layer whose `forward` is a checkpoint; on its own dictionary, since a bridge hands what is set over to another model."""

    def __init__(self, model: Model, block: nn.Module) -> None:
        self._model, self._block = model, block
        self._run, self._before = block.forward, vars(block).get("forward")
        self._fitted = False

    def fit(self) -> None:
        vars(self._block)["forward"], self._fitted = self._forward, True

    def remove(self) -> None:
        self._fitted = False
        vars(self._block).pop("forward", None)
        if self._before is not None:
            vars(self._block)["forward"] = self._before

    def _forward(self, *args: Any, **named: Any) -> Any:
        given = [_without_cache(value) for value in args]
        named = {name: _without_cache(value) for name, value in named.items()}
        runs: list[None] = []

        def run(*args: Any, **named: Any) -> Any:
            if runs and self._fitted:
                raise UnsupportedModelError(
                    f"{self._model.name} ({self._model.family.name}) takes derivatives in its forward pass, so its layers cannot run "
                    "twice. Give checkpoint=False."
                )
            runs.append(None)
            output = self._run(*args, **named)
            drop_graph(self._block)
            return output

        return checkpoint(run, *given, use_reentrant=False, preserve_rng_state=False, **named)


def _without_cache(value: Any) -> Any:
    """A cache of keys and values grows with every run of a layer."""
    return None if isinstance(value, Cache) else value
