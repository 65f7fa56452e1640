"""The generated parts of the architecture page, read from the code: what each package is, and which one imports which."""

import ast
import tomllib
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tl_ffblock"
EVERYWHERE = ("errors", "_version", "numerals", "progress", "signatures", "files", "result")
"""Modules that every package may import: without arrows."""


def order() -> list[str]:
    """Packages and modules of the root, from the top: the layers of the import contract in pyproject.toml."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["containers"] == [PACKAGE])
    names = [name.strip() for layer in layers for name in layer.split("|")]
    return [name for name in names if not first_line(described(name)[1]).startswith("Former name")]


def first_line(path: Path) -> str:
    """The first line of a module's docstring."""
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def described(name: str) -> tuple[str, Path]:
    """A package as it is written, `layer/`, and the file whose docstring says what it is."""
    folder = ROOT / PACKAGE / name
    return (f"{name}/", folder / "__init__.py") if folder.is_dir() else (f"{name}.py", folder.with_suffix(".py"))


def table() -> str:
    """A row per package and module of the root: its name and the first line of its docstring."""
    rows = [f"| `{title}` | {first_line(path)} |" for title, path in map(described, order())]
    return "\n".join(["| | |", "|---|---|", *rows])


def modules() -> str:
    """The modules of each package with the first lines of their docstrings."""
    lines: list[str] = []
    for name in order():
        folder = ROOT / PACKAGE / name
        files = [path for path in sorted(folder.rglob("*.py")) if path.name != "__init__.py"]
        if files:
            lines += [f"\n### `{name}/`\n"]
            lines += [f"- `{path.relative_to(folder)}` {first_line(path)}" for path in files]
    return "\n".join(lines).strip()


def arrows() -> dict[str, list[str]]:
    """For every package, from the top, the packages that it imports (for types, too)."""
    graph = grimp.build_graph(PACKAGE, cache_dir=None)
    names = {name: f"{PACKAGE}.{name}" for name in order() if name not in (*EVERYWHERE, "__main__")}
    for module in names.values():
        graph.squash_module(module)
    return {
        name: [
            other
            for other in names
            if other != name and graph.direct_import_exists(importer=names[name], imported=names[other])
        ]
        for name in names
    }


def picture() -> str:
    """A flowchart in Mermaid."""
    imports = arrows()
    lines = [f'  {name}["{described(name)[0]}"]' for name in imports]
    lines += [f"  {name} --> {' & '.join(imported)}" for name, imported in imports.items() if imported]
    return "\n".join(["```mermaid", "flowchart TD", *lines, "```"])


BLOCKS = {"packages": table, "imports": picture}
