"""TokenMaps: any token-to-token maps of one sequence, contributions and attention patterns alike.

What is written for `TokenMaps` serves every kind of map; measures read it.
A map is `[query, key]`: row = the position that is written, column = the source token.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.files import write_atomically
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.page import PageData, PageView, SharesData, View, iframe, page, shares_page
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.page_blocks import BETWEEN_TOKENS
from tl_ffblock.results.page_data import token_maps_page
from tl_ffblock.results.position_page import position_page, refuse_choices
from tl_ffblock.results.stills import still_of
from tl_ffblock.results.tokens import shortened, told_apart
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas


@strict
@dataclass(frozen=True, repr=False, eq=False)
class TokenMaps:
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
    """What a column is: "key", the token that a row takes from; else numbers by position, in one row that is no query: shares
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
            raise InputError("attention holds negative weights or no numbers: expected weights behind the softmax.")
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

    @overload
    def __getitem__(self, key: str) -> Float[Tensor, "layer query key"]: ...
    @overload
    def __getitem__(self, key: tuple[str, int]) -> Float[Tensor, "query key"]: ...
    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        channel, layer = key if isinstance(key, tuple) and len(key) == 2 else (key, None)
        if channel not in self.channels:
            raise ScopeKeyError(missing_scope(channel, self.channels, "channel"))
        maps = self.values[:, self.channels.index(channel)]
        return maps if layer is None else maps[self.layers.index(layer_number(layer, self.layers))]

    def reachable(self) -> Bool[Tensor, "query key"]:
        """The cells that can be non-zero: all, or key <= query in a causal model."""
        return reachable_cells(self.queries, len(self.tokens), self.causal)

    def to_dataframe(self) -> "pandas.DataFrame":
        """Long form: one row per channel, layer, query and key, with both tokens and the value; cells that are NaN have none.

        Numbers by position have no query: layer, channel, position, token, value.
        """
        import pandas as pd

        names = np.array(self.tokens, dtype=object)
        channel, layer, query, key = (
            index.reshape(-1)
            for index in np.meshgrid(
                np.array(self.channels, dtype=object),
                np.array(self.layers),
                np.array(self.queries),
                np.arange(len(names)),
                indexing="ij",
            )
        )
        frame = pd.DataFrame(
            {
                "layer": layer,
                "channel": channel,
                "query": query,
                "key": key,
                "query_token": names[query],
                "key_token": names[key],
                "value": self.values.transpose(0, 1).reshape(-1).detach().cpu().numpy(),
            }
        )
        frame = frame.dropna(subset="value", ignore_index=True)
        return without_queries(frame) if self.by_position else frame

    def to_html(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        layer: int | None = None,
        channel: str | None = None,
        view: View = "maps",
        segments: Mapping[str, int] | None = None,
    ) -> str:
        """One self-contained page of the maps; written to `path` when given.

        Args:
            path: File to write, if any.
            layer: Layer to open at, negative ones from the end; None means the first, of signed maps that of the largest cell.
            channel: Channel to open at; None means after the feed-forward where there is such a scope, else the first.
            view: "maps", or of heads "heads" (lines between tokens) or "all" (every layer and head).
            segments: Where each part of the text begins, by its name, such as `{"prompt": 0, "generated": 12}`: the view of heads
                can show the lines between two of them alone. None means the sentences A and B where one separator (`[SEP]`)
                stands between two. BertViz's `sentence_b_start=k` is `{"A": 0, "B": k}`.

        Raises:
            InputError: if layer or channel are not there, `segments` do not fit the tokens, numbers by position, whose page
                shows all at once, are asked for one of them, or the folder of `path` does not exist.
        """
        data = self._page(layer, channel, view, segments)
        html = shares_page(data) if isinstance(data, SharesData) else page(data)
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def show(
        self,
        *,
        layer: int | None = None,
        channel: str | None = None,
        view: View = "maps",
        segments: Mapping[str, int] | None = None,
        height: int = 820,
    ) -> PageView:
        """The page in a notebook cell, inside a frame of its own; options as in `to_html`."""
        data = self._page(layer, channel, view, segments)
        html = shares_page(data) if isinstance(data, SharesData) else page(data)
        return iframe(html, height=height, title=self.kind, still=still_of(data))

    def _page(
        self, layer: int | None, channel: str | None, view: View, segments: Mapping[str, int] | None
    ) -> PageData | SharesData:
        """What the page shows; options as in `to_html`."""
        if not self.by_position:
            return token_maps_page({"run": self}, layer=layer, channel=channel, view=view, segments=segments)
        refuse_choices(layer=layer, channel=channel, view=None if view == "maps" else view, segments=segments)
        return position_page({"run": self}, told_apart(self.tokens))

    def __repr__(self) -> str:
        rows = "" if len(self.queries) == len(self.tokens) else f" · {len(self.queries)} queries"
        rows = f" · {self.column} each token" if self.by_position else rows
        return "\n".join(
            [
                f"TokenMaps: {self.kind} of {self.model} · {len(self.tokens)} tokens{rows} · "
                f"layers {spans(self.layers)} · {str(self.values.dtype).removeprefix('torch.')}",
                f"  tokens    {shortened(self.tokens)}",
                f"  channels  {', '.join(self.channels)}",
            ]
        )


def without_queries(frame: "pandas.DataFrame") -> "pandas.DataFrame":
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
