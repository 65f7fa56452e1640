"""What makes queries and keys of what attention reads, and scores of them: weights that no map needs, read where they are shown."""

from dataclasses import dataclass
from typing import Any

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.linears import bias, matrix
from tl_ffblock.bridge.model import Model
from tl_ffblock.errors import UnsupportedModelError

_SCALES = (("scaling", 1), ("softmax_scale", 1), ("inv_norm_factor", 1), ("scale_attn", -1))
"""Attributes of Hugging Face's attention modules that hold the scale of scores, or what they are divided by."""


@dataclass(frozen=True)
class QueryKeyWeights:
    """Of one layer, every head with a key matrix of its own; before any rotation or norm of queries and keys."""

    w_q: Float[Tensor, "head d d_head"]
    b_q: Float[Tensor, "head d_head"]
    w_k: Float[Tensor, "head d d_head"]
    b_k: Float[Tensor, "head d_head"]

    def queries(self, x: Float[Tensor, " d"]) -> Float[Tensor, "head d_head"]:
        """`x W_Q + b_Q`."""
        return einsum(x, self.w_q, "d, head d e -> head e") + self.b_q

    def keys(self, x: Float[Tensor, " d"]) -> Float[Tensor, "head d_head"]:
        """`x W_K + b_K`."""
        return einsum(x, self.w_k, "d, head d e -> head e") + self.b_k

    def looked_for(self, query: Float[Tensor, "head d_head"]) -> Float[Tensor, "head d"]:
        """`W_K q`: the direction whose product with what is read at a key is the score (and not `q W_K`)."""
        return einsum(self.w_k, query, "head d e, head e -> head d")

    def answered_to(self, key: Float[Tensor, "head d_head"]) -> Float[Tensor, "head d"]:
        """`W_Q k`: the direction whose product with what is read at the query is the score."""
        return einsum(self.w_q, key, "head d e, head e -> head d")


def score_scale(model: Model, layer: int) -> float:
    """What a layer's attention multiplies products of query and key by, read from its module.

    1 / sqrt(d_head) where the module says nothing; another number in Granite (attention_multiplier), Gemma
    (query_pre_attn_scalar) and GPT-2 with scale_attn_by_inverse_layer_idx.
    """
    attn: Any = model.hooked.blocks[layer].attn
    if model.api != "TransformerBridge":
        return 1.0 / float(attn.attn_scale)
    inner = getattr(attn, "original_component", None)
    for owner in (inner, getattr(inner, "self", None)):  # BERT's is inside its attention
        for name, power in _SCALES:
            value = getattr(owner, name, None)
            if isinstance(value, (float, Tensor)):
                return float(value) ** power
    return float(model.hooked.cfg.d_head) ** -0.5


def read_query_keys(model: Model, layer: int, dtype: torch.dtype) -> QueryKeyWeights:
    """The weights of a layer's queries and keys, detached, key heads repeated for the heads that share them.

    Raises:
        UnsupportedModelError: if they are not where this family has them.
    """
    attn = model.hooked.blocks[layer].attn
    try:
        w_q, w_k = matrix(attn, "W_Q"), matrix(attn, "W_K")
    except AttributeError:
        w_q = w_k = torch.empty(0)
    if w_q.ndim != 3 or w_k.ndim != 3:
        raise UnsupportedModelError(
            f"{model.name} ({model.family.name}), layer {layer}: its attention has no W_Q and W_K [head d_model d_head], so "
            "its queries and keys cannot be drawn."
        )
    n_heads = len(w_q)

    def by_head(tensor: Tensor) -> Tensor:
        return tensor.detach().to(dtype).repeat_interleave(n_heads // len(tensor), dim=0)

    def bias_by_head(name: str, weight: Tensor) -> Tensor:
        held = bias(attn, name)
        return by_head(weight.new_zeros(len(weight), weight.shape[-1]) if held is None else held)

    return QueryKeyWeights(by_head(w_q), bias_by_head("b_Q", w_q), by_head(w_k), bias_by_head("b_K", w_k))
