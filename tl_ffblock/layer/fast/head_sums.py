"""Linear scopes in the basis of the heads: what a part is before its vector is made.

Up to the feed-forward every part is a mix of the heads' values plus, on its own token, what the
residual brought:

    F_i(x_j) = scale_i sum_h alpha[h,i,j] B[h,j] + delta_ij own_i

`B[h,j]` is `v[h,j] W_O[h]` through the linear parts of the norms passed; the norms' divisions are in
`scale_i`. Norms of such parts need no vectors: with `K_j = B_j B_j^T` they are `scale_i sqrt(alpha K_j alpha)`.
"""

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.fast.buffers import Buffers
from tl_ffblock.layer.fast.products import HeadProducts
from tl_ffblock.layer.records import LayerRecord, Norm

CPU_GROUP_BYTES, GPU_GROUP_BYTES = 16 * 2**20, 512 * 2**20
"""What the heads' pre-activations of one group of source tokens may occupy."""

CPU_TILE, GPU_TILE = 64, 4096
"""Pairs that are worth a tile of their own. A causal tile of several source tokens has pairs that cannot be reached."""


_GRAM_KEYS = 32
"""Source tokens whose Gram matrices are made at a time: float64 doubles what they occupy."""


@dataclass(frozen=True)
class HeadSum:
    """A linear scope of all pairs."""

    norms: tuple[Norm, ...] = ()
    """Norms that the heads' vectors went through."""
    scale: Float[Tensor, "query 1"] | None = None
    """None where no head takes part (the input alone)."""
    own: Float[Tensor, "query d"] | None = None

    def __add__(self, other: "HeadSum") -> "HeadSum":
        """The sum of two mixes, of which one has no heads."""
        heads = self if self.scale is not None else other
        if self.own is None or other.own is None:
            return replace(heads, own=other.own if self.own is None else self.own)
        return replace(heads, own=self.own + other.own)

    def normalised(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> "HeadSum":
        """The mix through a norm."""
        own = None if self.own is None else norm.linear(self.own) / scale
        return HeadSum((*self.norms, norm), None if self.scale is None else self.scale / scale, own)


class Group:
    """Some neighbouring source tokens with what their heads' values become on the way."""

    def __init__(self, pairs: "ReachablePairs", keys: slice) -> None:
        self.keys = keys
        self.first_row = pairs.first_row(keys.start)
        self.pattern: Float[Tensor, "key row head"] = rearrange(
            pairs.record.pattern[:, self.first_row :, keys], "head row key -> key row head"
        ).contiguous()
        self._values = pairs.values[keys]
        self._buffers, self._mark = pairs.buffers, object()
        w_o = pairs.record.block.attention.w_o
        self._bases: dict[tuple[int, ...], Tensor] = {
            (): einsum(self._values, w_o, "key head e, head e d -> key head d")
        }
        self._scaled: dict[int, Tensor] = {}

    def weights(self, mix: HeadSum) -> Float[Tensor, "key row head"]:
        """`scale_i alpha[h,i,j]`: how much of every basis vector a part of the mix holds."""
        assert mix.scale is not None
        if id(mix) not in self._scaled:
            self._scaled[id(mix)] = self.pattern * mix.scale[self.first_row :]
        return self._scaled[id(mix)]

    def basis(self, norms: tuple[Norm, ...]) -> Float[Tensor, "key head d"]:
        """`B[h,j]`: the heads' vectors through the linear parts of some norms."""
        key = tuple(id(norm) for norm in norms)
        if key not in self._bases:
            self._bases[key] = norms[-1].linear(self.basis(norms[:-1]))
        return self._bases[key]

    def through(
        self, name: str, w: Float[Tensor, "d d_mlp"], norms: tuple[Norm, ...]
    ) -> Float[Tensor, "key head d_mlp"]:
        """`B[h,j] W`; matrices that are in use at a time have different names."""

        def make(mixed: Tensor) -> None:
            torch.mm(self.basis(norms).flatten(0, 1), w, out=mixed.flatten(0, 1))

        n_keys, n_heads, _ = self._values.shape
        return self._buffers.made(f"mixed.{name}", self._mark, n_keys, n_heads, w.shape[1], like=w, make=make)

    def through_folded(self, name: str, folded: Float[Tensor, "head d_head d_mlp"]) -> Float[Tensor, "key head d_mlp"]:
        """`B[h,j] W` from the values by a matrix that was folded before."""

        def make(mixed: Tensor) -> None:
            torch.bmm(self._values.transpose(0, 1), folded, out=mixed)

        n_keys, n_heads, _ = self._values.shape
        mixed = self._buffers.made(
            f"mixed.{name}", self._mark, n_heads, n_keys, folded.shape[2], like=folded, make=make
        )
        return mixed.transpose(0, 1)


@dataclass(frozen=True)
class Tile:
    """A few source tokens of a group against neighbouring rows; pairs are counted token by token."""

    group: Group
    keys: slice
    rows: slice

    @cached_property
    def n_keys(self) -> int:
        """How many source tokens."""
        return self.keys.stop - self.keys.start

    @cached_property
    def n_pairs(self) -> int:
        """How many pairs."""
        return self.n_keys * (self.rows.stop - self.rows.start)

    @cached_property
    def within(self) -> slice:
        """The source tokens' place in their group."""
        return slice(self.keys.start - self.group.keys.start, self.keys.stop - self.group.keys.start)

    def of(self, table: Float[Tensor, "group_key group_row head"]) -> Float[Tensor, "key row head"]:
        """The tile's part of a table of its group."""
        first_row = self.group.first_row
        return table[self.within, self.rows.start - first_row : self.rows.stop - first_row]


class ReachablePairs:
    """All pairs of a query and a source token that it can see; queries ascend."""

    def __init__(
        self,
        record: LayerRecord,
        values: Float[Tensor, "key head d_head"],
        buffers: Buffers,
        products: HeadProducts,
    ) -> None:
        self.record = record
        self.buffers = buffers
        self.products = products
        self.values = values
        self.positions: list[int] = record.queries.tolist()
        self.n_queries, self.n_keys = len(self.positions), record.resid_pre.shape[0]

    def count(self) -> int:
        """How many pairs there are."""
        return sum(self.positions) + self.n_queries if self.record.block.causal else self.n_queries * self.n_keys

    def first_row(self, key: int) -> int:
        """The first row that can see a source token."""
        return bisect_left(self.positions, key) if self.record.block.causal else 0

    def groups(self, width: int) -> Iterator[Group]:
        """All source tokens that some row can see, in groups; `width` numbers a token and head will become."""
        reach = self.positions[-1] + 1 if self.record.block.causal else self.n_keys
        on_cpu = self.values.device.type == "cpu"
        fitting = (CPU_GROUP_BYTES if on_cpu else GPU_GROUP_BYTES) // (
            self.values.shape[1] * width * self.values.element_size()
        )
        step = math.ceil(reach / math.ceil(reach / max(1, fitting)))
        for start in range(0, reach, step):
            yield Group(self, slice(start, min(start + step, reach)))

    def tiles(self, group: Group, capacity: int) -> Iterator[Tile]:
        """A group in tiles of at most `capacity` pairs; of a causal layer one token high, unless that is too little work."""
        n_keys, n_rows = group.pattern.shape[:2]
        enough = CPU_TILE if self.values.device.type == "cpu" else GPU_TILE
        wanted = enough // max(1, n_rows) if self.record.block.causal else n_keys
        step = max(1, min(wanted, capacity // max(1, n_rows)))
        for key in range(group.keys.start, group.keys.stop, step):
            keys = slice(key, min(key + step, group.keys.stop))
            for row in range(self.first_row(key), self.n_queries, capacity):
                yield Tile(group, keys, slice(row, min(row + capacity, self.n_queries)))

    @cached_property
    def cells(self) -> Int[Tensor, "key query"]:
        """The number of every pair in a table [query, key]."""
        device = self.values.device
        row = torch.arange(self.n_queries, device=device, dtype=torch.int32) * self.n_keys
        return row + torch.arange(self.n_keys, device=device, dtype=torch.int32)[:, None]

    def own_cells(self, tile: Tile, rows: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Pairs of a query and its own token: their place among a tile's pairs of some rows, and the row."""
        for row in range(bisect_left(self.positions, tile.keys.start), bisect_left(self.positions, tile.keys.stop)):
            place = bisect_left(rows, row)
            if place < len(rows) and rows[place] == row:
                yield (self.positions[row] - tile.keys.start) * len(rows) + place, row

    def own_values(self, norms: tuple[Norm, ...]) -> Float[Tensor, "query d"]:
        """What the heads bring from every query's own token."""
        vectors = self._own_values
        for norm in norms:
            vectors = norm.linear(vectors)
        return vectors

    @cached_property
    def _own_values(self) -> Float[Tensor, "query d"]:
        pattern = self.record.pattern[:, range(self.n_queries), self.positions]
        z = einsum(pattern, self.values[self.record.queries], "head query, query head e -> query head e")
        return einsum(z, self.record.block.attention.w_o, "query head e, head e d -> query d")


def gram_norms(basis: Float[Tensor, "key head d"], pattern: Float[Tensor, "key row head"]) -> Float[Tensor, "key row"]:
    """`||sum_h alpha_h B_h||` by the Gram matrix, in float64: it is small, and cancellation costs digits."""
    squares = []
    for some, weights in zip(torch.split(basis, _GRAM_KEYS), torch.split(pattern, _GRAM_KEYS), strict=True):
        wide, alpha = some.double(), weights.double()
        squares.append(((alpha @ (wide @ wide.transpose(1, 2))) * alpha).sum(dim=-1))
    return torch.cat(squares).clamp_(min=0).sqrt_().to(basis.dtype)
