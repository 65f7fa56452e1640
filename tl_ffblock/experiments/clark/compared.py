"""Maps of a sequence that the studies of heads compare, their names, and their conversion to words.

    attention        the attention pattern of every head
    value-weighted   alpha ||v W_O|| of every head (Kobayashi et al. 2020)
    a scope          contributions of the whole layer: after attention, after the feed-forward, at the layer's output
    a scope by head  the same through each head, if asked for

The name of a channel has both parts: "attention: head 3" or "Atb: layer".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.attention import value_weighted
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.corpus.study import ModelFacts, Observation
from tl_ffblock.corpus.tokenised import TokenisedText
from tl_ffblock.heads import word_maps
from tl_ffblock.heads.probes import ROOT, UNKNOWN
from tl_ffblock.heads.relations import PUNCTUATION
from tl_ffblock.layer.fast.buffers import Stack
from tl_ffblock.layer.heads import head_names, head_norms
from tl_ffblock.layer.scopes import STEPS, Feed, output_step
from tl_ffblock.results.ranks import shares
from tl_ffblock.results.token_maps import TokenMaps

ATTENTION = "attention"
VALUE_WEIGHTED = "value-weighted"
LAYER = "layer"


@dataclass(frozen=True)
class Channel:
    """One map per layer."""

    kind: str
    """"attention", "value-weighted", a scope, or "a scope by head"."""
    name: str
    """A head, or `LAYER`."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"

    def columns(self, layer: int) -> dict[str, object]:
        """Columns that identify the channel in one layer."""
        return {"map": self.kind, "layer": layer, "channel": self.name}


def compared_scopes(facts: ModelFacts) -> tuple[str, ...]:
    """Scopes after attention, after the feed-forward and at the layer's output, as far as the model has them."""
    fed = [step.scope for step in STEPS[facts.order] if isinstance(step.operation, Feed)]
    return tuple(dict.fromkeys(("Atb", *fed, output_step(facts.order).scope)))


def channels_of(facts: ModelFacts, n_channels: int, *, by_head: bool) -> tuple[Channel, ...]:
    """Channels of `compared_maps`, in order, for a model whose maps have this number of channels."""
    scopes = compared_scopes(facts)
    kinds = [ATTENTION, VALUE_WEIGHTED, *(f"{scope} by head" for scope in scopes if by_head)]
    heads = head_names(range((n_channels - len(scopes)) // len(kinds)))
    return tuple(Channel(scope, LAYER) for scope in scopes) + tuple(
        Channel(kind, head) for kind in kinds for head in heads
    )


def places_by_kind(channels: Sequence[Channel]) -> dict[str, list[int]]:
    """Indices of the channels of each kind; first attention, which the others are compared with."""
    places: dict[str, list[int]] = {ATTENTION: []}
    for place, channel in enumerate(channels):
        places.setdefault(channel.kind, []).append(place)
    return places


def compared_maps(observed: Observation, facts: ModelFacts, *, by_head: bool) -> TokenMaps:
    """All maps of a sequence as one result, with the channels of `channels_of`."""
    scopes = compared_scopes(facts)
    whole = observed.maps.token_maps(scopes)
    records = observed.records
    tables: list[Float[Tensor, "layer channel query key"]] = [
        whole.values,
        torch.stack([record.pattern for record in records]),
        torch.stack([value_weighted(record) for record in records]),
    ]
    n_heads = len(records[0].pattern)
    if by_head:
        settings = settings_of(observed.model, {})
        norms = [head_norms(Stack((0,), record), settings, scopes, range(n_heads)) for record in records]
        tables += [torch.stack([layer[scope][0, :n_heads] for layer in norms]) for scope in scopes]
    values = torch.cat([table.detach().float().cpu() for table in tables], dim=1)
    names = tuple(map(str, channels_of(facts, values.shape[1], by_head=by_head)))
    return replace(whole, values=values, channels=names, kind="compared maps")


def words_of(tokenised: TokenisedText) -> tuple[int, ...]:
    """Words that have a token, in the order of the rows of word maps."""
    return tuple(dict.fromkeys(tokenised.word[tokenised.word >= 0].tolist()))


def heads_of(tokenised: TokenisedText) -> tuple[Int[np.ndarray, " word"], Bool[np.ndarray, " word"]]:
    """Syntactic head of every word that has a token, as probes take it, and whether a word is not punctuation.

    If a word has two heads, as "wasn't" may have, the first in the data counts.
    """
    rows = {word: row for row, word in enumerate(words_of(tokenised))}
    head, counted = np.full(len(rows), UNKNOWN), np.ones(len(rows), dtype=bool)
    for arc in tokenised.source.relations:
        if arc.dependent in rows and head[rows[arc.dependent]] == UNKNOWN and (arc.head in rows or arc.head < 0):
            head[rows[arc.dependent]] = ROOT if arc.head < 0 else rows[arc.head]
            counted[rows[arc.dependent]] = arc.name != PUNCTUATION
    return head, counted


def maps_of_words(maps: TokenMaps, tokenised: TokenisedText) -> TokenMaps:
    """Maps of words: rows normalised to sum 1, word pieces pooled, special tokens dropped with their weight."""
    return word_maps(replace(maps, values=shares(maps.values.double(), "row")), tokenised.word, special="drop")


def document_number(tokenised: TokenisedText) -> int:
    """Number of the article of a text, the same in every shard."""
    digest = blake2b(tokenised.source.document.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)
