"""The effect of every contribution: a tensor [layer query key] and its table.

What TransformerLens's `get_act_patch_*` functions give for whole activations, for single contributions,
with many edits a forward pass and for every scope.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.model import select_layers
from tl_ffblock.bridge.runs import Layers
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edits import changes, measure_edits, measure_unedited
from tl_ffblock.layer.positions import Positions, positions, spans
from tl_ffblock.metrics import LogitFunction, Metric, as_metric
from tl_ffblock.progress import Progress
from tl_ffblock.results.tokens import visible

if TYPE_CHECKING:
    import pandas

LARGEST_SHOWN = 3
"""Effects that the short form of a sweep names."""


@dataclass(frozen=True, repr=False, eq=False)
class ContributionSweep:
    """The metric with one contribution changed at a time, of one prompt at one scope."""

    values: Float[Tensor, "layer query key"]
    """The metric; NaN where a causal model has no such cell."""
    baseline: float
    """The metric without any change."""
    metric: str
    """What was read."""
    scope: str
    """Which contributions were changed, and where they were."""
    layers: tuple[int, ...]
    """The model's numbers of the layers, ascending."""
    queries: tuple[int, ...]
    """Position of each row: what received."""
    keys: tuple[int, ...]
    """Position of each column: what gave."""
    tokens: tuple[str, ...]
    """The whole prompt."""

    @property
    def effect(self) -> Float[Tensor, "layer query key"]:
        """Change of the metric: values - baseline."""
        return self.values - self.baseline

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a cell: layer, scope, query, key, their tokens, value, effect.

        The first four columns name cells as `ContributionMaps.to_dataframe` does, so that the two can be merged on them.
        """
        import numpy as np
        import pandas as pd

        layer, query, key = (
            axis.reshape(-1) for axis in np.meshgrid(self.layers, self.queries, self.keys, indexing="ij")
        )
        tokens = np.array(self.tokens, dtype=object)
        frame = pd.DataFrame(
            {
                "layer": layer,
                "scope": self.scope,
                "query": query,
                "key": key,
                "query_token": tokens[query],
                "key_token": tokens[key],
                "value": self.values.double().reshape(-1).numpy(),
            }
        )
        frame = frame.dropna(subset="value", ignore_index=True)
        return frame.assign(effect=frame["value"] - self.baseline)

    def __repr__(self) -> str:
        size = (f"{n} {name}" for n, name in zip(self.values.shape, ("layers", "queries", "keys"), strict=True))
        lines = [
            f"ContributionSweep: {self.metric} with one contribution at {self.scope} changed at a time · "
            f"{' x '.join(size)} (layers {spans(self.layers)})",
            f"  baseline         {self.baseline:.4g}",
        ]
        cells = self.to_dataframe()
        for row in cells.loc[cells["effect"].abs().nlargest(LARGEST_SHOWN).index].itertuples():
            head = "  largest effects  " if len(lines) == 2 else " " * 19
            query, key = (
                f"{visible(str(token))} ({at})"
                for token, at in ((row.query_token, row.query), (row.key_token, row.key))
            )
            lines.append(f"{head}{row.effect:+.4g} layer {row.layer}, {query} from {key}")
        return "\n".join(lines)


def contribution_sweep(
    contributions: Contributions,
    metric: Metric | LogitFunction,
    scope: str,
    *,
    donor: Contributions | None = None,
    layers: Layers = None,
    queries: Positions = None,
    keys: Positions = None,
    batch_size: int = 64,
) -> ContributionSweep:
    """Change one contribution at a time and read the metric.

    Args:
        contributions: The run to change (the corrupted one, if contributions of a clean one are put into it).
        metric: What to read: `ffb.logit(...)`, or any function of logits [batch pos d_vocab].
        scope: Which contributions.
        donor: The run whose contributions of the same cells are put in their place; None takes them out.
        layers: Layers; None means all.
        queries: Positions that receive; None means all.
        keys: Positions that give; None means all.
        batch_size: Edited runs at a time.

    Raises:
        InputError: if a run has more than one sequence, the two differ in length, or a layer, scope or position does
            not exist.
        UnsupportedModelError: if the scope's tensor cannot be changed in this model.
    """
    if contributions.shape[0] != 1 or (donor is not None and donor.shape != contributions.shape):
        raise InputError("contribution_sweep takes one sequence, and a donor run of equally many tokens.")
    model, length = contributions.model, contributions.shape[1]
    chosen = select_layers(model, layers)
    rows, columns = positions(queries, length, "queries"), positions(keys, length, "keys")
    cells = [
        (row, column)
        for row, query in enumerate(rows)
        for column, key in enumerate(columns)
        if not model.family.causal or key <= query
    ]
    values = torch.full((len(chosen), len(rows), len(columns)), float("nan"))
    metric = as_metric(metric)
    baseline = measure_unedited(contributions, metric)
    with Progress(f"{scope} sweep", len(chosen) * len(cells), "run") as progress:
        for index, layer in enumerate(chosen):
            at = [(rows[row], columns[column]) for row, column in cells]
            edits = changes(contributions, donor, layer, scope, at)
            measured = measure_edits(contributions, edits, metric, batch_size=batch_size, advance=progress.step)
            for (row, column), value in zip(cells, measured, strict=True):
                values[index, row, column] = value
    return ContributionSweep(
        values, baseline, metric.name, scope, chosen, tuple(rows), tuple(columns), contributions.labels()
    )
