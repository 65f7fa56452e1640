"""How large the repository is and how its files hang together: `python -m tests size`.

Statements (nodes of the syntax tree, docstrings included) are the measure: they change neither with the length of lines nor
with blank ones. Imports are counted wherever they are, those for type checkers too.
"""

import ast
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path

import networkx as nx

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "tl_ffblock"
NOUN = "# Noun: "
"""How the comment begins that says which term of the field a file with one importer is."""


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name."""
    paths = sorted((ROOT / PACKAGE).rglob("*.py"))
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


@cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[str]:
    """Modules of the package that a file imports anywhere, a name of a module as that module."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in modules())
        elif isinstance(node, ast.ImportFrom) and node.module in modules():
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            yield from (name if name in modules() else node.module for name in names)


@cache
def imports() -> nx.DiGraph:
    """Who imports whom; the package itself, which only names what others define, is left out."""
    graph = nx.DiGraph()
    graph.add_nodes_from(set(modules()) - {PACKAGE})
    edges = ((name, other) for name, path in modules().items() if name != PACKAGE for other in imported(path))
    graph.add_edges_from((name, other) for name, other in edges if other not in (name, PACKAGE))
    return graph


def circles() -> list[list[str]]:
    """Modules that import one another, directly or not."""
    return sorted(sorted(part) for part in nx.strongly_connected_components(imports()) if len(part) > 1)


def explained(path: Path) -> bool:
    """Whether a comment above the first import says which noun of the field a file is."""
    lines = path.read_text(encoding="utf-8").splitlines()
    head = takewhile(lambda line: not line.startswith(("import ", "from ")), lines)
    return any(line.startswith(NOUN) for line in head)


def single_importers() -> list[str]:
    """Files with one importer, in their own folder and no `__init__`, and no noun that says why they are files."""
    found = []
    for name, path in modules().items():
        by = [modules()[other] for other in imports().predecessors(name)] if name in imports() else []
        piece = len(by) == 1 and by[0].parent == path.parent and "__init__.py" not in (by[0].name, path.name)
        if piece and not explained(path):
            found.append(name)
    return found


def statements() -> int:
    """Of the package."""
    return sum(isinstance(node, ast.stmt) for path in modules().values() for node in ast.walk(tree(path)))


def lines_of_tests() -> int:
    """Of every Python file in tests/."""
    return sum(path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "tests").rglob("*.py"))


def main() -> int:
    """Print the table of CONTRIBUTING.md, and what is to be changed below it."""
    rows = {
        "statements of the package": statements(),
        "files of the package": len(modules()),
        "circles of imports, type-checking imports included": len(circles()),
        "files with a single importer in their own folder and no noun": len(single_importers()),
        "lines of tests": lines_of_tests(),
    }
    print("| measure | now |\n|---|---|")
    print("\n".join(f"| {name} | {number} |" for name, number in rows.items()))
    for title, found in (("circle", map(" ".join, circles())), ("single importer", single_importers())):
        print("".join(f"\n{title}: {each}" for each in found), end="")
    print()
    return 0
