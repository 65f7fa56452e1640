"""Neurons of a cell: what each carries is what a slow integral over every neuron's own path gives, on every family."""

from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.errors import CompletenessError, UnsupportedModelError
from tl_ffblock.layer.activations import ClampedGate
from tl_ffblock.layer.scopes import feed_step

N, LAYER, QUERY = 5, 1, 4
QUADRATURE = dict(rtol=1e-6, atol=1e-9)
"""float64, 60 Gauss-Legendre nodes on smooth paths."""


def slow_shares(parts: Any, ff: Any) -> tuple[Tensor, Tensor]:
    """Integrated Gradients by quadrature: of every neuron's output the share of each token, then of the bias [player neuron].

    Each player moves every pre-activation by its own part; the gradient of the output is taken by autograd at every node.
    """
    players = torch.cat([parts.tokens[0], parts.bias[:1]])
    weights = [(ff.w_in, ff.b_in)] if ff.w_gate is None else [(ff.w_gate, ff.b_gate), (ff.w_in, ff.b_in)]
    inputs = []
    for weight, bias in weights:
        of_players = players @ weight
        of_players[-1] += bias
        inputs.append(of_players)
    totals = [of_players.sum(dim=0) for of_players in inputs]
    nodes, node_weights = np.polynomial.legendre.leggauss(60)
    shares = torch.zeros_like(inputs[0])
    ends = kinks(ff.activation, totals)
    for start, end in pairwise(ends):
        for node, weight in zip((nodes + 1) / 2, node_weights / 2, strict=True):
            at = [((start + (end - start) * node) * total).requires_grad_() for total in totals]
            output = ff.activation.output(at[0], at[1] if len(at) > 1 else None)
            for of_players, slope in zip(inputs, torch.autograd.grad(output.sum(), at), strict=True):
                shares += (end - start) * weight * of_players * slope
    zero = [torch.zeros_like(total) for total in totals]
    shares[-1] += ff.activation.output(zero[0], zero[1] if len(zero) > 1 else None)
    whole = ff.activation.output(totals[0], totals[1] if len(totals) > 1 else None)
    return shares, whole


def kinks(activation: Any, totals: list[Tensor]) -> list[Tensor]:
    """Where on each neuron's path the quadrature begins anew: at its ends, and where a clamped activation reaches its limit."""
    ends = [torch.zeros_like(totals[0]), torch.ones_like(totals[0])]
    if isinstance(activation, ClampedGate):
        ends += [(activation.limit / totals[0].clamp(min=1e-9)).clamp(max=1)]
        ends += [(activation.limit / totals[1].abs()).clamp(max=1)]
    return list(torch.stack(ends).sort(dim=0).values)


@pytest.mark.usefixtures("float64_throughout")
def test_neurons_are_what_a_slow_integral_gives(any_family: str) -> None:
    """Coefficients, tokens' shares and signed shares of every neuron, and both laws; experts by their number."""
    model, tokens = model_of(any_family, torch.float64), tiny.tokens(any_family, N)
    found = ffb.neurons(model, tokens, layer=LAYER, query=QUERY)
    run = ffb.Contributions(model, tokens, layers=[LAYER])
    record, decomposition = run.record(LAYER).rows(torch.tensor([QUERY])), run.decomposition(LAYER)[0]
    step = feed_step(record.block.order)
    scope, (operand,) = step.scope, step.operands

    class Players:
        tokens = decomposition.parts(operand)[QUERY : QUERY + 1]
        bias = decomposition.bias(operand)[QUERY : QUERY + 1]

    ff = record.block.feed_forward
    experts = ff if isinstance(ff, tuple) else (ff,)
    vectors = decomposition.parts(scope)[QUERY]
    total = torch.zeros_like(vectors)
    for number, expert in enumerate(experts):
        weight = 1.0 if record.routing is None else float(record.routing[0, number])
        mine = torch.tensor([len(experts) == 1 or name.split(":")[1] == str(number) for name in found.names])
        if weight == 0:
            assert not mine.any()
            continue
        players = Players
        if expert.scaled_input:  # the router's weight multiplies what the expert reads
            players = SimpleNamespace(tokens=weight * Players.tokens, bias=weight * Players.bias)
            weight = 1.0
        shares, whole = slow_shares(players, expert)
        if any_family == "bitnet":  # a norm before W_out, its scale a constant
            norm = model.blocks[LAYER].mlp.original_component.ffn_sub_norm
            shares *= norm.weight.detach() / (whole.square().mean() + norm.variance_epsilon).sqrt()
            whole = norm(whole).detach()
        torch.testing.assert_close(found.token_shares[0][:, mine], weight * shares[:-1], **QUADRATURE)
        torch.testing.assert_close(found.bias_shares[0][mine], weight * shares[-1], **QUADRATURE)
        torch.testing.assert_close(found.coefficients[0][mine], weight * whole, **QUADRATURE)
        total += weight * shares[:-1] @ expert.w_out
        for key in range(N):
            norm = vectors[key].norm()
            direction = vectors[key] / norm if norm > 0 else vectors[key]
            expected = torch.stack(
                [weight * shares[key, n] * (expert.w_out[n] @ direction) for n in range(len(expert.w_out))]
            )
            torch.testing.assert_close(found.shares[0, key, mine], expected, **QUADRATURE)
    torch.testing.assert_close(total, vectors, **QUADRATURE)
    maps = ffb.contribution_maps(model, tokens, layers=LAYER, scopes=scope, queries=QUERY)
    torch.testing.assert_close(found.shares.sum(dim=-1), maps[scope, LAYER], rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(found.token_shares.sum(dim=1) + found.bias_shares, found.coefficients, **QUADRATURE)
    assert float(found.coefficient_error.max()) < 1e-6
    assert float(found.share_error.max()) < 1e-9


def test_many_cells_are_each_alone() -> None:
    """Rows, keys and prompts asked for together, by number or by name: each cell as if asked for alone."""
    model = model_of("mixtral", torch.float64)
    prompts = torch.stack([tiny.tokens("mixtral", N, seed=seed) for seed in range(3)])
    together = ffb.neurons(model, prompts, layer=-1, query=[3, -1], key=[2, 0])
    named = ffb.neurons(
        model, prompts, layer=-1, query=["S", "END"], key="IO", positions={"IO": [2, 2, 2], "S": 3, "END": -1}
    )
    for number, found in enumerate(together):
        assert (found.queries, found.keys) == ((3, 4), (2, 0))
        names = found.names
        for row, query in enumerate(found.queries):
            for column, key in enumerate(found.keys):
                alone = ffb.neurons(model, prompts[number], layer=-1, query=query, key=key)
                own = [names.index(name) for name in alone.names]
                torch.testing.assert_close(found.shares[row, column, own], alone.shares[0, 0])
                others = [n for n in range(len(names)) if n not in own]
                assert (found.shares[row, column, others] == 0).all()
        torch.testing.assert_close(named[number].shares, found.shares[:, :1])
    assert all(len(name.split(":")) == 3 for name in together[0].names)


def test_the_table_names_the_largest() -> None:
    """k neurons of each cell, largest share first, with the numbers of the tensors; the short form shows the laws."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)
    found = ffb.neurons(model, tokens, layer=0, query=[2, 4], key=[0, 1], k=3)
    table = found.to_dataframe()
    assert len(table) == 2 * 2 * 3
    assert len(found.to_dataframe(k=1)) == 4
    cell = table[(table["query"] == 4) & (table["key"] == 1)]
    largest = found.shares[1, 1].abs().sort(descending=True)
    np.testing.assert_allclose(cell["share"].abs(), largest.values[:3])
    assert list(cell["neuron"]) == [f"0:{n}" for n in largest.indices[:3].tolist()]
    np.testing.assert_allclose(cell["token_share"], found.token_shares[1, 1, largest.indices[:3]])
    np.testing.assert_allclose(cell["coefficient"], found.coefficients[1, largest.indices[:3]])
    assert "worst sum of shares error " in repr(found)
    assert cell["neuron"].iloc[0] in repr(found) or "..." in repr(found)


@pytest.mark.usefixtures("float64_throughout")
def test_an_edit_is_no_neurons() -> None:
    """What a user's hook adds to the pre-activations is the bias' and remainder's share, so that the laws hold in the edited run."""
    model, tokens = model_of("llama", torch.float64), tiny.tokens("llama", N)
    plain = ffb.neurons(model, tokens, layer=0, query=4)
    hooks = [("blocks.0.mlp.hook_pre", lambda tensor, hook: tensor + 0.3)]
    edited = ffb.neurons(model, tokens, layer=0, query=4, fwd_hooks=hooks)
    assert not torch.allclose(plain.coefficients, edited.coefficients)
    torch.testing.assert_close(edited.token_shares.sum(dim=1) + edited.bias_shares, edited.coefficients, **QUADRATURE)


def test_what_has_no_neurons_is_refused() -> None:
    """Layers without feed-forward, a tolerance not met; wrong arguments: test_odd_calls."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    ffb.neurons(model, tokens, layer=0, query=-1)  # the model's equations are checked once, with its own tolerance
    with pytest.raises(CompletenessError, match="layer 0"):
        ffb.neurons(model, tokens, layer=0, query=-1, rtol=1e-12)
    with pytest.raises(UnsupportedModelError, match="has no feed-forward"):
        feed_step("attn_only")
