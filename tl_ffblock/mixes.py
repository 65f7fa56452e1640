"""Linear scopes in the basis of the heads: what a part is before its vector is made.

Up to the feed-forward every part is a mix of the heads' values plus, on its own token, what the
residual brought:

    F_i(x_j) = scale_i sum_h alpha[h,i,j] B[h,j] + delta_ij own_i

`B[h,j]` is `v[h,j] W_O[h]` through the linear parts of the norms passed; the norms' divisions are in
`scale_i`. Norms of such parts need no vectors: with `K_j = B_j B_j^T` they are `scale_i sqrt(alpha K_j alpha)`.
"""

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.records import LayerRecord, Norm

GROUP_BYTES = 16 * 2**20
"""What the heads' pre-activations of one group of source tokens may occupy."""


@dataclass(frozen=True)
class Mix:
    """A linear scope of all pairs."""

    norms: tuple[Norm, ...] = ()
    """Norms that the heads' vectors went through."""
    scale: Float[Tensor, "query 1"] | None = None
    """None where no head takes part (the input alone)."""
    own: Float[Tensor, "query d"] | None = None

    def __add__(self, other: "Mix") -> "Mix":
        """The sum of two mixes, of which one has no heads."""
        heads = self if self.scale is not None else other
        if self.own is None or other.own is None:
            return replace(heads, own=other.own if self.own is None else self.own)
        return replace(heads, own=self.own + other.own)

    def normalised(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> "Mix":
        """The mix through a norm."""
        own = None if self.own is None else norm.linear(self.own) / scale
        return Mix((*self.norms, norm), None if self.scale is None else self.scale / scale, own)


class Group:
    """Some source tokens with what their heads' values become on the way."""

    def __init__(
        self, values: Float[Tensor, "key head d_head"], w_o: Float[Tensor, "head d_head d"], start: int
    ) -> None:
        self.start = start
        self._values = values
        self._bases: dict[tuple[int, ...], Tensor] = {(): einsum(values, w_o, "key head e, head e d -> key head d")}
        self._mixed: dict[int, Tensor] = {}

    def basis(self, norms: tuple[Norm, ...]) -> Float[Tensor, "key head d"]:
        """`B[h,j]`: the heads' vectors through the linear parts of some norms."""
        key = tuple(id(norm) for norm in norms)
        if key not in self._bases:
            self._bases[key] = norms[-1].linear(self.basis(norms[:-1]))
        return self._bases[key]

    def through(self, w: Float[Tensor, "d d_mlp"], norms: tuple[Norm, ...]) -> Float[Tensor, "key head d_mlp"]:
        """`B[h,j] W`."""
        if id(w) not in self._mixed:
            self._mixed[id(w)] = self.basis(norms) @ w
        return self._mixed[id(w)]

    def through_folded(self, folded: Float[Tensor, "head d_head d_mlp"]) -> Float[Tensor, "key head d_mlp"]:
        """`B[h,j] W` from the values by a matrix that was folded before."""
        if id(folded) not in self._mixed:
            self._mixed[id(folded)] = torch.bmm(self._values.transpose(0, 1), folded).transpose(0, 1)
        return self._mixed[id(folded)]


@dataclass(frozen=True)
class KeyBlock:
    """Neighbouring source tokens of a group, against the rows that can see them."""

    group: Group
    keys: slice
    first_row: int
    """Rows before this one cannot see the block."""
    pattern: Float[Tensor, "key row head"]
    own_cells: tuple[tuple[int, int], ...]
    """Key within the block and row, of every query whose own token is here."""

    @property
    def within(self) -> slice:
        """The block's place in its group."""
        return slice(self.keys.start - self.group.start, self.keys.stop - self.group.start)


class Pairs:
    """All pairs of a query and a source token that it can see; queries ascend."""

    def __init__(self, record: LayerRecord, values: Float[Tensor, "key head d_head"]) -> None:
        self.record = record
        self.values = values
        self.positions: list[int] = record.queries.tolist()
        self.n_queries, self.n_keys = len(self.positions), record.resid_pre.shape[0]
        # A CPU wants little waste (a causal block wastes half its keys' pairs), a GPU few launches.
        self.keys_in_block = 4 if record.pattern.device.type == "cpu" else 32

    def count(self) -> int:
        """How many pairs there are."""
        return sum(self.positions) + self.n_queries if self.record.block.causal else self.n_queries * self.n_keys

    def blocks(self, width: int) -> Iterator[KeyBlock]:
        """All source tokens that some row can see, in small blocks; `width` numbers a token and head will become."""
        causal = self.record.block.causal
        reach = self.positions[-1] + 1 if causal else self.n_keys
        step = self._keys_in_group(width)
        for start in range(0, reach, step):
            group = Group(self.values[start : min(start + step, reach)], self.record.block.attention.w_o, start)
            stop = min(start + step, reach)
            for first_key in range(start, stop, self.keys_in_block):
                keys = slice(first_key, min(first_key + self.keys_in_block, stop))
                first_row = bisect_left(self.positions, keys.start) if causal else 0
                pattern = rearrange(self.record.pattern[:, first_row:, keys], "head row key -> key row head")
                yield KeyBlock(group, keys, first_row, pattern, self._own_cells(keys))

    def own_values(self, norms: tuple[Norm, ...]) -> Float[Tensor, "query d"]:
        """What the heads bring from every query's own token."""
        pattern = self.record.pattern[:, range(self.n_queries), self.positions]
        z = einsum(pattern, self.values[self.record.queries], "head query, query head e -> query head e")
        vectors = einsum(z, self.record.block.attention.w_o, "query head e, head e d -> query d")
        for norm in norms:
            vectors = norm.linear(vectors)
        return vectors

    def _keys_in_group(self, width: int) -> int:
        n_heads = self.values.shape[1]
        fitting = GROUP_BYTES // (n_heads * width * self.values.element_size())
        return max(1, fitting // self.keys_in_block) * self.keys_in_block

    def _own_cells(self, keys: slice) -> tuple[tuple[int, int], ...]:
        first = bisect_left(self.positions, keys.start)
        last = bisect_left(self.positions, keys.stop)
        return tuple((self.positions[row] - keys.start, row) for row in range(first, last))


def gram_norms(basis: Float[Tensor, "key head d"], pattern: Float[Tensor, "key row head"]) -> Float[Tensor, "key row"]:
    """`||sum_h alpha_h B_h||` by the Gram matrix, in float64: it is small, and cancellation costs digits."""
    wide, alpha = basis.double(), pattern.double()
    return ((alpha @ (wide @ wide.transpose(1, 2))) * alpha).sum(dim=-1).clamp(min=0).sqrt().to(basis.dtype)
