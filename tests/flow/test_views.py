"""What a flow graph and routes hand to their pages adds up, column by column and node by node."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

from tests import tiny
from tl_ffblock.flow.routes import routes_page
from tl_ffblock.views.graphs import flow_page

Models = Callable[..., Any]
N = 6


@pytest.mark.parametrize("family", ["gpt2", "bert", "phi", "olmo2"])
def test_edges_lead_to_the_right_and_the_stream_lies_above(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Every edge enters a later column; the first lane is the residual stream from input to output."""
    graph = ffb.flow_graph(model_of(family), tiny.tokens(family, N), layers=range(2), target=7)
    page = flow_page(graph)
    assert all(page.nodes[edge.source].column < page.nodes[edge.target].column for edge in page.edges)
    assert page.nodes[0].lane == page.nodes[-1].lane == 0
    assert [edge.shares for edge in page.edges] == [edge.shares for edge in graph.edges]
    above = {graph.nodes[number].kind for number, node in enumerate(page.nodes) if node.lane == 0}
    assert above == ({"input", "sum", "norm"} if family == "bert" else {"input", "sum"})


def test_a_chain_is_weighed_by_what_depends_on_it(ffb: ModuleType, model_of: Models) -> None:
    """Queries and keys carry no share: their edges are as heavy as the largest value behind them."""
    page = flow_page(ffb.flow_graph(model_of("gpt2"), tiny.tokens("gpt2", N), target=7))
    for edge in page.edges:
        if edge.unit in ("query", "score", "attention"):
            ahead = [follows for follows in page.edges if follows.source == edge.target]
            assert abs(edge.weights[0]) == pytest.approx(max(abs(follows.weights[0]) for follows in ahead))


@pytest.mark.parametrize("family", ["llama", "phi"])
@pytest.mark.parametrize("keep", [0.3, 0.8, 1.0])
def test_routes_are_conserved_on_the_page(ffb: ModuleType, model_of: Models, keep: float, family: str) -> None:
    """Edges that enter a node, its own and what is not on the page sum to what flows through it, and leave it again."""
    result = ffb.attribute(model_of(family), tiny.tokens(family, N), ffb.logit(7), of="graph")
    page = routes_page(result, result.graph(keep), keep)
    assert all(page.nodes[edge.source].column < page.nodes[edge.target].column for edge in page.edges)
    assert any("between" in heading for heading in page.columns) == (family == "llama")
    entering, leaving = ([0.0] * len(page.nodes) for _ in range(2))
    for edge in page.edges:
        entering[edge.target] += edge.shares[0]
        leaving[edge.source] += edge.shares[0]
    size = max(abs(node.shares[0]) for node in page.nodes)
    for node, came, went in zip(page.nodes, entering, leaving, strict=True):
        hidden = dict(node.facts).get("leaves along edges not on this page", 0.0)
        if node.short != "target":
            assert went + hidden == pytest.approx(node.shares[0], abs=1e-5 * size)
        if node.column:
            assert came + node.own_shares[0] + node.rest_shares[0] == pytest.approx(node.shares[0], abs=1e-5 * size)
    target = next(node for node in page.nodes if node.short == "target")
    assert target.shares[0] == pytest.approx(result.value, rel=1e-4)
