"""Callbacks on single HookPoints: reading after all other callbacks, detecting edits, disabling hooks.

`LastCallback` is a forward pre-hook that adds its reading callback when the HookPoint fires. The callback is therefore after all
others, whenever these were added, and reads the tensor that the rest of the model receives. Between two forward passes only the
pre-hook is on the HookPoint.

Protocols of TransformerLens's classes are here too, so that no version of it needs to be imported. Members whose types differ
between `TransformerBridge`, `HookedTransformer` and `HookedEncoder` are `Any`.
"""

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from tl_ffblock.errors import InputError

Change = Callable[[Tensor], Tensor | None]
"""Function of a tensor that returns a replacement, or None to keep it."""


@runtime_checkable
class HookPoint(Protocol):
    """A module of a forward pass that calls callbacks with its tensor."""

    name: str | None
    fwd_hooks: list[Any]  # handles of callbacks added by `add_hook`, in their order
    hook_conversion: Any  # from a bridge's tensor to TransformerLens's shape; None if it has this shape already
    _forward_hooks: Any  # torch's table of all forward hooks, by number
    _forward_pre_hooks: Any
    add_hook: Callable[..., None]
    register_forward_hook: Callable[..., RemovableHandle]
    register_forward_pre_hook: Callable[..., RemovableHandle]


@runtime_checkable
class HookedModel(Protocol):
    """A model of TransformerLens."""

    cfg: Any
    blocks: Any  # its layers
    embed: nn.Module
    hook_dict: dict[str, Any]  # every HookPoint by name
    tokenizer: Any  # None if there is none
    to_tokens: Callable[..., Any]
    W_E: Tensor  # [d_vocab d_model]
    training: bool
    hooks: Callable[..., AbstractContextManager[Any]]
    run_with_hooks: Callable[..., Any]
    run_with_cache: Callable[..., Any]
    _modules: dict[str, nn.Module | None]
    parameters: Callable[[], Iterator[nn.Parameter]]
    modules: Callable[[], Iterator[nn.Module]]
    named_modules: Callable[[], Iterator[tuple[str, nn.Module]]]
    get_submodule: Callable[[str], nn.Module]
    state_dict: Callable[..., dict[str, Any]]
    __call__: Callable[..., Any]


class _Armed(AbstractContextManager["_Armed"]):
    """A callback that is added when its HookPoint fires, and removed when it was called."""

    def __init__(self, hook_point: HookPoint) -> None:
        self._hook_point = hook_point
        self._reader = RemovableHandle(OrderedDict())  # an empty handle until the HookPoint fires
        self._arming = hook_point.register_forward_pre_hook(self._arm)

    def _arm(self, hook_point: HookPoint, args: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        self._arming.remove()
        self._reader.remove()

    def __exit__(self, *_: object) -> None:
        self.remove()


class LastCallback(_Armed):
    """Reads one HookPoint after all its other callbacks.

    `receive` may return a tensor with equal values, which then replaces the original in the forward pass.
    """

    def __init__(self, hook_point: HookPoint, receive: Change) -> None:
        super().__init__(hook_point)
        self._receive = receive

    def _arm(self, *_: Any) -> None:
        self._reader.remove()
        self._reader = self._hook_point.register_forward_hook(self._read)

    def _read(self, hook_point: HookPoint, _: Any, tensor: Tensor) -> Tensor | None:
        self._reader.remove()
        conversion = hook_point.hook_conversion
        received = self._receive(tensor if conversion is None else conversion.convert(tensor))
        return received if received is None or conversion is None else conversion.revert(received)


class Several:
    """Several callbacks that are removed together."""

    def __init__(self, *removables: Any) -> None:
        self._removables = removables

    def remove(self) -> None:
        """Remove all of them."""
        for removable in self._removables:
            removable.remove()


class Watch(_Armed):
    """Detects whether other callbacks change a HookPoint's tensor, and calls `changed` with the tensor before them."""

    def __init__(self, hook_point: HookPoint, changed: Callable[[Tensor], None]) -> None:
        super().__init__(hook_point)
        self._changed = changed

    def _arm(self, hook_point: HookPoint, args: tuple[Any, ...]) -> None:
        self._reader.remove()  # it is still there if an earlier callback raised an error
        if hook_point._forward_hooks and isinstance(args[0], Tensor):
            before = args[0].detach().clone()
            self._reader = hook_point.register_forward_hook(lambda *event: self._compare(before, event[2]))

    def _compare(self, before: Tensor, after: Tensor) -> None:
        self._reader.remove()
        if not isinstance(after, Tensor):
            raise InputError(
                f"fwd_hooks: a hook returned {type(after).__name__}; expected a tensor of the same shape, or None."
            )
        if not torch.equal(before, after):
            self._changed(before)


def change_input(module: HookPoint | nn.Module, change: Change) -> RemovableHandle:
    """Pre-hook that changes the first input of a module; on a HookPoint this is before all its callbacks."""

    def enter(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        changed = change(args[0])
        return None if changed is None else (changed, *args[1:])

    return module.register_forward_pre_hook(enter)


def is_listened_to(hook_points: Iterable[HookPoint]) -> bool:
    """Whether a HookPoint has a callback of a user or of another capture."""
    return any(_has_users(point) or point._forward_pre_hooks for point in hook_points)


def user_callbacks(hook_points: Iterable[HookPoint]) -> frozenset[tuple[int, int]]:
    """Pairs of HookPoint id and callback number of users' callbacks; it changes if one is added or removed."""
    return frozenset(
        (id(point), handle.hook.id) for point in hook_points for handle in point.fwd_hooks if not _is_wiring(handle)
    )


def module_callbacks(modules: Iterable[nn.Module]) -> frozenset[tuple[int, int]]:
    """Pairs of module id and number of torch hooks on modules other than HookPoints, without those of both libraries."""
    return frozenset(
        (id(module), number)
        for module in modules
        if type(module).__name__ != "HookPoint"
        for table in (module._forward_hooks, module._forward_pre_hooks)
        for number, callback in table.items()
        if not str(getattr(callback, "__module__", "")).startswith(("transformer_lens.", "tl_ffblock."))
    )


# HookPoints of factors and indices, which are not part of the residual stream or a branch's values.
_COEFFICIENTS = re.compile(
    r"\.(hook_(q|k|rot_q|rot_k|attn_scores|pattern|scale|cos|sin|expert_\w+|router_\w+)|[qk](_norm)?\.\w+|router\.\w+)$"
)


def edited_names(hook_points: Mapping[str, HookPoint]) -> list[str]:
    """Names of the HookPoints with users' callbacks, one per HookPoint, without those of factors such as patterns and scales.

    Of several names, TransformerLens's is preferred: `blocks.0.attn.hook_z` to `blocks.0.attn.o.hook_in`.
    """
    names: dict[int, list[str]] = {}
    for name, point in hook_points.items():
        names.setdefault(id(point), []).append(name)
    return [
        min(alike, key=lambda name: name.endswith((".hook_in", ".hook_out")))
        for alike in names.values()
        if _has_users(hook_points[alike[0]]) and not any(_COEFFICIENTS.search(name) for name in alike)
    ]


def _has_users(point: HookPoint) -> bool:
    """Whether a HookPoint has other forward hooks than TransformerLens's own, by which BERT's bridge copies tensors to aliases."""
    return len(point._forward_hooks) > sum(_is_wiring(handle) for handle in point.fwd_hooks)


def _is_wiring(handle: Any) -> bool:
    return str(getattr(getattr(handle, "user_hook", None), "__module__", "")).startswith("transformer_lens.")


@contextmanager
def silence(hook_points: Iterable[HookPoint]) -> Iterator[None]:
    """Context in which no callback of users or of this package fires; afterwards all are restored in their order."""
    points = list({id(point): point for point in hook_points}.values())
    kept = [(table, dict(table)) for p in points for table in (p._forward_hooks, p._forward_pre_hooks)]
    try:
        for point in points:
            for handle in point.fwd_hooks:
                point._forward_hooks.pop(handle.hook.id, None)
            for number, callback in list(point._forward_pre_hooks.items()):
                if isinstance(getattr(callback, "__self__", None), _Armed):
                    del point._forward_pre_hooks[number]
        yield
    finally:
        for table, callbacks in kept:
            table.clear()
            table.update(callbacks)
