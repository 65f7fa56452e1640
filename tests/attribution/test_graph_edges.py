"""Every edge of a graph against vectors pushed forward through the layers, and every tensor it is made of against its laws."""

import dataclasses
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.forward_vectors import Vectors
from tests.tolerances import FORWARD_IS_BACKWARD

Models = Callable[..., Any]
N = 4
FAMILIES = ("gpt2", "llama", "bert", "gemma2", "olmo2", "phi", "gpt_neox", "mixtral")


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
    from tl_ffblock.layer.scopes import PROGRAMS, Add, Feed, Normalise

    program, n = PROGRAMS[record.block.order], len(record.resid_pre)
    before, mid, mlp, after = (
        [(kind, at, -1, p) for p in range(n)]
        for kind, at in (("stream", layer), ("mid", layer), ("mlp", layer), ("stream", layer + 1))
    )
    adds = [step for step in program if isinstance(step.operation, Add)]
    serial = record.block.order != "parallel"
    joined, then = (mid, mid) if serial else (after, before)

    of_tokens, of_heads = head_vectors(record)
    reader = next(step for step in program if "Attn" in step.operands)
    edges = [(before[k], ("head", layer, h, q)) for h in range(len(of_heads)) for q in range(n) for k in range(n)]
    at_query = torch.eye(n, dtype=of_tokens.dtype)[None, :, None, :, None] * of_tokens[..., None, :]
    yield reader.scope, "Attn", at_query.flatten(0, 2), edges
    heads = [(("head", layer, h, q), joined[q]) for h in range(len(of_heads)) for q in range(n)]
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
def test_every_edge_is_what_vectors_carry_along_it(ffb: ModuleType, model_of_any: Models, family: str) -> None:
    """A piece of what one step reads, pushed forward to a direction behind the last layer; and there are no other edges."""
    model, tokens = model_of_any(family, dtype=torch.float64), tiny.tokens(family, N)
    with torch.no_grad(), ffb.capture(model) as captured:
        model(tokens[None])
    records = [captured[layer].sequence(0) for layer in captured]
    direction = torch.randn(
        records[0].resid_pre.shape[-1], generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )
    graph = ffb.attribute(model, tokens, ffb.direction(direction, layer=-1, at=-2), of="graph").graph(1.0)
    expected: dict[tuple[Any, Any], float] = {}
    for layer, record in enumerate(records):
        pushed = [(ends, output(OneWay(record, *way))) for *way, ends in ways(record, layer)]
        pieces = torch.cat([vectors[:-1] for _, vectors in pushed])
        vectors = torch.cat([pieces, pushed[0][1].sum(dim=0)[None] - pieces.sum(dim=0)[None]])
        for later in records[layer + 1 :]:
            vectors = output(Vectors(later, vectors))
        all_ends = [pair for ends, _ in pushed for pair in ends]
        expected |= dict(zip(all_ends, (vectors[:-1, -2] @ direction).tolist(), strict=True))
    inner = {
        (graph.nodes[source], graph.nodes[target]): share
        for source, target, share in zip(graph.source, graph.target, graph.share, strict=True)
        if graph.nodes[source][0] != "token" and graph.nodes[target][0] != "target"
    }
    size = max(map(abs, expected.values()))
    for ends in inner.keys() | expected.keys():
        assert abs(inner.get(ends, 0.0) - expected.get(ends, 0.0)) <= FORWARD_IS_BACKWARD * size, ends


@pytest.mark.parametrize("family", ["gpt2", "bert", "phi"])
def test_a_wrong_tensor_is_refused(ffb: ModuleType, model_of_any: Models, difference: Any, family: str) -> None:
    """Each that a graph is made of, changed by a thousandth of its largest number: no graph."""
    model, tokens = model_of_any(family, dtype=torch.float64), tiny.tokens(family, N)
    result = ffb.attribute(model, tokens, difference, of="graph")
    result.graph()
    generator = torch.Generator().manual_seed(1)

    def changed(tensor: Tensor) -> Tensor:
        noise = torch.randn(tensor.shape, generator=generator, dtype=tensor.dtype)
        return tensor + 1e-3 * tensor.abs().max() * noise

    for name, tensor in result.parts.items():
        if tensor.any():
            with pytest.raises(ffb.errors.CompletenessError, match="brings itself misses the named biases"):
                dataclasses.replace(result, parts={**result.parts, name: changed(tensor)}).graph()
    for name in ("tokens", "residual", "bias_shares"):
        with pytest.raises(ffb.errors.CompletenessError, match="brings itself misses the named biases"):
            dataclasses.replace(result, **{name: changed(getattr(result, name))}).graph()
    swapped = result.parts["heads"][:, [1, 0, 2, 3]]
    with pytest.raises(ffb.errors.CompletenessError, match="layer 0: what each head brings itself"):
        dataclasses.replace(result, parts={**result.parts, "heads": swapped}).graph()
