"""Shapley values of a feed-forward: the laws that define them, and estimates against enumeration."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch


def game(coalitions: np.ndarray) -> np.ndarray:
    """Two outputs of four players: a product of the first two, and a weighted sum."""
    c = np.asarray(coalitions, dtype=float)
    return np.stack([c[:, 0] * c[:, 1], c @ np.array([1.0, 2.0, 0.0, -1.0])], axis=1)


def test_enumeration_by_hand() -> None:
    """A product is shared equally, a sum by its weights."""
    from tl_ffblock.experiments.kobayashi.shapley import exact_values

    np.testing.assert_allclose(exact_values(game, 4), [[0.5, 1], [0.5, 2], [0, 0], [0, -1]], atol=1e-14)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["sampling", "kernel"])
def test_estimates_with_all_coalitions_are_exact(kind: Any) -> None:
    """`shap` gives the same values when it may look at everything, and leaves numpy's generator alone."""
    pytest.importorskip("shap", reason="shap is not installed")
    from tl_ffblock.experiments.kobayashi.shapley import estimated_values, exact_values

    before = np.random.get_state()[1].tolist()
    np.testing.assert_allclose(estimated_values(kind, 2000, 0)(game, 4), exact_values(game, 4), atol=1e-6)
    assert np.random.get_state()[1].tolist() == before


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_shares_are_complete_and_near_integrated_gradients(loaded: Callable[[str], Any], family: str) -> None:
    """Parts and bias sum to the model's own vector; where the activation is near linear the two methods agree."""
    from tl_ffblock.bridge.capture import capture
    from tl_ffblock.experiments.kobayashi.shapley import ShapleyRun
    from tl_ffblock.layer.settings import Settings
    from tl_ffblock.layer.vectors import LayerWalk, walk

    model = loaded(family)
    with torch.no_grad(), capture(model, dtype=torch.float64) as records:
        model(torch.arange(5, 10)[None])
    record = records[1].sequence(0)
    settings = Settings(precision="float64")
    found, expected = (dict(walk(run(record, settings))) for run in (ShapleyRun, LayerWalk))
    scope = "AtbFf" if family == "bert" else "AtbLnFf"
    whole = record.whole[scope]
    assert (found[scope].total() - whole).norm() / whole.norm() < 1e-5
    gap = (found[scope].tokens - expected[scope].tokens).norm() / expected[scope].tokens.norm()
    assert 0 < gap < 0.3
