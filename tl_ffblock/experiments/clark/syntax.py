"""Relations of a corpus: which arcs each map finds, as arrays that merge, and their tables (section 4.2)."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pandas as pd
from jaxtyping import Bool, Int, UInt8

from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.study import Arrays
from tl_ffblock.corpus.texts.tokenised import TokenisedText
from tl_ffblock.experiments.clark.compared import ATTENTION, VALUE_WEIGHTED, Channel, kinds_of, of_kind
from tl_ffblock.heads import Arcs, RelationHits, Share, mean_share, relation_hits, share_of_chosen, word_maps
from tl_ffblock.heads.probes import ROOT, UNKNOWN
from tl_ffblock.heads.relations import DIRECTIONS, OFFSETS, PUNCTUATION, Direction
from tl_ffblock.results.ranks import shares
from tl_ffblock.results.token_maps import TokenMaps

OFFSET = "offset"
"""The best fixed distance, which stands beside the kinds of maps."""
_NAME_BYTES = 24
"""Bytes that a relation's name is kept in; the longest of Universal Dependencies have 17."""


def words_of(tokenised: TokenisedText) -> tuple[int, ...]:
    """The words that have a token, in the order of the rows of maps of words."""
    return tuple(dict.fromkeys(tokenised.word[tokenised.word >= 0].tolist()))


def arcs_of(tokenised: TokenisedText) -> Arcs:
    """The text's relations between words that have a token, by the rows of the maps of words; the root has none."""
    rows = {word: row for row, word in enumerate(words_of(tokenised))}
    return Arcs.of(
        (rows[arc.dependent], rows[arc.head], arc.name)
        for arc in tokenised.source.relations
        if arc.dependent in rows and arc.head in rows
    )


def heads_of(tokenised: TokenisedText) -> tuple[Int[np.ndarray, " word"], Bool[np.ndarray, " word"]]:
    """The head of every word that has a token, as probes take it, and which words are not punctuation.

    Of a word with two heads, as "wasn't" may have, the first in the data counts.
    """
    rows = {word: row for row, word in enumerate(words_of(tokenised))}
    head, counted = np.full(len(rows), UNKNOWN), np.ones(len(rows), dtype=bool)
    for arc in tokenised.source.relations:
        if arc.dependent in rows and head[rows[arc.dependent]] == UNKNOWN and (arc.head in rows or arc.head < 0):
            head[rows[arc.dependent]] = ROOT if arc.head < 0 else rows[arc.head]
            counted[rows[arc.dependent]] = arc.name != PUNCTUATION
    return head, counted


def maps_of_words(maps: TokenMaps, tokenised: TokenisedText) -> TokenMaps:
    """Rows as shares of their sum, pieces pooled to words, special tokens gone with their weight."""
    return word_maps(replace(maps, values=shares(maps.values.double(), "row")), tokenised.word, special="drop")


def sequence_hits(maps: TokenMaps, tokenised: TokenisedText) -> RelationHits | None:
    """Which of a sequence's arcs every map finds; None where the data has no relations."""
    arcs = arcs_of(tokenised)
    return relation_hits([(maps_of_words(maps, tokenised), arcs)], [document_number(tokenised)]) if arcs.name else None


def document_number(tokenised: TokenisedText) -> int:
    """A number for the article that a text belongs to: the same in every shard."""
    digest = blake2b(tokenised.source.document.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def hits_as_arrays(measured: Sequence[RelationHits]) -> Arrays:
    """What a shard keeps of its sequences' arcs, one bit an arc, map and direction; nothing where there are none."""
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
    """All shards' arcs, in order; `shape` is (layers, channels). None where no shard has any."""
    kept = [shard for shard in shards if f"{prefix}arcs.hits" in shard]
    if not kept:
        return None

    def joined(name: str, axis: int = 0) -> np.ndarray:
        return np.concatenate([shard[f"{prefix}arcs.{name}"] for shard in kept], axis=axis)

    bits = np.unpackbits(joined("hits", 1), axis=-1, count=shape[0] * shape[1]).astype(bool)
    return RelationHits(
        hits=bits.reshape(*bits.shape[:2], *shape),
        name=_names(joined("name")),
        offset=joined("offset").astype(np.int64),
        document=joined("document"),
        causal=causal,
    )


def relations_table(hits: RelationHits, channels: Sequence[Channel], least: int) -> pd.DataFrame:
    """Accuracy of every map for every relation, from both ends."""
    rows = []
    for relation, direction, arcs in _questions(hits, least):
        found = hits.hits[DIRECTIONS.index(direction)][arcs].mean(axis=0)
        for layer, place in np.ndindex(found.shape):
            question: dict[str, object] = {"relation": relation, "read": direction}
            rows.append(question | channels[place].columns(layer) | {"accuracy": found[layer, place]})
    return pd.DataFrame(rows)


def offsets_table(hits: RelationHits, least: int) -> pd.DataFrame:
    """How many arcs of every relation have their head k words behind the dependent, for each k."""
    rows = [
        {"relation": relation, "read": direction, "offset": k, "accuracy": float((hits.offset[arcs] == k).mean())}
        | {"arcs": int(arcs.sum())}
        for relation, direction, arcs in _questions(hits, least)
        for k in OFFSETS
    ]
    return pd.DataFrame(rows)


def best_tables(
    hits: RelationHits, channels: Sequence[Channel], least: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """For every relation the best map of each kind, chosen on other documents, beside others; and means over relations."""
    rows, questions = [], []
    documents = np.unique(hits.document)
    for relation, direction, arcs in _questions(hits, least):
        document = hits.document[arcs]
        if len(np.unique(document)) < 2:
            continue
        found = hits.hits[DIRECTIONS.index(direction)][arcs]
        candidates = {kind: found[..., of_kind(channels, kind)] for kind in kinds_of(channels)}
        candidates[OFFSET] = hits.offset[arcs][:, None] == np.array(OFFSETS)
        best = {
            kind: share_of_chosen(each.reshape(len(each), -1), document, drawn_from=documents, seed=seed)
            for kind, each in candidates.items()
        }
        differences = {
            (kind, other): best[kind].minus(best[of_other])
            for kind in kinds_of(channels)
            for other, of_other in _compared_with(kind).items()
        }
        questions.append(differences)
        question = {"relation": relation, "read": direction, "arcs": int(arcs.sum())}
        for kind, share in best.items():
            row = question | {"map": kind} | share.columns("accuracy")
            for (of, other), difference in differences.items():
                row |= difference.columns(f"minus_{other}") if of == kind else {}
            rows.append(row | ({} if kind == OFFSET else _top(candidates[kind], channels, kind)))
    return pd.DataFrame(rows), _differences_table(questions)


def _compared_with(kind: str) -> dict[str, str]:
    """By the name in the tables the kind of map that another kind is compared with."""
    before = "Atb by head" if kind.endswith(" by head") else "Atb"
    others = {"attention": ATTENTION, "offset": OFFSET}
    return others if kind in (ATTENTION, VALUE_WEIGHTED, before) else others | {"atb": before}


def _differences_table(questions: Sequence[Mapping[tuple[str, str], Share]]) -> pd.DataFrame:
    """Over all questions: in how many the interval of a difference excludes zero, and the mean difference."""
    rows = []
    for kind, other in questions[0] if questions else ():
        shares = [differences[kind, other] for differences in questions]
        ends = np.array([share.interval() for share in shares])
        counts = {"better": int((ends[:, 0] > 0).sum()), "worse": int((ends[:, 1] < 0).sum())}
        row: dict[str, object] = {"map": kind, "minus": other, "questions": len(shares)}
        rows.append(row | counts | mean_share(shares).columns("mean"))
    return pd.DataFrame(rows)


def _questions(hits: RelationHits, least: int) -> Iterator[tuple[str, Direction, Bool[np.ndarray, " arc"]]]:
    """Every relation from both ends, with the arcs within reach, where there are enough of them."""
    for relation, of_relation in hits.relations.items():
        for direction in DIRECTIONS:
            arcs = of_relation & hits.reachable(direction)
            if arcs.sum() >= least:
                yield relation, direction, arcs


def _top(found: Bool[np.ndarray, "arc layer channel"], channels: Sequence[Channel], kind: str) -> dict[str, object]:
    """The map that is best on all documents, which by the choice is better than it is."""
    accuracy = found.mean(axis=0)
    layer, place = np.unravel_index(int(accuracy.argmax()), accuracy.shape)
    name = channels[of_kind(channels, kind)[place]].name
    return {"top_layer": int(layer), "top_channel": name, "top_accuracy": float(accuracy[layer, place])}


def _names(kept: UInt8[np.ndarray, "arc byte"]) -> tuple[str, ...]:
    return tuple(bytes(row).rstrip(b"\0").decode() for row in kept)
