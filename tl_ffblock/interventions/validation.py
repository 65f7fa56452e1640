"""Causal validation: correlation of a map's cells with the measured effects of removing or replacing contributions.

1. For every prompt and layer, some cells (query, key) are drawn among those that can reach the metric. Most are in the row where the
   metric is read. The others are in a second row, the same in all layers of a prompt.
2. Predictors of every cell are the map of every scope, raw attention (mean over heads) and attention times value norm. For pairs of
   prompts they are also the changes of these from the corrupted prompt. A placebo is the map of the removed scope, shuffled within its
   layer.
3. Each cell's contribution is removed at each chosen scope, or replaced by the corrupted prompt's. In a further forward pass its
   attention edge is knocked out. The effect is the change of the metric.
4. Spearman's rho between predictor and |effect| within every layer, its mean over layers, and 95 % intervals by bootstrap over
   prompts.

Effects do not enter the maps. A knockout is an intervention on the attention pattern, not on the vectors of the maps.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.attribution.patching import pairs_of
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.bridge.runs import Layers
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.contributions import Contributions
from tl_ffblock.interventions.edits import Advance, Edit, exchange, knockout, measure_edits, metric_of, removal
from tl_ffblock.interventions.patched import PromptList, equally_long
from tl_ffblock.layer.positions import real_number, whole_number
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.metrics import LogitFunction, Metric, as_metric, kl_divergence, loss, one_number
from tl_ffblock.progress import Progress
from tl_ffblock.result import Result, Values
from tl_ffblock.results.intervals import Correlation, bootstrap_weights, mean_interval, rank_correlation
from tl_ffblock.signatures import strict

ATTENTION, VALUES, PLACEBO, KNOCKOUT = "attention", "attention x value norm", "placebo", "edge knockout"
BY_NAME: dict[str, Callable[[], Metric]] = {"kl": kl_divergence, "loss": loss}
"""Metrics without answers, by name."""
CellChoice: TypeAlias = Literal["off-diagonal", "reachable", "read row", "beyond first"]
"""Cells that are correlated. "off-diagonal": key != query. "reachable": all sampled cells. "read row": off-diagonal cells whose
query the metric reads. "beyond first": off-diagonal cells whose key is not the first token, the usual attention sink."""
_Columns: TypeAlias = dict[str, Float[np.ndarray, " cell"]]


def change_of(predictor: str) -> str:
    """Name of the predictor for the difference from the corrupted prompt."""
    return f"change of {predictor}"


@strict
@dataclass(frozen=True, eq=False)
class SamplePlan(Values):
    """Sample sizes of cells, edits per forward pass, and bootstrap samples."""

    n_cells: int = 3
    """Number of cells per prompt and layer."""
    read_share: float = 0.6
    """Fraction of them in the row where the metric is read."""
    seed: int = 0
    """Seed of cells, placebo and intervals."""
    batch_size: int = 64
    """Edits per forward pass."""
    n_bootstrap: int = 2000
    """Number of bootstrap samples over prompts."""

    def __post_init__(self) -> None:
        for name in ("n_cells", "batch_size", "n_bootstrap"):
            whole_number(getattr(self, name), name, at_least=1)
        whole_number(self.seed, "seed", at_least=0)
        real_number(self.read_share, "read_share", at_least=0.0, at_most=1.0)


@strict
@dataclass(frozen=True, repr=False, eq=False)
class CausalValidation(Result):
    """Sampled cells with predictors and effects, and their correlations."""

    model: str
    metric: str
    tokens: tuple[tuple[str, ...], ...]
    """Tokens of the prompts as text."""
    clean: Float[np.ndarray, " prompt"]
    """Metric of each prompt without an edit."""
    columns: dict[str, Float[np.ndarray, " cell"]]
    """By name: prompt, layer, query, key, reads (whether the metric is read at the query)."""
    predictions: dict[str, Float[np.ndarray, " cell"]]
    """By predictor: scope names, "attention", "attention x value norm". For pairs of prompts also "change of" each scope (the norm
    of the difference of both prompts' vectors) and "change of attention"."""
    effects: dict[str, Float[np.ndarray, " cell"]]
    """By intervention: the scope whose contribution was removed or replaced, or "edge knockout"; signed, in the metric's units."""
    plan: SamplePlan
    corrupted: Float[np.ndarray, " prompt"] | None = None
    """Metric of the corrupted prompts, if contributions were replaced by theirs; None if they were removed."""

    @property
    def predictors(self) -> tuple[str, ...]:
        """All predictors, the placebo last."""
        return (*self.predictions, PLACEBO)

    def prediction(self, predictor: str, effect: str) -> Float[np.ndarray, " cell"]:
        """Values of a predictor for every sampled cell.

        Only the placebo depends on the effect. It is the map of the removed scope, the change of the replaced scope, or for the
        knockout raw attention, with cells shuffled within each layer.

        Raises:
            InputError: for an unknown predictor or effect.
        """
        for name, given, known in (("effect", effect, self.effects), ("predictor", predictor, self.predictors)):
            if given not in known:
                raise InputError(f"{name}={given!r}: expected one of {', '.join(known)}.")
        if predictor != PLACEBO:
            return self.predictions[predictor]
        own = effect if self.corrupted is None else change_of(effect)
        values = self.predictions[ATTENTION if effect == KNOCKOUT else own].copy()
        generator = np.random.default_rng((self.plan.seed, 1))
        for layer in np.unique(self.columns["layer"]):
            of_layer = np.flatnonzero(self.columns["layer"] == layer)
            values[of_layer] = values[generator.permutation(of_layer)]
        return values

    def correlation(self, effect: str, predictor: str, *, cells: CellChoice = "off-diagonal") -> Correlation:
        """Spearman's rho between a predictor and absolute effects, by layer.

        Raises:
            InputError: for an unknown predictor or effect.
        """
        predicted = self.prediction(predictor, effect)
        keep = self._keep(cells) & ~np.isnan(self.effects[effect])
        weights = bootstrap_weights(len(self.tokens), self.plan.n_bootstrap, self.plan.seed)
        prompt, layer = (self.columns[name][keep].astype(np.int64) for name in ("prompt", "layer"))
        return rank_correlation(predicted[keep], np.abs(self.effects[effect][keep]), layer, prompt, weights)

    def compare(
        self, effect: str, predictor: str, against: str, *, cells: CellChoice = "off-diagonal"
    ) -> tuple[float, float, float]:
        """Difference of the mean rho of two predictors, with its 95 % interval.

        Args:
            effect: The predicted effect.
            predictor: The predictor whose rho counts as positive.
            against: The other predictor.
            cells: Cells that are correlated.

        Raises:
            InputError: for an unknown predictor or effect.
        """
        first, second = (self.correlation(effect, name, cells=cells) for name in (predictor, against))
        return first.minus(second)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per choice of cells, effect, predictor and layer ("mean" for the mean over layers): rho, low, high, n.

        The default choice of cells comes first.
        """
        rows = []
        for cells in get_args(CellChoice):
            for effect in self.effects:
                for predictor in self.predictors:
                    found, named = self.correlation(effect, predictor, cells=cells), (cells, effect, predictor)
                    rows.append((*named, "mean", *found.mean(), int(found.counts.sum())))
                    for number, layer in enumerate(found.layers):
                        rows.append((*named, str(layer), *found.of_layer(number), int(found.counts[number])))
        return pd.DataFrame(rows, columns=["cells", "effect", "predictor", "layer", "rho", "low", "high", "n"])

    def effects_dataframe(self, *, by_prompt: bool = False, cells: CellChoice = "off-diagonal") -> pd.DataFrame:
        """Changes of the metric by the edits: one row per effect, means over prompts with 95 % intervals.

        `change` is the mean over a prompt's cells, `size` that of |change|; `n` is the number of prompts. All intervals have the
        same bootstrap samples, so that differences of rows are paired.

        Args:
            by_prompt: One row per prompt and effect instead: change, size, `n` cells, and the metric of the clean prompt, and of the
                corrupted one for pairs.
            cells: Cells that count.
        """
        keep = self._keep(cells)
        tables = {effect: self._prompt_means(values, keep) for effect, values in self.effects.items()}
        if by_prompt:
            metrics = {"clean": self.clean} | ({} if self.corrupted is None else {"corrupted": self.corrupted})
            prompts = range(len(self.tokens))
            frames = [
                pd.DataFrame({"prompt": prompts, "effect": effect, **table, **metrics})
                for effect, table in tables.items()
            ]
            return pd.concat(frames, ignore_index=True)
        rows = []
        for effect, table in tables.items():
            values = torch.from_numpy(np.stack([table["change"], table["size"]], axis=1))
            over = mean_interval(values, n_draws=self.plan.n_bootstrap, seed=self.plan.seed)
            ends = torch.stack([over.mean, over.low, over.high], dim=1).reshape(-1).tolist()
            rows.append((effect, *ends, int(over.counts[0])))
        return pd.DataFrame(rows, columns=["effect", "change", "low", "high", "size", "size_low", "size_high", "n"])

    def cells_dataframe(self) -> pd.DataFrame:
        """One row per sampled cell: prompt, layer, query, key, reads, predictors, effects."""
        columns = dict(self.columns)
        columns |= {f"map {name}": values for name, values in self.predictions.items()}
        columns |= {f"effect {name}": values for name, values in self.effects.items()}
        return pd.DataFrame(columns).astype(dict.fromkeys(("prompt", "layer", "query", "key"), int) | {"reads": bool})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """Metric, model, sample sizes, predictors and effects."""
        done = "removed" if self.corrupted is None else "exchanged for those of corrupted runs"
        return f"{self.metric} of {self.model}, contributions {done}", {
            "sampled": f"{len(self.tokens)} prompts, {len(self.columns['layer'])} cells",
            "effects": ", ".join(self.effects),
            "predictors": ", ".join(self.predictors),
        }

    def __add__(self, other: "CausalValidation") -> "CausalValidation":
        """Two samples of the same model, metric, scopes and sample sizes as one; prompts of the second come after.

        Raises:
            InputError: if the two differ in one of these.
        """
        if not isinstance(other, CausalValidation):
            return NotImplemented
        for name in ("model", "metric", "predictors"):
            if getattr(self, name) != getattr(other, name):
                raise InputError(
                    f"cannot join: {name} is {getattr(self, name)!r} here, there {getattr(other, name)!r}."
                )
        if (self.corrupted is None) != (other.corrupted is None):
            raise InputError(
                "cannot join: contributions were removed in one and replaced in the other. Join results of one kind."
            )
        if tuple(self.effects) != tuple(other.effects):
            raise InputError(f"cannot join effects {', '.join(self.effects)} with {', '.join(other.effects)}.")
        return _joined([self, other])

    def _prompt_means(
        self, effect: Float[np.ndarray, " cell"], keep: Bool[np.ndarray, " cell"]
    ) -> dict[str, Float[np.ndarray, " prompt"]]:
        """Mean change, mean |change| and number of measured cells of each prompt; NaN if it has none."""
        keep = keep & ~np.isnan(effect)
        prompt = self.columns["prompt"][keep].astype(np.int64)
        counts, *sums = (
            np.bincount(prompt, weights=values, minlength=len(self.tokens))
            for values in (np.ones(len(prompt)), effect[keep], np.abs(effect[keep]))
        )
        change, size = (np.where(counts > 0, total / np.maximum(counts, 1), np.nan) for total in sums)
        return {"change": change, "size": size, "n": counts}

    def _keep(self, cells: CellChoice) -> Bool[np.ndarray, " cell"]:
        off_diagonal = self.columns["query"] != self.columns["key"]
        chosen: dict[CellChoice, Bool[np.ndarray, " cell"]] = {
            "off-diagonal": off_diagonal,
            "reachable": np.ones_like(off_diagonal),
            "read row": off_diagonal & (self.columns["reads"] == 1),
            "beyond first": off_diagonal & (self.columns["key"] > 0),
        }
        return chosen[cells]


def _joined(samples: Sequence[CausalValidation]) -> CausalValidation:
    """Samples joined in order, with new prompt numbers."""

    def columns(name: str) -> _Columns:
        tables = [getattr(sample, name) for sample in samples]
        return {column: np.concatenate([table[column] for table in tables]) for column in tables[0]}

    starts = np.cumsum([0, *(len(sample.tokens) for sample in samples)])
    prompts = [sample.columns["prompt"] + start for sample, start in zip(samples, starts, strict=False)]
    corrupted = [sample.corrupted for sample in samples if sample.corrupted is not None]
    return replace(
        samples[0],
        tokens=tuple(tokens for sample in samples for tokens in sample.tokens),
        clean=np.concatenate([sample.clean for sample in samples]),
        columns=columns("columns") | {"prompt": np.concatenate(prompts)},
        predictions=columns("predictions"),
        effects=columns("effects"),
        corrupted=np.concatenate(corrupted) if corrupted else None,
    )


@strict
def causal_validation(
    model: Any,
    prompts: PromptList,
    metric: Metric | LogitFunction | Literal["kl", "loss"] = "kl",
    *,
    corrupted: PromptList | None = None,
    scope: str | Sequence[str] | None = None,
    layers: Layers = None,
    edge_knockout: bool = True,
    plan: SamplePlan | None = None,
    progress: bool = True,
) -> CausalValidation:
    """Correlate maps with the measured effects of removing contributions, or replacing them by a corrupted prompt's.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: Texts, or token ids [pos], one entry per prompt; lengths may differ.
        metric: `ffb.logit(...)`, "kl" (between the distributions at the last position, without and with the edit), "loss", or any
            function of logits [batch pos d_vocab]. A list of answers has one entry per prompt.
        corrupted: A corrupted prompt for each, of equally many tokens, whose contributions replace those of the same cells; None
            removes contributions.
        scope: Scopes whose contributions are removed or replaced; None means all. Maps of all scopes are predictors.
        layers: Layers to sample; None means all.
        edge_knockout: Whether attention edges are knocked out too.
        plan: Sample sizes and seed.
        progress: Whether a long call shows a progress bar in a terminal or notebook.

    Returns:
        Cells, predictors, effects and correlations. Equal seeds give equal results, up to rounding of batched matrix products.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: if a scope's tensor cannot be changed in this model.
        CompletenessError: if contributions do not sum to the model's activation.
    """
    plan, known = plan or SamplePlan(), identify(model)
    if isinstance(metric, str) and metric not in BY_NAME:
        raise InputError(f'metric={metric!r}: expected "kl", "loss" or a function of logits such as ffb.logit(...).')
    tokens = _tokens(known, prompts, corrupted)
    given = BY_NAME[metric]() if isinstance(metric, str) else as_metric(metric)
    read = given.for_prompts(len(tokens)).bound_to(known)
    effects = (*select_scopes(known.family.order, scope), *((KNOCKOUT,) if edge_knockout else ()))
    chosen = select_layers(known, layers)
    generator = np.random.default_rng(plan.seed)
    with Progress(
        "edited runs", len(tokens) * len(chosen) * plan.n_cells * len(effects), "runs", shown=progress
    ) as bar:
        sampler = _Sampler(known, read, effects, chosen, plan, generator, bar.step)
        return _joined([sampler.sample(number, *pair) for number, pair in enumerate(tokens)])


def _tokens(
    model: Model, prompts: PromptList, corrupted: PromptList | None
) -> list[tuple[Int[Tensor, " pos"], Int[Tensor, " pos"] | None]]:
    single, pairs = pairs_of(model, prompts, corrupted, "prompts")
    tokens = [equally_long(model, pair, "" if single else f"[{number}]") for number, pair in enumerate(pairs)]
    return [(clean, None if corrupted is None else other) for clean, other in tokens]


class Cell(NamedTuple):
    """A contribution: layer, query, key."""

    layer: int
    query: int
    key: int
    reads: bool
    """Whether the metric is read at the query."""


@dataclass(frozen=True)
class _Sampler:
    """Sampling and measurement of one prompt."""

    model: Model
    metric: Metric
    # Names of the interventions on each cell: scopes, and the knockout of its edge.
    effects: tuple[str, ...]
    layers: tuple[int, ...]
    plan: SamplePlan
    generator: np.random.Generator
    advance: Advance

    def sample(
        self, number: int, tokens: Int[Tensor, " pos"], corrupted: Int[Tensor, " pos"] | None
    ) -> CausalValidation:
        """Sample cells of one prompt, compute predictors, and measure effects."""
        run = Contributions(self.model, tokens, layers=self.layers)
        donor = None if corrupted is None else Contributions(self.model, corrupted, layers=self.layers)
        cells = drawn_cells(self.model, run.shape[1], self.layers, self.metric.at, self.plan, self.generator)
        predicted, edits, places = [], list[Edit](), []
        for cell in cells:  # layer by layer: only a few layers' vectors are in memory at a time
            predicted.append(_predictions(run, donor, cell))
            places.append(self._add_edits(edits, run, donor, cell))
        read = metric_of(run, self.metric, number)
        clean = float(one_number(read, run.logits.clone()))
        measured = measure_edits(
            run, edits, self.metric, prompt=number, batch_size=self.plan.batch_size, advance=self.advance
        ).tolist()
        changed = [
            {effect: math.nan if place is None else measured[place] - clean for effect, place in of_cell.items()}
            for of_cell in places
        ]
        return CausalValidation(
            model=self.model.name,
            metric=self.metric.name,
            tokens=(run.labels(),),
            clean=np.array([clean]),
            corrupted=None if donor is None else np.array([float(read(donor.logits.clone()))]),
            columns=_columns([{"prompt": 0, **cell._asdict()} for cell in cells]),
            predictions=_columns(predicted),
            effects=_columns(changed),
            plan=self.plan,
        )

    def _add_edits(
        self, edits: list[Edit], run: Contributions, donor: Contributions | None, cell: Cell
    ) -> dict[str, int | None]:
        """Append a cell's edits; returns their indices by effect, None if there is no edit.

        Equal edits have one forward pass: `Atb` and `Attn` have the same edit for key != query.
        """
        layer, query, key, _ = cell
        first, places = len(edits), dict[str, int | None](dict.fromkeys(self.effects))
        exists = any(bool(of.reaches(layer)[query, key]) for of in (run, donor) if of is not None)
        for effect in self.effects if exists else ():
            if effect == KNOCKOUT:
                edit = None if run.model.layers[layer].is_recurrent else knockout(run, layer, query, key)
            else:
                at = layer, effect, query, key
                edit = removal(run, *at) if donor is None else exchange(run, donor, *at)
            if edit is not None:
                own = [made.name == edit.name and torch.equal(made.vector, edit.vector) for made in edits[first:]]
                places[effect] = first + (own.index(True) if True in own else len(own))
                if places[effect] == len(edits):
                    edits.append(edit)
        return places


def _columns(rows: Sequence[Mapping[str, float]]) -> _Columns:
    return {name: np.array([row[name] for row in rows], dtype=np.float64) for name in rows[0]}


def drawn_cells(
    model: Model,
    length: int,
    layers: Sequence[int],
    at: int | None,
    plan: SamplePlan,
    generator: np.random.Generator,
) -> list[Cell]:
    """Sampled cells of one prompt, layer by layer, without repetition.

    Args:
        model: The model: its causality and number of layers.
        length: Number of tokens.
        layers: Layers.
        at: Position that the metric reads; None means all, and cells of all rows.
        plan: Number of cells, and fraction in the row that is read.
        generator: Random generator.
    """
    causal = model.family.causal
    reads = None if at is None else at % length
    second = _second_row(length, reads, causal, generator)

    def drawn(rows: Iterable[int], number: int) -> list[tuple[int, int]]:
        pairs = [(row, key) for row in rows for key in range(row + 1 if causal else length)]
        return [pairs[index] for index in sorted(generator.permutation(len(pairs))[:number])]

    cells = []
    for layer in layers:
        last = layer == model.n_layers - 1  # no position after it reads another: only the read row has effects
        if reads is None:
            pairs = drawn(range(length), plan.n_cells)
        elif second is None or last:
            pairs = drawn([reads], plan.n_cells)
        else:
            pairs = drawn([reads], math.ceil(plan.n_cells * plan.read_share))
            pairs += drawn([second], plan.n_cells - len(pairs))
        cells += [Cell(layer, query, key, reads is None or query == reads) for query, key in pairs]
    return cells


def _second_row(length: int, reads: int | None, causal: bool, generator: np.random.Generator) -> int | None:
    """The second row that is sampled; None if no other row reaches the metric.

    In a bidirectional model any other row does. In a causal model only earlier rows do, and a later row is taken modulo the read
    position: if the metric is read at 4, row 5 becomes row 1.
    """
    row = int(generator.integers(length))
    if row == reads:
        row = (row + 1) % length
    if reads is None or row == reads:
        return None
    if not causal:
        return row
    return row % reads if reads > 0 else None


def _predictions(run: Contributions, donor: Contributions | None, cell: Cell) -> dict[str, float]:
    """Values of the predictors for a cell: maps of all scopes, attention, attention times value norm; changes for a pair."""
    layer, *at, _ = cell
    part, record = run.decomposition(layer)[0], run.record(layer)
    vectors = {scope: part.parts(scope)[tuple(at)] for scope in part.scopes}
    alpha = record.pattern[:, cell.query, cell.key]
    values = alpha * record.head_values[cell.key].norm(dim=-1)
    found = {scope: float(vector.norm()) for scope, vector in vectors.items()}
    found |= {ATTENTION: float(alpha.mean()), VALUES: float(values.mean())}
    if donor is None:
        return found
    theirs = donor.decomposition(layer)[0]
    changes = {scope: float((vector - theirs.parts(scope)[tuple(at)]).norm()) for scope, vector in vectors.items()}
    changes[ATTENTION] = float((alpha - donor.record(layer).pattern[:, cell.query, cell.key]).abs().mean())
    return found | {change_of(name): change for name, change in changes.items()}
