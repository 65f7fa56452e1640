"""Annotation sheet for the patterns of top-activating examples, and its evaluation (Geva et al. 2021, section 3.2).

A reader writes the patterns of a prefix into the column `patterns`, each with its kind, separated by semicolons:

    ends in "press"=shallow; newspapers=semantic

A pattern must be at three or more examples of a neuron; others are not counted, as in the paper.
"""

import csv
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import pandas as pd

from tl_ffblock.errors import InputError
from tl_ffblock.files import regular_file, write_table
from tl_ffblock.memories.triggers import Triggers
from tl_ffblock.signatures import strict

Kind: TypeAlias = Literal["shallow", "semantic"]
LEAST = 3
"""Smallest number of a neuron's examples with a pattern."""
COLUMNS = ("memory", "rank", "prefix", "next_token", "patterns")


@strict
def write_annotation_sheet(triggers: Triggers, path: str | os.PathLike[str]) -> Path:
    """Path of a CSV file, which is written with one row per top-activating example and an empty column for patterns.

    Prefixes are in quotation marks, so that no spreadsheet reads one as a formula. The last token of a prefix, at which the
    neuron is active, is marked `*so*`.

    Args:
        triggers: Result of `find_triggers`.
        path: File to write.

    Raises:
        InputError: if its folder does not exist.
    """
    rows = [
        dict(
            memory=str(name),
            rank=trigger.rank,
            prefix=f"“{''.join(trigger.prefix[:-1])} *{trigger.prefix[-1].strip()}*”",
            next_token="" if trigger.next_token is None else f"“{trigger.next_token}”",
            patterns="",
        )
        for name in triggers.memories
        for trigger in triggers.of(name)
    ]
    return write_table(path, pd.DataFrame(rows, columns=COLUMNS))


@strict
def read_annotations(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Evaluation of a filled sheet, one row per neuron.

    Returns:
        memory, layer, triggers, patterns (their number), and the fraction of the examples whose patterns are `shallow`,
            `semantic`, of `both` kinds, or that have `none`; these four sum to 1.

    Raises:
        InputError: if the file lacks columns or rows of the sheet, a pattern has no kind, or one has two kinds.
        FileNotFoundError: if there is no such file.
    """
    noted: dict[str, list[Mapping[str, Kind]]] = {}
    for memory, patterns in _rows(Path(path)):
        noted.setdefault(memory, []).append(patterns)
    return pd.DataFrame([_summary(memory, triggers) for memory, triggers in noted.items()])


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Kind]]]:
    """Neuron and patterns of each row."""
    with regular_file(path).open(encoding="utf-8-sig", newline="") as file:
        sheet = csv.DictReader(file)
        missing = {"memory", "patterns"} - set(sheet.fieldnames or ())
        if missing:
            raise InputError(f"{path} has no column {' or '.join(sorted(missing))}: it is not an annotation sheet.")
        rows = [(row["memory"], _patterns(row["patterns"] or "", path, sheet.line_num)) for row in sheet]
    if not rows:
        raise InputError(f"{path} has no rows: expected one per trigger.")
    yield from rows


def _patterns(noted: str, path: Path, line: int) -> dict[str, Kind]:
    """Patterns of a cell, with their kinds."""
    patterns: dict[str, Kind] = {}
    for piece in filter(None, (piece.strip() for piece in noted.split(";"))):
        name, _, kind = (part.strip() for part in piece.rpartition("="))
        known = [option for option in get_args(Kind) if option == kind]
        if not name or not known:
            raise InputError(
                f"{path}, line {line}: {piece!r} is not a pattern; expected NAME=shallow or NAME=semantic."
            )
        patterns[name] = known[0]
    return patterns


def _summary(memory: str, triggers: list[Mapping[str, Kind]]) -> dict[str, object]:
    """Row of one neuron."""
    counts = Counter(name for patterns in triggers for name in patterns)
    kinds: dict[str, set[Kind]] = {}
    for patterns in triggers:
        for name, kind in patterns.items():
            kinds.setdefault(name, set()).add(kind)
    torn = [name for name, of_name in kinds.items() if len(of_name) > 1]
    if torn:
        raise InputError(f"memory {memory}: the pattern {torn[0]!r} is both shallow and semantic. Use one kind.")
    recurring = {name for name, count in counts.items() if count >= LEAST}
    covered = Counter(frozenset(kind for name, kind in p.items() if name in recurring) for p in triggers)
    shares: dict[str, frozenset[Kind]] = {
        "shallow": frozenset({"shallow"}),
        "semantic": frozenset({"semantic"}),
        "both": frozenset({"shallow", "semantic"}),
        "none": frozenset(),
    }
    row: dict[str, object] = dict(memory=memory, layer=int(memory.split(":")[0]), triggers=len(triggers))
    row["patterns"] = len(recurring)
    return row | {name: covered[kind] / len(triggers) for name, kind in shares.items()}
