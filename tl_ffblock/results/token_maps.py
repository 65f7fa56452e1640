"""TokenMaps: any token-to-token maps of one sequence, contributions and attention patterns alike; and scores of attention.

What is written for `TokenMaps` serves every kind of map; measures read it.
A map is `[query, key]`: row = the position that is written, column = the source token.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result, long_form, views
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

# The kind of attention weights.
ATTENTION = "attention"
# The kind of maps whose cells are shares of what a row takes from all other tokens.
SHARES = "shares of other tokens"
# What a column is of maps between tokens.
BETWEEN_TOKENS = "key"


@strict
@dataclass(frozen=True, repr=False, eq=False)
class TokenMaps(Result):
    """Maps by layer and channel; the channels are scopes or attention heads.

    `maps[channel]` is `Float[layer query key]`, `maps[channel, layer]` is `Float[query key]` with the
    model's own layer number, negative ones counted from the last layer held.
    """

    values: Float[Tensor, "layer channel query key"]
    tokens: tuple[str, ...]
    """The tokens as the tokenizer shows them, or ids as text where there is no tokenizer."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    channels: tuple[str, ...]
    """Names of the second axis: scopes such as "Atb", or heads such as "head 0"."""
    queries: tuple[int, ...]
    """Position of each row."""
    causal: bool
    """Whether a position sees only itself and earlier ones."""
    model: str = "model"
    """Name of the model, for labels."""
    signed: bool = False
    """True where values can be negative, as in a difference."""
    kind: str = "contributions"
    """What the values are, in a reader's words: "contributions" or "attention"."""
    layered: bool = True
    """False where the one layer of `layers` stands for the whole model, as of a logit's shares."""
    column: str = BETWEEN_TOKENS
    """What a column is: "key", the token that a row takes from; else numbers by position, in one row that is not a query: shares
    "written at" the column's position, or "flowing at" it."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """How the numbers were made, the fingerprint of the model's weights among it."""
    whole: bool = True
    """Whether every token that a row takes from is a column. Of some alone, such as named positions, rows have no shares."""
    sides: tuple[str, ...] = ()
    """Of a difference: names of the two that it is of, the first less the second."""

    def __post_init__(self) -> None:
        """Refuse labels that do not fit the numbers.

        Raises:
            InputError: if the shape is another than the labels', or a label is missing, repeated or out of range.
        """
        axes = {"layers": self.layers, "channels": self.channels, "queries": self.queries, "tokens": self.tokens}
        shape = tuple(len(labels) for labels in axes.values())
        if tuple(self.values.shape) != shape or 0 in shape:
            named = ", ".join(f"{len(labels)} {name}" for name, labels in axes.items())
            raise InputError(
                f"values has shape {tuple(self.values.shape)}: expected [layer channel query key] = {shape} for {named}, "
                "at least one of each."
            )
        if list(self.layers) != sorted(set(self.layers)):
            raise InputError(f"layers={self.layers}: expected ascending numbers, each once.")
        if len(set(self.channels)) != len(self.channels):
            raise InputError(f"channels={self.channels}: a name stands twice, so it names no map.")
        if not all(0 <= query < len(self.tokens) for query in self.queries):
            raise InputError(f"queries={self.queries}: expected positions from 0 to {len(self.tokens) - 1}.")
        if self.by_position and len(self.queries) != 1:
            raise InputError(f"column={self.column!r} with {len(self.queries)} rows: numbers by position have one.")

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be the same of maps of which there is a mean: quantity, model and weights, how they were made."""
        return identity_of(self.kind, self.model, self.provenance)

    @property
    def by_position(self) -> bool:
        """Whether a cell is a number of its column's position alone, and of no query."""
        return self.column != BETWEEN_TOKENS

    @classmethod
    def from_attention(
        cls,
        attention: Sequence[Float[Tensor, "*batch head query key"]],
        tokens: Sequence[str],
        *,
        causal: bool | None = None,
        model: str = "model",
    ) -> "TokenMaps":
        """Attention of one's own as maps of heads, given as BertViz takes it and Hugging Face has it in `outputs.attentions`.

        Args:
            attention: A tensor a layer, [1 head query key] or [head query key], rows the tokens that look; layers are numbered
                from 0.
            tokens: The tokens, as many as rows and columns.
            causal: Whether a position sees only itself and earlier ones; None means if no weight lies on a later one.
            model: Name of the model, for labels.

        Raises:
            InputError: for another shape, layers of different shapes, negative weights or no numbers, or weights on later
                tokens where `causal` says that there are none.
        """
        layers = _by_layer(attention, tokens)
        n = len(tokens)
        shapes = {tuple(weights.shape) for weights in layers}
        if len(shapes) != 1 or layers[0].ndim != 3 or layers[0].shape[1:] != (n, n):
            raise InputError(
                f"attention has {len(layers)} layers of shapes {', '.join(map(str, sorted(shapes))) or 'none'}: expected "
                f"[1 head query key] with {n} queries and keys, one for each of the tokens, the same in every layer."
            )
        values = torch.stack(layers)
        if not bool((values >= 0).all()) or not bool(values.isfinite().all()):
            raise InputError("attention holds negative weights or no numbers: expected weights after the softmax.")
        later = bool(values.triu(1).any())
        if causal and later:
            raise InputError("causal=True, but some weights lie on later tokens.")
        return cls(
            values=values,
            tokens=tuple(tokens),
            layers=tuple(range(len(layers))),
            channels=head_names(range(values.shape[1])),
            queries=tuple(range(n)),
            causal=not later if causal is None else causal,
            model=model,
            kind="attention",
        )

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        channel, layer = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        if channel not in self.channels:
            raise ScopeKeyError(missing_scope(channel, self.channels, "channel"))
        maps = self.values[:, self.channels.index(channel)]
        return maps if layer is None else maps[self.layers.index(layer_number(layer, self.layers))]

    def to_circuitsvis(self, layer: int, channel: str | None = None, *, height: int = 640) -> Any:
        """All channels of a layer by CircuitsVis's `AttentionHeads`, or one by `AttentionPattern`.

        Args:
            layer: Layer number, negative ones from the end.
            channel: One channel, such as "head 3"; None means all.
            height: Pixels of the frame in a notebook.

        Raises:
            InputError: for an unknown layer, maps with a choice of queries, and numbers by position.
            ScopeKeyError: if there is no such channel.
            ModuleNotFoundError: if CircuitsVis is not installed.
        """
        return views().circuitsvis_view(self, channel, layer, "heads", height)

    def reachable(self) -> Bool[Tensor, "query key"]:
        """The cells that can be non-zero: all, or key <= query in a causal model."""
        return reachable_cells(self.queries, len(self.tokens), self.causal)

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per channel, layer, query and key, with both tokens and the value; cells that are NaN have none.

        Numbers by position have no query: layer, channel, position, token, value.
        """
        axes: dict[str, Sequence[Any]] = {"channel": self.channels, "layer": self.layers, "query": self.queries}
        frame = long_form(self.values.transpose(0, 1), axes | {"key": range(len(self.tokens))}, self.tokens)
        frame = frame[["layer", *frame.columns.drop("layer")]].dropna(subset="value", ignore_index=True)
        return without_queries(frame) if self.by_position else frame

    def summary(self) -> tuple[str, Mapping[str, object]]:
        rows = "" if len(self.queries) == len(self.tokens) else f" · {len(self.queries)} queries"
        rows = f" · {self.column} each token" if self.by_position else rows
        dtype = str(self.values.dtype).removeprefix("torch.")
        return (
            f"{self.kind} of {self.model} · {len(self.tokens)} tokens{rows} · layers {spans(self.layers)} · {dtype}",
            {"tokens": shortened(self.tokens), "channels": ", ".join(self.channels)},
        )


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
    value_norms: Float[Tensor, "layer head key"] | None = None
    """`||v W_O||` with the value's bias: what each key's token would write through the head. None in files of version 0.2."""

    @property
    def score(self) -> Float[Tensor, "layer head query key"]:
        """What is soft-maxed; minus infinity where the run gave no weight: later keys, and those of a window."""
        scale = torch.tensor(self.scale, dtype=self.query.dtype)[:, None, None, None]
        scores = scale * (self.query @ self.key.transpose(-1, -2))
        return scores.masked_fill(self.pattern == 0, -torch.inf)

    @property
    def value_weighted(self) -> Float[Tensor, "layer head query key"]:
        """What reaches the query from each key: `pattern ||v W_O||` (Kobayashi et al. 2020), as `attention_maps` has it.

        Raises:
            InputError: if the file that these scores come from has no norms of values.
        """
        if self.value_norms is None:
            raise InputError(
                "value_norms=None: these scores are of a file of version 0.2, which has none; make them again."
            )
        return self.pattern * self.value_norms[:, :, None]

    def products(self, layer: int, head: int, query: int, key: int) -> Float[Tensor, " d_head"]:
        """The terms of one score, by dimension of the head: `scale * query * key`.

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
        """Long form: one row per layer, head, query and key with a weight: tokens, score, weight, value-weighted weight."""
        axes = {"layer": self.layers, "head": self.heads, "query": self.queries, "key": range(len(self.tokens))}
        frame = long_form(self.score, axes, self.tokens).rename(columns={"value": "score"})
        frame["weight"] = self.pattern.flatten().detach().cpu().numpy()
        if self.value_norms is not None:
            frame["value_weighted"] = self.value_weighted.flatten().detach().cpu().numpy()
        return frame[frame["weight"] > 0].reset_index(drop=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        return (
            f"of {self.model} · {len(self.tokens)} tokens · layers {spans(self.layers)} · heads {spans(self.heads)} · d_head "
            f"{self.query.shape[-1]} · softmax of scores = pattern to {scientific(self.error)}",
            {},
        )


def without_queries(frame: pd.DataFrame) -> pd.DataFrame:
    """A table of numbers by position: its key is the position, and its one query says nothing."""
    named = {"key": "position", "key_token": "token"}
    return frame.drop(columns=["query", "query_token"]).rename(columns=named)


def reachable_cells(queries: Sequence[int], n_keys: int, causal: bool) -> Bool[Tensor, "query key"]:
    """The cells that can be non-zero: all, or key <= query in a causal model."""
    keys = torch.arange(n_keys)
    rows = torch.tensor(queries)[:, None]
    return keys <= rows if causal else torch.ones(len(queries), n_keys, dtype=torch.bool)


def _by_layer(attention: object, tokens: object) -> list[Tensor]:
    """A tensor [head query key] for each layer.

    Raises:
        InputError: for anything that is not a list of tensors, or tokens that are not a list of texts.
    """
    layers = list(attention) if isinstance(attention, Iterable) and not isinstance(attention, str) else ["none"]
    if any(isinstance(weights, str) for weights in layers):
        raise InputError(f"attention={brief(attention)}: expected a list of tensors [head query key], one per layer.")
    if not isinstance(tokens, Sequence):
        raise InputError(f"tokens={brief(tokens)}: expected the tokens as texts, one for each row and column.")
    tensors = [torch.as_tensor(weights).detach().cpu() for weights in layers]
    return [weights[0] if weights.ndim == 4 and len(weights) == 1 else weights for weights in tensors]
