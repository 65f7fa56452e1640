"""Shapley values of a feed-forward: the laws that define them, and estimates against enumeration."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tl_ffblock.bridge.capture import capture
from tl_ffblock.experiments.kobayashi.attribution import Estimate, ShapleyLayer, estimated_values, exact_values
from tl_ffblock.layer.linear import Parts
from tl_ffblock.layer.records import FeedForward, Settings


def game(coalitions: np.ndarray) -> np.ndarray:
    """Two outputs of four players: a product of the first two, and a weighted sum."""
    c = np.asarray(coalitions, dtype=float)
    return np.stack([c[:, 0] * c[:, 1], c @ np.array([1.0, 2.0, 0.0, -1.0])], axis=1)


def test_enumeration_by_hand() -> None:
    """A product is shared equally, a sum by its weights."""
    np.testing.assert_allclose(exact_values(game, 4), [[0.5, 1], [0.5, 2], [0, 0], [0, -1]], atol=1e-14)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sampling", "kernel"])
def test_estimates_with_all_coalitions_are_exact(kind: Estimate) -> None:
    """`shap` gives the same values when it may look at everything, and leaves numpy's generator alone."""
    pytest.importorskip("shap", reason="shap is not installed")
    before = np.random.get_state()[1].tolist()
    np.testing.assert_allclose(estimated_values(kind, 2000, 0)(game, 4), exact_values(game, 4), atol=1e-6)
    assert np.random.get_state()[1].tolist() == before


ACTIVATION = {"bert": functional.gelu, "llama": functional.silu}


def by_permutations(ff: FeedForward, before: Parts, query: int, family: str) -> torch.Tensor:
    """Shapley values by their definition, [key d_model]: what a part adds on entering, averaged over all orders."""
    players = torch.cat([before.tokens[query], before.bias[query][None]])

    def pre_activation(weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        own = players @ weight
        own[-1] += bias
        return own

    linear = pre_activation(ff.w_in, ff.b_in)
    gate = linear if ff.w_gate is None else pre_activation(ff.w_gate, ff.b_gate)

    def worth(inside: list[int]) -> torch.Tensor:
        activated = ACTIVATION[family](gate[inside].sum(0))
        return (activated if ff.w_gate is None else activated * linear[inside].sum(0)) @ ff.w_out

    orders = list(itertools.permutations(range(len(players))))
    shares = torch.zeros_like(players)
    for order in orders:
        for i, player in enumerate(order):
            shares[player] += worth([*order[: i + 1]]) - worth([*order[:i]])
    return shares[:-1] / len(orders)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_a_layer_is_shared_as_the_definition_says(loaded: Callable[[str], Any], family: str) -> None:
    """The parts after the feed-forward are averages over all orders of entering; with the bias part they are complete."""
    model = loaded(family)
    with torch.no_grad(), capture(model, dtype=torch.float64) as records:
        model(torch.arange(5, 9)[None])
    record = records[1].sequence(0)
    parts = ShapleyLayer(record, Settings(precision="float64")).parts()
    before, scope = ("Atb", "AtbFf") if family == "bert" else ("AtbLn", "AtbLnFf")
    expected = by_permutations(record.block.feed_forward, parts[before], 3, family)
    torch.testing.assert_close(parts[scope].tokens[3], expected, rtol=1e-9, atol=1e-11)
    whole = record.whole[scope]
    assert (parts[scope].total() - whole).norm() / whole.norm() < 1e-5
