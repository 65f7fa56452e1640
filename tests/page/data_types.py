"""Types of what a page's scripts get, for their checks: `python -m tests.page.data_types` writes page/assets/data.d.ts."""

import dataclasses
import types
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tl_ffblock.page import data

WRITTEN = Path(data.__file__).parent / "assets" / "data.d.ts"
SIMPLE = {str: "string", int: "number", float: "number", bool: "boolean", type(None): "null", Any: "any", object: "any"}
KINDS = (data.PageText, data.PageStart, data.PageTarget, data.PageNode, data.PageEdge, data.GraphBlock)
"""Dataclasses that are sent as they are."""
RENAMED = {"from_": "from", "ref_run": "refRun"}
SENT = (
    ("PageRun", "a run as it is sent", {"name": "string", "tokens": "string[]", "blocks": "Record<string, any>"}),
    (
        "Payload",
        "all that a page of a text is sent",
        {
            "model": "string",
            "heading": "string",
            "runs": "PageRun[]",
            "start": "PageStart",
            "certificate": "Record<string, any> | null",
            "precision": "number",
            "layered": "boolean",
            "statement": "string",
            "provenance": "Record<string, string>",
        },
    ),
)


def written(hint: Any) -> str:
    """A Python type as TypeScript writes it.

    Raises:
        TypeError: if it is of a kind that no page is made of.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint in SIMPLE:
        return SIMPLE[hint]
    if hint in KINDS:
        return str(hint.__name__)
    if origin is Literal:
        return " | ".join(f'"{value}"' for value in arguments)
    if origin in (typing.Union, types.UnionType):
        return " | ".join(map(written, arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"[{', '.join(map(written, arguments))}]"
    if origin in (tuple, list, Sequence):
        return f"{written(arguments[0])}[]" if " " not in written(arguments[0]) else f"({written(arguments[0])})[]"
    if origin in (dict, Mapping):
        return f"Record<string, {written(arguments[1])}>"
    raise TypeError(f"{hint}: no page is made of it")


def interface(name: str, words: str, fields: Mapping[str, str], base: str = "") -> str:
    """One interface."""
    lines = "".join(f"  {field}: {kind};\n" for field, kind in fields.items())
    return f"/** {words} */\nexport interface {name}{base} {{\n{lines}}}\n"


def text() -> str:
    """The file as it has to be now."""
    parts = ["/* Written by tests/page/data_types.py from tl_ffblock/page/data.py. */\n"]
    for kind in KINDS:
        hints = typing.get_type_hints(kind)
        fields = {RENAMED.get(f.name, f.name): written(hints[f.name]) for f in dataclasses.fields(kind)}
        parts.append(interface(kind.__name__, str(kind.__doc__).strip().partition("\n")[0], fields))
    for name, words, fields in SENT:
        parts.append(interface(name, words, fields, " extends PageText" if name == "Payload" else ""))
    return "\n".join(parts)


if __name__ == "__main__":
    WRITTEN.write_text(text(), encoding="utf-8")
