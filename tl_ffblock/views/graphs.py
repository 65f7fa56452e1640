"""A flow graph as a page: columns by depth, the residual stream above, what it reads and writes below."""

from collections.abc import Sequence

from tl_ffblock._version import __version__
from tl_ffblock.flow.graph import FlowEdge, FlowGraph, FlowNode
from tl_ffblock.page import GraphPage, PageEdge, PageNode, PageTarget
from tl_ffblock.results.tokens import visible
from tl_ffblock.views.registry import page_of

_MEANING = (
    "What flows through one position. What enters a node sums to it: along lines, what it brings itself (biases), and what is "
    "not on the page. A node's word is the token that its vector says most through the model's own read-out, which correlates "
    "and proves nothing. Colours are shares of the target through all layers, with patterns and norm scales those of the run; "
    "a node's own counts wherever it goes, other positions too."
)
_WIDTHS = {"residual": "norm in the residual stream (square root)"}
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
    "memory key": "memory keys",
    "memory value": "memories",
    "feed-forward": "feed-forward",
}
# Kinds that only lead to others: an edge to one weighs what depends on it.
_CHAIN = ("query", "key", "memory key")


@page_of.register
def flow_page(graph: FlowGraph) -> GraphPage:
    """Everything that a page of a flow graph shows."""
    columns = _columns(graph)
    stream = _stream(graph)
    dependent = _dependent(graph)
    first, last = graph.layers[0], graph.layers[-1]
    layers = f"layer {first}" if first == last else f"layers {first} to {last}"
    return GraphPage(
        model=graph.model,
        heading=f"flow through {visible(graph.labels[graph.position])} at {graph.position}, {layers}",
        tokens=tuple(visible(label) for label in graph.labels),
        meaning=_MEANING,
        columns=_headings(graph, columns),
        lanes=2,
        nodes=tuple(
            _node(node, column, 0 if number in stream else 1)
            for number, (node, column) in enumerate(zip(graph.nodes, columns, strict=True))
        ),
        edges=tuple(_edge(graph, edge, dependent) for edge in graph.edges),
        targets=tuple(
            PageTarget(
                name=target.name, value=target.value, token="" if target.token is None else visible(target.token)
            )
            for target in graph.targets
        ),
        certificate=str(graph.certificate),
        provenance={"tl_ffblock": __version__},
        widths=_WIDTHS,
        shown=240,
        position=graph.position,
    )


def _columns(graph: FlowGraph) -> list[int]:
    """The longest way to each node: a column further right than all that enters it, or, where all is in the rest, than the node before."""
    sources: dict[int, list[int]] = {}
    for edge in graph.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    columns = [0]
    for number in range(1, len(graph.nodes)):
        columns.append(1 + max(columns[source] for source in sources.get(number, [number - 1])))
    return columns


def _stream(graph: FlowGraph) -> set[int]:
    """The residual stream: inputs, sums, and norms that are part of it (Post-LN)."""
    nodes = graph.nodes
    sums = {number for number, node in enumerate(nodes) if node.kind in ("input", "sum")}
    norms = {number for number, node in enumerate(nodes) if node.kind == "norm"}
    added = {edge.source for edge in graph.edges if edge.target in sums} & norms
    of_sums = {edge.target for edge in graph.edges if edge.source in sums} & norms
    last = {len(nodes) - 1} & norms
    return sums | (added & of_sums) | last


def _headings(graph: FlowGraph, columns: Sequence[int]) -> tuple[str, ...]:
    titles: dict[int, str] = {}
    for node, column in sorted(zip(graph.nodes, columns, strict=True), key=lambda pair: pair[0].kind == "bias"):
        titles.setdefault(column, f"layer {node.layer}\n{_TITLES[node.kind]}")
    return tuple(titles[column] for column in range(max(columns) + 1))


def _dependent(graph: FlowGraph) -> list[tuple[float, ...]]:
    """Of every node the share that its edges are weighed by: its own, or of what it only leads to the largest."""
    shares = [node.shares for node in graph.nodes]
    for edge in sorted(graph.edges, key=lambda edge: -edge.source):
        if graph.nodes[edge.source].kind in _CHAIN:
            pairs = zip(shares[edge.source], shares[edge.target], strict=True)
            shares[edge.source] = tuple(max(abs(mine), abs(theirs)) for mine, theirs in pairs)
    return shares


def _edge(graph: FlowGraph, edge: FlowEdge, dependent: list[tuple[float, ...]]) -> PageEdge:
    source, target = graph.nodes[edge.source], graph.nodes[edge.target]
    trunk = ("input", "norm", "qkv", "heads", "attention", "sum", "feed-forward")
    single = source.kind in ("row", "head", "value", "memory value", "bias")
    weights = dependent[edge.source if single else edge.target]
    always = source.kind in trunk and target.kind in trunk
    return PageEdge(edge.source, edge.target, edge.unit, edge.size, edge.shares, weights, always=always)


def _node(node: FlowNode, column: int, lane: int) -> PageNode:
    facts = [("layer", float(node.layer)), ("norm", node.norm)]
    if node.coefficient is not None:
        facts.append((_COEFFICIENTS[node.kind], node.coefficient))
    if node.tokens:
        facts.append(("entropy of what it says, nats", node.entropy))
    if node.own:
        facts.append(("brought by biases", node.own))
    if node.unseen:
        facts.append((f"norm of {node.unseen} not on the page", node.rest))
    return PageNode(
        column=column,
        lane=lane,
        label=visible(node.tokens[0]) if node.tokens else "",
        short=_short(node),
        name=f"layer {node.layer}: {node.name}",
        says=tuple(visible(token) for token in node.tokens),
        facts=tuple(facts),
        shares=node.shares,
        own_shares=node.own_shares,
        rest_shares=node.rest_shares,
        unseen=node.unseen,
        ranks=node.ranks,
        probabilities=node.probabilities,
    )


_COEFFICIENTS = {
    "key": "q k",
    "value": "attention",
    "row": "coefficient",
    "memory key": "coefficient",
    "memory value": "coefficient",
}


def _short(node: FlowNode) -> str:
    match node.kind:
        case "query" | "key" | "value":
            return f"H{node.head} {node.kind[0]}" + ("" if node.kind == "query" else f"@{node.index}")
        case "head":
            return f"head {node.head}"
        case "row":
            return f"W_O {node.head}.{node.index}"
        case "memory key" | "memory value":
            return f"{'key' if node.kind == 'memory key' else 'memory'} {node.index}"
        case "bias":
            return node.name
    return _TITLES[node.kind]
