"""Neurons as key-value memories over a corpus: triggers, agreement, composition, refinement (Geva et al. 2021, sections 3 to 5).

A trigger is a top-activating example of a neuron, with at most one prefix per sequence. Triggers are searched for a random
sample of neurons of every layer; composition uses all neurons of a layer. Only the time grows with the corpus.

- `triggers`: the prefixes with the largest activations of each sampled neuron, positive and negative ones separately.
- `ngrams`: shallow patterns, as far as they can be counted: the fraction of neurons with at least 3 triggers that end in the
  same 1, 2 or 3 tokens. Also the fraction of triggers with the most frequent ending. "random" are as many neurons whose
  activations are random numbers.
- `agreement` (causal models): how often the token after a trigger is the top token of the neuron's value: for the first
  trigger, for all, and for any. `chance` is the value if next tokens were assigned to the neurons of a layer at random.
- `ranks` (causal models): rank of the token after the first trigger among all tokens by the neuron's value, 1 for the top token
  (section 4): quartiles over neurons, and fractions up to 1, 10 and 100.
- `confident`: of the 100 values with the largest top probability, the fraction in the upper third of layers, and the fraction
  with a trigger that agrees.
- `composition`: fraction of active neurons, and how often no active neuron's value has the layer's top token as its own
  (`zero_agreement`), by two rules for active neurons. The layer's top token is that of the feed-forward, or of the layer's
  output (`zero_agreement_with_sum`). At one random position per sequence.
- `refinement`: how often the residual's top token is already the model's, the probability of that token there, and whose top
  token the layer's output has. At the same positions.

Readings: "direction" is the unembedding alone, as in the paper; "final_norm" is the model's own read-out. For an encoder saved
without its head there are triggers and endings only.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from itertools import product
from typing import Any, ClassVar, TypeAlias, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.corpus.statistics import Kept, merged
from tl_ffblock.corpus.study import (
    Arrays,
    Figures,
    Moments,
    Observation,
    Options,
    ShardArrays,
    Study,
    Tables,
    table_over,
)
from tl_ffblock.layer.neurons import coefficients, neuron_values
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import feed_sum, output_step
from tl_ffblock.memories import value_tokens
from tl_ffblock.memories.names import Cells, cells_of, n_neurons
from tl_ffblock.memories.triggers import BestPositions, Sign
from tl_ffblock.memories.values import (
    OUTCOMES,
    ActiveRule,
    active,
    agreeing,
    chance_agreement,
    outcomes,
    value_ranks,
    zero_agreement,
)
from tl_ffblock.results import figures as draw
from tl_ffblock.results.tokens import visible

READINGS: tuple[Reading, ...] = get_args(Reading)
READING_WORDS: dict[Reading, str] = {"direction": "unembedding alone", "final_norm": "model's read-out"}
"""Names of the readings in figures."""
SIGNS: tuple[Sign, ...] = get_args(Sign)
RULES: tuple[ActiveRule, ...] = get_args(ActiveRule)
RANDOM = "random"
CONTEXT = 12
"""Number of stored tokens of a prefix, the trigger token last."""
ENDINGS = (1, 2, 3)
ALIKE = 3
"""Smallest number of triggers with the same ending that counts as a pattern, as in the paper's annotation."""
CONFIDENT = 100
"""Number of values with the largest top probability, as in the paper."""
UP_TO = (1, 10, 100)
"""Ranks up to which fractions of neurons are counted."""
COMPOSITION = ("active", "zero_agreement", "zero_agreement_with_sum")
REFINEMENT = ("final", "probability", *OUTCOMES)
TRIGGER_COLUMNS = [
    "layer",
    "expert",
    "neuron",
    "sign",
    "rank",
    "coefficient",
    "sequence",
    "position",
    "prefix",
    "following",
]
_ERRORS = "with the standard errors of shares"

Names: TypeAlias = Int[np.ndarray, "cell 3"]
"""Layer, expert (-1 for none) and neuron of every sampled neuron."""
Values: TypeAlias = tuple[Int[np.ndarray, "reading cell"], Float[np.ndarray, "reading cell"]]
"""Top token of each sampled value, and its probability."""
Measured: TypeAlias = tuple[int, Int[np.ndarray, " token"], Mapping[str, BestPositions], Mapping[str, Moments]]
"""Measurement of one sequence: its number and tokens; its best positions by sign, and of neurons whose activations are random
numbers ("random"); and for one position, [layer ...], `composition` [layer rule 3] and `refinement` [layer reading 2 +
outcomes], neither without a head."""


@dataclass(frozen=True)
class KnownValues:
    """Values of a model's neurons, which do not depend on the input."""

    model: Model
    cells: Cells
    """Sampled neurons, for which triggers are searched."""
    values: Mapping[str, Values]
    """Top tokens of the sample, by sign; empty without a head."""
    sides: Mapping[int, Int[Tensor, "side neuron"]]
    """By layer, for every neuron: top token of v and of -v in the reading "direction"."""
    lengths: Mapping[int, Float[Tensor, " neuron"]]


def sampled_cells(model: Model, keys: int, seed: int) -> Cells:
    """The same number of random neurons of every layer; all neurons of a layer with fewer."""
    chosen = []
    for layer in range(model.n_layers):
        block = model.layers[layer].read(settings_of(model, {}).dtype)
        draw = np.random.default_rng([seed, layer])
        number = n_neurons(block)
        chosen.append((block, np.sort(draw.choice(number, min(keys, number), replace=False)).tolist()))
    return cells_of(chosen)


@torch.no_grad()
def known_values(model: Model, cells: Cells) -> KnownValues:
    """Top tokens of all values of a model in the reading "direction", and those of the sample in both readings."""
    if not model.has_trained_head:
        return KnownValues(model, cells, {}, {}, {})
    of_sample: dict[str, Values] = {}
    for sign in SIGNS:
        read = [value_tokens(model, memories=cells.names, reading=reading, sign=sign, k=1) for reading in READINGS]
        tops, probability = ([getattr(values, name) for values in read] for name in ("top_ids", "probability"))
        of_sample[sign] = np.stack(tops)[..., 0], np.stack(probability)
    direction = read_out(model, "direction")
    sides, lengths = {}, {}
    for layer in range(model.n_layers):
        values = neuron_values(model.layers[layer].read(settings_of(model, {}).dtype))
        lengths[layer] = values.norm(dim=-1)
        both = [torch.stack([logits.argmax(-1), logits.argmin(-1)]) for logits in direction.in_chunks(values)]
        sides[layer] = torch.cat(both, dim=1).to(values.device)
    return KnownValues(model, cells, of_sample, sides, lengths)


@torch.no_grad()
def at_position(
    records: tuple[LayerRecord, ...], position: int, model: Model, known: KnownValues
) -> dict[str, Moments]:
    """Composition and refinement at one position.

    Composition is by layer and rule: fraction of active neurons, zero agreement with the feed-forward's top token, and with
    that of the layer's output. Refinement is by layer and reading: whether the residual's top token is the model's, its
    probability there, and the outcome.
    """
    rows = tuple(record.rows(slice(position, position + 1)) for record in records)
    added, output = feed_sum(rows[0].block.order), output_step(rows[0].block.order).scope
    vectors = torch.cat([row.tensor(name) for row in rows for name in (added.right, added.left, output)])
    logits = {
        reading: torch.cat(list(read_out(model, reading).in_chunks(vectors, 64))).view(len(rows), 3, -1)
        for reading in READINGS
    }
    composition = np.zeros((len(rows), len(RULES), len(COMPOSITION)))
    for layer, (row, said) in enumerate(zip(rows, logits["direction"][:, 1:].argmax(-1), strict=True)):
        of_layer = coefficients(row)[0]
        for index, rule in enumerate(RULES):
            chosen = active(of_layer, known.lengths[layer], rule)
            none_says = [zero_agreement(of_layer, chosen, known.sides[layer], token) for token in said]
            composition[layer, index] = [float(chosen.double().mean()), *map(float, none_says)]
    refinement = np.zeros((len(rows), len(READINGS), len(REFINEMENT)))
    for index, reading in enumerate(READINGS):
        residual, feed_forward, whole = logits[reading].argmax(-1).cpu().numpy().T
        final = int(whole[-1])
        refinement[:, index, 0] = residual == final
        refinement[:, index, 1] = logits[reading][:, 0].float().softmax(-1)[:, final].cpu().numpy()
        refinement[:, index, 2:] = np.eye(len(OUTCOMES))[outcomes(residual, feed_forward, whole)]
    return {"composition": Moments.of(composition[None]), "refinement": Moments.of(refinement[None])}


@dataclass(frozen=True)
class TriggerShard(BestPositions, Kept):
    """Best positions of some sequences, with the tokens around them."""

    context: Int[np.ndarray, "cell rank token"]
    """Last tokens of the prefix; -1 before its start."""
    following: Int[np.ndarray, "cell rank"]
    """Token after the prefix; -1 for none."""
    value_rank: Int[np.ndarray, "cell rank reading"]
    """Rank of that token by the neuron's value; -1 if it was not looked up: for all triggers of a shard except the first, and
    without a head."""

    @classmethod
    def of(
        cls, best: BestPositions, ids: Mapping[int, Int[np.ndarray, " token"]], sign: Sign | None, known: KnownValues
    ) -> "TriggerShard":
        """Best positions with the tokens around them.

        With a sign, in a causal model with a head, the rank of the first trigger's next token by the neuron's value is also
        looked up.
        """
        context = np.full((*best.sequence.shape, CONTEXT), -1, dtype=np.int32)
        following = np.full_like(best.sequence, -1)
        for cell in zip(*np.nonzero(best.sequence >= 0), strict=True):
            tokens, position = ids[int(best.sequence[cell])], int(best.position[cell])
            prefix = tokens[max(0, position + 1 - CONTEXT) : position + 1]
            context[cell][CONTEXT - len(prefix) :] = prefix
            following[cell] = tokens[position + 1] if position + 1 < len(tokens) else -1
        ranks = np.full((*following.shape, len(READINGS)), -1, dtype=np.int64)
        if sign is not None and known.values and known.model.family.causal:
            for index, reading in enumerate(READINGS):
                ranks[:, 0, index] = value_ranks(known.model, known.cells, sign, reading, following[:, 0])
        return cls(best.magnitude, best.sequence, best.position, context, following, ranks)

    def merged(self, more: "TriggerShard") -> "TriggerShard":
        """Best positions of both, each with its tokens."""
        best = TriggerShard(*(array.copy() for array in self.arrays().values()))
        best.take(more)
        return best


def trigger_table(names: Names, best: Mapping[str, TriggerShard], label: Callable[[int], str]) -> pd.DataFrame:
    """One row per trigger: its position, the end of its prefix, and the next token."""
    rows = []
    for sign, factor in zip(SIGNS, (1, -1), strict=True):
        found = best[sign]
        for cell in zip(*np.nonzero(found.sequence >= 0), strict=True):
            prefix = " ".join(visible(label(int(token))) for token in found.context[cell] if token >= 0)
            following = int(found.following[cell])
            after = visible(label(following)) if following >= 0 else ""
            where = int(found.sequence[cell]), int(found.position[cell])
            coefficient = factor * float(found.magnitude[cell])
            rows.append((*names[cell[0]].tolist(), sign, cell[1] + 1, coefficient, *where, prefix, after))
    return pd.DataFrame(rows, columns=TRIGGER_COLUMNS)


def ngram_table(names: Names, best: Mapping[str, TriggerShard]) -> pd.DataFrame:
    """By layer and length of the ending: neurons whose triggers have the same ending; layer -1 has the random ones."""
    rows = []
    for sign, layer in (*product(SIGNS, np.unique(names[:, 0]).tolist()), (RANDOM, -1)):
        found = best[sign]
        cells = np.ones(len(found.sequence), dtype=bool) if sign == RANDOM else names[:, 0] == layer
        enough = cells & ((found.sequence >= 0).sum(axis=1) >= ALIKE)
        for n in ENDINGS:
            counts = np.array([_commonest(found.context[cell], n) for cell in np.flatnonzero(enough)], dtype=float)
            alike, triggers = counts.reshape(-1, 2).T
            shared, largest = (
                (float(np.mean(alike >= ALIKE)), float(np.mean(alike / triggers))) if len(counts) else (np.nan, np.nan)
            )
            rows.append(dict(sign=sign, layer=layer, n=n, memories=len(counts), shared=shared, largest=largest))
    return pd.DataFrame(rows)


def _commonest(context: Int[np.ndarray, "rank token"], n: int) -> tuple[int, int]:
    """Number of a neuron's triggers with its most frequent ending of n tokens, and number of triggers."""
    kept = context[context[:, -1] >= 0]
    endings = kept[(kept[:, -n:] >= 0).all(axis=1)][:, -n:]
    counts = np.unique(endings, axis=0, return_counts=True)[1] if len(endings) else np.zeros(1, dtype=int)
    return int(counts.max()), len(kept)


def agreement_table(names: Names, best: Mapping[str, TriggerShard], values: Mapping[str, Values]) -> pd.DataFrame:
    """By sign, reading and layer: how often the token after a trigger is the value's top token."""

    def row(sign: Sign, reading: Reading, layer: int) -> dict[str, object]:
        index, cells = READINGS.index(reading), names[:, 0] == layer
        following, tops = best[sign].following[cells], values[sign][0][index, cells]
        followed, agrees = agreeing(following, tops)
        return dict(
            sign=sign,
            reading=reading,
            layer=layer,
            memories=int(followed[:, 0].sum()),
            first=_share(agrees[:, 0].sum(), followed[:, 0].sum()),
            all=_share(agrees.sum(), followed.sum()),
            any=_share(agrees.any(axis=1).sum(), followed.any(axis=1).sum()),
            chance=chance_agreement(following[:, 0], tops),
            probability=float(values[sign][1][index, cells].mean()),
        )

    return pd.DataFrame([row(*of) for of in product(SIGNS, READINGS, np.unique(names[:, 0]).tolist())])


def rank_table(names: Names, best: Mapping[str, TriggerShard]) -> pd.DataFrame:
    """By sign, reading and layer: ranks of the token after the first trigger by the neuron's value."""
    rows = []
    for sign, (index, reading), layer in product(SIGNS, enumerate(READINGS), np.unique(names[:, 0]).tolist()):
        ranks = best[sign].value_rank[names[:, 0] == layer, 0, index]
        known = ranks[ranks > 0]
        quartiles = np.quantile(known, (0.25, 0.5, 0.75)) if len(known) else [np.nan] * 3
        row = dict(sign=sign, reading=reading, layer=layer, memories=len(known))
        row |= dict(zip(("first_quartile", "median", "third_quartile"), quartiles, strict=True))
        rows.append(row | {f"up_to_{most}": _share((known <= most).sum(), np.int64(len(known))) for most in UP_TO})
    return pd.DataFrame(rows)


def confident_table(names: Names, best: Mapping[str, TriggerShard], values: Mapping[str, Values]) -> pd.DataFrame:
    """Values with the largest top probability: their layers, and whether a trigger agrees."""
    upper = names[:, 0] >= (names[:, 0].max() + 1) * 2 / 3

    def row(sign: Sign, reading: Reading) -> dict[str, object]:
        index = READINGS.index(reading)
        tops, probability = values[sign][0][index], values[sign][1][index]
        chosen = np.argsort(-probability, kind="stable")[:CONFIDENT]
        _, agrees = agreeing(best[sign].following, tops)
        return dict(
            sign=sign,
            reading=reading,
            values=len(chosen),
            least_probability=float(probability[chosen].min()),
            upper_third=float(upper[chosen].mean()),
            agreeing_trigger=float(agrees[chosen].any(axis=1).mean()),
            agreeing_trigger_of_all=float(agrees.any(axis=1).mean()),
        )

    return pd.DataFrame([row(*of) for of in product(SIGNS, READINGS)])


def position_table(moments: Moments, kind: str, kinds: Sequence[str], columns: Sequence[str]) -> pd.DataFrame:
    """By layer and kind: measurements at positions, and number of positions."""
    values = {name: moments.value[..., place] for place, name in enumerate(columns)}
    axes = {"layer": range(len(moments.mean)), kind: kinds}
    return table_over(axes, {"positions": moments.count[..., 0], **values})


def _share(part: np.integer, whole: np.integer) -> float:
    return float(part / whole) if whole else float("nan")


@dataclass(frozen=True)
class MemoriesOptions(Options):
    """Number of neurons, and number of triggers of each."""

    least: ClassVar[Mapping[str, int]] = {"keys": 1, "every": 1, "top_triggers": 3, "skip_first": 0}
    keys: int = 64
    """Number of neurons of every layer for which triggers are searched, a random sample by the seed."""
    top_triggers: int = 25
    """Number of triggers per neuron."""
    skip_first: int = 1
    """Number of tokens at the start of a sequence that cannot be triggers: many models have very large activations there."""
    every: int = 1
    """One of this many sequences gives a position for composition and refinement, which take longer than triggers."""


class MemoriesStudy(Study):
    """Triggers, agreement, composition and refinement."""

    name = "memories"
    title = "Feed-forward neurons as keys and values"
    repeats = "sections 3-5, Fig. 2-11"
    alone = True
    reads_head = True
    masked = 0.0  # triggers are unmasked texts
    captions: ClassVar[Mapping[str, str]] = {
        "agreement": f"Share of memories whose first trigger is followed by their value's top token, {_ERRORS}.",
        "ranks": "Median rank of the token after the first trigger among those that the memory's value promotes, without a "
        "standard error.",
        "ngrams": f"Share of memories of which at least three triggers end alike, in so many tokens, {_ERRORS}.",
        "refinement": f"Whose top token a layer's output has, and how often the residual's is the model's already, {_ERRORS}.",
    }
    options: MemoriesOptions

    _known: KnownValues | None = None

    def measure(self, observed: Observation) -> Measured:
        tokenised, number = observed.tokenised, observed.tokenised.source.number
        if self._known is None:
            cells = sampled_cells(observed.model, self.options.keys, self.config.seed)
            self._known = known_values(observed.model, cells)
        known = self._known
        positions = np.flatnonzero(~tokenised.special)
        positions = positions[positions >= self.options.skip_first]
        of_layers = [
            coefficients(record)[:, known.cells.numbers[known.cells.rows(record.layer)]].cpu().numpy()
            for record in observed.records
        ]
        own = np.concatenate(of_layers, axis=1)[positions]
        random = np.random.default_rng([self.config.seed, number])
        drawn = random.random((len(positions), self.options.keys)).astype(np.float32)
        best = {
            name: BestPositions.of_sequence(magnitudes, positions, number, 1, "sentence")
            for name, magnitudes in {"positive": own, "negative": -own, RANDOM: drawn}.items()
        }
        moments = {}
        if known.sides and len(positions) and number % self.options.every == 0:
            moments = at_position(observed.records, int(random.choice(positions)), observed.model, known)
        return number, tokenised.ids.astype(np.int32), best, moments

    def summarise(self, measured: Sequence[Measured]) -> Arrays:
        assert self._known is not None
        cells = self._known.cells.names
        names = [(cell.layer, -1 if cell.expert is None else cell.expert, cell.neuron) for cell in cells]
        arrays = {"names": np.array(names)}
        ids = {number: tokens for number, tokens, *_ in measured}
        signs: dict[str, Sign | None] = {**dict(zip(SIGNS, SIGNS, strict=True)), RANDOM: None}
        for name, sign in signs.items():
            of_sequences = [best[name] for *_, best, _ in measured]
            kept = BestPositions.none(len(of_sequences[0].magnitude), self.options.top_triggers)
            for of_sequence in of_sequences:
                kept.take(of_sequence)
            arrays |= TriggerShard.of(kept, ids, sign, self._known).arrays(f"{name}.")
        for name in ("composition", "refinement"):
            of_positions = [moments[name] for *_, moments in measured if moments]
            arrays |= merged(of_positions).arrays(f"{name}.") if of_positions else {}
        for name, (tops, probability) in self._known.values.items():
            arrays |= {f"tops.{name}": tops, f"probability.{name}": probability}
        return {self.array(name): array for name, array in arrays.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        names = shards[0][self.array("names")]
        best = {
            sign: reduce(TriggerShard.merged, (TriggerShard.read(shard, self.array(f"{sign}.")) for shard in shards))
            for sign in (*SIGNS, RANDOM)
        }
        tables = {
            "triggers": trigger_table(names, best, cache(self.facts.label)),
            "ngrams": ngram_table(names, best),
        }
        with_head = [shard for shard in shards if self.array("composition.count") in shard]
        if with_head:
            if self.facts.causal:
                values: dict[str, Values] = {
                    sign: (shards[0][self.array(f"tops.{sign}")], shards[0][self.array(f"probability.{sign}")])
                    for sign in SIGNS
                }
                tables["agreement"] = agreement_table(names, best, values)
                tables["confident"] = confident_table(names, best, values)
                tables["ranks"] = rank_table(names, best)
            composition, refinement = (self.moments(with_head, name) for name in ("composition", "refinement"))
            tables["composition"] = position_table(composition, "rule", RULES, COMPOSITION)
            tables["refinement"] = position_table(refinement, "reading", READINGS, REFINEMENT)
        return tables

    def figures(self, tables: Tables) -> Figures:
        ngrams = tables["ngrams"].query("sign == 'positive'")
        lines: dict[str, Any] = {
            f"{n} token{'s' * (n > 1)}": draw.Spread.of_shares(ngrams.query("n == @n"), "shared", count="memories")
            for n in ENDINGS
        }
        figures = {"ngrams": draw.layer_lines(lines, ylabel="share of memories")}
        if "agreement" in tables:  # both readings, and chance, which is an expectation without a standard error
            by_reading = dict(iter(tables["agreement"].query("sign == 'positive'").groupby("reading")))
            lines = {
                READING_WORDS[name]: draw.Spread.of_shares(by_reading[name], "first", count="memories")
                for name in READINGS
            }
            lines["chance"] = by_reading["final_norm"]["chance"].to_numpy()
            figures["agreement"] = draw.layer_lines(lines, ylabel="share of memories")
        if "ranks" in tables:
            by_reading = dict(iter(tables["ranks"].query("sign == 'positive'").groupby("reading")))
            medians = {str(name): by_reading[name]["median"].to_numpy() for name in READINGS}
            figures["ranks"] = draw.layer_lines(medians, ylabel="median rank", log=True)
        if "refinement" in tables:
            table = tables["refinement"].query("reading == 'final_norm'")
            columns = {"residual is final": "final"} | dict(zip(OUTCOMES, OUTCOMES, strict=True))
            lines = {label: draw.Spread.of_shares(table, name, count="positions") for label, name in columns.items()}
            figures["refinement"] = draw.layer_lines(lines, ylabel="share of positions")
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        """Fractions of neurons whose triggers end alike, and whose values agree with their first trigger."""
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
        """Agreement and zero agreement by layer."""
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
