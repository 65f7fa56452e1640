"""A record -> the norms of all its parts, without ever holding the parts: the optimised implementation.

1. The layer's program is followed once (`NormsOfPairs`): linear scopes are sums over heads
   (head_sums.py), and from the feed-forward on there are rows, one per pair (pair_rows.py).
2. All pairs are gone through in groups of source tokens: Gram norms for the linear scopes, packed rows
   for the others.
3. The bias part, the remainder and the sum over source tokens go through the layer's jvp (linear.py) as
   three vectors per query (`Aggregate`). The completeness error compares the sum of the packed rows with
   the model's tensor.

README.md beside this file takes one example through all of it. `norms_of_vectors` does the same by
making every vector.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile

import torch
from einops import einsum, rearrange
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.buffers import Buffers, Stack
from tl_ffblock.layer.fast.head_sums import BiasFactors, HeadSum, ReachablePairs
from tl_ffblock.layer.fast.pair_rows import PairRows
from tl_ffblock.layer.fast.products import HeadProducts, MakeProduct
from tl_ffblock.layer.linear import LinearLayer, Parts, alone, attention_bias, token_values
from tl_ffblock.layer.records import AttentionWeights, FeedForward, LayerRecord
from tl_ffblock.layer.scopes import INPUT, STEPS, Add, Attend, Feed, Normalise, NormName, Operation
from tl_ffblock.layer.settings import Settings

_KEYS_IN_FLOAT64 = 32
"""Source tokens whose Gram matrices are made at a time: float64 doubles what their vectors occupy."""

_ROWS_A_HEAD = 3
"""Up to so many rows for each head vectors are faster than a Gram matrix (measured for 9 and 12 heads: 3 to 5)."""


@dataclass(frozen=True)
class LayerNorms:
    """The norms of one layer of one sequence, or of several, by scope."""

    values: dict[str, Float[Tensor, "*sequence query key"]]
    bias: dict[str, Float[Tensor, "*sequence query"]]
    remainder: dict[str, Float[Tensor, "*sequence query"]]
    completeness: dict[str, Float[Tensor, "*sequence query"]]

    def each(self, change: Callable[[Tensor], Tensor]) -> "LayerNorms":
        """Every table changed."""
        return LayerNorms(
            *({scope: change(table) for scope, table in tables.items()} for tables in vars(self).values())
        )


def contribution_norms(
    record: LayerRecord,
    settings: Settings,
    scopes: tuple[str, ...],
    *,
    buffers: Buffers | None = None,
    products: HeadProducts | None = None,
) -> LayerNorms:
    """Norms of all parts of one sequence's record, for the asked scopes.

    Args:
        record: One layer of one sequence; its queries ascend.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: Memory to work in. Layers that follow one another go faster with the same for all; None takes new memory.
        products: Products of the weights that were made before, kept by the caller with the model; None makes them anew.
    """
    norms = norms_of_stack(Stack((0,), record), settings, scopes, buffers or Buffers(), products or HeadProducts())
    return norms.each(lambda table: table[0])


def norms_of_stack(
    stack: Stack, settings: Settings, scopes: tuple[str, ...], buffers: Buffers, products: HeadProducts
) -> LayerNorms:
    """The same of several sequences, their axis before the others.

    Args:
        stack: One layer of some sequences.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: As in `contribution_norms`.
        products: As in `contribution_norms`.
    """
    if settings.method == "captum":
        norms = norms_of_vectors(stack.record, settings, scopes)
    else:
        of_pairs = NormsOfPairs(stack, settings, scopes, buffers, products.product)
        values = of_pairs.measure()
        sums = Aggregate(stack, settings, of_pairs.pair_rows).parts(scopes)
        norms = _norms_of_parts(stack.record, {scope: sums[scope] for scope in scopes}, values)
    return norms.each(lambda table: table.view(stack.n_sequences, -1, *table.shape[1:]))


def norms_of_vectors(
    record: LayerRecord, settings: Settings, scopes: tuple[str, ...], queries_at_once: int = 8
) -> LayerNorms:
    """The same by making every vector, a few queries at a time: for captum, and the check of the optimised implementation.

    Args:
        record: One layer of one sequence.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        queries_at_once: How many queries' vectors are held; each takes [key d_mlp] numbers.
    """
    chunks = []
    for start in range(0, len(record.queries), queries_at_once):
        rows = record.rows(slice(start, start + queries_at_once))
        parts = LinearLayer(rows, settings).parts(scopes)
        values = {scope: parts[scope].tokens.norm(dim=-1) for scope in scopes}
        chunks.append(vars(_norms_of_parts(rows, {scope: parts[scope] for scope in scopes}, values)))
    return LayerNorms(
        **{name: {scope: torch.cat([chunk[name][scope] for chunk in chunks]) for scope in scopes} for name in chunks[0]}
    )


def _norms_of_parts(record: LayerRecord, parts: Mapping[str, Parts], values: dict[str, Tensor]) -> LayerNorms:
    """Norms of bias part and remainder, and the completeness error, beside those of the tokens' parts."""
    remainders = {scope: of.remainder for scope, of in parts.items()}
    return LayerNorms(
        values=values,
        bias={scope: of.bias.norm(dim=-1) for scope, of in parts.items()},
        remainder={
            scope: values[scope].new_zeros(len(values[scope])) if remainder is None else remainder.norm(dim=-1)
            for scope, remainder in remainders.items()
        },
        completeness={scope: of.error(record.whole[scope]) for scope, of in parts.items()},
    )


class NormsOfPairs:
    """Follows a layer's program for all pairs: sums over heads up to the feed-forward, rows from there on.

    Args:
        stack: One layer of some sequences.
        settings: How the decomposition is made.
        scopes: Scopes of the block's order.
        buffers: Memory to work in.
        product: Makes head products, or has kept them (`HeadProducts.product`).
        paths: Coefficients of Integrated Gradients by number of the expert, as far as they are known.
    """

    def __init__(
        self,
        stack: Stack,
        settings: Settings,
        scopes: tuple[str, ...],
        buffers: Buffers,
        product: MakeProduct,
        paths: dict[int, PathCoefficients] | None = None,
    ) -> None:
        self.record = stack.record
        self.settings = settings
        self.scopes = scopes
        self.product = product
        self.paths = {} if paths is None else paths
        self.head_sums: dict[str, HeadSum] = {}
        self.pair_rows: PairRows | None = None
        pairs = stack.record, token_values(stack.record, settings.value_bias)[0]
        if len(stack.record.queries) == stack.n_sequences:
            pairs = as_one_head(*pairs)
        self.pairs = ReachablePairs(*pairs, buffers, stack.n_sequences)
        steps = STEPS[stack.record.block.order]
        last = max(number for number, step in enumerate(steps) if step.scope in scopes)
        for step in steps[: last + 1]:
            self._follow(step.scope, step.operation)
            if self.pair_rows is not None and step.scope in scopes and step.scope not in self.head_sums:
                self.pair_rows.take_norms(step.scope)

    def measure(self) -> dict[str, Float[Tensor, "query key"]]:
        """The norms by scope."""
        asked = [self.head_sums[scope] for scope in self.scopes if scope in self.head_sums]
        # Scopes whose heads went through the same norms differ in scale and residual only: one Gram table for all.
        gram = {heads.norms: torch.zeros_like(self.record.pattern[0]) for heads in asked if heads.scale is not None}
        width = max(self.record.resid_pre.shape[1], 0 if self.pair_rows is None else self.pair_rows.width)
        for group in self.pairs.groups(width):
            for norms, table in gram.items():
                by_sequence = table.view(self.pairs.n_sequences, -1, self.pairs.n_keys)
                by_sequence[:, group.first_row :, group.keys] = rearrange(
                    part_norms(group.basis(norms), group.pattern),
                    "(key sequence) row -> sequence row key",
                    sequence=self.pairs.n_sequences,
                )
            if self.pair_rows is not None:
                self.pair_rows.queue(group)
        values = {
            scope: self._of_head_sum(self.head_sums[scope], gram) for scope in self.scopes if scope in self.head_sums
        }
        if self.pair_rows is None:
            return values
        self.pair_rows.flush()
        values |= self.pair_rows.norms
        return {scope: values[scope] for scope in self.scopes}

    def _of_head_sum(self, head_sum: HeadSum, gram: dict[tuple[NormName, ...], Tensor]) -> Float[Tensor, "query key"]:
        """`scale_i` times the heads' Gram norms; with a residual the own token's vector is made, d_model numbers a query."""
        vector = head_sum.residual
        if head_sum.scale is None:
            norms = torch.zeros_like(self.record.pattern[0])
        else:
            norms = gram[head_sum.norms] * head_sum.scale
            heads = head_sum.scale * self.pairs.self_values(head_sum.norms)
            vector = heads if vector is None else vector + heads
        if vector is None:
            return norms
        norms[range(len(norms)), self.pairs.positions * self.pairs.n_sequences] = vector.norm(dim=-1)
        return norms

    def _follow(self, scope: str, operation: Operation) -> None:
        """One step: a linear scope is a `HeadSum`.

        From the feed-forward on a program is one chain, so what a step there reads is what the rows are by then.
        """
        match operation:
            case Attend():
                scale, bias_of = torch.ones_like(self.record.tensor(INPUT)[:, :1]), BiasFactors.of_attention
                self.head_sums[scope] = HeadSum(scale=scale, bias=bias_of(self.record, self.settings.value_bias))
            case Add(left, right):
                heads, added = self._head_sum(left), self._head_sum(right)
                assert added is not None  # only the left operand of a program's additions comes after the feed-forward
                if heads is not None:
                    self.head_sums[scope] = heads + added
                else:
                    self._rows.add(added)
            case Normalise(of, name):
                norm, heads = self.record.block.norm(name), self._head_sum(of)
                scale = norm.scale(self.record.tensor(of))
                if heads is not None:
                    self.head_sums[scope] = heads.normalised(name, norm, scale)
                else:
                    self._rows.normalise(norm, scale)
            case Feed(of):
                self._feed(scope, self.head_sums[of], self.record.tensor(of))

    def _head_sum(self, operand: str) -> HeadSum | None:
        """A linear scope or the layer's input; None from the feed-forward on, where there are rows."""
        if operand != INPUT:
            return self.head_sums.get(operand)
        x = self.record.tensor(INPUT)
        return HeadSum(residual=x if bool(x.any()) else None)  # zero in a layer restricted to its heads

    def _feed(self, scope: str, head_sum: HeadSum, x: Float[Tensor, "query d_model"]) -> None:
        if head_sum.scale is not None:
            self.pair_rows = PairRows(self.pairs, head_sum, x, self.settings, self.product, self.paths)
        elif head_sum.residual is None:
            self.head_sums[scope] = HeadSum()
        else:
            # A parallel block's feed-forward reads its own position only: one vector per query, by the jvp.
            unedited = LinearLayer(replace(self.record, edited=False), self.settings)
            fed = unedited.feed_forward(alone(head_sum.residual), x)
            self.head_sums[scope] = HeadSum(residual=fed.tokens[:, 0])

    @property
    def _rows(self) -> PairRows:
        assert self.pair_rows is not None
        return self.pair_rows


def part_norms(
    basis: Float[Tensor, "matrix head d_model"], pattern: Float[Tensor, "matrix row head"]
) -> Float[Tensor, "matrix row"]:
    """`||sum_h alpha[h,i,j] B[h,j]||`, the way that is faster."""
    n_rows, n_heads = pattern.shape[1:]
    if n_rows <= _ROWS_A_HEAD * n_heads:
        return torch.linalg.vector_norm(torch.bmm(pattern, basis), dim=-1)
    return gram_norms(basis, pattern)


def gram_norms(
    basis: Float[Tensor, "matrix head d_model"], pattern: Float[Tensor, "matrix row head"]
) -> Float[Tensor, "matrix row"]:
    """`||sum_h alpha[h,i,j] B[h,j]|| = sqrt(alpha K alpha)` with the Gram matrix K = B B^T of every source token.

    In float64: a Gram matrix is small, and heads that cancel cost twice the digits in a square.
    """
    squares = []
    for vectors, weights in zip(
        torch.split(basis, _KEYS_IN_FLOAT64), torch.split(pattern, _KEYS_IN_FLOAT64), strict=True
    ):
        wide, alpha = vectors.double(), weights.double()
        gram = wide @ wide.transpose(1, 2)  # [key head head]
        squares.append(((alpha @ gram) * alpha).sum(dim=-1))
    # Rounding may leave -1e-17 where the heads cancel wholly.
    return torch.cat(squares).clamp_(min=0).sqrt_().to(basis.dtype)


def as_one_head(
    record: LayerRecord, values: Float[Tensor, "key head d_head"]
) -> tuple[LayerRecord, Float[Tensor, "key 1 all_heads_d_head"]]:
    """A record of which every sequence has one row, with its heads as one, whose pattern is 1 and whose values hold theirs.

        sum_h alpha[h,j] v[h,j] W_O[h] = (alpha[0,j] v[0,j], alpha[1,j] v[1,j], ...) W_O

    Its heads' pre-activations are then those of the pairs, without a product over heads.
    """
    alpha = rearrange(record.pattern, "head sequence key -> (sequence key) head 1")
    attention = record.block.attention
    w_o = rearrange(attention.w_o, "head e d -> 1 (head e) d")
    # Weighted values of all heads are no product of the input with one matrix: what would make them is zero.
    zero = w_o.new_zeros(())
    w_v, b_v = zero.expand(1, w_o.shape[2], w_o.shape[1]), zero.expand(1, w_o.shape[1])
    block = replace(record.block, attention=AttentionWeights(w_o, attention.b_o, w_v, b_v))
    return replace(record, block=block, pattern=torch.ones_like(record.pattern[:1])), (values * alpha).flatten(1)[
        :, None
    ]


class Aggregate(LinearLayer):
    """A layer with all source tokens as one: the sum of their parts, bias part and remainder.

    The bias part and the remainder are one vector per query and do not depend on how the rest is split among
    tokens, since every step is linear in the parts; so the jvp makes them, at a tokens' sum for a "key" axis
    of length one. That sum is what completeness is about: `sum + bias + remainder` against the model's own
    tensor. From the feed-forward on it is not computed from the sum before, which would be complete whatever
    the pairs came out as; the rows that were really computed are put in its place, and at the last scope
    again: the steps between are in them.
    """

    def __init__(self, stack: Stack, settings: Settings, rows: PairRows | None) -> None:
        super().__init__(stack.record, settings, _tokens_sum(stack, settings), alone(stack.record.tensor(INPUT)))
        self.rows = rows

    def settle(self, scope: str, parts: Parts) -> Parts:
        if self.rows is not None and scope == self.rows.end:
            parts = replace(parts, tokens=self.rows.end_sum[:, None])
        return super().settle(scope, parts)

    def feed_forward(self, parts: Parts, x: Float[Tensor, "query d_model"]) -> Parts:
        if self.rows is None:
            return super().feed_forward(parts, x)
        # Only after an edit do bias and remainder need the tokens' sum before the feed-forward: what is missing to the
        # real pre-activation is the remainder's. Otherwise the tokens' sum is left out, and its products with W_in and W_out.
        players = parts if self.record.edited else replace(parts, tokens=parts.tokens[:, :0])
        return replace(super().feed_forward(players, x), tokens=self.rows.rows_sum[:, None])

    def coefficients(
        self,
        ff: FeedForward,
        pre: Float[Tensor, "query d_mlp"],
        pre_linear: Float[Tensor, "query d_mlp"] | None,
        expert: int,
    ) -> PathCoefficients:
        """Those of the rows: they are not made twice."""
        return super().coefficients(ff, pre, pre_linear, expert) if self.rows is None else self.rows.paths[expert]

    def players(
        self,
        parts: Parts,
        weight: Float[Tensor, "d_model d_mlp"],
        bias: Float[Tensor, " d_mlp"],
        real: Float[Tensor, "query d_mlp"],
    ) -> Parts:
        """The bias part's by its factors, unless an edit left a remainder beside it."""
        factors = None if self.rows is None else self.rows.head_sum.bias
        if factors is None or self.record.edited:
            return super().players(parts, weight, bias, real)
        return Parts(parts.tokens @ weight, factors.through(weight, bias))


def _tokens_sum(stack: Stack, settings: Settings) -> Parts:
    """Attention, all source tokens as one."""
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
    """How far one source token's norms are from those of its vectors, over the largest of each query's row.

    Of the scopes before the feed-forward, where a vector is cheap; from there on the rows are summed, which completeness certifies.

    Args:
        stack: One layer of some sequences.
        values: Their norms by scope.
        key: The source token.
        settings: How the decomposition is made.
    """
    before_feed = takewhile(lambda step: not isinstance(step.operation, Feed), STEPS[stack.record.block.order])
    scopes = [step.scope for step in before_feed if step.scope in values]
    if not scopes:
        return {}
    parts = _channels_of_key(stack, key, settings, by_head=False).parts(scopes)
    norms = {scope: parts[scope].tokens.sum(dim=1).norm(dim=-1).view(values[scope].shape[:2]) for scope in scopes}
    return {
        scope: _over_largest(values[scope][..., key] - norms[scope], values[scope].amax(dim=-1)) for scope in scopes
    }


def errors_of_cell(
    stack: Stack,
    by_head: Mapping[str, Float[Tensor, "sequence channel query key"]],
    heads: Sequence[int],
    settings: Settings,
) -> dict[str, Float[Tensor, " channel"]]:
    """The same of the norms by head, of every scope, in one cell: the first query and its own token, which all channels reach.

    Args:
        stack: As in `errors_of_column`.
        by_head: Their norms by scope and channel, the residual's last.
        heads: The heads that the other channels are.
        settings: How the decomposition is made.
    """
    first = stack.record.rows(slice(1))
    key, errors = int(first.queries), {}
    for scope, parts in _channels_of_key(Stack((0,), first), key, settings, by_head=True).parts().items():
        if scope in by_head:
            norms, table = parts.tokens[0, [*heads, -1]].norm(dim=-1), by_head[scope][0, :, 0]
            errors[scope] = _over_largest(table[:, key] - norms, table.amax(dim=-1))
    return errors


def _over_largest(miss: Tensor, largest: Tensor) -> Tensor:
    return miss.abs() / torch.where(largest == 0, 1, largest)


def _channels_of_key(stack: Stack, key: int, settings: Settings, *, by_head: bool) -> LinearLayer:
    """A layer of the parts of one source token, through heads (or all of them as one) and, last, the residual connection.

    These channels take the place of the "key" axis, so that the jvp gives vectors in which every norm of that token can be
    checked, of the whole parts and through heads. They do not depend on what was edited.
    """
    record, n_keys = replace(stack.record, edited=False), stack.record.pattern.shape[-1]
    sequences = torch.arange(stack.n_sequences, device=record.queries.device)
    sequences = sequences.repeat_interleave(len(record.queries) // stack.n_sequences)
    values = token_values(record, settings.value_bias)[0][key::n_keys]
    written = einsum(values, record.block.attention.w_o, "sequence head e, head e d -> sequence head d")
    through_heads = record.pattern[:, :, key].T[:, :, None] * written[sequences]
    if not by_head:
        through_heads = through_heads.sum(dim=1, keepdim=True)
    x, none = record.tensor(INPUT), torch.zeros_like(through_heads)
    own = x * (record.queries == key + n_keys * sequences)[:, None]  # among the keys of all sequences
    attention = Parts(torch.cat([through_heads, none[:, :1]], dim=1), torch.zeros_like(x))
    return LinearLayer(record, settings, attention, Parts(torch.cat([none, own[:, None]], dim=1), torch.zeros_like(x)))
