"""What a memory's coefficient becomes when a token of its trigger is removed (Geva et al. 2021, section 3.3)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Int

from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import coefficients
from tl_ffblock.layer.positions import several, whole_number
from tl_ffblock.memories.names import select_memories
from tl_ffblock.memories.triggers import Triggers, can_be_triggers, read_ranks
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

Removed: TypeAlias = Literal["first", "last", "random", "each"]

_AT_ONCE = 16
"""Shortened prefixes that run together."""


@dataclass(frozen=True)
class Shortened:
    """A trigger without one of its tokens."""

    row: int
    """Of the memory."""
    rank: int
    where: Removed
    removed: int
    """Position of the token that is left out."""
    ids: Int[np.ndarray, " pos"]


@strict
def ablate(
    model: Any,
    triggers: Triggers,
    *,
    where: Sequence[Removed] = ("first", "last", "random"),
    ranks: int | None = None,
    seed: int = 0,
) -> "pandas.DataFrame":
    """Remove tokens of triggers and read the coefficient at the last token that is left.

    Marks such as <bos> are not removed. A trigger of one token has no row.

    Args:
        model: The model that the triggers are of.
        triggers: From `find_triggers`, of a causal model.
        where: The first token, the last (the trigger token itself), a random one, or each in its turn.
        ranks: Triggers of each memory, best first; None means all.
        seed: Of the random tokens.

    Returns:
        One row a trigger and removal: memory, layer, rank, where, removed (position), tokens (of the prefix), coefficient,
        without (the coefficient after it), change (`without / coefficient - 1`).

    Raises:
        InputError: for triggers of another model or of an encoder, which has read more than the prefix, or another kind of removal.
    """
    import pandas as pd

    known = identify(model)
    refuse_other_model("triggers", triggers.fingerprint, known)
    if not triggers.causal:
        raise InputError("an encoder has read the text after a trigger, too: its prefix alone is another text.")
    whole_number(seed, "seed", at_least=0)
    if isinstance(where, str) or not several(where) or not set(several(where)) <= set(get_args(Removed)):
        alone = f" One is given as a list, [{where!r}]." if isinstance(where, str) else ""
        raise InputError(f"where={brief(where)}: expected some of {', '.join(get_args(Removed))}.{alone}")
    shortened = list(_shortened(known, triggers, where, read_ranks(ranks), np.random.default_rng(seed)))
    rows = []
    for short, without in zip(shortened, _coefficients_of(known, triggers, shortened), strict=True):
        name, before = triggers.memories[short.row], float(triggers.coefficient[short.row, short.rank])
        rows.append(
            dict(
                memory=str(name),
                layer=name.layer,
                rank=short.rank + 1,
                where=short.where,
                removed=short.removed,
                tokens=len(short.ids) + 1,
                coefficient=before,
                without=without,
                change=without / before - 1,
            )
        )
    columns = ["memory", "layer", "rank", "where", "removed", "tokens", "coefficient", "without", "change"]
    return pd.DataFrame(rows, columns=columns)


def _shortened(
    model: Model, triggers: Triggers, where: Sequence[Removed], ranks: int | None, random: np.random.Generator
) -> Iterator[Shortened]:
    """Every shortened trigger."""
    for row, rank in zip(*np.nonzero(triggers.sequence[:, :ranks] >= 0), strict=True):
        prefix = triggers.prefix(int(row), int(rank))
        removable = np.flatnonzero(can_be_triggers(model, prefix, 0))
        drawn = int(
            random.choice(removable)
        )  # drawn whatever is asked for, so that the same seed draws the same tokens
        if len(removable) < 2:
            continue
        places: dict[Removed, Sequence[int]] = {
            "first": removable[:1].tolist(),
            "last": [len(prefix) - 1],
            "random": [drawn],
            "each": removable.tolist(),
        }
        for kind in where:
            for place in places[kind]:
                yield Shortened(int(row), int(rank), kind, place, np.delete(prefix, place))


def _coefficients_of(model: Model, triggers: Triggers, shortened: Sequence[Shortened]) -> list[float]:
    """The coefficient of each one's memory at its last token, equally long ones run together."""
    cells = select_memories(model, triggers.memories)
    values = [float("nan")] * len(shortened)
    by_length: dict[int, list[int]] = {}
    for number, short in enumerate(shortened):
        by_length.setdefault(len(short.ids), []).append(number)
    for numbers in by_length.values():
        for start in range(0, len(numbers), _AT_ONCE):
            chosen = numbers[start : start + _AT_ONCE]
            tokens = torch.stack([torch.as_tensor(shortened[number].ids, dtype=torch.long) for number in chosen])
            layers = sorted({cells.names[shortened[number].row].layer for number in chosen})
            run = open_run(model, tokens, layers=layers, queries=-1)
            for number, found in zip(chosen, run.by_layer(lambda record, _: coefficients(record)[0]), strict=True):
                row = shortened[number].row
                values[number] = float(found[cells.names[row].layer][int(cells.numbers[row])])
    return values
