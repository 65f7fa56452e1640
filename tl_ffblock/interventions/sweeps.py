"""The effect of every contribution: a tensor [layer query source] and its table.

What TransformerLens's `get_act_patch_*` functions give for whole activations, for single contributions,
with many edits a forward pass and for every scope.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor
from tqdm import tqdm

from tl_ffblock.bridge.model import select_layers
from tl_ffblock.errors import InputError
from tl_ffblock.interventions.contribution_hooks import Contributions
from tl_ffblock.interventions.edit_points import Positions, place_of, positions
from tl_ffblock.interventions.edits import Edit, Metric, Outcome, effects

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class ContributionSweep:
    """The metric with one contribution changed at a time."""

    values: Float[Tensor, "layer query source"]
    """NaN where a causal model has no such cell."""
    baseline: float
    """The metric without any change."""
    scope: str
    layers: tuple[int, ...]
    queries: tuple[int, ...]
    sources: tuple[int, ...]
    tokens: tuple[str, ...]

    @property
    def effect(self) -> Float[Tensor, "layer query source"]:
        """Change of the metric."""
        return self.values - self.baseline

    def to_dataframe(self) -> "pandas.DataFrame":
        """One row a cell: layer, query, source, tokens, value, effect."""
        import pandas as pd

        rows = [
            (layer, query, source, self.tokens[query], self.tokens[source], float(self.values[a, b, c]))
            for a, layer in enumerate(self.layers)
            for b, query in enumerate(self.queries)
            for c, source in enumerate(self.sources)
            if not bool(self.values[a, b, c].isnan())
        ]
        frame = pd.DataFrame(rows, columns=["layer", "query", "source", "query_token", "source_token", "value"])
        return frame.assign(effect=frame["value"] - self.baseline)


def contribution_sweep(
    run: Contributions,
    metric: Metric,
    scope: str,
    *,
    donor: Contributions | None = None,
    layers: Sequence[int] | int | None = None,
    queries: Positions = None,
    sources: Positions = None,
    batch_size: int = 64,
) -> ContributionSweep:
    """Change one contribution at a time and read the metric.

    Args:
        run: The run to change (the corrupted one, if contributions of a clean one are put into it).
        metric: What to read, as `logit_difference(...)`.
        scope: Which contributions.
        donor: The run whose contributions of the same cells are put in their place; None takes them out.
        layers: Layers; None means all.
        queries: Positions that receive; None means all.
        sources: Positions that give; None means all.
        batch_size: Edited runs at a time.

    Raises:
        InputError: if a run has more than one sequence, or the two differ in length.
    """
    if run.shape[0] != 1 or (donor is not None and donor.shape != run.shape):
        raise InputError("contribution_sweep takes one sequence, and a donor run of equally many tokens.")
    length, causal = run.shape[1], run.model.family.causal
    wanted = select_layers(run.model, layers)
    rows, columns = positions(queries, length, "queries"), positions(sources, length, "sources")
    cells = [
        (a, b, c)
        for a in range(len(wanted))
        for b, query in enumerate(rows)
        for c, source in enumerate(columns)
        if not causal or source <= query
    ]
    values = torch.full((len(wanted), len(rows), len(columns)), float("nan"))
    clean = float(metric(Outcome(run.logits, run.logits, run.tokens, 0))[0])
    with tqdm(total=len(cells), desc=f"{scope} sweep", unit="run", delay=1.0, disable=None, leave=False) as progress:
        for a, layer in enumerate(wanted):
            here = [cell for cell in cells if cell[0] == a]
            edits = _edits(run, donor, layer, scope, [(rows[b], columns[c]) for _, b, c in here])
            found = effects(run, edits, metric, batch_size=batch_size, progress=progress)
            for cell, value in zip(here, found.tolist(), strict=True):
                values[cell] = value
    return ContributionSweep(values, clean, scope, wanted, tuple(rows), tuple(columns), run.labels())


def _edits(
    run: Contributions, donor: Contributions | None, layer: int, scope: str, cells: list[tuple[int, int]]
) -> list[Edit]:
    place = place_of(run.model, layer, scope)
    norm = None if place.norm is None else getattr(run.records[layer].block, place.norm)
    change = -run.decomposition(layer)[0].parts(scope)
    if donor is not None:
        change = change + donor.decomposition(layer)[0].parts(scope)
    return [Edit(place.name, query, place.onto(change[query, source], norm)) for query, source in cells]
