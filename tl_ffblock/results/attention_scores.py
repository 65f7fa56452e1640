"""AttentionScores: query and key vectors of heads, and the scores that their products sum to."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result
from tl_ffblock.results.token_maps import ATTENTION, TokenMaps, table_of
from tl_ffblock.signatures import strict


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AttentionScores(Result):
    """Why heads attend: `score[i, j] = scale * sum_e query[i, e] key[j, e]`, whose softmax over j is the pattern.

    Query and key as attention multiplied them, after any rotation (RoPE) and norm of their own. That the softmax of the
    scores is the run's own pattern was checked when they were made; `error` is the largest difference.
    """

    query: Float[Tensor, "layer head query d_head"]
    key: Float[Tensor, "layer head key d_head"]
    """Of a key-value head once for each of the heads that share it."""
    pattern: Float[Tensor, "layer head query key"]
    """The run's own, after softmax."""
    scale: tuple[float, ...]
    """By layer: the model's own, as a rule 1 / sqrt(d_head) everywhere."""
    error: float
    tokens: tuple[str, ...]
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    heads: tuple[int, ...]
    """Head numbers, ascending."""
    queries: tuple[int, ...]
    """Position of each row."""
    causal: bool
    model: str = "model"
    fingerprint: str = ""
    """Of the model's weights; empty where it is not known."""

    @property
    def score(self) -> Float[Tensor, "layer head query key"]:
        """What is soft-maxed; minus infinity where the run gave no weight: later keys, and those of a window."""
        scale = torch.tensor(self.scale, dtype=self.query.dtype)[:, None, None, None]
        scores = scale * (self.query @ self.key.transpose(-1, -2))
        return scores.masked_fill(self.pattern == 0, -torch.inf)

    def products(self, layer: int, head: int, query: int, key: int) -> Float[Tensor, " d_head"]:
        """The summands of one score, by dimension of the head: `scale * query * key`.

        Args:
            layer: Layer number, negative ones from the end.
            head: Head number.
            query: Position of the row.
            key: Position of the column.

        Raises:
            InputError: if one of them is not held.
        """
        for name, number, held in (
            ("head", head, self.heads),
            ("query", query, self.queries),
            ("key", key, range(len(self.tokens))),
        ):
            if number not in held:
                raise InputError(f"{name}={number}: these scores hold {name} {spans(tuple(held))}.")
        at = self.layers.index(layer_number(layer, self.layers)), self.heads.index(head)
        return self.scale[at[0]] * self.query[at][self.queries.index(query)] * self.key[at][key]

    def token_maps(self) -> TokenMaps:
        """The pattern as maps, heads as channels."""
        return TokenMaps(
            values=self.pattern,
            tokens=self.tokens,
            layers=self.layers,
            channels=head_names(self.heads),
            queries=self.queries,
            causal=self.causal,
            model=self.model,
            kind=ATTENTION,
            provenance={"fingerprint": self.fingerprint},
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per layer, head, query and key that the run gave weight to, with the tokens, score and weight."""
        axes = {"layer": self.layers, "head": self.heads, "query": self.queries, "key": range(len(self.tokens))}
        frame = table_of(axes, {"score": self.score, "weight": self.pattern})
        for at, end in enumerate(("query", "key")):
            frame.insert(4 + at, f"{end}_token", [self.tokens[position] for position in frame[end]])
        return frame[frame["weight"] > 0].reset_index(drop=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        return (
            f"of {self.model} · {len(self.tokens)} tokens · layers {spans(self.layers)} · heads {spans(self.heads)} · d_head "
            f"{self.query.shape[-1]} · softmax of scores = pattern to {scientific(self.error)}",
            {},
        )
