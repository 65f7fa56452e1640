"""Where the rows of maps point, and how far heads are from one another, by real counts (Clark et al. 2019, sections 3 and 6).

A row is read as a distribution over source tokens: divided by its sum. A share is a mean over the queries that can have it:
the first token has no previous one, so it does not count there. In a causal model only targets within reach count.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from scipy.special import entr

from tl_ffblock.errors import InputError, brief, did_you_mean
from tl_ffblock.layer.positions import positions, real_number, whole_number
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import special_positions, text_segments
from tl_ffblock.signatures import strict

Rows: TypeAlias = Float[np.ndarray, "layer channel query key"]
QueryNumbers: TypeAlias = Float[np.ndarray, "layer channel query"]
TokenGroups: TypeAlias = Mapping[str, Bool[np.ndarray, " token"]]
"""Which tokens belong to a group, by its name."""

RELATIVE = MappingProxyType({"previous": -1, "own": 0, "next": 1})
"""Targets at a fixed distance from the query."""
THRESHOLDS: Mapping[str, float] = MappingProxyType(
    {"previous": 0.5, "own": 0.5, "next": 0.5, "first": 0.6, "separator": 0.6, "punctuation": 0.6, "evenness": 0.8}
)
"""Means from which on a channel is called by the statistic: those of Clark et al.'s Figure 6, whose entropy of 3.8 nats
is 0.8 of the largest for their 128 tokens; "own" and "first" are ours."""
OTHER_SEGMENT = "other segment"
"""The share on the other sentence of a pair."""
PERIOD_OR_COMMA = "period or comma"
"""The punctuation of Clark et al."""
_MARKERS = "ĠĊ▁#"
"""Characters that tokenizers put at a piece and no text has there."""


@strict
def distributions(maps: TokenMaps) -> Rows:
    """Every row divided by its sum, in float64; NaN where a row is all zeros, since it points nowhere.

    Attention's rows sum to 1 already, except with attention sinks, whose weight no token gets.

    Raises:
        InputError: if a value is negative or no number, as in a difference of maps, or named positions are all that there is.
    """
    if not maps.whole:
        raise InputError(
            f"{maps.kind} of {maps.model} at {brief(maps.tokens)}: these are some of the tokens that a row takes from, and have no "
            "shares of its sum. Give each prompt's whole maps."
        )
    values = maps.values.detach().double().cpu().numpy()
    if not (values >= 0).all():
        raise InputError(
            f"{maps.kind} of {maps.model}: {int((~(values >= 0)).sum())} values are negative or no number. Rows are read as "
            "shares of a sum, so they have to be weights or norms; give the maps themselves and not their difference."
        )
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.full_like(values, np.nan), where=total > 0)


@strict
def entropy(maps: TokenMaps) -> QueryNumbers:
    """`-sum p ln p` of every row, in nats: 0 for one token, ln n for n tokens alike; NaN for a row of zeros."""
    return entr(distributions(maps)).sum(axis=-1)


@strict
def evenness(maps: TokenMaps) -> QueryNumbers:
    """Entropy over its largest value, ln of the tokens that a query can reach; NaN where it reaches one alone."""
    reached, rows = maps.reachable().sum(dim=-1).numpy(), entropy(maps)
    most = np.log(np.maximum(reached, 1))
    return np.divide(rows, most, out=np.full_like(rows, np.nan), where=np.broadcast_to(reached > 1, rows.shape))


@strict
def token_groups(tokens: Sequence[str], special: Sequence[int] = ()) -> dict[str, Bool[np.ndarray, " token"]]:
    """The groups of Clark et al.: the first token, special tokens, those of them after the first, punctuation.

    Theirs is "period or comma", these two characters alone; "punctuation" is every token of punctuation characters.

    Args:
        tokens: As the tokenizer shows them.
        special: Positions of tokens that stand for no text, such as [CLS] and [SEP], negative ones from the end.

    Raises:
        InputError: if there is no such position.
    """
    listed = isinstance(tokens, Sequence) and not isinstance(tokens, str)
    if not listed or not all(isinstance(token, str) for token in tokens):
        raise InputError(f"tokens={brief(tokens)}: expected a list of texts, as maps.tokens.")
    numbers = np.arange(len(tokens))
    marked = np.isin(numbers, positions(list(special), len(tokens), "special") if len(special) else [])
    first = numbers == 0
    texts = [_text(token) for token in tokens]
    punctuation = np.array([_is_punctuation(text) for text in texts], dtype=bool) & ~marked
    return {
        "first": first,
        "special": marked,
        "separator": marked & ~first,
        "punctuation": punctuation,
        PERIOD_OR_COMMA: np.isin(texts, [".", ","]) & ~marked,
    }


@strict
def target_shares(
    maps: TokenMaps, groups: TokenGroups, segments: Mapping[str, int] | None = None
) -> dict[str, QueryNumbers]:
    """Of every row the share on the previous, own and next token and on each group of tokens.

    Of a text with segments, such as two sentences, also the share on tokens of another segment than the row's ("other segment"),
    special tokens not counted (Vig 2019). NaN where a row has no such target within reach.

    Args:
        maps: Any maps.
        groups: Which tokens belong to each group, as `token_groups` gives them.
        segments: Where each segment begins, by its name, such as `{"prompt": 0, "generated": 12}`; None means two sentences, where a
            separator is between.

    Raises:
        InputError: if a group is not one truth value per token, or segments do not fit the tokens.
    """
    masks = _masks(groups, "groups", len(maps.tokens))
    rows, reachable = distributions(maps), maps.reachable().numpy()
    queries, keys = np.array(maps.queries)[:, None], np.arange(len(maps.tokens))
    targets = {name: keys == queries + distance for name, distance in RELATIVE.items()}
    targets |= {name: mask[None] & (queries >= 0) for name, mask in masks.items()}
    starts = [start for _, start in text_segments(maps.tokens, segments)]
    if len(starts) > 1:
        of_text = ~masks.get("special", np.isin(keys, special_positions(maps.tokens)))
        segment = np.searchsorted(starts, keys, side="right")
        targets[OTHER_SEGMENT] = (segment != segment[queries]) & of_text & of_text[queries]
    shares = {}
    for name, target in targets.items():
        within = target & reachable
        on_target = np.einsum("lcqk,qk->lcq", rows, within.astype(float))
        shares[name] = np.where(within.any(axis=-1), on_target, np.nan)
    return shares


@strict
def query_statistics(
    maps: TokenMaps, groups: TokenGroups, segments: Mapping[str, int] | None = None
) -> dict[str, QueryNumbers]:
    """Shares by target, entropy in nats and evenness of every row, by name; arguments are those of `target_shares`."""
    return {**target_shares(maps, groups, segments), "entropy": entropy(maps), "evenness": evenness(maps)}


@strict
def means(numbers: Mapping[str, QueryNumbers]) -> dict[str, Float[np.ndarray, "layer channel"]]:
    """Mean over the queries that have a value; NaN where none has."""
    _refuse_unnamed(numbers, "numbers", "numbers by the name of a statistic, as query_statistics gives them")
    return {name: _mean(np.asarray(rows)) for name, rows in numbers.items()}


@strict
def by_query_kind(
    rows: QueryNumbers, maps: TokenMaps, kinds: TokenGroups
) -> dict[str, Float[np.ndarray, "layer channel"]]:
    """A number of every row, averaged over the queries of each kind: where do separators, where does punctuation point?

    With the share on special tokens this is the no-op share of section 3.2: what a head does where it has nothing to do. With
    `entropy` and the groups of `token_groups`, "first" is the entropy of [CLS]'s row (section 3.3).

    Raises:
        InputError: if a kind is not one truth value per token.
    """
    masks = _masks(kinds, "kinds", len(maps.tokens))
    return {name: _mean(rows[..., mask[list(maps.queries)]]) for name, mask in masks.items()}


@strict
def behaviours(
    statistics: Mapping[str, Float[np.ndarray, "layer channel"]], thresholds: Mapping[str, float] = THRESHOLDS
) -> dict[str, Bool[np.ndarray, "layer channel"]]:
    """Which channels do mostly one thing: those whose mean reaches the threshold of its statistic.

    Args:
        statistics: Means by name, as `means` gives them.
        thresholds: Least means by name; the usual names without a statistic here are skipped.

    Raises:
        InputError: for a name that no statistic has, or a threshold that is not a finite number.
    """
    _refuse_unnamed(statistics, "statistics", "numbers by the name of a statistic, as query_statistics gives them")
    _refuse_unnamed(thresholds, "thresholds", "numbers by the name of a statistic, {'previous': 0.5}")
    known = {*statistics, *THRESHOLDS}
    if unknown := [name for name in thresholds if name not in known]:
        meant = did_you_mean(unknown[0], known)
        raise InputError(
            f"thresholds[{unknown[0]!r}]: no statistic of this name; there are {', '.join(sorted(known))}. {meant}"
        )
    limits = {name: real_number(least, f"thresholds[{name!r}]") for name, least in thresholds.items()}
    return {name: statistics[name] >= least for name, least in limits.items() if name in statistics}


@strict
def summary(
    maps: TokenMaps,
    groups: TokenGroups,
    thresholds: Mapping[str, float] = THRESHOLDS,
    *,
    segments: Mapping[str, int] | None = None,
) -> pd.DataFrame:
    """One row per layer and channel: the mean of every statistic, and what the channel mostly does.

    Args:
        maps: Any maps.
        groups: Which tokens belong to each group, as `token_groups` gives them.
        thresholds: As in `behaviours`.
        segments: As in `target_shares`: of a text with several there is the column "other segment".

    Raises:
        InputError: if a value is negative, a group is not one truth value per token, or segments do not fit the tokens.
    """
    table = means(query_statistics(maps, groups, segments))
    frame = pd.MultiIndex.from_product([maps.layers, maps.channels], names=["layer", "channel"]).to_frame(index=False)
    for name, values in table.items():
        frame[name] = values.reshape(-1)
    reached = {name: flags.reshape(-1) for name, flags in behaviours(table, thresholds).items()}
    frame["behaviour"] = [", ".join(name for name in reached if reached[name][row]) for row in range(len(frame))]
    return frame


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
    layers = distributions(maps)
    rows = layers.reshape(-1, *layers.shape[2:])
    known = ~np.isnan(rows).any(axis=-1)
    rows = np.where(known[..., None], rows, 0)
    own = entr(rows).sum(axis=-1)
    sums, counts = np.zeros((len(rows), len(rows))), np.zeros((len(rows), len(rows)), dtype=np.int64)
    for number in range(len(rows)):  # one map against those after it: [map query key] at a time
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
        from sklearn.manifold import MDS
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "a plane of heads needs scikit-learn: pip install scikit-learn, or the extra `heads` of this package."
        ) from error
    scaling = MDS(
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
    _refuse_asymmetric(distances)
    if not 1 <= count <= len(distances):
        raise InputError(f"count={count}: expected 1 to {len(distances)} clusters of {len(distances)} maps.")
    if len(distances) == 1:
        return np.zeros(1, dtype=np.int64)
    labels = fcluster(linkage(squareform(distances, checks=False), "average"), count, "maxclust")
    return pd.factorize(labels)[0].astype(np.int64)


def _refuse_unnamed(given: object, name: str, expected: str) -> None:
    if not isinstance(given, Mapping):
        raise InputError(f"{name}={brief(given)}: expected {expected}.")


def _masks(groups: TokenGroups, name: str, count: int) -> dict[str, Bool[np.ndarray, " token"]]:
    _refuse_unnamed(groups, name, "truth values per token by name, as token_groups gives them")
    masks = {group: np.asarray(mask) for group, mask in groups.items()}
    for group, mask in masks.items():
        if mask.shape != (count,) or mask.dtype != bool:
            raise InputError(
                f"group {group!r} has shape {mask.shape} of {mask.dtype}: expected {count} truth values, one per token."
            )
    return masks


def _mean(rows: Float[np.ndarray, "layer channel query"]) -> Float[np.ndarray, "layer channel"]:
    known = ~np.isnan(rows)
    count = known.sum(axis=-1)
    return np.where(count > 0, np.where(known, rows, 0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def _text(token: str) -> str:
    """A token without its tokenizer's marks; a `#` of its own is text, `##` before letters is a mark."""
    text = token.strip()
    return text.strip(_MARKERS) or text.strip("ĠĊ▁")


def _is_punctuation(text: str) -> bool:
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


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
