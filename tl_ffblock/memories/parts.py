"""Which token turned a memory on: its coefficient as a sum over source tokens and a bias."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, SupportsIndex, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.runs import DEFAULTS, CallOptions, Ids, open_run
from tl_ffblock.errors import CompletenessError, InputError
from tl_ffblock.layer.neurons import coefficient_parts, coefficients
from tl_ffblock.layer.parts import CANCELLED
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.memories.names import Memories, MemoryName, Named, row_of, select_memories
from tl_ffblock.signatures import spelled_out

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class CoefficientParts:
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

    @property
    def error(self) -> Float[Tensor, " memory"]:
        """What the sum misses of the coefficient, relative to the largest of it and its summands.

        Below a thousandth of the layer's largest coefficient only the activation function's own rounding is left, and
        that thousandth stands for it.
        """
        summands = torch.cat(
            [self.parts, self.bias[:, None], self.remainder[:, None], self.coefficient[:, None]], dim=1
        )
        largest = torch.maximum(summands.abs().amax(dim=1), CANCELLED * self.largest)
        gap = (summands[:, :-1].sum(dim=1) - self.coefficient).abs()
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
    model: Any, input: str | Ids, memories: Memories, *, query: SupportsIndex = -1, **options: Unpack[CallOptions]
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
    if memories is None:
        raise InputError("memories=None: name the memories, such as '12:305'.")
    known = identify(model)
    cells = select_memories(known, memories)
    run = open_run(known, input, layers=cells.layers, queries=[int(query)], **options)
    if not run.single:
        raise InputError("input is several sequences; parts of coefficients are of one at a time.")
    found: list[tuple[Tensor, ...]] = []

    def receive(records: Mapping[int, LayerRecord]) -> None:
        record = records[0]
        neurons = cells.numbers[cells.rows(record.layer)].tolist()
        parts = coefficient_parts(record, run.settings, neurons)
        remainder = torch.zeros_like(parts.bias) if parts.remainder is None else parts.remainder
        own = coefficients(record)[0]
        largest = own.abs().amax().expand(len(neurons))
        found.append((parts.tokens[0].T, parts.bias[0], remainder[0], own[neurons], largest))

    run.deliver(receive)
    sequence = run.sequences[0]
    result = CoefficientParts(
        cells.names,
        sequence.labels,
        sequence.queries[0],
        *(torch.cat(of_layers).cpu() for of_layers in zip(*found, strict=True)),
    )
    worst = int(result.error.argmax())
    if not float(result.error[worst]) <= run.settings.rtol:
        raise CompletenessError(
            f"{run.model.name}, memory {cells.names[worst]}: parts and bias miss its coefficient by "
            f"{float(result.error[worst]):.1e} of the largest of them (tolerance {run.settings.rtol:.0e}) at position "
            f"{result.position}."
        )
    return result
