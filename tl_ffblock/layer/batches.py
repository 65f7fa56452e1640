"""One layer of sequences that ran together: each alone when somebody asks, or as they lie in the batch."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.records import LayerRecord


class BatchRecords(Mapping[int, LayerRecord]):
    """A layer's record of every sequence of a batch, by number of the sequence; one is cut out when it is asked for.

    Args:
        batch: The layer's record with its batch axis.
        numbers: Which sequences of the input these are.
        real: Their unpadded positions, ascending; None means all.
        asked: The positions that rows are wanted of, ascending, counted within each sequence.
        lengthened: Whether what is not real stands behind each sequence, unseen by it, and was run like the rest.
    """

    def __init__(
        self,
        batch: LayerRecord,
        numbers: Sequence[int],
        real: Sequence[Int[Tensor, " _pos"] | None],
        asked: Sequence[Sequence[int]],
        *,
        lengthened: bool = False,
    ) -> None:
        self.batch = batch
        self.numbers = tuple(numbers)
        self._real = real
        self._asked = asked
        self._lengthened = lengthened
        self._cut: dict[int, LayerRecord] = {}

    @cached_property
    def alike(self) -> bool:
        """Whether the batch is what was asked for as it is: no padding, and of every sequence the same rows."""
        rows = self.batch.queries.tolist()
        return all(real is None for real in self._real) and all(
            list(asked) == captured for asked, captured in zip(self._asked, rows, strict=True)
        )

    @cached_property
    def whole(self) -> bool:
        """Whether the batch is what was asked for, but for rows and keys behind a sequence's last: decomposed, they can be cut off."""
        if not self._lengthened:
            return self.alike
        every_row = list(range(self.batch.resid_pre.shape[1]))
        return all(
            list(asked) == captured[: len(asked)] and captured == every_row
            for asked, captured in zip(self._asked, self.batch.queries.tolist(), strict=True)
        )

    def __getitem__(self, number: int) -> LayerRecord:
        """The record of one sequence: its real tokens, the rows asked for.

        Raises:
            InputError: if a row was not captured.
        """
        if number not in self.numbers:
            raise KeyError(number)
        if number not in self._cut:
            self._cut[number] = self._of_sequence(self.numbers.index(number))
        return self._cut[number]

    def _of_sequence(self, index: int) -> LayerRecord:
        record = self.batch.sequence(index, self._real[index])
        asked = list(self._asked[index])
        if record.queries.tolist() == asked:
            return record
        rows = record.rows(torch.isin(record.queries, torch.tensor(asked, device=record.queries.device)))
        if len(rows.queries) != len(asked):
            raise InputError(
                f"cache: layer {record.layer} was captured at queries {self.batch.queries[index].tolist()}; asked for are "
                f"{asked}. Capture them too, or leave cache out."
            )
        return rows

    def __iter__(self) -> Iterator[int]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)
