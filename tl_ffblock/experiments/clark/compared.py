"""The maps of a sequence that the studies of heads put side by side, and what each is called.

    attention        the pattern of every head
    value-weighted   alpha ||v W_O|| of every head (Kobayashi et al. 2020)
    a scope          contributions of the whole layer: after attention, after the feed-forward, at the layer's output
    a scope by head  the same through each head, where asked for

A channel is called by both, as "attention: head 3" or "Atb: layer".
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attention import value_weighted
from tl_ffblock.bridge.runs import settings_of
from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.study import ModelFacts
from tl_ffblock.layer.fast.buffers import Stack
from tl_ffblock.layer.heads import head_names, head_norms
from tl_ffblock.layer.scopes import STEPS, Feed, output_step
from tl_ffblock.results.token_maps import TokenMaps

ATTENTION = "attention"
VALUE_WEIGHTED = "value-weighted"
LAYER = "layer"


@dataclass(frozen=True)
class Channel:
    """One map of every layer."""

    kind: str
    """"attention", "value-weighted", a scope, or "a scope by head"."""
    name: str
    """A head, or `LAYER`."""

    def __str__(self) -> str:
        return f"{self.kind}: {self.name}"

    def columns(self, layer: int) -> dict[str, object]:
        """How tables name one layer of it."""
        return {"map": self.kind, "layer": layer, "channel": self.name}


def compared_scopes(facts: ModelFacts) -> tuple[str, ...]:
    """The scopes after attention, after the feed-forward and at the layer's output, those that the model has."""
    fed = [step.scope for step in STEPS[facts.order] if isinstance(step.operation, Feed)]
    return tuple(dict.fromkeys(("Atb", *fed, output_step(facts.order).scope)))


def channels_of(facts: ModelFacts, n_heads: int, *, by_head: bool) -> tuple[Channel, ...]:
    """What `compared_maps` calls its channels, in order."""
    heads, scopes = head_names(range(n_heads)), compared_scopes(facts)
    kinds = [ATTENTION, VALUE_WEIGHTED, *(f"{scope} by head" for scope in scopes if by_head)]
    whole = tuple(Channel(scope, LAYER) for scope in scopes)
    return whole + tuple(Channel(kind, head) for kind in kinds for head in heads)


def n_heads_of(facts: ModelFacts, n_channels: int, *, by_head: bool) -> int:
    """How many heads a model has whose maps have so many channels."""
    n_scopes = len(compared_scopes(facts))
    return (n_channels - n_scopes) // (2 + (n_scopes if by_head else 0))


def compared_maps(observed: Observation, facts: ModelFacts, *, by_head: bool) -> TokenMaps:
    """All maps of a sequence as one result, channels as `channels_of` calls them."""
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
    names = tuple(map(str, channels_of(facts, n_heads, by_head=by_head)))
    return replace(whole, values=values, channels=names, kind="compared maps")


def kinds_of(channels: Sequence[Channel]) -> tuple[str, ...]:
    """The kinds of some channels, attention first, which the others are compared with."""
    return tuple(dict.fromkeys((ATTENTION, *(channel.kind for channel in channels))))


def of_kind(channels: Sequence[Channel], kind: str) -> list[int]:
    """The places of the channels of a kind."""
    return [place for place, channel in enumerate(channels) if channel.kind == kind]


def channels_by_kind(maps: TokenMaps, channels: Sequence[Channel], kind: str) -> TokenMaps:
    """The maps of one kind alone."""
    places = of_kind(channels, kind)
    return replace(maps, values=maps.values[:, places], channels=tuple(maps.channels[place] for place in places))
