"""A record -> the norms of all its parts, without ever holding the parts: the fast road.

1. The layer's program is followed once (pair_norms.py): linear scopes are sums over heads
   (head_sums.py), and from the feed-forward on there are rows, one a pair (pair_rows.py).
2. All pairs are gone through in groups of source tokens: Gram norms for the linear scopes, packed rows
   for the others.
3. The bias part, the remainder and the sum over source tokens go through `vectors.walk` as three
   vectors a query (`Aggregate`). The completeness error holds the sum of the packed rows against the
   model's tensor.

README.md beside this file walks one example through all of it. `norms_of_vectors` does the same by
making every vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.aggregate import Aggregate, Column
from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.fast.pair_norms import NormsOfPairs, pairs_of
from tl_ffblock.layer.fast.products import HeadProducts, ProductsOfHeads
from tl_ffblock.layer.fast.stacks import Stack
from tl_ffblock.layer.parts import Parts
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import PROGRAMS, Feed
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import decompose_record, walk


@dataclass(frozen=True)
class LayerNorms:
    """The norms of one layer of one sequence, or of several, by scope."""

    values: dict[str, Float[Tensor, "*sequence query key"]]
    bias: dict[str, Float[Tensor, "*sequence query"]]
    remainder: dict[str, Float[Tensor, "*sequence query"]]
    completeness: dict[str, Float[Tensor, "*sequence query"]]

    def by_sequence(self, n_sequences: int) -> "LayerNorms":
        """Those of sequences below each other with an axis of sequences before the others."""
        return LayerNorms(
            *(
                {scope: table.view(n_sequences, -1, *table.shape[1:]) for scope, table in tables.items()}
                for tables in (self.values, self.bias, self.remainder, self.completeness)
            )
        )


def contribution_norms(
    record: LayerRecord,
    settings: Settings,
    scopes: tuple[str, ...],
    *,
    buffers: Buffers | None = None,
    products: HeadProducts | None = None,
) -> LayerNorms:
    """Norms of all parts of one sequence's record, for the asked scopes.

    Args:
        record: One layer of one sequence; its queries ascend.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: Memory to work in. Layers that follow one another go faster with the same for all; None takes new memory.
        products: Products of the weights that were made before, kept by the caller with the model; None makes them anew.
    """
    norms = norms_of_stack(Stack((0,), record), settings, scopes, buffers or Buffers(), products or HeadProducts())
    return LayerNorms(
        *(
            {scope: table[0] for scope, table in tables.items()}
            for tables in (norms.values, norms.bias, norms.remainder, norms.completeness)
        )
    )


def norms_of_stack(
    stack: Stack, settings: Settings, scopes: tuple[str, ...], buffers: Buffers, products: HeadProducts
) -> LayerNorms:
    """The same of several sequences, their axis before the others.

    Args:
        stack: One layer of some sequences.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: As in `contribution_norms`.
        products: As in `contribution_norms`.
    """
    record, n_sequences = stack.record, stack.n_sequences
    if settings.method == "captum":
        return norms_of_vectors(record, settings, scopes).by_sequence(n_sequences)
    of_pairs = NormsOfPairs(record, pairs_of(stack, settings, buffers), settings, scopes, products)
    values = of_pairs.measure()
    sums: dict[str, Parts] = {}
    for scope, parts in walk(Aggregate(record, n_sequences, settings, of_pairs.pair_rows)):
        sums[scope] = parts
        if all(asked in sums for asked in scopes):
            break
    return LayerNorms(
        values=values,
        bias={scope: sums[scope].bias.norm(dim=-1) for scope in scopes},
        remainder={scope: _remainder_norm(sums[scope]) for scope in scopes},
        completeness={scope: sums[scope].error(record.whole[scope]) for scope in scopes},
    ).by_sequence(n_sequences)


class NormsThroughHeads:
    """The norms of what single heads bring: of the parts only, since bias part and completeness belong to no head.

    Coefficients and products of weights are made for the first head and serve all.

    Args:
        stack: The layer whole.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: As in `contribution_norms`.
        products: As in `contribution_norms`.
    """

    def __init__(
        self, stack: Stack, settings: Settings, scopes: tuple[str, ...], buffers: Buffers, products: HeadProducts
    ) -> None:
        self._settings = settings
        self._scopes = scopes
        self._buffers = buffers
        self._products = ProductsOfHeads(products, stack.record.block.attention.w_o)
        self._paths: dict[int, PathCoefficients] = {}

    def norms(self, stack: Stack, head: int) -> dict[str, Float[Tensor, "query key"]]:
        """By scope, of the layer restricted to a head (`heads.of_heads`), its sequences below each other."""
        pairs = pairs_of(stack, self._settings, self._buffers)
        products = replace(self._products, heads=(head,))
        of_pairs = NormsOfPairs(stack.record, pairs, self._settings, self._scopes, products, self._paths)
        return of_pairs.measure()


def norms_of_vectors(
    record: LayerRecord, settings: Settings, scopes: tuple[str, ...], queries_at_once: int = 8
) -> LayerNorms:
    """The same by making every vector, a few queries at a time: captum's road, and the check of the fast one.

    Args:
        record: One layer of one sequence.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        queries_at_once: How many queries' vectors are held; each takes [key d_mlp] numbers.
    """
    chunks = []
    for start in range(0, len(record.queries), queries_at_once):
        vectors = decompose_record(record.rows(slice(start, start + queries_at_once)), settings)
        tables = (
            {scope: vectors.parts(scope).norm(dim=-1) for scope in scopes},
            {scope: vectors.bias(scope).norm(dim=-1) for scope in scopes},
            {scope: vectors.remainder(scope).norm(dim=-1) for scope in scopes},
            {scope: vectors.completeness(scope) for scope in scopes},
        )
        chunks.append(tables)
    return LayerNorms(
        *(
            {scope: torch.cat([table[scope] for table in tables]) for scope in scopes}
            for tables in zip(*chunks, strict=True)
        )
    )


def errors_of_column(
    stack: Stack, values: Mapping[str, Float[Tensor, "sequence query key"]], key: int, settings: Settings
) -> dict[str, Float[Tensor, "sequence query"]]:
    """How far one source token's norms are from those of its vectors, over the largest of each query's row.

    Of the scopes before the feed-forward, where a vector is cheap; from there on the rows are summed, which completeness holds.

    Args:
        stack: One layer of some sequences.
        values: Their norms by scope.
        key: The source token.
        settings: How the decomposition is made.
    """
    program = PROGRAMS[stack.record.block.order]
    feed = next((number for number, step in enumerate(program) if isinstance(step.operation, Feed)), len(program))
    last = max((number for number, step in enumerate(program[:feed]) if step.scope in values), default=-1)
    if last < 0:
        return {}
    sequences = torch.arange(stack.n_sequences, device=stack.record.queries.device)
    column = Column(
        stack.record,
        sequences.repeat_interleave(len(stack.record.queries) // len(sequences)),
        key,
        settings,
        by_head=False,
    )
    errors = {}
    for scope, parts in walk(column):
        if scope in values:
            norms = parts.tokens.sum(dim=1).norm(dim=-1).view(values[scope].shape[:2])
            errors[scope] = _over_largest(values[scope][..., key] - norms, values[scope].amax(dim=-1))
        if scope == program[last].scope:
            break
    return errors


def errors_of_cell(
    stack: Stack,
    by_head: Mapping[str, Float[Tensor, "sequence channel query key"]],
    heads: Sequence[int],
    settings: Settings,
) -> dict[str, Float[Tensor, " channel"]]:
    """The same of the norms by head, of every scope, in one cell: the first query and its own token, which all channels reach.

    Args:
        stack: As in `errors_of_column`.
        by_head: Their norms by scope and channel, the residual's last.
        heads: The heads that the other channels are.
        settings: How the decomposition is made.
    """
    first = stack.record.rows(slice(1))
    key = int(first.queries)
    errors = {}
    for scope, parts in walk(Column(first, torch.zeros_like(first.queries), key, settings, by_head=True)):
        if scope in by_head:
            norms, table = parts.tokens[0, [*heads, -1]].norm(dim=-1), by_head[scope][0, :, 0]
            errors[scope] = _over_largest(table[:, key] - norms, table.amax(dim=-1))
    return errors


def _over_largest(miss: Tensor, largest: Tensor) -> Tensor:
    return miss.abs() / torch.where(largest == 0, 1, largest)


def _remainder_norm(parts: Parts) -> Float[Tensor, " query"]:
    return parts.bias.new_zeros(len(parts.bias)) if parts.remainder is None else parts.remainder.norm(dim=-1)
