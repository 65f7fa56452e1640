"""Kirchhoff: what flows into a node and its own bias flow out of it; and every edge is what vectors carry along it."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.attribution.conftest import DIFFERENCE, direction, double
from tests.cases import model_of
from tests.forward_vectors import Vectors
from tests.tolerances import FORWARD_IS_BACKWARD
from tl_ffblock.errors import CompletenessError
from tl_ffblock.layer.scopes import PROGRAMS, Add, Feed, Normalise

N = 5
FAMILIES = ("gpt2", "llama", "bert", "gemma2", "olmo2", "phi", "gpt_neox", "mixtral")


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "phi", "olmo2", "qwen2_moe"])
def test_flows_are_conserved_at_every_node(family: str) -> None:
    """The rest among them; tokens give what they brought, the target takes what there is."""
    result = ffb.attribute(double(family), tiny.tokens(family, N), DIFFERENCE, of="graph")
    for keep in (1.0, 0.9, 0.3):
        graph = result.graph(keep)
        flow, kinds = graph.imbalance(), np.array([node.kind for node in graph.nodes])
        size = float(graph.weights.abs().max())
        assert np.abs(flow[~np.isin(kinds, ["token", "target"])]).max(initial=0) < 1e-9 * size
        assert float(flow[kinds == "target"].sum()) == pytest.approx(result.value, abs=1e-6 * size)
        np.testing.assert_allclose(-flow[kinds == "token"], result.token_attributions.numpy(), atol=1e-9 * size)
        total = sum(result.biases.values())
        assert float(graph.intercepts.sum()) == pytest.approx(total, abs=1e-6 * size)
        assert graph.kept >= keep - 1e-9
        assert ("pruned" in kinds) == (keep < 1)


def test_edges_are_the_attributions() -> None:
    """Heads give their share; largest edges are kept first."""
    result = ffb.attribute(double("llama"), tiny.tokens("llama", N), DIFFERENCE, of=("edges", "graph"))
    graph, shown = result.graph(1.0), result.graph(0.5)
    frame = graph.to_dataframe()
    heads = frame[frame.source == "L1H2"]
    got = dict(zip(heads.source_position, heads.weight, strict=True))
    for position, share in enumerate(result.heads[1, 2].tolist()):
        assert got.get(position, 0.0) == pytest.approx(share)
    ends = [(edge, {shown.nodes[end].kind for end in (edge.source, edge.target)}) for edge in shown.edges]
    kept = [abs(edge.shares[0]) for edge, kinds in ends if "pruned" not in kinds]
    assert min(kept) >= graph.sizes.sort().values[-len(kept)] - 1e-12


def test_a_graph_is_held_to_its_attributions_tolerance() -> None:
    """bfloat16 that was accepted has a graph; what float64 would not accept is refused."""
    tokens = tiny.tokens("gpt2", N)
    rough = ffb.attribute(model_of("gpt2", torch.bfloat16), tokens, DIFFERENCE, of="graph")
    assert rough.certificate.rtol > 1e-4
    assert rough.graph(1.0).kept == 1
    exact = ffb.attribute(double("gpt2"), tokens, DIFFERENCE, of="graph")
    assert exact.certificate.rtol < 1e-5
    shifted = exact.bias_shares.clone()
    shifted[exact.bias_layers.index(1)] += 1e-5 * float(exact.residual[1].abs().sum()) / N
    with pytest.raises(
        CompletenessError, match="layer 1: the intercept of the whole layer differs from the named biases"
    ):
        dataclasses.replace(exact, bias_shares=shifted).graph()


def test_a_graph_there_is_where_there_is_an_attribution() -> None:
    """Of a target that nearly cancels, too: misses are relative to all shares, as the certificate's at the same boundary.

    Hugging Face's RMSNorm is float32 in a float64 model, and the flow behind the last layer a thousandth of the shares.
    """
    result = ffb.attribute(tiny.bridge("qwen2", 28, torch.float64), tiny.tokens("qwen2", 4, 28), DIFFERENCE, of="graph")
    assert abs(result.value) < 1e-2 * result.total_size()
    assert 1e-9 < float(result.certificate.layer_inputs.max()) < 1e-7
    graph = result.graph(1.0)
    inner = np.array([node.kind not in ("token", "target") for node in graph.nodes])
    assert np.abs(graph.imbalance()[inner]).max() < 1e-9 * result.total_size()


class OneWay(Vectors):
    """A layer in which one step reads an operand in pieces; whatever else is read is of the last source."""

    def __init__(self, record: Any, scope: str, operand: str, pieces: Tensor) -> None:
        entering = torch.cat([torch.zeros_like(pieces), record.resid_pre[None]])
        super().__init__(record, entering)
        self.way, self.pieces = (scope, operand), pieces

    def read(self, step: Any, operand: str) -> Tensor:
        vectors = super().read(step, operand)
        if (step.scope, operand) != self.way:
            return vectors
        return vectors + torch.cat([self.pieces, -self.pieces.sum(dim=0)[None]])


def by_position(vectors: Tensor) -> Tensor:
    """Every position as a source of its own, [source pos d]."""
    return torch.eye(len(vectors), dtype=vectors.dtype)[..., None] * vectors


def head_vectors(record: Any) -> tuple[Tensor, Tensor]:
    """What heads write of each key's token [head query key d], and what they write in all [head query d]."""
    layer = Vectors(record, torch.cat([by_position(record.resid_pre), torch.zeros_like(record.resid_pre)[None]]))
    layer.walk()
    attention, read = record.block.attention, "InputLn" if "InputLn" in layer.at else "resid_pre"
    read_of_tokens = layer.at[read][:-1].sum(dim=0)
    w_v = attention.w_v.repeat_interleave(len(attention.w_o) // len(attention.w_v), 0)
    values = torch.einsum("kd,hde,hec->hkc", read_of_tokens, w_v, attention.w_o)
    whole = torch.einsum("khe,hec->hkc", record.head_values, attention.w_o)
    of_tokens = record.pattern[..., None] * values[:, None]
    return of_tokens, torch.einsum("hqk,hkc->hqc", record.pattern, whole)


def ways(record: Any, layer: int) -> Iterator[tuple[str, str, Tensor, list[tuple[Any, Any]]]]:
    """Step, operand and pieces of every kind of edge in a layer, with the nodes that each piece leads between."""
    program, n = PROGRAMS[record.block.order], len(record.resid_pre)
    before, mid, mlp, after = (
        [f"{name}@{p}" for p in range(n)]
        for name in (f"L{layer}.resid", f"L{layer}.resid_mid", f"L{layer}.mlp", f"L{layer + 1}.resid")
    )
    adds = [step for step in program if isinstance(step.operation, Add)]
    serial = record.block.order != "parallel"
    joined, then = (mid, mid) if serial else (after, before)

    of_tokens, of_heads = head_vectors(record)
    reader = next(step for step in program if "Attn" in step.operands)
    edges = [(before[k], f"L{layer}H{h}@{q}") for h in range(len(of_heads)) for q in range(n) for k in range(n)]
    at_query = torch.eye(n, dtype=of_tokens.dtype)[None, :, None, :, None] * of_tokens[..., None, :]
    yield reader.scope, "Attn", at_query.flatten(0, 2), edges
    heads = [(f"L{layer}H{h}@{q}", joined[q]) for h in range(len(of_heads)) for q in range(n)]
    yield reader.scope, "Attn", torch.cat([by_position(head) for head in of_heads]), heads
    yield adds[0].scope, "resid_pre", by_position(record.resid_pre), list(zip(before, joined, strict=True))

    feeds = [step for step in program if isinstance(step.operation, Feed)]
    norms = [step for step in program if isinstance(step.operation, Normalise) and step.operation.norm == "ff_norm"]
    walk = Vectors(record, by_position(record.resid_pre))
    (feed,) = norms or feeds
    yield feed.scope, feed.operation.of, by_position(walk.whole(feed.operation.of)), list(zip(then, mlp, strict=True))
    written = adds[-1].operation.left
    yield adds[-1].scope, written, by_position(record.whole[written]), list(zip(mlp, after, strict=True))
    if serial:
        yield adds[-1].scope, "Atb", by_position(record.whole["Atb"]), list(zip(mid, after, strict=True))


def output(layer: Vectors) -> Tensor:
    """Vectors of a layer's output."""
    order, at = layer.record.block.order, layer.walk()
    return at[{"post_ln": "AtbFfResLn", "norm_after": "AtbFfRes"}.get(order, "AtbLnFfRes")]


@pytest.mark.usefixtures("float64_throughout")
@pytest.mark.parametrize("family", FAMILIES)
def test_every_edge_is_what_vectors_carry_along_it(family: str) -> None:
    """A piece of what one step reads, pushed forward to a direction behind the last layer; and there are no other edges."""
    model, tokens, target = double(family), tiny.tokens(family, N), direction(-1, at=-2)
    with torch.no_grad(), ffb.capture(model) as captured:
        model(tokens[None])
    records = [captured[layer].sequence(0) for layer in captured]
    graph = ffb.attribute(model, tokens, target, of="graph").graph(1.0)
    expected: dict[tuple[Any, Any], float] = {}
    for layer, record in enumerate(records):
        pushed = [(ends, output(OneWay(record, *way))) for *way, ends in ways(record, layer)]
        pieces = torch.cat([vectors[:-1] for _, vectors in pushed])
        vectors = torch.cat([pieces, pushed[0][1].sum(dim=0)[None] - pieces.sum(dim=0)[None]])
        for later in records[layer + 1 :]:
            vectors = output(Vectors(later, vectors))
        all_ends = [pair for ends, _ in pushed for pair in ends]
        expected |= dict(zip(all_ends, (vectors[:-1, -2] @ target.vector).tolist(), strict=True))
    inner = {
        (graph.nodes[edge.source].label(), graph.nodes[edge.target].label()): edge.shares[0]
        for edge in graph.edges
        if graph.nodes[edge.source].kind != "token" and graph.nodes[edge.target].kind != "target"
    }
    size = max(map(abs, expected.values()))
    for ends in inner.keys() | expected.keys():
        assert abs(inner.get(ends, 0.0) - expected.get(ends, 0.0)) <= FORWARD_IS_BACKWARD * size, ends


@pytest.mark.parametrize("family", ["gpt2", "bert", "phi"])
def test_a_wrong_tensor_is_refused(family: str) -> None:
    """Each that a graph is made of, changed by a thousandth of its largest number: no graph."""
    result = ffb.attribute(double(family), tiny.tokens(family, N), DIFFERENCE, of="graph")
    result.graph()
    generator = torch.Generator().manual_seed(1)

    def changed(tensor: Tensor) -> Tensor:
        noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        return tensor + 1e-3 * tensor.abs().max() * noise

    wrong = [{"parts": {**result.parts, name: changed(part)}} for name, part in result.parts.items() if part.any()]
    wrong += [{name: changed(getattr(result, name))} for name in ("tokens", "residual", "bias_shares")]
    for fields in wrong:
        with pytest.raises(CompletenessError, match="differs from the named biases"):
            dataclasses.replace(result, **fields).graph()
    swapped = result.parts["heads"][:, [1, 0, 2, 3]]
    with pytest.raises(CompletenessError, match="layer 0: the intercept of each head"):
        dataclasses.replace(result, parts={**result.parts, "heads": swapped}).graph()


def test_a_graph_is_the_same_whatever_else_was_asked_for() -> None:
    """Neurons, edges and maps are parts of other shapes."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    alone, among = (
        ffb.attribute(model, tokens, ffb.logit(7), of=of).graph()
        for of in ("graph", ("heads", "edges", "neurons", "maps", "graph"))
    )
    assert alone == among
