"""Which token pairs the feed-forward amplifies: FF-amp over the corpus (section 5.2).

FF-amp of a pair is the difference of the column-normalised maps after and before the feed-forward
(footnote 3), averaged over all occurrences of the two vocabulary entries (query, key). Left out are pairs
of a position with itself, pairs that occur once, special and masked tokens, and cells that a causal
model cannot reach.

- `top_pairs`: the most amplified pairs of each layer (positive FF-amp only), with their category (the most frequent one of their
  occurrences; see categories.py) (Tab. 1-3).
- `shares`: share of the categories among them, against all pairs (what fully random pairs give in
  expectation) and all pairs that occur side by side at least once (adjacent random pairs) (Fig. 5, 13).
- `pmi`: Spearman's correlation of mean FF-amp with pointwise mutual information by article, sentence and
  window, pairs of different tokens that share a unit.
"""

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

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

SENTENCE_ENDS = (".", "!", "?")

PairMeans: TypeAlias = tuple[Int[np.ndarray, " pair"], Float[np.ndarray, "pair layer"]]
"""Keys of pairs and their mean FF-amp."""


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
        most_amplified = Top(self.options.top_pairs)
        everything = np.zeros((2, len(CATEGORIES)), dtype=np.int64)
        different: list[PairMeans] = []
        for pairs in merge_ranges(shards, self.array("")):
            often = pairs.where(pairs.count >= 2)
            most_amplified.offer(often.mean, often.keys, {"count": often.count, "kinds": often.kinds})
            side_by_side = often.where(often.kinds[:, -1] > 0)
            for row, pairs_of_row in enumerate((often, side_by_side)):
                everything[row] += np.bincount(_main_kind(pairs_of_row.kinds), minlength=len(CATEGORIES))
            unlike = often.where(often.query != often.key)
            different.append((unlike.keys, unlike.mean.astype(np.float32)))
        top = self._top_table(most_amplified.cells)
        return {"top_pairs": top, "shares": self._shares(top, everything), "pmi": self._pmi(shards, different)}

    def figures(self, tables: Tables) -> Figures:
        shares = tables["shares"]
        wide = shares.pivot(index="pairs", columns="category", values="share").loc[list(dict.fromkeys(shares["pairs"]))]
        shown = [name for name in CATEGORIES if name != CATEGORIES[2] or wide[name].any()]
        many = self.facts.n_layers > 12
        ticks = [name.removeprefix("layer ").replace("adjacent ", "\nadjacent\n") for name in wide.index]
        ticks = ["" if many and tick.isdigit() and int(tick) % 3 else tick for tick in ticks]
        bars = {name: wide[name].to_numpy() for name in shown}
        ylabel = f"share of the top {self.options.top_pairs}"
        figure = draw.layer_bars(bars, ylabel=ylabel, stacked=True, xticks=ticks, among=CATEGORIES)
        for tick in figure.axes[0].get_xticklabels():
            tick.set_rotation(90 if many and "random" in tick.get_text() else 0)
        figure.axes[0].set_xlabel("layer, and random pairs")
        pmi = tables["pmi"]
        lines = {str(unit): group["spearman"].to_numpy() for unit, group in pmi.groupby("unit", sort=False)}
        correlation = draw.layer_lines(lines, ylabel="Spearman of FF-amp with PMI")
        correlation.axes[0].axhline(0, color="black", linewidth=0.5)
        return {"shares": figure, "pmi": correlation}

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

    def _shares(self, top: pd.DataFrame, everything: Int[np.ndarray, "row category"]) -> pd.DataFrame:
        groups = [(f"layer {layer}", group["category"].value_counts()) for layer, group in top.groupby("layer")]
        for name, counts in zip(("random", "adjacent random"), everything, strict=True):
            groups.append((name, pd.Series(dict(zip(CATEGORIES, counts.tolist(), strict=True)))))
        rows = []
        for name, counts in groups:
            total = int(counts.sum())
            for category in CATEGORIES:
                number = int(counts.get(category, 0))
                rows.append(
                    dict(pairs=name, category=category, number=number, share=number / total if total else np.nan)
                )
        return pd.DataFrame(rows, columns=["pairs", "category", "number", "share"])

    def _pmi(self, shards: Sequence[ShardArrays], different: Sequence[PairMeans]) -> pd.DataFrame:
        keys = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in different)])
        mean = np.concatenate([np.zeros((0, self.facts.n_layers), np.float32), *(mean for _, mean in different)])
        rows = []
        for unit in UNITS:
            pmi = Incidence(self._texts(shards), unit, self.options.window).pmi(*split_keys(keys))
            known = ~np.isnan(pmi)
            enough = known.sum() > 2 and np.ptp(pmi[known]) > 0
            for layer in range(self.facts.n_layers):
                value = float(spearmanr(pmi[known], mean[known, layer])[0]) if enough else np.nan
                rows.append(dict(unit=unit, layer=layer, spearman=value, pairs=int(known.sum())))
        return pd.DataFrame(rows)

    def _texts(self, shards: Sequence[ShardArrays]) -> Iterator[Text]:
        for shard in shards:
            tokens, numbers, lengths, documents = (
                shard[self.array(name)] for name in ("tokens", "sentences", "lengths", "documents")
            )
            ends = np.cumsum(lengths)
            for end, length, document in zip(ends, lengths, documents, strict=True):
                yield Text(tokens[end - length : end], int(document), numbers[end - length : end])


def _main_kind(kinds: Int[np.ndarray, "pair kind"]) -> Int[np.ndarray, " pair"]:
    """The most frequent category of each pair; `kinds` counts occurrences by category, adjacent ones last."""
    return kinds[:, : len(CATEGORIES)].argmax(axis=1)
