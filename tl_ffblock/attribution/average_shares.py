"""`ffb.average_shares` and `Results.mean`: mean attributions of components over prompts, with 95 % intervals.

Numbers by position are summed over positions, or read at named positions, so that prompts may have any lengths. All prompts have
the same weight. A result needs a method `by_component`, which returns axes and numbers of one kind:

    def by_component(self, of, at):
        return {"layer": range(n_layers), "head": range(n_heads)}, at_positions(self.heads, at)
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias, TypeVar, cast

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import NamedPositions, aligned, whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.result import ByKind, Result, long_form
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval, refuse_mixed
from tl_ffblock.results.ranks import largest
from tl_ffblock.results.tokens import joined
from tl_ffblock.signatures import PLURAL, strict

Summed: TypeAlias = Literal[
    "heads", "neurons", "biases", "mlps", "edges", "residual", "residual_mid", "attention", "q", "k", "v", "pattern"
]
"""Kinds of components that are averaged."""
Places: TypeAlias = Mapping[str, Sequence[int | str]]
"""By axis: the label of each index, such as layer numbers."""
One = TypeVar("One", bound=Result)
BETWEEN = " -> "
"""Separator of an edge's sender and receiver."""
MOST_NAMED = 8
"""Number of components in the printed summary."""


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AverageShares(Result):
    """Mean attributions over prompts with 95 % intervals: for heads [layer head], or [layer head position] at named positions.

    Each interval is for one component. Of many intervals, one in twenty excludes the true mean by chance.
    """

    values: Float[Tensor, "prompt ..."]
    """Values of each prompt, in the target's units."""
    of: Summed
    places: Mapping[str, tuple[int | str, ...]]
    """Axes of `values` after the prompts, with the label of each index: {"layer": (0, 1), "head": (0, 1, 2)}."""
    quantity: str
    """Kind of the target: "logit difference"."""
    rules: str
    model: str
    n_draws: int = N_DRAWS
    """Number of bootstrap samples over prompts."""
    seed: int = 0
    tokens: Mapping[str, str] = field(default_factory=dict)
    """Tokens at each named position, joined where prompts differ; empty for sums over positions."""
    targets: tuple[float, ...] = ()
    """Value of each prompt's target; empty for estimates of patching."""

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean, low, high and counts of every component."""
        return mean_interval(self.values, n_draws=self.n_draws, seed=self.seed)

    @property
    def mean(self) -> Float[Tensor, "..."]:
        """Mean over prompts, with the axes of `places`."""
        return self.values.mean(dim=0)

    def to_dataframe(self, k: int | None = None, *, by_prompt: bool = False) -> pd.DataFrame:
        """One row per component, the largest absolute mean first: its axes, value (the mean), low, high, n.

        Args:
            k: Number of components; None means all. Intervals of all neurons take seconds.
            by_prompt: Whether each prompt has its own row, with the column `prompt` instead of low, high and n.
        """
        order = largest(self.mean, k)
        frame, values = long_form(self.mean, self.places, order=order), self.values.flatten(1)[:, order]
        if "edge" in frame:
            ends = frame.pop("edge").str.split(BETWEEN, expand=True, regex=False)
            frame.insert(0, "source", ends[0])
            frame.insert(1, "target", ends[1])
        if self.tokens:
            frame.insert(frame.columns.get_loc("position") + 1, "token", frame["position"].map(self.tokens))
        if by_prompt:
            each = pd.DataFrame({"prompt": range(len(values))}).merge(frame, how="cross")
            return each.assign(value=values.reshape(-1).numpy())
        # All components have the same bootstrap samples, so that intervals equal those of `interval`.
        numbers = mean_interval(values, n_draws=self.n_draws, seed=self.seed)
        columns = {"value": numbers.mean, "low": numbers.low, "high": numbers.high, "n": numbers.counts}
        return frame.assign(**{name: of_places.numpy() for name, of_places in columns.items()})

    def summary(self) -> tuple[str, Mapping[str, object]]:
        several = len(self.values) > 1
        prompts = f"mean of {len(self.values)} prompts, 95 % intervals" if several else "one prompt, so no intervals"
        how = f"rules={self.rules!r} · {self.of}, {self.read_at()} · {prompts}"
        return f"{self.quantity} of {self.model}, {how}", self.most(MOST_NAMED)

    def read_at(self) -> str:
        """How positions are read, in words: summed over, or named positions with their tokens."""
        named = ", ".join(f"{name} {tokens!r}" for name, tokens in self.tokens.items())
        return f"at {named}" if named else "summed over positions"

    def most(self, k: int) -> dict[str, str]:
        """The `k` components with the largest absolute means: means and intervals as text, by name."""
        lines = {}
        for row in self.to_dataframe(k).to_dict("records"):
            name = self._name(row)
            ends = f"  [{significant(row['low'])}, {significant(row['high'])}]" if len(self.values) > 1 else ""
            lines[f"{name}@{row['position']}" if self.tokens else name] = significant(row["value"]) + ends
        return lines

    def _name(self, row: Mapping[Hashable, Any]) -> str:
        """Name of a component without its position."""
        if "source" in row:
            return f"{row['source']}{BETWEEN}{row['target']}"
        if self.of in ("heads", "q"):
            return f"L{row['layer']}H{row['head']}{'.q' if self.of == 'q' else ''}"
        words = {"head": "key-value head"} if self.of in ("k", "v") else {}
        axes = [axis for axis in self.places if axis != "position"]
        return ", ".join(
            row[axis] if isinstance(row[axis], str) else f"{words.get(axis, axis)} {row[axis]}" for axis in axes
        )


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Averages(Result):
    """The mean over prompts of every kind of component of a result: `averages["heads"].mean` is [layer head].

    With named positions it is [layer head position]. Each kind is an `AverageShares`.
    """

    kinds: Mapping[str, AverageShares]
    """By kind, as named in the table: "residual", "mlp", "head", ..."""

    def __getitem__(self, kind: str) -> AverageShares:
        """One kind: `averages["heads"]`.

        Raises:
            ScopeKeyError: if there is no such kind.
        """
        return ByKind(self.kinds)[kind]

    def to_dataframe(self, k: int | None = None, *, by_prompt: bool = False) -> pd.DataFrame:
        """One row per component, the largest of each kind first: kind, layer, head (-1 for none), value (the mean), low, high, n.

        With named positions there are also the columns position and token.

        Args:
            k: Number of components of each kind; None means all.
            by_prompt: Whether each prompt has its own row, with the column `prompt` instead of low, high and n.
        """
        frames = [
            of_kind.to_dataframe(k, by_prompt=by_prompt).assign(kind=kind) for kind, of_kind in self.kinds.items()
        ]
        frame = pd.concat([one if "head" in one else one.assign(head=-1) for one in frames], ignore_index=True)
        first = [name for name in ("prompt", "kind", "layer", "head") if name in frame]
        return frame[[*first, *(name for name in frame if name not in first)]]

    def summary(self) -> tuple[str, Mapping[str, object]]:
        first = next(iter(self.kinds.values()))
        headline = first.summary()[0].replace(f" · {first.of}, ", " · ")
        lines = {kind: (f"{name} {said}" for name, said in each.most(2).items()) for kind, each in self.kinds.items()}
        return headline, {kind: " · ".join(most) for kind, most in lines.items()}


@strict
def average_shares(
    attributions: Sequence[One] | One,
    of: Summed = "heads",
    positions: NamedPositions | None = None,
    *,
    n_draws: int = N_DRAWS,
    seed: int = 0,
) -> AverageShares:
    """Mean attributions of heads, neurons or biases over prompts, with 95 % intervals.

    Results of `attribution_patching` are averaged over pairs of prompts in the same way. `results.mean(positions)` averages
    several kinds at once. Intervals are percentile bootstrap intervals over prompts. Prompts may have any lengths.

    Args:
        attributions: One per prompt, as `attribute` or `direct_logit_attribution` gives them for a list of texts, or one per
            pair as `attribution_patching` does. One result alone is the mean of one prompt, without an interval.
        of: "heads" [layer head], "neurons" [layer neuron], without layers that are a mixture of experts, "mlps" [layer],
            "residual" [layer], of attributions also "biases" [bias], of estimates also "edges" [edge], "residual_mid",
            "attention" [layer], "q", "k" and "v" [layer head].
        positions: Names of positions, each one position for all or one per prompt, as `ffb.find_positions` gives them: shares are
            those at each, with names as the last axis. None sums over positions.
        n_draws: Draws of the bootstrap.
        seed: Same seed, same intervals.

    Returns:
        `AverageShares`: means with their intervals, [layer head], [layer] or [bias] by `of`, with names of positions as the last axis.

    Raises:
        InputError: if there is no result, if results differ in target, rules, model or components, or if a position does not
            exist.
        ScopeKeyError: if the results do not have `of`.
    """
    several: list[Any] = [*attributions] if isinstance(attributions, list | tuple) else [attributions]
    kinds = {type(result) for result in several}
    if len(kinds) != 1 or not all(hasattr(kind, "by_component") for kind in kinds):
        given = " and ".join(sorted(kind.__name__ for kind in kinds)) or "an empty list"
        raise InputError(
            f"average_shares of {given}: expected results of one kind, as ffb.attribute gives them for a list of texts, or "
            "ffb.attribution_patching for lists of pairs."
        )
    whole_number(n_draws, "n_draws", at_least=1)
    whole_number(seed, "seed", at_least=0)
    refuse_mixed(several, "average")
    named = {} if positions is None else aligned(positions, [len(result.labels) for result in several])
    read = [[numbers[prompt] for numbers in named.values()] or None for prompt in range(len(several))]
    found = [result.by_component(of, at) for result, at in zip(several, read, strict=True)]
    described = [({name: tuple(place) for name, place in places.items()}, values.shape) for places, values in found]
    for prompt, mine in enumerate(described):
        if mine != described[0]:
            raise InputError(
                f"average_shares: results 0 and {prompt} differ in {of}: {brief(described[0])} and {brief(mine)}. Expected equal ones."
            )
    first, values = several[0], torch.stack([shares.detach().cpu().double() for _, shares in found])
    labels = {
        name: joined([result.labels[at] for result, at in zip(several, numbers, strict=True)], "|")
        for name, numbers in named.items()
    }
    places = described[0][0] | ({"position": tuple(named)} if named else {})
    targets = tuple(result.value for result in several) if hasattr(first, "value") else ()
    return AverageShares(values, of, places, first.quantity, first.rules, first.model, n_draws, seed, labels, targets)


def averages(
    results: Sequence[One], kinds: Sequence[str], positions: NamedPositions | None, n_draws: int, seed: int
) -> Averages:
    """Means of some kinds, as named in tables, of results with a method `by_component`.

    Raises:
        InputError, ScopeKeyError: as in `average_shares`.
    """
    made = {}
    for kind in kinds:
        of = cast(Summed, PLURAL.get(kind, kind))
        made[kind] = average_shares(results, of, positions, n_draws=n_draws, seed=seed)
    return Averages(made)


def at_positions(values: Float[Tensor, "*axis pos"], at: Sequence[int] | None) -> Float[Tensor, "*place"]:
    """Values at some positions, or summed over all positions."""
    return values.sum(dim=-1) if at is None else values[..., list(at)]


def numbered(values: Float[Tensor, "..."], *axes: str) -> dict[str, Sequence[int | str]]:
    """Axes of a tensor before its positions, by name, with indices from 0."""
    return {name: range(size) for name, size in zip(axes, values.shape[:-1], strict=False)}


def neurons_at(result: Any, at: Sequence[int] | None) -> tuple[Places, Float[Tensor, "layer neuron *place"]]:
    """Axes and values of neurons, over all layers that are not a mixture of experts."""
    layers = result.neuron_layers or (0,)  # `neurons(0)` raises the reason
    shares = torch.stack([at_positions(result.neurons(layer).T, at) for layer in layers])
    return {"layer": layers, "neuron": range(shares.shape[1])}, shares
