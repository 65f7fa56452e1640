"""Norm of the feed-forward's output compared with the skip connection (bypass) that it is added to (Fig. 7, 24-27).

Norms of the model's own vectors at every token: `ff` is the feed-forward's output, `branch` its term in the residual sum (after
its own norm, in models that have one), and `bypass` the other term. `ratio` is the mean norm of the bypass divided by that of
the branch. `more_than_twice` is the fraction of tokens with a bypass more than twice as large.

`tokens` says which tokens count: all; those of text; and those whose norms can be a hundred times larger, by position. These
are the first token (in a causal model any token, since all others attend to it; else [CLS] or its equivalent), the last one if
it is special ([SEP]), and special tokens in between (masks).
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool

from tl_ffblock.corpus.study import Figures, Moments, MomentsStudy, Observation, ShardArrays, Tables
from tl_ffblock.layer.scopes import feed_step, feed_sum
from tl_ffblock.results import figures as draw

_SCATTER = draw.scatter_words("tokens")
TOKENS = ("all", "not special", "first", "special last", "special in between")


class Bypass(MomentsStudy):
    """Norms of the feed-forward's output and of the bypass."""

    name = "bypass"
    title = "The feed-forward's output and its skip connection"
    repeats = "Fig. 7, 24-27"
    captions: ClassVar[Mapping[str, str]] = {
        "norms": f"Mean norm of the feed-forward's output and of the bypass, all tokens: {_SCATTER}.",
        "norms_not_special": f"The same at tokens of text: {_SCATTER}.",
    }

    def measure(self, observed: Observation) -> dict[str, Moments]:
        into = feed_sum(self.facts.order)
        operands = {"ff": feed_step(self.facts.order).scope, "branch": into.left, "bypass": into.right}
        norms = {
            name: torch.stack([record.tensor(operand).double().norm(dim=-1) for record in observed.records], dim=1)
            for name, operand in operands.items()
        }
        factors = norms["branch"].new_tensor([record.block.factors(into) for record in observed.records]).abs()
        norms |= {"branch": norms["branch"] * factors[:, 0], "bypass": norms["bypass"] * factors[:, 1]}
        of_all = {name: values.cpu().numpy() for name, values in norms.items()}
        of_all["twice"] = of_all["bypass"] > 2 * of_all["branch"]
        return {
            f"{tokens}.{name}": Moments.of(values[keep])
            for tokens, keep in self._places(observed.tokenised.special).items()
            for name, values in of_all.items()
        }

    def tables(self, shards: Sequence[ShardArrays]) -> Tables:
        def rows(tokens: str) -> pd.DataFrame:
            ff, branch, bypass, twice = (
                self.moments(shards, f"{tokens}.{name}") for name in ("ff", "branch", "bypass", "twice")
            )
            columns = dict(
                tokens=tokens,
                layer=range(self.facts.n_layers),
                ff=ff.value,
                branch=branch.value,
                bypass=bypass.value,
                ratio=bypass.value / branch.value,
                more_than_twice=twice.value,
                branch_deviation=branch.deviation,
                bypass_deviation=bypass.deviation,
                count=ff.count,
            )
            return pd.DataFrame(columns)

        return {"norms": pd.concat(map(rows, TOKENS), ignore_index=True)}

    def figures(self, tables: Tables) -> Figures:
        figures: Figures = {}
        for tokens, name, note in (("all", "norms", ""), ("not special", "norms_not_special", ", text tokens")):
            table = tables["norms"].query(f"tokens == {tokens!r}")
            lines = {
                label: draw.Spread.of(table, column, deviation=f"{column}_deviation", count="count")
                for label, column in (("FF output", "branch"), ("bypass", "bypass"))
            }
            figures[name] = draw.layer_lines(lines, ylabel=f"mean norm{note}", log=True)
        return figures

    def sentences(self, tables: Tables) -> tuple[str, ...]:
        by_layer = tables["norms"].dropna(subset="ratio").set_index("layer")
        ratios = {tokens: of_tokens["ratio"] for tokens, of_tokens in by_layer.groupby("tokens")}
        told = {"not special": "At tokens of text", "all": "Over all tokens"}
        return tuple(
            f"{where} the bypass is more than twice as large as the feed-forward's output in {int((ratio > 2).sum())} "
            f"of {len(ratio)} layers (from {ratio.min():.2f} times in layer {ratio.idxmin()} to {ratio.max():.2f} times "
            f"in layer {ratio.idxmax()})."
            for tokens, where in told.items()
            if (ratio := ratios.get(tokens)) is not None
        )

    def overview(self, tables: Tables) -> Tables:
        norms = tables["norms"].query("count > 0")
        wide = norms.pivot(index="layer", columns="tokens", values="ratio")
        return {"norm of the bypass over FF's output": wide[[name for name in TOKENS if name in wide]].reset_index()}

    def _places(self, special: Bool[np.ndarray, " token"]) -> dict[str, Bool[np.ndarray, " token"]]:
        """Masks of the tokens, by `TOKENS`."""
        place = np.arange(len(special))
        first = (place == 0) & (special | self.facts.causal)
        last = (place == len(special) - 1) & special & ~first
        masks = (np.ones_like(special), ~special & ~first, first, last, special & ~first & ~last)
        return dict(zip(TOKENS, masks, strict=True))
