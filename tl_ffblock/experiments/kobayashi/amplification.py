"""Token pairs that the feed-forward amplifies: FF-amp over the corpus (section 5.2).

FF-amp of a pair is the difference of the column-normalised maps after and before the feed-forward (footnote 3). It is averaged
over all occurrences of the two vocabulary entries (query, key). Omitted are pairs of a position with itself, pairs that occur
once, special and masked tokens, and cells that a causal model cannot reach.

- `top_pairs`: the most amplified pairs of each layer (positive FF-amp only). Each has its most frequent category (the first of
  `CATEGORIES` in a tie), and the fraction of its occurrences in it (Tab. 1-3).
- `shares`: fraction of each category among these pairs. It is compared with all pairs (the expectation for fully random pairs)
  and with all pairs that are adjacent at least once (adjacent random pairs) (Fig. 5, 13). A pair counts in each category by the
  fraction of its occurrences there, so there are no ties. For pairs that occur at least twice, as in the paper, and for more
  frequent ones: most pairs of a corpus occur twice.
- `pmi`: Spearman's correlation of mean FF-amp with pointwise mutual information by article, sentence and window, over pairs of
  different tokens that share a unit. For pairs that occur at least twice, and for frequent pairs, whose FF-amp and mutual
  information are less noisy. Mutual information is computed on the text before masking, as in the paper, whose counts are of
  plain text; with `pmi_masked="dropped"` masked tokens are removed before counting.
"""

import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from jaxtyping import Float, Int
from scipy import sparse
from scipy.stats import spearmanr

from tl_ffblock.corpus.statistics import Best, PairSums, Top, add_up, merge_ranges, pair_keys, split_keys
from tl_ffblock.corpus.study import Arrays, Figures, Observation, Options, ShardArrays, Study, Tables, table_over
from tl_ffblock.corpus.tokenised import TokenisedText
from tl_ffblock.results import figures as draw
from tl_ffblock.results.measures import amplification
from tl_ffblock.results.tokens import visible

CATEGORIES = ("same token", "subwords of one word", "within an expression", "adjacent", "other")
"""Categories of token pairs, by rule; the first that applies counts.

1. same token: both are the same entry of the vocabulary.
2. subwords of one word (gold words if the data has them, else those of `word_spans`, which end at signs).
3. within a multi-word expression or named entity, as marked by the data or a tagger.
4. adjacent: next to each other in the sequence.
5. other.
"""
Unit: TypeAlias = Literal["article", "sentence", "window"]
SENTENCE_ENDS = (".", "!", "?")
OCCURRENCES = (2, 3, 5)
"""Smallest number of occurrences of ranked pairs; the paper's is the first."""
FREQUENT = 20
"""Number of occurrences from which on a pair's means have little noise."""
_ENTRIES = 2**25
"""Largest number of units of pairs' tokens per chunk: sparse matrices index their entries with 32 bits."""
_EMPTY = np.zeros(0, dtype=np.int64)


def categorise(
    tokenised: TokenisedText, query: Int[np.ndarray, " pair"], key: Int[np.ndarray, " pair"]
) -> Int[np.ndarray, " pair"]:
    """Category of each pair of positions, as its index in `CATEGORIES`."""
    first, second = tokenised.word[query], tokenised.word[key]
    together = np.zeros(len(first), dtype=bool)
    for group in tokenised.groups:
        members = np.array(sorted(group - {-1}))
        together |= np.isin(first, members) & np.isin(second, members)
    rules = (
        tokenised.ids[query] == tokenised.ids[key],
        (first == second) & (first >= 0),
        together,
        np.abs(query - key) == 1,
    )
    return np.select(rules, range(len(rules)), default=len(rules))


@dataclass(frozen=True)
class Text:
    """Tokens of one sequence, without special ones."""

    ids: Int[np.ndarray, " token"]
    document: int
    """Number of its article."""
    sentence: Int[np.ndarray, " token"]
    """Number of each token's sentence, from 0."""

    def units(self, unit: Unit, window: int) -> tuple[Int[np.ndarray, " occurrence"], Int[np.ndarray, " occurrence"]]:
        """Tokens, and the unit of each: its article, its sentence, or a window of `window` tokens."""
        if unit == "article":
            return self.ids, np.full(len(self.ids), self.document)
        if unit == "sentence":
            return self.ids, self.sentence
        windows = np.lib.stride_tricks.sliding_window_view(self.ids, min(window, len(self.ids)))
        return windows.ravel(), np.repeat(np.arange(len(windows)), windows.shape[1])


class Incidence:
    """Tokens by unit, and the pointwise mutual information of token pairs (section 5.2).

    `PMI(a, b) = log(p(a, b) / (p(a) p(b)))`. p is the fraction of units (articles, sentences, windows) that contain a token, or
    both. Tokens are vocabulary entries without special ones.
    """

    def __init__(self, texts: Iterable[Text], unit: Unit, window: int) -> None:
        tokens, units = [_EMPTY], [_EMPTY]
        for text in texts:
            if len(text.ids):
                ids, numbers = text.units(unit, window)
                tokens.append(ids)
                units.append(numbers + (0 if unit == "article" else units[-1].max(initial=-1) + 1))
        rows = np.concatenate(tokens)
        columns = np.unique(np.concatenate(units), return_inverse=True)[1]
        self.n_units = columns.max(initial=-1) + 1
        shape = (rows.max(initial=-1) + 1, self.n_units)
        self._matrix = sparse.csr_matrix((np.ones(len(rows), dtype=np.int32), (rows, columns)), shape)
        self._matrix.data[:] = 1
        self._frequency = np.asarray(self._matrix.sum(axis=1)).ravel()

    def pmi(self, first: Int[np.ndarray, " pair"], second: Int[np.ndarray, " pair"]) -> Float[np.ndarray, " pair"]:
        """PMI of each pair; NaN if the two never share a unit."""
        units = np.zeros(len(first))
        for chunk in chunks(self._frequency[first] + self._frequency[second], _ENTRIES):
            both = self._matrix[first[chunk]].multiply(self._matrix[second[chunk]])
            units[chunk] = np.asarray(both.sum(axis=1)).ravel()
        # Both products of whole numbers are exact, so that equal fractions have equal logarithms, and ranks have ties.
        ratio = units * self.n_units / (self._frequency[first] * self._frequency[second].astype(np.float64))
        return np.log(np.where(units > 0, ratio, np.nan))


def chunks(sizes: Int[np.ndarray, " pair"], limit: int) -> Iterator[slice]:
    """Slices of neighbours with a sum of sizes of at most `limit`, or of a single item."""
    start, ends = 0, np.cumsum(sizes, dtype=np.int64)
    while start < len(ends):
        before = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + limit, side="right")))
        yield slice(start, stop)
        start = stop


class Ranking:
    """Most amplified pairs among those with a smallest number of occurrences, and the categories of all of these."""

    def __init__(self, occurrences: int, size: int) -> None:
        self.occurrences = occurrences
        self.top = Top(size)
        self.groups: dict[str, list[Any]] = {
            name: [0, np.zeros(len(CATEGORIES))] for name in ("random", "adjacent random")
        }
        """Number of pairs and sum of fractions by category: of all pairs, and of those that are adjacent at least once."""

    def offer(self, pairs: PairSums) -> None:
        """Add a range of pairs."""
        often = pairs.where(pairs.count >= self.occurrences)
        self.top.offer(often.mean, often.keys, {"count": often.count, "kinds": often.kinds})
        for group, of_group in zip(self.groups.values(), (often, often.where(often.kinds[:, -1] > 0)), strict=True):
            group[0] += len(of_group.keys)
            group[1] += _shares_of_kinds(of_group.kinds, of_group.count)

    def shares(self) -> pd.DataFrame:
        """Mean fraction of every category, one row per group of pairs and category."""
        layers = {
            f"layer {layer}": [len(best.keys), _shares_of_kinds(best.columns["kinds"], best.columns["count"])]
            for layer, best in enumerate(self.top.cells)
        }
        groups = layers | self.groups
        shares = [total / number if number else np.full(len(CATEGORIES), np.nan) for number, total in groups.values()]
        numbers = np.repeat([number for number, _ in groups.values()], len(CATEGORIES))
        axes = {"occurrences": (self.occurrences,), "pairs": tuple(groups), "category": CATEGORIES}
        return table_over(axes, {"number": numbers, "share": np.stack(shares)})


def _shares_of_kinds(
    kinds: Int[np.ndarray, "pair kind"], count: Int[np.ndarray, " pair"]
) -> Float[np.ndarray, " category"]:
    """Sum over pairs of the fraction of their occurrences in each category; the last kind, adjacency, is not a category."""
    return (kinds[:, : len(CATEGORIES)] / np.maximum(count, 1)[:, None]).sum(axis=0)


@dataclass(frozen=True)
class AmplificationOptions(Options):
    """Size of the tables, and the text of PMI."""

    least: ClassVar[Mapping[str, int]] = {"window": 1, "top_pairs": 1}
    window: int = 10
    """Number of tokens per window, for pointwise mutual information."""
    top_pairs: int = 50
    """Number of most amplified pairs per layer in the table."""
    pmi_masked: Literal["kept", "dropped"] = "kept"
    """Masked tokens in pointwise mutual information: counted as the original token, as in the paper, or dropped."""


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
    repeats = "section 5.2, Fig. 4, 5, 13, Tab. 1-3"
    options: AmplificationOptions

    def scopes(self) -> tuple[str, ...]:
        step = self.facts.feed_forward
        return (str(step.before), step.scope)

    def measure(self, observed: Observation) -> tuple[PairSums, Text]:
        tokenised = observed.tokenised
        gained = amplification(observed.maps, *self.scopes()).numpy().astype(np.float64)
        cells = observed.maps.reachable().numpy().copy()
        np.fill_diagonal(cells, False)
        cells &= ~tokenised.special[:, None] & ~tokenised.special[None]
        query, key = np.nonzero(cells)
        category = categorise(tokenised, query, key)
        kinds = np.zeros((len(query), len(CATEGORIES) + 1), dtype=np.int32)
        kinds[np.arange(len(query)), category] = 1
        kinds[:, -1] = np.abs(query - key) == 1
        keys = pair_keys(tokenised.ids[query], tokenised.ids[key])
        occurrences = PairSums(keys, np.ones(len(keys), dtype=np.int32), kinds, gained[:, query, key].T)
        ids = self._counted(tokenised)
        ends = [self.facts.label(int(token)).strip("Ġ▁ ") in SENTENCE_ENDS for token in ids]
        sentence = np.cumsum([0, *ends])[:-1]  # the mark belongs to the sentence that it ends
        document = zlib.crc32(tokenised.source.document.encode("utf-8", "replace"))
        return add_up([occurrences]), Text(ids, document, sentence)

    def summarise(self, measured: Sequence[tuple[PairSums, Text]]) -> Arrays:
        pairs, texts = zip(*measured, strict=True)
        arrays = {
            **add_up(pairs).arrays(),
            "tokens": np.concatenate([text.ids for text in texts]),
            "sentences": np.concatenate([text.sentence for text in texts]),
            "lengths": np.array([len(text.ids) for text in texts]),
            "documents": np.array([text.document for text in texts], dtype=np.int64),
        }
        return {self.array(name): array for name, array in arrays.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        rankings = [Ranking(occurrences, self.options.top_pairs) for occurrences in OCCURRENCES]
        different = [(_EMPTY, _EMPTY, np.zeros((0, self.facts.n_layers), np.float32))]
        for pairs in merge_ranges(shards, self.array("")):
            for ranking in rankings:
                ranking.offer(pairs)
            query, key = split_keys(pairs.keys)
            unlike = pairs.where((pairs.count >= OCCURRENCES[0]) & (query != key))
            different.append((unlike.keys, unlike.count, unlike.mean.astype(np.float32)))
        return {
            "top_pairs": self._top_table(rankings[0].top.cells),
            "shares": pd.concat([ranking.shares() for ranking in rankings], ignore_index=True),
            "pmi": self._pmi(shards, *map(np.concatenate, zip(*different, strict=True))),
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

    def _counted(self, tokenised: TokenisedText) -> Int[np.ndarray, " token"]:
        """Tokens for mutual information: no special ones, and masked ones according to the option."""
        ids, special = tokenised.ids.astype(np.int64), tokenised.special.copy()
        if self.options.pmi_masked == "kept" and tokenised.masked:
            places = list(tokenised.masked)
            ids[places], special[places] = list(tokenised.masked.values()), False
        return ids[~special]

    def _usual(self, tables: Tables) -> pd.DataFrame:
        return tables["shares"].query(f"occurrences == {OCCURRENCES[0]}")

    def _top_table(self, layers: Sequence[Best]) -> pd.DataFrame:
        columns = ["layer", "rank", "query", "key", "amplification", "count", "category", "agreement"]
        rows = []
        for layer, best in enumerate(layers):
            if not len(best.keys):
                continue
            kinds, count = best.columns["kinds"], best.columns["count"].astype(np.int64)
            category = kinds[:, : len(CATEGORIES)].argmax(axis=1)  # argmax takes the first in a tie
            query, key = ([visible(self.facts.label(int(token))) for token in side] for side in split_keys(best.keys))
            rank = np.arange(len(best.keys))
            main = [CATEGORIES[place] for place in category]
            agreement = kinds[rank, category] / count
            values = (layer, rank + 1, query, key, best.scores, count, main, agreement)
            rows.append(pd.DataFrame(dict(zip(columns, values, strict=True))))
        return pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=columns)

    def _pmi(
        self,
        shards: Sequence[ShardArrays],
        keys: Int[np.ndarray, " pair"],
        count: Int[np.ndarray, " pair"],
        mean: Float[np.ndarray, "pair layer"],
    ) -> pd.DataFrame:
        rows = []
        for unit in get_args(Unit):
            pmi = Incidence(self._texts(shards), unit, self.options.window).pmi(*split_keys(keys))
            for occurrences in (OCCURRENCES[0], FREQUENT):
                known = ~np.isnan(pmi) & (count >= occurrences)
                enough = known.sum() > 2 and np.ptp(pmi[known]) > 0
                rho = [float(spearmanr(pmi[known], of_layer)[0]) if enough else np.nan for of_layer in mean[known].T]
                of_unit = dict(occurrences=occurrences, unit=unit, layer=range(len(rho)), spearman=rho)
                rows.append(pd.DataFrame(of_unit | {"pairs": int(known.sum())}))
        return pd.concat(rows, ignore_index=True)

    def _texts(self, shards: Sequence[ShardArrays]) -> Iterator[Text]:
        for shard in shards:
            tokens, numbers, lengths, documents = (
                shard[self.array(name)] for name in ("tokens", "sentences", "lengths", "documents")
            )
            cuts = np.cumsum(lengths)[:-1]
            for of_text in zip(np.split(tokens, cuts), documents, np.split(numbers, cuts), strict=True):
                yield Text(*of_text)


def _share_panels(shares: pd.DataFrame) -> Any:
    """One panel per category that occurs; fractions of all pairs, and of adjacent ones, as horizontal lines."""
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
