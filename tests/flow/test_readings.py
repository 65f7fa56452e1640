"""What a flow graph says of its nodes: scores, tokens, probabilities, and shares of targets."""

import math
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny

Models = Callable[..., Any]
N = 6


def of_kind(graph: Any, kind: str) -> list[tuple[int, Any]]:
    """Numbers and nodes of a kind."""
    return [(number, node) for number, node in enumerate(graph.nodes) if node.kind == kind]


def test_a_query_times_its_key_matrix_gives_the_scores(ffb: ModuleType, model_of: Models) -> None:
    """`W_K q` with what a key reads, and the bias, is the model's score; the transposed product is another number."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1, pruning=ffb.flow.Pruning.off())
    read, attn = cache["blocks.1.ln1.hook_out"][0], model.blocks[1].attn
    asked = cache["blocks.1.attn.hook_attn_scores"][0, :, -1]
    queries = cache["blocks.1.attn.hook_q"][0, -1].reshape(asked.shape[0], -1)
    for number, node in of_kind(graph, "query"):
        vector, q = graph.vectors.nodes[number], queries[node.head]
        products = (read @ vector + q @ attn.b_K[node.head]).detach()
        torch.testing.assert_close(products / len(q) ** 0.5, asked[node.head])
        theirs = (attn.W_K[node.head].T.reshape(-1, len(q)) @ q).reshape(-1)
        assert not torch.allclose(read @ theirs + q @ attn.b_K[node.head], products, rtol=0.1)
        keys = {key.index: key for _, key in of_kind(graph, "key") if key.head == node.head}
        for j in range(N):
            assert keys[j].coefficient == pytest.approx(float(products[j]))


def test_a_key_says_what_queries_it_answers(ffb: ModuleType, model_of: Models) -> None:
    """`W_Q k` with what the query reads, and the bias, is the same score."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1)
    read, attn = cache["blocks.1.ln1.hook_out"][0, -1], model.blocks[1].attn
    keys = cache["blocks.1.attn.hook_k"][0].reshape(N, attn.W_K.shape[0], -1)
    for number, node in of_kind(graph, "key"):
        product = read @ graph.vectors.nodes[number] + keys[node.index, node.head] @ attn.b_Q[node.head]
        assert node.coefficient == pytest.approx(float(product.detach()))


def test_where_vectors_rotate_the_query_is_that_of_a_key_at_its_own_place(ffb: ModuleType, model_of: Models) -> None:
    """There both are rotated alike, and the product is the score; elsewhere edges have the score of the rotated vectors."""
    model, tokens = model_of("llama_nobias", torch.float64), tiny.tokens("llama_nobias", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1, pruning=ffb.flow.Pruning.off())
    asked, read = cache["blocks.1.attn.hook_attn_scores"][0, :, -1], cache["blocks.1.ln1.hook_out"][0, -1]
    keys = {(node.head, node.index): node.coefficient for _, node in of_kind(graph, "key")}
    for number, node in of_kind(graph, "query"):
        scores = torch.tensor([keys[node.head, j] for j in range(N)], dtype=torch.float64)
        torch.testing.assert_close(scores / tiny.D_HEAD**0.5, asked[node.head], rtol=1e-6, atol=1e-6)
        assert float(read @ graph.vectors.nodes[number]) == pytest.approx(keys[node.head, N - 1], rel=1e-5, abs=1e-6)


def test_a_model_that_hides_its_rotated_vectors_has_no_scores(
    ffb: ModuleType, model_of: Models, tmp_path: Path
) -> None:
    """GPT-J: edges to keys are not measured; all else is there."""
    graph = ffb.flow_graph(model_of("gptj", torch.float64), tiny.tokens("gptj", N), target=7)
    assert all(math.isnan(edge.size) == (edge.unit == "score") for edge in graph.edges)
    assert {node.coefficient for _, node in of_kind(graph, "key")} == {None}
    assert math.isnan(
        next(e for e in type(graph).load(graph.save(tmp_path / "g.json")).edges if e.unit == "score").size
    )


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "phi"])
@pytest.mark.parametrize("position", [-1, 2])
def test_the_last_nodes_reading_is_the_models(ffb: ModuleType, model_of: Models, family: str, position: int) -> None:
    """Probability and rank of the target, top token, entropy: those of the model's logits at the position."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    logits = model(tokens[None])[0, position].detach()
    graph = ffb.flow_graph(model, tokens, layers=-1, position=position, target=9)
    last, probabilities = graph.nodes[-1], logits.softmax(dim=-1)
    assert last.probabilities[0] == pytest.approx(float(probabilities[9]), rel=1e-6)
    assert last.ranks[0] == int((logits > logits[9]).sum()) + 1
    assert last.entropy == pytest.approx(float(-(probabilities * probabilities.log()).sum()), rel=1e-6)
    expected = ffb.flow_graph(model, tokens, position=position)
    assert expected.targets[0].token == expected.nodes[-1].tokens[0]


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "olmo2", "qwen2_moe"])
def test_shares_are_those_of_the_attribution(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Heads, memories and the stream carry at the position what `ffb.attribute` says; what enters carries the same."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    target = ffb.logit(7, minus=11)
    result = ffb.attribute(model, tokens, target)
    graph = ffb.flow_graph(model, tokens, layers=range(2), target=[target, 9], pruning=ffb.flow.Pruning.off())
    assert [each.value for each in graph.targets] == pytest.approx(
        [result.value, float(model(tokens[None])[0, -1, 9].detach())]
    )
    assert graph.nodes[0].shares[0] == pytest.approx(float(result.residual[0, -1]), rel=1e-6)
    assert graph.nodes[-1].shares[0] == pytest.approx(float(result.residual[2, -1]), rel=1e-6)
    for _, node in of_kind(graph, "head"):
        assert node.shares[0] == pytest.approx(float(result.heads[node.layer, node.head, -1]), rel=1e-5, abs=1e-9)
    if family != "qwen2_moe":
        for _, node in of_kind(graph, "memory value"):
            share = float(result.neurons(node.layer)[-1, node.index])
            assert node.shares[0] == pytest.approx(share, rel=1e-5, abs=1e-9)
    assert graph.certificate.shares < 1e-6
    entering = [[0.0, 0.0] for _ in graph.nodes]
    for edge in graph.edges:
        for number, share in enumerate(edge.shares):
            entering[edge.target][number] += share
    size = max(abs(share) for node in graph.nodes for share in node.shares)
    for node, came in zip(graph.nodes, entering, strict=True):
        total = [sum(parts) for parts in zip(came, node.own_shares, node.rest_shares, strict=True)]
        assert total == pytest.approx(node.shares, abs=1e-6 * size)


def test_a_direction_is_a_target_and_no_token(ffb: ModuleType, model_of: Models) -> None:
    """It has shares; rank and probability it has none."""
    model, tokens = model_of("bert", torch.float64), tiny.tokens("bert", N)
    vector = torch.linspace(-1, 1, tiny.D_MODEL, dtype=torch.float64)
    graph = ffb.flow_graph(model, tokens, layers=1, position=2, target=ffb.direction(vector, layer=2, at=2))
    output = next(number for number, node in enumerate(graph.nodes) if "(layer output)" in node.name)
    assert graph.nodes[output].shares[0] == pytest.approx(float(graph.vectors.nodes[output] @ vector))
    assert graph.targets[0].token is None
    assert graph.nodes[output].ranks == (0,)
    assert graph.nodes[output].probabilities[0] != graph.nodes[output].probabilities[0]
