"""Maps of words as parsers and as coreference resolvers (Clark et al. 2019, sections 4.1 to 4.3).

Pieces become words: attention to a word is the sum over its pieces, attention from a word the mean over its pieces. Rows of
attention still sum to 1. For "un ##do it" with the row of `it` (0.1, 0.3, 0.6): 0.4 on the first word, 0.6 on its own.

Relations: does a map point from a word to its head?

1. A map of words is read without its diagonal, and in a causal model only where it can be non-zero.
2. "from dependent": the dependent's row. An arc is found if no other word has as large a value as the head.
   "from head": the dependent's column. An arc is found if no other word's row has as large a value on the dependent.
   A tie is a miss.
3. In a causal model, rows see only earlier words. From the dependent, only arcs to an earlier head are reachable; from the head,
   only those to a later one. All others are excluded, also from the baseline.
4. The baseline predicts that the head is k words after the dependent, for each k separately.

Coreference: does a mention point to an earlier one of the same entity? A mention is the row of its head word. For every mention with
an antecedent, candidates are the head words of all earlier mentions. It is resolved if the weight of an antecedent is larger than
that of every other candidate. A tie is a miss. The baseline is the nearest earlier mention.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float, Int

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import several
from tl_ffblock.result import Result
from tl_ffblock.results.ranks import shares
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import joined_text, special_positions, without_prefixes, word_numbers
from tl_ffblock.results.words import grouped
from tl_ffblock.signatures import strict, whole

SpecialTokens: TypeAlias = Literal["keep", "drop", "renormalise"]
"""Treatment of tokens that belong to no word: each is kept as a unit, or dropped with its weight, or dropped with every row divided
by its remaining sum."""
ArcDirection: TypeAlias = Literal["from dependent", "from head"]
"""Whose row is read: the dependent's, or those of its possible heads."""
DIRECTIONS: tuple[ArcDirection, ...] = get_args(ArcDirection)
OFFSETS = tuple(k for k in range(-7, 8) if k)
"""Distances of the baseline, in words."""
ALL = "all"
"""All relations except punctuation."""
PUNCTUATION = "punct"
POSSESSIVES = ("poss", "nmod:poss")
"""Names of the possessive relation in Stanford and Universal Dependencies."""
Mentions: TypeAlias = Sequence[tuple[int, int]]
"""The row of each mention's head word and the number of its entity, in the order of the text."""


@strict
def word_maps(
    maps: TokenMaps, word: Sequence[int] | Int[np.ndarray, " token"] | None = None, *, special: SpecialTokens = "drop"
) -> TokenMaps:
    """Maps with one row and column per word, in the order of first pieces; a word's label is the text of its pieces.

    Args:
        maps: Maps in which all or none of a word's tokens are rows.
        word: Number of each token's word; -1 for tokens of no word, such as [CLS]. None means the words of `ffb.group_tokens`, and
            -1 for special tokens.
        special: Treatment of tokens of no word: "keep", "drop" or "renormalise" (a row of zeros stays zero).

    Raises:
        InputError: if `word` is not one number per token, if there is no word, or if only some tokens of a word are rows.
    """
    count = len(maps.tokens)
    given = np.asarray(word_numbers(maps.tokens) if word is None else word)
    if word is None:
        given[list(special_positions(maps.tokens))] = -1
    if given.shape != (count,) or given.dtype.kind != "i":
        raise InputError(
            f"word has shape {given.shape} of {given.dtype}: expected {count} whole numbers, one per token."
        )
    keep = special == "keep"
    numbers = (
        np.where(given >= 0, given, -1 - np.arange(count)) if keep else given
    )  # kept tokens get names of their own
    names = [name for name in dict.fromkeys(numbers.tolist()) if keep or name >= 0]
    if not names:
        raise InputError("word: no token belongs to a word. Expected numbers from 0 for the tokens of words.")
    members = numbers[None] == np.array(names)[:, None]
    pieces = np.array(without_prefixes(maps.tokens), dtype=object)
    labels = [joined_text(pieces[row].tolist()) for row in members]
    words = grouped(maps, members, labels, "mean")
    return replace(words, values=shares(words.values, "row")) if special == "renormalise" else words


def _refuse_some_rows(maps: TokenMaps) -> None:
    if maps.queries != tuple(range(len(maps.tokens))):
        raise InputError(
            f"these maps have {len(maps.queries)} rows of {len(maps.tokens)} tokens or words, {brief(maps.queries)}: all of them are "
            "needed. Compute the maps with queries=None."
        )


@strict
@dataclass(frozen=True)
class Arcs:
    """Relations between the words of one map, by their rows."""

    dependent: Int[np.ndarray, " arc"]
    head: Int[np.ndarray, " arc"]
    name: tuple[str, ...]

    @classmethod
    def of(cls, arcs: Iterable[tuple[int, int, str]]) -> "Arcs":
        """Arcs from triples (dependent, head, name). A root has no head, and no arc.

        Raises:
            InputError: for anything else.
        """
        listed = several(arcs)
        if not all(isinstance(arc, list | tuple) and len(arc) == 3 for arc in listed):
            raise InputError(f"arcs={brief(arcs)}: expected (dependent, head, name), two rows and a text each.")
        dependent, head = (np.array([arc[end] for arc in listed], dtype=np.int64) for end in (0, 1))
        return cls(dependent, head, tuple(name for _, _, name in listed))

    def from_markers(self, words: Sequence[str]) -> "Arcs":
        """The same arcs, but possessives are read from the marker (`'s`) after the dependent, as in the paper's program.

        Args:
            words: Words of the map, as `words.tokens` of `word_maps`.

        Raises:
            InputError: if an arc's row is not among the words.
        """
        rows = self.dependent
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(words):
            raise InputError(f"words={brief(words)}: expected one word per row of the arcs.")
        after = [*(word.strip().lstrip("Ġ▁").replace("’", "'") for word in words), ""]
        marked = [
            n in POSSESSIVES and after[row + 1] in ("'s", "s'", "'") for row, n in zip(rows, self.name, strict=True)
        ]
        return Arcs(rows + np.array(marked, dtype=np.int64), self.head, self.name)

    @property
    def offset(self) -> Int[np.ndarray, " arc"]:
        """Number of words from the dependent to its head; negative if the head is before."""
        return self.head - self.dependent


@strict
@dataclass(frozen=True, repr=False, eq=False)
class RelationHits(Result):
    """Arcs of a corpus that each map finds."""

    hits: Bool[np.ndarray, "direction arc layer channel"]
    """In the order of `DIRECTIONS`; False for unreachable arcs."""
    name: tuple[str, ...]
    """Name of every arc in the treebank."""
    offset: Int[np.ndarray, " arc"]
    document: Int[np.ndarray, " arc"]
    """Number of the arc's document."""
    causal: bool

    def reachable(self, direction: ArcDirection) -> Bool[np.ndarray, " arc"]:
        """Arcs that a row can show."""
        return reachable_arcs(self.offset, direction, causal=self.causal)

    @cached_property
    def relations(self) -> Mapping[str, Bool[np.ndarray, " arc"]]:
        """Arcs of each relation: `ALL` without punctuation, then every name; subtypes are in their relation and alone."""
        names = np.array(self.name, dtype=object)
        bases = np.array([name.partition(":")[0] for name in self.name], dtype=object)
        groups = {name: (names == name) | (bases == name) for name in sorted({*bases, *names})}
        return {ALL: names != PUNCTUATION, **groups}

    def to_dataframe(self) -> pd.DataFrame:
        """One row per direction and reachable arc: relation, offset, document, and the number of maps that find it."""
        table = {"relation": self.name, "offset": self.offset, "document": self.document}
        frames = {
            direction: pd.DataFrame({"direction": direction, **table, "maps": found.sum(axis=(-1, -2))})
            for direction, found in zip(DIRECTIONS, self.hits, strict=True)
        }
        return pd.concat([frame[self.reachable(where)] for where, frame in frames.items()], ignore_index=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Numbers of arcs and maps, and the best map's fraction of reachable arcs."""
        reached = {where: found[self.reachable(where)] for where, found in zip(DIRECTIONS, self.hits, strict=True)}
        best: dict[str, object] = {
            direction: f"best map finds {found.mean(axis=0).max():.0%} of {len(found)}" if len(found) else "none"
            for direction, found in reached.items()
        }
        return f"{len(self.name)} arcs, {self.hits[0, 0].size if self.name else 0} maps", best


@strict
def reachable_arcs(
    offset: Int[np.ndarray, " arc"], direction: ArcDirection, *, causal: bool
) -> Bool[np.ndarray, " arc"]:
    """Arcs that a row can show: all, or in a causal model those whose other end is before the row's word."""
    before = offset < 0 if direction == "from dependent" else offset > 0
    return before | (not causal)


@strict
def hits(
    words: TokenMaps, arcs: Arcs, direction: ArcDirection = "from dependent"
) -> Bool[np.ndarray, "layer channel arc"]:
    """Arcs that each map finds [layer channel arc]; False for unreachable arcs.

    Args:
        words: Maps of words from `word_maps`, with all rows. Rows are not normalised: divide them by their sums before comparing
            rows of different sums "from head".
        arcs: Relations between them.
        direction: Whose row is read.

    Raises:
        InputError: if rows are missing, or an arc's word is not in the maps.
    """
    _refuse_some_rows(words)
    count, ends = len(words.tokens), np.concatenate([arcs.dependent, arcs.head])
    if len(ends) and (ends.min() < 0 or ends.max() >= count):
        raise InputError(
            f"an arc names word {int(ends.min())} or {int(ends.max())}: expected words 0 to {count - 1} of the maps."
        )
    weights = np.where(words.reachable().numpy() & ~np.eye(count, dtype=bool), _values(words), -np.inf)
    if direction == "from head":
        weights = weights.swapaxes(-1, -2)
    rows = weights[:, :, arcs.dependent]
    at_head = weights[:, :, arcs.dependent, arcs.head]
    return (rows >= at_head[..., None]).sum(axis=-1) == np.where(np.isfinite(at_head), 1, -1)


@strict
def relation_hits(sentences: Sequence[tuple[TokenMaps, Arcs]], documents: Sequence[int] | None = None) -> RelationHits:
    """Arcs of several sentences that each map finds, from both ends.

    Args:
        sentences: Maps of words with equal layers and channels, and the relations between them; at least one.
        documents: Number of each sentence's document; None means one document per sentence.

    Raises:
        InputError: if there is no sentence, if maps differ in kind, or if an arc's word is not in the maps.
    """
    if not isinstance(sentences, Sequence) or not all(isinstance(s, tuple | list) and len(s) == 2 for s in sentences):
        raise InputError(f"sentences={brief(sentences)}: expected pairs of maps of words and their Arcs.")
    kinds = {(maps.layers, maps.channels, maps.causal) for maps, _ in sentences}
    if len(kinds) != 1:
        raise InputError(
            f"sentences: expected maps of the same layers and channels, of one at least; here are {len(kinds)} kinds."
        )
    by_direction = [
        np.concatenate([np.moveaxis(hits(maps, arcs, direction), -1, 0) for maps, arcs in sentences])
        for direction in DIRECTIONS
    ]
    numbers = range(len(sentences)) if documents is None else documents
    return RelationHits(
        hits=np.stack(by_direction),
        name=tuple(name for _, arcs in sentences for name in arcs.name),
        offset=np.concatenate([arcs.offset for _, arcs in sentences]),
        document=np.repeat(np.array(list(numbers), dtype=np.int64), [len(arcs.name) for _, arcs in sentences]),
        causal=sentences[0][0].causal,
    )


@strict
def antecedent_hits(words: TokenMaps, mentions: Mentions) -> Bool[np.ndarray, "layer channel anaphor"]:
    """Anaphors that each map resolves [layer channel anaphor]: the mentions with an antecedent, in order.

    Args:
        words: Maps of words from `word_maps`, with all rows.
        mentions: Mentions in the order of the text, each word once.

    Raises:
        InputError: if rows are missing, or mentions are not ascending words of the maps.
    """
    anaphors = list(_anaphors(mentions))
    count, rows = len(words.tokens), [word for word, _ in mentions]
    _refuse_some_rows(words)
    if rows != sorted(set(rows)) or not all(0 <= word < count for word in rows):
        raise InputError(f"mentions at words {rows}: expected ascending words from 0 to {count - 1}, each once.")
    values = _values(words)
    found = np.zeros((*values.shape[:2], len(anaphors)), dtype=bool)
    for number, (word, antecedents, others) in enumerate(anaphors):
        wrong = values[:, :, word, others].max(axis=-1, initial=-np.inf)
        found[..., number] = values[:, :, word, antecedents].max(axis=-1) > wrong
    return found


@strict
def nearest_hits(mentions: Mentions) -> Bool[np.ndarray, " anaphor"]:
    """Anaphors that the nearest earlier mention resolves.

    Raises:
        InputError: for mentions that are not pairs of numbers.
    """
    right = [max(antecedents) > max(others, default=-1) for _, antecedents, others in _anaphors(mentions)]
    return np.array(right, dtype=bool)


def _anaphors(mentions: Mentions) -> Iterator[tuple[int, list[int], list[int]]]:
    """By mention with an antecedent: its word, its antecedents' words, and those of the other earlier mentions."""
    pairs = several(mentions)
    if not all(isinstance(pair, tuple | list) and len(pair) == 2 and None not in map(whole, pair) for pair in pairs):
        raise InputError(f"mentions={brief(mentions)}: expected pairs (row of the word, number of what it mentions).")
    for place, (word, entity) in enumerate(mentions):
        earlier = mentions[:place]
        antecedents = [row for row, named in earlier if named == entity]
        if antecedents:
            yield word, antecedents, [row for row, named in earlier if named != entity]


def _values(words: TokenMaps) -> Float[np.ndarray, "layer channel word word"]:
    return words.values.detach().double().cpu().numpy()
