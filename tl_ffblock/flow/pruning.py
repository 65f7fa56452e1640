"""What a flow graph shows of a layer's many heads, values, rows and neurons: the largest, and how many."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.signatures import strict, whole


@strict
@dataclass(frozen=True)
class Pruning:
    """How much of each layer is shown; None shows all. What is not shown is summed in the rest of the node it enters.

    The numbers are those of Katz and Belinkov 2023.
    """

    heads: int | None = 10
    """Heads, by the norm of what they write."""
    values: int | None = 2
    """Source tokens of each head, by attention."""
    rows: tuple[int, int] | None = (18, 7)
    """Rows of W_O with the largest and the most negative coefficient times norm."""
    memories: tuple[int, int] | None = (18, 7)
    """Neurons of the feed-forward, likewise."""

    def __post_init__(self) -> None:
        """Refuse what is no number of things.

        Raises:
            InputError: for a negative number.
        """
        for name in ("heads", "values", "rows", "memories"):
            given = getattr(self, name)
            counts = [
                whole(count) for count in (given if isinstance(given, tuple) else (0 if given is None else given,))
            ]
            wrong = len(counts) != (2 if name in ("rows", "memories") and given is not None else 1)
            if wrong or any(count is None or count < 0 for count in counts):
                raise InputError(
                    f"Pruning({name}={given!r}): expected {'two numbers' if name in ('rows', 'memories') else 'a number'} "
                    "from 0, or None for all."
                )

    @classmethod
    def off(cls) -> "Pruning":
        """Everything is shown: for small models, or to check a sum."""
        return cls(None, None, None, None)


def largest(sizes: Float[Tensor, " item"], count: int | None) -> Int[Tensor, " shown"]:
    """The items of the largest sizes, largest first; of None all, in their order."""
    if count is None:
        return torch.arange(len(sizes), device=sizes.device)
    return sizes.topk(min(count, len(sizes))).indices


def ends(signed: Float[Tensor, " item"], counts: tuple[int, int] | None) -> Int[Tensor, " shown"]:
    """The items of the largest numbers, then those of the smallest; none twice, of None all in their order."""
    if counts is None:
        return torch.arange(len(signed), device=signed.device)
    order = signed.argsort(descending=True, stable=True)
    top = min(counts[0], len(order))
    return torch.cat([order[:top], order[max(top, len(order) - counts[1]) :].flip(0)])
