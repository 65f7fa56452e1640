"""Sequences of one layer that are worked on together: equally long, with the same queries, one below the other."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from tl_ffblock.layer.batches import BatchRecords
from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.settings import Settings


@dataclass(frozen=True)
class Stack:
    """Such sequences as one record (`LayerRecord.below_each_other`)."""

    numbers: tuple[int, ...]
    """Which sequences they are, the first above."""
    record: LayerRecord

    @property
    def n_sequences(self) -> int:
        """How many sequences."""
        return len(self.numbers)


def stacks(records: Mapping[int, LayerRecord], buffers: Buffers, settings: Settings) -> Iterator[Stack]:
    """A layer's records in stacks that fit the budget.

    Edited records stay alone, and those of a mixture of experts, whose queries are served by different experts.

    Args:
        records: By number of the sequence; of a batch they are not cut apart first where that can be helped.
        buffers: Their budget says how much is worked on at a time.
        settings: Of the decomposition; captum takes sequences one by one.
    """
    if isinstance(records, BatchRecords) and records.whole and not _stays_alone(records.batch, settings):
        for numbers in _fitting(records.numbers, records.batch, buffers, settings):
            first = records.numbers.index(numbers[0])
            yield Stack(numbers, records.batch.flattened(slice(first, first + len(numbers))))
        return
    by_form: dict[Hashable, list[int]] = {}
    for number, record in records.items():
        form = (id(record.block), len(record.resid_pre), *record.queries.tolist())
        by_form.setdefault(number if _stays_alone(record, settings) else form, []).append(number)
    for alike in by_form.values():
        for numbers in _fitting(alike, records[alike[0]], buffers, settings):
            yield Stack(numbers, LayerRecord.below_each_other([records[number] for number in numbers]))


def _stays_alone(record: LayerRecord, settings: Settings) -> bool:
    return record.edited or settings.method == "captum" or not isinstance(record.block.feed_forward, FeedForward)


def _fitting(
    numbers: Sequence[int], record: LayerRecord, buffers: Buffers, settings: Settings
) -> Iterator[tuple[int, ...]]:
    """As many at a time as the budget has room for, of sequences that are like the record's."""
    device: torch.device = record.block.attention.w_o.device
    at_once = 1
    if not _stays_alone(record, settings):
        at_once = buffers.budget(device).sequences(record, settings.chunk_bytes)
    for start in range(0, len(numbers), at_once):
        yield tuple(numbers[start : start + at_once])
