"""What flows through one position of some layers, as a graph in which what enters a node sums to it."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.graphs.graph import Component, Graph
from tl_ffblock.result import Values
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import strict, whole


@strict
@dataclass(frozen=True, kw_only=True, eq=False)
class FlowNode(Component):
    """A vector of a forward pass at one position, and its tokens.

    Its kind is "input", "norm", "qkv", "query", "key", "value", "head", "heads", "row" (of W_O), "bias", "attention", "sum",
    "neuron key", "neuron" or "mlp". Values, rows and neurons are weighed, as they are written.
    """

    words: str = ""
    """What it is, in words."""
    norm: float = 0.0
    coefficient: float | None = None
    """By what a row, a value or a neuron is weighed; `q k` of a key, where it is known."""
    tokens: tuple[str, ...] = ()
    """The tokens of the vector by the model's read-out, largest logit first; none where its vectors have no tokens."""
    entropy: float = float("nan")
    """Of that reading, in nats."""
    ranks: tuple[int, ...] = ()
    """Of each target's token: 1 is the top token, 0 where the target is no token."""
    probabilities: tuple[float, ...] = ()
    """Of each target's token in that reading; NaN where the target is no token."""
    own: float = 0.0
    """Norm of the node's intercept (biases), of a neuron's key that number."""
    rest: float = 0.0
    """Norm of the pruned contribution: what enters it along no edge."""
    unseen: int = 0
    """Of how many terms that is the sum."""


@strict
@dataclass(frozen=True, eq=False)
class FlowVectors(Values):
    """The vectors of a graph's nodes and edges; edges that are numbers have none."""

    nodes: Float[Tensor, "node d"]
    own: Float[Tensor, "node d"]
    rest: Float[Tensor, "node d"]
    edges: Float[Tensor, "edge d"]
    """Zero where an edge is a number."""


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class FlowGraph(Graph):
    """What flows through one position of some consecutive layers, from the first one's input to the last one's output.

    What enters a node sums to it: along the edges, what the node adds itself, and the rest, which is pruned. Sizes of edges are
    norms in the residual stream (unit "residual") or in a query's space ("query"), or numbers: `q k` ("score"; NaN where the
    model does not show its rotated vectors), an attention weight ("attention"), or a coefficient ("activation"). Sizes of
    different units cannot be compared with each other.
    """

    position: int
    layers: tuple[int, ...]
    nodes: tuple[FlowNode, ...]
    """In the order of the computation."""
    vectors: FlowVectors | None = None
    """None in a pruned graph."""

    UNPRUNED = ("vectors",)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Its size, the layers, the text, the position, the targets, and what was measured."""
        headline, lines = super().summary()
        first, last = self.layers[0], self.layers[-1]
        where = f"layer {first}" if first == last else f"layers {first} to {last}"
        at = {"position": f"{self.position} {visible(self.labels[self.position])!r}"}
        return f"{headline}, {where}", {"text": lines["text"], **at, **lines}


@strict
@dataclass(frozen=True)
class Pruning:
    """How much of each layer is shown; None shows all. What is not shown is summed in the rest of the node it enters.

    The numbers are those of Katz and Belinkov 2023.
    """

    heads: int | None = 10
    """Heads, by the norm of what they write."""
    values: int | None = 2
    """Source tokens of each head, by attention."""
    rows: tuple[int, int] | None = (18, 7)
    """Rows of W_O with the largest and the most negative coefficient times norm."""
    memories: tuple[int, int] | None = (18, 7)
    """Neurons of the feed-forward, likewise."""

    def __post_init__(self) -> None:
        """Refuse what is not a number of things.

        Raises:
            InputError: for a negative number.
        """
        for name, wanted in (("heads", 1), ("values", 1), ("rows", 2), ("memories", 2)):
            given = getattr(self, name)
            counts = [whole(count) for count in (given if isinstance(given, tuple) else (given,))]
            if given is not None and (len(counts) != wanted or any(count is None or count < 0 for count in counts)):
                raise InputError(
                    f"Pruning({name}={given!r}): expected {'a number' if wanted == 1 else 'two numbers'} from 0, or None for all."
                )

    @classmethod
    def off(cls) -> "Pruning":
        """Everything is shown: for small models, or to check a sum."""
        return cls(None, None, None, None)


def largest(sizes: Float[Tensor, " item"], count: int | None) -> Int[Tensor, " shown"]:
    """The items of the largest sizes, largest first; of None all, in their order."""
    if count is None:
        return torch.arange(len(sizes), device=sizes.device)
    return sizes.topk(min(count, len(sizes))).indices


def ends(signed: Float[Tensor, " item"], counts: tuple[int, int] | None) -> Int[Tensor, " shown"]:
    """The items of the largest numbers, then those of the smallest; none twice, of None all in their order."""
    if counts is None:
        return torch.arange(len(signed), device=signed.device)
    order = signed.argsort(descending=True, stable=True)
    top = min(counts[0], len(order))
    return torch.cat([order[:top], order[max(top, len(order) - counts[1]) :].flip(0)])
