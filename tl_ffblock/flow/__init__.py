"""What flows through one position of a model's layers, as a graph that adds up (Katz and Belinkov 2023)."""

from tl_ffblock.flow.flow_graph import flow_graph
from tl_ffblock.flow.graph import FlowCertificate, FlowEdge, FlowGraph, FlowNode, FlowTarget, FlowVectors
from tl_ffblock.flow.overlap import overlap, top_tokens
from tl_ffblock.flow.pruning import Pruning
from tl_ffblock.flow.routes import routes

__all__ = [
    "FlowCertificate",
    "FlowEdge",
    "FlowGraph",
    "FlowNode",
    "FlowTarget",
    "FlowVectors",
    "Pruning",
    "flow_graph",
    "overlap",
    "routes",
    "top_tokens",
]
