"""The words of documentation, docstrings, messages and pages: terms of the field instead of turns of our own, British spelling."""

import ast
import io
import json
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
RETIRED = {
    r"hand(s|ed|ing)? out|handed-out": "attribute",
    r"shar(e|es|ed|ing) (\w+ )?out\b": "attribute",
    r"go(es|ing)? past\b": "the skip connection, the residual stream",
    r"(hold|holds|held|holding) (\w+ )?against": "compare with",
    r"foretell(s|ing)?|foretold": "predict",
    r"behind (it|them|the|a)\b": "after",
    r"summands?": "term",
    r"witness(es)?": "fingerprint",
    r"in silence": "without a warning",
    r"(slow|fast) roads?": "the reference or the optimised implementation",
    r"(the|one) door|rooms": "package, module, layer",
    r"dials?": "gate of ones",
    r"walks?|walked|walking": "propagate, vjp",
    r"stands? beside|standing beside": "is next to",
    r"an? (row|run|line|text|number|result|pair|figure|word) a (row|run|line|text|number|result|pair|cell|token|prompt|word)": "per",
    r"(?<!there )(is|are) no\b(?! longer| such| more| one|\.|,|:)": "is not a",
    r"what is left": "the remainder, the same",
    r"br(ing|ings|inging|ought)(?! (back|into|about|up))": "contribute",
    r"carr(y|ies|ied|ying) (it |them |most |what )?(across|from|on|to)": "contribute, move",
    r"takes from|(take|taken) from\?": "contributions of one token to another",
    r"speak(s|ing)? (for (it|the target)|against)": "positive, negative",
    r"(?<!is )head \S+ of layer|heads? \d+\.\d+": "L23H3",
}
"""What was written, as an expression, and what to write."""
AMERICAN = {
    r"(colo|behavio|neighbo|favo)r(s|ed|ing|ite|ites|hood)?": "-our",
    r"(normal|linear|optim|initial|organ|recogn|general|summar|token|visual)iz(e|es|ed|ing|ation)": "-ise",
    r"(cent)er(s|ed|ing)?": "centre",
    r"gray": "grey",
    r"(label|model|cancel|travel)(ed|ing)": "-lled, -lling",
}
"""American spellings; names of the paper (contextualization) and of code are not among them."""
MATPLOTLIB = ("outside upper center",)
"""Values of other packages."""
PATTERN = re.compile(rf"\b({'|'.join([*RETIRED, *AMERICAN])})(?!\w)", re.IGNORECASE)
CODE = re.compile(r"^ *```.*?^ *```|``.*?``|`[^`\n]*`|\]\([^)]*\)|<[^>]*>|<!--.*?-->", re.DOTALL | re.MULTILINE)


SCRIPT = re.compile(r'/\*.*?\*/|//[^\n]*|"[^"\n]*"|`[^\n]*`', re.DOTALL)
"""Comments and strings of JavaScript; of a line with templates all from the first to the last."""
MARKUP = re.compile(r'"[^"]*"|>[^<]+<')
"""Attributes and text of HTML."""
STYLE = re.compile(r"<style.*?</style>|\(prefers-[^)]*\)", re.DOTALL)


def pages() -> list[Path]:
    """Documents in Markdown, notebooks, and what pages in HTML are made from, but for what is made from these."""
    ours = (
        "*.md",
        ".github/**/*.md",
        "docs/**/*.md",
        "notebooks/*.ipynb",
        *(f"tl_ffblock/**/*.{e}" for e in ("md", "html", "js")),
    )
    return [path for pattern in ours for path in sorted(ROOT.glob(pattern)) if ".bundle." not in path.name]


def prose_of(page: Path) -> str:
    """What a reader reads of a page."""
    source = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        return "\n\n".join(
            "".join(cell["source"]) for cell in json.loads(source)["cells"] if cell["cell_type"] == "markdown"
        )
    if page.suffix == ".md":
        return source
    pieces = (SCRIPT if page.suffix == ".js" else MARKUP).findall(STYLE.sub("", source))
    return "\n".join(piece.strip('`"<>') for piece in pieces if " " in piece).replace("`", " ")


def prose_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, messages and comments with their lines; a string without a blank is a name."""
    strings = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    for node in strings:
        style = node.value in MATPLOTLIB or "font:" in str(node.value)
        if isinstance(node.value, str) and " " in node.value.strip() and not style:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def found(text: str) -> list[str]:
    """Retired words of a text, code left out."""
    return [match[0] for match in PATTERN.finditer(CODE.sub(" ", text))]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_has_the_words_of_the_field(page: Path) -> None:
    """No retired word and no American spelling outside code."""
    assert found(prose_of(page)) == []


@pytest.mark.parametrize(
    "folder", [*sorted(path.name for path in (ROOT / "tl_ffblock").iterdir() if path.suffix != ".md")]
)
def test_docstrings_messages_and_comments_have_them_too(folder: str) -> None:
    """Every string with a blank in it, and every comment, of a package."""
    path = ROOT / "tl_ffblock" / folder
    files = [path] if path.suffix == ".py" else sorted(path.rglob("*.py"))
    strings = [(file, text) for file in files for text in prose_of_python(file.read_text(encoding="utf-8"))]
    assert [f"{file.name}:{line}: {word}" for file, (line, text) in strings for word in found(text)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The target is shared out among tokens.", ["shared out"]),
        ("The norm behind the feed-forward.", ["behind the"]),
        ("Completeness is no faithfulness; there is no token.", ["is no"]),
        ("One number a prompt, a row a cell.", ["a row a cell"]),
        ("The color of a `color` and of\n```python\ncolor = 1\n```", ["color"]),
        ("It is no longer there.", []),
        ("What each token brings; heads carry it on; “he” takes from “is”.", ["brings", "carry it on", "takes from"]),
        ("Orange speaks for it; head 3 of layer 23 is `L23H3`.", ["speaks for it", "head 3 of layer"]),
        ("It takes 3 arguments from a file; `L23H3` is head 3 of layer 23; the change is brought back.", []),
    ],
)
def test_a_retired_word_is_found(text: str, words: list[str]) -> None:
    """In prose, not in code."""
    assert found(text) == words


def test_words_of_python_are_prose() -> None:
    """A message and a comment are read, a name is not."""
    source = (
        'def f():\n    """What is left."""\n    raise E("held against it")  # a witness of\n    return "foretell"\n'
    )
    words = [word for _, text in prose_of_python(source) for word in found(text)]
    assert sorted(words) == ["What is left", "held against", "witness"]


@pytest.mark.parametrize(
    ("name", "source", "words"),
    [
        ("a.js", '/* What it\n brings */ const brings = "brings"; // takes from\nsay("x", `a ${b ? `it ${c} brings` : ""}`);', ["brings", "takes from", "brings"]),
        ("a.html", '<style>a { color: b }</style><p title="what it brings" class="brings">takes from</p>', ["brings", "takes from"]),
        ("a.ipynb", '{"cells": [{"cell_type": "markdown", "source": ["It ", "brings"]}, {"cell_type": "code", "source": ["brings"]}]}', ["brings"]),
    ],
)  # fmt: skip
def test_words_of_pages_are_prose(name: str, source: str, words: list[str], tmp_path: Path) -> None:
    """Comments, texts and attributes are read; names, styles and code are not."""
    (tmp_path / name).write_text(source, encoding="utf-8")
    assert found(prose_of(tmp_path / name)) == words
