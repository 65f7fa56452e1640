"""The library's own errors: each is an `FFBlockError` and the built-in a caller would guess."""

import difflib
import inspect
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

__all__ = [
    "CallError",
    "CaptureError",
    "CompletenessError",
    "FFBlockError",
    "IdentityError",
    "InputError",
    "LayerError",
    "MapFileError",
    "MissingSpaceWarning",
    "ModelLoadError",
    "ProcessedWeightsWarning",
    "ScopeKeyError",
    "UnsupportedModelError",
    "UntrainedHeadError",
]


_NO_MEMORY = re.compile("not enough memory|cannot allocate memory|can't allocate memory|out of memory", re.IGNORECASE)


class FFBlockError(Exception):
    """Base of every error this library raises on purpose."""


class InputError(FFBlockError, ValueError):
    """An argument or an input text cannot be used as given."""


class CallError(InputError, TypeError):
    """A function was called with an argument that it does not have, or without one that it needs."""


class ScopeKeyError(FFBlockError, KeyError):
    """A result holds no such scope or layer."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class LayerError(InputError, ScopeKeyError):
    """A model or a result has no such layer: a wrong argument and a missing key in one."""


class UnsupportedModelError(FFBlockError, NotImplementedError):
    """The model, or the way it was loaded, cannot be decomposed exactly."""


class UntrainedHeadError(InputError, UnsupportedModelError):
    """A model's logits are those of random weights: a wrong argument and an unsupported model in one."""


class ModelLoadError(FFBlockError, OSError):
    """A model cannot be found or loaded."""


class IdentityError(FFBlockError, RuntimeError):
    """A captured tensor is not what the block's own weights say it is."""


class CompletenessError(FFBlockError, ArithmeticError):
    """Parts and bias do not sum to the model's own tensor."""


class OutOfMemoryError(FFBlockError, MemoryError):
    """A call would hold more memory than is free."""


class CaptureError(FFBlockError, RuntimeError):
    """A forward pass did not deliver the tensors that were to be captured."""


class MapFileError(FFBlockError, ValueError):
    """A saved map file is damaged, of another version, or not ours."""


class ProcessedWeightsWarning(UserWarning):
    """The model's weights were folded or centred: norms are then of the processed model."""


class MissingSpaceWarning(UserWarning):
    """A target names a token that the model does not expect, and expects the same one with a space before it."""


def warn(said: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, however deep; also from a hook, which torch calls and not the user."""
    frames = enumerate(traceback.walk_stack(inspect.currentframe()), start=1)
    ours = [depth for depth, (frame, _) in frames if frame.f_globals.get("__name__", "").split(".")[0] == __package__]
    warnings.warn(said, category, stacklevel=ours[-1] + 1)


def former_names(module: str, former: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: names that changed still work and warn; any other is an AttributeError.

    Args:
        module: Its name.
        former: By former name the full name of today.
    """

    def attribute(name: str) -> Any:
        if name not in former:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        warn(f"{module}.{name} is {former[name]} now", DeprecationWarning)
        home, _, now = former[name].rpartition(".")
        return getattr(import_module(home), now)

    return attribute


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out: Python's own, torch's of either device, or the loader's of a library."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def brief(value: object, most: int = 80) -> str:
    """A value as an error shows it: its repr, cut where it is long."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """A question for an error where a word is nearly one of those that there are, "" where it is not."""
    by_lower = {name.lower(): name for name in known if _digits(name) == _digits(str(word))}
    near = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"Did you mean `{by_lower[near[0]]}`?" if near else ""


def _digits(word: str) -> str:
    """The numbers in a word: "head 3" is not meant for "head 2"."""
    return "".join(filter(str.isdigit, word))
