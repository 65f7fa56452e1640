"""The sentences of docs/results/heads.md that state a figure by hand, against the tables beside the page."""

from pathlib import Path

import pytest

pandas = pytest.importorskip("pandas")
RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"


def test_figures_in_the_prose_are_those_of_the_tables() -> None:
    """Accuracies of single relations and counts of questions on SmolLM2, to the digits that the page gives."""
    best = pandas.read_csv(RESULTS / "heads-smollm2" / "heads_best.csv")
    accuracy = {
        (row.relation, row.read, row.map): f"{100 * row.accuracy:.0f}" for row in best.itertuples() if row.accuracy > 0
    }
    attention, weighted = "attention", "value-weighted"
    by_head = ("Atb by head", "AtbLnFf by head", "AtbLnFfRes by head")
    objects = [accuracy["obj", "from dependent", name] for name in (attention, *by_head)]
    flat = [accuracy["flat", "from dependent", name] for name in (attention, weighted)]
    nmod = [accuracy["nmod", "from head", name] for name in (attention, weighted)]
    questions = best[best["map"] == weighted]
    better = int((questions["minus_attention_low"] > 0).sum())
    worse = int((questions["minus_attention_high"] < 0).sum())
    sentences = [
        f"on SmolLM2 {', '.join(objects[:3])} and {objects[3]} %.",
        f"(`flat` {flat[0]} to {flat[1]} %)",
        f"(`nmod` read from its head, {nmod[0]} to {nmod[1]} %)",
        f"better than attention in {better} of {len(questions)} questions on SmolLM2 and worse in {worse}",
        f"SmolLM2's best heads find {objects[0]} % of the direct objects' verbs before them, and "
        f"{accuracy['case', 'from head', attention]} % of the prepositions before their noun.",
    ]
    page = (RESULTS / "heads.md").read_text(encoding="utf-8")
    assert [sentence for sentence in sentences if sentence not in page] == []
