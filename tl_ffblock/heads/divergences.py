"""How far heads are from one another (Clark et al. 2019, section 6): Jensen-Shannon divergence, a plane, clusters."""

import numpy as np
from jaxtyping import Float, Int

from tl_ffblock.errors import InputError
from tl_ffblock.heads.distributions import distributions
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict


@strict
def divergences(maps: TokenMaps) -> Float[np.ndarray, "map map"]:
    """Jensen-Shannon divergence of every two maps, mean over queries, in nats: 0 for the same rows, ln 2 for disjoint ones.

    Maps are counted layer by layer: layer 0's channels, then layer 1's. Clark et al. sum over queries; a mean is the same
    picture and does not grow with the corpus. Rows of zeros count for no pair.

    Raises:
        InputError: if a value is negative or no number, or no query has a row in two maps.
    """
    sums, counts = divergence_sums(maps)
    if not (counts > 0).all():
        raise InputError("a map is all zeros: its rows point nowhere, so it has no distance to others. Leave it out.")
    return sums / counts


@strict
def divergence_sums(maps: TokenMaps) -> tuple[Float[np.ndarray, "map map"], Int[np.ndarray, "map map"]]:
    """Sum over queries of the divergence of every two maps, and the queries counted: add them up over a corpus.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2` with H the entropy.

    Raises:
        InputError: if a value is negative or no number.
    """
    from scipy.special import entr

    layers = distributions(maps)
    rows = layers.reshape(-1, *layers.shape[2:])
    known = ~np.isnan(rows).any(axis=-1)
    rows = np.where(known[..., None], rows, 0)
    own = entr(rows).sum(axis=-1)
    sums, counts = np.zeros((len(rows), len(rows))), np.zeros((len(rows), len(rows)), dtype=np.int64)
    for number in range(len(rows)):  # one map against those behind it: [map query key] at a time
        both = known[number] & known[number:]
        between = entr((rows[number] + rows[number:]) / 2).sum(axis=-1) - (own[number] + own[number:]) / 2
        row = np.where(both, np.maximum(between, 0), 0).sum(axis=-1)  # rounding leaves 0 a little below
        sums[number, number:] = sums[number:, number] = row
        counts[number, number:] = counts[number:, number] = both.sum(axis=-1)
    np.fill_diagonal(sums, 0)
    return sums, counts


@strict
def plane(distances: Float[np.ndarray, "map map"], *, seed: int = 0) -> Float[np.ndarray, "map 2"]:
    """Points in a plane whose distances are close to those given: metric multidimensional scaling by scikit-learn.

    The axes mean nothing; only distances do.

    Raises:
        InputError: if `distances` is not square and symmetric.
        ModuleNotFoundError: if scikit-learn is not installed (extra `heads`).
    """
    _refuse_asymmetric(distances)
    whole_number(seed, "seed", at_least=0)
    try:
        import sklearn.manifold
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a plane of heads needs scikit-learn: pip install scikit-learn, or the extra `heads` of this package."
        ) from error
    scaling = sklearn.manifold.MDS(
        n_components=2,
        metric="precomputed",
        metric_mds=True,
        init="random",
        n_init=5,
        max_iter=1000,
        eps=1e-10,
        random_state=seed,
    )
    return scaling.fit_transform(distances)


@strict
def clusters(distances: Float[np.ndarray, "map map"], count: int) -> Int[np.ndarray, " map"]:
    """Number of the cluster of every map, from 0 in the order of the maps: average linkage, cut to at most `count`.

    Raises:
        InputError: if `distances` is not square and symmetric, or `count` is not from 1 to the number of maps.
    """
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    _refuse_asymmetric(distances)
    if not 1 <= count <= len(distances):
        raise InputError(f"count={count}: expected 1 to {len(distances)} clusters of {len(distances)} maps.")
    if len(distances) == 1:
        return np.zeros(1, dtype=np.int64)
    labels = fcluster(linkage(squareform(distances, checks=False), "average"), count, "maxclust")
    order = {label: number for number, label in enumerate(dict.fromkeys(labels.tolist()))}
    return np.array([order[label] for label in labels.tolist()], dtype=np.int64)


def _refuse_asymmetric(distances: Float[np.ndarray, "map map"]) -> None:
    if not isinstance(distances, np.ndarray):
        raise InputError(
            f"distances is a {type(distances).__name__}: expected an array [map, map] such as that of divergences; "
            "np.asarray makes one of lists."
        )
    square = distances.ndim == 2 and distances.shape[0] == distances.shape[1]
    if not square or not np.allclose(distances, distances.T) or not np.allclose(np.diag(distances), 0):
        raise InputError(
            f"distances of shape {distances.shape}: expected a square symmetric matrix with zeros on its diagonal, as "
            "divergences gives it."
        )
