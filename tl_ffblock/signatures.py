"""Checks of arguments against signatures, with errors that name the argument, and keyword options that functions share.

Every public function and class of the package is decorated with `strict` or `spelled_out`. They check:

1. Names: unknown arguments, missing ones, and positional ones that must be passed by name.
2. Values, if the annotation is a number, bool, text, `Literal`, path or class, or a union of these. True is not a number, 1.0 is
   not a whole number, and NaN is refused. Lists, positions, tensors, functions and ranges are checked where they are read.
"""

import ast
import dataclasses
import functools
import inspect
import math
import operator
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, SupportsIndex, TypeAlias, TypeVar, Union, get_args, get_origin

from tl_ffblock.errors import CallError, InputError, brief, did_you_mean, warn

P = ParamSpec("P")
R = TypeVar("R")
Kind = TypeVar("Kind", bound=str)
Called = TypeVar("Called", bound=Callable[..., Any])
Reader: TypeAlias = tuple[Callable[[Any], bool], tuple[str, ...]]
"""Whether a value is of an annotation's type, and this type in words."""

_MADE_BY = {
    "Attribution": "as ffb.attribute makes it",
    "ContributionMaps": "as ffb.contribution_maps makes it",
    "Contributions": "ffb.Contributions(model, prompts)",
    "Metric": "such as ffb.logit(...)",
    "PatchingEstimates": "as ffb.attribution_patching makes it",
    "Pruning": "such as ffb.graphs.Pruning(heads=5)",
    "SamplePlan": "such as ffb.interventions.SamplePlan(n_cells=5)",
    "TokenMaps": "as ffb.attention_maps or .token_maps() makes it",
    "Training": "such as ffb.heads.Training(penalty=0.1)",
    "Triggers": "as ffb.memories.find_triggers makes it",
    "ValueTokens": "as ffb.memories.value_tokens makes it",
}
"""How to make an object of a class, for errors."""


ADVANCED = {
    *("progress", "batch_size", "checkpoint", "max_memory"),
    *("fwd_hooks", "cache", "method", "n_steps", "value_bias", "rtol", "precision", "chunk_bytes"),
}
"""Options that few calls need; they are last in every signature."""


class Annotation:
    """An annotation that prints as in the source, with the names of type aliases; `typing.get_type_hints` has the types."""

    def __init__(self, owner: object, name: str, annotation: object) -> None:
        self.owner, self.name, self.annotation = owner, name, annotation

    def __repr__(self) -> str:
        try:
            return _texts(inspect.unwrap(self.owner))[self.name]  # type: ignore[arg-type]  # a class is returned as it is
        except (OSError, SyntaxError, KeyError):  # no source, or a field of a class without one
            return inspect.formatannotation(self.annotation)


@functools.cache
def _texts(owner: Any) -> dict[str, str]:
    """Source texts of the annotations of a function, or of the fields of a class and its bases, by name."""
    node: Any = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    if isinstance(node, ast.ClassDef):
        known = vars(sys.modules[owner.__module__])
        bases = [
            known[base.id] for base in node.bases if isinstance(base, ast.Name) and isinstance(known.get(base.id), type)
        ]
        found = {
            name: text
            for base in bases
            if base.__module__.startswith("tl_ffblock")
            for name, text in _texts(base).items()
        }
        written = [
            (line.target.id, line.annotation)
            for line in node.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        ]
    else:
        found, parameters = {}, node.args
        every = [*parameters.posonlyargs, *parameters.args, parameters.vararg, *parameters.kwonlyargs, parameters.kwarg]
        written = [*((one.arg, one.annotation) for one in every if one), ("return", node.returns)]
    return found | {
        name: getattr(text, "value", "") if isinstance(text, ast.Constant) and text.value else ast.unparse(text)
        for name, text in written
        if text
    }


class _Shown(inspect.Signature):
    """A signature with annotations as in the source; above 100 characters it has one line per parameter."""

    def __str__(self) -> str:
        line = super().__str__()
        if len(line) <= 100:
            return line
        kinds = [parameter.kind for parameter in self.parameters.values()]
        lines = [f"    {parameter}," for parameter in self.parameters.values()]
        if inspect.Parameter.KEYWORD_ONLY in kinds and inspect.Parameter.VAR_POSITIONAL not in kinds:
            lines.insert(kinds.index(inspect.Parameter.KEYWORD_ONLY), "    *,")
        returned = "" if self.return_annotation is self.empty else f" -> {self.return_annotation!r}"
        return "\n".join(["(", *lines, f"){returned}"])


def _shown(signature: inspect.Signature, owner: object, options: type | None = None) -> inspect.Signature:
    def named(name: str, annotation: Any) -> Any:
        owned = options is not None and name in options.__annotations__
        return (
            annotation if annotation is signature.empty else Annotation(options if owned else owner, name, annotation)
        )

    parameters = [p.replace(annotation=named(p.name, p.annotation)) for p in signature.parameters.values()]
    return _Shown(parameters, return_annotation=named("return", signature.return_annotation))


def strict(called: Called) -> Called:
    """The function, or the class with its constructor and public methods, with checked arguments.

    An unknown or missing argument raises `CallError`, which is also a TypeError. A value of another type than the annotation's
    raises `InputError`. Values of a dataclass's fields are not checked.
    """
    if not isinstance(called, type):
        return _checked(called, inspect.signature(called), called)  # type: ignore[return-value]  # of the same signature
    for name, member in list(vars(called).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, staticmethod | classmethod):
            setattr(called, name, type(member)(strict(member.__func__)))
        elif inspect.isfunction(member) and not isinstance(getattr(member, "__signature__", None), inspect.Signature):
            fields = name == "__init__" and dataclasses.is_dataclass(called)
            shown = called if fields else member
            setattr(called, name, _checked(member, inspect.signature(member), shown, values=not fields))
    return called


def spelled_out(options: type, defaults: dict[str, Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorator that shows the keys of a function's `**options` as keyword arguments, and checks arguments as `strict` does.

    A type checker reads the keys from `Unpack[options]`. This does the same for `help()`, for completion in notebooks, and for
    misspelt names.

    Args:
        options: The TypedDict of `**options`.
        defaults: Default of each key, for display, in the displayed order; options in `ADVANCED` are moved to the end. Further
            keys are ignored.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        plain = inspect.signature(function)
        named = [p for p in plain.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        hints = options.__annotations__
        shown = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hints[name])
            for name, default in defaults.items()
            if name in hints
        ]
        parameters = sorted([*named, *shown], key=lambda p: (p.kind, p.name in ADVANCED and p.default is not p.empty))
        return _checked(function, plain.replace(parameters=parameters), function, options)

    return decorate


def refuse_options(called: str, function: Callable[..., Any], options: Iterable[str], more: Sequence[str] = ()) -> None:
    """Refuse options that a function does not have, in the name of the method that passes them on.

    Args:
        called: Name of the method.
        function: Function that gets the options. Its first argument is the method's object.
        options: Names of the given options.
        more: Names of further options, which the method itself has.

    Raises:
        CallError: for the first unknown option.
    """
    parameters = list(inspect.signature(function).parameters.values())[1:]
    names = list(dict.fromkeys((*(parameter.name for parameter in parameters), *more)))
    for name in () if any(p.kind is p.VAR_KEYWORD for p in parameters) else options:
        if name not in names:
            listed = f"Its options are {', '.join(names)}." if names else "It has no options."
            raise CallError(f"{called} has no argument `{name}`. {did_you_mean(name, names) or listed}")


def whole(given: object) -> int | None:
    """A whole number of any type as int; None for anything else, such as True and False: a mask is not a list of positions."""
    plain = _plain(given)
    if isinstance(plain, bool):
        return None
    try:
        return operator.index(plain)  # type: ignore[arg-type]  # raises TypeError without `__index__`
    except TypeError:
        return None


def real(given: object) -> float | None:
    """A finite number of any type as float; None for anything else: a bool, a text, NaN, infinity."""
    plain = _plain(given)
    if isinstance(plain, bool) or not isinstance(plain, int | float):
        return None
    try:
        number = float(plain)
    except OverflowError:  # a whole number of 400 digits
        return None
    return number if math.isfinite(number) else None


def _plain(given: object) -> object:
    """A scalar of numpy or torch as a Python number; anything else unchanged."""
    return given.item() if hasattr(given, "item") and getattr(given, "ndim", None) == 0 else given


_PLAIN: dict[Any, Reader] = {
    None: (lambda value: value is None, ("None",)),
    NoneType: (lambda value: value is None, ("None",)),
    bool: (lambda value: isinstance(_plain(value), bool), ("True", "False")),
    int: (lambda value: whole(value) is not None, ("a whole number",)),
    SupportsIndex: (lambda value: whole(value) is not None, ("a whole number",)),
    float: (lambda value: real(value) is not None, ("a finite number",)),
    str: (lambda value: isinstance(value, str), ("a text",)),
}
"""Checks of plain annotations."""


PLURAL = {"head": "heads", "mlp": "mlps"}
"""Kinds of components as arguments name them, by their name in tables and keys of `values`, where both differ."""


def by_plural(kinds: Iterable[Kind]) -> dict[str, Kind]:
    """Kinds of components as tables name them, by their names as arguments."""
    return {PLURAL.get(kind, kind): kind for kind in kinds}


def in_plural(kind: Any, name: str) -> Any:
    """A kind of components in the plural, as arguments name it. The singular works and warns.

    Args:
        kind: Kind as given; values that are not a known singular are returned unchanged.
        name: Name of the argument.
    """
    if not isinstance(kind, str) or kind not in PLURAL:
        return kind
    warn(f'{name}="{kind}" is {name}="{PLURAL[kind]}" now', DeprecationWarning)
    return PLURAL[kind]


def refuse_value(name: str, given: object, words: tuple[str, ...], other: str = "") -> None:
    """Refuse a value of another type than an argument's.

    Args:
        name: Name of the argument.
        given: Its value.
        words: Expected types in words.
        other: Name of the only argument that accepts a value given by position; empty if there is none.

    Raises:
        InputError: with the argument, the value and the expected types.
    """
    numbers = isinstance(given, list | tuple) and all(isinstance(item, str | int | float) for item in given)
    plain = numbers or isinstance(given, str | int | float | dict | NoneType)
    shown = f"{name}={brief(given)}" if plain else f"{name} is of type {type(given).__name__}"
    expected = " or ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
    alone = ", one per call" if isinstance(given, list | tuple) else ""
    meant = did_you_mean(given, [word.strip('"') for word in words if word[0] == '"']) if isinstance(given, str) else ""
    meant = f"Did you mean `{other}={brief(given)}`?" if other else meant
    raise InputError(f"{shown}: expected {expected}{alone}. {meant}".rstrip())


def _reader(annotation: Any) -> Reader | None:
    if get_origin(annotation) in (Union, UnionType):
        readers = [_reader(member) for member in get_args(annotation)]
        known = [reader for reader in readers if reader is not None]
        if len(known) < len(readers):
            return None
        return (lambda value: any(accepts(value) for accepts, _ in known)), tuple(
            w for _, words in known for w in words
        )
    if get_origin(annotation) is Literal:
        choices = get_args(annotation)
        return (lambda value: isinstance(value, str) and value in choices), tuple(f'"{choice}"' for choice in choices)
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    if os.PathLike in (annotation, get_origin(annotation)):
        return (lambda value: isinstance(value, os.PathLike)), ("a path",)
    ours = isinstance(annotation, type) and annotation.__module__.startswith("tl_ffblock.")
    if not ours or getattr(annotation, "_is_protocol", False):
        return None
    name = annotation.__name__
    made = (f"{name} ({_MADE_BY[name]})" if name in _MADE_BY else name,)
    return (lambda value: isinstance(value, annotation)), made


def _readers(function: Callable[..., Any], signature: inspect.Signature) -> dict[str, Reader]:
    found = {}
    for name, parameter in signature.parameters.items():
        annotation = parameter.annotation
        if isinstance(annotation, str):
            try:
                annotation = eval(annotation, inspect.unwrap(function).__globals__)
            except NameError:  # imported under TYPE_CHECKING only
                continue
        reader = _reader(annotation)
        if reader is not None and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            found[name] = reader
    return found


def _checked(
    function: Callable[P, R],
    signature: inspect.Signature,
    owner: object,
    options: type | None = None,
    *,
    values: bool = True,
) -> Callable[P, R]:
    @functools.cache
    def readers() -> dict[str, Reader]:  # made at the first call: an annotation may name a class that is defined later
        return _readers(function, signature) if values else {}

    @functools.wraps(function)
    def checked(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise CallError(_in_words(function, signature, args, kwargs, str(error))) from None
        for name, (accepts, words) in readers().items():
            if name in given and not accepts(given[name]):
                fits = [other for other, (fit, _) in readers().items() if other not in given and fit(given[name])]
                refuse_value(name, given[name], words, fits[0] if name not in kwargs and len(fits) == 1 else "")
        return function(*args, **kwargs)

    checked.__signature__ = _shown(signature, owner, options)  # type: ignore[attr-defined]
    return checked


def _in_words(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    of_python: str,
) -> str:
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
        places = f"{len(by_place)} argument{'s' * (len(by_place) > 1)} by position, {', '.join(by_place)}"
        expected = places if by_place else "no argument by position" if by_name else "no arguments"
        rest = f" Pass by name: {', '.join(f'{name}=' for name in by_name)}." if by_name else ""
        return f"{called} takes {expected}; {len(given)} {'was' if len(given) == 1 else 'were'} given.{rest}"
    missing = [p.name for p in parameters if p.default is p.empty and p.name in [*by_place[len(given) :], *by_name]]
    if missing := [name for name in missing if name not in kwargs]:
        return f"{called} needs {', '.join(f'`{name}`' for name in missing)}. {listed}"
    return f"{called}: {of_python}. {listed}"
