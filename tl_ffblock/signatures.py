"""Functions that share their keyword options: the options stand once, every signature shows them."""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


def spelled_out(options: type, defaults: dict[str, Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show the keys of a function's `**options` as keyword arguments of its own.

    A type checker reads them from `Unpack[options]`; this does the same for `help()`, for the completion of a
    notebook, and for a misspelt name, which raises the TypeError that Python raises for any function.

    Args:
        options: The TypedDict behind `**options`.
        defaults: What each key means when it is left out, for the reader; all keys, in the order shown.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        plain = inspect.signature(function)
        named = [p for p in plain.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        hints = options.__annotations__
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
            for name, default in defaults.items()
        ]
        signature = plain.replace(parameters=[*named, *shown])

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            signature.bind(*args, **kwargs)
            return function(*args, **kwargs)

        checked.__signature__ = signature  # type: ignore[attr-defined]
        return checked

    return decorate
