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
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.pair_sums import Pairs, add_up, merge_ranges, pair_keys
from tl_ffblock.corpus.study import Arrays, Experiment, Figures, Tables
from tl_ffblock.experiments.kobayashi.categories import CATEGORIES, adjacent, categorise
from tl_ffblock.experiments.kobayashi.pmi import UNITS, Incidence, Text, sentences
from tl_ffblock.results import figures as draw
from tl_ffblock.results.measures import amplification
from tl_ffblock.results.tokens import visible

SENTENCE_ENDS = (".", "!", "?")


class Amplification(Experiment):
    """FF-amp by token pair."""

    name = "amplification"

    def scopes(self) -> tuple[str, ...]:
        step = self.subject.feed_forward
        return (str(step.before), step.scope)

    def measure(self, seen: Observation) -> tuple[Pairs, np.ndarray, int, np.ndarray]:
        """Pairs of the sequence, its tokens, its article and its sentences."""
        assert seen.maps is not None
        encoded = seen.encoded
        gained = amplification(seen.maps, *self.scopes()).numpy().astype(np.float64)
        cells = seen.maps.reachable().numpy().copy()
        np.fill_diagonal(cells, False)
        cells &= ~encoded.special[:, None] & ~encoded.special[None]
        query, key = np.nonzero(cells)
        category = categorise(encoded, query, key)
        kinds = np.zeros((len(query), len(CATEGORIES) + 1), dtype=np.int32)
        kinds[np.arange(len(query)), category] = 1
        kinds[:, -1] = adjacent(query, key)
        keys = pair_keys(encoded.ids[query], encoded.ids[key])
        one = Pairs(keys, np.ones(len(keys), dtype=np.int32), kinds, gained[:, query, key].T)
        ids = encoded.ids[~encoded.special].astype(np.int64)
        ends = sentences(ids, lambda token: self.subject.label(token).strip("Ġ▁ ") in SENTENCE_ENDS)
        return add_up([one]), ids, zlib.crc32(encoded.sequence.document.encode("utf-8", "replace")), ends

    def summarise(self, measured: Sequence[tuple[Pairs, np.ndarray, int, np.ndarray]]) -> Arrays:
        pairs = add_up([one for one, *_ in measured])
        found = {
            **pairs.arrays(),
            "tokens": np.concatenate([ids for _, ids, _, _ in measured]),
            "sentences": np.concatenate([ends for *_, ends in measured]),
            "lengths": np.array([len(ids) for _, ids, _, _ in measured]),
            "documents": np.array([document for _, _, document, _ in measured], dtype=np.int64),
        }
        return {self.array(name): array for name, array in found.items()}

    def tables(self, shards: Sequence[Any]) -> Tables:
        best = _Best(self.config.top_pairs, self.subject.n_layers)
        everything = np.zeros((2, len(CATEGORIES)), dtype=np.int64)
        different: list[tuple[np.ndarray, np.ndarray]] = []
        for pairs in merge_ranges(shards, self.array("")):
            often = pairs.where(pairs.count >= 2)
            best.offer(often)
            side_by_side = often.kinds[:, -1] > 0
            for row, some in enumerate((often, often.where(side_by_side))):
                everything[row] += np.bincount(_main_kind(some), minlength=len(CATEGORIES))
            two = often.where(often.query != often.key)
            different.append((two.keys, two.mean.astype(np.float32)))
        top = self._top_table(best)
        return {"top_pairs": top, "shares": self._shares(top, everything), "pmi": self._pmi(shards, different)}

    def figures(self, tables: Tables) -> Figures:
        shares = tables["shares"]
        wide = shares.pivot(index="pairs", columns="category", values="share").loc[list(dict.fromkeys(shares["pairs"]))]
        shown = [name for name in CATEGORIES if name != CATEGORIES[2] or wide[name].any()]
        many = self.subject.n_layers > 12
        ticks = [name.removeprefix("layer ").replace("adjacent ", "\nadjacent\n") for name in wide.index]
        ticks = ["" if many and tick.isdigit() and int(tick) % 3 else tick for tick in ticks]
        bars = {name: wide[name].to_numpy() for name in shown}
        ylabel = f"share of the top {self.config.top_pairs}"
        figure = draw.layer_bars(bars, ylabel=ylabel, stacked=True, xticks=ticks, among=CATEGORIES)
        for tick in figure.axes[0].get_xticklabels():
            tick.set_rotation(90 if many and "random" in tick.get_text() else 0)
        figure.axes[0].set_xlabel("layer, and random pairs")
        pmi = tables["pmi"]
        lines = {str(unit): group["spearman"].to_numpy() for unit, group in pmi.groupby("unit", sort=False)}
        correlation = draw.layer_lines(lines, ylabel="Spearman of FF-amp with PMI")
        correlation.axes[0].axhline(0, color="black", linewidth=0.5)
        return {"shares": figure, "pmi": correlation}

    def _top_table(self, best: "_Best") -> pd.DataFrame:
        rows = []
        for layer in range(self.subject.n_layers):
            pairs, mean = best.of(layer)
            kinds = _main_kind(pairs)
            for rank in range(len(pairs.keys)):
                rows.append(
                    dict(
                        layer=layer,
                        rank=rank + 1,
                        query=visible(self.subject.label(int(pairs.query[rank]))),
                        key=visible(self.subject.label(int(pairs.key[rank]))),
                        amplification=float(mean[rank]),
                        count=int(pairs.count[rank]),
                        category=CATEGORIES[kinds[rank]],
                        agreement=float(pairs.kinds[rank, kinds[rank]] / pairs.count[rank]),
                    )
                )
        columns = ["layer", "rank", "query", "key", "amplification", "count", "category", "agreement"]
        return pd.DataFrame(rows, columns=columns)

    def _shares(self, top: pd.DataFrame, everything: np.ndarray) -> pd.DataFrame:
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

    def _pmi(self, shards: Sequence[Any], different: list[tuple[np.ndarray, np.ndarray]]) -> pd.DataFrame:
        keys = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in different)])
        mean = np.concatenate([np.zeros((0, self.subject.n_layers), np.float32), *(mean for _, mean in different)])
        rows = []
        for unit in UNITS:
            pmi = Incidence(self._texts(shards), unit, self.config.window).pmi(keys >> 32, keys & 0xFFFFFFFF)
            known = ~np.isnan(pmi)
            enough = known.sum() > 2 and np.ptp(pmi[known]) > 0
            for layer in range(self.subject.n_layers):
                value = float(spearmanr(pmi[known], mean[known, layer])[0]) if enough else np.nan
                rows.append(dict(unit=unit, layer=layer, spearman=value, pairs=int(known.sum())))
        return pd.DataFrame(rows)

    def _texts(self, shards: Sequence[Any]) -> Iterator[Text]:
        for shard in shards:
            tokens, numbers, lengths, documents = (
                shard[self.array(name)] for name in ("tokens", "sentences", "lengths", "documents")
            )
            ends = np.cumsum(lengths)
            for end, length, document in zip(ends, lengths, documents, strict=True):
                yield Text(tokens[end - length : end], int(document), numbers[end - length : end])


class _Best:
    """The most amplified pairs of every layer so far; ties go to the smaller key."""

    def __init__(self, size: int, n_layers: int) -> None:
        self._size = size
        kinds, total = np.zeros((0, len(CATEGORIES) + 1), np.int32), np.zeros((0, n_layers))
        self._layers = [Pairs(np.zeros(0, np.int64), np.zeros(0, np.int32), kinds, total)] * n_layers

    def offer(self, pairs: Pairs) -> None:
        """Take those that are better."""
        for layer, kept in enumerate(self._layers):
            parts = (kept, self._top(pairs, layer))
            joined = (np.concatenate([getattr(p, n) for p in parts]) for n in ("keys", "count", "kinds", "total"))
            self._layers[layer] = self._top(Pairs(*joined), layer)

    def of(self, layer: int) -> tuple[Pairs, np.ndarray]:
        """Pairs of a layer with their mean, best first."""
        pairs = self._layers[layer]
        return pairs, pairs.mean[:, layer]

    def _top(self, pairs: Pairs, layer: int) -> Pairs:
        mean = pairs.mean[:, layer]
        order = np.lexsort((pairs.keys, -mean))[: self._size]
        return pairs.where(order[mean[order] > 0])


def _main_kind(pairs: Pairs) -> np.ndarray:
    """The most frequent category of each pair."""
    return pairs.kinds[:, : len(CATEGORIES)].argmax(axis=1)
