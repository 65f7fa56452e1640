"""What a study sees of one sequence: tokens, maps, and the model's own vectors.

The model runs when a study first asks for maps or vectors, once for a batch; what it gave serves every study of
the run.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.inputs import padding_token
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import kept_records, open_run
from tl_ffblock.corpus.texts.tokenised import TokenisedText
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.map_tables import MapTables
from tl_ffblock.results.maps import ContributionMaps


@runtime_checkable
class Source(Protocol):
    """Gives maps and records of sequences by their place in a batch."""

    def maps(self, index: int) -> ContributionMaps:
        """Give the maps of one sequence."""

    def records(self, index: int) -> tuple[LayerRecord, ...]:
        """Give every layer of one sequence."""


@dataclass(frozen=True)
class Observation:
    """One sequence of a run, as a study sees it."""

    model: Model
    tokenised: TokenisedText
    source: Source
    index: int
    """Place in the batch."""

    @property
    def tokens(self) -> Int[Tensor, " pos"]:
        """What the model reads."""
        return torch.as_tensor(self.tokenised.ids)

    @property
    def maps(self) -> ContributionMaps:
        """Of the scopes that the run's studies ask for."""
        return self.source.maps(self.index)

    @cached_property
    def records(self) -> tuple[LayerRecord, ...]:
        """Every layer, this sequence alone."""
        return self.source.records(self.index)


class ObservedBatch:
    """Sequences that run through the model together, when they are first asked for."""

    def __init__(self, model: Model, texts: Sequence[TokenisedText], scopes: tuple[str, ...]) -> None:
        self._scopes = scopes
        tokens, mask = _padded(model, texts)
        self._run = open_run(model, tokens, attention_mask=mask)

    def maps(self, index: int) -> ContributionMaps:
        """Give the maps of one sequence."""
        return self._maps[index]

    def records(self, index: int) -> tuple[LayerRecord, ...]:
        """Give every layer of one sequence, without padding."""
        return tuple(self._records[index][layer] for layer in self._run.layers)

    @cached_property
    def _records(self) -> tuple[dict[int, LayerRecord], ...]:
        return kept_records(self._run)

    @cached_property
    def _maps(self) -> list[ContributionMaps]:
        tables = MapTables(self._run, self._scopes)
        with torch.no_grad():
            for layer in self._run.layers:
                tables({number: records[layer] for number, records in enumerate(self._records)})
        return tables.results()


def observe(model: Model, texts: Sequence[TokenisedText], scopes: tuple[str, ...]) -> Iterator[Observation]:
    """Observe a batch, sequence by sequence; `scopes` are those of the maps that may be asked for."""
    batch = ObservedBatch(model, texts, scopes)
    for index, tokenised in enumerate(texts):
        yield Observation(model, tokenised, batch, index)


def _padded(
    model: Model, texts: Sequence[TokenisedText]
) -> tuple[Int[Tensor, "batch pos"], Int[Tensor, "batch pos"] | None]:
    """Token ids filled up to the longest, and the mask of real ones where something was filled up."""
    longest = max(len(tokenised.ids) for tokenised in texts)
    tokens = torch.full((len(texts), longest), padding_token(model), dtype=torch.long)
    mask = torch.zeros_like(tokens)
    for row, tokenised in enumerate(texts):
        tokens[row, : len(tokenised.ids)] = torch.as_tensor(tokenised.ids)
        mask[row, : len(tokenised.ids)] = 1
    return tokens, None if bool(mask.all()) else mask
