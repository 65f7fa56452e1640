"""Reads the page's scripts as far as names go: what is defined, bound and used. Enough JavaScript for our own style.

1. `tokens_of` drops comments, strings and regular expressions; of a template literal what stands in `${}` stays.
2. `chunks_of` cuts a script at its top level; each chunk defines one name (or is a statement).
3. A chunk binds names (parameters, const, let, inner functions) and uses names; a property or key is neither.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

TOKEN = re.compile(r"[A-Za-z_$][\w$]*|=>|\.\.\.|\?\.|\d[\w.]*|\S")
NAME = re.compile(r"[A-Za-z_$][\w$]*\Z")
KEYWORDS = frozenset(
    [
        "async",
        "await",
        "break",
        "case",
        "catch",
        "const",
        "continue",
        "default",
        "delete",
        "do",
        "else",
        "false",
        "finally",
        "for",
        "function",
        "if",
        "in",
        "instanceof",
        "let",
        "new",
        "null",
        "of",
        "return",
        "switch",
        "this",
        "throw",
        "true",
        "try",
        "typeof",
        "undefined",
        "var",
        "void",
        "while",
        "yield",
    ]
)
OPENING, CLOSING = "([{", ")]}"


@dataclass(frozen=True)
class Chunk:
    """One statement of a script's top level."""

    defines: frozenset[str]
    """Names it puts at the top level."""
    binds: frozenset[str]
    """Names that it gives to parameters and variables of its own."""
    uses: frozenset[str]
    """Names it reads, its own among them."""

    @property
    def free(self) -> frozenset[str]:
        """Names that it reads from outside."""
        return self.uses - self.binds - self.defines


def chunks_of(script: str) -> list[Chunk]:
    """The statements of a script's top level."""
    return [_chunk(tokens) for tokens in _statements(tokens_of(script))]


def tokens_of(script: str) -> list[str]:
    """Names, numbers and punctuation; strings are `""`."""
    return TOKEN.findall("".join(_code(script)))


def _code(script: str) -> Iterator[str]:
    """The script without comments and the contents of strings."""
    at, previous = 0, ";"
    while at < len(script):
        rest = script[at:]
        if rest.startswith(("/*", "//")):
            at = script.find("*/", at) + 2 if rest.startswith("/*") else _end(script, "\n", at)
        elif rest[0] in "\"'" or (rest[0] == "/" and previous in "(,=:[!&|?{};"):
            at += _string_length(rest)
            yield '""'
        elif rest[0] == "`":
            length, inner = _template(rest)
            yield "(" + ", ".join("".join(_code(expression)) for expression in inner) + ")"
            at += length
        else:
            yield rest[0]
            at += 1
        previous = rest[0] if not rest[0].isspace() else previous


def _end(script: str, mark: str, at: int) -> int:
    end = script.find(mark, at)
    return len(script) if end < 0 else end


def _string_length(rest: str) -> int:
    """Of the string or regular expression at the beginning; a `/` inside brackets does not end the latter."""
    at, bracket = 1, False
    while rest[at] != rest[0] or bracket:
        bracket = rest[0] == "/" and (bracket or rest[at] == "[") and rest[at] != "]"
        at += 2 if rest[at] == "\\" else 1
    flags = re.match(r"[a-z]*" if rest[0] == "/" else "", rest[at + 1 :])
    return at + 1 + len(flags[0] if flags else "")


def _template(rest: str) -> tuple[int, list[str]]:
    """Length of the template literal at the beginning, and the expressions inside it."""
    at, expressions = 1, []
    while rest[at] != "`":
        if rest[at : at + 2] != "${":
            at += 2 if rest[at] == "\\" else 1
            continue
        start = at = at + 2
        depth = 1
        while depth:
            if rest[at] == "`":
                at += _template(rest[at:])[0]
                continue
            depth += {"{": 1, "}": -1}.get(rest[at], 0)
            at += 1
        expressions.append(rest[start : at - 1])
    return at + 1, expressions


def _statements(tokens: list[str]) -> Iterator[list[str]]:
    """A statement ends with a semicolon at depth 0, a function with its closing brace."""
    depth, statement = 0, list[str]()
    for token in tokens:
        statement.append(token)
        depth += (token in OPENING) - (token in CLOSING)
        if depth == 0 and (token == ";" or (token == "}" and "function" in statement[:2])):
            yield statement
            statement = []
    assert not statement, f"a script ends inside {' '.join(statement[:8])} ..."


def _chunk(tokens: list[str]) -> Chunk:
    defines, binds = set[str](), set[str]()
    depth = 0
    for at, token in enumerate(tokens):
        depth += (token in OPENING) - (token in CLOSING)
        target = defines if depth == 0 else binds
        if token in ("const", "let", "var"):
            target |= _declared(tokens, at + 1)
        elif token == "function":
            name = tokens[at + 2] if tokens[at + 1] == "*" else tokens[at + 1]
            if NAME.match(name):
                target.add(name)
            binds |= _bound(tokens[tokens.index("(", at) + 1 : _matching(tokens, tokens.index("(", at))])
        elif token == "=>":
            start = _opening(tokens, at - 1) if tokens[at - 1] == ")" else at - 1
            binds |= _bound(tokens[start:at])
    return Chunk(frozenset(defines), frozenset(binds), frozenset(_used(tokens)))


def _matching(tokens: list[str], at: int) -> int:
    """Where the bracket opened at `at` is closed."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += (tokens[end] in OPENING) - (tokens[end] in CLOSING)
        if depth == 0:
            return end
    raise AssertionError(f"not closed: {' '.join(tokens[at : at + 8])} ...")


def _opening(tokens: list[str], at: int) -> int:
    """Where the bracket closed at `at` was opened."""
    depth = 0
    for start in range(at, -1, -1):
        depth += (tokens[start] in CLOSING) - (tokens[start] in OPENING)
        if depth == 0:
            return start
    raise AssertionError(f"not opened: ... {' '.join(tokens[max(0, at - 8) : at + 1])}")


def _declared(tokens: list[str], at: int) -> set[str]:
    """Names of `const a = 1, { b, c: [d] } = e;` from behind `const`."""
    depth, end = 0, at
    while depth > 0 or tokens[end] not in (";", "of", ")"):
        depth += (tokens[end] in OPENING) - (tokens[end] in CLOSING)
        end += 1
    return _bound(tokens[at:end])


def _bound(pattern: list[str]) -> set[str]:
    """Names that a list of parameters or of declarations binds; defaults, initial values and keys bind nothing."""
    names, depth, value_at = set[str](), 0, None
    for at, token in enumerate(pattern):
        depth += (token in OPENING) - (token in CLOSING)
        if value_at is not None and (depth < value_at or (token == "," and depth == value_at)):
            value_at = None
        if token == "=" and value_at is None:
            value_at = depth
        is_key = at + 1 < len(pattern) and pattern[at + 1] == ":"
        if value_at is None and NAME.match(token) and not is_key and token not in KEYWORDS:
            names.add(token)
    return names


def _used(tokens: list[str]) -> Iterator[str]:
    """Names that are neither properties (`.name`) nor keys (`{ name: ...`)."""
    for at, token in enumerate(tokens):
        before = tokens[at - 1] if at else ";"
        after = tokens[at + 1] if at + 1 < len(tokens) else ";"
        is_key = after == ":" and before in ("{", ",")
        if NAME.match(token) and token not in KEYWORDS and before not in (".", "?.") and not is_key:
            yield token
