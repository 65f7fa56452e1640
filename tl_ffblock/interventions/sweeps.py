"""The effect of every contribution: a tensor [layer query key] and its table, of one prompt or of many.

What TransformerLens's `get_act_patch_*` functions give for whole activations, for single contributions,
with many edits a forward pass and for every scope.

1. `_Axes` says which cells of each prompt the rows and columns are: the same positions in all, or named ones.
2. The edits of prompts of equally many tokens are run side by side and read (side_by_side.py); a function of all
   prompts' logits, which somebody else wrote, gets the same cell of all prompts at a time.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.bridge.model import select_layers
from tl_ffblock.bridge.runs import Layers
from tl_ffblock.errors import InputError, brief
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edits import Edit, changes
from tl_ffblock.interventions.side_by_side import PromptEdit, SideBySide, measure_together, metric_of
from tl_ffblock.interventions.sweep_result import ContributionSweep
from tl_ffblock.layer.heads import AskedHeads, head_numbers
from tl_ffblock.layer.positions import ChosenPositions, NamedPositions, chosen_positions, whole_number
from tl_ffblock.metrics import LogitFunction, Metric, PlainMetric, as_metric
from tl_ffblock.progress import Progress
from tl_ffblock.results.tokens import joined
from tl_ffblock.signatures import strict

EditType = TypeVar("EditType", Edit, PromptEdit)


@dataclass(frozen=True)
class _Axis:
    """Rows or columns of a sweep."""

    names: tuple[int | str, ...]
    places: tuple[tuple[int, ...], ...]
    """By prompt, the position of each."""

    def tokens(self, prompts: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Which tokens stand there, different ones of the prompts joined."""
        return tuple(
            joined([labels[at[number]] for labels, at in zip(prompts, self.places, strict=True)], "|")
            for number in range(len(self.names))
        )


@dataclass(frozen=True)
class _Sweep:
    """What is changed: contributions of which cells, in place of which others."""

    runs: Contributions
    donor: Contributions | None
    scope: str
    layers: tuple[int, ...]
    heads: tuple[int, ...] | None
    queries: _Axis
    keys: _Axis

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads (one where contributions are changed whole), rows, columns."""
        return len(self.layers), len(self.heads or (0,)), len(self.queries.names), len(self.keys.names)

    def cells(self, prompt: int) -> list[tuple[int, int]]:
        """Rows and columns of the cells that exist in a prompt."""
        rows, columns = self.queries.places[prompt], self.keys.places[prompt]
        return [
            (row, column)
            for row, query in enumerate(rows)
            for column, key in enumerate(columns)
            if not self.runs.model.family.causal or key <= query
        ]

    def exists(self) -> Bool[Tensor, "prompt layer query key"]:
        """Whether a cell exists in its layer, of a prompt's run or of the donor's: the others have no effect to measure."""
        runs = [run for run in (self.runs, self.donor) if run is not None]
        found = []
        for prompt, (rows, columns) in enumerate(zip(self.queries.places, self.keys.places, strict=True)):
            reached = [
                torch.stack([run.reaches(layer, prompt)[list(rows)][:, list(columns)] for run in runs]).any(dim=0)
                for layer in self.layers
            ]
            found.append(torch.stack(reached).cpu())
        return torch.stack(found)

    def of_existing(self, values: Float[Tensor, "value layer head query key"]) -> Tensor:
        """The values, NaN where a cell does not exist: of each prompt, or of all together."""
        exists = self.exists()
        shared = exists if len(values) == len(exists) else exists.all(dim=0, keepdim=True)
        return values.masked_fill(~shared[:, :, None], float("nan"))

    def edits(self, prompt: int, run: Contributions, cells: Sequence[tuple[int, int]]) -> Iterator[list[Edit]]:
        """One edit a cell, by layer and head, in this order: those of all layers would be as large as all their vectors."""
        donor = None if self.donor is None else self.donor.prompt(prompt)
        at = [(self.queries.places[prompt][row], self.keys.places[prompt][column]) for row, column in cells]
        for layer in self.layers:
            for head in (None,) if self.heads is None else self.heads:
                yield changes(run, donor, layer, self.scope, at, head=head) if at else []

    def filled(self, cells: Sequence[tuple[int, int]], measured: Float[Tensor, " edit"]) -> Tensor:
        """Values in the order of the edits as a tensor [layer head query key], NaN elsewhere."""
        values = torch.full(self.shape, float("nan"))
        if cells:
            rows, columns = (list(axis) for axis in zip(*cells, strict=True))
            values[:, :, rows, columns] = measured.reshape(*self.shape[:2], len(cells))
        return values


@strict
def contribution_sweep(
    contributions: Contributions,
    metric: Metric | LogitFunction,
    scope: str,
    *,
    donor: Contributions | None = None,
    layers: Layers = None,
    heads: AskedHeads = False,
    queries: ChosenPositions = None,
    keys: ChosenPositions = None,
    positions: NamedPositions | None = None,
    batch_size: int = 64,
    progress: bool = True,
) -> ContributionSweep:
    """Change one contribution at a time and read the metric, of one prompt or of each of several.

    Args:
        contributions: The run to change (the corrupted one, if contributions of a clean one are put into it).
        metric: What to read: `ffb.logit(...)`, or any function of logits [batch pos d_vocab]. Somebody else's function is
            given the logits of all prompts, of equally many tokens, with the same cell changed in each.
        scope: Which contributions.
        donor: The run whose contributions of the same cells are put in their place, as many prompts of the same lengths;
            None takes them out.
        layers: Layers; None means all that the runs kept.
        heads: Attention heads through which contributions are changed, one at a time; True means all, False changes them whole.
        queries: Positions that receive, or names of `positions`; None means all.
        keys: Positions that give, likewise.
        positions: Names that align prompts, each one position for all or one a prompt: {"IO": [4, 2], "END": -1}.
        batch_size: Edited runs at a time.
        progress: Whether a long call shows a bar at a terminal or in a notebook.

    Raises:
        InputError: if prompts of different lengths are not aligned by name, two runs differ in length, or a layer, head, scope
            or position does not exist.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    model = contributions.model
    whole_number(batch_size, "batch_size", at_least=1)
    _refuse_other_lengths(contributions, donor)
    chosen = contributions.layers if layers is None else select_layers(model, layers)
    n_heads = contributions.record(chosen[0]).pattern.shape[0]
    rows, columns = (
        _axis(asked, name, contributions.lengths, positions) for asked, name in ((queries, "queries"), (keys, "keys"))
    )
    sweep = _Sweep(contributions, donor, scope, chosen, head_numbers(heads, n_heads) or None, rows, columns)
    read = as_metric(metric).for_prompts(len(contributions)).bound_to(model)
    _refuse_absent(sweep, queries, keys)
    values, baselines = _read(sweep, read, batch_size, progress)
    prompts = tuple(contributions.labels(number) for number in range(len(contributions)))
    return ContributionSweep(
        by_prompt=sweep.of_existing(values),
        baselines=baselines,
        metric=read.name,
        scope=scope,
        layers=chosen,
        heads=sweep.heads,
        queries=rows.names,
        keys=columns.names,
        query_tokens=rows.tokens(prompts),
        key_tokens=columns.tokens(prompts),
        tokens=prompts,
    )


def _refuse_other_lengths(runs: Contributions, donor: Contributions | None) -> None:
    if donor is not None:
        runs.refuse_other_donor(donor)
    if donor is not None and donor.lengths != runs.lengths:
        raise InputError(
            f"donor has prompts of {', '.join(map(str, donor.lengths))} tokens, the runs to change of "
            f"{', '.join(map(str, runs.lengths))}: contribution_sweep exchanges cells at the same positions. Use pairs of "
            "equally many tokens."
        )


def _refuse_absent(sweep: _Sweep, queries: ChosenPositions, keys: ChosenPositions) -> None:
    if not bool(sweep.exists().any()):
        raise InputError(
            f"queries={brief(queries)}, keys={brief(keys)}: none of these contributions exists; in a causal model no token reads a "
            "later one, nor one outside its window. `queries` receive, `keys` give."
        )


def _refuse_unequal(metric: PlainMetric, lengths: Sequence[int]) -> None:
    if len(set(lengths)) > 1:
        raise InputError(
            f"the prompts have {', '.join(map(str, lengths))} tokens, and {metric.name} is given the logits of all of them at once. "
            "Use prompts of equally many tokens, or a metric that knows each prompt's answers, such as ffb.logit([...])."
        )


@torch.no_grad()
def _read(sweep: _Sweep, metric: Metric, batch_size: int, shown: bool) -> tuple[Tensor, Tensor]:
    """The metric under every edit [prompt layer head query key], and without any [prompt]."""
    runs = [sweep.runs.prompt(number) for number in range(len(sweep.runs))]
    cells = [sweep.cells(number) for number in range(len(runs))]
    total = sweep.shape[0] * sweep.shape[1] * sum(map(len, cells))
    with Progress(f"{sweep.scope} sweep", total, "runs", shown=shown) as progress:
        if isinstance(metric, PlainMetric) and len(runs) > 1:
            _refuse_unequal(metric, sweep.runs.lengths)
            baselines = metric(sweep.runs.logits.clone()).reshape(-1).float().cpu()
            shared = [cell for cell in cells[0] if all(cell in of_prompt for of_prompt in cells)]
            enough = max(1, batch_size // len(runs))
            edits = zip(
                *(_batches(sweep.edits(number, run, shared), enough) for number, run in enumerate(runs)), strict=True
            )
            measured = torch.cat(
                [measure_together(runs, batch, metric, batch_size=batch_size, advance=progress.step) for batch in edits]
            )
            return torch.stack([sweep.filled(shared, of_value) for of_value in measured.T]), baselines
        metrics = [metric_of(run, metric, number) for number, run in enumerate(runs)]
        baselines = torch.tensor([float(read(run.logits.clone())) for read, run in zip(metrics, runs, strict=True)])
        values: dict[int, Tensor] = {}
        for together in _equally_long(sweep.runs.lengths, batch_size):
            group = _Group(sweep, [(number, runs[number], cells[number]) for number in together])
            values |= group.values([metrics[number] for number in together], batch_size, progress.step)
    return torch.stack([values[number] for number in range(len(runs))]), baselines


@dataclass(frozen=True)
class _Group:
    """Prompts of equally many tokens, whose edits share forward passes."""

    sweep: _Sweep
    prompts: Sequence[tuple[int, Contributions, list[tuple[int, int]]]]
    """Number, run and cells of each."""

    def values(
        self, metrics: Sequence[Metric], batch_size: int, advance: Callable[[int], object]
    ) -> dict[int, Float[Tensor, "layer head query key"]]:
        """By the prompt's number, the metric under every edit; NaN where there is no such cell."""
        starts = [{self.sweep.queries.places[number][row] for row, _ in cells} for number, _, cells in self.prompts]
        together = SideBySide([run for _, run, _ in self.prompts], starts=starts, batch_size=batch_size)
        measured = torch.cat(
            [together.measure(batch, metrics, advance) for batch in _batches(self._edits(), together.enough)]
        )
        n_edits = [self.sweep.shape[0] * self.sweep.shape[1] * len(cells) for _, _, cells in self.prompts]
        return {
            number: self.sweep.filled(cells, of_prompt)
            for (number, _, cells), of_prompt in zip(self.prompts, torch.split(measured, n_edits), strict=True)
        }

    def _edits(self) -> Iterator[list[PromptEdit]]:
        """Every prompt's edits, one prompt after the other, by layer and head."""
        for place, (number, run, cells) in enumerate(self.prompts):
            for edits in self.sweep.edits(number, run, cells):
                yield [PromptEdit(place, edit) for edit in edits]


def _equally_long(lengths: Sequence[int], most: int) -> Iterator[list[int]]:
    """Numbers of prompts with equally many tokens, at most so many at a time."""
    by_length: dict[int, list[int]] = defaultdict(list)
    for number, length in enumerate(lengths):
        by_length[length].append(number)
    for numbers in by_length.values():
        for begin in range(0, len(numbers), most):
            yield numbers[begin : begin + most]


def _batches(of_layers: Iterable[list[EditType]], enough: int) -> Iterator[list[EditType]]:
    """The edits of neighbouring layers, heads and prompts, joined until there are enough; one without edits if there are none."""
    waiting: list[EditType] = []
    n_batches = 0
    for edits in of_layers:
        waiting += edits
        if len(waiting) >= enough:
            yield waiting
            waiting, n_batches = [], n_batches + 1
    if waiting or n_batches == 0:
        yield waiting


def _axis(asked: ChosenPositions, name: str, lengths: Sequence[int], named: NamedPositions | None) -> _Axis:
    """The rows or columns asked for.

    Raises:
        InputError: if lengths differ and there are no names, or a position or name does not exist.
    """
    if named is None and len(set(lengths)) > 1:
        raise InputError(
            f"the prompts have {', '.join(map(str, lengths))} tokens: name what is to be compared, "
            'positions={"subject": [2, 3, ...], "END": -1}, or sweep prompts of equally many.'
        )
    names, places = chosen_positions(asked, name, lengths, named)
    return _Axis(names or tuple(places[0]), tuple(map(tuple, places)))
