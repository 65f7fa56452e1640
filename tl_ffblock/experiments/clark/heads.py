"""Attention of heads to kinds of tokens and syntactic relations, compared with other maps (sections 3, 4.2 and 6).

- `statistics`: for every map, the mean share on the previous, own and next token, the first token, special tokens, those of
  them after the first (`separator`), punctuation, and the paper's punctuation (`period or comma`). Also the entropy in nats,
  and as a fraction of its largest value (`evenness`). Means are over queries with such a target within reach. `behaviour` names
  the main behaviours of a map.
- `no_op`: the share on special tokens and the first token, and the row's entropy in nats, by kind of query; `first special` is
  [CLS] alone (section 3.3).
- `divergences`, `plane`: Jensen-Shannon divergence between heads of attention in nats, mean over queries; heads as points in a
  plane, with clusters (average linkage).
- `relations` (data with gold relations): fraction of the arcs of each relation that a map finds, from the dependent's row and
  from the heads' rows; in a causal model only arcs within reach. Arcs are between words: word pieces are pooled and special
  tokens dropped. A tie is a miss. `offsets`: fraction of arcs whose head is k words after the dependent. With
  `possessives="marker"` the row of a possessor is that of its marker (`'s`), as in the paper's program.
- `best`: the best map of each kind, chosen on other documents (5 folds, mean over 20 divisions of documents into folds). It has
  95 % intervals (bootstrap over documents, with the choice repeated in each draw). Differences on the same draws are to
  attention, to the best offset, and for later scopes to the map after attention (`minus_atb`). `top_` is the best on all
  documents.
- `differences`: means of these over all questions (a relation read from one end), with intervals on the same draws. `better`
  and `worse` count the intervals that exclude zero; if nothing differed, at most one in twenty is expected.

Maps are attention, value-weighted attention and contributions at three scopes, of the whole layer or also by head.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int, Shaped

from tl_ffblock.corpus.statistics import merged
from tl_ffblock.corpus.study import (
    Arrays,
    Figures,
    Moments,
    Observation,
    Options,
    ShardArrays,
    Study,
    Tables,
)
from tl_ffblock.corpus.tokenised import TokenisedText
from tl_ffblock.experiments.clark.compared import (
    ATTENTION,
    VALUE_WEIGHTED,
    Channel,
    channels_of,
    compared_maps,
    compared_scopes,
    document_number,
    maps_of_words,
    places_by_kind,
    words_of,
)
from tl_ffblock.heads import (
    Arcs,
    RelationHits,
    Share,
    behaviours,
    clusters,
    divergence_sums,
    mean_share,
    plane,
    query_statistics,
    relation_hits,
    share_of_chosen,
    token_groups,
)
from tl_ffblock.heads.relations import ALL, DIRECTIONS, OFFSETS, ArcDirection
from tl_ffblock.heads.statistics import PERIOD_OR_COMMA, RELATIVE
from tl_ffblock.results import figures as draw
from tl_ffblock.results.token_maps import TokenMaps

DRAWN = ("previous", "next", "first", "separator", "punctuation")
"""Shares in the figure over layers."""
STATISTICS = (*RELATIVE, "first", "special", "separator", "punctuation", PERIOD_OR_COMMA, "entropy", "evenness")
NO_OP = "no-op"
"""Share on special tokens and the first token, the targets of heads that do nothing (no-op)."""
QUERY_KINDS = ("first special", "special", "punctuation", "first piece", "later piece")
OF_KINDS = (NO_OP, "entropy")
"""Numbers that are averaged by kind of query."""
N_CLUSTERS = 8
OFFSET = "offset"
"""Best fixed distance, a baseline for the kinds of maps."""
_NAME_BYTES = 24
"""Number of bytes of a stored relation name; the longest of Universal Dependencies has 17."""
Measured: TypeAlias = tuple[
    dict[str, Moments], Float[np.ndarray, "map map"], Int[np.ndarray, "map map"], RelationHits | None
]
"""Measurement of one sequence: statistics, sums of divergences over queries between heads of attention, number of queries, hits."""


@dataclass(frozen=True)
class HeadsOptions(Options):
    """Maps and relations of the study."""

    least: ClassVar[Mapping[str, int]] = {"least_arcs": 1}
    contributions: Literal["layer", "head"] = "layer"
    """Contributions of the whole layer, or also through each head, which takes four to ten times as long."""
    least_arcs: int = 100
    """Smallest number of arcs within reach for a relation to be in the tables."""
    possessives: Literal["noun", "marker"] = "noun"
    """Row that is read for the head of a possessor: its own, or that of the marker ('s) after it, as in the paper's program."""


class Heads(Study):
    """Statistics of heads and of other maps."""

    name = "heads"
    title = "What heads attend to, before and after the feed-forward"
    repeats = "sections 3, 4.2, 6, Fig. 2, 4, 6, Tab. 1"
    packages = ("sklearn",)
    captions: ClassVar[Mapping[str, str]] = {
        "shares": "Mean share of attention on each target, over the heads of a layer, with standard errors (thick) and standard "
        "deviations (thin) over its heads.",
        "plane": "Attention's heads by what they mostly do; close heads attend alike, the axes mean nothing. Every head is there once: "
        "a picture of their distances, without standard errors.",
    }
    masked = 0.0  # Clark et al. mask no tokens
    options: HeadsOptions

    @property
    def by_head(self) -> bool:
        """Whether contributions through each head are among the maps."""
        return self.options.contributions == "head"

    def scopes(self) -> tuple[str, ...]:
        return compared_scopes(self.facts)

    def measure(self, observed: Observation) -> Measured:
        tokenised = observed.tokenised
        maps = compared_maps(observed, self.facts, by_head=self.by_head)
        places = places_by_kind(channels_of(self.facts, len(maps.channels), by_head=self.by_head))[ATTENTION]
        names = tuple(maps.channels[place] for place in places)
        attention = replace(maps, values=maps.values[:, places], channels=names)
        arcs = arcs_of(tokenised, from_markers=self.options.possessives == "marker")
        document = document_number(tokenised)
        hits = relation_hits([(maps_of_words(maps, tokenised), arcs)], [document]) if arcs.name else None
        return sequence_statistics(maps, tokenised), *divergence_sums(attention), hits

    def summarise(self, measured: Sequence[Measured]) -> Arrays:
        statistics, sums, queries, hits = zip(*measured, strict=True)
        arrays = {"divergence.sum": np.sum(sums, axis=0), "divergence.queries": np.sum(queries, axis=0)}
        for name in statistics[0]:
            arrays |= merged(of_sequence[name] for of_sequence in statistics).arrays(f"{name}.")
        arrays |= hits_as_arrays([found for found in hits if found is not None])
        return {self.array(name): array for name, array in arrays.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        names = (*STATISTICS, *(f"{name}.{kind}" for name in OF_KINDS for kind in QUERY_KINDS))
        moments = {name: self.moments(shards, name) for name in names}
        shape = moments["own"].mean.shape
        channels = channels_of(self.facts, shape[1], by_head=self.by_head)
        statistics = _statistics_table(moments, channels)
        attention = statistics[statistics["map"] == ATTENTION]
        sums, queries = (
            np.sum([shard[self.array(f"divergence.{name}")] for shard in shards], axis=0) for name in ("sum", "queries")
        )
        divergences = sums / np.maximum(queries, 1)
        tables = {
            "statistics": statistics,
            "no_op": _no_op_table(moments, channels),
            "divergences": _pairs(divergences, queries, attention),
            "plane": _plane_table(divergences, attention, self.config.seed),
        }
        hits = merged_hits(shards, self.array("arcs."), (shape[0], shape[1]), causal=self.facts.causal)
        if hits is not None:
            least = self.options.least_arcs
            tables["relations"] = _relations_table(hits, channels, least)
            tables["offsets"] = _offsets_table(hits, least)
            tables["best"], tables["differences"] = _best_tables(hits, channels, least, self.config.seed)
        return tables

    def figures(self, tables: Tables) -> Figures:
        statistics = tables["statistics"]
        layers = statistics[statistics["map"] == ATTENTION].groupby("layer")[list(DRAWN)]
        mean, deviation, heads = layers.mean(), layers.std(), layers.count()
        lines = {
            name: draw.Spread(*(part[name].to_numpy() for part in (mean, deviation / np.sqrt(heads), deviation)))
            for name in DRAWN
            if mean[name].notna().any()
        }
        return {"shares": draw.layer_lines(lines, ylabel="mean share of attention"), "plane": _plane_figure(tables)}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        statistics = tables["statistics"]
        attention = statistics[statistics["map"] == ATTENTION]
        does = attention["behaviour"].str.split(", ").explode().value_counts().drop("", errors="ignore").sort_index()
        counted = ", ".join(f"{number} {name}" for name, number in does.items()) or "none"
        sentences = [f"Of {len(attention)} heads of attention, by what they mostly do: {counted}."]
        if len(best := tables.get("best", pd.DataFrame())):
            for read, of_read in best[(best["relation"] == ALL) & (best["map"] != "offset")].groupby(
                "read", sort=False
            ):
                accuracies = ", ".join(f"{row.map} {row.accuracy:.0%}" for row in of_read.itertuples())
                sentences.append(f"All relations, read {read}, best map chosen on other documents: {accuracies}.")
        return tuple(sentences)


def sequence_statistics(maps: TokenMaps, tokenised: TokenisedText) -> dict[str, Moments]:
    """Moments over a sequence's queries, by name: of every statistic, and of no-op share and entropy by kind of query."""
    groups = token_groups(maps.tokens, special=np.flatnonzero(tokenised.special).tolist())
    numbers = query_statistics(maps, groups | {NO_OP: groups["special"] | groups["first"]})
    samples = {name: numbers[name] for name in STATISTICS}
    for kind, queries in query_kinds(tokenised, groups).items():
        samples |= {f"{name}.{kind}": np.where(queries, numbers[name], np.nan) for name in OF_KINDS}
    return {name: Moments.of(np.moveaxis(rows, -1, 0)) for name, rows in samples.items()}


def query_kinds(
    tokenised: TokenisedText, groups: Mapping[str, Bool[np.ndarray, " token"]]
) -> dict[str, Bool[np.ndarray, " token"]]:
    """Masks of the kinds of queries: special tokens, punctuation, first pieces of words, and later pieces; a token has at most one.

    A special token at the beginning is special, and also a kind of its own ("first special").
    """
    word = tokenised.word
    first_piece = np.zeros(len(word), dtype=bool)
    first_piece[np.unique(word, return_index=True)[1]] = True
    text = (word >= 0) & ~groups["special"] & ~groups["punctuation"]
    return {
        "first special": groups["special"] & groups["first"],
        "special": groups["special"],
        "punctuation": groups["punctuation"],
        "first piece": text & first_piece,
        "later piece": text & ~first_piece,
    }


def arcs_of(tokenised: TokenisedText, *, from_markers: bool = False) -> Arcs:
    """Relations of the text between words that have a token, by rows of the word maps; the root has none.

    Args:
        tokenised: The text.
        from_markers: Whether possessors are read from their markers.
    """
    text, words = tokenised.source, words_of(tokenised)
    rows = {word: row for row, word in enumerate(words)}
    arcs = Arcs.of(
        (rows[arc.dependent], rows[arc.head], arc.name)
        for arc in text.relations
        if arc.dependent in rows and arc.head in rows
    )
    if not from_markers or text.words is None:
        return arcs
    return arcs.from_markers([text.text[slice(*text.words[word])] for word in words])


def hits_as_arrays(measured: Sequence[RelationHits]) -> Arrays:
    """Arrays of a shard for its sequences' arcs, with one bit per arc, map and direction; empty without arcs."""
    if not measured:
        return {}
    hits = np.concatenate([each.hits for each in measured], axis=1)
    names = np.array([name.encode() for each in measured for name in each.name], dtype=f"S{_NAME_BYTES}")
    return {
        "arcs.hits": np.packbits(hits.reshape(*hits.shape[:2], -1), axis=-1),
        "arcs.name": names.view(np.uint8).reshape(-1, _NAME_BYTES),
        "arcs.offset": np.concatenate([each.offset for each in measured]).astype(np.int32),
        "arcs.document": np.concatenate([each.document for each in measured]),
    }


def merged_hits(
    shards: Sequence[ShardArrays], prefix: str, shape: tuple[int, int], *, causal: bool
) -> RelationHits | None:
    """Arcs of all shards, in order; `shape` is (layers, channels). None if no shard has any."""
    kept = [shard for shard in shards if f"{prefix}hits" in shard]
    if not kept:
        return None

    def joined(name: str, axis: int = 0) -> np.ndarray:
        return np.concatenate([shard[f"{prefix}{name}"] for shard in kept], axis=axis)

    bits = np.unpackbits(joined("hits", 1), axis=-1, count=shape[0] * shape[1]).astype(bool)
    return RelationHits(
        hits=bits.reshape(*bits.shape[:2], *shape),
        name=tuple(bytes(row).rstrip(b"\0").decode() for row in joined("name")),
        offset=joined("offset").astype(np.int64),
        document=joined("document"),
        causal=causal,
    )


def _rows(
    channels: Sequence[Channel], columns: Mapping[str, Shaped[np.ndarray, "layer channel"]]
) -> Iterator[dict[str, Any]]:
    """One row per layer and channel."""
    for layer, place in np.ndindex(next(iter(columns.values())).shape):
        yield channels[place].columns(layer) | {name: values[layer, place] for name, values in columns.items()}


def _statistics_table(moments: Mapping[str, Moments], channels: Sequence[Channel]) -> pd.DataFrame:
    """One row per layer and channel: every mean, and the main behaviours."""
    means = {name: moments[name].value for name in STATISTICS}
    reached = behaviours(means)
    table = pd.DataFrame(_rows(channels, means | {"queries": moments["entropy"].count}))
    does = np.stack([reached[name].ravel() for name in reached], axis=1)
    return table.assign(behaviour=[", ".join(compress(reached, of_channel)) for of_channel in does])


def _no_op_table(moments: Mapping[str, Moments], channels: Sequence[Channel]) -> pd.DataFrame:
    """No-op share and entropy of every layer and channel, by kind of query."""
    rows: list[dict[str, Any]] = []
    for kind in QUERY_KINDS:
        share, entropy = (moments[f"{name}.{kind}"] for name in OF_KINDS)
        columns = {"share": share.value, "entropy": entropy.value, "queries": share.count}
        rows += _rows(channels, {"query": np.full_like(share.mean, kind, dtype=object)} | columns)
    return pd.DataFrame(rows)


def _plane_table(divergences: Float[np.ndarray, "map map"], heads: pd.DataFrame, seed: int) -> pd.DataFrame:
    """Heads of attention as points in a plane, with cluster and behaviour; `heads` are their statistics, in order."""
    table = heads[["map", "layer", "channel", "behaviour"]].reset_index(drop=True)
    if len(table) < 2:
        return table.assign(x=0.0, y=0.0, cluster=0)
    points = plane(divergences, seed=seed)
    return table.assign(x=points[:, 0], y=points[:, 1], cluster=clusters(divergences, min(N_CLUSTERS, len(table))))


def _pairs(
    divergences: Float[np.ndarray, "map map"], queries: Int[np.ndarray, "map map"], heads: pd.DataFrame
) -> pd.DataFrame:
    first, second = np.triu_indices(len(divergences), 1)
    layer, channel = (heads[name].to_numpy() for name in ("layer", "channel"))
    return pd.DataFrame(
        {
            "layer": layer[first],
            "channel": channel[first],
            "other_layer": layer[second],
            "other_channel": channel[second],
            "divergence": divergences[first, second],
            "queries": queries[first, second],
        }
    )


def _relations_table(hits: RelationHits, channels: Sequence[Channel], least: int) -> pd.DataFrame:
    """Accuracy of every map for every relation, from both ends."""
    rows = [
        {"relation": relation, "read": direction} | row
        for relation, direction, arcs in _questions(hits, least)
        for row in _rows(channels, {"accuracy": hits.hits[DIRECTIONS.index(direction)][arcs].mean(axis=0)})
    ]
    return pd.DataFrame(rows)


def _offsets_table(hits: RelationHits, least: int) -> pd.DataFrame:
    """Fraction of the arcs of every relation with the head k words after the dependent, for each k."""
    rows = [
        {"relation": relation, "read": direction, "offset": k, "accuracy": float((hits.offset[arcs] == k).mean())}
        | {"arcs": int(arcs.sum())}
        for relation, direction, arcs in _questions(hits, least)
        for k in OFFSETS
    ]
    return pd.DataFrame(rows)


def _best_tables(
    hits: RelationHits, channels: Sequence[Channel], least: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """For every relation the best map of each kind, chosen on other documents, with its differences to others; and their means."""
    rows, questions = [], []
    places = places_by_kind(channels)
    documents = np.unique(hits.document)
    for relation, direction, arcs in _questions(hits, least):
        document = hits.document[arcs]
        if len(np.unique(document)) < 2:
            continue
        found = hits.hits[DIRECTIONS.index(direction)][arcs]
        candidates = {kind: found[..., of_kind] for kind, of_kind in places.items()}
        candidates[OFFSET] = hits.offset[arcs][:, None] == np.array(OFFSETS)
        best = {
            kind: share_of_chosen(each.reshape(len(each), -1), document, drawn_from=documents, seed=seed)
            for kind, each in candidates.items()
        }
        differences = {
            (kind, other): best[kind].minus(best[of_other])
            for kind in places
            for other, of_other in _compared_with(kind).items()
        }
        questions.append(differences)
        for kind, share in best.items():
            row: dict[str, object] = {"relation": relation, "read": direction, "arcs": int(arcs.sum()), "map": kind}
            row |= share.columns("accuracy")
            for (of, other), difference in differences.items():
                row |= difference.columns(f"minus_{other}") if of == kind else {}
            if kind != OFFSET:  # best on all documents: the choice makes this accuracy optimistic
                accuracy = candidates[kind].mean(axis=0)
                layer, place = np.unravel_index(int(accuracy.argmax()), accuracy.shape)
                name = channels[places[kind][place]].name
                row |= {"top_layer": int(layer), "top_channel": name, "top_accuracy": float(accuracy[layer, place])}
            rows.append(row)
    return pd.DataFrame(rows), _differences_table(questions)


def _compared_with(kind: str) -> dict[str, str]:
    """Kinds of maps that a kind is compared with, by their name in the tables."""
    before = "Atb by head" if kind.endswith(" by head") else "Atb"
    others = {"attention": ATTENTION, "offset": OFFSET}
    return others if kind in (ATTENTION, VALUE_WEIGHTED, before) else others | {"atb": before}


def _differences_table(questions: Sequence[Mapping[tuple[str, str], Share]]) -> pd.DataFrame:
    """Over all questions: number of differences whose interval excludes zero, and the mean difference."""
    rows = []
    for kind, other in questions[0] if questions else ():
        shares = [differences[kind, other] for differences in questions]
        ends = np.array([share.interval() for share in shares])
        counts = {"better": int((ends[:, 0] > 0).sum()), "worse": int((ends[:, 1] < 0).sum())}
        row: dict[str, object] = {"map": kind, "minus": other, "questions": len(shares)}
        rows.append(row | counts | mean_share(shares).columns("mean"))
    return pd.DataFrame(rows)


def _questions(hits: RelationHits, least: int) -> Iterator[tuple[str, ArcDirection, Bool[np.ndarray, " arc"]]]:
    """Every relation from both ends, with its arcs within reach, if there are enough of them."""
    for relation, of_relation in hits.relations.items():
        for direction in DIRECTIONS:
            arcs = of_relation & hits.reachable(direction)
            if arcs.sum() >= least:
                yield relation, direction, arcs


def _plane_figure(tables: Tables) -> Any:
    points = tables["plane"]
    figure, ax = draw.axes(height=3.0)
    named = points["behaviour"].where(points["behaviour"] != "", "none of these")
    for number, (behaviour, group) in enumerate(points.groupby(named, sort=True)):
        marker = draw.MARKERS[number % len(draw.MARKERS)]
        colour = draw.COLOURS[number % len(draw.COLOURS)]
        ax.scatter(group["x"], group["y"], s=14, marker=marker, color=colour, label=behaviour)
    ax.set_xticks([])
    ax.set_yticks([])
    ax.set_xlabel("heads of attention; distance ≈ Jensen-Shannon divergence")
    ax.legend(fontsize=6)
    return figure
