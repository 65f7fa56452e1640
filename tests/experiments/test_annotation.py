"""A sheet for a reader's annotation, out and in again."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tl_ffblock.errors import InputError
from tl_ffblock.experiments.geva import annotation
from tl_ffblock.memories import MemoryName, Triggers


def triggers() -> Triggers:
    """Four triggers of one memory, one of another; the first token would be a formula."""
    labels = ("=1+1", " the", " press", " today")
    return Triggers(
        memories=(MemoryName(2, 7), MemoryName(3, 1)),
        sign="positive",
        coefficient=np.array([[4.0, 3, 2, 1], [1, 0, 0, 0]]),
        sequence=np.array([[0, 1, 2, 3], [0, -1, -1, -1]]),
        position=np.array([[2, 2, 2, 3], [1, -1, -1, -1]]),
        tokens={number: np.arange(4) for number in range(4)},
        labels=dict.fromkeys(range(4), labels),
        causal=True,
    )


def filled(path: Path, patterns: list[str]) -> Path:
    """The sheet with its last column filled in."""
    sheet = pd.read_csv(annotation.write_annotation_sheet(triggers(), path), keep_default_na=False)
    sheet.assign(patterns=patterns).to_csv(path, index=False)
    return path


def test_the_sheet_has_a_row_a_trigger_and_no_formula(tmp_path: Path) -> None:
    """The trigger token is marked; nothing that a spreadsheet would compute stands in a cell."""
    sheet = pd.read_csv(annotation.write_annotation_sheet(triggers(), tmp_path / "sheet.csv"), keep_default_na=False)
    assert sheet["memory"].tolist() == ["2:7"] * 4 + ["3:1"]
    assert sheet["prefix"][0] == "“=1+1 the *press*”" and sheet["next_token"].tolist()[2:4] == ["“ today”", ""]
    assert not sheet.astype(str).apply(lambda column: column.str.startswith(("=", "+", "@"))).any(axis=None)


def test_patterns_count_from_three_triggers_on(tmp_path: Path) -> None:
    """Three of four end alike, one of them means the same as two others do, which is one too few."""
    patterns = ["a = b=shallow", "a = b=shallow; news=semantic", " a = b=shallow ; news=semantic;", "", ""]
    table = annotation.read_annotations(filled(tmp_path / "sheet.csv", patterns)).set_index("memory")
    assert table.loc["2:7", ["layer", "triggers", "patterns"]].tolist() == [2, 4, 1]
    assert table.loc["2:7", ["shallow", "semantic", "both", "none"]].tolist() == [0.75, 0, 0, 0.25]
    assert table.loc["3:1", "none"] == 1
    patterns[3] = "news=semantic"
    table = annotation.read_annotations(filled(tmp_path / "sheet.csv", patterns)).set_index("memory")
    assert table.loc["2:7", ["patterns", "shallow", "semantic", "both", "none"]].tolist() == [2, 0.25, 0.25, 0.5, 0]


@pytest.mark.parametrize(
    ("patterns", "says"),
    [
        (["press", "", "", "", ""], "line 2: 'press' is not a pattern"),
        (["", "x=deep", "", "", ""], "line 3: 'x=deep' is not a pattern"),
        (["x=shallow", "x=semantic", "", "", ""], "'x' is both shallow and semantic"),
        ("memory,text\n1:2,a\n", "has no column patterns"),
        ("memory,patterns\n", "has no row"),
    ],
)
def test_what_cannot_be_counted_is_said_with_its_place(patterns: list[str] | str, says: str, tmp_path: Path) -> None:
    """A pattern without a kind, of an unknown one, or of two; another file than a sheet, or one without rows."""
    path = tmp_path / "sheet.csv"
    if isinstance(patterns, str):
        path.write_text(patterns)
    else:
        filled(path, patterns)
    with pytest.raises(InputError, match=says):
        annotation.read_annotations(path)
