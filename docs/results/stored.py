"""Puts what a corpus run left into a folder beside this file, small enough to be kept.

    python -m docs.results.stored RUN NAME        # from the root of the repository; writes docs/results/NAME

Tables are rounded to five digits, the most amplified pairs cut to ten a layer, and of all dimensions (`outliers_dimensions`)
the three that are largest in a layer's output are kept (`outliers_largest`). Figures over all cells (`*_all`) stay behind, and so
do lists of what was masked or failed, whose numbers are in `summary.json`.
"""

import argparse
import shutil
from pathlib import Path

import pandas as pd

HERE = Path(__file__).resolve().parent
DIGITS = "%.5g"
TOP_PAIRS = 10
LARGEST = 3
LEFT_OUT = ("masked", "problems", "outliers_dimensions")


def store(run: Path, folder: Path) -> None:
    """Write a run's tables, figures (PNG) and summary into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in sorted((run / "tables").glob("*.csv")):
        if path.stem not in LEFT_OUT:
            table = pd.read_csv(path)
            if path.stem == "amplification_top_pairs":
                table = table[table["rank"] <= TOP_PAIRS]
            table.to_csv(folder / path.name, index=False, float_format=DIGITS)
    dimensions = run / "tables" / "outliers_dimensions.csv"
    if dimensions.is_file():
        largest(pd.read_csv(dimensions)).to_csv(folder / "outliers_largest.csv", index=False, float_format=DIGITS)
    for path in sorted((run / "figures").glob("*.png")):
        if not path.stem.endswith("_all"):
            shutil.copy2(path, folder / path.name)
    (folder / "summary.json").write_text((run / "summary.json").read_text().rstrip() + "\n")


def largest(dimensions: pd.DataFrame) -> pd.DataFrame:
    """Of every layer the dimensions with the largest output, their size over the median, and the rank of their gain, the least first."""
    layers = dimensions.groupby("layer")
    table = dimensions.assign(
        output_rank=layers["output"].rank(ascending=False, method="first").astype(int),
        gain_rank=layers["gain"].transform(lambda gain: gain.abs().rank(method="min")).astype(int),
        over_median=dimensions["output"] / layers["output"].transform("median"),
        dimensions=layers["dimension"].transform("size"),
    )
    columns = ["layer", "output_rank", "dimension", "gain", "gain_rank", "over_median", "dimensions"]
    return table[table["output_rank"] <= LARGEST].sort_values(["layer", "output_rank"])[columns]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    arguments = parser.parse_args()
    store(arguments.run, HERE / arguments.name)
