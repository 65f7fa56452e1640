"""Laws of every class of results: it is saved and loaded, equals itself alone, is a table, and is shown in a few lines.

A new class is under them as soon as it has its line in `RESULTS`.
"""

import copy
import json
import os
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.integration.test_public_laws import RUNS, corpus
from tests.numbers import numbers
from tl_ffblock.errors import CallError, InputError, MapFileError
from tl_ffblock.page import PageView
from tl_ffblock.result import Results

TEXT = tiny.tokens("gpt2", 6)
PARTS = ("heads", "edges", "neurons", "graph", "maps")


def run(name: str) -> Callable[[], Any]:
    """What a public function gives for one text."""
    return lambda: RUNS[name].call(model_of("gpt2"), TEXT)


# fmt: off
RESULTS: dict[str, Callable[[], Any]] = {
    "ContributionMaps": lambda: ffb.contribution_maps(model_of("gpt2"), TEXT, heads=[1]),
    "Decomposition": run("decompose"),
    "TokenMaps": run("attention_maps"),
    "AttentionScores": run("attention_scores"),
    "NeuronShares": run("neurons"),
    "AverageMaps": lambda: ffb.average([ffb.contribution_maps(model_of("gpt2"), text) for text in (TEXT, TEXT.flip(0))]),
    "Attribution": lambda: ffb.attribute(model_of("gpt2"), TEXT, ffb.logit(7), of=PARTS),
    "DirectLogitAttribution": lambda: ffb.direct_logit_attribution(model_of("gpt2"), TEXT, ffb.logit(7), of="neurons"),
    "LogitLens": lambda: ffb.logit_lens(model_of("gpt2"), TEXT, ffb.logit(7), at=[2, -1], k=3),
    "AttributionGraph": lambda: ffb.attribute(model_of("gpt2"), TEXT, ffb.logit(7), of="graph").graph(),
    "AverageShares": lambda: ffb.average_shares([ffb.attribute(model_of("gpt2"), text, ffb.logit(7)) for text in (TEXT, TEXT.flip(0))]),
    "Averages": lambda: ffb.attribution_patching(model_of("gpt2"), [TEXT, TEXT[:4]], [TEXT.flip(0), TEXT[2:]], ffb.logit(7), of="q").mean({"END": -1, "first": [1, 2]}),
    "ContinuationAttribution": run("attribute_continuation"),
    "PatchingEstimates": lambda: ffb.attribution_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7), of=("v", "attention"), maps=True, edges=True),
    "EdgeEstimates": lambda: ffb.attribution_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7), edges=True).edge_estimates,
    "EdgeEffects": lambda: ffb.edge_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7), [("L0H1", "L1.mlp"), ("L0.mlp", "L2H0.k"), ("L1.mlp", "target")]),
    "Circuit": lambda: ffb.Circuit.topn(made("EdgeEstimates"), 20),
    "CircuitFaithfulness": lambda: ffb.circuit_faithfulness(model_of("gpt2"), [TEXT, TEXT.flip(0)], [TEXT.flip(0), TEXT], ffb.Circuit.by_size(made("EdgeEstimates"), (0, 0.1, 0.5, 1)), ffb.logit([7, 8])),
    "Faithfulness": lambda: ffb.faithfulness(model_of("gpt2"), TEXT, ffb.logit(7), {"own": torch.arange(6.0)}),
    "FlowGraph": run("flow_graph"),
    "ActivationPatching": run("activation_patching"),
    "PatchingComparison": lambda: ffb.activation_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7), direction="noising").compare(
        ffb.attribution_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7))
    ),
    "AttentionKnockout": lambda: ffb.attention_knockout(model_of("gpt2"), torch.stack([TEXT, TEXT.flip(0)]), ffb.logit(7), keys={"first": 0, "second": 1}, window=1),
    "AttentionHeadScores": run("heads.induction_scores"),
    "PatchedMaps": run("patched_maps"),
    "ContributionSweep": run("contribution_sweep"),
    "CausalValidation": run("causal_validation"),
    "ValueTokens": run("memories.value_tokens"),
    "CoefficientParts": run("memories.token_parts"),
    "Triggers": lambda: ffb.memories.find_triggers(model_of("gpt2"), corpus(TEXT), memories="1:3", k=4),
    "MemoryCard": lambda: ffb.memories.memory_card(model_of("gpt2"), corpus(TEXT), "1:3", k=2),
    "ModelCheck": lambda: ffb.check.check_model(model_of("gpt2"), TEXT),
}
# fmt: on
"""One of each class."""


@cache
def made(name: str) -> Any:
    """A result of a class; tests leave it as it was."""
    result = RESULTS[name]()
    assert type(result).__name__ == name
    return result


def every(kind: str) -> Any:
    """Parameters of a law."""
    return pytest.mark.parametrize("name", RESULTS, ids=lambda name: f"{name}-{kind}")


def assert_equal(found: Any, expected: Any) -> None:
    """Every number bit for bit."""
    mine, theirs = dict(numbers(found)), dict(numbers(expected))
    assert mine.keys() == theirs.keys() and mine
    for path, table in theirs.items():
        torch.testing.assert_close(mine[path], table, rtol=0, atol=0, equal_nan=True, msg=path)


def tables_of(result: Any) -> list[torch.Tensor]:
    """Its tables of three numbers or more; a card has none."""
    tables = [table for _, table in numbers(result) if table.is_floating_point() and table.numel() > 2]
    assert tables or type(result).__name__ in ("MemoryCard", "ModelCheck")
    return tables


@every("save")
def test_a_result_is_loaded_as_it_was_saved(name: str, tmp_path: Path) -> None:
    """Every number, label and setting; saving again replaces the file; NaN, infinity and negative zero come back."""
    result = made(name)
    path = tmp_path / "result"
    for _ in range(2):
        assert result.save(path) == path
    loaded = type(result).load(path)
    assert_equal(loaded, result)
    assert repr(loaded) == repr(result)
    odd = copy.deepcopy(result)
    for table in [table for _, table in numbers(odd) if table.is_floating_point() and table.numel() > 2][:1]:
        table.flatten()[:3] = torch.tensor([float("nan"), float("inf"), -0.0])
    assert_equal(type(result).load(odd.save(path)), odd)


@every("damage")
def test_a_file_that_is_not_as_it_was_written_is_refused(name: str, tmp_path: Path) -> None:
    """One byte anywhere, an end too early, another kind of file, no file: by name, and no result comes out."""
    result, path = made(name), tmp_path / "result"
    whole = result.save(path).read_bytes()
    for place in (0.15, 0.5, 0.9, 0.999):
        data = bytearray(whole)
        data[int(len(data) * place)] ^= 0x01
        path.write_bytes(data)
        with pytest.raises(MapFileError, match=path.name):
            type(result).load(path)
    for kept in (0, 4, 100, -1):
        path.write_bytes(whole[:kept])
        with pytest.raises(MapFileError, match=path.name):
            type(result).load(path)
    save_file({"weight": torch.zeros(3)}, path)
    with pytest.raises(MapFileError, match=path.name):
        type(result).load(path)
    with pytest.raises(FileNotFoundError, match="gone"):
        type(result).load(tmp_path / "gone")


@every("write")
def test_nothing_is_replaced_but_a_file(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe, a device, a folder and a folder that is not there are refused; a crash leaves the old file and no other."""
    result, pipe, path = made(name), tmp_path / "pipe", tmp_path / "result"
    os.mkfifo(pipe)
    refused = (
        (pipe, "pipe"),
        (Path("/dev/null"), "device"),
        (tmp_path, "folder"),
        (tmp_path / "no" / "x", "folder"),
    )
    writers = [result.save, *([result.to_html] if hasattr(result, "to_html") else [])]
    for write in writers:
        for place, said in refused:
            with pytest.raises(InputError, match=said):
                write(place)
    assert pipe.is_fifo() and [each.name for each in tmp_path.iterdir()] == ["pipe"]
    for write in writers:
        write(path)
    before = path.read_bytes()

    def crash(*_: object) -> None:
        raise OSError("disk on fire")

    monkeypatch.setattr(os, "replace", crash)
    for write in writers:
        with pytest.raises(OSError, match="disk on fire"):
            write(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


@every("equal")
def test_a_result_equals_itself_alone(name: str) -> None:
    """A copy is equal; one other number and it is not; nor is anything else; a result has no hash."""
    result = made(name)
    other = copy.deepcopy(result)
    assert bool(result == other) and bool(result != "result")
    for table in tables_of(other)[:1]:
        table[(0,) * table.ndim] += 1
        assert bool(result != other)
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)


@every("table")
def test_a_result_is_a_table(name: str) -> None:
    """Rows, columns told apart, a number among them, no index to be reset."""
    table = made(name).to_dataframe()
    assert isinstance(table, pd.DataFrame) and len(table) > 0
    assert len(set(table.columns)) == len(table.columns)
    assert len(table.select_dtypes("number").columns) > 0
    assert list(table.index) == list(range(len(table)))


@every("repr")
def test_a_result_is_shown_in_a_few_lines(name: str) -> None:
    """Its class first, its labels and errors, and no dump of tensors."""
    shown = repr(made(name))
    assert shown.startswith(name)
    assert len(shown) < 1000 and shown.count("\n") < 12
    assert "tensor(" not in shown and " object at 0x" not in shown


@every("view")
def test_a_result_is_looked_at(name: str, tmp_path: Path) -> None:
    """The page has data, in a file as in a cell; the figure has something in it; an option that there is not is refused."""
    result = made(name)
    html = result.to_html(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
    assert json.loads(re.findall(r'id="data">(.*?)</script>', html, re.DOTALL)[0])["heading"]
    assert isinstance(result.show(), PageView)
    (axis, *_) = result.figure(**({"layer": 0, "scope": "Atb"} if name == "ContributionMaps" else {})).axes
    assert axis.images or axis.lines or axis.patches or axis.collections
    for draw in (result.to_html, result.show, result.figure):
        with pytest.raises(CallError, match=f"{name}.{draw.__name__} has no argument `nothing`"):
            draw(nothing=1)


@every("several")
def test_results_of_several_prompts_are_one(name: str, tmp_path: Path) -> None:
    """A list that is saved, loaded and tabulated."""
    several = Results([made(name)] * 2)
    assert Results.load(several.save(tmp_path / "several")) == several
    rows = len(made(name).to_dataframe())
    assert several.to_dataframe()["prompt"].tolist() == [0] * rows + [1] * rows
