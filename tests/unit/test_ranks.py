"""Rank correlation and shares of arrays."""

import math

import numpy as np
import pytest
import torch

from tl_ffblock.results.ranks import centred_ranks, others_of, rank_change, shares, shares_of_others, spearman


def test_only_the_chosen_cells_are_ranked() -> None:
    """A mask leaves out the cells that would turn the correlation round; arrays and tensors give the same."""
    first, second = torch.tensor([[1.0, 9.0], [2.0, 3.0]]), torch.tensor([[10.0, 0.0], [20.0, 30.0]])
    lower = torch.ones(2, 2).tril().bool()
    assert spearman(first, second, lower) == pytest.approx(1, abs=1e-12)
    assert spearman(first.numpy(), second.numpy(), lower.numpy()) == pytest.approx(1, abs=1e-12)
    # ranks 1 4 2 3 and 2 1 3 4: sum of d^2 = 1 + 9 + 1 + 1 = 12, rho = 1 - 6 * 12 / (4 * 15) = -0.2
    assert spearman(first, second) == pytest.approx(-0.2, abs=1e-12)
    assert rank_change(first, second) == pytest.approx(1.2, abs=1e-12)


def test_a_constant_has_no_correlation() -> None:
    """Where all cells are equal there is no ranking: NaN, not zero, and no warning."""
    assert math.isnan(spearman(torch.ones(3), torch.tensor([1.0, 2.0, 3.0])))
    assert math.isnan(rank_change(torch.ones(1), torch.ones(1)))


def test_half_precision_is_ranked_exactly() -> None:
    """numpy knows no bfloat16; ranks need no more digits than the values have."""
    values = torch.tensor([1.0, 3.0, 2.0], dtype=torch.bfloat16)
    assert spearman(values, values.float()) == pytest.approx(1, abs=1e-12)


def test_equal_values_share_their_ranks() -> None:
    """Ranks 1, 2.5, 2.5, 4 minus their mean 2.5."""
    np.testing.assert_array_equal(centred_ranks(np.array([5.0, 7.0, 7.0, 9.0])), [-1.5, 0, 0, 1.5])


def test_shares_sum_to_one_or_are_zero() -> None:
    """Columns, or rows, sum to 1; one that is all zeros stays so, in every leading map."""
    maps = torch.tensor([[[0.0, 1.0], [0.0, 3.0]], [[2.0, 0.0], [2.0, 1.0]]])
    torch.testing.assert_close(shares(maps).sum(-2), torch.tensor([[0.0, 1], [1, 1]]))
    torch.testing.assert_close(shares(maps, "row").sum(-1), torch.ones(2, 2))
    torch.testing.assert_close(shares(maps)[0], torch.tensor([[0.0, 0.25], [0.0, 0.75]]))


def test_a_row_is_shared_among_the_other_positions() -> None:
    """Rows of positions 2 and 0: what each takes from itself is left out, and the rest sums to 1."""
    maps = torch.tensor([[1.0, 3.0, 96.0], [90.0, 0.0, 0.0]])
    others = others_of(torch.ones(2, 3).bool(), (2, 0))
    assert others.tolist() == [[True, True, False], [False, True, True]]
    expected = torch.tensor([[0.25, 0.75, 0.0], [0.0, 0.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(shares_of_others(maps, others), expected)
