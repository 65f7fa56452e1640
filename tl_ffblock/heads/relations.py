"""Maps of words, as parsers and as resolvers of coreference (Clark et al. 2019, sections 4.1 to 4.3).

Pieces become words: to a word the sum of what goes to its pieces, from a word the mean over its pieces. So rows of attention
still sum to 1. For "un ##do it" with the row of `it` (0.1, 0.3, 0.6): 0.4 on the first word, 0.6 on its own.

Relations: does a map point from a word to the one that it depends on?

1. A map of words is read without its diagonal, and in a causal model within reach: a word is not its own head.
2. "from dependent": the dependent's row. The arc is found if no other word has as much of it as the head.
   "from head": the dependent's column. The arc is found if no other word's row has as much on the dependent.
   A tie is a miss.
3. A causal model's rows see what is before them: from the dependent only arcs whose head is before it are within
   reach, from the head those whose head is after it. All others are left out, of the baseline too.
4. The baseline says that the head is k words after the dependent, for each k on its own.

Coreference: does a mention point to an earlier one of the same thing? A mention is the row of its head word. Of every mention
that has an antecedent the candidates are the head words of all earlier mentions; it is found if an antecedent's weight in the
mention's row is larger than that of every candidate that is none. A tie is a miss. The baseline takes the nearest earlier
mention.
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
from tl_ffblock.results.words import grouped
from tl_ffblock.signatures import strict, whole

SpecialTokens: TypeAlias = Literal["keep", "drop", "renormalise"]
"""What becomes of tokens of no word: each stays as a unit of its own, or they go with their weight, or they go and every
row is divided by its remaining sum."""
ArcDirection: TypeAlias = Literal["from dependent", "from head"]
"""Whose row is read: the dependent's, or those of the words that may be its head."""
DIRECTIONS: tuple[ArcDirection, ...] = get_args(ArcDirection)
OFFSETS = tuple(k for k in range(-7, 8) if k)
"""Distances that the baseline tries, in words."""
ALL = "all"
"""All relations but punctuation's."""
PUNCTUATION = "punct"
POSSESSIVES = ("poss", "nmod:poss")
"""How Stanford's and Universal Dependencies call the relation of a possessor."""
Mentions: TypeAlias = Sequence[tuple[int, int]]
"""The row of each mention's head word and a number for what it is a mention of, in the order of the text."""


@strict
def word_maps(
    maps: TokenMaps, word: Sequence[int] | Int[np.ndarray, " token"], *, special: SpecialTokens = "drop"
) -> TokenMaps:
    """The maps with one row and column per word, in the order of their first pieces; a word's label is that of its pieces.

    Args:
        maps: Any maps; of every word all tokens are rows, or none is.
        word: The number of the word that each token belongs to; -1 for tokens of no word, such as [CLS].
        special: What becomes of tokens of no word: "keep", "drop" or "renormalise" (a row of zeros stays zero).

    Raises:
        InputError: if `word` is not one number per token, no word is left, or some tokens of a word are rows and some are not.
    """
    given, count = np.asarray(word), len(maps.tokens)
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
        raise InputError("word: no token belongs to a word, so no word is left.")
    members = numbers[None] == np.array(names)[:, None]
    labels = ["".join(np.array(maps.tokens, dtype=object)[row]) for row in members]
    words = grouped(maps, members, labels, "mean")
    return replace(words, values=shares(words.values, "row")) if special == "renormalise" else words


def _refuse_some_rows(maps: TokenMaps) -> None:
    if maps.queries != tuple(range(len(maps.tokens))):
        raise InputError(
            f"these maps have {len(maps.queries)} rows of {len(maps.tokens)} tokens or words, {brief(maps.queries)}: all of them are "
            "needed. Make the maps with queries=None."
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
        """Arcs of (dependent, head, name); give no root, which has no head.

        Raises:
            InputError: for anything else.
        """
        listed = several(arcs)
        if not all(isinstance(arc, list | tuple) and len(arc) == 3 for arc in listed):
            raise InputError(f"arcs={brief(arcs)}: expected (dependent, head, name), two rows and a text each.")
        dependent, head = (np.array([arc[end] for arc in listed], dtype=np.int64) for end in (0, 1))
        return cls(dependent, head, tuple(name for _, _, name in listed))

    def from_markers(self, words: Sequence[str]) -> "Arcs":
        """The same arcs, those of possessives read from the marker (`'s`) that follows the dependent, as in the paper's program.

        Args:
            words: The words of the map, as `words.tokens` of `word_maps`.

        Raises:
            InputError: if an arc names no word.
        """
        rows = self.dependent
        if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < len(words):
            raise InputError(f"words={brief(words)}: expected a word for each of the rows that arcs name.")
        after = [*(word.strip().lstrip("Ġ▁").replace("’", "'") for word in words), ""]
        marked = [
            n in POSSESSIVES and after[row + 1] in ("'s", "s'", "'") for row, n in zip(rows, self.name, strict=True)
        ]
        return Arcs(rows + np.array(marked, dtype=np.int64), self.head, self.name)

    @property
    def offset(self) -> Int[np.ndarray, " arc"]:
        """How many words the head is after the dependent; negative where it is before."""
        return self.head - self.dependent


@strict
@dataclass(frozen=True, repr=False, eq=False)
class RelationHits(Result):
    """Which arcs of a corpus each map finds."""

    hits: Bool[np.ndarray, "direction arc layer channel"]
    """In the order of `DIRECTIONS`; false where out of reach."""
    name: tuple[str, ...]
    """Of every arc, as the treebank has it."""
    offset: Int[np.ndarray, " arc"]
    document: Int[np.ndarray, " arc"]
    """A number for the document that an arc is in."""
    causal: bool

    def reachable(self, direction: ArcDirection) -> Bool[np.ndarray, " arc"]:
        """The arcs that a row can show."""
        return reachable_arcs(self.offset, direction, causal=self.causal)

    @cached_property
    def relations(self) -> Mapping[str, Bool[np.ndarray, " arc"]]:
        """The arcs of each relation: `ALL` but punctuation, then every name, with subtypes among their relation and alone."""
        names = np.array(self.name, dtype=object)
        bases = np.array([name.partition(":")[0] for name in self.name], dtype=object)
        groups = {name: (names == name) | (bases == name) for name in sorted({*bases, *names})}
        return {ALL: names != PUNCTUATION, **groups}

    def to_dataframe(self) -> pd.DataFrame:
        """One row per direction and arc within reach: relation, offset, document, and the number of maps that find it."""
        table = {"relation": self.name, "offset": self.offset, "document": self.document}
        frames = {
            direction: pd.DataFrame({"direction": direction, **table, "maps": found.sum(axis=(-1, -2))})
            for direction, found in zip(DIRECTIONS, self.hits, strict=True)
        }
        return pd.concat([frame[self.reachable(where)] for where, frame in frames.items()], ignore_index=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """How many arcs and maps, and the best map's share of the arcs within reach."""
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
    """The arcs that a row can show: all, or in a causal model those whose other end is before the row's word."""
    before = offset < 0 if direction == "from dependent" else offset > 0
    return before | (not causal)


@strict
def hits(
    words: TokenMaps, arcs: Arcs, direction: ArcDirection = "from dependent"
) -> Bool[np.ndarray, "layer channel arc"]:
    """Which arcs each map finds; false for those out of reach.

    Args:
        words: Maps of words, as `word_maps` gives them, with all rows. They are read as they are: divide rows by
            their sums first if rows of different sizes are to be compared "from head".
        arcs: Relations between them.
        direction: Whose row is read.

    Raises:
        InputError: if rows are missing, or an arc's word is none of the maps'.
    """
    _refuse_some_rows(words)
    count, ends = len(words.tokens), np.concatenate([arcs.dependent, arcs.head])
    if len(ends) and (ends.min() < 0 or ends.max() >= count):
        raise InputError(
            f"an arc names word {int(ends.min())} or {int(ends.max())}: the maps have words 0 to {count - 1}."
        )
    weights = np.where(words.reachable().numpy() & ~np.eye(count, dtype=bool), _values(words), -np.inf)
    if direction == "from head":
        weights = weights.swapaxes(-1, -2)
    rows = weights[:, :, arcs.dependent]
    at_head = weights[:, :, arcs.dependent, arcs.head]
    return (rows >= at_head[..., None]).sum(axis=-1) == np.where(np.isfinite(at_head), 1, -1)


@strict
def relation_hits(sentences: Sequence[tuple[TokenMaps, Arcs]], documents: Sequence[int] | None = None) -> RelationHits:
    """Which arcs of several sentences each map finds, from both ends.

    Args:
        sentences: Maps of words, of the same layers and channels, with the relations between them; at least one.
        documents: A number for the document of each sentence; None means that each is one of its own.

    Raises:
        InputError: if there is no sentence, their maps differ in kind, or an arc names no word.
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
    """Which anaphors each map resolves: the mentions, in order, that have an antecedent.

    Args:
        words: Maps of words, as `word_maps` gives them, with all rows.
        mentions: In the order of the text, each word once.

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
    """Which anaphors the nearest earlier mention resolves.

    Raises:
        InputError: for mentions that are not pairs of numbers.
    """
    right = [max(antecedents) > max(others, default=-1) for _, antecedents, others in _anaphors(mentions)]
    return np.array(right, dtype=bool)


def _anaphors(mentions: Mentions) -> Iterator[tuple[int, list[int], list[int]]]:
    """Every mention with an antecedent: its word, its antecedents' words, and those of the other earlier mentions."""
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
