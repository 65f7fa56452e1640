"""Which texts of a list share a forward pass, by their lengths."""

import random
from collections.abc import Hashable
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock.bridge.inputs import APPENDED, LONGEST_JOINED, in_batches
from tl_ffblock.bridge.model import identify


@pytest.mark.parametrize("seed", range(5))
def test_texts_keep_their_tokens_and_a_saved_batch_costs_at_most_what_is_allowed(seed: int) -> None:
    """Every text once, its tokens first; a batch of unequal texts appends no more to a length than a batch is worth."""
    model = identify(tiny.bridge("gpt2"))
    draw = random.Random(seed)
    lengths = [draw.choice((3, 4, 5, 6, 9, 20, 21, LONGEST_JOINED, LONGEST_JOINED + 1)) for _ in range(20)]
    texts = [torch.randint(0, 50, (1, length)) for length in lengths]
    batches = in_batches(model, texts, together=True, unequal=True)
    assert sorted(number for batch in batches for number in batch.numbers) == list(range(20))
    for batch in batches:
        for row, number in enumerate(batch.numbers):
            assert torch.equal(batch.sequence(row), texts[number][0])
        own = sorted({lengths[number] for number in batch.numbers})
        for shorter, longer in pairwise(own):
            before = sum(lengths[number] <= shorter for number in batch.numbers)
            assert before * (longer - shorter) <= APPENDED
        assert len(own) == 1 or own[-1] <= LONGEST_JOINED


def test_unequal_texts_are_not_joined_unasked() -> None:
    """Batches of equal length alone, in the order in which lengths come; one by one where somebody listens."""
    model = identify(tiny.bridge("gpt2"))
    texts = [torch.zeros(1, length, dtype=torch.long) for length in (5, 4, 5)]
    together = in_batches(model, texts, together=True, unequal=False)
    assert [batch.numbers for batch in together] == [(0, 2), (1,)]
    alone = in_batches(model, texts, together=False, unequal=False)
    assert [batch.numbers for batch in alone] == [(0,), (1,), (2,)]


def test_layers_may_come_with_other_sequences_together() -> None:
    """Every sequence gets its own rows of all layers, whichever it ran with in each of them."""
    from tl_ffblock.contributions import LayerTables

    def table(layer: int, *numbers: int) -> dict[Hashable, Tensor]:
        return {"map": torch.tensor([[100.0 * layer + number] for number in numbers])}

    tables = LayerTables((2, 5, 7))
    tables.keep(2, (0, 1, 2), table(2, 0, 1, 2))
    tables.keep(5, (0, 1), table(5, 0, 1))
    tables.keep(5, (2,), table(5, 2))
    tables.keep(7, (2, 1, 0), table(7, 2, 1, 0))
    for number in range(3):
        expected = [[100.0 * layer + number] for layer in (2, 5, 7)]
        assert tables.of_sequence(number)["map"].tolist() == expected
