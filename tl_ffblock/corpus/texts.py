"""Data files and datasets -> texts, one at a time; what cannot be read becomes a problem, not an end."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tl_ffblock.corpus.settings import Config, require
from tl_ffblock.errors import InputError

Span: TypeAlias = tuple[int, int]
"""Characters from start to end of a text."""


@dataclass(frozen=True)
class Relation:
    """A syntactic relation between two of a text's words, as a treebank has it."""

    dependent: int
    """Index among the text's words."""
    head: int
    """The same of the word it depends on; -1 for the root of a sentence."""
    name: str
    """The treebank's, with its subtype: "nsubj", "nsubj:pass"."""


@dataclass(frozen=True)
class CorpusText:
    """One text of the corpus; with its tokens it is a sequence of the run."""

    text: str
    where: str
    """File and line, row or sentence, for messages."""
    document: str
    """The article it belongs to."""
    words: tuple[Span, ...] | None = None
    """Gold words, where the data has them."""
    groups: tuple[tuple[Span, ...], ...] = ()
    """Words that belong together, as multi-word expressions and named entities do."""
    relations: tuple[Relation, ...] = ()
    """Syntactic relations between its gold words, where the data has them; none between words written as one."""
    number: int = -1
    """Place in the run, given when the corpus is cut into shards."""


@dataclass(frozen=True)
class Problem:
    """A line that could not be read or a sequence that failed: reported and counted, the rest goes on."""

    where: str
    why: str
    stage: str
    """`reading`, `tokenising` or `measuring`."""


Read: TypeAlias = Iterator[CorpusText | Problem]

ENDINGS = {
    ".txt": "text",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "tsv",
    ".conllu": "conllu",
    ".conllulex": "conllu",
    ".cupt": "conllu",
}

_HUB_NAME = re.compile(r"\w[\w.-]*(/\w[\w.-]*)?")
"""What can be the name of a dataset on the hub, and not only a path."""


def read_texts(config: Config) -> Read:
    """Read all texts of the data, in order.

    Raises:
        InputError: if there is no such file, or its format cannot be told.
    """
    readers = {"text": _text, "jsonl": _jsonl, "csv": _table, "tsv": _table, "dataset": _dataset}
    path, kind = Path(config.data).expanduser(), data_format(config)
    return read_conllu(path) if kind == "conllu" else readers[kind](config, path)


def data_format(config: Config) -> str:
    """Tell the format of the data, without reading it.

    Raises:
        InputError: if there is no such file, or its format cannot be told.
    """
    path = Path(config.data).expanduser()
    if config.format not in ("auto", "dataset") and not path.is_file():
        raise InputError(f"data={config.data!r}: there is no such file.")
    if config.format != "auto":
        return config.format
    if path.is_file():
        kind = ENDINGS.get(path.suffix.lower())
        if kind is None:
            raise InputError(
                f"data={config.data!r}: cannot tell the format by the ending {path.suffix!r}; known are "
                f"{', '.join(ENDINGS)}. Name it with format."
            )
        return kind
    if not config.data:
        raise InputError("data='': expected a file, a folder of a saved dataset, or a dataset's name on the hub.")
    if not path.exists() and (path.suffix.lower() in ENDINGS or not _HUB_NAME.fullmatch(config.data)):
        raise InputError(f"data={config.data!r}: there is no such file.")
    return "dataset"


def _text(config: Config, path: Path) -> Read:
    """Read one text a line; lines that match `document_pattern` begin an article."""
    heading = re.compile(config.document_pattern) if config.document_pattern else None
    document = None
    for number, line in _lines(path):
        where = f"{path.name}:{number}"
        if isinstance(line, Problem):
            yield line
        elif heading is not None and heading.search(line):
            document = f"{number} {line.strip()}"
        elif line.strip():
            yield CorpusText(line.strip(), where, where if document is None else document)


def _jsonl(config: Config, path: Path) -> Read:
    for number, line in _lines(path):
        where = f"{path.name}:{number}"
        if isinstance(line, Problem):
            yield line
        elif line.strip():
            try:
                row = json.loads(line)
            except json.JSONDecodeError as error:
                yield Problem(where, f"is no JSON: {error}", "reading")
            else:
                yield _row(config, row, where)


def _table(config: Config, path: Path) -> Read:
    with path.open("rb") as file:
        lines = (line.decode("utf-8", "surrogateescape") for line in file)
        dialect: Any = (
            {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if data_format(config) == "tsv" else {"delimiter": ","}
        )
        reader = csv.DictReader(lines, **dialect)
        columns = reader.fieldnames or ()
        for name in filter(None, (config.column, config.document_column)):
            if name not in columns:
                raise InputError(f"{path.name} has no column {name!r}; it has {', '.join(map(repr, columns))}.")
        while True:
            where = f"{path.name}:{reader.line_num + 1}"
            try:
                row = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                yield Problem(where, str(error), "reading")
            else:
                yield _row(config, row, where)


def _dataset(config: Config, path: Path) -> Read:
    require(["datasets"])
    import datasets

    try:
        if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
            loaded: Any = datasets.load_from_disk(str(path))
            rows = loaded[config.split] if isinstance(loaded, datasets.DatasetDict) else loaded
        else:
            rows = datasets.load_dataset(config.data, split=config.split)
    except Exception as error:
        absent = "" if path.exists() else "there is no such file or folder, and "
        raise InputError(
            f"data={config.data!r}: {absent}it cannot be loaded as a dataset, split {config.split!r}: {error}"
        ) from error
    if config.column not in rows.column_names:
        raise InputError(f"{config.data} has no column {config.column!r}; it has {', '.join(rows.column_names)}.")
    for number in range(len(rows)):
        yield _row(config, rows[number], f"{config.split}[{number}]")


def _row(config: Config, row: Any, where: str) -> CorpusText | Problem:
    text = row.get(config.column) if isinstance(row, Mapping) else None
    if not isinstance(text, str):
        return Problem(where, f"has no text under {config.column!r}", "reading")
    if any("\udc80" <= c <= "\udcff" for c in text):
        return Problem(where, "is not UTF-8", "reading")
    if not text.strip():
        return Problem(where, "is empty", "reading")
    document = row.get(config.document_column) if config.document_column else None
    return CorpusText(text.strip(), where, where if document is None else str(document))


def _lines(path: Path) -> Iterator[tuple[int, str | Problem]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            try:
                yield number, raw.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                yield number, Problem(f"{path.name}:{number}", f"is not UTF-8 (byte {error.start} is wrong)", "reading")


_PLAIN, _CONLLULEX = 10, 19
"""Columns of CoNLL-U, and of STREUSLE's format."""


def read_conllu(path: Path) -> Read:
    """CoNLL-U and its relatives: one text per sentence, with gold words, relations, multi-word expressions and entities.

    Read are: STREUSLE's conllulex (19 columns, strong expressions in the 11th as `group:position`), PARSEME's
    cupt (`PARSEME:MWE` named by `# global.columns`), and BIO tags under `NER=` or `NE=` in MISC. `# newdoc id` begins
    an article. Relations are those of columns 7 and 8, between words as they are written: "wasn't" is one word, and what
    stands between its two parts is no relation.
    """
    document: str | None = None
    columns: list[str] | None = None
    comments: dict[str, str] = {}
    rows: list[list[str]] = []
    start = 1

    def read_sentence() -> Read:
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
    text = (
        comments.get("text")
        or "".join(row[1] + ("" if "SpaceAfter=No" in row[9].split("|") else " ") for row in _surface(rows)).strip()
    )
    if any("\udc80" <= c <= "\udcff" for c in text):
        raise ValueError("is not UTF-8")
    spans = _align(text, rows)
    labels = (*_expressions(words, columns, min(widths)), *_entities(words))
    groups = tuple(tuple(spans[i] for i in group) for group in labels if len(group) > 1)
    written = tuple(dict.fromkeys(spans))
    return CorpusText(
        text, where, document, written, groups, tuple(_relations(words, [written.index(s) for s in spans]))
    )


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
