"""The best positions of a stream for each memory: what is kept does not grow with the corpus.

Coefficients of one sign only are kept, as magnitudes; a row is filled up with zeros at sequence -1, which are no
triggers. Of equal magnitudes the earlier sequence comes first, then the earlier position, so that the order in which
a corpus is read, cut or merged changes nothing.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float, Int

Per: TypeAlias = Literal["sentence", "token"]


@dataclass(frozen=True)
class BestPositions:
    """The largest magnitudes of each memory, largest first, and where they were."""

    magnitude: Float[np.ndarray, "memory rank"]
    sequence: Int[np.ndarray, "memory rank"]
    position: Int[np.ndarray, "memory rank"]

    @classmethod
    def none(cls, n_memories: int, size: int) -> "BestPositions":
        """Before anything was read."""
        shape = (n_memories, size)
        return cls(
            np.zeros(shape, dtype=np.float32), np.full(shape, -1, dtype=np.int32), np.full(shape, -1, dtype=np.int32)
        )

    @classmethod
    def of_sequence(
        cls,
        magnitudes: Float[np.ndarray, "token memory"],
        positions: Int[np.ndarray, " token"],
        sequence: int,
        size: int,
        per: Per,
    ) -> "BestPositions":
        """Of one sequence: its best position, or its `size` best ones.

        Args:
            magnitudes: Of the tokens that may be triggers; not positive where a memory did not fire.
            positions: Of these tokens in the sequence, ascending.
            sequence: Number of the sequence.
            size: Ranks to keep.
            per: Whether a sequence may give one trigger or several.
        """
        size = 1 if per == "sentence" else min(size, len(positions))
        if per == "sentence":
            order = magnitudes.argmax(axis=0)[:, None]  # the first of equal ones
        else:
            order = np.argsort(-magnitudes, axis=0, kind="stable")[:size].T
        taken = np.take_along_axis(magnitudes.T, order, axis=1).astype(np.float32)
        fired = taken > 0
        where = np.full_like(order, sequence)
        return cls(
            np.where(fired, taken, 0).astype(np.float32),
            np.where(fired, where, -1).astype(np.int32),
            np.where(fired, positions[order], -1).astype(np.int32),
        )

    def take(self, more: "BestPositions", rows: Int[np.ndarray, " row"] | None = None) -> None:
        """Keep the best of both, in place.

        Args:
            more: Of the same memories, or of those in `rows`.
            rows: This one's memories that `more` is about.
        """
        rows = np.arange(len(self.magnitude)) if rows is None else rows
        # A tie may go to the newcomer, whose sequence may be the earlier one.
        better = (more.magnitude[:, 0] > 0) & (more.magnitude[:, 0] >= self.magnitude[rows, -1])
        changed = rows[better]
        names = ("magnitude", "sequence", "position")
        joined = {
            name: np.concatenate([getattr(self, name)[changed], getattr(more, name)[better]], 1) for name in names
        }
        order = np.lexsort((joined["position"], joined["sequence"], -joined["magnitude"]), axis=-1)
        order = order[:, : self.magnitude.shape[1]]
        for name in names:
            getattr(self, name)[changed] = np.take_along_axis(joined[name], order, axis=1)
