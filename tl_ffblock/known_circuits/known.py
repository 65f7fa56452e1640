# Noun: ground-truth circuit (Lindner et al. 2023; Gupta et al. 2024, InterpBench).
"""A model with its true edges for a kind of pair, and the exact effects that verify them."""

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
"""Pairs on which the task is measured."""
_DRAWS = 32
"""Random sets of other edges, for kinds whose truth needs them."""
Of: TypeAlias = Literal["edges", "nodes", "tokens"]
"""What is scored: edges; senders of edges, with all that they send; positions, with the other prompt's token."""
Item: TypeAlias = tuple[str, str] | str | int
"""The name of an edge, of a node, or a position."""


@strict
@dataclass(frozen=True, eq=False)
class KnownCircuit:
    """A model, pairs of prompts, and the edges that carry the difference of the pairs. Make your own for a model of yours."""

    program: str
    kind: str
    """Which input of the pairs differs."""
    model: Any
    pairs: tuple[Pair, ...]
    true_edges: frozenset[tuple[str, str]]
    """Names of senders and receivers, such as ("L0H0", "L1H0.k")."""
    settings: str = ""
    seed: int = 0
    truth: Truth = "clean run"
    neurons: Mapping[int, tuple[int, ...]] | None = None
    """By layer, the true neurons: those of the program's feed-forwards that send a true edge; None where they are not known."""
    noise_only: Any = None
    """The same model with its noise alone, where there is noise."""

    @property
    def name(self) -> str:
        """Program, kind, settings and seed."""
        return " · ".join(each for each in (self.program, self.kind, self.settings, f"seed {self.seed}") if each)

    @property
    def heads(self) -> frozenset[str]:
        """True heads: those that send a true edge."""
        return frozenset(sender for sender, _ in self.true_edges if "H" in sender)

    @property
    def nodes(self) -> frozenset[str]:
        """True nodes: the residual stream at the first layer, heads and feed-forwards that send a true edge."""
        return frozenset(sender for sender, _ in self.true_edges)

    @cached_property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """All edges of the model, in the order of `is_true`, `exact` and of scores."""
        return tuple(Circuit.full(self.model))

    @cached_property
    def is_true(self) -> Bool[np.ndarray, " edge"]:
        """Which edges are true.

        Raises:
            InputError: if a true edge is not one of the model.
        """
        if unknown := sorted(self.true_edges - set(self.edges)):
            raise InputError(
                f"{self.name}: no edge {brief(unknown[0])}: expected names such as {brief(self.edges[0])}."
            )
        return np.array([edge in self.true_edges for edge in self.edges])

    def target(self, pair: Pair) -> Metric:
        """The logit difference of answer and foil at the last position."""
        return logit(pair.answer, minus=pair.foil)

    @cached_property
    def exact(self) -> Float[np.ndarray, "pair edge"]:
        """The exact effect of every edge, as the kind's truth is defined: signed where that is the clean run's."""
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
        """Names of what a method gives numbers for: edges and nodes of the model, positions of the pair."""
        if of == "edges":
            return self.edges
        return (
            tuple(dict.fromkeys(sender for sender, _ in self.edges)) if of == "nodes" else tuple(range(len(pair.clean)))
        )

    def truth_of(self, of: Of) -> tuple[Bool[np.ndarray, " item"], Float[np.ndarray, "pair item"]]:
        """Which items are true, and the exact effect of each: a node's with all its edges, a position's with the other token.

        Positions of all pairs stand in one row.

        Raises:
            InputError: for nodes and tokens of a kind whose edges are not seen one at a time.
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
        """Refuse nodes and tokens of a kind whose edges are not seen one at a time.

        Raises:
            InputError: naming its truth.
        """
        if of != "edges" and self.truth != "clean run":
            raise InputError(
                f"{self.name}: of={of!r} needs a kind whose truth is of the clean run, not of {self.truth}."
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
        """Measure that exact patching separates true edges from all others.

        Args:
            least: The smallest AUROC that is accepted.

        Raises:
            InputError: if it does not, or there is no true or no false edge.
        """
        if not self.pairs or self.is_true.all() or not self.is_true.any():
            raise InputError(f"{self.name}: expected a pair or more, true edges and false ones.")
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
    """A compiled program's known circuits, one per kind of pair, each verified: its task, and exact patching of every edge.

    Args:
        program: One of `known_circuits.PROGRAMS`, or a `Program` of your own.
        settings: In which kind of model; None means no norm, sharp attention, no noise.
        pairs: How many of each kind.
        kinds: Names of kinds; None means all.

    Raises:
        InputError: for an unknown program or kind, or settings in which the task or the circuit does not survive.
    """
    chosen = Settings() if settings is None else settings
    known = read_program(program)
    names = [kind.name for kind in known.kinds]
    if unknown := [kind for kind in kinds or () if kind not in names]:
        raise InputError(f"kinds={brief(unknown[0])}: {known.name} has {', '.join(names)}.")
    number = whole_number(pairs, "pairs", at_least=1)
    wanted = [kind for kind in known.kinds if kinds is None or kind.name in kinds]
    return tuple(_built(known, kind, chosen, number).verify() for kind in wanted)


def read_program(program: str | Program) -> Program:
    """A program by its name.

    Raises:
        InputError: if there is none of the name.
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
    """A kind's edges by the model's names; each joins a writer of a space with a reader of it.

    Raises:
        InputError: if one does not.
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
    """In what part of runs the model predicts what the program says at the last position."""
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
    """The area under the ROC curve: the chance that a true edge scores above a false one, ties counted half."""
    n_true, n_false = int(is_true.sum()), int((~is_true).sum())
    return float((rankdata(scores)[is_true].sum() - n_true * (n_true + 1) / 2) / (n_true * n_false))
