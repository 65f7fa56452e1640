# Noun: the file of attribution graphs that Neuronpedia and circuit-tracer read.
"""Attribution graphs in Neuronpedia's file format: `metadata`, `qParams`, `nodes` and `links`.

Nodes here are tokens, heads, feed-forwards and the residual stream, not features of transcoders; `feature_type` and `clerp` have
their kind. A link's weight is the signed attribution of the target.

What the readers expect, circuit-tracer 0.5.0 (its page and its class `Model`) and Neuronpedia's page of 2025:

- The label of a logit node is split at "(p=" and ")". The text between its first two quotation marks is drawn.
- Nodes of one layer with one `feature` are one feature: pages highlight them together, earlier ones at all positions, and omit them
  with their links if they are more than two thirds of the number of tokens.
- `Model` requires `transcoder_list` and `sg_pos`. The page finds a file by its slug, which is a part of an address.
"""

import json
import math
import os
import re
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
# Both pages set labels as HTML in a tooltip: a token such as <s> would be markup there.
_AS_TEXT = str.maketrans({"<": "\u2039", ">": "\u203a", "&": "\uff06"})


@strict
def to_neuronpedia(graph: Graph, path: str | os.PathLike[str], *, slug: str = "graph") -> Path:
    """Write a graph of components at positions, for its first target. Pruned edges are omitted.

    The target's label ends in "(p=nan)", since a target is not a token with a probability. Labels have ‹ and › for < and >. A
    flow graph, which has no node for its target, gets one without links. circuit-tracer's page shows no node of a prompt of one
    token.

    Args:
        graph: From `ffb.attribute(..., of="graph").graph()`, or a flow graph.
        path: File to write; circuit-tracer's page expects the name `<slug>.json`.
        slug: Name of the graph in the file: ASCII letters, digits, "-", "_" and ".".

    Raises:
        InputError: if components have no positions, as in edge estimates and circuits, if the graph has no target, if an
            attribution is not finite, or for another slug.
    """
    if not re.fullmatch(r"[\w.-]+", slug, re.ASCII):
        raise InputError(
            f"slug={brief(slug)}: expected ASCII letters, digits, '-', '_' and '.', since pages use it in an address."
        )
    nodes = _with_positions(graph)
    links: list[dict[str, Any]] = [
        {"source": nodes[edge.source].label(), "target": nodes[edge.target].label(), "weight": edge.shares[0]}
        for edge in graph.edges
        if edge.source in nodes and edge.target in nodes
    ]
    numbers = [
        *((node.label(), node.shares[0]) for node in nodes.values()),
        *((f"{link['source']} -> {link['target']}", link["weight"]) for link in links),
    ]
    if wrong := [(name, number) for name, number in numbers if not math.isfinite(number)]:
        raise InputError(f"the attribution of {wrong[0][0]} is {wrong[0][1]}: expected a finite number.")
    payload = {
        "metadata": {
            "slug": slug,
            "scan": graph.model,
            "transcoder_list": [],
            "prompt_tokens": list(graph.labels),
            "prompt": graph.prompt or "".join(graph.labels),
            "info": {"creator_name": "tl_ffblock", "rules": graph.rules, "target": graph.targets[0].name},
        },
        "qParams": {"linkType": "both", "pinnedIds": [], "clickedId": "", "supernodes": [], "sg_pos": ""},
        "nodes": list(_nodes(graph, nodes)),
        "links": links,
    }
    return write_atomically(path, json.dumps(payload, allow_nan=False).encode("utf-8"))


def _with_positions(graph: Graph) -> dict[int, Component]:
    """Nodes by number without "pruned", with a node for the target.

    Raises:
        InputError: if components have no positions, or if the graph has no target.
    """
    nodes = {number: node for number, node in enumerate(graph.nodes) if node.kind != PRUNED}
    without = [node.name for node in nodes.values() if node.position is None and node.kind != "target"]
    if without:
        raise InputError(
            f"{type(graph).__name__}: components such as {without[0]} have no position, which the file needs for every node. Write "
            "an attribution graph; for circuits use Circuit.to_mib_json."
        )
    if not graph.targets:
        raise InputError(
            "this graph has no target, so its edges have no weights: pass target= to the call that returns it."
        )
    if all(node.kind != "target" for node in nodes.values()):
        nodes[len(graph.nodes)] = Component(name="target", kind="target", shares=(graph.targets[0].value,))
    return nodes


def _nodes(graph: Graph, nodes: Mapping[int, Component]) -> Iterator[dict[str, Any]]:
    """Nodes of the file. Their numbers in the graph are their features, so that no two nodes are one feature."""
    last = max((node.layer for node in nodes.values() if node.layer is not None and node.kind != "target"), default=0)
    target = graph.targets[0].name.replace('"', "\u201d")
    for number, node in nodes.items():
        if node.kind == "target":
            layer, position, label = str(last + 1), _read_at(graph, number), f'Output "{target}" (p=nan)'
        else:
            position = node.position or 0
            layer, label = str(node.layer), f"{node.name} at {graph.labels[position]!r}"
        layer = "E" if node.kind == "token" else layer
        yield {
            "node_id": node.label(),
            "feature": number,
            "layer": layer,
            "ctx_idx": position,
            "feature_type": _TYPES.get(node.kind, node.kind),
            "jsNodeId": f"{layer}_{node.label()}",
            "clerp": label.translate(_AS_TEXT),
            "attribution": node.shares[0],
            "is_target_logit": node.kind == "target",
        }


def _read_at(graph: Graph, target: int) -> int:
    """Last position with an edge to the target; without edges that of the flow graph, or the last one."""
    sources = graph.ends[graph.ends[:, 1] == target, 0].tolist()
    positions = [graph.nodes[source].position for source in sources]
    known = [position for position in positions if position is not None]
    return max(known, default=int(getattr(graph, "position", len(graph.labels) - 1)))


@strict
def read_neuronpedia(path: str | os.PathLike[str]) -> nx.DiGraph:
    """Read a file in Neuronpedia's format as a directed graph: nodes by `node_id` with their fields, edges with `weight`.

    Args:
        path: A file from `to_neuronpedia`, circuit-tracer or Neuronpedia.

    Raises:
        MapFileError: if it is not such a file: a field is missing, a node_id or link occurs twice, a link has no node, or a
            weight is not a finite number.
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
    nodes: dict[str, Any] = {}
    for node in held["nodes"]:
        if (other := nodes.setdefault(node["node_id"], node)) is not node:
            kinds_of = (f"{each['feature_type']} of layer {each['layer']}" for each in (other, node))
            yield (
                f"two nodes have the node_id {brief(node['node_id'])}, {' and '.join(kinds_of)}, so their links cannot be told apart. "
                "circuit-tracer 0.5.0 gives an error node the node_id of a feature of layer 0 at the same position: prune the graph "
                "to only one of them"
            )
    linked: set[tuple[str, str]] = set()
    for link in held["links"]:
        ends = link["source"], link["target"]
        if not all(isinstance(end, str) and end in nodes for end in ends):
            yield f"a link leads from {brief(ends[0])} to {brief(ends[1])}, which are not both nodes"
        if ends in linked:
            yield f"two links lead from {brief(ends[0])} to {brief(ends[1])}"
        linked.add(ends)
        if real(link["weight"]) is None:
            yield f"a link has the weight {brief(link['weight'])}"
