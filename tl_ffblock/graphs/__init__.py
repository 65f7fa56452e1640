"""Graphs of components: flow graphs, attribution graphs, and edges of edge attribution patching and circuits."""

from tl_ffblock.graphs.attribution_graph import AttributionGraph
from tl_ffblock.graphs.circuit import Circuit
from tl_ffblock.graphs.edge_estimates import EdgeEstimates, EdgeGraph
from tl_ffblock.graphs.flow import FlowGraph, FlowNode, FlowVectors, Pruning, overlap, top_tokens
from tl_ffblock.graphs.graph import Component, Edge, Graph, GraphCertificate, GraphTarget
from tl_ffblock.graphs.neuronpedia import read_neuronpedia, to_neuronpedia

__all__ = [
    "AttributionGraph",
    "Circuit",
    "Component",
    "Edge",
    "EdgeEstimates",
    "EdgeGraph",
    "FlowGraph",
    "FlowNode",
    "FlowVectors",
    "Graph",
    "GraphCertificate",
    "GraphTarget",
    "Pruning",
    "overlap",
    "read_neuronpedia",
    "to_neuronpedia",
    "top_tokens",
]
