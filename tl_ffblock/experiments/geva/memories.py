"""Neurons as memories over a corpus: triggers, agreement, composition, refinement (Geva et al. 2021, sections 3 to 5).

Of every layer a random sample of memories is looked at for triggers, one prefix a sequence; all memories of a layer take
part in composition. Nothing grows with the corpus but its time.

- `triggers`: the prefixes with the largest coefficients of each sampled memory, positive and negative ones apart.
- `ngrams`: shallow patterns as far as they can be counted: the share of memories of which at least 3 triggers end in the
  same 1, 2 or 3 tokens, and the share of triggers that the commonest ending has. "random" are as many memories whose
  coefficients are random numbers.
- `agreement` (causal models): how often the token after a trigger is the top token of the memory's value: of the first
  trigger, of all, and of any; `chance`, if next tokens were dealt out to the memories of a layer at random.
- `confident`: of the 100 values with the largest top probability, how many are in the upper third, and how many have a trigger
  that agrees.
- `composition`: share of active memories, and how often none of them says the layer's top token (`zero_agreement`), by two
  rules of what is active and for both meanings of the layer's top token. At one random position a sequence.
- `refinement`: how often the residual's top token is the model's already, the probability of that token there, and whose top
  token the layer's output has. At the same positions.

Readings: "direction" is the unembedding alone, as in the paper; "final_norm" the model's own read-out. Of an encoder that
was saved without its head there are triggers and endings only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import ClassVar

import numpy as np
from jaxtyping import Int

from tl_ffblock.bridge.model import Model
from tl_ffblock.corpus.fields import check_at_least
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.settings import Config
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments, merged
from tl_ffblock.corpus.study import Arrays, Figures, ModelFacts, Study, Tables
from tl_ffblock.experiments.geva import tabulated
from tl_ffblock.experiments.geva.measured import (
    SIGNS,
    KnownValues,
    PositionVectors,
    SequenceMemories,
    best_of_sequence,
    composition_at,
    known_values,
    refinement_at,
    sampled_cells,
)
from tl_ffblock.experiments.geva.tabulated import RANDOM, TriggerShard
from tl_ffblock.memories.triggers import BestPositions
from tl_ffblock.results import figures as draw

_ERRORS = "with the standard errors of shares"


@dataclass(frozen=True)
class MemoriesOptions:
    """How many memories, and how many triggers of each."""

    keys: int = 64
    """Memories of every layer whose triggers are looked for, drawn at random by the seed."""
    top_triggers: int = 25
    """Triggers of a memory."""
    skip_first: int = 1
    """Tokens at the start of a sequence that are no triggers: many models park huge activations there."""

    every: int = 1
    """Every so many sequences one gives a position for composition and refinement, which cost more than triggers."""

    def __post_init__(self) -> None:
        check_at_least(self, "keys", 1)
        check_at_least(self, "every", 1)
        check_at_least(self, "top_triggers", 3)
        check_at_least(self, "skip_first", 0)


class MemoriesStudy(Study):
    """Triggers, agreement, composition and refinement."""

    name = "memories"
    title = "Feed-forward neurons as keys and values"
    reads_head = True
    masked = 0.0  # triggers are texts as they are
    captions: ClassVar[Mapping[str, str]] = {
        "agreement": f"Share of memories whose first trigger is followed by their value's top token, {_ERRORS}.",
        "ngrams": f"Share of memories of which at least three triggers end alike, in so many tokens, {_ERRORS}.",
        "refinement": f"Whose top token a layer's output has, and how often the residual's is the model's already, {_ERRORS}.",
    }
    options: MemoriesOptions

    def __init__(self, config: Config, facts: ModelFacts, options: object = None) -> None:
        super().__init__(config, facts, options)
        self._known: KnownValues | None = None

    def measure(self, observed: Observation) -> SequenceMemories:
        tokenised, number = observed.tokenised, observed.tokenised.source.number
        known = self._known_of(observed.model)
        allowed = ~tokenised.special
        allowed[: self.options.skip_first] = False
        positions = np.flatnonzero(allowed)
        best = best_of_sequence(observed.records, known.cells, positions, number)
        random = np.random.default_rng([self.config.seed, number])
        drawn = random.random((len(positions), self.options.keys)).astype(np.float32)
        none = BestPositions.none(self.options.keys, 1)
        best[RANDOM] = BestPositions.of_sequence(drawn, positions, number, 1, "sentence") if len(positions) else none
        moments = {}
        if known.sides and len(positions) and number % self.options.every == 0:
            position = int(random.choice(positions))
            vectors = PositionVectors.at(observed.records, position, observed.model)
            moments = {"composition": composition_at(vectors, known), "refinement": refinement_at(vectors)}
        return SequenceMemories(number, tokenised.ids.astype(np.int32), best, moments)

    def summarise(self, measured: Sequence[SequenceMemories]) -> Arrays:
        assert self._known is not None
        arrays = {"names": _named(self._known)}
        ids = {sequence.number: sequence.ids for sequence in measured}
        for sign in (*SIGNS, RANDOM):
            best = BestPositions.none(len(measured[0].best[sign].magnitude), self.options.top_triggers)
            for sequence in measured:
                best.take(sequence.best[sign])
            arrays |= TriggerShard.of(best, ids).arrays(sign)
        for name in ("composition", "refinement"):
            moments = [sequence.moments[name] for sequence in measured if name in sequence.moments]
            arrays |= merged(moments).arrays(name) if moments else {}
        for sign, tops in self._known.tops.items():
            arrays |= {f"tops.{sign}": tops, f"probability.{sign}": self._known.probability[sign]}
        return {self.array(name): array for name, array in arrays.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        names = shards[0][self.array("names")]
        best = {
            sign: reduce(TriggerShard.merged, (TriggerShard.read(shard, self.array(sign)) for shard in shards))
            for sign in (*SIGNS, RANDOM)
        }
        tables = {
            "triggers": tabulated.trigger_table(names, best, cache(self.facts.label)),
            "ngrams": tabulated.ngram_table(names, best),
        }
        with_head = [shard for shard in shards if self.array("composition.count") in shard]
        if with_head:
            values: dict[str, tabulated.Values] = {
                sign: (shards[0][self.array(f"tops.{sign}")], shards[0][self.array(f"probability.{sign}")])
                for sign in SIGNS
            }
            if self.facts.causal:
                tables["agreement"] = tabulated.agreement_table(names, best, values)
                tables["confident"] = tabulated.confident_table(names, best, values)
            for name, make in (
                ("composition", tabulated.composition_table),
                ("refinement", tabulated.refinement_table),
            ):
                tables[name] = make(merged(Moments.read(shard, self.array(name)) for shard in with_head))
        return tables

    def figures(self, tables: Tables) -> Figures:
        figures = {"ngrams": draw.layer_lines(tabulated.ngram_lines(tables["ngrams"]), ylabel="share of memories")}
        if "agreement" in tables:
            agreement = tabulated.agreement_lines(tables["agreement"])
            figures["agreement"] = draw.layer_lines(agreement, ylabel="share of memories")
        if "refinement" in tables:
            refinement = tabulated.refinement_lines(tables["refinement"])
            figures["refinement"] = draw.layer_lines(refinement, ylabel="share of positions")
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        """Where triggers end alike most often, and where values agree with them most often."""
        one_token = tables["ngrams"].query("sign == 'positive' and n == 1 and layer >= 0").dropna(subset="shared")
        sentences = []
        if len(one_token):
            most = one_token.loc[one_token["shared"].idxmax()]
            sentences.append(
                f"Three triggers or more end in the same token in {one_token['shared'].mean():.0%} of the memories "
                f"({most['shared']:.0%} in layer {most['layer']:.0f})."
            )
        if "agreement" in tables:
            agreement = (
                tables["agreement"].query("sign == 'positive' and reading == 'final_norm'").dropna(subset="first")
            )
            if len(agreement):
                most = agreement.loc[agreement["first"].idxmax()]
                sentences.append(
                    f"The token after the first trigger is the value's top token in {agreement['first'].mean():.1%} of the "
                    f"memories ({most['first']:.1%} in layer {most['layer']:.0f}); by chance {agreement['chance'].mean():.1%}."
                )
        return tuple(sentences)

    def overview(self, tables: Tables) -> Tables:
        """Give agreement and zero agreement by layer."""
        small: Tables = {}
        if "agreement" in tables:
            wide = (
                tables["agreement"].query("sign == 'positive'").pivot(index="layer", columns="reading", values="first")
            )
            small["share of first triggers that agree"] = wide.reset_index()
        if "composition" in tables:
            columns = {"values": "zero_agreement", "index": "layer", "columns": "rule"}
            small["share of positions at which no active memory says the layer's token"] = (
                tables["composition"].pivot(**columns).reset_index()
            )
        return small

    def _known_of(self, model: Model) -> KnownValues:
        if self._known is None:
            cells = sampled_cells(model, self.options.keys, self.config.seed)
            self._known = known_values(model, cells)
        return self._known


def _named(known: KnownValues) -> Int[np.ndarray, "cell 3"]:
    """Layer, expert (-1 for none) and neuron of every sampled memory."""
    names = known.cells.names
    return np.array([(name.layer, -1 if name.expert is None else name.expert, name.neuron) for name in names])
