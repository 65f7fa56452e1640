"""What docs/results/faithfulness.md says in words, against the tables beside it: each claim is an inequality that could fail."""

from pathlib import Path

import pytest

pandas = pytest.importorskip("pandas")
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
REFERENCES = ("random", "recency", "leave one out")


def means(measure, removal="mask"):
    """Means [method, set]."""
    rows = pandas.read_csv(RESULTS / "faithfulness.csv").query("measure == @measure and removal == @removal")
    return rows.pivot(index="method", columns="set", values="mean")


@pytest.mark.parametrize(("measure", "removal"), [("correlation", "mask"), ("correlation", "mean"), ("area", "mask")])
def test_path_is_first_in_the_mean_over_sets(measure, removal) -> None:
    """Among methods that are there for every set; only taking out tokens one by one has a larger area."""
    table = means(measure, removal).dropna().mean(axis=1).sort_values(ascending=False)
    assert table.drop(list(REFERENCES), errors="ignore").index[0] == "path"
    if measure == "area":
        assert table.index[0] == "leave one out"


def test_most_differences_of_path_are_above_zero_and_indirect_objects_are_the_exception() -> None:
    """Intervals of correlation, removal by mask; those below zero are of two methods without a sign on one set."""
    rows = pandas.read_csv(RESULTS / "faithfulness_differences.csv")
    rows = rows.query("measure == 'correlation' and removal == 'mask' and method != 'leave one out'")
    assert (rows["low"] > 0).mean() > 0.5
    behind = rows[rows["high"] < 0]
    assert {(row.set, row.method) for row in behind.itertuples()} == {("ioi", "gradient norm"), ("ioi", "ALTI")}
    patching = rows[rows["method"] == "patching"].set_index("set")
    assert patching.loc["known", "low"] > 0
    assert patching.loc[["ioi", "sva"], "mean"].max() < 0.01


def test_known_causes_and_rollouts() -> None:
    """Attention finds the subject most often; of facts' ends hardly anything is above chance; our rollout falls below it."""
    cause = means("cause")
    assert cause["sva"].idxmax() == "last layer's attention"
    assert cause["known"].max() < cause.loc["random", "known"] + 0.05
    assert cause.loc["path", "known"] < cause.loc["random", "known"]
    correlation = means("correlation")
    for name in ("known", "wikitext"):
        assert correlation.loc["rollout of maps", name] < correlation.loc["random", name]


def test_no_estimate_of_patching_is_best_at_all() -> None:
    """The gradient at heads' ranks, our rules at feed-forwards; five steps cost three times as much and mend most."""
    table = pandas.read_csv(RESULTS / "faithfulness_components.csv").pivot(
        index="estimate", columns="measure", values="mean"
    )
    plain, ours, steps = "attribution patching (gradient)", "path rules", "EAP-IG inputs (gradient 5 steps)"
    assert table["heads rho of sizes"].idxmax() == plain
    assert table.loc[plain, "feed-forward r"] < 0.5 < 0.9 < table.loc[ours, "feed-forward r"]
    assert table.loc[steps, ["heads r", "feed-forward r", "residual r"]].min() > 0.9
    assert table.loc[steps, "seconds"] > 3 * table.loc[plain, "seconds"]
