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


def test_what_is_said_of_costs_is_what_was_measured() -> None:
    """Memory by its table; how often the activations tokens alone and everything take; the range of passes in the changelog."""
    page = (DOCS / "attribution.md").read_text(encoding="utf-8")
    measured = json.loads((DOCS / "attribution.json").read_text(encoding="utf-8"))
    memory = {row["tokens"]: row for row in measured["memory"]}
    for row in memory.values():
        cells = [row[name] for name in ("activations_mb", "training step_mb", "tokens_mb", "all_mb")]
        assert f"| {row['tokens']} | {' | '.join(f'{cell:.0f}' for cell in cells)} |" in page
    of_tokens = [row["tokens_mb"] / row["activations_mb"] for row in memory.values()]
    assert f"Tokens alone take {min(of_tokens):.1f} to {max(of_tokens):.1f} times the activations" in page
    assert (
        f"takes {memory[1024]['all_mb'] / memory[1024]['activations_mb']:.1f} times the activations at 1024 tokens"
        in page
    )
    edges_mb = 12 * 12 * 1024**2 * 4 / 1e6  # layers, heads, pairs and bytes of GPT-2-small size
    assert f"({round(edges_mb, -2):.0f} MB at 1024 tokens)" in page
    changelog = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    passes = [row["passes"]["all"] for row in measured["rows"]]
    assert f"edges and neurons cost {min(passes):.1f} to {max(passes):.1f} forward passes of SmolLM2" in changelog
    everything = {round(memory[length]["all_mb"] / memory[length]["activations_mb"], 1) for length in (512, 1024)}
    assert everything == {1.5} and "at 512 and 1024 tokens 1.5 times the activations of a training step" in changelog
