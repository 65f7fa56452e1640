"""Does a map say which contributions matter? Remove some, measure, correlate.

1. For every prompt and layer some cells (query, source) are drawn among those that can reach the
   metric: most in the row where the metric is read, the others in one more row of each prompt.
2. Of every cell the run gives the predictors: the map of every scope, raw attention (mean over heads),
   attention times value norm, and a placebo (the map of the removed scope, shuffled within its layer).
3. Each cell's contribution is taken out of the run at each scope asked for, and in a further run its
   attention edge is cut. The effect is the change of the metric.
4. Spearman's rho between predictor and |effect| within every layer, its mean over layers, and 95 %
   intervals by bootstrap over prompts.

The effects do not enter the maps, and an edge that is cut is an intervention on the pattern, not on
the vectors the maps are made of.
"""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Int, Integer
from torch import Tensor
from tqdm import tqdm

from tl_ffblock.bridge.inputs import prepare
from tl_ffblock.bridge.model import Model, identify, select_layers
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edits import Edit, Metric, Outcome, effects, kl_divergence, knockout, loss, removal
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.results.correlation import Correlation, Numbers, bootstrap_weights, rank_correlation

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

Cells: TypeAlias = Literal["all", "off-diagonal", "read row", "beyond first"]
"""Which cells are correlated: all; those with source != query; of these, those whose query the metric reads, or those
whose source is not the first token, on which attention rests when it has nothing to bring."""

ATTENTION, VALUES, PLACEBO, KNOCKOUT = "attention", "attention x value norm", "placebo", "edge knockout"


@dataclass(frozen=True)
class Plan:
    """How much is sampled."""

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
            if getattr(self, name) < 1:
                raise InputError(f"{name}={getattr(self, name)}: expected at least 1.")
        if not 0 <= self.read_share <= 1:
            raise InputError(f"read_share={self.read_share}: expected a number from 0 to 1.")


@dataclass(frozen=True)
class CausalValidation:
    """Sampled cells with their predictors and effects, and the correlations between them."""

    model: str
    metric: str
    tokens: tuple[tuple[str, ...], ...]
    """The prompts' tokens as text."""
    clean: Numbers
    """[prompt]: the metric without any edit."""
    columns: dict[str, Numbers]
    """[cell] by name: prompt, layer, query, source, reads (whether the metric is read at the query)."""
    predictions: dict[str, Numbers]
    """[cell] by predictor: scope names, "attention", "attention x value norm"."""
    effects: dict[str, Numbers]
    """[cell] by intervention: the scope whose contribution was removed, or "edge knockout"; metric's units, signed."""
    plan: Plan

    @property
    def predictors(self) -> tuple[str, ...]:
        """All predictors, the placebo last."""
        return (*self.predictions, PLACEBO)

    def correlation(self, effect: str, predictor: str, *, cells: Cells = "off-diagonal") -> Correlation:
        """Spearman's rho between a predictor and the size of an effect, by layer.

        Raises:
            InputError: for names that are not in this result.
        """
        self._refuse_unknown(effect, predictor, cells)
        keep = self._keep(cells) & ~np.isnan(self.effects[effect])
        weights = bootstrap_weights(len(self.tokens), self.plan.n_bootstrap, self.plan.seed)
        prompt, layer = (self.columns[name][keep].astype(np.int64) for name in ("prompt", "layer"))
        predicted = self._placebo(effect) if predictor == PLACEBO else self.predictions[predictor]
        return rank_correlation(predicted[keep], np.abs(self.effects[effect][keep]), layer, prompt, weights)

    def compare(
        self, effect: str, predictor: str, other: str, *, cells: Cells = "off-diagonal"
    ) -> tuple[float, float, float]:
        """How much better one predictor is than another: difference of mean rho with its 95 % interval."""
        first, second = (self.correlation(effect, name, cells=cells) for name in (predictor, other))
        return first.minus(second)

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row per cells, effect, predictor and layer ("mean" for the mean over layers): rho, low, high, n."""
        import pandas as pd

        rows = []
        for cells in get_args(Cells):
            for effect in self.effects:
                for predictor in self.predictors:
                    found = self.correlation(effect, predictor, cells=cells)
                    lines: list[tuple[str, tuple[float, float, float], int]] = [
                        ("mean", found.mean(), int(found.counts.sum()))
                    ]
                    lines += [
                        (str(layer), found.of_layer(number), int(found.counts[number]))
                        for number, layer in enumerate(found.layers)
                    ]
                    rows += [(cells, effect, predictor, layer, *summary, n) for layer, summary, n in lines]
        return pd.DataFrame(rows, columns=["cells", "effect", "predictor", "layer", "rho", "low", "high", "n"])

    def cells_dataframe(self) -> "pandas.DataFrame":
        """One row per sampled cell: where it is, what the predictors say, what its removal did."""
        import pandas as pd

        columns = dict(self.columns)
        columns |= {f"map {name}": values for name, values in self.predictions.items()}
        columns |= {f"effect {name}": values for name, values in self.effects.items()}
        frame = pd.DataFrame(columns)
        whole = ["prompt", "layer", "query", "source"]
        return frame.astype(dict.fromkeys(whole, int) | {"reads": bool})

    def figure(self, *, cells: Cells = "off-diagonal") -> "Figure":
        """Mean rho over layers of every predictor, one panel an effect, with 95 % intervals.

        Raises:
            ModuleNotFoundError: if matplotlib is not installed.
        """
        from matplotlib.figure import Figure
        from matplotlib.lines import Line2D

        columns = min(4, len(self.effects))
        rows = math.ceil(len(self.effects) / columns)
        figure = Figure(
            figsize=(2.6 * columns + 1.6, rows * (0.7 + 0.24 * len(self.predictors)) + 0.7), layout="constrained"
        )
        grid = figure.subplots(rows, columns, sharey=True, sharex=True, squeeze=False)
        panels = list(grid.flat)
        for spare in panels[len(self.effects) :]:
            spare.set_visible(False)
        for panel, effect in zip(panels, self.effects, strict=False):
            for row, predictor in enumerate(self.predictors):
                value, low, high = self.correlation(effect, predictor, cells=cells).mean()
                colour = _colour(predictor, effect)
                panel.plot([low, high], [row, row], color=colour, linewidth=2)
                panel.plot(value, row, "o", color=colour)
            panel.axvline(0, color="0.7", linewidth=1, zorder=0)
            panel.set_title(effect if effect == KNOCKOUT else f"removed: {effect}", fontsize=9)
            panel.tick_params(labelsize=8, labelbottom=True)
        panels[0].set_yticks(range(len(self.predictors)), self.predictors)
        panels[0].invert_yaxis()
        marks = [Line2D([], [], marker="o", linewidth=2, color=colour, label=name) for name, colour in _COLOURS.items()]
        figure.legend(handles=marks, loc="outside upper center", ncols=len(marks), fontsize=8, frameon=False)
        figure.supxlabel(f"Spearman's rho with |change of {self.metric}|, mean over layers ({cells} cells)", fontsize=9)
        return figure

    def __add__(self, other: "CausalValidation") -> "CausalValidation":
        """Two samples of the same model, metric, scopes and sample sizes as one; prompts of the second come after.

        Raises:
            InputError: if the two do not go together.
        """
        if not isinstance(other, CausalValidation):
            return NotImplemented
        for name in ("model", "metric", "predictors"):
            if getattr(self, name) != getattr(other, name):
                raise InputError(
                    f"cannot join: {name} is {getattr(self, name)!r} here, there {getattr(other, name)!r}."
                )
        if tuple(self.effects) != tuple(other.effects):
            raise InputError(f"cannot join effects {', '.join(self.effects)} with {', '.join(other.effects)}.")
        after = other.columns | {"prompt": other.columns["prompt"] + len(self.tokens)}

        def joined(first: dict[str, Numbers], second: dict[str, Numbers]) -> dict[str, Numbers]:
            return {name: np.concatenate([values, second[name]]) for name, values in first.items()}

        return replace(
            self,
            tokens=self.tokens + other.tokens,
            clean=np.concatenate([self.clean, other.clean]),
            columns=joined(self.columns, after),
            predictions=joined(self.predictions, other.predictions),
            effects=joined(self.effects, other.effects),
        )

    def _keep(self, cells: Cells) -> np.ndarray[Any, np.dtype[np.bool_]]:
        off_diagonal = self.columns["query"] != self.columns["source"]
        if cells == "all":
            return np.ones_like(off_diagonal)
        if cells == "off-diagonal":
            return off_diagonal
        return off_diagonal & (self.columns["reads"] == 1 if cells == "read row" else self.columns["source"] > 0)

    def _placebo(self, effect: str) -> Numbers:
        """The removed scope's own map with its cells shuffled within each layer."""
        values = self.predictions[ATTENTION if effect == KNOCKOUT else effect].copy()
        generator = np.random.default_rng((self.plan.seed, 1))
        for layer in np.unique(self.columns["layer"]):
            here = np.flatnonzero(self.columns["layer"] == layer)
            values[here] = values[generator.permutation(here)]
        return values

    def _refuse_unknown(self, effect: str, predictor: str, cells: str) -> None:
        for name, given, known in (
            ("effect", effect, tuple(self.effects)),
            ("predictor", predictor, self.predictors),
            ("cells", cells, get_args(Cells)),
        ):
            if given not in known:
                raise InputError(f"{name}={given!r}: expected one of {', '.join(known)}.")

    def __repr__(self) -> str:
        return (
            f"CausalValidation: {self.model}, {self.metric}, {len(self.tokens)} prompts, {len(self.columns['layer'])} cells; "
            f"effects {', '.join(self.effects)}; predictors {', '.join(self.predictors)}"
        )


def causal_validation(
    model: Any,
    prompts: Sequence[str] | Sequence[Integer[Tensor, " _pos"]],
    metric: Metric | Literal["kl", "loss"] = "kl",
    *,
    scope: str | Sequence[str] | None = None,
    layers: Sequence[int] | int | None = None,
    edge_knockout: bool = True,
    plan: Plan | None = None,
) -> CausalValidation:
    """Correlate maps with what happens when contributions are removed.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: Texts, or token ids [pos], one entry a prompt; lengths may differ.
        metric: What the edits may change: `logit_difference(...)`, "kl" (of the last position's distribution
            against the clean run's) or "loss".
        scope: Scopes whose contributions are removed; None means all. Maps of all scopes are predictors.
        layers: Layers to sample; None means all.
        edge_knockout: Whether to cut attention edges too.
        plan: Sample sizes and seed.

    Returns:
        Cells, predictors, effects and correlations. Deterministic for a seed, up to the rounding of
        batched matrix products.

    Raises:
        InputError: for input or options that cannot be used.
        UnsupportedModelError: if a scope's tensor cannot be changed in this model.
        CompletenessError: if parts do not sum to the model's tensor.
    """
    plan = plan or Plan()
    known = identify(model)
    chosen = {"kl": kl_divergence(), "loss": loss()}.get(metric) if isinstance(metric, str) else metric
    if chosen is None:
        raise InputError(f'metric={metric!r}: expected "kl", "loss" or a Metric such as logit_difference(...).')
    if isinstance(prompts, str) or not len(prompts):
        raise InputError("prompts: expected a list of texts or of token tensors [pos], at least one.")
    sampler = _Sampler(known, chosen, select_scopes(known.family.order, scope), edge_knockout, plan)
    tokens = [_tokens(known, prompt) for prompt in prompts]
    wanted = select_layers(known, layers)
    generator = np.random.default_rng(plan.seed)
    total = len(tokens) * len(wanted) * plan.n_cells * len(sampler.effects)
    with tqdm(total=total, desc="edited runs", unit="run", delay=1.0, disable=None, leave=False) as progress:
        for number, one in enumerate(tokens):
            sampler.sample(number, one, wanted, generator, progress)
    return sampler.result(known.name)


class _Sampler:
    """Goes through the prompts and collects columns."""

    def __init__(self, model: Model, metric: Metric, scopes: tuple[str, ...], edge_knockout: bool, plan: Plan) -> None:
        self.model, self.metric, self.scopes, self.plan = model, metric, scopes, plan
        self.effects = (*scopes, *((KNOCKOUT,) if edge_knockout else ()))
        self._columns: dict[str, list[float]] = defaultdict(list)
        self._predictions: dict[str, list[float]] = defaultdict(list)
        self._measured: dict[str, list[float]] = defaultdict(list)
        self._clean: list[float] = []
        self._labels: list[tuple[str, ...]] = []

    def sample(
        self,
        prompt: int,
        tokens: Int[Tensor, "1 pos"],
        layers: tuple[int, ...],
        generator: np.random.Generator,
        progress: "tqdm[Any]",
    ) -> None:
        """One prompt: draw cells, predict, edit, measure."""
        run = Contributions(self.model.hooked, tokens, layers=layers)
        length = run.shape[1]
        reads = None if self.metric.position is None else self.metric.position % length
        other = int(generator.integers(length))
        edits: list[Edit] = []
        places: list[tuple[str, int, int]] = []
        first = len(self._columns["layer"])
        for layer in layers:
            last = layer == self.model.n_layers - 1
            for query, source in self._draw(length, reads, other, last, generator):
                cell = {"prompt": prompt, "layer": layer, "query": query, "source": source}
                for name, value in {**cell, "reads": reads is None or query == reads}.items():
                    self._columns[name].append(float(value))
                self._predict(run, layer, query, source)
                made: dict[str, int] = {}
                for effect in self.effects:
                    edit = (
                        knockout(run, layer, query, source)
                        if effect == KNOCKOUT
                        else removal(run, layer, effect, query, source)
                    )
                    if edit is None:
                        continue
                    number = made.get(edit.name)
                    if number is None or not torch.equal(edits[number].vector, edit.vector):
                        number = made[edit.name] = len(edits)  # Atb removes what Attn removes where source != query
                        edits.append(edit)
                    places.append((effect, len(self._columns["layer"]) - 1, number))
        clean = float(self.metric(Outcome(run.logits, run.logits, run.tokens, prompt))[0])
        found = effects(run, edits, self.metric, prompt=prompt, batch_size=self.plan.batch_size, progress=progress)
        for effect in self.effects:
            self._measured[effect] += [float("nan")] * (len(self._columns["layer"]) - first)
        for effect, cell_number, number in places:
            self._measured[effect][cell_number] = float(found[number]) - clean
        self._clean.append(clean)
        self._labels.append(run.labels())

    def _draw(
        self, length: int, reads: int | None, other: int, last_layer: bool, generator: np.random.Generator
    ) -> list[tuple[int, int]]:
        """Cells without repetition; in the last layer only the row that is read can have an effect."""
        causal = self.model.family.causal
        everywhere = [(q, s) for q in range(length) for s in range(q + 1 if causal else length)]
        if reads is None:
            return self._some(everywhere, self.plan.n_cells, generator)
        read_row = [cell for cell in everywhere if cell[0] == reads]
        if last_layer:
            return self._some(read_row, self.plan.n_cells, generator)
        if other == reads:
            other = (other + 1) % length
        rest = [cell for cell in everywhere if cell[0] == (other % reads if causal and reads else other)]
        first = self._some(read_row, math.ceil(self.plan.n_cells * self.plan.read_share), generator)
        return first + self._some(
            [cell for cell in rest if cell[0] != reads], self.plan.n_cells - len(first), generator
        )

    @staticmethod
    def _some(cells: list[tuple[int, int]], number: int, generator: np.random.Generator) -> list[tuple[int, int]]:
        chosen = generator.permutation(len(cells))[:number]
        return [cells[index] for index in sorted(chosen)]

    def _predict(self, run: Contributions, layer: int, query: int, source: int) -> None:
        part = run.decomposition(layer)[0]
        for scope in part.scopes:
            self._predictions[scope].append(float(part.parts(scope)[query, source].norm()))
        record = run.records[layer]
        alpha = record.pattern[0, :, query, source]
        norms = record.value[0, source].norm(dim=-1)
        self._predictions[ATTENTION].append(float(alpha.mean()))
        values = alpha * norms.repeat_interleave(len(alpha) // len(norms))
        self._predictions[VALUES].append(float(values.mean()))

    def result(self, name: str) -> CausalValidation:
        """Everything sampled."""

        def arrays(columns: dict[str, list[float]]) -> dict[str, Numbers]:
            return {key: np.array(values, dtype=np.float64) for key, values in columns.items()}

        return CausalValidation(
            model=name,
            metric=self.metric.name,
            tokens=tuple(self._labels),
            clean=np.array(self._clean),
            columns=arrays(self._columns),
            predictions=arrays(self._predictions),
            effects=arrays(self._measured),
            plan=self.plan,
        )


def _tokens(model: Model, prompt: Any) -> Int[Tensor, "1 pos"]:
    batches = prepare(model, prompt, None)
    if len(batches) != 1 or batches[0].tokens.shape[0] != 1:
        raise InputError("prompts: expected one text or one tensor [pos] a prompt.")
    return batches[0].tokens


_COLOURS = {
    "map of what is removed": "tab:red",
    "other maps": "tab:blue",
    "attention": "tab:orange",
    "placebo": "0.6",
}


def _colour(predictor: str, effect: str) -> str:
    if predictor == PLACEBO:
        return _COLOURS["placebo"]
    if predictor in (ATTENTION, VALUES):
        return _COLOURS["attention"]
    return _COLOURS["map of what is removed" if predictor == effect else "other maps"]
