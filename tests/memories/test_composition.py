"""Active memories, zero agreement and refinement on vectors made by hand."""

import numpy as np
import pytest
import torch

from tl_ffblock.errors import InputError
from tl_ffblock.memories.values import OUTCOMES, active, outcomes, zero_agreement

COEFFICIENTS = torch.tensor([4.0, -3.0, 0.0, 0.5])
LENGTHS = torch.tensor([1.0, 2.0, 9.0, 1.0])


def test_active_memories() -> None:
    """The paper's rule counts positive coefficients; of sizes 4, 6, 0, 0.5 the first two are more than nine tenths."""
    assert active(COEFFICIENTS, LENGTHS, "positive").tolist() == [True, False, False, True]
    assert active(COEFFICIENTS, LENGTHS, "mass").tolist() == [True, True, False, False]
    assert not active(torch.zeros(4), LENGTHS, "mass").any()
    with pytest.raises(InputError, match='expected "positive" or "mass"'):
        active(COEFFICIENTS, LENGTHS, "some")  # type: ignore[arg-type]


def test_the_mass_is_nine_tenths_with_as_few_memories_as_can_be() -> None:
    """Without the smallest of the active ones less than nine tenths are left."""
    generator = torch.Generator().manual_seed(0)
    coefficients, lengths = torch.randn(20, 50, generator=generator), torch.rand(50, generator=generator)
    chosen, sizes = active(coefficients, lengths, "mass"), coefficients.abs() * lengths
    share = torch.where(chosen, sizes, 0).sum(-1) / sizes.sum(-1)
    smallest = torch.where(chosen, sizes, torch.inf).amin(-1) / sizes.sum(-1)
    assert (share >= 0.9 - 1e-6).all() and (share - smallest < 0.9).all()


@pytest.mark.parametrize(("token", "silent"), [(7, False), (8, True), (5, True), (6, False), (9, True)])
def test_zero_agreement(token: int, silent: bool) -> None:
    """A memory of negative coefficient says what -v says; what is not active says nothing.

    v promotes 7, 8, 9, 5 and -v promotes 1, 6, 2, 3; active are the first (4 v: 7) and the second (-3 v: 6).
    """
    tops = torch.tensor([[7, 8, 9, 5], [1, 6, 2, 3]])
    chosen = active(COEFFICIENTS, LENGTHS, "mass")
    assert bool(zero_agreement(COEFFICIENTS, chosen, tops, torch.tensor(token))) == silent


def test_outcomes() -> None:
    """The output's top token is the residual's, the feed-forward's, of both, or of neither."""
    residual, feed_forward, output = np.array([1, 1, 1, 1, 1]), np.array([2, 2, 1, 2, 1]), np.array([1, 2, 1, 3, 3])
    named = [OUTCOMES[number] for number in outcomes(residual, feed_forward, output)]
    assert named == ["residual", "feed-forward", "agreement", "composition", "composition"]
