"""How much each component changes the mixing of tokens: 1 - Spearman's rho of maps (section 5.1).

- `changes`: every component alone, from the scope before it to the scope after it (Fig. 3, 14-18).
- `cumulative`: from before the feed-forward to after it, after its residual, after the next norm (Fig. 6,
  19-23): how much of FF's change is left. In models with a norm before FF also from before that norm.

Each sequence counts once. `cells` says which cells are ranked: of causal maps the reachable ones, and in rows of
their own all with the structural zeros; of others all.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsStudy, Tables
from tl_ffblock.layer.scopes import STEPS, Step
from tl_ffblock.results import figures as draw
from tl_ffblock.results.measures import Cells, contextualization_change

_CHANGES = f"Change of the map by each component alone: {draw.SCATTER_OF_MEAN}"
_CUMULATIVE = f"What is left of the feed-forward's change after the residual and the next norm: {draw.SCATTER_OF_MEAN}"
_REACHABLE = "over reachable cells"
_ALL = "over all cells, structural zeros included"


class Contextualization(MomentsStudy):
    """Changes of mixing by component and layer."""

    name = "contextualization"
    title = "How much each component changes the mixing of tokens"
    captions: ClassVar[Mapping[str, str]] = {
        "changes": f"{_CHANGES}.",
        "cumulative": f"{_CUMULATIVE}.",
        "changes_reachable": f"{_CHANGES}, {_REACHABLE}.",
        "cumulative_reachable": f"{_CUMULATIVE}, {_REACHABLE}.",
        "changes_all": f"{_CHANGES}, {_ALL}.",
        "cumulative_all": f"{_CUMULATIVE}, {_ALL}.",
    }

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
        moments = {}
        for kind in self._cells():
            for before, after in self._pairs():
                change = contextualization_change(observed.maps, before, after, cells=kind).numpy()
                moments[f"{kind}.{before}.{after}"] = Moments.of(change[None])
        return moments

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        def rows(pairs: list[tuple[str, str]], label: Mapping[str, str]) -> pd.DataFrame:
            table = []
            for kind in self._cells():
                for before, after in pairs:
                    moments = self.moments(shards, f"{kind}.{before}.{after}")
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
        for kind in self._cells():
            suffix = f"_{kind}" if self.facts.causal else ""
            note = ", all cells" if self.facts.causal and kind == "all" else ""
            changes = tables["changes"].query("cells == @kind")
            figures[f"changes{suffix}"] = draw.layer_panels(
                {
                    f"{component}, up to {after}": draw.Spread.of(rows, "change")
                    for (after, component), rows in changes.groupby(["after", "component"], sort=False)
                },
                ylabel=f"change 1 − ρ{note}",
            )
            base = self.bases()[0]
            cumulative = tables["cumulative"].query("cells == @kind and before == @base")
            figures[f"cumulative{suffix}"] = draw.layer_panels(
                {
                    f"{component}, up to {after}": draw.Spread.of(rows, "change")
                    for (component, after), rows in cumulative.groupby(["component", "after"], sort=False)
                },
                ylabel=f"1 − ρ to {base}{note}",
            )
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        changes = self._ranked(tables["changes"])
        sentences = []
        names = ("The feed-forward", "The norm behind it")
        for name, step in zip(names, self._told(), strict=False):
            by_layer = changes[changes["after"] == step.scope].set_index("layer")["change"].dropna().sort_values()
            if len(by_layer):
                most = by_layer.iloc[-1]
                then = f", next in layer {by_layer.index[-2]} ({by_layer.iloc[-2]:.3f})" if len(by_layer) > 1 else ""
                sentences.append(
                    f"{name} changes the mixing most in layer {by_layer.index[-1]}: {most:.3f}{then}; "
                    f"in the median layer {by_layer.median():.3f}."
                )
        return (*sentences, *self._left(self._ranked(tables["cumulative"])))

    def _left(self, cumulative: pd.DataFrame) -> Iterator[str]:
        """How much of the feed-forward's change is left behind it: the cancel-out of the paper's section 5.1."""
        base = self.bases()[0]
        of_base = cumulative[cumulative["before"] == base]
        by_scope = of_base.pivot(index="layer", columns="after", values="change")
        first, *behind = dict.fromkeys(of_base["after"])
        left = by_scope[behind].div(by_scope[first], axis=0).replace([np.inf], np.nan).median().dropna()
        component = dict(zip(of_base["after"], of_base["component"], strict=True))
        if len(left):
            told = ", ".join(f"{share:.0%} after {component[after]}" for after, share in left.items())
            yield f"Seen from {base}, of the change by the feed-forward is left in the median layer: {told}."

    def overview(self, tables: Tables) -> Tables:
        changes = self._ranked(tables["changes"])
        label = changes["component"] + " " + changes["after"]
        wide = changes.assign(label=label).pivot(index="layer", columns="label", values="change")
        return {"change by component, 1 − ρ": wide[list(dict.fromkeys(label))].reset_index()}

    def _cells(self) -> tuple[Cells, ...]:
        """Which cells are ranked, the usual ones first."""
        return ("reachable", "all") if self.facts.causal else ("all",)

    def _ranked(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows of the usual cells."""
        return table[table["cells"] == self._cells()[0]]

    def _told(self) -> list[Step]:
        """The feed-forward, and the norm behind it where there is one."""
        steps = self.facts.steps
        behind = steps[steps.index(self.facts.feed_forward) :]
        return [behind[0], *[step for step in behind[1:] if step.component == "LN"][:1]]

    def _single(self) -> list[tuple[str, str]]:
        return [(str(step.before), step.scope) for step in self.facts.steps]

    def _cumulative(self) -> list[tuple[str, str]]:
        steps = self.facts.steps
        start = steps.index(self.facts.feed_forward)
        return [(base, step.scope) for base in self.bases() for step in steps[start:]]

    def _pairs(self) -> list[tuple[str, str]]:
        return list(dict.fromkeys([*self._single(), *self._cumulative()]))
