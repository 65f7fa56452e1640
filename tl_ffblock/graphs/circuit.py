# Noun: circuit (Wang et al. 2023; Conmy et al. 2023; Mueller et al. 2025, MIB).
"""Circuits: edges between embeddings, heads, feed-forwards and a target that are kept when all others are ablated."""

import heapq
import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.bridge.edge_ablation import EdgeAblation
from tl_ffblock.bridge.model import Model, identify, refuse_other_model
from tl_ffblock.errors import InputError, MapFileError, brief
from tl_ffblock.files import read_json, write_atomically
from tl_ffblock.graphs.edge_estimates import RECEIVERS, SENDERS, EdgeGraph, edge_components
from tl_ffblock.graphs.graph import PRUNED, REMAINING, Component, GraphCertificate
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import refuse_mixed
from tl_ffblock.signatures import real, strict

Scores: TypeAlias = EdgeGraph | Sequence[EdgeGraph]
"""Scored edges of one pair, or of several pairs, whose scores are averaged."""
FRACTIONS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Sizes of circuits in MIB's circuit track, as fractions of all edges."""


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class Circuit(EdgeGraph):
    """A set of edges of a model, with scores. `ffb.run_circuit` runs the model with all other edges ablated.

    `first & second`, `first | second` and `first - second` are circuits, with the scores of the first where it has the edge.
    `edge in circuit` takes a pair of names, ("L3H5", "L7.mlp").
    """

    n_possible: int
    """Number of edges of the whole model."""

    @classmethod
    def full(cls, model: Any) -> "Circuit":
        """Circuit with all edges of a model, each with score 0.

        Args:
            model: A TransformerBridge whose residual stream is a sum (no Post-LN).

        Raises:
            UnsupportedModelError: for other models.
        """
        edges = EdgeAblation.of(identify(model))
        nodes = _components(edges)
        sends, receives = (
            torch.tensor([number for number, node in enumerate(nodes) if node.kind in kinds])
            for kinds in (SENDERS, RECEIVERS)
        )
        rows, columns = edges.possible.nonzero(as_tuple=True)
        return cls(
            model=edges.model.name,
            labels=(),
            targets=(),
            nodes=nodes,
            ends=torch.stack([sends[rows], receives[columns]], dim=1),
            weights=torch.zeros(len(rows), 1),
            sizes=torch.zeros(len(rows)),
            certificate=GraphCertificate({}, edges.model.tolerance),
            n_possible=len(rows),
            fingerprint=edges.model.fingerprint,
        )

    @classmethod
    def of(cls, model: Any, edges: Iterable[tuple[str, str]]) -> "Circuit":
        """Circuit with named edges, each with score 0.

        Args:
            model: As in `full`.
            edges: Pairs of sender and receiver, such as [("L3H5", "L7.mlp"), ("L0.mlp", "L5H1.v"), ("L7.mlp", "target")], or a
                circuit of a model with the same components, such as another checkpoint.

        Raises:
            ScopeKeyError: if there is no such sender or receiver.
            InputError: if a receiver does not come after its sender.
            UnsupportedModelError: as in `full`.
        """
        whole = cls.full(model)
        asked = {whole.numbers(edge) for edge in edges}
        if impossible := [pair for pair in asked if not whole.present[pair]]:
            sender, receiver = whole.senders[impossible[0][0]], whole.receivers[impossible[0][1]]
            raise InputError(
                f"edges: {receiver} does not come after {sender} in {whole.model}; expected a later receiver."
            )
        present = whole.present.nonzero().tolist()
        return whole.choose(np.array([tuple(pair) in asked for pair in present], dtype=bool))

    @classmethod
    def topn(cls, scores: Scores, n: int, *, absolute: bool = True) -> "Circuit":
        """Circuit with the n edges of largest score.

        Args:
            scores: Edges of `attribution_patching(edges=True)` or `edge_patching`, or a circuit. Scores of a list are averaged.
            n: Number of edges.
            absolute: Whether edges are ordered by absolute score, otherwise by score.

        Raises:
            InputError: if there are fewer edges, or if the graphs of a list have different edges.
        """
        whole = _scored(scores, n)
        order = np.argsort(-_keys(whole, absolute=absolute), kind="stable")
        return whole.choose(np.isin(np.arange(len(whole)), order[:n]))

    @classmethod
    def threshold(cls, scores: Scores, least: float, *, absolute: bool = True) -> "Circuit":
        """Circuit with all edges of a minimal score.

        Args:
            scores: As in `topn`.
            least: Minimal score, in the target's units.
            absolute: Whether absolute scores are compared.

        Raises:
            InputError: as in `topn`, and if `least` is not a number.
        """
        if real(least) is None:
            raise InputError(f"least={brief(least)}: expected a number in the target's units.")
        whole = _scored(scores)
        return whole.choose(_keys(whole, absolute=absolute) >= least)

    @classmethod
    def greedy(cls, scores: Scores, n: int, *, absolute: bool = True) -> "Circuit":
        """Circuit with n edges, each the largest into a component from which the target is reached (Hanna et al. 2024).

        It has fewer edges if fewer reach the target. Arguments and errors are those of `topn`.
        """
        whole = _scored(scores, n)
        chosen = np.zeros(len(whole), dtype=bool)
        keys, into, target = _keys(whole, absolute=absolute), defaultdict[int, list[int]](list), len(whole.nodes) - 1
        for edge, readers in enumerate(whole.readers):
            for reader in readers:
                into[reader].append(edge)
        reached, waiting = {target}, [(-keys[edge], edge) for edge in into[target]]
        heapq.heapify(waiting)
        while waiting and chosen.sum() < n:
            edge = heapq.heappop(waiting)[1]
            chosen[edge], sender = True, int(whole.ends[edge, 0])
            if sender not in reached:
                reached.add(sender)
                for before in into[sender]:  # an input that several heads read is pushed several times
                    heapq.heappush(waiting, (-keys[before], before))
        return whole.choose(chosen)

    @classmethod
    def by_size(
        cls, scores: Scores, fractions: Sequence[float] = FRACTIONS, *, greedy: bool = False, absolute: bool = True
    ) -> "tuple[Circuit, ...]":
        """Circuits of several sizes, for `ffb.circuit_faithfulness`.

        Args:
            scores: As in `topn`.
            fractions: Sizes as fractions of all edges, rounded down; the default is MIB's.
            greedy: Whether edges are chosen as in `greedy`, otherwise as in `topn`.
            absolute: Whether edges are ordered by absolute score.

        Raises:
            InputError: as in `topn`, and if a fraction is not between 0 and 1.
        """
        if not isinstance(fractions, list | tuple):
            raise InputError(f"fractions={brief(fractions)}: expected a list of fractions of all edges, from 0 to 1.")
        if wrong := [fraction for fraction in fractions if not 0 <= (-1 if real(fraction) is None else fraction) <= 1]:
            raise InputError(f"fractions: {brief(wrong[0])}; expected fractions of all edges, from 0 to 1.")
        whole = _scored(scores)
        choose = cls.greedy if greedy else cls.topn
        return tuple(choose(whole, int(fraction * whole.n_possible), absolute=absolute) for fraction in fractions)

    def top_nodes(self, scores: Result | pd.DataFrame, n: int) -> "Circuit":
        """Circuit with the edges among the n heads and feed-forwards of largest score, the embeddings and the target.

        Args:
            scores: A table, or a result whose table has the columns kind ("head", "mlp"), layer, head and value, such as that of
                `attribution_patching`. Values of a component at several positions are summed.
            n: Number of heads and feed-forwards.

        Raises:
            InputError: if the table has other columns, or fewer components.
        """
        table = scores.to_dataframe() if isinstance(scores, Result) else scores
        missing = {"kind", "layer", "head", "value"} - set(getattr(table, "columns", ()))
        if missing:
            raise InputError(
                f"scores: a table without the columns {', '.join(sorted(missing))}; expected one row per component."
            )
        if "target" in table and table["target"].nunique() > 1:
            raise InputError(
                "scores: a table of several targets; expected one target, since values of different targets cannot be summed."
            )
        sums = table[table["kind"].isin(("head", "mlp"))].groupby(["kind", "layer", "head"])["value"].sum()
        if not 0 <= whole_number(n, "n") <= len(sums):
            raise InputError(f"n={n}: expected 0 to {len(sums)}, the number of heads and feed-forwards with a score.")
        largest = sums.reindex(sums.abs().sort_values(ascending=False, kind="stable").index)[:n].index
        names = {f"L{layer}H{head}" if kind == "head" else f"L{layer}.mlp" for kind, layer, head in largest}
        return self.among(names)

    def among(self, names: Collection[str]) -> "Circuit":
        """Circuit with the edges among some heads and feed-forwards, the embeddings and the target.

        Args:
            names: Names of components, such as ("L3H5", "L7.mlp").

        Raises:
            InputError: if the model has no such component.
        """
        known = {node.name: number for number, node in enumerate(self.nodes) if node.kind in ("head", "mlp")}
        if unknown := [name for name in names if name not in known]:
            raise InputError(f"no component {brief(unknown[0])}: expected names such as {', '.join(list(known)[:2])}.")
        inside = {0, len(self.nodes) - 1, *(known[name] for name in names)}
        pairs = zip(self.ends[:, 0].tolist(), self.readers, strict=True)
        return self.choose(
            np.array([sender in inside and not inside.isdisjoint(to) for sender, to in pairs], dtype=bool)
        )

    def connected(self) -> "Circuit":
        """Circuit with only the edges on a path from the embeddings to the target.

        With corrupted ablation the other edges have no effect. A component without kept inputs has its corrupted output, and a component
        without kept outputs has no reader.
        """
        edges = list(zip(self.ends[:, 0].tolist(), self.readers, strict=True))
        reached, useful = {0}, {len(self.nodes) - 1}
        for sender, readers in sorted(edges):
            if sender in reached:
                reached.update(readers)
        for sender, readers in sorted(edges, reverse=True):
            if not useful.isdisjoint(readers):
                useful.add(sender)
        return self.choose(np.array([a in reached and not useful.isdisjoint(to) for a, to in edges], dtype=bool))

    def choose(self, chosen: Bool[np.ndarray, " edge"]) -> "Circuit":
        """Circuit with some of its edges.

        Args:
            chosen: Mask of the edges to keep.
        """
        rows = torch.from_numpy(np.flatnonzero(chosen))
        sizes, total = self.sizes[rows], float(self.sizes.sum())
        kept = self.kept * (float(sizes.sum()) / total) if total else self.kept
        return replace(self, ends=self.ends[rows], weights=self.weights[rows], sizes=sizes, kept=kept)

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.ends)

    @property
    def components(self) -> tuple[str, ...]:
        """Names of the embeddings, heads and feed-forwards that have an edge, without the target."""
        read = {reader for of_edge in self.readers for reader in of_edge} - {len(self.nodes) - 1}
        return tuple(self.nodes[number].name for number in sorted(read | set(self.ends[:, 0].tolist())))

    def __len__(self) -> int:
        return self.n_edges

    def __contains__(self, edge: tuple[str, str]) -> bool:
        row, column = self.numbers(edge)
        return bool(self.present[row, column])

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter((self.nodes[a].name, self.nodes[b].name) for a, b in self.ends.tolist())

    def __and__(self, other: "Circuit") -> "Circuit":
        return self.choose(self._in(other))

    def __sub__(self, other: "Circuit") -> "Circuit":
        return self.choose(~self._in(other))

    def __or__(self, other: "Circuit") -> "Circuit":
        more = other - self
        ends, weights = torch.cat([self.ends, more.ends]), torch.cat([self.weights, more.weights])
        order = torch.from_numpy(np.lexsort((ends[:, 1].numpy(), ends[:, 0].numpy())))
        ends, weights, kept = ends[order], weights[order], min(1.0, self.kept + more.kept)
        return replace(self, ends=ends, weights=weights, sizes=weights[:, 0].abs(), kept=kept)

    def _in(self, other: "Circuit") -> Bool[np.ndarray, " edge"]:
        """Mask of the edges that another circuit also has."""
        if not isinstance(other, Circuit):
            raise InputError(f"a circuit and a {type(other).__name__}: expected two circuits.")
        if [node.name for node in self.nodes] != [node.name for node in other.nodes]:
            raise InputError(
                f"circuits of {self.model} and {other.model}, which have other components: expected one model's."
            )
        known = set(map(tuple, other.ends.tolist()))
        return np.array([tuple(ends) in known for ends in self.ends.tolist()], dtype=bool)

    @property
    def readers(self) -> list[tuple[int, ...]]:
        """By edge: indices of the components that read its receiver; several if heads share a key or value input."""
        heads = defaultdict[int, list[int]](list)
        for read, head in self._reads():
            heads[read].append(head)
        return [tuple(heads.get(receiver, [receiver])) for receiver in self.ends[:, 1].tolist()]

    def _refuse_without_target(self, what: str) -> None:
        if not self.targets:
            raise InputError(
                f"a circuit without scores for a target cannot be {what}: choose it from estimates, Circuit.topn(edges, 100)."
            )

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Size of the circuit, and its largest edges."""
        of_all = f"{len(self.ends)} of {self.n_possible} edges ({len(self.ends) / self.n_possible:.2%})"
        lines: dict[str, object] = {"components": len(self.components)}
        if self.kept < 1:
            lines["kept"] = f"{self.kept:.1%} of the sizes of all edges"
        if self.targets and len(self.ends):
            lines["scores for"] = self.targets[0].name
            lines["largest"] = " · ".join(f"{a} -> {b} {significant(weight)}" for a, b, weight in self.top(5))
        return f"{of_all} of {self.model}", lines

    def to_mib_json(self, path: str | PathLike[str], model: Any) -> Path:
        """Write a file for EAP-IG and MIB's circuit track: "cfg", "nodes" and "edges" with "score" and "in_graph".

        The file has every edge of the model; edges outside the circuit have score 0. An edge into a key or value input that
        several heads share is written as one edge per head, with the score divided equally.

        Args:
            path: File to write.
            model: The circuit's model.

        Raises:
            InputError: if the circuit is of another model, or the folder does not exist.
        """
        known, full = identify(model), Circuit.full(model)
        kept_edges(EdgeAblation.of(known), self)  # refuses a circuit of another model
        own = dict(zip(map(tuple, self.ends.tolist()), self.weights[:, 0].tolist(), strict=True))
        edges = {
            name: {"score": own.get(ends, 0.0) / len(names), "in_graph": ends in own}
            for ends, names in zip(map(tuple, full.ends.tolist()), full.mib_names(), strict=True)
            for name in names
        }
        touched = {"logits", *self.components}
        senders = {node.eap_name: node.name for node in self.nodes if node.kind in SENDERS} | {"logits": "logits"}
        nodes = {name: {"in_graph": component in touched} for name, component in senders.items()}
        content = json.dumps({"cfg": _mib_cfg(known), "nodes": nodes, "edges": edges})
        return write_atomically(path, content.encode("utf-8"))

    @classmethod
    def from_mib_json(cls, path: str | PathLike[str], model: Any) -> "Circuit":
        """Read a file from EAP-IG, MIB's circuit track or `to_mib_json`. If no edge is "in_graph", all scored edges are kept.

        Scores of edges into heads that share a key or value input are summed.

        Args:
            path: The file.
            model: The model of the file.

        Raises:
            MapFileError: if it is not such a file, has edges of another model, or keeps an edge into only some of the heads that
                share an input.
            FileNotFoundError: if there is no such file.
        """
        full, known = cls.full(model), identify(model)
        cfg, held = _mib_edges(Path(path))
        for name, own in _mib_cfg(known).items():
            if cfg.get(name, own) != own:
                raise MapFileError(
                    f"{path} is of a model with {name} {brief(cfg[name])}: expected {own}, as in {full.model}."
                )
        scores, inside = np.zeros(len(full)), np.zeros(len(full), dtype=bool)
        for edge, names in enumerate(full.mib_names()):
            found = [held.pop(name) for name in names if name in held]
            scores[edge] = sum(score for score, _ in found)
            inside[edge] = any(kept for _, kept in found)
            if len({kept for _, kept in found}) > 1 or len(found) not in (0, len(names)):
                raise MapFileError(
                    f"{path}: {', '.join(names)} share one key or value input in {full.model}; expected all of them in the circuit, "
                    "or none."
                )
        if held:
            raise MapFileError(f"{path}: {full.model} has no edge {min(held)}; expected a file of the same model.")
        weights = torch.from_numpy(scores).float()[:, None]
        scored = replace(full, weights=weights, sizes=weights[:, 0].abs())
        return scored.choose(inside if inside.any() else scores != 0)

    def mib_names(self) -> Iterator[list[str]]:
        """By edge: its names in EAP-IG, one per query head that reads a key or value input."""
        for (sender, receiver), readers in zip(self.ends.tolist(), self.readers, strict=True):
            kind = self.nodes[receiver].kind
            read = f"<{kind[0]}>" if kind in ("query", "key", "value") else ""
            names = ["logits"] if kind == "target" else [f"{self.nodes[reader].eap_name}{read}" for reader in readers]
            yield [f"{self.nodes[sender].eap_name}->{name}" for name in names]


def kept_edges(edges: EdgeAblation, circuit: Circuit) -> Bool[Tensor, "sender receiver"]:
    """Mask of a circuit's edges, as numbered in `EdgeAblation`.

    Raises:
        InputError: if the circuit is of a model with other components or other weights.
    """
    expected = [node.name for node in _components(edges)]
    if [node.name for node in circuit.nodes] != expected:
        raise InputError(
            f"a circuit of {circuit.model} with {len(circuit.nodes)} components and inputs; {edges.model.name} has "
            f"{len(expected)}. Build the circuit with this model."
        )
    refuse_other_model("the circuit", circuit.fingerprint, edges.model)
    return circuit.present


def _components(edges: EdgeAblation) -> tuple[Component, ...]:
    """Components of a model and their inputs."""
    every = edge_components(edges.model.n_layers, edges.model.n_heads, edges.n_kv, fed=edges.fed)
    return tuple(node for node in every if node.kind != REMAINING)


def _scored(scores: Scores, n: int = 0) -> Circuit:
    """All scored edges as one circuit; checks that `n` can be chosen."""
    graphs: list[Any] = list(scores) if isinstance(scores, list | tuple) else [scores]
    if not graphs or not all(isinstance(graph, EdgeGraph) for graph in graphs):
        raise InputError(
            f"scores={brief(scores)}: expected edges, as attribution_patching(edges=True) returns them, or a list."
        )
    refuse_mixed(graphs, "average")
    whole, *others = circuits = [_all_edges(graph) for graph in graphs]
    if not all(torch.equal(other.ends, whole.ends) for other in others):
        raise InputError("scores: graphs with different edges; expected all edges of one model in each.")
    weights = torch.stack([circuit.weights for circuit in circuits]).mean(dim=0)
    if not 0 <= whole_number(n, "n") <= len(whole):
        raise InputError(f"n={n}: expected 0 to {len(whole)}, the number of edges.")
    return replace(whole, weights=weights, sizes=weights[:, 0].abs())


def _all_edges(graph: EdgeGraph) -> Circuit:
    """All edges except those of "remaining"."""
    if isinstance(graph, Circuit):
        return graph
    if any(node.kind == PRUNED for node in graph.nodes):
        raise InputError("scores: a pruned graph; expected a graph with all edges.")
    rest = [number for number, node in enumerate(graph.nodes) if node.kind == REMAINING]
    known = ~torch.isin(graph.ends, torch.tensor(rest, dtype=graph.ends.dtype)).any(dim=1)
    ends = graph.ends[known]
    n_possible = getattr(graph, "n_possible", 0) or len(ends)
    return Circuit(
        model=graph.model,
        labels=graph.labels,
        clean_labels=graph.clean_labels,
        targets=graph.targets[:1],
        nodes=tuple(node for node in graph.nodes if node.kind != REMAINING),
        ends=ends - sum((ends > number).to(ends.dtype) for number in rest),
        weights=graph.weights[known, :1],
        sizes=graph.weights[known, 0].abs(),
        certificate=graph.certificate,
        rules=graph.rules,
        fingerprint=graph.fingerprint,
        kept=1.0 if len(ends) == n_possible else math.nan,
        n_possible=n_possible,
    )


def _keys(whole: Circuit, *, absolute: bool) -> Float[np.ndarray, " edge"]:
    """Keys that sort edges, the largest first."""
    scores = whole.weights[:, 0].double()
    return (scores.abs() if absolute else scores).numpy()


def _mib_cfg(model: Model) -> dict[str, int | bool]:
    """The model's entries of "cfg"."""
    sizes = {"n_layers": model.n_layers, "n_heads": model.n_heads, "d_model": model.sizes.d_model}
    return {**sizes, "parallel_attn_mlp": model.family.order == "parallel"}


def _mib_edges(path: Path) -> tuple[Mapping[str, Any], dict[str, tuple[float, bool]]]:
    """Sizes of a file's model, and by edge its score and whether it is in the circuit."""
    content = read_json(path)
    if not isinstance(content, Mapping) or not all(
        isinstance(content.get(part), Mapping) for part in ("cfg", "nodes", "edges")
    ):
        raise MapFileError(f"{path} has no cfg, nodes and edges; expected the JSON of EAP-IG or MIB.")
    held: dict[str, tuple[float, bool]] = {}
    for name, edge in content["edges"].items():
        score, inside = (edge.get("score"), edge.get("in_graph")) if isinstance(edge, Mapping) else (None, None)
        number = real(score)
        if number is None or not isinstance(inside, bool):
            raise MapFileError(
                f"{path}: the edge {name} has score {brief(score)} and in_graph {brief(inside)}; expected a finite number, and "
                "true or false."
            )
        held[name] = number, inside
    senders = {name.partition("->")[0] for name, (_, inside) in held.items() if inside}
    for name in senders & set(content["nodes"]):
        node = content["nodes"][name]
        kept = node.get("neurons", []) if isinstance(node, Mapping) else []
        if not isinstance(kept, list) or not all(kept):
            raise MapFileError(
                f'{path}: {name} has edges in the circuit with only some dimensions of its output ("neurons"); expected whole edges, '
                "as EAP-IG chooses them by edges or nodes."
            )
    return content["cfg"], held
