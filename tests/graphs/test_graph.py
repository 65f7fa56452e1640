"""What holds for every graph: tables that join, exports, files, pruning, paths, and names."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.graphs import Component, Graph, GraphCertificate, GraphTarget, Pruning

N = 5
FEW = Pruning(2, 1, (1, 1), (1, 1))
MADE: dict[str, Callable[[Any, torch.Tensor], Graph]] = {
    "flow": lambda model, ids: ffb.flow_graph(model, ids, layers=range(2), target=7, pruning=FEW),
    "flow to two": lambda model, ids: ffb.flow_graph(
        model, ids, target=[7, ffb.direction(torch.ones(tiny.D_MODEL), layer=-1)], pruning=FEW
    ),
    "flow of sums": lambda model, ids: ffb.flow_graph(model, ids, target=7, pruning=Pruning(0, 0, (0, 0), (0, 0))),
    "attribution": lambda model, ids: ffb.attribute(model, ids, ffb.logit(7), of="graph").graph(0.8),
    "edges": lambda model, ids: ffb.attribution_patching(model, ids, ids.flip(0), ffb.logit(7), edges=True).edges,
    "edges by position": lambda model, ids: (
        ffb.attribution_patching(model, ids, ids.flip(0), ffb.logit(7), edges="positions").edges
    ),
}


@pytest.fixture(scope="module")
def graphs() -> dict[str, Graph]:
    """One of every builder, of a model with shared keys and values."""
    model, ids = model_of("llama"), tiny.tokens("llama", N)
    return {name: make(model, ids) for name, make in MADE.items()}


@pytest.mark.parametrize("text", ["", "[]", '{"format":"tl_ffblock.flow/1","nodes":[]}'])
def test_other_files_are_refused(tmp_path: Path, text: str) -> None:
    """JSON of 0.2.0 by name and version."""
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(ffb.errors.MapFileError, match=r"0\.2\.0 \(format version 1\)" if text else "other"):
        ffb.FlowGraph.load(path)


@pytest.mark.parametrize("name", MADE)
def test_tables_have_every_node_and_edge(graphs: dict[str, Graph], name: str) -> None:
    """The same columns in all graphs, ends by name and position, weights by target."""
    graph, several = graphs[name], graphs[name].edges
    edges, nodes = graph.to_dataframe(), graph.nodes_dataframe()
    common = ["source", "source_position", "source_kind", "source_layer", "source_head"]
    common += [column.replace("source", "target") for column in common]
    assert list(edges.columns[:12]) == [*common, "unit", "size"]
    assert list(nodes.component) == [node.name for node in graph.nodes]
    if name != "edges by position":
        labels = edges.source + np.where(edges.source_position < 0, "", "@" + edges.source_position.astype(str))
        assert list(labels) == [graph.nodes[edge.source].label() for edge in several]
        weights = edges.filter(like="weight").to_numpy()
        np.testing.assert_array_equal(weights, np.array([edge.shares for edge in several]).reshape(weights.shape))
        np.testing.assert_array_equal(edges["size"], [edge.size for edge in several])
    else:
        sums = edges.groupby(["source", "target"], sort=False)["weight"].sum()
        np.testing.assert_allclose(sums, graph.weights[:, 0], atol=1e-5)


def test_ranks_and_probabilities_are_named_by_their_token() -> None:
    """Of several targets, also where two read one token; other numbers are named by the target."""
    model, ids = model_of("llama"), tiny.tokens("llama", N)
    targets = [ffb.logit(7, minus=9), ffb.logit(9), ffb.logit(7)]
    graph = ffb.flow_graph(model, ids, layers=1, target=targets)
    nodes, first, second = graph.nodes_dataframe(), *(repr(target.token) for target in graph.targets[:2])
    for name in ("rank", "probability"):
        assert list(nodes.filter(like=f"{name} of ")) == [f"{name} of {first}", f"{name} of {second}"]
    assert list(nodes[f"rank of {second}"]) == [node.ranks[1] for node in graph.nodes]
    assert list(nodes.filter(regex="^value of ")) == [f"value of {target.name}" for target in graph.targets]


def test_tables_of_all_graphs_join(graphs: dict[str, Graph]) -> None:
    """Heads of a flow graph are those of an attribution graph of the same target, with the same values; estimates have theirs."""
    flow, attribution = (graphs[name].nodes_dataframe() for name in ("flow", "attribution"))
    joined = flow.merge(attribution, on=["component", "position"])
    heads = joined[joined.kind_x == "head"]
    assert len(heads)
    assert {"L0.resid", "L1.resid_mid", "L2.resid", "L1.mlp"} <= set(joined.component)
    np.testing.assert_allclose(joined.value_x, joined.value_y, rtol=1e-4, atol=1e-5)
    assert set(heads.component) <= set(graphs["edges"].nodes_dataframe().component)


@pytest.mark.parametrize("k", [None, 10])
@pytest.mark.parametrize("name", MADE)
def test_networkx_writes_every_graph(graphs: dict[str, Graph], name: str, k: int | None, tmp_path: Path) -> None:
    """As GraphML, GEXF, GML and strict JSON, and reads the same nodes, edges and numbers again; labels are unique."""
    graph = graphs[name]
    exported = graph.to_networkx(k)
    links = sum(unit == "input" for *_, unit in exported.edges(data="unit"))
    assert exported.number_of_edges() - links == (len(graph.ends) if k is None else k)
    assert k is not None or len(exported) == len(graph.nodes)
    for form in ("graphml", "gexf", "gml"):
        getattr(nx, f"write_{form}")(exported, tmp_path / "graph")
        again = getattr(nx, f"read_{form}")(tmp_path / "graph")
        assert set(again.nodes) == set(exported.nodes)
        assert set(again.edges) == set(exported.edges)
        node = next(iter(exported))
        assert again.nodes[node]["component"] == exported.nodes[node]["component"]
        assert form == "gexf" or all(again.nodes[node].items() >= held.items() for node, held in exported.nodes.items())
    text = json.dumps(nx.node_link_data(exported, edges="links"), allow_nan=False)
    assert nx.utils.graphs_equal(nx.node_link_graph(json.loads(text), edges="links"), exported)


def test_attributes_are_the_columns_without_unknown_numbers(graphs: dict[str, Graph]) -> None:
    """Names are words of letters and digits, one per column, also of tokens that differ by their signs alone."""
    tokens = ("' A'", "'A'", "'हि'", "'स'")
    targets = tuple(GraphTarget(f"logit {token}", 1.0, token) for token in tokens)
    node = Component(name="L0H1", kind="head", shares=(1.0, 2.0, 3.0, float("nan")))
    ends, weights, checks = (
        torch.tensor([[0, 0]]),
        torch.tensor([[5.0, 6.0, float("inf"), 8.0]]),
        GraphCertificate({}, 0.0),
    )
    fields: dict[str, Any] = {"labels": (), "nodes": (node,), "ends": ends, "weights": weights, "sizes": weights[:, 0]}
    alone = Graph(model="none", targets=targets, certificate=checks, **fields).to_networkx()
    names = ("logit_A", "logit_A__2", "logit", "logit__2")
    assert [alone.nodes["L0H1"].get(f"value_of_{name}") for name in names] == [1, 2, 3, None]
    assert [alone.edges["L0H1", "L0H1"].get(f"weight_of_{name}") for name in names] == [5, 6, None, 8]
    for exported, graph in ((graph.to_networkx(), graph) for graph in graphs.values()):
        rows = graph.nodes_dataframe()
        for (_, held), row in zip(exported.nodes.items(), rows.to_dict("records"), strict=True):
            assert list(held.values()) == [value for value in row.values() if value == value]
    assert "coefficient" not in next(iter(graphs["flow"].to_networkx().nodes.values()))


def test_texts_that_xml_cannot_hold_are_escaped(
    graphs: dict[str, Graph], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tokenizer has control characters: the files are read again, with their escapes; other texts stay."""
    graph, rows = graphs["flow"], type(graphs["flow"]).nodes_dataframe
    hostile = "a\x0b\x1a\x00\ufffe é\n<&>"
    monkeypatch.setattr(type(graph), "nodes_dataframe", lambda self, *names: rows(self, *names).assign(token=hostile))
    exported = graph.to_networkx()
    for form in ("graphml", "gexf"):
        getattr(nx, f"write_{form}")(exported, tmp_path / "graph")
        again = getattr(nx, f"read_{form}")(tmp_path / "graph")
        assert {node["token"] for _, node in again.nodes(data=True)} == {"a\\x0b\\x1a\\x00\\ufffe é\n<&>"}


@pytest.mark.parametrize("keep", [1.0, 0.8, 0.3])
@pytest.mark.parametrize("name", MADE)
def test_pruning_keeps_a_stated_part_and_all_sums(graphs: dict[str, Graph], name: str, keep: float) -> None:
    """As much enters and leaves every node that stays, in steps or at once; what is kept is said."""
    graph = graphs[name]
    pruned = graph.prune(keep)
    assert pruned.kept >= graph.kept * keep - 1e-6
    for side in (0, 1):
        before, after = ({}, {})
        for held, sums in ((graph, before), (pruned, after)):
            for ends, weight in zip(held.ends.tolist(), held.weights[:, 0].tolist(), strict=True):
                label = held.nodes[ends[side]].label()
                sums[label] = sums.get(label, 0.0) + weight
        assert all(after[label] == pytest.approx(before[label], abs=1e-4) for label in after if label != "pruned")
    again = pruned.prune(0.5)
    assert again.kept <= pruned.kept
    assert sum(node.kind == "pruned" for node in again.nodes) <= 1


@pytest.mark.parametrize("name", MADE)
def test_paths_lead_to_the_target_by_their_part(graphs: dict[str, Graph], name: str) -> None:
    """Along edges, largest first; all together are no more than the whole."""
    graph = graphs[name]
    paths = graph.paths(1000)
    parts = [part for part, _ in paths]
    assert parts == sorted(parts, reverse=True)
    assert 0 < sum(parts) <= 1 + 1e-6
    assert [path for _, path in graph.paths(3)] == [path for _, path in paths[:3]]
    joined = graph.to_networkx()
    assert all(nx.is_path(joined, path) for _, path in paths)
    ends = {path[-1] for _, path in paths}
    assert ends == ({graph.nodes[-1].label()} if "flow" in name else {"target"})


def graph_of(
    nodes: list[tuple[str, str]], ends: torch.Tensor, weights: torch.Tensor, targets: tuple[Any, ...]
) -> Graph:
    """A graph of names and kinds, in which heads have an intercept of 1."""
    own = {"head": (1.0,)}
    return Graph(
        model="none",
        labels=(),
        targets=targets,
        nodes=tuple(
            Component(name=name, kind=kind, own_shares=own.get(kind, (0.0,))[: len(targets)]) for name, kind in nodes
        ),
        ends=ends,
        weights=weights,
        sizes=weights.abs().sum(dim=1),
        certificate=GraphCertificate({"sums": 0.0}, 1e-6),
    )


def test_a_graph_of_two_paths_has_these_paths() -> None:
    """A part is the product of what each edge is of all that enters its node, intercepts among it."""
    nodes = [("a", "token"), ("b", "token"), ("L0H0", "head"), ("target", "target")]
    ends, weights = torch.tensor([[0, 2], [1, 2], [1, 3], [2, 3]]), torch.tensor([[1.0], [-2.0], [3.0], [1.0]])
    graph = graph_of(nodes, ends, weights, targets=(GraphTarget("logit", 4.0),))
    assert graph.paths() == [
        (0.75, ("b", "target")),
        (0.125, ("b", "L0H0", "target")),
        (0.0625, ("a", "L0H0", "target")),
    ]
    pruned = graph.prune(0.4)
    assert [node.name for node in pruned.nodes] == ["a", "b", "target", "pruned"]


def test_components_have_one_name_and_one_for_exports(graphs: dict[str, Graph]) -> None:
    """`a1.h2<q>` for programs of edge attribution patching alone."""
    names = {node.name: node.eap_name for node in graphs["edges"].nodes}
    expected = {"L1H2": "a1.h2", "L1H2.q": "a1.h2<q>", "L1KV1.k": "a1.kv1<k>", "L1.mlp": "m1", "L0.resid": "input"}
    assert {name: names[name] for name in expected} == expected
    assert names["remaining"] == "rest"


def test_names_of_0_2_warn(graphs: dict[str, Graph]) -> None:
    """And give the same numbers."""
    for name, olds in (
        ("attribution", ("source", "target", "share", "own")),
        ("edges", ("target", "streams", "derivatives")),
    ):
        for old in olds:
            with pytest.warns(DeprecationWarning, match=old):
                getattr(graphs[name], old)


@pytest.mark.parametrize("name", MADE)
def test_a_graph_says_what_it_is(graphs: dict[str, Graph], name: str) -> None:
    """Its class and size, the text, targets, errors and largest edges; as JSON all of its rows."""
    graph = graphs[name]
    said = repr(graph)
    assert said.startswith(f"{type(graph).__name__}: {len(graph.nodes)} nodes, {len(graph.ends)} edges of ")
    source, target, _ = graph.top(1)[0]
    assert f"{source} -> {target}" in said
    held = graph.to_dict()
    assert (len(held["nodes"]), len(held["edges"])) == (len(graph.nodes), len(graph.to_dataframe()))


@pytest.mark.wrong_types
def test_what_cannot_be_done_is_refused(graphs: dict[str, Graph]) -> None:
    """Parts above one, no edges, and graphs without a target."""
    for wrong in (0, 1.5, "all", True):
        with pytest.raises(ffb.errors.InputError, match="keep="):
            graphs["edges"].prune(wrong)
    for call in ("top", "paths", "to_networkx"):
        with pytest.raises(ffb.errors.InputError, match="k=0"):
            getattr(graphs["flow"], call)(0)
    ends, nothing = torch.tensor([[0, 1]]), torch.zeros(1, 0)
    silent = graph_of([("a", "token"), ("b", "token")], ends, nothing, targets=())
    for call in ("prune", "top", "paths"):
        with pytest.raises(ffb.errors.InputError, match="without a target"):
            getattr(silent, call)()
    assert len(silent.to_dataframe()) == len(silent.ends)
