"""Errors and warnings of this library: every error is an `FFBlockError` and a matching built-in exception."""

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
    "EqualPairWarning",
    "FFBlockError",
    "IdentityError",
    "InputError",
    "LayerError",
    "MapFileError",
    "MissingSpaceWarning",
    "ModelLoadError",
    "PaddingWarning",
    "ProcessedWeightsWarning",
    "ScopeKeyError",
    "UnsupportedModelError",
    "UntrainedHeadError",
]


_NO_MEMORY = re.compile("not enough memory|cannot allocate memory|can't allocate memory|out of memory", re.IGNORECASE)


class FFBlockError(Exception):
    """Base class of all errors of this library."""


class InputError(FFBlockError, ValueError):
    """An argument or an input text cannot be used."""


class CallError(InputError, TypeError):
    """A function got an unknown argument, or lacks a required one."""


class ScopeKeyError(FFBlockError, KeyError):
    """A result has no such scope, layer or table."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class LayerError(InputError, ScopeKeyError):
    """A model or a result has no such layer."""


class UnsupportedModelError(FFBlockError, NotImplementedError):
    """The model, or the way it was loaded, cannot be decomposed exactly."""


class UntrainedHeadError(InputError, UnsupportedModelError):
    """A model's logits are those of random weights."""


class ModelLoadError(FFBlockError, OSError):
    """A model cannot be found or loaded."""


class IdentityError(FFBlockError, RuntimeError):
    """A cached activation does not fulfil an equation of the block's weights."""


class CompletenessError(FFBlockError, ArithmeticError):
    """Contributions or attributions do not sum to the model's own value."""


class OutOfMemoryError(FFBlockError, MemoryError):
    """A call needs more memory than allowed or free."""


class CaptureError(FFBlockError, RuntimeError):
    """A forward pass did not give the expected tensors."""


class MapFileError(FFBlockError, ValueError):
    """A saved file is damaged, of another version, or of another program."""


class ProcessedWeightsWarning(UserWarning):
    """The model's weights were folded or centred: contribution norms are those of the processed model."""


class MissingSpaceWarning(UserWarning):
    """A target's token is improbable, and probable with a space before it."""


class PaddingWarning(UserWarning):
    """The token ids of one prompt begin or end in pad tokens, which the model reads as text."""


class EqualPairWarning(UserWarning):
    """A clean and a corrupted prompt, or their targets, are equal, so that patching has no effect to measure."""


def warn(said: str, category: type[Warning]) -> None:
    """Warn at the line that called this package, at any depth; also from hooks, which torch calls."""
    frames = enumerate(traceback.walk_stack(inspect.currentframe()), start=1)
    ours = [depth for depth, (frame, _) in frames if frame.f_globals.get("__name__", "").split(".")[0] == __package__]
    warnings.warn(said, category, stacklevel=ours[-1] + 1)


def former_names(module: str, former: Mapping[str, str]) -> Callable[[str], Any]:
    """A module's `__getattr__`: names that changed still work and warn; any other is an AttributeError.

    Args:
        module: Name of the module.
        former: The present full name, by former name.
    """

    def attribute(name: str) -> Any:
        if name not in former:
            raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules[module])
        warn(f"{module}.{name} is {former[name]} now", DeprecationWarning)
        home, _, now = former[name].rpartition(".")
        return getattr(import_module(home), now)

    return attribute


def renamed(former: str, now: str, read: Callable[[Any], Any]) -> property:
    """A deprecated attribute under its former name, which still works and warns.

    Args:
        former: That name.
        now: The name of today, for the warning.
        read: Its value for an object.
    """

    def attribute(owner: Any) -> Any:
        warn(f"{type(owner).__name__}.{former} is {now} now", DeprecationWarning)
        return read(owner)

    return property(attribute)


def out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out: Python's own, torch's on any device, or a library loader's."""
    return isinstance(error, MemoryError) or bool(_NO_MEMORY.search(str(error)))


def brief(value: object, most: int = 80) -> str:
    """The repr of a value, shortened for an error."""
    text = repr(value)
    return text if len(text) <= most else text[: most - 3] + "..."


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Suggestion for an error if a word is similar to a known one, else ""."""
    by_lower = {name.lower(): name for name in known if _digits(name) == _digits(str(word))}
    near = difflib.get_close_matches(str(word).lower(), by_lower, n=1)
    return f"Did you mean `{by_lower[near[0]]}`?" if near else ""


def _digits(word: str) -> str:
    """Numbers in a word: "head 3" is not a misspelling of "head 2"."""
    return "".join(filter(str.isdigit, word))
