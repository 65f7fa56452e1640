"""What a causal validation found: sampled cells, what predictors say of them, what edits did, and how well the two agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import ArrayLike

from tl_ffblock.errors import InputError
from tl_ffblock.interventions.sampling import ATTENTION, KNOCKOUT, PLACEBO, SamplePlan, change_of
from tl_ffblock.result import views
from tl_ffblock.results.intervals import Correlation, bootstrap_weights, mean_interval, rank_correlation
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

CellChoice: TypeAlias = Literal["off-diagonal", "reachable", "read row", "beyond first"]
"""Which of the sampled cells are correlated: those with key != query; all, as a query can reach no others; of the first,
those whose query the metric reads; of the first, those whose key is not the first token, on which attention rests when it
has nothing to bring."""


@strict
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
    """By predictor: scope names, "attention", "attention x value norm"; of pairs of prompts also "change of" each scope,
    the norm of the difference of the two runs' vectors, and "change of attention"."""
    effects: dict[str, Float[np.ndarray, " cell"]]
    """By intervention: the scope whose contribution was removed or exchanged, or "edge knockout"; metric's units, signed."""
    plan: SamplePlan
    corrupted: Float[np.ndarray, " prompt"] | None = None
    """The metric of the corrupted runs, where contributions were exchanged for theirs; None where they were removed."""

    @property
    def predictors(self) -> tuple[str, ...]:
        """All predictors, the placebo last."""
        return (*self.predictions, PLACEBO)

    def prediction(self, predictor: str, effect: str) -> Float[np.ndarray, " cell"]:
        """What a predictor says of every sampled cell.

        Only the placebo depends on the effect: it is the map of the scope that is removed, of an exchange the change of
        this scope, of the knockout raw attention, with its cells shuffled within each layer.

        Raises:
            InputError: for names that are not in this result.
        """
        self._refuse_unknown(effect, predictor)
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

    def effects_dataframe(self, *, by_prompt: bool = False, cells: CellChoice = "off-diagonal") -> "pandas.DataFrame":
        """How far the edits moved the metric: one row an effect, means over prompts with 95 % intervals.

        `change` is the mean over a prompt's cells, `size` that of |change|; `n` counts prompts. All intervals are of the same
        draws of prompts, of a pair of runs together, so that differences of rows are paired.

        Args:
            by_prompt: A row each prompt and effect instead: change, size, `n` cells, the metric of the clean run, and of
                pairs of the corrupted one.
            cells: Which cells count.
        """
        import pandas as pd

        keep, n_prompts = self._keep(cells), len(self.tokens)
        tables = {effect: self._prompt_means(values, keep) for effect, values in self.effects.items()}
        if by_prompt:
            metrics = {"clean": self.clean} | ({} if self.corrupted is None else {"corrupted": self.corrupted})
            return pd.concat(
                [
                    pd.DataFrame({"prompt": range(n_prompts), "effect": effect, **table, **metrics})
                    for effect, table in tables.items()
                ],
                ignore_index=True,
            )
        rows = []
        for effect, table in tables.items():
            values = torch.from_numpy(np.stack([table["change"], table["size"]], axis=1))
            over = mean_interval(values, n_draws=self.plan.n_bootstrap, seed=self.plan.seed)
            ends = torch.stack([over.mean, over.low, over.high], dim=1).reshape(-1).tolist()
            rows.append((effect, *ends, int(over.counts[0])))
        names = ["effect", "change", "low", "high", "size", "size_low", "size_high", "n"]
        return pd.DataFrame(rows, columns=names)

    def _prompt_means(
        self, effect: Float[np.ndarray, " cell"], keep: Bool[np.ndarray, " cell"]
    ) -> dict[str, Float[np.ndarray, " prompt"]]:
        """Mean change, mean |change| and number of the measured cells of each prompt; NaN where it has none."""
        keep = keep & ~np.isnan(effect)
        prompt = self.columns["prompt"][keep].astype(np.int64)
        counts, *sums = (
            np.bincount(prompt, weights=values, minlength=len(self.tokens))
            for values in (np.ones(len(prompt)), effect[keep], np.abs(effect[keep]))
        )
        change, size = (np.where(counts > 0, total / np.maximum(counts, 1), np.nan) for total in sums)
        return {"change": change, "size": size, "n": counts}

    def cells_dataframe(self) -> "pandas.DataFrame":
        """One row per sampled cell: prompt, layer, query, key, reads, what the predictors say, what its edits did."""
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
        figure: Figure = views().figure_of(self, cells=cells)
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
        if (self.corrupted is None) != (other.corrupted is None):
            raise InputError(
                "cannot join: contributions were removed in one, exchanged for a corrupted run's in the other."
            )
        if tuple(self.effects) != tuple(other.effects):
            raise InputError(f"cannot join effects {', '.join(self.effects)} with {', '.join(other.effects)}.")
        after = other.columns | {"prompt": other.columns["prompt"] + len(self.tokens)}
        return replace(
            self,
            tokens=self.tokens + other.tokens,
            clean=np.concatenate([self.clean, other.clean]),
            columns=one_after_the_other([self.columns, after]),
            predictions=one_after_the_other([self.predictions, other.predictions]),
            effects=one_after_the_other([self.effects, other.effects]),
            corrupted=None
            if self.corrupted is None or other.corrupted is None
            else np.concatenate([self.corrupted, other.corrupted]),
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
        done = "removed" if self.corrupted is None else "exchanged for those of corrupted runs"
        return (
            f"CausalValidation: {self.model}, {self.metric}, {len(self.tokens)} prompts, {len(self.columns['layer'])} cells, "
            f"contributions {done}; "
            f"effects {', '.join(self.effects)}; predictors {', '.join(self.predictors)}"
        )


def one_after_the_other(tables: Sequence[Mapping[str, ArrayLike]]) -> dict[str, Float[np.ndarray, " cell"]]:
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
