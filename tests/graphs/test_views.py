"""Pages of graphs add up, column by column and node by node."""

import collections
import dataclasses
from typing import Any

import numpy as np
import pytest

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.errors import InputError
from tl_ffblock.page import GraphBlock
from tl_ffblock.views import page_of

N = 6


def block_of(graph: Any, **options: Any) -> GraphBlock:
    """The graph that a page opens with."""
    block = page_of(graph, **options).runs[0].blocks["graph"]
    assert isinstance(block, GraphBlock)
    return block


@pytest.mark.parametrize("family", ["gpt2", "bert", "phi", "olmo2"])
def test_edges_lead_to_the_right_and_the_stream_lies_above(family: str) -> None:
    """Every edge enters a later column; the first lane is the residual stream from input to output."""
    graph = ffb.flow_graph(model_of(family), tiny.tokens(family, N), layers=range(2), target=7)
    page = block_of(graph)
    assert all(page.nodes[edge.source].column < page.nodes[edge.target].column for edge in page.edges)
    assert page.nodes[0].lane == page.nodes[-1].lane == 0
    assert [edge.shares for edge in page.edges] == [edge.shares for edge in graph.edges]
    above = {graph.nodes[number].kind for number, node in enumerate(page.nodes) if node.lane == 0}
    assert above == ({"input", "sum", "norm"} if family == "bert" else {"input", "sum"})


def test_a_chain_is_weighed_by_what_depends_on_it() -> None:
    """Queries and keys carry no share: their edges are as heavy as the largest value behind them."""
    page = block_of(ffb.flow_graph(model_of("gpt2"), tiny.tokens("gpt2", N), target=7))
    for edge in page.edges:
        if edge.unit in ("query", "score", "attention"):
            ahead = [follows for follows in page.edges if follows.source == edge.target]
            assert abs(edge.weights[0]) == pytest.approx(max(abs(follows.weights[0]) for follows in ahead))


@pytest.mark.parametrize("keep", [0.3, 0.8, 1.0])
@pytest.mark.parametrize("family", ["llama", "phi", "flow"])
def test_what_flows_is_conserved_on_the_page(keep: float, family: str) -> None:
    """Edges that enter a node, its own and what is not on the page sum to what flows through it; paths leave it again."""
    model, tokens = model_of("llama" if family == "flow" else family), tiny.tokens("llama", N)
    flows = family == "flow"
    graph = (
        ffb.flow_graph(model, tokens, target=7)
        if flows
        else ffb.attribute(model, tokens, ffb.logit(7), of="graph").graph()
    )
    page = block_of(graph.prune(keep))
    assert all(page.nodes[edge.source].column < page.nodes[edge.target].column for edge in page.edges)
    if not flows:
        assert any("between" in heading for heading in page.columns) == (family == "llama")
    size = max(abs(node.shares[0]) for node in page.nodes)
    leaving = np.array([dict(node.facts).get("outputs not on this page", 0.0) for node in page.nodes])
    entering = np.array([node.own_shares[0] + node.rest_shares[0] for node in page.nodes])
    for edge in page.edges:
        entering[edge.target] += edge.shares[0]
        leaving[edge.source] += edge.shares[0]
    shares = np.array([node.shares[0] for node in page.nodes])
    tokens_and_target = (
        np.array([node.name.startswith("token") for node in page.nodes]),
        [node.short == "target" for node in page.nodes],
    )
    np.testing.assert_allclose(entering[~tokens_and_target[0]], shares[~tokens_and_target[0]], atol=1e-5 * size)
    if not flows:  # keys, values and hidden positions make a flow graph's shares begin and end anywhere
        inner = ~np.array(tokens_and_target[1])
        np.testing.assert_allclose(leaving[inner], shares[inner], atol=1e-5 * size)


def test_a_stretch_of_the_stream_is_one_line() -> None:
    """Of a token that only the last layers read, what lies between is not on the page; unfolded it is."""
    graph = ffb.attribute(model_of("llama"), tiny.tokens("llama", N), ffb.logit(7), of="graph").graph().prune(0.8)
    short, whole = block_of(graph), block_of(graph, fold=False)
    left_out = {node.name for node in whole.nodes} - {node.name for node in short.nodes}
    assert left_out and all(name.startswith("residual stream") for name in left_out)
    assert len(whole.edges) - len(short.edges) == len(whole.nodes) - len(short.nodes) == len(left_out)


def test_a_component_has_no_word_but_the_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream says its top token; of heads, values, neurons only those whose top token is the target's."""
    monkeypatch.setattr("tl_ffblock.views.graphs.CLEAR", float("inf"))
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    free = ffb.flow_graph(model, tokens, layers=range(2), pruning=ffb.graphs.Pruning.off())
    (said, _), *_ = collections.Counter(node.tokens[0] for node in free.nodes if node.kind == "neuron").most_common(1)
    graph = ffb.flow_graph(model, tokens, layers=range(2), target=int(said))
    kinds = collections.Counter[str]()
    for node, shown in zip(graph.nodes, (node for node in block_of(graph).nodes), strict=True):
        stream = node.kind in ("input", "sum", "norm")
        assert shown.label == (f"says {shown.says[0]}" if shown.says and (stream or node.tokens[0] == said) else "")
        kinds[node.kind if shown.label else ""] += 1
    assert kinds["neuron"] and kinds["sum"] and kinds[""]


def test_edge_estimates_have_a_page_and_a_figure() -> None:
    """Of the largest edges, from left to right; others than these are in the cards."""
    model, tokens = model_of("llama"), tiny.tokens("llama", N)
    edges = ffb.attribution_patching(model, tokens, tokens.flip(0), ffb.logit(7), edges=True).edges
    page = block_of(edges, keep=0.5)
    assert 0 < len(page.edges) < len(edges.ends)
    assert all(page.nodes[edge.source].column < page.nodes[edge.target].column for edge in page.edges)
    assert edges.figure().axes
    assert f"of {len(edges.ends):,} edges" in page.drawn and "The cards sum the other" in edges.to_html()


def test_a_wide_graph_opens_at_its_largest_head() -> None:
    """By the number that the head has on the page, where pruned and folded nodes have none."""
    graph = ffb.attribute(model_of("llama"), tiny.tokens("llama", N), ffb.logit(7), of="graph").graph().prune(0.8)
    page = block_of(graph)
    heads = [node for node in page.nodes if node.short.count("H") and "head" in node.name]
    assert len(page.nodes) < len(graph.nodes)
    assert page.nodes[page.start] == max(heads, key=lambda node: abs(node.shares[0]))


def test_a_flow_graph_opens_at_its_largest_head() -> None:
    """Of what is shown."""
    graph = ffb.flow_graph(model_of("gpt2"), tiny.tokens("gpt2", N), layers=range(2), target=7)
    nodes = [node for node in graph.nodes if node.kind != "pruned"]
    largest = max((node for node in nodes if node.kind == "head"), key=lambda node: abs(node.shares[0]))
    assert nodes[block_of(graph).start] is largest


def test_a_graph_stands_beside_maps_of_its_text() -> None:
    """It is a block of their page, and one of another text or model is refused."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    maps, graph = ffb.contribution_maps(model, tokens), ffb.flow_graph(model, tokens, target=7)
    blocks = page_of(maps, view="graph", beside=graph).runs[0].blocks
    assert blocks["graph"] == block_of(graph) and "contributions" in blocks
    with pytest.raises(InputError, match="Use the same text for both"):
        page_of(maps, beside=ffb.flow_graph(model, tokens.flip(0), target=7))
    with pytest.raises(InputError, match="Use the same model for both"):
        page_of(dataclasses.replace(maps, model="other"), beside=graph)
    with pytest.raises(InputError, match="this page lacks a graph"):
        page_of(maps, view="graph")
