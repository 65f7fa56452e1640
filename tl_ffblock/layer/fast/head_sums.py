"""Linear scopes as sums over heads: what a part is before its vector is made.

Up to the feed-forward every part is a sum of the heads' vectors plus, at its own token, the
residual's (eq. 21, 26-27, 28-34):

    F_i(x_j) = scale_i sum_h alpha[h,i,j] B[h,j] + delta_ij residual_i

`B[h,j]` is `v[h,j] W_O[h]` through the linear parts of the norms passed; the norms' divisions are in
`scale_i`. So a linear scope of all pairs is a `HeadSum`: a list of norms, a number a query and at most one
vector a query. Its norms need no vectors: with the heads' Gram matrix `K_j = B_j B_j^T` they are
`scale_i sqrt(alpha_ij K_j alpha_ij)`, a form of n_heads numbers a pair instead of d_model.

A *row* is the number of a query among a sequence's queries; a causal layer's first rows see fewer keys. Equally long
sequences are worked on together, one below the other (`LayerRecord.below_each_other`): a source token then stands for
one of each sequence, and is as many matrices of a batched product.
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
    """The bias part of a linear scope as a product of two small matrices, `weights @ vectors`.

    Every query has the same few constants in its bias part: each head's, times the row sum of its pattern; the output bias;
    the shift of each norm passed; all divided by the scales of the norms after them (eq. 21, 28-34). So through the
    feed-forward's input matrices go n_heads + 2 vectors, and not one per query.
    """

    weights: Float[Tensor, "query rank"]
    vectors: Float[Tensor, "rank d_model"]

    @classmethod
    def of_attention(cls, record: LayerRecord, value_bias: str) -> "BiasFactors":
        """`sum_h rowsum(alpha[h,i]) constant[h] W_O[h] + b_O`."""
        attention, constant = record.block.attention, value_constant(record, value_bias)
        written = einsum(constant, attention.w_o, "head e, head e d -> head d")
        return cls(record.pattern_sums.T, written).plus(attention.b_o)

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


@dataclass(frozen=True, eq=False)  # told apart by identity: two sums are never the same by chance
class HeadSum:
    """A linear scope of all pairs (the formula above).

    `norms` are those of the block that the heads' vectors went through. `scale` is what the heads' sum is multiplied by; None
    where no head takes part (the layer's input alone). `residual` is every query's own token beside the heads; None where
    nothing. `bias` is the scope's bias part; None where it has none or nobody asks.
    """

    norms: tuple[NormName, ...] = ()
    scale: Float[Tensor, "query 1"] | None = None
    residual: Float[Tensor, "query d_model"] | None = None
    bias: BiasFactors | None = None

    def __add__(self, other: "HeadSum") -> "HeadSum":
        """The sum of two of which at most one has heads: their norms would differ, and so their `B[h,j]`."""
        heads = self if self.scale is not None else other  # and the bias part with them
        if self.residual is None or other.residual is None:
            return replace(heads, residual=other.residual if self.residual is None else self.residual)
        return replace(heads, residual=self.residual + other.residual)

    def normalised(self, name: NormName, norm: Norm, scale: Float[Tensor, "query 1"]) -> "HeadSum":
        """The same through a norm with the scale of the real run (eq. 30); its shift is the bias part's."""
        residual = None if self.residual is None else norm.linear(self.residual) / scale
        bias = None if self.bias is None else self.bias.normalised(norm, scale)
        return HeadSum((*self.norms, name), None if self.scale is None else self.scale / scale, residual, bias)


class KeyGroup:
    """Some neighbouring source tokens with what their heads' values become on the way."""

    def __init__(self, pairs: "ReachablePairs", keys: slice) -> None:
        self.keys = keys
        self.first_row = pairs.first_row(keys.start)
        self.n_sequences = pairs.n_sequences
        # Source tokens first and heads last: every source token is then one matrix [row head] of a batched product.
        pattern = pairs.record.pattern.view(-1, pairs.n_sequences, pairs.n_queries, pairs.n_keys)
        self.pattern: Float[Tensor, "matrix row head"] = rearrange(
            pattern[:, :, self.first_row :, keys], "head sequence row key -> (key sequence) row head"
        ).contiguous()
        self._block = pairs.record.block
        values = pairs.values.view(pairs.n_sequences, pairs.n_keys, *pairs.values.shape[1:])[:, keys]
        self._values = rearrange(values, "sequence key head e -> (key sequence) head e")
        self._buffers = pairs.buffers
        # The buffers tell owners apart and keep them alive; the group itself would keep all its tensors with it.
        self._owner = object()
        self._bases: dict[tuple[NormName, ...], Tensor] = {
            (): einsum(self._values, self._block.attention.w_o, "key head e, head e d -> key head d")
        }
        self._weights: dict[HeadSum, Tensor] = {}

    def weights(self, head_sum: HeadSum) -> Float[Tensor, "matrix row head"]:
        """`scale_i alpha[h,i,j]`: how much of every basis vector a part holds."""
        assert head_sum.scale is not None
        if head_sum not in self._weights:
            scale = head_sum.scale.view(self.n_sequences, -1, 1)[:, self.first_row :]
            pattern = self.pattern.view(-1, self.n_sequences, *self.pattern.shape[1:])
            self._weights[head_sum] = (pattern * scale).flatten(0, 1)
        return self._weights[head_sum]

    def basis(self, norms: tuple[NormName, ...]) -> Float[Tensor, "matrix head d_model"]:
        """`B[h,j]`: the heads' vectors through the linear parts of some norms."""
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
        """`B[h,j] W`, made once a group; by a head product (`HeadProducts`) `v[h,j] A[h]`, the same.

        Matrices that are in use at a time need different buffers.
        """
        n_keys, n_heads, _ = self._values.shape
        if product is None:
            return self._buffers.filled_by(
                self._owner, buffer, n_keys, n_heads, w.shape[1], like=w,
                fill=lambda memory: torch.mm(self.basis(norms).flatten(0, 1), w, out=memory.flatten(0, 1)),
            )  # fmt: skip
        # Every head has a matrix of its own, so heads come first here; as a view they come second again.
        heads_first = self._buffers.filled_by(
            self._owner, buffer, n_heads, n_keys, product.shape[2], like=product,
            fill=lambda memory: torch.bmm(self._values.transpose(0, 1), product, out=memory),
        )  # fmt: skip
        return heads_first.transpose(0, 1)


class Tile:
    """A few source tokens of a group against neighbouring rows; its pairs are counted source token by source token."""

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
        """Its rows."""
        return range(self.rows.start, self.rows.stop)

    def cut(self, table: Float[Tensor, "group_matrix group_row head"]) -> Float[Tensor, "matrix row head"]:
        """The tile's part of a table of its group."""
        first_row = self.group.first_row
        return table[self.keys_in_group, self.rows.start - first_row : self.rows.stop - first_row]

    def offsets(self, rows: Sequence[int]) -> slice | list[int]:
        """Some of the tile's rows, counted from its first; a range is all of them."""
        return slice(None) if isinstance(rows, range) else [row - self.rows.start for row in rows]


@dataclass(frozen=True)
class PackedPairs:
    """Pairs one below the other: the number of each in a table [sequence * query, key], and its query."""

    cells: Int[Tensor, " pair"]
    queries: Int[Tensor, " pair"]
    own: Int[Tensor, " own"]
    """Those that are a query and its own token."""
    own_queries: Int[Tensor, " own"]

    def add_residual(self, rows: Float[Tensor, "pair width"], residual: Float[Tensor, "query width"] | None) -> None:
        """Add what the residual brought to the rows of a query and its own token."""
        if residual is not None:
            rows.index_add_(0, self.own, residual[self.own_queries])


class ReachablePairs:
    """All pairs of a query and a source token of its sequence that it can see; queries ascend.

    Args:
        record: One layer of one sequence, or of several below each other.
        values: Of the tokens, for every head.
        buffers: Memory to work in.
        n_sequences: How many sequences these are.
        positions: Of a sequence's queries, where they are known without asking the device.
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
        # Of every row.
        self.positions = record.queries[: self.n_queries].tolist() if positions is None else list(positions)
        self._form = (n_sequences, self.n_keys, values.device, *self.positions)
        # The number of every pair, and of every query with its own token, in a table [sequence * query, key].
        self.cells, self.own_cells = buffers.same_for(self._form, "cells", self._numbered)
        # How many pairs of this layer are as much work as a call's fixed cost: a pair takes 2 d_mlp d_model operations, and
        # d_mlp is about 4 d_model.
        self._pairs_of_a_call = self.budget.call_operations // (8 * record.resid_pre.shape[1] ** 2)

    def _numbered(self) -> tuple[Int[Tensor, "key sequence query"], Int[Tensor, " row"]]:
        """Number of a pair in a table [sequence * query, key]: row * n_keys + key."""
        rows, keys = (
            torch.arange(size, device=self.values.device, dtype=torch.int32)
            for size in (self.n_sequences * self.n_queries, self.n_keys)
        )
        first = rows * self.n_keys
        own = first + self.record.queries.to(torch.int32) % self.n_keys  # which count over the keys of all sequences
        return first.view(self.n_sequences, -1) + keys[:, None, None], own

    def packed(self, tiles: "Sequence[Tile]") -> "PackedPairs":
        """All pairs of some tiles, one below the other."""

        def pack() -> PackedPairs:
            cells = torch.cat([self.cells[tile.keys, :, tile.rows].flatten() for tile in tiles])
            return PackedPairs(cells, cells // self.n_keys, *self.own(tiles, [tile.every_row for tile in tiles]))

        bounds = [(tile.keys.start, tile.keys.stop, tile.rows.start, tile.rows.stop) for tile in tiles]
        return self.buffers.same_for((self._form, *bounds), "packed", pack)

    def own(
        self, tiles: "Sequence[Tile]", rows_of: Sequence[Sequence[int]]
    ) -> tuple[Int[Tensor, " own"], Int[Tensor, " own"]]:
        """Which pairs of some rows of tiles, one below the other, are a query and its own token, and those queries."""
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
        # Found on the CPU and copied without waiting for the device, which would have to be asked how many there are.
        there = torch.tensor([pairs, queries], dtype=torch.long).to(self.values.device, non_blocking=True)
        return there[0], there[1]

    def count(self) -> int:
        """How many pairs there are."""
        n_pairs = sum(self.positions) + self.n_queries if self.record.block.causal else self.n_queries * self.n_keys
        return self.n_sequences * n_pairs

    def first_row(self, key: int) -> int:
        """The first row that can see a source token."""
        return bisect_left(self.positions, key) if self.record.block.causal else 0

    def groups(self, width: int) -> Iterator[KeyGroup]:
        """All source tokens that some row can see, in groups of equal size that fit the budget.

        `width` is how many numbers a source token and head will become at most.
        """
        reach = self.positions[-1] + 1 if self.record.block.causal else self.n_keys
        bytes_a_key = self.n_sequences * self.values.shape[1] * width * self.values.element_size()
        n_groups = math.ceil(reach / max(1, self.budget.group_bytes // bytes_a_key))
        step = math.ceil(reach / n_groups)
        for start in range(0, reach, step):
            yield KeyGroup(self, slice(start, min(start + step, reach)))

    def tiles(self, group: KeyGroup, capacity: int) -> Iterator[Tile]:
        """A group in tiles of at most `capacity` pairs.

        A tile is a rectangle, all of its rows times all of its source tokens. Without a causal mask the group is
        as many tokens high as fit. With it, a tile of tokens j..j+k has the rows that see token j, of which the first
        k cannot see token j+k: those pairs come out as zeros, worked on for nothing. A tile grows as long as these are
        fewer than the pairs a call of its own would cost.
        """
        capacity = max(1, capacity // self.n_sequences)  # of one sequence
        key = group.keys.start
        while key < group.keys.stop:
            first = self.first_row(key)
            keys = slice(key, self._last_key(key, group.keys.stop, capacity // max(1, self.n_queries - first)))
            for row in range(first, self.n_queries, capacity):
                yield Tile(group, keys, slice(row, min(row + capacity, self.n_queries)))
            key = keys.stop

    def _last_key(self, key: int, stop: int, most: int) -> int:
        """Up to which source token a tile goes that begins with a token, is at most so high, and ends in its group."""
        first, wasted, last = self.first_row(key), 0, key + 1
        while last < min(stop, key + most):
            wasted += self.n_sequences * (self.first_row(last) - first)
            if wasted > self._pairs_of_a_call:
                break
            last += 1
        return last

    def self_values(self, norms: tuple[NormName, ...]) -> Float[Tensor, "query d_model"]:
        """`sum_h alpha[h,i,i] B[h,i]`: the heads' part of every query's own token."""
        return linear_parts([self.record.block.norm(name) for name in norms], self._self_values)

    @cached_property
    def _self_values(self) -> Float[Tensor, "query d_model"]:
        pattern = self.record.pattern.flatten(1)[:, self.own_cells]
        z = einsum(pattern, self.values[self.record.queries], "head query, query head e -> query head e")
        return einsum(z, self.record.block.attention.w_o, "query head e, head e d -> query d")
