"""What estimates of patching say of each component: the labelled result of `ffb.attribution_patching`."""

import dataclasses
from collections.abc import Mapping

import numpy as np
import pandas as pd
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.linearised import RuleName
from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.graphs.edge_estimates import EdgeEstimates
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.scope_table import ScopeTable
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class PatchingEstimates(Result):
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
    fingerprint: str = ""
    """Of the model's weights; empty where it is not known."""
    cells: Mapping[str, Float[Tensor, "layer query key"]] = dataclasses.field(default_factory=dict)
    """By scope, where they were asked for."""
    edge_estimates: EdgeEstimates | None = None
    """Where they were asked for."""

    steps: int = 0
    """Forward passes whose derivatives are averaged; 0 where it is not known."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be the same of estimates of which there is a mean: quantity, model and weights, rules."""
        made = {"fingerprint": self.fingerprint, "rules": self.rules}
        return identity_of(self.quantity, self.model, made) | {"steps": str(self.steps or "")}

    @property
    def edges(self) -> EdgeEstimates:
        """Edges from senders to receivers: `edges["L3H5", "L7.mlp"]`.

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
        return ScopeTable(self.cells, tuple(range(len(self.heads))))

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

    def to_dataframe(self) -> pd.DataFrame:
        """One row a component and position: kind ("residual", "head", "mlp"), layer, head (-1 for none), position, estimate."""
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
            f"PatchingEstimates: {self.target} {significant(self.clean, 4, '-')} → {significant(self.corrupted, 4, '-')} of {self.model}, rules={self.rules!r}",
            f"  text          {shortened(self.labels)}",
            f"  embeddings    {significant(told)} of {significant(change)}{'; far off, and so early layers may be: give more steps' if far else ''}",
        ]
        for kind, table in (("head", self.heads), ("mlp", self.mlps[:, None])):
            layer, head, position = np.unravel_index(int(table.abs().argmax()), tuple(table.shape))
            name = f"head {head} of layer {layer}" if kind == "head" else f"feed-forward of layer {layer}"
            lines.append(
                f"  largest {kind:4}  {name} at {position} {self.labels[position]!r}: {significant(float(table[layer, head, position]))}"
            )
        return "\n".join(lines)
