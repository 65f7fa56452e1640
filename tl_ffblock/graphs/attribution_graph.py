"""An attribution as a graph with conservation: edges into a node plus its intercept equal the edges out of it.

    serial layers:    resid -> heads -> resid_mid, resid -> resid_mid    resid_mid -> mlp -> next resid, resid_mid -> next resid
    parallel layers:  resid -> heads, mlp -> next resid                  resid -> next resid

A weight is a signed attribution of the target. `in` is the residual stream at a layer's input, `out` that at its output. At a
position p:

    serial:   in = sum over (head, query) of edges(p) + through     through + heads + own = inputs + past = mid
              out = past + mlps + own
    parallel: in = sum over (head, query) of edges(p) + inputs + past           out = past + heads + mlps + own

The attributions of streams, edges, heads, and feed-forward inputs and outputs are measured, each by a product of a tensor and the
target's derivative by it. `through` and `past` follow from conservation. The intercepts do too, and must equal the named biases:
b_V and the shift of the norm before for heads; b_O and shifts of norms in the stream for the stream; its biases and the
shift of the norm before for the feed-forward.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import CompletenessError, renamed
from tl_ffblock.graphs.graph import Component, Graph, GraphCertificate, GraphTarget
from tl_ffblock.signatures import strict

_NAMES = {"head": "L{}H{}", "resid": "L{}.resid", "resid_mid": "L{}.resid_mid", "mlp": "L{}.mlp"}


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class AttributionGraph(Graph):
    """Attribution of one sequence as a graph: edges into a node and its intercept sum to the edges out of it.

    Kinds of nodes are "token", "resid" (the residual stream at a layer's input), "head", "resid_mid" (between attention and
    feed-forward), "mlp", "target" and "pruned".
    """

    source = renamed("source", "ends[:, 0]", lambda graph: graph.ends[:, 0].numpy())
    target = renamed("target", "ends[:, 1]", lambda graph: graph.ends[:, 1].numpy())
    share = renamed("share", "weights[:, 0]", lambda graph: graph.weights[:, 0].numpy())
    own = renamed("own", "intercepts[:, 0]", lambda graph: graph.intercepts[:, 0].numpy())

    def imbalance(self) -> Float[np.ndarray, " node"]:
        """Sum of incoming edges and intercept minus outgoing edges: 0 at all nodes except tokens and the target [node]."""
        flow, weights = self.intercepts[:, 0].numpy(), self.weights[:, 0].numpy()
        np.add.at(flow, self.ends[:, 1].numpy(), weights)
        np.subtract.at(flow, self.ends[:, 0].numpy(), weights)
        return flow


@dataclass(frozen=True)
class Flows:
    """Measured attributions of all layers before a target, in float64, from which its graph is built.

    `entering` has tokens with position and segment embeddings. `layers` has, by name: "edges" [layer head query key] without the
    constant part of values, "head_biases" [layer head pos] with it; "heads" [layer head pos]; "mlp_inputs" [layer pos] without
    the shift of the norm before; "mlps" [layer pos]; named biases "own.head", "own.mlp", "own.stream" (with user edits of the
    stream) and, in serial layers, "own.mid". `biases` has sums of all named biases and edits by the layer that adds them (-1
    before the first), and `edits` the edited HookPoints by the same layer. `size` is the sum of absolute values of all
    attributions. Named biases must be met to `rtol` of it and of the absolute values at the layer: in a target that nearly
    cancels, values are small but their rounding is not. `certificate` is the attribution's, as text.
    """

    model: str
    labels: tuple[str, ...]
    target: GraphTarget
    first_order: float
    entering: Float[Tensor, " pos"]
    stream: Float[Tensor, "boundary pos"]
    layers: Mapping[str, Float[Tensor, "layer ..."]]
    biases: Mapping[int, float]
    edits: Mapping[int, tuple[str, ...]]
    size: float
    rtol: float
    certificate: str
    prompt: str = ""


def attribution_graph(flows: Flows) -> AttributionGraph:
    """Graph with an edge for every attribution that is not zero.

    Raises:
        CompletenessError: if intercepts differ from the named biases.
    """
    draft = _Draft(flows)
    n_layers = len(flows.layers["edges"])
    own = flows.stream[0] - flows.entering
    draft.check(
        -1, {"the first residual stream": (own.sum(), flows.biases.get(-1, 0.0))}, flows.stream[0], flows.entering
    )
    tokens, stream = draft.add("token", None, torch.zeros_like(flows.entering)), draft.add("resid", 0, own)
    draft.connect(tokens, stream, flows.entering)
    for layer in range(n_layers):
        stream = _add_layer(draft, layer, stream)
    last = flows.stream[n_layers]
    rest = flows.first_order - last.sum()
    named = flows.biases.get(n_layers, 0.0) if n_layers == len(flows.stream) - 1 else 0.0
    draft.check(n_layers, {"the target": (rest, named)}, last, torch.tensor([flows.first_order, named]))
    draft.connect(stream, draft.add("target", n_layers, rest.reshape(1), positions=False), last)
    return draft.graph()


def _add_layer(draft: "_Draft", layer: int, stream: Int[np.ndarray, " pos"]) -> Int[np.ndarray, " pos"]:
    """Add a layer after the nodes of its input stream; returns the nodes of its output stream."""
    measured = {name: tensor[layer] for name, tensor in draft.flows.layers.items()}
    named = {name.removeprefix("own."): measured.pop(name) for name in list(measured) if name.startswith("own.")}
    edges, biases, heads, inputs, mlps = (
        measured[name] for name in ("edges", "head_biases", "heads", "mlp_inputs", "mlps")
    )
    before, after = draft.flows.stream[layer : layer + 2]
    serial, through = "mid" in named, before - edges.sum(dim=(0, 1))
    past, own_after = after - mlps - named["stream"], named["stream"]
    if serial:
        own_mid = inputs + past - through - heads.sum(dim=0)
        law = "the stream before the feed-forward", own_mid, named["mid"]
    else:
        past = through - inputs
        own_after = after - past - heads.sum(dim=0) - mlps
        law = "the stream at the output", own_after, named["stream"]
    own_heads, own_mlp = heads - edges.sum(dim=-1), mlps - inputs
    laws: dict[str, tuple[Tensor, Tensor | float]] = {
        "each head": (own_heads, biases),
        "all heads together": (biases.sum(), named["head"].sum()),
        "the feed-forward": (own_mlp, named["mlp"]),
        law[0]: law[1:],
        "the whole layer": (torch.stack([*named.values()]).sum(), draft.flows.biases.get(layer, 0.0)),
    }
    draft.check(layer, laws, before, after, edges, heads, inputs, mlps, *named.values())
    of_heads = draft.add("head", layer, own_heads)
    draft.connect(stream, of_heads[:, :, None], edges)
    if serial:
        mid = draft.add("resid_mid", layer, own_mid)
        draft.connect(stream, mid, through)
        draft.connect(of_heads, mid, heads)
        stream = mid
    of_mlp, output = draft.add("mlp", layer, own_mlp), draft.add("resid", layer + 1, own_after)
    draft.connect(stream, of_mlp, inputs)
    draft.connect(stream, output, past)
    draft.connect(of_mlp, output, mlps)
    if not serial:
        draft.connect(of_heads, output, heads)
    return output


@dataclass
class _Draft:
    """Nodes of a graph, and source, target and weight of its edges."""

    flows: Flows
    nodes: list[dict[str, Any]] = field(default_factory=list)
    own: list[float] = field(default_factory=list)
    edges: list[tuple[np.ndarray, ...]] = field(default_factory=list)
    error: float = 0.0

    def add(
        self, kind: str, layer: int | None, own: Float[Tensor, "*head pos"], *, positions: bool = True
    ) -> Int[np.ndarray, "*head pos"]:
        """Add nodes of a kind with their intercepts; returns their numbers."""
        first = len(self.nodes)
        for *head, position in np.ndindex(*own.shape):
            name = _NAMES.get(kind, kind).format(layer, *head)
            at = position if positions else None
            self.nodes.append(dict(name=name, kind=kind, layer=layer, head=next(iter(head), None), position=at))
        self.own += own.flatten().tolist()
        return first + np.arange(own.numel()).reshape(own.shape)

    def connect(self, source: np.ndarray, target: np.ndarray, share: Tensor) -> None:
        """Add edges between nodes; arrays with fewer axes are broadcast."""
        ends = (np.broadcast_to(end, share.shape).ravel() for end in (source, target))
        self.edges.append((*ends, share.flatten().numpy()))

    def check(self, layer: int, laws: Mapping[str, tuple[Tensor, Tensor | float]], *flowing: Tensor) -> None:
        flows = self.flows
        size = max(flows.size + sum(float(flow.abs().sum()) for flow in flowing), 1e-300)
        for what, (own, named) in laws.items():
            error = float((own - named).abs().max()) / size
            self.error = max(self.error, error)
            if not error <= flows.rtol:
                where = f", layer {layer}" if 0 <= layer < len(flows.layers["edges"]) else ""
                edits = f" Your hooks edit {', '.join(flows.edits[layer])}." if flows.edits.get(layer) else ""
                raise CompletenessError(
                    f"graph{where}: the intercept of {what} differs from the named biases by {error:.1e} of the sum of absolute "
                    f"values (tolerance {flows.rtol:.0e}).{edits} Hooks may scale anything, and add to the residual stream at a "
                    "layer's input or output; other additions have no node. Remove them."
                )

    def graph(self) -> AttributionGraph:
        source, target, share = (np.concatenate(parts) for parts in zip(*self.edges, strict=True))
        there = share != 0
        ends, weights = np.stack([source, target], axis=1)[there], torch.from_numpy(share[there])[:, None]
        flow = np.array(self.own)
        np.add.at(flow, ends[:, 1], share[there])
        tokens = ends[:, 0] < len(self.flows.labels)
        np.add.at(flow, ends[tokens, 0], share[there][tokens])
        return AttributionGraph(
            model=self.flows.model,
            labels=self.flows.labels,
            prompt=self.flows.prompt,
            targets=(self.flows.target,),
            nodes=tuple(
                Component(**node, shares=(share,), own_shares=(own,))
                for node, share, own in zip(self.nodes, flow.tolist(), self.own, strict=True)
            ),
            ends=torch.from_numpy(ends),
            weights=weights,
            sizes=weights[:, 0].abs(),
            certificate=GraphCertificate({"named biases": self.error}, self.flows.rtol, source=self.flows.certificate),
        )
