"""Annotation sheet for the categories of amplified token pairs, and the agreement of two annotators (section 5.2).

    write_pair_sheet(run.tables["amplification_top_pairs"], "anna.csv")  # one copy per annotator, who fills in `category`
    read_pair_sheet("anna.csv")  # fraction of each category by layer
    annotator_agreement("anna.csv", "ben.csv")  # Cohen's kappa

The categories are those of the study `amplification`, with "within an expression" divided into the three kinds that only a
reader can distinguish. The sheet does not show the category by rule.
"""

import csv
import os
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pandas as pd

from tl_ffblock.corpus.settings import require
from tl_ffblock.errors import InputError, brief, did_you_mean
from tl_ffblock.files import regular_file, write_table
from tl_ffblock.signatures import strict

CATEGORIES = (
    "same token",
    "subwords of one word",
    "compound noun",
    "common expression",
    "named entity",
    "adjacent",
    "other",
)
"""Values of the column `category`."""
COLUMNS = ("layer", "rank", "key", "query", "count", "category")
ALL_LAYERS = "all"
Pair: TypeAlias = tuple[str, ...]
"""Layer, rank, key and query, as in the sheet."""


@strict
def write_pair_sheet(top_pairs: pd.DataFrame, path: str | os.PathLike[str]) -> Path:
    """Path of a CSV file, which is written with one row per pair, most amplified first, and an empty column for the category.

    Tokens are in quotation marks, so that no spreadsheet reads one as a formula.

    Args:
        top_pairs: Table `amplification_top_pairs` of a run.
        path: File to write.

    Raises:
        InputError: if it is another table, or the file's folder does not exist.
    """
    missing = [name for name in COLUMNS[:-1] if name not in top_pairs]
    if missing:
        raise InputError(
            f"top_pairs has no column {', '.join(missing)}: expected the table amplification_top_pairs of a run."
        )
    quoted = {name: [f"“{token}”" for token in top_pairs[name]] for name in ("key", "query")}
    return write_table(path, top_pairs.assign(**quoted, category="")[list(COLUMNS)])


@strict
def read_pair_sheet(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Fractions of the categories in a filled sheet, one row per layer and category: layer, category, pairs, share.

    `pairs` is the number of pairs of the layer with a category; pairs without one are not counted.

    Raises:
        InputError: if the file lacks columns of the sheet, or has a category that is not one of `CATEGORIES`.
        FileNotFoundError: if there is no such file.
    """
    noted = _noted(Path(path))
    rows = pd.DataFrame(
        [(int(pair[0]), category) for pair, category in noted.items() if category], columns=["layer", "category"]
    )
    counts = pd.crosstab(rows["layer"], rows["category"]).reindex(columns=list(CATEGORIES), fill_value=0)
    pairs = counts.sum(axis=1)
    long = counts.div(pairs, axis=0).stack().rename("share").reset_index()
    return long.assign(pairs=long["layer"].map(pairs))[["layer", "category", "pairs", "share"]]


@strict
def annotator_agreement(first: str | os.PathLike[str], second: str | os.PathLike[str]) -> pd.DataFrame:
    """Agreement of two annotators, one row per layer and one for "all": layer, pairs, agreement, kappa.

    `agreement` is the fraction of pairs with the same category from both. `kappa` is Cohen's (1960), which corrects for the
    agreement expected by chance; it is NaN if both used one category only. Pairs without a category in either sheet are not
    counted.

    Args:
        first: One annotator's sheet.
        second: Another's, of the same pairs.

    Raises:
        InputError: as in `read_pair_sheet`, if the sheets have different pairs, or if scikit-learn is missing.
        FileNotFoundError: if there is no such file.
    """
    require(("sklearn",))
    noted, other = _noted(Path(first)), _noted(Path(second))
    if noted.keys() != other.keys():
        unlike = min(noted.keys() ^ other.keys())
        raise InputError(f"{first} and {second} have different pairs: only one of them has {brief(unlike)}.")
    both = {pair: (mine, other[pair]) for pair, mine in noted.items() if mine and other[pair]}
    groups: dict[int | str, list[tuple[str, str]]] = {
        int(layer): [] for layer, *_ in sorted(both, key=lambda pair: int(pair[0]))
    }
    for pair, named in both.items():
        groups[int(pair[0])].append(named)
    groups[ALL_LAYERS] = list(both.values())
    return pd.DataFrame([dict(layer=layer, **_agreement(named)) for layer, named in groups.items()])


def _agreement(named: list[tuple[str, str]]) -> dict[str, float]:
    from sklearn.metrics import cohen_kappa_score

    same = float(np.mean([mine == other for mine, other in named])) if named else np.nan
    kinds = {category for pair in named for category in pair}
    kappa = float(cohen_kappa_score(*zip(*named, strict=True))) if len(kinds) > 1 else np.nan
    return dict(pairs=len(named), agreement=same, kappa=kappa)


def _noted(path: Path) -> dict[Pair, str]:
    """Category of each pair; empty for none."""
    with regular_file(path).open(encoding="utf-8-sig", newline="") as file:
        sheet = csv.DictReader(file)
        missing = set(COLUMNS) - {"count"} - set(sheet.fieldnames or ())
        if missing:
            raise InputError(f"{path} has no column {' or '.join(sorted(missing))}: it is not a sheet of pairs.")
        noted = {}
        for row in sheet:
            pair, category = tuple(row[name] or "" for name in COLUMNS[:4]), (row["category"] or "").strip()
            if not pair[0].isdecimal():
                raise InputError(f"{path}, line {sheet.line_num}: layer {pair[0]!r} is not a number.")
            if category not in ("", *CATEGORIES):
                meant = f"{', '.join(CATEGORIES)}. {did_you_mean(category, CATEGORIES)}".rstrip()
                raise InputError(
                    f"{path}, line {sheet.line_num}: {category!r} is not a category; expected one of {meant}"
                )
            noted[pair] = category
    return noted
