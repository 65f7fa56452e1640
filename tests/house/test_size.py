"""Names that mean one thing."""

import ast
from collections import Counter

from tests.house.conftest import Source


def test_no_class_name_twice(sources: list[Source]) -> None:
    """A class is known by its name alone, wherever it is met."""
    names = Counter(node.name for source in sources for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef))
    assert {name for name, times in names.items() if times > 1} == set()
