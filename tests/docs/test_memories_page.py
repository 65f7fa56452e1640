"""What docs/results/memories.md says in words, against the tables beside it: each claim is an inequality that could fail."""

from pathlib import Path

import pytest

pandas = pytest.importorskip("pandas")
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
SMOLLM2 = ("memories-smollm2-wikitext2", "memories-smollm2-ewt")
N_LAYERS = 30


def table(run, name):
    """The rows of positive coefficients, where a table has both signs."""
    rows = pandas.read_csv(RESULTS / run / f"{name}.csv")
    return rows[rows["sign"] == "positive"] if "sign" in rows else rows


def by_sixth(rows, column):
    """Means over five layers each."""
    return rows.groupby(rows["layer"] * 6 // N_LAYERS)[column].mean()


@pytest.mark.parametrize("run", SMOLLM2)
def test_values_agree_more_than_by_chance_and_at_less_than_one_trigger_in_a_hundred(run) -> None:
    """Of all triggers; and the most certain values have an agreeing trigger five times as often as all values."""
    for _, rows in table(run, "agreement").groupby("reading"):
        weights = rows["memories"] / rows["memories"].sum()
        agreement, chance = ((rows[column] * weights).sum() for column in ("all", "chance"))
        assert 1.5 * chance < agreement < 0.01
    confident = table(run, "confident")
    assert (confident["agreeing_trigger"] > 5 * confident["agreeing_trigger_of_all"]).all()


@pytest.mark.parametrize("run", SMOLLM2)
def test_half_of_the_memories_are_active_and_a_layer_s_token_is_composed(run) -> None:
    """By either rule within five points of a half; no single memory says the feed-forward's token at 40 % of positions or more."""
    for _, rows in table(run, "composition").groupby("rule"):
        assert ((by_sixth(rows, "active") - 0.5).abs() < 0.06).all()
        assert by_sixth(rows, "zero_agreement").min() > 0.4
    refined = table(run, "refinement").query("reading == 'final_norm'")
    assert 0.04 < by_sixth(refined, "final")[0] < 0.06, "one in twenty"


@pytest.mark.parametrize("run", SMOLLM2)
def test_the_middle_layers_decide_elsewhere_in_two_cases_of_five(run) -> None:
    """By removal; by shares in hardly any."""
    rows = table(run, "causes_tokens").assign(
        elsewhere=lambda rows: rows["by_removal"] > 0, own=lambda rows: rows["by_shares"] == 0
    )
    middle = by_sixth(rows, "elsewhere")[2:4]
    assert middle.min() > 0.3 and middle.max() < 0.5
    assert by_sixth(rows, "own")[1:].min() > 0.97
