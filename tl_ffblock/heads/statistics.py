"""Statistics of rows of maps, and distances between heads (Clark et al. 2019, sections 3 and 6).

A row is divided by its sum and used as a distribution over source tokens. A share is a mean over the queries that have the target:
the first token has no previous one, and is not counted there. In a causal model only reachable targets count.
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
from tl_ffblock.results.token_maps import EFFECTIVE_ATTENTION, TokenMaps
from tl_ffblock.results.tokens import special_positions, text_segments
from tl_ffblock.signatures import strict

Rows: TypeAlias = Float[np.ndarray, "layer channel query key"]
QueryNumbers: TypeAlias = Float[np.ndarray, "layer channel query"]
TokenGroups: TypeAlias = Mapping[str, Bool[np.ndarray, " token"]]
"""By name of a group: mask of its tokens."""

RELATIVE = MappingProxyType({"previous": -1, "own": 0, "next": 1})
"""Targets at a fixed distance from the query."""
THRESHOLDS: Mapping[str, float] = MappingProxyType(
    {"previous": 0.5, "own": 0.5, "next": 0.5, "first": 0.6, "separator": 0.6, "punctuation": 0.6, "evenness": 0.8}
)
"""Smallest means for which a channel is named after a statistic: those of Clark et al.'s Figure 6, whose entropy of 3.8 nats
is 0.8 of the largest for their 128 tokens; "own" and "first" are ours."""
OTHER_SEGMENT = "other segment"
"""Share on the other sentence of a pair."""
PERIOD_OR_COMMA = "period or comma"
"""Clark et al.'s punctuation."""
_MARKERS = "ĠĊ▁#"
"""Marks that tokenizers add to pieces, and that are not in texts."""


@strict
def distributions(maps: TokenMaps) -> Rows:
    """Rows divided by their sum, in float64; NaN for a row of zeros.

    Rows of attention already sum to 1, except with attention sinks, whose weight is on no token.

    Raises:
        InputError: if a value is negative or NaN, as in a difference of maps, or if there are only named positions.
    """
    if not maps.whole:
        raise InputError(
            f"{maps.kind} of {maps.model} at {brief(maps.tokens)}: rows of named positions lack other tokens, and have no shares. "
            "Pass each prompt's whole maps."
        )
    values = maps.values.detach().double().cpu().numpy()
    if not (values >= 0).all():
        effective = maps.kind == EFFECTIVE_ATTENTION
        raise InputError(
            f"{maps.kind} of {maps.model}: {int((~(values >= 0)).sum())} values are negative or NaN: expected weights or norms. "
            + (
                'Use ffb.attention_maps(..., kind="value-weighted").'
                if effective
                else "Pass the maps themselves, not their difference."
            )
        )
    total = values.sum(axis=-1, keepdims=True)
    return np.divide(values, total, out=np.full_like(values, np.nan), where=total > 0)


@strict
def entropy(maps: TokenMaps) -> QueryNumbers:
    """Entropy `-sum p ln p` of every row, in nats: 0 for one token, ln n for n equal tokens; NaN for a row of zeros."""
    return entr(distributions(maps)).sum(axis=-1)


@strict
def evenness(maps: TokenMaps) -> QueryNumbers:
    """Entropy divided by its largest value, ln of the number of reachable tokens; NaN if there is only one."""
    reached, rows = maps.reachable().sum(dim=-1).numpy(), entropy(maps)
    most = np.log(np.maximum(reached, 1))
    return np.divide(rows, most, out=np.full_like(rows, np.nan), where=np.broadcast_to(reached > 1, rows.shape))


@strict
def token_groups(tokens: Sequence[str], special: Sequence[int] = ()) -> dict[str, Bool[np.ndarray, " token"]]:
    """Groups of tokens as in Clark et al.: the first token, special tokens, special tokens after the first, punctuation.

    Their punctuation is "period or comma", only these two characters; "punctuation" is every token of punctuation characters.

    Args:
        tokens: Tokens as the tokenizer shows them.
        special: Positions of special tokens, such as [CLS] and [SEP], negative ones from the end.

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
    """Shares of every row on the previous, own and next token and on each group of tokens, by name.

    For a text with segments, such as two sentences, also the share on tokens of other segments than the row's ("other segment"),
    without special tokens (Vig 2019). NaN if a row has no such target within reach.

    Args:
        maps: Maps of any kind.
        groups: Tokens of each group, from `token_groups`.
        segments: Start of each segment by name, such as `{"prompt": 0, "generated": 12}`; None means two sentences, if a separator
            is between them.

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
    """Mean over the queries that have a value; NaN if there is none."""
    _refuse_unnamed(numbers, "numbers", "numbers by the name of a statistic, as query_statistics gives them")
    return {name: _mean(np.asarray(rows)) for name, rows in numbers.items()}


@strict
def by_query_kind(
    rows: QueryNumbers, maps: TokenMaps, kinds: TokenGroups
) -> dict[str, Float[np.ndarray, "layer channel"]]:
    """Mean of a number of every row over the queries of each kind, such as separators or punctuation.

    With the share on special tokens this is the no-op share of section 3.2: the behaviour of a head without a task. With
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
    """Channels with one main behaviour: those whose mean reaches the threshold of its statistic, by name.

    Args:
        statistics: Means by name, from `means`.
        thresholds: Smallest means by name; default names without a statistic are skipped.

    Raises:
        InputError: for a name without a statistic, or a threshold that is not a finite number.
    """
    _refuse_unnamed(statistics, "statistics", "numbers by the name of a statistic, as query_statistics gives them")
    _refuse_unnamed(thresholds, "thresholds", "numbers by the name of a statistic, {'previous': 0.5}")
    known = {*statistics, *THRESHOLDS}
    if unknown := [name for name in thresholds if name not in known]:
        meant = did_you_mean(unknown[0], known)
        raise InputError(
            f"thresholds[{unknown[0]!r}]: no statistic of this name; expected some of {', '.join(sorted(known))}. {meant}"
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
    """One row per layer and channel: the mean of every statistic, and the channel's main behaviour.

    Args:
        maps: Maps of any kind.
        groups: Tokens of each group, from `token_groups`.
        thresholds: As in `behaviours`.
        segments: As in `target_shares`; with several segments there is the column "other segment".

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
    """Jensen-Shannon divergence of every two maps [map map], mean over queries, in nats: 0 for equal rows, ln 2 for disjoint ones.

    Maps are numbered layer by layer: layer 0's channels, then layer 1's. Clark et al. sum over queries; a mean does not grow with
    the corpus. Rows of zeros are excluded.

    Raises:
        InputError: if a value is negative or NaN, or if no query has a row in both of two maps.
    """
    sums, counts = divergence_sums(maps)
    if not (counts > 0).all():
        raise InputError("a map is all zeros, so it has no distance to others. Omit it.")
    return sums / counts


@strict
def divergence_sums(maps: TokenMaps) -> tuple[Float[np.ndarray, "map map"], Int[np.ndarray, "map map"]]:
    """Sum over queries of the divergence of every two maps, and the number of queries; these can be added up over a corpus.

    `JS(p, q) = H((p + q) / 2) - (H(p) + H(q)) / 2` with H the entropy.

    Raises:
        InputError: if a value is negative or NaN.
    """
    layers = distributions(maps)
    rows = layers.reshape(-1, *layers.shape[2:])
    known = ~np.isnan(rows).any(axis=-1)
    rows = np.where(known[..., None], rows, 0)
    own = entr(rows).sum(axis=-1)
    sums, counts = np.zeros((len(rows), len(rows))), np.zeros((len(rows), len(rows)), dtype=np.int64)
    for number in range(len(rows)):  # one map and those after it: [map query key] at a time
        both = known[number] & known[number:]
        between = entr((rows[number] + rows[number:]) / 2).sum(axis=-1) - (own[number] + own[number:]) / 2
        row = np.where(both, np.maximum(between, 0), 0).sum(axis=-1)  # rounding can give slightly less than 0
        sums[number, number:] = sums[number:, number] = row
        counts[number, number:] = counts[number:, number] = both.sum(axis=-1)
    np.fill_diagonal(sums, 0)
    return sums, counts


@strict
def plane(distances: Float[np.ndarray, "map map"], *, seed: int = 0) -> Float[np.ndarray, "map 2"]:
    """Points [map 2] whose distances are close to the given ones: metric multidimensional scaling by scikit-learn.

    The axes have no meaning.

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
    """Cluster number of every map, from 0 in the order of the maps: average linkage with at most `count` clusters.

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
    """A token without its tokenizer's marks; a `#` alone is text, `##` before letters is a mark."""
    text = token.strip()
    return text.strip(_MARKERS) or text.strip("ĠĊ▁")


def _is_punctuation(text: str) -> bool:
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)


def _refuse_asymmetric(distances: Float[np.ndarray, "map map"]) -> None:
    if not isinstance(distances, np.ndarray):
        raise InputError(
            f"distances is of type {type(distances).__name__}: expected an array [map, map] such as that of divergences; "
            "np.asarray makes one of lists."
        )
    square = distances.ndim == 2 and distances.shape[0] == distances.shape[1]
    if not square or not np.allclose(distances, distances.T) or not np.allclose(np.diag(distances), 0):
        raise InputError(
            f"distances of shape {distances.shape}: expected a square symmetric matrix with zeros on its diagonal, as "
            "divergences returns it."
        )
