"""Callbacks on single HookPoints: read after everybody else, notice edits, be silent for a while.

A tap sits on each HookPoint as a forward pre-hook and adds its reading callback at the moment the
HookPoint fires, so it always comes after every other callback, whenever those were added: what is
read is what the rest of the model received. Nothing of ours stays on a HookPoint between two
firings but the tap.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from tl_ffblock.bridge.protocols import HookPoint
from tl_ffblock.errors import InputError


class Tap:
    """Reads one HookPoint after all of its other callbacks.

    `receive` may return a tensor of equal values, with which the model then goes on.
    """

    def __init__(self, hook_point: HookPoint, receive: Callable[[Tensor], Tensor | None]) -> None:
        self._hook_point = hook_point
        self._receive = receive
        self._reader: Any = None
        self._arming = hook_point.register_forward_pre_hook(self._arm)

    def _arm(self, *_: Any) -> None:
        self._disarm()
        self._reader = self._hook_point.register_forward_hook(self._read)

    def _read(self, hook_point: HookPoint, _: Any, tensor: Tensor) -> Tensor | None:
        self._disarm()
        conversion = hook_point.hook_conversion
        if conversion is None:
            return self._receive(tensor)
        received = self._receive(conversion.convert(tensor))
        return None if received is None else conversion.revert(received)

    def _disarm(self) -> None:
        if self._reader is not None:
            self._reader.remove()
            self._reader = None

    def remove(self) -> None:
        """Leave the HookPoint as it was."""
        self._arming.remove()
        self._disarm()


class Watch:
    """Notices whether other callbacks change what passes one HookPoint, and hands over what came in."""

    def __init__(self, hook_point: HookPoint, changed: Callable[[Tensor], None]) -> None:
        self._changed = changed
        self._comparison: Any = None
        self._arming = hook_point.register_forward_pre_hook(self._arm)

    def _arm(self, hook_point: HookPoint, args: tuple[Any, ...]) -> None:
        self._forget()  # a callback that raised before this one left it behind
        if hook_point._forward_hooks and isinstance(args[0], Tensor):
            before = args[0].detach().clone()
            self._comparison = hook_point.register_forward_hook(lambda *event: self._compare(before, event[2]))

    def _compare(self, before: Tensor, after: Tensor) -> None:
        self._forget()
        if not isinstance(after, Tensor):
            raise InputError(
                f"fwd_hooks: a hook returned a {type(after).__name__}; expected a tensor of the same shape, or None."
            )
        if not torch.equal(before, after):
            self._changed(before)

    def remove(self) -> None:
        """Leave the HookPoint as it was."""
        self._arming.remove()
        self._forget()

    def _forget(self) -> None:
        if self._comparison is not None:
            self._comparison.remove()
            self._comparison = None


def is_listened_to(hook_points: Iterable[HookPoint]) -> bool:
    """Whether any callback sits on any of them: a user's, or a tap of another capture."""
    return any(len(point._forward_hooks) > _wiring(point) or point._forward_pre_hooks for point in hook_points)


def user_callbacks(hook_points: Iterable[HookPoint]) -> frozenset[tuple[int, int]]:
    """Which callbacks of users sit on which of them: the same set as long as none is added or removed."""
    return frozenset(
        (id(point), handle.hook.id) for point in hook_points for handle in point.fwd_hooks if not _is_wiring(handle)
    )


def module_callbacks(modules: Iterable[nn.Module]) -> frozenset[tuple[int, int]]:
    """Which callbacks of torch sit on modules other than HookPoints, but those that TransformerLens puts there and ours."""
    return frozenset(
        (id(module), number)
        for module in modules
        if type(module).__name__ != "HookPoint"
        for table in (module._forward_hooks, module._forward_pre_hooks)
        for number, callback in table.items()
        if not str(getattr(callback, "__module__", "")).startswith(("transformer_lens.", "tl_ffblock."))
    )


_COEFFICIENTS = re.compile(
    r"\.(hook_(q|k|rot_q|rot_k|attn_scores|pattern|scale|cos|sin|expert_\w+|router_\w+)|[qk](_norm)?\.\w+|router\.\w+)$"
)
"""HookPoints of numbers that multiply what flows and are none of it."""


def edited_names(hook_points: Mapping[str, HookPoint]) -> list[str]:
    """A name of every HookPoint in the stream of values on which a callback of a user's sits: TransformerLens's own of several.

    `blocks.0.attn.hook_z` is `blocks.0.attn.o.hook_in` as well, which is that of the module.
    """
    names: dict[int, list[str]] = {}
    for name, point in hook_points.items():
        names.setdefault(id(point), []).append(name)
    return [
        min(alike, key=lambda name: name.endswith((".hook_in", ".hook_out")))
        for alike in names.values()
        if len(hook_points[alike[0]]._forward_hooks) > _wiring(hook_points[alike[0]])
        and not any(_COEFFICIENTS.search(name) for name in alike)
    ]


def _wiring(hook_point: HookPoint) -> int:
    """How many of a HookPoint's callbacks are TransformerLens's own: BERT's bridge passes tensors on to other names so."""
    return sum(_is_wiring(handle) for handle in hook_point.fwd_hooks)


def _is_wiring(handle: Any) -> bool:
    function = getattr(handle, "user_hook", None)
    return str(getattr(function, "__module__", "")).startswith("transformer_lens.")


@contextmanager
def silence(hook_points: Iterable[HookPoint]) -> Iterator[None]:
    """No callback of a user's and no tap fires inside; all are back afterwards, in their order."""
    points = list({id(point): point for point in hook_points}.values())
    kept = [(table, dict(table)) for p in points for table in (p._forward_hooks, p._forward_pre_hooks)]
    try:
        for point in points:
            for handle in point.fwd_hooks:
                point._forward_hooks.pop(handle.hook.id, None)
            for number, callback in list(point._forward_pre_hooks.items()):
                if isinstance(getattr(callback, "__self__", None), (Tap, Watch)):
                    del point._forward_pre_hooks[number]
        yield
    finally:
        for table, callbacks in kept:
            table.clear()
            table.update(callbacks)
