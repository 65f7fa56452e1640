"""What every public result is: a frozen dataclass that is compared by its numbers, saved, printed, tabulated and drawn.

`Values` is a dataclass of labels and numbers; it is equal to another by all of them and has a place in files.
`Result` is what a caller gets: with `save`, `load`, `to_dataframe`, `show`, `to_html` and `figure`.
`Results` is the list of results of several prompts.
"""

import dataclasses
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, SupportsIndex, TypeVar, overload

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.files import TensorFile, read_tensors, write_atomically, write_tensors
from tl_ffblock.signatures import refuse_options, strict

VERSION = 2
"""Of the format of files. Version 1, of tl_ffblock 0.2.0, had an encoding per class."""
MOST_SHOWN = 3
"""Results of a list that are printed."""
VIEWS = "tl_ffblock.views"
"""The package in which pages and figures are registered by type; it is imported when something is drawn first."""

One = TypeVar("One", bound="Result")

_KNOWN: dict[str, type["Values"]] = {}
"""Classes that files can hold, by name."""


class Values:
    """A frozen dataclass of labels, numbers and tensors: equal by all of them, with NaN equal to NaN."""

    __hash__ = None  # type: ignore[assignment]  # as of any object that is compared by numbers

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        known = _KNOWN.setdefault(cls.__name__, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"{cls.__name__} is the name of two classes that files hold: {known.__module__}, {cls.__module__}."
            )
        _KNOWN[cls.__name__] = cls  # a dataclass with slots is made a second time

    def __eq__(self, other: object) -> bool:
        return equal(self, other) if type(self) is type(other) else NotImplemented


@strict
class Result(Values):
    """Base of every public result: one way to be saved, printed, tabulated and drawn."""

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """What `print` shows: one line on what the result is, and lines by their names."""
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
        """Long form: one row per number, with the columns that say what it is of."""
        raise NotImplementedError(f"{type(self).__name__}.to_dataframe")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one safetensors file with JSON labels and a checksum; a half-written file never appears under `path`.

        Raises:
            InputError: if the folder does not exist, or the path is not that of a regular file.
        """
        _write(Path(path), type(self).__name__, self)
        return Path(path)

    @classmethod
    def load(cls: type[One], path: str | os.PathLike[str]) -> One:
        """Read a file that `save` wrote.

        Raises:
            MapFileError: if the file is not such a result, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        file = read_tensors(Path(path))
        if file.kind != f"tl_ffblock.{cls.__name__}":
            raise MapFileError(f"{path} holds {file.kind}, not {cls.__name__}: load it by the class that saved it.")
        return cls.from_file(file, Path(path))

    @classmethod
    def from_file(cls: type[One], file: TensorFile, path: Path) -> One:
        """A result from what a file holds; a class that reads older files overrides this.

        Raises:
            MapFileError: if the file is of another version, or something is missing from it.
        """
        read: One = _read(file, path)
        return read

    def to_html(self, path: str | os.PathLike[str] | None = None, **options: Any) -> str:
        """One self-contained page, which works without a network; written to `path` when given.

        Args:
            path: File to write, if any.
            **options: Where the page opens, by the kind of result.

        Raises:
            InputError: if there is no page of such a result, an option does not fit it, or the folder of `path` does not exist.
        """
        html: str = views().page(self._page("to_html", options))
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def show(self, *, height: int = 820, **options: Any) -> Any:
        """The page in a notebook cell, inside a frame of its own, with a still picture for readers without frames.

        Args:
            height: Pixels of the frame until the page says how high it is, and where notebooks run no scripts.
            **options: As in `to_html`.

        Raises:
            InputError: as `to_html`, and if `height` is not positive.
        """
        return views().page_view(self._page("show", options), height)

    def figure(self, **options: Any) -> Any:
        """A Matplotlib figure of the result.

        Args:
            **options: What is drawn, by the kind of result.

        Raises:
            InputError: if there is no figure of such a result, or an option does not fit it.
            ModuleNotFoundError: if Matplotlib is not installed.
        """
        return self._drawn("figure", views().figure_of, options)

    def _page(self, method: str, options: Mapping[str, Any]) -> Any:
        return self._drawn(method, views().page_of, options)

    def _drawn(self, method: str, view: Any, options: Mapping[str, Any]) -> Any:
        """What the view of this type makes; options that it does not have are refused in the method's name."""
        refuse_options(f"{type(self).__name__}.{method}", view.dispatch(type(self)), options)
        return view(self, **options)


@strict
class Results(list[One], Generic[One]):
    """Results of several prompts, in their order: a list that can be saved, tabulated and averaged as one."""

    def __init__(self, results: Iterable[One] = ()) -> None:
        super().__init__(results)

    @overload
    def __getitem__(self, place: SupportsIndex) -> One: ...
    @overload
    def __getitem__(self, place: slice) -> "Results[One]": ...
    def __getitem__(self, place: SupportsIndex | slice) -> "One | Results[One]":
        return Results(super().__getitem__(place)) if isinstance(place, slice) else super().__getitem__(place)

    def __getattr__(self, name: str) -> Any:
        kind = type(self[0]).__name__ if self else "result"
        raise AttributeError(
            f"these are {len(self)} results of kind {kind}, one per prompt, without an attribute {name!r}: use results[0].{name}, or "
            "a loop over them.",
            name=name,
            obj=self,
        )

    def to_dataframe(self) -> pd.DataFrame:
        """The tables of all results in one, with the number of the prompt as the first column, "prompt".

        Raises:
            InputError: if there is none.
        """
        if not self:
            raise InputError("to_dataframe of no results: expected one or more.")
        frames = {number: result.to_dataframe() for number, result in enumerate(self)}
        return pd.concat(frames, names=["prompt", None]).reset_index("prompt").reset_index(drop=True)

    def mean(self, positions: Any = None) -> Any:
        """The mean of the results, as the class of the results makes it; of `PatchingEstimates` it has every kind, with intervals.

        Args:
            positions: Names of positions, where the class reads numbers at some: `results.mean({"IO": [4, 2], "END": -1})`.

        Raises:
            InputError: if there is none, there is no mean of such results, or they are of different models, texts or kinds.
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
        """Write all of them to one safetensors file with a checksum.

        Raises:
            InputError: if the folder does not exist, or the path is not that of a regular file.
        """
        _write(Path(path), "Results", tuple(self))
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Results[One]":
        """Read a file that `save` wrote.

        Raises:
            MapFileError: if the file is not one of several results, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        file = read_tensors(Path(path))
        if file.kind != "tl_ffblock.Results":
            raise MapFileError(f"{path} holds one {file.kind}: load it by the class that saved it.")
        return cls(_read(file, Path(path)))

    def __repr__(self) -> str:
        shown = [f"[{number}] {result!r}" for number, result in enumerate(super().__getitem__(slice(MOST_SHOWN)))]
        more = [f"... and {len(self) - MOST_SHOWN} more"] if len(self) > MOST_SHOWN else []
        return "\n".join([f"Results: {len(self)}", *shown, *more])


def equal(first: object, second: object) -> bool:
    """Whether two values have the same labels, types and numbers, however deep they lie; NaN equals NaN."""
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
    """Whether two tensors have the same type, shape and numbers, on whatever device they are; NaN equals NaN."""
    if first.dtype != second.dtype or first.shape != second.shape:
        return False
    return bool(torch.allclose(first.cpu(), second.cpu(), rtol=0, atol=0, equal_nan=True))


def tabulated(columns: Mapping[str, Iterable[Any]]) -> pd.DataFrame:
    """A table of columns of the same length, in their order; tensors become numbers."""
    return pd.DataFrame(
        {
            name: column.detach().cpu().numpy() if isinstance(column, Tensor) else column
            for name, column in columns.items()
        }
    )


_TOKENS = {"position": "token", "query": "query_token", "key": "key_token"}
"""Columns of tokens by that of their positions."""


def long_form(
    values: Float[Tensor, "..."],
    axes: Mapping[str, Sequence[int | str]],
    tokens: Sequence[str] = (),
    order: Int[Tensor, " place"] | None = None,
) -> pd.DataFrame:
    """A table with one row per number: what its place on each axis is of, and the number, "value".

    Args:
        values: Any number of axes.
        axes: By name what each place of an axis is of, in the order of the axes: {"layer": (0, 1), "head": (0, 1, 2)}.
        tokens: By position; where given, the axes "position", "query" and "key" have columns of tokens.
        order: Numbers of places of the flattened values, one for each row; None means all in their order.
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
    """What draws results; it knows them, and not they it."""
    return import_module(VIEWS)


def _write(path: Path, name: str, value: object) -> None:
    tensors: dict[str, Tensor] = {}
    labels = {"value": _encoded(value, "", tensors)}
    write_tensors(path, f"tl_ffblock.{name}", VERSION, labels, tensors)


def _read(file: TensorFile, path: Path) -> Any:
    if file.version != VERSION:
        raise MapFileError(
            f"{path} holds {file.kind} in format version {file.version}, this library reads {VERSION}: make it again."
        )
    try:
        return _decoded(file.labels["value"], file.tensors)
    except (KeyError, TypeError, ValueError, ImportError) as error:
        raise MapFileError(f"{path} does not describe a {file.kind} of this library: {error}.") from error


def _encoded(value: Any, place: str, tensors: dict[str, Tensor]) -> Any:
    """A value as JSON; tensors are put aside, each under a name of its own: that of its place, with a mark if it is taken."""
    if isinstance(value, Tensor | np.ndarray):
        while place in tensors:  # keys 3 and "3" of a mapping, or "a.b" beside "b" of "a"
            place += "'"
        tensors[place] = torch.as_tensor(value)
        return {"tensor" if isinstance(value, Tensor) else "array": place}
    if isinstance(value, Values):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}  # type: ignore[arg-type]
        held = {name: _encoded(one, f"{place}.{name}".lstrip("."), tensors) for name, one in fields.items()}
        return {"class": type(value).__name__, "module": type(value).__module__, "fields": held}
    if isinstance(value, Mapping):  # keys may be numbers, such as those of layers
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
    raise InputError(f"cannot save {place or 'this result'}: a {type(value).__name__} has no form in a file.")


def _decoded(held: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The inverse of `_encoded`."""
    if not isinstance(held, dict):
        return held
    match held:
        case {"tensor": place}:
            return tensors[place]
        case {"array": place}:
            return tensors[place].numpy()
        case {"map": items}:
            return {_decoded(key, tensors): _decoded(one, tensors) for key, one in items}
        case {"list": items}:
            return [_decoded(one, tensors) for one in items]
        case {"tuple": items}:
            return tuple(_decoded(one, tensors) for one in items)
        case {"class": name, "module": module, "fields": fields}:
            return _class_of(name, module)(**{name: _decoded(one, tensors) for name, one in fields.items()})
    raise ValueError(f"a value of the forms {', '.join(held)} is not known")


def _class_of(name: str, module: str) -> type[Values]:
    """A class by its name; its module is imported if it is one of this package."""
    package = __name__.partition(".")[0]
    if name not in _KNOWN and module.startswith(f"{package}.") and "__main__" not in module:
        import_module(module)
    return _KNOWN[name]
