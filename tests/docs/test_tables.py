"""Tables of documents are those of the runs whose figures are stored beside them; what was timed or measured is what is said."""

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import get_args

import pandas as pd
import pytest
import torch
from scipy import stats

from docs import coverage
from tests import cases, tiny
from tests.tolerances import COMPLETE_FLOAT32
from tl_ffblock.bridge.families import FAMILIES
from tl_ffblock.layer.scopes import Order

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"


@pytest.mark.parametrize(("page", "path"), [("models", "docs/support_table.py"), ("speed", "benchmarks/speed.py")])
def test_a_page_holds_the_measured_table(script_of: Callable[[str], ModuleType], page: str, path: str) -> None:
    """No row by hand: the script that writes it changes nothing."""
    script, text = script_of(path), (ROOT / "docs" / f"{page}.md").read_text()
    stored = json.loads((ROOT / "docs" / "speed.json").read_text()) if page == "speed" else script.read()
    table = script.markdown(stored) if page == "speed" else script.table(stored)
    assert text.split(script.START)[1].split(script.END)[0].strip() == table


def test_every_family_is_in_the_table_of_models(script_of: Callable[[str], ModuleType]) -> None:
    """The tiny models of both versions are those of the tests, and together they are the table of families."""
    results = script_of("docs/support_table.py").read()
    assert {result["packages"]["transformer-lens"].split(".")[0] for result in results} == {"3", "4"}
    for result in results:
        assert list(result["families"]) == list(tiny.ALL_FAMILIES)
        refused = {name for name, row in result["families"].items() if "refused" in row}
        assert refused == (set(cases.SINCE_4) if result["packages"]["transformer-lens"].startswith("3.") else set())
    rows = [row for result in results for row in result["families"].values()]
    assert {row["family"].split(",")[0] for row in rows if "family" in row} == {family.name for family in FAMILIES}
    assert all(error < COMPLETE_FLOAT32 for row in rows for error in row.get("completeness", {}).values())


def stored_rows() -> dict[str, dict[str, coverage.Row]]:
    """Rows of the installed TransformerLens, with the newest transformers that was measured."""
    lens = version("transformer-lens")
    return next(file["architectures"] for file in coverage.stored() if file["packages"]["transformer-lens"] == lens)


def test_the_stored_table_has_every_architecture() -> None:
    """Of the installed TransformerLens; none is a fault of this package, and every family of its table is exact or refused by name."""
    factory = import_module("transformer_lens.factories.architecture_adapter_factory")
    found = stored_rows()
    assert list(found) == list(factory.SUPPORTED_ARCHITECTURES)
    rows = [(name, row) for name, options in found.items() for row in options.values()]
    assert {row["status"] for _, row in rows} <= set(coverage.STATUSES)
    for name, row in rows:
        errors = [row[dtype] for dtype in coverage.TOLERANCE if dtype in row]
        with_media = [row[f"media {dtype}"] for dtype in coverage.TOLERANCE if f"media {dtype}" in row]
        assert (len(errors) == 2 and row["order"] in get_args(Order)) if row["status"] == "exact" else row["reason"], (
            name
        )
        for error in errors + with_media:
            assert isinstance(error, str) or max(error.values()) < COMPLETE_FLOAT32 / 10, name
    listed = {architecture for family in FAMILIES for architecture in family.architectures} & set(found)
    assert {name for name in listed if found[name][""]["status"] != "exact"} <= (
        {*TL_3_WRONG} if cases.TL_3 else {"CodeGenForCausalLM"}
    )


TL_3_WRONG = ("CohereForCausalLM", "Cohere2ForCausalLM", "HunYuanDenseV1ForCausalLM")


@pytest.mark.parametrize(
    "architecture",
    [
        *("GlmForCausalLM", "Gemma1ForCausalLM", "DeepseekV3ForCausalLM", "BitNetForCausalLM", "BambaForCausalLM"),
        *(
            "BaichuanForCausalLM",
            "ViTModel",
            "T5WithLMHeadModel",
            "GraniteMoeHybridForCausalLM",
            "TransformerLensNative",
        ),
    ],
)
def test_a_stored_row_is_measured_again(architecture: str) -> None:
    """A sample with every status: the same status, reason and kinds of numbers."""
    for option, row in stored_rows()[architecture].items():
        changes = coverage.OPTIONS.get(architecture, {}).get(option, {})
        found = coverage.row_of(architecture, changes)
        assert {**found, **dict.fromkeys(coverage.TOLERANCE)} == {**row, **dict.fromkeys(coverage.TOLERANCE)}


def test_a_bridge_of_another_model_is_not_called_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hugging Face model of the comparison has other weights, or a map lacks a thousandth."""
    built, seeds = coverage.build, iter((0, 1))
    with monkeypatch.context() as patch:
        patch.setattr(coverage, "build", lambda *args: tiny.hf_model("llama", seed=next(seeds), dtype=args[1]))
        row = coverage.row_of("LlamaForCausalLM", {})
    assert row["status"] == "bridge wrong" and "largest difference of logits" in row["reason"]
    assert coverage.build is built
    clipped = coverage.row_of("OlmoForCausalLM", {"clip_qkv": 0.01})
    assert clipped["status"] == "refused" and "pattern x value W_O + b_O" in clipped["reason"]


@pytest.mark.slow
def test_rows_are_measured_in_processes_of_their_own() -> None:
    """One that ends its process is a fault of its own row; the next is measured."""
    code = (
        "import os; from docs import coverage; real = coverage.row_of; "
        "coverage.row_of = lambda name, changes: os._exit(1) if name == 'ViTModel' else real(name, changes); "
        "coverage.main('ViTModel', 'DeiTModel')"
    )
    answer = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    first, second = (line for line in answer.stdout.splitlines() if line.startswith(("ViT", "DeiT")))
    assert "its process ended" in first and "an encoder of images or sounds" in second


def test_every_timed_method_computes_the_same_shares(script_of: Callable[[str], ModuleType]) -> None:
    """What is timed is the same work: captum's attributions of the benchmark are the closed form's."""
    script = script_of("benchmarks/speed.py")
    torch.manual_seed(0)
    size = script.Size("tiny", "GPT2LMHeadModel", d_model=24, heads=2, layers=1)
    record = script.layer_record(script.build(size, n_ctx=16), 5).rows(slice(3, 4))
    activation = record.block.feed_forward.activation
    players = script.players_of(record)
    torch.testing.assert_close(players.sum(dim=0), record.pre[0], rtol=1e-5, atol=1e-5)
    integrated = import_module("captum.attr").IntegratedGradients(lambda x: activation(x.sum(dim=1)).sum(dim=-1))
    found = integrated.attribute(players[None], n_steps=script.STEPS, method="gausslegendre")[0]
    expected = players * activation.coefficients(record.pre, None).on_pre
    torch.testing.assert_close(found.float(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("run", "model", "data"), [("minilm-sst2", "MiniLM", "SST-2"), ("smollm2-wikitext2", "SmolLM2", "WikiText-2")]
)
def test_intervals_of_finding_2_are_those_of_normal_means(run: str, model: str, data: str) -> None:
    """Half the width of scipy's 95 % interval over the mean, the median of layers, in whole per cent."""
    page = (RESULTS / "README.md").read_text(encoding="utf-8")
    table = pd.read_csv(RESULTS / run / "contextualization_cumulative.csv")
    table = table[table["cells"] == ("reachable" if "reachable" in set(table["cells"]) else "all")]
    for (before, component), layers in table.groupby(["before", "component"]):
        low, high = stats.norm.interval(0.95, layers["change"], layers["deviation"] / layers["sequences"] ** 0.5)
        start = f"| {model} | {data} | `{before}` | {component} |"
        (line,) = (line for line in page.splitlines() if line.startswith(start) and "±" in line)
        told = int(line.partition("± ")[2].partition(" %")[0])
        assert told == pytest.approx(statistics.median(100 * (high - low) / 2 / layers["change"]), abs=0.51)
