"""Streaming statistics against those of all samples at once."""

import numpy as np
import pytest

from tests.corpora import InMemory
from tl_ffblock.corpus.statistics import Moments, merged


@pytest.mark.parametrize("cut", [1, 3, 9])
def test_merging_is_counting_together(cut: int) -> None:
    """Mean, deviation and count of parts merged are those of the whole, also far from zero."""
    samples = 1e6 + np.random.default_rng(0).normal(size=(10, 4))
    found = merged([Moments.of(samples[:cut]), Moments.of(samples[cut:])])
    np.testing.assert_allclose(found.value, samples.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(found.deviation, samples.std(axis=0, ddof=1), rtol=1e-6)
    assert (found.count == 10).all()


def test_nan_is_no_value() -> None:
    """A cell without value counts nowhere; a cell that never had one is NaN."""
    found = Moments.of(np.array([[1.0, np.nan, np.nan], [3.0, 5.0, np.nan]]))
    np.testing.assert_array_equal(found.value, [2, 5, np.nan])
    np.testing.assert_array_equal(found.count, [2, 1, 0])
    np.testing.assert_array_equal(np.isnan(found.deviation), [False, True, True])


def test_shards_give_back_the_moments() -> None:
    """Arrays written and read are the same moments."""
    moments = Moments.of(np.arange(6.0).reshape(3, 2))
    found = Moments.read(InMemory(moments.arrays("x")), "x")
    assert all((getattr(found, n) == getattr(moments, n)).all() for n in ("count", "mean", "squares"))
