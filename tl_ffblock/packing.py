"""The feed-forward of all pairs at the cost of one matrix product each.

The pre-activation of a pair is a mix of the heads', `p_ij = scale_i sum_h alpha[h,i,j] (B[h,j] W)`, plus
`own_i W` on the own token: a product with H columns. Weighed by the coefficients of Integrated
Gradients at i (activations.py), pairs are packed to as many rows as `chunk_bytes` hold and go through
W_out together: `2 d_mlp d_model` operations a pair, nearly the whole cost of a map. The norms of the
feed-forward and of all later scopes are taken from the rows, and the rows are forgotten.
"""

from bisect import bisect_left
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.decomposition import Settings, pre_activations
from tl_ffblock.mixes import KeyBlock, Mix, Pairs
from tl_ffblock.records import FeedForward, LayerRecord, Norm

_SHORT = 32
"""Folded matrices are kept while there are fewer than this times d_model pairs: then folding is felt."""


@dataclass(frozen=True)
class _Branch:
    """One way of the heads' vectors to the pre-activations."""

    on: Float[Tensor, "query d_mlp"]
    """Coefficient of Integrated Gradients at every row, times the row's scale and router weight."""
    w: Float[Tensor, "d d_mlp"]
    folded: Float[Tensor, "head d_head d_mlp"] | None

    def heads(self, block: KeyBlock, norms: tuple[Norm, ...]) -> Float[Tensor, "key head d_mlp"]:
        """The heads' pre-activations of a block's source tokens."""
        whole = block.group.through(self.w, norms) if self.folded is None else block.group.through_folded(self.folded)
        return whole[block.within]


class _Expert:
    """One feed-forward with its coefficients of Integrated Gradients at every row it serves."""

    def __init__(self, pairs: Pairs, ff: FeedForward, mix: Mix, x: Float[Tensor, "query d"], served: "_Served") -> None:
        assert mix.scale is not None
        pre, pre_linear = ff.pre_activations(x) if served.weight is not None else pre_activations(pairs.record, ff, x)
        shares = ff.activation.shares(pre, pre_linear)
        self.w_out = ff.w_out
        self.rows = None if served.weight is None else served.weight.nonzero()[:, 0].tolist()
        router = 1 if served.weight is None else served.weight[:, None]
        ways = [(shares.on_pre, "in" if ff.w_gate is None else "gate", ff.w_in if ff.w_gate is None else ff.w_gate)]
        if shares.on_linear is not None:
            ways.append((shares.on_linear, "in", ff.w_in))
        self.branches = [
            _Branch(on * (mix.scale * router), w, _fold(pairs, mix, f"{name}.{served.number}", w))
            for on, name, w in ways
        ]
        self.own: Tensor | None = None
        """Weighed pre-activation of every row's own token."""
        if mix.own is not None:
            for on, _, w in ways:
                way = (mix.own @ w).mul_(on * router)
                self.own = way if self.own is None else self.own.add_(way)

    def rows_between(self, first: int, last: int) -> slice | list[int]:
        """Which of some rows it serves, counted from the first."""
        if self.rows is None:
            return slice(0, last - first)
        return [row - first for row in self.rows[bisect_left(self.rows, first) : bisect_left(self.rows, last)]]


@dataclass(frozen=True)
class _Served:
    """Which expert of a layer, and the router's weight at every row; None for a dense feed-forward."""

    number: int
    weight: Float[Tensor, " query"] | None


class PackedRows:
    """Packs the pairs that can be reached and takes the norms of what the feed-forward makes of them."""

    def __init__(self, pairs: Pairs, mix: Mix, x: Float[Tensor, "query d"], settings: Settings) -> None:
        self.pairs = pairs
        self.mix = mix
        self.settings = settings
        self.norms: dict[str, Float[Tensor, "query key"]] = {}
        """Filled for every scope that `want` names."""
        self.sum = torch.zeros_like(x)
        """Sum over source tokens of the feed-forward's rows."""
        self._steps: list[tuple[str, Mix | tuple[Norm, Tensor] | None]] = []
        self._experts = _experts_of(pairs, mix, x)
        n_buffers = max(len(expert.branches) for expert in self._experts)
        d_mlp = max(expert.w_out.shape[0] for expert in self._experts)
        self.width = n_buffers * d_mlp * len(self._experts)
        """Pre-activations of one source token and head."""
        bytes_a_row = (n_buffers * d_mlp + 2 * x.shape[1]) * x.element_size()
        self._capacity = max(pairs.keys_in_block, settings.rows(bytes_a_row, x.device))
        self._buffers = [x.new_empty(self._capacity * d_mlp) for _ in range(n_buffers)]
        self._waiting: list[tuple[KeyBlock, int, Tensor]] = []
        self._used = 0

    def step(self, scope: str, operation: Mix | tuple[Norm, Tensor] | None, *, wanted: bool) -> None:
        """A scope from the feed-forward on: the rows themselves (None), a mix added, or a norm with its scale."""
        self._steps.append((scope, operation))
        if wanted:
            self.norms[scope] = self.sum.new_zeros(self.pairs.n_queries, self.pairs.n_keys)

    def add(self, block: KeyBlock) -> None:
        """Queue one block of source tokens against all rows that can see it."""
        step = max(1, self._capacity // block.pattern.shape[0])
        for start in range(0, block.pattern.shape[1], step):
            pattern = block.pattern[:, start : start + step]
            if self._used + pattern.shape[0] * pattern.shape[1] > self._capacity:
                self.flush()
            self._waiting.append((block, block.first_row + start, pattern))
            self._used += pattern.shape[0] * pattern.shape[1]

    def flush(self) -> None:
        """Send what is queued through the feed-forward and take its norms."""
        if not self._waiting:
            return
        out = self._feed_forward()
        start = 0
        for block, first, pattern in self._waiting:
            size = pattern.shape[0] * pattern.shape[1]
            self._take_norms(out[start : start + size].view(*pattern.shape[:2], -1), block, first, pattern)
            start += size
        self._waiting, self._used = [], 0

    def _feed_forward(self) -> Float[Tensor, "pair d"]:
        if len(self._experts) == 1 and self._experts[0].rows is None:
            return self._through(self._experts[0], [slice(0, p.shape[1]) for _, _, p in self._waiting])
        d_model = self.sum.shape[1]
        out = self.sum.new_zeros(self._used, d_model)
        for expert in self._experts:
            chosen = [expert.rows_between(first, first + p.shape[1]) for _, first, p in self._waiting]
            rows = self._through(expert, chosen)
            start = taken = 0
            for (_, _, pattern), here in zip(self._waiting, chosen, strict=True):
                n_keys, n_rows = pattern.shape[:2]
                n_here = n_rows if isinstance(here, slice) else len(here)
                place = out[start : start + n_keys * n_rows].view(n_keys, n_rows, d_model)
                place[:, here] += rows[taken : taken + n_keys * n_here].view(n_keys, n_here, d_model)
                start, taken = start + n_keys * n_rows, taken + n_keys * n_here
        return out

    def _through(self, expert: _Expert, chosen: list[slice | list[int]]) -> Float[Tensor, "pair d"]:
        """One matrix product for all queued pairs that an expert serves."""
        used = 0
        d_mlp = expert.w_out.shape[0]
        rows, *spare = (buffer[: self._used * d_mlp].view(self._used, d_mlp) for buffer in self._buffers)
        for (block, first, pattern), here in zip(self._waiting, chosen, strict=True):
            part = pattern[:, here]
            size = part.shape[0] * part.shape[1]
            place = rows[used : used + size].view(*part.shape[:2], d_mlp)
            for branch in expert.branches:
                target = place if branch is expert.branches[0] else spare[0][:size].view(*part.shape[:2], d_mlp)
                torch.bmm(part, branch.heads(block, self.mix.norms), out=target)
                target *= branch.on[first : first + pattern.shape[1]][here]
                if target is not place:
                    place += target
            _add_own(place, block, first, pattern.shape[1], here, expert.own)
            used += size
        return self.settings.multiply(rows[:used], expert.w_out)

    def _take_norms(self, out: Float[Tensor, "key row d"], block: KeyBlock, first: int, pattern: Tensor) -> None:
        rows = slice(first, first + pattern.shape[1])
        self.sum[rows] += out.sum(dim=0)
        for scope, operation in self._steps:
            if isinstance(operation, Mix):
                assert operation.scale is not None
                out.baddbmm_(pattern * operation.scale[rows], block.group.basis(operation.norms)[block.within])
                _add_own(out, block, first, pattern.shape[1], slice(0, pattern.shape[1]), operation.own)
            elif operation is not None:
                norm, scale = operation
                out = norm.linear(out).div_(scale[rows])
            if scope in self.norms:
                self.norms[scope][rows, block.keys] = torch.linalg.vector_norm(out, dim=-1).T


def _experts_of(pairs: Pairs, mix: Mix, x: Float[Tensor, "query d"]) -> list[_Expert]:
    ff, routing = pairs.record.block.feed_forward, pairs.record.routing
    if isinstance(ff, FeedForward):
        return [_Expert(pairs, ff, mix, x, _Served(0, None))]
    assert routing is not None
    served = [_Served(number, weight) for number, weight in enumerate(routing.T) if bool(weight.any())]
    return [_Expert(pairs, ff.experts[one.number], mix, x, one) for one in served]


def _fold(pairs: Pairs, mix: Mix, name: str, w: Tensor) -> Float[Tensor, "head d_head d_mlp"] | None:
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
    return record.block.folds.fold((record.layer, name), w_o, linear, w, gains=gains, keep=keep)


def _add_own(
    place: Tensor,
    block: KeyBlock,
    first: int,
    n_rows: int,
    here: slice | list[int],
    own: Float[Tensor, "query d"] | None,
) -> None:
    """Add what the residual brought to every query's own token; `here` are the rows of `place`, from `first` on."""
    if own is None:
        return
    if isinstance(here, slice):
        cells = [(key, row - first, row) for key, row in block.own_cells if 0 <= row - first < n_rows]
    else:
        index = {row: number for number, row in enumerate(here)}
        cells = [(key, index[row - first], row) for key, row in block.own_cells if row - first in index]
    if cells:
        keys, local, rows = (list(column) for column in zip(*cells, strict=True))
        place[keys, local] += own[rows]
