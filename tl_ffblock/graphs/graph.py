"""Graphs with components of a model at positions as nodes, and weighted edges.

Flow graphs, attribution graphs and edge estimates are such graphs. A component has the same name in all of them, so that their
tables join on component and position:

    L23H3    head               L23H3.q .k .v   its inputs, L23KV1.k .v where heads share them    L23H3.z12   row of its W_O
    L23N102  neuron             L23N102.k       its key                                           L23.mlp     feed-forward
    L23.resid                   the residual stream at the layer's input, L23.resid_mid between attention and feed-forward
"""

import heapq
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import networkx as nx
import numpy as np
import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, MapFileError, brief
from tl_ffblock.files import regular_file
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.result import One, Result, Values, tabulated
from tl_ffblock.results.tokens import shortened
from tl_ffblock.signatures import strict

Names: TypeAlias = Literal["components", "eap"]
"""Format of component names: "L23H3.q", or "a23.h3<q>" as in edge attribution patching programs."""
_MEASURED = {
    "sums": "vector sum",
    "shares": "attribution sum",
    "layers": "layer vjp",
    "propagation": "backward pass",
    "streams": "residual stream sum",
    "derivatives": "derivative sum",
    "receivers": "receiver",
    "named biases": "bias sum",
    "full": "full circuit",
    "empty": "empty circuit",
}
"""Errors of a certificate as its line names them: "worst vector sum error 1.7e-7"."""
PRUNED, REMAINING = "pruned", "remaining"
"""Kind and name of the node for all pruned edges, and of the sender for changes that have no sender."""
_BY_TARGET = {
    "shares": "value",
    "own_shares": "intercept",
    "rest_shares": "rest of value",
    "ranks": "rank",
    "probabilities": "probability",
}
"""Fields of nodes with one number per target, and their columns."""
_BY_TOKEN = ("rank", "probability")
"""Columns whose numbers are of the target's token: that of the first answer."""
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
"""Characters that XML cannot represent, but texts of tokens may have."""


def _attributes(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows of a table with names and values that JSON, GraphML, GEXF and GML can represent.

    Numbers that are not finite are omitted. Names have underscores for spaces and signs, and a number if two would be equal.
    Characters of texts that XML cannot represent are escaped.
    """
    names: list[str] = []
    for column in table:
        name = re.sub(r"\W+", "_", str(column), flags=re.ASCII).strip("_")
        same = sum(bool(re.fullmatch(rf"{name}(__\d+)?", other)) for other in names)
        names.append(f"{name}__{same + 1}" if same else name)
    return [
        {
            name: _NO_XML.sub(lambda found: ascii(found[0])[1:-1], value) if isinstance(value, str) else value
            for name, value in row.items()
            if not isinstance(value, float) or math.isfinite(value)
        }
        for row in table.set_axis(names, axis=1).to_dict("records")
    ]


@strict
@dataclass(frozen=True, kw_only=True, eq=False)
class Component(Values):
    """A node: a component of a model, at one position or at all, with its attributions."""

    name: str
    """Such as "L23H3", "L23H3.q", "L23.mlp" or "L23N1024"."""
    kind: str
    """Such as "head", "query", "mlp" or "neuron"; "target"; "pruned"."""
    layer: int | None = None
    head: int | None = None
    index: int | None = None
    """Number of a neuron or row."""
    position: int | None = None
    """None for all positions."""
    shares: tuple[float, ...] = ()
    """By target: attribution to the component, in the target's units."""
    own_shares: tuple[float, ...] = ()
    """By target: the node's intercept, the attribution to its own biases."""
    rest_shares: tuple[float, ...] = ()
    """By target: the part that enters along no edge of the graph."""

    def label(self, names: Names = "components") -> str:
        """Name, with the position if it has one: "L23H3@4"."""
        name = self.name if names == "components" else self.eap_name
        return name if self.position is None else f"{name}@{self.position}"

    @property
    def eap_name(self) -> str:
        """Name in programs for edge attribution patching, used in exports: "a23.h3<q>", "m7", "input"."""
        found = (re.sub(form, other, self.name) for form, other in _EAP.items() if re.fullmatch(form, self.name))
        return next(found, self.name)


@strict
@dataclass(frozen=True)
class Edge:
    """One edge of a graph."""

    source: int
    target: int
    """Indices of nodes."""
    size: float
    unit: str
    shares: tuple[float, ...]
    """Weight by target."""


@strict
@dataclass(frozen=True, eq=False)
class GraphTarget(Values):
    """An attributed number of a forward pass."""

    name: str
    value: float
    token: str | None = None
    """Token whose rank and probability are in the nodes of a flow graph; None if the target is not a token."""
    quantity: str = ""
    """Kind of the target, "logit difference"; empty if it is not known."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class GraphCertificate(Values):
    """Measured errors of a graph by name, each 0 up to rounding. Each is also an attribute."""

    errors: Mapping[str, float]
    rtol: float
    """Largest accepted error."""
    worst: str = ""
    """Component with the largest error, if it is known."""
    source: str = ""
    """Certificate of the attribution that the graph is built from."""

    def __getattr__(self, name: str) -> float:
        if name.startswith("_") or name == "errors" or name not in self.errors:
            raise AttributeError(name)
        return self.errors[name]

    def __repr__(self) -> str:
        worst = f" ({self.worst})" if self.worst else ""
        measured = [
            f"worst {_MEASURED.get(name, name)} error {scientific(error)}" for name, error in self.errors.items()
        ]
        measured[:1] = [error + worst for error in measured[:1]]
        said = filter(None, [self.source.removeprefix("Checks: "), *measured])
        return f"Checks: {' · '.join(said) or 'none'}"


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Graph(Result):
    """Components as nodes and weighted edges. Nodes are in the order of computation, sources before their receivers."""

    model: str
    labels: tuple[str, ...]
    """Tokens by position."""
    targets: tuple[GraphTarget, ...]
    nodes: tuple[Component, ...]
    ends: Int[Tensor, "edge 2"]
    """Indices of each edge's source and target node."""
    weights: Float[Tensor, "edge target"]
    """Signed weight of each edge for each target, in the target's units."""
    sizes: Float[Tensor, " edge"]
    """Size of each edge in its unit; the absolute weight if there are no units."""
    certificate: GraphCertificate
    units: tuple[str, ...] = ()
    """Unit of each edge's size; empty if it is the target's."""
    kept: float = 1.0
    """Sum of absolute weights of the kept edges, relative to all edges; NaN if only some edges were measured."""
    rules: str = "path"
    """Rules of the derivatives: "path", "patching" or "gradient"."""
    prompt: str = ""
    """The prompt before tokenisation; empty in files of earlier versions, and for pairs of prompts."""

    UNPRUNED: ClassVar[tuple[str, ...]] = ()
    """Fields that a pruned graph does not have."""
    TRUNK: ClassVar[tuple[str, ...]] = ("token", "resid", "resid_mid", "target")
    """Kinds of nodes; edges between two of these are the largest, and `top` omits them."""

    @property
    def edges(self) -> tuple[Edge, ...]:
        """All edges as `Edge` values."""
        units = self.units or ("share",) * len(self.sizes)
        columns = zip(self.ends.tolist(), self.sizes.tolist(), units, self.weights.tolist(), strict=True)
        return tuple(Edge(a, b, size, unit, tuple(shares)) for (a, b), size, unit, shares in columns)

    @property
    def intercepts(self) -> Float[Tensor, "node target"]:
        """Intercept of each node, for each target."""
        return torch.tensor([node.own_shares for node in self.nodes], dtype=torch.float64)

    def nodes_dataframe(self, names: Names = "components") -> pd.DataFrame:
        """One row per node: component, kind, layer, head, index, position (-1 for none), token, value, intercept, and more.

        With several targets there are "value of" and "intercept of" each, and "rank of" and "probability of" each one's token.

        Args:
            names: Format of component names.
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
                rows = frame.pop(column).tolist()  # "pruned" has no ranks
                table = pd.DataFrame([row or (float("nan"),) * max(map(len, rows)) for row in rows])
                table = table.set_axis(self._by_target(name)[: table.shape[1]], axis=1)
                frame = frame.join(table.loc[:, ~table.columns.duplicated()])
        return frame

    def to_dataframe(self, names: Names = "components") -> pd.DataFrame:
        """One row per edge: source and target with position, kind, layer and head; unit, size, weight.

        All graphs have the same columns, so that tables join on component and position. With several targets there is "weight of"
        each.

        Args:
            names: Format of component names.
        """
        nodes = self.nodes_dataframe(names)[["component", "position", "kind", "layer", "head"]]
        sides = zip(("source_", "target_"), self.ends.T.numpy(), strict=True)
        ends = [nodes.iloc[numbers].add_prefix(end).reset_index(drop=True) for end, numbers in sides]
        return pd.concat([*ends, self._measured()], axis=1).rename(columns=lambda name: name.removesuffix("_component"))

    def to_networkx(self, k: int | None = None, *, names: Names = "components") -> nx.DiGraph:
        """Directed graph with labels such as "L23H3@4" as nodes, and the tables' columns as attributes.

        Attributes are numbers and texts, so that networkx can write JSON, GraphML, GEXF and GML. They are named as columns, with
        underscores for spaces and signs, such as "rest_of_value". A number that is not known is omitted. In edge estimates, an
        input of a head has edges to the heads that read it.

        Args:
            k: Number of edges, the largest first; None means all.
            names: Format of component names.

        Raises:
            InputError: if k is below 1.
        """
        graph = nx.DiGraph(model=self.model, targets=", ".join(target.name for target in self.targets))
        labels, edges = [node.label(names) for node in self.nodes], _attributes(self._measured())
        graph.add_nodes_from(zip(labels, _attributes(self.nodes_dataframe(names)), strict=True))
        for edge in range(len(edges)) if k is None else self._top(k):
            graph.add_edge(*(labels[end] for end in self.ends[edge].tolist()), **edges[edge])
        read = [(labels[source], labels[head]) for source, head in self._reads() if graph.degree(labels[source])]
        graph.add_edges_from(read, unit="input", size=0.0)
        graph.remove_nodes_from([] if k is None else list(nx.isolates(graph)))
        return graph

    def to_dict(self) -> dict[str, Any]:
        """Model, labels, targets, and the rows of both tables, "nodes" and "edges", as a dictionary for JSON; NaN is null."""
        tables = {"nodes": self.nodes_dataframe(), "edges": self.to_dataframe()}
        rows = {name: t.astype(object).where(t.notna(), None).to_dict("records") for name, t in tables.items()}
        targets = {target.name: target.value for target in self.targets}
        return {"model": self.model, "labels": list(self.labels), "targets": targets, **rows}

    def top(self, k: int = 10) -> list[tuple[str, str, float]]:
        """The k largest edges by the first target's weight: labels of source and target, and the weight.

        Edges of "pruned" and "remaining" are omitted, and in attribution graphs those from the residual stream to itself.

        Raises:
            InputError: if k is below 1.
        """
        largest = [(self.ends[edge].tolist(), float(self.weights[edge, 0])) for edge in self._top(k, self.TRUNK)]
        return [
            (self.nodes[source].label(), self.nodes[target].label(), weight) for (source, target), weight in largest
        ]

    def _top(self, k: int, trunk: tuple[str, ...] = ()) -> list[int]:
        """Indices of the largest edges, without those of "pruned" and "remaining", and between the kinds of `trunk`."""
        if k < 1:
            raise InputError(f"k={k}: expected at least 1.")
        self._refuse_without_target("ordered")
        kinds = np.array([node.kind for node in self.nodes])[self.ends.numpy()]
        hidden = np.isin(kinds, (PRUNED, REMAINING)).any(axis=1) | np.isin(kinds, trunk).all(axis=1)
        sizes = np.where(hidden, -1.0, self.weights[:, 0].abs().numpy())
        return np.argsort(-sizes, kind="stable")[: min(k, int((~hidden).sum()))].tolist()

    def prune(self: G, keep: float = 0.9) -> G:
        """Graph of the largest edges, whose absolute weights are a fraction `keep` of those of all edges, for the first target.

        All other edges go through one node, "pruned", so that sums at every node stay the same. Nodes that have only such edges are
        merged into it, except tokens and targets. `kept` is the fraction that was kept.

        Args:
            keep: Fraction of the sum of absolute weights, above 0 and at most 1.

        Raises:
            InputError: for another `keep`, or if the graph has no target.
        """
        if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
            raise InputError(f"keep={brief(keep)}: expected a fraction of the absolute weights, above 0 and at most 1.")
        self._refuse_without_target("pruned")
        rest = next((number for number, node in enumerate(self.nodes) if node.kind == PRUNED), len(self.nodes))
        known = (self.ends != rest).all(dim=1).numpy()
        sizes = np.where(known, self.weights[:, 0].abs().numpy(), 0.0)
        order, total = np.argsort(-sizes, kind="stable"), max(float(sizes.sum()), 1e-300)
        enough = int(np.searchsorted(np.cumsum(sizes[order]) / total, keep - 1e-12)) + 1
        chosen = np.full(len(sizes), keep == 1)  # keep=1 drops nothing, despite rounding
        chosen[order[:enough]] = True
        chosen &= known
        return self._through_rest(rest, chosen, self.kept * float(sizes[chosen].sum() / total))

    def _through_rest(self: G, rest: int, chosen: np.ndarray, kept: float) -> G:
        """Merge the other edges, and the nodes that have only such edges, into one node."""
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
        """The k paths with the largest fraction of the first target: the fraction, and the labels of the nodes.

        A path's fraction is the product over its edges of the absolute weight over the sum of those into the node, as in
        circuit-tracer's influence. It starts at a node without incoming weights and ends at the target or the last node.

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
        """Inputs of heads with the heads that read them, in graphs with such inputs as nodes."""
        return ()

    def _refuse_without_target(self, what: str) -> None:
        if not self.targets:
            raise InputError(f"a graph without a target cannot be {what}: pass `target=` to the call that returns it.")

    def _measured(self) -> pd.DataFrame:
        """Columns of the edge table after those of both ends."""
        weights = dict(zip(self._by_target("weight"), self.weights.T, strict=True))
        return tabulated({"unit": self.units or ("share",) * len(self.sizes), "size": self.sizes, **weights})

    def _by_target(self, name: str) -> list[str]:
        """Names of columns by target, ranks and probabilities by its token; only the name if there is one target or none."""
        tokens = [target.token if name in _BY_TOKEN else None for target in self.targets]
        of = [target.name if token is None else repr(token) for target, token in zip(self.targets, tokens, strict=True)]
        return [name] if self.weights.shape[1] == 1 else [f"{name} of {each}" for each in of]

    @strict
    def faults(self) -> Iterator[str]:
        """Edges of missing nodes, and attributions for a different number of targets."""
        if self.ends.numel() and not 0 <= int(self.ends.min()) <= int(self.ends.max()) < len(self.nodes):
            yield f"an edge leads to node {int(self.ends.max())} of {len(self.nodes)}"
        if len(self.targets) > 0 and any(len(node.shares) not in (0, len(self.targets)) for node in self.nodes):
            yield f"a node has attributions of other than {len(self.targets)} targets"
        if self.units and len(self.units) != len(self.ends):
            yield f"{len(self.units)} units of {len(self.ends)} edges"

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Size of the graph, text, targets, and the largest edges of heads and feed-forwards."""
        headline = f"{len(self.nodes)} nodes, {len(self.ends)} edges of {self.model}, rules={self.rules!r}"
        targets = ", ".join(f"{target.name} = {target.value:.4g}" for target in self.targets) or "no target"
        lines = {
            "text": shortened(self.labels),
            "targets": targets,
            "checks": str(self.certificate).removeprefix("Checks: "),
        }
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
            # A safetensors file begins with its header's length, a multiple of eight, which is not "{".
            if file.read(1) in (b"{", b"["):
                raise MapFileError(
                    f"{path} is JSON, the format of flow graphs of tl_ffblock 0.2.0 (format version 1). This version reads "
                    "safetensors: save the graph again."
                )
        return super().load(path)
