# Noun: flow graph. The package `graphs` had this name in 0.2.0.
"""Former name of `tl_ffblock.graphs`. Importing it warns; the next version will not have it."""

import warnings

from tl_ffblock.attribution import Attribution, flow_graph
from tl_ffblock.graphs import (
    Edge as FlowEdge,
    FlowGraph,
    FlowNode,
    FlowVectors,
    GraphCertificate as FlowCertificate,
    GraphTarget as FlowTarget,
    Pruning,
    overlap,
    top_tokens,
)
from tl_ffblock.page import PageView

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
warnings.warn("tl_ffblock.flow is tl_ffblock.graphs now", DeprecationWarning, stacklevel=2)


def routes(result: Attribution, *, keep: float = 0.8, height: int = 820) -> PageView:
    """Page of the paths from the tokens to the target: `result.graph(keep).show(height=height)`."""
    page: PageView = result.graph(keep).show(height=height)
    return page
