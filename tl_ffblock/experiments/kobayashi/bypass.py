"""How large the feed-forward's output is beside the bypass it is added to (Fig. 7, 24-27).

Norms of the model's own vectors at every token: `ff` the feed-forward's output, `branch` the same as it
enters the residual (after its own norm, in models that have one), `bypass` the residual's other summand.
`ratio` is the mean norm of the bypass over that of the branch; `more_than_twice` the share of tokens at
which the bypass is more than twice as large. `tokens` says of which tokens: all; those of text; and those that can
have norms a hundred times larger, by place: the first (of a causal model whatever it is, all others attend to it; else
[CLS] or its like), the last where it is special ([SEP]), and special ones in between (masks).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd
from jaxtyping import Bool, Float

from tl_ffblock.corpus.observation import Observation
from tl_ffblock.corpus.statistics.arrays import ShardArrays
from tl_ffblock.corpus.statistics.moments import Moments
from tl_ffblock.corpus.study import Figures, MomentsStudy, Tables
from tl_ffblock.layer.records import LayerRecord
from tl_ffblock.layer.scopes import feed_step, feed_sum
from tl_ffblock.results import figures as draw

_SCATTER = draw.scatter_words("tokens")
TOKENS = ("all", "not special", "first", "special last", "special in between")


class Bypass(MomentsStudy):
    """Norms of the feed-forward's output and of its bypass."""

    name = "bypass"
    title = "The feed-forward's output beside its bypass"
    captions: ClassVar[Mapping[str, str]] = {
        "norms": f"Mean norm of the feed-forward's output and of the bypass, all tokens: {_SCATTER}.",
        "norms_not_special": f"The same at tokens of text: {_SCATTER}.",
    }

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
                        branch_deviation=branch.deviation[layer],
                        bypass_deviation=bypass.deviation[layer],
                        count=int(ff.count[layer]),
                    )
                )
        return {"norms": pd.DataFrame(rows)}

    def figures(self, tables: Tables) -> Figures:
        figures: Figures = {}
        for tokens in TOKENS[:2]:
            table = tables["norms"][tables["norms"]["tokens"] == tokens]
            lines = {
                label: draw.Spread.of(table, name, deviation=f"{name}_deviation", count="count")
                for label, name in (("FF output", "branch"), ("bypass", "bypass"))
            }
            suffix = "" if tokens == "all" else "_not_special"
            note = "" if tokens == "all" else ", text tokens"
            figures[f"norms{suffix}"] = draw.layer_lines(lines, ylabel=f"mean norm{note}", log=True)
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        sentences = []
        for tokens, where in (("not special", "At tokens of text"), ("all", "Over all tokens")):
            norms = tables["norms"]
            ratio = norms[norms["tokens"] == tokens].set_index("layer")["ratio"].dropna()
            if len(ratio):
                sentences.append(
                    f"{where} the bypass is more than twice as large as the feed-forward's output in {int((ratio > 2).sum())} "
                    f"of {len(ratio)} layers (from {ratio.min():.2f} times in layer {ratio.idxmin()} to {ratio.max():.2f} times "
                    f"in layer {ratio.idxmax()})."
                )
        return tuple(sentences)

    def overview(self, tables: Tables) -> Tables:
        norms = tables["norms"].query("count > 0")
        wide = norms.pivot(index="layer", columns="tokens", values="ratio")
        return {"norm of the bypass over FF's output": wide[[name for name in TOKENS if name in wide]].reset_index()}

    def _places(self, special: Bool[np.ndarray, " token"]) -> dict[str, Bool[np.ndarray, " token"]]:
        """Which tokens count, by `TOKENS`."""
        place = np.arange(len(special))
        first = (place == 0) & (special | self.facts.causal)
        last = (place == len(special) - 1) & special & ~first
        masks = (np.ones_like(special), ~special & ~first, first, last, special & ~first & ~last)
        return dict(zip(TOKENS, masks, strict=True))

    def _scopes(self) -> tuple[str, str, str]:
        """Name the feed-forward's scope, and the two summands of the residual it enters."""
        into = feed_sum(self.facts.order)
        return feed_step(self.facts.order).scope, into.left, into.right


def _norms(record: LayerRecord, operand: str) -> Float[np.ndarray, " query"]:
    return record.tensor(operand).double().norm(dim=-1).cpu().numpy()
