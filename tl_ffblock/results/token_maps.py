"""TokenMaps: token-to-token maps of any kind for one sequence, and attention scores.

Functions for `TokenMaps` work with every kind of map, such as contributions and attention patterns. A map is `[query, key]`: a row
is the destination, a column is the source token.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, SupportsIndex

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number, one_position, spans
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result, long_form, views
from tl_ffblock.results.image_map import ImageMap, image_map_of
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

# Kind of attention weights.
ATTENTION = "attention"
# Kind of maps of which some layers mix tokens without a softmax: weights of any sign.
EFFECTIVE_ATTENTION = "effective attention"
# Kind of maps whose cells are shares of a row without its own token.
SHARES = "shares of other tokens"
# Column kind of maps between tokens.
BETWEEN_TOKENS = "key"


def layers_in_words(layers: Sequence[int], channels: Sequence[str]) -> str:
    """Layers of maps as text, "layers 0-11"; the last row of a residual stream is the end, not a layer."""
    if tuple(channels) == ("residual",) and len(layers) > 1:
        return f"layers {spans(layers[:-1])} and the end"
    return f"layers {spans(layers)}"


@strict
@dataclass(frozen=True, repr=False, eq=False)
class TokenMaps(Result):
    """Maps by layer and channel; channels are scopes or attention heads.

    `maps[channel]` is `Float[layer query key]`. `maps[channel, layer]` is `Float[query key]`, with the model's layer number or a
    negative one from the last layer.
    """

    values: Float[Tensor, "layer channel query key"]
    tokens: tuple[str, ...]
    """Tokens as the tokenizer shows them, or ids as text without a tokenizer."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    channels: tuple[str, ...]
    """Names of the second axis: scopes such as "Atb", or heads such as "head 0"."""
    queries: tuple[int, ...]
    """Position of each row."""
    causal: bool
    """Whether a position attends only to itself and earlier ones."""
    model: str = "model"
    """Name of the model, for labels."""
    signed: bool = False
    """True if values can be negative, as in a difference and in effective attention."""
    kind: str = "contributions"
    """Kind of the values: "contributions", "attention", or "effective attention" if layers mix tokens without a softmax."""
    layered: bool = True
    """False if the single layer stands for the whole model, as for attributions of a logit."""
    column: str = BETWEEN_TOKENS
    """Kind of the columns: "key", a source token. Other kinds are numbers by position, in a single row that is not a query:
    attributions "written at" the column's position, or "flowing at" it."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Settings of the computation, including the fingerprint of the model's weights."""
    whole: bool = True
    """Whether all source tokens of a row are columns. With only some, such as named positions, rows have no shares."""
    sides: tuple[str, ...] = ()
    """Names of both sides of a difference, first minus second."""

    def __post_init__(self) -> None:
        """Refuse labels that do not fit the numbers.

        Raises:
            InputError: if the shape differs from that of the labels, or if a label is missing, repeated or out of range.
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
            raise InputError(f"channels={self.channels}: expected each name once.")
        if not all(0 <= query < len(self.tokens) for query in self.queries):
            raise InputError(f"queries={self.queries}: expected positions from 0 to {len(self.tokens) - 1}.")
        if self.by_position and len(self.queries) != 1:
            raise InputError(
                f"column={self.column!r} with {len(self.queries)} rows: expected one row for numbers by position."
            )

    @property
    def identity(self) -> Mapping[str, str]:
        """What maps must have in common to be averaged: quantity, model and weights, settings."""
        return identity_of(self.kind, self.model, self.provenance)

    @property
    def by_position(self) -> bool:
        """Whether cells are numbers by position, without a query."""
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
        """Your own attention as maps of heads, in the format of BertViz and of `outputs.attentions` of Hugging Face.

        Args:
            attention: One tensor per layer, [1 head query key] or [head query key]; layers are numbered from 0.
            tokens: The tokens, one per row and column.
            causal: Whether a position attends only to itself and earlier ones; None means if all later weights are 0.
            model: Name of the model, for labels.

        Raises:
            InputError: for another shape, layers of different shapes, negative weights or NaN, or weights on later tokens with
                `causal=True`.
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
            raise InputError("attention has negative weights or NaN: expected weights after the softmax.")
        later = bool(values.triu(1).any())
        if causal and later:
            raise InputError("causal=True, but some weights of later tokens are not 0. Use causal=False.")
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
        """All channels of a layer as CircuitsVis's `AttentionHeads`, or one as `AttentionPattern`.

        Args:
            layer: Layer number, negative ones from the end.
            channel: One channel, such as "head 3"; None means all.
            height: Height of the frame in pixels.

        Raises:
            InputError: for an unknown layer, maps with a choice of queries, and numbers by position.
            ScopeKeyError: if there is no such channel.
            ModuleNotFoundError: if CircuitsVis is not installed.
        """
        return views().circuitsvis_view(self, channel, layer, height)

    def image_map(
        self,
        picture: Any = None,
        *,
        query: SupportsIndex = -1,
        layer: SupportsIndex = -1,
        channel: str | None = None,
        image: SupportsIndex = 1,
    ) -> ImageMap:
        """One row's image tokens by their rows and columns in the image, with a figure and a page over the picture.

        Args:
            picture: The picture as the processor has cropped it, since it is drawn over the whole grid: a PIL image, numbers [height
                width rgb], or `pixel_values`. None means none.
            query: Position of the row, negative from the end.
            layer: Layer, negative from the end.
            channel: Scope or head, such as "Atb"; None means the last.
            image: Number of the image in the prompt, from 1.

        Raises:
            InputError: if the prompt has no such image with rows and columns, there is no such row, or the picture cannot be read.
            ScopeKeyError: if there is no such channel.
        """
        chosen = self.channels[-1] if channel is None else channel
        number, at = layer_number(layer, self.layers), one_position(query, len(self.tokens), "query")
        if at not in self.queries:
            raise InputError(
                f"query={query}: position {at} is not a row of these maps, which have {brief(self.queries)}."
            )
        quantity = f"{self.kind} to {self.tokens[at]!r}@{at} ({chosen}, layer {number})"
        row = self[chosen, number][self.queries.index(at)]
        said: dict[str, Any] = {"quantity": quantity, "signed": self.signed, "model": self.model}
        return image_map_of(row, self.tokens, picture, image, **said)

    def reachable(self) -> Bool[Tensor, "query key"]:
        """Cells that can be non-zero: all, or key <= query in a causal model."""
        return reachable_cells(self.queries, len(self.tokens), self.causal)

    def to_dataframe(self) -> pd.DataFrame:
        """Long form: one row per channel, layer, query and key, with both tokens and the value; no rows for NaN.

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
            f"{self.kind} of {self.model} · {len(self.tokens)} tokens{rows} · {layers_in_words(self.layers, self.channels)} · {dtype}",
            {"tokens": shortened(self.tokens), "channels": ", ".join(self.channels)},
        )


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AttentionScores(Result):
    """Scores of attention: `score[i, j] = scale * sum_e query[i, e] key[j, e]`, whose softmax over j is the pattern.

    Queries and keys are those that attention multiplies, after rotation (RoPE) and their own norms. The softmax of the scores was
    compared with the model's attention pattern; `error` is the largest difference.
    """

    query: Float[Tensor, "layer head query d_head"]
    key: Float[Tensor, "layer head key d_head"]
    """A key-value head is repeated for each head that shares it."""
    pattern: Float[Tensor, "layer head query key"]
    """The model's attention pattern, after softmax."""
    scale: tuple[float, ...]
    """By layer: the model's scale, usually 1 / sqrt(d_head)."""
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
    """Fingerprint of the model's weights; empty if it is not known."""
    value_norms: Float[Tensor, "layer head key"] | None = None
    """`||v W_O||` of each key, with the value's bias. None in files of version 0.2."""

    @property
    def score(self) -> Float[Tensor, "layer head query key"]:
        """Scores before the softmax; minus infinity where attention has no weight: later keys, and keys outside a window."""
        scale = torch.tensor(self.scale, dtype=self.query.dtype)[:, None, None, None]
        with torch.autocast(self.query.device.type, enabled=False):  # a result has its own dtype
            scores = scale * (self.query @ self.key.transpose(-1, -2))
        return scores.masked_fill(self.pattern == 0, -torch.inf)

    @property
    def value_weighted(self) -> Float[Tensor, "layer head query key"]:
        """Value-weighted attention: `pattern ||v W_O||` (Kobayashi et al. 2020), as in `attention_maps`.

        Raises:
            InputError: if the scores are from a file without norms of values.
        """
        if self.value_norms is None:
            raise InputError(
                "value_norms=None: these scores are from a file of version 0.2, which has none. Compute them again."
            )
        return self.pattern * self.value_norms[:, :, None]

    def products(self, layer: int, head: int, query: int, key: int) -> Float[Tensor, " d_head"]:
        """Terms of one score by dimension of the head [d_head]: `scale * query * key`.

        Args:
            layer: Layer number, negative ones from the end.
            head: Head number.
            query: Position of the row.
            key: Position of the column.

        Raises:
            InputError: if one of them is not in the result.
        """
        for name, number, held in (
            ("head", head, self.heads),
            ("query", query, self.queries),
            ("key", key, range(len(self.tokens))),
        ):
            if number not in held:
                raise InputError(f"{name}={number}: expected {name} {spans(tuple(held))}.")
        at = self.layers.index(layer_number(layer, self.layers)), self.heads.index(head)
        return self.scale[at[0]] * self.query[at][self.queries.index(query)] * self.key[at][key]

    def token_maps(self) -> TokenMaps:
        """The pattern as maps, with heads as channels."""
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
    """A table of numbers by position: the key is called position, and the query is dropped."""
    named = {"key": "position", "key_token": "token"}
    return frame.drop(columns=["query", "query_token"]).rename(columns=named)


def reachable_cells(queries: Sequence[int], n_keys: int, causal: bool) -> Bool[Tensor, "query key"]:
    """Cells that can be non-zero: all, or key <= query in a causal model."""
    keys = torch.arange(n_keys)
    rows = torch.tensor(queries)[:, None]
    return keys <= rows if causal else torch.ones(len(queries), n_keys, dtype=torch.bool)


def _by_layer(attention: object, tokens: object) -> list[Tensor]:
    """One tensor [head query key] per layer.

    Raises:
        InputError: for anything else than a list of tensors, or tokens that are not a list of texts.
    """
    layers = list(attention) if isinstance(attention, Iterable) and not isinstance(attention, str) else ["none"]
    if any(isinstance(weights, str) for weights in layers):
        raise InputError(f"attention={brief(attention)}: expected a list of tensors [head query key], one per layer.")
    if not isinstance(tokens, Sequence):
        raise InputError(f"tokens={brief(tokens)}: expected the tokens as texts, one per row and column.")
    tensors = [torch.as_tensor(weights).detach().cpu() for weights in layers]
    return [weights[0] if weights.ndim == 4 and len(weights) == 1 else weights for weights in tensors]
