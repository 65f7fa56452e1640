"""What a run knows of each of its sequences."""

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor


@dataclass(frozen=True)
class RunSequence:
    """One sequence of a run, without padding."""

    tokens: Int[Tensor, " pos"]
    labels: tuple[str, ...]
    """The tokens as text."""
    queries: tuple[int, ...]
    """Positions of the rows, as they were asked for: in that order, repeated where they were."""

    @property
    def ascending(self) -> list[int]:
        """Each position once, ascending, as records have them."""
        return sorted(set(self.queries))

    @property
    def order(self) -> Int[Tensor, " query"]:
        """Row of a record for each position asked for."""
        rows = {position: row for row, position in enumerate(self.ascending)}
        return torch.tensor([rows[position] for position in self.queries])
