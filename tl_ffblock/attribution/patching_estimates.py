"""What estimates of patching say of each component: the labelled result of `ffb.attribution_patching`."""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.edge_estimates import EdgeEstimates
from tl_ffblock.bridge.linearised import RuleName
from tl_ffblock.errors import InputError, MapFileError, ScopeKeyError
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.numerals import significant
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.tables import ScopeTable
from tl_ffblock.results.tensor_files import FileFormat
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

FORMAT = FileFormat("tl_ffblock.PatchingEstimates", 1, "estimates of patching")
_TABLES = ("residual", "heads", "mlps")
_NEURONS, _CELLS, _EDGES = "neurons.", "cells.", "edges."
"""How tensors are named in a file, before their layer, scope or field."""


@strict
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

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write one safetensors file with JSON metadata; a half-written file never appears under `path`.

        Raises:
            InputError: if the folder does not exist.
        """
        words = ("labels", "target", "quantity", "rules", "clean", "corrupted", "model", "fingerprint", "steps")
        labels = {name: getattr(self, name) for name in words} | {"scopes": list(self.cells), "edges": None}
        tensors = {name: getattr(self, name) for name in _TABLES}
        tensors |= {f"{_NEURONS}{layer}": shares for layer, shares in self.neuron_shares.items()}
        tensors |= {f"{_CELLS}{scope}": cells for scope, cells in self.cells.items()}
        if self.edge_estimates is not None:
            labels["edges"], of_edges = self.edge_estimates.as_saved()
            tensors |= {f"{_EDGES}{name}": tensor for name, tensor in of_edges.items()}
        FORMAT.write(Path(path), labels, tensors)
        return Path(path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "PatchingEstimates":
        """Read a file that `save` wrote.

        Raises:
            MapFileError: if the file is not a saved result, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        labels, tensors = FORMAT.read(Path(path))
        try:
            scopes, of_edges = labels.pop("scopes"), labels.pop("edges")
            fields: dict[str, Any] = labels | {name: tensors[name] for name in _TABLES}
            fields["labels"] = tuple(fields["labels"])
            fields["cells"] = {scope: tensors[_CELLS + scope] for scope in scopes}
            neurons = _named(tensors, _NEURONS)
            fields["neuron_shares"] = {layer: neurons[str(layer)] for layer in sorted(map(int, neurons))}
            if of_edges is not None:
                edges = EdgeEstimates.from_saved(Path(path), of_edges, _named(tensors, _EDGES))
                fields["edge_estimates"] = edges
            result = PatchingEstimates(**fields)
        except (KeyError, TypeError, ValueError) as error:
            raise MapFileError(
                f"{path}: {error} is missing from the file or is no field of estimates of patching."
            ) from error
        if any(getattr(result, name).shape[-1] != len(result.labels) for name in _TABLES):
            raise MapFileError(f"{path}: its tensors are not of {len(result.labels)} tokens.")
        return result

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


def _named(tensors: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    """Those whose names in a file begin so, by the rest of the name."""
    return {name.removeprefix(start): tensor for name, tensor in tensors.items() if name.startswith(start)}
