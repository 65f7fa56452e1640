"""How much each component changes the mixing of tokens: 1 - Spearman's rho of maps (section 5.1).

- `changes`: every component alone, from the scope before it to the scope after it (Fig. 3, 14-18).
- `cumulative`: from before the feed-forward to after it, after its residual, after the next norm (Fig. 6,
  19-23): how much of FF's change is left. In models with a norm before FF also from before that norm.

Each sequence counts once. `cells` says which cells of causal maps are ranked: the reachable ones, or
all with the structural zeros.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsStudy, Tables
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.results import figures as draw
from tl_ffblock.results.measures import Cells, contextualization_change

CELLS: tuple[Cells, ...] = ("reachable", "all")


class Contextualization(MomentsStudy):
    """Changes of mixing by component and layer."""

    name = "contextualization"
    title = "How much each component changes the mixing of tokens"

    def scopes(self) -> tuple[str, ...]:
        wanted = {scope for pair in self._pairs() for scope in pair}
        return tuple(step.scope for step in STEPS[self.facts.order] if step.scope in wanted)

    def bases(self) -> tuple[str, ...]:
        """Where cumulative changes start: before FF, and before the norm that precedes it."""
        before = self.facts.feed_forward.before
        assert before is not None
        earlier = next((step for step in self.facts.steps if step.scope == before and step.component == "LN"), None)
        pre_norm = earlier is not None and self.facts.order != "post_ln"
        return (before, str(earlier.before)) if pre_norm and earlier is not None else (before,)

    def measure(self, observed: Observation) -> dict[str, Moments]:
        cells = CELLS if self.facts.causal else CELLS[:1]
        moments = {}
        for kind in cells:
            for before, after in self._pairs():
                change = contextualization_change(observed.maps, before, after, cells=kind).numpy()
                moments[f"{kind}.{before}.{after}"] = Moments.of(change[None])
        return moments

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        def rows(pairs: list[tuple[str, str]], label: Mapping[str, str]) -> pd.DataFrame:
            table = []
            for kind in CELLS:  # without causal mask the two kinds are the same
                for before, after in pairs:
                    name = f"{kind if self.facts.causal else CELLS[0]}.{before}.{after}"
                    moments = self.moments(shards, name)
                    for layer in range(self.facts.n_layers):
                        table.append(
                            dict(
                                cells=kind,
                                layer=layer,
                                component=label[after],
                                before=before,
                                after=after,
                                change=moments.value[layer],
                                deviation=moments.deviation[layer],
                                sequences=int(moments.count[layer]),
                            )
                        )
            return pd.DataFrame(table)

        component = {step.scope: step.component for step in self.facts.steps}
        return {
            "changes": rows(self._single(), component),
            "cumulative": rows(self._cumulative(), {after: f"+{component[after]}" for _, after in self._cumulative()}),
        }

    def figures(self, tables: Tables) -> Figures:
        figures: Figures = {}
        kinds = CELLS if self.facts.causal else CELLS[:1]
        for kind in kinds:
            suffix = f"_{kind}" if self.facts.causal else ""
            note = {"reachable": "", "all": ", all cells"}[kind]
            changes = tables["changes"].query("cells == @kind")
            bars = {
                f"{a} ({c})": g["change"].to_numpy()
                for (a, c), g in changes.groupby(["after", "component"], sort=False)
            }
            figures[f"changes{suffix}"] = draw.layer_bars(bars, ylabel=f"change 1 − ρ{note}")
            base = self.bases()[0]
            cumulative = tables["cumulative"].query("cells == @kind and before == @base")
            bars = {
                f"{c} ({a})": g["change"].to_numpy()
                for (c, a), g in cumulative.groupby(["component", "after"], sort=False)
            }
            figures[f"cumulative{suffix}"] = draw.layer_bars(bars, ylabel=f"1 − ρ to {base}{note}")
        return figures

    def _single(self) -> list[tuple[str, str]]:
        return [(str(step.before), step.scope) for step in self.facts.steps]

    def _cumulative(self) -> list[tuple[str, str]]:
        steps = self.facts.steps
        start = steps.index(self.facts.feed_forward)
        return [(base, step.scope) for base in self.bases() for step in steps[start:]]

    def _pairs(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys([*self._single(), *self._cumulative()]))
