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
    """A hook function that adds the same tensor at every call; one sequence's serves a whole batch."""

    def add(tensor: Tensor, hook: object = None) -> Tensor:
        rows = tensor.reshape(-1, *delta.shape[1:])
        if delta.shape[0] not in (1, rows.shape[0]):
            raise InputError(f"these contributions are of {delta.shape[0]} sequences, the run has {rows.shape[0]}.")
        return (rows + delta.to(tensor)).reshape(tensor.shape)

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
