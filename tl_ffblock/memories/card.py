"""MemoryCard: triggers, causes and promoted tokens of one neuron as plain data, for views, tables and JSON."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import pandas as pd
import torch

from tl_ffblock.attribution import Attribution
from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.bridge.readout import Reading
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.errors import InputError
from tl_ffblock.layer.neurons import coefficients
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.causes import carried, parts_at
from tl_ffblock.memories.names import MemoryLike, MemoryName, named_table, select_memories
from tl_ffblock.memories.triggers import Per, Text, Triggers, refuse_one_text, search
from tl_ffblock.memories.values import agreeing, value_tokens
from tl_ffblock.result import Result, Values
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import strict


@strict
@dataclass(frozen=True, eq=False)
class CardTrigger(Values):
    """A trigger, with the part of each token in the coefficient."""

    rank: int
    coefficient: float
    sequence: int
    position: int
    tokens: tuple[str, ...]
    """Tokens of the whole text."""
    along: tuple[float, ...]
    """The coefficient at every token of the text."""
    parts: tuple[float, ...]
    """Part of every token in the coefficient at `position`; with `bias` they sum to it."""
    bias: float

    @property
    def next_token(self) -> str | None:
        """Token after the trigger; None at the text's end."""
        return self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else None


@strict
@dataclass(frozen=True, eq=False)
class CardValue(Values):
    """Tokens of a neuron's value vector, by the logit lens."""

    reading: Reading
    top: tuple[str, ...]
    bottom: tuple[str, ...]
    probability: float
    """Probability of the top token."""
    agreeing: int | None
    """Number of positive triggers followed by the top token; None in an encoder, which also reads later tokens."""
    followed: int | None
    """Number of positive triggers with a next token."""


@strict
@dataclass(frozen=True, eq=False)
class CardText(Values):
    """A neuron in your own text: its activations, the tokens that cause them, and its attribution."""

    tokens: tuple[str, ...]
    along: tuple[float, ...]
    """The coefficient at every token."""
    parts: tuple[tuple[float, ...], ...]
    """Part of every token in the coefficient at every position, [query key]; with `bias` they sum to it."""
    bias: tuple[float, ...]
    """Part of the biases, by position."""
    target: str | None = None
    """Target of the attribution in words."""
    carried: tuple[float, ...] | None = None
    """Attribution of the target to the neuron at every position, signed."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class MemoryCard(Result):
    """Card of one neuron over one corpus. On a page of maps it is a panel: `maps.to_html(file, beside=card)`."""

    memory: str
    model: str
    corpus_texts: int
    positive: tuple[CardTrigger, ...]
    """Triggers with the largest coefficients."""
    negative: tuple[CardTrigger, ...]
    """Triggers with the most negative coefficients."""
    value: CardValue | None
    """None if the model's vectors cannot be read as tokens."""
    text: CardText | None = None
    """None without a text; see `on_text`."""
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""

    def on_text(self, model: Any, text: Text, attribution: Attribution | None = None) -> "MemoryCard":
        """The card with a text of your own.

        Args:
            model: The card's model.
            text: A text, or a tensor of token ids [pos].
            attribution: Result of `ffb.attribute` for the same text, for the neuron's attribution.

        Raises:
            InputError: if the model is not the card's, or the attribution is of another text, or has no such neuron.
            CompletenessError: if parts do not sum to a coefficient.
        """
        known = identify(model)
        refuse_other_model(f"the card of memory {self.memory}", self.fingerprint, known)
        cells = select_memories(known, [self.memory])
        run = open_run(known, text, layers=cells.layers)
        if not run.single:
            raise InputError("text has several sequences: expected one.")
        labels = run.sequences[0].labels
        if attribution is not None and attribution.labels != labels:
            raise InputError(
                f"the attribution is of {len(attribution.labels)} tokens, the text has {len(labels)} others. Expected the same text."
            )
        shares = None if attribution is None else carried(attribution, [self.memory])
        (by_layer,) = run.by_layer(lambda record, _: parts_at(run, record, cells, range(len(labels))))
        (by_position,) = by_layer.values()
        shown = CardText(
            tokens=labels,
            along=tuple(float(parts.coefficient[0]) for parts in by_position),
            parts=tuple(tuple(parts.parts[0].tolist()) for parts in by_position),
            bias=tuple(float(parts.bias[0] + parts.remainder[0]) for parts in by_position),
            target=None if shares is None else shares.target,
            carried=None if shares is None else tuple(shares.shares[0].tolist()),
        )
        return replace(self, text=shown)

    def to_dict(self) -> dict[str, Any]:
        """The card as lists, numbers and strings, for JSON."""
        return asdict(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per trigger, with the columns of `Triggers.to_dataframe`; the largest coefficients first."""
        triggers = (*self.positive, *self.negative)
        columns = {
            name: [getattr(one, name) for one in triggers] for name in ("rank", "coefficient", "sequence", "position")
        }
        columns["token"] = [one.tokens[one.position] for one in triggers]
        columns["next_token"] = [one.next_token for one in triggers]
        columns["prefix"] = ["".join(one.tokens[: one.position + 1]) for one in triggers]
        return named_table([MemoryName.read(self.memory)] * len(triggers), columns)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Name of the neuron, its largest coefficients of both signs, and the tokens of its value."""
        either = {"positive": self.positive, "negative": self.negative}
        lines: dict[str, object] = {
            name: f"{len(triggers)} triggers, {triggers[0].coefficient:.4g} at {visible(triggers[0].tokens[triggers[0].position])}"
            for name, triggers in either.items()
            if triggers
        }
        if self.value is not None:
            lines["promotes"] = " ".join(map(repr, self.value.top[:5]))
        return f"memory {self.memory} of {self.model} over {self.corpus_texts} texts", lines


@strict
def memory_card(
    model: Any,
    texts: Iterable[Text],
    memory: MemoryLike,
    *,
    k: int = 10,
    per: Per = "sentence",
    reading: Reading = "final_norm",
    skip_first: int = 0,
) -> MemoryCard:
    """Card of a neuron: triggers, the part of each of their tokens, the tokens of its value, and agreement.

    Args:
        model: As in `find_triggers`.
        texts: The corpus.
        memory: A name such as "12:305".
        k: Number of triggers of either sign, and of tokens at either end of the value.
        per: Whether a text may have one trigger or several.
        reading: How the value is read as tokens.
        skip_first: Number of tokens at the start of every text that are not triggers.

    Raises:
        InputError: for a neuron, texts or options that cannot be used.
        CompletenessError: if parts do not sum to a coefficient.
    """
    refuse_one_text(texts)
    known, corpus = identify(model), list(texts)
    cells = select_memories(known, [memory])
    triggers = search(known, corpus, cells, k=k, per=per, signs=("positive", "negative"), skip_first=skip_first)
    return MemoryCard(
        memory=str(cells.names[0]),
        model=known.name,
        corpus_texts=len(corpus),
        positive=_card_triggers(known, triggers["positive"]),
        negative=_card_triggers(known, triggers["negative"]),
        value=_card_value(known, triggers["positive"], reading, k) if known.has_trained_head else None,
        fingerprint=known.fingerprint,
    )


def _card_triggers(model: Model, triggers: Triggers) -> tuple[CardTrigger, ...]:
    cells = select_memories(model, triggers.memories)
    cards = []
    for trigger in triggers.of(triggers.memories[0]):
        run = open_run(model, torch.as_tensor(triggers.tokens[trigger.sequence], dtype=torch.long), layers=cells.layers)

        def measure(record: LayerRecord, _: int, run: Any = run, position: int = trigger.position) -> Any:
            (parts,) = parts_at(run, record, cells, [position])
            return tuple(coefficients(record)[:, int(cells.numbers[0])].tolist()), parts

        (by_layer,) = run.by_layer(measure)
        ((along, parts),) = by_layer.values()
        cards.append(
            CardTrigger(
                rank=trigger.rank,
                coefficient=trigger.coefficient,
                sequence=trigger.sequence,
                position=trigger.position,
                tokens=triggers.labels[trigger.sequence],
                along=along,
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
