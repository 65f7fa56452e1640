"""An attribution as a graph that conserves: what flows into a node and its own bias flow out of it.

    serial layers:    stream -> heads -> mid, stream -> mid    mid -> mlp -> next stream, mid -> next stream
    parallel layers:  stream -> heads, mlp -> next stream      stream -> next stream

An edge is a signed share of the target. A stream node is the residual stream of a position at a layer's input, a mid node
that between attention and feed-forward; a head node what a head writes at a position; an mlp node what the feed-forward
writes there. How large the flows are, and how their own biases are held, says flows.py.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.attribution.flows import Flows, LayerFlows
from tl_ffblock.errors import InputError, brief
from tl_ffblock.numerals import significant
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

Node: TypeAlias = tuple[str, int, int, int]
"""Kind, layer, head and position."""
REST: Node = ("rest", -1, -1, -1)
"""The node that all edges lead through that were not kept."""


@strict
@dataclass(frozen=True, repr=False)
class AttributionGraph:
    """Nodes and signed edges of one attribution."""

    nodes: tuple[Node, ...]
    """("token" | "stream" | "head" | "mid" | "mlp" | "target" | "rest", layer, head, position), -1 for what a kind does not have."""
    own: Float[np.ndarray, " node"]
    """What each node brings itself: biases, of stream nodes also what users' hooks add there."""
    source: Int[np.ndarray, " edge"]
    target: Int[np.ndarray, " edge"]
    """Node numbers of each edge."""
    share: Float[np.ndarray, " edge"]
    """What flows along each edge, signed."""
    labels: tuple[str, ...]
    """The tokens by position."""
    kept: float
    """Sum of sizes of the edges that do not touch the rest, over that of all edges there were."""

    def imbalance(self) -> Float[np.ndarray, " node"]:
        """Inflow and own share less outflow: 0 at all nodes but the tokens, which have no inflow, and the target, no outflow."""
        flow = self.own.copy()
        np.add.at(flow, self.target, self.share)
        np.subtract.at(flow, self.source, self.share)
        return flow

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row an edge: kind, layer, head and position of both ends, and the share."""
        import pandas as pd

        columns: dict[str, Any] = {}
        for end, numbers in (("source", self.source), ("target", self.target)):
            for place, name in enumerate(("kind", "layer", "head", "position")):
                columns[f"{end}_{name}"] = [self.nodes[number][place] for number in numbers]
        return pd.DataFrame({**columns, "share": self.share})

    def to_networkx(self) -> Any:
        """A directed graph with `own` at nodes and `share` at edges.

        Raises:
            InputError: if networkx is not installed.
        """
        try:
            import networkx as nx
        except ImportError as error:
            raise InputError("to_networkx needs networkx, which is not installed; run: pip install networkx") from error
        graph = nx.DiGraph()
        graph.add_nodes_from((node, {"own": float(own)}) for node, own in zip(self.nodes, self.own, strict=True))
        edges = zip(self.source, self.target, self.share, strict=True)
        graph.add_edges_from((self.nodes[a], self.nodes[b], {"share": float(share)}) for a, b, share in edges)
        return graph

    def __repr__(self) -> str:
        end = next(number for number, (kind, *_) in enumerate(self.nodes) if kind == "target")
        into = float(self.share[self.target == end].sum())
        lines = [
            f"AttributionGraph: {len(self.nodes)} nodes, {len(self.share)} edges; {self.kept:.1%} of the sizes of all edges kept",
            f"  text    {shortened(self.labels)}",
            f"  target  {significant(into, 4)} flows in; own biases {significant(float(self.own.sum()))}",
        ]
        largest = np.argsort(-np.abs(self.share), kind="stable").tolist()
        written = [number for number in largest if self._of_component(number)]
        for number in written[:5]:
            source, target = (_in_words(self.nodes[ends[number]]) for ends in (self.source, self.target))
            lines.append(f"  {source} → {target} {significant(float(self.share[number]))}")
        return "\n".join(lines)

    def _of_component(self, edge: int) -> bool:
        """Whether an edge enters or leaves a head or a feed-forward, which most of the largest do not."""
        kinds = {self.nodes[ends[edge]][0] for ends in (self.source, self.target)}
        return REST[0] not in kinds and bool({"head", "mlp"} & kinds)


def _in_words(node: Node) -> str:
    """A node as in edges between components: "a23.h3 at 14", "m5 at 2", "stream 7 at 0"."""
    kind, layer, head, position = node
    name = {"head": f"a{layer}.h{head}", "mlp": f"m{layer}"}.get(kind, f"{kind} {layer}")
    return f"{name} at {position}"


def graph_of(flows: Flows, keep: float) -> AttributionGraph:
    """The graph of the largest edges that carry a share of all sizes; the others lead through one node.

    Args:
        flows: What was measured.
        keep: Which part of the sum of sizes of all edges is kept, above 0 and at most 1; most of the sum is the residual
            stream's own, from layer to layer.

    Raises:
        InputError: for another `keep`.
        CompletenessError: if own biases are not the named ones.
    """
    if not isinstance(keep, (int, float)) or not 0 < keep <= 1:
        raise InputError(f"keep={brief(keep)}: expected a share of the flow, above 0 and at most 1.")
    draft = _whole(flows)
    source, target, share = (np.concatenate(parts) for parts in zip(*draft.edges, strict=True))
    there = share != 0
    source, target, share = source[there], target[there], share[there]
    order = np.argsort(-np.abs(share), kind="stable")
    carried = np.cumsum(np.abs(share[order])) / max(float(np.abs(share).sum()), 1e-300)
    enough = int(np.searchsorted(carried, keep - 1e-12)) + 1
    chosen = np.full(len(share), keep == 1)  # or rounding would leave the smallest out
    chosen[order[:enough]] = True
    return _through_rest(draft.nodes, np.concatenate(draft.own), (source, target, share), chosen, flows.labels)


@dataclass(frozen=True)
class _Draft:
    """Nodes and edges as they are made."""

    nodes: list[Node] = field(default_factory=list)
    own: list[np.ndarray] = field(default_factory=list)
    edges: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = field(default_factory=list)

    def add(self, kind: str, layer: int, own: Float[Tensor, "*head pos"]) -> Int[np.ndarray, "*head pos"]:
        """Nodes of a kind, and their numbers."""
        first = len(self.nodes)
        heads = range(own.shape[0]) if own.ndim > 1 else (-1,)
        self.nodes.extend((kind, layer, head, position) for head in heads for position in range(own.shape[-1]))
        self.own.append(own.flatten().numpy())
        return first + np.arange(own.numel()).reshape(own.shape)

    def connect(self, source: np.ndarray, target: np.ndarray, share: Tensor) -> None:
        """Edges between nodes; what has fewer axes is repeated."""
        ends = (np.broadcast_to(end, share.shape).ravel() for end in (source, target))
        first, second = ends
        self.edges.append((first, second, share.flatten().numpy()))


def _whole(flows: Flows) -> _Draft:
    """All nodes with what they bring, and all edges."""
    draft = _Draft()
    tokens = draft.add("token", -1, torch.zeros_like(flows.entering))
    stream = draft.add("stream", 0, flows.of_embeddings())
    draft.connect(tokens, stream, flows.entering)
    for layer in range(flows.n_layers):
        stream = _add_layer(draft, layer, stream, flows.of_layer(layer))
    draft.nodes.append(("target", flows.n_layers, -1, -1))
    draft.own.append(np.array([flows.of_target()]))
    draft.connect(stream, np.array(len(draft.nodes) - 1), flows.stream[flows.n_layers])
    return draft


def _add_layer(draft: _Draft, layer: int, stream: np.ndarray, flows: LayerFlows) -> np.ndarray:
    """The nodes of a layer behind the stream at its input, and those of the stream at its output."""
    heads = draft.add("head", layer, flows.own_heads)
    draft.connect(stream, heads[:, :, None], flows.edges)
    if flows.through is not None:
        mid = draft.add("mid", layer, flows.own_mid)
        draft.connect(stream, mid, flows.through)
        draft.connect(heads, mid, flows.heads)
        stream = mid
    mlp = draft.add("mlp", layer, flows.own_mlp)
    after = draft.add("stream", layer + 1, flows.own_stream)
    draft.connect(stream, mlp, flows.inputs)
    draft.connect(stream, after, flows.past)
    draft.connect(mlp, after, flows.mlps)
    if flows.through is None:
        draft.connect(heads, after, flows.heads)
    return after


def _through_rest(
    nodes: list[Node],
    own: np.ndarray,
    edges: tuple[np.ndarray, ...],
    chosen: np.ndarray,
    labels: tuple[str, ...],
) -> AttributionGraph:
    """Edges that were not chosen, and nodes that only these touch, in one node; tokens and target stay."""
    source, target, share = edges
    stays = np.array([kind in ("token", "target") for kind, *_ in nodes])
    stays[source[chosen]] = stays[target[chosen]] = True
    rest = len(nodes)
    pieces = [(source[chosen], target[chosen], share[chosen])]
    left = ~chosen
    for ends in ((np.where(stays[source], source, rest), rest), (rest, np.where(stays[target], target, rest))):
        first, second = (np.broadcast_to(end, source.shape)[left] for end in ends)
        sums: dict[tuple[int, int], float] = {}
        for start, end, flow in zip(first.tolist(), second.tolist(), share[left].tolist(), strict=True):
            if start != end:
                sums[start, end] = sums.get((start, end), 0.0) + flow
        pairs = np.array(list(sums), dtype=int).reshape(-1, 2)
        pieces.append((pairs[:, 0], pairs[:, 1], np.array(list(sums.values()))))
    held = np.append(stays, bool(left.any()))
    number = np.cumsum(held) - 1
    joint = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    of_rest = float(own[~stays].sum())
    return AttributionGraph(
        nodes=tuple(node for node, there in zip([*nodes, REST], held, strict=True) if there),
        own=np.append(own, of_rest)[held],
        source=number[joint[0].astype(int)],
        target=number[joint[1].astype(int)],
        share=joint[2],
        labels=labels,
        kept=float(np.abs(share[chosen]).sum() / max(float(np.abs(share).sum()), 1e-300)),
    )
