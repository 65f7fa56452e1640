"""Contributions at linear scopes as sums over heads, before their vectors are made.

Up to the feed-forward, every contribution is a sum of the heads' vectors plus, for the query's own token, the residual's (eq.
21, 26-27, 28-34):

    F_i(x_j) = scale_i sum_h alpha[h,i,j] B[h,j] + delta_ij residual_i

`B[h,j]` is `v[h,j] W_O[h]` after the linear parts of the norms in between; their divisions are in `scale_i`. So a linear scope
of all pairs is a `HeadSum`: a list of norms, one number per query and at most one vector per query. Its norms need no vectors.
With the heads' Gram matrix `K_j = B_j B_j^T` they are `scale_i sqrt(alpha_ij K_j alpha_ij)`, which takes n_heads numbers per
pair instead of d_model.

A *row* is the number of a query among a sequence's queries; in a causal layer the first rows see fewer keys. Equally long
sequences are processed together, concatenated (`LayerRecord.below_each_other`). A source token then means that position of each
sequence, one matrix per sequence in a batched product.
"""

# Noun: weighted transformed vectors `alpha f(x)`, summed over heads (Kobayashi et al. 2020, section 3)

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.fast.buffers import Buffers, linear_parts
from tl_ffblock.layer.linear import value_constant
from tl_ffblock.layer.records import InputMatrix, LayerRecord, Norm
from tl_ffblock.layer.scopes import NormName


@dataclass(frozen=True, eq=False)
class BiasFactors:
    """Bias part of a linear scope as a product of two small matrices, `weights @ vectors`.

    Every query's bias part has the same few constants: that of each head, times the row sum of its pattern; the output bias;
    and the shift of each norm. All are divided by the scales of later norms (eq. 21, 28-34). So n_heads + 2 vectors go through
    the feed-forward's input matrices, instead of one per query.
    """

    weights: Float[Tensor, "query rank"]
    vectors: Float[Tensor, "rank d_model"]

    @classmethod
    def of_attention(cls, record: LayerRecord, value_bias: str) -> "BiasFactors":
        """Bias part of attention: `sum_h rowsum(alpha[h,i]) constant[h] W_O[h] + b_O` (eq. 21)."""
        attention, constant = record.block.attention, value_constant(record, value_bias)
        if record.constant is not None:  # heads are channels of width 1, each with a number of its own per query
            weights = record.pattern_sums.T * constant[:, 0] + record.constant[..., 0]
            return cls(weights, attention.w_o[:, 0]).plus(attention.b_o)
        written = einsum(constant, attention.w_o, "head e, head e d -> head d")
        return cls(record.pattern_sums.T, written).plus(attention.b_o)

    def plus(self, vector: Float[Tensor, " d_model"]) -> "BiasFactors":
        """Sum with a vector that is the same for every query."""
        once = torch.ones_like(self.weights[:, :1])
        return BiasFactors(torch.cat([self.weights, once], dim=1), torch.cat([self.vectors, vector[None]]))

    def normalised(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> "BiasFactors":
        """Bias part after a norm with the scale of the forward pass; the norm's shift is added (eq. 30)."""
        return BiasFactors(self.weights / scale, norm.linear(self.vectors)).plus(norm.shift)

    def through(self, w: Float[Tensor, "d_model d_mlp"], b: Float[Tensor, " d_mlp"]) -> Float[Tensor, "query d_mlp"]:
        """`bias W + b` of every query, [query d_mlp]."""
        return torch.addmm(b, self.weights, self.vectors @ w)


@dataclass(frozen=True, eq=False)  # compared by identity, as a key of `KeyGroup.weights`
class HeadSum:
    """Contributions of all pairs at a linear scope (the formula above).

    `norms` are the norms of the block that the heads' vectors went through. `scale` multiplies the sum over heads; None if no
    head takes part (the layer's input alone). `residual` is added for every query's own token; None if there is none. `bias` is
    the scope's bias part; None if it has none or it is not needed.
    """

    norms: tuple[NormName, ...] = ()
    scale: Float[Tensor, "query 1"] | None = None
    residual: Float[Tensor, "query d_model"] | None = None
    bias: BiasFactors | None = None

    def __add__(self, other: "HeadSum") -> "HeadSum":
        """Sum of two scopes, of which at most one has heads: otherwise their norms, and so their `B[h,j]`, would differ."""
        heads = self if self.scale is not None else other  # its bias part is that of the sum
        if self.residual is None or other.residual is None:
            return replace(heads, residual=other.residual if self.residual is None else self.residual)
        return replace(heads, residual=self.residual + other.residual)

    def times(self, factor: float) -> "HeadSum":
        """The scope times a number."""
        scale, residual = (None if of is None else factor * of for of in (self.scale, self.residual))
        bias = None if self.bias is None else replace(self.bias, weights=factor * self.bias.weights)
        return replace(self, scale=scale, residual=residual, bias=bias)

    def normalised(self, name: NormName, norm: Norm, scale: Float[Tensor, "query 1"]) -> "HeadSum":
        """The scope after a norm with the scale of the forward pass (eq. 30); the norm's shift goes to the bias part."""
        residual = None if self.residual is None else norm.linear(self.residual) / scale
        bias = None if self.bias is None else self.bias.normalised(norm, scale)
        return HeadSum((*self.norms, name), None if self.scale is None else self.scale / scale, residual, bias)


class KeyGroup:
    """Some neighbouring source tokens, with their heads' vectors and pre-activations."""

    def __init__(self, pairs: "ReachablePairs", keys: slice) -> None:
        self.keys = keys
        self.first_row = pairs.first_row(keys.start)
        self.n_sequences = pairs.n_sequences
        # Source tokens first and heads last: each source token is one matrix [row head] of a batched product.
        pattern = pairs.record.pattern.view(-1, pairs.n_sequences, pairs.n_queries, pairs.n_keys)
        self.pattern: Float[Tensor, "matrix row head"] = rearrange(
            pattern[:, :, self.first_row :, keys], "head sequence row key -> (key sequence) row head"
        ).contiguous()
        self._block = pairs.record.block
        values = pairs.values.view(pairs.n_sequences, pairs.n_keys, *pairs.values.shape[1:])[:, keys]
        self._values = rearrange(values, "sequence key head e -> (key sequence) head e")
        self._buffers = pairs.buffers
        # Owner of the buffers' content, which they compare by identity and hold a reference to. With the group itself they
        # would hold all its tensors.
        self._owner = object()
        self._bases: dict[tuple[NormName, ...], Tensor] = {
            (): einsum(self._values, self._block.attention.w_o, "key head e, head e d -> key head d")
        }
        self._weights: dict[HeadSum, Tensor] = {}

    def weights(self, head_sum: HeadSum) -> Float[Tensor, "matrix row head"]:
        """Weights `scale_i alpha[h,i,j]` of the basis vectors."""
        assert head_sum.scale is not None
        if head_sum not in self._weights:
            scale = head_sum.scale.view(self.n_sequences, -1, 1)[:, self.first_row :]
            pattern = self.pattern.view(-1, self.n_sequences, *self.pattern.shape[1:])
            self._weights[head_sum] = (pattern * scale).flatten(0, 1)
        return self._weights[head_sum]

    def basis(self, norms: tuple[NormName, ...]) -> Float[Tensor, "matrix head d_model"]:
        """Basis `B[h,j]`: the heads' vectors after the linear parts of some norms."""
        if norms not in self._bases:
            self._bases[norms] = self._block.norm(norms[-1]).linear(self.basis(norms[:-1]))
        return self._bases[norms]

    def pre_activations(
        self,
        buffer: tuple[InputMatrix, int],
        w: Float[Tensor, "d_model d_mlp"],
        norms: tuple[NormName, ...],
        product: Float[Tensor, "head d_head d_mlp"] | None = None,
    ) -> Float[Tensor, "matrix head d_mlp"]:
        """Pre-activations `B[h,j] W`, computed once per group; with a head product (`HeadProducts`) as `v[h,j] A[h]`.

        Matrices in use at the same time need different buffers.
        """
        n_keys, n_heads, _ = self._values.shape
        if product is None:
            return self._buffers.filled_by(
                self._owner, buffer, n_keys, n_heads, w.shape[1], like=w,
                fill=lambda memory: torch.mm(self.basis(norms).flatten(0, 1), w, out=memory.flatten(0, 1)),
            )  # fmt: skip
        # A product has one matrix per head, so heads come first in memory; the returned view has them second again.
        heads_first = self._buffers.filled_by(
            self._owner, buffer, n_heads, n_keys, product.shape[2], like=product,
            fill=lambda memory: torch.bmm(self._values.transpose(0, 1), product, out=memory),
        )  # fmt: skip
        return heads_first.transpose(0, 1)


class Tile:
    """Some source tokens of a group times neighbouring rows; its pairs are ordered by source token."""

    def __init__(self, group: KeyGroup, keys: slice, rows: slice) -> None:
        self.group, self.keys, self.rows = group, keys, rows
        self.n_keys = keys.stop - keys.start
        # Matrices of a batched product: source tokens of all sequences, counted from the group's first.
        self.n_matrices = self.n_keys * group.n_sequences
        self.n_pairs = self.n_matrices * (rows.stop - rows.start)
        first = (keys.start - group.keys.start) * group.n_sequences
        self.keys_in_group = slice(first, first + self.n_matrices)

    @property
    def every_row(self) -> range:
        """Rows of the tile."""
        return range(self.rows.start, self.rows.stop)

    def cut(self, table: Float[Tensor, "group_matrix group_row head"]) -> Float[Tensor, "matrix row head"]:
        """Entries of the tile in a table of its group."""
        first_row = self.group.first_row
        return table[self.keys_in_group, self.rows.start - first_row : self.rows.stop - first_row]

    def offsets(self, rows: Sequence[int]) -> slice | list[int]:
        """Index of some of the tile's rows, from its first row; a range means all of them."""
        return slice(None) if isinstance(rows, range) else [row - self.rows.start for row in rows]


@dataclass(frozen=True)
class PackedPairs:
    """Concatenated pairs: index of each in a table [sequence * query, key], and its query."""

    cells: Int[Tensor, " pair"]
    queries: Int[Tensor, " pair"]
    own: Int[Tensor, " own"]
    """Pairs of a query and its own token."""
    own_queries: Int[Tensor, " own"]

    def add_residual(self, rows: Float[Tensor, "pair width"], residual: Float[Tensor, "query width"] | None) -> None:
        """Add the residual's term, in place, to the rows of queries with their own token."""
        if residual is not None:
            rows.index_add_(0, self.own, residual[self.own_queries])


class ReachablePairs:
    """All pairs of a query and a source token of its sequence that the mask allows; queries ascend.

    Args:
        record: One layer of one sequence, or of several concatenated ones.
        values: Value vectors of the tokens, for every head.
        buffers: Buffers to work in.
        n_sequences: Number of sequences.
        positions: Positions of a sequence's queries, if they are known without reading them from the device.
    """

    def __init__(
        self,
        record: LayerRecord,
        values: Float[Tensor, "key head d_head"],
        buffers: Buffers,
        n_sequences: int = 1,
        positions: Sequence[int] | None = None,
    ) -> None:
        self.record = record
        self.values = values
        self.buffers = buffers
        self.budget = buffers.budget(values.device)
        self.n_sequences = n_sequences
        self.n_queries = len(record.queries) // n_sequences
        self.n_keys = record.resid_pre.shape[0] // n_sequences
        # Position of each row.
        self.positions = record.queries[: self.n_queries].tolist() if positions is None else list(positions)
        self._form = (n_sequences, self.n_keys, values.device, *self.positions)
        # Index of every pair, and of every query with its own token, in a table [sequence * query, key].
        self.cells, self.own_cells = buffers.same_for(self._form, "cells", self._numbered)
        # Number of pairs that cost as much as a call: a pair takes 2 d_mlp d_model operations, and d_mlp is about 4 d_model.
        self._pairs_of_a_call = self.budget.call_operations // (8 * record.resid_pre.shape[1] ** 2)

    def _numbered(self) -> tuple[Int[Tensor, "key sequence query"], Int[Tensor, " row"]]:
        """Index of each pair in a table [sequence * query, key]: row * n_keys + key; and of each query with its own token."""
        rows, keys = (
            torch.arange(size, device=self.values.device, dtype=torch.int32)
            for size in (self.n_sequences * self.n_queries, self.n_keys)
        )
        first = rows * self.n_keys
        own = first + self.record.queries.to(torch.int32) % self.n_keys  # numbered over all sequences
        return first.view(self.n_sequences, -1) + keys[:, None, None], own

    def packed(self, tiles: "Sequence[Tile]") -> "PackedPairs":
        """All pairs of some tiles, concatenated."""

        def pack() -> PackedPairs:
            cells = torch.cat([self.cells[tile.keys, :, tile.rows].flatten() for tile in tiles])
            return PackedPairs(cells, cells // self.n_keys, *self.own(tiles, [tile.every_row for tile in tiles]))

        bounds = [(tile.keys.start, tile.keys.stop, tile.rows.start, tile.rows.stop) for tile in tiles]
        return self.buffers.same_for((self._form, *bounds), "packed", pack)

    def own(
        self, tiles: "Sequence[Tile]", rows_of: Sequence[Sequence[int]]
    ) -> tuple[Int[Tensor, " own"], Int[Tensor, " own"]]:
        """Pairs of a query and its own token among the concatenated pairs of some rows of tiles, and their queries."""
        pairs, queries, first = list[int](), list[int](), 0
        for tile, rows in zip(tiles, rows_of, strict=True):
            for key in range(tile.keys.start, tile.keys.stop):
                row = bisect_left(self.positions, key)
                place = bisect_left(rows, row)
                if row == self.n_queries or self.positions[row] != key or place == len(rows) or rows[place] != row:
                    continue
                for sequence in range(self.n_sequences):
                    matrix = (key - tile.keys.start) * self.n_sequences + sequence
                    pairs.append(first + matrix * len(rows) + place)
                    queries.append(sequence * self.n_queries + row)
            first += tile.n_matrices * len(rows)
        # Found on the CPU and copied asynchronously: a search on the device would have to wait for the number of pairs.
        there = torch.tensor([pairs, queries], dtype=torch.long).to(self.values.device, non_blocking=True)
        return there[0], there[1]

    def count(self) -> int:
        """Number of pairs."""
        n_pairs = sum(self.positions) + self.n_queries if self.record.block.causal else self.n_queries * self.n_keys
        return self.n_sequences * n_pairs

    def first_row(self, key: int) -> int:
        """First row that sees a source token."""
        return bisect_left(self.positions, key) if self.record.block.causal else 0

    def groups(self, width: int) -> Iterator[KeyGroup]:
        """All source tokens that some row sees, in groups of equal size that fit the budget.

        Args:
            width: Largest number of values that a source token and head take.
        """
        reach = self.positions[-1] + 1 if self.record.block.causal else self.n_keys
        bytes_a_key = self.n_sequences * self.values.shape[1] * width * self.values.element_size()
        n_groups = math.ceil(reach / max(1, self.budget.group_bytes // bytes_a_key))
        step = math.ceil(reach / n_groups)
        for start in range(0, reach, step):
            yield KeyGroup(self, slice(start, min(start + step, reach)))

    def tiles(self, group: KeyGroup, capacity: int) -> Iterator[Tile]:
        """A group in tiles of at most `capacity` pairs.

        A tile is a rectangle of rows and source tokens. Without a causal mask it has as many tokens as fit. With it, a tile of
        tokens j..j+k has the rows that see token j. The first k of them do not see token j+k: these pairs give zeros, and their
        work is wasted. A tile grows as long as the wasted pairs are fewer than a call of its own would cost.
        """
        capacity = max(1, capacity // self.n_sequences)  # pairs of one sequence
        key = group.keys.start
        while key < group.keys.stop:
            first = self.first_row(key)
            keys = slice(key, self._last_key(key, group.keys.stop, capacity // max(1, self.n_queries - first)))
            for row in range(first, self.n_queries, capacity):
                yield Tile(group, keys, slice(row, min(row + capacity, self.n_queries)))
            key = keys.stop

    def _last_key(self, key: int, stop: int, most: int) -> int:
        """End of the source tokens of a tile that begins with `key`, has at most `most` tokens, and ends in its group."""
        first, wasted, last = self.first_row(key), 0, key + 1
        while last < min(stop, key + most):
            wasted += self.n_sequences * (self.first_row(last) - first)
            if wasted > self._pairs_of_a_call:
                break
            last += 1
        return last

    def self_values(self, norms: tuple[NormName, ...]) -> Float[Tensor, "query d_model"]:
        """Sum `sum_h alpha[h,i,i] B[h,i]`: the heads' part of the contribution of every query's own token."""
        return linear_parts([self.record.block.norm(name) for name in norms], self._self_values)

    @cached_property
    def _self_values(self) -> Float[Tensor, "query d_model"]:
        pattern = self.record.pattern.flatten(1)[:, self.own_cells]
        z = einsum(pattern, self.values[self.record.queries], "head query, query head e -> query head e")
        return einsum(z, self.record.block.attention.w_o, "query head e, head e d -> query d")
