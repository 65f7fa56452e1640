"""A sheet for readers' categories of pairs, out and in again, and their agreement by hand."""

from pathlib import Path

import pandas as pd
import pytest

from tl_ffblock.errors import InputError
from tl_ffblock.experiments.kobayashi import annotation

PAIRS = pd.DataFrame(
    {
        "layer": [0, 0, 0, 1, 1],
        "rank": [1, 2, 3, 1, 2],
        "query": ["=1", "##ing", "York", "the", "of"],
        "key": ["+", "go", "New", "the", "because"],
        "amplification": [0.5, 0.4, 0.3, 0.2, 0.1],
        "count": [2, 3, 4, 5, 6],
        "category": ["other"] * 5,
        "agreement": [1.0] * 5,
    }
)
ANNA = ["other", "subwords of one word", "named entity", "same token", "common expression"]
BEN = ["other", "subwords of one word", "compound noun", "same token", ""]


def filled(path: Path, categories: list[str]) -> Path:
    sheet = pd.read_csv(annotation.write_pair_sheet(PAIRS, path), keep_default_na=False)
    sheet.assign(category=categories).to_csv(path, index=False)
    return path


def test_the_sheet_shows_pairs_and_not_the_category_by_rule(tmp_path: Path) -> None:
    """Tokens in quotation marks, nothing that a spreadsheet would compute, an empty column."""
    sheet = pd.read_csv(annotation.write_pair_sheet(PAIRS, tmp_path / "sheet.csv"), keep_default_na=False)
    assert list(sheet) == ["layer", "rank", "key", "query", "count", "category"]
    assert sheet.iloc[0].tolist() == [0, 1, "“+”", "“=1”", 2, ""]
    assert not sheet["category"].any()


def test_shares_and_agreement_of_two_readers(tmp_path: Path) -> None:
    """Cohen's kappa by hand: (p - q) / (1 - q), q the agreement of two readers of these habits by chance."""
    anna, ben = filled(tmp_path / "anna.csv", ANNA), filled(tmp_path / "ben.csv", BEN)
    shares = annotation.read_pair_sheet(ben).set_index(["layer", "category"])
    assert shares.loc[(0, "compound noun")].tolist() == [3, 1 / 3]
    assert shares.loc[(1, "same token")].tolist() == [1, 1]
    assert shares.loc[0]["share"].sum() == pytest.approx(1) and len(shares) == 2 * len(annotation.CATEGORIES)
    table = annotation.annotator_agreement(anna, ben).set_index("layer")
    assert table["pairs"].to_dict() == {0: 3, 1: 1, "all": 4}
    chance = 3 / 16  # of four pairs each: other, subwords and same token by both once, the others by one of them
    assert table.loc["all", ["agreement", "kappa"]].tolist() == pytest.approx([3 / 4, (3 / 4 - chance) / (1 - chance)])
    chance = 2 / 9
    assert table.loc[0, "kappa"] == pytest.approx((2 / 3 - chance) / (1 - chance))
    assert table.loc[1, "agreement"] == 1 and pd.isna(table.loc[1, "kappa"])
    assert annotation.annotator_agreement(anna, anna).set_index("layer").loc["all", "kappa"] == 1


@pytest.mark.parametrize(
    ("categories", "says"),
    [
        (["other", "sub word", "", "", ""], "line 3: 'sub word' is not a category; expected one of same token"),
        ("layer,rank,key,query,category\nfirst,1,a,b,other\n", "line 2: layer 'first' is not a number"),
        ("layer,category\n0,other\n", "has no column key or query or rank"),
    ],
)
def test_what_cannot_be_counted_is_said_with_its_place(categories: list[str] | str, says: str, tmp_path: Path) -> None:
    """A category of another name; another file; a table of another study; sheets of other pairs."""
    path = tmp_path / "sheet.csv"
    path.write_text(categories) if isinstance(categories, str) else filled(path, categories)
    with pytest.raises(InputError, match=says):
        annotation.read_pair_sheet(path)


def test_sheets_of_other_pairs_and_other_tables_are_refused(tmp_path: Path) -> None:
    """By the first pair that is in one sheet alone, and by the columns that are missing."""
    anna, ben = filled(tmp_path / "anna.csv", ANNA), filled(tmp_path / "ben.csv", BEN)
    ben.write_text("\n".join(ben.read_text().splitlines()[:-1]))
    with pytest.raises(InputError, match=r"have different pairs: only one of them has .*because"):
        annotation.annotator_agreement(anna, ben)
    with pytest.raises(InputError, match="no column layer, rank"):
        annotation.write_pair_sheet(pd.DataFrame({"key": [1]}), tmp_path / "x.csv")
