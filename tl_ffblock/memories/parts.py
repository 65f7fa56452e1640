"""Which token turned a memory on: its coefficient as a sum over source tokens and a bias."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeAlias, Unpack

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, Run, open_run
from tl_ffblock.errors import CompletenessError, InputError
from tl_ffblock.layer.linear import CANCELLED
from tl_ffblock.layer.neurons import coefficient_parts, coefficient_rounding, coefficients
from tl_ffblock.layer.positions import one_position
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.names import Cells, Memories, MemoryName, Named, named_memories, row_of, select_memories
from tl_ffblock.result import Values
from tl_ffblock.signatures import spelled_out, strict

if TYPE_CHECKING:
    import pandas

_Columns: TypeAlias = tuple[Tensor, ...]


@strict
@dataclass(frozen=True, eq=False)
class CoefficientParts(Values):
    """Coefficients of memories at one position, by source token.

    Law: `parts.sum(1) + bias + remainder = coefficient`; checked where they are made.
    """

    memories: tuple[MemoryName, ...]
    tokens: tuple[str, ...]
    position: int
    parts: Float[Tensor, "memory key"]
    """What each source token brings, signed, in units of the coefficient."""
    bias: Float[Tensor, " memory"]
    """What no token brings: biases on the way, and what the activation gives at zero."""
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
        """What the sum misses of the coefficient beyond `rounding`, relative to the largest of it and its summands.

        Where these are below a thousandth of the layer's largest coefficient they have cancelled, and that thousandth stands
        for them.
        """
        summands = torch.cat(
            [self.parts, self.bias[:, None], self.remainder[:, None], self.coefficient[:, None]], dim=1
        )
        largest = torch.maximum(summands.abs().amax(dim=1), CANCELLED * self.largest)
        gap = ((summands[:, :-1].sum(dim=1) - self.coefficient).abs() - self.rounding).clamp(min=0)
        return gap / torch.where(largest == 0, 1, largest)

    def of(self, memory: Named) -> Float[Tensor, " key"]:
        """The parts of one memory.

        Raises:
            InputError: if it is not among these.
        """
        return self.parts[row_of(memory, self.memories)]

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a memory and source token, and one for the bias (key -1)."""
        import pandas as pd

        rows = []
        for name, parts, bias in zip(self.memories, self.parts.tolist(), self.bias.tolist(), strict=True):
            cells = [*zip(range(len(parts)), self.tokens, parts, strict=True), (-1, "bias", bias)]
            rows += [
                dict(memory=str(name), layer=name.layer, key=key, token=token, part=part) for key, token, part in cells
            ]
        return pd.DataFrame(rows)


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


def _columns(run: Run, record: LayerRecord, cells: Cells) -> _Columns:
    """Parts [query memory key], and bias, remainder, coefficient, the layer's largest one, and rounding [query memory]."""
    neurons = cells.numbers[cells.rows(record.layer)].tolist()
    parts, own = coefficient_parts(record, run.settings, neurons), coefficients(record)
    remainder = torch.zeros_like(parts.bias) if parts.remainder is None else parts.remainder
    largest = own.abs().amax(dim=1, keepdim=True).expand(-1, len(neurons))
    rounding = coefficient_rounding(record, run.model.eps(run.settings.dtype))[:, neurons]
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
