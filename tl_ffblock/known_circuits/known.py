# Noun: ground-truth circuit (Lindner et al. 2023; Gupta et al. 2024, InterpBench).
"""`KnownCircuit`: a model with its true edges for a kind of pair, and exact effects that verify them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float
from scipy.stats import rankdata
from torch import Tensor

from tl_ffblock.errors import InputError, brief, did_you_mean
from tl_ffblock.graphs import Circuit
from tl_ffblock.interventions import circuit_faithfulness, edge_patching
from tl_ffblock.known_circuits.compiler import Layout, Settings, compiled
from tl_ffblock.known_circuits.programs import PROGRAMS, Kind, Pair, Program, Truth
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.metrics import Metric, logit
from tl_ffblock.signatures import strict

LEAST_ACCURACY = 0.99
_TASK_PAIRS = 64
"""Number of pairs on which the task's accuracy is measured."""
_DRAWS = 32
"""Number of random sets of other patched edges, for kinds with the truth "random sets"."""
Of: TypeAlias = Literal["edges", "nodes", "tokens"]
"""Scored items: edges; nodes, patched with all edges that they send; positions, replaced by the other prompt's token."""
Item: TypeAlias = tuple[str, str] | str | int
"""The name of an edge, of a node, or a position."""


@strict
@dataclass(frozen=True, eq=False)
class KnownCircuit:
    """A model, pairs of prompts, and the true edges: those on which the pairs' difference in the target depends.

    Make one yourself for a model of your own.
    """

    program: str
    kind: str
    """Name of the kind of pair, such as the input that differs."""
    model: Any
    pairs: tuple[Pair, ...]
    true_edges: frozenset[tuple[str, str]]
    """Names of senders and receivers, such as ("L0H0", "L1H0.k")."""
    settings: str = ""
    seed: int = 0
    truth: Truth = "clean run"
    neurons: Mapping[int, tuple[int, ...]] | None = None
    """By layer, the true neurons: those of the program's feed-forwards that send a true edge; None if they are not known."""
    noise_only: Any = None
    """Model with only the noise of `model`; None without noise."""

    @property
    def name(self) -> str:
        """Program, kind, settings and seed."""
        return " · ".join(each for each in (self.program, self.kind, self.settings, f"seed {self.seed}") if each)

    @property
    def heads(self) -> frozenset[str]:
        """Names of the true heads: those that send a true edge."""
        return frozenset(sender for sender, _ in self.true_edges if "H" in sender)

    @property
    def nodes(self) -> frozenset[str]:
        """Names of the true nodes: senders of true edges (residual stream at the first layer, heads, feed-forwards)."""
        return frozenset(sender for sender, _ in self.true_edges)

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """All edges of the model, in the order of `is_true`, `exact` and of scores."""
        return tuple(Circuit.full(self.model))

    @cached_property
    def is_true(self) -> Bool[np.ndarray, " edge"]:
        """Whether each edge is true, in the order of `edges`.

        Raises:
            InputError: if a true edge is not an edge of the model.
        """
        if unknown := sorted(self.true_edges - set(self.edges)):
            raise InputError(
                f"{self.name}: no edge {brief(unknown[0])}: expected names such as {brief(self.edges[0])}."
            )
        return np.array([edge in self.true_edges for edge in self.edges])

    def target(self, pair: Pair) -> Metric:
        """Logit difference of answer and foil at the last position."""
        return logit(pair.answer, minus=pair.foil)

    @cached_property
    def exact(self) -> Float[np.ndarray, "pair edge"]:
        """Exact effect of every edge on the target, by the kind's `truth`. Effects are signed only for "clean run"."""
        rows = [self._exact(pair, number) for number, pair in enumerate(self.pairs)]
        return np.stack(rows)

    def _exact(self, pair: Pair, number: int) -> Float[np.ndarray, " edge"]:
        clean, corrupted = torch.tensor(pair.clean), torch.tensor(pair.corrupted)

        def patched(first: Tensor, second: Tensor, **options: Any) -> Float[np.ndarray, " edge"]:
            effects = edge_patching(self.model, first, second, self.target(pair), progress=False, **options)
            values: np.ndarray = effects.weights[:, 0].double().numpy()
            return values

        if self.truth == "random sets":
            return patched(clean, corrupted, draws=_DRAWS, seed=number)
        alone = patched(clean, corrupted)
        if self.truth == "clean run":
            return alone
        return np.maximum(np.abs(alone), np.abs(patched(corrupted, clean)))

    def items(self, of: Of, pair: Pair) -> tuple[Item, ...]:
        """Items that a method scores: names of the model's edges or nodes, or positions of the pair."""
        if of == "edges":
            return self.edges
        return (
            tuple(dict.fromkeys(sender for sender, _ in self.edges)) if of == "nodes" else tuple(range(len(pair.clean)))
        )

    def truth_of(self, of: Of) -> tuple[Bool[np.ndarray, " item"], Float[np.ndarray, "pair item"]]:
        """Whether each item is true, and its exact effect on the target.

        A node is patched with all edges that it sends, a position is replaced by the corrupted prompt's token. For tokens, the
        positions of all pairs are in one row.

        Raises:
            InputError: for nodes and tokens of a kind whose truth is not "clean run".
        """
        self.refuse_unseen(of)
        if of == "edges":
            return self.is_true, self.exact
        if of == "tokens":
            true = [at in pair.tokens for pair in self.pairs for at in range(len(pair.clean))]
            return np.array(true), np.concatenate([self._by_token(pair) for pair in self.pairs])[None]
        names = self.items(of, self.pairs[0])
        return np.array([name in self.nodes for name in names]), np.stack([self._by_node(pair) for pair in self.pairs])

    def refuse_unseen(self, of: Of) -> None:
        """Refuse nodes and tokens of a kind whose truth is not "clean run".

        Raises:
            InputError: with the truth.
        """
        if of != "edges" and self.truth != "clean run":
            raise InputError(
                f"{self.name}: of={of!r} needs a kind with truth clean run, not {self.truth}. Use of='edges'."
            )

    def _by_node(self, pair: Pair) -> Float[np.ndarray, " node"]:
        full = Circuit.full(self.model)
        sent = [[edge for edge in full if edge[0] == name] for name in self.items("nodes", pair)]
        circuits = [full - Circuit.of(self.model, edges) for edges in sent]
        prompts = torch.tensor([pair.clean]), torch.tensor([pair.corrupted])
        runs = circuit_faithfulness(self.model, *prompts, circuits, self.target(pair), progress=False)
        return (runs.values[:, 0] - runs.clean[0]).double().numpy()

    def _by_token(self, pair: Pair) -> Float[np.ndarray, " pos"]:
        clean, other = torch.tensor(pair.clean), torch.tensor(pair.corrupted)
        runs = torch.where(torch.eye(len(clean), dtype=torch.bool), other, clean)
        with torch.no_grad():
            values = self.target(pair)(self.model(torch.cat([clean[None], runs]))).double().numpy()
        return values[1:] - values[0]

    def verify(self, least: float = 1.0) -> "KnownCircuit":
        """The known circuit, after a check that exact patching separates true edges from all others.

        Args:
            least: Smallest accepted AUROC of the mean size of exact effects.

        Raises:
            InputError: if the AUROC is smaller, or if there is no pair, no true or no false edge.
        """
        if not self.pairs or self.is_true.all() or not self.is_true.any():
            raise InputError(f"{self.name}: expected one or more pairs, true edges and false ones.")
        size = np.abs(self.exact).mean(axis=0)
        if (value := auroc(self.is_true, size)) < least:
            lost = self.edges[int(np.flatnonzero(self.is_true)[size[self.is_true].argmin()])]
            raise InputError(
                f"{self.name}: exact patching separates the true edges with AUROC {value:.3f}, expected {least:g}; {lost[0]} -> {lost[1]} "
                "is the smallest true one. Use less noise, another seed, or correct the true edges."
            )
        return self


@strict
def build(
    program: str | Program,
    settings: Settings | None = None,
    *,
    pairs: SupportsIndex = 4,
    kinds: Sequence[str] | None = None,
) -> tuple[KnownCircuit, ...]:
    """Known circuits of a compiled program, one per kind of pair. Task accuracy and exact effects of all edges are verified.

    Args:
        program: A name in `known_circuits.PROGRAMS`, or a `Program` of your own.
        settings: Settings of the model; None means no norm, sharp attention, no noise.
        pairs: Number of pairs of each kind.
        kinds: Names of kinds; None means all.

    Raises:
        InputError: for an unknown program or kind, or if with these settings the model does not do its task, or exact patching does
            not separate the true edges.
    """
    chosen = Settings() if settings is None else settings
    known = read_program(program)
    names = [kind.name for kind in known.kinds]
    if unknown := [kind for kind in kinds or () if kind not in names]:
        raise InputError(f"kinds={brief(unknown[0])}: expected kinds of {known.name}, {', '.join(names)}.")
    number = whole_number(pairs, "pairs", at_least=1)
    wanted = [kind for kind in known.kinds if kinds is None or kind.name in kinds]
    return tuple(_built(known, kind, chosen, number).verify() for kind in wanted)


def read_program(program: str | Program) -> Program:
    """A program by its name; a `Program` is returned unchanged.

    Raises:
        InputError: for an unknown name.
    """
    if isinstance(program, Program):
        return program
    if program not in PROGRAMS:
        raise InputError(
            f"no program {brief(program)}. {did_you_mean(program, PROGRAMS)} There are {', '.join(PROGRAMS)}."
        )
    return PROGRAMS[program]()


def _built(program: Program, kind: Kind, settings: Settings, n_pairs: int) -> KnownCircuit:
    layout = program.layout
    model = compiled(layout, settings, without=frozenset(kind.without))
    draw = Random(f"{program.name} {kind.name} {settings.seed}")
    drawn = [kind.draw(draw) for _ in range(max(_TASK_PAIRS, n_pairs))]
    accuracy = task_accuracy(model, drawn)
    if accuracy < LEAST_ACCURACY:
        raise InputError(
            f"{program.name} · {kind.name} · {settings.name} · seed {settings.seed}: the model does its task in {accuracy:.0%} of "
            f"{len(drawn)} pairs, expected {LEAST_ACCURACY:.0%}. Use less noise or superposition, sharper attention or another seed."
        )
    return KnownCircuit(
        program=program.name,
        kind=kind.name,
        model=model,
        pairs=tuple(drawn[:n_pairs]),
        true_edges=_edges(layout, kind),
        settings=settings.name,
        seed=settings.seed,
        truth=kind.truth,
        neurons=_neurons(layout, kind),
        noise_only=compiled(layout, settings, empty=True) if settings.noise else None,
    )


def _edges(layout: Layout, kind: Kind) -> frozenset[tuple[str, str]]:
    """A kind's edges with the names of the model.

    Raises:
        InputError: if an edge's receiver reads no space that its sender writes.
    """
    edges = set()
    for written in kind.edges.split(", "):
        sender, receiver = written.split(" -> ")
        if not layout.written(sender) & layout.read(receiver):
            raise InputError(f"{kind.name}: {written}: {receiver} reads nothing that {sender} writes.")
        name, dot, side = receiver.partition(".")
        edges.add((layout.place(sender), layout.place(name) + dot + side))
    return frozenset(edges)


def _neurons(layout: Layout, kind: Kind) -> dict[int, tuple[int, ...]]:
    senders = {edge.split(" -> ")[0] for edge in kind.edges.split(", ")}
    by_layer: dict[int, tuple[int, ...]] = {}
    first = dict.fromkeys(range(layout.n_layers), 0)
    for part in layout.neurons:
        last = first[part.layer] + len(part)
        if part.name in senders:
            by_layer[part.layer] = (*by_layer.get(part.layer, ()), *range(first[part.layer], last))
        first[part.layer] = last
    return by_layer


@torch.no_grad()
def task_accuracy(model: Any, pairs: Sequence[Pair]) -> float:
    """Fraction of prompts for which the model predicts the program's answer at the last position; both prompts of a pair count."""
    hits: list[bool] = []
    for length in sorted({len(pair.clean) for pair in pairs}):
        several = [pair for pair in pairs if len(pair.clean) == length]
        for side, answers in (
            ("clean", [pair.answer for pair in several]),
            ("corrupted", [pair.corrupted_answer for pair in several]),
        ):
            logits = model(torch.tensor([getattr(pair, side) for pair in several]))[:, -1]
            predicted = zip(logits.argmax(dim=-1).tolist(), answers, strict=True)
            hits += [token == answer for token, answer in predicted if answer is not None]
    return sum(hits) / len(hits)


def auroc(is_true: Bool[np.ndarray, " edge"], scores: Float[np.ndarray, " edge"]) -> float:
    """Area under the ROC curve: probability that a true edge scores above a false one; ties count half."""
    n_true, n_false = int(is_true.sum()), int((~is_true).sum())
    return float((rankdata(scores)[is_true].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))
