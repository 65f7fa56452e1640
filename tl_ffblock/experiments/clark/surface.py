"""Surface statistics of a corpus: moments over queries that merge, and their tables (sections 3 and 6)."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.texts.tokenised import TokenisedText
from tl_ffblock.experiments.clark.compared import Channel
from tl_ffblock.heads import behaviours, clusters, plane, query_statistics, token_groups
from tl_ffblock.heads.statistics import QueryNumbers
from tl_ffblock.results.token_maps import TokenMaps

STATISTICS = ("previous", "own", "next", "first", "special", "separator", "punctuation", "entropy", "evenness")
NO_OP = "no-op"
"""Share on special tokens and the first: where a head points that has nothing to do."""
QUERY_KINDS = ("special", "punctuation", "first piece", "later piece")
N_CLUSTERS = 8


def sequence_statistics(maps: TokenMaps, tokenised: TokenisedText) -> dict[str, Moments]:
    """Moments over a sequence's queries, by name: of every statistic, and of the no-op share by kind of query."""
    special = np.flatnonzero(tokenised.special).tolist()
    groups = token_groups(maps.tokens, special=special)
    numbers = query_statistics(maps, groups | {NO_OP: groups["special"] | groups["first"]})
    moments = {name: _over_queries(numbers[name]) for name in STATISTICS}
    for kind, queries in query_kinds(tokenised, groups).items():
        moments[f"{NO_OP}.{kind}"] = _over_queries(np.where(queries, numbers[NO_OP], np.nan))
    return moments


def query_kinds(
    tokenised: TokenisedText, groups: Mapping[str, Bool[np.ndarray, " token"]]
) -> dict[str, Bool[np.ndarray, " token"]]:
    """Kinds of queries: special tokens, punctuation, first pieces of words and later ones; each token is of one at most."""
    word = tokenised.word
    first_piece = np.zeros(len(word), dtype=bool)
    first_piece[np.unique(word, return_index=True)[1]] = True
    text = (word >= 0) & ~groups["special"] & ~groups["punctuation"]
    return {
        "special": groups["special"],
        "punctuation": groups["punctuation"],
        "first piece": text & first_piece,
        "later piece": text & ~first_piece,
    }


def statistics_table(moments: Mapping[str, Moments], channels: Sequence[Channel]) -> pd.DataFrame:
    """One row a layer and channel: every mean, and what the channel mostly does."""
    means = {name: moments[name].value for name in STATISTICS}
    reached = behaviours(means)
    rows = []
    for layer, place in np.ndindex(means["own"].shape):
        does = [name for name in reached if reached[name][layer, place]]
        row = {name: means[name][layer, place] for name in STATISTICS}
        queries = int(moments["entropy"].count[layer, place])
        rows.append(channels[place].columns(layer) | row | {"queries": queries, "behaviour": ", ".join(does)})
    return pd.DataFrame(rows)


def no_op_table(moments: Mapping[str, Moments], channels: Sequence[Channel]) -> pd.DataFrame:
    """The no-op share of every layer and channel by kind of query."""
    rows = []
    for kind in QUERY_KINDS:
        of_kind = moments[f"{NO_OP}.{kind}"]
        for layer, place in np.ndindex(of_kind.mean.shape):
            share, queries = of_kind.value[layer, place], int(of_kind.count[layer, place])
            rows.append(channels[place].columns(layer) | {"query": kind, "share": share, "queries": queries})
    return pd.DataFrame(rows)


def plane_table(
    sums: Float[np.ndarray, "map map"], counts: Int[np.ndarray, "map map"], statistics: pd.DataFrame, seed: int
) -> pd.DataFrame:
    """Attention's heads in a plane, with their cluster and behaviour; `statistics` are theirs, in order."""
    table = statistics[["map", "layer", "channel", "behaviour"]].reset_index(drop=True)
    if len(table) < 2:
        return table.assign(x=0.0, y=0.0, cluster=0)
    distances = sums / np.maximum(counts, 1)
    points = plane(distances, seed=seed)
    return table.assign(x=points[:, 0], y=points[:, 1], cluster=clusters(distances, min(N_CLUSTERS, len(table))))


def _over_queries(rows: QueryNumbers) -> Moments:
    return Moments.of(np.moveaxis(rows, -1, 0))
