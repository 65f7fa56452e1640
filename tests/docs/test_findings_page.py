"""Numbers of docs/results/README.md that are computed for the page, against the tables by another way."""

import re
import statistics
from pathlib import Path

import pytest

pandas = pytest.importorskip("pandas")
scipy_stats = pytest.importorskip("scipy.stats")
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


@pytest.mark.parametrize(
    ("run", "model", "data"), [("minilm-sst2", "MiniLM", "SST-2"), ("smollm2-wikitext2", "SmolLM2", "WikiText-2")]
)
def test_intervals_of_finding_2_are_those_of_normal_means(run: str, model: str, data: str) -> None:
    """Half the width of scipy's 95 % interval over the mean, the median of layers, in whole per cent."""
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    table = pandas.read_csv(RESULTS / run / "contextualization_cumulative.csv")
    cells = set(table["cells"])
    table = table[table["cells"] == ("reachable" if "reachable" in cells else "all")]
    for (before, component), layers in table.groupby(["before", "component"]):
        widths = []
        for row in layers.itertuples():
            low, high = scipy_stats.norm.interval(0.95, row.change, row.deviation / row.sequences**0.5)
            widths.append(100 * (high - low) / 2 / row.change)
        line = next(
            line
            for line in page.splitlines()
            if line.startswith(f"| {model} | {data} | `{before}` | {component} |") and "±" in line
        )
        told = int(re.search(r"± (\d+) %", line)[1])
        assert told == pytest.approx(statistics.median(widths), abs=0.51)
