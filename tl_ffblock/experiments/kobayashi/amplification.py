"""Which token pairs the feed-forward amplifies: FF-amp over the corpus (section 5.2).

FF-amp of a pair is the difference of the column-normalised maps after and before the feed-forward
(footnote 3), averaged over all occurrences of the two vocabulary entries (query, key). Left out are pairs
of a position with itself, pairs that occur once, special and masked tokens, and cells that a causal
model cannot reach.

- `top_pairs`: the most amplified pairs of each layer (positive FF-amp only), with their category (the most frequent one of their
  occurrences, of equally frequent ones the first in categories.py) and the share of occurrences that are of it (Tab. 1-3).
- `shares`: share of the categories among them, against all pairs (what fully random pairs give in
  expectation) and all pairs that occur side by side at least once (adjacent random pairs) (Fig. 5, 13). A pair counts
  in each category by the share of its occurrences there, so that no tie is broken. Of pairs that occur at least
  twice, as in the paper, and of those that occur more often: most pairs of a corpus occur twice.
- `pmi`: Spearman's correlation of mean FF-amp with pointwise mutual information by article, sentence and
  window, pairs of different tokens that share a unit; of pairs that occur at least twice, and of frequent ones, whose
  FF-amp and mutual information are less noisy.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy.stats import spearmanr

from tl_ffblock.corpus.fields import check_at_least
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.pair_sums import PairSums, add_up, merge_ranges, pair_keys, split_keys
from tl_ffblock.corpus.statistics.top import Best, Top
from tl_ffblock.corpus.study import Arrays, Figures, Study, Tables
from tl_ffblock.experiments.kobayashi.categories import CATEGORIES, adjacent, categorise
from tl_ffblock.experiments.kobayashi.pmi import UNITS, Incidence, Text, sentences
from tl_ffblock.results import figures as draw
from tl_ffblock.results.measures import amplification
from tl_ffblock.results.tokens import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SENTENCE_ENDS = (".", "!", "?")

OCCURRENCES = (2, 3, 5)
"""Pairs that occur at least so often are ranked; the paper's is the first."""
FREQUENT = 20
"""Occurrences of a pair from which on its means are little noise."""


@dataclass(frozen=True)
class PairMeans:
    """Pairs of different tokens."""

    keys: Int[np.ndarray, " pair"]
    count: Int[np.ndarray, " pair"]
    """Occurrences."""
    mean: Float[np.ndarray, "pair layer"]
    """FF-amp."""


@dataclass
class Ranking:
    """The most amplified of the pairs that occur at least so often, and the categories of all of these."""

    occurrences: int
    top: Top
    totals: Float[np.ndarray, "group category"] = field(default_factory=lambda: np.zeros((2, len(CATEGORIES))))
    """Sums of shares over all pairs, and over those that occur side by side at least once."""
    counts: Int[np.ndarray, " group"] = field(default_factory=lambda: np.zeros(2, dtype=np.int64))

    def offer(self, pairs: PairSums) -> None:
        """Take a range of pairs."""
        often = pairs.where(pairs.count >= self.occurrences)
        self.top.offer(often.mean, often.keys, {"count": often.count, "kinds": often.kinds})
        for group, of_group in enumerate((often, often.where(often.kinds[:, -1] > 0))):
            self.totals[group] += _shares_of_kinds(of_group.kinds, of_group.count).sum(axis=0)
            self.counts[group] += len(of_group.keys)

    def shares(self) -> pd.DataFrame:
        """Mean share of every category, one row a group of pairs and category."""
        groups = []
        for layer, best in enumerate(self.top.cells):
            total = _shares_of_kinds(best.columns["kinds"], best.columns["count"]).sum(axis=0)
            groups.append((f"layer {layer}", len(best.keys), total))
        groups += zip(("random", "adjacent random"), self.counts.tolist(), self.totals, strict=True)
        rows = []
        for name, number, total in groups:
            for category, of_category in zip(CATEGORIES, total, strict=True):
                share = float(of_category) / number if number else np.nan
                rows.append(
                    dict(occurrences=self.occurrences, pairs=name, category=category, number=number, share=share)
                )
        return pd.DataFrame(rows, columns=["occurrences", "pairs", "category", "number", "share"])


@dataclass(frozen=True)
class AmplificationOptions:
    """What is reported, and of what PMI is taken."""

    window: int = 10
    """Tokens of a window, for pointwise mutual information."""
    top_pairs: int = 50
    """Most amplified pairs reported a layer."""

    def __post_init__(self) -> None:
        for name in ("window", "top_pairs"):
            check_at_least(self, name, 1)


@dataclass(frozen=True)
class PairsOfText:
    """What one sequence adds."""

    pairs: PairSums
    ids: Int[np.ndarray, " token"]
    """Of its tokens that are not special."""
    document: int
    """Number of its article."""
    sentence: Int[np.ndarray, " token"]
    """The sentence of each of these tokens."""


class Amplification(Study):
    """FF-amp by token pair."""

    name = "amplification"
    captions: ClassVar[Mapping[str, str]] = {
        "shares": "Share of each kind among the most amplified pairs of a layer, with the standard error of as many pairs drawn "
        "at random; lines across: all pairs, and pairs met side by side. The rest is of no kind.",
        "pmi": "Rank correlation of mean FF-amp with pointwise mutual information, with the standard error of independent pairs, "
        "often smaller than the marks.",
    }
    title = "Token pairs that the feed-forward amplifies"
    options: AmplificationOptions

    def scopes(self) -> tuple[str, ...]:
        step = self.facts.feed_forward
        return (str(step.before), step.scope)

    def measure(self, observed: Observation) -> PairsOfText:
        tokenised = observed.tokenised
        gained = amplification(observed.maps, *self.scopes()).numpy().astype(np.float64)
        cells = observed.maps.reachable().numpy().copy()
        np.fill_diagonal(cells, False)
        cells &= ~tokenised.special[:, None] & ~tokenised.special[None]
        query, key = np.nonzero(cells)
        category = categorise(tokenised, query, key)
        kinds = np.zeros((len(query), len(CATEGORIES) + 1), dtype=np.int32)
        kinds[np.arange(len(query)), category] = 1
        kinds[:, -1] = adjacent(query, key)
        keys = pair_keys(tokenised.ids[query], tokenised.ids[key])
        occurrences = PairSums(keys, np.ones(len(keys), dtype=np.int32), kinds, gained[:, query, key].T)
        ids = tokenised.ids[~tokenised.special].astype(np.int64)
        ends = sentences(ids, lambda token: self.facts.label(token).strip("Ġ▁ ") in SENTENCE_ENDS)
        document = zlib.crc32(tokenised.source.document.encode("utf-8", "replace"))
        return PairsOfText(add_up([occurrences]), ids, document, ends)

    def summarise(self, measured: Sequence[PairsOfText]) -> Arrays:
        arrays = {
            **add_up([text.pairs for text in measured]).arrays(),
            "tokens": np.concatenate([text.ids for text in measured]),
            "sentences": np.concatenate([text.sentence for text in measured]),
            "lengths": np.array([len(text.ids) for text in measured]),
            "documents": np.array([text.document for text in measured], dtype=np.int64),
        }
        return {self.array(name): array for name, array in arrays.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        rankings = [Ranking(occurrences, Top(self.options.top_pairs)) for occurrences in OCCURRENCES]
        different: list[PairMeans] = []
        for pairs in merge_ranges(shards, self.array("")):
            for ranking in rankings:
                ranking.offer(pairs)
            unlike = pairs.where((pairs.count >= OCCURRENCES[0]) & (pairs.query != pairs.key))
            different.append(PairMeans(unlike.keys, unlike.count, unlike.mean.astype(np.float32)))
        shares = pd.concat([ranking.shares() for ranking in rankings], ignore_index=True)
        return {
            "top_pairs": self._top_table(rankings[0].top.cells),
            "shares": shares,
            "pmi": self._pmi(shards, different),
        }

    def figures(self, tables: Tables) -> Figures:
        pmi = tables["pmi"].query(f"occurrences == {OCCURRENCES[0]}")
        lines = {
            str(unit): draw.Spread.of_rank_correlations(group, "spearman", count="pairs")
            for unit, group in pmi.groupby("unit", sort=False)
        }
        correlation = draw.layer_lines(lines, ylabel="Spearman of FF-amp with PMI")
        correlation.axes[0].axhline(0, color="black", linewidth=0.5)
        return {"shares": _share_panels(self._usual(tables)), "pmi": correlation}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        shares = self._usual(tables).query("category != 'other'")
        of_layers = shares[shares["pairs"].str.startswith("layer ")].dropna(subset="share")
        if of_layers.empty:
            return (f"No pair of tokens is amplified and occurs at least {OCCURRENCES[0]} times.",)
        of_all = shares[shares["pairs"] == "random"].set_index("category")["share"]
        base = of_layers["category"].map(of_all)
        most = of_layers.loc[(of_layers["share"] - base).idxmax()]
        return (
            f"The kind that stands out most is “{most['category']}” in {most['pairs']}: {most['share']:.0%} of its "
            f"{most['number']} most amplified pairs, against {base[most.name]:.0%} of all pairs.",
        )

    def overview(self, tables: Tables) -> Tables:
        wide = self._usual(tables).pivot(index="pairs", columns="category", values="share")
        shares = wide.loc[list(dict.fromkeys(self._usual(tables)["pairs"])), list(CATEGORIES)]
        top = tables["top_pairs"].query("rank <= 5").copy()
        top["pair"] = top["key"] + " → " + top["query"]
        first = top.pivot(index="layer", columns="rank", values="pair").rename(columns="rank {}".format)
        return {"share of each kind": shares.reset_index(), "most amplified pairs, key → query": first.reset_index()}

    def _usual(self, tables: Tables) -> pd.DataFrame:
        """The shares of the pairs that are ranked as in the paper."""
        return tables["shares"].query(f"occurrences == {OCCURRENCES[0]}")

    def _top_table(self, layers: Sequence[Best]) -> pd.DataFrame:
        rows = []
        for layer, best in enumerate(layers):
            kinds, count = best.columns["kinds"], best.columns["count"]
            category = _main_kind(kinds)
            query, key = split_keys(best.keys)
            for rank in range(len(best.keys)):
                rows.append(
                    dict(
                        layer=layer,
                        rank=rank + 1,
                        query=visible(self.facts.label(int(query[rank]))),
                        key=visible(self.facts.label(int(key[rank]))),
                        amplification=float(best.scores[rank]),
                        count=int(count[rank]),
                        category=CATEGORIES[category[rank]],
                        agreement=float(kinds[rank, category[rank]] / count[rank]),
                    )
                )
        columns = ["layer", "rank", "query", "key", "amplification", "count", "category", "agreement"]
        return pd.DataFrame(rows, columns=columns)

    def _pmi(self, shards: Sequence[ShardArrays], different: Sequence[PairMeans]) -> pd.DataFrame:
        keys = np.concatenate([np.zeros(0, dtype=np.int64), *(pairs.keys for pairs in different)])
        count = np.concatenate([np.zeros(0, dtype=np.int64), *(pairs.count for pairs in different)])
        mean = np.concatenate([np.zeros((0, self.facts.n_layers), np.float32), *(pairs.mean for pairs in different)])
        rows = []
        for unit in UNITS:
            pmi = Incidence(self._texts(shards), unit, self.options.window).pmi(*split_keys(keys))
            for occurrences in (OCCURRENCES[0], FREQUENT):
                known = ~np.isnan(pmi) & (count >= occurrences)
                enough = known.sum() > 2 and np.ptp(pmi[known]) > 0
                for layer in range(self.facts.n_layers):
                    value = float(spearmanr(pmi[known], mean[known, layer])[0]) if enough else np.nan
                    rows.append(
                        dict(occurrences=occurrences, unit=unit, layer=layer, spearman=value, pairs=int(known.sum()))
                    )
        return pd.DataFrame(rows)

    def _texts(self, shards: Sequence[ShardArrays]) -> Iterator[Text]:
        for shard in shards:
            tokens, numbers, lengths, documents = (
                shard[self.array(name)] for name in ("tokens", "sentences", "lengths", "documents")
            )
            ends = np.cumsum(lengths)
            for end, length, document in zip(ends, lengths, documents, strict=True):
                yield Text(tokens[end - length : end], int(document), numbers[end - length : end])


def _share_panels(shares: pd.DataFrame) -> "Figure":
    """A panel a kind that is met; the shares of all pairs, and of those met side by side, as lines across."""
    kinds = dict(iter(shares.groupby("category", sort=False)))
    met = [name for name in CATEGORIES[:-1] if kinds[name]["share"].any()] or [CATEGORIES[-1]]
    layers = {name: kinds[name][kinds[name]["pairs"].str.startswith("layer ")] for name in met}
    panels = {name: draw.Spread.of_shares(rows, "share", count="number") for name, rows in layers.items()}
    figure = draw.layer_panels(panels, ylabel="share of pairs", columns=2 if len(met) == 4 else 3)
    lines = {"random": ("all pairs", "-"), "adjacent random": ("pairs met side by side", "--")}
    for panel, name in zip(figure.axes, met, strict=False):
        of_all = kinds[name].set_index("pairs")["share"]
        for pairs, (label, style) in lines.items():
            panel.axhline(of_all[pairs], color=draw.COLOURS[5], linewidth=0.8, linestyle=style, label=label)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    drawn = {label: handle for handle, label in zip(handles, labels, strict=True) if label in dict(lines.values())}
    figure.legend(drawn.values(), drawn.keys(), loc="outside upper center", ncols=2, fontsize=6.5, frameon=False)
    return figure


def _shares_of_kinds(
    kinds: Int[np.ndarray, "pair kind"], count: Int[np.ndarray, " pair"]
) -> Float[np.ndarray, "pair category"]:
    """The share of a pair's occurrences in each category; adjacent ones, counted last, are none."""
    return kinds[:, : len(CATEGORIES)] / np.maximum(count, 1)[:, None]


def _main_kind(kinds: Int[np.ndarray, "pair kind"]) -> Int[np.ndarray, " pair"]:
    """The most frequent category of each pair, of equally frequent ones the first."""
    return kinds[:, : len(CATEGORIES)].argmax(axis=1)
