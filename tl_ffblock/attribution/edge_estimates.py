"""Edges between components, estimated: the labelled result, named as in edge attribution patching.

Senders are "input" (the residual stream at the first layer), heads "a3.h5", feed-forwards "m3"; receivers the query, key and
value inputs of heads "a3.h5<q>" (of key-value heads "a3.kv1<k>" where queries share them), feed-forwards "m3" and "target".
"""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pandas as pd
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError, brief
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.result import Result
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

REST = "rest"
"""The sender of what no component sent: the change of norm scales on the way, where the stream passes norms, and edits."""
TARGET = "target"
"""The receiver that reads the target: the final residual stream, "logits" elsewhere."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class EdgeTable(Result):
    """Edges from senders to receivers, without a word on what they are edges of."""

    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    values: Float[Tensor, "sender receiver *pos"]
    """Summed over positions, or by position where that was asked for; 0 where no edge is possible."""
    possible: Bool[Tensor, "sender receiver"]
    """Whether the sender's output reaches the receiver's input past all attention and feed-forwards."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class EdgeEstimates(EdgeTable):
    """Estimated changes of a target, in its units, if a receiver alone read a sender's output of the corrupted run.

    Laws, measured in every run: with "rest" the edges into a receiver sum to `<change of its input, derivative there>`; the
    edges out of a sender sum to the estimate of the sender itself.
    """

    labels: tuple[str, ...]
    """The tokens, "clean→corrupted" where they differ."""
    target: str
    rules: str
    streams: float
    """Largest distance of the senders' sum from the change of the residual stream where a receiver reads it, over the stream's
    norm. Rounding where the stream is a plain sum; in Post-LN and behind norms in branches what norm scales do, which is "rest"."""
    derivatives: float
    """Largest distance of the derivatives by all inputs of a layer, with what goes past, from that by the residual stream,
    over its norm: rounding."""
    model: str = "model"

    @property
    def by_position(self) -> bool:
        """Whether there is a number for every position."""
        return self.values.ndim == 3

    def __getitem__(self, edge: tuple[str, str]) -> Float[Tensor, "*pos"]:
        """One edge, `edges["a3.h5", "m7"]`.

        Raises:
            ScopeKeyError: if there is no such sender or receiver, or no way from one to the other.
        """
        if not isinstance(edge, tuple) or len(edge) != 2:
            raise ScopeKeyError(
                f"{brief(edge)}: expected a sender and a receiver, edges[{self.senders[0]!r}, {TARGET!r}]."
            )
        sender, receiver = edge
        for name, names, what in ((sender, self.senders, "sender"), (receiver, self.receivers, "receiver")):
            if name not in names:
                raise ScopeKeyError(f"no {what} {brief(name)}: {what}s are {', '.join(names[:6])}, ... {names[-1]}.")
        row, column = self.senders.index(sender), self.receivers.index(receiver)
        if not self.possible[row, column]:
            raise ScopeKeyError(f"no edge from {sender} to {receiver}: {receiver} does not come behind {sender}.")
        return self.values[row, column]

    def top(self, k: int = 10) -> list[tuple[str, str, float]]:
        """The k edges with the largest sums over positions by size: sender, receiver, estimate; none from the rest.

        Raises:
            InputError: if k is below 1.
        """
        if k < 1:
            raise InputError(f"k={k}: expected at least 1.")
        of_components = self._summed()[:-1]
        largest = of_components.abs().flatten().argsort(descending=True, stable=True)[:k].tolist()
        ends = (divmod(edge, len(self.receivers)) for edge in largest)
        return [
            (self.senders[row], self.receivers[column], float(of_components[row, column]))
            for row, column in ends
            if self.possible[row, column]
        ]

    def to_dataframe(self) -> pd.DataFrame:
        """One row a possible edge, and a position where there are any: sender, receiver, (position, token,) estimate."""
        rows, columns = (index.tolist() for index in self.possible.nonzero(as_tuple=True))
        ends = [(self.senders[row], self.receivers[column]) for row, column in zip(rows, columns, strict=True)]
        held = self.values[rows, columns]
        if not self.by_position:
            return pd.DataFrame(
                [(*end, value) for end, value in zip(ends, held.tolist(), strict=True)], columns=_COLUMNS
            )
        names = [(*end, at, token) for end in ends for at, token in enumerate(self.labels)]
        values = held.flatten().tolist()
        columns_of_positions = [*_COLUMNS[:2], "position", "token", _COLUMNS[2]]
        return pd.DataFrame([(*n, v) for n, v in zip(names, values, strict=True)], columns=columns_of_positions)

    def to_networkx(self, k: int = 200) -> Any:
        """The k largest edges as a directed multigraph: nodes are components, edges have `estimate` and the key "q", "k", "v" or "".

        A key-value head is a node of its own, with an edge of the key "shared" to each head that reads it.

        Raises:
            InputError: if networkx is not installed, or k is below 1.
        """
        try:
            import networkx as nx
        except ImportError as error:
            raise InputError("to_networkx needs networkx, which is not installed; run: pip install networkx") from error
        graph = nx.MultiDiGraph()
        for sender, receiver, estimate in self.top(k):
            node, read = _read_by(receiver)
            graph.add_edge(sender, node, key=read, estimate=estimate)
        for node, heads in self._sharing().items():
            if node in graph:
                graph.add_edges_from((node, head, "shared") for head in heads)
        return graph

    def _summed(self) -> Float[Tensor, "sender receiver"]:
        return self.values.sum(dim=-1) if self.by_position else self.values

    def _sharing(self) -> dict[str, list[str]]:
        """Key-value heads with the heads that read them."""
        kv_heads: dict[str, set[str]] = defaultdict(set)
        for node in (_read_by(receiver)[0] for receiver in self.receivers):
            if ".kv" in node:
                kv_heads[node.split(".")[0]].add(node)
        sharing: dict[str, list[str]] = {}
        for layer, nodes in kv_heads.items():
            heads = [sender for sender in self.senders if sender.startswith(f"{layer}.h")]
            each = len(heads) // len(nodes)
            sharing |= {f"{layer}.kv{kv}": heads[kv * each : (kv + 1) * each] for kv in range(len(nodes))}
        return sharing

    def summary(self) -> tuple[str, Mapping[str, object]]:
        rest = float(self._summed()[-1].abs().max())
        lines = {
            "text": shortened(self.labels),
            "laws": f"streams {scientific(self.streams)} · derivatives {scientific(self.derivatives)} · largest rest {scientific(rest)}",
        }
        lines |= {f"{sender} → {receiver}": significant(value) for sender, receiver, value in self.top(5)}
        n, from_rest = int(self.possible.sum()), int(self.possible[-1].sum())
        return f"{n} edges ({from_rest} from the rest) to {self.target} of {self.model}, rules={self.rules!r}", lines


_COLUMNS = ["sender", "receiver", "estimate"]


def _read_by(receiver: str) -> tuple[str, str]:
    """A receiver's node and which of its inputs it is: "a3.h5<q>" is ("a3.h5", "q")."""
    match = re.fullmatch(r"(.*)<([qkv])>", receiver)
    return (receiver, "") if match is None else (match[1], match[2])
