"""Contextualization change of each component: 1 - Spearman's rho of the maps before and after it (section 5.1).

- `changes`: each component alone, from the scope before it to the scope after it (Fig. 3, 14-18).
- `cumulative`: from before the feed-forward to after it, after its residual, and after the next norm (Fig. 6, 19-23), which
  shows how much of FF's change remains. In models with a norm before FF also from before that norm.

Each sequence counts once. `cells` says which cells are ranked: in causal maps the reachable ones and, in separate rows, all
cells including structural zeros; in other maps all.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd

from tl_ffblock.corpus.study import Figures, Moments, MomentsStudy, Observation, ShardArrays, Tables
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.results import figures as draw
from tl_ffblock.results.measures import Cells, contextualization_change

_CHANGES = f"Change of the map by each component alone: {draw.SCATTER_OF_MEAN}"
_CUMULATIVE = f"The remainder of the feed-forward's change after the residual and the next norm: {draw.SCATTER_OF_MEAN}"
_REACHABLE = "over reachable cells"
_ALL = "over all cells, structural zeros included"


class Contextualization(MomentsStudy):
    """Contextualization change by component and layer."""

    name = "contextualization"
    title = "Contextualization change by component"
    repeats = "Fig. 3, 6, 14-23"
    captions: ClassVar[Mapping[str, str]] = {
        "changes": f"{_CHANGES}.",
        "cumulative": f"{_CUMULATIVE}.",
        "changes_reachable": f"{_CHANGES}, {_REACHABLE}.",
        "cumulative_reachable": f"{_CUMULATIVE}, {_REACHABLE}.",
        "changes_all": f"{_CHANGES}, {_ALL}.",
        "cumulative_all": f"{_CUMULATIVE}, {_ALL}.",
    }

    def scopes(self) -> tuple[str, ...]:
        wanted = {scope for pairs in self._pairs().values() for pair in pairs for scope in pair}
        return tuple(step.scope for step in STEPS[self.facts.order] if step.scope in wanted)

    def bases(self) -> tuple[str, ...]:
        """Scopes from which cumulative changes start: before FF, and before the norm that precedes it."""
        before = str(self.facts.feed_forward.before)
        norms = [step for step in self.facts.steps if step.scope == before and step.component == "LN"]
        return (before, *(str(norm.before) for norm in norms if self.facts.order != "post_ln"))

    def measure(self, observed: Observation) -> dict[str, Moments]:
        return {
            f"{kind}.{before}.{after}": Moments.of(
                contextualization_change(observed.maps, before, after, cells=kind).numpy()[None]
            )
            for kind in self.facts.cells
            for before, after in dict.fromkeys(pair for pairs in self._pairs().values() for pair in pairs)
        }

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        component = {step.scope: step.component for step in self.facts.steps}

        def rows(kind: Cells, before: str, after: str, sign: str) -> pd.DataFrame:
            moments = self.moments(shards, f"{kind}.{before}.{after}")
            columns = dict(
                cells=kind,
                layer=range(self.facts.n_layers),
                component=sign + component[after],
                before=before,
                after=after,
                change=moments.value,
                deviation=moments.deviation,
                sequences=moments.count,
            )
            return pd.DataFrame(columns)

        signs = {"changes": "", "cumulative": "+"}
        return {
            name: pd.concat(
                [rows(kind, *pair, signs[name]) for kind in self.facts.cells for pair in pairs], ignore_index=True
            )
            for name, pairs in self._pairs().items()
        }

    def figures(self, tables: Tables) -> Figures:
        figures: Figures = {}
        base = self.bases()[0]
        cumulative = tables["cumulative"].query("before == @base")
        for kind in self.facts.cells:
            suffix = f"_{kind}" if self.facts.causal else ""
            note = ", all cells" if self.facts.causal and kind == "all" else ""
            for name, table, ylabel in (
                ("changes", tables["changes"], "change 1 − ρ"),
                ("cumulative", cumulative, f"1 − ρ to {base}"),
            ):
                panels = {
                    f"{component}, up to {after}": draw.Spread.of(rows, "change")
                    for (after, component), rows in table.query("cells == @kind").groupby(
                        ["after", "component"], sort=False
                    )
                }
                figures[f"{name}{suffix}"] = draw.layer_panels(panels, ylabel=f"{ylabel}{note}")
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        changes = self._ranked(tables["changes"])
        steps = self.facts.steps
        feed_forward, *after = steps[steps.index(self.facts.feed_forward) :]
        norms = [step for step in after if step.component == "LN"]
        sentences = []
        for name, step in zip(("The feed-forward", "The norm after it"), (feed_forward, *norms), strict=False):
            by_layer = changes[changes["after"] == step.scope].set_index("layer")["change"].dropna().sort_values()
            if len(by_layer):
                most = by_layer.iloc[-1]
                then = f", next in layer {by_layer.index[-2]} ({by_layer.iloc[-2]:.3f})" if len(by_layer) > 1 else ""
                sentences.append(
                    f"{name} changes contextualization most in layer {by_layer.index[-1]}: {most:.3f}{then}; "
                    f"in the median layer {by_layer.median():.3f}."
                )
        return (*sentences, *self._left(self._ranked(tables["cumulative"])))

    def _left(self, cumulative: pd.DataFrame) -> Iterator[str]:
        """Fraction of the feed-forward's change that remains after it: the cancellation of the paper's section 5.1."""
        base = self.bases()[0]
        of_base = cumulative[cumulative["before"] == base]
        by_scope = of_base.pivot(index="layer", columns="after", values="change")
        first, *later = dict.fromkeys(of_base["after"])
        left = by_scope[later].div(by_scope[first], axis=0).replace([np.inf], np.nan).median().dropna()
        component = dict(zip(of_base["after"], of_base["component"], strict=True))
        if len(left):
            told = ", ".join(f"{share:.0%} after {component[after]}" for after, share in left.items())
            yield f"Seen from {base}, of the change by the feed-forward is left in the median layer: {told}."

    def overview(self, tables: Tables) -> Tables:
        changes = self._ranked(tables["changes"])
        label = changes["component"] + " " + changes["after"]
        wide = changes.assign(label=label).pivot(index="layer", columns="label", values="change")
        return {"change by component, 1 − ρ": wide[list(dict.fromkeys(label))].reset_index()}

    def _ranked(self, table: pd.DataFrame) -> pd.DataFrame:
        return table[table["cells"] == self.facts.cells[0]]

    def _pairs(self) -> dict[str, list[tuple[str, str]]]:
        steps = self.facts.steps
        later = steps[steps.index(self.facts.feed_forward) :]
        return {
            "changes": [(str(step.before), step.scope) for step in steps],
            "cumulative": [(base, step.scope) for base in self.bases() for step in later],
        }
