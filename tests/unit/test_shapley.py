"""Integrated Gradients against Shapley values by enumeration: which laws they share, where they agree.

Shapley's value of a player is its marginal contribution averaged over all orders of arrival; Integrated Gradients
is Aumann and Shapley's, the same for infinitely divisible players. They coincide where the output is linear or
quadratic in the players on all coalitions (an active ReLU, a squared ReLU, a product without activation), not otherwise.
"""

import itertools
import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.tolerances import ALGEBRA
from tl_ffblock.layer.activations import recognise

Elementwise = Callable[[Tensor], Tensor]


def shapley(value: Callable[[Tensor], Tensor], n: int) -> Tensor:
    """Shapley values [player] of a game that maps a membership vector [n] to its worth."""
    worth = {who: value(torch.tensor(who, dtype=torch.float64)) for who in itertools.product((0, 1), repeat=n)}
    shares = torch.zeros(n, dtype=torch.float64)
    for player in range(n):
        for who, before in worth.items():
            if not who[player]:
                size = sum(who)
                weight = math.factorial(size) * math.factorial(n - size - 1) / math.factorial(n)
                shares[player] += weight * (worth[(*who[:player], 1, *who[player + 1 :])] - before)
    return shares


def integrated(function: Elementwise, pre: Tensor, linear: Tensor | None = None) -> Tensor:
    """The library's share of each player [player]."""
    total = None if linear is None else linear.sum()
    shares = recognise(function, "here").coefficients(pre.sum(), total)
    return pre * shares.on_pre + (0 if linear is None else linear * shares.on_linear)


def both(function: Elementwise, pre: Tensor, linear: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Integrated Gradients and Shapley values of out = g(pre) or g(pre) * linear."""

    def worth(who: Tensor) -> Tensor:
        out = function((who * pre).sum())
        return out if linear is None else out * (who * linear).sum()

    return integrated(function, pre, linear), shapley(worth, len(pre))


def players(n: int, seed: int = 0, *, positive: bool = False) -> Tensor:
    """Random players, mixed signs unless all are to be positive."""
    drawn = torch.randn(n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return drawn.abs() if positive else drawn


@pytest.mark.parametrize("n", [1, 2, 5, 8])
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("function", [nn.functional.gelu, nn.functional.silu, torch.relu, nn.functional.softplus])
def test_shared_laws(function: Elementwise, gated: bool, n: int) -> None:
    """Both are complete, give equal players equal shares and a player of zero nothing."""
    pre, linear = players(n), players(n, 1) if gated else None
    for vector in (pre, linear):
        if vector is not None and n >= 5:
            vector[1] = vector[0]
            vector[2] = 0
    end = function(pre.sum()) * (1 if linear is None else linear.sum())
    start = function(torch.zeros((), dtype=torch.float64)) * (1 if linear is None else 0)
    for shares in both(function, pre, linear):
        torch.testing.assert_close(shares.sum(), end - start, **ALGEBRA)
        if n >= 5:
            torch.testing.assert_close(shares[0], shares[1], **ALGEBRA)
            torch.testing.assert_close(shares[2], torch.zeros_like(shares[2]), **ALGEBRA)


@pytest.mark.parametrize(
    ("function", "gated", "positive", "agree"),
    [
        (torch.relu, False, True, True),
        (lambda s: torch.relu(s) ** 2, False, True, True),
        (lambda s: 1.0 * s, False, False, True),
        (lambda s: 1.0 * s, True, False, True),
        (torch.relu, True, True, True),
        (nn.functional.gelu, False, False, False),
        (torch.relu, False, False, False),
        (nn.functional.silu, True, False, False),
    ],
)
def test_they_agree_up_to_second_degree(function: Elementwise, gated: bool, positive: bool, agree: bool) -> None:
    """On linear and quadratic pieces; across a kink or a curve of higher order they differ by more than 1 % of the output here."""
    pre = players(8, 0 if agree else 3, positive=positive)
    found, expected = both(function, pre, players(8, 1, positive=positive) if gated else None)
    if agree:
        torch.testing.assert_close(found, expected, **ALGEBRA)
    else:
        assert (found - expected).abs().max() > 0.01 * expected.sum().abs()
