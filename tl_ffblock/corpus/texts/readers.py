"""Data files and datasets -> texts, one at a time; what cannot be read becomes a problem, not an end."""

import csv
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.texts.conllu import read_conllu
from tl_ffblock.corpus.texts.texts import CorpusText, Problem
from tl_ffblock.errors import InputError

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
    path = Path(config.data).expanduser()
    kind = data_format(config)
    if kind == "dataset":
        return _dataset(config, path)
    if kind == "text":
        return _text(config, path)
    if kind == "jsonl":
        return _jsonl(config, path)
    if kind == "conllu":
        return read_conllu(path)
    return _table(config, path, "\t" if kind == "tsv" else ",")


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


def _table(config: Config, path: Path, delimiter: str) -> Read:
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    with path.open("rb") as file:
        lines = (line.decode("utf-8", "surrogateescape") for line in file)
        reader = csv.DictReader(lines, delimiter=delimiter, quoting=quoting)
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
    """A dataset saved by `save_to_disk`, a folder that `load_dataset` reads, or a name on the hub."""
    try:
        import datasets
    except ImportError as error:
        raise InputError(
            "datasets are read by the package of that name; in the folder of the repository run: "
            'pip install -c constraints.txt ".[experiments]"'
        ) from error
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
