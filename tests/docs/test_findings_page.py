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


@pytest.mark.parametrize("run", ["smollm2-sst2", "smollm2-wikitext2-vectors"])
def test_what_finding_3_says_of_the_first_token(run: str) -> None:
    """Its bypass is more than a hundred times that at text in layers 12 to 20 and no others, and some 14 times in the last."""
    bypass = pandas.read_csv(RESULTS / run / "bypass_norms.csv").pivot(index="layer", columns="tokens", values="bypass")
    times = bypass["first"] / bypass["not special"]
    assert list(times[times > 100].index) == list(range(12, 21))
    assert times[29] == pytest.approx(14, abs=0.6)


def test_what_finding_5_says_of_the_largest_dimensions() -> None:
    """Without the largest others layer 2 loses more than half, five layers about a quarter, and two late ones gain."""
    table = pandas.read_csv(RESULTS / "smollm2-sst2-ignored" / "outliers_ignored.csv")
    change = table.pivot(index="layer", columns="dimensions", values="change")
    left = change["without largest others"] / change["all"]
    assert left[2] < 0.5
    assert list(left[(left > 0.6) & (left < 0.8)].index) == [9, 10, 13, 14, 16]
    assert list(left[left > 1.1].index) == [23, 24]


def test_the_negative_gain_of_finding_5() -> None:
    """The last layer of SmolLM2 has a gain of -1.26 among the largest dimensions of FF's output."""
    table = pandas.read_csv(RESULTS / "smollm2-sst2" / "outliers_largest.csv")
    assert table[table["layer"] == 29]["gain"].round(2).tolist().count(-1.26) == 1


def test_what_finding_2_says_of_layer_4() -> None:
    """On both corpora the map is farther from the one before FF after the LN than after FF alone."""
    for run in ("minilm-sst2", "minilm-wikitext2"):
        table = pandas.read_csv(RESULTS / run / "contextualization_cumulative.csv")
        of_layer = table[(table["layer"] == 4) & (table["before"] == "Atb")].set_index("component")["change"]
        assert of_layer["+LN"] > of_layer["+FF"], run


def test_what_finding_7_says_of_frequent_pairs() -> None:
    """The strongest correlations of SmolLM2 with sentences and windows are negative and late; WikiText-2 has forty times the pairs."""
    frequent = {}
    for run in ("minilm-sst2", "minilm-wikitext2", "smollm2-sst2", "smollm2-wikitext2"):
        table = pandas.read_csv(RESULTS / run / "amplification_pmi.csv")
        frequent[run] = table[table["occurrences"] == 20]
    for run in ("smollm2-sst2", "smollm2-wikitext2"):
        for unit in ("sentence", "window"):
            rows = frequent[run][frequent[run]["unit"] == unit].set_index("layer")["spearman"]
            assert rows[rows.abs().idxmax()] < 0 and rows.abs().idxmax() >= 20, (run, unit)
    for unit in ("article", "sentence", "window"):
        pairs = {run: rows[rows["unit"] == unit]["pairs"].iloc[0] for run, rows in frequent.items()}
        assert pairs["minilm-wikitext2"] / pairs["minilm-sst2"] == pytest.approx(40, rel=0.05)


def test_how_many_leads_survive_a_correction() -> None:
    """22 of 36 with Bonferroni's limit for 36, as if normal; of the knockouts, `ioi` against raw attention alone."""
    page = (RESULTS / "causal_validation.md").read_text(encoding="utf-8")
    assert "22 of the 36 would with Bonferroni's correction for 36" in page
    limit = scipy_stats.norm.ppf(1 - 0.05 / 36 / 2)
    leads = []
    for name in ("ioi", "sva", "blimp"):
        table = pandas.read_csv(RESULTS / f"causal_validation_{name}_differences.csv")
        table = table[(table["cells"] == "off-diagonal") & (table["effect"] != "Atb")]
        leads.append(table[(table["effect"] != "edge knockout") | (table["map"] == "AtbLnFfRes")])
    rows = pandas.concat(leads)
    survive = rows[rows["difference"] / ((rows["high"] - rows["low"]) / (2 * scipy_stats.norm.ppf(0.975))) > limit]
    assert (len(rows), len(survive)) == (36, 22)
    knockouts = survive[survive["effect"] == "edge knockout"]
    assert list(zip(knockouts["set"], knockouts["minus"], strict=True)) == [("ioi", "attention")]
