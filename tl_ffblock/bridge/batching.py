"""Sequences -> batches that run together: of equal length, or in causal models of nearly equal length."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from tl_ffblock.bridge.model import Model

BATCH_BYTES = {"cpu": 64 * 2**20, "cuda": 2**30}
"""What one layer of texts that run together may occupy, by device; one text may always have more."""


LONGEST_JOINED = 256
"""Longer texts stay as long as they are: a batch is little beside their tokens, and some positions depend on a run's length."""
APPENDED = 8
"""How many tokens may be appended to save a batch: one costs as much as 9 tokens more on a model of GPT-2-small size, as 33 on SmolLM2."""


@dataclass(frozen=True)
class Batch:
    """Sequences that run together."""

    tokens: Int[Tensor, "batch pos"]
    mask: Bool[Tensor, "batch pos"] | None = None
    """True at real tokens; None where there is no padding."""
    token_types: Int[Tensor, "batch pos"] | None = None
    """Segment of each token, for BERT; None means 0 everywhere."""
    numbers: tuple[int, ...] = ()
    """Which sequences of the input these are."""
    lengths: tuple[int, ...] = ()
    """How many tokens of every sequence are its own, where shorter ones were lengthened (`_lengthened`); empty where none was."""

    def real(self, index: int) -> Int[Tensor, " pos"] | None:
        """The unpadded positions of a sequence; None means all."""
        if self.lengths and self.lengths[index] < self.tokens.shape[1]:
            return torch.arange(self.lengths[index])
        return None if self.mask is None else self.mask[index].nonzero()[:, 0]

    def sequence(self, index: int) -> Int[Tensor, " pos"]:
        """The real tokens of a sequence."""
        real = self.real(index)
        return self.tokens[index] if real is None else self.tokens[index][real]


def in_batches(model: Model, sequences: Sequence[Int[Tensor, "1 _"]], *, together: bool, unequal: bool) -> list[Batch]:
    """Sequences of equal length in batches that fit the budget, the length seen first comes first.

    With `unequal` also those of nearly equal length, the shortest first.
    """
    by_length: dict[int, list[int]] = {}
    for number, tokens in enumerate(sequences):
        by_length.setdefault(tokens.shape[1] if together else -number, []).append(number)
    batches = []
    for alike in _neighbours(by_length) if unequal else by_length.values():
        at_once = _fitting(model, max(sequences[number].shape[1] for number in alike)) if together else 1
        for start in range(0, len(alike), at_once):
            numbers = tuple(alike[start : start + at_once])
            batches.append(_lengthened([sequences[number][0] for number in numbers], numbers))
    return batches


def _neighbours(by_length: Mapping[int, Sequence[int]]) -> Iterator[list[int]]:
    """Numbers of sequences whose lengths are joined, from the shortest on, where `APPENDED` allows it."""
    joined: list[int] = []
    longest = 0
    for length in sorted(by_length):
        if joined and (length > LONGEST_JOINED or len(joined) * (length - longest) > APPENDED):
            yield joined
            joined = []
        joined, longest = [*joined, *by_length[length]], length
    yield joined


def _lengthened(sequences: Sequence[Int[Tensor, " _"]], numbers: tuple[int, ...]) -> Batch:
    """Sequences in one batch, each as long as the longest by its last token once more, which a causal model's tokens do not see."""
    lengths = tuple(len(tokens) for tokens in sequences)
    longest = max(lengths)
    rows = [torch.cat([tokens, tokens[-1:].expand(longest - len(tokens))]) for tokens in sequences]
    return Batch(torch.stack(rows), numbers=numbers, lengths=lengths if min(lengths) < longest else ())


def _fitting(model: Model, length: int) -> int:
    """How many sequences of a length fit the budget: their captured layer and what the model needs to make it."""
    cfg, weights = model.hooked.cfg, next(model.hooked.parameters())
    d_model, n_heads = int(cfg.d_model), int(cfg.n_heads)
    d_mlp = int(getattr(cfg, "d_mlp", None) or 4 * d_model)
    numbers_a_token = 4 * d_mlp + 16 * d_model + 2 * n_heads * length
    budget = BATCH_BYTES.get(weights.device.type, BATCH_BYTES["cpu"])
    return max(1, budget // (length * numbers_a_token * weights.element_size()))
