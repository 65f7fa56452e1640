"""Pairs of prompts: a clean one and a corrupted one of equally many tokens."""

from collections.abc import Sequence, Sized
from typing import Any, TypeAlias

from jaxtyping import Int, Integer
from torch import Tensor

from tl_ffblock.bridge.inputs import one_sequence
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import InputError

PromptList: TypeAlias = Sequence[str] | Sequence[Integer[Tensor, " _pos"]]
"""Texts, or token ids of each prompt."""


def refuse_unpaired(clean: Sized, corrupted: Sized) -> None:
    """Pairs take as many prompts of each kind.

    Raises:
        InputError: if there are not.
    """
    if len(clean) != len(corrupted):
        raise InputError(f"{len(clean)} clean prompts and {len(corrupted)} corrupted: expected pairs.")


def equally_long(model: Model, pair: tuple[Any, Any], which: str) -> tuple[Int[Tensor, " pos"], Int[Tensor, " pos"]]:
    """The tokens of a clean and a corrupted prompt.

    Raises:
        InputError: if one cannot be used, or they differ in length.
    """
    clean, corrupted = (
        one_sequence(model, given, name + which) for given, name in zip(pair, ("clean", "corrupted"), strict=True)
    )
    if len(clean) != len(corrupted):
        raise InputError(
            f"clean{which} has {len(clean)} tokens, corrupted{which} {len(corrupted)}: patching puts what is at one position of a "
            "run at the same position of the other. Use prompts of equally many tokens."
        )
    return clean, corrupted
