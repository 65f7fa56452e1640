"""Does a map say which contributions matter? Remove some, measure, correlate.

1. Cells are drawn of every prompt; each is predicted, taken out and measured (sampling.py).
2. A placebo stands beside the predictors: the map of what is removed, shuffled within its layer.
3. Spearman's rho between predictor and |effect| within every layer, its mean over layers, and 95 %
   intervals by bootstrap over prompts.

The effects do not enter the maps, and an edge that is cut is an intervention on the pattern, not on
the vectors the maps are made of.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from jaxtyping import Bool, Float, Integer
from torch import Tensor

from tl_ffblock.bridge.inputs import one_sequence
from tl_ffblock.bridge.model import identify, select_layers
from tl_ffblock.bridge.runs import Layers
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.sampling import ATTENTION, KNOCKOUT, PLACEBO, PromptSample, SamplePlan, Sampler
from tl_ffblock.interventions.validation_figure import draw
from tl_ffblock.layer.scopes import select_scopes
from tl_ffblock.metrics import LogitFunction, Metric, as_metric, kl_divergence, loss
from tl_ffblock.progress import Progress
from tl_ffblock.results.correlation import Correlation, rank_correlation
from tl_ffblock.results.intervals import bootstrap_weights

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

CellChoice: TypeAlias = Literal["off-diagonal", "reachable", "read row", "beyond first"]
"""Which of the sampled cells are correlated: those with key != query; all, as a query can reach no others; of the first,
those whose query the metric reads; of the first, those whose key is not the first token, on which attention rests when it
has nothing to bring."""


BY_NAME: dict[str, Callable[[], Metric]] = {"kl": kl_divergence, "loss": loss}
"""Metrics that need no answers, by the names a caller may give."""


@dataclass(frozen=True, eq=False)
class CausalValidation:
    """Sampled cells with their predictors and effects, and the correlations between them."""

    model: str
    metric: str
    tokens: tuple[tuple[str, ...], ...]
    """The prompts' tokens as text."""
    clean: Float[np.ndarray, " prompt"]
    """The metric without any edit."""
    columns: dict[str, Float[np.ndarray, " cell"]]
    """By name: prompt, layer, query, key, reads (whether the metric is read at the query)."""
    predictions: dict[str, Float[np.ndarray, " cell"]]
    """By predictor: scope names, "attention", "attention x value norm"."""
    effects: dict[str, Float[np.ndarray, " cell"]]
    """By intervention: the scope whose contribution was removed, or "edge knockout"; metric's units, signed."""
    plan: SamplePlan

    @property
    def predictors(self) -> tuple[str, ...]:
        """All predictors, the placebo last."""
        return (*self.predictions, PLACEBO)

    def prediction(self, predictor: str, effect: str) -> Float[np.ndarray, " cell"]:
        """What a predictor says of every sampled cell.

        Only the placebo depends on the effect: it is the map of the scope that is removed, of the knockout raw
        attention, with its cells shuffled within each layer.

        Raises:
            InputError: for names that are not in this result.
        """
        self._refuse_unknown(effect, predictor)
        if predictor != PLACEBO:
            return self.predictions[predictor]
        values = self.predictions[ATTENTION if effect == KNOCKOUT else effect].copy()
        generator = np.random.default_rng((self.plan.seed, 1))
        for layer in np.unique(self.columns["layer"]):
            of_layer = np.flatnonzero(self.columns["layer"] == layer)
            values[of_layer] = values[generator.permutation(of_layer)]
        return values

    def correlation(self, effect: str, predictor: str, *, cells: CellChoice = "off-diagonal") -> Correlation:
        """Spearman's rho between a predictor and the size of an effect, by layer.

        Raises:
            InputError: for names that are not in this result.
        """
        predicted = self.prediction(predictor, effect)
        keep = self._keep(cells) & ~np.isnan(self.effects[effect])
        weights = bootstrap_weights(len(self.tokens), self.plan.n_bootstrap, self.plan.seed)
        prompt, layer = (self.columns[name][keep].astype(np.int64) for name in ("prompt", "layer"))
        return rank_correlation(predicted[keep], np.abs(self.effects[effect][keep]), layer, prompt, weights)

    def compare(
        self, effect: str, predictor: str, against: str, *, cells: CellChoice = "off-diagonal"
    ) -> tuple[float, float, float]:
        """How much better one predictor is than another: difference of mean rho with its 95 % interval.

        Args:
            effect: What is predicted.
            predictor: The one whose rho counts as positive.
            against: The other one.
            cells: Which cells are correlated.

        Raises:
            InputError: for names that are not in this result.
        """
        first, second = (self.correlation(effect, name, cells=cells) for name in (predictor, against))
        return first.minus(second)

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row per choice of cells, effect, predictor and layer ("mean" for the mean over layers): rho, low, high, n.

        The choice that `correlation` takes unless told otherwise comes first.
        """
        import pandas as pd

        rows = [
            (cells, effect, predictor, *line)
            for cells in get_args(CellChoice)
            for effect in self.effects
            for predictor in self.predictors
            for line in _lines(self.correlation(effect, predictor, cells=cells))
        ]
        return pd.DataFrame(rows, columns=["cells", "effect", "predictor", "layer", "rho", "low", "high", "n"])

    def cells_dataframe(self) -> "pandas.DataFrame":
        """One row per sampled cell: prompt, layer, query, key, reads, what the predictors say, what its removal did."""
        import pandas as pd

        columns = dict(self.columns)
        columns |= {f"map {name}": values for name, values in self.predictions.items()}
        columns |= {f"effect {name}": values for name, values in self.effects.items()}
        numbers = dict.fromkeys(("prompt", "layer", "query", "key"), int)
        return pd.DataFrame(columns).astype(numbers | {"reads": bool})

    def figure(self, *, cells: CellChoice = "off-diagonal") -> "Figure":
        """Mean rho over layers of every predictor, one panel an effect, with 95 % intervals.

        Raises:
            ModuleNotFoundError: if matplotlib is not installed.
        """
        return draw(self, cells)

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
        return replace(
            self,
            tokens=self.tokens + other.tokens,
            clean=np.concatenate([self.clean, other.clean]),
            columns=_joined([self.columns, after]),
            predictions=_joined([self.predictions, other.predictions]),
            effects=_joined([self.effects, other.effects]),
        )

    def _keep(self, cells: CellChoice) -> Bool[np.ndarray, " cell"]:
        if cells not in get_args(CellChoice):
            raise InputError(f"cells={cells!r}: expected one of {', '.join(get_args(CellChoice))}.")
        off_diagonal = self.columns["query"] != self.columns["key"]
        chosen: dict[CellChoice, Bool[np.ndarray, " cell"]] = {
            "off-diagonal": off_diagonal,
            "reachable": np.ones_like(off_diagonal),
            "read row": off_diagonal & (self.columns["reads"] == 1),
            "beyond first": off_diagonal & (self.columns["key"] > 0),
        }
        return chosen[cells]

    def _refuse_unknown(self, effect: str, predictor: str) -> None:
        for name, given, known in (
            ("effect", effect, tuple(self.effects)),
            ("predictor", predictor, self.predictors),
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
    metric: Metric | LogitFunction | Literal["kl", "loss"] = "kl",
    *,
    scope: str | Sequence[str] | None = None,
    layers: Layers = None,
    edge_knockout: bool = True,
    plan: SamplePlan | None = None,
) -> CausalValidation:
    """Correlate maps with what happens when contributions are removed.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: Texts, or token ids [pos], one entry a prompt; lengths may differ.
        metric: What the edits may change: `ffb.logit(...)`, "kl" (of the last position's distribution against the
            clean run's), "loss", or any function of logits [batch pos d_vocab].
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
    plan = plan or SamplePlan()
    known = identify(model)
    if isinstance(metric, str) and metric not in BY_NAME:
        raise InputError(f'metric={metric!r}: expected "kl", "loss" or a function of logits such as ffb.logit(...).')
    read = BY_NAME[metric]() if isinstance(metric, str) else as_metric(metric).bound_to(known)
    if isinstance(prompts, str) or not len(prompts):
        raise InputError("prompts: expected a list of texts or of token tensors [pos], at least one.")
    sampler = Sampler(known, read, select_scopes(known.family.order, scope), edge_knockout, plan)
    tokens = [one_sequence(known, prompt, f"prompts[{number}]") for number, prompt in enumerate(prompts)]
    chosen = select_layers(known, layers)
    generator = np.random.default_rng(plan.seed)
    total = len(tokens) * len(chosen) * plan.n_cells * len(sampler.effects)
    with Progress("edited runs", total, "run") as progress:
        samples = [
            sampler.sample(number, prompt, chosen, generator, progress.step) for number, prompt in enumerate(tokens)
        ]
    return _result(known.name, read.name, samples, plan)


def _result(model: str, metric: str, samples: Sequence[PromptSample], plan: SamplePlan) -> CausalValidation:
    """The prompts' samples as columns."""
    rows = [
        (prompt, cell.layer, cell.query, cell.key, cell.reads)
        for prompt, sample in enumerate(samples)
        for cell in sample.cells
    ]
    table = np.array(rows, dtype=np.float64).reshape(-1, 5)
    return CausalValidation(
        model=model,
        metric=metric,
        tokens=tuple(sample.tokens for sample in samples),
        clean=np.array([sample.clean for sample in samples]),
        columns=dict(zip(("prompt", "layer", "query", "key", "reads"), table.T.copy(), strict=True)),
        predictions=_joined([sample.predictions for sample in samples]),
        effects=_joined([sample.effects for sample in samples]),
        plan=plan,
    )


def _joined(tables: Sequence[dict[str, Any]]) -> dict[str, Float[np.ndarray, " cell"]]:
    """Columns of the same names, one after the other."""
    return {name: np.concatenate([np.asarray(table[name], dtype=np.float64) for table in tables]) for name in tables[0]}


def _lines(correlation: Correlation) -> list[tuple[str, float, float, float, int]]:
    """Layer, rho, low, high and number of cells: the mean over layers, then every layer."""
    mean = ("mean", *correlation.mean(), int(correlation.counts.sum()))
    return [
        mean,
        *(
            (str(layer), *correlation.of_layer(number), int(correlation.counts[number]))
            for number, layer in enumerate(correlation.layers)
        ),
    ]
