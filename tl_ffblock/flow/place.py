"""One position of one layer's run, with what a graph is drawn from."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.layers import QueryKeyWeights
from tl_ffblock.flow.draft import Draft
from tl_ffblock.flow.pruning import Pruning
from tl_ffblock.layer.records import LayerRecord


@dataclass(frozen=True)
class LayerPlace:
    """Where in a run a layer's graph is drawn."""

    draft: Draft
    record: LayerRecord
    """Of all positions."""
    query_keys: QueryKeyWeights
    by: Mapping[str, Float[Tensor, "target d"]]
    """Targets' derivatives by the tensor at every scope and by the layer's input, at the position."""
    by_read: Float[Tensor, "target d"]
    """By what attention reads at the position, through its values."""
    pruning: Pruning
    eps: float
    """The unit of rounding: see `bridge.settings.eps_of`."""

    @property
    def position(self) -> int:
        """The position whose stream is drawn."""
        return self.draft.position

    @property
    def layer(self) -> int:
        """The model's number of the layer."""
        return self.record.layer
