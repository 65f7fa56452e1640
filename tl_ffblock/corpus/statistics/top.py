"""The best items of a stream for each of several cells, such as layers."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int


@dataclass(frozen=True)
class Best:
    """The items of one cell, best first."""

    scores: Float[np.ndarray, " item"]
    keys: Int[np.ndarray, " item"]
    columns: Mapping[str, np.ndarray]
    """What was offered with them, a row an item."""


class Top:
    """Keeps the `size` highest positive scores of every cell; ties go to the smaller key."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._cells: list[Best] = []

    def offer(
        self,
        scores: Float[np.ndarray, "item cell"],
        keys: Int[np.ndarray, " item"],
        columns: Mapping[str, np.ndarray],
    ) -> None:
        """Take those items that are better than what is kept.

        Args:
            scores: Of each item in each cell.
            keys: Distinct names of the items, over all offers.
            columns: What is kept with the items, a row an item.
        """
        offered = [self._best(Best(column, keys, columns)) for column in scores.T]
        if self._cells:
            offered = [self._best(_joined(kept, new)) for kept, new in zip(self._cells, offered, strict=True)]
        self._cells = offered

    @property
    def cells(self) -> tuple[Best, ...]:
        """The best of every cell; none before the first offer."""
        return tuple(self._cells)

    def _best(self, items: Best) -> Best:
        order = np.lexsort((items.keys, -items.scores))[: self._size]
        order = order[items.scores[order] > 0]
        return Best(items.scores[order], items.keys[order], {name: rows[order] for name, rows in items.columns.items()})


def _joined(first: Best, second: Best) -> Best:
    columns = {name: np.concatenate([first.columns[name], second.columns[name]]) for name in first.columns}
    return Best(np.concatenate([first.scores, second.scores]), np.concatenate([first.keys, second.keys]), columns)
