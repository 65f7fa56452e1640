"""CoNLL-U and its relatives -> texts with gold words, relations, multi-word expressions and entities.

Read are: STREUSLE's conllulex (19 columns, strong expressions in the 11th as `group:position`), PARSEME's
cupt (`PARSEME:MWE` named by `# global.columns`), and BIO tags under `NER=` or `NE=` in MISC. A
sentence is a text; `# newdoc id` begins an article. Relations are those of columns 7 and 8, between words as they are
written: "wasn't" is one word, and what stands between its two parts is no relation.
"""

from collections.abc import Iterator
from pathlib import Path

from tl_ffblock.corpus.texts.texts import CorpusText, Problem, Relation, Span

_PLAIN = 10
_CONLLULEX = 19


def read_conllu(path: Path) -> Iterator[CorpusText | Problem]:
    """Read one text a sentence."""
    document: str | None = None
    columns: list[str] | None = None
    comments: dict[str, str] = {}
    rows: list[list[str]] = []
    start = 1

    def read_sentence() -> Iterator[CorpusText | Problem]:
        if rows:
            where = f"{path.name}:{start}"
            try:
                yield _sentence(rows, comments, columns, where, document or where)
            except ValueError as error:
                yield Problem(where, str(error), "reading")

    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            line = raw.decode("utf-8", "surrogateescape").rstrip("\r\n")
            if not line.strip():
                yield from read_sentence()
                comments, rows = {}, []
            elif line.startswith("#"):
                key, _, value = line[1:].partition("=")
                comments[key.strip()] = value.strip()
                if key.strip() == "newdoc id":
                    document = value.strip()
                elif key.strip() == "global.columns":
                    columns = value.split()
            else:
                start = start if rows else number
                rows.append(line.split("\t"))
        yield from read_sentence()


def _sentence(
    rows: list[list[str]], comments: dict[str, str], columns: list[str] | None, where: str, document: str
) -> CorpusText:
    widths = {len(row) for row in rows}
    if len(widths) != 1 or min(widths) < _PLAIN:
        raise ValueError(f"lines of {sorted(widths)} columns; expected {_PLAIN} or more, the same in all of a sentence")
    words = [row for row in rows if row[0].isdigit()]
    if not words:
        raise ValueError("no word in this sentence")
    text = comments.get("text") or "".join(row[1] + _space_after(row) for row in _surface(rows)).strip()
    if any("\udc80" <= c <= "\udcff" for c in text):
        raise ValueError("is not UTF-8")
    spans = _align(text, rows)
    labels = (*_expressions(words, columns, min(widths)), *_entities(words))
    groups = tuple(tuple(spans[i] for i in group) for group in labels if len(group) > 1)
    written = tuple(dict.fromkeys(spans))
    return CorpusText(
        text, where, document, written, groups, tuple(_relations(words, [written.index(s) for s in spans]))
    )


def _space_after(row: list[str]) -> str:
    return "" if "SpaceAfter=No" in row[9].split("|") else " "


def _surface(rows: list[list[str]]) -> Iterator[list[str]]:
    """Tokens as written: a multi-word token stands for its words; empty nodes are not written."""
    covered = 0
    for row in rows:
        if "-" in row[0]:
            covered = int(row[0].split("-")[1])
            yield row
        elif row[0].isdigit() and int(row[0]) > covered:
            yield row


def _align(text: str, rows: list[list[str]]) -> list[Span]:
    """Characters of every word; the words of a multi-word token share its characters."""
    spans: dict[int, Span] = {}
    at = 0
    for row in _surface(rows):
        begin = text.find(row[1], at)
        if begin < 0:
            raise ValueError(f"word {row[0]} {row[1]!r} is not in its text from character {at}")
        at = begin + len(row[1])
        first, _, last = row[0].partition("-")
        for word in range(int(first), int(last or first) + 1):
            spans[word] = (begin, at)
    return [spans[int(row[0])] for row in rows if row[0].isdigit()]


def _relations(words: list[list[str]], written: list[int]) -> Iterator[Relation]:
    """Columns 7 and 8 of every word that has them; `written` is each word's index among those written."""
    index = {row[0]: at for row, at in zip(words, written, strict=True)} | {"0": -1}
    for row, dependent in zip(words, written, strict=True):
        number, name = row[6], row[7]
        if "_" in (number, name):
            continue
        if number not in index:
            raise ValueError(f"word {row[0]} {row[1]!r} depends on word {number!r}, which this sentence does not have")
        if index[number] != dependent:
            yield Relation(dependent, index[number], name)


def _expressions(words: list[list[str]], columns: list[str] | None, width: int) -> Iterator[list[int]]:
    """Multi-word expressions as lists of indices of `words`."""
    if columns and "PARSEME:MWE" in columns:
        column = columns.index("PARSEME:MWE")
    elif width == _CONLLULEX:
        column = 10
    else:
        return
    groups: dict[str, list[int]] = {}
    for index, row in enumerate(words):
        for mark in row[column].split(";"):
            if mark not in ("_", "*", ""):
                groups.setdefault(mark.split(":")[0], []).append(index)
    yield from groups.values()


def _entities(words: list[list[str]]) -> Iterator[list[int]]:
    """Named entities by BIO tags in MISC."""
    group: list[int] = []
    for index, row in enumerate(words):
        misc = dict(item.partition("=")[::2] for item in row[9].split("|"))
        tag = misc.get("NER", misc.get("NE", "O"))
        if not tag.startswith("I"):
            yield group
            group = []
        if tag[0] in "BI":
            group.append(index)
    yield group
