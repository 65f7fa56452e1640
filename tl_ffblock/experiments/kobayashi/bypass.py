"""How large the feed-forward's output is beside the bypass it is added to (Fig. 7, 24-27).

Norms of the model's own vectors at every token: `ff` the feed-forward's output, `branch` the same as it
enters the residual (after its own norm, in models that have one), `bypass` the residual's other summand.
`ratio` is the mean norm of the bypass over that of the branch; `more_than_twice` the share of tokens at
which the bypass is more than twice as large. `tokens` says of which tokens: all; those of text; and those that can
have norms a hundred times larger, by place: the first (of a causal model whatever it is, all others attend to it; else
[CLS] or its like), the last where it is special ([SEP]), and special ones in between (masks).
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsStudy, Tables
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import PROGRAMS, Add, Feed
from tl_ffblock.results import figures as draw

TOKENS = ("all", "not special", "first", "special last", "special in between")


class Bypass(MomentsStudy):
    """Norms of the feed-forward's output and of its bypass."""

    name = "bypass"
    title = "The feed-forward's output beside its bypass"

    def measure(self, observed: Observation) -> dict[str, Moments]:
        ff, branch, bypass = self._scopes()
        moments: dict[str, Moments] = {}
        for name, keep in self._places(observed.tokenised.special).items():
            norms = {
                vector: np.stack([_norms(record, scope)[keep] for record in observed.records], axis=1)
                for vector, scope in (("ff", ff), ("branch", branch), ("bypass", bypass))
            }
            moments |= {f"{name}.{vector}": Moments.of(values) for vector, values in norms.items()}
            moments[f"{name}.twice"] = Moments.of(norms["bypass"] > 2 * norms["branch"])
        return moments

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        rows = []
        for tokens in TOKENS:
            ff, branch, bypass, twice = (
                self.moments(shards, f"{tokens}.{name}") for name in ("ff", "branch", "bypass", "twice")
            )
            for layer in range(self.facts.n_layers):
                rows.append(
                    dict(
                        tokens=tokens,
                        layer=layer,
                        ff=ff.value[layer],
                        branch=branch.value[layer],
                        bypass=bypass.value[layer],
                        ratio=bypass.value[layer] / branch.value[layer],
                        more_than_twice=twice.value[layer],
                        count=int(ff.count[layer]),
                    )
                )
        return {"norms": pd.DataFrame(rows)}

    def figures(self, tables: Tables) -> Figures:
        figures: Figures = {}
        for tokens in TOKENS[:2]:
            table = tables["norms"].query("tokens == @tokens")
            lines = {"FF output": table["branch"].to_numpy(), "bypass": table["bypass"].to_numpy()}
            suffix = "" if tokens == "all" else "_not_special"
            note = "" if tokens == "all" else ", text tokens"
            figures[f"norms{suffix}"] = draw.layer_lines(lines, ylabel=f"mean norm{note}", log=True)
        return figures

    def _places(self, special: Bool[np.ndarray, " token"]) -> dict[str, Bool[np.ndarray, " token"]]:
        """Which tokens count, by `TOKENS`."""
        place = np.arange(len(special))
        first = (place == 0) & (special | self.facts.causal)
        last = (place == len(special) - 1) & special & ~first
        masks = (np.ones_like(special), ~special & ~first, first, last, special & ~first & ~last)
        return dict(zip(TOKENS, masks, strict=True))

    def _scopes(self) -> tuple[str, str, str]:
        """Name the feed-forward's scope, and the two summands of the residual it enters."""
        program = PROGRAMS[self.facts.order]
        ff = next(step.scope for step in program if isinstance(step.operation, Feed))
        behind = program[[step.scope for step in program].index(ff) + 1 :]
        add = next(step.operation for step in behind if isinstance(step.operation, Add))
        return ff, add.left, add.right


def _norms(record: LayerRecord, operand: str) -> Float[np.ndarray, " query"]:
    return record.tensor(operand).double().norm(dim=-1).cpu().numpy()
