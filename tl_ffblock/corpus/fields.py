"""Fields of options as they stand in the source of their class: types, defaults and the texts below them.

Reading the source instead of importing it tells a command's help in the time that it takes to read a file: the
file of a study imports torch and pandas. What can be declared is what a command line can take: `int`, `float`,
`str`, one of them `| None`, `Literal` of strings, and `tuple[int, ...]`.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from inspect import getsource
from textwrap import dedent
from typing import Any

from tl_ffblock.errors import InputError

REQUIRED = object()
"""The default of a field that has none."""

_KINDS: dict[str, type] = {"int": int, "float": float, "str": str}


@dataclass(frozen=True)
class DeclaredField:
    """One field of a dataclass of options."""

    name: str
    kind: type
    """Of the value, or of each value where there are several."""
    default: Any
    text: str
    """What stands below the field: its help."""
    choices: tuple[str, ...] = ()
    several: bool = False


@cache
def declared_fields(module: str, class_name: str) -> tuple[DeclaredField, ...]:
    """Read the fields of a class from the source of its module, which is not imported."""
    spec = find_spec(module)
    assert spec is not None and spec.loader is not None, f"there is no module {module}"
    source: str = spec.loader.get_source(module)  # type: ignore[attr-defined]
    classes = {node.name: node for node in ast.parse(source).body if isinstance(node, ast.ClassDef)}
    return tuple(_declared(node, text) for node, text in _fields(classes[class_name]))


def texts_of(options: object) -> dict[str, str]:
    """The text below each field of an options object; none where its source cannot be read, as in a notebook."""
    try:
        body = ast.parse(dedent(getsource(type(options)))).body[0]
    except (OSError, TypeError):
        return {}
    assert isinstance(body, ast.ClassDef)
    return {_name(node): text for node, text in _fields(body)}


def check_at_least(options: object, name: str, least: int) -> None:
    """Hold a whole number against its smallest value.

    Raises:
        InputError: if the field is no whole number, or below.
    """
    value = getattr(options, name)
    if not isinstance(value, int) or value < least:
        raise InputError(f"{name}={value!r}: expected a whole number of at least {least}.")


def _fields(class_: ast.ClassDef) -> Iterator[tuple[ast.AnnAssign, str]]:
    """Annotated names of a class body that have a text below them."""
    for node, below in zip(class_.body, class_.body[1:], strict=False):
        if isinstance(node, ast.AnnAssign) and isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant):
            yield node, str(below.value.value)


def _declared(node: ast.AnnAssign, text: str) -> DeclaredField:
    default = REQUIRED if node.value is None else ast.literal_eval(node.value)
    kind = node.annotation
    if isinstance(kind, ast.BinOp):  # `int | None`
        kind = kind.left
    if isinstance(kind, ast.Subscript):
        values = ast.literal_eval(kind.slice) if ast.unparse(kind.value) == "Literal" else None
        if values is None:  # `tuple[int, ...]`
            return DeclaredField(_name(node), int, default, text, several=True)
        return DeclaredField(_name(node), str, default, text, choices=values)
    return DeclaredField(_name(node), _KINDS[ast.unparse(kind)], default, text)


def _name(node: ast.AnnAssign) -> str:
    assert isinstance(node.target, ast.Name)
    return node.target.id
