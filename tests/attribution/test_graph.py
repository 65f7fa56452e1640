"""Kirchhoff: what flows into a node and its own bias flow out of it, however many edges are kept."""

import dataclasses
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from tl_ffblock.numerals import significant

Models = Callable[..., Any]
N = 5


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "phi", "olmo2", "qwen2_moe"])
@pytest.mark.parametrize("keep", [1.0, 0.9, 0.3])
def test_flows_are_conserved_at_every_node(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str, keep: float
) -> None:
    """The rest among them; tokens give what they brought, the target takes what there is."""
    model, tokens = model_of_any(family, dtype=torch.float64), tiny.tokens(family, N)
    result = ffb.attribute(model, tokens, difference, of="graph")
    graph = result.graph(keep)
    flow, kinds = graph.imbalance(), np.array([node[0] for node in graph.nodes])
    size = float(np.abs(graph.share).max())
    inner = ~np.isin(kinds, ["token", "target"])
    assert np.abs(flow[inner]).max(initial=0) < 1e-9 * size
    assert float(flow[kinds == "target"].sum()) == pytest.approx(result.value, abs=1e-6 * size)
    entering = (result.tokens + result.positions + result.token_types).numpy()
    np.testing.assert_allclose(-flow[kinds == "token"], entering, atol=1e-9 * size)
    total = sum(result.biases.values())
    assert float(graph.own.sum()) == pytest.approx(total, abs=1e-6 * size)
    assert graph.kept >= keep - 1e-9
    assert ("rest" in kinds) == (keep < 1)


def test_a_graph_says_what_it_is_in_a_few_lines(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """Its sizes, what flows into the target, and the largest edges of heads and feed-forwards by name."""
    model, tokens = model_of_any("llama", dtype=torch.float64), tiny.tokens("llama", N)
    result = ffb.attribute(model, tokens, difference, of="graph")
    graph = result.graph(0.9)
    said = repr(graph).splitlines()
    assert len(said) == 8
    assert said[0].startswith(f"AttributionGraph: {len(graph.nodes)} nodes, {len(graph.share)} edges; ")
    assert said[0].endswith(f"; {graph.kept:.1%} of the sizes of all edges kept")
    own = significant(sum(result.biases.values()))
    assert said[2] == f"  target  {significant(result.value, 4)} flows in; own biases {own}"
    frame = graph.to_dataframe().query("source_kind != 'rest' and target_kind != 'rest'")
    written = frame[frame.source_kind.isin(["head", "mlp"]) | frame.target_kind.isin(["head", "mlp"])]
    largest = written.loc[written.share.abs().idxmax()]
    names = {"head": "a{layer}.h{head}", "mlp": "m{layer}"}
    ends = [
        f"{names.get(largest[f'{end}_kind'], '{kind} {layer}')} at {{position}}".format(
            **{name: largest[f"{end}_{name}"] for name in ("kind", "layer", "head", "position")}
        )
        for end in ("source", "target")
    ]
    assert said[3] == f"  {ends[0]} → {ends[1]} {significant(largest.share)}"


def test_edges_are_the_attributions(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """Heads give their share, and take what tokens bring; largest edges are kept first."""
    model, tokens = model_of_any("llama", dtype=torch.float64), tiny.tokens("llama", N)
    result = ffb.attribute(model, tokens, difference, of=("edges", "graph"))
    graph = result.graph(1.0)
    frame = graph.to_dataframe()
    heads = frame[(frame.source_kind == "head") & (frame.source_layer == 1) & (frame.source_head == 2)]
    got = dict(zip(heads.source_position, heads.share, strict=True))
    for position, share in enumerate(result.heads[1, 2].tolist()):
        assert got.get(position, 0.0) == pytest.approx(share)
    shown = result.graph(0.5)
    rest = shown.nodes.index(("rest", -1, -1, -1))
    kept = np.abs(shown.share[(shown.source != rest) & (shown.target != rest)])
    assert kept.min() >= np.sort(np.abs(graph.share))[-len(kept)] - 1e-12
    networkx = graph.to_networkx()
    assert networkx.number_of_edges() == len(graph.share)


def test_a_graph_is_held_to_its_attributions_tolerance(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """bfloat16 that was accepted has a graph; what float64 would not accept is refused."""
    model, tokens = tiny.bridge("gpt2", dtype=torch.bfloat16), tiny.tokens("gpt2", N)
    rough = ffb.attribute(model, tokens, difference, of="graph")
    assert rough.certificate.rtol > 1e-4
    assert rough.graph(1.0).kept == 1
    exact = ffb.attribute(tiny.bridge("gpt2", dtype=torch.float64), tokens, difference, of="graph")
    assert exact.certificate.rtol < 1e-5
    shifted = exact.bias_shares.clone()
    shifted[exact.bias_layers.index(1)] += 1e-5 * float(exact.residual[1].abs().sum()) / N
    with pytest.raises(
        ffb.errors.CompletenessError, match="layer 1: what the whole layer brings itself misses the named biases"
    ):
        dataclasses.replace(exact, bias_shares=shifted).graph()


def test_a_graph_there_is_where_there_is_an_attribution(ffb: ModuleType, difference: Any) -> None:
    """Of a target that nearly cancels, too: misses are relative to all shares, as the certificate's at the same boundary.

    Hugging Face's RMSNorm is float32 in a float64 model, and the flow behind the last layer a thousandth of the shares.
    """
    result = ffb.attribute(tiny.bridge("qwen2", 28, torch.float64), tiny.tokens("qwen2", 4, 28), difference, of="graph")
    assert abs(result.value) < 1e-2 * result.total_size()
    assert 1e-9 < float(result.certificate.layer_inputs.max()) < 1e-7
    graph = result.graph(1.0)
    inner = np.array([node[0] not in ("token", "target") for node in graph.nodes])
    assert np.abs(graph.imbalance()[inner]).max() < 1e-9 * result.total_size()


@pytest.mark.wrong_types
def test_graphs_that_cannot_be_are_refused(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """Other rules, nothing asked for, nothing kept."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    with pytest.raises(ffb.errors.ScopeKeyError, match="ask with of=\\('graph'"):
        ffb.attribute(model, tokens, difference).graph()
    with pytest.raises(ffb.errors.InputError, match="which only rules='path' does"):
        ffb.attribute(model, tokens, difference, of="graph", rules="patching").graph()
    result = ffb.attribute(model, tokens, difference, of="graph")
    with pytest.raises(ffb.errors.InputError, match="keep='all'"):
        result.graph(keep="all")
    with pytest.raises(ffb.errors.InputError, match="keep=0"):
        ffb.attribute(model, tokens, difference, of="graph").graph(0.0)
