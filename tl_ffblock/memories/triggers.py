"""Triggers: top-activating examples of neurons in a corpus (Geva et al. 2021, section 3).

The memory of a search does not grow with the corpus. For each neuron the best positions are kept, with coefficients of one sign as
magnitudes; unused ranks have magnitude zero and sequence -1. For equal magnitudes the earlier sequence comes first, then the
earlier position. The result therefore does not depend on the order in which parts of a corpus are read or merged.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import special_ids
from tl_ffblock.bridge.labels import label
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import coefficients
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.names import Cells, Memories, MemoryLike, MemoryName, MemoryTable, named_table, select_memories
from tl_ffblock.result import Values
from tl_ffblock.signatures import strict

Per: TypeAlias = Literal["sentence", "token"]
Sign: TypeAlias = Literal["positive", "negative"]
Text: TypeAlias = str | Int[Tensor, " pos"]
_AT_ONCE = 32
"""Number of texts per batch."""


@dataclass(frozen=True)
class BestPositions:
    """Largest magnitudes of each neuron, largest first, with their positions."""

    magnitude: Float[np.ndarray, "memory rank"]
    sequence: Int[np.ndarray, "memory rank"]
    position: Int[np.ndarray, "memory rank"]

    @classmethod
    def none(cls, n_memories: int, size: int) -> "BestPositions":
        """Start value: no positions."""
        nowhere = np.full((n_memories, size), -1, dtype=np.int32)
        return cls(np.zeros((n_memories, size), dtype=np.float32), nowhere, nowhere.copy())

    @classmethod
    def of_sequence(
        cls,
        magnitudes: Float[np.ndarray, "token memory"],
        positions: Int[np.ndarray, " token"],
        sequence: int,
        size: int,
        per: Per,
    ) -> "BestPositions":
        """Best position of one sequence, or its `size` best ones.

        Args:
            magnitudes: Magnitudes at the tokens that may be triggers; not positive if a neuron has no activation of the sign.
            positions: Positions of these tokens, ascending.
            sequence: Number of the sequence.
            size: Number of ranks.
            per: Whether a sequence may have one trigger or several.
        """
        if not len(positions):
            return cls.none(magnitudes.shape[1], size)
        if per == "sentence":
            order = magnitudes.argmax(axis=0)[:, None]  # the first of equal ones
        else:
            order = np.argsort(-magnitudes, axis=0, kind="stable")[: min(size, len(positions))].T
        taken = np.take_along_axis(magnitudes.T, order, axis=1).astype(np.float32)
        fired = taken > 0
        return cls(
            np.where(fired, taken, 0).astype(np.float32),
            np.where(fired, sequence, -1).astype(np.int32),
            np.where(fired, positions[order], -1).astype(np.int32),
        )

    def take(self, more: "BestPositions", rows: Int[np.ndarray, " row"] | None = None) -> None:
        """Merge another object into this one, in place.

        Args:
            more: Best positions of the same neurons, or of those in `rows`.
            rows: Rows of this object that `more` has.
        """
        rows = np.arange(len(self.magnitude)) if rows is None else rows
        # For equal magnitudes the smaller sequence number comes first, which may be that of `more`.
        better = (more.magnitude[:, 0] > 0) & (more.magnitude[:, 0] >= self.magnitude[rows, -1])
        changed = rows[better]
        joined = {
            field.name: np.concatenate([getattr(self, field.name)[changed], getattr(more, field.name)[better]], axis=1)
            for field in fields(self)
        }
        order = np.lexsort((joined["position"], joined["sequence"], -joined["magnitude"]), axis=-1)
        kept = np.arange(len(order))[:, None], order[:, : self.magnitude.shape[1]]
        for name, both in joined.items():
            getattr(self, name)[changed] = both[kept]


@strict
@dataclass(frozen=True, eq=False)
class Trigger(Values):
    """A prefix at whose last token a neuron's coefficient is large."""

    memory: MemoryName
    rank: int
    """1 for the largest."""
    coefficient: float
    sequence: int
    """Number of the text in the corpus."""
    position: int
    """Position of the prefix's last token."""
    prefix: tuple[str, ...]
    next_token: str | None
    """Token after the prefix in the text; None at its end."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Triggers(MemoryTable):
    """Triggers of some neurons in a corpus, best first."""

    sign: Sign
    """Whether these are the largest or the most negative coefficients."""
    coefficient: Float[np.ndarray, "memory rank"]
    """0 for ranks without a trigger."""
    sequence: Int[np.ndarray, "memory rank"]
    """-1 for ranks without a trigger."""
    position: Int[np.ndarray, "memory rank"]
    tokens: Mapping[int, Int[np.ndarray, " pos"]]
    """Token ids of every text with a trigger, by its number."""
    labels: Mapping[int, tuple[str, ...]]
    """The same tokens as text."""
    causal: bool
    """Whether the model is causal, so that a coefficient depends only on the prefix."""
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    @property
    def next_ids(self) -> Int[np.ndarray, "memory rank"]:
        """Token after each trigger; -1 if there is none."""
        following = np.full_like(self.sequence, -1)
        for cell in self.cells():
            ids, after = self.tokens[int(self.sequence[cell])], int(self.position[cell]) + 1
            following[cell] = ids[after] if after < len(ids) else -1
        return following

    def cells(self, ranks: int | None = None) -> list[tuple[int, int]]:
        """Row and rank, from 0, of every trigger.

        Args:
            ranks: Number of triggers per neuron, best first; None means all.

        Raises:
            InputError: for a number below 1.
        """
        most = None if ranks is None else whole_number(ranks, "ranks", at_least=1)
        return [(int(row), int(rank)) for row, rank in zip(*np.nonzero(self.sequence[:, :most] >= 0), strict=True)]

    def of(self, memory: MemoryLike) -> tuple[Trigger, ...]:
        """The triggers of one memory, fewer than ranks where it fired less often.

        Raises:
            InputError: if it is not in the result.
        """
        row = self.row_of(memory)
        return tuple(self._trigger(row, int(rank)) for rank in np.flatnonzero(self.sequence[row] >= 0))

    def prefix(self, row: int, rank: int) -> Int[np.ndarray, " pos"]:
        """Token ids of a trigger's prefix, the trigger token last.

        Raises:
            InputError: if there is no such trigger.
        """
        n_rows, n_ranks = self.sequence.shape
        if not (0 <= row < n_rows and 0 <= rank < n_ranks and self.sequence[row, rank] >= 0):
            raise InputError(
                f"row={row}, rank={rank}: expected rows 0 to {n_rows - 1} and ranks 0 to {n_ranks - 1} that have a trigger."
            )
        return self.tokens[int(self.sequence[row, rank])][: int(self.position[row, rank]) + 1]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per trigger."""
        triggers = [self._trigger(*cell) for cell in self.cells()]
        names = ("rank", "coefficient", "sequence", "position", "token", "next_token", "prefix")
        rows = [
            (one.rank, one.coefficient, one.sequence, one.position, one.prefix[-1], one.next_token, "".join(one.prefix))
            for one in triggers
        ]
        columns = zip(*rows, strict=True) if rows else [()] * len(names)
        return named_table([one.memory for one in triggers], dict(zip(names, columns, strict=True)))

    def _trigger(self, row: int, rank: int) -> Trigger:
        sequence, position = int(self.sequence[row, rank]), int(self.position[row, rank])
        labels = self.labels[sequence]
        following = labels[position + 1] if position + 1 < len(labels) else None
        number = float(self.coefficient[row, rank])
        return Trigger(self.memories[row], rank + 1, number, sequence, position, labels[: position + 1], following)


@strict
def find_triggers(
    model: Any,
    texts: Iterable[Text],
    *,
    memories: Memories = None,
    layers: Sequence[int] | int | None = None,
    k: int = 25,
    per: Per = "sentence",
    sign: Sign = "positive",
    skip_first: int = 0,
) -> Triggers:
    """Top-activating examples: the prefixes of a corpus with the largest coefficients of each neuron.

    The corpus is streamed: only `k` positions per neuron and the tokens of their texts are kept. A neuron without a coefficient of
    this sign has no triggers. In an encoder, a "prefix" is the text up to a position, but the coefficient depends on the whole text.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        texts: Sentences, as texts or tensors of token ids [pos].
        memories: Names of neurons such as "12:305".
        layers: Layers with all their neurons; without names and layers, all layers.
        k: Number of triggers per neuron.
        per: "sentence": at most one trigger per text, the largest (as in the paper); "token": several.
        sign: "negative" for the most negative coefficients, for activations that have some.
        skip_first: Number of tokens at the start of every text that are not triggers: many models have huge activations there.

    Raises:
        InputError: for neurons, texts or options that cannot be used.
        UnsupportedModelError: for models that cannot be decomposed.
    """
    known = identify(model)
    cells = select_memories(known, memories, layers)
    return search(known, texts, cells, k=k, per=per, signs=(sign,), skip_first=skip_first)[sign]


def search(
    model: Model, texts: Iterable[Text], cells: Cells, *, k: int, per: Per, signs: Sequence[Sign], skip_first: int
) -> dict[Sign, Triggers]:
    """Triggers of one or both signs, with one pass over the corpus.

    Args:
        model: The model.
        texts: As in `find_triggers`.
        cells: The neurons.
        k: Number of triggers per neuron.
        per: As in `find_triggers`.
        signs: The signs.
        skip_first: As in `find_triggers`.

    Raises:
        InputError: for texts or options that cannot be used.
    """
    whole_number(k, "k", at_least=1)
    by_sign = {sign: BestPositions.none(len(cells.names), k) for sign in signs}

    def offer(number: int, rows: Any, positions: Any, own: Any) -> None:
        for sign, best in by_sign.items():
            magnitudes = own * (1 if sign == "positive" else -1)
            best.take(BestPositions.of_sequence(magnitudes, positions, number, k, per), rows)

    tokens = read_corpus(model, texts, cells, skip_first, offer)
    found = {}
    for sign, best in by_sign.items():
        kept = {int(number): tokens[int(number)] for number in np.unique(best.sequence[best.sequence >= 0])}
        found[sign] = Triggers(
            memories=cells.names,
            sign=sign,
            coefficient=best.magnitude if sign == "positive" else -best.magnitude,
            sequence=best.sequence,
            position=best.position,
            tokens=kept,
            labels={number: label(model, torch.as_tensor(ids)) for number, ids in kept.items()},
            causal=model.family.causal,
            fingerprint=model.fingerprint,
        )
    return found


Receive: TypeAlias = Callable[
    [int, Int[np.ndarray, " row"], Int[np.ndarray, " token"], Float[np.ndarray, "token row"]], None
]
"""Callback with the number of a text, rows of neurons, positions, and the coefficients there."""


def read_corpus(
    model: Model, texts: Iterable[Text], cells: Cells, skip_first: int, receive: Receive
) -> dict[int, Int[np.ndarray, " pos"]]:
    """Run a corpus in batches, and pass the coefficients of every layer's neurons at tokens that are not special to a callback.

    Args:
        model: The model.
        texts: As in `find_triggers`.
        cells: The neurons.
        skip_first: As in `find_triggers`.
        receive: Callback for every text and layer.

    Returns:
        Token ids by the number of the text.

    Raises:
        InputError: for texts or a number of tokens that cannot be used.
    """
    whole_number(skip_first, "skip_first", at_least=0)
    tokens: dict[int, Int[np.ndarray, " pos"]] = {}
    first = 0

    def measure(record: LayerRecord, number: int) -> None:
        rows = cells.rows(record.layer)
        neurons = torch.as_tensor(cells.numbers[rows], device=record.resid_pre.device)
        positions = np.flatnonzero(can_be_triggers(model, tokens[first + number], skip_first))
        receive(first + number, rows, positions, coefficients(record)[:, neurons].cpu().numpy()[positions])

    for batch in _batches(texts):
        run, first = open_run(model, batch, layers=cells.layers), len(tokens)
        for number, sequence in enumerate(run.sequences, first):
            tokens[number] = sequence.tokens.numpy().astype(np.int32)
        run.by_layer(measure)
    if not tokens:
        raise InputError("texts is empty: expected at least one text.")
    return tokens


def can_be_triggers(model: Model, ids: Int[np.ndarray, " pos"], skip_first: int) -> Bool[np.ndarray, " pos"]:
    """Mask of a sequence's tokens that are not special, from `skip_first` on."""
    allowed = ~np.isin(ids, special_ids(model))
    allowed[:skip_first] = False
    return allowed


def refuse_one_text(texts: object) -> None:
    """Refuse input that is not a list of texts.

    Raises:
        InputError: for a single text, and for anything else that is not iterable.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        one = "one text" if isinstance(texts, str) else "not a list"
        raise InputError(f"texts={brief(texts)} is {one}: expected a list of texts.")


def _batches(texts: Iterable[Text]) -> Iterator[list[str] | Int[Tensor, " pos"]]:
    refuse_one_text(texts)
    waiting: list[str] = []
    for text in texts:
        if waiting and (len(waiting) == _AT_ONCE or not isinstance(text, str)):
            yield waiting
            waiting = []
        if isinstance(text, str):
            waiting.append(text)
        else:
            yield text
    if waiting:
        yield waiting
