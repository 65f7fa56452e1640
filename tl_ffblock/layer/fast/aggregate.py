"""Bias part, remainder and completeness: a layer with all source tokens as one, and one source token through each head."""

from dataclasses import replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.pair_rows import PairRows
from tl_ffblock.layer.parts import Parts, attention_bias, token_values
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.scopes import INPUT
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk


class Aggregate(LayerWalk):
    """A layer walked with all source tokens as one: the sum of their parts, bias part and remainder.

    The bias part and the remainder are one vector a query and do not depend on how the rest is split among
    tokens, since every step is linear in the parts; so the plain steps of vectors.py make them, at a
    tokens' sum for a "key" axis of length one. That sum is what completeness is about: `sum + bias +
    remainder` against the model's own tensor. From the feed-forward on it is not computed from the sum
    before, which would be complete whatever the pairs came out as; the rows that were really computed are
    put in its place, and at the last scope again: the steps between are in them.
    """

    def __init__(self, record: LayerRecord, n_sequences: int, settings: Settings, rows: PairRows | None) -> None:
        super().__init__(record, settings)
        self.n_sequences = n_sequences
        self.rows = rows

    def settle(self, scope: str, parts: Parts) -> Parts:
        if self.rows is not None and scope == self.rows.end:
            parts = replace(parts, tokens=self.rows.end_sum[:, None])
        return super().settle(scope, parts)

    def attend(self) -> Parts:
        value, constant = token_values(self.record, self.settings.value_bias)
        z = einsum(
            rearrange(self.record.pattern, "head (s query) key -> s head query key", s=self.n_sequences),
            rearrange(value, "(s key) head e -> s key head e", s=self.n_sequences),
            "s head query key, s key head e -> s query head e",
        ).flatten(0, 1)
        tokens = einsum(z, self.block.attention.w_o, "query head e, head e d -> query d")
        return Parts(tokens[:, None], attention_bias(self.record, constant))

    def input(self) -> Parts:
        x = self.record.tensor(INPUT)
        return Parts(x[:, None], torch.zeros_like(x))

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
        factors = None if self.rows is None else self.rows.bias
        if factors is None or self.record.edited:
            return super().players(parts, weight, bias, real)
        return Parts(parts.tokens @ weight, factors.through(weight, bias))


class Column(LayerWalk):
    """The parts of one source token at some queries, through heads and, last, the residual connection around attention.

    These channels take the place of the "key" axis, so that the plain steps of vectors.py give vectors in which every
    norm of that token can be checked, of the whole parts and through heads.

    Args:
        record: One layer of some sequences, all queries of one before those of the next.
        sequences: Which sequence each query is of.
        key: The source token's position.
        settings: How the decomposition is made.
        by_head: Whether each head is a channel; else all of them are one.
    """

    def __init__(
        self, record: LayerRecord, sequences: Int[Tensor, " query"], key: int, settings: Settings, *, by_head: bool
    ) -> None:
        super().__init__(
            replace(record, edited=False), settings
        )  # the parts of tokens do not depend on what was edited
        self.sequences = sequences
        self.key = key
        self.by_head = by_head

    def attend(self) -> Parts:
        n_keys = self.record.pattern.shape[-1]
        values = token_values(self.record, self.settings.value_bias)[0][self.key :: n_keys]
        written = einsum(values, self.block.attention.w_o, "sequence head e, head e d -> sequence head d")
        through_heads = self.record.pattern[:, :, self.key].T[:, :, None] * written[self.sequences]
        if not self.by_head:
            through_heads = through_heads.sum(dim=1, keepdim=True)
        residual = torch.zeros_like(through_heads[:, :1])
        return Parts(torch.cat([through_heads, residual], dim=1), torch.zeros_like(residual[:, 0]))

    def input(self) -> Parts:
        x = self.record.tensor(INPUT)
        channels = x.new_zeros(len(x), 1 + (len(self.block.attention.w_o) if self.by_head else 1), x.shape[1])
        own = self.key + self.record.pattern.shape[-1] * self.sequences  # among the keys of all sequences
        channels[:, -1] = x * (self.record.queries == own)[:, None]
        return Parts(channels, torch.zeros_like(x))
