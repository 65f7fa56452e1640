"""An attribution as a graph that conserves: what flows into a node and its own bias flow out of it.

    tokens -> stream 0 -> heads, feed-forward, and past them -> stream 1 -> ... -> target

An edge is a signed share of the target. A stream node is the residual stream of a position at a layer's input; a head
node what a head writes at a position; an mlp node what the feed-forward writes there. Three flows are measured for every
layer: the heads' edges without the part of their values that no token brings, the heads, the feed-forward. What goes past
them is what the stream has left, and a node's own bias what its inflow lacks: the sums of own biases must then be those of
the layer's named biases, which is held.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import CompletenessError, InputError

if TYPE_CHECKING:
    import pandas

    from tl_ffblock.propagation.attribution import Attribution

REST = ("rest", -1, -1, -1)
"""The node that all edges lead through that were not kept."""


@dataclass(frozen=True)
class AttributionGraph:
    """Nodes and signed edges of one attribution."""

    nodes: tuple[tuple[str, int, int, int], ...]
    """("token" | "stream" | "head" | "mlp" | "target" | "rest", layer, head, position), -1 for what a kind does not have."""
    own: Float[np.ndarray, " node"]
    """What each node brings itself: biases, and edits of users' hooks."""
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
            for field, name in enumerate(("kind", "layer", "head", "position")):
                columns[f"{end}_{name}"] = [self.nodes[number][field] for number in numbers]
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


@dataclass(frozen=True)
class Flows:
    """The measured flows of an attribution, float64."""

    entering: Float[Tensor, " pos"]
    """Tokens with their positions and segments."""
    stream: Float[Tensor, "boundary pos"]
    edges: Float[Tensor, "layer head query key"]
    """Without what values bring that no token does."""
    heads: Float[Tensor, "layer head pos"]
    mlps: Float[Tensor, "layer pos"]
    mlp_biases: Float[Tensor, "layer pos"]
    """Of the feed-forward's biases; a shift of the norm before it flows in from the stream."""
    biases: Mapping[int, float]
    """Sum of all named biases and edits by the layer where they enter; -1 before the first."""
    target: float
    labels: tuple[str, ...]


def flows_of(
    result: "Attribution", edges: Float[Tensor, "layer head query key"], mlps: Float[Tensor, "layer pos"]
) -> Flows:
    """The flows of an attribution.

    Args:
        result: Of complete rules.
        edges: Heads' edges without what values bring that no token does.
        mlps: Shares of what feed-forwards write.

    Raises:
        InputError: if its rules conserve nothing.
    """
    if result.rules != "path":
        raise InputError(f"a graph conserves what flows, which only rules='path' does, not {result.rules!r}.")
    mlp_biases = torch.zeros_like(mlps, dtype=torch.float64)
    entering: dict[int, float] = defaultdict(float)
    for name, layer, share in zip(result.bias_names, result.bias_layers, result.bias_shares.double(), strict=True):
        entering[layer] += float(share.sum())
        if ".mlp." in name:
            mlp_biases[layer] += share
    for name, of_edit in result.edits.items():
        entering[result.edit_layers[name]] += of_edit
    return Flows(
        entering=(result.tokens + result.positions + result.token_types).double(),
        stream=result.residual.double(),
        edges=edges.double(),
        heads=result.heads.double(),
        mlps=mlps.double(),
        mlp_biases=mlp_biases,
        biases=entering,
        target=result.first_order,
        labels=result.labels,
    )


def graph_of(flows: Flows, keep: float, rtol: float) -> AttributionGraph:
    """The graph of the largest edges that carry a share of all sizes; the others lead through one node.

    Args:
        flows: What was measured.
        keep: Which part of the sum of sizes of all edges is kept, above 0 and at most 1.
        rtol: How well own biases must sum to the named ones.

    Raises:
        InputError: for another `keep`.
        CompletenessError: if own biases are not the named ones.
    """
    if not 0 < keep <= 1:
        raise InputError(f"keep={keep}: expected a share of the flow, above 0 and at most 1.")
    nodes, own, edges = _whole(flows, rtol)
    source, target, share = (np.concatenate(parts) for parts in zip(*edges, strict=True))
    there = share != 0
    source, target, share = source[there], target[there], share[there]
    order = np.argsort(-np.abs(share), kind="stable")
    carried = np.cumsum(np.abs(share[order])) / max(float(np.abs(share).sum()), 1e-300)
    enough = int(np.searchsorted(carried, keep - 1e-12)) + 1
    chosen = np.full(len(share), keep == 1)  # or rounding would leave the smallest out
    chosen[order[:enough]] = True
    return _through_rest(nodes, own, (source, target, share), chosen, flows.labels)


def _whole(
    flows: Flows, rtol: float
) -> tuple[list[tuple[str, int, int, int]], np.ndarray, list[tuple[np.ndarray, ...]]]:
    """All nodes with what they bring, and all edges."""
    n_layers, n_heads, n = flows.heads.shape
    nodes = [("token", -1, -1, p) for p in range(n)] + [("stream", 0, -1, p) for p in range(n)]
    at, own = np.arange(n), [np.zeros(n), (flows.stream[0] - flows.entering).numpy()]
    edges: list[tuple[np.ndarray, ...]] = [(at, at + n, flows.entering.numpy())]
    _hold(own[1].sum(), flows.biases.get(-1, 0.0), flows.entering, rtol, "the embeddings")
    before = n + at
    for layer in range(n_layers):
        first = len(nodes)
        nodes += [("head", layer, head, p) for head in range(n_heads) for p in range(n)]
        nodes += [("mlp", layer, -1, p) for p in range(n)] + [("stream", layer + 1, -1, p) for p in range(n)]
        heads = first + np.arange(n_heads * n).reshape(n_heads, n)
        mlps, after = first + n_heads * n + at, first + (n_heads + 1) * n + at
        into_mlps = flows.mlps[layer] - flows.mlp_biases[layer]
        past = flows.stream[layer] - flows.edges[layer].sum(dim=(0, 1)) - into_mlps
        arriving = past + flows.mlps[layer] + flows.heads[layer].sum(dim=0)
        of_heads = flows.heads[layer] - flows.edges[layer].sum(dim=-1)
        of_stream = flows.stream[layer + 1] - arriving
        own += [of_heads.flatten().numpy(), flows.mlp_biases[layer].numpy(), of_stream.numpy()]
        brought = float(of_heads.sum() + flows.mlp_biases[layer].sum() + of_stream.sum())
        _hold(brought, flows.biases.get(layer, 0.0), flows.stream[layer], rtol, f"layer {layer}")
        query, key = np.meshgrid(at, before, indexing="ij")
        for head in range(n_heads):
            edges.append((key.ravel(), heads[head][query.ravel()], flows.edges[layer, head].flatten().numpy()))
            edges.append((heads[head], after, flows.heads[layer, head].numpy()))
        edges += [(before, mlps, into_mlps.numpy()), (mlps, after, flows.mlps[layer].numpy())]
        edges.append((before, after, past.numpy()))
        before = after
    nodes.append(("target", n_layers, -1, -1))
    own.append(np.array([flows.target - float(flows.stream[-1].sum())]))
    edges.append((before, np.full(n, len(nodes) - 1), flows.stream[-1].numpy()))
    return nodes, np.concatenate(own), edges


def _hold(brought: float, named: float, sizes: Tensor, rtol: float, where: str) -> None:
    error = abs(brought - named) / max(abs(brought) + abs(named) + float(sizes.abs().sum()), 1e-300)
    if not error <= rtol:
        raise CompletenessError(
            f"graph: what nodes of {where} bring themselves misses its named biases by {error:.1e} (tolerance {rtol:.0e})."
        )


def _through_rest(
    nodes: list[tuple[str, int, int, int]],
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
        for one, two, flow in zip(first.tolist(), second.tolist(), share[left].tolist(), strict=True):
            if one != two:
                sums[one, two] = sums.get((one, two), 0.0) + flow
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
