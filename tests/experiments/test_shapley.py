"""Shapley values of a feed-forward: the laws that define them, and estimates against enumeration."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from tl_ffblock.bridge.capture import capture
from tl_ffblock.experiments.kobayashi.attribution import (
    Estimate,
    ShapleyLayer,
    Slope,
    SlopedLayer,
    estimated_values,
    exact_values,
)
from tl_ffblock.layer.linear import LinearLayer, Parts
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


@pytest.mark.parametrize("slope", ["tangent", "mask"])
@pytest.mark.parametrize("family", ["bert", "llama", "opt"])
def test_approximations_have_their_slope_and_leave_the_rest_to_the_bias(
    loaded: Callable[[str], Any], family: str, slope: Slope
) -> None:
    """A token's part is the derivative along it, by central differences; sums are complete; with ReLU both are IG."""
    with torch.no_grad(), capture(loaded(family), dtype=torch.float64) as records:
        loaded(family)(torch.arange(5, 9)[None])
    record, settings = records[1].sequence(0), Settings(precision="float64")
    before, scope = ("Atb", "AtbFf") if family == "bert" else ("AtbLn", "AtbLnFf")
    exact, parts = LinearLayer(record, settings).parts(), SlopedLayer(record, settings, slope).parts()
    if family == "opt":  # exact parts are at the model's float32 pre-activations
        torch.testing.assert_close(parts[scope].tokens, exact[scope].tokens, rtol=1e-4, atol=1e-6)
        return
    assert not torch.allclose(parts[scope].tokens, exact[scope].tokens, rtol=1e-2, atol=1e-4)
    ff, whole = record.block.feed_forward, parts[before].total()

    def output(x: torch.Tensor, activation: Callable[[torch.Tensor], torch.Tensor]) -> torch.Tensor:
        linear = x @ ff.w_in + ff.b_in
        activated = activation(linear if ff.w_gate is None else x @ ff.w_gate + ff.b_gate)
        return (activated if ff.w_gate is None else activated * linear) @ ff.w_out

    torch.testing.assert_close(
        parts[scope].total(), output(whole, ACTIVATION[family]) + ff.b_out, rtol=1e-9, atol=1e-11
    )
    sloped = functional.relu if slope == "mask" else ACTIVATION[family]
    for key in range(3):
        step = 1e-6 * parts[before].tokens[:, key]
        expected = (output(whole + step, sloped) - output(whole - step, sloped)) / 2e-6
        torch.testing.assert_close(parts[scope].tokens[:, key], expected, rtol=1e-5, atol=1e-8)
