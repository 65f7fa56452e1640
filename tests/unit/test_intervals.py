"""Intervals over prompts are scipy's."""

import numpy as np
import pytest
import torch
from scipy import stats

from tl_ffblock.results.intervals import bootstrap_weights, mean_interval

N_PROMPTS, N_DRAWS, SEED = 12, 400, 3


@pytest.fixture
def values() -> torch.Tensor:
    """One number a prompt for each of 3 x 2 cells."""
    return torch.randn(N_PROMPTS, 3, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def test_the_percentile_interval_is_scipys(values: torch.Tensor) -> None:
    """Same seed, same draws, same ends; the mean is numpy's."""
    theirs = stats.bootstrap(
        (values.numpy(),),
        np.mean,
        axis=0,
        n_resamples=N_DRAWS,
        method="percentile",
        rng=np.random.default_rng(SEED),
    ).confidence_interval
    ours = mean_interval(values, n_draws=N_DRAWS, seed=SEED)
    np.testing.assert_allclose(ours.mean.numpy(), values.numpy().mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(ours.low.numpy(), theirs.low, rtol=1e-9)
    np.testing.assert_allclose(ours.high.numpy(), theirs.high, rtol=1e-9)
    assert (ours.counts == N_PROMPTS).all()


def test_a_difference_of_the_same_prompts_is_paired(values: torch.Tensor) -> None:
    """What all prompts share cancels: the interval of a difference is as narrow as the difference itself varies."""
    shared = 100 * torch.randn(N_PROMPTS, 1, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    apart = mean_interval((values + shared) - shared, n_draws=N_DRAWS, seed=SEED)
    alone = mean_interval(values, n_draws=N_DRAWS, seed=SEED)
    torch.testing.assert_close(apart.low, alone.low, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(apart.high, alone.high, rtol=1e-9, atol=1e-9)


def test_a_prompt_without_the_cell_is_left_out(values: torch.Tensor) -> None:
    """The mean is that of the others; of one prompt there is no interval, of none no mean; other cells are as before."""
    values[2:, 0, 0] = float("nan")
    values[1:, 0, 1] = float("nan")
    values[:, 1, 0] = float("nan")
    found = mean_interval(values, n_draws=N_DRAWS, seed=SEED)
    assert found.counts.tolist() == [[2, 1], [0, N_PROMPTS], [N_PROMPTS, N_PROMPTS]]
    assert float(found.mean[0, 0]) == pytest.approx(float(values[:2, 0, 0].mean()))
    low, high = sorted(values[:2, 0, 0].tolist())
    assert float(found.low[0, 0]) == pytest.approx(low)
    assert float(found.high[0, 0]) == pytest.approx(high)
    assert float(found.mean[0, 1]) == float(values[0, 0, 1])
    assert found.low.isnan().tolist() == [[False, True], [True, False], [False, False]]
    assert found.high.isnan().equal(found.low.isnan())
    assert bool(found.mean[1, 0].isnan())
    alone = mean_interval(values[:, 2, 1], n_draws=N_DRAWS, seed=SEED)
    assert float(alone.low) == pytest.approx(float(found.low[2, 1]))


def test_every_draw_takes_as_many_prompts_as_there_are() -> None:
    """With replacement, all prompts equally often in the long run."""
    weights = bootstrap_weights(N_PROMPTS, 5000, SEED)
    assert (weights.sum(axis=1) == N_PROMPTS).all()
    np.testing.assert_allclose(weights.mean(axis=0), 1, atol=0.06)
