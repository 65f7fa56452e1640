"""`ffb.flow_graph`: a model, a text and a target become the graph of what flows through one position."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, SupportsIndex, Unpack

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribute import AttributeOptions, open_attribution_run
from tl_ffblock.attribution.certificate import relative
from tl_ffblock.bridge.inputs import label
from tl_ffblock.bridge.runs import Ids, Run, Tokens
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.flow.draft import Draft, DraftEdge, DraftNode
from tl_ffblock.flow.graph import FlowCertificate, FlowEdge, FlowGraph, FlowNode, FlowTarget, FlowVectors
from tl_ffblock.flow.layer_flow import draw_layer
from tl_ffblock.flow.place import LayerPlace
from tl_ffblock.flow.pruning import Pruning
from tl_ffblock.flow.reading import Readings, read_vectors
from tl_ffblock.flow.targets import FlowTargets, Propagated, propagated
from tl_ffblock.layer.linear import LinearLayer
from tl_ffblock.layer.positions import one_position
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import INPUT, Attend
from tl_ffblock.signatures import spelled_out

N_TOKENS = 5
"""Tokens that are read of a vector."""

_DEFAULTS: dict[str, Any] = {"attention_mask": None, "token_type_ids": None, "fwd_hooks": (), "rtol": None}


@spelled_out(AttributeOptions, _DEFAULTS)
def flow_graph(
    model: Any,
    text: str | Ids | Tokens,
    *,
    layers: Sequence[int] | int = -1,
    position: SupportsIndex = -1,
    target: FlowTargets = None,
    pruning: Pruning | None = None,
    **options: Unpack[AttributeOptions],
) -> FlowGraph:
    """What flows through one position of some layers, as a graph in which what enters a node sums to it.

    Nodes are those of Katz and Belinkov 2023: a layer's input, norms, queries, keys and values of heads, heads, rows of W_O,
    keys and values of the feed-forward's memories, biases, sums, the layer's output. Every node has the tokens that its
    vector says through the model's read-out, its norm, that reading's entropy, and the target's rank and probability in it;
    nodes and edges have the share of the target that flows there (`ffb.attribute`, rules "path"). A reading as tokens
    correlates; it proves nothing about what the model does with the vector.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        text: A text, or token ids [pos].
        layers: A layer or consecutive layers, negative ones from the end.
        position: The position whose stream is drawn, negative from the end.
        target: A token, as text or id, whose logit at `position` is shared out; a metric such as
            `ffb.logit(" Mary", minus=" John")`; an `ffb.direction`; or a list of these. None means the token that the model
            expects at `position`, and no target for an encoder that came without its head.
        pruning: How much is shown; `Pruning()` has the paper's numbers, `Pruning.off()` shows all.
        attention_mask: 1 at real tokens of a padded token tensor.
        token_type_ids: The segment of each token, for BERT.
        fwd_hooks: Hooks for this run, as in `run_with_hooks`.
        rtol: Largest relative error accepted in the certificate.

    Raises:
        InputError: for input, layers, a position or a target that cannot be used.
        UnsupportedModelError: for models that are not decomposed.
        CompletenessError: if what enters a node does not sum to it, or shares do not sum up.
    """
    run = open_attribution_run(model, text, layers=layers, extra=("query", "key"), **options)
    if len(run.sequences) != 1:
        raise InputError("a flow graph is of one text at a time; got several.")
    if run.layers != tuple(range(run.layers[0], run.layers[-1] + 1)):
        raise InputError(f"layers={layers!r}: expected consecutive layers, such as range(10, 13).")
    labels = run.sequences[0].labels
    row = one_position(position, len(labels), "position")
    silent = target is None and not run.model.has_trained_head
    shared = [] if silent else propagated(run, target, row)
    empty = Draft(len(shared), row, labels)
    try:
        draft, walk = _drawn(run, shared, replace(empty, nodes=[], edges=[]), pruning or Pruning())
    except UnsupportedModelError:  # of a model that does not show its rotated queries and keys there are no scores
        draft, walk = _drawn(replace(run, extra=frozenset()), shared, empty, pruning or Pruning())
    vectors = torch.stack([node.vector for node in draft.nodes])
    readings = read_vectors(run.model, vectors, [each.token for each in shared], N_TOKENS)
    graph = _graph(run, draft, shared, readings, walk)
    graph.certificate.refuse(run.model.name, hooked=run.is_hooked)
    return graph


def _drawn(run: Run, shared: list[Propagated], draft: Draft, pruning: Pruning) -> tuple[Draft, float]:
    """All layers, and how far their backward walk is from the propagated derivative."""
    output, eps = [-1], run.model.eps(run.settings.dtype)

    def draw(record: LayerRecord, _: int) -> float:
        by, by_read, error = _derivatives(LinearLayer(record, run.settings), shared, draft.position)
        weights = run.model.layers[record.layer].query_keys(record.resid_pre.dtype)
        if output[0] < 0:
            x = record.resid_pre[draft.position]
            output[0] = draft.add(DraftNode("input", record.layer, "layer input", x, by[INPUT]))
        output[0] = draw_layer(LayerPlace(draft, record, weights, by, by_read, pruning, eps), output[0])
        return error

    return draft, max(run.by_layer(draw)[0].values(), default=0.0)


def _derivatives(
    layer: LinearLayer, shared: list[Propagated], position: int
) -> tuple[dict[str, Float[Tensor, "target d"]], Float[Tensor, "target d"], float]:
    """Every target's derivatives at a position by scope, by what attention reads, and the error of the vjp."""
    x, number = layer.record.resid_pre, layer.record.layer
    (attend,) = (step.scope for step in layer.steps if isinstance(step.operation, Attend))
    names = [INPUT, *(step.scope for step in layer.steps)]
    found: dict[str, list[Tensor]] = {name: [] for name in names}
    reads, error = [], 0.0
    for each in shared:
        of_stream = each.by_stream.to(x)
        by, expected = layer.vjp(of_stream[number + 1]), of_stream[number]
        error = max(error, float(relative((by[INPUT] - expected).norm(), expected.norm())))
        reads.append(layer.vjp_attention(by[attend])[position])
        for name in names:
            found[name].append(by[name][position] if name in by else torch.zeros_like(x[0]))
    none = x.new_zeros(0, x.shape[-1])
    stacked = {name: torch.stack(vectors) if vectors else none for name, vectors in found.items()}
    return stacked, torch.stack(reads) if reads else none, error


def _graph(run: Run, draft: Draft, shared: list[Propagated], readings: Readings, walk: float) -> FlowGraph:
    entering = draft.entering()
    errors = [draft.error(node, edges) for node, edges in zip(draft.nodes, entering, strict=True)]
    worst = max(range(len(errors)), key=errors.__getitem__)
    sizes = torch.tensor([abs(each.attribution.first_order) for each in shared], dtype=torch.float64)
    shares = max(_error_of_shares(draft, node, edges, sizes) for node, edges in zip(draft.nodes, entering, strict=True))
    shares = max([shares, *_errors_of_input(run, draft, shared, sizes)])
    certificates = [each.attribution.certificate for each in shared]
    propagation = max((max(c.forms, float(c.layer_inputs.max())) for c in certificates if c is not None), default=0.0)
    zero = torch.zeros_like(draft.nodes[0].vector)
    return FlowGraph(
        model=run.model.name,
        labels=draft.labels,
        position=draft.position,
        layers=run.layers,
        targets=tuple(_target(run, each) for each in shared),
        nodes=tuple(_node(draft, number, readings) for number in range(len(draft.nodes))),
        edges=tuple(
            FlowEdge(edge.source, edge.target, edge.unit, edge.size, _floats(draft.share_of_edge(edge)))
            for edge in draft.edges
        ),
        certificate=FlowCertificate(
            errors[worst],
            f"{draft.nodes[worst].name} of layer {draft.nodes[worst].layer}",
            shares,
            walk,
            propagation,
            run.settings.rtol,
        ),
        vectors=FlowVectors(
            torch.stack([node.vector for node in draft.nodes]).cpu(),
            torch.stack([zero if node.own is None else node.own for node in draft.nodes]).cpu(),
            torch.stack([zero if node.rest is None else node.rest for node in draft.nodes]).cpu(),
            torch.stack([zero if edge.vector is None else edge.vector for edge in draft.edges]).cpu(),
        ),
    )


def _errors_of_input(
    run: Run, draft: Draft, shared: list[Propagated], targets: Float[Tensor, " target"]
) -> list[float]:
    """What the layer input's shares miss of those that the certified propagation has there."""
    stream = [each.attribution.residual[run.layers[0], draft.position].double() for each in shared]
    own = draft.share_of_node(draft.nodes[0])
    return [
        float(relative((found - expected).abs(), expected.abs() + size))
        for found, expected, size in zip(own, stream, targets, strict=True)
    ]


def _target(run: Run, each: Propagated) -> FlowTarget:
    name = None if each.token is None else label(run.model, torch.tensor([each.token]))[0]
    return FlowTarget(each.attribution.target, each.attribution.value, name)


def _error_of_shares(
    draft: Draft, node: DraftNode, entering: list[DraftEdge], targets: Float[Tensor, " target"]
) -> float:
    """What shares of all that enters miss of the node's, over the sum of their sizes and the target's."""
    parts = [draft.share_of_edge(edge) for edge in entering]
    parts += [draft.share_brought(node), draft.share_of_rest(node)]
    summands, own = torch.stack(parts).double(), draft.share_of_node(node).double()
    error = relative((summands.sum(dim=0) - own).abs(), summands.abs().sum(dim=0) + targets)
    return float(error.max()) if len(error) else 0.0


def _node(draft: Draft, number: int, readings: Readings) -> FlowNode:
    node = draft.nodes[number]
    return FlowNode(
        kind=node.kind,
        layer=node.layer,
        name=node.name,
        head=node.head,
        index=node.index,
        norm=float(node.vector.norm()),
        coefficient=node.coefficient,
        tokens=readings.top[number],
        entropy=float(readings.entropy[number]),
        ranks=tuple(readings.ranks[number].tolist()),
        probabilities=_floats(readings.probabilities[number]),
        shares=_floats(draft.share_of_node(node)),
        own=node.own_number if node.own is None else float(node.own.norm()),
        own_shares=_floats(draft.share_brought(node)),
        rest=0.0 if node.rest is None else float(node.rest.norm()),
        rest_shares=_floats(draft.share_of_rest(node)),
        unseen=node.unseen,
    )


def _floats(tensor: Tensor) -> tuple[float, ...]:
    return tuple(tensor.tolist())
