"""Linear steps on a vector written as a sum."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from tests.tolerances import ALGEBRA
from tl_ffblock.layer.linear import Parts, attend, normalise, project, reconcile, residual, weigh
from tl_ffblock.layer.records import Norm

N, D = 5, 7


def draw(*shape: int, seed: int = 0) -> Tensor:
    """Random numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.fixture
def parts() -> Any:
    """A random sum, remainder included."""
    return Parts(draw(N, N, D), draw(N, D, seed=1), draw(N, D, seed=2))


def test_constant_of_the_values_is_scaled_by_the_row_sum_and_output_bias_is_not(
    make_record: Callable[..., Any],
) -> None:
    """b_i = rowsum(pattern) (b_V + beta W_V) W_O + b_O (eq. 7, 21), read at two row sums."""
    full, sunk = (attend(make_record(row_sum=s), value_bias="bias").bias for s in (1.0, 0.25))
    b_o = make_record().block.attention.b_o
    torch.testing.assert_close(sunk - b_o, 0.25 * (full - b_o), **ALGEBRA)
    torch.testing.assert_close(full, full[:1].expand_as(full), **ALGEBRA)


def test_value_bias_only_moves_the_constant(make_record: Callable[..., Any]) -> None:
    """With "token" every token gets its attention-weighted share of the constant, all of it from the bias."""
    record = make_record(row_sum=0.7)
    to_bias, to_token = (attend(record, value_bias=where) for where in ("bias", "token"))
    weights = record.block.attention
    constant = torch.einsum("hij,he,hed->ijd", record.pattern, record.block.value_constant, weights.w_o)
    torch.testing.assert_close(to_token.tokens - to_bias.tokens, constant, **ALGEBRA)
    torch.testing.assert_close(to_bias.bias - to_token.bias, constant.sum(1), **ALGEBRA)
    torch.testing.assert_close(to_token.bias, weights.b_o.expand_as(to_token.bias), **ALGEBRA)


def test_residual_belongs_to_the_own_token_only() -> None:
    """x_i is the part of source j = i (eq. 26-27), and rows may be any queries in any order."""
    queries = torch.tensor([4, 0, 2])
    x = draw(3, D)
    brought = residual(x, queries, N)
    expected = torch.zeros(3, N, D, dtype=torch.float64)
    for row, query in enumerate(queries.tolist()):
        expected[row, query] = x[row]
    torch.testing.assert_close(brought.tokens, expected, rtol=0, atol=0)
    assert (brought.bias == 0).all()


@pytest.mark.parametrize("centred", [True, False], ids=["LayerNorm", "RMSNorm"])
def test_normalised_parts_sum_to_torchs_own_norm(parts: Any, centred: bool) -> None:
    """With the scale of the whole the parts of a norm sum to the norm of the sum (eq. 28-34); beta is the bias part's alone."""
    gain, shift = 1 + draw(D, seed=3), draw(D, seed=4) * centred
    norm, whole = Norm(gain, shift, 1e-5, centred), parts.total()
    expected = (
        nn.functional.layer_norm(whole, (D,), gain, shift, 1e-5)
        if centred
        else nn.functional.rms_norm(whole, (D,), gain, 1e-5)
    )
    torch.testing.assert_close(norm(whole), expected, **ALGEBRA)
    with_shift = normalise(parts, norm, norm.scale(whole))
    without = normalise(parts, dataclasses.replace(norm, shift=0 * shift), norm.scale(whole))
    torch.testing.assert_close(with_shift.total(), expected, **ALGEBRA)
    torch.testing.assert_close(with_shift.tokens, without.tokens, rtol=0, atol=0)
    torch.testing.assert_close(with_shift.remainder, without.remainder, rtol=0, atol=0)
    torch.testing.assert_close(with_shift.bias - without.bias, shift.expand(N, D), **ALGEBRA)


def test_steps_are_linear_in_the_parts(parts: Any) -> None:
    """Norm, projection and weighing of a sum of parts are the sums of those of the summands, up to constants."""
    other = type(parts)(draw(N, N, D, seed=6), draw(N, D, seed=7), draw(N, D, seed=8))
    norm = Norm(1 + draw(D, seed=3), torch.zeros(D, dtype=torch.float64), 1e-5, True)
    scale, matrix, factor = draw(N, 1, seed=5).abs() + 1, draw(D, 3, seed=9), draw(N, D, seed=10)
    steps = (
        lambda p: normalise(p, norm, scale),
        lambda p: project(p, matrix, torch.zeros(3, dtype=torch.float64)),
        lambda p: weigh(p, factor),
    )
    shift = draw(3, seed=11)
    torch.testing.assert_close(project(parts, matrix, shift).total(), parts.total() @ matrix + shift, **ALGEBRA)
    for step in steps:
        together, apart = step(parts + other), step(parts) + step(other)
        for one, two in zip(dataclasses.astuple(together), dataclasses.astuple(apart), strict=True):
            torch.testing.assert_close(one, two, **ALGEBRA)


def test_reconcile_gives_the_gap_to_the_remainder_of_the_queries_that_miss(parts: Any) -> None:
    """Where the sum misses the whole by more than rtol the remainder takes all of it, elsewhere it is untouched."""
    whole = parts.total()
    whole[1] += 1
    whole[3] *= 1 + 1e-9
    settled = reconcile(parts, whole, rtol=1e-6)
    torch.testing.assert_close(settled.total()[1], whole[1], **ALGEBRA)
    torch.testing.assert_close(settled.remainder[[0, 2, 3, 4]], parts.remainder[[0, 2, 3, 4]], rtol=0, atol=0)
    torch.testing.assert_close(settled.tokens, parts.tokens, rtol=0, atol=0)
    torch.testing.assert_close(settled.bias, parts.bias, rtol=0, atol=0)


def test_error_is_relative_to_the_whole_or_to_what_cancels_in_it() -> None:
    """`||gap|| / ||whole||`; where the whole is under a thousandth of a summand, by that; no division by zero."""
    whole = torch.tensor([[0.0, 5.0], [0.0, 0.0], [0.0, 0.0]])
    tokens = torch.tensor([[[3.0, 1.0], [0.0, 5.0]], [[1000.0, 3.0], [0.0, 4.0]], [[0.0, 0.0], [0.0, 0.0]]])
    bias = torch.tensor([[0.0, 3.0], [-1000.0, 0.0], [0.0, 0.0]])
    sizes = [5.0, float(torch.tensor([1000.0, 7.0]).norm()) / 1000, 1.0]
    gaps = [5.0, 7.0, 0.0]
    expected = [gap / size for gap, size in zip(gaps, sizes, strict=True)]
    assert Parts(tokens, bias).error(whole).tolist() == pytest.approx(expected, rel=1e-5)
