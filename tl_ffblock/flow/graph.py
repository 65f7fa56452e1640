"""A flow graph as its reader holds it: plain nodes and edges with what they were measured to be."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import CompletenessError, InputError, MapFileError
from tl_ffblock.files import write_atomically
from tl_ffblock.flow.draft import NodeKind, Unit
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result
from tl_ffblock.results.tokens import shortened, visible
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import networkx
    import pandas

_FORMAT = "tl_ffblock.flow/1"


@strict
@dataclasses.dataclass(frozen=True)
class FlowNode:
    """A vector of a run at one position, and what was read of it."""

    kind: NodeKind
    layer: int
    name: str
    """What it is, in words."""
    head: int | None
    index: int | None
    """A row's or neuron's number, the position of a key or value."""
    norm: float
    coefficient: float | None
    """By what a row, a value or a memory is weighed; `q k` of a key, where it is known."""
    tokens: tuple[str, ...]
    """What the vector says through the model's read-out, largest logit first; none where that says no tokens."""
    entropy: float
    """Of that reading, in nats."""
    ranks: tuple[int, ...]
    """Of each target's token: 1 is the top token, 0 where the target is no token."""
    probabilities: tuple[float, ...]
    """Of each target's token in that reading; NaN where the target is no token."""
    shares: tuple[float, ...]
    """What of each target flows through the node, in the target's units."""
    own: float
    """Norm of what the node brings itself (biases), of a memory's key that number."""
    own_shares: tuple[float, ...]
    rest: float
    """Norm of what enters it and is not shown."""
    rest_shares: tuple[float, ...]
    unseen: int
    """How many summands the rest is made of."""


@strict
@dataclasses.dataclass(frozen=True)
class FlowEdge:
    """What one node gives to another."""

    source: int
    target: int
    unit: Unit
    size: float
    """A vector's norm, or the number: `q k` (NaN where the model does not show its rotated vectors), an attention weight, a
    coefficient."""
    shares: tuple[float, ...]
    """What of each target flows along it."""


@strict
@dataclasses.dataclass(frozen=True)
class FlowTarget:
    """A number of the run that is shared out."""

    name: str
    value: float
    token: str | None
    """The token whose rank and probability nodes have; None where the target is none."""


@strict
@dataclasses.dataclass(frozen=True)
class FlowCertificate:
    """How well the graph is what it says: measured errors, each 0 up to rounding."""

    sums: float
    """Largest `|sum of what enters - node| / |node|`, against the model's own tensor where it makes one."""
    worst: str
    """The node of that error."""
    shares: float
    """Largest difference of a node's shares from those of what enters, over the sum of their sizes and the target's."""
    walk: float
    """Of the derivative that layers walked backward give, from that of the certified propagation."""
    propagation: float
    """Largest error of the propagation's own certificates."""
    rtol: float
    """What was accepted."""

    def refuse(self, model: str, *, hooked: bool) -> None:
        """Refuse errors above the tolerance.

        Args:
            model: Name of the model.
            hooked: Whether callbacks of the user's ran.

        Raises:
            CompletenessError: naming the error and its place.
        """
        for name, error in (
            (f"what enters {self.worst} misses it", self.sums),
            ("layers walked backward miss the propagated derivative", self.walk),
            ("shares of what enters a node miss its own", self.shares),
        ):
            if not error <= self.rtol:
                cause = "Does one of your hooks edit the model inside a layer? " if hooked else ""
                raise CompletenessError(
                    f"{model}: {name} by {error:.1e} (tolerance {self.rtol:.0e}). No flow graph is drawn. {cause}Half precision "
                    "may need a higher rtol."
                )

    def __repr__(self) -> str:
        return (
            f"FlowCertificate: sums {scientific(self.sums)} ({self.worst}) · shares {scientific(self.shares)} · walk {scientific(self.walk)} · "
            f"propagation {scientific(self.propagation)}"
        )


@strict
@dataclasses.dataclass(frozen=True)
class FlowVectors:
    """The vectors of a graph's nodes and edges; what is entered by numbers has none on those edges."""

    nodes: Float[Tensor, "node d"]
    own: Float[Tensor, "node d"]
    rest: Float[Tensor, "node d"]
    edges: Float[Tensor, "edge d"]
    """Zero where an edge brings a number."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class FlowGraph(Result):
    """What flows through one position of some consecutive layers, from the first one's input to the last one's output.

    What enters a node sums to it: along the edges, what the node brings itself, and the rest, which is not shown.
    """

    model: str
    labels: tuple[str, ...]
    """The tokens of the text."""
    position: int
    layers: tuple[int, ...]
    targets: tuple[FlowTarget, ...]
    nodes: tuple[FlowNode, ...]
    """In the order of the computation."""
    edges: tuple[FlowEdge, ...]
    certificate: FlowCertificate
    vectors: FlowVectors | None = None
    """Those of the run; not saved."""

    def to_dict(self) -> dict[str, Any]:
        """All but the vectors as JSON can hold it; NaN is null."""
        plain = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "vectors"}
        return {"format": _FORMAT, **{name: _plain(value) for name, value in plain.items()}}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON; a half-written file never appears under `path`.

        Raises:
            InputError: if the folder does not exist.
        """
        text = json.dumps(self.to_dict(), ensure_ascii=True, allow_nan=False, separators=(",", ":"))
        write_atomically(Path(path), text.encode() + b"\n")
        return Path(path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> "FlowGraph":
        """Read a file that `save` wrote, without vectors.

        Raises:
            MapFileError: if the file is not a saved graph, or of another version.
            FileNotFoundError: if there is no such file.
        """
        try:
            held = json.loads(Path(path).read_text(encoding="utf-8"))
            if held.pop("format", None) != _FORMAT:
                raise MapFileError(f"{path}: not a flow graph of this version ({_FORMAT}).")
            nodes = tuple(FlowNode(**_tuples(node)) for node in held.pop("nodes"))
            edges = tuple(FlowEdge(**_tuples(edge)) for edge in held.pop("edges"))
            targets = tuple(FlowTarget(**target) for target in held.pop("targets"))
            certificate = FlowCertificate(**held.pop("certificate"))
            return FlowGraph(nodes=nodes, edges=edges, targets=targets, certificate=certificate, **_tuples(held))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            if isinstance(error, MapFileError):
                raise
            raise MapFileError(f"{path}: not a saved flow graph: {error}") from error

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row an edge: both ends by number, kind, layer and name, unit, size, and the share of each target."""
        import pandas as pd

        rows = []
        for edge in self.edges:
            row: dict[str, Any] = {}
            for end, number in (("source", edge.source), ("target", edge.target)):
                node = self.nodes[number]
                row |= {
                    end: number,
                    f"{end}_kind": node.kind,
                    f"{end}_layer": node.layer,
                    f"{end}_name": node.name,
                }
            shares = {f"share of {t.name}": share for t, share in zip(self.targets, edge.shares, strict=True)}
            rows.append({**row, "unit": edge.unit, "size": edge.size, **shares})
        return pd.DataFrame(rows)

    def to_networkx(self) -> "networkx.DiGraph":
        """A directed graph of node numbers, with the fields of nodes and edges as attributes.

        Raises:
            InputError: if networkx is not installed.
        """
        try:
            import networkx as nx
        except ImportError as error:
            raise InputError("to_networkx needs networkx, which is not installed; run: pip install networkx") from error
        graph = nx.DiGraph()
        graph.add_nodes_from((number, dataclasses.asdict(node)) for number, node in enumerate(self.nodes))
        of_edges = ((edge.source, edge.target, dataclasses.asdict(edge)) for edge in self.edges)
        graph.add_edges_from(
            (source, target, {"unit": held["unit"], "size": held["size"], "shares": held["shares"]})
            for source, target, held in of_edges
        )
        return graph

    def __repr__(self) -> str:
        targets = ", ".join(f"{target.name} = {target.value:.4g}" for target in self.targets) or "no target"
        first, last = self.layers[0], self.layers[-1]
        where = f"layer {first}" if first == last else f"layers {first} to {last}"
        return "\n".join(
            [
                f"FlowGraph: {len(self.nodes)} nodes, {len(self.edges)} edges of {self.model}, {where}",
                f"  text       {shortened(self.labels)}",
                f"  position   {self.position} {visible(self.labels[self.position])!r}",
                f"  targets    {targets}",
                f"  {self.certificate}",
            ]
        )


def _plain(value: Any) -> Any:
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: _plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _tuples(held: dict[str, Any]) -> dict[str, Any]:
    """Lists as tuples, and null among numbers as NaN again."""
    nan = float("nan")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in held.items()}
    if "size" in plain:
        plain["size"] = nan if plain["size"] is None else plain["size"]
    if "entropy" in plain:
        plain["entropy"] = nan if plain["entropy"] is None else plain["entropy"]
        plain["probabilities"] = tuple(nan if p is None else p for p in plain["probabilities"])
    return plain
