"""Probes: syntactic information in all heads, or all maps, together (section 5).

- `attachment`: unlabelled attachment score of words that are not punctuation, cross-validated over documents (5 folds). It has
  95 % intervals (bootstrap over documents), and the difference to attention with the same probe, on the same draws.

For every word a probe chooses the head among all other words and the root. `probe` is "maps", with one weight per map and
direction; "maps and words", with weights that depend on both words' embeddings (64 principal components of the model's own, in
place of GloVe's); or "distance and words", which reads no map. Each is trained until its loss is smallest (option
`probe_penalty`). `maps` is attention, value-weighted attention, contributions of
whole layers at three scopes, all of these together, or attention of a model with random weights. Baselines: the next word
("right-branching"), and the best fixed offset, chosen on other documents.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float

from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.study import (
    Arrays,
    Figures,
    ModelFacts,
    Observation,
    Options,
    ShardArrays,
    Study,
    Tables,
    observe,
)
from tl_ffblock.errors import InputError
from tl_ffblock.experiments.clark.compared import (
    ATTENTION,
    channels_of,
    compared_maps,
    compared_scopes,
    document_number,
    heads_of,
    maps_of_words,
    places_by_kind,
    words_of,
)
from tl_ffblock.heads import (
    Attachments,
    ProbeSentence,
    Share,
    Training,
    attached_at,
    attachments,
    chosen_elsewhere,
    share_of_hits,
)
from tl_ffblock.heads.relations import OFFSETS
from tl_ffblock.results import figures as draw

RANDOM = "random weights"
ALL_MAPS = "all of these"
PARTS = {
    "maps": np.float16,
    "random": np.float16,
    "vectors": np.float16,
    "head": np.int32,
    "counted": np.uint8,
    "length": np.int64,
    "document": np.int64,
}
"""Arrays of a shard: sentences one after the other, those of pairs of words flattened."""


@dataclass(frozen=True)
class ProbesOptions(Options):
    """Training of the probes."""

    probe_penalty: float = 1.0
    """Factor of half the sum of squared weights in the loss of probes, which are trained until it is smallest."""

    def __post_init__(self) -> None:
        super().__post_init__()
        Training(penalty=self.probe_penalty)


Probed: TypeAlias = tuple[ProbeSentence, Float[np.ndarray, "map word word"]]
"""A sentence with all maps, and its attention patterns in the model with random weights."""


class Probes(Study):
    """Parses predicted from all maps together."""

    name = "probes"
    title = "Dependency parsing from all maps: probes"
    repeats = "section 5, Tab. 3"
    captions: ClassVar[Mapping[str, str]] = {
        "attachment": "Share of words that are given their head, on documents not trained on, with 95 % intervals.",
    }
    masked = 0.0  # Clark et al. mask no tokens
    options: ProbesOptions

    _random: Model | None = None

    def scopes(self) -> tuple[str, ...]:
        return compared_scopes(self.facts)

    def measure(self, observed: Observation) -> Probed:
        tokenised = observed.tokenised
        if not tokenised.source.relations:
            raise InputError("no relations in this text: probes need a treebank (CoNLL-U with columns 7 and 8).")
        maps = maps_of_words(compared_maps(observed, self.facts, by_head=False), tokenised)
        if self._random is None:
            self._random = observed.model.with_random_weights(self.config.seed)
        (random,) = observe(self._random, [tokenised], ())
        pattern = torch.stack([record.pattern for record in random.records]).float().cpu()
        names = tuple(map(str, range(pattern.shape[1])))
        labelled = replace(observed.maps.token_maps(self.scopes()[0]), values=pattern, channels=names)
        vectors = observed.model.token_vectors(observed.tokens).numpy()
        means = [vectors[tokenised.word == number].mean(axis=0) for number in words_of(tokenised)]
        head, counted = heads_of(tokenised)
        sentence = ProbeSentence(_flat(maps.values), np.stack(means), head, counted, document_number(tokenised))
        return sentence, _flat(maps_of_words(labelled, tokenised).values)

    def summarise(self, measured: Sequence[Probed]) -> Arrays:
        sentences, randoms = zip(*measured, strict=True)
        arrays = {
            "maps": np.concatenate([s.maps.reshape(len(s.maps), -1) for s in sentences], axis=1),
            "random": np.concatenate([maps.reshape(len(maps), -1) for maps in randoms], axis=1),
            "vectors": np.concatenate([sentence.vectors for sentence in sentences]),
            "head": np.concatenate([sentence.head for sentence in sentences]),
            "counted": np.concatenate([sentence.counted for sentence in sentences]),
            "length": np.array([len(sentence.head) for sentence in sentences]),
            "document": np.array([sentence.document for sentence in sentences]),
        }
        return {self.array(name): arrays[name].astype(kind) for name, kind in PARTS.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        corpus = _Corpus([{name: shard[self.array(name)] for name in PARTS} for shard in shards], self.facts)
        training = Training(penalty=self.options.probe_penalty, seed=self.config.seed)
        if len({sentence.document for sentence, _ in corpus.sentences}) < 2:
            return {"attachment": pd.DataFrame()}
        rows, shares = [], dict[tuple[str, str], Share]()
        for probe, kind, answers in _answers(corpus, training):
            share = shares[probe, kind] = share_of_hits(answers.right, answers.document, seed=self.config.seed)
            row = {"probe": probe, "maps": kind, "words": len(answers.right)} | share.columns("attachment")
            minus = share.minus(shares[probe, ATTENTION]).columns("minus_attention") if kind else {}
            rows.append(row | minus)
        return {"attachment": pd.DataFrame(rows)}

    def figures(self, tables: Tables) -> Figures:
        table = tables["attachment"]
        return {} if table.empty else {"attachment": _figure(table)}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        table = tables["attachment"]
        if table.empty:
            return ("Fewer than two documents: nothing to train on and to ask.",)
        by_maps = table["maps"].fillna("") != ""
        sides = [("by maps", table[by_maps]), ("without any", table[~by_maps])]
        told = [
            f"{where} at most {best.attachment:.0%} ({best.probe}{f': {best.maps}' if best.maps else ''})"
            for where, rows in sides
            for best in list(rows.nlargest(1, "attachment").itertuples())
        ]
        return (f"Words that are given their head: {', '.join(told)}.",)


class _Corpus:
    """Sentences of all shards, by kind of map."""

    def __init__(self, shards: Sequence[Mapping[str, np.ndarray]], facts: ModelFacts) -> None:
        self.sentences = [probed for shard in shards for probed in _unpacked(shard)]
        self.n_layers = facts.n_layers
        channels = channels_of(facts, len(shards[0]["maps"]) // facts.n_layers, by_head=False)
        self.n_channels = len(channels)
        self.places = {**places_by_kind(channels), ALL_MAPS: list(range(len(channels)))}

    def of(self, kind: str) -> list[ProbeSentence]:
        """Sentences with the maps of one kind, of all kinds, or of the model with random weights."""
        if kind == RANDOM:
            return [replace(sentence, maps=random) for sentence, random in self.sentences]
        rows = [layer * self.n_channels + place for layer in range(self.n_layers) for place in self.places[kind]]
        return [replace(sentence, maps=sentence.maps[rows]) for sentence, _ in self.sentences]


def _answers(corpus: _Corpus, training: Training) -> Iterator[tuple[str, str, Attachments]]:
    """Answers of every probe on every kind of map, attention first, and of the baselines, which have no map."""
    yield from (
        (probe, kind, attachments(corpus.of(kind), probe, training))
        for probe in ("maps", "maps and words")
        for kind in (*corpus.places, RANDOM)
    )
    sentences = corpus.of(ATTENTION)
    yield "distance and words", "", attachments(sentences, "distance and words", training)
    yield "right-branching", "", attached_at(sentences, 1)
    by_offset = [attached_at(sentences, offset) for offset in OFFSETS]
    hits = np.stack([answers.right for answers in by_offset], axis=1)
    yield "best offset", "", replace(by_offset[0], right=chosen_elsewhere(hits, by_offset[0].document)[0])


def _unpacked(shard: Mapping[str, np.ndarray]) -> Iterator[Probed]:
    word = pair = 0
    for length, document in zip(shard["length"].tolist(), shard["document"].tolist(), strict=True):
        words, pairs = slice(word, word + length), slice(pair, pair + length**2)
        maps, random = (
            shard[name][:, pairs].astype(np.float32).reshape(-1, length, length) for name in ("maps", "random")
        )
        counted = shard["counted"][words].astype(bool)
        vectors, head = shard["vectors"][words].astype(np.float32), shard["head"][words].astype(np.int64)
        yield ProbeSentence(maps, vectors, head, counted, document), random
        word, pair = word + length, pair + length**2


def _flat(maps: Float[torch.Tensor, "layer channel word word"]) -> Float[np.ndarray, "map word word"]:
    return maps.flatten(0, 1).float().numpy()


def _figure(table: pd.DataFrame) -> Any:
    figure, ax = draw.axes(height=0.4 + 0.17 * len(table))
    names = [f"{row.probe}: {row.maps}" if row.maps else str(row.probe) for row in table.itertuples()]
    value = table["attachment"].to_numpy()
    sides = np.stack([value - table["attachment_low"], table["attachment_high"] - value])
    ax.barh(names, value, xerr=sides, color=draw.COLOURS[0], error_kw={"elinewidth": 0.8})
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.set_xlabel("words that are given their head")
    return figure
