"""Laws of every class of results: it is saved and loaded, equals itself alone, is a table, and is shown in a few lines.

A new class is under them as soon as it has its line in `RESULTS`.
"""

import copy
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file

import tl_ffblock as ffb
from docs.result_classes import classes
from tests import tiny, towers
from tests.cases import model_of
from tests.integration.test_public_laws import RUNS, corpus
from tests.numbers import numbers
from tl_ffblock.errors import CallError, InputError, MapFileError
from tl_ffblock.files import read_tensors, write_tensors
from tl_ffblock.page import PageView
from tl_ffblock.result import Results

TEXT = tiny.tokens("gpt2", 6)
PARTS = ("heads", "edges", "neurons", "graph", "maps")


def run(name: str) -> Callable[[], Any]:
    """What a public function gives for one text."""
    return lambda: RUNS[name].call(model_of("gpt2"), TEXT)


def sentence(document: int) -> Any:
    """A sentence of five words, of which the second depends on the third."""
    head = np.array([-1, 2, 0, 2, 3])
    return ffb.heads.ProbeSentence(np.full((2, 5, 5), 0.2), np.ones((5, 3)), head, head >= 0, document)


# fmt: off
RESULTS: dict[str, Callable[[], Any]] = {
    "ContributionMaps": lambda: ffb.contribution_maps(model_of("gpt2"), TEXT, heads=[1]),
    "Decomposition": run("decompose"),
    "MemoryEstimate": lambda: ffb.memory_estimate(model_of("gpt2"), 64, "attribute"),
    "TokenMaps": run("attention_maps"),
    "AttentionScores": run("attention_scores"),
    "ImageMap": lambda: ffb.contribution_maps(towers.bridge("Llava"), towers.inputs("Llava"))[0].image_map(torch.linspace(0, 1, 30).view(6, 5)),
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
    "CircuitScores": lambda: ffb.known_circuits.score_grid({"mine": ffb.known_circuits.package_method}, [("previous token", "token", ffb.known_circuits.Settings(seed=seed)) for seed in (1, 2)], pairs=1, progress=False)[0],
    "Faithfulness": lambda: ffb.faithfulness(model_of("gpt2"), TEXT, ffb.logit(7), {"own": torch.arange(6.0)}),
    "FlowGraph": run("flow_graph"),
    "ActivationPatching": run("activation_patching"),
    "PatchingComparison": lambda: ffb.activation_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7), direction="noising").compare(
        ffb.attribution_patching(model_of("gpt2"), TEXT, TEXT.flip(0), ffb.logit(7))
    ),
    "AttentionKnockout": lambda: ffb.attention_knockout(model_of("gpt2"), torch.stack([TEXT, TEXT.flip(0)]), ffb.logit(7), keys={"first": 0, "second": 1}, window=1),
    "AttentionHeadScores": run("heads.induction_scores"),
    "DistanceDecay": lambda: ffb.heads.distance_decay(model_of("llama"), torch.stack([TEXT, TEXT.flip(0)])),
    "RelationHits": lambda: ffb.heads.relation_hits([(ffb.attention_maps(model_of("gpt2"), TEXT), ffb.heads.Arcs.of([(3, 1, "nsubj"), (2, 4, "obj")]))] * 2),
    "Attachments": lambda: ffb.heads.attached_at([sentence(n) for n in range(3)], 1),
    "Share": lambda: ffb.heads.share_of_hits(np.array([True, False, True]), np.arange(3), n_draws=50),
    "PatchedMaps": run("patched_maps"),
    "ContributionSweep": run("contribution_sweep"),
    "CausalValidation": run("causal_validation"),
    "ValueTokens": run("memories.value_tokens"),
    "CoefficientParts": run("memories.token_parts"),
    "CarriedShares": lambda: ffb.memories.carried(ffb.attribute(model_of("gpt2"), TEXT, ffb.logit(7), of="neurons"), ["1:3", "2:5"]),
    "Triggers": lambda: ffb.memories.find_triggers(model_of("gpt2"), corpus(TEXT), memories="1:3", k=4),
    "MemoryCard": lambda: ffb.memories.memory_card(model_of("gpt2"), corpus(TEXT), "1:3", k=2),
    "ModelCheck": lambda: ffb.check.check_model(model_of("gpt2"), TEXT),
}
# fmt: on
"""One of each class."""


def test_every_class_of_results_is_here() -> None:
    """A class that the package has and the table above has not is under no law."""
    assert {one.__name__ for one in classes()} == RESULTS.keys()


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
    kinds = (torch.bool, torch.float32, torch.float64)
    tables = [table for _, table in numbers(result) if table.dtype in kinds and table.numel() > 2]
    assert tables or type(result).__name__ in ("MemoryCard", "MemoryEstimate", "ModelCheck")
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
    assert type(ffb.load(path)) is type(result) and bool(ffb.load(path) == result)
    assert repr(loaded) == repr(result)
    odd = copy.deepcopy(result)
    for table in [table for _, table in numbers(odd) if table.is_floating_point() and table.numel() > 2][:1]:
        table.flatten()[:3] = torch.tensor([float("nan"), float("inf"), -0.0])
    assert_equal(type(result).load(odd.save(path)), odd)


def save_all(folder: str) -> None:
    """Save one of each class."""
    for name in RESULTS:
        made(name).save(Path(folder, name))


def test_equal_results_are_equal_files(tmp_path: Path) -> None:
    """Byte for byte, in two processes with other orders of sets, and saved again after loading. A check of a model has its seconds."""
    running = []
    for seed in ("1", "2"):
        (tmp_path / seed).mkdir()
        code = f"from tests.integration.test_results import save_all; save_all({str(tmp_path / seed)!r})"
        running.append(subprocess.Popen([sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}))
    assert [process.wait() for process in running] == [0, 0]
    for name in RESULTS:
        first, second = (tmp_path / seed / name for seed in ("1", "2"))
        same = first.read_bytes() == second.read_bytes()
        assert same != (name == "ModelCheck"), name
        assert ffb.load(first).save(tmp_path / "again").read_bytes() == first.read_bytes(), name


def test_files_with_an_entry_per_label_are_loaded(tmp_path: Path) -> None:
    """As they were written before labels were one entry; under their checksum."""
    file = read_tensors(made("TokenMaps").save(tmp_path / "new"))
    header = json.dumps(file.labels)
    metadata = {"format": file.kind, "version": str(file.version), "maps": header}
    digest = hashlib.sha256(header.encode())
    for name, tensor in sorted(file.tensors.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode() + tensor.numpy().tobytes())
    save_file(file.tensors, tmp_path / "old", metadata | {"sha256": digest.hexdigest()})
    assert ffb.load(tmp_path / "old") == made("TokenMaps")
    save_file(file.tensors, tmp_path / "old", metadata | {"sha256": "0"})
    with pytest.raises(MapFileError, match="checksum differs"):
        ffb.load(tmp_path / "old")


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


@every("mutations")
def test_a_changed_file_is_refused_or_the_same(name: str, tmp_path: Path) -> None:
    """Five hundred changes of bytes: other, cut off, put in, taken out. No other result, and no other error."""
    right, path, random = made(name), tmp_path / "result", np.random.default_rng(0)
    data = right.save(path).read_bytes()
    refused = 0
    for number in range(500):
        place, byte = int(random.integers(len(data))), bytes([int(random.integers(256))])
        if number % 2:  # labels are a small part of the largest files
            place = int(random.integers(min(len(data), 4000)))
        end = place if number % 4 == 1 else place + (number % 4 != 2)
        path.write_bytes(data[:place] + byte * (number % 4 in (0, 2)) + (b"" if number % 4 == 1 else data[end:]))
        try:
            assert type(right).load(path) == right
        except MapFileError:
            refused += 1
    assert refused > 450


def leaves(held: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Places in nested lists and dicts, and what is there."""
    for key, one in held.items() if isinstance(held, dict) else enumerate(held) if isinstance(held, list) else ():
        yield (*place, key), one
        yield from leaves(one, (*place, key))


def put(held: Any, place: tuple[Any, ...], one: Any) -> Any:
    """A copy with another value at a place; without it where that is `...`."""
    held = copy.deepcopy(held)
    inner = reduce(lambda at, key: at[key], place[:-1], held)
    if one is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = one
    return held


@every("forged")
def test_labels_that_do_not_fit_are_refused_under_a_right_checksum(name: str, tmp_path: Path) -> None:
    """Two hundred changed labels under a right checksum: no error but one, and fields of other types are never accepted.

    Left out, doubled, of another type, negative, nested deep, or another class's. What is accepted is as its class says: a
    file of it can be saved and loaded again.
    """
    right, path, random = made(name), tmp_path / "result", np.random.default_rng(0)
    file = read_tensors(right.save(path))
    places = list(leaves(file.labels))
    fields = [place for place, one in places if place[-2:-1] == ("fields",)]
    changes: list[tuple[tuple[Any, ...], Any]] = [(place, ["no", "field", "is", "a", "list"]) for place in fields[:40]]
    must = len(changes)
    for number in range(200 - must):
        place, one = places[int(random.integers(len(places)))]
        changes.append(
            (
                place,
                (..., None, -7, 1e400, "x", [one, one], {"class": "Config", "module": "os", "fields": {}})[number % 7],
            )
        )
    for number, (place, one) in enumerate(changes):
        write_tensors(path, file.kind, file.version, put(file.labels, place, one), file.tensors)
        try:
            loaded = type(right).load(path)
        except MapFileError:
            continue
        assert number >= must or loaded == right, place
        assert type(loaded) is type(right)
    for labels in (
        {},
        {"value": 1},
        {"value": {"tuple": []}},
        {"value": reduce(lambda held, _: {"list": [held]}, range(400), 0)},
    ):
        write_tensors(path, file.kind, file.version, labels, file.tensors)
        with pytest.raises(MapFileError, match="result"):
            type(right).load(path)


def test_a_row_that_stands_twice_is_loaded(tmp_path: Path) -> None:
    """Queries may be chosen more than once; a reader refuses what no result is, and nothing that one is."""
    maps = made("TokenMaps")
    rows = [2, 2]
    twice = dataclasses.replace(maps, values=maps.values[:, :, rows], queries=tuple(maps.queries[row] for row in rows))
    assert type(maps).load(twice.save(tmp_path / "result")) == twice


@pytest.mark.parametrize(
    ("name", "field", "change", "said"),
    [
        ("TokenMaps", "layers", lambda held: held[:-1] + held[:1], "layers"),
        ("ContributionMaps", "layers", lambda held: [-1, *held[1:]], "layers"),
        ("ContributionMaps", "tokens", lambda held: held[:-1], "5 tokens"),
        ("ContributionMaps", "queries", lambda held: [99, *held[1:]], "queries"),
        ("Attribution", "labels", lambda held: held[:-1], "pos"),
        ("AttentionScores", "heads", lambda held: held[:1] * len(held), "heads"),
        ("ContributionSweep", "layers", lambda held: [-1], "layers"),
        ("AverageMaps", "layers", lambda held: held[:1] * len(held), "layers"),
        ("Faithfulness", "methods", lambda held: held * 2, "method"),
        ("ValueTokens", "memories", lambda held: held * 2, "memory"),
        ("FlowGraph", "nodes", lambda held: held[:2], "node"),
        ("AttributionGraph", "targets", lambda held: held * 2, "target"),
    ],
)
def test_labels_are_as_many_as_numbers(name: str, field: str, change: Any, said: str, tmp_path: Path) -> None:
    """A label less, a layer twice or below 0, an edge to no node: refused by the name of what does not fit."""
    file = read_tensors(made(name).save(tmp_path / "result"))
    labels = copy.deepcopy(file.labels)
    held = labels["value"]["fields"][field]
    held["tuple"] = change(held["tuple"])
    write_tensors(tmp_path / "result", file.kind, file.version, labels, file.tensors)
    with pytest.raises(MapFileError, match=said):
        type(made(name)).load(tmp_path / "result")


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
        first = table[(0,) * table.ndim]
        table[(0,) * table.ndim] = ~first if table.dtype is torch.bool else first + 1
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
    html = result.to_html()
    assert result.to_html(tmp_path / "page.html") == tmp_path / "page.html"
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == html
    assert json.loads(re.findall(r'id="data">(.*?)</script>', html, re.DOTALL)[0])["heading"]
    assert isinstance(result.show(), PageView)
    if name in ("RelationHits", "Attachments", "MemoryEstimate"):  # counts of words, arcs and bytes, no values
        with pytest.raises(InputError, match="has no values to draw"):
            result.figure()
        return
    where = {"layer": 0, "scope": "Atb"} if name == "ContributionMaps" else {}
    own, bare = result.figure(**where), result.figure(**where, title=None, caption=None)
    (axis, *_) = own.axes
    assert axis.images or axis.lines or axis.patches or axis.collections
    assert own.get_suptitle() or own.get_supxlabel()
    assert bare.get_suptitle() == bare.get_supxlabel() == ""
    assert bare.get_figheight() < own.get_figheight()
    mine = result.figure(**where, title="Costs $5, not $6", caption="Mine.")
    assert (mine.get_suptitle(), mine.get_supxlabel()) == (r"Costs \$5, not \$6", "Mine.")
    for draw in (result.to_html, result.show, result.figure):
        with pytest.raises(CallError, match=f"{name}.{draw.__name__} has no argument `nothing`"):
            draw(nothing=1)


@every("several")
def test_results_of_several_prompts_are_one(name: str, tmp_path: Path) -> None:
    """A list that is saved, loaded and tabulated."""
    several = Results([made(name)] * 2)
    assert Results.load(several.save(tmp_path / "several")) == several
    assert isinstance(ffb.load(tmp_path / "several"), Results) and ffb.load(tmp_path / "several") == several
    rows = len(made(name).to_dataframe())
    assert several.to_dataframe()["prompt"].tolist() == [0] * rows + [1] * rows
