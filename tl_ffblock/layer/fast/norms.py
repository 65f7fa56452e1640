"""A record -> the norms of all its parts, without ever holding the parts: the fast road.

1. The layer's program is followed once (`_NormsOfPairs`): linear scopes are sums over heads
   (head_sums.py), and from the feed-forward on there are rows, one a pair (pair_rows.py).
2. All pairs are gone through in groups of source tokens: Gram norms for the linear scopes, packed rows
   for the others.
3. The bias part, the remainder and the sum over source tokens go through `vectors.walk` as three
   vectors a query (`Aggregate`). The completeness error holds the sum of the packed rows against the
   model's tensor.

README.md beside this file walks one example through all of it. `norms_of_vectors` does the same by
making every vector.
"""

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from einops import rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.fast.aggregate import Aggregate
from tl_ffblock.layer.fast.bias_factors import BiasFactors
from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.fast.experts import FeedForwardInput
from tl_ffblock.layer.fast.head_sums import HeadSum, ReachablePairs
from tl_ffblock.layer.fast.pair_rows import PairRows
from tl_ffblock.layer.fast.part_norms import as_one_head, part_norms
from tl_ffblock.layer.fast.products import HeadProducts
from tl_ffblock.layer.parts import Parts, token_values
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.scopes import INPUT, PROGRAMS, Add, Attend, Feed, Normalise, NormName
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk, decompose_record, walk


@dataclass(frozen=True)
class LayerNorms:
    """The norms of one layer of one sequence, by scope."""

    values: dict[str, Float[Tensor, "query key"]]
    bias: dict[str, Float[Tensor, " query"]]
    remainder: dict[str, Float[Tensor, " query"]]
    completeness: dict[str, Float[Tensor, " query"]]

    def apart(self, n_sequences: int) -> list["LayerNorms"]:
        """Those of sequences below each other, one by one."""
        tables = [
            {scope: table.view(n_sequences, -1, *table.shape[1:]) for scope, table in tables.items()}
            for tables in (self.values, self.bias, self.remainder, self.completeness)
        ]
        return [
            LayerNorms(*({scope: table[number] for scope, table in of_all.items()} for of_all in tables))
            for number in range(n_sequences)
        ]


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
    return norms_of_sequences([record], settings, scopes, buffers=buffers, products=products)[0]


def norms_of_sequences(
    records: Sequence[LayerRecord],
    settings: Settings,
    scopes: tuple[str, ...],
    *,
    buffers: Buffers | None = None,
    products: HeadProducts | None = None,
) -> list[LayerNorms]:
    """The same of several sequences of one layer: those with equally many tokens and the same queries are worked on together.

    Args:
        records: One layer of some sequences.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: As in `contribution_norms`.
        products: As in `contribution_norms`.
    """
    if settings.method == "captum":
        return [norms_of_vectors(record, settings, scopes) for record in records]
    buffers, products = buffers or Buffers(), products or HeadProducts()
    norms: dict[int, LayerNorms] = {}
    for numbers in _alike(records, buffers, settings):
        record = LayerRecord.below_each_other([records[number] for number in numbers])
        values = token_values(record, settings.value_bias)[0]
        one_row = len(record.queries) == len(numbers)
        pairs = ReachablePairs(*(as_one_head(record, values) if one_row else (record, values)), buffers, len(numbers))
        flat = _norms(record, pairs, settings, scopes, products)
        norms |= zip(numbers, flat.apart(len(numbers)), strict=True)
    return [norms[number] for number in range(len(records))]


def _alike(records: Sequence[LayerRecord], buffers: Buffers, settings: Settings) -> Iterator[list[int]]:
    """Numbers of records that can be worked on together and fit the budget.

    Edited records go alone, and those of a mixture of experts, whose queries are served by different experts.
    """
    by_form: dict[Hashable, list[int]] = {}
    for number, record in enumerate(records):
        alone = record.edited or not isinstance(record.block.feed_forward, FeedForward)
        form = (id(record.block), len(record.resid_pre), *record.queries.tolist())
        by_form.setdefault(number if alone else form, []).append(number)
    for numbers in by_form.values():
        record = records[numbers[0]]
        at_once = buffers.budget(record.resid_pre.device).sequences(record, settings.chunk_bytes)
        for start in range(0, len(numbers), at_once):
            yield numbers[start : start + at_once]


def _norms(
    record: LayerRecord, pairs: ReachablePairs, settings: Settings, scopes: tuple[str, ...], products: HeadProducts
) -> LayerNorms:
    """The norms of sequences below each other, likewise below each other."""
    of_pairs = _NormsOfPairs(record, pairs, settings, scopes, products)
    values = of_pairs.measure()
    sums: dict[str, Parts] = {}
    for scope, parts in walk(Aggregate(record, pairs.n_sequences, settings, of_pairs.pair_rows)):
        sums[scope] = parts
        if all(asked in sums for asked in scopes):
            break
    return LayerNorms(
        values=values,
        bias={scope: sums[scope].bias.norm(dim=-1) for scope in scopes},
        remainder={scope: _remainder_norm(sums[scope]) for scope in scopes},
        completeness={scope: sums[scope].error(record.whole[scope]) for scope in scopes},
    )


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


def _remainder_norm(parts: Parts) -> Float[Tensor, " query"]:
    return parts.bias.new_zeros(len(parts.bias)) if parts.remainder is None else parts.remainder.norm(dim=-1)


class _NormsOfPairs:
    """Follows a layer's program for all pairs: sums over heads up to the feed-forward, rows from there on."""

    def __init__(
        self,
        record: LayerRecord,
        pairs: ReachablePairs,
        settings: Settings,
        scopes: tuple[str, ...],
        products: HeadProducts,
    ) -> None:
        self.pairs = pairs
        self.record = record
        self.settings = settings
        self.scopes = scopes
        self.products = products
        self.head_sums: dict[str, HeadSum] = {}
        self.pair_rows: PairRows | None = None
        self._plan()

    def measure(self) -> dict[str, Float[Tensor, "query key"]]:
        """The norms by scope."""
        asked = [self.head_sums[scope] for scope in self.scopes if scope in self.head_sums]
        # Scopes whose heads went through the same norms differ in scale and residual only: one Gram table for all.
        gram = {heads.norms: torch.zeros_like(self.record.pattern[0]) for heads in asked if heads.scale is not None}
        width = max(self.record.resid_pre.shape[1], 0 if self.pair_rows is None else self.pair_rows.width)
        for group in self.pairs.groups(width):
            for norms, table in gram.items():
                by_sequence = table.view(self.pairs.n_sequences, -1, self.pairs.n_keys)
                by_sequence[:, group.first_row :, group.keys] = rearrange(
                    part_norms(group.basis(norms), group.pattern),
                    "(key sequence) row -> sequence row key",
                    sequence=self.pairs.n_sequences,
                )
            if self.pair_rows is not None:
                self.pair_rows.queue(group)
        values = {
            scope: self._of_head_sum(self.head_sums[scope], gram) for scope in self.scopes if scope in self.head_sums
        }
        if self.pair_rows is None:
            return values
        self.pair_rows.flush()
        values |= self.pair_rows.norms
        return {scope: values[scope] for scope in self.scopes}

    def _of_head_sum(self, head_sum: HeadSum, gram: dict[tuple[NormName, ...], Tensor]) -> Float[Tensor, "query key"]:
        """`scale_i` times the heads' Gram norms; with a residual the own token's vector is made, d_model numbers a query."""
        vector = head_sum.residual
        if head_sum.scale is None:
            norms = torch.zeros_like(self.record.pattern[0])
        else:
            norms = gram[head_sum.norms] * head_sum.scale
            heads = head_sum.scale * self.pairs.self_values(head_sum.norms)
            vector = heads if vector is None else vector + heads
        assert vector is not None
        norms[range(len(norms)), self.pairs.positions * self.pairs.n_sequences] = vector.norm(dim=-1)
        return norms

    def _plan(self) -> None:
        """Follow the layer's program up to the last scope asked for.

        From the feed-forward on a program is one chain, so what a step there reads is what the rows are by then.
        """
        program = PROGRAMS[self.record.block.order]
        last = max(number for number, step in enumerate(program) if step.scope in self.scopes)
        for step in program[: last + 1]:
            if step.at_keys:
                continue  # it is in the values already
            match step.operation:
                case Attend():
                    self.head_sums[step.scope] = HeadSum(
                        scale=torch.ones_like(self.record.tensor(INPUT)[:, :1]),
                        bias=BiasFactors.of_attention(self.record, self.settings.value_bias),
                    )
                case Add(left, right):
                    self._add(step.scope, left, right)
                case Normalise(of, name):
                    self._normalise(step.scope, of, name)
                case Feed(of):
                    self._feed(step.scope, of)
            if self.pair_rows is not None and step.scope in self.scopes and step.scope not in self.head_sums:
                self.pair_rows.take_norms(step.scope)

    def _head_sum(self, operand: str) -> HeadSum | None:
        """A linear scope or the layer's input; None from the feed-forward on, where there are rows."""
        return HeadSum(residual=self.record.tensor(INPUT)) if operand == INPUT else self.head_sums.get(operand)

    def _add(self, scope: str, left: str, right: str) -> None:
        heads, added = self._head_sum(left), self._head_sum(right)
        assert added is not None  # only the left operand of a program's additions comes after the feed-forward
        if heads is not None:
            self.head_sums[scope] = heads + added
        else:
            self._rows().add(added)

    def _normalise(self, scope: str, of: str, name: NormName) -> None:
        norm, heads = self.record.block.norm(name), self._head_sum(of)
        scale = norm.scale(self.record.tensor(of))
        if heads is not None:
            self.head_sums[scope] = heads.normalised(name, norm, scale)
        else:
            self._rows().normalise(norm, scale)

    def _feed(self, scope: str, of: str) -> None:
        head_sum, x = self.head_sums[of], self.record.tensor(of)
        if head_sum.scale is not None:
            self.pair_rows = PairRows(FeedForwardInput(self.pairs, head_sum, x), self.settings, self.products)
            return
        # A parallel block's feed-forward reads its own position only: one vector a query, by the plain steps.
        assert head_sum.residual is not None
        unedited = LayerWalk(replace(self.record, edited=False), self.settings)
        alone = unedited.feed_forward(Parts(head_sum.residual[:, None], torch.zeros_like(head_sum.residual)), x)
        self.head_sums[scope] = HeadSum(residual=alone.tokens[:, 0])

    def _rows(self) -> PairRows:
        assert self.pair_rows is not None
        return self.pair_rows
