"""Pages of graphs: flow graphs with columns by depth, others with one column per layer and kind and one lane per position."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tl_ffblock._version import __version__
from tl_ffblock.errors import InputError
from tl_ffblock.graphs.circuit import Circuit
from tl_ffblock.graphs.edge_estimates import EdgeEstimates, EdgeGraph
from tl_ffblock.graphs.flow import FlowGraph, FlowNode
from tl_ffblock.graphs.graph import PRUNED, Component, Graph
from tl_ffblock.interventions.circuits import ABSOLUTE, EdgeEffects
from tl_ffblock.layer.positions import spans
from tl_ffblock.numerals import typographic_words
from tl_ffblock.page import GraphBlock, PageBlock, PageData, PageEdge, PageNode, PageTarget, PageText, graph_page
from tl_ffblock.results.tokens import shortened, visible
from tl_ffblock.views.registry import page_of, panel_of

_FLOW = (
    "The flow through one position. The inputs of a node sum to it: edges, its own (biases), and edges that are not on the page. "
    "The word of the stream is the top token of its vector through the model's own read-out (a logit lens). A component has a word "
    "where its top token is the target's. Both are correlations. Colours are attributions of the target through all layers, with "
    "patterns and norm scales of the forward pass; those of a node include paths through other positions."
)
_LAYERED = (
    "Paths from the tokens to the target through all layers. Inputs and the own bias of a node sum to its outputs. Rows are "
    "positions, columns layers: the residual stream at a layer's input, then heads, the stream between, and the feed-forward. "
    "Patterns and norm scales are those of the forward pass: queries and keys have no paths."
)
_REMOVALS = " Orange: the target falls, so the edge supports it. Violet: it rises. Numbers are changes: orange ones are negative."
_ESTIMATES = (
    "Estimated changes of the target if a receiver alone read a sender's output of the corrupted run (edge attribution patching). "
    "Columns are layers: inputs of heads, heads, feed-forwards."
)
_FOLDED = " One line replaces layers in which no shown edge enters or leaves the stream of a position."
_EFFECTS = (
    "Measured changes of the target if a receiver alone reads a sender's output of the corrupted run (path patching). Columns are "
    "layers: inputs of heads, heads, feed-forwards."
)
_CIRCUIT = (
    "The edges of a circuit with the scores by which they were chosen. A score is the change of the target if the receiver reads the "
    "sender's output of the corrupted run. Columns are layers: inputs of heads, heads, feed-forwards."
)
_UNSCORED = (
    "The edges of a circuit. Width is the size of a score. Columns are layers: inputs of heads, heads, feed-forwards."
)
_TITLES = {
    "input": "layer input",
    "qkv": "q k v",
    "query": "queries",
    "key": "keys",
    "value": "values",
    "head": "heads",
    "heads": "heads together",
    "row": "rows of W_O",
    "bias": "biases",
    "attention": "attention",
    "sum": "sum",
    "norm": "norm",
    "neuron key": "neuron keys",
    "neuron": "neurons",
    "mlp": "feed-forward",
}
_CHAIN = ("query", "key", "neuron key")
"""Kinds without outputs of their own on the page: an edge to one is weighted by the nodes that depend on it."""
_TRUNK = ("input", "norm", "qkv", "heads", "attention", "sum", "mlp")
_SINGLE = ("row", "head", "value", "neuron", "bias")
_STREAM = ("input", "sum", "norm")
"""Kinds of the residual stream, for which the logit lens is defined; for a component it reads the direction, at any norm."""
_COEFFICIENTS = {"key": "q k", "value": "attention"}
_PLACES = {"resid": 0, "query": 1, "key": 1, "value": 1, "head": 2, "resid_mid": 3, "mlp": 4}
"""Column of each kind within a layer, from left to right."""
_HEADINGS = ("into\nlayer {}", "layer {}\ninputs", "layer {}\nheads", "layer {}\nbetween", "layer {}\nFF")
_WORDS = {
    "token": "token {token} at {position}",
    "resid": "residual stream{at}, into layer {layer}",
    "resid_mid": "residual stream{at}, between heads and feed-forward of layer {layer}",
    "head": "layer {layer}, head {head}{at}",
    "mlp": "layer {layer}, feed-forward{at}",
    "target": "the target",
}
CLEAR = 2.0
"""Entropy in nats below which a node shows its top token; a component only if this is the target's."""
KEEP = 0.3
"""Fraction of the sum of all edges' sizes that a page of edge estimates shows."""


@page_of.register
def _(graph: Graph, *, fold: bool = True) -> PageData:
    """Page of the paths to a target.

    Args:
        graph: Graph with nodes in layers.
        fold: Whether a stretch of the residual stream without further edges on the page is drawn as one edge.
    """
    return _layered(graph, _LAYERED, fold)


@panel_of.register(Graph)
@panel_of.register(EdgeEstimates)
@panel_of.register(EdgeEffects)
@panel_of.register(Circuit)
def _(graph: Any, maps: Any, _text: PageText, name: Callable[[str], str], _: Sequence[str]) -> dict[str, PageBlock]:
    """Panel of a graph of the page's text.

    Raises:
        InputError: if the graph is of other tokens or another model.
    """
    page = page_of(graph)
    (run,) = page.runs
    tokens = tuple(map(visible, maps.tokens))
    if run.tokens and run.tokens != tokens:
        raise InputError(
            f"beside: the graph of {len(run.tokens)} tokens ({shortened(run.tokens)}), these maps are of {len(tokens)} "
            f"({shortened(tokens)}). Use the same text for both."
        )
    if page.model != maps.model:
        raise InputError(
            f"beside: the graph of {page.model}, these maps are of {maps.model}. Use the same model for both."
        )
    return {name("graph"): run.blocks["graph"]}


@page_of.register
def _(graph: EdgeEstimates, *, keep: float = KEEP) -> PageData:
    return _layered(graph.prune(keep), _ESTIMATES, fold=False, whole=graph)


@page_of.register
def _(graph: EdgeEffects) -> PageData:
    heading = f"Measured edges to {typographic_words(graph.targets[0].name)}"
    return _layered(graph, _EFFECTS, fold=False, heading=heading)


@page_of.register
def _(graph: Circuit) -> PageData:
    scored = f" for {typographic_words(graph.targets[0].name)}" if graph.targets else ""
    meaning = _CIRCUIT if graph.targets else _UNSCORED
    return _layered(graph, meaning, fold=False, heading=f"Circuit of {len(graph):,} edges{scored}")


@page_of.register
def _(graph: FlowGraph) -> PageData:
    depths = _depths(graph)
    stream, dependent = _stream(graph), _dependent(graph)
    titles: dict[int, str] = {}
    shown = [(number, node) for number, node in enumerate(graph.nodes) if node.kind != PRUNED]
    for number, node in sorted(shown, key=lambda pair: pair[1].kind == "bias"):
        titles.setdefault(depths[number], f"layer {node.layer}\n{_TITLES[node.kind]}")
    first, last = graph.layers[0], graph.layers[-1]
    layers = f"layer {first}" if first == last else f"layers {first} to {last}"
    ends = [(graph.nodes[edge.source].kind, graph.nodes[edge.target].kind) for edge in graph.edges]
    return _page(
        graph,
        depths,
        [int(number not in stream) for number in range(len(graph.nodes))],
        [
            dependent[edge.source if kinds[0] in _SINGLE else edge.target]
            for edge, kinds in zip(graph.edges, ends, strict=True)
        ],
        [set(kinds) <= set(_TRUNK) for kinds in ends],
        heading=f"Flow through {visible(graph.labels[graph.position])} at {graph.position}, {layers}",
        meaning=_FLOW,
        columns=tuple(titles[column] for column in sorted(titles)),
        lanes=2,
        certificate=str(graph.certificate),
        widths={"residual": "norm in the residual stream (square root)"},
        shown=40,
        position=graph.position,
    )


def _layered(graph: Graph, meaning: str, fold: bool, heading: str = "", whole: Graph | None = None) -> PageData:
    """Page with one column per layer and kind, and one lane per position; `whole` is the graph before it was pruned for the page."""
    folded = _stretches(graph) if fold else {}
    last = 1 + max(node.layer or 0 for node in graph.nodes)
    keys = [
        (-1 if node.layer is None else node.layer, _PLACES[node.kind]) if node.kind in _PLACES
        else (last if node.kind == "target" else -1, 0)
        for node in graph.nodes
    ]  # fmt: skip
    columns = {key: column for column, key in enumerate(sorted({*keys}))}
    titles = {(-1, 0): "tokens", (last - 1, 0): "output", (last, 0): "target"}
    lanes = len(graph.labels) if any(node.position is not None for node in graph.nodes) else 0
    changes = isinstance(graph, EdgeGraph) and bool(graph.targets)
    signed = graph.rules != ABSOLUTE
    return _page(
        graph,
        [columns[key] for key in keys],
        [lanes if node.position is None else node.position for node in graph.nodes],
        graph.weights.tolist(),
        [False] * len(graph.ends),
        folded,
        whole=whole,
        heading=heading
        or f"Paths to {typographic_words(graph.targets[0].name)}, {_percent(graph.kept)} of all edges' sizes",
        meaning=meaning + _REMOVALS * (changes and signed) + _FOLDED * bool(folded),
        columns=tuple(titles.get((layer, place), _HEADINGS[place].format(layer)) for layer, place in columns),
        lanes=lanes + 1,
        certificate=str(graph.certificate),
        widths={"share": f"size of the {'change' if changes else 'share'} (square root)"},
        signed=signed,
        removal=changes and signed,
    )


def _extent(whole: Graph, n_nodes: int, edges: Sequence[PageEdge], folded: Mapping[int, int]) -> dict[str, Any]:
    """Counts of the whole graph, as it prints them, and a sentence that says which of its nodes and edges are drawn."""
    n_edges, n_all = len(whole.ends), max(len(whole.ends), getattr(whole, "n_possible", 0))
    counts, of_nodes = f"{len(whole.nodes):,} nodes · {n_edges:,} edges", f"{n_nodes:,} of {len(whole.nodes):,} nodes"
    drawn, size = sum(abs(edge.shares[0]) for edge in edges if edge.shares), 0.0
    if isinstance(whole, Circuit):
        size = drawn / whole.kept if 0 < whole.kept < 1 else 0.0
        counts = f"{len(whole.components):,} components · {n_edges:,} of {n_all:,} edges"
        of_nodes = f"{n_nodes:,} nodes: components, their inputs and the target"
    elif isinstance(whole, EdgeGraph) and n_edges == n_all:
        size = float(whole.weights[:, 0].abs().sum())
    part = f", {_percent(drawn / size)} of their size" if 0 < drawn < (1 - 1e-6) * size else ""
    words = [f"Drawn: {len(edges):,} of {n_all:,} edges{part}; {of_nodes}."]
    if folded:
        words.append(f"Folded into lines: {len(folded):,} nodes of the residual stream, and as many edges.")
    if others := n_edges - len(edges) - len(folded):
        words.append(f"The cards sum the other {others:,} edges.")
    return {"counts": counts, "drawn": " ".join(words), "n_edges": n_all, "size": size}


def _start(graph: Graph, shown: Sequence[int]) -> int:
    """Index of the shown node at which the page opens: the head (else node) with the largest attribution; -1 without a target."""
    if not graph.targets or not shown:
        return -1
    heads = [graph.nodes[number].kind == "head" for number in shown]
    sizes = [abs(graph.nodes[number].shares[0]) for number in shown]
    return int(np.where(heads if any(heads) else True, sizes, -1.0).argmax())


def _page(
    graph: Graph,
    column_of: Sequence[int],
    lane_of: Sequence[int],
    weights: Sequence[Sequence[float]],
    always: Sequence[bool],
    folded: Mapping[int, int] | None = None,
    whole: Graph | None = None,
    **texts: Any,
) -> PageData:
    """Page of the nodes and edges of a graph. Edges to and from pruned nodes are summed at the shown nodes.

    Args:
        graph: The graph.
        column_of: Column of each node.
        lane_of: Lane of each node.
        weights: Weights of each edge, one per target, which the slider compares.
        always: Whether each edge is shown at every position of the slider.
        folded: For nodes that are not shown: the node from which their outgoing edge is drawn.
        whole: The graph before it was pruned for the page; None means `graph`.
        **texts: Further fields of `GraphBlock`.
    """
    folded = folded or {}
    used = {*graph.ends.flatten().tolist()} if isinstance(graph, EdgeGraph) else {*range(len(graph.nodes))}
    there = (n for n, node in enumerate(graph.nodes) if node.kind != PRUNED and n in used and n not in folded)
    place = {number: at for at, number in enumerate(there)}
    edges, hidden = _page_edges(graph, place, weights, always, folded)
    block = GraphBlock(
        nodes=tuple(_node(graph, number, column_of[number], lane_of[number], hidden[:, number]) for number in place),
        edges=edges,
        targets=tuple(
            PageTarget(
                typographic_words(target.name), target.value, "" if target.token is None else visible(target.token)
            )
            for target in graph.targets
        ),
        start=_start(graph, list(place)),
        **_extent(whole or graph, len(place), edges, folded),
        **texts,
    )
    tokens = tuple(visible(label) for label in graph.labels)
    return graph_page(graph.model, block, tokens, {"tl_ffblock": __version__, "rules": graph.rules})


def _page_edges(
    graph: Graph,
    place: Mapping[int, int],
    weights: Sequence[Sequence[float]],
    always: Sequence[bool],
    folded: Mapping[int, int],
) -> tuple[tuple[PageEdge, ...], np.ndarray]:
    """Edges between nodes on the page, and attributions that enter and leave each node along others [in or out, node, target]."""
    n_targets, edges, folds = len(graph.targets), list[PageEdge](), _spans(graph, folded)
    hidden = np.zeros((2, len(graph.nodes), n_targets))
    for edge, weight, fixed in zip(graph.edges, weights, always, strict=True):
        shares = edge.shares[:n_targets]  # circuits without a target have scores
        source = folded.get(edge.source, edge.source)
        if edge.target in folded:  # into a stretch: added for its first node, less what leaves the stretch
            hidden[1, edge.source] += shares if edge.source in place else 0.0
        elif source in place and edge.target in place:
            if edge.source in folded:
                hidden[1, source] -= shares
            ends, span = (place[source], place[edge.target]), folds.get(source, "") if edge.source in folded else ""
            shown = PageEdge(*ends, edge.unit, edge.size, shares, tuple(weight)[:n_targets], always=fixed, span=span)
            edges.append(shown)
        elif edge.source not in folded:
            hidden[0, edge.target] += shares
            hidden[1, edge.source] += shares
    return tuple(edges), hidden


def _spans(graph: Graph, folded: Mapping[int, int]) -> dict[int, str]:
    """By the node before a stretch: the layers of the stretch, `1-22`."""
    layers: dict[int, list[int]] = {}
    for number, before in folded.items():
        layers.setdefault(before, []).append(graph.nodes[number].layer or 0)
    return {before: spans([*range(min(held), max(held) + 1)]) for before, held in layers.items()}


def _stretches(graph: Graph) -> dict[int, int]:
    """Inner nodes of stretches of the residual stream (one edge in, one out), each with the node before its stretch."""
    sources: dict[int, list[int]] = {}
    targets: dict[int, list[int]] = {}
    for source, target in graph.ends.tolist():
        if PRUNED not in (graph.nodes[source].kind, graph.nodes[target].kind):
            sources.setdefault(target, []).append(source)
            targets.setdefault(source, []).append(target)
    stream = {
        number
        for number, node in enumerate(graph.nodes)
        if node.kind in ("resid", "resid_mid") and len(sources.get(number, ())) == len(targets.get(number, ())) == 1
    }
    inner = {number for number in stream if sources[number][0] in stream and targets[number][0] in stream}
    before: dict[int, int] = {}
    for number in sorted(inner, key=lambda n: (graph.nodes[n].layer or 0, _PLACES[graph.nodes[n].kind])):
        before[number] = before.get(sources[number][0], sources[number][0])
    return before


def _node(graph: Graph, number: int, column: int, lane: int, hidden: np.ndarray) -> PageNode:
    node = graph.nodes[number]
    rest = np.array(node.rest_shares or (0.0,) * len(graph.targets)) + hidden[0]
    n_targets = len(graph.targets)
    common: dict[str, Any] = dict(
        column=column, lane=lane, shares=node.shares[:n_targets], own_shares=node.own_shares[:n_targets]
    )
    common |= dict(rest_shares=tuple(rest.tolist()), short=_short(graph, node))
    left = [("outputs not on this page", float(hidden[1, 0]))] if hidden[1].any() else []
    if isinstance(node, FlowNode):
        says = tuple(visible(token) for token in node.tokens)
        facts = [("layer", float(node.layer or 0)), ("norm", node.norm)]
        if node.coefficient is not None:
            facts.append((_COEFFICIENTS.get(node.kind, "coefficient"), node.coefficient))
        facts += [("entropy of its tokens, nats", node.entropy)] if says else []
        facts += [("norm of its own biases", node.own)] if node.own else []
        facts += [(f"norm of {node.unseen} not on the page", node.rest)] if node.unseen else []
        clear = bool(says) and node.entropy < CLEAR and (node.kind in _STREAM or 1 in node.ranks)
        name, label = f"layer {node.layer}: {node.words}", f"says {says[0]}" if clear else ""
        read: dict[str, Any] = dict(
            ranks=node.ranks, probabilities=node.probabilities, unseen=node.unseen + int(hidden[0].any())
        )
        read |= dict(entropy=node.entropy if says else None)
        return PageNode(**common, says=says, name=name, label=label, facts=tuple(facts + left), **read)
    token = "" if node.position is None else visible(graph.labels[node.position])
    at = f" of {token} at {node.position}" if token else ""
    name = _WORDS.get(node.kind, node.name).format(**vars(node), token=token, at=at)
    label = token if node.kind in ("token", "resid", "resid_mid") else ""
    facts = [*(("flows through", share) for share in node.shares[:1]), *left]
    return PageNode(**common, says=(), name=name, label=label, facts=tuple(facts), unseen=int(hidden[0].any()))


def _short(graph: Graph, node: Component) -> str:
    """Name of a component, in flow graphs with a position other than the graph's: "L5H3.v@4"; for a token its position."""
    elsewhere = isinstance(graph, FlowGraph) and node.position != graph.position
    return f"{node.position}" if node.kind == "token" else node.label() if elsewhere else node.name


def _depths(graph: FlowGraph) -> list[int]:
    """Column of each node: one right of all nodes with an edge to it, or of the node before it if there is no such edge."""
    sources: dict[int, list[int]] = {}
    for source, target in graph.ends.tolist():
        sources.setdefault(target, []).append(source)
    columns = [0]
    for number in range(1, len(graph.nodes)):
        before = [source for source in sources.get(number, []) if source < number]
        columns.append(1 + max(columns[source] for source in before or [number - 1]))
    return columns


def _stream(graph: FlowGraph) -> set[int]:
    """Indices of the nodes of the residual stream: inputs, sums, and norms that are part of it (Post-LN)."""
    nodes, ends = graph.nodes, graph.ends.tolist()
    sums = {number for number, node in enumerate(nodes) if node.kind in ("input", "sum")}
    norms = {number for number, node in enumerate(nodes) if node.kind == "norm"}
    added = {source for source, target in ends if target in sums} & norms
    of_sums = {target for source, target in ends if source in sums} & norms
    last = {len(nodes) - 1} & norms
    return sums | (added & of_sums) | last


def _dependent(graph: FlowGraph) -> list[tuple[float, ...]]:
    """By node: the attributions by which its edges are weighted; for kinds in `_CHAIN` the largest of its own and its targets'."""
    shares = [node.shares for node in graph.nodes]
    for source, target in sorted(graph.ends.tolist(), key=lambda ends: -ends[0]):
        if graph.nodes[source].kind in _CHAIN:
            pairs = zip(shares[source], shares[target], strict=True)
            shares[source] = tuple(max(abs(mine), abs(theirs)) for mine, theirs in pairs)
    return shares


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"
