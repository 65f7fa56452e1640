# Noun: the file of attribution graphs that Neuronpedia and circuit-tracer read.
"""Attribution graphs in Neuronpedia's file format: `metadata`, `qParams`, `nodes` and `links`.

Nodes here are tokens, heads, feed-forwards and the residual stream, not features of transcoders; `feature_type` and `clerp` have
their kind. A link's weight is the signed attribution of the target.
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import networkx as nx

from tl_ffblock.errors import InputError, MapFileError, brief
from tl_ffblock.files import read_json, write_atomically
from tl_ffblock.graphs.graph import PRUNED, Component, Graph
from tl_ffblock.signatures import real, strict

REQUIRED = {
    "metadata": ("slug", "scan", "prompt_tokens", "prompt"),
    "nodes": ("node_id", "feature", "layer", "ctx_idx", "feature_type", "jsNodeId", "clerp"),
    "links": ("source", "target", "weight"),
}
"""Required fields of the file, and of its nodes and links."""
_TYPES = {"token": "embedding", "target": "logit"}


@strict
def to_neuronpedia(graph: Graph, path: str | os.PathLike[str], *, slug: str = "graph") -> Path:
    """Write a graph of components at positions, for its first target. Pruned edges are omitted.

    Args:
        graph: From `ffb.attribute(..., of="graph").graph()`, or a flow graph.
        path: File to write.
        slug: Name of the graph in the file.

    Raises:
        InputError: if components have no positions, as in edge estimates and circuits, or if the graph has no target.
    """
    if not graph.targets:
        raise InputError(
            "this graph has no target, so its edges have no weights: pass target= to the call that returns it."
        )
    nodes = {number: node for number, node in enumerate(graph.nodes) if node.kind != PRUNED}
    without = [node.name for node in nodes.values() if node.position is None and node.kind != "target"]
    if without:
        raise InputError(
            f"{type(graph).__name__}: components such as {without[0]} have no position, which the file needs for every node. Write "
            "an attribution graph; for circuits use Circuit.to_mib_json."
        )
    end = 1 + max((node.layer for node in nodes.values() if node.layer is not None), default=0)
    links = [
        {"source": nodes[edge.source].label(), "target": nodes[edge.target].label(), "weight": edge.shares[0]}
        for edge in graph.edges
        if edge.source in nodes and edge.target in nodes and math.isfinite(edge.shares[0])
    ]
    payload = {
        "metadata": {
            "slug": slug,
            "scan": graph.model,
            "prompt_tokens": list(graph.labels),
            "prompt": "".join(graph.labels),
            "info": {"creator_name": "tl_ffblock", "rules": graph.rules, "target": graph.targets[0].name},
        },
        "qParams": {"linkType": "both", "pinnedIds": [], "clickedId": "", "supernodes": []},
        "nodes": [_node(node, end, graph.labels) for node in nodes.values()],
        "links": links,
    }
    return write_atomically(path, json.dumps(payload, allow_nan=False).encode("utf-8"))


def _node(node: Component, end: int, labels: tuple[str, ...]) -> dict[str, Any]:
    layer = "E" if node.kind == "token" else str(end if node.layer is None else node.layer)
    feature = next((number for number in (node.index, node.head) if number is not None), 0)
    return {
        "node_id": node.label(),
        "feature": feature,
        "layer": layer,
        "ctx_idx": len(labels) - 1 if node.position is None else node.position,
        "feature_type": _TYPES.get(node.kind, node.kind),
        "jsNodeId": f"{layer}_{node.label()}",
        "clerp": node.name if node.position is None else f"{node.name} at {labels[node.position]!r}",
        "activation": node.shares[0],
        "is_target_logit": node.kind == "target",
    }


@strict
def read_neuronpedia(path: str | os.PathLike[str]) -> nx.DiGraph:
    """Read a file in Neuronpedia's format as a directed graph: nodes by `node_id` with their fields, edges with `weight`.

    Args:
        path: A file from `to_neuronpedia`, circuit-tracer or Neuronpedia.

    Raises:
        MapFileError: if it is not such a file: a field is missing, a name is not unique, a link has no node, or a weight is not
            a finite number.
        FileNotFoundError: if there is no such file.
    """
    held = read_json(path)
    wrong = next(_faults(held), "")
    if wrong:
        raise MapFileError(f"{path} is not a graph for Neuronpedia: {wrong}.")
    graph = nx.DiGraph()
    graph.graph.update(held["metadata"])  # by `**` some names would be arguments
    graph.add_nodes_from((node["node_id"], node) for node in held["nodes"])
    graph.add_weighted_edges_from((link["source"], link["target"], float(link["weight"])) for link in held["links"])
    return graph


def _faults(held: Any) -> Iterator[str]:
    """Faults of a file's content, as text."""
    kinds = {"metadata": Mapping, "qParams": Mapping, "nodes": list, "links": list}
    for part, kind in kinds.items():
        if not isinstance(held, Mapping) or not isinstance(held.get(part), kind):
            yield f"it has no {part}"
    for part, fields in REQUIRED.items():
        for number, entry in enumerate([held[part]] if part == "metadata" else held[part]):
            missing = [name for name in fields if not isinstance(entry, Mapping) or name not in entry]
            if missing:
                yield f"{part}[{number}] has no {missing[0]}"
    named = [node["node_id"] for node in held["nodes"]]
    yield from (f"the node_id {brief(name)} is not a text" for name in named if not isinstance(name, str))
    names = set(named)
    if len(names) < len(named):
        yield "two nodes have one node_id"
    for link in held["links"]:
        if not all(isinstance(end, str) and end in names for end in (link["source"], link["target"])):
            yield f"a link leads from {brief(link['source'])} to {brief(link['target'])}, which are not both nodes"
        if real(link["weight"]) is None:
            yield f"a link has the weight {brief(link['weight'])}"
