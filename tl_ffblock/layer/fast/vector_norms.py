"""Norms of all contributions of a layer record, without storing their vectors: the optimised implementation.

1. The layer's steps are read once (`NormsOfPairs`): linear scopes are sums over heads (head_sums.py), and from the feed-forward
   on there are rows, one per pair (`PairRows`).
2. All pairs are processed in groups of source tokens: Gram norms for the linear scopes, packed rows for the others.
3. Bias part, remainder and the sum over source tokens go through the layer's jvp (linear.py) as three vectors per query
   (`Aggregate`). The completeness error compares the sum of the packed rows with the model's tensor.

The pre-activation of a pair is a sum over heads, plus the residual's term for the query's own token (eq. 12-14, 44):

    p_ij = scale_i sum_h alpha[h,i,j] (B[h,j] W) + delta_ij residual_i W

Each pair is multiplied by the path coefficients of query i (activations.py), `r_i * p_ij`. As many pairs as the budget allows
are packed and multiplied by W_out together: `2 d_mlp d_model` operations per pair, nearly the whole cost of a map. The norms of
the feed-forward and of all later scopes are computed from these rows, which are then overwritten.

    tile: pattern [matrix row head] @ heads' pre-activations [matrix head d_mlp] -> [matrix row d_mlp]   times r_i
    tiles, concatenated: packed [pair d_mlp] @ W_out [d_mlp d_model] -> [pair d_model]
    later steps, in place: + residual and heads, norms of the block; ||.|| -> table [query key]

A dense feed-forward is one expert that serves every row. Its coefficients are one number per query and neuron, the same for
every source token. So all factors of the query are multiplied once, and not once per pair: `coefficient_i = r_i * scale_i *
router_i`.

README.md in this folder computes one example step by step. `norms_of_vectors` computes the same norms from all vectors.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import takewhile

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.buffers import Buffers, HeadProducts, MakeProduct, ProductKey, Stack, product_pays
from tl_ffblock.layer.fast.head_sums import BiasFactors, HeadSum, KeyGroup, PackedPairs, ReachablePairs, Tile
from tl_ffblock.layer.linear import LinearLayer, Parts, alone, attention_bias, completeness_errors, token_values
from tl_ffblock.layer.records import AttentionWeights, FeedForward, InputMatrix, LayerRecord, Norm, Settings
from tl_ffblock.layer.scopes import INPUT, STEPS, Add, Attend, Feed, Normalise, NormName, Operation

# Number of source tokens whose Gram matrices are computed at once: float64 doubles the memory of their vectors.
_KEYS_IN_FLOAT64 = 32

# Up to this many rows per head, vectors are faster than a Gram matrix (measured for 9 and 12 heads: 3 to 5).
_ROWS_A_HEAD = 3


@dataclass(frozen=True)
class Branch:
    """One input matrix of a feed-forward: W_in, or W_gate and W_in of a gated one, whose rows are summed.

    The heads' pre-activations are in `buffer`; branches in use at the same time have different buffers. They are multiplied by
    `coefficient`: r, the head sum's scale and the router's weight. `product` is the head product with W; None if it does not
    save time.
    """

    buffer: tuple[InputMatrix, int]
    w: Float[Tensor, "d_model d_mlp"]
    coefficient: Float[Tensor, "query d_mlp"]
    product: Float[Tensor, "head d_head d_mlp"] | None

    def heads(self, tile: Tile, norms: tuple[NormName, ...]) -> Float[Tensor, "matrix head d_mlp"]:
        """Pre-activations of the heads for a tile's source tokens."""
        return tile.group.pre_activations(self.buffer, self.w, norms, self.product)[tile.keys_in_group]


@dataclass(frozen=True)
class Expert:
    """One feed-forward or expert, for the rows that it serves.

    `residual` is the residual's pre-activation for every query's own token, times its coefficients; None if there is none.
    `rows` are those that the router sends to this expert; None means all, in a dense feed-forward.
    """

    w_out: Float[Tensor, "d_mlp d_model"]
    branches: list[Branch]
    residual: Float[Tensor, "query d_mlp"] | None
    rows: list[int] | None

    def rows_in(self, neighbours: slice) -> Sequence[int]:
        """Rows among some neighbouring ones that the expert serves."""
        first, end, rows = neighbours.start, neighbours.stop, self.rows
        return range(first, end) if rows is None else rows[bisect_left(rows, first) : bisect_left(rows, end)]


class PairRows:
    """Packed rows of the reachable pairs, and their norms from the feed-forward on.

    First the steps are declared, as on a `HeadSum` (`+`, `normalised`, `take_norms`). Then the pairs are processed (`queue`,
    `flush`).

    Args:
        pairs: Reachable pairs.
        head_sum: Input of the feed-forward, as a sum over heads.
        x: The model's own tensor of that input.
        settings: Options of the decomposition.
        product: Head products, computed or stored (`HeadProducts.product`).
        paths: Path coefficients of all queries by number of the expert; missing ones are added.
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
        # Scopes named by `take_norms`; `flush` fills their tables.
        self._scopes: list[str] = []
        # Sums over source tokens: of the feed-forward's rows, and of the rows of the last scope named by `take_norms`.
        self.rows_sum, self._last_sum = x.new_zeros(2, *x.shape)
        self._end_sum = self.rows_sum
        self._bfloat16 = settings.precision == "bfloat16"
        # A step gets this object as an argument: a closure over `self` would hold the layer record until garbage collection.
        self._steps: list[Callable[[PairRows, Tensor, PackedPairs], object]] = []
        # The layer's feed-forward, or its experts that any query was sent to.
        self.experts: list[Expert] = []
        for number, ff, router in pairs.record.feed_forwards():
            if number not in paths:
                paths[number] = pairs.record.coefficients(number, ff, x)
            self.experts.append(self._expert(number, ff, router, product))
        n_branches = max(len(expert.branches) for expert in self.experts)
        d_mlp, d_model = max(expert.w_out.shape[0] for expert in self.experts), x.shape[1]
        # Number of pre-activations per source token and head.
        self.width = n_branches * d_mlp * len(self.experts)
        # A queued pair takes d_mlp values per branch, and twice d_model: before and after the sum over experts.
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
        assert head_sum.scale is not None
        scale, weight = head_sum.scale, None if router is None else router[:, None]
        scale = scale if weight is None else scale * weight
        residual, branches = None, []
        w_o, norms = block.attention.w_o, [block.norm(name) for name in head_sum.norms]
        pays, keep = product_pays(pairs.n_sequences * pairs.n_keys, pairs.count(), w_o)
        # Without a gate, r belongs to the pre-activation of W_in. With one there are two coefficients: B(a) u for W_gate and
        # A(a) for W_in.
        for (matrix, w, _), r in zip(ff.inputs, self.paths[number].factors, strict=True):
            if head_sum.residual is not None:
                # The residual is already divided by all scales (HeadSum.normalised), so only r and the router's weight remain.
                weighed = (head_sum.residual @ w).mul_(r if weight is None else r * weight)
                residual = weighed if residual is None else residual.add_(weighed)
            made = product(ProductKey(block.layer, number, matrix), w_o, norms, w, keep=keep) if pays else None
            # Experts in use have consecutive buffers: number 57 of 64 may be the third in use.
            branches.append(Branch((matrix, len(self.experts)), w, r * scale, made))
        return Expert(ff.w_out, branches, residual, None if router is None else router.nonzero()[:, 0].tolist())

    def __add__(self, head_sum: HeadSum) -> "PairRows":
        """These rows, with a further step that adds a linear scope."""
        self._steps.append(lambda of, rows, pairs: of.add_head_sum(head_sum, rows, pairs))
        return self

    def times(self, factor: float) -> "PairRows":
        """These rows, with a further step that multiplies them by a number."""
        self._steps.append(lambda _, rows, __: rows.mul_(factor))
        return self

    def normalised(self, _name: NormName, norm: Norm, scale: Float[Tensor, "query 1"]) -> "PairRows":
        """These rows, with a further step that applies a norm with the scale of the forward pass; its shift goes to the bias part."""
        self._steps.append(lambda _, rows, pairs: norm.linear_(rows).div_(scale[pairs.queries]))
        return self

    def take_norms(self, scope: str) -> None:
        """Declare that the rows are now those of a scope whose norms are asked for."""
        self._end_sum, number = self._last_sum if self._steps else self.rows_sum, len(self._scopes)
        self._scopes.append(scope)
        self._steps.append(lambda of, rows, _: of.take(number, rows))

    @property
    def end(self) -> tuple[str, Float[Tensor, "query d_model"]]:
        """Last scope named by `take_norms`, and the sum of its rows over source tokens [query d_model]."""
        return self._scopes[-1], self._end_sum

    @property
    def norms(self) -> dict[str, Float[Tensor, "query key"]]:
        """Norms [query key] of every scope named by `take_norms`, for the pairs processed so far."""
        return dict(zip(self._scopes, self._table, strict=True))

    @cached_property
    def _table(self) -> Float[Tensor, "scope query key"]:
        return self.rows_sum.new_zeros(len(self._scopes), len(self.rows_sum), self.pairs.n_keys)

    def queue(self, group: KeyGroup) -> None:
        """Add the pairs of a group of source tokens, with all rows that see them, to the queue."""
        for tile in self.pairs.tiles(group, self._capacity):
            if self._n_waiting_pairs + tile.n_pairs > self._capacity:
                self.flush()
            self._waiting.append(tile)
            self._n_waiting_pairs += tile.n_pairs

    def flush(self) -> None:
        """Process the queued pairs: the feed-forward and all steps after it."""
        if not self._waiting:
            return
        pairs = self.pairs.packed(self._waiting)
        rows = self._feed_forward(pairs)
        self._add_to_sum(rows, self.rows_sum)
        self._taken = rows.new_empty(len(self._scopes), len(rows))
        for step in self._steps:
            step(self, rows, pairs)
        self._table.flatten(1)[:, pairs.cells] = self._taken
        if self._end_sum is not self.rows_sum:
            self._add_to_sum(rows, self._end_sum)
        self._waiting, self._n_waiting_pairs = [], 0

    def _feed_forward(self, pairs: PackedPairs) -> Float[Tensor, "pair d_model"]:
        """Rows of the queued pairs after W_out, summed over the experts that serve their query."""
        rows = self._rows[: self._n_waiting_pairs]
        if len(self.experts) == 1 and self.experts[0].rows is None:
            return self._multiply(self._pack(self.experts[0], pairs), self.experts[0].w_out, rows)
        rows.zero_()
        for expert in self.experts:
            served = [expert.rows_in(tile.rows) for tile in self._waiting]
            own = PackedPairs(pairs.cells, pairs.queries, *self.pairs.own(self._waiting, served))
            expert_rows = self._multiply(self._pack(expert, own), expert.w_out)
            n_taken = 0
            # An expert has rows only for the queries that it serves; they are added to the tiles' pairs in order.
            for (tile, rows_of_tile), of_tile in zip(self._by_tile(rows), served, strict=True):
                size = tile.n_matrices * len(of_tile)
                rows_of_tile[:, tile.offsets(of_tile)] += expert_rows[n_taken : n_taken + size].view(
                    tile.n_matrices, len(of_tile), rows.shape[1]
                )
                n_taken += size
        return rows

    def _pack(self, expert: Expert, pairs: PackedPairs) -> Float[Tensor, "served d_mlp"]:
        """Pre-activations times coefficients of all queued pairs that an expert serves, concatenated."""
        d_mlp, n_sequences, n_packed = expert.w_out.shape[0], self.pairs.n_sequences, 0
        for tile in self._waiting:
            served = expert.rows_in(tile.rows)
            pattern = tile.cut(tile.group.pattern)  # [matrix row head]
            queries: slice | Sequence[int] = tile.rows
            if expert.rows is not None:
                pattern, queries = pattern[:, tile.offsets(served)], served
            size = tile.n_matrices * len(served)
            total = None
            # The second branch of a gated feed-forward has its own memory, overwritten by every tile; without a gate it is
            # unused.
            for branch, memory in zip(expert.branches, self._packed, strict=False):
                first = n_packed * d_mlp if total is None else 0
                # r_i * sum_h alpha[h,i,j] (B[h,j] W): [key row head] @ [key head d_mlp], then row i times its coefficients.
                values = memory[first : first + size * d_mlp].view(tile.n_matrices, len(served), d_mlp)
                torch.bmm(pattern, branch.heads(tile, self.head_sum.norms), out=values)
                by_sequence = branch.coefficient.view(n_sequences, -1, d_mlp)[:, queries]
                values.view(tile.n_keys, n_sequences, len(served), d_mlp).mul_(by_sequence)
                total = values if total is None else total.add_(values)
            n_packed += size
        packed = self._packed[0][: n_packed * d_mlp].view(n_packed, d_mlp)
        pairs.add_residual(packed, expert.residual)
        return packed

    def _multiply(
        self,
        packed: Float[Tensor, "served d_mlp"],
        w_out: Float[Tensor, "d_mlp d_model"],
        out: Float[Tensor, "served d_model"] | None = None,
    ) -> Float[Tensor, "served d_model"]:
        """Product with W_out, in the precision of the settings; written to `out` if it is given."""
        if not self._bfloat16:
            return torch.mm(packed, w_out, out=out)
        product = packed.bfloat16() @ w_out.bfloat16()
        return product.to(packed.dtype) if out is None else out.copy_(product)

    def add_head_sum(self, head_sum: HeadSum, rows: Float[Tensor, "pair d_model"], pairs: PackedPairs) -> None:
        """Add `scale_i sum_h alpha[h,i,j] B[h,j]` to every pair's row, in place.

        A batched product adds the vectors to the rows directly, so they need no memory.
        """
        for tile, rows_of_tile in self._by_tile(rows):
            # [matrix row head] @ [matrix head d_model]
            basis = tile.group.basis(head_sum.norms)[tile.keys_in_group]
            rows_of_tile.baddbmm_(tile.cut(tile.group.weights(head_sum)), basis)
        pairs.add_residual(rows, head_sum.residual)

    def take(self, number: int, rows: Float[Tensor, "pair d_model"]) -> None:
        """Compute the norms of the rows, as those of the scope of a number."""
        torch.linalg.vector_norm(rows, dim=-1, out=self._taken[number])

    def _add_to_sum(self, rows: Float[Tensor, "pair d_model"], total: Float[Tensor, "query d_model"]) -> None:
        """Add every pair's row to the sum of its query."""
        n_sequences = self.pairs.n_sequences
        sums = total.view(n_sequences, -1, rows.shape[1])
        for tile, rows_of_tile in self._by_tile(rows):
            by_key = rows_of_tile.view(tile.n_keys, n_sequences, *rows_of_tile.shape[1:])
            # For one source token, as in most tiles of a causal layer, a sum would be a copy.
            sums[:, tile.rows].add_(by_key[0] if tile.n_keys == 1 else by_key.sum(dim=0))

    def _by_tile(
        self, rows: Float[Tensor, "pair d_model"]
    ) -> Iterator[tuple[Tile, Float[Tensor, "matrix row d_model"]]]:
        """Each queued tile with the rows of its pairs."""
        start = 0
        for tile in self._waiting:
            yield tile, rows[start : start + tile.n_pairs].view(tile.n_matrices, -1, rows.shape[1])
            start += tile.n_pairs


class NormsOfPairs:
    """Norms of all pairs of a layer: sums over heads up to the feed-forward, rows from there on.

    Args:
        stack: One layer of some sequences.
        settings: Options of the decomposition.
        scopes: Scopes of the block's order.
        buffers: Buffers to work in.
        product: Head products, computed or stored (`HeadProducts.product`).
        paths: Known path coefficients by number of the expert.
        residual: Whether the layer's input enters by the skip connection; False for a layer restricted to some heads.
    """

    def __init__(
        self,
        stack: Stack,
        settings: Settings,
        scopes: tuple[str, ...],
        buffers: Buffers,
        product: MakeProduct,
        paths: dict[int, PathCoefficients] | None = None,
        *,
        residual: bool = True,
    ) -> None:
        stack = replace(stack, record=stack.record.by_channel)
        self.record = stack.record
        self.settings = settings
        self.scopes = scopes
        self.product = product
        self.paths = {} if paths is None else paths
        self.residual = residual
        # Representation of each scope.
        self.at: dict[str, HeadSum | PairRows] = {}
        pairs = stack.record, token_values(stack.record, settings.value_bias)[0]
        if len(stack.record.queries) == stack.n_sequences:
            pairs = as_one_head(*pairs)
        self.pairs = ReachablePairs(*pairs, buffers, stack.n_sequences, stack.positions)
        steps = STEPS[stack.record.block.order]
        last = max(number for number, step in enumerate(steps) if step.scope in scopes)
        for step in steps[: last + 1]:
            self.at[step.scope] = made = self._follow(step.operation)
            if step.scope in scopes and isinstance(made, PairRows):
                made.take_norms(step.scope)

    @property
    def pair_rows(self) -> PairRows | None:
        """Rows from the feed-forward on; None if no scope needs them."""
        return next((made for made in self.at.values() if isinstance(made, PairRows)), None)

    def measure(self) -> dict[str, Float[Tensor, "query key"]]:
        """Norms of the contributions, by scope."""
        linear = {scope: made for scope in self.scopes if isinstance(made := self.at[scope], HeadSum)}
        # Scopes with the same norms differ only in scale and residual, so they share one Gram table.
        of_heads = [made.norms for made in linear.values() if made.scale is not None]
        gram = {norms: torch.zeros_like(self.record.pattern[0]) for norms in of_heads}
        rows = self.pair_rows
        for group in self.pairs.groups(max(self.record.resid_pre.shape[1], 0 if rows is None else rows.width)):
            for norms, table in gram.items():
                by_sequence = table.view(self.pairs.n_sequences, -1, self.pairs.n_keys)
                by_sequence[:, group.first_row :, group.keys] = rearrange(
                    part_norms(group.basis(norms), group.pattern),
                    "(key sequence) row -> sequence row key",
                    sequence=self.pairs.n_sequences,
                )
            if rows is not None:
                rows.queue(group)
        values = dict(zip(linear, self._of_head_sums([*linear.values()], gram), strict=True)) if linear else {}
        if rows is not None:
            rows.flush()
            values |= rows.norms
        return {scope: values[scope] for scope in self.scopes}

    def _of_head_sums(
        self, sums: Sequence[HeadSum], gram: dict[tuple[NormName, ...], Tensor]
    ) -> Float[Tensor, "scope query key"]:
        """Gram norms of the heads times `scale_i`; for the query's own token the norm of its vector, d_model numbers per query."""
        x = self.record.tensor(INPUT)
        norms = x.new_zeros(len(sums), len(x), self.pairs.n_keys)
        vectors = x.new_zeros(len(sums), *x.shape)
        for head_sum, table, vector in zip(sums, norms, vectors, strict=True):
            if head_sum.scale is not None:
                torch.mul(gram[head_sum.norms], head_sum.scale, out=table)
                torch.mul(self.pairs.self_values(head_sum.norms), head_sum.scale, out=vector)
            if head_sum.residual is not None:
                vector += head_sum.residual
        norms.flatten(1)[:, self.pairs.own_cells] = vectors.norm(dim=-1)
        return norms

    def _follow(self, operation: Operation) -> HeadSum | PairRows:
        """Representation of a scope, from those of the scopes before it.

        From the feed-forward on the steps are one chain, so the rows are the operand of the next step.
        """
        record = self.record
        match operation:
            case Attend():
                bias = BiasFactors.of_attention(record, self.settings.value_bias)
                return HeadSum(scale=torch.ones_like(record.tensor(INPUT)[:, :1]), bias=bias)
            case Add(left, right) as added:
                branch, stream = (
                    of if factor == 1 else of.times(factor)
                    for of, factor in zip(
                        (self._operand(left), self._operand(right)), record.block.factors(added), strict=True
                    )
                )
                assert isinstance(stream, HeadSum)  # only the left operand comes after the feed-forward
                return branch + stream
            case Normalise(of, name):
                norm = record.block.norm(name)
                return self._operand(of).normalised(name, norm, record.scale(of, name))
            case Feed(of):
                return self._fed(self._operand(of), record.tensor(of))

    def _operand(self, name: str) -> HeadSum | PairRows:
        if name != INPUT:
            return self.at[name]
        return HeadSum(residual=self.record.tensor(INPUT) if self.residual else None)

    def _fed(self, made: HeadSum | PairRows, x: Float[Tensor, "query d_model"]) -> HeadSum | PairRows:
        assert isinstance(made, HeadSum)
        if made.scale is not None:
            return PairRows(self.pairs, made, x, self.settings, self.product, self.paths)
        if made.residual is None:
            return made
        # The feed-forward of a parallel block reads only its own position: one vector per query, by the jvp.
        unedited = LinearLayer(replace(self.record, edited=False), self.settings)
        return HeadSum(residual=unedited.feed_forward(alone(made.residual), x).tokens[:, 0])


def part_norms(
    basis: Float[Tensor, "matrix head d_model"], pattern: Float[Tensor, "matrix row head"]
) -> Float[Tensor, "matrix row"]:
    """Norms `||sum_h alpha[h,i,j] B[h,j]||`, from vectors or Gram matrices, whichever is faster."""
    n_rows, n_heads = pattern.shape[1:]
    if n_rows <= _ROWS_A_HEAD * n_heads:
        return torch.linalg.vector_norm(torch.bmm(pattern, basis), dim=-1)
    return gram_norms(basis, pattern)


def gram_norms(
    basis: Float[Tensor, "matrix head d_model"], pattern: Float[Tensor, "matrix row head"]
) -> Float[Tensor, "matrix row"]:
    """Norms `||sum_h alpha[h,i,j] B[h,j]|| = sqrt(alpha K alpha)` with the Gram matrix K = B B^T of each source token.

    In float64: a Gram matrix is small, and cancellation between heads loses twice the digits in a square.
    """
    squares = []
    for vectors, weights in zip(
        torch.split(basis, _KEYS_IN_FLOAT64), torch.split(pattern, _KEYS_IN_FLOAT64), strict=True
    ):
        wide, alpha = vectors.double(), weights.double()
        gram = wide @ wide.transpose(1, 2)  # [key head head]
        squares.append(((alpha @ gram) * alpha).sum(dim=-1))
    # Rounding may give -1e-17 if the heads cancel completely.
    return torch.cat(squares).clamp_(min=0).sqrt_().to(basis.dtype)


def as_one_head(
    record: LayerRecord, values: Float[Tensor, "key head d_head"]
) -> tuple[LayerRecord, Float[Tensor, "key 1 all_heads_d_head"]]:
    """Record of sequences with one row each, as a single head with pattern 1 and the weighted values of all heads.

        sum_h alpha[h,j] v[h,j] W_O[h] = (alpha[0,j] v[0,j], alpha[1,j] v[1,j], ...) W_O

    The pre-activations of this head are those of the pairs, without a product over heads.
    """
    alpha = rearrange(record.pattern, "head sequence key -> (sequence key) head 1")
    attention = record.block.attention
    w_o = rearrange(attention.w_o, "head e d -> 1 (head e) d")
    # The weighted values of all heads are not a product of the input with one matrix, so W_V and b_V are zero.
    zero = w_o.new_zeros(())
    w_v, b_v = zero.expand(1, w_o.shape[2], w_o.shape[1]), zero.expand(1, w_o.shape[1])
    block = replace(record.block, attention=AttentionWeights(w_o, attention.b_o, w_v, b_v))
    return replace(record, block=block, pattern=torch.ones_like(record.pattern[:1])), (values * alpha).flatten(1)[
        :, None
    ]


@dataclass(frozen=True)
class ContributionNorms:
    """Norms of one layer of one sequence or several, by scope: contributions, bias part, remainder; and completeness errors."""

    values: dict[str, Float[Tensor, "*sequence query key"]]
    bias: dict[str, Float[Tensor, "*sequence query"]]
    remainder: dict[str, Float[Tensor, "*sequence query"]]
    completeness: dict[str, Float[Tensor, "*sequence query"]]

    def each(self, change: Callable[[Tensor], Tensor]) -> "ContributionNorms":
        """The same with `change` applied to every table."""
        return ContributionNorms(
            *({scope: change(table) for scope, table in tables.items()} for tables in vars(self).values())
        )


def contribution_norms(
    record: LayerRecord,
    settings: Settings,
    scopes: tuple[str, ...],
    *,
    buffers: Buffers | None = None,
    products: HeadProducts | None = None,
) -> ContributionNorms:
    """Norms of all contributions of one sequence's record, for some scopes.

    Args:
        record: One layer of one sequence; its queries ascend.
        settings: Options of the decomposition.
        scopes: Scopes of the block's order.
        buffers: Buffers to work in; successive layers are faster with the same ones. None makes new ones.
        products: Weight products of earlier calls, stored by the caller with the model; None computes them.
    """
    norms = norms_of_stack(Stack((0,), record), settings, scopes, buffers or Buffers(), products or HeadProducts())
    return norms.each(lambda table: table[0])


def norms_of_stack(
    stack: Stack, settings: Settings, scopes: tuple[str, ...], buffers: Buffers, products: HeadProducts
) -> ContributionNorms:
    """The same for several sequences, with a leading sequence axis.

    Args:
        stack: One layer of some sequences.
        settings: Options of the decomposition.
        scopes: Scopes of the block's order.
        buffers: As in `contribution_norms`.
        products: As in `contribution_norms`.
    """
    if settings.method == "captum":
        norms = norms_of_vectors(stack.record, settings, scopes)
    elif stack.record.is_by_channel:  # sums over channels of width 1 cost more than the products with their vectors
        norms = norms_of_vectors(stack.record, settings, scopes, buffers.rows_of_vectors(stack.record))
    else:
        of_pairs = NormsOfPairs(stack, settings, scopes, buffers, products.product)
        values = of_pairs.measure()
        sums = Aggregate(stack, settings, of_pairs.pair_rows).parts(scopes)
        norms = _norms_of_parts(stack.record, {scope: sums[scope] for scope in scopes}, values)
    return norms.each(lambda table: table.view(stack.n_sequences, -1, *table.shape[1:]))


def _joined(chunks: Sequence[ContributionNorms]) -> ContributionNorms:
    """Norms of consecutive queries as one."""
    return ContributionNorms(
        *(
            {scope: torch.cat([of_chunk[scope] for of_chunk in of_field]) for scope in of_field[0]}
            for of_field in zip(*(vars(chunk).values() for chunk in chunks), strict=True)
        )
    )


def norms_of_vectors(
    record: LayerRecord, settings: Settings, scopes: tuple[str, ...], queries_at_once: int = 8
) -> ContributionNorms:
    """The same norms from all vectors, a few queries at a time.

    For Captum, for layers whose weights of source tokens differ between channels, and to test the optimised implementation. In a
    causal layer, vectors of later source tokens are zero and not computed.

    Args:
        record: One layer of one sequence.
        settings: Options of the decomposition.
        scopes: Scopes of the block's order.
        queries_at_once: Number of queries whose vectors are stored at once; each takes [key d_mlp] numbers.
    """
    chunks, n_keys, ends = [], record.pattern.shape[-1], record.queries.tolist()
    for start in range(0, len(ends), queries_at_once):
        rows = record.rows(slice(start, start + queries_at_once))
        seen = n_keys if not record.block.causal else ends[min(start + queries_at_once, len(ends)) - 1] + 1
        rows = rows.keys(slice(seen))
        parts = LinearLayer(rows, settings).parts(scopes)
        values = {scope: pad(parts[scope].tokens.norm(dim=-1), (0, n_keys - seen)) for scope in scopes}
        chunks.append(_norms_of_parts(rows, {scope: parts[scope] for scope in scopes}, values))
    return _joined(chunks)


def _norms_of_parts(record: LayerRecord, parts: Mapping[str, Parts], values: dict[str, Tensor]) -> ContributionNorms:
    """Norms of contributions (`values`), bias part and remainder, and the completeness error."""
    terms = [of.tokens[:, 0] if of.tokens.shape[1] == 1 else of.tokens.sum(dim=1) for of in parts.values()]
    terms += [of.bias for of in parts.values()]
    if record.edited:  # every scope has a remainder
        terms += [of.remainder for of in parts.values() if of.remainder is not None]
    stacked = torch.stack(terms).view(
        -1, len(parts), *terms[0].shape
    )  # [term scope query d_model]: of all scopes at once
    sizes = stacked.norm(dim=-1)
    errors = completeness_errors(stacked, torch.stack([record.whole[scope] for scope in parts]), sizes)
    remainders = sizes[2] if record.edited else torch.zeros_like(errors)
    by_scope = (dict(zip(parts, table, strict=True)) for table in (sizes[1], remainders, errors))
    return ContributionNorms(values, *by_scope)


class Aggregate(LinearLayer):
    """A layer with all source tokens as one: the sum of their contributions, bias part and remainder.

    Bias part and remainder are one vector per query. They do not depend on how the remaining vector is split among tokens,
    since every step is linear. So the jvp computes them with the sum over tokens as the only entry of the "key" axis. The
    completeness error compares `sum + bias + remainder` with the model's own tensor. From the feed-forward on, the sum is not
    computed from the sum before it, which would be complete whatever the pairs are. It is the sum of the packed rows, and again
    at the last scope, so that the steps in between are included.
    """

    def __init__(self, stack: Stack, settings: Settings, rows: PairRows | None) -> None:
        stack = replace(stack, record=stack.record.by_channel)
        super().__init__(stack.record, settings, _tokens_sum(stack, settings), alone(stack.record.tensor(INPUT)))
        self.rows = rows
        self.paths = {} if rows is None else rows.paths  # computed once

    def settle(self, scope: str, parts: Parts) -> Parts:
        if self.rows is not None and scope == self.rows.end[0]:
            parts = replace(parts, tokens=self.rows.end[1][:, None])
        return super().settle(scope, parts)

    def feed_forward(self, parts: Parts, x: Float[Tensor, "query d_model"]) -> Parts:
        if self.rows is None:
            return super().feed_forward(parts, x)
        # Only with edits do bias part and remainder need the sum over tokens before the feed-forward: the gap to the model's
        # own pre-activation belongs to the remainder. Otherwise the sum is omitted, with its products with W_in and W_out.
        players = parts if self.record.edited else replace(parts, tokens=parts.tokens[:, :0])
        return replace(super().feed_forward(players, x), tokens=self.rows.rows_sum[:, None])

    def players(
        self,
        parts: Parts,
        weight: Float[Tensor, "d_model d_mlp"],
        bias: Float[Tensor, " d_mlp"],
        real: Float[Tensor, "query d_mlp"],
    ) -> Parts:
        """Terms of a pre-activation; the bias part's by its factors, unless an edit left a remainder."""
        factors = None if self.rows is None else self.rows.head_sum.bias
        if factors is None or self.record.edited:
            return super().players(parts, weight, bias, real)
        return Parts(parts.tokens @ weight, factors.through(weight, bias))


def _tokens_sum(stack: Stack, settings: Settings) -> Parts:
    """Attention output with all source tokens as one."""
    record, (value, constant) = stack.record, token_values(stack.record, settings.value_bias)
    z = einsum(
        rearrange(record.pattern, "head (s query) key -> s head query key", s=stack.n_sequences),
        rearrange(value, "(s key) head e -> s key head e", s=stack.n_sequences),
        "s head query key, s key head e -> s query head e",
    ).flatten(0, 1)
    tokens = einsum(z, record.block.attention.w_o, "query head e, head e d -> query d")
    return Parts(tokens[:, None], attention_bias(record, constant))


def errors_of_column(
    stack: Stack, values: Mapping[str, Float[Tensor, "sequence query key"]], key: int, settings: Settings
) -> dict[str, Float[Tensor, "sequence query"]]:
    """Errors of one source token's norms, compared with its vectors, relative to the largest norm of each query's row.

    Only scopes before the feed-forward, where vectors are cheap. From there on the rows are summed, and the completeness error
    covers them.

    Args:
        stack: One layer of some sequences.
        values: Norms by scope.
        key: Position of the source token.
        settings: Options of the decomposition.
    """
    before_feed = takewhile(lambda step: not isinstance(step.operation, Feed), STEPS[stack.record.block.order])
    scopes = [step.scope for step in before_feed if step.scope in values]
    if not scopes:
        return {}
    parts = _channels_of_key(stack, key, settings, by_head=False).parts(scopes)
    norms = {scope: parts[scope].tokens.sum(dim=1).norm(dim=-1).view(values[scope].shape[:2]) for scope in scopes}
    return {scope: _over(values[scope][..., key] - norms[scope], values[scope].amax(dim=-1)) for scope in scopes}


def errors_of_cell(
    stack: Stack,
    by_head: Mapping[str, Float[Tensor, "sequence channel query key"]],
    heads: Sequence[int],
    settings: Settings,
) -> dict[str, Float[Tensor, " channel"]]:
    """Errors of the norms by head at every scope, in one cell: the first query and its own token, which all channels reach.

    Args:
        stack: As in `errors_of_column`.
        by_head: Norms by scope and channel, the residual's last.
        heads: Heads of the other channels.
        settings: Options of the decomposition.
    """
    first = stack.record.rows(slice(1))
    key, errors = stack.positions[0], {}
    for scope, parts in _channels_of_key(Stack((0,), first), key, settings, by_head=True).parts().items():
        if scope in by_head:
            norms, table = parts.tokens[0, [*heads, -1]].norm(dim=-1), by_head[scope][0, :, 0]
            errors[scope] = _over(table[:, key] - norms, table.amax(dim=-1))
    return errors


def over_largest(miss: Float[Tensor, "*shape key"], norms: Float[Tensor, "*shape key"]) -> Float[Tensor, "*shape key"]:
    """Absolute errors relative to the largest norm of their row."""
    return _over(miss, norms.amax(dim=-1, keepdim=True))


def _over(miss: Tensor, largest: Tensor) -> Tensor:
    return miss.abs() / torch.where(largest == 0, 1, largest)


def _channels_of_key(stack: Stack, key: int, settings: Settings, *, by_head: bool) -> LinearLayer:
    """A layer with the contributions of one source token, through heads (or all of them as one) and, last, the residual connection.

    These channels replace the "key" axis. The jvp then gives vectors that check every norm of that token, of whole
    contributions and through heads. They do not depend on edits.
    """
    n_heads, record, n_keys = (
        len(stack.record.pattern),
        replace(stack.record, edited=False),
        stack.record.pattern.shape[-1],
    )
    of_key, at = record, key
    if record.is_by_channel:  # of one sequence; a convolution reads the token at some positions after it
        at, n_taps = 0, 1 if record.taps is None else record.taps.shape[-1]
        of_key = record.keys(slice(key, key + n_taps)).by_channel
    sequences = torch.arange(stack.n_sequences, device=record.queries.device)
    sequences = sequences.repeat_interleave(len(record.queries) // stack.n_sequences)
    values = token_values(of_key, settings.value_bias)[0][at :: n_keys if of_key is record else len(of_key.value)]
    z = of_key.pattern[:, :, at].T[:, :, None] * values[sequences]
    n_parts = n_heads if by_head else 1
    z = z.reshape(len(z), n_parts, -1)
    w_o = of_key.block.attention.w_o.reshape(n_parts, z.shape[-1], -1)
    through_heads = einsum(z, w_o, "query part e, part e d -> query part d")
    x, none = record.tensor(INPUT), torch.zeros_like(through_heads)
    own = x * (record.queries == key + n_keys * sequences)[:, None]  # numbered over all sequences
    attention = Parts(torch.cat([through_heads, none[:, :1]], dim=1), torch.zeros_like(x))
    return LinearLayer(record, settings, attention, Parts(torch.cat([none, own[:, None]], dim=1), torch.zeros_like(x)))
