"""Estimated edges between components: the graph of edge attribution patching (Syed et al. 2023).

Senders are the embeddings (the first residual stream), heads and feed-forwards. Receivers are the query, key and value inputs of
heads (of key-value heads, "L3KV1.k", if queries share them), feed-forwards and the target.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import ScopeKeyError, brief, renamed
from tl_ffblock.graphs.graph import REMAINING, Component, Graph, Names
from tl_ffblock.result import tabulated
from tl_ffblock.signatures import strict

_INPUTS = ("query", "key", "value")
SENDERS, RECEIVERS = ("resid", "head", "mlp", REMAINING), (*_INPUTS, "mlp", "target")
"""Kinds of components."""


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class EdgeGraph(Graph):
    """Edges from senders to receivers: estimates, measured effects, or the edges of a circuit."""

    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""
    clean_labels: tuple[str, ...] = ()
    """The tokens of the clean prompt alone; empty in older files, and where labels are not of a pair."""

    TRUNK = ()

    @property
    def identity(self) -> Mapping[str, str]:
        """What edges must have in common to be averaged."""
        quantity = self.targets[0].quantity if self.targets else ""
        return {"quantity": quantity, "model": self.model, "fingerprint": self.fingerprint}

    @property
    def senders(self) -> tuple[str, ...]:
        """Names of senders; "remaining", if present, is last."""
        return tuple(node.name for node in self.nodes if node.kind in SENDERS)

    @property
    def receivers(self) -> tuple[str, ...]:
        """Names of receivers, "target" last."""
        return tuple(node.name for node in self.nodes if node.kind in RECEIVERS)

    @property
    def values(self) -> Float[Tensor, "sender receiver *pos"]:
        """All edges as a matrix; 0 if there is no edge."""
        return self._matrix(self.weights[:, 0])

    @property
    def present(self) -> Bool[Tensor, "sender receiver"]:
        """Whether there is an edge."""
        return self._matrix(torch.ones(len(self.ends), dtype=torch.bool))

    def __getitem__(self, edge: tuple[str, str]) -> Float[Tensor, "*pos"]:
        """Value of one edge, `edges["L3H5", "L7.mlp"]`. Names in the format of `eap_name` are accepted too.

        Raises:
            ScopeKeyError: if there is no such sender or receiver, or no edge between them.
        """
        row, column = self.numbers(edge)
        if not self.present[row, column]:
            sender, receiver = self.senders[row], self.receivers[column]
            raise ScopeKeyError(
                f"no edge from {sender} to {receiver} in this graph: a receiver must come after its sender."
            )
        return self.values[row, column]

    def numbers(self, edge: tuple[str, str]) -> tuple[int, int]:
        """Row and column of an edge in `values`.

        Raises:
            ScopeKeyError: if there is no such sender or receiver.
        """
        senders, receivers = self.senders, self.receivers
        if not isinstance(edge, tuple) or len(edge) != 2:
            raise ScopeKeyError(
                f"{brief(edge)}: expected a sender and a receiver, edges[{senders[0]!r}, {receivers[-1]!r}]."
            )
        eap = {node.eap_name: node.name for node in self.nodes}
        sender, receiver = (eap.get(name, name) for name in edge)
        for name, names, what in ((sender, senders, "sender"), (receiver, receivers, "receiver")):
            if name not in names:
                shared = self._shared_input(name)
                meant = f"{name} is {shared} here, shared by its heads; " if shared else ""
                raise ScopeKeyError(
                    f"no {what} {brief(name)}: {meant}{what}s are {', '.join(names[:6])}, ... {names[-1]}."
                )
        return senders.index(sender), receivers.index(receiver)

    def _shared_input(self, name: str) -> str | None:
        """The key or value input that a head shares with others, by the name that it would have alone: "L1KV1.k" of "L1H3.k"."""
        head, _, kind = str(name).rpartition(".")
        for number, reader in self._reads():
            shared = self.nodes[number].name
            if self.nodes[reader].name == head and "KV" in shared and shared.endswith(f".{kind}"):
                return shared
        return None

    def _reads(self) -> Iterator[tuple[int, int]]:
        """Inputs of heads with the heads that read them: several if they share a key-value head."""
        heads: dict[int | None, list[int]] = defaultdict(list)
        for number, node in enumerate(self.nodes):
            if node.kind == "head":
                heads[node.layer].append(number)
        inputs = Counter((node.layer, node.kind) for node in self.nodes)
        for number, node in enumerate(self.nodes):
            if node.kind in _INPUTS and node.head is not None:
                each = len(heads[node.layer]) // inputs[node.layer, node.kind]
                yield from ((number, head) for head in heads[node.layer][node.head * each : (node.head + 1) * each])

    def _matrix(self, values: Tensor) -> Tensor:
        """Values of edges as a matrix [sender receiver]."""
        kinds = [node.kind for node in self.nodes]
        sides = torch.tensor([[kind in SENDERS for kind in kinds], [kind in RECEIVERS for kind in kinds]])
        known = sides[0, self.ends[:, 0]] & sides[1, self.ends[:, 1]]  # edges of "pruned" have neither
        numbers = sides.cumsum(dim=1) - 1
        matrix = values.new_zeros(*sides.sum(dim=1), *values.shape[1:])
        matrix[numbers[0, self.ends[:, 0]][known], numbers[1, self.ends[:, 1]][known]] = values[known]
        return matrix


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class EdgeEstimates(EdgeGraph):
    """Estimated changes of a target, in its units, if one receiver reads a sender's output of the corrupted prompt.

    Two equations are checked. With "remaining", the edges into a receiver sum to `<change of its input, derivative there>`, with the
    norm before it linearised. This is not the estimate of patching q, k or v (`attribution_patching(of="q")`). The edges out of a
    sender sum to the estimate of the sender.

    `certificate.streams` is the largest difference between the sum of senders' changes and the change of the residual stream,
    relative to the stream's norm. It is rounding if the stream is a plain sum. In Post-LN, and with norms after branches, it has the
    effect of norm scales, which is in "remaining", as are edits. `certificate.derivatives` is the largest difference between the sum of
    derivatives by all inputs of a layer, with the skip connection, and that by the residual stream: rounding. Labels are
    "clean→corrupted" where the two prompts differ.
    """

    at_positions: Float[Tensor, "edge pos"] | None = None
    """Weights by position, with `edges="positions"`."""

    UNPRUNED = ("at_positions",)

    target = renamed("target", "targets[0].name", lambda graph: graph.targets[0].name)
    streams = renamed("streams", "certificate.streams", lambda graph: graph.certificate.streams)
    derivatives = renamed("derivatives", "certificate.derivatives", lambda graph: graph.certificate.derivatives)

    @property
    def by_position(self) -> bool:
        """Whether there is one number per position."""
        return self.at_positions is not None

    @property
    def values(self) -> Float[Tensor, "sender receiver *pos"]:
        """All edges as a matrix, by position with `edges="positions"`; 0 if no edge is possible."""
        return self._matrix(self.weights[:, 0] if self.at_positions is None else self.at_positions)

    @property
    def possible(self) -> Bool[Tensor, "sender receiver"]:
        """Whether the sender's output reaches the receiver's input through the residual stream alone."""
        return self.present

    def to_dataframe(self, names: Names = "components") -> pd.DataFrame:
        """One row per edge, as in every graph; with positions one row per edge and position, and a column "token".

        Args:
            names: Format of component names.
        """
        frame = super().to_dataframe(names)
        if self.at_positions is None:
            return frame
        n = len(self.labels)
        frame = frame.loc[frame.index.repeat(n)].reset_index(drop=True)
        positions = torch.arange(n).repeat(len(self.ends))
        weights = self.at_positions.flatten()
        of_position = {
            "source_position": positions,
            "target_position": positions,
            "size": weights.abs(),
            "weight": weights,
        }
        return frame.assign(**tabulated(of_position), token=[*self.labels] * len(self.ends))


def edge_components(n_layers: int, n_heads: int, n_kv: int, *, fed: bool) -> list[Component]:
    """All senders and receivers in the order of computation, then "remaining" and the target.

    Args:
        n_layers: Number of layers.
        n_heads: Heads per layer.
        n_kv: Key-value heads per layer.
        fed: Whether the layers have feed-forwards.
    """
    nodes = [Component(name="L0.resid", kind="resid", layer=0)]
    for layer in range(n_layers):
        for kind, number in (("query", n_heads), ("key", n_kv), ("value", n_kv), ("head", n_heads)):
            form = f"L{layer}{'H' if number == n_heads else 'KV'}{{}}{'' if kind == 'head' else f'.{kind[0]}'}"
            nodes += [Component(name=form.format(head), kind=kind, layer=layer, head=head) for head in range(number)]
        if fed:
            nodes.append(Component(name=f"L{layer}.mlp", kind="mlp", layer=layer))
    return [*nodes, *(Component(name=name, kind=name) for name in (REMAINING, "target"))]
