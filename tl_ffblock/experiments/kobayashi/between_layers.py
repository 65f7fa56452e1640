"""Change of maps from layer to layer: 1 - Spearman's rho of the maps of two layers at one scope (section 7, future work).

- `pairs`: for every two layers the change between their maps, after the attention block and at the layer's output; `steps` is
  the difference of their numbers, 1 for neighbours.

Each sequence counts once. Cells are the reachable ones. A change between layers differs from one within a layer: the two maps
have different inputs, and each starts from its own layer's input.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd

from tl_ffblock.corpus.study import Figures, Moments, MomentsStudy, Observation, ShardArrays, Tables
from tl_ffblock.layer.scopes import output_step
from tl_ffblock.results import figures as draw
from tl_ffblock.results.ranks import unit_ranks


class BetweenLayers(MomentsStudy):
    """Changes of maps between layers."""

    name = "between-layers"
    title = "Contextualization change from layer to layer"
    repeats = "section 7, future work"
    captions: ClassVar[Mapping[str, str]] = {
        "neighbours": f"Change of the map from a layer to the next, at two scopes: {draw.SCATTER_OF_MEAN}."
    }

    def scopes(self) -> tuple[str, ...]:
        """After the attention block, and at the layer's output."""
        return tuple(dict.fromkeys(("Atb", output_step(self.facts.order).scope)))

    def measure(self, observed: Observation) -> dict[str, Moments]:
        cells = observed.maps.reachable()
        ranks = {scope: unit_ranks(observed.maps[scope][:, cells].double().cpu().numpy()) for scope in self.scopes()}
        return {scope: Moments.of((1 - of_layers @ of_layers.T)[None]) for scope, of_layers in ranks.items()}

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        layer, other = np.triu_indices(self.facts.n_layers, 1)

        def rows(scope: str) -> pd.DataFrame:
            moments = self.moments(shards, scope)
            read = {"change": moments.value, "deviation": moments.deviation, "sequences": moments.count}
            columns = {name: values[layer, other] for name, values in read.items()}
            return pd.DataFrame(dict(scope=scope, layer=layer, other=other, steps=other - layer, **columns))

        return {"pairs": pd.concat(map(rows, self.scopes()), ignore_index=True)}

    def figures(self, tables: Tables) -> Figures:
        neighbours = tables["pairs"].query("steps == 1")
        if neighbours.empty:
            return {}
        lines = {
            f"at {scope}": draw.Spread.of(rows, "change") for scope, rows in neighbours.groupby("scope", sort=False)
        }
        return {"neighbours": draw.layer_lines(lines, ylabel="change 1 − ρ to the next layer")}

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        pairs = tables["pairs"].dropna(subset="change")
        told = []
        for scope, rows in pairs.groupby("scope", sort=False):
            near, far = rows.query("steps == 1"), rows.loc[rows["steps"].idxmax()]
            most = near.loc[near["change"].idxmax()]
            told.append(
                f"At {scope} the map changes by {near['change'].median():.3f} from a layer to the next (median), most from layer "
                f"{most['layer']} to {most['other']} ({most['change']:.3f}); between the first and the last by {far['change']:.3f}."
            )
        return tuple(told)

    def overview(self, tables: Tables) -> Tables:
        near = tables["pairs"].query("steps == 1")
        wide = near.pivot(index="layer", columns="scope", values="change")
        return {"change to the next layer, 1 − ρ": wide[list(dict.fromkeys(near["scope"]))].reset_index()}
