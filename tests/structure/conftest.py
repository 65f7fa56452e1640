"""The source of the package, read and not imported."""

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "tl_ffblock"


@dataclass(frozen=True)
class Source:
    """One file of the package."""

    path: str
    """Relative to the package."""
    text: str
    tree: ast.Module

    @property
    def room(self) -> str:
        """The first part of its path: a folder, or a file of the root."""
        return self.path.split("/")[0].removesuffix(".py")

    def docstrings(self) -> set[int]:
        """Lines of all strings that stand alone: docstrings of modules, classes, functions, fields and constants."""
        alone = [
            node.value
            for node in ast.walk(self.tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        ]
        return {line for string in alone for line in range(string.lineno, (string.end_lineno or string.lineno) + 1)}


@pytest.fixture(scope="session")
def sources() -> list[Source]:
    """All Python files of the package."""
    paths = sorted(PACKAGE.rglob("*.py"))
    texts = [path.read_text(encoding="utf-8") for path in paths]
    return [
        Source(str(path.relative_to(PACKAGE)), text, ast.parse(text)) for path, text in zip(paths, texts, strict=True)
    ]
