"""Hook functions that add vectors to what passes a HookPoint; z [pos head d_head] is seen as [pos d]."""

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError

HookFunction: TypeAlias = Callable[..., Tensor]
Hook: TypeAlias = tuple[str, HookFunction]
"""HookPoint name and function, as `run_with_hooks` takes them."""
PatchSetter: TypeAlias = Callable[[Tensor, Sequence[int], Tensor], Tensor]
"""What TransformerLens's patching functions call with an activation, an index and the clean activation."""


def adding(delta: Float[Tensor, "batch pos d_model"]) -> HookFunction:
    """A hook function that adds the same tensor at every call; one sequence's serves a whole batch.

    It refuses a run of another length with an InputError: the positions of one are not those of the other.
    """
    n_sequences, n_positions = delta.shape[:2]

    def add(tensor: Tensor, hook: object = None) -> Tensor:
        batch, positions = tensor.shape[:2]
        if positions != n_positions:
            raise InputError(
                f"this hook of Contributions was made for {n_positions} positions, the run has {positions} here: make "
                "Contributions of this run's prompt, or run the prompt that they were made of, whole."
            )
        if n_sequences not in (1, batch):
            raise InputError(f"these contributions are of {n_sequences} sequences, the run has {batch}.")
        return tensor + delta.to(tensor).reshape(n_sequences, *tensor.shape[1:])

    return add


def adding_rows(
    vectors: Float[Tensor, "edit d"], rows: Sequence[int], positions: Sequence[int], n_runs: int
) -> HookFunction:
    """A hook function for runs side by side: vector i is added in row `rows[i]`, at `positions[i]`."""

    def add(tensor: Tensor, hook: object = None) -> Tensor:
        changed = tensor.clone(memory_format=torch.contiguous_format)
        changed.view(n_runs, -1, vectors.shape[-1])[list(rows), list(positions)] += vectors.to(tensor)
        return changed

    return add
