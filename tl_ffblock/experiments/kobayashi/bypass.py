"""How large the feed-forward's output is beside the bypass it is added to (Fig. 7, 24-27).

Norms of the model's own vectors at every token: `ff` the feed-forward's output, `branch` the same as it
enters the residual (after its own norm, in models that have one), `bypass` the residual's other summand.
`ratio` is the mean norm of the bypass over that of the branch; `more_than_twice` the share of tokens at
which the bypass is more than twice as large. `tokens` says whether special tokens count: the first token
of causal models and [CLS], [SEP] of others can have norms hundreds of times those of the rest.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from jaxtyping import Float

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsStudy, Tables
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import PROGRAMS, Add, Feed
from tl_ffblock.results import figures as draw

TOKENS = ("all", "not special")


class Bypass(MomentsStudy):
    """Norms of the feed-forward's output and of its bypass."""

    name = "bypass"
    title = "The feed-forward's output beside its bypass"

    def measure(self, observed: Observation) -> dict[str, Moments]:
        ff, branch, bypass = self._scopes()
        text = ~observed.tokenised.special
        text[0] &= not self.facts.causal  # whatever it is, all of a causal model's tokens attend to it
        moments: dict[str, Moments] = {}
        for name, keep in (("all", slice(None)), ("not special", text)):
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
        for tokens, table in tables["norms"].groupby("tokens", sort=False):
            lines = {"FF output": table["branch"].to_numpy(), "bypass": table["bypass"].to_numpy()}
            suffix = "" if tokens == "all" else "_not_special"
            note = "" if tokens == "all" else ", text tokens"
            figures[f"norms{suffix}"] = draw.layer_lines(lines, ylabel=f"mean norm{note}", log=True)
        return figures

    def _scopes(self) -> tuple[str, str, str]:
        """Name the feed-forward's scope, and the two summands of the residual it enters."""
        program = PROGRAMS[self.facts.order]
        ff = next(step.scope for step in program if isinstance(step.operation, Feed))
        behind = program[[step.scope for step in program].index(ff) + 1 :]
        add = next(step.operation for step in behind if isinstance(step.operation, Add))
        return ff, add.left, add.right


def _norms(record: LayerRecord, operand: str) -> Float[np.ndarray, " query"]:
    return record.tensor(operand).double().norm(dim=-1).cpu().numpy()
