"""What heads attend to, on attention and on maps with the feed-forward included (sections 3, 4.2 and 6).

- `statistics`: for every map the mean share on the previous, own and next token, the first, special tokens, those of
  them behind the first (`separator`) and punctuation; entropy in nats, and as a share of its largest value
  (`evenness`). Means are over queries that have such a target within reach. `behaviour` names what a map mostly does.
- `no_op`: the share on special tokens and the first token, by kind of query.
- `divergences`, `plane`: Jensen-Shannon divergence between the heads of attention, mean over queries in nats; their
  picture in a plane, with clusters (average linkage).
- `relations` (data with gold relations): of the arcs of each relation the share that a map finds, from the dependent's
  row and from the heads' rows; of a causal model only arcs within reach. Arcs are between words, pieces pooled, special
  tokens left out; a tie is a miss. `offsets`: the share whose head is k words behind the dependent.
- `best`: the best map of each kind, chosen on other documents (5 folds, mean over 20 deals of documents into folds), with
  95 % intervals (bootstrap over documents, the choice made again in each draw) and differences on the same draws: to
  attention, to the best offset, and of later scopes to the map after attention (`minus_atb`). `top_` is the best on all
  documents. `differences`: their means over all questions (a relation read from one end), with intervals on the same
  draws, and in how many the interval excludes zero (`better`, `worse`): if nothing differed, at most one in twenty.

Maps are attention, value-weighted attention and contributions at three scopes, of the whole layer or also by head.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pandas as pd
from jaxtyping import Float, Int

from tl_ffblock.corpus.fields import check_at_least
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments, merged
from tl_ffblock.corpus.study import Arrays, Figures, ModelFacts, Study, Tables
from tl_ffblock.errors import InputError
from tl_ffblock.experiments.clark import surface, syntax
from tl_ffblock.experiments.clark.compared import (
    ATTENTION,
    Channel,
    channels_by_kind,
    channels_of,
    compared_maps,
    compared_scopes,
    n_heads_of,
)
from tl_ffblock.heads import RelationHits, divergence_sums
from tl_ffblock.heads.relations import ALL
from tl_ffblock.results import figures as draw

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DRAWN = ("previous", "next", "first", "separator", "punctuation")
"""Shares of the figure over layers."""


@dataclass(frozen=True)
class HeadsOptions:
    """Which maps, and which relations."""

    contributions: Literal["layer", "head"] = "layer"
    """Contributions of the whole layer, or also through each head, which takes four to ten times as long."""
    least_arcs: int = 100
    """Arcs within reach that a relation needs to stand in the tables."""

    def __post_init__(self) -> None:
        check_at_least(self, "least_arcs", 1)
        if self.contributions not in ("layer", "head"):
            raise InputError(f'contributions={self.contributions!r}: expected "layer" or "head".')


@dataclass(frozen=True)
class MeasuredHeads:
    """What one sequence adds."""

    statistics: dict[str, Moments]
    divergence: Float[np.ndarray, "map map"]
    """Sum over queries, between the heads of attention."""
    queries: Int[np.ndarray, "map map"]
    """Queries in that sum."""
    hits: RelationHits | None


class Heads(Study):
    """Statistics of heads and of other maps."""

    name = "heads"
    title = "What heads attend to, and what the feed-forward makes of it"
    packages = ("sklearn",)
    captions: ClassVar[Mapping[str, str]] = {
        "shares": "Mean share of attention on each target, over the heads of a layer, with standard errors (thick) and standard "
        "deviations (thin) over its heads.",
        "plane": "Attention's heads by what they mostly do; close heads attend alike, the axes mean nothing. Every head is there once: "
        "a picture of their distances, without standard errors.",
    }
    masked = 0.0  # Clark et al. read texts as they are
    options: HeadsOptions

    def __init__(self, config: Config, facts: ModelFacts, options: object = None) -> None:
        super().__init__(config, facts, options)
        self.by_head = self.options.contributions == "head"

    def scopes(self) -> tuple[str, ...]:
        return compared_scopes(self.facts)

    def measure(self, observed: Observation) -> MeasuredHeads:
        maps = compared_maps(observed, self.facts, by_head=self.by_head)
        attention = channels_by_kind(maps, self._channels(len(maps.channels)), ATTENTION)
        return MeasuredHeads(
            surface.sequence_statistics(maps, observed.tokenised),
            *divergence_sums(attention),
            syntax.sequence_hits(maps, observed.tokenised),
        )

    def summarise(self, measured: Sequence[MeasuredHeads]) -> Arrays:
        arrays: Arrays = {}
        for name in measured[0].statistics:
            arrays |= merged(each.statistics[name] for each in measured).arrays(name)
        arrays["divergence.sum"] = np.sum([each.divergence for each in measured], axis=0)
        arrays["divergence.queries"] = np.sum([each.queries for each in measured], axis=0)
        arrays |= syntax.hits_as_arrays([each.hits for each in measured if each.hits is not None])
        return {self.array(name): array for name, array in arrays.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        names = (*surface.STATISTICS, *(f"{surface.NO_OP}.{kind}" for kind in surface.QUERY_KINDS))
        moments = {name: merged(Moments.read(shard, self.array(name)) for shard in shards) for name in names}
        shape = moments["own"].mean.shape
        channels = self._channels(shape[1])
        statistics = surface.statistics_table(moments, channels)
        of_attention = statistics[statistics["map"] == ATTENTION]
        sums, queries = (
            np.sum([shard[self.array(f"divergence.{name}")] for shard in shards], axis=0) for name in ("sum", "queries")
        )
        tables = {
            "statistics": statistics,
            "no_op": surface.no_op_table(moments, channels),
            "divergences": _pairs(sums, queries, of_attention),
            "plane": surface.plane_table(sums, queries, of_attention, self.config.seed),
        }
        hits = syntax.merged_hits(shards, self.array(""), (shape[0], shape[1]), causal=self.facts.causal)
        if hits is not None:
            least = self.options.least_arcs
            tables["relations"] = syntax.relations_table(hits, channels, least)
            tables["offsets"] = syntax.offsets_table(hits, least)
            tables["best"], tables["differences"] = syntax.best_tables(hits, channels, least, self.config.seed)
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

    def _channels(self, n_channels: int) -> tuple[Channel, ...]:
        n_heads = n_heads_of(self.facts, n_channels, by_head=self.by_head)
        return channels_of(self.facts, n_heads, by_head=self.by_head)


def _pairs(
    sums: Float[np.ndarray, "map map"], queries: Int[np.ndarray, "map map"], heads: pd.DataFrame
) -> pd.DataFrame:
    """Every two heads once."""
    first, second = np.triu_indices(len(sums), 1)
    layer, channel = (heads[name].to_numpy() for name in ("layer", "channel"))
    return pd.DataFrame(
        {
            "layer": layer[first],
            "channel": channel[first],
            "other_layer": layer[second],
            "other_channel": channel[second],
            "divergence": sums[first, second] / np.maximum(queries[first, second], 1),
            "queries": queries[first, second],
        }
    )


def _plane_figure(tables: Tables) -> "Figure":
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
