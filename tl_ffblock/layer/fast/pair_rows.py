"""The feed-forward of all pairs at the cost of one matrix product each.

The pre-activation of a pair is a sum over heads, and the residual's at the own token (eq. 12-14, 44):

    p_ij = scale_i sum_h alpha[h,i,j] (B[h,j] W) + delta_ij residual_i W

Weighed by the coefficients of Integrated Gradients at query i (activations.py), `r_i * p_ij`, pairs are
packed to as many rows as the budget holds and go through W_out together: `2 d_mlp d_model` operations a
pair, nearly the whole cost of a map. The norms of the feed-forward and of all later scopes are taken from
the rows, and the rows are forgotten.

    tile: pattern [matrix row head] @ heads' pre-activations [matrix head d_mlp] -> [matrix row d_mlp]   times r_i
    tiles, one below the other: packed [pair d_mlp] @ W_out [d_mlp d_model] -> [pair d_model]
    later steps, in place: + residual and heads, norms of the block; ||.|| -> table [query key]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.bias_factors import BiasFactors
from tl_ffblock.layer.fast.experts import Expert, FeedForwardInput, experts_of
from tl_ffblock.layer.fast.head_sums import HeadSum, KeyGroup, Tile
from tl_ffblock.layer.fast.products import Products
from tl_ffblock.layer.records import Norm
from tl_ffblock.layer.settings import Settings


@dataclass(frozen=True)
class _AddHeadSum:
    """A linear scope is added to the rows."""

    head_sum: HeadSum


@dataclass(frozen=True)
class _NormaliseRows:
    """The rows go through a norm, with every query's scale of the real run."""

    norm: Norm
    scale: Float[Tensor, "query 1"]


@dataclass(frozen=True)
class _TakeNorms:
    """The rows' norms are written to a scope's table."""

    table: Float[Tensor, "query key"]


_RowStep: TypeAlias = _AddHeadSum | _NormaliseRows | _TakeNorms


class PairRows:
    """Packs the pairs that can be reached and takes the norms of what the feed-forward makes of them.

    First the steps are said (`add`, `normalise`, `take_norms`), then the pairs are sent (`queue`, `flush`).

    Args:
        given: What goes into the feed-forward.
        settings: How the decomposition is made.
        products: Head products that were made before.
    """

    def __init__(self, given: FeedForwardInput, settings: Settings, products: Products) -> None:
        pairs, x = given.pairs, given.x
        self.pairs = pairs
        self.norms: dict[str, Float[Tensor, "query key"]] = {}
        """Filled by `flush` for every scope that `take_norms` named."""
        self.rows_sum = torch.zeros_like(x)
        """Sum over source tokens of the feed-forward's rows."""
        self.end = ""
        """The last scope that `take_norms` named."""
        self.end_sum = self.rows_sum
        """Sum over source tokens of the rows of that scope."""
        self._given = given
        self._settings = settings
        self._steps: list[_RowStep] = []
        self._experts = experts_of(given, products)
        n_branches = max(len(expert.branches) for expert in self._experts)
        d_mlp, d_model = max(expert.w_out.shape[0] for expert in self._experts), x.shape[1]
        self.width = n_branches * d_mlp * len(self._experts)
        """Pre-activations of one source token and head."""
        # A queued pair takes d_mlp numbers a branch, and d_model before and after the experts are summed.
        bytes_a_pair = (n_branches * d_mlp + 2 * d_model) * x.element_size()
        self._capacity = max(1, (settings.chunk_bytes or pairs.budget.row_bytes) // bytes_a_pair)
        self._packed, *self._scratch = (
            pairs.buffers.reserve(("packed", number), self._capacity * d_mlp, like=x) for number in range(n_branches)
        )
        self._rows = pairs.buffers.reserve("rows", self._capacity, d_model, like=x)
        self._waiting: list[Tile] = []
        self._n_waiting_pairs = 0

    @property
    def paths(self) -> dict[int, PathCoefficients]:
        """The coefficients of Integrated Gradients at every query, by number of the expert."""
        return {expert.number: expert.path for expert in self._experts}

    @property
    def bias(self) -> BiasFactors | None:
        """The bias part of what goes into the feed-forward."""
        return self._given.head_sum.bias

    def add(self, head_sum: HeadSum) -> None:
        """The next step: a linear scope is added."""
        self._steps.append(_AddHeadSum(head_sum))

    def normalise(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> None:
        """The next step: a norm with the scale of the real run; its shift is the bias part's."""
        self._steps.append(_NormaliseRows(norm, scale))

    def take_norms(self, scope: str) -> None:
        """The rows are now a scope whose norms are asked for."""
        self.norms[scope] = self.rows_sum.new_zeros(len(self.rows_sum), self.pairs.n_keys)
        self.end, self.end_sum = scope, torch.zeros_like(self.rows_sum) if self._steps else self.rows_sum
        self._steps.append(_TakeNorms(self.norms[scope]))

    def queue(self, group: KeyGroup) -> None:
        """Queue the pairs of a group of source tokens and all rows that can see them."""
        for tile in self.pairs.tiles(group, self._capacity):
            if self._n_waiting_pairs + tile.n_pairs > self._capacity:
                self.flush()
            self._waiting.append(tile)
            self._n_waiting_pairs += tile.n_pairs

    def flush(self) -> None:
        """Send what is queued through the feed-forward and all steps after it."""
        if not self._waiting:
            return
        cells = torch.cat([self.pairs.cells[tile.keys, :, tile.rows].flatten() for tile in self._waiting])
        rows = self._feed_forward()
        queries = cells // self.pairs.n_keys  # [pair]: the number of every pair's query
        self._add_to_sum(rows, self.rows_sum)
        for step in self._steps:
            match step:
                case _AddHeadSum(head_sum):
                    self._add_head_sum(rows, head_sum)
                    self.pairs.add_residual(rows, cells, head_sum.residual)
                case _NormaliseRows(norm, scale):
                    norm.linear_(rows).div_(scale[queries])
                case _TakeNorms(table):
                    table.view(-1)[cells] = torch.linalg.vector_norm(rows, dim=-1)
        if self.end_sum is not self.rows_sum:
            self._add_to_sum(rows, self.end_sum)
        self._waiting, self._n_waiting_pairs = [], 0

    def _feed_forward(self) -> Float[Tensor, "pair d_model"]:
        """Every queued pair's row after W_out, summed over the experts that serve its query."""
        rows = self._rows[: self._n_waiting_pairs]
        if len(self._experts) == 1 and self._experts[0].rows is None:
            return self._multiply(self._pack(self._experts[0]), self._experts[0].w_out, rows)
        rows.zero_()
        for expert in self._experts:
            expert_rows = self._multiply(self._pack(expert), expert.w_out)
            n_taken = 0
            # An expert has rows for the queries it serves only; they are spread over the tiles' pairs in order.
            for tile, rows_of_tile in self._by_tile(rows):
                served = expert.rows_in(tile.rows)
                size = tile.n_matrices * len(served)
                expert_rows_of_tile = expert_rows[n_taken : n_taken + size].view(
                    tile.n_matrices, len(served), rows.shape[1]
                )
                rows_of_tile[:, tile.offsets(served)] += expert_rows_of_tile
                n_taken += size
        return rows

    def _pack(self, expert: Expert) -> Float[Tensor, "served d_mlp"]:
        """The weighed pre-activations of all queued pairs that an expert serves, one below the other."""
        d_mlp = expert.w_out.shape[0]
        n_packed = 0
        cells: list[Int[Tensor, " pair"]] = []
        for tile in self._waiting:
            served = expert.rows_in(tile.rows)
            pattern = tile.cut(tile.group.pattern)  # [matrix row head]
            queries: slice | Sequence[int] = tile.rows
            if expert.rows is not None:
                pattern, queries = pattern[:, tile.offsets(served)], served
            size = tile.n_matrices * len(served)
            shape = (tile.n_matrices, len(served), d_mlp)
            target = self._packed[n_packed * d_mlp : (n_packed + size) * d_mlp].view(shape)
            first, *others = expert.branches
            # r_i * sum_h alpha[h,i,j] (B[h,j] W): [key row head] @ [key head d_mlp], then row i times its coefficients.
            torch.bmm(pattern, first.heads(tile, self._given.head_sum.norms), out=target)
            self._weigh(tile, target, first.coefficient, queries)
            # A gated feed-forward's second summand has memory of its own; one without a gate leaves that unused.
            for branch, scratch in zip(others, self._scratch, strict=False):
                summand = scratch[: size * d_mlp].view(shape)
                torch.bmm(pattern, branch.heads(tile, self._given.head_sum.norms), out=summand)
                self._weigh(tile, summand, branch.coefficient, queries)
                target += summand
            cells.append(self.pairs.cells[tile.keys, :, queries].flatten())
            n_packed += size
        packed = self._packed[: n_packed * d_mlp].view(n_packed, d_mlp)
        self.pairs.add_residual(packed, torch.cat(cells), expert.residual)
        return packed

    def _weigh(
        self,
        tile: Tile,
        values: Float[Tensor, "matrix row d_mlp"],
        coefficient: Float[Tensor, "query d_mlp"],
        rows: slice | Sequence[int],
    ) -> None:
        """Multiply every row by its own sequence's coefficients, in place."""
        n_sequences = self.pairs.n_sequences
        by_sequence = coefficient.view(n_sequences, -1, coefficient.shape[1])[:, rows]
        values.view(tile.n_keys, n_sequences, *values.shape[1:]).mul_(by_sequence)

    def _multiply(
        self,
        packed: Float[Tensor, "served d_mlp"],
        w_out: Float[Tensor, "d_mlp d_model"],
        out: Float[Tensor, "served d_model"] | None = None,
    ) -> Float[Tensor, "served d_model"]:
        """The large product, in the precision asked for; written to `out` where it is given."""
        if self._settings.precision != "bfloat16":
            return torch.mm(packed, w_out, out=out)
        product = packed.bfloat16() @ w_out.bfloat16()
        return product.to(packed.dtype) if out is None else out.copy_(product)

    def _add_head_sum(self, rows: Float[Tensor, "pair d_model"], head_sum: HeadSum) -> None:
        """Add `scale_i sum_h alpha[h,i,j] B[h,j]` to every pair's row.

        The vectors are never there alone: a batched product adds them to the rows where they lie.
        """
        for tile, rows_of_tile in self._by_tile(rows):
            # [matrix row head] @ [matrix head d_model]
            basis = tile.group.basis(head_sum.norms)[tile.keys_in_group]
            rows_of_tile.baddbmm_(tile.cut(tile.group.weights(head_sum)), basis)

    def _add_to_sum(self, rows: Float[Tensor, "pair d_model"], total: Float[Tensor, "query d_model"]) -> None:
        """Add every pair's row to the sum of its query."""
        n_sequences = self.pairs.n_sequences
        sums = total.view(n_sequences, -1, rows.shape[1])
        for tile, rows_of_tile in self._by_tile(rows):
            by_key = rows_of_tile.view(tile.n_keys, n_sequences, *rows_of_tile.shape[1:])
            # A sum over one source token, as most of a causal layer's tiles have, would be a copy.
            sums[:, tile.rows] += by_key[0] if tile.n_keys == 1 else by_key.sum(dim=0)

    def _by_tile(
        self, rows: Float[Tensor, "pair d_model"]
    ) -> Iterator[tuple[Tile, Float[Tensor, "matrix row d_model"]]]:
        """Every queued tile with its pairs' rows."""
        start = 0
        for tile in self._waiting:
            yield tile, rows[start : start + tile.n_pairs].view(tile.n_matrices, -1, rows.shape[1])
            start += tile.n_pairs
