"""A record -> the norms of all its parts, without ever holding the parts: the fast road.

Every part of a linear scope lies in a small basis: per source token j the H vectors
`T[h,j] = v[h,j] W_O[h]` and x_j itself as one more head whose pattern is the identity. Hence, per
block of source tokens,

1. linear scopes: `||F_i(x_j)||^2 = c K_j c` with c the H + 1 coefficients (pattern and identity, over the
   norm's scale) and `K_j = T_j T_j^T` their Gram matrix: no vector is made;
2. pre-activations: `p_ij = c U_j`, `U_j` the basis through norm and W_in;
3. feed-forward: the pairs (i, j) that can be reached are packed to `ROWS` rows, weighed by the
   coefficients of Integrated Gradients at i, and sent through W_out by one matrix product; the
   norms of FF, +RES and +LN are taken from its rows and the rows forgotten.

The bias part, the remainder and the sum over source tokens go through `decompose.walk` as three
vectors a query. The completeness error holds the sum of the packed rows against the model's tensor.
"""

from dataclasses import dataclass, replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.activations import integrated_gradients
from tl_ffblock.decompose import LayerRun, Settings, decompose_record, walk
from tl_ffblock.parts import Parts, attention_bias, relative_error, token_values
from tl_ffblock.records import LayerRecord, Norm

ROWS = 1024
"""Pairs in one matrix product; 512 to 2048 are equally fast."""
KEYS = 4
"""Source tokens that share one block of rows; a causal block wastes about KEYS / 2 rows."""


@dataclass(frozen=True)
class LayerNorms:
    """The norms of one layer of one sequence, by scope."""

    values: dict[str, Float[Tensor, "query key"]]
    bias: dict[str, Float[Tensor, " query"]]
    remainder: dict[str, Float[Tensor, " query"]]
    completeness: dict[str, Float[Tensor, " query"]]


def contribution_norms(record: LayerRecord, settings: Settings, scopes: tuple[str, ...]) -> LayerNorms:
    """Norms of all parts of one sequence's record, for the asked scopes."""
    if settings.method == "captum":
        return norms_of_vectors(record, settings, scopes)
    pairs = _Pairs(record, settings, scopes)
    packed_sum = pairs.run()
    sums: dict[str, Parts] = {}
    for scope, part in walk(_Aggregate(record, settings, packed_sum)):
        sums[scope] = part
        if all(asked in sums for asked in scopes):
            break
    return LayerNorms(
        values=pairs.values,
        bias={scope: sums[scope].bias.norm(dim=-1) for scope in scopes},
        remainder={scope: _remainder_norm(sums[scope]) for scope in scopes},
        completeness={s: relative_error(sums[s].total() - record.whole[s], record.whole[s]) for s in scopes},
    )


def _remainder_norm(parts: Parts) -> Float[Tensor, " query"]:
    return parts.bias.new_zeros(len(parts.bias)) if parts.remainder is None else parts.remainder.norm(dim=-1)


def norms_of_vectors(record: LayerRecord, settings: Settings, scopes: tuple[str, ...], rows: int = 8) -> LayerNorms:
    """The same by making every vector, `rows` queries at a time: captum's road, and the check of the fast one."""
    chunks = []
    for start in range(0, len(record.queries), rows):
        part = decompose_record(record.rows(slice(start, start + rows)), settings)
        tables = (
            {s: part.parts(s).norm(dim=-1) for s in scopes},
            {s: part.bias(s).norm(dim=-1) for s in scopes},
            {s: part.remainder(s).norm(dim=-1) for s in scopes},
            {s: part.completeness(s) for s in scopes},
        )
        chunks.append(tables)
    return LayerNorms(*({s: torch.cat([t[s] for t in tables]) for s in scopes} for tables in zip(*chunks, strict=True)))


class _Aggregate(LayerRun):
    """A layer's run with all source tokens as one player: what their parts sum to."""

    def __init__(self, record: LayerRecord, settings: Settings, packed_sum: Tensor | None) -> None:
        super().__init__(record, settings)
        self.packed_sum = packed_sum

    def attend(self, scope: str) -> Parts:
        record = self.record
        value, constant = token_values(record, self.settings.value_bias)
        z = einsum(record.pattern, value, "head query key, key head e -> query head e")
        tokens = einsum(z, self.block.attention.w_o, "query head e, head e d -> query d")
        return self.settle(scope, Parts(tokens[:, None], attention_bias(record, constant)))

    def residual(self, scope: str, parts: Parts) -> Parts:
        return self.settle(scope, replace(parts, tokens=parts.tokens + self.resid[:, None]))

    def feed_forward(self, scope: str, parts: Parts) -> Parts:
        """The sum of the rows that were really computed stands for the tokens; only an edit needs theirs before."""
        assert self.packed_sum is not None
        players = parts if self.record.edited else replace(parts, tokens=parts.tokens[:, :0])
        out = self._dense(players, self.block.feed_forward)
        return self.settle(scope, replace(out, tokens=self.packed_sum[:, None]))


@dataclass(frozen=True)
class _Chain:
    """Where an order's linear and non-linear scopes stand."""

    linear: tuple[str, ...]
    """Scopes of the raw basis, first without and then with the residual."""
    normed: str
    """Scope after the norm that the feed-forward reads."""
    scale_from: str
    """Scope whose whole tensor gives that norm's scale."""
    forward: tuple[str, str, str]
    """Feed-forward output, with the residual, after the next norm."""
    normed_residual: bool
    """Whether the second residual carries the normed vector (post_ln) or the raw one."""


_CHAINS = {
    "post_ln": _Chain(("Attn", "AttnRes"), "Atb", "AttnRes", ("AtbFf", "AtbFfRes", "AtbFfResLn"), True),
    "pre_ln": _Chain(("Attn", "Atb"), "AtbLn", "Atb", ("AtbLnFf", "AtbLnFfRes", "AtbLnFfResLn"), False),
}


class _Pairs:
    """The norms of all (query, key) pairs of one layer."""

    def __init__(self, record: LayerRecord, settings: Settings, scopes: tuple[str, ...]) -> None:
        self.record = record
        self.block = record.block
        self.chain = _CHAINS[self.block.order]
        self.scopes = scopes
        self.n_queries, self.n_keys = len(record.queries), record.resid_pre.shape[0]
        self.values = {scope: record.resid_pre.new_zeros(self.n_queries, self.n_keys) for scope in scopes}
        self.token_values, _ = token_values(record, settings.value_bias)
        norm = self.block.mid_norm if self.chain.normed_residual else self.block.ff_norm
        assert norm is not None and self.block.out_norm is not None
        self.norm: Norm = norm
        self.scale = norm.scale(record.whole[self.chain.scale_from])
        self.out_norm: Norm = self.block.out_norm
        self.out_scale = self.out_norm.scale(record.whole[self.chain.forward[1]])

    def run(self) -> Float[Tensor, "query d"] | None:
        """Fill `values`; give back the sum over source tokens of the feed-forward's rows, if these were asked."""
        forward = _FeedForwardPairs(self) if set(self.chain.forward) & set(self.scopes) else None
        for start in range(0, self.n_keys, KEYS):
            block = self._block(slice(start, min(start + KEYS, self.n_keys)))
            if block.first_row < self.n_queries:
                self._linear_scopes(block)
                if forward is not None:
                    forward.add(block)
        return forward.finish() if forward is not None else None

    def _block(self, keys: slice) -> "_KeyBlock":
        written = einsum(self.token_values[keys], self.block.attention.w_o, "key head e, head e d -> key head d")
        basis = torch.cat([written, self.record.resid_pre[keys, None]], dim=1)
        first = int((self.record.queries < keys.start).sum()) if self.block.causal else 0
        pattern = rearrange(self.record.pattern[:, first:, keys], "head row key -> key row head")
        positions = torch.arange(keys.start, keys.stop, device=pattern.device)
        own = (self.record.queries[None, first:] == positions[:, None]).to(pattern.dtype)
        return _KeyBlock(keys, first, basis, self.norm.linear(basis), torch.cat([pattern, own[..., None]], dim=-1))

    def _linear_scopes(self, block: "_KeyBlock") -> None:
        attention, residual = self.chain.linear
        self.store(attention, block, _gram_norms(block.basis[:, :-1], block.coefficients[..., :-1]))
        self.store(residual, block, _gram_norms(block.basis, block.coefficients))
        if self.chain.normed in self.values:
            normed = _gram_norms(block.normed, block.coefficients) / self.scale[block.first_row :, 0]
            self.store(self.chain.normed, block, normed)

    def store(self, scope: str, block: "_KeyBlock", norms: Float[Tensor, "key row"], first: int | None = None) -> None:
        """Write the norms of a block of columns, from row `first` on."""
        if scope in self.values:
            first = block.first_row if first is None else first
            self.values[scope][first : first + norms.shape[1], block.keys] = norms.T


@dataclass(frozen=True)
class _KeyBlock:
    """Some source tokens: their basis and what the rows that can see them make of it."""

    keys: slice
    first_row: int
    """Rows before this one cannot see the block."""
    basis: Float[Tensor, "key basis d"]
    """`T`: one vector a head, and x_j."""
    normed: Float[Tensor, "key basis d"]
    """The basis through the linear part of the norm before the feed-forward."""
    coefficients: Float[Tensor, "key row basis"]


def _gram_norms(basis: Float[Tensor, "key basis d"], coefficients: Float[Tensor, "key row basis"]) -> Float[Tensor, "key row"]:
    """`||sum_h c_h T_h||` by the Gram matrix of the basis, in float64: small, and cancellation costs digits."""
    wide, c = basis.double(), coefficients.double()
    return ((c @ (wide @ wide.transpose(1, 2))) * c).sum(dim=-1).clamp(min=0).sqrt().to(basis.dtype)


class _FeedForwardPairs:
    """Packs the pre-activations of reachable pairs and sends them through W_out, ROWS at a time."""

    def __init__(self, pairs: _Pairs) -> None:
        record, ff = pairs.record, pairs.block.feed_forward
        assert record.pre is not None
        shares = integrated_gradients(ff.activation, record.pre, record.pre_linear)
        self.pairs, self.ff = pairs, ff
        self.on_pre = shares.on_pre / pairs.scale
        self.on_linear = None if shares.on_linear is None else shares.on_linear / pairs.scale
        self.w_pre = ff.w_in if ff.w_gate is None else ff.w_gate
        self.buffer = record.pre.new_empty(max(ROWS, KEYS), ff.w_out.shape[0])
        self.scratch = None if self.on_linear is None else torch.empty_like(self.buffer)
        self.sum = record.resid_pre.new_zeros(pairs.n_queries, record.resid_pre.shape[1])
        self.waiting: list[tuple[_KeyBlock, int, Tensor]] = []
        self.used = 0

    def add(self, block: _KeyBlock) -> None:
        """Pre-activation shares of one block of source tokens against all rows that can see it."""
        n_keys, n_rows = block.coefficients.shape[:2]
        on_pre = block.normed @ self.w_pre
        on_linear = None if self.on_linear is None else block.normed @ self.ff.w_in
        step = max(1, ROWS // n_keys)
        for start in range(0, n_rows, step):
            c = block.coefficients[:, start : start + step]
            if self.used + c.shape[0] * c.shape[1] > len(self.buffer):
                self._flush()
            first = block.first_row + start
            place = slice(self.used, self.used + c.shape[0] * c.shape[1])
            self._mix(self.buffer, place, c, on_pre, self.on_pre[first : first + c.shape[1]])
            if on_linear is not None:
                assert self.scratch is not None and self.on_linear is not None
                self._mix(self.scratch, place, c, on_linear, self.on_linear[first : first + c.shape[1]])
            self.waiting.append((block, first, c))
            self.used = place.stop

    def finish(self) -> Float[Tensor, "query d"]:
        """Send what is still waiting; the sum of all rows by query."""
        self._flush()
        return self.sum

    @staticmethod
    def _mix(buffer: Tensor, place: slice, c: Tensor, basis: Tensor, weight: Tensor) -> None:
        out = buffer[place].view(c.shape[0], c.shape[1], -1)
        torch.bmm(c, basis, out=out)
        out *= weight

    def _flush(self) -> None:
        if not self.used:
            return
        rows = self.buffer[: self.used]
        if self.scratch is not None:
            rows += self.scratch[: self.used]
        out = rows @ self.ff.w_out
        start = 0
        for block, first, c in self.waiting:
            size = c.shape[0] * c.shape[1]
            self._norms(out[start : start + size].view(*c.shape[:2], -1), block, first, c)
            start += size
        self.waiting, self.used = [], 0

    def _norms(self, out: Float[Tensor, "key row d"], block: _KeyBlock, first: int, c: Tensor) -> None:
        pairs = self.pairs
        ff_scope, res_scope, out_scope = pairs.chain.forward
        rows = slice(first, first + c.shape[1])
        self.sum[rows] += out.sum(dim=0)
        pairs.store(ff_scope, block, out.norm(dim=-1), first)
        if pairs.chain.normed_residual:
            c, basis = c / pairs.scale[rows], block.normed
        else:
            basis = block.basis
        out.baddbmm_(c, basis)
        pairs.store(res_scope, block, out.norm(dim=-1), first)
        pairs.store(out_scope, block, pairs.out_norm.linear(out).norm(dim=-1) / pairs.out_scale[rows, 0], first)
