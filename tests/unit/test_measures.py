"""Measures that read maps, against numbers worked out by hand."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tl_ffblock import amplification, contextualization_change
from tl_ffblock.errors import InputError
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.ranks import others_of, rank_change, shares, shares_of_others, spearman
from tl_ffblock.results.tables import ScopeTable


def make(before: list[list[float]], after: list[list[float]], *, causal: bool = False, **changes: Any) -> Any:
    """A one-layer result with scopes Atb and AtbLn."""
    n = len(before[0])
    values = {"Atb": torch.tensor([before]), "AtbLn": torch.tensor([after])}
    rows = {scope: torch.zeros(1, len(before)) for scope in values}
    tables = {name: ScopeTable(rows, (0,)) for name in ("bias", "remainder", "completeness")}
    made = ContributionMaps(
        tokens=tuple("abcdef"[:n]),
        layers=(0,),
        order="pre_ln",
        queries=tuple(range(len(before))),
        causal=causal,
        values=ScopeTable(values, (0,)),
        **tables,
    )
    return dataclasses.replace(made, **changes)


def change(maps: Any, **options: Any) -> float:
    """The change between the two scopes."""
    return float(contextualization_change(maps, "Atb", "AtbLn", **options))


def test_structural_zeros_count_only_when_asked() -> None:
    """A causal map has six reachable cells of nine; the three zeros agree in every pair and shrink the change."""
    before = [[1.0, 0.0, 0.0], [2.0, 3.0, 0.0], [4.0, 5.0, 6.0]]
    after = [[6.0, 0.0, 0.0], [5.0, 4.0, 0.0], [3.0, 2.0, 1.0]]
    maps = make(before, after, causal=True)
    assert change(maps) == pytest.approx(2.0, abs=1e-12)
    # ranks of the six reachable cells 4..9 and 9..4, the zeros 2 2 2 in both; sums of products about the mean 5:
    # variance 3 * 9 + (1 + 0 + 1 + 4 + 9 + 16) = 58, covariance 27 + 2 * (-1 * 4 + 0 * 3 + 1 * 2) = 23
    assert change(maps, cells="all") == pytest.approx(1 - 23 / 58, abs=1e-12)
    assert change(dataclasses.replace(maps, causal=False)) == pytest.approx(1 - 23 / 58, abs=1e-12)


def test_reachable_cells_follow_the_queries_asked_for() -> None:
    """Row r is position queries[r], not r."""
    maps = make([[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]], [[1.0, 2.0, 3.0], [4.0, 0.0, 0.0]], causal=True, queries=(2, 0))
    assert maps.reachable().tolist() == [[True, True, True], [True, False, False]]


@pytest.mark.parametrize(("normalise", "axis"), [("column", 0), ("row", 1)])
def test_amplification_is_the_difference_of_normalised_maps(normalise: Any, axis: int) -> None:
    """Shares after minus shares before; over the normalised axis gains and losses cancel."""
    before, after = [[1.0, 3.0], [3.0, 1.0]], [[2.0, 0.0], [2.0, 8.0]]
    found = amplification(make(before, after), "Atb", "AtbLn", normalise=normalise)[0]
    torch.testing.assert_close(found.sum(axis), torch.zeros(2), rtol=0, atol=1e-7)
    first, second = torch.tensor(before), torch.tensor(after)
    expected = second / second.sum(axis, keepdim=True) - first / first.sum(axis, keepdim=True)
    torch.testing.assert_close(found, expected)


def test_change_agrees_with_scipy() -> None:
    """One minus what scipy calls Spearman's rho: of the same order, the reverse, one swap, and maps with ties."""
    from scipy.stats import spearmanr

    def draw(seed: int) -> Tensor:
        return torch.randint(0, 12, (6, 6), generator=torch.Generator().manual_seed(seed)).float()

    first = draw(0)
    assert change(make(first.tolist(), (10 * first).tolist())) == pytest.approx(0, abs=1e-12)
    for second in (draw(1), -first, first.roll(1), torch.arange(36.0).reshape(6, 6)):
        expected = 1 - spearmanr(first.flatten(), second.flatten()).statistic
        assert change(make(first.tolist(), second.tolist())) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("measure", [contextualization_change, amplification])
def test_measures_read_token_maps_and_no_differences(measure: Any) -> None:
    """Scopes as channels of token maps give the same numbers; signed numbers are no norms; a missing scope is named."""
    maps = make([[1.0, 0.0], [3.0, 4.0]], [[5.0, 0.0], [3.0, 2.0]], causal=True)
    torch.testing.assert_close(
        measure(maps.token_maps(), "Atb", "AtbLn"), measure(maps, "Atb", "AtbLn"), rtol=0, atol=0
    )
    with pytest.raises(InputError, match="difference"):
        measure(maps - maps, "Atb", "AtbLn")
    with pytest.raises(KeyError, match="'AtbFf'.* Atb, AtbLn"):
        measure(maps, "Atb", "AtbFf")


def test_what_cannot_be_normalised_or_ranked() -> None:
    """Columns of which rows are missing are refused; a single cell has no ranking: NaN, not zero."""
    with pytest.raises(InputError, match="1 of 2"):
        amplification(make([[1.0, 2.0]], [[1.0, 2.0]]), "Atb", "AtbLn")
    assert change(make([[1.0]], [[2.0]])) != change(make([[1.0]], [[2.0]]))


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
