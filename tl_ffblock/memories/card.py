"""All that is known of one memory, as plain data: what a view, a table or a JSON file takes."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch

from tl_ffblock.bridge.facts import has_trained_head
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.readout import Reading
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.errors import InputError
from tl_ffblock.layer.neurons import coefficients
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.best import Per
from tl_ffblock.memories.names import Named, select_memories
from tl_ffblock.memories.parts import token_parts
from tl_ffblock.memories.triggers import Text, Triggers, search
from tl_ffblock.memories.values import agreeing, value_tokens


@dataclass(frozen=True)
class CardTrigger:
    """A trigger with what turned the memory on."""

    rank: int
    coefficient: float
    sequence: int
    position: int
    tokens: tuple[str, ...]
    """The whole text."""
    along: tuple[float, ...]
    """The memory's coefficient at every token of the text."""
    parts: tuple[float, ...]
    """What every token brings to the coefficient at `position`; with `bias` they sum to it."""
    bias: float

    @property
    def next_token(self) -> str | None:
        """What follows the trigger token; None at the text's end."""
        return self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else None


@dataclass(frozen=True)
class CardValue:
    """What a memory's value says."""

    reading: Reading
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    probability: float
    """Of the top token."""
    agreeing: int | None
    """Positive triggers that are followed by the top token; None in an encoder, which has read what follows."""
    followed: int | None
    """Positive triggers that a token follows."""


@dataclass(frozen=True)
class MemoryCard:
    """One memory of one model over one corpus."""

    memory: str
    model: str
    corpus_texts: int
    positive: tuple[CardTrigger, ...]
    """The largest coefficients."""
    negative: tuple[CardTrigger, ...]
    """The most negative ones."""
    value: CardValue | None
    """None where the model's vectors cannot be read as tokens."""

    def to_dict(self) -> dict[str, Any]:
        """The same in lists, numbers and strings, for JSON."""
        return asdict(self)


def memory_card(
    model: Any,
    texts: Iterable[Text],
    memory: Named,
    *,
    k: int = 10,
    per: Per = "sentence",
    reading: Reading = "final_norm",
    skip_first: int = 0,
) -> MemoryCard:
    """All that is known of a memory: triggers, the part of each of their tokens, the tokens of its value, agreement.

    Args:
        model: As in `find_triggers`.
        texts: The corpus.
        memory: A name such as "12:305".
        k: Triggers of either sign, and tokens on either side of the value.
        per: Whether a text may give one trigger or several.
        reading: How the value is read.
        skip_first: Tokens at the start of every text that are no triggers.

    Raises:
        InputError: for a memory, texts or options that cannot be used.
        CompletenessError: if parts do not sum to a coefficient.
    """
    if isinstance(texts, str):
        raise InputError("texts is one text; give a list of texts.")
    known, corpus = identify(model), list(texts)
    cells = select_memories(known, [memory])
    triggers = search(known, corpus, cells, k=k, per=per, signs=("positive", "negative"), skip_first=skip_first)
    return MemoryCard(
        memory=str(cells.names[0]),
        model=known.name,
        corpus_texts=len(corpus),
        positive=_card_triggers(known, triggers["positive"]),
        negative=_card_triggers(known, triggers["negative"]),
        value=_card_value(known, triggers["positive"], reading, k) if has_trained_head(known) else None,
    )


def _card_triggers(model: Model, triggers: Triggers) -> tuple[CardTrigger, ...]:
    (name,) = triggers.memories
    cells = select_memories(model, [name])
    cards = []
    for trigger in triggers.of(name):
        ids = torch.as_tensor(triggers.tokens[trigger.sequence], dtype=torch.long)
        along: list[float] = []

        def receive(records: Mapping[int, LayerRecord], along: list[float] = along) -> None:
            along += coefficients(records[0])[:, int(cells.numbers[0])].tolist()

        open_run(model, ids, layers=cells.layers).deliver(receive)
        parts = token_parts(model, ids.tolist(), [name], query=trigger.position)
        cards.append(
            CardTrigger(
                rank=trigger.rank,
                coefficient=trigger.coefficient,
                sequence=trigger.sequence,
                position=trigger.position,
                tokens=triggers.labels[trigger.sequence],
                along=tuple(along),
                parts=tuple(parts.parts[0].tolist()),
                bias=float(parts.bias[0]),
            )
        )
    return tuple(cards)


def _card_value(model: Model, triggers: Triggers, reading: Reading, k: int) -> CardValue:
    (name,) = triggers.memories
    values = value_tokens(model, memories=[name], reading=reading, k=k)
    followed, agrees = agreeing(triggers.next_ids, values.top_ids[:, 0])
    return CardValue(
        reading=reading,
        top=values.top(name),
        bottom=values.bottom(name),
        probability=float(values.probability[0]),
        agreeing=int(agrees.sum()) if triggers.causal else None,
        followed=int(followed.sum()) if triggers.causal else None,
    )
