"""What the package uses of TransformerLens' classes, so that no version of it needs to be imported.

Members whose types differ between `TransformerBridge`, `HookedTransformer` and `HookedEncoder` are `Any`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


@runtime_checkable
class HookPoint(Protocol):
    """A place of a forward pass that hands its tensor to callbacks."""

    @property
    def name(self) -> str | None:
        """Its name in the model."""

    @property
    def fwd_hooks(self) -> list[Any]:
        """Handles of the callbacks that users added, in their order."""

    @property
    def hook_conversion(self) -> Any:
        """What turns a bridge's tensor into TransformerLens' form; None where it has that form already."""

    @property
    def _forward_hooks(self) -> dict[int, Callable[..., Any]]:
        """Every callback after it by number: torch's own table."""

    @property
    def _forward_pre_hooks(self) -> dict[int, Callable[..., Any]]:
        """Every callback before it by number."""

    def add_hook(self, hook: Callable[..., Any]) -> None:
        """Add a callback `(tensor, hook) -> tensor or None`."""

    def register_forward_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a callback as torch does."""

    def register_forward_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Add a callback as torch does, before the tensor passes."""


@runtime_checkable
class HookedModel(Protocol):
    """A model of TransformerLens."""

    @property
    def cfg(self) -> Any:
        """Its configuration."""

    @property
    def blocks(self) -> Any:
        """Its layers."""

    @property
    def embed(self) -> nn.Module:
        """What makes vectors of token ids."""

    @property
    def hook_dict(self) -> dict[str, Any]:
        """Every HookPoint by name."""

    @property
    def tokenizer(self) -> Any:
        """Its tokenizer; None where it has none."""

    @property
    def to_tokens(self) -> Callable[..., Any]:
        """A text's token ids."""

    @property
    def W_E(self) -> Tensor:  # noqa: N802 - TransformerLens's name
        """Its embedding matrix, [d_vocab d_model]."""

    @property
    def training(self) -> bool:
        """Whether it is in training mode."""

    @property
    def hooks(self) -> Callable[..., AbstractContextManager[Any]]:
        """`hooks(fwd_hooks=...)`: callbacks for the runs inside the context."""

    @property
    def run_with_hooks(self) -> Callable[..., Any]:
        """`run_with_hooks(tokens, fwd_hooks=...)`: one run with callbacks."""

    @property
    def run_with_cache(self) -> Callable[..., Any]:
        """`run_with_cache(tokens)`: logits and everything that passed HookPoints."""

    @property
    def _modules(self) -> dict[str, nn.Module | None]:
        """Its direct submodules by name: torch's own table."""

    @property
    def parameters(self) -> Callable[[], Iterator[nn.Parameter]]:
        """All parameters."""

    @property
    def modules(self) -> Callable[[], Iterator[nn.Module]]:
        """The model and every module in it."""

    @property
    def named_modules(self) -> Callable[[], Iterator[tuple[str, nn.Module]]]:
        """The model and every module in it, with names."""

    @property
    def get_submodule(self) -> Callable[[str], nn.Module]:
        """A module by name."""

    @property
    def state_dict(self) -> Callable[..., dict[str, Any]]:
        """All parameters and buffers by name."""

    @property
    def __call__(self) -> Callable[..., Any]:
        """One run."""
