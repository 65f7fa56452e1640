"""Attention heads of a layer: the channels that a token's part is a sum of, and their queries and keys.

Every step of a layer is linear in the parts once pattern, norm scales, router weights and the coefficients
of Integrated Gradients are those of the run. So a part is a sum over heads, and the residual connection
is one more term, to every query's own token alone:

    F_i(x_j) = sum_h F_i^h(x_j) + delta_ij R_i

1. `of_heads` restricts a record to some heads: nothing else contributes, and both implementations
   (linear.py, fast/) make of it the parts through these heads. Through the feed-forward every head's
   part is a player of its own.
2. The residual connection's term is one vector per query and needs no pairs (`_residual_vectors`).
3. `head_norms` and `with_heads` give all channels of a record, heads first, the residual last. The parts
   only: bias part, remainder and completeness belong to no head.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import SupportsIndex, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.buffers import Buffers, HeadProducts, ProductKey, Stack
from tl_ffblock.layer.fast.vector_norms import NormsOfPairs
from tl_ffblock.layer.linear import Decomposition, LinearLayer, Parts, alone, decompose_record, residual
from tl_ffblock.layer.positions import several
from tl_ffblock.layer.records import LayerRecord, Norm, Settings
from tl_ffblock.layer.scopes import INPUT
from tl_ffblock.signatures import whole

AskedHeads: TypeAlias = bool | Sequence[SupportsIndex] | SupportsIndex | Int[Tensor, " head"]
"""Attention heads, negative ones from the end; True means all, False none."""

RESIDUAL = "residual"
"""The channel of the residual connection around attention."""


def head_numbers(asked: AskedHeads, n_heads: int, name: str = "heads", *, switch: bool = True) -> tuple[int, ...]:
    """The heads asked for, ascending, each once.

    Args:
        asked: As callers name them.
        n_heads: Heads of a layer.
        name: The argument's name, for the error.
        switch: Whether True means all heads, and False none.

    Raises:
        InputError: if there is no such head.
    """
    if switch and isinstance(asked, bool):
        return tuple(range(n_heads)) if asked else ()
    numbers = [whole(number) for number in several(asked)]
    found = {number % n_heads for number in numbers if number is not None and -n_heads <= number < n_heads}
    if not numbers or not all(number is not None and -n_heads <= number < n_heads for number in numbers):
        raise InputError(
            f"{name}={brief(asked)}: expected {'True or ' * switch}heads from {-n_heads} to {n_heads - 1} of a layer of {n_heads}."
        )
    return tuple(sorted(found))


def head_names(heads: Iterable[int]) -> tuple[str, ...]:
    """How heads are called where they are channels."""
    return tuple(f"head {head}" for head in heads)


def channel_names(heads: Iterable[int]) -> tuple[str, ...]:
    """The channels of a part: heads, and the residual last."""
    return (*head_names(heads), RESIDUAL)


def refuse_captum(settings: Settings) -> None:
    """Captum integrates all players of a pre-activation together and never sees a head's alone.

    Raises:
        InputError: for `method="captum"`.
    """
    if settings.method == "captum":
        raise InputError(
            'heads with method="captum": its quadrature takes a token\'s part as a whole. Use method="exact", which gives '
            "the same parts and splits them by head."
        )


def of_heads(record: LayerRecord, heads: Sequence[int]) -> LayerRecord:
    """The same run with nothing to bring but some heads' values: only the tokens' parts of it mean something.

    Scales, pre-activations and router weights are the real run's, read from its own tensors.
    """
    attention, chosen = record.block.attention, list(heads)
    shared = len(attention.w_o) // len(attention.w_v)
    value_heads = [head // shared for head in chosen]
    weights = replace(
        attention, w_o=attention.w_o[chosen], w_v=attention.w_v[value_heads], b_v=attention.b_v[value_heads]
    )
    return replace(
        record,
        block=replace(record.block, attention=weights),
        resid_pre=torch.zeros_like(record.resid_pre),
        pattern=record.pattern[chosen],
        value=record.head_values[:, chosen],
        query=None,
        key=None,
        edited=False,
    )


def head_norms(
    stack: Stack,
    settings: Settings,
    scopes: Sequence[str],
    heads: Sequence[int],
    *,
    buffers: Buffers | None = None,
    products: HeadProducts | None = None,
) -> dict[str, Float[Tensor, "sequence channel query key"]]:
    """The norms of the parts through each head, then of the residual connection, by scope.

    Each head goes through the optimised implementation like a layer of its own, in the same memory, with the coefficients of
    Integrated Gradients and the products of weights of all.

    Args:
        stack: One layer of some sequences; their queries ascend.
        settings: How the decomposition is made; not by captum.
        scopes: Scopes of the block's order.
        heads: Numbers of the heads.
        buffers: Memory to work in; None takes new memory.
        products: Products of the weights that were made before; None makes them anew.
    """
    record, n_sequences = stack.record, stack.n_sequences
    buffers, all_products = buffers or Buffers(), products or HeadProducts()
    n_queries, n_keys = len(record.queries) // n_sequences, record.pattern.shape[-1]
    norms = {scope: record.resid_pre.new_zeros(n_sequences, len(heads) + 1, n_queries, n_keys) for scope in scopes}
    paths: dict[int, PathCoefficients] = {}  # made for the first head, they serve all
    made: dict[ProductKey, Tensor] = {}

    def product(head: int, key: ProductKey, _: Tensor, norms: Sequence[Norm], w: Tensor, *, keep: bool) -> Tensor:
        """Cut out of that of all heads."""
        if key not in made:
            made[key] = all_products.product(key, record.block.attention.w_o, norms, w, keep=keep)
        return made[key][[head]]

    for channel, head in enumerate(heads):
        part = replace(stack, record=of_heads(record, [head]))
        of_pairs = NormsOfPairs(part, settings, tuple(scopes), buffers, partial(product, head), paths, residual=False)
        for scope, table in of_pairs.measure().items():
            norms[scope][:, channel] = table.view(n_sequences, n_queries, n_keys)
    own_keys = record.queries.view(n_sequences, n_queries)[0]
    for scope, vector in _residual_vectors(record, settings, scopes).items():
        norms[scope][:, -1, torch.arange(n_queries, device=own_keys.device), own_keys] = vector.norm(dim=-1).view(
            n_sequences, n_queries
        )
    return norms


def with_heads(
    decomposition: Decomposition, record: LayerRecord, settings: Settings, heads: Sequence[int]
) -> Decomposition:
    """A record's decomposition with the vectors through each head, then of the residual connection; none without heads."""
    if not heads:
        return decomposition
    scopes, (n_queries, n_keys) = decomposition.scopes, record.pattern.shape[1:]
    shape = (len(heads) + 1, n_queries, n_keys, record.resid_pre.shape[-1])
    vectors = {scope: record.resid_pre.new_empty(shape) for scope in scopes}
    for channel, head in enumerate(heads):
        through_head = decompose_record(of_heads(record, [head]), settings)
        for scope in scopes:
            vectors[scope][channel] = through_head.parts(scope)
    for scope, vector in _residual_vectors(record, settings, scopes).items():
        vectors[scope][-1] = residual(vector, record.queries, n_keys).tokens
    return replace(decomposition, channels=channel_names(heads), by_head=vectors)


def _residual_vectors(
    record: LayerRecord, settings: Settings, scopes: Sequence[str]
) -> dict[str, Float[Tensor, "query d_model"]]:
    x = record.tensor(INPUT)
    unattended = Parts(torch.zeros_like(x)[:, None], torch.zeros_like(x))
    layer = LinearLayer(replace(record, edited=False), settings, unattended, alone(x))
    return {scope: parts.tokens[:, 0] for scope, parts in layer.parts().items() if scope in scopes}


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
    errors = {factor: _softmax_error(factor * products, pattern) for factor in (scale, 1.0)}
    nearer = min(errors, key=lambda candidate: errors[candidate])
    return ScoredHeads(query, key, pattern, nearer, errors[nearer])


def _softmax_error(scores: Float[Tensor, "head query key"], pattern: Float[Tensor, "head query key"]) -> float:
    """Over the keys with a weight; rows that see nothing have no softmax."""
    weights = scores.masked_fill(pattern == 0, -torch.inf).softmax(dim=-1)
    return float((weights.nan_to_num(0.0) - pattern).abs().max())
