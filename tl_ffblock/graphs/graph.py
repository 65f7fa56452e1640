"""One graph: components of a model at positions, and weighed edges between them.

Flow graphs, attribution graphs and edge estimates are such graphs. A component has one name in all of them:

    L23H3    head               L23H3.q .k .v   its inputs, L23KV1.k .v where heads share them    L23H3.z12   row of its W_O
    L23N102  neuron             L23N102.k       its key                                           L23.mlp     feed-forward
    L23.resid                   the residual stream at the layer's input, L23.resid_mid between attention and feed-forward

so that their tables join on component and position.
"""

import heapq
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import networkx as nx
import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError, brief, warn
from tl_ffblock.files import regular_file
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.result import One, Result, Values, tabulated
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

Names: TypeAlias = Literal["components", "eap"]
"""How components are written: "L23H3.q", or as programs for edge attribution patching do, "a23.h3<q>"."""
PRUNED, REMAINING = "pruned", "remaining"
"""Kind and name of the node that all edges lead through that were not kept, and of the sender of what no component sent."""
_BY_TARGET = {
    "shares": "value",
    "own_shares": "intercept",
    "rest_shares": "rest of value",
    "ranks": "rank",
    "probabilities": "probability",
}
"""Fields of nodes that have a number for each target, and their columns."""
_EAP = {
    r"L(\d+)H(\d+)": r"a\1.h\2",
    r"L(\d+)H(\d+)\.([qkv])": r"a\1.h\2<\3>",
    r"L(\d+)KV(\d+)\.([kv])": r"a\1.kv\2<\3>",
    r"L(\d+)\.mlp": r"m\1",
    r"L0\.resid": "input",
    "remaining": "rest",
}

G = TypeVar("G", bound="Graph")


_NO_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
"""Characters that XML cannot hold; texts of tokens may."""


def _for_xml(row: Mapping[Any, Any]) -> dict[str, Any]:
    """A row of a table whose texts a GraphML or GEXF file can hold: other characters as their escapes."""
    return {
        name: _NO_XML.sub(lambda found: ascii(found[0])[1:-1], value) if isinstance(value, str) else value
        for name, value in row.items()
    }


@strict
@dataclass(frozen=True, kw_only=True, eq=False)
class Component(Values):
    """A part of a model, at a position or at all of them, and what of each target flows through it."""

    name: str
    """Such as "L23H3", "L23H3.q", "L23.mlp" or "L23N1024"."""
    kind: str
    """Such as "head", "query", "mlp" or "neuron"; "target"; "pruned"."""
    layer: int | None = None
    head: int | None = None
    index: int | None = None
    """A neuron's or row's number."""
    position: int | None = None
    """None where it is of all positions."""
    shares: tuple[float, ...] = ()
    """What of each target flows through it, in the target's units."""
    own_shares: tuple[float, ...] = ()
    """Its intercept: what of that it adds itself (biases)."""
    rest_shares: tuple[float, ...] = ()
    """What of that enters it along no edge of the graph."""

    def label(self, names: Names = "components") -> str:
        """Its name, with the position where it has one: "L23H3@4"."""
        name = self.name if names == "components" else self.eap_name
        return name if self.position is None else f"{name}@{self.position}"

    @property
    def eap_name(self) -> str:
        """Its name in programs for edge attribution patching, for exports: "a23.h3<q>", "m7", "input"."""
        found = (re.sub(form, other, self.name) for form, other in _EAP.items() if re.fullmatch(form, self.name))
        return next(found, self.name)


@strict
@dataclass(frozen=True)
class Edge:
    """An edge of a graph as one value."""

    source: int
    target: int
    """Numbers of nodes."""
    size: float
    unit: str
    shares: tuple[float, ...]
    """Its weight for each target."""


@strict
@dataclass(frozen=True, eq=False)
class GraphTarget(Values):
    """A number of a forward pass that is attributed."""

    name: str
    value: float
    token: str | None = None
    """The token whose rank and probability nodes of a flow graph have; None where the target is none."""
    quantity: str = ""
    """What kind of number it is, "logit difference"; empty where it is not known."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class GraphCertificate(Values):
    """Measured errors of a graph by their names, each 0 up to rounding; each is an attribute, too."""

    errors: Mapping[str, float]
    rtol: float
    """What was accepted."""
    worst: str = ""
    """The component of the largest error, where it is known."""
    source: str = ""
    """The certificate of the attribution that the graph is made of."""

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name == "errors" or name not in self.errors:
            raise AttributeError(name)
        return self.errors[name]

    def __repr__(self) -> str:
        worst = f" ({self.worst})" if self.worst else ""
        measured = [f"{name} {scientific(error)}" for name, error in self.errors.items()]
        measured[:1] = [error + worst for error in measured[:1]]
        return " · ".join(filter(None, [self.source, *measured]))


def renamed(old: str, new: str, read: Callable[[Any], Any]) -> property:
    """An attribute under its name of version 0.2, which is deprecated."""

    def attribute(graph: Any) -> Any:
        warn(f"{type(graph).__name__}.{old} is now {new}.", DeprecationWarning)
        return read(graph)

    return property(attribute)


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Graph(Result):
    """Components and weighed edges between them. Nodes are in the order of the computation, sources before what they enter."""

    model: str
    labels: tuple[str, ...]
    """The tokens by position."""
    targets: tuple[GraphTarget, ...]
    nodes: tuple[Component, ...]
    ends: Int[Tensor, "edge 2"]
    """Numbers of the nodes that each edge leads from and to."""
    weights: Float[Tensor, "edge target"]
    """Of each edge for each target, signed, in the target's units."""
    sizes: Float[Tensor, " edge"]
    """In the edge's unit; the weight's size where there are no units."""
    certificate: GraphCertificate
    units: tuple[str, ...] = ()
    """Of each edge's size; none where all are the target's."""
    kept: float = 1.0
    """Sum of sizes of the weights of the edges that were kept, over that of all edges there were."""
    rules: str = "path"
    """The local rules of the derivatives: "path", "patching" or "gradient"."""

    UNPRUNED: ClassVar[tuple[str, ...]] = ()
    """Fields of a class that a pruned graph does not have."""
    TRUNK: ClassVar[tuple[str, ...]] = ("token", "resid", "resid_mid", "target")
    """Kinds of nodes between which most of the largest edges lead, which `top` does not name."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges, one value each."""
        units = self.units or ("share",) * len(self.sizes)
        columns = zip(self.ends.tolist(), self.sizes.tolist(), units, self.weights.tolist(), strict=True)
        return tuple(Edge(a, b, size, unit, tuple(shares)) for (a, b), size, unit, shares in columns)

    @property
    def intercepts(self) -> Float[Tensor, "node target"]:
        """What each node adds itself."""
        return torch.tensor([node.own_shares for node in self.nodes], dtype=torch.float64)

    def nodes_dataframe(self, names: Names = "components") -> pd.DataFrame:
        """One row per node: component, kind, layer, head, index, position (-1 for none), token, value, intercept, and more.

        Where there are several targets, "value of" and "intercept of" each.

        Args:
            names: How components are written.
        """
        frame = pd.DataFrame([vars(node) for node in self.nodes]).rename(columns={"name": "component"})
        if names == "eap":
            frame["component"] = [node.eap_name for node in self.nodes]
        frame = frame.apply(lambda column: column.astype(float) if column.isna().all() else column)
        numbers = ["layer", "head", "index", "position"]
        frame[numbers] = frame[numbers].astype(float).fillna(-1).astype(int)
        frame["token"] = [self.labels[position] if position >= 0 else "" for position in frame["position"]]
        if "tokens" in frame:
            frame["tokens"] = frame["tokens"].map(" ".join)
        for column, name in _BY_TARGET.items():
            if column in frame:
                table = pd.DataFrame(frame.pop(column).tolist())
                frame = frame.join(table.set_axis(self._by_target(name)[: table.shape[1]], axis=1))
        return frame

    def to_dataframe(self, names: Names = "components") -> pd.DataFrame:
        """One row per edge: source and target with position, kind, layer and head; unit, size, weight.

        The same columns in all graphs, so that tables join on component and position; with several targets "weight of" each.

        Args:
            names: How components are written.
        """
        nodes = self.nodes_dataframe(names)[["component", "position", "kind", "layer", "head"]]
        sides = zip(("source_", "target_"), self.ends.T.numpy(), strict=True)
        ends = [nodes.iloc[numbers].add_prefix(end).reset_index(drop=True) for end, numbers in sides]
        return pd.concat([*ends, self._measured()], axis=1).rename(columns=lambda name: name.removesuffix("_component"))

    def to_networkx(self, k: int | None = None, *, names: Names = "components") -> nx.DiGraph:
        """A directed graph of labels such as "L23H3@4", with nodes' and edges' columns as attributes.

        All are numbers and text, so that networkx can write it as GraphML and GEXF. In edge estimates an input of a head leads
        on to the heads that read it.

        Args:
            k: How many edges, the largest; None means all.
            names: How components are written.

        Raises:
            InputError: if k is below 1.
        """
        graph = nx.DiGraph(model=self.model, targets=", ".join(target.name for target in self.targets))
        labels, edges = [node.label(names) for node in self.nodes], self._measured().to_dict("records")
        rows = map(_for_xml, self.nodes_dataframe(names).to_dict("records"))
        graph.add_nodes_from(zip(labels, rows, strict=True))
        for edge in range(len(edges)) if k is None else self._top(k):
            graph.add_edge(*(labels[end] for end in self.ends[edge].tolist()), **_for_xml(edges[edge]))
        read = [(labels[source], labels[head]) for source, head in self._reads() if graph.degree(labels[source])]
        graph.add_edges_from(read, unit="input", size=0.0)
        graph.remove_nodes_from([] if k is None else list(nx.isolates(graph)))
        return graph

    def to_dict(self) -> dict[str, Any]:
        """Model, labels and targets, and the rows of both tables, "nodes" and "edges", as JSON can hold them; NaN is null."""
        tables = {"nodes": self.nodes_dataframe(), "edges": self.to_dataframe()}
        rows = {name: t.astype(object).where(t.notna(), None).to_dict("records") for name, t in tables.items()}
        targets = {target.name: target.value for target in self.targets}
        return {"model": self.model, "labels": list(self.labels), "targets": targets, **rows}

    def top(self, k: int = 10) -> list[tuple[str, str, float]]:
        """The k largest edges by the first target's weight: labels of source and target, and the weight.

        None of what is pruned or remains, nor of attribution graphs those from the residual stream to itself.

        Raises:
            InputError: if k is below 1.
        """
        largest = [(self.ends[edge].tolist(), float(self.weights[edge, 0])) for edge in self._top(k, self.TRUNK)]
        return [
            (self.nodes[source].label(), self.nodes[target].label(), weight) for (source, target), weight in largest
        ]

    def _top(self, k: int, trunk: tuple[str, ...] = ()) -> list[int]:
        """Numbers of the largest edges that do not touch what is pruned or remains, nor lead between some kinds of nodes."""
        if k < 1:
            raise InputError(f"k={k}: expected at least 1.")
        self._refuse_without_target("ordered")
        kinds = np.array([node.kind for node in self.nodes])[self.ends.numpy()]
        hidden = np.isin(kinds, (PRUNED, REMAINING)).any(axis=1) | np.isin(kinds, trunk).all(axis=1)
        sizes = np.where(hidden, -1.0, self.weights[:, 0].abs().numpy())
        return np.argsort(-sizes, kind="stable")[: min(k, int((~hidden).sum()))].tolist()

    def prune(self: G, keep: float = 0.9) -> G:
        """The graph of the largest edges whose weights' sizes are a part of the sum over all edges, for the first target.

        The other edges lead through one node, "pruned", so that as much enters and leaves every node as before; nodes that
        only these touch are in it, but no token and no target. `kept` says what was kept.

        Args:
            keep: Which part of the sum is kept, above 0 and at most 1.

        Raises:
            InputError: for another `keep`, or if the graph has no target.
        """
        if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
            raise InputError(f"keep={brief(keep)}: expected a part of the sizes of all edges, above 0 and at most 1.")
        self._refuse_without_target("pruned")
        rest = next((number for number, node in enumerate(self.nodes) if node.kind == PRUNED), len(self.nodes))
        known = (self.ends != rest).all(dim=1).numpy()
        sizes = np.where(known, self.weights[:, 0].abs().numpy(), 0.0)
        order, total = np.argsort(-sizes, kind="stable"), max(float(sizes.sum()), 1e-300)
        enough = int(np.searchsorted(np.cumsum(sizes[order]) / total, keep - 1e-12)) + 1
        chosen = np.full(len(sizes), keep == 1)  # or rounding would drop the smallest
        chosen[order[:enough]] = True
        chosen &= known
        return self._through_rest(rest, chosen, self.kept * float(sizes[chosen].sum() / total))

    def _through_rest(self: G, rest: int, chosen: np.ndarray, kept: float) -> G:
        """Edges that were not chosen, and nodes that only these touch, in one node."""
        ends, weights, left = self.ends.numpy(), self.weights.numpy(), np.flatnonzero(~chosen)
        stays = np.array([node.kind in ("token", "target") for node in self.nodes] + [False])
        stays[ends[chosen]] = True
        mapped = np.where(stays, np.arange(len(stays)), rest)[ends[left]]
        pairs = np.concatenate([np.where([True, False], mapped, rest), np.where([False, True], mapped, rest)])
        between = pairs[:, 0] != pairs[:, 1]
        number, distinct = pd.factorize(pairs[between] @ (len(stays), 1))
        sums = np.zeros((len(distinct), weights.shape[1]), weights.dtype)
        np.add.at(sums, number, np.concatenate([weights[left]] * 2)[between])
        new_ends = np.stack(np.divmod(distinct, len(stays)), axis=1)
        own = self.intercepts.numpy()[~stays[: len(self.nodes)]].sum(axis=0)
        through = own + sums[new_ends[:, 1] == rest].sum(axis=0)
        fields: dict[str, Any] = {"own_shares": tuple(own.tolist()), "shares": tuple(through.tolist())}
        pruned = type(self.nodes[0])(name=PRUNED, kind=PRUNED, **fields)
        stays[rest] = len(left)
        there = [*self.nodes[:rest], pruned, *self.nodes[rest + 1 :]]
        changed: dict[str, Any] = {
            "nodes": tuple(node for node, stay in zip(there, stays[: len(there)], strict=True) if stay),
            "ends": torch.from_numpy((np.cumsum(stays) - 1)[np.concatenate([ends[chosen], new_ends])]),
            "weights": torch.from_numpy(np.concatenate([weights[chosen], sums])),
            "sizes": torch.from_numpy(np.concatenate([self.sizes.numpy()[chosen], np.abs(sums[:, 0])])),
            "units": (*np.array(self.units)[chosen].tolist(), *["share"] * len(sums)) if self.units else (),
            "kept": kept,
        }
        return replace(self, **(changed | dict.fromkeys(self.UNPRUNED)))

    def paths(self, k: int = 10) -> list[tuple[float, tuple[str, ...]]]:
        """The k paths through which most of the first target comes, each with its part and the labels of its nodes.

        A path's part is the product over its edges of the size of the weight over that of all that enters the node, as in
        circuit-tracer's influence. It leads from a node that no weight enters to the target, or to the last node.

        Raises:
            InputError: if k is below 1, or the graph has no target.
        """
        if k < 1:
            raise InputError(f"k={k}: expected at least 1.")
        self._refuse_without_target("followed")
        into: dict[int, list[tuple[float, int]]] = defaultdict(list)
        for (source, target), weight in zip(self.ends.tolist(), self.weights[:, 0].tolist(), strict=True):
            into[target].append((abs(weight), source))
        for source, head in self._reads():
            into[head].append((abs(self.nodes[source].shares[0]), source))
        best: dict[int, list[tuple[float, tuple[int, ...]]]] = {}
        shown = [number for number, node in enumerate(self.nodes) if node.kind != PRUNED]
        for number in shown:
            besides = self.nodes[number].own_shares[:1] + self.nodes[number].rest_shares[:1]
            total = sum(weight for weight, _ in into[number]) + sum(map(abs, besides))
            found = [
                (part * weight / total, (*path, number))
                for weight, source in into[number]
                for part, path in (best.get(source, ()) if weight else ())
            ]
            best[number] = heapq.nlargest(k, found) or [(1.0, (number,))]
        end = next((number for number in shown if self.nodes[number].kind == "target"), shown[-1])
        return [(part, tuple(self.nodes[number].label() for number in path)) for part, path in best[end]]

    def _reads(self) -> Iterable[tuple[int, int]]:
        """Inputs of heads with the heads that read them, where nodes are inputs."""
        return ()

    def _refuse_without_target(self, what: str) -> None:
        if not self.targets:
            raise InputError(f"a graph without a target cannot be {what}: give `target=` where it is made.")

    def _measured(self) -> pd.DataFrame:
        """The columns of edges beside their ends."""
        weights = dict(zip(self._by_target("weight"), self.weights.T, strict=True))
        return tabulated({"unit": self.units or ("share",) * len(self.sizes), "size": self.sizes, **weights})

    def _by_target(self, name: str) -> list[str]:
        """The columns of a table by target; the name alone where there is one, or scores of edges without a target."""
        return [name] if self.weights.shape[1] == 1 else [f"{name} of {target.name}" for target in self.targets]

    @strict
    def faults(self) -> Iterator[str]:
        """Edges from or to nodes that there are not, and shares of other targets."""
        if self.ends.numel() and not 0 <= int(self.ends.min()) <= int(self.ends.max()) < len(self.nodes):
            yield f"an edge leads to node {int(self.ends.max())} of {len(self.nodes)}"
        if len(self.targets) > 0 and any(len(node.shares) not in (0, len(self.targets)) for node in self.nodes):
            yield f"a node has shares of other than {len(self.targets)} targets"
        if self.units and len(self.units) != len(self.ends):
            yield f"{len(self.units)} units of {len(self.ends)} edges"

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Its size, the text, the targets, and the largest edges that enter or leave a head or a feed-forward."""
        headline = f"{len(self.nodes)} nodes, {len(self.ends)} edges of {self.model}, rules={self.rules!r}"
        targets = ", ".join(f"{target.name} = {target.value:.4g}" for target in self.targets) or "no target"
        lines = {"text": shortened(self.labels), "targets": targets, "certificate": self.certificate}
        if self.kept < 1:
            lines["kept"] = f"{self.kept:.1%} of the sizes of all edges; the others lead through {PRUNED!r}"
        if self.targets:
            lines["largest"] = " · ".join(f"{a} -> {b} {significant(weight)}" for a, b, weight in self.top(5))
        return headline, lines

    @classmethod
    def load(cls: type[One], path: str | PathLike[str]) -> One:
        """Read a file that `save` wrote.

        Raises:
            MapFileError: if the file is not such a graph, was changed, or is of another version.
            FileNotFoundError: if there is no such file.
        """
        with regular_file(path).open("rb") as file:
            # The first byte of a safetensors file is of its header's length, a multiple of eight, and no bracket.
            if file.read(1) in (b"{", b"["):
                raise MapFileError(
                    f"{path} is JSON: flow graphs were saved so by tl_ffblock 0.2.0 (format version 1), which this version does not "
                    "read; make it again."
                )
        return super().load(path)
