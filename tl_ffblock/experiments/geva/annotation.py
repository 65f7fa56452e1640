"""A sheet on which a reader names the patterns of triggers, and what is counted of it (Geva et al. 2021, section 3.2).

In the column `patterns` stand what the reader sees in a prefix, each with its kind, several with semicolons:

    ends in "press"=shallow; newspapers=semantic

A pattern is one that stands at three triggers of a memory or more; others are not counted, as in the paper.
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
"""Triggers of a memory at which a pattern stands."""
COLUMNS = ("memory", "rank", "prefix", "next_token", "patterns")


@strict
def write_annotation_sheet(triggers: Triggers, path: str | os.PathLike[str]) -> Path:
    """Write a CSV file with one row per trigger and an empty column for patterns.

    Prefixes stand in quotation marks, so that no spreadsheet takes one for a formula; the trigger token is marked `*so*`.

    Args:
        triggers: From `find_triggers`.
        path: The file.

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
    """What a filled sheet says: one row a memory.

    Returns:
        memory, layer, triggers, patterns (their number), and the share of the triggers with a pattern that is `shallow`,
        `semantic`, of `both` kinds, or of `none`; these four sum to 1.

    Raises:
        InputError: for a file without the sheet's columns or rows, a pattern without a kind, or one of two kinds.
        FileNotFoundError: if there is no such file.
    """
    noted: dict[str, list[Mapping[str, Kind]]] = {}
    for memory, patterns in _rows(Path(path)):
        noted.setdefault(memory, []).append(patterns)
    return pd.DataFrame([_summary(memory, triggers) for memory, triggers in noted.items()])


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Kind]]]:
    """Each row's memory and patterns."""
    with regular_file(path).open(encoding="utf-8-sig", newline="") as file:
        sheet = csv.DictReader(file)
        missing = {"memory", "patterns"} - set(sheet.fieldnames or ())
        if missing:
            raise InputError(f"{path} has no column {' or '.join(sorted(missing))}: it is not an annotation sheet.")
        rows = [(row["memory"], _patterns(row["patterns"] or "", path, sheet.line_num)) for row in sheet]
    if not rows:
        raise InputError(f"{path} has no row: there is nothing to count.")
    yield from rows


def _patterns(noted: str, path: Path, line: int) -> dict[str, Kind]:
    """The patterns of a cell, with their kinds."""
    patterns: dict[str, Kind] = {}
    for piece in filter(None, (piece.strip() for piece in noted.split(";"))):
        name, _, kind = (part.strip() for part in piece.rpartition("="))
        known = [option for option in get_args(Kind) if option == kind]
        if not name or not known:
            raise InputError(f"{path}, line {line}: {piece!r} is not a pattern; write NAME=shallow or NAME=semantic.")
        patterns[name] = known[0]
    return patterns


def _summary(memory: str, triggers: list[Mapping[str, Kind]]) -> dict[str, object]:
    """Counts of one memory."""
    counts = Counter(name for patterns in triggers for name in patterns)
    kinds: dict[str, set[Kind]] = {}
    for patterns in triggers:
        for name, kind in patterns.items():
            kinds.setdefault(name, set()).add(kind)
    torn = [name for name, of_name in kinds.items() if len(of_name) > 1]
    if torn:
        raise InputError(f"memory {memory}: the pattern {torn[0]!r} is called shallow and semantic; decide for one.")
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
