"""The table of docs/attribution.md is that of the run whose figures are stored beside it."""

import json
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_costs_are_those_that_were_measured() -> None:
    """Every row, rounded as it is shown."""
    page = (DOCS / "attribution.md").read_text(encoding="utf-8")
    rows = json.loads((DOCS / "attribution.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        passes = " | ".join(f"{passes:.1f}" for passes in row["passes"].values())
        assert f"| {row['tokens']} | {row['forward_s']:.2f} | {passes} |" in page


def test_what_is_said_of_costs_is_what_was_measured() -> None:
    """Memory by its table; how often the activations tokens alone and everything take; the range of passes in the changelog."""
    page = (DOCS / "attribution.md").read_text(encoding="utf-8").replace("\n", " ")
    measured = json.loads((DOCS / "attribution.json").read_text(encoding="utf-8"))
    for row in measured["memory"]:
        names = ("activations", "training step", "tokens", "tokens, run again", "all", "all, run again")
        cells = [f"{row[name + '_mb']:.0f}" for name in names]
        assert f"| {row['tokens']} | {' | '.join(cells)} |" in page
    assert f"Tokens alone take {times(measured, 'tokens')} times the activations" in page
    assert f"and takes {times(measured, 'all')} times the activations." in page
    assert f"heads then take {times(measured, 'tokens, run again')} times the activations" in page
    (again,) = measured["run again"]
    passes = again["passes"]
    assert (
        f"{passes['run again']:.1f} forward passes in place of {passes['kept']:.1f} at {again['tokens']} tokens" in page
    )
    (row,) = measured["memory as malloc gives it back"]
    kept, again_mb = (row[f"{name}_mb"] for name in ("tokens", "tokens, run again"))
    assert (
        f"at {row['tokens']} tokens it grew by {kept:.0f} MB for tokens, by {again_mb:.0f} MB where layers ran again"
        in page
    )
    edges_mb = 12 * 12 * 1024**2 * 4 / 1e6  # layers, heads, pairs and bytes of GPT-2-small size
    assert f"({round(edges_mb, -2):.0f} MB at 1024 tokens)" in page
    changelog = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    everything = [row["passes"]["all"] for row in measured["rows"]]
    assert (
        f"edges and neurons cost {min(everything):.1f} to {max(everything):.1f} forward passes of SmolLM2" in changelog
    )
    assert f"{times(measured, 'all')} times the activations of a training step" in changelog


def times(measured: dict[str, Any], name: str) -> str:
    """How often the activations something takes, from the least to the most of all lengths where these differ."""
    factors = sorted(row[f"{name}_mb"] / row["activations_mb"] for row in measured["memory"])
    return " to ".join(dict.fromkeys(f"{factor:.1f}" for factor in (factors[0], factors[-1])))
