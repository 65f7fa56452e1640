"""Sweeps: the effect of every contribution, as a tensor [layer query key] and a table, for one prompt or many.

They correspond to TransformerLens's `get_act_patch_*` functions, for single contributions instead of whole activations, with
many edits per forward pass, and for every scope.

1. `_Axis` maps rows and columns to cells of each prompt: the same positions in all, or named ones.
2. Edits of prompts of equally many tokens share forward passes (edits.py). An external function of all prompts' logits gets the
   same cell of all prompts at a time.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.bridge.model import select_layers
from tl_ffblock.bridge.runs import Layers
from tl_ffblock.errors import InputError, brief
from tl_ffblock.interventions.contributions import Contributions
from tl_ffblock.interventions.edits import Advance, Edit, PromptEdit, SideBySide, changes, metric_of
from tl_ffblock.layer.heads import AskedHeads, head_numbers
from tl_ffblock.layer.positions import ChosenPositions, NamedPositions, chosen_positions, spans, whole_number
from tl_ffblock.metrics import LogitFunction, Metric, PlainMetric, as_metric, one_number
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval
from tl_ffblock.results.tokens import joined, visible
from tl_ffblock.signatures import strict

LARGEST_SHOWN = 3
"""Number of effects in the printed summary of a sweep."""
EditType = TypeVar("EditType", Edit, PromptEdit)


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ContributionSweep(Result):
    """A metric with one contribution of a scope changed at a time, for one prompt or several.

    `values`, `effect` and `interval` are [layer query key], or [layer head query key] for a sweep over heads: means over the
    prompts that have the cell, NaN if there is none.
    """

    by_prompt: Float[Tensor, "prompt layer head query key"]
    """Metric of every prompt (one entry if the metric has one number for all); NaN if a prompt has no such cell."""
    baselines: Float[Tensor, " prompt"]
    """Metric of every prompt without a change."""
    metric: str
    """Name of the metric."""
    scope: str
    """Scope of the changed contributions."""
    layers: tuple[int, ...]
    """Layer numbers, ascending."""
    heads: tuple[int, ...] | None
    """Attention heads whose parts were changed; None if whole contributions were changed."""
    queries: tuple[int | str, ...]
    """Query of each row: a position or a name."""
    keys: tuple[int | str, ...]
    """Key of each column: a position or a name."""
    query_tokens: tuple[str, ...]
    """Tokens of each row, joined where prompts differ."""
    key_tokens: tuple[str, ...]
    """Tokens of each column, joined where prompts differ."""
    tokens: tuple[tuple[str, ...], ...]
    """Tokens of the prompts."""
    n_draws: int = N_DRAWS
    """Number of bootstrap samples over prompts."""
    seed: int = 0

    @property
    def baseline(self) -> float:
        """Mean metric over prompts without a change."""
        return float(self.baselines.mean())

    @property
    def values(self) -> Float[Tensor, "layer *head query key"]:
        """Mean metric over prompts for each changed cell."""
        return self._without_heads(mean_interval(self.by_prompt, n_draws=1).mean).to(self.by_prompt.dtype)

    @property
    def effect_by_prompt(self) -> Float[Tensor, "prompt layer head query key"]:
        """Change of each prompt's metric: by_prompt - baselines."""
        return self.by_prompt - self.baselines[:, None, None, None, None]

    @property
    def effect(self) -> Float[Tensor, "layer *head query key"]:
        """Mean change of the metric over prompts."""
        return self.interval.mean.to(self.by_prompt.dtype)

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean change with its 95 % interval (percentile bootstrap over prompts) and the number of prompts."""
        over = mean_interval(self.effect_by_prompt, n_draws=self.n_draws, seed=self.seed)
        return MeanInterval(*map(self._without_heads, (over.mean, over.low, over.high, over.counts)))

    def to_dataframe(self, *, by_prompt: bool = False) -> pd.DataFrame:
        """One row per cell: layer, scope, head (if swept), query, key, their tokens, value, effect; for several prompts low, high, n.

        The columns that identify cells are those of `ContributionMaps.to_dataframe`, for merging.

        Args:
            by_prompt: Whether each prompt has its own row, with its number in the column `prompt`.
        """
        axes: dict[str, Sequence[object]] = {"prompt": range(len(self.by_prompt))} if by_prompt else {}
        heads = {} if self.heads is None else {"head": self.heads}
        axes |= {"layer": self.layers, **heads, "query": self.queries, "key": self.keys}
        frame = pd.MultiIndex.from_product(axes.values(), names=axes).to_frame(index=False)
        frame.insert(frame.columns.get_loc("layer") + 1, "scope", self.scope)
        for name, numbers, tokens in (
            ("query", self.queries, self.query_tokens),
            ("key", self.keys, self.key_tokens),
        ):
            frame[f"{name}_token"] = frame[name].map(dict(zip(numbers, tokens, strict=True)))
        columns = {"value": self.by_prompt, "effect": self.effect_by_prompt}
        if not by_prompt:
            columns = {"value": self.values, "effect": self.effect}
            if len(self.by_prompt) > 1:
                columns |= {"low": self.interval.low, "high": self.interval.high, "n": self.interval.counts}
        for name, values in columns.items():
            frame[name] = (values.double() if values.is_floating_point() else values).reshape(-1).numpy()
        return frame.dropna(subset="value", ignore_index=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Metric, scope, size, and the largest effects."""
        names = ("layers", *(() if self.heads is None else ("heads",)), "queries", "keys")
        size = " x ".join(f"{n} {name}" for n, name in zip(self.values.shape, names, strict=True))
        prompts = f" · mean over {len(self.tokens)} prompts" if len(self.tokens) > 1 else ""
        cells, shown = self.to_dataframe(), []
        for row in cells.loc[cells["effect"].abs().nlargest(LARGEST_SHOWN).index].itertuples():
            head = "" if self.heads is None else f" head {row.head}"
            interval = f" [{row.low:.4g}, {row.high:.4g}]" if len(self.by_prompt) > 1 else ""
            query, key = (
                f"{visible(str(token))}@{at}" for token, at in ((row.query_token, row.query), (row.key_token, row.key))
            )
            shown.append(f"{row.effect:+.4g}{interval} layer {row.layer}{head}, {query} from {key}")
        return (
            f"{self.metric} with one contribution at {self.scope} changed at a time · {size} (layers {spans(self.layers)}){prompts}",
            {
                "baseline": f"{self.baseline:.4g}",
                "largest effects": "\n".join([*shown[:1], *(" " * 19 + line for line in shown[1:])]),
            },
        )

    def _without_heads(self, values: Tensor) -> Tensor:
        return values[:, 0] if self.heads is None else values


@dataclass(frozen=True)
class _Axis:
    """Rows or columns of a sweep."""

    names: tuple[int | str, ...]
    # By prompt: the position of each name.
    places: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, asked: ChosenPositions, name: str, lengths: Sequence[int], named: NamedPositions | None) -> "_Axis":
        if named is None and len(set(lengths)) > 1:
            raise InputError(
                f"the prompts have {', '.join(map(str, lengths))} tokens: expected equally many, or named positions, "
                'positions={"subject": [2, 3, ...], "END": -1}.'
            )
        names, places = chosen_positions(asked, name, lengths, named)
        return cls(names or tuple(places[0]), tuple(map(tuple, places)))

    def tokens(self, prompts: Sequence[Sequence[str]]) -> tuple[str, ...]:
        """Tokens at these positions, joined where prompts differ."""
        by_prompt = [[labels[place] for place in at] for labels, at in zip(prompts, self.places, strict=True)]
        return tuple(joined(there, "|") for there in zip(*by_prompt, strict=True))


@dataclass(frozen=True)
class _Sweep:
    """Cells to change, and the contributions that replace theirs."""

    runs: Contributions
    donor: Contributions | None
    scope: str
    layers: tuple[int, ...]
    heads: tuple[int, ...] | None
    queries: _Axis
    keys: _Axis

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads (1 if whole contributions are changed), rows, columns."""
        return len(self.layers), len(self.heads or (0,)), len(self.queries.names), len(self.keys.names)

    def cells(self, prompt: int) -> list[tuple[int, int]]:
        """Rows and columns of the cells that exist in a prompt."""
        return [
            (row, column)
            for row, query in enumerate(self.queries.places[prompt])
            for column, key in enumerate(self.keys.places[prompt])
            if not self.runs.model.family.causal or key <= query
        ]

    @cached_property
    def exists(self) -> Bool[Tensor, "prompt layer query key"]:
        """Whether a cell exists in its layer, for a prompt or its donor; other cells have no effect."""
        runs = [run for run in (self.runs, self.donor) if run is not None]

        def reached(prompt: int, layer: int) -> Bool[Tensor, "query key"]:
            rows, columns = list(self.queries.places[prompt]), list(self.keys.places[prompt])
            return torch.stack([run.reaches(layer, prompt)[rows][:, columns] for run in runs]).any(dim=0).cpu()

        return torch.stack(
            [torch.stack([reached(prompt, layer) for layer in self.layers]) for prompt in range(len(self.runs))]
        )

    def edits(self, prompt: int, run: Contributions, cells: Sequence[tuple[int, int]]) -> Iterator[list[Edit]]:
        """One edit per cell, by layer and head. An iterator, since all layers' edits are as large as all their vectors."""
        donor = None if self.donor is None else self.donor.prompt(prompt)
        at = [(self.queries.places[prompt][row], self.keys.places[prompt][column]) for row, column in cells]
        for layer in self.layers:
            for head in (None,) if self.heads is None else self.heads:
                yield changes(run, donor, layer, self.scope, at, head=head) if at else []

    def filled(self, cells: Sequence[tuple[int, int]], measured: Float[Tensor, " edit"]) -> Tensor:
        """Values in the order of the edits as a tensor [layer head query key], NaN elsewhere."""
        values = torch.full(self.shape, float("nan"), dtype=torch.float32)
        if cells:
            rows, columns = (list(axis) for axis in zip(*cells, strict=True))
            values[:, :, rows, columns] = measured.reshape(*self.shape[:2], len(cells))
        return values

    def result(
        self, metric: str, values: Float[Tensor, "value layer head query key"], baselines: Float[Tensor, " value"]
    ) -> ContributionSweep:
        """Result of measured values, by prompt or for all together; NaN for cells that do not exist."""
        exists = self.exists if len(values) == len(self.runs) else self.exists.all(dim=0, keepdim=True)
        prompts = tuple(self.runs.labels(number) for number in range(len(self.runs)))
        return ContributionSweep(
            by_prompt=values.masked_fill(~exists[:, :, None], float("nan")),
            baselines=baselines,
            metric=metric,
            scope=self.scope,
            layers=self.layers,
            heads=self.heads,
            queries=self.queries.names,
            keys=self.keys.names,
            query_tokens=self.queries.tokens(prompts),
            key_tokens=self.keys.tokens(prompts),
            tokens=prompts,
        )


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
    """Change one contribution at a time and measure a metric, for one prompt or each of several.

    Args:
        contributions: Contributions to change (the corrupted ones, if clean ones are inserted).
        metric: `ffb.logit(...)`, or any function of logits [batch pos d_vocab]. A function of your own gets the logits of all
            prompts, of equally many tokens, with the same cell changed in each.
        scope: Scope of the contributions.
        donor: Contributions that replace them in the same cells, for as many prompts of the same lengths; None removes them.
        layers: Layers; None means all cached ones.
        heads: Attention heads whose parts are changed, one at a time; True means all, False changes whole contributions.
        queries: Query positions (destinations), or names of `positions`; None means all.
        keys: Key positions (sources), or names of `positions`; None means all.
        positions: Names that align prompts, each one position for all or one per prompt: {"IO": [4, 2], "END": -1}.
        batch_size: Edits per forward pass.
        progress: Whether a long call shows a progress bar in a terminal or notebook.

    Returns:
        A `ContributionSweep` with `values` and `effect` [layer query key].

    Raises:
        InputError: if prompts of different lengths have no named positions, if prompts and donor differ in length, or if a layer,
            head, scope or position does not exist.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    whole_number(batch_size, "batch_size", at_least=1)
    if donor is not None:
        contributions.refuse_other_donor(donor)
    chosen = contributions.layers if layers is None else select_layers(contributions.model, layers)
    numbers = head_numbers(heads, len(contributions.record(chosen[0]).pattern)) or None
    rows, columns = (
        _Axis.of(asked, name, contributions.lengths, positions)
        for asked, name in ((queries, "queries"), (keys, "keys"))
    )
    sweep = _Sweep(contributions, donor, scope, chosen, numbers, rows, columns)
    read = as_metric(metric).for_prompts(len(contributions)).bound_to(contributions.model)
    if not bool(sweep.exists.any()):
        raise InputError(
            f"queries={brief(queries)}, keys={brief(keys)}: none of these contributions exists; in a causal model no token reads a "
            "later one, nor one outside its window. `queries` are destinations, `keys` are sources."
        )
    values, baselines = _measured(sweep, read, batch_size, progress)
    return sweep.result(read.name, values, baselines)


@torch.no_grad()
def _measured(sweep: _Sweep, metric: Metric, batch_size: int, shown: bool) -> tuple[Tensor, Tensor]:
    """Metric under every edit [prompt layer head query key], and without any [prompt]."""
    runs = [sweep.runs.prompt(number) for number in range(len(sweep.runs))]
    cells = [sweep.cells(number) for number in range(len(runs))]
    total = sweep.shape[0] * sweep.shape[1] * sum(map(len, cells))
    with Progress(f"{sweep.scope} sweep", total, "runs", shown=shown) as progress:
        if isinstance(metric, PlainMetric) and len(runs) > 1:
            return _of_all_prompts(sweep, runs, cells, metric, batch_size, progress.step)
        metrics = [metric_of(run, metric, number) for number, run in enumerate(runs)]
        baselines = torch.tensor(
            [float(one_number(read, run.logits.clone())) for read, run in zip(metrics, runs, strict=True)]
        )
        lengths, values = sweep.runs.lengths, dict[int, Tensor]()
        for length in dict.fromkeys(lengths):
            numbers = [number for number, own in enumerate(lengths) if own == length]
            for begin in range(0, len(numbers), batch_size):
                together = numbers[begin : begin + batch_size]
                measured = _side_by_side(sweep, together, runs, cells, metrics, batch_size, progress.step)
                values |= dict(zip(together, measured, strict=True))
    return torch.stack([values[number] for number in range(len(runs))]), baselines


def _side_by_side(
    sweep: _Sweep,
    together: Sequence[int],
    runs: Sequence[Contributions],
    cells: Sequence[list[tuple[int, int]]],
    metrics: Sequence[Metric],
    batch_size: int,
    advance: Advance,
) -> Iterator[Float[Tensor, "layer head query key"]]:
    """Measurements of prompts of equally many tokens, whose edits share forward passes; by prompt, layer and head."""
    starts = [{sweep.queries.places[number][row] for row, _ in cells[number]} for number in together]
    side_by_side = SideBySide([runs[number] for number in together], starts=starts, batch_size=batch_size)
    edits = (
        [(place, edit) for edit in of_layer]
        for place, number in enumerate(together)
        for of_layer in sweep.edits(number, runs[number], cells[number])
    )
    read = [metrics[number] for number in together]
    measured = torch.cat([side_by_side.measure(batch, read, advance) for batch in _batches(edits, side_by_side.enough)])
    n_edits = [sweep.shape[0] * sweep.shape[1] * len(cells[number]) for number in together]
    for number, of_prompt in zip(together, torch.split(measured, n_edits), strict=True):
        yield sweep.filled(cells[number], of_prompt)


def _of_all_prompts(
    sweep: _Sweep,
    runs: Sequence[Contributions],
    cells: Sequence[list[tuple[int, int]]],
    metric: PlainMetric,
    batch_size: int,
    advance: Advance,
) -> tuple[Tensor, Tensor]:
    """Values of a function of all prompts' logits, with the same cell changed in each."""
    lengths = sweep.runs.lengths
    if len(set(lengths)) > 1:
        raise InputError(
            f"the prompts have {', '.join(map(str, lengths))} tokens, and {metric.name} gets the logits of all of them at once. "
            "Use prompts of equally many tokens, or a metric with answers per prompt, such as ffb.logit([...])."
        )
    baselines = metric(sweep.runs.logits.clone()).reshape(-1).float().cpu()
    shared = [cell for cell in cells[0] if all(cell in of_prompt for of_prompt in cells)]
    enough = max(1, batch_size // len(runs))
    edits = (_batches(sweep.edits(number, run, shared), enough) for number, run in enumerate(runs))
    whole = SideBySide(runs, starts=[()] * len(runs), batch_size=batch_size, resume=False)
    values: list[Tensor] = []
    for batch in zip(*edits, strict=True):
        for begin in range(0, len(batch[0]), enough):
            of_cells = zip(*(of_run[begin : begin + enough] for of_run in batch), strict=True)
            flat = [placed for same in of_cells for placed in enumerate(same)]
            logits = torch.cat([edited for _, edited in whole.logits(flat, None)])
            values += [metric(of_cell).reshape(-1).float().cpu() for of_cell in torch.split(logits, len(runs))]
            advance(len(flat))
    return torch.stack([sweep.filled(shared, of_value) for of_value in torch.stack(values).T]), baselines


def _batches(of_layers: Iterable[list[EditType]], enough: int) -> Iterator[list[EditType]]:
    """Edits of consecutive layers, heads and prompts, joined until there are enough; one empty batch if there are none."""
    waiting: list[EditType] = []
    n_batches = 0
    for edits in of_layers:
        waiting += edits
        if len(waiting) >= enough:
            yield waiting
            waiting, n_batches = [], n_batches + 1
    if waiting or n_batches == 0:
        yield waiting
