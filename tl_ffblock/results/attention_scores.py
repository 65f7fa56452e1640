"""AttentionScores: query and key vectors of heads, and the scores that their products sum to."""

import os
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.files import write_atomically
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number, spans
from tl_ffblock.numerals import scientific
from tl_ffblock.page import BlockPayload, PageData, PageText, PageView, iframe, page
from tl_ffblock.page.numbers import Packed, pack, worst_precision
from tl_ffblock.results.page_data import token_maps_page
from tl_ffblock.results.stills import still_of
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.signatures import strict


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AttentionScores:
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
    def kind(self) -> str:
        """The name of its view on a page."""
        return "scores"

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
            kind="attention",
            provenance={"fingerprint": self.fingerprint},
        )

    def payload(self, text: PageText) -> BlockPayload:
        """Vectors, scores and weights by head, for a page of the same text.

        Raises:
            InputError: if the page is of another text, or lacks a layer.
        """
        mine = (self.queries, len(self.tokens))
        if mine != (text.queries, len(text.words)) or not set(self.layers) <= set(text.layers):
            raise InputError(
                f"these scores are of {len(self.tokens)} tokens, {len(self.queries)} queries and layers {self.layers}; the page "
                f"is of {len(text.words)} tokens, {len(text.queries)} queries and layers {text.layers}: make both of one text."
            )
        cells = text.reachable()
        names = head_names(self.heads)
        scores = self.score.masked_fill(self.pattern == 0, torch.nan)
        tables: dict[str, dict[str, Packed]] = {
            "query": {name: pack(self.query[:, number]) for number, name in enumerate(names)},
            "key": {name: pack(self.key[:, number]) for number, name in enumerate(names)},
            "score": {name: pack(scores[:, number][:, cells]) for number, name in enumerate(names)},
            "weight": {name: pack(self.pattern[:, number][:, cells]) for number, name in enumerate(names)},
        }
        json = {"kind": self.kind, "layers": self.layers, "heads": names, "scale": self.scale, "error": self.error}
        packed = {name: {head: table.payload for head, table in heads.items()} for name, heads in tables.items()}
        return BlockPayload(json | packed, worst_precision([t for heads in tables.values() for t in heads.values()]))

    def to_html(self, path: str | os.PathLike[str] | None = None, *, layer: int | None = None) -> str:
        """One self-contained page: scores term by term, lines between tokens, maps; written to `path` when given.

        Args:
            path: File to write, if any.
            layer: Layer to open at, negative ones from the end; None means the first.

        Raises:
            InputError: if the layer is not there, or the folder of `path` does not exist.
        """
        html = page(self._page(layer))
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def show(self, *, layer: int | None = None, height: int = 820) -> PageView:
        """The page in a notebook cell; options as in `to_html`."""
        data = self._page(layer)
        return iframe(page(data), height=height, title="attention scores", still=still_of(data))

    def _page(self, layer: int | None) -> PageData:
        """What the page shows."""
        return token_maps_page({"run": self.token_maps()}, layer=layer, view="scores", beside=(self,))

    def __repr__(self) -> str:
        return (
            f"AttentionScores of {self.model} · {len(self.tokens)} tokens · layers {spans(self.layers)} · heads "
            f"{spans(self.heads)} · d_head {self.query.shape[-1]} · softmax of scores = pattern to {scientific(self.error)}"
        )
