"""The table of docs/attribution.md is that of the run whose figures are stored beside it."""

import json
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_costs_are_those_that_were_measured() -> None:
    """Every row, rounded as it is shown."""
    page = (DOCS / "attribution.md").read_text(encoding="utf-8")
    rows = json.loads((DOCS / "attribution.json").read_text(encoding="utf-8"))["rows"]
    for row in rows:
        passes = " | ".join(f"{passes:.1f}" for passes in row["passes"].values())
        assert f"| {row['tokens']} | {row['forward_s']:.2f} | {passes} |" in page
