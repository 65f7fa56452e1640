"""A record -> the norms of all its parts, without ever holding the parts: the fast road.

Up to the feed-forward every part is a mix of the heads' values plus, on its own token, what the
residual brought: `F_i(x_j) = s_i sum_h alpha[h,i,j] B[h,j] + delta_ij D_i`, where `B[h,j]` is `v[h,j] W_O[h]`
through the linear part of the norms passed, s_i one over their scales. Hence

1. linear scopes: `||F_i(x_j)||^2 = s_i^2 alpha K_j alpha` with `K_j = B_j B_j^T`, a Gram matrix of H vectors; no
   vector is made but the own one of every query;
2. pre-activations: `p_ij = s_i alpha U_j`, `U_j = B_j W_in`, and `D_i W_in` on the own token;
3. feed-forward: the pairs (i, j) that can be reached are packed to `ROWS` rows, weighed by the
   coefficients of Integrated Gradients at i, and sent through W_out by one matrix product; the
   norms of this and all later scopes are taken from its rows and the rows forgotten.

The bias part, the remainder and the sum over source tokens go through `decomposition.walk` as three
vectors a query. The completeness error holds the sum of the packed rows against the model's tensor.
"""

from bisect import bisect_left
from dataclasses import dataclass, field, replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.decomposition import LayerRun, Settings, decompose_record, pre_activations, walk
from tl_ffblock.parts import Parts, attention_bias, relative_error, token_values
from tl_ffblock.records import FeedForward, LayerRecord, Norm
from tl_ffblock.scopes import INPUT, PROGRAMS, Add, Attend, Feed, Normalise

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
    pairs.run()
    sums: dict[str, Parts] = {}
    for scope, part in walk(_Aggregate(record, settings, pairs.packed_sum)):
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

    def attend(self) -> Parts:
        value, constant = token_values(self.record, self.settings.value_bias)
        z = einsum(self.record.pattern, value, "head query key, key head e -> query head e")
        tokens = einsum(z, self.block.attention.w_o, "query head e, head e d -> query d")
        return Parts(tokens[:, None], attention_bias(self.record, constant))

    def input(self) -> Parts:
        x = self.record.tensor(INPUT)
        return Parts(x[:, None], torch.zeros_like(x))

    def feed_forward(self, parts: Parts, x: Tensor) -> Parts:
        """The sum of the rows that were really computed stands for the tokens; only an edit needs theirs before."""
        if self.packed_sum is None:
            return super().feed_forward(parts, x)
        players = parts if self.record.edited else replace(parts, tokens=parts.tokens[:, :0])
        return replace(super().feed_forward(players, x), tokens=self.packed_sum[:, None])


@dataclass(frozen=True)
class _Mix:
    """A linear scope: `scale_i sum_h alpha[h,i,j] B[h,j] + delta_ij own_i`, B the values through `norms`."""

    norms: tuple[Norm, ...] = ()
    """Linear parts that the heads' vectors went through; their divisions are in `scale`."""
    scale: Float[Tensor, "query 1"] | None = None
    """None where no head takes part (the input alone)."""
    own: Float[Tensor, "query d"] | None = None

    def __add__(self, other: "_Mix") -> "_Mix":
        """One of the two has no heads."""
        heads = self if self.scale is not None else other
        owns = [mix.own for mix in (self, other) if mix.own is not None]
        return replace(heads, own=sum(owns[1:], owns[0]) if owns else None)

    def normalised(self, norm: Norm, scale: Float[Tensor, "query 1"]) -> "_Mix":
        """Through the linear part of a norm."""
        own = None if self.own is None else norm.linear(self.own) / scale
        return _Mix((*self.norms, norm), None if self.scale is None else self.scale / scale, own)


@dataclass
class _KeyBlock:
    """Some source tokens and the rows that can see them."""

    keys: slice
    first_row: int
    """Rows before this one cannot see the block."""
    pattern: Float[Tensor, "key row head"]
    values: Float[Tensor, "key head d"]
    """`v[h,j] W_O[h]`."""
    own_cells: tuple[list[int], list[int]]
    """Key within the block and row, of every query whose own token is here."""
    _basis: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    def basis(self, norms: tuple[Norm, ...]) -> Float[Tensor, "key head d"]:
        """The values through the linear parts of some norms."""
        key = tuple(id(norm) for norm in norms)
        if key not in self._basis:
            self._basis[key] = norms[-1].linear(self.basis(norms[:-1])) if norms else self.values
        return self._basis[key]


class _Pairs:
    """The norms of all (query, key) pairs of one layer."""

    def __init__(self, record: LayerRecord, settings: Settings, scopes: tuple[str, ...]) -> None:
        self.record = record
        self.settings = settings
        self.scopes = scopes
        self.positions: list[int] = record.queries.tolist()
        self.n_queries, self.n_keys = len(self.positions), record.resid_pre.shape[0]
        self.values = {scope: record.resid_pre.new_zeros(self.n_queries, self.n_keys) for scope in scopes}
        self.token_values, _ = token_values(record, settings.value_bias)
        self.mixes: dict[str, _Mix] = {}
        self.packed: _PackedRows | None = None
        self._plan()

    @property
    def packed_sum(self) -> Float[Tensor, "query d"] | None:
        """The sum over source tokens of the feed-forward's packed rows, where there were any."""
        return None if self.packed is None else self.packed.sum

    def run(self) -> None:
        """Fill `values`."""
        gram = {mix.norms: torch.zeros_like(self.record.pattern[0]) for mix in self._asked_mixes() if mix.scale is not None}
        for start in range(0, self.n_keys, KEYS):
            block = self._block(slice(start, min(start + KEYS, self.n_keys)))
            if block.first_row == self.n_queries:
                break
            for norms, table in gram.items():
                table[block.first_row :, block.keys] = _gram_norms(block.basis(norms), block.pattern).T
            if self.packed is not None:
                self.packed.add(block)
        if self.packed is not None:
            self.packed.flush()
        for scope in self.scopes:
            if scope in self.mixes:
                self._linear_scope(scope, self.mixes[scope], gram)

    def _plan(self) -> None:
        """Follow the layer's program: linear scopes become mixes, from a feed-forward on there are rows."""

        def operand(name: str) -> _Mix | None:
            return _Mix(own=self.record.tensor(INPUT)) if name == INPUT else self.mixes.get(name)

        last = max(i for i, step in enumerate(PROGRAMS[self.record.block.order]) if step.scope in self.scopes)
        for step in PROGRAMS[self.record.block.order][: last + 1]:
            match step.operation:
                case Attend():
                    self.mixes[step.scope] = _Mix(scale=torch.ones_like(self.record.resid_pre[: self.n_queries, :1]))
                case Add(left, right):
                    first, second = operand(left), operand(right)
                    if first is not None and second is not None:
                        self.mixes[step.scope] = first + second
                    else:
                        assert self.packed is not None and second is not None
                        self.packed.later.append((step.scope, second))
                case Normalise(of, name):
                    norm = self.record.block.norm(name)
                    scale, mix = norm.scale(self.record.tensor(of)), operand(of)
                    if mix is not None:
                        self.mixes[step.scope] = mix.normalised(norm, scale)
                    else:
                        assert self.packed is not None
                        self.packed.later.append((step.scope, (norm, scale)))
                case Feed(of):
                    self._feed(step.scope, self.mixes[of], self.record.tensor(of))

    def _feed(self, scope: str, mix: _Mix, x: Float[Tensor, "query d"]) -> None:
        if mix.scale is not None:
            self.packed = _PackedRows(self, scope, mix, x)
            return
        assert mix.own is not None
        alone = Parts(mix.own[:, None], torch.zeros_like(mix.own))
        self.mixes[scope] = _Mix(own=LayerRun(replace(self.record, edited=False), self.settings).feed_forward(alone, x).tokens[:, 0])

    def _block(self, keys: slice) -> _KeyBlock:
        first = bisect_left(self.positions, keys.start) if self.record.block.causal else 0
        own = [(p - keys.start, row) for row, p in enumerate(self.positions) if keys.start <= p < keys.stop]
        return _KeyBlock(
            keys=keys,
            first_row=first,
            pattern=rearrange(self.record.pattern[:, first:, keys], "head row key -> key row head"),
            values=einsum(self.token_values[keys], self.record.block.attention.w_o, "key head e, head e d -> key head d"),
            own_cells=([k for k, _ in own], [row for _, row in own]),
        )

    def _asked_mixes(self) -> list[_Mix]:
        return [self.mixes[scope] for scope in self.scopes if scope in self.mixes]

    def _linear_scope(self, scope: str, mix: _Mix, gram: dict[tuple[Norm, ...], Tensor]) -> None:
        own = 0 if mix.own is None else mix.own
        if mix.scale is not None:
            self.values[scope].copy_(gram[mix.norms] * mix.scale)
            own = own + mix.scale * self._own_values(mix.norms)
        self.values[scope][range(self.n_queries), self.positions] = torch.as_tensor(own).norm(dim=-1)

    def _own_values(self, norms: tuple[Norm, ...]) -> Float[Tensor, "query d"]:
        """What the heads bring from every query's own token."""
        record = self.record
        pattern = record.pattern[:, range(self.n_queries), self.positions]
        z = einsum(pattern, self.token_values[record.queries], "head query, query head e -> query head e")
        vectors = einsum(z, record.block.attention.w_o, "query head e, head e d -> query d")
        for norm in norms:
            vectors = norm.linear(vectors)
        return vectors


def _gram_norms(basis: Float[Tensor, "key head d"], pattern: Float[Tensor, "key row head"]) -> Float[Tensor, "key row"]:
    """`||sum_h alpha_h B_h||` by the Gram matrix, in float64: it is small, and cancellation costs digits."""
    wide, alpha = basis.double(), pattern.double()
    return ((alpha @ (wide @ wide.transpose(1, 2))) * alpha).sum(dim=-1).clamp(min=0).sqrt().to(basis.dtype)


class _Expert:
    """One feed-forward with its coefficients of Integrated Gradients at every row it serves."""

    def __init__(self, ff: FeedForward, mix: _Mix, pre: Tensor, pre_linear: Tensor | None, weight: Tensor | None) -> None:
        assert mix.scale is not None
        shares = ff.activation.shares(pre, pre_linear)
        self.w_out = ff.w_out
        self.rows: list[int] | None = None if weight is None else weight.nonzero()[:, 0].tolist()
        branches = [(shares.on_pre, ff.w_in if ff.w_gate is None else ff.w_gate)]
        if shares.on_linear is not None:
            branches.append((shares.on_linear, ff.w_in))
        router = 1 if weight is None else weight[:, None]
        self.branches = [(on * mix.scale * router, w) for on, w in branches]
        """Weights of the mixed heads at every row, and the matrix they come through."""
        self.own = None if mix.own is None else sum((mix.own @ w) * on * router for on, w in branches)
        """Weighed pre-activation of every row's own token."""

    def rows_between(self, first: int, last: int) -> slice | list[int]:
        """Which of some rows it serves, counted from the first."""
        if self.rows is None:
            return slice(0, last - first)
        return [row - first for row in self.rows[bisect_left(self.rows, first) : bisect_left(self.rows, last)]]


class _PackedRows:
    """Packs the pre-activations of reachable pairs and sends them through W_out, ROWS at a time."""

    def __init__(self, pairs: _Pairs, scope: str, mix: _Mix, x: Float[Tensor, "query d"]) -> None:
        self.pairs = pairs
        self.scope = scope
        self.mix = mix
        self.later: list[tuple[str, _Mix | tuple[Norm, Tensor]]] = []
        """Steps after the feed-forward: a mix to add, or a norm with its scale."""
        self.experts = list(_experts_of(pairs.record, mix, x))
        self.sum = torch.zeros_like(x)
        d_mlp = max(expert.w_out.shape[0] for expert in self.experts)
        self._buffers = [x.new_empty(max(ROWS, KEYS) * d_mlp) for _ in range(2)]
        self._waiting: list[tuple[_KeyBlock, int, Tensor]] = []
        self._used = 0

    def add(self, block: _KeyBlock) -> None:
        """Queue one block of source tokens against all rows that can see it."""
        step = max(1, ROWS // block.pattern.shape[0])
        for start in range(0, block.pattern.shape[1], step):
            pattern = block.pattern[:, start : start + step]
            if self._used + pattern.shape[0] * pattern.shape[1] > ROWS:
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
        if len(self.experts) == 1 and self.experts[0].rows is None:
            return self._through(self.experts[0], [slice(0, p.shape[1]) for _, _, p in self._waiting])
        d_model = self.sum.shape[1]
        out = self.sum.new_zeros(self._used, d_model)
        for expert in self.experts:
            chosen = [expert.rows_between(first, first + p.shape[1]) for _, first, p in self._waiting]
            rows = self._through(expert, chosen)
            start = taken = 0
            for (_, _, pattern), rows_here in zip(self._waiting, chosen, strict=True):
                n_keys, n_rows = pattern.shape[:2]
                place = out[start : start + n_keys * n_rows].view(n_keys, n_rows, d_model)
                n_here = n_rows if isinstance(rows_here, slice) else len(rows_here)
                place[:, rows_here] += rows[taken : taken + n_keys * n_here].view(n_keys, n_here, d_model)
                start, taken = start + n_keys * n_rows, taken + n_keys * n_here
        return out

    def _through(self, expert: _Expert, chosen: list[slice | list[int]]) -> Float[Tensor, "pair d"]:
        """One matrix product for all queued pairs that an expert serves."""
        used = 0
        d_mlp = expert.w_out.shape[0]
        rows, scratch = (buffer[: self._used * d_mlp].view(self._used, d_mlp) for buffer in self._buffers)
        for (block, first, pattern), here in zip(self._waiting, chosen, strict=True):
            part = pattern[:, here]
            size = part.shape[0] * part.shape[1]
            place = rows[used : used + size].view(*part.shape[:2], d_mlp)
            basis = block.basis(self.mix.norms)
            for number, (on, w) in enumerate(expert.branches):
                target = place if number == 0 else scratch[:size].view(*part.shape[:2], d_mlp)
                torch.bmm(part, basis @ w, out=target)
                target *= on[first : first + pattern.shape[1]][here]
                if number:
                    place += target
            self._add_own(place, block, first, pattern.shape[1], here, expert.own)
            used += size
        return rows[:used] @ expert.w_out

    def _add_own(
        self, place: Tensor, block: _KeyBlock, first: int, n_rows: int, here: slice | list[int], own: Tensor | None
    ) -> None:
        """What the residual brought to every query's own token."""
        if own is None:
            return
        index = {row: number for number, row in enumerate(range(n_rows) if isinstance(here, slice) else here)}
        cells = [(k, index[row - first], row) for k, row in zip(*block.own_cells, strict=True) if row - first in index]
        if cells:
            keys, local, rows = (list(column) for column in zip(*cells, strict=True))
            place[keys, local] += own[rows]

    def _take_norms(self, out: Float[Tensor, "key row d"], block: _KeyBlock, first: int, pattern: Tensor) -> None:
        rows = slice(first, first + pattern.shape[1])
        self.sum[rows] += out.sum(dim=0)
        self._store(self.scope, block, rows, out)
        for scope, step in self.later:
            if isinstance(step, _Mix):
                assert step.scale is not None
                out.baddbmm_(pattern * step.scale[rows], block.basis(step.norms))
                self._add_own(out, block, first, pattern.shape[1], slice(0, pattern.shape[1]), step.own)
            else:
                norm, scale = step
                out = norm.linear(out) / scale[rows]
            self._store(scope, block, rows, out)

    def _store(self, scope: str, block: _KeyBlock, rows: slice, out: Float[Tensor, "key row d"]) -> None:
        if scope in self.pairs.values:
            self.pairs.values[scope][rows, block.keys] = out.norm(dim=-1).T


def _experts_of(record: LayerRecord, mix: _Mix, x: Float[Tensor, "query d"]) -> list[_Expert]:
    ff = record.block.feed_forward
    if isinstance(ff, FeedForward):
        return [_Expert(ff, mix, *pre_activations(record, ff, x), None)]
    assert record.routing is not None
    served = [(e, weight) for e, weight in zip(ff.experts, record.routing.T, strict=True) if bool(weight.any())]
    return [_Expert(expert, mix, *expert.pre_activations(x), weight) for expert, weight in served]
