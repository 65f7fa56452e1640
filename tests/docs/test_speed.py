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
    expected = players * activation.shares(record.pre, None).on_pre
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-5)


def test_the_readme_quotes_the_same_run() -> None:
    """Times, the distance from one product and the speed-ups that the README states are those of the stored run."""
    results = json.loads((ROOT / "docs" / "speed.json").read_text())
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    layers = {(r["layer"], r["n"]): r for r in results["layer"] if r["threads"] == 1}
    models = {(r["model"], r["n"]): r for r in results["model"] if r["threads"] == 1}
    short, long = layers["GPT-2 small", 128], layers["GPT-2 small", 512]
    costs = readme.split("## Cost")[1]
    for name, n in [*(("GPT-2 small", n) for n in (32, 128, 512)), ("minilm", 128), ("smollm2", 128)]:
        forward, maps = (models[name, n][key] / 1e3 for key in ("forward_ms", "ours_ms"))
        assert (
            f"| {n} | {forward:.1f} s | {maps:.1f} s |" in costs or f"| {n} | {forward:.1f} s | {maps:.0f} s |" in costs
        )
    times = [f"{r['ours_ms'] / r['bound_ms']:.1f} times" for r in (short, long)]
    assert f"{times[0]} as long as this product at 128 tokens and {times[1]} at 512" in readme
    assert f"{short['naive_over_ours']:.0f} times faster than making every vector" in readme
    assert f"{short['captum_well_over_ours']:.0f} times faster than captum used well" in readme
    assert f"{short['captum_tuned_over_ours']:.0f} times with batches tuned by hand" in readme
