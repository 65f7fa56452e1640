"""Statistics that merge: against those of all samples at once."""

import numpy as np
import pytest

from tests.corpora import InMemory
from tl_ffblock.corpus.statistics import Moments, PairSums, Top, add_up, merge_ranges, merged, pair_keys, split_keys


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


def random_pairs(seed: int) -> PairSums:
    """Five hundred occurrences of pairs among forty tokens."""
    draw = np.random.default_rng(seed)
    keys = pair_keys(draw.integers(0, 40, 500), draw.integers(0, 40, 500))
    ones = np.ones(500, dtype=np.int32)
    return add_up([PairSums(keys, ones, np.ones((500, 6), np.int32), draw.normal(size=(500, 2)))])


def test_keys_give_back_their_pair() -> None:
    """Up to the largest vocabulary that fits, and in the order of the pairs."""
    query, key = np.array([0, 1, 1, 2**31 - 1]), np.array([7, 0, 2**31 - 1, 5])
    keys = pair_keys(query, key)
    np.testing.assert_array_equal(split_keys(keys), [query, key])
    assert (np.diff(keys) > 0).all()


def test_merging_in_ranges_is_merging_at_once() -> None:
    """However small the ranges, every pair comes once with all its occurrences."""
    sets = [random_pairs(seed) for seed in range(4)]
    whole = add_up(sets)
    shards = [InMemory({f"x/{name}": array for name, array in pairs.arrays().items()}) for pairs in sets]
    ranges = list(merge_ranges(shards, "x/", at_a_time=100))
    assert len(ranges) > 5
    for name in ("keys", "count", "kinds", "total"):
        np.testing.assert_array_equal(np.concatenate([getattr(r, name) for r in ranges]), getattr(whole, name))


def test_the_best_of_a_stream_are_the_best_of_all() -> None:
    """Offered in pieces, the highest positive scores of each cell with their rows; ties go to the smaller key."""
    draw = np.random.default_rng(0)
    scores = draw.integers(-3, 4, (30, 2)).astype(float)
    keys, rows = draw.permutation(30), np.arange(30)
    top = Top(5)
    assert top.cells == ()
    for start in range(0, 30, 7):
        piece = slice(start, start + 7)
        top.offer(scores[piece], keys[piece], {"row": rows[piece]})
    for cell, best in enumerate(top.cells):
        expected = sorted((i for i in range(30) if scores[i, cell] > 0), key=lambda i: (-scores[i, cell], keys[i]))[:5]
        assert best.columns["row"].tolist() == expected
        assert best.keys.tolist() == keys[expected].tolist()
        assert best.scores.tolist() == scores[expected, cell].tolist()
