# Noun: circuit evaluation, edge patching (Wang et al. 2023; Goldowsky-Dill et al. 2023; Mueller et al. 2025).
"""Circuits: runs with all other edges ablated, faithfulness, and exact effects of single edges.

faithfulness f(C) = (m(C) - m(empty)) / (m(full) - m(empty))        m: mean of the target over pairs; Mueller et al. 2025
CMD = area between f and 1, CPR = area under f, over circuit sizes as fractions of all edges, by the trapezoidal rule
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal, SupportsIndex, TypeAlias

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.attribution.patching import pairs_of
from tl_ffblock.attribution.targets import Target, of_logits, words_of
from tl_ffblock.bridge.edge_ablation import EdgeAblation
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import InputError, brief
from tl_ffblock.graphs.circuit import Circuit, kept_edges
from tl_ffblock.graphs.edge_estimates import SENDERS, EdgeGraph
from tl_ffblock.graphs.graph import GraphCertificate, GraphTarget
from tl_ffblock.interventions.patched import Prompts, equally_long, pair_labels, refuse_other_run
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.metrics import CleanRun, Metric, run_by_run
from tl_ffblock.numerals import significant
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result, Results
from tl_ffblock.results.intervals import N_DRAWS, PERCENTILES, bootstrap_weights
from tl_ffblock.signatures import strict

Ablation: TypeAlias = Literal["corrupted", "zero", "mean"]
"""What receivers read from ablated edges: the sender's output for the corrupted prompt, zero, or its mean over all positions of
all corrupted prompts."""
PositionEmbeddings: TypeAlias = Literal["ablated", "kept"]
"""Whether an ablated edge from the embeddings loses position embeddings too, or only token embeddings, as in EAP-IG."""
_AT_ONCE = 128
"""Number of edges per batch of masks."""
ABSOLUTE = "patched among random edges"
"""`rules` of absolute effects, which do not say whether an edge supports the target."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CircuitFaithfulness(Result):
    """Target of every circuit and pair, with faithfulness, CMD and CPR (MIB-style)."""

    model: str
    target: str
    ablation: str
    n_edges: Int[Tensor, " circuit"]
    """Number of edges of every circuit."""
    n_possible: int
    """Number of edges of the whole model."""
    values: Float[Tensor, "circuit pair"]
    """Target with all edges outside the circuit ablated."""
    clean: Float[Tensor, " pair"]
    """Target without ablated edges."""
    ablated: Float[Tensor, " pair"]
    """Target with all edges ablated."""
    certificate: GraphCertificate
    """Largest errors over pairs: logits of the full circuit and the clean prompt, and of the empty circuit and the ablated prompt."""

    @property
    def fractions(self) -> Float[Tensor, " circuit"]:
        """Sizes of the circuits as fractions of all edges."""
        return self.n_edges.double() / self.n_possible

    @property
    def faithfulness(self) -> Float[Tensor, " circuit"]:
        """Faithfulness of every circuit, from means over pairs: 0 for the empty circuit, 1 for the full one."""
        return self._ratios(torch.ones(1, len(self.clean), dtype=torch.float64))[0]

    @property
    def cmd(self) -> float:
        """Circuit-model distance: area between faithfulness and 1 over circuit sizes; 0 is best.

        Raises:
            InputError: if the circuits do not have several sizes, up to all edges.
        """
        return self._area((1 - self.faithfulness).abs())

    @property
    def cpr(self) -> float:
        """Circuit performance ratio: area under faithfulness over circuit sizes.

        Raises:
            InputError: as in `cmd`.
        """
        return self._area(self.faithfulness)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per circuit: edges, fraction, value (its faithfulness) with a 95 % bootstrap interval, n pairs, target."""
        n_pairs = len(self.clean)
        low, high = np.full((2, len(self.values)), np.nan)
        if n_pairs > 1:
            draws = self._ratios(torch.from_numpy(bootstrap_weights(n_pairs, N_DRAWS, 0))).numpy()
            low, high = np.nanpercentile(draws, PERCENTILES, axis=0)
        columns = {
            "edges": self.n_edges.numpy(),
            "fraction": self.fractions.numpy(),
            "value": self.faithfulness.numpy(),
        }
        return pd.DataFrame(
            {**columns, "low": low, "high": high, "n": n_pairs, "target": self.values.mean(dim=1).numpy()}
        )

    def summary(self) -> tuple[str, Mapping[str, object]]:
        ends = f"{significant(float(self.clean.mean()), 4)}, all edges ablated {significant(float(self.ablated.mean()), 4)}"
        shown = zip(self.n_edges.tolist(), self.faithfulness.tolist(), strict=True)
        lines: dict[str, object] = {"faithfulness": " · ".join(f"{n} edges {significant(f)}" for n, f in shown)}
        if len(set(self.n_edges.tolist())) > 1 and int(self.n_edges.max()) == self.n_possible:
            lines["MIB-style"] = f"CMD {significant(self.cmd)} · CPR {significant(self.cpr)}"
        lines |= {"clean": ends, "pairs": len(self.clean), "certificate": self.certificate}
        return f"{self.target} of {self.model}, ablation={self.ablation!r}", lines

    def _ratios(self, weights: Float[Tensor, "draw pair"]) -> Float[Tensor, "draw circuit"]:
        own, clean, ablated = (weights @ each.double() for each in (self.values.T, self.clean, self.ablated))
        return (own - ablated[:, None]) / (clean - ablated)[:, None]

    def _area(self, heights: Float[Tensor, " circuit"]) -> float:
        if len(set(self.n_edges.tolist())) < 2 or int(self.n_edges.max()) < self.n_possible:
            raise InputError(
                f"an area over circuit sizes needs circuits of several sizes, up to all {self.n_possible} edges; these have "
                f"{', '.join(map(str, self.n_edges.tolist()))}. Use Circuit.by_size(edges)."
            )
        order = torch.argsort(self.n_edges, stable=True)
        return float(torch.trapezoid(heights[order], self.fractions[order]))


@strict
@dataclass(frozen=True, repr=False, eq=False, kw_only=True)
class EdgeEffects(EdgeGraph):
    """Measured changes of a target, in its units, if one receiver reads a sender's output for the corrupted prompt."""

    corrupted: float
    """Target of the corrupted prompt; that of the clean one is `targets[0].value`."""
    n_possible: int = 0
    """Number of edges of the whole model."""

    def compare(self, estimates: EdgeGraph) -> pd.DataFrame:
        """One row per edge: source, target, the measured effect and the estimate.

        Args:
            estimates: Edges of `attribution_patching(edges=True)` for the same pair.

        Raises:
            InputError: if prompts, target or model differ, or if there is no common edge.
        """
        refuse_other_run(
            model=(self.model, estimates.model),
            weights=(self.fingerprint, estimates.fingerprint),
            prompts=(self.labels, estimates.labels or ""),
            targets=(self.targets[0].name, estimates.targets[0].name if estimates.targets else ""),
        )
        measured, estimated = (
            {
                tuple(graph.nodes[end].name for end in ends): weight
                for ends, weight in zip(graph.ends.tolist(), weights, strict=True)
            }
            for graph, weights in ((graph, graph.weights[:, 0].tolist()) for graph in (self, estimates))
        )
        rows = [(*edge, effect, estimated[edge]) for edge, effect in measured.items() if edge in estimated]
        if not rows:
            raise InputError("compare: no common edge; expected estimates of the same model.")
        return pd.DataFrame(rows, columns=["source", "target", "effect", "estimate"])

    def correlation(self, estimates: EdgeGraph) -> float:
        """Pearson's correlation of measured effects and estimates over common edges; NaN if one of them is constant.

        Args:
            estimates: As in `compare`.

        Raises:
            InputError: as in `compare`.
        """
        with np.errstate(invalid="ignore", divide="ignore"):
            return float(np.corrcoef(self.compare(estimates)[["effect", "estimate"]].to_numpy().T)[0, 1])


@strict
def run_circuit(
    model: Any,
    clean: Prompts,
    corrupted: Prompts | None,
    circuit: Circuit,
    target: Target,
    *,
    ablation: Ablation = "corrupted",
    position_embeddings: PositionEmbeddings = "ablated",
    progress: bool = True,
) -> Float[Tensor, " pair"]:
    """Target of every clean prompt with all edges outside a circuit ablated [pair].

    Args:
        model: The circuit's model: a TransformerBridge whose residual stream is a sum (no Post-LN).
        clean: A text or token ids, or a list of these.
        corrupted: The corrupted prompt of each, of equally many tokens; None with `ablation="zero"`.
        circuit: The edges that are kept.
        target: A metric, a token, or a function of logits to one number per row.
        ablation: What receivers read from ablated edges: "corrupted", "zero" or "mean".
        position_embeddings: Whether zero and mean ablation of the embeddings include position embeddings, "ablated", or only token
            embeddings, "kept". Corrupted prompts have the same position embeddings.
        progress: Whether a long call shows a progress bar.

    Returns:
        The target per pair, in its units [pair].

    Raises:
        InputError: for input that cannot be used, or a circuit of another model.
        UnsupportedModelError: for a model whose edges cannot be ablated.
        CompletenessError: if the full circuit does not give the clean logits, or the empty one the ablated logits.
    """
    runs = _Pairs.open(model, clean, corrupted, target, ablation, position_embeddings)
    kept = kept_edges(runs.edges, circuit)[None]
    return torch.stack([pair.values(kept)[0] for pair in runs.counted(shown=progress)])


@strict
def circuit_faithfulness(
    model: Any,
    clean: Prompts,
    corrupted: Prompts | None,
    circuits: Circuit | Sequence[Circuit],
    target: Target,
    *,
    ablation: Ablation = "corrupted",
    position_embeddings: PositionEmbeddings = "ablated",
    progress: bool = True,
) -> CircuitFaithfulness:
    """Faithfulness of circuits over pairs of prompts, and CMD and CPR over circuit sizes (Mueller et al. 2025, MIB-style).

    Args:
        model: As in `run_circuit`.
        clean: As in `run_circuit`.
        corrupted: As in `run_circuit`.
        circuits: One or several circuits; `Circuit.by_size(edges)` returns those of MIB's sizes.
        target: As in `run_circuit`.
        ablation: As in `run_circuit`.
        position_embeddings: As in `run_circuit`.
        progress: Whether a long call shows a progress bar.

    Returns:
        `CircuitFaithfulness`: targets and faithfulness per circuit and pair, and CMD and CPR.

    Raises:
        FFBlockError: all errors of `run_circuit`.
    """
    chosen = [circuits] if isinstance(circuits, Circuit) else list(circuits)
    if not chosen or not all(isinstance(circuit, Circuit) for circuit in chosen):
        raise InputError(f"circuits={brief(circuits)}: expected one or more circuits, such as Circuit.by_size(edges).")
    runs = _Pairs.open(model, clean, corrupted, target, ablation, position_embeddings)
    kept = torch.stack([kept_edges(runs.edges, circuit) for circuit in chosen])
    masks = torch.cat([kept, torch.zeros_like(kept[:1])])
    rows = [(pair.values(masks), pair.clean_value, pair.gaps, pair.words) for pair in runs.counted(shown=progress)]
    values, clean_values, gaps, words = zip(*rows, strict=True)
    table = torch.stack(values, dim=1)
    if torch.isclose(table[-1].mean(), torch.stack(clean_values).mean()):
        raise InputError(
            "the target is the same with and without ablated edges, so faithfulness is not defined. Use another target or pair."
        )
    return CircuitFaithfulness(
        model=runs.edges.model.name,
        target=words[0] if len(set(words)) == 1 else runs.metric.name,
        ablation=f"{ablation}, position embeddings kept" if runs.positions_kept else ablation,
        n_edges=torch.tensor([circuit.n_edges for circuit in chosen]),
        n_possible=int(runs.edges.possible.sum()),
        values=table[:-1],
        clean=torch.stack(clean_values),
        ablated=table[-1],
        certificate=_certificate(runs.edges, gaps),
    )


@strict
def edge_patching(
    model: Any,
    clean: Prompts,
    corrupted: Prompts,
    target: Target,
    edges: Circuit | Sequence[tuple[str, str]] | None = None,
    *,
    draws: SupportsIndex = 0,
    seed: SupportsIndex = 0,
    progress: bool = True,
) -> EdgeEffects | Results[EdgeEffects]:
    """Exact effects of single edges: path patching of a sender into one query, key, value or feed-forward input.

    Every edge has a forward pass of its own, in which one receiver reads the sender's output for the corrupted prompt
    (Goldowsky-Dill et al. 2023), and all else is the model's. These run in batches. `attribution_patching(edges=True)` estimates
    the same numbers for all edges at once.

    Args:
        model: As in `run_circuit`.
        clean: A text or token ids, or a list of these.
        corrupted: The corrupted prompt of each, of equally many tokens.
        target: As in `run_circuit`.
        edges: Names such as [("L3H5", "L7.mlp"), ("L0.mlp", "L5H1.v")], or a circuit: `Circuit.topn(estimates, 100)`. A key or
            value input that several heads share is one receiver, "L5KV0.v". None means all edges.
        draws: Number of random sets of other edges that are patched together with the edge. The result is the mean absolute effect
            of the edge among them, which votes and XOR need. Sizes of sets are spread evenly from 0 to 1, as in Shapley values by
            Owen's multilinear extension (1972). 0 patches each edge alone.
        seed: Seed of the random sets.
        progress: Whether a long call shows a progress bar.

    Returns:
        One `EdgeEffects` for two prompts; `Results`, a list of them, for lists.

    Raises:
        FFBlockError: all errors of `run_circuit` and `Circuit.of`.
    """
    runs = _Pairs.open(model, clean, corrupted, target, "corrupted")
    known = edges if isinstance(edges, Circuit) else None
    if known is None:
        known = Circuit.full(runs.edges.model) if edges is None else Circuit.of(runs.edges.model, edges)
    if not known.n_edges:
        raise InputError(f"edges={brief(edges)}: expected one edge or more, such as [('L0.mlp', 'target')].")
    n_draws, drawn = whole_number(draws, "draws", at_least=0), torch.Generator().manual_seed(whole_number(seed, "seed"))
    rows, columns = kept_edges(runs.edges, known).nonzero(as_tuple=True)
    by_receiver = torch.argsort(columns, stable=True)
    results = Results[EdgeEffects]()
    with Progress("edge patching", len(runs.pairs) * len(rows) * max(1, n_draws), "edges", shown=progress) as bar:
        for pair in runs:
            effects = torch.zeros(len(rows), dtype=pair.clean_value.dtype)
            for others in _sets(runs.edges.possible, n_draws, drawn):
                start = pair.values(others[None])[0] if n_draws else pair.clean_value
                for chosen in torch.split(by_receiver, _AT_ONCE):
                    kept = others.repeat(len(chosen), 1, 1)
                    kept[torch.arange(len(chosen)), rows[chosen], columns[chosen]] ^= True
                    change = pair.values(kept) - start
                    effects[chosen] += change.abs() / n_draws if n_draws else change
                    bar.step(len(chosen))
            results.append(_effects(runs, pair, known, effects, ABSOLUTE if n_draws else "patched"))
    return results[0] if runs.single else results


def _sets(
    possible: Bool[Tensor, "sender receiver"], n_draws: int, drawn: torch.Generator
) -> Iterator[Bool[Tensor, "sender receiver"]]:
    """Masks of kept edges: all, or random sets with evenly decreasing fractions."""
    if not n_draws:
        yield possible
    for each in range(n_draws):
        yield possible & (torch.rand(possible.shape, generator=drawn, dtype=torch.float32) > (each + 0.5) / n_draws)


@strict
def path_patching(
    model: Any,
    clean: Prompts,
    corrupted: Prompts,
    target: Target,
    paths: Sequence[Sequence[tuple[str, str]]],
    *,
    progress: bool = True,
) -> Float[Tensor, "path pair"]:
    """Exact change of a target by patching paths of edges (Goldowsky-Dill et al. 2023) [path pair].

    The first edge has the sender's output for the corrupted prompt. Its receiver is computed again, and the next edge has that
    output, up to the last receiver. All other edges are those of the clean prompt. A path of one edge is an edge of
    `edge_patching`.

    Args:
        model: As in `run_circuit`.
        clean: As in `run_circuit`.
        corrupted: As in `run_circuit`.
        target: As in `run_circuit`.
        paths: Lists of edges, such as [("L0.mlp", "L5KV0.v"), ("L5H1", "target")]: each sender reads the receiver before it.
        progress: Whether a long call shows a progress bar.

    Raises:
        FFBlockError: all errors of `edge_patching`; InputError for edges that do not form a path.
    """
    runs = _Pairs.open(model, clean, corrupted, target, "corrupted")
    full, edges = Circuit.full(runs.edges.model), runs.edges
    if not paths:
        raise InputError("paths: none; expected one or more, such as [[('L0.mlp', 'target')]].")
    numbered = [_numbers_of_path(full, path) for path in paths]
    changes = []
    for pair in runs.counted(shown=progress):
        for path in numbered:
            carried = pair.ablated_outputs[path[0][0]]
            for (sender, receiver), after in zip(path, [*path[1:], None], strict=True):
                outputs, kept = pair.clean_outputs.clone(), edges.possible.clone()
                outputs[sender], kept[sender, receiver] = carried, False
                run = edges.outputs(pair.tokens, outputs, kept)
                carried = carried if after is None else run.senders[after[0]]
            changes.append(_read(pair.metric, run.logits[None])[0] - pair.clean_value)
    return torch.stack(changes).reshape(len(runs.pairs), len(numbered)).T


def _numbers_of_path(full: Circuit, path: Sequence[tuple[str, str]]) -> list[tuple[int, int]]:
    """Edges of a path as pairs of sender and receiver numbers."""
    if not path:
        raise InputError("paths: a path without edges; expected one or more, such as [('L0.mlp', 'target')].")
    numbers = [full.numbers(edge) for edge in path if full[edge] is not None]  # refuses names without an edge
    readers = {
        full.nodes[receiver].name: to for receiver, to in zip(full.ends[:, 1].tolist(), full.readers, strict=True)
    }
    for (_, receiver), (sender, _) in pairwise(path):
        names = [full.nodes[reader].name for reader in readers[receiver]]
        if sender not in names:
            raise InputError(f"paths: {sender} does not read {receiver}; expected {' or '.join(names)}.")
    return numbers


def _effects(runs: "_Pairs", pair: "_Pair", edges: Circuit, effects: Float[Tensor, " edge"], rules: str) -> EdgeEffects:
    """Effects with labels. A component's value is the sum of its outgoing edges, an input's that of its incoming edges."""
    none = torch.zeros(len(edges.nodes), dtype=torch.float64)
    sent, received = (none.index_add(0, ends, effects.double()) for ends in edges.ends.T)
    shares = torch.where(torch.tensor([node.kind in SENDERS for node in edges.nodes]), sent, received)
    nodes = zip(edges.nodes, shares.tolist(), strict=True)
    return EdgeEffects(
        model=runs.edges.model.name,
        labels=pair.labels,
        clean_labels=pair_labels(runs.edges.model, [pair.tokens]),
        targets=(GraphTarget(pair.words, float(pair.clean_value), quantity=runs.metric.name),),
        nodes=tuple(replace(node, shares=(share,), own_shares=(0.0,)) for node, share in nodes),
        ends=edges.ends,
        weights=effects[:, None],
        sizes=effects.abs(),
        certificate=_certificate(runs.edges, [pair.gaps]),
        rules=rules,
        corrupted=float(pair.corrupted_value),
        n_possible=int(runs.edges.possible.sum()),
        fingerprint=runs.edges.model.fingerprint,
    )


def _certificate(edges: EdgeAblation, gaps: Sequence[Mapping[str, float]]) -> GraphCertificate:
    """Largest errors over pairs."""
    return GraphCertificate({name: max(gap[name] for gap in gaps) for name in gaps[0]}, edges.model.tolerance)


@dataclass(frozen=True)
class _Pair:
    """A clean prompt with the tensors that ablated edges read."""

    edges: EdgeAblation
    tokens: Int[Tensor, " pos"]
    clean_outputs: Float[Tensor, "sender pos d"]
    ablated_outputs: Float[Tensor, "sender pos d"]
    metric: Metric
    words: str
    labels: tuple[str, ...]
    clean_value: Float[Tensor, ""]
    corrupted_value: Float[Tensor, ""]
    gaps: Mapping[str, float]

    def values(self, kept: Bool[Tensor, "run sender receiver"]) -> Float[Tensor, " run"]:
        """Target under every mask of kept edges."""
        runs = self.edges.logits(self.tokens, self.ablated_outputs, kept)
        return torch.cat([_read(self.metric, logits) for logits in runs])


@dataclass(frozen=True)
class _Pairs:
    """Pairs of prompts of one call."""

    edges: EdgeAblation
    pairs: Sequence[tuple[Int[Tensor, " pos"], Int[Tensor, " pos"] | None]]
    metric: Metric
    ablation: Ablation
    single: bool
    positions_kept: bool = False
    """Whether ablated edges from the embeddings have the prompt's position embeddings."""

    @classmethod
    def open(
        cls,
        model: Any,
        clean: Prompts,
        corrupted: Prompts | None,
        target: Target,
        ablation: Ablation,
        position_embeddings: PositionEmbeddings = "ablated",
    ) -> "_Pairs":
        """Checked input of a call.

        Raises:
            FFBlockError: for input that cannot be used, and models whose edges cannot be ablated.
        """
        known = identify(model)
        edges = EdgeAblation.of(known)
        if corrupted is None and ablation != "zero":
            raise InputError(
                f'corrupted=None with ablation={ablation!r}: expected corrupted prompts; only ablation="zero" needs none.'
            )
        single, given = pairs_of(known, clean, corrupted)
        metric = of_logits(target, known, len(given))
        tokens = [equally_long(known, pair, "" if single else f"[{number}]") for number, pair in enumerate(given)]
        pairs = [(first, None if corrupted is None else second) for first, second in tokens]
        return cls(edges, pairs, metric, ablation, single, position_embeddings == "kept" and ablation != "corrupted")

    def __iter__(self) -> Iterator[_Pair]:
        means = self._means() if self.ablation == "mean" else None
        for number, (clean, corrupted) in enumerate(self.pairs):
            own = self.edges.outputs(clean)
            other = self.edges.outputs(clean.flip(0) if corrupted is None else corrupted)
            ablated = other.senders if means is None else means.expand_as(own.senders)
            ablated = torch.zeros_like(own.senders) if self.ablation == "zero" else ablated
            if self.positions_kept:
                ablated = torch.cat([ablated[:1] + self.edges.position_embeddings(clean), ablated[1:]])
            gaps = self.edges.check(clean, own, other, None if self.ablation == "corrupted" else ablated)
            metric = self.metric.of_prompt(CleanRun(number, clean, own.logits))
            values = _read(metric, torch.stack([own.logits, other.logits]))
            labels = pair_labels(self.edges.model, [clean] if corrupted is None else [clean, corrupted])
            words = words_of(self.edges.model, metric)
            yield _Pair(self.edges, clean, own.senders, ablated, metric, words, labels, values[0], values[1], gaps)

    def counted(self, *, shown: bool) -> Iterator[_Pair]:
        """The pairs, with a progress bar."""
        with Progress("circuits", len(self.pairs), "pairs", shown=shown) as bar:
            for pair in self:
                yield pair
                bar.step()

    def _means(self) -> Float[Tensor, "sender 1 d"]:
        """Mean output of every sender over all positions of all corrupted prompts."""
        sums, number = [], 0
        for tokens in (pair for _, pair in self.pairs if pair is not None):
            sums.append(self.edges.outputs(tokens).senders.sum(dim=1, keepdim=True))
            if self.positions_kept:
                sums[-1][0] -= self.edges.position_embeddings(tokens).sum(dim=0)
            number += len(tokens)
        return torch.stack(sums).sum(dim=0) / number


def _read(metric: Metric, logits: Float[Tensor, "run pos d_vocab"]) -> Float[Tensor, " run"]:
    values = run_by_run(metric, logits).detach().cpu()
    return values.to(torch.promote_types(values.dtype, torch.float32))
