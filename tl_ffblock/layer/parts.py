"""Linear steps on a vector written as a sum: pure tensor algebra, no model.

A `Parts` holds `y_i = sum_j F_i(x_j) + b_i + e_i` for every query i: one vector per source token, the
bias part b and the remainder e (the effect of edits made inside the block, else zero). Every step of
a layer maps parts to parts; attention, residual and normalisation are linear once the pattern and
the scale are those of the real run. Equation numbers are those of Kobayashi et al. 2024.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.records import LayerRecord, Norm

CANCELLED = 1e-3
"""Below this share of its largest summand a sum has cancelled."""


@dataclass(frozen=True)
class Parts:
    """A vector at every query, written as a sum over source tokens, bias and remainder."""

    tokens: Float[Tensor, "query key d"]
    bias: Float[Tensor, "query d"]
    remainder: Float[Tensor, "query d"] | None = None
    """None stands for zero: no edit inside the block."""

    def total(self) -> Float[Tensor, "query d"]:
        """The sum of all parts."""
        total = self.tokens.sum(dim=1) + self.bias
        return total if self.remainder is None else total + self.remainder

    def error(self, whole: Float[Tensor, "query d"]) -> Float[Tensor, " query"]:
        """Relative completeness error: what the parts' sum misses, by the norm of the model's own tensor.

        Where that tensor is less than a thousandth of what cancels in it (all contributions subtracted
        by a hook, say), rounding is all that is left, and a thousandth of the largest summand stands for it.
        """
        tokens = self.tokens.sum(dim=1)
        summands = [tokens, self.bias] if self.remainder is None else [tokens, self.bias, self.remainder]
        largest = torch.stack([summand.norm(dim=-1) for summand in summands]).amax(dim=0)
        size = torch.maximum(whole.norm(dim=-1), CANCELLED * largest)
        return (sum(summands) - whole).norm(dim=-1) / torch.where(size == 0, 1, size)

    def map(self, linear: Callable[[Tensor], Tensor]) -> "Parts":
        """Apply a linear function of query and last axis to every part; it gets `[query player d]`."""
        remainder = None if self.remainder is None else linear(self.remainder[:, None])[:, 0]
        return Parts(linear(self.tokens), linear(self.bias[:, None])[:, 0], remainder)

    def __add__(self, other: "Parts") -> "Parts":
        first, second = self.remainder, other.remainder
        remainder = second if first is None else first if second is None else first + second
        return Parts(self.tokens + other.tokens, self.bias + other.bias, remainder)


def attend(record: LayerRecord, *, value_bias: str) -> Parts:
    """Attention as a sum over source tokens (eq. 18-21).

    `F_i(x_j) = sum_h alpha[h,i,j] v[h,j] W_O[h]` with v without its constant, see `token_values`. The
    constant goes to the bias times the row sum of the pattern: 1 unless there are attention sinks.
    """
    weights = record.block.attention
    value, constant = token_values(record, value_bias)
    written = einsum(value, weights.w_o, "key head d_head, head d_head d -> head key d")
    tokens = einsum(record.pattern, written, "head query key, head key d -> query key d")
    return Parts(tokens, attention_bias(record, constant))


def token_values(
    record: LayerRecord, value_bias: str
) -> tuple[Float[Tensor, "key head d_head"], Float[Tensor, "head d_head"]]:
    """The values that tokens bring, for every head, and the constant taken out of them.

    The constant is b_V and the norm's beta through W_V (eq. 7, 21); `value_bias="token"` leaves it in.
    """
    constant = value_constant(record, value_bias)
    return record.head_values - constant, constant


def value_constant(record: LayerRecord, value_bias: str) -> Float[Tensor, "head d_head"]:
    """What of every value is the bias part's and no token's."""
    learned = record.block.value_constant
    return torch.zeros_like(learned) if value_bias == "token" else learned


def attention_bias(record: LayerRecord, constant: Float[Tensor, "head d_head"]) -> Float[Tensor, "query d"]:
    """`sum_h rowsum(alpha[h,i]) constant[h] W_O[h] + b_O`."""
    weights = record.block.attention
    written = einsum(constant, weights.w_o, "head d_head, head d_head d -> head d")
    return einsum(record.pattern.sum(dim=-1), written, "head query, head d -> query d") + weights.b_o


def residual(x: Float[Tensor, "query d"], queries: Int[Tensor, " query"], n_keys: int) -> Parts:
    """x_i as the part of key j = i: what a residual connection brings (eq. 26-27)."""
    tokens = x.new_zeros(len(x), n_keys, x.shape[-1])
    tokens[torch.arange(len(x), device=x.device), queries] = x
    return Parts(tokens, torch.zeros_like(x))


def normalise(parts: Parts, norm: Norm, scale: Float[Tensor, "query 1"]) -> Parts:
    """LayerNorm or RMSNorm with the scale of the real, whole vector (eq. 28-34); beta joins the bias."""
    scaled = parts.map(lambda vector: norm.linear(vector) / scale[:, None])
    return replace(scaled, bias=scaled.bias + norm.shift)


def project(parts: Parts, weight: Float[Tensor, "d e"], bias: Float[Tensor, " e"]) -> Parts:
    """A linear layer; its bias joins the bias part."""
    mapped = parts.map(lambda vector: vector @ weight)
    return replace(mapped, bias=mapped.bias + bias)


def weigh(parts: Parts, weight: Float[Tensor, "query d"]) -> Parts:
    """Multiply every part of a query elementwise by the same weights."""
    return parts.map(lambda vector: vector * weight[:, None])


def reconcile(parts: Parts, whole: Float[Tensor, "query d"], rtol: float) -> Parts:
    """Give the remainder what is missing to the model's own tensor, at queries where more than rtol is."""
    gap = whole - parts.total()
    gap = gap * (parts.error(whole) > rtol)[:, None]
    return replace(parts, remainder=gap if parts.remainder is None else parts.remainder + gap)
