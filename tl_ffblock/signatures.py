"""Calls that a signature does not fit are refused in words; functions may share their keyword options.

Every public function and class of the package carries `strict` or `spelled_out`.
"""

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from tl_ffblock.errors import CallError, did_you_mean

P = ParamSpec("P")
R = TypeVar("R")
Called = TypeVar("Called", bound=Callable[..., Any])


def strict(called: Called) -> Called:
    """A function, or a class with its constructor and public methods, whose wrong calls raise `CallError`.

    A wrong call has an argument that the signature lacks, lacks one that it needs, or gives by position what has to be
    named. The error is a TypeError, as Python's own is, and says which argument was meant or which there are.
    """
    if not isinstance(called, type):
        return _checked(called, inspect.signature(called))  # type: ignore[return-value]  # of the same signature
    for name, member in list(vars(called).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod | classmethod):
            setattr(called, name, type(member)(strict(member.__func__)))
        elif inspect.isfunction(member) and not isinstance(getattr(member, "__signature__", None), inspect.Signature):
            setattr(called, name, strict(member))
    return called


def spelled_out(options: type, defaults: dict[str, Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Show the keys of a function's `**options` as keyword arguments of its own; wrong calls raise `CallError`.

    A type checker reads the keys from `Unpack[options]`; this does the same for `help()`, for the completion of a notebook,
    and for a misspelt name.

    Args:
        options: The TypedDict of `**options`.
        defaults: The value of each key where it is not given, for the reader; all keys, in the order shown.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        plain = inspect.signature(function)
        named = [p for p in plain.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        hints = options.__annotations__
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
            for name, default in defaults.items()
        ]
        return _checked(function, plain.replace(parameters=[*named, *shown]))

    return decorate


def _checked(function: Callable[P, R], signature: inspect.Signature) -> Callable[P, R]:
    """The function, which looks at the arguments first."""

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            raise CallError(_in_words(function, signature, args, kwargs, str(error))) from None
        return function(*args, **kwargs)

    checked.__signature__ = signature  # type: ignore[attr-defined]
    return checked


def _in_words(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    of_python: str,
) -> str:
    """What is wrong with a call, and what there is instead."""
    parameters = list(signature.parameters.values())
    called, given = function.__qualname__.rpartition(".")[2], list(args)
    if parameters and parameters[0].name in ("self", "cls") and args:
        owner = args[0] if isinstance(args[0], type) else type(args[0])
        called = owner.__name__ if called == "__init__" else f"{owner.__name__}.{called}"
        parameters, given = parameters[1:], given[1:]
    names = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    by_place = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY]
    listed = f"Its arguments are {', '.join(names)}." if names else "It has no arguments."
    if unknown := [name for name in kwargs if name not in names]:
        return f"{called} has no argument `{unknown[0]}`. {did_you_mean(unknown[0], names) or listed}"
    if len(given) > len(by_place):
        expected = f"by position, {', '.join(by_place)}" if by_place else "by position"
        rest = f" Give by name: {', '.join(f'{name}=' for name in by_name)}." if by_name else ""
        return f"{called} takes {len(by_place)} argument{'s' * (len(by_place) != 1)} {expected}; {len(given)} were given.{rest}"
    missing = [p.name for p in parameters if p.default is p.empty and p.name in [*by_place[len(given) :], *by_name]]
    if missing := [name for name in missing if name not in kwargs]:
        return f"{called} needs {', '.join(f'`{name}`' for name in missing)}. {listed}"
    return f"{called}: {of_python}. {listed}"
