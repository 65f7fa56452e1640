"""What is behind a door is moved without asking: nobody reaches past it."""

import ast
from pathlib import Path

from tests.structure.conftest import Source

ROOT = Path(__file__).resolve().parents[2]


def private_imports(tree: ast.Module) -> list[str]:
    """Private names that are imported from the package."""
    return [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "tl_ffblock"
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]


def test_no_module_imports_a_private_name(sources: list[Source]) -> None:
    """In the package."""
    assert [name for source in sources for name in private_imports(source.tree)] == []


def test_no_test_stands_on_a_private_name() -> None:
    """In tests, benchmarks and documents' scripts: a law is about what others can use."""
    files = [path for folder in ("tests", "benchmarks", "docs") for path in sorted((ROOT / folder).rglob("*.py"))]
    assert {
        str(path.relative_to(ROOT)): names
        for path in files
        if (names := private_imports(ast.parse(path.read_text(encoding="utf-8"))))
    } == {}


def test_the_package_does_not_import_itself_from_its_root(sources: list[Source]) -> None:
    """`tl_ffblock/__init__.py` is for users; a module that imports it imports upwards."""
    assert [
        f"{source.path}:{node.lineno}"
        for source in sources
        for node in ast.walk(source.tree)
        if source.path != "__init__.py"
        if (isinstance(node, ast.ImportFrom) and node.module == "tl_ffblock")
        or (isinstance(node, ast.Import) and any(alias.name == "tl_ffblock" for alias in node.names))
    ] == []
