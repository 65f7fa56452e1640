"""Only `bridge/` knows TransformerLens: its names do not stand in other rooms."""

import ast

import pytest

from tests.structure.conftest import Source

HOOK_NAMES = ("hook_", "blocks.")
"""Parts of names of HookPoints. Docstrings may show them to users."""
ATTRIBUTES = {
    "hooked",
    "hook_dict",
    "hook_points",
    "run_with_hooks",
    "run_with_cache",
    "add_hook",
    "to_tokens",
    "original_model",
}
"""`Model.hooked` is TransformerLens's model; the others are its attributes."""


def leaks(source: Source) -> list[str]:
    """Where a file speaks of HookPoints or of the hooked model."""
    documented = source.docstrings()
    found = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            found.append(f"{source.path}:{node.lineno}: .{node.attr}")
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.lineno not in documented:
            found += [f"{source.path}:{node.lineno}: {node.value!r}" for part in HOOK_NAMES if part in node.value]
    return found


def test_hook_names_and_the_hooked_model_stay_in_the_bridge(sources: list[Source]) -> None:
    """Another way to run models would be another bridge, and no other room would change."""
    assert [leak for source in sources if source.room != "bridge" for leak in leaks(source)] == []


@pytest.mark.parametrize(
    ("text", "leaking"),
    [
        ('name = f"blocks.{layer}.hook_z"', 2),
        ("model.hooked.blocks", 1),
        ('def f():\n    """Reads `blocks.0.hook_z`."""', 0),
        ("hook_points = 1", 0),
    ],
)
def test_what_a_leak_is(text: str, leaking: int) -> None:
    """Strings and attributes; docstrings and names of our own are free."""
    assert len(leaks(Source("somewhere.py", text, ast.parse(text)))) == leaking


def test_transformer_lens_is_imported_in_the_bridge_alone(sources: list[Source]) -> None:
    """Wherever in a file the import stands."""
    importing = {
        source.path
        for source in sources
        for node in ast.walk(source.tree)
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import) else [getattr(node, "module", None)]
        )
        if isinstance(node, ast.Import | ast.ImportFrom)
        and name is not None
        and name.split(".")[0] == "transformer_lens"
    }
    assert {path.split("/")[0] for path in importing} <= {"bridge"}
