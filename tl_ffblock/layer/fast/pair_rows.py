"""The feed-forward of all pairs at the cost of one matrix product each.

The pre-activation of a pair is a mix of the heads', `p_ij = scale_i sum_h alpha[h,i,j] (B[h,j] W)`, plus
`own_i W` on the own token: a product with H columns. Weighed by the coefficients of Integrated
Gradients at i (activations.py), pairs are packed to as many rows as `chunk_bytes` hold and go through
W_out together: `2 d_mlp d_model` operations a pair, nearly the whole cost of a map. The norms of the
feed-forward and of all later scopes are taken from the rows, and the rows are forgotten.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.fast.head_sums import Group, HeadSum, ReachablePairs, Tile
from tl_ffblock.layer.records import FeedForward, LayerRecord, Norm
from tl_ffblock.layer.settings import Settings

_SHORT = 32
"""Folded matrices are kept while there are fewer than this times d_model pairs: then folding is felt."""


@dataclass(frozen=True)
class _Branch:
    """One way of the heads' vectors to the pre-activations."""

    on: Float[Tensor, "query d_mlp"]
    """Coefficient of Integrated Gradients at every row, times the row's scale and router weight."""
    name: str
    """Of its memory: branches in use at a time have different ones."""
    w: Float[Tensor, "d d_mlp"]
    folded: Float[Tensor, "head d_head d_mlp"] | None

    def heads(self, tile: Tile, norms: tuple[Norm, ...]) -> Float[Tensor, "key head d_mlp"]:
        """The heads' pre-activations of a tile's source tokens."""
        if self.folded is None:
            return tile.group.through(self.name, self.w, norms)[tile.within]
        return tile.group.through_folded(self.name, self.folded)[tile.within]


class _Expert:
    """One feed-forward with its coefficients of Integrated Gradients at every row it serves."""

    def __init__(
        self, pairs: ReachablePairs, ff: FeedForward, mix: HeadSum, x: Float[Tensor, "query d"], served: "_Served"
    ) -> None:
        assert mix.scale is not None
        pre, pre_linear = ff.pre_activations(x) if served.weight is not None else pairs.record.pre_activations(ff, x)
        shares = ff.activation.coefficients(pre, pre_linear)
        self.w_out = ff.w_out
        self.dense = served.weight is None
        self._rows = None if served.weight is None else served.weight.nonzero()[:, 0].tolist()
        router = 1 if served.weight is None else served.weight[:, None]
        ways = [(shares.on_pre, "in" if ff.w_gate is None else "gate", ff.w_in if ff.w_gate is None else ff.w_gate)]
        if shares.on_linear is not None:
            ways.append((shares.on_linear, "in", ff.w_in))
        self.branches = [
            _Branch(
                on * (mix.scale * router), f"{name}.{served.place}", w, _fold(pairs, mix, f"{name}.{served.number}", w)
            )
            for on, name, w in ways
        ]
        self.own: Tensor | None = None
        """Weighed pre-activation of every row's own token."""
        if mix.own is not None:
            for on, _, w in ways:
                way = (mix.own @ w).mul_(on * router)
                self.own = way if self.own is None else self.own.add_(way)

    def rows_in(self, rows: slice) -> Sequence[int]:
        """Which of some neighbouring rows it serves."""
        if self._rows is None:
            return range(rows.start, rows.stop)
        return self._rows[bisect_left(self._rows, rows.start) : bisect_left(self._rows, rows.stop)]


@dataclass(frozen=True)
class _Served:
    """Which expert of a layer, and the router's weight at every row; None for a dense feed-forward."""

    number: int
    place: int
    """Among those in use."""
    weight: Float[Tensor, " query"] | None


class PairRows:
    """Packs the pairs that can be reached and takes the norms of what the feed-forward makes of them."""

    def __init__(self, pairs: ReachablePairs, mix: HeadSum, x: Float[Tensor, "query d"], settings: Settings) -> None:
        self.pairs = pairs
        self.mix = mix
        self.settings = settings
        self.norms: dict[str, Float[Tensor, "query key"]] = {}
        """Filled for every scope that `step` wants."""
        self.sum = torch.zeros_like(x)
        """Sum over source tokens of the feed-forward's rows."""
        self._steps: list[tuple[str, HeadSum | tuple[Norm, Tensor] | None]] = []
        self._experts = _experts_of(pairs, mix, x)
        n_buffers = max(len(expert.branches) for expert in self._experts)
        d_mlp, d_model = max(expert.w_out.shape[0] for expert in self._experts), x.shape[1]
        self.width = n_buffers * d_mlp * len(self._experts)
        """Pre-activations of one source token and head."""
        self._capacity = settings.rows((n_buffers * d_mlp + 2 * d_model) * x.element_size(), x.device)
        self._buffers = [
            pairs.buffers.take(f"packed.{number}", self._capacity * d_mlp, like=x) for number in range(n_buffers)
        ]
        self._out = pairs.buffers.take("out", self._capacity, d_model, like=x)
        self._waiting: list[Tile] = []
        self._used = 0

    def step(self, scope: str, operation: HeadSum | tuple[Norm, Tensor] | None, *, wanted: bool) -> None:
        """A scope from the feed-forward on: the rows themselves (None), a mix added, or a norm with its scale."""
        self._steps.append((scope, operation))
        if wanted:
            self.norms[scope] = self.sum.new_zeros(self.pairs.n_queries, self.pairs.n_keys)

    def add(self, group: Group) -> None:
        """Queue the pairs of a group of source tokens and all rows that can see them."""
        for tile in self.pairs.tiles(group, self._capacity):
            if self._used + tile.n_pairs > self._capacity:
                self.flush()
            self._waiting.append(tile)
            self._used += tile.n_pairs

    def flush(self) -> None:
        """Send what is queued through the feed-forward and take its norms."""
        if not self._waiting:
            return
        out = self._feed_forward()
        cells = torch.cat([self.pairs.cells[tile.keys, tile.rows].reshape(-1) for tile in self._waiting])
        rows = cells // self.pairs.n_keys
        self.sum.index_add_(0, rows, out)
        for scope, operation in self._steps:
            if isinstance(operation, HeadSum):
                self._add_mix(out, operation)
            elif operation is not None:
                norm, scale = operation
                norm.linear_(out).div_(scale[rows])
            if scope in self.norms:
                self.norms[scope].view(-1)[cells] = torch.linalg.vector_norm(out, dim=-1)
        self._waiting, self._used = [], 0

    def _feed_forward(self) -> Float[Tensor, "pair d"]:
        out = self._out[: self._used]
        if len(self._experts) == 1 and self._experts[0].dense:
            return self._through(self._experts[0], out)
        out.zero_()
        for expert in self._experts:
            rows = self._through(expert)
            start = taken = 0
            for tile in self._waiting:
                served = expert.rows_in(tile.rows)
                place = out[start : start + tile.n_pairs].view(tile.n_keys, -1, out.shape[1])
                found = rows[taken : taken + tile.n_keys * len(served)]
                place[:, _within(tile, served)] += found.view(tile.n_keys, len(served), out.shape[1])
                start, taken = start + tile.n_pairs, taken + len(found)
        return out

    def _through(self, expert: _Expert, out: Tensor | None = None) -> Float[Tensor, "pair d"]:
        """One matrix product for all queued pairs that an expert serves."""
        used = 0
        own: list[tuple[int, int]] = []
        d_mlp = expert.w_out.shape[0]
        packed, *spare = (buffer[: self._used * d_mlp].view(self._used, d_mlp) for buffer in self._buffers)
        for tile in self._waiting:
            served = expert.rows_in(tile.rows)
            pattern = tile.of(tile.group.pattern)
            size = tile.n_keys * len(served)
            here: slice | Sequence[int] = tile.rows
            if not expert.dense:
                pattern, here = pattern[:, _within(tile, served)], served
            place = packed[used : used + size].view(tile.n_keys, len(served), d_mlp)
            for branch in expert.branches:
                target = place if branch is expert.branches[0] else spare[0][:size].view(place.shape)
                torch.bmm(pattern, branch.heads(tile, self.mix.norms), out=target)
                target *= branch.on[here]
                if target is not place:
                    place += target
            own += [(used + cell, row) for cell, row in self.pairs.own_cells(tile, served)]
            used += size
        _add_own(packed, own, expert.own)
        return self.settings.multiply(packed[:used], expert.w_out, out)

    def _add_mix(self, out: Float[Tensor, "pair d"], mix: HeadSum) -> None:
        start = 0
        own: list[tuple[int, int]] = []
        for tile in self._waiting:
            place = out[start : start + tile.n_pairs].view(tile.n_keys, -1, out.shape[1])
            place.baddbmm_(tile.of(tile.group.weights(mix)), tile.group.basis(mix.norms)[tile.within])
            rows = range(tile.rows.start, tile.rows.stop)
            own += [(start + cell, row) for cell, row in self.pairs.own_cells(tile, rows)]
            start += tile.n_pairs
        _add_own(out, own, mix.own)


def _within(tile: Tile, rows: Sequence[int]) -> slice | list[int]:
    """Some of a tile's rows, counted from its first."""
    return slice(None) if isinstance(rows, range) else [row - tile.rows.start for row in rows]


def _add_own(
    out: Float[Tensor, "pair d"], cells: Sequence[tuple[int, int]], own: Float[Tensor, "query d"] | None
) -> None:
    """Add what the residual brought to the pairs of a query and its own token: (pair, query)."""
    if own is not None and cells:
        pairs, rows = torch.tensor(cells, device=out.device).T
        out[pairs] += own[rows]


def _experts_of(pairs: ReachablePairs, mix: HeadSum, x: Float[Tensor, "query d"]) -> list[_Expert]:
    ff, routing = pairs.record.block.feed_forward, pairs.record.routing
    if isinstance(ff, FeedForward):
        return [_Expert(pairs, ff, mix, x, _Served(0, 0, None))]
    assert routing is not None
    used = [number for number, weight in enumerate(routing.T) if bool(weight.any())]
    served = [_Served(number, place, routing[:, number]) for place, number in enumerate(used)]
    return [_Expert(pairs, ff.experts[one.number], mix, x, one) for one in served]


def _fold(pairs: ReachablePairs, mix: HeadSum, name: str, w: Tensor) -> Float[Tensor, "head d_head d_mlp"] | None:
    """Heads and input matrix folded, where that is less work than mixing every head's vector through it."""
    record: LayerRecord = pairs.record
    w_o = record.block.attention.w_o
    n_heads, _, d_model = w_o.shape
    keep = pairs.count() < _SHORT * d_model
    if pairs.n_keys * (n_heads - 1) < (d_model // 4 if keep else d_model):
        return None

    def linear(vectors: Tensor) -> Tensor:
        for norm in mix.norms:
            vectors = norm.linear(vectors)
        return vectors

    gains = [norm.gain for norm in mix.norms]
    return pairs.products.product((record.layer, name), w_o, linear, w, gains=gains, keep=keep)
