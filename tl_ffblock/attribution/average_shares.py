"""`ffb.average_shares`: which heads, neurons or biases matter on average over prompts, with 95 % intervals.

Shares, and estimates of patching, are summed over positions, so that prompts may have any lengths; every prompt counts alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.patching_estimates import PatchingEstimates
from tl_ffblock.attribution.tables import largest, table_of
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval, refuse_mixed
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas

Summed: TypeAlias = Literal["heads", "neurons", "biases", "mlps"]
"""What is averaged."""
MOST_NAMED = 8
"""Places that the short form names."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AverageShares:
    """The mean over prompts of shares that are summed over positions: of heads `mean`, `interval.low`, `.high` are [layer head].

    Intervals hold for one place each: of many places one in twenty misses by chance, and the largest were picked.
    """

    values: Float[Tensor, "prompt ..."]
    """Each prompt's own, in the target's units."""
    of: Summed
    places: Mapping[str, tuple[int | str, ...]]
    """The axes behind the prompts, in their order, and what each number of them stands for: {"layer": (0, 1), "head": (0, 1, 2)}."""
    quantity: str
    """What was shared out, or what changes: "logit difference"."""
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

    def to_dataframe(self, k: int | None = None, *, by_prompt: bool = False) -> "pandas.DataFrame":
        """One row a place, the largest mean by size first: the place, value (the mean), low, high, n.

        Args:
            k: How many places; None means all. Intervals of all neurons take seconds, of a few none.
            by_prompt: Whether each prompt has a row of its own: `prompt` in place of low, high and n.
        """
        import pandas as pd

        order = largest(self.mean, k)
        frame = table_of(self.places, order)
        if not by_prompt:
            numbers = self._interval_at(order)
            columns = {"value": numbers.mean, "low": numbers.low, "high": numbers.high, "n": numbers.counts}
            return frame.assign(**{name: of_places.numpy() for name, of_places in columns.items()})
        each = pd.DataFrame({"prompt": range(len(self.values))}).merge(frame, how="cross")
        return each.assign(value=self.values.flatten(1)[:, order].reshape(-1).numpy())

    def _interval_at(self, order: Tensor) -> MeanInterval:
        """That of some places, the same as `interval` has for them: every place has the same draws."""
        return mean_interval(self.values.flatten(1)[:, order], n_draws=self.n_draws, seed=self.seed)

    def __repr__(self) -> str:
        order = largest(self.mean, MOST_NAMED)
        numbers = self._interval_at(order)
        several = len(self.values) > 1
        prompts = f"mean of {len(self.values)} prompts, 95 % intervals" if several else "one prompt, so no intervals"
        lines = [
            f"AverageShares: {self.quantity} of {self.model}, rules={self.rules!r} · {self.of}, summed over positions · {prompts}"
        ]
        for at, place in enumerate(order.tolist()):
            mean, low, high = (float(ends[at]) for ends in (numbers.mean, numbers.low, numbers.high))
            lines.append(
                f"  {self._name(place)}  {significant(mean)}"
                + (f"  [{significant(low)}, {significant(high)}]" if several else "")
            )
        return "\n".join(lines)

    def _name(self, place: int) -> str:
        """A place in words: "layer 23, head 3"."""
        labels = table_of(self.places, torch.tensor([place])).iloc[0].to_dict()
        return ", ".join(label if isinstance(label, str) else f"{axis} {label}" for axis, label in labels.items())


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
        attributions: One a prompt, as `attribute` gives them for a list of texts, or one a pair as `attribution_patching` does.
        of: "heads" [layer head], "neurons" [layer neuron], without layers that are a mixture of experts, of attributions
            "biases" [bias], of estimates of patching "mlps" [layer].
        n_draws: Draws of the bootstrap.
        seed: Same seed, same intervals.

    Raises:
        InputError: if there is no result, or they differ in what was shared out, rules, model or what it consists of.
        ScopeKeyError: if heads or neurons were not asked for.
    """
    several: list[Attribution | PatchingEstimates] = [*attributions] if isinstance(attributions, Sequence) else []
    kinds = {type(result) for result in several}
    if kinds not in ({Attribution}, {PatchingEstimates}):
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
    first = several[0]
    return AverageShares(
        values=torch.stack([shares.detach().cpu().double() for _, shares in summed]),
        of=of,
        places=summed[0][0],
        quantity=first.quantity,
        rules=first.rules,
        model=first.model,
        n_draws=n_draws,
        seed=seed,
    )


def _summed(
    result: Attribution | PatchingEstimates, of: Summed
) -> tuple[dict[str, tuple[int | str, ...]], Float[Tensor, "..."]]:
    """The axes of one result's shares, and these summed over positions."""
    if of == "biases" and isinstance(result, Attribution):
        return {"bias": result.bias_names}, result.bias_shares.sum(dim=-1)
    if of == "mlps" and isinstance(result, PatchingEstimates):
        return {"layer": tuple(range(len(result.mlps)))}, result.mlps.sum(dim=-1)
    if of in ("biases", "mlps"):
        raise InputError(
            f"of={of!r}: {'attributions have biases' if of == 'biases' else 'estimates of patching have mlps'}, these results have not."
        )
    if of == "heads":
        n_layers, n_heads = result.heads.shape[:2]
        return {"layer": tuple(range(n_layers)), "head": tuple(range(n_heads))}, result.heads.sum(dim=-1)
    if isinstance(result, Attribution):
        layers = tuple(layer for layer in range(result.n_layers) if f"neurons.{layer}" in result.parts)
    else:
        layers = tuple(sorted(result.neuron_shares))
    layers = layers or (0,)  # which says why there are none
    shares = torch.stack([result.neurons(layer).sum(dim=0) for layer in layers])
    return {"layer": layers, "neuron": tuple(range(shares.shape[1]))}, shares
