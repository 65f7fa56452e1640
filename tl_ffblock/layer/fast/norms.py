"""A record -> the norms of all its parts, without ever holding the parts: the optimised implementation.

1. The layer's program is followed once (`pair_rows.NormsOfPairs`): linear scopes are sums over heads
   (head_sums.py), and from the feed-forward on there are rows, one per pair.
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

from tl_ffblock.layer.fast.buffers import Buffers, Stack
from tl_ffblock.layer.fast.pair_rows import NormsOfPairs, PairRows
from tl_ffblock.layer.fast.products import HeadProducts
from tl_ffblock.layer.linear import LinearLayer, Parts, alone, attention_bias, token_values
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, STEPS, Feed
from tl_ffblock.layer.settings import Settings


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
        self.paths = {} if rows is None else rows.paths  # not made twice

    def settle(self, scope: str, parts: Parts) -> Parts:
        if self.rows is not None and scope == self.rows.end[0]:
            parts = replace(parts, tokens=self.rows.end[1][:, None])
        return super().settle(scope, parts)

    def feed_forward(self, parts: Parts, x: Float[Tensor, "query d_model"]) -> Parts:
        if self.rows is None:
            return super().feed_forward(parts, x)
        # Only after an edit do bias and remainder need the tokens' sum before the feed-forward: what is missing to the
        # real pre-activation is the remainder's. Otherwise the tokens' sum is left out, and its products with W_in and W_out.
        players = parts if self.record.edited else replace(parts, tokens=parts.tokens[:, :0])
        return replace(super().feed_forward(players, x), tokens=self.rows.rows_sum[:, None])

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
