"""Distances between heads: closed forms, scipy, and a plane that keeps them."""

import numpy as np
import pytest
import torch
from scipy.spatial.distance import jensenshannon

from tests.heads.planted import drawn, labelled, pointing, uniform
from tests.tolerances import ALGEBRA
from tl_ffblock import heads
from tl_ffblock.errors import InputError
from tl_ffblock.results.token_maps import TokenMaps


def test_divergences_are_scipys() -> None:
    """Mean over queries of the squared Jensen-Shannon distance, maps counted layer by layer."""
    rows = drawn(2, 3, 4, 5)
    maps = TokenMaps(torch.from_numpy(rows), tuple("abcde"), (0, 1), ("x", "y", "z"), (0, 2, 3, 4), False)
    flat = rows.reshape(6, 4, 5)
    expected = (jensenshannon(flat[:, None], flat[None], axis=-1) ** 2).mean(axis=-1)
    np.testing.assert_allclose(heads.divergences(maps), np.nan_to_num(expected), rtol=1e-9, atol=1e-12)


def test_closed_forms() -> None:
    """Disjoint rows are ln 2 apart; one token against n alike: ln 2 - ((n+1) ln (n+1) - n ln n) / 2n + ... by hand for n = 2."""
    maps = labelled({"a": pointing([0, 0]), "b": pointing([1, 1]), "even": uniform(2)})
    half = np.log(2) / 2
    mixed = -(0.75 * np.log(0.75) + 0.25 * np.log(0.25)) - half  # H(3/4, 1/4) - H(1/2, 1/2) / 2
    expected = [[0, np.log(2), mixed], [np.log(2), 0, mixed], [mixed, mixed, 0]]
    np.testing.assert_allclose(heads.divergences(maps), expected, **ALGEBRA)


def test_sums_add_up_over_sequences() -> None:
    """Sums and counts of two halves of the queries are those of all; rows of zeros count for no pair."""
    values = torch.from_numpy(drawn(1, 3, 6, 6))
    values[0, 1, 2] = 0
    names = tuple("abcdef")
    parts = [TokenMaps(values[:, :, rows], names, (0,), tuple("xyz"), rows, False) for rows in ((0, 1, 2), (3, 4, 5))]
    whole = heads.divergence_sums(TokenMaps(values, names, (0,), tuple("xyz"), tuple(range(6)), False))
    for total, halves in zip(whole, zip(*map(heads.divergence_sums, parts), strict=True), strict=True):
        np.testing.assert_allclose(total, halves[0] + halves[1], **ALGEBRA)
    assert whole[1].tolist() == [[6, 5, 6], [5, 5, 5], [6, 5, 6]]


def test_a_map_of_zeros_has_no_distance() -> None:
    """Refused, rather than a division by zero."""
    with pytest.raises(InputError, match="a map is all zeros"):
        heads.divergences(labelled({"a": uniform(2), "nothing": torch.zeros(2, 2)}))


def test_a_plane_keeps_distances_of_a_plane() -> None:
    """Points of a plane come back up to turns and mirrors, and the same seed gives the same points."""
    pytest.importorskip("sklearn", reason="scikit-learn is not installed (extra heads)")
    points = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0], [3.0, 4.0]])
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    placed = heads.plane(distances)
    np.testing.assert_allclose(np.linalg.norm(placed[:, None] - placed, axis=-1), distances, atol=1e-3)
    np.testing.assert_array_equal(placed, heads.plane(distances))


def test_clusters_are_numbered_in_order() -> None:
    """Two close pairs are two clusters, the first map's is number 0; as many clusters as maps are the maps."""
    at = np.array([0.0, 10.0, 0.1, 10.1])
    distances = np.abs(at[:, None] - at)
    assert heads.clusters(distances, 2).tolist() == [0, 1, 0, 1]
    assert heads.clusters(distances, 4).tolist() == [0, 1, 2, 3]
    assert heads.clusters(distances[:1, :1], 1).tolist() == [0]


@pytest.mark.parametrize(("distances", "count"), [(np.ones((2, 3)), 1), (np.ones((2, 2)), 1), (np.zeros((2, 2)), 3)])
def test_what_is_no_distance_is_refused(distances: np.ndarray, count: int) -> None:
    """Not square, not zero to itself, or more clusters than maps."""
    with pytest.raises(InputError, match="expected"):
        heads.clusters(distances, count)
