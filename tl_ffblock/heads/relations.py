"""Maps as parsers: whether a map points from a word to the one that it depends on (Clark et al. 2019, section 4.2).

1. A map of words is read without its diagonal, and in a causal model within reach: a word is not its own head.
2. "from dependent": the dependent's row. The arc is found if no other word has as much of it as the head.
   "from head": the dependent's column. The arc is found if no other word's row has as much on the dependent.
   A tie is a miss.
3. A causal model's rows see what is before them: from the dependent only arcs whose head is before it are within
   reach, from the head those whose head is behind it. All others are left out, of the baseline too.
4. The baseline says that the head is k words behind the dependent, for each k on its own.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Int

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import several
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict

Direction: TypeAlias = Literal["from dependent", "from head"]
"""Whose row is read: the dependent's, or those of the words that may be its head."""
DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
OFFSETS = tuple(k for k in range(-7, 8) if k)
"""Distances that the baseline tries, in words."""
ALL = "all"
"""All relations but punctuation's."""
PUNCTUATION = "punct"


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
        return cls(
            np.array([dependent for dependent, _, _ in listed], dtype=np.int64),
            np.array([head for _, head, _ in listed], dtype=np.int64),
            tuple(name for _, _, name in listed),
        )

    @property
    def offset(self) -> Int[np.ndarray, " arc"]:
        """How many words the head is behind the dependent; negative where it is before."""
        return self.head - self.dependent


@strict
@dataclass(frozen=True, eq=False)
class RelationHits:
    """Which arcs of a corpus each map finds."""

    hits: Bool[np.ndarray, "direction arc layer channel"]
    """In the order of `DIRECTIONS`; false where out of reach."""
    name: tuple[str, ...]
    """Of every arc, as the treebank has it."""
    offset: Int[np.ndarray, " arc"]
    document: Int[np.ndarray, " arc"]
    """A number for the document that an arc is in."""
    causal: bool

    def reachable(self, direction: Direction) -> Bool[np.ndarray, " arc"]:
        """The arcs that a row can show."""
        return reachable_arcs(self.offset, direction, causal=self.causal)

    @cached_property
    def relations(self) -> Mapping[str, Bool[np.ndarray, " arc"]]:
        """The arcs of each relation: `ALL` but punctuation, then every name, with subtypes among their relation and alone."""
        bases = [name.partition(":")[0] for name in self.name]
        groups = {ALL: np.array([name != PUNCTUATION for name in self.name], dtype=bool)}
        for name in sorted({*bases, *self.name}):
            groups[name] = np.array(
                [name in (base, whole) for base, whole in zip(bases, self.name, strict=True)], dtype=bool
            )
        return groups


@strict
def reachable_arcs(offset: Int[np.ndarray, " arc"], direction: Direction, *, causal: bool) -> Bool[np.ndarray, " arc"]:
    """The arcs that a row can show: all, or in a causal model those whose other end is before the row's word."""
    if not causal:
        return np.ones(len(offset), dtype=bool)
    return offset < 0 if direction == "from dependent" else offset > 0


@strict
def hits(
    words: TokenMaps, arcs: Arcs, direction: Direction = "from dependent"
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
    if direction not in DIRECTIONS:
        raise InputError(f"direction={direction!r}: expected one of {', '.join(DIRECTIONS)}.")
    count = len(words.tokens)
    if words.queries != tuple(range(count)):
        raise InputError(f"these maps have {len(words.queries)} rows of {count} words: relations need them all.")
    ends = np.concatenate([arcs.dependent, arcs.head])
    if len(ends) and (ends.min() < 0 or ends.max() >= count):
        raise InputError(
            f"an arc names word {int(ends.min())} or {int(ends.max())}: the maps have words 0 to {count - 1}."
        )
    values = words.values.detach().double().cpu().numpy()
    open_cells = words.reachable().numpy() & ~np.eye(count, dtype=bool)
    weights = np.where(open_cells, values, -np.inf)
    if direction == "from head":
        weights = weights.swapaxes(-1, -2)
    rows = weights[:, :, arcs.dependent]
    at_head = np.take_along_axis(
        rows, np.broadcast_to(arcs.head[:, None], (*rows.shape[:2], len(arcs.head), 1)), axis=-1
    )
    return (rows >= at_head).sum(axis=-1) == np.where(np.isfinite(at_head[..., 0]), 1, -1)


@strict
def relation_hits(sentences: Sequence[tuple[TokenMaps, Arcs]], documents: Sequence[int] | None = None) -> RelationHits:
    """Which arcs of several sentences each map finds, from both ends.

    Args:
        sentences: Maps of words, of the same layers and channels, with the relations between them; at least one.
        documents: A number for the document of each sentence; None means that each is one of its own.

    Raises:
        InputError: if there is no sentence, their maps differ in kind, or an arc names no word.
    """
    pairs = isinstance(sentences, Sequence) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 for pair in sentences
    )
    if not pairs:
        raise InputError(f"sentences={brief(sentences)}: expected pairs of maps of words and their Arcs.")
    kinds = {(maps.layers, maps.channels, maps.causal) for maps, _ in sentences}
    if len(kinds) != 1:
        raise InputError(
            f"sentences: expected maps of the same layers and channels, of one at least; here are {len(kinds)} kinds."
        )
    ((_, _, causal),) = kinds
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
        causal=causal,
    )
