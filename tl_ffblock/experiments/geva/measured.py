"""What one sequence adds to the study of memories, and what is known of the model before."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.layer.neurons import coefficients, neuron_values
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import Order, feed_sum, output_step
from tl_ffblock.memories import value_tokens
from tl_ffblock.memories.best import BestPositions
from tl_ffblock.memories.composition import OUTCOMES, ActiveRule, active, outcomes, zero_agreement
from tl_ffblock.memories.names import Cells, cells_of, n_neurons
from tl_ffblock.memories.triggers import Sign

READINGS: tuple[Reading, ...] = get_args(Reading)
SIGNS: tuple[Sign, ...] = get_args(Sign)
RULES: tuple[ActiveRule, ...] = get_args(ActiveRule)


@dataclass(frozen=True)
class SequenceMemories:
    """What one sequence adds."""

    number: int
    ids: Int[np.ndarray, " token"]
    best: Mapping[str, BestPositions]
    """By sign, and of memories whose coefficients are random numbers ("random")."""
    moments: Mapping[str, Moments]
    """Of one position, [layer ...]: `composition` [layer rule 3], `refinement` [layer reading 2 + outcomes]; none without a head."""


@dataclass(frozen=True)
class KnownValues:
    """What the memories of a model write, whatever it reads."""

    cells: Cells
    """The sampled ones, whose triggers are looked for."""
    tops: Mapping[str, Int[np.ndarray, "reading cell"]]
    """Top token of each sampled value, by sign."""
    probability: Mapping[str, Float[np.ndarray, "reading cell"]]
    sides: Mapping[int, Int[Tensor, "side neuron"]]
    """By layer, of every memory: the direction's top token of v and of -v."""
    lengths: Mapping[int, Float[Tensor, " neuron"]]


def sampled_cells(model: Model, keys: int, seed: int) -> Cells:
    """As many memories of every layer, drawn at random; all where a layer has no more."""
    chosen = []
    for layer in range(model.n_layers):
        block = model.layers[layer].read(settings_of(model, {}).dtype)
        draw = np.random.default_rng([seed, layer])
        number = n_neurons(block)
        chosen.append((block, np.sort(draw.choice(number, min(keys, number), replace=False)).tolist()))
    return cells_of(chosen)


@torch.no_grad()
def known_values(model: Model, cells: Cells) -> KnownValues:
    """Read every value of a model by its unembedding, and those of the sample in both readings."""
    if not model.has_trained_head:
        return KnownValues(cells, {}, {}, {}, {})
    tops: dict[str, Int[np.ndarray, "reading cell"]] = {}
    probability: dict[str, Float[np.ndarray, "reading cell"]] = {}
    for sign in SIGNS:
        read = [value_tokens(model, memories=cells.names, reading=reading, sign=sign, k=1) for reading in READINGS]
        tops[sign] = np.stack([values.top_ids[:, 0] for values in read])
        probability[sign] = np.stack([values.probability for values in read])
    direction = read_out(model, "direction")
    sides, lengths = {}, {}
    for layer in range(model.n_layers):
        values = neuron_values(model.layers[layer].read(settings_of(model, {}).dtype))
        lengths[layer] = values.norm(dim=-1)
        both = [torch.stack([logits.argmax(-1), logits.argmin(-1)]) for logits in direction.in_chunks(values)]
        sides[layer] = torch.cat(both, dim=1).to(values.device)
    return KnownValues(cells, tops, probability, sides, lengths)


def best_of_sequence(
    records: tuple[LayerRecord, ...], cells: Cells, positions: Int[np.ndarray, " token"], number: int
) -> dict[str, BestPositions]:
    """By sign the best position of every sampled memory in one sequence; none where no position may be a trigger."""
    if not len(positions):
        return {sign: BestPositions.none(len(cells.names), 1) for sign in SIGNS}
    by_layer = [coefficients(record)[:, cells.numbers[cells.rows(record.layer)]].cpu().numpy() for record in records]
    together = np.concatenate(by_layer, axis=1)[positions]
    return {
        sign: BestPositions.of_sequence(factor * together, positions, number, 1, "sentence")
        for sign, factor in zip(SIGNS, (1, -1), strict=True)
    }


@dataclass(frozen=True)
class PositionVectors:
    """Every layer at one position: what the feed-forward is added to, what it adds, and the layer's output."""

    records: tuple[LayerRecord, ...]
    """Of that position alone."""
    logits: Mapping[Reading, Float[Tensor, "layer 3 d_vocab"]]
    """Of these three vectors."""

    @classmethod
    def at(cls, records: tuple[LayerRecord, ...], position: int, model: Model) -> "PositionVectors":
        """Read the three vectors of every layer out, by either reading."""
        rows = tuple(record.rows(slice(position, position + 1)) for record in records)
        vectors = torch.cat([row.tensor(name) for row in rows for name in _operands(row.block.order)])
        logits = {
            reading: torch.cat(list(read_out(model, reading).in_chunks(vectors, 64))).view(len(rows), 3, -1)
            for reading in READINGS
        }
        return cls(rows, logits)


def composition_at(vectors: PositionVectors, known: KnownValues) -> Moments:
    """At one position, by layer and rule: share of active memories, zero agreement with the feed-forward, and with the sum."""
    said = vectors.logits["direction"][:, 1:].argmax(-1)
    rows = np.zeros((len(vectors.records), len(RULES), 3))
    for layer, record in enumerate(vectors.records):
        of_layer = coefficients(record)[0]
        for index, rule in enumerate(RULES):
            chosen = active(of_layer, known.lengths[layer], rule)
            none_says = [zero_agreement(of_layer, chosen, known.sides[layer], token) for token in said[layer]]
            rows[layer, index] = [float(chosen.double().mean()), *map(float, none_says)]
    return Moments.of(rows[None])


def refinement_at(vectors: PositionVectors) -> Moments:
    """At one position, by layer and reading: is the residual's top token the model's, its probability there, the outcome."""
    result = np.zeros((len(vectors.records), len(READINGS), 2 + len(OUTCOMES)))
    for index, reading in enumerate(READINGS):
        logits = vectors.logits[reading]
        residual, feed_forward, output = logits.argmax(-1).cpu().numpy().T
        final = int(output[-1])
        result[:, index, 0] = residual == final
        result[:, index, 1] = logits[:, 0].float().softmax(-1)[:, final].cpu().numpy()
        result[:, index, 2:] = np.eye(len(OUTCOMES))[outcomes(residual, feed_forward, output)]
    return Moments.of(result[None])


def _operands(order: Order) -> tuple[str, str, str]:
    """Scopes of what the feed-forward is added to, of what it adds, and of the layer's output."""
    added = feed_sum(order)
    return added.right, added.left, output_step(order).scope
