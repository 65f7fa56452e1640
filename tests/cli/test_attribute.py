"""`tl-ffblock attribute`: table, page, JSON, saved numbers."""

import json
from pathlib import Path

import pytest

import tl_ffblock as ffb
from tl_ffblock.numerals import signed

from .conftest import Command

TEXT = "the cat sat on the"


def test_a_prompt_becomes_a_table(command: Command, folder: Path, tmp_path: Path) -> None:
    """Tokens with their shares, sums, heads, the certificate; JSON and file hold the same numbers."""
    ran = command("attribute", TEXT, "--target", "mat", "--minus", "cat", "--model", str(folder), "--json", "x.json",
                  "--save", "x.safetensors", "--csv", "x.csv", "--html", "x.html")  # fmt: skip
    assert ran.status == 0, ran.err
    assert "logit difference 'mat' - 'cat' = " in ran.out
    assert "Checks: logits unchanged ·" in ran.out and "100 % attributed" in ran.out
    told = json.loads((tmp_path / "x.json").read_text())
    result = ffb.Attribution.load(tmp_path / "x.safetensors")
    assert told["target"] == result.target == "logit difference 'mat' - 'cat'"
    assert told["tokens"] == result.tokens.tolist()
    assert told["certificate"]["complete"] is True
    for label, share in zip(result.labels, result.token_attributions.tolist(), strict=True):
        assert label.strip() in ran.out
        assert signed(share, 4) in ran.out
    assert (tmp_path / "x.html").read_text(encoding="utf-8") == result.to_html()
    rows = (tmp_path / "x.csv").read_text().splitlines()
    assert sum(float(row.split(",")[-1]) for row in rows[1:]) == pytest.approx(result.value, rel=1e-3)


def test_what_sums_up_stands_in_one_table(command: Command, folder: Path) -> None:
    """Tokens, with their positions, and biases sum to the target in its last row; heads are a table of their own, and why is said."""
    ran = command("attribute", TEXT, "--target", "mat", "--minus", "cat", "--model", str(folder))
    assert ran.status == 0, ran.err
    before, table = ran.out.split("terms of the sum")
    sums, heads = table.split("the 10 largest of 12 heads")
    rows = [line.rsplit(maxsplit=1) for line in sums.splitlines() if line.strip()[-1:].isdigit()]
    summands = {name.strip(): float(share) for name, share in rows if not name.strip().startswith("of which")}
    target = next(name for name in summands if name.startswith("logit"))
    assert {"tokens", "biases"} <= set(summands)
    assert sum(share for name, share in summands.items() if name != target) == pytest.approx(summands[target], abs=3e-4)
    biases = [float(share) for name, share in rows if "blocks." in name or "smaller ones" in name]
    assert sum(biases) == pytest.approx(summands["biases"], abs=2e-3)
    assert "of which positions" in sums and "head " not in sums
    shares = [float(line.split()[2]) for line in before.splitlines() if line.split()[:1] and line.split()[0].isdigit()]
    assert sum(shares) == pytest.approx(summands["tokens"], abs=1e-3)
    assert "head " in heads and "another decomposition of the same total" in heads


def test_ids_may_be_given(command: Command, folder: Path) -> None:
    """For prompts and for targets."""
    ran = command("attribute", "--tokens", "5,6,7", "--target", "#8", "--model", str(folder), "--rules", "gradient")
    assert ran.status == 0, ran.err
    assert "not complete" in ran.out
