"""What estimates of patching say of each component: the labelled result of `ffb.attribution_patching`."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.slopes import RuleName
from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.propagation.edge_estimates import EdgeEstimates
from tl_ffblock.results.scope_table import ScopeTable
from tl_ffblock.results.tokens import shortened

if TYPE_CHECKING:
    import pandas


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class PatchingEstimates:
    """Estimated changes of a target, in its units, if one tensor of the clean run were the corrupted run's."""

    labels: tuple[str, ...]
    """The tokens, "clean→corrupted" where they differ."""
    target: str
    """What changes, in words: "logit difference ' Mary' − ' John'"."""
    quantity: str
    """What kind of number that is: "logit difference"."""
    rules: RuleName
    clean: float
    """The target in the clean run."""
    corrupted: float
    """The target in the corrupted run."""
    residual: Float[Tensor, "boundary pos"]
    """The residual stream at each layer's input and at the end."""
    heads: Float[Tensor, "layer head pos"]
    """What each head gives before its output matrix."""
    mlps: Float[Tensor, "layer pos"]
    """What each feed-forward writes; 0 in models of attention alone."""
    neuron_shares: Mapping[int, Float[Tensor, "pos d_mlp"]]
    """By layer; none for a mixture of experts."""
    model: str = "model"
    cells: Mapping[str, Float[Tensor, "layer query key"]] = dataclasses.field(default_factory=dict)
    """By scope, where they were asked for."""
    edge_estimates: EdgeEstimates | None = None
    """Where they were asked for."""

    @property
    def edges(self) -> EdgeEstimates:
        """Edges from senders to receivers: `edges["a3.h5", "m7"]`.

        Raises:
            ScopeKeyError: if they were not asked for.
        """
        if self.edge_estimates is None:
            raise ScopeKeyError("no edges here: ask with edges=True.")
        return self.edge_estimates

    @property
    def maps(self) -> ScopeTable:
        """Each contribution of the layer maps: `maps["AtbLnFf", 9]` is `Float[query key]`.

        Raises:
            ScopeKeyError: if they were not asked for.
        """
        if not self.cells:
            raise ScopeKeyError("no maps here: ask with maps=True.")
        return ScopeTable(self.cells, range(len(self.heads)))

    def neurons(self, layer: int) -> Float[Tensor, "pos d_mlp"]:
        """Each neuron's output.

        Raises:
            LayerError: if there is no such layer.
            InputError: if it is a mixture of experts, or has no feed-forward.
        """
        number = layer_number(layer, len(self.heads))
        if number not in self.neuron_shares:
            raise InputError(f"layer {number} has no neurons of its own: a mixture of experts, or attention alone.")
        return self.neuron_shares[number]

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a component and position: kind ("residual", "head", "mlp"), layer, head (-1 for none), position, estimate."""
        import pandas as pd

        frames = []
        for kind, table in (("residual", self.residual), ("mlp", self.mlps), ("head", self.heads)):
            index = np.indices(tuple(table.shape)).reshape(table.ndim, -1)
            head = index[1] if kind == "head" else np.full(index.shape[1], -1)
            columns = {"kind": kind, "layer": index[0], "head": head, "position": index[-1]}
            tokens = [self.labels[position] for position in index[-1]]
            frames.append(pd.DataFrame({**columns, "token": tokens, "estimate": table.reshape(-1).numpy()}))
        return pd.concat(frames, ignore_index=True)

    def __repr__(self) -> str:
        change, told = self.corrupted - self.clean, float(self.residual[0].sum())
        far = abs(told - change) > abs(change) / 2
        lines = [
            f"PatchingEstimates: {self.target} {self.clean:.4g} → {self.corrupted:.4g} of {self.model}, rules={self.rules!r}",
            f"  text          {shortened(self.labels)}",
            f"  embeddings    {told:+.3g} of {change:+.3g}{'; far off, and so early layers may be: give more steps' if far else ''}",
        ]
        for kind, table in (("head", self.heads), ("mlp", self.mlps[:, None])):
            layer, head, position = np.unravel_index(int(table.abs().argmax()), tuple(table.shape))
            name = f"head {head} of layer {layer}" if kind == "head" else f"feed-forward of layer {layer}"
            lines.append(
                f"  largest {kind:4}  {name} at {position} {self.labels[position]!r}: {float(table[layer, head, position]):+.3g}"
            )
        return "\n".join(lines)
