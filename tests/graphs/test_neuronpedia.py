"""Attribution graphs as files for Neuronpedia and circuit-tracer: what these read, a round trip, and what is refused."""

import json
import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tests.page import node
from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.graphs import read_neuronpedia, to_neuronpedia
from tl_ffblock.graphs.neuronpedia import REQUIRED

N = 5


def graph_of(family: str) -> Any:
    """An attribution graph, pruned."""
    target = ffb.logit(7, minus=9)
    return ffb.attribute(model_of(family), tiny.tokens(family, N), target, of="graph").graph().prune(0.8)


def attributed(text: Any = None, target: Any = 7) -> ffb.Attribution:
    """An attribution with its graph, of the tiny GPT-2."""
    tokens = tiny.tokens("gpt2", N) if text is None else text
    return ffb.attribute(model_of("gpt2"), tokens, target, of="graph")


class Quoted:
    """A target with the marks that pages split labels at."""

    name = 'f of "<b>" (p=2)'

    def __call__(self, logits: Any) -> Any:
        return logits[:, -1, 7]


GRAPHS: dict[str, Callable[[], Any]] = {
    **{family: lambda family=family: graph_of(family) for family in ("gpt2", "llama", "gpt_neox", "bert")},
    "two tokens": lambda: attributed(tiny.tokens("gpt2", 2)).graph(),
    "three tokens": lambda: attributed(tiny.tokens("gpt2", 3)).graph(1.0),
    "many tokens": lambda: attributed(tiny.tokens("gpt2", 40)).graph(0.7),
    "hardly an edge": lambda: attributed().graph(1e-9),
    "a quoted name": lambda: attributed(target=Quoted()).graph(),
    "an earlier layer": lambda: attributed(
        target=ffb.direction(torch.ones(model_of("gpt2").cfg.d_model), layer=1)
    ).graph(),
    "a difference": lambda: (attributed() - attributed(tiny.tokens("gpt2", N).flip(0))).graph(),
    "tokens with marks": lambda: replace(
        attributed().graph(), labels=("<s>", "<img src=x>", "&lt;", '"\\n"', "\U0001f999")
    ),
    "a flow graph of two targets": lambda: ffb.flow_graph(
        model_of("gpt2"), tiny.tokens("gpt2", N), layers=[0, 1], target=[7, 9], position=2
    ),
    "a pruned flow graph": lambda: ffb.flow_graph(
        model_of("gpt2"), tiny.tokens("gpt2", N), layers=1, target=7, pruning=ffb.graphs.Pruning(memories=(2, 2))
    ).prune(0.5),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_file_is_as_pages_read_it(name: str, tmp_path: Path) -> None:
    """As circuit-tracer 0.5.0 and Neuronpedia read it: one feature per node, a label with a probability, no missing field."""
    graph = GRAPHS[name]()
    held = json.loads(to_neuronpedia(graph, tmp_path / "graph.json").read_text())
    nodes, metadata = held["nodes"], held["metadata"]
    features = {(each["layer"], each["feature"]) for each in nodes}
    assert (
        len(features)
        == len({each["jsNodeId"] for each in nodes})
        == len({each["node_id"] for each in nodes})
        == len(nodes)
    )
    assert (
        metadata["transcoder_list"] == []
        and held["qParams"]["sg_pos"] == ""
        and len(metadata["prompt_tokens"]) == len(graph.labels)
    )
    assert all(0 <= each["ctx_idx"] < len(graph.labels) and isinstance(each["feature"], int) for each in nodes)
    (target,) = [each for each in nodes if each["feature_type"] == "logit"]
    label = re.fullmatch(r'Output "([^"]+)" \(p=nan\)', target["clerp"])
    assert label is not None and metadata["info"]["target"] == graph.targets[0].name
    assert label[1].translate(str.maketrans("\u201d\u2039\u203a", '"<>')) == graph.targets[0].name
    assert not any(mark in each["clerp"] for each in nodes for mark in "<>&")  # pages set it as HTML
    assert {each["layer"] for each in nodes if each["feature_type"] == "embedding"} <= {"E"}
    assert int(target["layer"]) == 1 + max(
        int(each["layer"]) for each in nodes if each != target and each["layer"] != "E"
    )


READ = """
const { readFileSync } = require("node:fs");
const sorted = (list, of) => [...list].sort((a, b) => of(a) - of(b));
const groups = (list, of) => [...new Set(list.map(of))].map((key) => list.filter((x) => of(x) === key));
globalThis.window = globalThis;
globalThis.util = { params: { get: () => null, set() {} }, ppToken: (token) => token };
globalThis.d3 = { max: (list, of) => Math.max(...list.map(of).filter((x) => !Number.isNaN(x))), sort: sorted,
                  sum: (list, of) => list.reduce((sum, x) => sum + of(x), 0), nestBy: (list, of) => groups(list, of) };
(0, eval)(readFileSync(process.argv[2], "utf8").replace("window.utilCg =", "globalThis.utilCg ="));
const data = JSON.parse(readFileSync(process.argv[3], "utf8"));
utilCg.formatData(data, { pinnedIds: [] }).then(({ nodes, links, features }) => console.log(JSON.stringify({
  nodes: nodes.map((d) => [d.node_id, d.streamIdx, d.logitToken]), features: features.length,
  links: links.map((d) => [d.sourceNode.node_id, d.targetNode.node_id, d.weight]) })));
"""


@pytest.fixture(scope="module")
def circuit_tracer() -> Path:
    """Folder of circuit-tracer's front end."""
    found = find_spec("circuit_tracer")
    if found is None or found.origin is None:
        pytest.skip("circuit-tracer is not installed: pip install --no-deps circuit-tracer==0.5.0")
    return Path(found.origin).parent / "frontend"


@node.needs_node
@pytest.mark.parametrize("name", GRAPHS)
def test_circuit_tracer_reads_every_node_and_link(name: str, circuit_tracer: Path, tmp_path: Path) -> None:
    """Its class of the file accepts it, and its page's own function keeps all nodes and links, each a feature of its own."""
    from circuit_tracer.frontend.graph_models import Model

    graph = GRAPHS[name]()
    path = to_neuronpedia(graph, tmp_path / "graph.json")
    held = json.loads(path.read_text())
    model = Model.model_validate(held)
    (tmp_path / "read.cjs").write_text(READ)
    asset = circuit_tracer / "assets" / "attribution_graph" / "util-cg.js"
    command = [str(node.NODE), str(tmp_path / "read.cjs"), str(asset), str(path)]
    drawn = json.loads(subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout)
    assert len(model.nodes) == len(drawn["nodes"]) == drawn["features"] == len(held["nodes"])
    assert sorted(drawn["links"]) == sorted(map(list, map(dict.values, held["links"])))
    rows = {name: row for name, row, _ in drawn["nodes"]}
    assert rows["target"] == max(rows.values()) and [token for *_, token in drawn["nodes"] if token] != []


@pytest.mark.parametrize("name", GRAPHS)
def test_nodes_and_weights_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    """Every field that is required; nodes but what is pruned, and edges between them, with the shares of the target."""
    graph = GRAPHS[name]()
    held = json.loads(to_neuronpedia(graph, tmp_path / "graph.json", slug="mary").read_text())
    for part in ("nodes", "links"):
        assert held[part] and all(set(REQUIRED[part]) <= set(entry) for entry in held[part])
    assert set(REQUIRED["metadata"]) <= set(held["metadata"]) and held["metadata"]["prompt_tokens"] == list(
        graph.labels
    )
    read, expected = read_neuronpedia(tmp_path / "graph.json"), graph.to_networkx()
    expected.remove_nodes_from([name for name, node in expected.nodes.items() if node["kind"] == "pruned"])
    assert set(read.nodes) == {*expected.nodes, "target"} and set(read.edges) == set(expected.edges)
    weight = next(name for edge in expected.edges.values() for name in edge if name.startswith("weight"))
    assert {ends: edge["weight"] for ends, edge in read.edges.items()} == {
        ends: edge[weight] for ends, edge in expected.edges.items()
    }
    for each, held_node in read.nodes.items():
        if held_node["feature_type"] not in ("logit", "embedding"):
            place = held_node["ctx_idx"], int(held_node["layer"])
            assert place == tuple(expected.nodes[each][at] for at in ("position", "layer"))
    graph.save(tmp_path / "graph.safetensors")
    again = to_neuronpedia(ffb.load(tmp_path / "graph.safetensors"), tmp_path / "graph.json", slug="mary")
    assert json.loads(again.read_text()) == held


def test_a_target_is_where_it_is_read(tmp_path: Path) -> None:
    """At the last position with an edge to it, or at the flow graph's position."""
    graph = ffb.flow_graph(model_of("gpt2"), tiny.tokens("gpt2", N), layers=1, target=7, position=2)
    assert read_neuronpedia(to_neuronpedia(graph, tmp_path / "a.json")).nodes["target"]["ctx_idx"] == 2
    graph = ffb.attribute(model_of("bert"), tiny.tokens("bert", N), ffb.logit(7, at=1), of="graph").graph()
    assert read_neuronpedia(to_neuronpedia(graph, tmp_path / "b.json")).nodes["target"]["ctx_idx"] == 1


def of_bytes() -> transformers.PreTrainedTokenizerFast:
    """A tokenizer with one token per byte."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({text: number for number, text in enumerate(["<bos>", *letters])}, []))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    marks = dict.fromkeys(("bos_token", "eos_token", "pad_token", "unk_token"), "<bos>")
    return transformers.PreTrainedTokenizerFast(tokenizer_object=raw, name_or_path="tiny", add_bos_token=True, **marks)


@pytest.fixture(scope="module", params=["bytes", "words", "word pieces"])
def reader(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tiny model with a tokenizer, loaded from a folder."""
    folder = tmp_path_factory.mktemp("model")
    if request.param == "bytes":
        tiny.hf_model("gpt2", vocab_size=300).save_pretrained(folder)
        of_bytes().save_pretrained(folder)
    else:
        tiny.save_local({"words": "gpt2", "word pieces": "bert"}[request.param], folder)
    return ffb.load_model(str(folder))


def test_the_prompt_is_the_text_before_tokenisation(reader: Any, tmp_path: Path) -> None:
    """Of a text and of its ids, without the tokenizer's own marks; also of characters of several tokens, and in a loaded result."""
    texts = (
        ["the cat sat on"] if reader.cfg.d_vocab < 300 else ["The \U0001f999 sat", 'a "b" <c>\n(p=1)', "na\u00efve  "]
    )
    for text in texts:
        of_ids = ffb.attribute(reader, reader.to_tokens(text)[0], 7, of="graph")
        of_texts = ffb.attribute(reader, [f"{text} ", text], 7, of="graph")
        assert of_ids.prompt == of_texts[1].prompt == text and of_texts[0].prompt == f"{text} "
        of_ids.save(tmp_path / "result.safetensors")
        for graph in (ffb.load(tmp_path / "result.safetensors").graph(), ffb.flow_graph(reader, text, target=7)):
            metadata = json.loads(to_neuronpedia(graph, tmp_path / "graph.json").read_text())["metadata"]
            assert metadata["prompt"] == text
    assert attributed().prompt == " ".join(map(str, tiny.tokens("gpt2", N).tolist()))
    assert attributed().graph().prompt == attributed().prompt


DAMAGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no nodes": (lambda held: held.pop("nodes"), "it has no nodes"),
    "nodes as an object": (lambda held: held.update(nodes={}), "it has no nodes"),
    "no prompt": (lambda held: held["metadata"].pop("prompt"), r"metadata\[0\] has no prompt"),
    "a node without layer": (lambda held: held["nodes"][1].pop("layer"), r"nodes\[1\] has no layer"),
    "a node twice": (lambda held: held["nodes"].append({**held["nodes"][0]}), "two nodes have the node_id 'token@0'"),
    "a link twice": (lambda held: held["links"].append({**held["links"][0]}), "two links lead from"),
    "an error node that has a feature's name": (
        lambda held: held.update(
            nodes=[
                {
                    "node_id": "0_2_5",
                    "jsNodeId": f"{layer}-0",
                    "layer": layer,
                    "feature": feature,
                    "ctx_idx": 5,
                    "clerp": "",
                }
                | {"feature_type": kind}
                for layer, feature, kind in (("0", 5, "cross layer transcoder"), ("2", -1, "mlp reconstruction error"))
            ]
        ),
        "node_id '0_2_5', cross layer transcoder of layer 0 and mlp reconstruction error of layer 2.*circuit-tracer 0.5.0",
    ),
    "a link to nowhere": (lambda held: held["links"][0].update(target="L99H9"), "not both nodes"),
    "a name of no text": (lambda held: held["nodes"][0].update(node_id=[1]), r"node_id \[1\] is not a text"),
    "an end of no text": (lambda held: held["links"][0].update(source={}), "not both nodes"),
    "a weight of 400 digits": (lambda held: held["links"][0].update(weight=10**400), "weight 1000"),
    "a weight of text": (lambda held: held["links"][0].update(weight="1"), "weight '1'"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_another_file_is_refused(name: str, tmp_path: Path) -> None:
    """With what is wrong."""
    damage, said = DAMAGED[name]
    path = to_neuronpedia(graph_of("gpt2"), tmp_path / "graph.json")
    held = json.loads(path.read_text())
    damage(held)
    path.write_text(json.dumps(held))
    with pytest.raises(MapFileError, match=said):
        read_neuronpedia(path)
    path.write_text("{")
    with pytest.raises(MapFileError, match="is not JSON"):
        read_neuronpedia(path)


def test_metadata_are_data(tmp_path: Path) -> None:
    """Of any name: none is an argument of the graph that is made."""
    path = to_neuronpedia(graph_of("gpt2"), tmp_path / "graph.json")
    held = json.loads(path.read_text())
    held["metadata"] |= {"incoming_graph_data": [[1, 2]], "self": 3}
    path.write_text(json.dumps(held))
    read = read_neuronpedia(path)
    assert read.graph == held["metadata"] and len(read) == len(held["nodes"])


def test_components_without_positions_are_refused(tmp_path: Path) -> None:
    """Edge estimates are summed over positions; nothing is written."""
    edges = ffb.attribution_patching(
        model_of("gpt2"), tiny.tokens("gpt2", N), tiny.tokens("gpt2", N).flip(0), 7, edges=True
    ).edges
    with pytest.raises(InputError, match="have no position.*Circuit.to_mib_json"):
        to_neuronpedia(edges, tmp_path / "graph.json")
    with pytest.raises(InputError, match="have no position.*Circuit.to_mib_json"):
        to_neuronpedia(ffb.Circuit.full(model_of("gpt2")), tmp_path / "graph.json")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("slug", ["", "a b", "a/b", "../a", "a?b", "a#b", "50%", 'a"b', "\u00fc", "a\n"])
def test_a_slug_is_a_part_of_an_address(slug: str, tmp_path: Path) -> None:
    """Pages ask for <slug>.json; circuit-tracer's server does not decode the address."""
    with pytest.raises(InputError, match="expected ASCII letters, digits"):
        to_neuronpedia(graph_of("gpt2"), tmp_path / "graph.json", slug=slug)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_numbers_that_json_has_not_are_refused(number: float, tmp_path: Path) -> None:
    """With the edge or the node."""
    graph = graph_of("gpt2")
    with pytest.raises(InputError, match=rf"attribution of token@0 is {number}"):
        to_neuronpedia(
            replace(graph, nodes=(replace(graph.nodes[0], shares=(number,)), *graph.nodes[1:])), tmp_path / "a"
        )
    with pytest.raises(InputError, match=rf"attribution of \S+ -> \S+ is -?{number}"):
        to_neuronpedia(replace(graph, weights=graph.weights * number), tmp_path / "a")
    assert not list(tmp_path.iterdir())
