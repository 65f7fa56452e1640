"""The tables of docs/speed.md are those of the run whose figures are stored beside it."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def script(script_of: Callable[[str], ModuleType]) -> ModuleType:
    """benchmarks/speed.py."""
    return script_of("benchmarks/speed.py")


def test_the_page_holds_the_measured_tables(script: ModuleType) -> None:
    """No figure by hand."""
    results = json.loads((ROOT / "docs" / "speed.json").read_text())
    page = (ROOT / "docs" / "speed.md").read_text()
    assert page.split(script.START)[1].split(script.END)[0].strip() == script.markdown(results)


def test_what_is_said_of_the_scatter_of_pages_is_stored() -> None:
    """The three runs of the sentence are docs/page_scatter.json, and the last of them is the table's."""
    docs = ROOT / "docs"
    runs = json.loads((docs / "page_scatter.json").read_text())
    table = json.loads((docs / "page.json").read_text())["pages"]
    assert {"repeats": 5, **next(row for row in table if (row["tokens"], row["layers"]) == (128, 30))} == runs[-1]
    page = " ".join((docs / "speed.md").read_text().split())
    words = {
        "layer": "for another layer",
        "step": "for another step",
        "token": "for another token",
        "first": "for the first picture",
    }
    for name, ending in words.items():
        first, second, third = (f"{run[f'{name}_ms']:.0f}" for run in runs)
        assert f"{first}, {second} and {third} ms {ending}" in page


def test_every_method_computes_the_same_shares(script: ModuleType) -> None:
    """What is timed is the same work: captum's attributions of the benchmark are the closed form's."""
    import torch
    from captum.attr import IntegratedGradients

    torch.manual_seed(0)
    size = script.Size("tiny", "GPT2LMHeadModel", d_model=24, heads=2, layers=1)
    record = script.layer_record(script.build(size, n_ctx=16), 5).rows(slice(3, 4))
    activation = record.block.feed_forward.activation
    players = script.players_of(record)
    torch.testing.assert_close(players.sum(dim=0), record.pre[0], rtol=1e-5, atol=1e-5)
    method = IntegratedGradients(lambda x: activation(x.sum(dim=1)).sum(dim=-1))
    found = method.attribute(players[None], n_steps=script.STEPS, method="gausslegendre")[0]
    expected = players * activation.coefficients(record.pre, None).on_pre
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-5)
