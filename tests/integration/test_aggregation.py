"""Rollout, attention flow, ALTI and GlobEnc, against graphs worked out by hand and the published formulas written here once more."""

from collections.abc import Callable
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tl_ffblock import aggregation
from tl_ffblock.errors import CompletenessError, InputError, ScopeKeyError, UnsupportedModelError

N = 6


def attention(weights: list[Any] | Tensor, **changes: Any) -> ffb.TokenMaps:
    """Maps of heads [layer head query key]."""
    values = torch.as_tensor(weights, dtype=torch.float64)
    return ffb.TokenMaps.from_attention(list(values), [f"t{i}" for i in range(values.shape[-1])], **changes)


def drawn(layers: int, heads: int, n: int, *, causal: bool = False, seed: int = 0) -> ffb.TokenMaps:
    """Random attention."""
    scores = 2 * torch.randn(layers, heads, n, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    hidden = torch.ones(n, n, dtype=torch.bool).triu(1) if causal else torch.zeros(n, n, dtype=torch.bool)
    return attention(scores.masked_fill(hidden, -torch.inf).softmax(dim=-1))


def test_two_layers_worked_out_by_hand() -> None:
    """Two tokens. Rollout multiplies shares along both paths; of a flow the narrower edge of each path counts."""
    first, second = [[1.0, 0.0], [0.5, 0.5]], [[0.5, 0.5], [0.0, 1.0]]
    maps = attention([[first], [second]])
    # 0.5 W + 0.5 I: [[1, 0], [1/4, 3/4]], then [[3/4, 1/4], [0, 1]]
    found = aggregation.rollout(maps)
    assert found["rollout", 0].tolist() == [[1, 0], [0.25, 0.75]]
    assert found["rollout", 1].tolist() == [[0.75 + 0.25 * 0.25, 0.25 * 0.75], [0.25, 0.75]]
    flow = aggregation.attention_flow(maps)
    assert flow.layers == (1,) and flow.kind == "flow of attention"
    # from token 0: min(3/4, 1) + min(1/4, 1/4) to token 0, min(1/4, 3/4) to token 1
    torch.testing.assert_close(flow["flow", 1], torch.tensor([[1, 0.25], [0.25, 0.75]], dtype=torch.float64))
    raw = aggregation.rollout(maps, residual=0)
    assert raw["rollout", -1].tolist() == [[0.75, 0.25], [0.5, 0.5]]


@pytest.mark.parametrize("causal", [True, False])
def test_rollout_is_the_sum_over_all_paths(causal: bool) -> None:
    """Every path from a token to a position, by the product of its edges; later tokens stay unreachable; rows sum to 1."""
    maps = drawn(3, 2, 4, causal=causal)
    steps = (maps.values.mean(dim=1) + torch.eye(4)) / 2
    found = aggregation.rollout(maps)["rollout", 2]
    for query in range(4):
        for key in range(4):
            paths = [steps[2, query, b] * steps[1, b, a] * steps[0, a, key] for a in range(4) for b in range(4)]
            assert float(found[query, key]) == pytest.approx(float(sum(paths)), abs=1e-15)
    assert not causal or not found.triu(1).any()
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(4, dtype=torch.float64))


def smallest_cut(steps: Tensor, query: int, key: int) -> float:
    """Over all sets of nodes with the source and without the sink: what leads out of the smallest."""
    n_layers, n, _ = steps.shape
    nodes = [(layer, place) for layer in range(n_layers + 1) for place in range(n)]
    source, sink = (n_layers, query), (0, key)
    others = [node for node in nodes if node not in (source, sink)]
    edges = {
        ((layer + 1, i), (layer, j)): float(steps[layer, i, j])
        for layer in range(n_layers)
        for i in range(n)
        for j in range(n)
    }
    sets = ({source, *chosen} for size in range(len(others) + 1) for chosen in combinations(others, size))
    return min(sum(c for (start, end), c in edges.items() if start in near and end not in near) for near in sets)


def test_a_flow_is_the_smallest_cut() -> None:
    """Of all 128 sets of nodes, for every cell; it is never below the rollout, and only some queries are some rows."""
    maps = drawn(2, 2, 3, seed=3)
    steps = (maps.values.mean(dim=1) + torch.eye(3)) / 2
    flow = aggregation.attention_flow(maps, layers=None)
    for query in range(3):
        for key in range(3):
            expected = smallest_cut(steps, query, key)
            assert float(flow["flow", 1][query, key]) == pytest.approx(expected, abs=1e-8)
    torch.testing.assert_close(flow["flow", 0], steps[0], rtol=0, atol=1e-9)
    assert bool((flow.values >= aggregation.rollout(maps).values - 1e-8).all())
    some = aggregation.attention_flow(maps, queries=[-1, 0])
    assert some.queries == (2, 0)
    assert torch.equal(some["flow", 1], flow["flow", 1][[2, 0]])


@pytest.mark.parametrize("lost", [1, -1])
def test_a_flow_that_is_not_the_maximum_is_refused(lost: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One unit too few or too many: no cut is as small."""
    maximum = aggregation.maximum_flow

    def wrong(*given: Any) -> Any:
        right = maximum(*given)
        return SimpleNamespace(flow=right.flow, flow_value=right.flow_value - lost)

    monkeypatch.setattr(aggregation, "maximum_flow", wrong)
    with pytest.raises(CompletenessError, match="is not the maximum"):
        aggregation.attention_flow(drawn(2, 1, 3))


def attention_blocks(tokens: Tensor) -> list[tuple[Tensor, Tensor, Any]]:
    """Of a tiny BERT in float64 by Hugging Face's modules: vectors `F_i(x_j)` with b_V in them, y_i, and what scales the last norm."""
    model = tiny.hf_model("bert", dtype=torch.float64)
    with torch.no_grad():
        out = model(tokens[None], output_attentions=True, output_hidden_states=True)
        layers = []
        for number, layer in enumerate(model.bert.encoder.layer):
            x, weights = out.hidden_states[number][0], out.attentions[number][0]
            own, after, norm = layer.attention.self, layer.attention.output, layer.attention.output.LayerNorm
            heads = len(weights)
            v = own.value(x).reshape(len(x), heads, -1)
            w_o = after.dense.weight.reshape(-1, heads, v.shape[-1])
            parts = torch.einsum("hij,jhe,dhe->ijd", weights, v, w_o)
            parts[range(len(x)), range(len(x))] += x
            before = parts.sum(dim=1) + after.dense.bias
            centred, scale = parts - parts.mean(-1, keepdim=True), (before.var(-1, correction=0) + norm.eps).sqrt()
            y = norm(before)
            last = layer.output.LayerNorm
            z = layer.output.dense(layer.intermediate(y)) + y
            torch.testing.assert_close(last(z), out.hidden_states[number + 1][0])
            layers.append(
                (
                    centred / scale[:, None, None] * norm.weight,
                    y,
                    ((z.var(-1, correction=0) + last.eps).sqrt(), last.weight),
                )
            )
    return layers


def alti_of(parts: Tensor, y: Tensor, _: Any) -> Tensor:
    near = (y.abs().sum(-1)[:, None] - (y[:, None] - parts).abs().sum(-1)).clamp(min=0)
    return near / near.sum(-1, keepdim=True)


def globenc_of(parts: Tensor, y: Tensor, last: Any) -> Tensor:
    scale, gain = last
    norms = ((parts - parts.mean(-1, keepdim=True)) / scale[:, None, None] * gain).norm(dim=-1)
    return norms / norms.sum(-1, keepdim=True)


@pytest.mark.parametrize(("name", "formula"), [("alti", alti_of), ("globenc", globenc_of)])
def test_the_published_formulas_from_the_weights_of_hugging_face(name: str, formula: Callable[..., Tensor]) -> None:
    """Layer by layer and multiplied, with b_V in the token's part as in the authors' programs."""
    tokens, aggregated = tiny.tokens("bert", N), getattr(aggregation, name)
    expected = torch.stack([formula(*layer) for layer in attention_blocks(tokens)])
    model, product = tiny.bridge("bert", dtype=torch.float64), torch.eye(N, dtype=torch.float64)
    found = aggregated(model, tokens, by_layer=True, value_bias="token")
    torch.testing.assert_close(found.values[:, 0], expected, rtol=1e-9, atol=1e-12)
    for layer, matrix in enumerate(expected):
        product = matrix @ product
        whole = aggregated(model, tokens, value_bias="token")
        torch.testing.assert_close(whole.values[layer, 0], product, rtol=1e-9, atol=1e-12)
    assert not torch.allclose(aggregated(model, tokens).values, whole.values)


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "gpt_neox", "olmo2"])
def test_alti_of_every_order_reads_the_attention_block(family: str) -> None:
    """From the vectors of `decompose`, cell by cell; what a position cannot see has no share."""
    model, tokens = tiny.bridge(family, dtype=torch.float64), tiny.tokens(family, N)
    found = aggregation.alti(model, tokens, by_layer=True)
    for layer in found.layers:
        vectors = ffb.decompose(model, tokens, layer=layer)
        parts, whole = vectors.parts("Atb"), vectors.whole("Atb")
        for query in range(N):
            row = [
                max(0.0, float(whole[query].abs().sum() - (whole[query] - parts[query, key]).abs().sum()))
                for key in range(N)
            ]
            expected = torch.tensor(row, dtype=torch.float64) / sum(row)
            torch.testing.assert_close(found[found.channels[0], layer][query], expected, rtol=1e-8, atol=1e-12)
    assert not found.values.triu(1).any()


def test_maps_of_whole_layers_are_rolled_out_without_a_second_residual() -> None:
    """Rows of contributions are scaled to 1 and multiplied; another scope, or attention by value, are named or have a residual."""
    model, tokens = tiny.bridge("llama"), tiny.tokens("llama", N)
    maps = ffb.contribution_maps(model, tokens)
    product = torch.eye(N, dtype=torch.float64)
    for layer in maps["AtbLnFfRes"].double():
        product = layer / layer.sum(dim=-1, keepdim=True) @ product
    found = aggregation.rollout(maps)
    torch.testing.assert_close(found["rollout", -1], product)
    assert found.kind == "rollout of contributions" and not found.values.triu(1).any()
    assert found == aggregation.rollout(maps.token_maps("AtbLnFfRes")) != aggregation.rollout(maps, "Atb")
    weighted = ffb.attention_maps(model, tokens, kind="value-weighted")
    mean = weighted.values.mean(dim=1).double()[0]
    expected = mean / mean.sum(dim=-1, keepdim=True) / 2 + torch.eye(N) / 2
    torch.testing.assert_close(aggregation.rollout(weighted)["rollout", 0], expected)
    one_head = aggregation.rollout(weighted, "head 2", residual=0)["rollout", 0]
    torch.testing.assert_close(one_head, (w := weighted["head 2", 0].double()) / w.sum(-1, keepdim=True))


MAPS = {
    "signed": lambda m, x: (lambda maps: maps - maps)(ffb.contribution_maps(m, x)),
    "some queries": lambda m, x: ffb.attention_maps(m, x, queries=[1, 2]),
    "two layers of three": lambda m, x: ffb.attention_maps(m, x, layers=[0, 2]),
    "scopes": lambda m, x: ffb.contribution_maps(m, x).token_maps(["Atb", "AtbLn"]),
    "heads": lambda m, x: ffb.contribution_maps(m, x, heads=True).token_maps("Atb", heads=True),
    "attention": ffb.attention_maps,
    "an empty row": lambda m, x: attention([[[[0.0, 0.0], [0.5, 0.5]]]]),
}


@pytest.mark.parametrize(
    ("maps", "options", "says"),
    [
        ("signed", {}, "without negative values or NaN"),
        ("some queries", {}, "queries 1, 2 of 6 tokens"),
        ("two layers of three", {}, "layers 0, 2: expected consecutive layers"),
        ("scopes", {}, "several maps per layer .Atb, AtbLn.: pass one of them as channel="),
        ("heads", {"channel": "head 1"}, "pass the weight of the residual connection"),
        ("attention", {"residual": 1.5}, "residual=1.5: expected a finite number, at least 0 and at most 1"),
        ("attention", {"channel": "Atb"}, "no channel 'Atb'"),
        ("an empty row", {}, "layer 0, query 0: the row is zero"),
    ],
)
def test_what_has_no_rows_of_shares_is_refused(maps: str, options: dict[str, Any], says: str) -> None:
    """In a sentence that says what is expected."""
    given = MAPS[maps](tiny.bridge("gpt2"), tiny.tokens("gpt2", N))
    for aggregated in (aggregation.rollout, aggregation.attention_flow):
        with pytest.raises((InputError, ScopeKeyError), match=says):
            aggregated(given, **options)


def test_globenc_is_of_post_ln_encoders() -> None:
    """Another order is refused, with what to call."""
    with pytest.raises(UnsupportedModelError, match=r"pre_ln model: GlobEnc is defined for Post-LN.*rollout\("):
        aggregation.globenc(tiny.bridge("gpt2"), tiny.tokens("gpt2", N))
