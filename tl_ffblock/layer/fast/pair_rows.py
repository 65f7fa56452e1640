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

A dense feed-forward is one expert that serves every row. Its coefficients are numbers per neuron, the same for every source
token, so everything that depends on the query alone is multiplied once and not once per pair:
`coefficient_i = r_i * scale_i * router_i`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.head_sums import HeadSum, KeyGroup, ReachablePairs, Tile
from tl_ffblock.layer.fast.products import InputMatrix, MakeProduct, ProductKey, product_pays, worth_keeping
from tl_ffblock.layer.records import FeedForward, Norm
from tl_ffblock.layer.scopes import NormName
from tl_ffblock.layer.settings import Settings


@dataclass(frozen=True)
class Branch:
    """One input matrix of a feed-forward: W_in, or W_gate and W_in of a gated one, whose rows are summed."""

    buffer: tuple[InputMatrix, int]
    """Where the heads' pre-activations are kept: branches that are in use at a time have different buffers."""
    w: Float[Tensor, "d_model d_mlp"]
    coefficient: Float[Tensor, "query d_mlp"]
    """What the heads' pre-activations are multiplied by: r, the head sum's scale and the router's weight."""
    product: Float[Tensor, "head d_head d_mlp"] | None
    """The head product with W, where it pays."""

    def heads(self, tile: Tile, norms: tuple[NormName, ...]) -> Float[Tensor, "matrix head d_mlp"]:
        """The heads' pre-activations of a tile's source tokens."""
        return tile.group.pre_activations(self.buffer, self.w, norms, self.product)[tile.keys_in_group]


@dataclass(frozen=True)
class Expert:
    """One feed-forward at every row."""

    w_out: Float[Tensor, "d_mlp d_model"]
    branches: list[Branch]
    residual: Float[Tensor, "query d_mlp"] | None
    """The weighed pre-activation of the residual at every query's own token; None where there is none."""
    rows: list[int] | None
    """Which rows the router sent here; None means all, of a dense feed-forward."""

    def rows_in(self, neighbours: slice) -> Sequence[int]:
        """Which of some neighbouring rows it serves."""
        if self.rows is None:
            return range(neighbours.start, neighbours.stop)
        return self.rows[bisect_left(self.rows, neighbours.start) : bisect_left(self.rows, neighbours.stop)]


class PairRows:
    """Packs the pairs that can be reached and takes the norms of what the feed-forward makes of them.

    First the steps are said (`add`, `normalise`, `take_norms`), then the pairs are sent (`queue`, `flush`).

    Args:
        pairs: The pairs.
        head_sum: What goes into the feed-forward, as a sum of parts.
        x: The same as the real run had it.
        settings: How the decomposition is made.
        product: Makes head products, or has kept them (`HeadProducts.product`).
        paths: The coefficients of Integrated Gradients at every query by number of the expert; those missing are added.
    """

    def __init__(
        self,
        pairs: ReachablePairs,
        head_sum: HeadSum,
        x: Float[Tensor, "query d_model"],
        settings: Settings,
        product: MakeProduct,
        paths: dict[int, PathCoefficients],
    ) -> None:
        self.pairs = pairs
        self.head_sum = head_sum
        self.paths = paths
        self.norms: dict[str, Float[Tensor, "query key"]] = {}
        """Filled by `flush` for every scope that `take_norms` named."""
        self.rows_sum = torch.zeros_like(x)
        """Sum over source tokens of the feed-forward's rows."""
        self.end = ""
        """The last scope that `take_norms` named."""
        self.end_sum = self.rows_sum
        """Sum over source tokens of the rows of that scope."""
        self._bfloat16 = settings.precision == "bfloat16"
        self._steps: list[Callable[[Tensor, Tensor], object]] = []
        self.experts: list[Expert] = []
        """The layer's feed-forward, or those of its experts that any query was sent to."""
        for number, ff, router in pairs.record.feed_forwards():
            if number not in paths:
                paths[number] = ff.activation.coefficients(*pairs.record.pre_activations(ff, x))
            self.experts.append(self._expert(number, ff, router, product))
        n_branches = max(len(expert.branches) for expert in self.experts)
        d_mlp, d_model = max(expert.w_out.shape[0] for expert in self.experts), x.shape[1]
        self.width = n_branches * d_mlp * len(self.experts)
        """Pre-activations of one source token and head."""
        # A queued pair takes d_mlp numbers a branch, and d_model before and after the experts are summed.
        bytes_a_pair = (n_branches * d_mlp + 2 * d_model) * x.element_size()
        self._capacity = max(1, (settings.chunk_bytes or pairs.budget.row_bytes) // bytes_a_pair)
        self._packed = [
            pairs.buffers.reserve(("packed", number), self._capacity * d_mlp, like=x) for number in range(n_branches)
        ]
        self._rows = pairs.buffers.reserve("rows", self._capacity, d_model, like=x)
        self._waiting: list[Tile] = []
        self._n_waiting_pairs = 0

    def _expert(self, number: int, ff: FeedForward, router: Tensor | None, product: MakeProduct) -> Expert:
        pairs, head_sum, block = self.pairs, self.head_sum, self.pairs.record.block
        coefficients, weight = self.paths[number], 1 if router is None else router[:, None]
        assert head_sum.scale is not None
        # Without a gate r is of W_in's pre-activation; with one there are two, B(a) u of W_gate's and A(a) of W_in's.
        matrices: list[tuple[InputMatrix, Tensor, Tensor]] = [("in", ff.w_in, coefficients.on_pre)]
        if ff.w_gate is not None:
            assert coefficients.on_linear is not None
            matrices = [("gate", ff.w_gate, coefficients.on_pre), ("in", ff.w_in, coefficients.on_linear)]
        residual, branches = None, []
        w_o, norms = block.attention.w_o, [block.norm(name) for name in head_sum.norms]
        keep = worth_keeping(pairs.count(), d_model=w_o.shape[2])
        pays = product_pays(pairs.n_sequences * pairs.n_keys, w_o, keep=keep)
        for matrix, w, r in matrices:
            if head_sum.residual is not None:
                # It is divided by all scales already (HeadSum.normalised), so only r and the router's weight are left.
                weighed = (head_sum.residual @ w).mul_(r * weight)
                residual = weighed if residual is None else residual.add_(weighed)
            made = product(ProductKey(block.layer, number, matrix), w_o, norms, w, keep=keep) if pays else None
            # Experts in use share the buffers of a run: number 57 of 64 may be the third in use.
            branches.append(Branch((matrix, len(self.experts)), w, r * (head_sum.scale * weight), made))
        return Expert(ff.w_out, branches, residual, None if router is None else router.nonzero()[:, 0].tolist())

    def add(self, head_sum: HeadSum) -> None:
        """The next step: a linear scope is added."""
        self._steps.append(partial(self._add_head_sum, head_sum))

    def normalise(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> None:
        """The next step: a norm with the scale of the real run; its shift is the bias part's."""
        self._steps.append(lambda rows, cells: norm.linear_(rows).div_(scale[cells // self.pairs.n_keys]))

    def take_norms(self, scope: str) -> None:
        """The rows are now a scope whose norms are asked for."""
        self.norms[scope] = self.rows_sum.new_zeros(len(self.rows_sum), self.pairs.n_keys)
        self.end, self.end_sum = scope, torch.zeros_like(self.rows_sum) if self._steps else self.rows_sum
        self._steps.append(partial(self._write_norms, self.norms[scope]))

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
        self._add_to_sum(rows, self.rows_sum)
        for step in self._steps:
            step(rows, cells)
        if self.end_sum is not self.rows_sum:
            self._add_to_sum(rows, self.end_sum)
        self._waiting, self._n_waiting_pairs = [], 0

    def _feed_forward(self) -> Float[Tensor, "pair d_model"]:
        """Every queued pair's row after W_out, summed over the experts that serve its query."""
        rows = self._rows[: self._n_waiting_pairs]
        if len(self.experts) == 1 and self.experts[0].rows is None:
            return self._multiply(self._pack(self.experts[0]), self.experts[0].w_out, rows)
        rows.zero_()
        for expert in self.experts:
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
        d_mlp, n_sequences, n_packed = expert.w_out.shape[0], self.pairs.n_sequences, 0
        cells: list[Int[Tensor, " pair"]] = []
        for tile in self._waiting:
            served = expert.rows_in(tile.rows)
            pattern = tile.cut(tile.group.pattern)  # [matrix row head]
            queries: slice | Sequence[int] = tile.rows
            if expert.rows is not None:
                pattern, queries = pattern[:, tile.offsets(served)], served
            size = tile.n_matrices * len(served)
            total = None
            # A gated feed-forward's second term has memory of its own, used anew by every tile; without a gate it is unused.
            for branch, memory in zip(expert.branches, self._packed, strict=False):
                first = n_packed * d_mlp if total is None else 0
                # r_i * sum_h alpha[h,i,j] (B[h,j] W): [key row head] @ [key head d_mlp], then row i times its coefficients.
                values = memory[first : first + size * d_mlp].view(tile.n_matrices, len(served), d_mlp)
                torch.bmm(pattern, branch.heads(tile, self.head_sum.norms), out=values)
                by_sequence = branch.coefficient.view(n_sequences, -1, d_mlp)[:, queries]
                values.view(tile.n_keys, n_sequences, len(served), d_mlp).mul_(by_sequence)
                total = values if total is None else total.add_(values)
            cells.append(self.pairs.cells[tile.keys, :, queries].flatten())
            n_packed += size
        packed = self._packed[0][: n_packed * d_mlp].view(n_packed, d_mlp)
        self.pairs.add_residual(packed, torch.cat(cells), expert.residual)
        return packed

    def _multiply(
        self,
        packed: Float[Tensor, "served d_mlp"],
        w_out: Float[Tensor, "d_mlp d_model"],
        out: Float[Tensor, "served d_model"] | None = None,
    ) -> Float[Tensor, "served d_model"]:
        """The large product, in the precision asked for; written to `out` where it is given."""
        if not self._bfloat16:
            return torch.mm(packed, w_out, out=out)
        product = packed.bfloat16() @ w_out.bfloat16()
        return product.to(packed.dtype) if out is None else out.copy_(product)

    def _add_head_sum(
        self, head_sum: HeadSum, rows: Float[Tensor, "pair d_model"], cells: Int[Tensor, " pair"]
    ) -> None:
        """Add `scale_i sum_h alpha[h,i,j] B[h,j]` to every pair's row.

        The vectors are never there alone: a batched product adds them to the rows where they lie.
        """
        for tile, rows_of_tile in self._by_tile(rows):
            # [matrix row head] @ [matrix head d_model]
            basis = tile.group.basis(head_sum.norms)[tile.keys_in_group]
            rows_of_tile.baddbmm_(tile.cut(tile.group.weights(head_sum)), basis)
        self.pairs.add_residual(rows, cells, head_sum.residual)

    def _write_norms(
        self, table: Float[Tensor, "query key"], rows: Float[Tensor, "pair d_model"], cells: Int[Tensor, " pair"]
    ) -> None:
        table.view(-1)[cells] = torch.linalg.vector_norm(rows, dim=-1)

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
