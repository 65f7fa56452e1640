"""What a sweep found: the metric with one contribution changed at a time, by prompt, their mean and its interval."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.positions import spans
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

LARGEST_SHOWN = 3
"""Effects that the short form of a sweep names."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class ContributionSweep:
    """The metric with one contribution changed at a time, at one scope, of one prompt or of several.

    `values`, `effect` and what `interval` holds are [layer query key], of a sweep over heads [layer head query key]: means
    over the prompts that have the cell, NaN where none has.
    """

    by_prompt: Float[Tensor, "prompt layer head query key"]
    """The metric of every prompt (one entry if the metric gave one number for all); NaN where it has no such cell."""
    baselines: Float[Tensor, " prompt"]
    """The metric without any change."""
    metric: str
    """What was read."""
    scope: str
    """Which contributions were changed, and where they were."""
    layers: tuple[int, ...]
    """The model's numbers of the layers, ascending."""
    heads: tuple[int, ...] | None
    """Attention heads through which contributions came; None where they were changed whole."""
    queries: tuple[int | str, ...]
    """Position of each row, or its name: what received."""
    keys: tuple[int | str, ...]
    """Position of each column, or its name: what gave."""
    query_tokens: tuple[str, ...]
    """Which tokens stand in each row; different ones of the prompts joined."""
    key_tokens: tuple[str, ...]
    """Which tokens stand in each column, likewise."""
    tokens: tuple[tuple[str, ...], ...]
    """The prompts."""
    n_draws: int = N_DRAWS
    """Draws of the bootstrap over prompts."""
    seed: int = 0

    @property
    def baseline(self) -> float:
        """The metric without any change, mean over prompts."""
        return float(self.baselines.mean())

    @property
    def values(self) -> Float[Tensor, "layer *head query key"]:
        """The metric."""
        return self._without_heads(mean_interval(self.by_prompt, n_draws=1).mean).to(self.by_prompt.dtype)

    @property
    def effect_by_prompt(self) -> Float[Tensor, "prompt layer head query key"]:
        """Each prompt's change of the metric: by_prompt - baselines."""
        return self.by_prompt - self.baselines[:, None, None, None, None]

    @property
    def effect(self) -> Float[Tensor, "layer *head query key"]:
        """Change of the metric."""
        return self.interval.mean.to(self.by_prompt.dtype)

    @cached_property
    def interval(self) -> MeanInterval:
        """The mean change with its 95 % interval (percentile bootstrap over prompts) and the number of prompts."""
        over_prompts = mean_interval(self.effect_by_prompt, n_draws=self.n_draws, seed=self.seed)
        return MeanInterval(
            self._without_heads(over_prompts.mean),
            self._without_heads(over_prompts.low),
            self._without_heads(over_prompts.high),
            self._without_heads(over_prompts.counts),
        )

    def to_dataframe(self, *, by_prompt: bool = False) -> "pandas.DataFrame":
        """One row a cell: layer, scope, head (if asked for), query, key, their tokens, value, effect; of several prompts low, high, n too.

        The columns that name cells are those of `ContributionMaps.to_dataframe`, so that the two can be merged on them.

        Args:
            by_prompt: Whether each prompt has a row of its own, its number in the column `prompt`.
        """
        import pandas as pd

        axes: dict[str, Sequence[object]] = {"prompt": range(len(self.by_prompt))} if by_prompt else {}
        heads = {} if self.heads is None else {"head": self.heads}
        axes |= {"layer": self.layers, **heads, "query": self.queries, "key": self.keys}
        grid = np.meshgrid(*(np.array(axis, dtype=object) for axis in axes.values()), indexing="ij")
        frame = pd.DataFrame(
            {name: labels.reshape(-1) for name, labels in zip(axes, grid, strict=True)}
        ).infer_objects()
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

    def _without_heads(self, values: Tensor) -> Tensor:
        """Without the axis of heads, where contributions were changed whole."""
        return values[:, 0] if self.heads is None else values

    def __repr__(self) -> str:
        names = ("layers", *(() if self.heads is None else ("heads",)), "queries", "keys")
        size = (f"{n} {name}" for n, name in zip(self.values.shape, names, strict=True))
        prompts = f" · mean over {len(self.tokens)} prompts" if len(self.tokens) > 1 else ""
        lines = [
            f"ContributionSweep: {self.metric} with one contribution at {self.scope} changed at a time · "
            f"{' x '.join(size)} (layers {spans(self.layers)}){prompts}",
            f"  baseline         {self.baseline:.4g}",
        ]
        cells = self.to_dataframe()
        for row in cells.loc[cells["effect"].abs().nlargest(LARGEST_SHOWN).index].itertuples():
            start = "  largest effects  " if len(lines) == 2 else " " * 19
            query, key = (
                f"{visible(str(token))}@{at}" for token, at in ((row.query_token, row.query), (row.key_token, row.key))
            )
            head = f" head {row.head}" if self.heads is not None else ""
            interval = f" [{row.low:.4g}, {row.high:.4g}]" if len(self.by_prompt) > 1 else ""
            lines.append(f"{start}{row.effect:+.4g}{interval} layer {row.layer}{head}, {query} from {key}")
        return "\n".join(lines)
