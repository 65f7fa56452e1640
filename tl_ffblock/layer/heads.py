"""Attention heads of a layer, experts of its feed-forward: the channels that sum to a contribution; queries and keys.

With pattern, norm scales, router weights and coefficients of Integrated Gradients fixed, every step of a layer is linear in the
contributions. A contribution is therefore a sum over heads, and the residual connection, which adds to every query's own token
only:

    F_i(x_j) = sum_h F_i^h(x_j) + delta_ij R_i

1. `of_heads` restricts a record to some heads, so that nothing else contributes. Both implementations (linear.py, fast/)
   compute the contributions through these heads from it. Through the feed-forward, every head's contribution is a term of its
   own.
2. The term of the residual connection is one vector per query and needs no pairs (`_residual_vectors`).
3. `head_norms` and `with_heads` give all channels of a record, heads first, the residual last. They cover contributions only:
   bias part, remainder and completeness error are not split by head.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from operator import add
from typing import SupportsIndex, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.buffers import Buffers, HeadProducts, ProductKey, Stack
from tl_ffblock.layer.fast.vector_norms import NormsOfPairs, over_largest
from tl_ffblock.layer.linear import Decomposition, LinearLayer, Parts, alone, decompose_record, residual
from tl_ffblock.layer.positions import several
from tl_ffblock.layer.records import LayerRecord, Norm, Settings
from tl_ffblock.layer.scopes import INPUT, STEPS, Add, Feed, Operation
from tl_ffblock.signatures import whole

AskedHeads: TypeAlias = bool | Sequence[SupportsIndex] | SupportsIndex | Int[Tensor, " head"]
"""Attention heads, negative ones from the end; True means all, False none."""

RESIDUAL = "residual"
"""Channel of the residual connection around attention."""


def head_numbers(asked: AskedHeads, n_heads: int, name: str = "heads", *, switch: bool = True) -> tuple[int, ...]:
    """Numbers of heads (or experts), ascending, each once.

    Args:
        asked: Heads as callers pass them.
        n_heads: Number of heads in a layer.
        name: The argument's name, for the error.
        switch: Whether True means all heads, and False none.

    Raises:
        InputError: if there is no such head, or no head is given.
    """
    if switch and isinstance(asked, bool):
        return tuple(range(n_heads)) if asked else ()
    numbers, what = [whole(number) for number in several(asked)], "experts" if name == "experts" else "heads"
    found = {number % n_heads for number in numbers if number is not None and -n_heads <= number < n_heads}
    if not numbers or not all(number is not None and -n_heads <= number < n_heads for number in numbers):
        raise InputError(
            f"{name}={brief(asked)}: expected {'True or ' * switch}{what} from {-n_heads} to {n_heads - 1} of a layer of {n_heads}."
        )
    return tuple(sorted(found))


def head_names(heads: Iterable[int]) -> tuple[str, ...]:
    """Names of heads as channels: "head 3"."""
    return tuple(f"head {head}" for head in heads)


def channel_names(heads: Iterable[int]) -> tuple[str, ...]:
    """Names of the channels of a contribution: heads, and "residual" last."""
    return (*head_names(heads), RESIDUAL)


def refuse_captum(settings: Settings) -> None:
    """Raise an error for Captum, which integrates all terms of a pre-activation together and does not split them by head.

    Raises:
        InputError: for `method="captum"`.
    """
    if settings.method == "captum":
        raise InputError(
            'heads with method="captum": its quadrature does not split a contribution by head. Use method="exact", which gives '
            "the same contributions and splits them by head."
        )


def of_heads(record: LayerRecord, heads: Sequence[int]) -> LayerRecord:
    """Record in which only the values of some heads contribute; only its contribution vectors are meaningful.

    Scales, pre-activations and router weights are those of the forward pass, from the model's own tensors.
    """
    attention, chosen = record.block.attention, list(heads)
    shared = len(attention.w_o) // len(attention.w_v)
    value_heads = [head // shared for head in chosen]
    gain = attention.gain[chosen].flatten()
    norm = attention.norm and replace(attention.norm, gain=gain, shift=torch.zeros_like(gain))
    weights = replace(
        attention, w_o=attention.w_o[chosen], w_v=attention.w_v[value_heads], b_v=attention.b_v[value_heads], norm=norm
    )
    return replace(
        record,
        block=replace(record.block, attention=weights),
        resid_pre=torch.zeros_like(record.resid_pre),
        pattern=record.pattern[chosen],
        value=record.head_values[:, chosen],
        gate=None if record.gate is None else record.gate[:, chosen],
        taps=None if record.taps is None else record.taps[:, chosen],
        constant=None,
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
    """Norms of the contributions through each head, then of the residual connection, by scope.

    Each head goes through the optimised implementation as a layer of its own. All heads share the buffers, the coefficients of
    Integrated Gradients and the weight products.

    Args:
        stack: One layer of some sequences; their queries ascend.
        settings: Options of the decomposition; not `method="captum"`.
        scopes: Scopes of the block's order.
        heads: Numbers of the heads.
        buffers: Buffers to work in; None makes new ones.
        products: Weight products of earlier calls; None computes them.
    """
    record, n_sequences = stack.record, stack.n_sequences
    buffers, all_products = buffers or Buffers(), products or HeadProducts()
    n_queries, n_keys = len(record.queries) // n_sequences, record.pattern.shape[-1]
    norms = {scope: record.resid_pre.new_zeros(n_sequences, len(heads) + 1, n_queries, n_keys) for scope in scopes}
    n_heads, w_o = len(record.pattern), record.by_channel.block.attention.w_o
    paths: dict[int, PathCoefficients] = {}  # computed for the first head, used for all
    made: dict[ProductKey, Tensor] = {}

    def product(head: int, key: ProductKey, _: Tensor, norms: Sequence[Norm], w: Tensor, *, keep: bool) -> Tensor:
        """The head's slice of the product of all heads."""
        if key not in made:
            made[key] = all_products.product(key, w_o, norms, w, keep=keep)
        return made[key].view(n_heads, -1, *made[key].shape[1:])[head]

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
    """Decomposition of a record with the vectors through each head, then of the residual connection; unchanged without heads."""
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


def stacked_heads(tables: Sequence[Float[Tensor, "head ..."]]) -> Float[Tensor, "layer head ..."]:
    """Tables of all layers; layers with fewer heads have zeros for the others."""
    n_heads = max(map(len, tables))
    return torch.stack([torch.cat([each, each.new_zeros(n_heads - len(each), *each.shape[1:])]) for each in tables])


def _residual_vectors(
    record: LayerRecord, settings: Settings, scopes: Sequence[str]
) -> dict[str, Float[Tensor, "query d_model"]]:
    x = record.tensor(INPUT)
    unattended = Parts(torch.zeros_like(x)[:, None], torch.zeros_like(x))
    layer = LinearLayer(replace(record, edited=False), settings, unattended, alone(x))
    return {scope: parts.tokens[:, 0] for scope, parts in layer.parts().items() if scope in scopes}


NO_EXPERT = "no expert"
"""Channel through no expert: skip connections, and the feed-forward of a dense layer among layers of experts."""
_QUERIES_AT_ONCE = 8


def expert_names(experts: Iterable[int]) -> tuple[str, ...]:
    """Names of the channels after a mixture of experts, the last through no expert."""
    return (*(f"expert {expert}" for expert in experts), NO_EXPERT)


def of_expert(record: LayerRecord, expert: int | None) -> LayerRecord:
    """Record with the router weights of one expert only, or of none."""
    if record.routing is None:
        return record
    kept = torch.zeros_like(record.routing)
    if expert is not None:
        kept[:, expert] = record.routing[:, expert]
    return replace(record, routing=kept)


def by_expert(
    record: LayerRecord, settings: Settings
) -> Iterator[tuple[int, Int[Tensor, " served"], dict[str, Float[Tensor, "served key d_model"]]]]:
    """Each expert that some query was sent to: its number, its queries' rows, and the vectors through it by scope.

    The last item has the number -1 and the vectors through no expert.
    """
    for expert, weights in enumerate(() if record.routing is None else record.routing.T):
        served = weights.nonzero()[:, 0]
        if len(served):
            yield expert, served, _ThroughFeedForward(of_expert(record.rows(served), expert), settings).vectors()
    parts = LinearLayer(of_expert(record, None), settings).parts()
    every_row = torch.arange(len(record.queries), device=record.queries.device)
    yield -1, every_row, {scope: of.tokens for scope, of in parts.items()}


class _ThroughFeedForward(LinearLayer):
    """A layer of which only the path through the feed-forward counts: the other operand of each later sum is zero."""

    def vectors(self) -> dict[str, Float[Tensor, "query key d_model"]]:
        """Contribution vectors by scope, from the feed-forward on."""
        return {scope: of.tokens for scope, of in self.parts().items() if scope in self._fed}

    @cached_property
    def _fed(self) -> set[str]:
        fed: set[str] = set()
        for step in STEPS[self.block.order]:
            if isinstance(step.operation, Feed) or not fed.isdisjoint(step.operands):
                fed.add(step.scope)
        return fed

    def jvp(self, operation: Operation, done: Mapping[str, Parts]) -> Parts:
        if isinstance(operation, Add) and (fed := self._fed & {operation.left, operation.right}):
            factors = dict(zip((operation.left, operation.right), self.block.factors(operation), strict=True))
            return reduce(add, [self.multiplied(done[name], factors[name]) for name in sorted(fed)])
        return super().jvp(operation, done)


def expert_norms(
    record: LayerRecord, settings: Settings, values: Mapping[str, Float[Tensor, "query key"]]
) -> tuple[dict[str, Float[Tensor, "channel query key"]], dict[str, Float[Tensor, " query"]]]:
    """Norms of the vectors through each expert, then through none, by scope; and errors of their sum.

    The error of a query is the largest difference of the norm of the sum from the map, relative to the row's largest value.

    Args:
        record: A layer of experts of one sequence.
        settings: Options of the decomposition.
        values: Maps by scope.
    """
    assert record.routing is not None
    n_channels = record.routing.shape[1] + 1
    norms = {scope: table.new_zeros(n_channels, *table.shape) for scope, table in values.items()}
    sums = {scope: torch.zeros_like(table) for scope, table in values.items()}
    for start in range(0, len(record.queries), _QUERIES_AT_ONCE):
        rows = slice(start, start + _QUERIES_AT_ONCE)
        total: dict[str, Tensor] = {}
        for channel, served, vectors in by_expert(record.rows(rows), settings):
            for scope in vectors.keys() & values.keys():
                norms[scope][channel, start + served] = vectors[scope].norm(dim=-1)
                shape = (len(sums[scope][rows]), *vectors[scope].shape[1:])
                total.setdefault(scope, vectors[scope].new_zeros(shape))[served] += vectors[scope]
        for scope, vectors_sum in total.items():
            sums[scope][rows] = vectors_sum.norm(dim=-1)
    return norms, {scope: over_largest(sums[scope] - table, table).amax(dim=-1) for scope, table in values.items()}


def with_experts(
    decomposition: Decomposition, record: LayerRecord, settings: Settings, experts: Sequence[int]
) -> tuple[Decomposition, dict[str, Float[Tensor, " query"]]]:
    """Decomposition of a record with the vectors through some experts, then through none; and errors of the sum over all experts.

    The error of a query is the largest norm of the difference from the contributions, relative to the row's largest norm.

    Args:
        decomposition: Decomposition of the record.
        record: One layer of one sequence.
        settings: Options of the decomposition.
        experts: Numbers of the experts whose vectors are stored.
    """
    parts = {scope: decomposition.parts(scope) for scope in decomposition.scopes}
    vectors = {scope: of.new_zeros(len(experts) + 1, *of.shape) for scope, of in parts.items()}
    total = {scope: torch.zeros_like(of) for scope, of in parts.items()}
    for expert, served, found in by_expert(record, settings):
        for scope, of in found.items():
            total[scope][served] += of
            if expert in experts or expert < 0:
                vectors[scope][experts.index(expert) if expert >= 0 else -1, served] = of
    errors = {
        scope: over_largest((of - parts[scope]).norm(dim=-1), parts[scope].norm(dim=-1)).amax(dim=-1)
        for scope, of in total.items()
    }
    return replace(decomposition, expert_channels=expert_names(experts), by_expert=vectors), errors


@dataclass(frozen=True)
class ScoredHeads:
    """Some heads of one sequence: `softmax(scale * query key^T)` over the keys with a non-zero weight is `pattern`."""

    query: Float[Tensor, "head query d_head"]
    key: Float[Tensor, "head key d_head"]
    pattern: Float[Tensor, "head query key"]
    scale: float
    error: float
    """Largest difference of a weight of the softmax from the pattern."""


def scored_heads(record: LayerRecord, heads: Sequence[int], scale: float) -> ScoredHeads:
    """Queries, keys and pattern of some heads, with the scale that relates them.

    The scale is the model's own, or 1 if the hooked queries are already multiplied by it (OPT). The one whose softmax is nearer
    to the pattern of the forward pass is taken.

    Args:
        record: Layer record with queries and keys.
        heads: Numbers of the heads.
        scale: The model's attention scale.
    """
    assert record.query is not None and record.key is not None, "the record has no queries and keys"
    shared = record.query.shape[1] // record.key.shape[1]
    query = record.query[:, list(heads)].transpose(0, 1)
    key = record.key.repeat_interleave(shared, dim=1)[:, list(heads)].transpose(0, 1)
    pattern = record.pattern[list(heads)]
    products = query @ key.transpose(-1, -2)
    errors = {factor: _softmax_error(factor * products, pattern) for factor in (scale, 1.0)}
    nearer = min(errors, key=lambda candidate: errors[candidate])
    return ScoredHeads(query, key, pattern, nearer, errors[nearer])


def _softmax_error(scores: Float[Tensor, "head query key"], pattern: Float[Tensor, "head query key"]) -> float:
    """Largest error over the keys with a non-zero weight; rows without any weight have no softmax."""
    weights = scores.masked_fill(pattern == 0, -torch.inf).softmax(dim=-1)
    return float((weights.nan_to_num(0.0) - pattern).abs().max())
