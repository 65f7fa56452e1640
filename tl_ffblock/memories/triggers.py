"""Trigger examples: the prefixes of a corpus at which a memory's coefficient is largest (Geva et al. 2021, section 3)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
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
from tl_ffblock.memories.best import BestPositions, Per
from tl_ffblock.memories.names import Cells, Memories, MemoryName, Named, row_of, select_memories
from tl_ffblock.result import Values
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

Sign: TypeAlias = Literal["positive", "negative"]
Text: TypeAlias = str | Int[Tensor, " pos"]

_AT_ONCE = 32
"""Texts handed to the model together."""


@strict
@dataclass(frozen=True)
class Trigger:
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
@dataclass(frozen=True, eq=False)
class Triggers(Values):
    """The triggers of some memories over a corpus, best first."""

    memories: tuple[MemoryName, ...]
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
        for cell in zip(*np.nonzero(self.sequence >= 0), strict=True):
            ids, after = self.tokens[int(self.sequence[cell])], int(self.position[cell]) + 1
            following[cell] = ids[after] if after < len(ids) else -1
        return following

    def of(self, memory: Named) -> tuple[Trigger, ...]:
        """The triggers of one memory, fewer than ranks where it fired less often.

        Raises:
            InputError: if it is not among these.
        """
        row = row_of(memory, self.memories)
        return tuple(
            self._trigger(row, rank) for rank in range(self.sequence.shape[1]) if self.sequence[row, rank] >= 0
        )

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

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a trigger."""
        import pandas as pd

        cells = zip(*np.nonzero(self.sequence >= 0), strict=True)
        triggers = [self._trigger(int(row), int(rank)) for row, rank in cells]
        rows = [
            dict(
                memory=str(trigger.memory),
                layer=trigger.memory.layer,
                rank=trigger.rank,
                coefficient=trigger.coefficient,
                sequence=trigger.sequence,
                position=trigger.position,
                token=trigger.prefix[-1],
                next_token=trigger.next_token,
                prefix="".join(trigger.prefix),
            )
            for trigger in triggers
        ]
        columns = ["memory", "layer", "rank", "coefficient", "sequence", "position", "token", "next_token", "prefix"]
        return pd.DataFrame(rows, columns=columns)

    def _trigger(self, row: int, rank: int) -> Trigger:
        sequence, position = int(self.sequence[row, rank]), int(self.position[row, rank])
        labels = self.labels[sequence]
        return Trigger(
            memory=self.memories[row],
            rank=rank + 1,
            coefficient=float(self.coefficient[row, rank]),
            sequence=sequence,
            position=position,
            prefix=labels[: position + 1],
            next_token=labels[position + 1] if position + 1 < len(labels) else None,
        )


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

    The corpus is streamed: what is kept are `k` positions a memory and the tokens of the texts. Where a memory never had a
    coefficient of this sign it has no triggers. In an encoder a "prefix" is what stands before a position; the memory has
    seen the whole text.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        texts: Sentences, as texts or tensors of token ids [pos].
        memories: Names such as "12:305".
        layers: Layers whose memories are all meant; without names and layers, all layers.
        k: Triggers a memory.
        per: "sentence": a text gives a memory one trigger at most, its largest (as in the paper); "token": several.
        sign: "negative" for the most negative coefficients of activations that have some.
        skip_first: Tokens at the start of every text that are no triggers: many models park huge activations there.

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
        k: Triggers a memory.
        per: As in `find_triggers`.
        signs: The signs asked for.
        skip_first: As in `find_triggers`.

    Raises:
        InputError: for texts or options that cannot be used.
    """
    check_skip_first(skip_first)
    whole_number(k, "k", at_least=1)
    reader = _Reader(model, cells, {sign: BestPositions.none(len(cells.names), k) for sign in signs}, per, skip_first)
    for batch in batches_of(texts):
        reader.read(batch)
    if not reader.tokens:
        raise InputError("texts is empty; give at least one text.")
    return {sign: _triggers(model, cells, sign, best, reader.tokens) for sign, best in reader.best.items()}


def _triggers(
    model: Model, cells: Cells, sign: Sign, best: BestPositions, tokens: Mapping[int, Int[np.ndarray, " pos"]]
) -> Triggers:
    """Best positions with the texts they are in."""
    named = {int(number) for number in np.unique(best.sequence[best.sequence >= 0])}
    kept = {number: tokens[number] for number in sorted(named)}
    return Triggers(
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


def can_be_triggers(model: Model, ids: Int[np.ndarray, " pos"], skip_first: int) -> Bool[np.ndarray, " pos"]:
    """The tokens of a sequence that stand for text, from `skip_first` on."""
    allowed = ~np.isin(ids, special_ids(model))
    allowed[:skip_first] = False
    return allowed


def read_ranks(ranks: int | None) -> int | None:
    """How many triggers of each memory are asked for; None means all.

    Raises:
        InputError: for a number below 1.
    """
    return None if ranks is None else whole_number(ranks, "ranks", at_least=1)


def check_skip_first(skip_first: int) -> None:
    """Refuse a number of tokens below 0, which would be read from the end.

    Raises:
        InputError: for such a number.
    """
    whole_number(skip_first, "skip_first", at_least=0)


class _Reader:
    """What has been read of a corpus so far."""

    def __init__(
        self, model: Model, cells: Cells, best: Mapping[Sign, BestPositions], per: Per, skip_first: int
    ) -> None:
        self.best = best
        self.tokens: dict[int, Int[np.ndarray, " pos"]] = {}
        self._model, self._cells, self._per, self._skip_first = model, cells, per, skip_first
        self._rows = {layer: cells.rows(layer) for layer in cells.layers}

    def read(self, texts: list[str] | Int[Tensor, " pos"]) -> None:
        """Run some texts, and keep what is better than what was kept."""
        first = len(self.tokens)
        run = open_run(self._model, texts, layers=self._cells.layers)
        for number, sequence in enumerate(run.sequences):
            self.tokens[first + number] = sequence.tokens.numpy().astype(np.int32)
        run.by_layer(lambda record, number: self._offer(first + number, record))

    def _offer(self, number: int, record: LayerRecord) -> None:
        rows = self._rows[record.layer]
        neurons = torch.as_tensor(self._cells.numbers[rows], device=record.resid_pre.device)
        own = coefficients(record)[:, neurons].cpu().numpy()
        positions = np.flatnonzero(can_be_triggers(self._model, self.tokens[number], self._skip_first))
        if not len(positions):
            return
        for sign, best in self.best.items():
            magnitudes = own[positions] * (1 if sign == "positive" else -1)
            best.take(
                BestPositions.of_sequence(magnitudes, positions, number, best.magnitude.shape[1], self._per), rows
            )


def refuse_one_text(texts: object) -> None:
    """Refuse what is not a list of texts.

    Raises:
        InputError: for one text, and for anything else that has no members.
    """
    if isinstance(texts, str) or not isinstance(texts, Iterable):
        one = "one text" if isinstance(texts, str) else "not a list"
        raise InputError(f"texts={brief(texts)} is {one}; give a list of texts.")


def batches_of(texts: Iterable[Text]) -> Iterator[list[str] | Int[Tensor, " pos"]]:
    """Texts in their order, as many at a time as are handed to the model together; tensors one by one."""
    refuse_one_text(texts)
    waiting: list[str] = []
    for text in texts:
        if isinstance(text, str):
            waiting.append(text)
            if len(waiting) == _AT_ONCE:
                yield waiting
                waiting = []
            continue
        if waiting:
            yield waiting
            waiting = []
        yield text
    if waiting:
        yield waiting
