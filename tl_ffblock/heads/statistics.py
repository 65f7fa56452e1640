"""Where the rows of maps point (Clark et al. 2019, section 3), by real counts.

A share is a mean over the queries that can have it: the first token has no previous one, so it does not count
there. In a causal model only targets within reach count.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from jaxtyping import Bool, Float

from tl_ffblock.errors import InputError, brief, did_you_mean
from tl_ffblock.heads.distributions import QueryNumbers, distributions, entropy, evenness
from tl_ffblock.layer.positions import positions, real_number
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

TokenGroups: TypeAlias = Mapping[str, Bool[np.ndarray, " token"]]
"""Which tokens belong to a group, by its name."""

RELATIVE = MappingProxyType({"previous": -1, "own": 0, "next": 1})
"""Targets at a fixed distance from the query."""

THRESHOLDS: Mapping[str, float] = MappingProxyType(
    {"previous": 0.5, "own": 0.5, "next": 0.5, "first": 0.6, "separator": 0.6, "punctuation": 0.6, "evenness": 0.8}
)
"""Means from which on a channel is called by the statistic: those of Clark et al.'s Figure 6, whose entropy of 3.8 nats
is 0.8 of the largest for their 128 tokens; "own" and "first" are ours."""

_MARKERS = "ĠĊ▁#"
"""Characters that tokenizers put at a piece and no text has there."""


@strict
def token_groups(tokens: Sequence[str], special: Sequence[int] = ()) -> dict[str, Bool[np.ndarray, " token"]]:
    """The groups of Clark et al.: the first token, special tokens, those of them behind the first, punctuation.

    Args:
        tokens: As the tokenizer shows them.
        special: Positions of tokens that stand for no text, such as [CLS] and [SEP], negative ones from the end.

    Raises:
        InputError: if there is no such position.
    """
    if (
        isinstance(tokens, str)
        or not isinstance(tokens, Sequence)
        or not all(isinstance(token, str) for token in tokens)
    ):
        raise InputError(f"tokens={brief(tokens)}: expected a list of texts, as maps.tokens.")
    count = len(tokens)
    marked = np.isin(np.arange(count), positions(list(special), count, "special") if len(special) else [])
    first = np.arange(count) == 0
    punctuation = np.array([_is_punctuation(token) for token in tokens], dtype=bool) & ~marked
    return {"first": first, "special": marked, "separator": marked & ~first, "punctuation": punctuation}


@strict
def target_shares(maps: TokenMaps, groups: TokenGroups) -> dict[str, QueryNumbers]:
    """Of every row the share on the previous, own and next token and on each group of tokens.

    NaN where a row has no such target within reach.

    Args:
        maps: Any maps.
        groups: Which tokens belong to each group, as `token_groups` gives them.

    Raises:
        InputError: if a group is not one truth value a token.
    """
    if not isinstance(groups, Mapping):
        raise InputError(
            f"groups={brief(groups)}: expected truth values per token by name, as token_groups gives them."
        )
    rows, reachable = distributions(maps), maps.reachable().numpy()
    queries, keys = np.array(maps.queries)[:, None], np.arange(len(maps.tokens))
    targets = {name: keys == queries + distance for name, distance in RELATIVE.items()}
    targets |= {name: _checked(name, group, len(keys))[None] & (queries >= 0) for name, group in groups.items()}
    shares = {}
    for name, target in targets.items():
        within = target & reachable
        on_target = np.einsum("lcqk,qk->lcq", rows, within.astype(float))
        shares[name] = np.where(within.any(axis=-1), on_target, np.nan)
    return shares


@strict
def query_statistics(maps: TokenMaps, groups: TokenGroups) -> dict[str, QueryNumbers]:
    """Shares by target, entropy in nats and evenness of every row, by name."""
    return {**target_shares(maps, groups), "entropy": entropy(maps), "evenness": evenness(maps)}


@strict
def means(numbers: Mapping[str, QueryNumbers]) -> dict[str, Float[np.ndarray, "layer channel"]]:
    """Mean over the queries that have a value; NaN where none has."""
    _refuse_unnamed(numbers, "numbers")
    return {name: _mean(np.asarray(rows)) for name, rows in numbers.items()}


@strict
def by_query_kind(
    rows: QueryNumbers, maps: TokenMaps, kinds: TokenGroups
) -> dict[str, Float[np.ndarray, "layer channel"]]:
    """A number of every row, averaged over the queries of each kind: where do separators, where does punctuation point?

    With the share on special tokens this is the no-op share of section 3.2: what a head does where it has nothing to do.

    Raises:
        InputError: if a kind is not one truth value a token.
    """
    if not isinstance(kinds, Mapping):
        raise InputError(
            f"kinds={brief(kinds)}: expected truth values of the tokens by name, as token_groups gives them."
        )
    asked = list(maps.queries)
    return {name: _mean(rows[..., _checked(name, kind, len(maps.tokens))[asked]]) for name, kind in kinds.items()}


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
    _refuse_unnamed(statistics, "statistics")
    if not isinstance(thresholds, Mapping):
        raise InputError(
            f"thresholds={brief(thresholds)}: expected numbers by the name of a statistic, {{'previous': 0.5}}."
        )
    known = {*statistics, *THRESHOLDS}
    unknown = [name for name in thresholds if name not in known]
    if unknown:
        meant = did_you_mean(unknown[0], known)
        raise InputError(
            f"thresholds[{unknown[0]!r}]: no statistic of this name; there are {', '.join(sorted(known))}. {meant}"
        )
    limits = {name: real_number(least, f"thresholds[{name!r}]") for name, least in thresholds.items()}
    return {name: statistics[name] >= least for name, least in limits.items() if name in statistics}


@strict
def summary(maps: TokenMaps, groups: TokenGroups, thresholds: Mapping[str, float] = THRESHOLDS) -> "pandas.DataFrame":
    """One row a layer and channel: the mean of every statistic, and what the channel mostly does.

    Args:
        maps: Any maps.
        groups: Which tokens belong to each group, as `token_groups` gives them.
        thresholds: As in `behaviours`.

    Raises:
        InputError: if a value is negative, or a group is not one truth value a token.
    """
    import pandas as pd

    table = means(query_statistics(maps, groups))
    reached = behaviours(table, thresholds)
    names = np.array(list(reached), dtype=object)
    flags = np.stack([reached[name].reshape(-1) for name in reached], axis=1) if reached else np.zeros((0, 0), bool)
    layer, channel = np.meshgrid(maps.layers, np.array(maps.channels, dtype=object), indexing="ij")
    columns = {"layer": layer.reshape(-1), "channel": channel.reshape(-1)}
    columns |= {name: values.reshape(-1) for name, values in table.items()}
    return pd.DataFrame({**columns, "behaviour": [", ".join(names[row]) for row in flags] if reached else ""})


def _refuse_unnamed(numbers: object, name: str) -> None:
    if not isinstance(numbers, Mapping):
        raise InputError(
            f"{name}={brief(numbers)}: expected numbers by the name of a statistic, as query_statistics gives them."
        )


def _mean(rows: Float[np.ndarray, "layer channel query"]) -> Float[np.ndarray, "layer channel"]:
    known = ~np.isnan(rows)
    count = known.sum(axis=-1)
    return np.where(count > 0, np.where(known, rows, 0).sum(axis=-1) / np.maximum(count, 1), np.nan)


def _checked(name: str, group: Bool[np.ndarray, " token"], count: int) -> Bool[np.ndarray, " token"]:
    mask = np.asarray(group)
    if mask.shape != (count,) or mask.dtype != bool:
        raise InputError(
            f"group {name!r} has shape {mask.shape} of {mask.dtype}: expected {count} truth values, one a token."
        )
    return mask


def _is_punctuation(token: str) -> bool:
    """Whether the text of a token is punctuation alone; a `#` of its own is punctuation, `##` before letters is a marker."""
    text = token.strip()
    text = text.strip(_MARKERS) or text.strip("ĠĊ▁")
    return bool(text) and all(unicodedata.category(c).startswith("P") for c in text)
