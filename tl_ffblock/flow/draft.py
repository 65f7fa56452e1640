"""A flow graph while it is made: nodes and edges with their vectors, and the laws that they obey.

A node is entered in one way. Most are sums of vectors: what enters along edges, what the node brings itself (biases) and
what enters unseen (the rest) sum to it. The others are one vector times a coefficient, and what enters is a number:
numbers along edges and the node's own sum to that coefficient.
"""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.linear import CANCELLED

NodeKind: TypeAlias = Literal[
    "input",
    "norm",
    "qkv",
    "query",
    "key",
    "value",
    "head",
    "heads",
    "row",
    "bias",
    "attention",
    "sum",
    "memory key",
    "memory value",
    "feed-forward",
]
"""What a node is. `value` and `row` are weighed, as they are written; so is `memory value`."""
Unit: TypeAlias = Literal["residual", "query", "score", "attention", "activation"]
"""What an edge's size is measured in: a norm in the residual stream or in a query's space, `q k`, an attention weight, or a
neuron's coefficient. Sizes of different units say nothing of each other."""


@dataclass
class DraftNode:
    """A node with its vector, and the target's derivatives by what enters it."""

    kind: NodeKind
    layer: int
    name: str
    vector: Float[Tensor, " d"]
    by: Float[Tensor, "target d"] | None = None
    """By the node's vector; None where nothing of a target flows (queries and keys: the pattern is the run's)."""
    head: int | None = None
    index: int | None = None
    """A row's or neuron's number, a key's or value's position."""
    whole: Float[Tensor, " d"] | None = None
    """The model's own tensor, against which the sum is held; None where it makes no such tensor."""
    own: Float[Tensor, " d"] | None = None
    """What the node brings itself."""
    rest: Float[Tensor, " d"] | None = None
    """What enters it unseen."""
    unseen: int = 0
    """How many summands the rest is made of."""
    coefficient: float | None = None
    """By what a vector is multiplied, where the node is entered by a number."""
    own_number: float = 0.0
    largest: float = 0.0
    """The largest coefficient of its kind, by which one that is all but zero is measured."""
    rounding: float = 0.0
    """How far rounding may put the coefficient from an exact one."""
    by_coefficient: Float[Tensor, " target"] | None = None
    """By the coefficient; None where what enters carries nothing of a target: the node then brings its share itself."""


@dataclass
class DraftEdge:
    """What one node gives to another: a vector, or a number."""

    source: int
    target: int
    unit: Unit
    vector: Float[Tensor, " d"] | None = None
    number: float = 0.0

    @property
    def size(self) -> float:
        """The vector's norm, or the number."""
        return self.number if self.vector is None else float(self.vector.norm())


@dataclass
class Draft:
    """Nodes and edges in the order in which they were drawn: sources before what they enter."""

    n_targets: int
    position: int
    labels: tuple[str, ...]
    nodes: list[DraftNode] = field(default_factory=list)
    edges: list[DraftEdge] = field(default_factory=list)

    def add(self, node: DraftNode) -> int:
        """A node; its number."""
        self.nodes.append(node)
        return len(self.nodes) - 1

    def flow(self, source: int, target: int, vector: Float[Tensor, " d"], unit: Unit = "residual") -> None:
        """An edge that brings a vector."""
        self.edges.append(DraftEdge(source, target, unit, vector=vector))

    def scale(self, source: int, target: int, number: float, unit: Unit) -> None:
        """An edge that brings a number."""
        self.edges.append(DraftEdge(source, target, unit, number=number))

    def entering(self) -> list[list[DraftEdge]]:
        """The edges that enter each node."""
        of: list[list[DraftEdge]] = [[] for _ in self.nodes]
        for edge in self.edges:
            of[edge.target].append(edge)
        return of

    def share_of_node(self, node: DraftNode) -> Float[Tensor, " target"]:
        """`<vector, derivative>`, or coefficient times derivative: what of each target flows through the node."""
        if node.by is None and node.coefficient is not None:
            return self._of_number(node.coefficient, node)
        return self._share(node.vector, node.by)

    def share_of_edge(self, edge: DraftEdge) -> Float[Tensor, " target"]:
        """What of each target flows along an edge."""
        node = self.nodes[edge.target]
        if edge.vector is not None:
            return self._share(edge.vector, node.by)
        return self._of_number(edge.number, node)

    def share_brought(self, node: DraftNode) -> Float[Tensor, " target"]:
        """What a node brings itself: biases; the first input all, and an attention value, which another position's stream brings."""
        if node.coefficient is not None:
            return self.share_of_node(node) if node.by_coefficient is None else self._of_number(node.own_number, node)
        return self.share_of_node(node) if node.kind == "input" else self._share(node.own, node.by)

    def share_of_rest(self, node: DraftNode) -> Float[Tensor, " target"]:
        """What enters unseen."""
        return self._share(node.rest, node.by)

    def _of_number(self, number: float, node: DraftNode) -> Float[Tensor, " target"]:
        return (
            torch.zeros(self.n_targets, dtype=torch.float64)
            if node.by_coefficient is None
            else number * node.by_coefficient.cpu().double()
        )

    def _share(
        self, vector: Float[Tensor, " d"] | None, by: Float[Tensor, "target d"] | None
    ) -> Float[Tensor, " target"]:
        return (
            torch.zeros(self.n_targets, dtype=torch.float64)
            if vector is None or by is None
            else by.cpu().double() @ vector.cpu().double()
        )

    def error(self, node: DraftNode, entering: list[DraftEdge]) -> float:
        """What the sum of all that enters misses of the node beyond its rounding, relative to it; 0 for the first input, or an unknown score.

        Where a sum cancels, a thousandth of its largest summand stands for its size.
        """
        if node.kind == "input" or (node.kind == "key" and node.coefficient is None):
            return 0.0
        if node.coefficient is not None:
            numbers = torch.tensor([*(edge.number for edge in entering), node.own_number], dtype=torch.float64)
            return _relative(
                ((numbers.sum() - node.coefficient).abs() - node.rounding).clamp(min=0),
                abs(node.coefficient),
                numbers.abs().max().clamp(min=node.largest),
            )
        parts = [edge.vector for edge in entering if edge.vector is not None]
        parts += [part for part in (node.own, node.rest) if part is not None]
        whole = node.vector if node.whole is None else node.whole
        summands = torch.stack(parts)
        return _relative((summands.sum(dim=0) - whole).norm(), float(whole.norm()), summands.norm(dim=-1).max())


def _relative(miss: Tensor, size: float, largest: Tensor) -> float:
    size = max(size, CANCELLED * float(largest))
    return float(miss) / size if size else float(miss)
