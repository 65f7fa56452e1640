"""What a memory does, by interventions: its triggers without a token, and the model without the memory.

What a memory's coefficient becomes when a token of its trigger is removed (Geva et al. 2021, section 3.3); and what the
model's answer becomes when the coefficient is set to zero, to its mean or to another value. Does the rank of a trigger say how
much the model needs the memory there? `knock_out_effects` measures it.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, SupportsIndex, TypeAlias, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Int

from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.bridge.neuron_hooks import NeuronHook, setting_neurons
from tl_ffblock.bridge.resume import logits_under
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import coefficients
from tl_ffblock.layer.positions import real_number, several, whole_number
from tl_ffblock.memories.names import Memories, MemoryName, named_memories, named_table, select_memories
from tl_ffblock.memories.triggers import Text, Triggers, can_be_triggers, read_corpus
from tl_ffblock.memories.values import ValueTokens, of_same_memories
from tl_ffblock.signatures import strict, whole

Removed: TypeAlias = Literal["first", "last", "random", "each"]
To: TypeAlias = float | Mapping[MemoryName, float]
"""The new coefficient: one number for all (0 knocks out), or one per memory, as `mean_coefficients` gives them."""
_AT_ONCE = 16
"""Shortened prefixes that run together."""


class _Shortened(NamedTuple):
    """A trigger without one of its tokens."""

    row: int
    rank: int
    where: Removed
    removed: int
    ids: Int[np.ndarray, " pos"]


@strict
def ablate(
    model: Any,
    triggers: Triggers,
    *,
    where: Sequence[Removed] = ("first", "last", "random"),
    ranks: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Remove tokens of triggers and read the coefficient at the last token that is left.

    Marks such as <bos> are not removed. A trigger of one token has no row.

    Args:
        model: The model that the triggers are of.
        triggers: From `find_triggers`, of a causal model.
        where: The first token, the last (the trigger token itself), a random one, or each in its turn.
        ranks: Triggers of each memory, best first; None means all.
        seed: Of the random tokens.

    Returns:
        One row per trigger and removal: memory, layer, neuron, rank, where, removed (position), tokens (of the prefix),
        coefficient, without (the coefficient after it), change (`without / coefficient - 1`).

    Raises:
        InputError: for triggers of another model or of an encoder, which has read more than the prefix, or another kind of removal.
    """
    known = identify(model)
    refuse_other_model("triggers", triggers.fingerprint, known)
    if not triggers.causal:
        raise InputError("an encoder has read the text after a trigger, too: its prefix alone is another text.")
    random = np.random.default_rng(whole_number(seed, "seed", at_least=0))
    if isinstance(where, str) or not several(where) or not set(several(where)) <= set(get_args(Removed)):
        alone = f" One is given as a list, [{where!r}]." if isinstance(where, str) else ""
        raise InputError(f"where={brief(where)}: expected some of {', '.join(get_args(Removed))}.{alone}")
    found = []
    for row, rank in triggers.cells(ranks):
        prefix = triggers.prefix(row, rank)
        removable = np.flatnonzero(can_be_triggers(known, prefix, 0)).tolist()
        drawn = int(random.choice(removable))  # whatever is asked for, so that the same seed draws the same tokens
        places = {"first": removable[:1], "last": [len(prefix) - 1], "random": [drawn], "each": removable}
        cuts = [(kind, place) for kind in where for place in places[kind]] if len(removable) > 1 else []
        found += [_Shortened(row, rank, kind, place, np.delete(prefix, place)) for kind, place in cuts]
    without = np.array(_coefficients_of(known, triggers, found))
    before = np.array([float(triggers.coefficient[short.row, short.rank]) for short in found])
    return named_table(
        [triggers.memories[short.row] for short in found],
        {
            "rank": [short.rank + 1 for short in found],
            "where": [short.where for short in found],
            "removed": [short.removed for short in found],
            "tokens": [len(short.ids) + 1 for short in found],
            "coefficient": before,
            "without": without,
            "change": without / before - 1,
        },
    )


def _coefficients_of(model: Model, triggers: Triggers, shortened: Sequence[_Shortened]) -> list[float]:
    """The coefficient of each one's memory at its last token, equally long ones run together."""
    cells = select_memories(model, triggers.memories)
    values = [float("nan")] * len(shortened)
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, short in enumerate(shortened):
        by_length[len(short.ids)].append(number)
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


@strict
def knock_out(
    model: Any, memories: Memories, *, to: To = 0.0, positions: Sequence[SupportsIndex] | SupportsIndex | None = None
) -> list[NeuronHook]:
    """Hooks that set memories' coefficients, for `run_with_hooks` and for every `fwd_hooks` of this package.

    Law: the feed-forward's output changes by `(to - m_i) v_i` and nothing else of the layer does.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        memories: Names such as "12:305".
        to: The new coefficient, of all or by memory.
        positions: Where; negative ones count from the end. None means everywhere.

    Raises:
        InputError: for memories that do not exist, or that `to` does not have.
        UnsupportedModelError: for memories of experts.
    """
    known = identify(model)
    cells = select_memories(known, named_memories(memories))
    given = to if isinstance(to, Mapping) else dict.fromkeys(cells.names, to)
    missing = [str(name) for name in cells.names if name not in given]
    if missing:
        raise InputError(f"to has no value for memory {', '.join(missing)}; give one for each, by its MemoryName.")
    where = None if positions is None else tuple(whole(position) for position in several(positions))
    if where is not None and (not where or None in where):
        raise InputError(
            f"positions={brief(positions)}: expected positions, negative ones from the end, or None for all."
        )
    by_layer: dict[int, dict[int, float]] = defaultdict(dict)
    for name, number in zip(cells.names, cells.numbers.tolist(), strict=True):
        by_layer[name.layer][number] = real_number(given[name], f"to[{name}]" if given is to else "to")
    return [setting_neurons(known, layer, values, where) for layer, values in by_layer.items()]  # type: ignore[arg-type]


@strict
def mean_coefficients(
    model: Any, texts: Iterable[Text], memories: Memories, *, skip_first: int = 0
) -> dict[MemoryName, float]:
    """Mean coefficient of memories over the tokens of a corpus that stand for text, for mean ablation.

    Args:
        model: As in `find_triggers`.
        texts: Texts, or tensors of token ids [pos].
        memories: Names such as "12:305".
        skip_first: Tokens at the start of every text that do not count.

    Raises:
        InputError: for memories, texts or a number of tokens that cannot be used.
    """
    known = identify(model)
    cells = select_memories(known, memories)
    sums, counted = np.zeros(len(cells.names)), np.zeros(len(cells.names))

    def add(_: int, rows: Any, positions: Any, own: Any) -> None:
        sums[rows] += own.astype(np.float64).sum(axis=0)
        counted[rows] += len(positions)

    read_corpus(known, texts, cells, skip_first, add)
    if not counted.all():
        raise InputError("texts has no token of text; give some.")
    return dict(zip(cells.names, (sums / counted).tolist(), strict=True))


@strict
@torch.no_grad()
def knock_out_effects(
    model: Any, triggers: Triggers, values: ValueTokens, *, to: To = 0.0, ranks: int | None = None
) -> pd.DataFrame:
    """What the model's next token becomes when a memory is knocked out at the last token of its triggers.

    Args:
        model: A causal language model with dense feed-forwards.
        triggers: From `find_triggers`.
        values: Of the same memories and sign, from `value_tokens`; their top tokens are watched.
        to: The new coefficient.
        ranks: Triggers of each memory, best first; None means all.

    Returns:
        One row per trigger: memory, layer, neuron, rank, coefficient, top_logit (change of the logit of the value's top token,
        from the mean of all logits), next_log_probability (change at the token that follows; NaN where none does), kl
        (divergence of the prediction from the clean one, nats). Changes are clean minus knocked out: what the memory gives.

    Raises:
        InputError: if triggers and values are of other memories, another model or sign, or of an encoder.
        UnsupportedModelError: for memories of experts.
    """
    values, known = of_same_memories(triggers, values), identify(model)
    refuse_other_model("triggers", triggers.fingerprint, known)
    refuse_other_model("values", values.fingerprint, known)
    following, cells, rows = triggers.next_ids, triggers.cells(ranks), []
    for row, rank in cells:
        hooks = knock_out(known, triggers.memories[row], to=to, positions=-1)
        tokens = torch.as_tensor(triggers.prefix(row, rank), dtype=torch.long)
        clean, without = (logits_under(known, tokens[None], edits)[0, -1].double() for edits in ([], hooks))
        top, after = int(values.top_ids[row, 0]), int(following[row, rank])
        log_clean, log_without = clean.log_softmax(-1), without.log_softmax(-1)
        centred = (clean - clean.mean()) - (without - without.mean())
        rows.append(
            {
                "rank": rank + 1,
                "coefficient": float(triggers.coefficient[row, rank]),
                "top_logit": float(centred[top]),
                "next_log_probability": float(log_clean[after] - log_without[after]) if after >= 0 else float("nan"),
                "kl": float((log_clean.exp() * (log_clean - log_without)).sum()),
            }
        )
    columns = pd.DataFrame(rows, columns=["rank", "coefficient", "top_logit", "next_log_probability", "kl"])
    return named_table([triggers.memories[row] for row, _ in cells], columns.to_dict("list"))
