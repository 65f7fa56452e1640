"""Texts from data files and datasets, one at a time; an unreadable row becomes a `Problem` and does not end the run."""

import codecs
import csv
import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, count
from pathlib import Path
from typing import Any, TypeAlias

from tl_ffblock.corpus.settings import Config, require
from tl_ffblock.errors import InputError, brief
from tl_ffblock.files import parse_json, regular_file

Span: TypeAlias = tuple[int, int]
"""Start and end of a range of characters in a text."""


@dataclass(frozen=True)
class Relation:
    """A syntactic relation between two of a text's words, from a treebank."""

    dependent: int
    """Index of the dependent among the text's words."""
    head: int
    """Index of its head; -1 for the root of a sentence."""
    name: str
    """Name in the treebank, such as "nsubj", or with its subtype "nsubj:pass"."""


@dataclass(frozen=True)
class CorpusText:
    """One text of the corpus. After tokenisation it is a sequence of the run."""

    text: str
    where: str
    """File and line, row or sentence, for messages."""
    document: str
    """Article that the text belongs to."""
    words: tuple[Span, ...] | None = None
    """Gold words; None if the data has none."""
    groups: tuple[tuple[Span, ...], ...] = ()
    """Words that belong together: multi-word expressions and named entities."""
    relations: tuple[Relation, ...] = ()
    """Syntactic relations between the gold words; empty if the data has none. Words that are written as one have none between them."""
    number: int = -1
    """Number in the run, assigned when the corpus is divided into shards."""


@dataclass(frozen=True)
class Problem:
    """An unreadable line, or a sequence that failed; it is reported and counted, and the run continues."""

    where: str
    why: str
    stage: str
    """Stage of the failure: `reading`, `tokenising` or `measuring`."""


Read: TypeAlias = Iterator[CorpusText | Problem]
Line: TypeAlias = tuple[str, str, str]
"""Place of a line, its text, and what is wrong with it ("" for nothing)."""

LONGEST_LINE = 2**24
"""Largest number of bytes in a line or cell; a longer one is a problem and is not held in memory."""
ROWS_AT_ONCE = 1000
"""Rows of a dataset that are decoded together."""
LONGEST_SENTENCE = 10_000
"""Largest number of lines in a CoNLL-U sentence."""
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_LONE_RETURN = re.compile(r"\r+(?![\r\n])(?!$)")
"""A carriage return within a line: the line ending of old Macs."""
_OTHER_FILES = {
    codecs.BOM_UTF32_LE: "UTF-32: expected UTF-8. Save it as UTF-8, or run: iconv -f UTF-32 -t UTF-8",
    codecs.BOM_UTF32_BE: "UTF-32: expected UTF-8. Save it as UTF-8, or run: iconv -f UTF-32 -t UTF-8",
    codecs.BOM_UTF16_LE: "UTF-16: expected UTF-8. Save it as UTF-8, or run: iconv -f UTF-16 -t UTF-8",
    codecs.BOM_UTF16_BE: "UTF-16: expected UTF-8. Save it as UTF-8, or run: iconv -f UTF-16 -t UTF-8",
    b"\x1f\x8b": "compressed by gzip: unpack it first. Run: gzip -cd",
    b"BZh": "compressed by bzip2: unpack it first. Run: bzip2 -cd",
    b"\xfd7zXZ": "compressed by xz: unpack it first. Run: xz -cd",
    b"\x28\xb5\x2f\xfd": "compressed by zstd: unpack it first. Run: zstd -cd",
    b"PK\x03\x04": "a zip archive or a file of Excel: unpack it, or save the table as CSV. Run: unzip -p",
}
"""First bytes of files that are not plain text, with their kind and the command that converts them."""
_ID = re.compile("[1-9][0-9]{0,5}")
"""Number of a word in CoNLL-U."""

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
"""Possible names of datasets on the hub; any other string can only be a path."""


def read_texts(config: Config) -> Read:
    """All texts of the data, in order, and problems for rows that cannot be read.

    Raises:
        InputError: if there is no such file, its format is not known, or it is not UTF-8.
    """
    kind = data_format(config)
    if kind == "text":
        yield from _text(config)
    elif kind == "conllu":
        yield from read_conllu(Path(config.data).expanduser())
    else:
        for where, row in {"jsonl": _jsonl, "dataset": _dataset}.get(kind, _table)(config):
            yield Problem(where, row, "reading") if isinstance(row, str) else _row(config, row, where)


def data_format(config: Config) -> str:
    """Format of the data, without reading it.

    Raises:
        InputError: if there is no such file, or its format is not known.
    """
    if not isinstance(config.data, str):
        return "dataset"
    path = Path(config.data).expanduser()
    if config.format != "dataset" and not path.is_dir() and path.exists():
        regular_file(path)
    elif config.format not in ("auto", "dataset"):
        raise InputError(f"data={config.data!r}: there is no such file.")
    if config.format != "auto":
        return config.format
    if path.is_file():
        kind = ENDINGS.get(path.suffix.lower())
        if kind is None:
            raise InputError(
                f"data={config.data!r}: the ending {path.suffix!r} has no known format; known are "
                f"{', '.join(ENDINGS)}. Pass format."
            )
        return kind
    if not config.data:
        raise InputError("data='': expected a file, a folder of a saved dataset, or a dataset's name on the hub.")
    if not path.exists() and (path.suffix.lower() in ENDINGS or not _HUB_NAME.fullmatch(config.data)):
        raise InputError(f"data={config.data!r}: there is no such file.")
    return "dataset"


def _lines(path: Path) -> Iterator[Line]:
    """Every line of a file: its place, its text, and what is wrong with it ("" for nothing).

    Raises:
        InputError: if the first bytes are those of UTF-16, UTF-32 or a compressed file.
    """
    name = os.fsencode(path.name).decode("utf-8", "backslashreplace")
    with path.open("rb") as file:
        first = file.read(8)
        if kind := next((kind for start, kind in _OTHER_FILES.items() if first.startswith(start)), None):
            raise InputError(f"{name} is {kind} {name} > new file")
        file.seek(0)
        for number in count(1):
            raw = file.readline(LONGEST_LINE)
            if not raw:
                return
            # The byte order mark is not text; joined files have one at a later line, too.
            where, text = f"{name}:{number}", raw.decode("utf-8-sig", "surrogateescape")
            wrong = _wrong(text)
            while len(raw) == LONGEST_LINE and not raw.endswith(b"\n"):
                wrong, raw = f"is longer than {LONGEST_LINE} bytes", file.readline(LONGEST_LINE)
            yield where, text, wrong


def _plain_lines(path: Path) -> Iterator[Line]:
    """The same, for files in which a carriage return cannot be part of a text."""
    for where, text, wrong in _lines(path):
        found = None if wrong else _LONE_RETURN.search(text)
        yield (
            where,
            text,
            wrong
            if found is None
            else f"holds a carriage return at character {found.start() + 1}: save the file with line feeds (tr '\\r' '\\n')",
        )


def _wrong(text: str) -> str:
    """Description of characters that cannot be part of a text; empty if there are none."""
    found = _NO_TEXT.search(text)
    if found is None:
        return ""
    character, at = ord(found[0]), found.start() + 1
    if character == 0:
        return f"holds a NUL byte at character {at}: is the file text?"
    if 0xDC80 <= character <= 0xDCFF:  # bytes that Python's "surrogateescape" kept
        return f"is not UTF-8: byte 0x{character - 0xDC00:02x} at character {at}; save the file as UTF-8"
    return f"holds half a surrogate pair, U+{character:04X}, at character {at}: cut between two halves of a character"


def _text(config: Config) -> Read:
    """One text per line; lines that match `document_pattern` begin an article."""
    heading = re.compile(config.document_pattern) if config.document_pattern else None
    document = None
    for where, line, wrong in _plain_lines(Path(config.data).expanduser()):
        if wrong:
            yield Problem(where, wrong, "reading")
        elif heading is not None and heading.search(line):
            document = f"{where.rpartition(':')[2]} {line.strip()}"
        elif line.strip():
            yield CorpusText(line.strip(), where, where if document is None else document)


Rows: TypeAlias = Iterator[tuple[str, Mapping[str, Any] | str]]
"""Place of a row, and the row itself or what is wrong with it."""


def _jsonl(config: Config) -> Rows:
    for where, line, wrong in _lines(Path(config.data).expanduser()):
        if wrong or not line.strip():
            yield from [(where, wrong)] * bool(wrong)
            continue
        try:
            row = parse_json(line)
        except ValueError as error:  # also for a number of 5,000 digits, and for 100,000 brackets
            yield where, f"is not JSON: {error}"
        else:
            yield where, row if isinstance(row, Mapping) else f"has no text under {config.column!r}"


def _table(config: Config) -> Rows:
    """Rows of a CSV or TSV file. An unreadable row ends with its first line; the next row begins after it."""
    lines, kind = _lines(Path(config.data).expanduser()), data_format(config)
    dialect: Any = {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if kind == "tsv" else {"strict": True}
    csv.field_size_limit(max(LONGEST_LINE, csv.field_size_limit()))
    columns: list[str] | None = None
    ahead: deque[Line] = deque()
    while taken := [line] if (line := ahead.popleft() if ahead else next(lines, None)) else []:
        try:
            cells = next(csv.reader(_taken(taken, ahead, lines), **dialect))
            wrong = next(filter(None, (wrong for *_, wrong in taken)), "")
        except csv.Error as error:
            opened = len(taken) > 1 or "end of data" in str(error)
            cells, wrong = [], "opens a quote that is not closed" if opened else f"is not a row of CSV: {error}"
            ahead.extendleft(reversed(taken[1:]))
            taken = taken[:1]
        where = taken[0][0]
        if columns is None:
            columns = cells
            for name in filter(None, (config.column, config.document_column)):
                if wrong or columns.count(name) != 1:
                    has = wrong or f"it has {brief(', '.join(map(repr, columns)), 200).strip(chr(34))}"
                    raise InputError(f"{where}: no column {name!r}; {has}.")
        elif wrong:
            yield where, wrong
        elif cells and len(cells) != len(columns):
            yield where, f"has {len(cells)} cells, the header has {len(columns)}"
        elif cells:
            yield where, dict(zip(columns, cells, strict=True))


def _taken(taken: list[Line], ahead: deque[Line], lines: Iterator[Line]) -> Iterator[str]:
    """Texts of lines for a CSV reader; the lines are appended to `taken`."""
    yield taken[0][1]
    while line := ahead.popleft() if ahead else next(lines, None):
        taken.append(line)
        yield line[1]


def _dataset(config: Config) -> Rows:
    require(["datasets"])
    import datasets

    loaded: Any = config.data
    if isinstance(config.data, str):
        path = Path(config.data).expanduser()
        try:
            if (path / "state.json").is_file() or (path / "dataset_dict.json").is_file():
                loaded = datasets.load_from_disk(str(path))
            else:
                loaded = datasets.load_dataset(config.data, config.subset, split=config.split)
        except Exception as error:
            absent = "" if path.exists() else "there is no such file or folder, and "
            raise InputError(
                f"data={config.data!r}: {absent}it cannot be loaded as a dataset, split {config.split!r}: {error}"
            ) from error
    if isinstance(loaded, datasets.DatasetDict):
        if config.split not in loaded:
            raise InputError(f"{config.source} has no split {config.split!r}; it has {', '.join(loaded)}.")
        loaded = loaded[config.split]
    if not isinstance(loaded, datasets.Dataset):
        raise InputError(f"data is a {type(loaded).__name__}: expected a file's name or a datasets.Dataset.")
    columns = [name for name in (config.column, config.document_column) if name is not None]
    for name in columns:
        if name not in loaded.column_names:
            raise InputError(f"{config.source} has no column {name!r}; it has {', '.join(loaded.column_names)}.")
    yield from _rows_of(loaded.with_format(None).select_columns(columns), config.split)


def _rows_of(loaded: Any, split: str) -> Rows:
    """Rows of a dataset, read in blocks; a block that cannot be read is read row by row."""
    for start in range(0, len(loaded), ROWS_AT_ONCE):
        block = range(start, min(start + ROWS_AT_ONCE, len(loaded)))
        try:
            held = loaded[block.start : block.stop]
            rows = [{name: cells[place] for name, cells in held.items()} for place in range(len(block))]
        except (ValueError, OSError):  # bytes that are not UTF-8, or a truncated file
            yield from ((f"{split}[{number}]", _read_row(loaded, number)) for number in block)
        else:
            yield from ((f"{split}[{number}]", row) for number, row in zip(block, rows, strict=True))


def _read_row(loaded: Any, number: int) -> Mapping[str, Any] | str:
    try:
        row: Mapping[str, Any] = loaded[number]
    except (ValueError, OSError) as error:
        return f"cannot be read: {error}"
    return row


def _row(config: Config, row: Mapping[str, Any], where: str) -> CorpusText | Problem:
    text, document = row.get(config.column), row.get(config.document_column) if config.document_column else None
    if not isinstance(text, str):
        return Problem(where, f"has no text under {config.column!r}", "reading")
    wrong = _wrong(text) or _wrong(str(document)) or ("" if text.strip() else "is empty")
    if wrong:
        return Problem(where, wrong, "reading")
    return CorpusText(text.strip(), where, where if document is None else str(document))


_PLAIN, _CONLLULEX = 10, 19
"""Number of columns in CoNLL-U, and in the format of STREUSLE."""


def read_conllu(path: Path) -> Read:
    """Texts of a file in CoNLL-U or a related format: one per sentence, with gold words, relations, expressions and entities.

    Supported are STREUSLE's conllulex (19 columns, strong expressions in the 11th as `group:position`), PARSEME's cupt
    (`PARSEME:MWE` named by `# global.columns`), and BIO tags under `NER=` or `NE=` in MISC. `# newdoc id` begins an article.
    Relations are those of columns 7 and 8, between words as they are written. "wasn't" is one word, so the relation between its
    two parts is omitted.
    """
    document: str | None = None
    columns: list[str] | None = None
    comments: dict[str, str] = {}
    rows: list[list[str]] = []
    start = problem = ""
    for where, line, wrong in chain(
        _plain_lines(path), [("", "", "")]
    ):  # an empty line ends a sentence; the last one ends with the file
        if wrong:
            start, problem = start or where, problem or wrong
        if not line.strip():
            try:
                if problem:
                    raise ValueError(problem)
                if rows:
                    yield _sentence(rows, comments, columns, start, document or start)
            except ValueError as error:
                yield Problem(start or where, str(error), "reading")
            comments, rows, start, problem = {}, [], "", ""
        elif line.startswith("#"):
            key, _, value = line[1:].partition("=")
            comments[key.strip()] = value.strip()
            if key.split()[:1] == ["newdoc"]:  # its id may be missing
                document = value.strip() or where
            elif key.strip() == "global.columns":
                columns = value.split()
        else:
            start = start or where
            rows.append(line.rstrip("\r\n").split("\t"))
            if len(rows) > LONGEST_SENTENCE:
                problem, rows = problem or f"a sentence of more than {LONGEST_SENTENCE} lines", []


def _sentence(
    rows: list[list[str]], comments: dict[str, str], columns: list[str] | None, where: str, document: str
) -> CorpusText:
    widths = {len(row) for row in rows}
    if len(widths) != 1 or min(widths) < _PLAIN:
        raise ValueError(f"lines of {sorted(widths)} columns; expected {_PLAIN} or more, the same in all of a sentence")
    words = [row for row in rows if _ID.fullmatch(row[0])]
    _check_ids(rows, len(words))
    text = (
        comments.get("text")
        or "".join(row[1] + ("" if "SpaceAfter=No" in row[9].split("|") else " ") for row in _surface(rows)).strip()
    )
    spans = _align(text, rows)
    labels = (*_expressions(words, columns, min(widths)), *_entities(words))
    groups = tuple(tuple(spans[i] for i in group) for group in labels if len(group) > 1)
    written = {span: place for place, span in enumerate(dict.fromkeys(spans))}
    relations = tuple(_relations(words, [written[span] for span in spans]))
    return CorpusText(text, where, document, tuple(written), groups, relations)


def _check_ids(rows: list[list[str]], n_words: int) -> None:
    """Check that words are numbered 1, 2, ... and that a multi-word token precedes its words.

    Raises:
        ValueError: if they are not.
    """
    if not n_words:
        raise ValueError("no word in this sentence")
    word = covered = 0
    for number in (row[0] for row in rows):
        first, dash, last = number.partition("-")
        if (
            dash
            and _ID.fullmatch(first)
            and _ID.fullmatch(last)
            and covered <= word == int(first) - 1 < int(last) <= n_words
        ):
            covered = int(last)
        elif _ID.fullmatch(number) and int(number) == word + 1:
            word += 1
        elif not re.fullmatch(rf"{word}\.[1-9][0-9]{{0,5}}", number):  # an empty node
            raise ValueError(f"the word after {word} is numbered {brief(number)}; expected {word + 1}")


def _surface(rows: list[list[str]]) -> Iterator[list[str]]:
    """Tokens as written: a multi-word token in place of its words, and no empty nodes."""
    covered = 0
    for row in rows:
        if "-" in row[0]:
            covered = int(row[0].split("-")[1])
            yield row
        elif _ID.fullmatch(row[0]) and int(row[0]) > covered:
            yield row


def _align(text: str, rows: list[list[str]]) -> list[Span]:
    """Character span of every word; the words of a multi-word token have the same span.

    Raises:
        ValueError: if a word is not in the text.
    """
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
    return [spans[word] for word in sorted(spans)]


def _relations(words: list[list[str]], written: list[int]) -> Iterator[Relation]:
    """Relations from columns 7 and 8 of every word that has them; `written` is each word's index among the written ones.

    Raises:
        ValueError: if the head of a word does not exist, or is the word itself.
    """
    index = {row[0]: at for row, at in zip(words, written, strict=True)} | {"0": -1}
    for row, dependent in zip(words, written, strict=True):
        number, name = row[6], row[7]
        if "_" in (number, name):
            continue
        if number not in index or number == row[0]:
            other = "itself" if number == row[0] else f"word {number!r}, which this sentence does not have"
            raise ValueError(f"word {row[0]} {row[1]!r} depends on {other}")
        if index[number] != dependent:
            yield Relation(dependent, index[number], name)


def _expressions(words: list[list[str]], columns: list[str] | None, width: int) -> Iterator[list[int]]:
    """Multi-word expressions as lists of indices of `words`."""
    if columns and "PARSEME:MWE" in columns[:width]:
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
        if tag.startswith(("B", "I")):
            group.append(index)
    yield group
