"""Matrices folded once per model: `A[h] = lin(W_O[h]) W`, from a head's values straight to pre-activations.

Folding costs d_model rows of W, as much as mixing the heads of d_model / (n_heads - 1) source tokens without
it, so it pays from there on; keeping the result pays while sequences are short. What is kept is
checked against the weights at every use and made again when they changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

KEEP_BYTES = 256 * 2**20
"""How much a model's folded matrices may occupy; further layers are folded anew at every call."""


@dataclass(frozen=True)
class _Folded:
    matrix: Float[Tensor, "head d_head d_mlp"]
    witness: Float[Tensor, " n"]
    """Products of the weights with a fixed vector: other weights give others."""


@dataclass
class HeadProducts:
    """The folded matrices of one model."""

    _kept: dict[tuple[int, str], _Folded] = field(default_factory=dict)

    def product(
        self,
        key: tuple[int, str],
        w_o: Float[Tensor, "head d_head d"],
        linear: Callable[[Tensor], Tensor],
        w: Float[Tensor, "d d_mlp"],
        *,
        gains: Sequence[Float[Tensor, " d"]],
        keep: bool,
    ) -> Float[Tensor, "head d_head d_mlp"]:
        """`linear(W_O[h]) W`.

        Args:
            key: Layer and name of the matrix W.
            w_o: The heads' output matrices.
            linear: What lies between attention and W: the linear parts of norms.
            w: An input matrix of the feed-forward.
            gains: The weights of `linear`.
            keep: Whether the result will be needed again soon.
        """
        found = self._kept.get(key)
        witness = _witness(w_o, gains, w) if keep or found is not None else None
        if found is not None and witness is not None and _same(found.witness, witness):
            return found.matrix
        matrix = einsum(linear(w_o), w, "head e d, d d_mlp -> head e d_mlp")
        self._kept.pop(key, None)
        if keep and witness is not None and self.n_bytes() + matrix.nbytes <= KEEP_BYTES:
            self._kept[key] = _Folded(matrix, witness)
        return matrix

    def n_bytes(self) -> int:
        """What is kept."""
        return sum(folded.matrix.nbytes for folded in self._kept.values())


def _witness(w_o: Tensor, gains: Sequence[Tensor], w: Tensor) -> Float[Tensor, " n"]:
    probe = torch.linspace(0.5, 1.5, w.shape[1], dtype=w.dtype, device=w.device)
    other = torch.linspace(0.5, 1.5, w_o.shape[-1], dtype=w.dtype, device=w.device)
    return torch.cat([w @ probe, (w_o @ other).flatten(), *gains])


def _same(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and bool((first == second).all())
