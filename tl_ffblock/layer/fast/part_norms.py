"""The norms of a linear scope's parts, from the heads' vectors of every source token.

Two ways, the same numbers: few rows are made as vectors, d_model numbers a pair; of many the heads' Gram matrix gives the
norms, n_heads numbers a pair, once it is made. And where a single row sees every source token its heads are
never needed one by one (`as_one_head`).
"""

from dataclasses import replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.records import AttentionWeights, LayerRecord

_KEYS_IN_FLOAT64 = 32
"""Source tokens whose Gram matrices are made at a time: float64 doubles what their vectors occupy."""

_ROWS_A_HEAD = 3
"""Up to so many rows for each head vectors are faster than a Gram matrix (measured for 9 and 12 heads: 3 to 5)."""


def part_norms(
    basis: Float[Tensor, "matrix head d_model"], pattern: Float[Tensor, "matrix row head"]
) -> Float[Tensor, "matrix row"]:
    """`||sum_h alpha[h,i,j] B[h,j]||`, the way that is faster."""
    n_rows, n_heads = pattern.shape[1:]
    if n_rows <= _ROWS_A_HEAD * n_heads:
        return torch.linalg.vector_norm(torch.bmm(pattern, basis), dim=-1)
    return gram_norms(basis, pattern)


def gram_norms(
    basis: Float[Tensor, "matrix head d_model"], pattern: Float[Tensor, "matrix row head"]
) -> Float[Tensor, "matrix row"]:
    """`||sum_h alpha[h,i,j] B[h,j]|| = sqrt(alpha K alpha)` with the Gram matrix K = B B^T of every source token.

    In float64: a Gram matrix is small, and heads that cancel cost twice the digits in a square.
    """
    squares = []
    for vectors, weights in zip(
        torch.split(basis, _KEYS_IN_FLOAT64), torch.split(pattern, _KEYS_IN_FLOAT64), strict=True
    ):
        wide, alpha = vectors.double(), weights.double()
        gram = wide @ wide.transpose(1, 2)  # [key head head]
        squares.append(((alpha @ gram) * alpha).sum(dim=-1))
    # Rounding may leave -1e-17 where the heads cancel wholly.
    return torch.cat(squares).clamp_(min=0).sqrt_().to(basis.dtype)


def as_one_head(
    record: LayerRecord, values: Float[Tensor, "key head d_head"]
) -> tuple[LayerRecord, Float[Tensor, "key 1 all_heads_d_head"]]:
    """A record of which every sequence has one row, with its heads as one, whose pattern is 1 and whose values hold theirs.

        sum_h alpha[h,j] v[h,j] W_O[h] = (alpha[0,j] v[0,j], alpha[1,j] v[1,j], ...) W_O

    Its heads' pre-activations are then those of the pairs, without a product over heads.
    """
    alpha = rearrange(record.pattern, "head sequence key -> (sequence key) head 1")
    attention = record.block.attention
    w_o = rearrange(attention.w_o, "head e d -> 1 (head e) d")
    # Weighted values of all heads are no product of the input with one matrix: what would make them is zero.
    zero = w_o.new_zeros(())
    w_v, b_v = zero.expand(1, w_o.shape[2], w_o.shape[1]), zero.expand(1, w_o.shape[1])
    block = replace(record.block, attention=AttentionWeights(w_o, attention.b_o, w_v, b_v))
    return replace(record, block=block, pattern=torch.ones_like(record.pattern[:1])), (values * alpha).flatten(1)[
        :, None
    ]
