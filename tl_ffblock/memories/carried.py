"""What memories carry to a target: the signed shares of single neurons in an attribution."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import layer_number, whole_number
from tl_ffblock.memories.names import Memories, MemoryName, Named, named_memories, refuse_twice, row_of
from tl_ffblock.result import Values
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas


@runtime_checkable
class NeuronAttribution(Protocol):
    """What is read of an attribution (`ffb.attribute`, with its neurons)."""

    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def target(self) -> str: ...
    @property
    def n_layers(self) -> int: ...
    def neurons(self, layer: int) -> Float[Tensor, "pos d_mlp"]: ...


@strict
@dataclass(frozen=True, eq=False)
class CarriedShares(Values):
    """What memories carry to a target at every position, signed, in the target's units (logits)."""

    memories: tuple[MemoryName, ...]
    tokens: tuple[str, ...]
    target: str
    """What was attributed, in words."""
    shares: Float[Tensor, "memory pos"]

    def of(self, memory: Named) -> Float[Tensor, " pos"]:
        """The shares of one memory.

        Raises:
            InputError: if it is not among these.
        """
        return self.shares[row_of(memory, self.memories)]

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a memory and position."""
        import pandas as pd

        rows = [
            dict(memory=str(name), layer=name.layer, position=position, token=token, share=share)
            for name, shares in zip(self.memories, self.shares.tolist(), strict=True)
            for position, (token, share) in enumerate(zip(self.tokens, shares, strict=True))
        ]
        return pd.DataFrame(rows, columns=["memory", "layer", "position", "token", "share"])


@strict
def carried(attribution: NeuronAttribution, memories: Memories) -> CarriedShares:
    """What memories carry to the target of an attribution: `m_i <v_i, df/d(output)>` at each position, with local rules.

    Law: over all memories of a layer, with its output bias, they sum to the share of what its feed-forward writes.

    Args:
        attribution: From `ffb.attribute`, with "neurons" among its parts, as it has by default.
        memories: Names such as "12:305", of dense feed-forwards.

    Raises:
        InputError: for memories that are not named, or that do not exist.
        ScopeKeyError: if the attribution has no neurons, or those of a layer are experts'.
        LayerError: if there is no such layer.
    """
    _refuse_others(attribution)
    names = tuple(named_memories(memories))
    refuse_twice([replace(name, layer=_layer(attribution, name)) for name in names])
    shares = [_shares(attribution, name) for name in names]
    return CarriedShares(names, attribution.labels, attribution.target, torch.stack(shares))


@strict
def largest_carried(attribution: NeuronAttribution, *, k: int = 10) -> "pandas.DataFrame":
    """The memories that carry most to a target, of all layers, by the size of their share at one position.

    Args:
        attribution: As in `carried`.
        k: How many.

    Returns:
        One row a memory and position: memory, layer, position, token, share.

    Raises:
        InputError: for a `k` below 1.
        ScopeKeyError: if the attribution has no neurons.
    """
    import pandas as pd

    _refuse_others(attribution)
    whole_number(k, "k", at_least=1)
    rows = [row for layer in range(attribution.n_layers) for row in _largest_of(attribution, layer, k)]
    table = pd.DataFrame(rows, columns=["memory", "layer", "position", "token", "share"])
    return table.reindex(table["share"].abs().sort_values(ascending=False, kind="stable").index)[:k].reset_index(
        drop=True
    )


def _refuse_others(attribution: object) -> None:
    if not isinstance(attribution, NeuronAttribution):
        raise InputError(
            f"attribution is a {type(attribution).__name__}: expected what ffb.attribute makes, with its neurons."
        )


def _layer(attribution: NeuronAttribution, name: MemoryName) -> int:
    return layer_number(name.layer, attribution.n_layers, "in this attribution")


def _shares(attribution: NeuronAttribution, name: MemoryName) -> Float[Tensor, " pos"]:
    layer = _layer(attribution, name)
    of_layer = attribution.neurons(layer)
    if name.expert is not None or not 0 <= name.neuron < of_layer.shape[1]:
        raise InputError(f"memory {name}: layer {layer} has {of_layer.shape[1]} neurons, named {layer}:0 and so on.")
    return of_layer[:, name.neuron]


def _largest_of(attribution: NeuronAttribution, layer: int, k: int) -> Iterator[tuple[str, int, int, str, float]]:
    """The k largest of a layer."""
    shares = attribution.neurons(layer)
    for index in shares.abs().flatten().topk(min(k, shares.numel())).indices.tolist():
        position, neuron = divmod(index, shares.shape[1])
        name = str(MemoryName(layer, neuron))
        yield name, layer, position, attribution.labels[position], float(shares[position, neuron])
