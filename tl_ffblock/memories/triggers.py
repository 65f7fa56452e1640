"""Trigger examples: the prefixes of a corpus at which a memory's coefficient is largest (Geva et al. 2021, section 3).

What is kept of a stream does not grow with the corpus: of each memory the best positions, coefficients of one sign as
magnitudes; a row is filled up with zeros at sequence -1, which are not triggers. Of equal magnitudes the earlier sequence comes
first, then the earlier position, so that the order in which a corpus is read, cut or merged changes nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import label, special_ids
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
"""Texts given to the model together."""


@dataclass(frozen=True)
class BestPositions:
    """The largest magnitudes of each memory, largest first, and where they were."""

    magnitude: Float[np.ndarray, "memory rank"]
    sequence: Int[np.ndarray, "memory rank"]
    position: Int[np.ndarray, "memory rank"]

    @classmethod
    def none(cls, n_memories: int, size: int) -> "BestPositions":
        """Before anything was read."""
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
        """Of one sequence: its best position, or its `size` best ones.

        Args:
            magnitudes: Of the tokens that may be triggers; not positive where a memory did not fire.
            positions: Of these tokens in the sequence, ascending.
            sequence: Number of the sequence.
            size: Ranks to keep.
            per: Whether a sequence may give one trigger or several.
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
        """Keep the best of both, in place.

        Args:
            more: Of the same memories, or of those in `rows`.
            rows: This one's memories that `more` is about.
        """
        rows = np.arange(len(self.magnitude)) if rows is None else rows
        # Of equal magnitudes the smaller sequence number wins, which may be that of `more`.
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
    """A prefix at whose last token a memory's coefficient is large."""

    memory: MemoryName
    rank: int
    """1 for the largest."""
    coefficient: float
    sequence: int
    """Number of the text in the corpus."""
    position: int
    """Of the prefix's last token."""
    prefix: tuple[str, ...]
    next_token: str | None
    """What follows the prefix in the text; None at its end."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Triggers(MemoryTable):
    """The triggers of some memories over a corpus, best first."""

    sign: Sign
    """Whether these are the largest coefficients, or the most negative ones."""
    coefficient: Float[np.ndarray, "memory rank"]
    """0 where a memory fired less often than there are ranks."""
    sequence: Int[np.ndarray, "memory rank"]
    """-1 where there is none."""
    position: Int[np.ndarray, "memory rank"]
    tokens: Mapping[int, Int[np.ndarray, " pos"]]
    """Token ids of every text that is named, by its number."""
    labels: Mapping[int, tuple[str, ...]]
    """The same as text."""
    causal: bool
    """Whether the memory had read the prefix alone, and not the whole text."""
    fingerprint: str = ""
    """Of the weights of the model that they are of; empty where it is not known."""

    @property
    def next_ids(self) -> Int[np.ndarray, "memory rank"]:
        """The token that follows each trigger; -1 where there is none."""
        following = np.full_like(self.sequence, -1)
        for cell in self.cells():
            ids, after = self.tokens[int(self.sequence[cell])], int(self.position[cell]) + 1
            following[cell] = ids[after] if after < len(ids) else -1
        return following

    def cells(self, ranks: int | None = None) -> list[tuple[int, int]]:
        """Row and rank, from 0, of every trigger.

        Args:
            ranks: Triggers of each memory, best first; None means all.

        Raises:
            InputError: for a number of ranks below 1.
        """
        most = None if ranks is None else whole_number(ranks, "ranks", at_least=1)
        return [(int(row), int(rank)) for row, rank in zip(*np.nonzero(self.sequence[:, :most] >= 0), strict=True)]

    def of(self, memory: MemoryLike) -> tuple[Trigger, ...]:
        """The triggers of one memory, fewer than ranks where it fired less often.

        Raises:
            InputError: if it is not among these.
        """
        row = self.row_of(memory)
        return tuple(self._trigger(row, int(rank)) for rank in np.flatnonzero(self.sequence[row] >= 0))

    def prefix(self, row: int, rank: int) -> Int[np.ndarray, " pos"]:
        """Token ids of a trigger, the trigger token last.

        Raises:
            InputError: if there is no such trigger.
        """
        n_rows, n_ranks = self.sequence.shape
        if not (0 <= row < n_rows and 0 <= rank < n_ranks and self.sequence[row, rank] >= 0):
            raise InputError(
                f"row={row}, rank={rank}: no such trigger; there are rows 0 to {n_rows - 1}, ranks 0 to {n_ranks - 1}."
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
    """The prefixes of a corpus at which memories have their largest coefficients.

    The corpus is streamed: what is kept are `k` positions per memory and the tokens of the texts. Where a memory never had a
    coefficient of this sign it has no triggers. In an encoder a "prefix" is what is before a position; the memory has
    seen the whole text.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        texts: Sentences, as texts or tensors of token ids [pos].
        memories: Names such as "12:305".
        layers: Layers whose memories are all meant; without names and layers, all layers.
        k: Triggers per memory.
        per: "sentence": a text gives a memory one trigger at most, its largest (as in the paper); "token": several.
        sign: "negative" for the most negative coefficients of activations that have some.
        skip_first: Tokens at the start of every text that are not triggers: many models park huge activations there.

    Raises:
        InputError: for memories, texts or options that cannot be used.
        UnsupportedModelError: for models that are not decomposed.
    """
    known = identify(model)
    cells = select_memories(known, memories, layers)
    return search(known, texts, cells, k=k, per=per, signs=(sign,), skip_first=skip_first)[sign]


def search(
    model: Model, texts: Iterable[Text], cells: Cells, *, k: int, per: Per, signs: Sequence[Sign], skip_first: int
) -> dict[Sign, Triggers]:
    """The triggers of either sign, the corpus read once.

    Args:
        model: The model.
        texts: As in `find_triggers`.
        cells: Whose triggers.
        k: Triggers per memory.
        per: As in `find_triggers`.
        signs: The signs asked for.
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
"""Takes the number of a text, rows of memories, positions, and the coefficients there."""


def read_corpus(
    model: Model, texts: Iterable[Text], cells: Cells, skip_first: int, receive: Receive
) -> dict[int, Int[np.ndarray, " pos"]]:
    """Run a corpus, some texts at a time, and give the coefficients of every layer's memories at tokens that stand for text.

    Args:
        model: The model.
        texts: As in `find_triggers`.
        cells: The memories.
        skip_first: As in `find_triggers`.
        receive: Called for every text and layer.

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
        raise InputError("texts is empty; give at least one text.")
    return tokens


def can_be_triggers(model: Model, ids: Int[np.ndarray, " pos"], skip_first: int) -> Bool[np.ndarray, " pos"]:
    """The tokens of a sequence that stand for text, from `skip_first` on."""
    allowed = ~np.isin(ids, special_ids(model))
    allowed[:skip_first] = False
    return allowed


def refuse_one_text(texts: object) -> None:
    """Refuse what is not a list of texts.

    Raises:
        InputError: for one text, and for anything else that has no members.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        one = "one text" if isinstance(texts, str) else "not a list"
        raise InputError(f"texts={brief(texts)} is {one}; give a list of texts.")


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
