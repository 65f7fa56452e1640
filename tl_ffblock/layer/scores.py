"""Attention scores of a record: what queries and keys multiply to, held against the run's own pattern."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.records import LayerRecord


@dataclass(frozen=True)
class ScoredHeads:
    """Some heads of one sequence's record: `softmax(scale * query key^T)` over the keys with a weight is `pattern`."""

    query: Float[Tensor, "head query d_head"]
    key: Float[Tensor, "head key d_head"]
    pattern: Float[Tensor, "head query key"]
    scale: float
    error: float
    """The largest difference of a weight."""


def scored_heads(record: LayerRecord, heads: Sequence[int], scale: float) -> ScoredHeads:
    """Queries, keys and pattern of these heads, with the scale under which the three belong together.

    That is the model's own, or 1 where its queries were multiplied by it before they are shown (OPT): of the two the one
    whose softmax is nearer to the pattern, which is the run's own and so decides.

    Args:
        record: The run, with queries and keys.
        heads: Numbers of the heads.
        scale: The model's own.
    """
    assert record.query is not None and record.key is not None, "the run was opened without queries and keys"
    shared = record.query.shape[1] // record.key.shape[1]
    query = record.query[:, list(heads)].transpose(0, 1)
    key = record.key.repeat_interleave(shared, dim=1)[:, list(heads)].transpose(0, 1)
    pattern = record.pattern[list(heads)]
    products = query @ key.transpose(-1, -2)
    errors = {factor: _error(factor * products, pattern) for factor in (scale, 1.0)}
    nearer = min(errors, key=lambda candidate: errors[candidate])
    return ScoredHeads(query, key, pattern, nearer, errors[nearer])


def _error(scores: Float[Tensor, "head query key"], pattern: Float[Tensor, "head query key"]) -> float:
    """How far the softmax over the keys with a weight is from the pattern; rows that see nothing are none."""
    weights = scores.masked_fill(pattern == 0, -torch.inf).softmax(dim=-1)
    return float((weights.nan_to_num(0.0) - pattern).abs().max())
