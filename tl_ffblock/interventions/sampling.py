"""Draws cells of a prompt, asks the predictors about each, takes each out of the run and measures.

1. For every prompt and layer some cells (query, key) are drawn among those that can reach the metric:
   most in the row where the metric is read, the others in one more row, the same in all layers of a prompt.
2. Of every cell the run gives the predictors: the map of every scope, raw attention (mean over heads)
   and attention times value norm; of pairs of prompts how far these are from the corrupted run's.
3. Each cell's contribution is taken out of the run at each scope asked for, or exchanged for the corrupted run's, and in a
   further run its attention edge is cut. The effect is the change of the metric.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.model import Model
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edits import Edit, exchange, knockout, removal
from tl_ffblock.interventions.side_by_side import measure_edits, metric_of
from tl_ffblock.layer.positions import real_number, whole_number
from tl_ffblock.layer.scopes import scope_names
from tl_ffblock.metrics import Metric
from tl_ffblock.signatures import strict

ATTENTION, VALUES, PLACEBO, KNOCKOUT = "attention", "attention x value norm", "placebo", "edge knockout"


def change_of(predictor: str) -> str:
    """What the difference of two runs is called among the predictors."""
    return f"change of {predictor}"


@strict
@dataclass(frozen=True)
class SamplePlan:
    """How much of each prompt is sampled, how it is run, and how often the bootstrap draws."""

    n_cells: int = 3
    """Cells of every prompt and layer."""
    read_share: float = 0.6
    """Which share of them lies in the row where the metric is read."""
    seed: int = 0
    """Same seed, same cells, placebo and intervals."""
    batch_size: int = 64
    """Edited runs at a time."""
    n_bootstrap: int = 2000
    """Draws of the bootstrap over prompts."""

    def __post_init__(self) -> None:
        for name in ("n_cells", "batch_size", "n_bootstrap"):
            whole_number(getattr(self, name), name, at_least=1)
        whole_number(self.seed, "seed", at_least=0)
        real_number(self.read_share, "read_share", at_least=0.0, at_most=1.0)


@dataclass(frozen=True)
class Cell:
    """One contribution: which layer, which position receives, which gives."""

    layer: int
    query: int
    key: int
    reads: bool
    """Whether the metric is read at the query."""


@dataclass(frozen=True)
class PromptTokens:
    """A prompt, alone or with a corrupted one of equally many tokens."""

    number: int
    """Its number in the metric's lists of tokens."""
    tokens: Int[Tensor, " pos"]
    corrupted: Int[Tensor, " pos"] | None = None


@dataclass(frozen=True)
class PromptSample:
    """The sampled cells of one prompt, with what is predicted of each and what its removal or exchange did."""

    tokens: tuple[str, ...]
    clean: float
    """The metric without any edit."""
    corrupted: float | None
    """The metric of the corrupted run, if there is one."""
    cells: tuple[Cell, ...]
    predictions: dict[str, list[float]]
    """One number a cell, by predictor."""
    effects: dict[str, list[float]]
    """One number a cell, by intervention, in the metric's units; NaN where there was nothing to do."""


@dataclass(frozen=True)
class Sampler:
    """What is done with every prompt."""

    model: Model
    metric: Metric
    scopes: tuple[str, ...]
    """Where contributions are removed or exchanged."""
    edge_knockout: bool
    """Whether attention edges are cut, too."""
    plan: SamplePlan

    @property
    def effects(self) -> tuple[str, ...]:
        """Names of the interventions on each cell."""
        return (*self.scopes, *((KNOCKOUT,) if self.edge_knockout else ()))

    def sample(
        self,
        prompt: PromptTokens,
        layers: tuple[int, ...],
        generator: np.random.Generator,
        advance: Callable[[int], object],
    ) -> PromptSample:
        """Draw, predict, edit, measure.

        Args:
            prompt: The prompt, or pair of prompts.
            layers: Layers to sample.
            generator: Decides which cells.
            advance: Called with a number of edited runs when they are done.
        """
        run = Contributions(self.model, prompt.tokens, layers=layers)
        donor = None if prompt.corrupted is None else Contributions(self.model, prompt.corrupted, layers=layers)
        cells: list[Cell] = []
        predicted: list[dict[str, float]] = []
        edits = CellEdits()
        for cells_of_layer in self._draw(run.shape[1], layers, generator):
            for cell in cells_of_layer:  # all of one layer: only a few layers' vectors are kept at a time
                cells.append(cell)
                predicted.append(
                    predictions(run, cell) | ({} if donor is None else changes_predicted(run, donor, cell))
                )
                edits.add({effect: self._edit(run, donor, effect, cell) for effect in self.effects})
        read = metric_of(run, self.metric, prompt.number)
        clean = float(read(run.logits.clone()))
        measured = measure_edits(
            run, edits.edits, self.metric, prompt=prompt.number, batch_size=self.plan.batch_size, advance=advance
        )
        return PromptSample(
            tokens=run.labels(),
            clean=clean,
            corrupted=None if donor is None else float(read(donor.logits.clone())),
            cells=tuple(cells),
            predictions={name: [of_cell[name] for of_cell in predicted] for name in self._predictors(donor)},
            effects={effect: edits.changes(effect, measured.tolist(), clean) for effect in self.effects},
        )

    def _predictors(self, donor: Contributions | None) -> tuple[str, ...]:
        scopes = scope_names(self.model.family.order)
        changing = () if donor is None else (*map(change_of, scopes), change_of(ATTENTION))
        return (*scopes, ATTENTION, VALUES, *changing)

    def _edit(self, run: Contributions, donor: Contributions | None, effect: str, cell: Cell) -> Edit | None:
        """What changes a cell; None where there is nothing to change, as outside a window of attention."""
        if not any(bool(of.reaches(cell.layer)[cell.query, cell.key]) for of in (run, donor) if of is not None):
            return None
        if effect == KNOCKOUT:
            return knockout(run, cell.layer, cell.query, cell.key)
        if donor is None:
            return removal(run, cell.layer, effect, cell.query, cell.key)
        return exchange(run, donor, cell.layer, effect, cell.query, cell.key)

    def _draw(self, length: int, layers: tuple[int, ...], generator: np.random.Generator) -> Iterator[list[Cell]]:
        """The cells of every layer, without repetition."""
        reads = None if self.metric.at is None else self.metric.at % length
        second = self._second_row(length, reads, generator)
        for layer in layers:
            last = (
                layer == self.model.n_layers - 1
            )  # behind it no position reads another: only the read row has effects
            drawn = self._draw_pairs(length, reads, None if last else second, generator)
            yield [Cell(layer, query, key, reads is None or query == reads) for query, key in drawn]

    def _second_row(self, length: int, reads: int | None, generator: np.random.Generator) -> int | None:
        """The row of a prompt that is sampled beside the one that is read; None if no other row reaches the metric.

        Any other row does in a model that sees both ways, only those before the read one in a causal model: there
        the rows behind it are folded back among them. Where the metric is read at 4, row 5 becomes row 1.
        """
        row = int(generator.integers(length))
        if row == reads:
            row = (row + 1) % length
        if reads is None or row == reads:
            return None
        if not self.model.family.causal:
            return row
        return row % reads if reads > 0 else None

    def _draw_pairs(
        self, length: int, reads: int | None, second: int | None, generator: np.random.Generator
    ) -> list[tuple[int, int]]:
        """Pairs (query, key): of all rows if the metric reads all, else of the read row and the second one."""

        def drawn(rows: Sequence[int], number: int) -> list[tuple[int, int]]:
            last_key = {row: row if self.model.family.causal else length - 1 for row in rows}
            pairs = [(row, key) for row in rows for key in range(last_key[row] + 1)]
            return [pairs[index] for index in sorted(generator.permutation(len(pairs))[:number])]

        n_cells = self.plan.n_cells
        if reads is None:
            return drawn(range(length), n_cells)
        if second is None:
            return drawn([reads], n_cells)
        in_read_row = drawn([reads], math.ceil(n_cells * self.plan.read_share))
        return in_read_row + drawn([second], n_cells - len(in_read_row))


@dataclass
class CellEdits:
    """The edits of one prompt in one list, and which of them is which effect on which cell."""

    edits: list[Edit] = field(default_factory=list)
    numbers: list[dict[str, int | None]] = field(default_factory=list)
    """A cell's edits by effect, as places in the list; None where there was nothing to do."""

    def add(self, edits: Mapping[str, Edit | None]) -> None:
        """Take in a cell's edits; equal ones run once: `Atb` removes what `Attn` removes where key != query."""
        first = len(self.edits)
        self.numbers.append(
            {effect: None if edit is None else self._number(edit, first) for effect, edit in edits.items()}
        )

    def changes(self, effect: str, measured: Sequence[float], clean: float) -> list[float]:
        """An effect's change of the metric, one number a cell."""
        numbers = (of_cell[effect] for of_cell in self.numbers)
        return [float("nan") if number is None else measured[number] - clean for number in numbers]

    def _number(self, edit: Edit, first: int) -> int:
        for number, made in enumerate(self.edits[first:], first):
            if made.name == edit.name and torch.equal(made.vector, edit.vector):
                return number
        self.edits.append(edit)
        return len(self.edits) - 1


def predictions(contributions: Contributions, cell: Cell) -> dict[str, float]:
    """What each predictor says of a cell: maps of all scopes by name, attention, attention times value norm."""
    part = contributions.decomposition(cell.layer)[0]
    maps = {scope: float(part.parts(scope)[cell.query, cell.key].norm()) for scope in part.scopes}
    record = contributions.record(cell.layer)
    alpha = record.pattern[:, cell.query, cell.key]
    values = alpha * record.head_values[cell.key].norm(dim=-1)
    return maps | {ATTENTION: float(alpha.mean()), VALUES: float(values.mean())}


def changes_predicted(run: Contributions, donor: Contributions, cell: Cell) -> dict[str, float]:
    """How far a cell is from another run's: the norm of the difference of their vectors by scope, of attention the mean over heads."""
    own, put_in = (of_run.decomposition(cell.layer)[0] for of_run in (run, donor))
    at = cell.query, cell.key
    norms = {change_of(scope): float((own.parts(scope)[at] - put_in.parts(scope)[at]).norm()) for scope in own.scopes}
    first, second = (of_run.record(cell.layer).pattern[:, cell.query, cell.key] for of_run in (run, donor))
    return norms | {change_of(ATTENTION): float((first - second).abs().mean())}
