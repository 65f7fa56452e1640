"""Causes and effects of neurons: parts of coefficients, attributions, and interventions.

A coefficient is a sum over source tokens and a bias. Attribution of a target to neurons is part of `ffb.attribute`. Interventions
measure the coefficient without a token of its trigger (Geva et al. 2021, section 3.3), and the model's prediction when a
coefficient is set to zero, to its mean or to another value. `neuron_ablation_effects` measures whether the rank of a trigger
predicts how much the model needs the neuron there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, SupportsIndex, TypeAlias, Unpack, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.attribution import Attribution
from tl_ffblock.bridge.edited import RunHook, logits_under, setting_neurons
from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Run, open_run
from tl_ffblock.errors import CompletenessError, InputError, brief
from tl_ffblock.layer.linear import CANCELLED
from tl_ffblock.layer.neurons import coefficient_parts, coefficient_rounding, coefficients
from tl_ffblock.layer.positions import layer_number, one_position, real_number, several, whole_number
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.names import (
    Cells,
    Memories,
    MemoryLike,
    MemoryName,
    MemoryTable,
    named_memories,
    named_table,
    refuse_twice,
    select_memories,
)
from tl_ffblock.memories.triggers import Text, Triggers, can_be_triggers, read_corpus
from tl_ffblock.memories.values import ValueTokens, of_same_memories
from tl_ffblock.signatures import spelled_out, strict, whole

Removed: TypeAlias = Literal["first", "last", "random", "each"]
To: TypeAlias = float | Mapping[MemoryName, float]
"""The new coefficient: one number for all (0 is zero ablation), or one per neuron, as from `mean_coefficients`."""
_AT_ONCE = 16
"""Number of shortened prefixes per batch."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CoefficientParts(MemoryTable):
    """Coefficients of neurons at one position, by source token.

    `parts.sum(1) + bias + remainder = coefficient`, which is checked.
    """

    tokens: tuple[str, ...]
    position: int
    parts: Float[Tensor, "memory key"]
    """Part of each source token, signed, in units of the coefficient."""
    bias: Float[Tensor, " memory"]
    """Part of no token: biases of the layer, and the activation at zero."""
    remainder: Float[Tensor, " memory"]
    """Effect of your hooks inside the block; else zero."""
    coefficient: Float[Tensor, " memory"]
    """The model's own coefficient."""
    largest: Float[Tensor, " memory"]
    """Largest `|m_i|` of any neuron of the layer there; the error of a coefficient near zero is relative to it."""
    rounding: Float[Tensor, " memory"]
    """Largest rounding error of the model's coefficient by the activation function."""

    @property
    def error(self) -> Float[Tensor, " memory"]:
        """Difference of the sum from the coefficient beyond `rounding`, relative to the largest of the coefficient and its terms.

        If these are below a thousandth of the layer's largest coefficient, that thousandth is used instead.
        """
        terms = torch.cat([self.parts, self.bias[:, None], self.remainder[:, None], self.coefficient[:, None]], dim=1)
        largest = torch.maximum(terms.abs().amax(dim=1), CANCELLED * self.largest)
        gap = ((terms[:, :-1].sum(dim=1) - self.coefficient).abs() - self.rounding).clamp(min=0)
        return gap / torch.where(largest == 0, 1, largest)

    def of(self, memory: MemoryLike) -> Float[Tensor, " key"]:
        """The parts of one memory.

        Raises:
            InputError: if it is not in the result.
        """
        return self.parts[self.row_of(memory)]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per neuron and source token, and one for the bias (key -1)."""
        values = torch.cat([self.parts, self.bias[:, None]], dim=1)
        rows, places = np.indices(tuple(values.shape)).reshape(2, -1)
        keys, tokens = np.array([*range(len(self.tokens)), -1]), np.array([*self.tokens, "bias"], dtype=object)
        names = [self.memories[row] for row in rows]
        return named_table(names, {"key": keys[places], "token": tokens[places], "value": values.double().flatten()})


@spelled_out(CallOptions, DEFAULTS)
def token_parts(
    model: Any,
    input: str | Ids | Int[Tensor, " pos"],
    memories: Memories,
    *,
    query: SupportsIndex = -1,
    **options: Unpack[CallOptions],
) -> CoefficientParts:
    """Parts of source tokens in neurons' coefficients at one position.

    Integrated Gradients through the activation in closed form, as in `contribution_maps` (eq. 12-14 of Kobayashi et al.
    2024). Source tokens are those of the layer's input.

    Args:
        model: As in `contribution_maps`.
        input: A text, or token ids [pos].
        memories: Names of neurons such as "12:305", of one layer or several.
        query: Position, negative ones from the end.
        attention_mask: As in `contribution_maps`.
        token_type_ids: As in `contribution_maps`.
        fwd_hooks: As in `contribution_maps`.
        cache: As in `contribution_maps`.
        method: As in `contribution_maps`.
        n_steps: As in `contribution_maps`.
        value_bias: As in `contribution_maps`.
        rtol: As in `contribution_maps`.
        precision: As in `contribution_maps`.

    Raises:
        InputError: for input, neurons or options that cannot be used.
        CompletenessError: if parts and bias do not sum to a coefficient.
    """
    known = identify(model)
    cells = select_memories(known, named_memories(memories))
    run = open_run(known, input, layers=cells.layers, **options)
    run.settings.refuse_rounding("parts of coefficients")
    if not run.single:
        raise InputError("input has several sequences: expected one.")
    (sequence,) = run.sequences
    at = one_position(query, len(sequence.tokens), "query")
    run = replace(run, sequences=(replace(sequence, queries=(at,)),))
    (by_layer,) = run.by_layer(lambda record, _: _columns(run, record, cells))
    columns = [torch.cat(of_layers, dim=1)[0] for of_layers in zip(*by_layer.values(), strict=True)]
    return _certified(run, cells, at, [cells.in_order(column) for column in columns])


def parts_at(run: Run, record: LayerRecord, cells: Cells, positions: Sequence[int]) -> tuple[CoefficientParts, ...]:
    """Parts at some positions of one sequence, from the record of the neurons' layer.

    Args:
        run: The opened input, with all queries.
        record: Its record of that layer.
        cells: Neurons of that layer alone.
        positions: Positions.

    Raises:
        CompletenessError: if parts and bias do not sum to a coefficient.
    """
    chosen = record.rows(torch.tensor(list(positions), device=record.resid_pre.device))
    columns = _columns(run, chosen, cells)
    return tuple(
        _certified(run, cells, position, [column[row] for column in columns]) for row, position in enumerate(positions)
    )


def _columns(run: Run, record: LayerRecord, cells: Cells) -> tuple[Tensor, ...]:
    """Parts [query memory key], and bias, remainder, coefficient, the layer's largest one, and rounding [query memory]."""
    neurons = cells.numbers[cells.rows(record.layer)].tolist()
    parts, own = coefficient_parts(record, run.settings, neurons), coefficients(record)
    remainder = torch.zeros_like(parts.bias) if parts.remainder is None else parts.remainder
    largest = own.abs().amax(dim=1, keepdim=True).expand(-1, len(neurons))
    rounding = coefficient_rounding(record, run.model.eps(run.settings.dtype))[:, neurons]
    return parts.tokens.transpose(1, 2), parts.bias, remainder, own[:, neurons], largest, rounding


def _certified(run: Run, cells: Cells, position: int, columns: Sequence[Tensor]) -> CoefficientParts:
    result = CoefficientParts(cells.names, run.sequences[0].labels, position, *(column.cpu() for column in columns))
    worst = int(result.error.argmax())
    if not float(result.error[worst]) <= run.settings.rtol:
        raise CompletenessError(
            f"{run.model.name}, memory {cells.names[worst]}: parts and bias differ from its coefficient by "
            f"{float(result.error[worst]):.1e} of the largest of them (tolerance {run.settings.rtol:.0e}) at position "
            f"{position}."
        )
    return result


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CarriedShares(MemoryTable):
    """Attribution of a target to neurons at every position, signed, in the target's units."""

    tokens: tuple[str, ...]
    target: str
    """The target in words."""
    shares: Float[Tensor, "memory pos"]

    def of(self, memory: MemoryLike) -> Float[Tensor, " pos"]:
        """The shares of one memory.

        Raises:
            InputError: if it is not in the result.
        """
        return self.shares[self.row_of(memory)]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per neuron and position."""
        rows, at = np.indices(tuple(self.shares.shape)).reshape(2, -1)
        names, tokens = [self.memories[row] for row in rows], np.array(self.tokens, dtype=object)
        return named_table(names, {"position": at, "token": tokens[at], "value": self.shares.double().flatten()})


@strict
def carried(attribution: Attribution, memories: Memories) -> CarriedShares:
    """Attribution of a target to neurons: `m_i <v_i, df/d(output)>` at each position, by the rules of the attribution.

    Over all neurons of a layer, with its output bias, they sum to the attribution to its feed-forward's output.

    Args:
        attribution: Result of `ffb.attribute` with "neurons" in `of`, which is the default.
        memories: Names of neurons such as "12:305", of dense feed-forwards.

    Raises:
        InputError: if no neuron is named, or one does not exist.
        ScopeKeyError: if the attribution has no neurons, or a layer has experts.
        LayerError: if there is no such layer.
    """
    names = tuple(named_memories(memories))
    layers = [layer_number(name.layer, attribution.n_layers, "in this attribution") for name in names]
    refuse_twice([replace(name, layer=layer) for name, layer in zip(names, layers, strict=True)])
    shares = []
    for name, layer in zip(names, layers, strict=True):
        of_layer = attribution.neurons(layer)
        if name.expert is not None or not 0 <= name.neuron < of_layer.shape[1]:
            raise InputError(
                f"memory {name}: layer {layer} has {of_layer.shape[1]} neurons, named {layer}:0 and so on."
            )
        shares.append(of_layer[:, name.neuron])
    return CarriedShares(names, attribution.labels, attribution.target, torch.stack(shares))


@strict
def largest_carried(attribution: Attribution, *, k: int = 10) -> pd.DataFrame:
    """Neurons with the largest attributions of a target, over all layers, by the absolute value at one position.

    Args:
        attribution: As in `carried`.
        k: Number of neurons.

    Returns:
        One row per neuron and position: memory, layer, neuron, position, token, value.

    Raises:
        InputError: for a `k` below 1.
        ScopeKeyError: if the attribution has no neurons.
    """
    whole_number(k, "k", at_least=1)
    found = []
    for layer in range(attribution.n_layers):
        shares = attribution.neurons(layer)
        for index in shares.abs().flatten().topk(min(k, shares.numel())).indices.tolist():
            position, neuron = divmod(index, shares.shape[1])
            found.append((MemoryName(layer, neuron), position, float(shares[position, neuron])))
    names, positions, values = zip(*sorted(found, key=lambda one: -abs(one[2]))[:k], strict=True)
    tokens = [attribution.labels[position] for position in positions]
    return named_table(names, {"position": positions, "token": tokens, "value": values})


@strict
def remove_tokens(
    model: Any,
    triggers: Triggers,
    *,
    where: Sequence[Removed] = ("first", "last", "random"),
    ranks: int | None = None,
    seed: int = 0,
) -> pd.DataFrame:
    """Coefficients at the last token of triggers from which one token is removed.

    Special tokens such as <bos> are not removed. A trigger of one token has no row.

    Args:
        model: The triggers' model.
        triggers: Result of `find_triggers`, for a causal model.
        where: "first" token, "last" (the trigger token), "random", or "each" in turn.
        ranks: Number of triggers per neuron, best first; None means all.
        seed: Seed of random tokens.

    Returns:
        One row per trigger and removal: memory, layer, neuron, rank, where, removed (position), tokens (of the prefix),
        coefficient, without (the coefficient after it), change (`without / coefficient - 1`).

    Raises:
        InputError: for triggers of another model or of an encoder, which also reads the text after them, or another `where`.
    """
    known = identify(model)
    refuse_other_model("triggers", triggers.fingerprint, known)
    if not triggers.causal:
        raise InputError(
            "the triggers are of an encoder, which also reads the text after them: expected a causal model."
        )
    random = np.random.default_rng(whole_number(seed, "seed", at_least=0))
    if isinstance(where, str) or not several(where) or not set(several(where)) <= set(get_args(Removed)):
        alone = f" Pass one as a list, [{where!r}]." if isinstance(where, str) else ""
        raise InputError(f"where={brief(where)}: expected some of {', '.join(get_args(Removed))}.{alone}")
    shortened: list[tuple[int, Int[np.ndarray, " pos"]]] = []
    columns: dict[str, list[Any]] = {name: [] for name in ("rank", "where", "removed", "tokens", "coefficient")}
    for row, rank in triggers.cells(ranks):
        prefix, before = triggers.prefix(row, rank), float(triggers.coefficient[row, rank])
        removable = np.flatnonzero(can_be_triggers(known, prefix, 0)).tolist()
        drawn = int(random.choice(removable))  # always drawn, so that the same seed gives the same tokens
        places = {"first": removable[:1], "last": [len(prefix) - 1], "random": [drawn], "each": removable}
        for kind, place in ((cut, at) for cut in where for at in places[cut] if len(removable) > 1):
            shortened.append((row, np.delete(prefix, place)))
            for name, value in zip(columns, (rank + 1, kind, place, len(prefix), before), strict=True):
                columns[name].append(value)
    without = np.array(_coefficients_of(known, triggers, shortened))
    change = without / np.array(columns["coefficient"]) - 1
    return named_table(
        [triggers.memories[row] for row, _ in shortened], columns | {"without": without, "change": change}
    )


def _coefficients_of(
    model: Model, triggers: Triggers, shortened: Sequence[tuple[int, Int[np.ndarray, " pos"]]]
) -> list[float]:
    """Coefficient of each prefix's neuron at its last token; equally long prefixes run together."""
    cells = select_memories(model, triggers.memories)
    values = [float("nan")] * len(shortened)
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, (_, ids) in enumerate(shortened):
        by_length[len(ids)].append(number)
    for numbers in by_length.values():
        for start in range(0, len(numbers), _AT_ONCE):
            chosen = numbers[start : start + _AT_ONCE]
            tokens = torch.stack([torch.as_tensor(shortened[number][1], dtype=torch.long) for number in chosen])
            layers = sorted({cells.names[shortened[number][0]].layer for number in chosen})
            run = open_run(model, tokens, layers=layers, queries=-1)
            for number, found in zip(chosen, run.by_layer(lambda record, _: coefficients(record)[0]), strict=True):
                row = shortened[number][0]
                values[number] = float(found[cells.names[row].layer][int(cells.numbers[row])])
    return values


@strict
def ablate_neurons(
    model: Any, memories: Memories, *, to: To = 0.0, positions: Sequence[SupportsIndex] | SupportsIndex | None = None
) -> list[RunHook]:
    """Hooks that set neurons' coefficients, for `run_with_hooks` and for every `fwd_hooks` of this package.

    The feed-forward's output changes by `(to - m_i) v_i`, and nothing else in the layer changes.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder.
        memories: Names of neurons such as "12:305".
        to: The new coefficient, for all or by neuron.
        positions: Positions, negative ones from the end; None means all.

    Raises:
        InputError: for neurons that do not exist, or that `to` does not have.
        UnsupportedModelError: for neurons of experts.
    """
    known = identify(model)
    cells = select_memories(known, named_memories(memories))
    given = to if isinstance(to, Mapping) else dict.fromkeys(cells.names, to)
    missing = [str(name) for name in cells.names if name not in given]
    if missing:
        raise InputError(f"to has no value for memory {', '.join(missing)}: expected one for each, by its MemoryName.")
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
    """Mean coefficients of neurons over the tokens of a corpus that are not special, for mean ablation.

    Args:
        model: As in `find_triggers`.
        texts: Texts, or tensors of token ids [pos].
        memories: Names of neurons such as "12:305".
        skip_first: Number of tokens at the start of every text that do not count.

    Raises:
        InputError: for neurons, texts or a number of tokens that cannot be used.
    """
    known = identify(model)
    cells = select_memories(known, memories)
    sums, counted = np.zeros(len(cells.names)), np.zeros(len(cells.names))

    def add(_: int, rows: Any, positions: Any, own: Any) -> None:
        sums[rows] += own.astype(np.float64).sum(axis=0)
        counted[rows] += len(positions)

    read_corpus(known, texts, cells, skip_first, add)
    if not counted.all():
        raise InputError("texts has no token that is not special: expected at least one.")
    return dict(zip(cells.names, (sums / counted).tolist(), strict=True))


@strict
@torch.no_grad()
def neuron_ablation_effects(
    model: Any, triggers: Triggers, values: ValueTokens, *, to: To = 0.0, ranks: int | None = None
) -> pd.DataFrame:
    """Change of the model's next-token prediction when a neuron is ablated at the last token of its triggers.

    Args:
        model: A causal language model with dense feed-forwards.
        triggers: Result of `find_triggers`.
        values: Result of `value_tokens` for the same neurons and sign; its top tokens are measured.
        to: The new coefficient.
        ranks: Number of triggers per neuron, best first; None means all.

    Returns:
        One row per trigger: memory, layer, neuron, rank, coefficient, top_logit (change of the logit of the value's top token,
        minus the mean of all logits), next_log_probability (change for the next token; NaN without one), kl (divergence from the
        clean prediction, nats). Changes are clean minus ablated.

    Raises:
        InputError: if triggers and values differ in neurons, model or sign, or are of an encoder.
        UnsupportedModelError: for neurons of experts.
    """
    values, known = of_same_memories(triggers, values), identify(model)
    refuse_other_model("triggers", triggers.fingerprint, known)
    refuse_other_model("values", values.fingerprint, known)
    following, cells, rows = triggers.next_ids, triggers.cells(ranks), []
    for row, rank in cells:
        hooks = ablate_neurons(known, triggers.memories[row], to=to, positions=-1)
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
