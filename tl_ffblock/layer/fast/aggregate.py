"""Bias part, remainder and completeness: a layer walked with all source tokens as one."""

from dataclasses import replace

import torch
from einops import einsum, rearrange
from jaxtyping import Float
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
    put in its place.
    """

    def __init__(self, record: LayerRecord, n_sequences: int, settings: Settings, rows: PairRows | None) -> None:
        super().__init__(record, settings)
        self.n_sequences = n_sequences
        self.rows = rows

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
