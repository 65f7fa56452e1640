"""Routes from the tokens to the target through the whole model, as a page: what flows into a node flows out of it."""

from typing import TYPE_CHECKING

import numpy as np

from tl_ffblock._version import __version__
from tl_ffblock.attribution.graph import REST
from tl_ffblock.errors import InputError
from tl_ffblock.page import GraphPage, PageEdge, PageNode, PageTarget, PageView
from tl_ffblock.result import views
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from tl_ffblock.attribution import Attribution, AttributionGraph

_MEANING = (
    "Routes of the target's share from the tokens through all layers: what flows into a node, and its own bias, flows out of "
    "it. Rows are positions, columns layers: the residual stream at a layer's input, then heads, the stream between, and the "
    "feed-forward; where a feed-forward reads the layer's input, heads and feed-forward. Patterns and norm scales are those of "
    "the run, so that what only decides where a head looks has no route."
)


@strict
def routes(result: "Attribution", *, keep: float = 0.8, height: int = 820) -> PageView:
    """The whole model as a page: routes from the tokens to the target, conserved, pruned to a stated share.

    Args:
        result: Of `ffb.attribute(..., of=("graph", ...))`.
        keep: The part of the sum of all edges' sizes that is on the page, as in `Attribution.graph`.
        height: Pixels of the frame in a notebook.

    Raises:
        ScopeKeyError: if the result was made without "graph".
        InputError: for rules that are not complete, or another `keep`.
    """
    if not hasattr(result, "graph"):
        raise InputError(f'result is a {type(result).__name__}: expected what ffb.attribute(..., of="graph") makes.')
    view: PageView = views().page_view(routes_page(result, result.graph(keep), keep), height)
    return view


def routes_page(result: "Attribution", graph: "AttributionGraph", keep: float) -> GraphPage:
    """Everything that a page of routes shows.

    Args:
        result: What was attributed.
        graph: Its graph.
        keep: The part that was asked for.
    """
    n = len(graph.labels)
    through, hidden = _through(graph), _hidden(graph)
    shown = [number for number, node in enumerate(graph.nodes) if node != REST]
    place = {number: at for at, number in enumerate(shown)}
    return GraphPage(
        model=result.model,
        heading=f"routes to {result.target}, {_percent(graph.kept)} of all edges' sizes",
        tokens=tuple(visible(label) for label in graph.labels),
        meaning=_MEANING,
        columns=_headings(graph),
        lanes=n + 1,
        nodes=tuple(_node(graph, number, float(through[number]), hidden) for number in shown),
        edges=tuple(
            PageEdge(place[source], place[target], "share", abs(share), (share,), (share,))
            for source, target, share in zip(
                graph.source.tolist(), graph.target.tolist(), graph.share.tolist(), strict=True
            )
            if source in place and target in place
        ),
        targets=(PageTarget(result.target, result.value),),
        certificate=(
            f"{result.certificate or 'no certificate: a difference or a mean'} · kept {_percent(graph.kept)} of the sizes of all "
            f"edges (asked {_percent(keep)}); the others are in the cards"
        ),
        provenance={"tl_ffblock": __version__, "rules": result.rules},
        widths={"share": "size of the share (square root)"},
        start=place[_largest_head(graph, through)],
    )


def _percent(part: float) -> str:
    return f"{100 * part:.3g} %"


def _through(graph: "AttributionGraph") -> np.ndarray:
    """What flows through each node: what enters and its own; of a token what leaves it."""
    flow = graph.own.copy()
    np.add.at(flow, graph.target, graph.share)
    tokens = np.array([node[0] == "token" for node in graph.nodes])
    leaving = np.zeros(len(flow))
    np.add.at(leaving, graph.source, graph.share)
    return np.where(tokens, leaving, flow)


def _largest_head(graph: "AttributionGraph", through: np.ndarray) -> int:
    """The head through which most flows, since heads lead from row to row; where there is none, the target."""
    kinds = np.array([node[0] for node in graph.nodes])
    chosen = kinds == ("head" if "head" in kinds else "target")
    return int(np.where(chosen, np.abs(through), -1.0).argmax())


def _columns(graph: "AttributionGraph") -> tuple[str, ...]:
    """Kinds of a layer's nodes that stand in a column of their own, in this order."""
    serial = any(node[0] == "mid" for node in graph.nodes)
    return ("stream", "head", "mid", "mlp") if serial else ("stream", "head")


def _headings(graph: "AttributionGraph") -> tuple[str, ...]:
    n_layers = next(layer for kind, layer, *_ in graph.nodes if kind == "target")
    columns = _columns(graph)
    names = {"stream": "into\nlayer {}", "head": "layer {}\nheads", "mid": "layer {}\nbetween", "mlp": "layer {}\nFF"}
    if "mlp" not in columns:
        names["head"] = "layer {}\nheads, FF"
    of_layers = (names[kind].format(layer) for layer in range(n_layers) for kind in columns)
    return ("tokens", *of_layers, "output", "target")


def _hidden(graph: "AttributionGraph") -> tuple[np.ndarray, np.ndarray]:
    """Of every node what enters it from edges that are not on the page, and what leaves it along such edges."""
    entering, leaving = np.zeros(len(graph.own)), np.zeros(len(graph.own))
    if REST in graph.nodes:
        rest = graph.nodes.index(REST)
        from_rest, to_rest = graph.source == rest, graph.target == rest
        np.add.at(entering, graph.target[from_rest], graph.share[from_rest])
        np.add.at(leaving, graph.source[to_rest], graph.share[to_rest])
    return entering, leaving


def _node(
    graph: "AttributionGraph",
    number: int,
    flow: float,
    hidden: tuple[np.ndarray, np.ndarray],
) -> PageNode:
    kind, layer, head, position = graph.nodes[number]
    token = visible(graph.labels[position]) if position >= 0 else ""
    at = f"of {token} at {position}"
    columns = _columns(graph)
    first = 1 + len(columns) * layer
    behind = columns.index("mlp") if "mlp" in columns else columns.index("head")
    column, short, name = {
        "token": (0, f"{position}", f"token {token} at {position}"),
        "stream": (first, f"stream {position}", f"residual stream {at}, into layer {layer}"),
        "head": (first + 1, f"head {head}", f"layer {layer}, head {head} {at}"),
        "mid": (
            first + 2,
            f"between {position}",
            f"residual stream {at}, between heads and feed-forward of layer {layer}",
        ),
        "mlp": (first + behind, "FF", f"layer {layer}, feed-forward {at}"),
        "target": (first + 1, "target", "the target"),
    }[kind]
    entering, leaving = (float(flows[number]) for flows in hidden)
    facts = [("flows through", flow)] + ([("leaves along edges not on this page", leaving)] if leaving else [])
    return PageNode(
        column=column,
        lane=position if position >= 0 else len(graph.labels),
        label=token if kind in ("token", "stream", "mid") else "",
        short=short,
        name=name,
        says=(),
        facts=tuple(facts),
        shares=(flow,),
        own_shares=(float(graph.own[number]),),
        rest_shares=(entering,),
        unseen=int(entering != 0),
    )
