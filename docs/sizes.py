"""The generated table of CONTRIBUTING.md: how large the repository is, in numbers that one commit seldom changes."""

from docs.markdown import table
from tests import size

STEP = 500
"""Statements and lines of tests are rounded to so many, files to a fiftieth of it."""


def _about(number: int, step: int = STEP) -> str:
    return f"about {step * round(number / step):,}"


def sizes() -> str:
    """A row per measure of `python -m tests size`: how much there is, and the aim."""
    rows = [
        (
            "statements of the package (nodes of the syntax tree, docstrings included)",
            _about(size.statements()),
            "16,000",
        ),
        ("files of the package", _about(len(size.modules()), STEP // 50), "190 at most"),
        ("lines of tests", _about(size.lines_of_tests()), "19,000"),
        ("circles of imports, type-checking imports included (a test)", str(len(size.circles())), "0"),
        ("files with a single importer in their folder and no noun (a test)", str(len(size.single_importers())), "0"),
    ]
    return table(["measure", "now", "aim"], rows)


BLOCKS = {"sizes": sizes}
