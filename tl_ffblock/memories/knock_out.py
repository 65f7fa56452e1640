"""Memories set to zero, to their mean or to another value, and what that does to the model's answer.

Does the rank of a trigger say how much the model needs the memory there? `knock_out_effects` measures it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.edited import NeuronHook, setting_neurons
from tl_ffblock.bridge.model import identify, refuse_other_model
from tl_ffblock.bridge.runs import open_run
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.neurons import coefficients
from tl_ffblock.layer.positions import real_number, several
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.names import Memories, MemoryName, named_memories, select_memories
from tl_ffblock.memories.triggers import Text, Triggers, batches_of, can_be_triggers, check_skip_first, read_ranks
from tl_ffblock.memories.values import ValueTokens, of_same_memories
from tl_ffblock.signatures import strict, whole

if TYPE_CHECKING:
    import pandas

To: TypeAlias = float | Mapping[MemoryName, float]
"""The new coefficient: one number for all (0 knocks out), or one a memory, as `mean_coefficients` gives them."""


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
    missing = [str(name) for name in cells.names if isinstance(to, Mapping) and name not in to]
    if missing:
        raise InputError(f"to has no value for memory {', '.join(missing)}; give one for each, by its MemoryName.")
    where = None if positions is None else _numbers(positions)
    by_layer: dict[int, dict[int, float]] = {}
    for name, number in zip(cells.names, cells.numbers.tolist(), strict=True):
        value, called = (to[name], f"to[{name}]") if isinstance(to, Mapping) else (to, "to")
        by_layer.setdefault(name.layer, {})[number] = real_number(value, called)
    return [setting_neurons(known, layer, values, where) for layer, values in by_layer.items()]


def _numbers(positions: object) -> tuple[int, ...]:
    """Positions whose sequence is not known yet."""
    numbers = tuple(whole(position) for position in several(positions))
    if not numbers or None in numbers:
        raise InputError(
            f"positions={brief(positions)}: expected positions, negative ones from the end, or None for all."
        )
    return numbers  # type: ignore[return-value]  # None was refused


@strict
def mean_coefficients(
    model: Any, texts: Iterable[Text], memories: Memories, *, skip_first: int = 0
) -> dict[MemoryName, float]:
    """Mean coefficient of memories over the tokens of a corpus that stand for text, to knock them out by.

    Args:
        model: As in `find_triggers`.
        texts: Texts, or tensors of token ids [pos].
        memories: Names such as "12:305".
        skip_first: Tokens at the start of every text that do not count.

    Raises:
        InputError: for memories, texts or a number of tokens that cannot be used.
    """
    check_skip_first(skip_first)
    known = identify(model)
    cells = select_memories(known, memories)
    sums, counted = np.zeros(len(cells.names)), np.zeros(len(cells.names))
    for batch in batches_of(texts):
        run = open_run(known, batch, layers=cells.layers)

        def add(record: LayerRecord, number: int, run: Any = run) -> None:
            allowed = can_be_triggers(known, run.sequences[number].tokens.numpy(), skip_first)
            rows = cells.rows(record.layer)
            own = coefficients(record)[:, cells.numbers[rows]].double().cpu().numpy()[allowed]
            sums[rows] += own.sum(axis=0)
            counted[rows] += len(own)

        run.by_layer(add)
    if not counted.all():
        raise InputError("texts has no token of text; give some.")
    return dict(zip(cells.names, (sums / counted).tolist(), strict=True))


@strict
@torch.no_grad()
def knock_out_effects(
    model: Any, triggers: Triggers, values: ValueTokens, *, to: To = 0.0, ranks: int | None = None
) -> "pandas.DataFrame":
    """What the model's next token becomes when a memory is knocked out at the last token of its triggers.

    Args:
        model: A causal language model with dense feed-forwards.
        triggers: From `find_triggers`.
        values: Of the same memories and sign, from `value_tokens`; their top tokens are watched.
        to: The new coefficient.
        ranks: Triggers of each memory, best first; None means all.

    Returns:
        One row a trigger: memory, layer, rank, coefficient, top_logit (change of the logit of the value's top token, from
        the mean of all logits), next_log_probability (change at the token that follows; NaN where none does), kl
        (divergence of the prediction from the clean one, nats). Changes are clean minus knocked out: what the memory gives.

    Raises:
        InputError: if triggers and values are of other memories, another model or sign, or of an encoder.
        UnsupportedModelError: for memories of experts.
    """
    import pandas as pd

    values = of_same_memories(triggers, values)
    known, rows = identify(model), []
    refuse_other_model("triggers", triggers.fingerprint, known)
    refuse_other_model("values", values.fingerprint, known)
    following, most = triggers.next_ids, read_ranks(ranks)
    for row, rank in zip(*np.nonzero(triggers.sequence[:, :most] >= 0), strict=True):
        name = triggers.memories[row]
        hooks = knock_out(known, name, to=to, positions=-1)
        tokens = torch.as_tensor(triggers.prefix(int(row), int(rank)), dtype=torch.long)
        clean, without = (_last_logits(known, tokens, edits) for edits in ([], hooks))
        top, after = int(values.top_ids[row, 0]), int(following[row, rank])
        log_clean, log_without = clean.log_softmax(-1), without.log_softmax(-1)
        centred = (clean - clean.mean()) - (without - without.mean())
        rows.append(
            dict(
                memory=str(name),
                layer=name.layer,
                rank=int(rank) + 1,
                coefficient=float(triggers.coefficient[row, rank]),
                top_logit=float(centred[top]),
                next_log_probability=float(log_clean[after] - log_without[after]) if after >= 0 else float("nan"),
                kl=float((log_clean.exp() * (log_clean - log_without)).sum()),
            )
        )
    columns = ["memory", "layer", "rank", "coefficient", "top_logit", "next_log_probability", "kl"]
    return pd.DataFrame(rows, columns=columns)


def _last_logits(model: Any, tokens: Int[Tensor, " pos"], hooks: Sequence[NeuronHook]) -> Float[Tensor, " d_vocab"]:
    """Logits at the last token, in float64."""
    run = open_run(model, tokens, layers=0, queries=-1, fwd_hooks=hooks, keeps_logits=True)
    run.deliver(lambda records: None, check=False)
    return run.logits[0][0, -1].double()
