"""The bias part of a linear scope as a product of two small matrices.

Every query has the same few constants in its bias part: each head's, times the row sum of its pattern; the output bias; the
shift of each norm passed; all divided by the scales of the norms after them (eq. 21, 28-34). So through the
feed-forward's input matrices go n_heads + 2 vectors, and not one a query.
"""

from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.parts import value_constant
from tl_ffblock.layer.records import LayerRecord, Norm


@dataclass(frozen=True, eq=False)
class BiasFactors:
    """A bias part, `weights @ vectors`."""

    weights: Float[Tensor, "query rank"]
    vectors: Float[Tensor, "rank d_model"]

    @classmethod
    def of_attention(cls, record: LayerRecord, value_bias: str) -> "BiasFactors":
        """`sum_h rowsum(alpha[h,i]) constant[h] W_O[h] + b_O`."""
        attention, constant = record.block.attention, value_constant(record, value_bias)
        written = einsum(constant, attention.w_o, "head e, head e d -> head d")
        return cls(record.pattern.sum(dim=-1).T, written).plus(attention.b_o)

    def plus(self, vector: Float[Tensor, " d_model"]) -> "BiasFactors":
        """With a vector more, the same for every query."""
        once = torch.ones_like(self.weights[:, :1])
        return BiasFactors(torch.cat([self.weights, once], dim=1), torch.cat([self.vectors, vector[None]]))

    def normalised(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> "BiasFactors":
        """Through a norm with the scale of the real run; its shift joins (eq. 30)."""
        return BiasFactors(self.weights / scale, norm.linear(self.vectors)).plus(norm.shift)

    def through(self, w: Float[Tensor, "d_model d_mlp"], b: Float[Tensor, " d_mlp"]) -> Float[Tensor, "query d_mlp"]:
        """`bias W + b` of every query."""
        return torch.addmm(b, self.weights, self.vectors @ w)
