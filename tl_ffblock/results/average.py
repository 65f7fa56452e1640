"""Mean maps over prompts, with the 95 % interval of every cell and each prompt's values.

Prompts of equally many tokens are averaged by position. Others are aligned by name: with `positions={"IO": [4, 2], "END": -1}` a
cell is (query "END", key "IO"), at the position that the name has in each prompt.
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
from tl_ffblock.layer.positions import NamedPositions, aligned, whole_number
from tl_ffblock.numerals import significant
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval, refuse_mixed
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.results.tables import Arithmetic, combined, pairwise, refuse_different
from tl_ffblock.results.token_maps import ATTENTION, BETWEEN_TOKENS, SHARES, TokenMaps, layers_in_words, without_queries
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
    """Mean maps over prompts, cell by cell: `mean`, `low`, `high`, `counts` are [layer channel query key].

    `average["Atb"]` is the mean [layer query key], `average["Atb", 3]` that of one layer. `a - b` for the same prompts is the mean
    of the prompts' differences, with its paired interval. For pairs of prompts use `a.paired_difference(b)`.
    """

    values: Float[Tensor, "prompt layer channel query key"]
    """Values of each prompt; NaN if a causal model has no such cell in it."""
    layers: tuple[int, ...]
    channels: tuple[str, ...]
    """Scopes, or attention heads."""
    queries: tuple[str, ...]
    """Names of the rows, or position numbers; the single row of numbers by position is "written at"."""
    keys: tuple[str, ...]
    """Names of the columns, or position numbers."""
    labels: tuple[str, ...]
    """By column: its tokens, joined where prompts differ."""
    model: str
    kind: str
    """Kind of the values."""
    signed: bool
    """True if values can be negative, as in a difference."""
    causal: bool = False
    """Whether no prompt has keys after a query; False for named positions, whose order may vary."""
    n_draws: int = N_DRAWS
    """Number of bootstrap samples over prompts."""
    seed: int = 0
    layered: bool = True
    """False if the single layer stands for the whole model, as for attributions of a logit."""
    prompts: tuple[tuple[str, ...], ...] = ()
    """Tokens of each prompt, which show whether two averages have the same prompts."""
    column: str = BETWEEN_TOKENS
    """Kind of the columns, as in the maps: "key", or for numbers by position "written at", "flowing at"."""
    provenance: Mapping[str, str] = field(default_factory=dict)
    """Settings of the computation, including the fingerprint of the model's weights."""
    shares: Float[Tensor, "prompt layer channel query key"] | None = None
    """Cells of each prompt as shares of their row without its own token, including tokens without a name; NaN at the row's own
    token. None for signed maps, attention and numbers by position."""
    whole: bool = True
    """Whether all tokens of a prompt are columns; with named positions rows have no shares."""
    sides: tuple[str, ...] = ()
    """Names of both sides of a difference, first minus second."""

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean, low, high and counts of every cell."""
        return mean_interval(self.values, n_draws=self.n_draws, seed=self.seed)

    @property
    def mean(self) -> Float[Tensor, "layer channel query key"]:
        """Mean over the prompts that have the cell."""
        return self.interval.mean

    @property
    def by_position(self) -> bool:
        """Whether cells are numbers by position, without a query."""
        return self.column != BETWEEN_TOKENS

    def as_shares(self) -> "AverageMaps":
        """Mean of `shares`, with its interval.

        Raises:
            InputError: if there are no shares.
        """
        if self.shares is None:
            raise InputError(
                f"as_shares: {self.kind} have no shares. Shares exist for contribution maps, averaged by "
                "`ffb.average(maps, positions)`."
            )
        return replace(self, values=self.shares, shares=None, kind="difference of " * self.signed + SHARES, whole=False)

    def token_maps(self) -> TokenMaps:
        """The means as maps with the tokens as columns, for measures, figures and pages."""
        numbers = [len(self.keys) - 1] if self.by_position else [self.keys.index(query) for query in self.queries]
        # Cells that no prompt of a causal model has are zero, as in a single prompt's maps.
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
        """Mean of the prompts' differences, with its paired interval.

        Raises:
            InputError: if both do not have the same prompts, in the same order, and the same cells.
        """
        if not isinstance(other, AverageMaps):
            return NotImplemented
        difference = self.paired_difference(other)
        for number, (mine, theirs) in enumerate(zip(self.prompts, other.prompts, strict=True)):
            if mine != theirs:
                raise InputError(
                    f"cannot subtract averages of different prompts: prompt {number} is {shortened(mine)!r} against "
                    f"{shortened(theirs)!r}. A paired interval needs the same prompts in the same order. For pairs of prompts, such as "
                    "clean and corrupted ones, use a.paired_difference(b). For unrelated prompts, use the interval of each average: their "
                    "difference has none here."
                )
        return difference

    def paired_difference(self, other: "AverageMaps") -> "AverageMaps":
        """Mean difference within pairs of prompts, with its paired interval: the first prompts of both, the second, ...

        Only you know that they are pairs, such as clean and corrupted prompts. For unrelated prompts the interval has no meaning.

        Raises:
            InputError: if both do not have as many prompts and the same cells.
        """
        if len(self.values) != len(other.values):
            raise InputError(
                f"cannot subtract averages of {len(self.values)} and of {len(other.values)} prompts: expected equally many, in the "
                "same order."
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
        """Long form of the cells that exist: layer, channel, query, key, their tokens, value (the mean), low, high, n.

        Numbers by position have position and token instead of query and key.

        Args:
            by_prompt: Whether each prompt has its own row, with the column `prompt` instead of low, high and n.
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
        """Write `to_dataframe` as a CSV file; a partial file never appears.

        Raises:
            InputError: if the folder does not exist.
        """
        return write_table(path, self.to_dataframe(by_prompt=by_prompt))

    def page_labels(self) -> tuple[str, ...]:
        """Label of each position: its tokens, after its name if it has one."""
        named = zip(self.keys, self.labels, strict=True)
        return tuple(label if name.isdecimal() else f"{name}:{label}" for name, label in named)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        axes = {self.column: self.keys} if self.by_position else {"queries": self.queries, "keys": self.keys}
        lines = {axis: ", ".join(labels) for axis, labels in {"channels": self.channels, **axes}.items()}
        frame = self.to_dataframe()
        if not self.by_position:
            frame = frame[frame["query"] != frame["key"]]
        place = "{0.position}" if self.by_position else "{0.query} from {0.key}"
        several = len(self.values) > 1
        lines["largest" if self.by_position else "largest of two positions"] = " · ".join(
            f"layer {row.layer} {row.channel}, {place.format(row)} {significant(row.value)}"
            + f" [{significant(row.low)}, {significant(row.high)}]" * several
            for row in frame.loc[frame["value"].abs().nlargest(LARGEST_SHOWN).index].itertuples()
        )
        prompts = f"{len(self.values)} prompts" if several else "one prompt, so no intervals"
        return f"{self.kind} of {self.model} · {prompts} · {layers_in_words(self.layers, self.channels)}", lines


LARGEST_SHOWN = 3
"""Cells that a printed mean lists."""
# `TokenMaps`, or a result that has a method `token_maps`: `ContributionMaps`, `Attribution`.
AnyMaps: TypeAlias = Any
_EXPECTED = "average: expected one result or more, as contribution_maps returns for a list of texts."


@strict
def average(
    maps: Sequence[AnyMaps], positions: NamedPositions | None = None, *, n_draws: int = N_DRAWS, seed: int = 0
) -> AverageMaps:
    """Mean maps over prompts with 95 % intervals (percentile bootstrap over prompts).

    Args:
        maps: One result per prompt, as from `contribution_maps` and `attribute` for a list of texts, or their `token_maps`.
        positions: Names that align prompts, each one position for all or one per prompt. Rows are the names that are queries of
            the maps. Numbers by position (an attribution's heads, its residual stream) have one row, "written at" or "flowing
            at" the names. None aligns prompts of equally many tokens by position.
        n_draws: Number of bootstrap samples.
        seed: Seed of the bootstrap.

    Returns:
        An `AverageMaps` with `mean` [layer channel query key] and `interval`.

    Raises:
        InputError: if there is no result, if results differ in quantity, model, rules, layers, channels, queries or (without
            names) length, or if a position does not exist or is a query of only some of the maps.
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
            f"{_EXPECTED} Given is {f'a {type(maps).__name__}' if one else 'none'}; for one result use average([maps])."
        )
    for result in given:
        if isinstance(result, AverageMaps) or not (isinstance(result, TokenMaps) or hasattr(result, "token_maps")):
            raise InputError(
                f"{_EXPECTED} One of them is of type {type(result).__name__}; for attributions and estimates of patching use "
                "ffb.average_shares."
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
    """By name that is a query of all maps: its row in each; numbers by position have a single row."""
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
                "compute all maps with the same names as queries, or with all queries."
            )
    if not rows:
        raise InputError(
            f"average: none of {', '.join(map(repr, keys))} is a query of the maps (positions {brief(several[0].queries)}). Compute "
            "the maps with these queries."
        )
    return rows


def _as_shares(result: TokenMaps) -> TokenMaps:
    """Cells as shares of their row without its own token, over all tokens; NaN if there is no share."""
    others = others_of(result.reachable(), result.queries)
    made = shares_of_others(result.values, others)
    return replace(result, values=made.masked_fill(~others | (made.sum(dim=-1, keepdim=True) == 0), float("nan")))


def _cells(
    result: TokenMaps, number: int, rows: dict[str, list[int]], keys: dict[str, list[int]]
) -> Float[Tensor, "layer channel query key"]:
    """Values of one prompt at the named cells; NaN if a cell does not exist."""
    chosen_rows, chosen_keys = ([places[number] for places in names.values()] for names in (rows, keys))
    values = result.values[:, :, chosen_rows][..., chosen_keys].detach().cpu().double()
    reached = result.reachable()[chosen_rows][:, chosen_keys]
    return values.masked_fill(~reached, float("nan"))
