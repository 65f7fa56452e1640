"""How large the feed-forward's output is beside the bypass it is added to (Fig. 7, 24-27).

Norms of the model's own vectors at every token: `ff` the feed-forward's output, `branch` the same as it
enters the residual (after its own norm, in models that have one), `bypass` the residual's other summand.
`ratio` is the mean norm of the bypass over that of the branch; `more_than_twice` the share of tokens at
which the bypass is more than twice as large. `tokens` says whether special tokens count: the first token
of causal models and [CLS], [SEP] of others can have norms hundreds of times those of the rest.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsExperiment, Tables
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import PROGRAMS, Add, Feed
from tl_ffblock.results import figures as draw

TOKENS = ("all", "not special")


class BypassNorms(MomentsExperiment):
    """Norms of the feed-forward's output and of its bypass."""

    name = "norms"
    records = True

    def measure(self, seen: Observation) -> dict[str, Moments]:
        ff, branch, bypass = self._sites()
        text = ~seen.encoded.special
        text[0] &= not self.subject.causal  # whatever it is, all of a causal model's tokens attend to it
        found: dict[str, Moments] = {}
        for name, keep in (("all", slice(None)), ("not special", text)):
            norms = {
                site: np.stack([_norms(record, scope)[keep] for record in seen.records], axis=1)
                for site, scope in (("ff", ff), ("branch", branch), ("bypass", bypass))
            }
            found |= {f"{name}.{site}": Moments.of(values) for site, values in norms.items()}
            found[f"{name}.twice"] = Moments.of(norms["bypass"] > 2 * norms["branch"])
        return found

    def tables(self, shards: Sequence[Any]) -> Tables:
        rows = []
        for tokens in TOKENS:
            ff, branch, bypass, twice = (
                self.moments(shards, f"{tokens}.{name}") for name in ("ff", "branch", "bypass", "twice")
            )
            for layer in range(self.subject.n_layers):
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

    def _sites(self) -> tuple[str, str, str]:
        """The feed-forward's scope, and the two summands of the residual it enters."""
        program = PROGRAMS[self.subject.order]
        ff = next(step.scope for step in program if isinstance(step.operation, Feed))
        behind = program[[step.scope for step in program].index(ff) + 1 :]
        add = next(step.operation for step in behind if isinstance(step.operation, Add))
        return ff, add.left, add.right


def _norms(record: LayerRecord, operand: str) -> np.ndarray:
    return record.tensor(operand).double().norm(dim=-1).cpu().numpy()
