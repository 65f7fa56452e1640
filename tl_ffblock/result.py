"""Base classes of results: frozen dataclasses that can be compared, saved, printed, tabulated and drawn.

`Values` is a dataclass of labels and numbers; equality compares all of them, and files can contain it.
`Result` is what calls return, with `save`, `load`, `to_dataframe`, `show`, `to_html` and `figure`.
`Results` is the list of results of several prompts.
"""

import dataclasses
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Any, Generic, Literal, SupportsIndex, TypeVar, Union, get_args, get_origin, get_type_hints, overload

import numpy as np
import pandas as pd
import torch
from jaxtyping import AbstractArray, Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError, ScopeKeyError, brief, did_you_mean
from tl_ffblock.files import TensorFile, read_tensors, write_atomically, write_tensors
from tl_ffblock.signatures import by_plural, refuse_options, strict

VERSION = 2
"""Version of the file format. Version 1, of tl_ffblock 0.2.0, had an encoding per class."""
MOST_SHOWN = 3
"""Number of results of a list that are printed."""
MAPS = "tl_ffblock.results.maps"
"""Module of the only class in files of version 1, which do not name it."""
VIEWS = "tl_ffblock.views"
"""Package in which pages and figures are registered by type; it is imported at the first drawing."""

One = TypeVar("One", bound="Result")
Value = TypeVar("Value")

_KNOWN: dict[str, type["Values"]] = {}
"""Classes that files can contain, by name."""


class Values:
    """A frozen dataclass of labels, numbers and tensors. Equality compares all of them; NaN equals NaN."""

    __hash__ = None  # type: ignore[assignment]  # as of any object that is compared by numbers

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = _KNOWN.setdefault(cls.__name__, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"{cls.__name__} is the name of two classes in files: {known.__module__}, {cls.__module__}. Rename one."
            )
        _KNOWN[cls.__name__] = cls  # a dataclass with slots is created twice

    def __eq__(self, other: object) -> bool:
        return equal(self, other) if type(self) is type(other) else NotImplemented

    @strict
    def faults(self) -> Iterator[str]:
        """Faults that field types and sizes of arrays do not show, as text."""
        yield from ()


@strict
class Result(Values):
    """Base class of results: saved, printed, tabulated and drawn in the same way."""

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Text of `print`: a headline, and further lines by name."""
        return "", {}

    def __repr__(self) -> str:
        headline, lines = self.summary()
        width = max(map(len, lines), default=0)
        return "\n".join(
            [f"{type(self).__name__}: {headline}", *(f"  {name:<{width}}  {line}" for name, line in lines.items())]
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per number, with columns that identify it."""
        raise NotImplementedError(f"{type(self).__name__}.to_dataframe")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one safetensors file with JSON labels and a checksum; a partial file never appears at `path`.

        Raises:
            InputError: if the folder does not exist, or the path is not that of a regular file.
        """
        _write(Path(path), type(self).__name__, self)
        return Path(path)

    @classmethod
    def load(cls: type[One], path: str | os.PathLike[str]) -> One:
        """Read a file from `save`.

        Raises:
            MapFileError: if the file has another kind of result, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        file = read_tensors(Path(path))
        if file.kind != f"tl_ffblock.{cls.__name__}":
            raise MapFileError(
                f"{path} has a {file.kind}, not a {cls.__name__}: use `tl_ffblock.load(path)` or that class."
            )
        return cls.from_file(file, Path(path))

    @classmethod
    def from_file(cls: type[One], file: TensorFile, path: Path) -> One:
        """Result from a file; a class that reads older files overrides this.

        Raises:
            MapFileError: if the file is of another version, or incomplete.
        """
        read: One = _read(file, path, cls)
        return read

    @overload
    def to_html(self, path: None = None, **options: Any) -> str: ...
    @overload
    def to_html(self, path: str | os.PathLike[str], **options: Any) -> Path: ...
    def to_html(self, path: str | os.PathLike[str] | None = None, **options: Any) -> str | Path:
        """Self-contained page, which needs no network: its HTML, or with `path` the path of the written file.

        Args:
            path: File to write; None returns the HTML.
            **options: Options of the page, which depend on the class of the result.

        Raises:
            InputError: if there is no page of such a result, an option does not fit it, or the folder of `path` does not exist.
        """
        html: str = views().page(self._page("to_html", options))
        return html if path is None else write_atomically(path, html.encode("utf-8"))

    def show(self, *, height: int = 820, **options: Any) -> Any:
        """The page in a frame of a notebook cell, with a still picture for viewers that show no frames.

        Args:
            height: Height of the frame in pixels, until the page reports its own.
            **options: As in `to_html`.

        Raises:
            InputError: as in `to_html`, and if `height` is not positive.
        """
        return views().page_view(self._page("show", options), height)

    def figure(self, *, title: str | bool | None = True, caption: str | bool | None = True, **options: Any) -> Any:
        """A Matplotlib figure of the result.

        Args:
            title: Text above the figure; True means its own, None means none.
            caption: Text below the figure; True means its own, None means none.
            **options: Options of the figure, which depend on the class of the result.

        Raises:
            InputError: if there is no figure of such a result, or an option does not fit it.
            ModuleNotFoundError: if Matplotlib is not installed.
        """
        figure = self._drawn("figure", views().figure_of, options, ("title", "caption"))
        return views().framed(figure, title, caption)

    def _page(self, method: str, options: Mapping[str, Any]) -> Any:
        return self._drawn(method, views().page_of, options)

    def _drawn(self, method: str, view: Any, options: Mapping[str, Any], more: Sequence[str] = ()) -> Any:
        """Page or figure of this type. Options that neither its view nor the method has are refused in the method's name."""
        refuse_options(f"{type(self).__name__}.{method}", view.dispatch(type(self)), options, more)
        return view(self, **options)


@strict
class Results(list[One], Generic[One]):
    """Results of several prompts, in their order: a list that can be saved, tabulated and averaged."""

    def __init__(self, results: Iterable[One] = ()) -> None:
        super().__init__(results)

    @overload
    def __getitem__(self, place: SupportsIndex) -> One: ...
    @overload
    def __getitem__(self, place: slice) -> "Results[One]": ...
    def __getitem__(self, place: SupportsIndex | slice) -> "One | Results[One]":
        return Results(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def __add__(self, others: Any) -> "Results[Any]":
        return Results(super().__add__(others))

    def __radd__(self, others: Any) -> "Results[Any]":
        return Results(list.__add__(others, self))

    def __mul__(self, times: SupportsIndex) -> "Results[One]":
        return Results(super().__mul__(times))

    __rmul__ = __mul__

    def copy(self) -> "Results[One]":
        return Results(self)

    def __getattr__(self, name: str) -> Any:
        kind = type(self[0]).__name__ if self else "result"
        raise AttributeError(
            f"these are {len(self)} results of kind {kind}, one per prompt, without an attribute {name!r}: use results[0].{name}, or "
            "a loop over them.",
            name=name,
            obj=self,
        )

    def to_dataframe(self) -> pd.DataFrame:
        """One table of all results; the first column, "prompt", is the number of the prompt.

        Raises:
            InputError: if there are no results.
        """
        if not self:
            raise InputError("to_dataframe of no results: expected one or more.")
        frames = {number: result.to_dataframe() for number, result in enumerate(self)}
        return pd.concat(frames, names=["prompt", None]).reset_index("prompt").reset_index(drop=True)

    def mean(self, positions: Any = None) -> Any:
        """Mean of the results, by the `mean` of their class; for `PatchingEstimates` it has every kind, with intervals.

        Args:
            positions: Named positions, if the class reads numbers at positions: `results.mean({"IO": [4, 2], "END": -1})`.

        Raises:
            InputError: if there are no results, if the class has no mean, or if results differ in model, text or kind.
        """
        if not self or not callable(getattr(type(self[0]), "mean", None)):
            raise InputError(
                f"mean of {len(self)} results{f' of kind {type(self[0]).__name__}' if self else ''}: there is none."
            )
        kind: Any = type(self[0])
        given = {} if positions is None else {"positions": positions}
        refuse_options(f"mean of {kind.__name__}", kind.mean, given)
        return kind.mean(self, **given)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all results to one safetensors file with a checksum.

        Raises:
            InputError: if an element is not a result, the folder does not exist, or the path is not that of a regular file.
        """
        for number, each in enumerate(self):
            if not isinstance(each, Result):
                raise InputError(
                    f"element {number} is of type {type(each).__name__}, expected a result: save lists one by one."
                )
        _write(Path(path), "Results", tuple(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Results[One]":
        """Read a file from `save`.

        Raises:
            MapFileError: if the file does not have several results, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        file = read_tensors(Path(path))
        if file.kind != "tl_ffblock.Results":
            raise MapFileError(f"{path} has one {file.kind}: use `tl_ffblock.load(path)` or that class.")
        return cls(_read(file, Path(path), tuple[Result, ...]))

    def __repr__(self) -> str:
        shown = [f"[{number}] {result!r}" for number, result in enumerate(super().__getitem__(slice(MOST_SHOWN)))]
        more = [f"... and {len(self) - MOST_SHOWN} more"] if len(self) > MOST_SHOWN else []
        return "\n".join([f"Results: {len(self)}", *shown, *more])


@strict
def load(path: str | os.PathLike[str]) -> Any:
    """Read a file from `save`: a result of the class that the file names, or `Results` for a list of results.

    Args:
        path: The file.

    Returns:
        The result, equal to the saved one.

    Raises:
        MapFileError: if the file has no result of this package, was changed, is of another version, or has a class of your own
            that is not imported yet.
        FileNotFoundError: if there is no such file.
    """
    file = read_tensors(Path(path))
    name, held = file.kind.removeprefix("tl_ffblock."), file.labels.get("value")
    if name == "Results":
        return Results(_read(file, Path(path), tuple[Result, ...]))
    module = str(held.get("module")) if isinstance(held, dict) else MAPS
    try:
        kind = _class_of(name, module)
    except (ImportError, KeyError, ValueError) as error:
        raise MapFileError(f"{path} has a {name} of {module}, which is not known: import its module first.") from error
    if not issubclass(kind, Result):
        raise MapFileError(f"{path} has a {name}, which is a part of results and not a result: save the result again.")
    return kind.from_file(file, Path(path))


def equal(first: object, second: object) -> bool:
    """Whether two values have the same labels, types and numbers, recursively; NaN equals NaN."""
    if isinstance(first, Tensor) and isinstance(second, Tensor):
        return identical(first, second)
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        same = first.dtype == second.dtype and first.shape == second.shape
        return same and bool(((first == second) | ((first != first) & (second != second))).all())
    if isinstance(first, pd.DataFrame) and isinstance(second, pd.DataFrame):
        return first.equals(second)
    if dataclasses.is_dataclass(first) and type(first) is type(second):
        names = [field.name for field in dataclasses.fields(first)]
        return all(equal(getattr(first, name), getattr(second, name)) for name in names)
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return set(first) == set(second) and all(equal(first[name], second[name]) for name in first)
    if isinstance(first, list | tuple) and type(first) is type(second):
        return len(first) == len(second) and all(map(equal, first, second))
    if isinstance(first, float) and isinstance(second, float) and math.isnan(first):
        return math.isnan(second)
    return bool(first == second)


def identical(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors have the same type, shape and numbers, on any device; NaN equals NaN."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return bool(torch.allclose(first.cpu(), second.cpu(), rtol=0, atol=0, equal_nan=True))


def tabulated(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """Table of columns of equal length, in their order; tensors become numbers."""
    return pd.DataFrame(
        {
            name: column.detach().cpu().numpy() if isinstance(column, Tensor) else column
            for name, column in columns.items()
        }
    )


class ByKind(dict[str, Value]):
    """Values by kind of component, as tables name it ("head"); the plural name of calls ("heads") gives the same value."""

    def __missing__(self, kind: str) -> Value:
        row = by_plural(self).get(kind)
        if row is None:
            raise ScopeKeyError(
                f"no {brief(kind)} here. There are {', '.join(self)}. {did_you_mean(kind, self)}".rstrip()
            )
        return self[row]


_TOKENS = {"position": "token", "query": "query_token", "key": "key_token"}
"""Names of token columns by the column of their positions."""


def long_form(
    values: Float[Tensor, "..."],
    axes: Mapping[str, Sequence[int | str]],
    tokens: Sequence[str] = (),
    order: Int[Tensor, " place"] | None = None,
) -> pd.DataFrame:
    """Table with one row per number: the labels of its indices, and the number, "value".

    Args:
        values: Array with any number of axes.
        axes: By name, the labels of an axis, in the order of the axes: {"layer": (0, 1), "head": (0, 1, 2)}.
        tokens: Tokens by position; if given, the axes "position", "query" and "key" have columns of tokens.
        order: Indices into the flattened values, one per row; None means all in order.
    """
    order = torch.arange(values.numel()) if order is None else order
    places = np.unravel_index(order.numpy(), [len(labels) for labels in axes.values()])
    columns = {name: np.array(axes[name], dtype=object)[place] for name, place in zip(axes, places, strict=True)}
    named = {
        _TOKENS[name]: np.array(tokens, dtype=object)[place.astype(int)]
        for name, place in columns.items()
        if tokens and name in _TOKENS
    }
    frame = pd.DataFrame({**columns, **named}).infer_objects()
    return frame.assign(value=values.detach().flatten()[order].cpu().numpy())


def views() -> Any:
    """Package that draws results. It imports results; they do not import it."""
    return import_module(VIEWS)


def _write(path: Path, name: str, value: object) -> None:
    labels, tensors = labels_of(value)
    write_tensors(path, f"tl_ffblock.{name}", VERSION, {"value": labels}, tensors)


def labels_of(value: object) -> tuple[Any, dict[str, Tensor]]:
    """A result, or a tuple of results, as values for JSON and tensors by name; `from_labels` is the inverse."""
    tensors: dict[str, Tensor] = {}
    return _encoded(value, "", tensors), tensors


def from_labels(labels: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Inverse of `labels_of`; see `as_described` for the checks of a file."""
    return _decoded(labels, tensors)


def _read(file: TensorFile, path: Path, kind: Any) -> Any:
    if file.version != VERSION:
        raise MapFileError(
            f"{path} has a {file.kind} in format version {file.version}, this library reads {VERSION}: save it again."
        )
    return as_described(lambda: from_labels(file.labels["value"], file.tensors), kind, path)


def as_described(made: Callable[[], Any], kind: Any, path: Path) -> Any:
    """Checked value of a file: types of fields, lengths of arrays and labels, ranges of numbers.

    Args:
        made: Builds the value from the file's content.
        kind: The class, or another annotation.
        path: The file, for the error.

    Raises:
        MapFileError: with the first fault.
    """
    try:
        value = made()
        wrong = next(_faults(value, kind, "", {}), None)
    except Exception as error:  # labels can have any form, and classes refuse them in many ways
        raise MapFileError(f"{path} does not describe such a result of this library: {brief(error)}.") from error
    if wrong is not None:
        raise MapFileError(f"{path} does not describe such a result of this library: {wrong}.")
    return value


_LABELS = {
    "layer": ("layers",),
    "head": ("heads",),
    "channel": ("channels",),
    "query": ("queries",),
    "key": ("keys", "tokens"),
    "pos": ("labels", "tokens"),
    "target": ("targets",),
    "memory": ("memories",),
    "method": ("methods",),
    "bias": ("bias_names",),
}
"""Fields that label an axis, by the axis name in the annotation of an array; the first non-empty one counts."""
_COUNTED = ("layer", "head", "neuron", "expert", "rank")
"""Fields with indices from 0."""


def _faults(value: Any, hint: Any, place: str, sizes: dict[str, int]) -> Iterator[str]:
    """Faults of a value compared with its annotation; for arrays also of their axes, whose lengths are collected in `sizes`.

    Args:
        value: Value from a file.
        hint: Annotation of its field.
        place: Name of the field.
        sizes: Length of each named axis of the dataclass.
    """
    origin, options = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        if all(any(_faults(value, option, place, dict(sizes))) for option in options):
            yield f"{place}={brief(value)}, expected {hint}"
    elif origin is Literal:
        if value not in options:
            yield f"{place}={brief(value)}, expected one of {options}"
    elif isinstance(hint, type) and issubclass(hint, AbstractArray):
        yield from _faults_of_array(value, hint, place, sizes)
    elif not isinstance(value, {float: float | int}.get(hint, origin or hint) if hint is not Any else object) or (
        isinstance(value, bool) and hint in (int, float)
    ):
        yield f"{place}={brief(value)}, expected {hint}"
    elif isinstance(value, Values):
        yield from _faults_of_fields(value, f"{place}.".lstrip("."))
    elif isinstance(value, Mapping) and len(options) == 2:
        for name, one in value.items():
            yield from _faults(name, options[0], f"a key of {place}", {})
            yield from _faults(one, options[1], f"{place}[{name!r}]", dict(sizes))
    elif isinstance(value, tuple) and options:
        expected = options[:1] * len(value) if options[-1] is Ellipsis else options
        if len(expected) != len(value):
            yield f"{place} has {len(value)} values, expected {len(expected)}"
        for number, (one, option) in enumerate(zip(value, expected, strict=False)):
            yield from _faults(one, option, f"{place}[{number}]", dict(sizes))


def _faults_of_array(value: Any, hint: Any, place: str, sizes: dict[str, int]) -> Iterator[str]:
    if not isinstance(value, hint):
        shape = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor | np.ndarray) else brief(value)
        yield f"{place} is {shape}, expected {hint.dtypes} [{hint.dim_str}]"
        return
    for axis, size in zip(hint.dim_str.split(), value.shape, strict=False):
        if not axis.isidentifier():
            break  # a number, or several axes under one name
        if sizes.setdefault(axis, size) != size:
            yield f"{place} has {size} along {axis}, expected {sizes[axis]}"


def _faults_of_fields(value: Values, place: str) -> Iterator[str]:
    """Faults of a dataclass: its fields, labels of arrays, and its own `faults`."""
    kind: Any = type(value)
    held = {field.name: getattr(value, field.name) for field in dataclasses.fields(kind)}
    hints = _hints(kind)
    labelled = {
        axis: next((held[name] for name in names if _flat(held.get(name))), ()) for axis, names in _LABELS.items()
    }
    sizes = {axis: len(labels) for axis, labels in labelled.items() if labels}
    for name, one in held.items():
        yield from _faults(one, hints[name], f"{place}{name}", sizes)
        if name in _COUNTED and isinstance(one, int) and one < 0:
            yield f"{place}{name}={one}, expected 0 or more"
    for axis in _axes(kind) & {"layer", "head", "channel", "query"}:
        labels = labelled[axis]
        doubled = axis != "query" and len(set(labels)) != len(labels)  # a query may occur twice
        if doubled or any(isinstance(label, int) and label < 0 for label in labels):
            yield f"{place}{_LABELS[axis][0]}={brief(labels)}, expected each once, and numbers from 0 on"
    yield from (f"{place}{wrong}" for wrong in value.faults())


def _flat(labels: object) -> bool:
    """Whether labels are those of one axis: a tuple of texts or numbers, not of tuples."""
    return isinstance(labels, tuple) and bool(labels) and not isinstance(labels[0], tuple)


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


@cache
def _axes(kind: Any) -> set[str]:
    """Names of the axes of its arrays."""
    return {axis for hint in _hints(kind).values() for axis in getattr(hint, "dim_str", "").split()}


def _encoded(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    """A value as JSON; tensors are moved to `tensors`, each under a unique name."""
    if isinstance(value, Tensor | np.ndarray):
        while place in tensors:  # keys 3 and "3" of a mapping, or "a.b" next to "b" of "a"
            place += "'"
        tensors[place] = torch.as_tensor(value)
        return {"tensor" if isinstance(value, Tensor) else "array": place}
    if isinstance(value, Values):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        held = {name: _encoded(one, f"{place}.{name}".lstrip("."), tensors) for name, one in fields.items()}
        return {"class": type(value).__name__, "module": type(value).__module__, "fields": held}
    if isinstance(value, Mapping):  # keys may be numbers, such as layers
        return {
            "map": [
                [_encoded(key, "", tensors), _encoded(one, f"{place}.{key}".lstrip("."), tensors)]
                for key, one in value.items()
            ]
        }
    if isinstance(value, list | tuple):
        kind = "list" if isinstance(value, list) else "tuple"
        return {kind: [_encoded(one, f"{place}.{number}".lstrip("."), tensors) for number, one in enumerate(value)]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise InputError(f"cannot save {place or 'this result'}: files cannot contain a {type(value).__name__}.")


def _decoded(held: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Inverse of `_encoded`."""
    if not isinstance(held, dict):
        return held
    match held:
        case {"tensor": place}:
            return tensors[place]
        case {"array": place}:
            return tensors[place].numpy()
        case {"map": items}:
            held = {_decoded(key, tensors): _decoded(one, tensors) for key, one in items}
            if len(held) != len(items):
                raise ValueError("a key occurs twice")
            return held
        case {"list": items}:
            return [_decoded(one, tensors) for one in items]
        case {"tuple": items}:
            return tuple(_decoded(one, tensors) for one in items)
        case {"class": name, "module": module, "fields": fields}:
            return _class_of(name, module)(**{name: _decoded(one, tensors) for name, one in fields.items()})
    raise ValueError(f"a value of the forms {', '.join(held)} is not known")


def _class_of(name: str, module: str) -> type[Values]:
    """A class by its name; its module is imported if it is in this package."""
    package = __name__.partition(".")[0]
    if name not in _KNOWN and module.startswith(f"{package}.") and "__main__" not in module:
        import_module(module)
    return _KNOWN[name]
