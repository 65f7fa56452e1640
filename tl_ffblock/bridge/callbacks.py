"""Callbacks on single HookPoints: read after everybody else, notice edits, be disabled for a while.

`LastCallback` sits on a HookPoint as a forward pre-hook and adds its reading callback at the moment the
HookPoint fires, so it always comes after every other callback, whenever those were added: what is
read is what the rest of the model received. Nothing of ours stays on a HookPoint between two
firings but that pre-hook.

What the package uses of TransformerLens' classes stands here too, so that no version of it needs to be imported. Members
whose types differ between `TransformerBridge`, `HookedTransformer` and `HookedEncoder` are `Any`.
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
"""Reads a tensor, or gives another in its place."""


@runtime_checkable
class HookPoint(Protocol):
    """A module of a forward pass that hands its tensor to callbacks."""

    name: str | None
    fwd_hooks: list[Any]  # handles of the callbacks that users added, in their order
    hook_conversion: Any  # from a bridge's tensor to TransformerLens' form; None where it has that form already
    _forward_hooks: Any  # torch's own table: every callback after it, by number
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
    tokenizer: Any  # None where it has none
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
    """A callback that is added when its HookPoint fires, and taken away when it was called."""

    def __init__(self, hook_point: HookPoint) -> None:
        self._hook_point = hook_point
        self._reader = RemovableHandle(OrderedDict())  # of nothing yet
        self._arming = hook_point.register_forward_pre_hook(self._arm)

    def _arm(self, hook_point: HookPoint, args: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        self._arming.remove()
        self._reader.remove()

    def __exit__(self, *_: object) -> None:
        self.remove()


class LastCallback(_Armed):
    """Reads one HookPoint after all of its other callbacks.

    `receive` may return a tensor of equal values, with which the model then goes on.
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


class Watch(_Armed):
    """Notices whether other callbacks change what passes one HookPoint, and hands over what came in."""

    def __init__(self, hook_point: HookPoint, changed: Callable[[Tensor], None]) -> None:
        super().__init__(hook_point)
        self._changed = changed

    def _arm(self, hook_point: HookPoint, args: tuple[Any, ...]) -> None:
        self._reader.remove()  # a callback that raised before this one left it there
        if hook_point._forward_hooks and isinstance(args[0], Tensor):
            before = args[0].detach().clone()
            self._reader = hook_point.register_forward_hook(lambda *event: self._compare(before, event[2]))

    def _compare(self, before: Tensor, after: Tensor) -> None:
        self._reader.remove()
        if not isinstance(after, Tensor):
            raise InputError(
                f"fwd_hooks: a hook returned a {type(after).__name__}; expected a tensor of the same shape, or None."
            )
        if not torch.equal(before, after):
            self._changed(before)


def change_input(module: HookPoint | nn.Module, change: Change) -> RemovableHandle:
    """Change what enters a HookPoint, before any callback on it, or another module."""

    def enter(_: Any, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        changed = change(args[0])
        return None if changed is None else (changed, *args[1:])

    return module.register_forward_pre_hook(enter)


def is_listened_to(hook_points: Iterable[HookPoint]) -> bool:
    """Whether any callback sits on any of them: a user's, or one of another capture."""
    return any(_has_users(point) or point._forward_pre_hooks for point in hook_points)


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


# HookPoints of numbers that multiply what flows and are none of it.
_COEFFICIENTS = re.compile(
    r"\.(hook_(q|k|rot_q|rot_k|attn_scores|pattern|scale|cos|sin|expert_\w+|router_\w+)|[qk](_norm)?\.\w+|router\.\w+)$"
)


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
        if _has_users(hook_points[alike[0]]) and not any(_COEFFICIENTS.search(name) for name in alike)
    ]


def _has_users(point: HookPoint) -> bool:
    """Whether more callbacks are after it than TransformerLens's own: BERT's bridge passes tensors on to other names so."""
    return len(point._forward_hooks) > sum(_is_wiring(handle) for handle in point.fwd_hooks)


def _is_wiring(handle: Any) -> bool:
    return str(getattr(getattr(handle, "user_hook", None), "__module__", "")).startswith("transformer_lens.")


@contextmanager
def silence(hook_points: Iterable[HookPoint]) -> Iterator[None]:
    """No callback of a user's and none of ours fires inside; all are back afterwards, in their order."""
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
