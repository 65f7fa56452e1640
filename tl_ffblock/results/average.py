"""Maps of many prompts as one: the mean of every cell with its 95 % interval, and each prompt's own.

Prompts of equally many tokens are averaged position by position. Others are aligned by name: with
`positions={"IO": [4, 2], "END": -1}` a cell is (query "END", key "IO"), wherever these stand in a prompt.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.files import write_table
from tl_ffblock.layer.positions import NamedPositions, aligned, spans, whole_number
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval, refuse_mixed
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.results.tables import Arithmetic, combined, pairwise, refuse_different
from tl_ffblock.results.token_maps import ATTENTION, BETWEEN_TOKENS, SHARES, TokenMaps, without_queries
from tl_ffblock.results.tokens import BETWEEN_SIDES, joined, shortened, sides_of
from tl_ffblock.signatures import strict

_DIFFERENCE = Arithmetic(
    same=("layers", "channels", "queries", "keys", "layered"),
    joined=("labels", "model", "kind", "provenance"),
    numbers=("values", "shares"),
    largest=("causal",),
)


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AverageMaps(Result):
    """The mean of several prompts' maps, cell by cell: `mean`, `low`, `high`, `counts` are [layer channel query key].

    `average["Atb"]` is the mean [layer query key], `average["Atb", 3]` that of one layer. `a - b` of the same prompts is
    the mean of the prompts' own differences, with its paired interval; of prompts that are pairs, `a.paired_difference(b)`.
    """

    values: Float[Tensor, "prompt layer channel query key"]
    """Each prompt's own; NaN where a causal model has no such cell in it."""
    layers: tuple[int, ...]
    channels: tuple[str, ...]
    """Scopes, or attention heads."""
    queries: tuple[str, ...]
    """Names of the rows: as they were given, else position numbers; the one row of shares by position is "written at"."""
    keys: tuple[str, ...]
    """Names of the columns, likewise."""
    labels: tuple[str, ...]
    """Which tokens stand there: by column, different ones of the prompts joined."""
    model: str
    kind: str
    """What the values are, in a reader's words."""
    signed: bool
    """True where values can be negative, as in a difference."""
    causal: bool = False
    """Whether keys after a query exist in no prompt; by name that is not a law of the columns' order, so False."""
    n_draws: int = N_DRAWS
    """Draws of the bootstrap over prompts."""
    seed: int = 0
    layered: bool = True
    """False where the one layer stands for the whole model, as of a logit's shares."""
    prompts: tuple[tuple[str, ...], ...] = ()
    """Each prompt's tokens, which say whether two averages are of the same ones."""
    column: str = BETWEEN_TOKENS
    """What a column is, as of the maps: "key", or of shares by position "written at", "flowing at"."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """How the maps were made, the fingerprint of the model's weights among it."""
    shares: Float[Tensor, "prompt layer channel query key"] | None = None
    """Each prompt's cells as shares of what its row takes from all other tokens, those that have no name included; NaN at a
    row's own cell. Of a difference they differ in points. None of signed maps, attention and shares by position."""
    whole: bool = True
    """Whether every token of a prompt is a column; named positions are some of them, of which rows have no shares."""
    sides: tuple[str, ...] = ()
    """Of a difference: names of the two that it is of, the first less the second."""

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean, low, high and counts of every cell."""
        return mean_interval(self.values, n_draws=self.n_draws, seed=self.seed)

    @property
    def mean(self) -> Float[Tensor, "layer channel query key"]:
        """The mean over the prompts that have the cell."""
        return self.interval.mean

    @property
    def by_position(self) -> bool:
        """Whether a cell is a number of its column's position alone, and of no query."""
        return self.column != BETWEEN_TOKENS

    def as_shares(self) -> "AverageMaps":
        """The mean of `shares`, with its interval.

        Raises:
            InputError: if there are none.
        """
        if self.shares is None:
            raise InputError(
                f"as_shares: {self.kind} have no shares of what a row takes from other tokens. They are of contribution maps, "
                "averaged as `ffb.average(maps, positions)` averages them."
            )
        return replace(self, values=self.shares, shares=None, kind="difference of " * self.signed + SHARES, whole=False)

    def token_maps(self) -> TokenMaps:
        """The means as maps whose tokens are the columns, for measures, figures and pages."""
        numbers = [len(self.keys) - 1] if self.by_position else [self.keys.index(query) for query in self.queries]
        # Cells that no prompt of a causal model has are the zeros that they are in a single prompt's maps.
        return TokenMaps(
            values=self.mean.nan_to_num() if self.causal and self.whole else self.mean,
            tokens=self.keys,
            layers=self.layers,
            channels=self.channels,
            queries=tuple(numbers),
            causal=self.causal,
            model=self.model,
            signed=self.signed,
            kind=self.kind,
            layered=self.layered,
            column=self.column,
            provenance=self.provenance,
            whole=self.whole,
            sides=self.sides,
        )

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        return self.token_maps()[key]

    def __sub__(self, other: "AverageMaps") -> "AverageMaps":
        """The mean of the prompts' differences, with its paired interval.

        Raises:
            InputError: if the two are not of the same prompts, in the same order, and the same cells.
        """
        if not isinstance(other, AverageMaps):
            return NotImplemented
        difference = self.paired_difference(other)
        for number, (mine, theirs) in enumerate(zip(self.prompts, other.prompts, strict=True)):
            if mine != theirs:
                raise InputError(
                    f"cannot subtract averages of different prompts: prompt {number} is {shortened(mine)!r} against "
                    f"{shortened(theirs)!r}. A paired interval is of the same prompts in the same order. Of prompts that are pairs, "
                    "such as clean and corrupted ones, a.paired_difference(b) is what each pair differs by; of unrelated prompts "
                    "each average has its own interval, and their difference has none here."
                )
        return difference

    def paired_difference(self, other: "AverageMaps") -> "AverageMaps":
        """The mean of what the prompts of each pair differ by, with its paired interval: the first of both, the second, ...

        Only the caller knows that they are pairs, such as clean and corrupted prompts; for unrelated ones the interval means nothing.

        Raises:
            InputError: if the two are not of as many prompts and the same cells.
        """
        if len(self.values) != len(other.values):
            raise InputError(
                f"cannot subtract averages of {len(self.values)} and of {len(other.values)} prompts: differences are of one "
                "prompt each. Average as many, in the same order."
            )
        apart = [at for at, pair in enumerate(zip(self.labels, other.labels, strict=False)) if len(set(pair)) > 1]
        mine, theirs = ([average.page_labels()[at] for at in apart] for average in (self, other))
        both = combined([self, other], pairwise(torch.sub), BETWEEN_SIDES, "subtract", _DIFFERENCE)
        pairs = zip(self.prompts, other.prompts, strict=True)
        return replace(
            both,
            kind=f"difference of {both.kind}",
            prompts=tuple(one if one == two else (*one, BETWEEN_SIDES, *two) for one, two in pairs),
            sides=sides_of(mine, theirs, (self.model, other.model)),
            signed=True,
        )

    def to_dataframe(self, *, by_prompt: bool = False) -> pd.DataFrame:
        """Long form, cells that exist: layer, channel, query, key, their tokens, value (the mean), low, high, n.

        Shares by position have no query: position and token stand in place of both.

        Args:
            by_prompt: Whether each prompt has a row of its own: `prompt` in place of low, high and n.
        """
        axes: dict[str, Sequence[Any]] = {"prompt": range(len(self.values))} if by_prompt else {}
        axes |= {"layer": self.layers, "channel": self.channels, "query": self.queries, "key": self.keys}
        frame = long_form(self.values if by_prompt else self.mean, axes)
        if not by_prompt:
            ends = {"low": self.interval.low, "high": self.interval.high, "n": self.interval.counts}
            frame = frame.assign(**{name: numbers.flatten().numpy() for name, numbers in ends.items()})
        for at, end in enumerate(("query", "key")):
            frame.insert(len(axes) + at, f"{end}_token", frame[end].map(dict(zip(self.keys, self.labels, strict=True))))
        frame = frame.dropna(subset="value", ignore_index=True)
        return without_queries(frame) if self.by_position else frame

    def to_csv(self, path: str | os.PathLike[str], *, by_prompt: bool = False) -> Path:
        """Write `to_dataframe` as a CSV file, as a whole or not at all.

        Raises:
            InputError: if the folder does not exist.
        """
        return write_table(path, self.to_dataframe(by_prompt=by_prompt))

    def page_labels(self) -> tuple[str, ...]:
        """What is at each position: its tokens, after its name where it was given one."""
        named = zip(self.keys, self.labels, strict=True)
        return tuple(label if name.isdecimal() else f"{name}:{label}" for name, label in named)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        axes = {self.column: self.keys} if self.by_position else {"queries": self.queries, "keys": self.keys}
        lines = {axis: ", ".join(labels) for axis, labels in {"channels": self.channels, **axes}.items()}
        return f"{self.kind} of {self.model} · {len(self.values)} prompts · layers {spans(self.layers)}", lines


# `TokenMaps`, or a result that has a method `token_maps`: `ContributionMaps`, `Attribution`.
AnyMaps: TypeAlias = Any
_EXPECTED = "average: expected one result or more, as contribution_maps gives them for a list of texts."


@strict
def average(
    maps: Sequence[AnyMaps], positions: NamedPositions | None = None, *, n_draws: int = N_DRAWS, seed: int = 0
) -> AverageMaps:
    """The mean of several prompts' maps with its 95 % interval (percentile bootstrap over prompts).

    Args:
        maps: One result a prompt, as `contribution_maps` and `attribute` give them for a list of texts, or their `token_maps`.
        positions: Names by which the prompts are aligned, each one position for all or one a prompt. Rows are those of
            the names that are queries of the maps; shares by position (an attribution's heads, its residual stream) have one
            row, "written at" or "flowing at" the names. None aligns prompts of equally many tokens by position.
        n_draws: Draws of the bootstrap.
        seed: Same seed, same intervals.

    Raises:
        InputError: if there is no result, they are of different quantities, models or rules, they differ in layers, channels,
            queries or (without names) in length, or a position does not exist or is a query of some of the maps only.
    """
    several = _several(maps)
    whole_number(n_draws, "n_draws", at_least=1)
    whole_number(seed, "seed", at_least=0)
    first, lengths = several[0], [len(result.tokens) for result in several]
    refuse_mixed(several, "average")
    _refuse_unlike(several, named=positions is not None)
    keys = aligned({str(place): place for place in range(lengths[0])} if positions is None else positions, lengths)
    rows = _rows(several, keys)
    cells = [_cells(result, number, rows, keys) for number, result in enumerate(several)]
    shared = first.whole and not (first.signed or first.by_position or first.kind in (ATTENTION, SHARES))
    shares = (
        [_cells(_as_shares(result), number, rows, keys) for number, result in enumerate(several)] if shared else None
    )
    labels = [joined([result.tokens[at[number]] for number, result in enumerate(several)], "|") for at in keys.values()]
    return AverageMaps(
        values=torch.stack(cells),
        layers=first.layers,
        channels=first.channels,
        queries=tuple(rows),
        keys=tuple(keys),
        labels=tuple(labels),
        model=first.model,
        kind=first.kind,
        signed=first.signed,
        causal=positions is None and first.causal,
        n_draws=n_draws,
        seed=seed,
        layered=first.layered,
        prompts=tuple(result.tokens for result in several),
        column=first.column,
        provenance=first.provenance,
        shares=None if shares is None else torch.stack(shares),
        whole=positions is None and first.whole,
        sides=first.sides if all(result.sides == first.sides for result in several) else (),
    )


def _several(maps: Any) -> list[TokenMaps]:
    one = hasattr(maps, "token_maps") or isinstance(maps, TokenMaps) or not isinstance(maps, Iterable)
    given = [] if one else list(maps)
    if not given:
        raise InputError(
            f"{_EXPECTED} Given is {f'a {type(maps).__name__}' if one else 'none'}; of one give average([maps])."
        )
    for result in given:
        if isinstance(result, AverageMaps) or not (isinstance(result, TokenMaps) or hasattr(result, "token_maps")):
            raise InputError(
                f"{_EXPECTED} One of them is a {type(result).__name__}; shares of attributions and estimates of patching are "
                "averaged by ffb.average_shares."
            )
    return [result if isinstance(result, TokenMaps) else result.token_maps() for result in given]


def _refuse_unlike(several: Sequence[TokenMaps], *, named: bool) -> None:
    lengths = sorted({len(result.tokens) for result in several})
    if not named and len(lengths) > 1:
        raise InputError(
            f"average: the maps have {', '.join(map(str, lengths))} tokens. Align them by name, "
            'positions={"subject": [2, 3, ...], "END": -1}, or average prompts of equally many. Attributions are summed over '
            "positions by ffb.average_shares."
        )
    same = ("layers", "layered", "channels", "column", "causal", "whole")
    refuse_different(several, same if named or several[0].by_position else (*same, "queries"), "average")


def _rows(several: Sequence[TokenMaps], keys: dict[str, list[int]]) -> dict[str, list[int]]:
    """Of every name that is a query of all maps, the number of its row in each; the one row of shares by position."""
    if several[0].by_position:
        return {several[0].column: [0] * len(several)}
    rows: dict[str, list[int]] = {}
    for name, places in keys.items():
        present = [place in result.queries for place, result in zip(places, several, strict=True)]
        if all(present):
            rows[name] = [result.queries.index(place) for place, result in zip(places, several, strict=True)]
        elif any(present):
            number = present.index(False)
            raise InputError(
                f"average: position {places[number]} ({name!r}) is not a query of maps {number}, though {name!r} is one of others: "
                "make all with the same names as queries, or with all queries."
            )
    if not rows:
        raise InputError(
            f"average: none of {', '.join(map(repr, keys))} is a query of the maps (positions {brief(several[0].queries)}): there "
            "is no row to average."
        )
    return rows


def _as_shares(result: TokenMaps) -> TokenMaps:
    """Each cell as a share of what its row takes from all other tokens, named or not; NaN where there is no such share."""
    others = others_of(result.reachable(), result.queries)
    made = shares_of_others(result.values, others)
    return replace(result, values=made.masked_fill(~others | (made.sum(dim=-1, keepdim=True) == 0), float("nan")))


def _cells(
    result: TokenMaps, number: int, rows: dict[str, list[int]], keys: dict[str, list[int]]
) -> Float[Tensor, "layer channel query key"]:
    """One prompt's values at the named cells; NaN at those that do not exist in it."""
    chosen_rows, chosen_keys = ([places[number] for places in names.values()] for names in (rows, keys))
    values = result.values[:, :, chosen_rows][..., chosen_keys].detach().cpu().double()
    reached = result.reachable()[chosen_rows][:, chosen_keys]
    return values.masked_fill(~reached, float("nan"))
