"""Attribution graphs as files for Neuronpedia: fields, a round trip, and what is refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.errors import InputError, MapFileError
from tl_ffblock.graphs import read_neuronpedia, to_neuronpedia
from tl_ffblock.graphs.neuronpedia import REQUIRED

N = 5


def graph_of(family: str) -> Any:
    """An attribution graph, pruned."""
    target = ffb.logit(7, minus=9)
    return ffb.attribute(model_of(family), tiny.tokens(family, N), target, of="graph").graph().prune(0.8)


@pytest.mark.parametrize("family", ["gpt2", "llama", "gpt_neox", "bert"])
def test_nodes_and_weights_are_read_as_they_were_written(family: str, tmp_path: Path) -> None:
    """Every field that is required; nodes but what is pruned, and edges between them, with the shares of the target."""
    graph = graph_of(family)
    held = json.loads(to_neuronpedia(graph, tmp_path / "graph.json", slug="mary").read_text())
    for part in ("nodes", "links"):
        assert held[part] and all(set(REQUIRED[part]) <= set(entry) for entry in held[part])
    assert set(REQUIRED["metadata"]) <= set(held["metadata"]) and len(held["metadata"]["prompt_tokens"]) == N
    read, expected = read_neuronpedia(tmp_path / "graph.json"), graph.to_networkx()
    expected.remove_nodes_from([name for name, node in expected.nodes.items() if node["kind"] == "pruned"])
    assert set(read.nodes) == set(expected.nodes) and set(read.edges) == set(expected.edges)
    assert {ends: edge["weight"] for ends, edge in read.edges.items()} == pytest.approx(
        {ends: edge["weight"] for ends, edge in expected.edges.items()}
    )
    for name, node in read.nodes.items():
        if node["feature_type"] not in ("logit", "embedding"):
            assert (node["ctx_idx"], int(node["layer"])) == tuple(
                expected.nodes[name][at] for at in ("position", "layer")
            )
    assert {node["feature_type"] for node in read.nodes.values()} >= {"logit", "embedding", "head"}


DAMAGED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "no nodes": (lambda held: held.pop("nodes"), "it has no nodes"),
    "nodes as an object": (lambda held: held.update(nodes={}), "it has no nodes"),
    "no prompt": (lambda held: held["metadata"].pop("prompt"), r"metadata\[0\] has no prompt"),
    "a node without layer": (lambda held: held["nodes"][1].pop("layer"), r"nodes\[1\] has no layer"),
    "a node twice": (lambda held: held["nodes"].append(held["nodes"][0]), "two nodes have one node_id"),
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
    assert not list(tmp_path.iterdir())
