"""Functions that can be read in one go."""

import ast
import io
import tokenize

from tests.structure.conftest import Source

MOST_CODE_LINES_OF_A_FUNCTION = 40
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


def code_lines(source: Source) -> set[int]:
    """Lines that hold code: not blank, not a comment, not a docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(source.text).readline)
    lines = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return lines - source.docstrings()


def test_functions_are_short(sources: list[Source]) -> None:
    """No function, signature included and docstring not, has more than 40 lines of code."""
    long = {}
    for source in sources:
        code = code_lines(source)
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = len(code & set(range(node.lineno, (node.end_lineno or node.lineno) + 1)))
                if length > MOST_CODE_LINES_OF_A_FUNCTION:
                    long[f"{source.path}:{node.name}"] = length
    assert long == {}
