"""`ffb.average_shares`: which heads, neurons or biases matter on average over prompts, with 95 % intervals.

Shares, and estimates of patching, are summed over positions, so that prompts may have any lengths; every prompt counts alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.patching import PatchingEstimates
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval, refuse_mixed
from tl_ffblock.results.ranks import largest
from tl_ffblock.signatures import strict

Summed: TypeAlias = Literal["heads", "neurons", "biases", "mlps"]
"""What is averaged."""
MOST_NAMED = 8
"""Places that the short form names."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AverageShares(Result):
    """The mean over prompts of shares that are summed over positions: of heads `mean`, `interval.low`, `.high` are [layer head].

    Intervals hold for one place each: of many places one in twenty misses by chance, and the largest were picked.
    """

    values: Float[Tensor, "prompt ..."]
    """Each prompt's own, in the target's units."""
    of: Summed
    places: Mapping[str, tuple[int | str, ...]]
    """The axes after the prompts, in their order, and what each number of them is of: {"layer": (0, 1), "head": (0, 1, 2)}."""
    quantity: str
    """What was attributed, or what changes: "logit difference"."""
    rules: str
    model: str
    n_draws: int = N_DRAWS
    """Draws of the bootstrap over prompts."""
    seed: int = 0

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean, low, high and counts of every place."""
        return mean_interval(self.values, n_draws=self.n_draws, seed=self.seed)

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """The mean over prompts."""
        return self.values.mean(dim=0)

    def to_dataframe(self, k: int | None = None, *, by_prompt: bool = False) -> pd.DataFrame:
        """One row per place, the largest mean by size first: the place, value (the mean), low, high, n.

        Args:
            k: How many places; None means all. Intervals of all neurons take seconds, of a few none.
            by_prompt: Whether each prompt has a row of its own: `prompt` in place of low, high and n.
        """
        order = largest(self.mean, k)
        frame, values = long_form(self.mean, self.places, order=order), self.values.flatten(1)[:, order]
        if by_prompt:
            each = pd.DataFrame({"prompt": range(len(values))}).merge(frame, how="cross")
            return each.assign(value=values.reshape(-1).numpy())
        # Every place has the same draws, so that an interval is that of `interval`.
        numbers = mean_interval(values, n_draws=self.n_draws, seed=self.seed)
        columns = {"value": numbers.mean, "low": numbers.low, "high": numbers.high, "n": numbers.counts}
        return frame.assign(**{name: of_places.numpy() for name, of_places in columns.items()})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        several = len(self.values) > 1
        prompts = f"mean of {len(self.values)} prompts, 95 % intervals" if several else "one prompt, so no intervals"
        lines = {}
        for row in self.to_dataframe(MOST_NAMED).to_dict("records"):
            labels = (row[axis] if isinstance(row[axis], str) else f"{axis} {row[axis]}" for axis in self.places)
            name = f"L{row['layer']}H{row['head']}" if "head" in row else ", ".join(labels)
            ends = f"  [{significant(row['low'])}, {significant(row['high'])}]" if several else ""
            lines[name] = significant(row["value"]) + ends
        how = f"rules={self.rules!r} · {self.of}, summed over positions · {prompts}"
        return f"{self.quantity} of {self.model}, {how}", lines


@strict
def average_shares(
    attributions: Sequence[Attribution] | Sequence[PatchingEstimates],
    of: Summed = "heads",
    *,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> AverageShares:
    """Which heads, neurons or biases matter on average: shares summed over positions, their mean over prompts, 95 % intervals.

    Or, of `attribution_patching`, estimated changes over pairs of prompts.

    The interval (percentile bootstrap over prompts) says how much the mean would move with other prompts of the same kind.
    Prompts may have any lengths.

    Args:
        attributions: One per prompt, as `attribute` or `direct_logit_attribution` gives them for a list of texts, or one per
            pair as `attribution_patching` does.
        of: "heads" [layer head], "neurons" [layer neuron], without layers that are a mixture of experts, "mlps" [layer], of
            attributions also "biases" [bias].
        n_draws: Draws of the bootstrap.
        seed: Same seed, same intervals.

    Raises:
        InputError: if there is no result, or they differ in what was attributed, rules, model or its components.
        ScopeKeyError: if heads or neurons were not asked for.
    """
    several: list[Attribution | PatchingEstimates] = [*attributions] if isinstance(attributions, Sequence) else []
    kinds = {type(result) for result in several}
    if len(kinds) != 1 or not issubclass(kinds.pop(), Attribution | PatchingEstimates):
        raise InputError(
            "average_shares: expected one attribution or more, as ffb.attribute gives them for a list of texts, or what "
            "ffb.attribution_patching gives for lists of pairs."
        )
    whole_number(n_draws, "n_draws", at_least=1)
    whole_number(seed, "seed", at_least=0)
    refuse_mixed(several, "average")
    summed = [_summed(result, of) for result in several]
    described = [(places, shares.shape) for places, shares in summed]
    for prompt, mine in enumerate(described):
        if mine != described[0]:
            raise InputError(
                f"average_shares: results 0 and {prompt} differ in {of}: {brief(described[0])} against {brief(mine)}."
            )
    first, values = several[0], torch.stack([shares.detach().cpu().double() for _, shares in summed])
    return AverageShares(values, of, summed[0][0], first.quantity, first.rules, first.model, n_draws, seed)


def _summed(
    result: Attribution | PatchingEstimates, of: Summed
) -> tuple[dict[str, tuple[int | str, ...]], Float[Tensor, "..."]]:
    """The axes of one result's shares, and these summed over positions."""
    if of == "biases" and isinstance(result, Attribution):
        return {"bias": result.bias_names}, result.bias_shares.sum(dim=-1)
    if of == "mlps":
        return {"layer": tuple(range(len(result.mlps)))}, result.mlps.sum(dim=-1)
    if of == "biases":
        raise InputError("of='biases': attributions have biases, estimates of patching have not.")
    if of == "heads":
        n_layers, n_heads = result.heads.shape[:2]
        return {"layer": tuple(range(n_layers)), "head": tuple(range(n_heads))}, result.heads.sum(dim=-1)
    layers = result.neuron_layers or (0,)  # which says why there are none
    shares = torch.stack([result.neurons(layer).sum(dim=0) for layer in layers])
    return {"layer": layers, "neuron": tuple(range(shares.shape[1]))}, shares
