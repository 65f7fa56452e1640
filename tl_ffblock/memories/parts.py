"""Which token turned a memory on, and what memories contribute to a target: tables of memories by token."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, Unpack

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.attribution import Attribution
from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Run, open_run
from tl_ffblock.bridge.settings import eps_of
from tl_ffblock.errors import CompletenessError, InputError
from tl_ffblock.layer.linear import CANCELLED
from tl_ffblock.layer.neurons import coefficient_parts, coefficient_rounding, coefficients
from tl_ffblock.layer.positions import layer_number, one_position, whole_number
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.names import (
    Cells,
    Memories,
    MemoryName,
    MemoryTable,
    Named,
    named_memories,
    named_table,
    refuse_twice,
    select_memories,
)
from tl_ffblock.signatures import spelled_out, strict


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CoefficientParts(MemoryTable):
    """Coefficients of memories at one position, by source token.

    Law: `parts.sum(1) + bias + remainder = coefficient`; checked where they are made.
    """

    tokens: tuple[str, ...]
    position: int
    parts: Float[Tensor, "memory key"]
    """What each source token contributes, signed, in units of the coefficient."""
    bias: Float[Tensor, " memory"]
    """What no token contributes: biases of the layer, and what the activation gives at zero."""
    remainder: Float[Tensor, " memory"]
    """The effect of edits by the caller's hooks inside the block; else zero."""
    coefficient: Float[Tensor, " memory"]
    """The model's own."""
    largest: Float[Tensor, " memory"]
    """The largest `|m_i|` of any memory of the same layer there, by which a coefficient that is all but zero is measured."""
    rounding: Float[Tensor, " memory"]
    """How far the activation function's own rounding may put the model's coefficient from an exact one."""

    @property
    def error(self) -> Float[Tensor, " memory"]:
        """What the sum misses of the coefficient beyond `rounding`, relative to the largest of it and its terms.

        Where these are below a thousandth of the layer's largest coefficient they have cancelled, and that thousandth is
        used instead.
        """
        terms = torch.cat([self.parts, self.bias[:, None], self.remainder[:, None], self.coefficient[:, None]], dim=1)
        largest = torch.maximum(terms.abs().amax(dim=1), CANCELLED * self.largest)
        gap = ((terms[:, :-1].sum(dim=1) - self.coefficient).abs() - self.rounding).clamp(min=0)
        return gap / torch.where(largest == 0, 1, largest)

    def of(self, memory: Named) -> Float[Tensor, " key"]:
        """The parts of one memory.

        Raises:
            InputError: if it is not among these.
        """
        return self.parts[self.row_of(memory)]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per memory and source token, and one for the bias (key -1)."""
        values = torch.cat([self.parts, self.bias[:, None]], dim=1)
        rows, places = np.indices(tuple(values.shape)).reshape(2, -1)
        keys, tokens = np.array([*range(len(self.tokens)), -1]), np.array([*self.tokens, "bias"], dtype=object)
        names = [self.memories[row] for row in rows]
        return named_table(names, {"key": keys[places], "token": tokens[places], "value": values.double().flatten()})

    def row_in_words(self, row: int) -> str:
        """The coefficient, and the token with the largest part."""
        key = int(self.parts[row].abs().argmax())
        return f"{float(self.coefficient[row]):.4g} at {self.position}, {float(self.parts[row, key]):+.4g} from {self.tokens[key]!r}@{key}"


@spelled_out(CallOptions, DEFAULTS)
def token_parts(
    model: Any,
    input: str | Ids | Int[Tensor, " pos"],
    memories: Memories,
    *,
    query: SupportsIndex = -1,
    **options: Unpack[CallOptions],
) -> CoefficientParts:
    """The part of each source token in memories' coefficients at one position.

    Integrated Gradients through the activation in closed form, as in `contribution_maps` (eq. 12-14 of Kobayashi et al.
    2024); source tokens are those of the layer's own input.

    Args:
        model: As in `contribution_maps`.
        input: A text, or token ids [pos].
        memories: Names such as "12:305", of one layer or several.
        query: The position, negative from the end.
        **options: As in `contribution_maps`: attention_mask, token_type_ids, fwd_hooks, cache, method, n_steps,
            value_bias, rtol, precision.

    Raises:
        InputError: for input, memories or options that cannot be used.
        CompletenessError: if parts and bias do not sum to a coefficient.
    """
    known = identify(model)
    cells = select_memories(known, named_memories(memories))
    run = open_run(known, input, layers=cells.layers, **options)
    run.settings.refuse_rounding("parts of coefficients")
    if not run.single:
        raise InputError("input is several sequences; parts of coefficients are of one at a time.")
    (sequence,) = run.sequences
    at = one_position(query, len(sequence.tokens), "query")
    run = replace(run, sequences=(replace(sequence, queries=(at,)),))
    (by_layer,) = run.by_layer(lambda record, _: _columns(run, record, cells))
    columns = [torch.cat(of_layers, dim=1)[0] for of_layers in zip(*by_layer.values(), strict=True)]
    return _certified(run, cells, at, [cells.in_order(column) for column in columns])


def parts_at(run: Run, record: LayerRecord, cells: Cells, positions: Sequence[int]) -> tuple[CoefficientParts, ...]:
    """The same at some positions of a run of one sequence, from its record of the layer that the memories are in.

    Args:
        run: The run, of all queries.
        record: Its record of that layer.
        cells: Memories of that layer alone.
        positions: Where.

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
    rounding = coefficient_rounding(record, eps_of(run.model, run.settings))[:, neurons]
    return parts.tokens.transpose(1, 2), parts.bias, remainder, own[:, neurons], largest, rounding


def _certified(run: Run, cells: Cells, position: int, columns: Sequence[Tensor]) -> CoefficientParts:
    """The parts at one position, refused where they miss a coefficient."""
    result = CoefficientParts(cells.names, run.sequences[0].labels, position, *(column.cpu() for column in columns))
    worst = int(result.error.argmax())
    if not float(result.error[worst]) <= run.settings.rtol:
        raise CompletenessError(
            f"{run.model.name}, memory {cells.names[worst]}: parts and bias miss its coefficient by "
            f"{float(result.error[worst]):.1e} of the largest of them (tolerance {run.settings.rtol:.0e}) at position "
            f"{position}."
        )
    return result


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CarriedShares(MemoryTable):
    """What memories contribute to a target at every position, signed, in the target's units (logits)."""

    tokens: tuple[str, ...]
    target: str
    """What was attributed, in words."""
    shares: Float[Tensor, "memory pos"]

    def of(self, memory: Named) -> Float[Tensor, " pos"]:
        """The shares of one memory.

        Raises:
            InputError: if it is not among these.
        """
        return self.shares[self.row_of(memory)]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per memory and position."""
        rows, at = np.indices(tuple(self.shares.shape)).reshape(2, -1)
        names, tokens = [self.memories[row] for row in rows], np.array(self.tokens, dtype=object)
        return named_table(names, {"position": at, "token": tokens[at], "value": self.shares.double().flatten()})

    def row_in_words(self, row: int) -> str:
        """The sum over positions, and the position with the largest share."""
        at = int(self.shares[row].abs().argmax())
        sizes = f"{float(self.shares[row].sum()):+.4g} to {self.target}, {float(self.shares[row, at]):+.4g}"
        return f"{sizes} at {self.tokens[at]!r}@{at}"


@strict
def carried(attribution: Attribution, memories: Memories) -> CarriedShares:
    """What memories contribute to the target of an attribution: `m_i <v_i, df/d(output)>` at each position, with local rules.

    Law: over all memories of a layer, with its output bias, they sum to the share of what its feed-forward writes.

    Args:
        attribution: From `ffb.attribute`, with "neurons" among its parts, as it has by default.
        memories: Names such as "12:305", of dense feed-forwards.

    Raises:
        InputError: for memories that are not named, or that do not exist.
        ScopeKeyError: if the attribution has no neurons, or those of a layer are experts'.
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
    """The memories that contribute most to a target, of all layers, by the size of their share at one position.

    Args:
        attribution: As in `carried`.
        k: How many.

    Returns:
        One row per memory and position: memory, layer, neuron, position, token, value.

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
