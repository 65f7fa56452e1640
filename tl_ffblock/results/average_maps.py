"""AverageMaps: the mean of several prompts' maps with its 95 % interval, and each prompt's own values."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.files import write_atomically
from tl_ffblock.layer.positions import spans
from tl_ffblock.page import page, shares_page
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval
from tl_ffblock.results.page_blocks import BETWEEN_TOKENS, SHARES
from tl_ffblock.results.page_data import token_maps_page
from tl_ffblock.results.position_page import position_page, refuse_choices
from tl_ffblock.results.token_maps import TokenMaps, without_queries
from tl_ffblock.results.tokens import BETWEEN_SIDES, joined, joined_provenance, shortened, sides_of
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    import pandas


@strict
@dataclass(frozen=True, repr=False, eq=False)
class AverageMaps:
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
    """Whether keys behind a query exist in no prompt; by name that is no law of the columns' order, so False."""
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
        mean = self.mean.nan_to_num() if self.causal and self.whole else self.mean
        return TokenMaps(
            values=mean,
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
        for name in ("layers", "channels", "queries", "keys", "layered"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise InputError(
                    f"cannot subtract averages with different {name}: {brief(mine)} against {brief(theirs)}."
                )
        if len(self.values) != len(other.values):
            raise InputError(
                f"cannot subtract averages of {len(self.values)} and of {len(other.values)} prompts: differences are of one "
                "prompt each. Average as many, in the same order."
            )
        labels = tuple(joined(pair, BETWEEN_SIDES) for pair in zip(self.labels, other.labels, strict=True))
        made = joined_provenance([self.provenance, other.provenance], BETWEEN_SIDES)
        model = joined([self.model, other.model], BETWEEN_SIDES)
        kind = f"difference of {joined([self.kind, other.kind], BETWEEN_SIDES)}"
        pairs = zip(self.prompts, other.prompts, strict=True)
        prompts = tuple(mine if mine == theirs else (*mine, BETWEEN_SIDES, *theirs) for mine, theirs in pairs)
        both = self.shares is not None and other.shares is not None
        shares = self.shares - other.shares if both else None  # type: ignore[operator]  # both are there
        apart = [at for at, pair in enumerate(zip(self.labels, other.labels, strict=True)) if len(set(pair)) > 1]
        mine, theirs = ([average._page_labels()[at] for at in apart] for average in (self, other))
        sides = sides_of(mine, theirs, (self.model, other.model))
        changed = replace(
            self, labels=labels, model=model, kind=kind, prompts=prompts, shares=shares, sides=sides, provenance=made
        )
        causal = self.causal or other.causal
        return replace(changed, values=self.values - other.values, signed=True, causal=causal)

    def to_dataframe(self, *, by_prompt: bool = False) -> "pandas.DataFrame":
        """Long form, cells that exist: layer, channel, query, key, their tokens, value (the mean), low, high, n.

        Shares by position have no query: position and token stand in place of both.

        Args:
            by_prompt: Whether each prompt has a row of its own: `prompt` in place of low, high and n.
        """
        import pandas as pd

        axes: list[Sequence[object]] = [self.layers, self.channels, self.queries, self.keys]
        columns: dict[str, Tensor] = {"value": self.values}
        if by_prompt:
            axes = [range(len(self.values)), *axes]
        else:
            columns = {"value": self.mean, "low": self.interval.low, "high": self.interval.high}
            columns["n"] = self.interval.counts
        grid = np.meshgrid(*(np.array(axis, dtype=object) for axis in axes), indexing="ij")
        named = dict(zip(("layer", "channel", "query", "key"), grid[-4:], strict=True))
        named = {"prompt": grid[0]} | named if by_prompt else named
        tokens = dict(zip(self.keys, self.labels, strict=True))
        frame = pd.DataFrame({name: labels.reshape(-1) for name, labels in named.items()}).infer_objects()
        for name in ("query", "key"):
            frame[f"{name}_token"] = frame[name].map(tokens)
        for name, numbers in columns.items():
            frame[name] = numbers.reshape(-1).detach().cpu().numpy()
        if self.by_position:
            frame = without_queries(frame)
        return frame.dropna(subset="value", ignore_index=True)

    def to_csv(self, path: str | os.PathLike[str], *, by_prompt: bool = False) -> Path:
        """Write `to_dataframe` as a CSV file, as a whole or not at all.

        Raises:
            InputError: if the folder does not exist.
        """
        text = self.to_dataframe(by_prompt=by_prompt).to_csv(index=False)
        write_atomically(Path(path), text.encode("utf-8"))
        return Path(path)

    def to_html(
        self, path: str | os.PathLike[str] | None = None, *, layer: int | None = None, channel: str | None = None
    ) -> str:
        """One page of the mean and of both ends of its interval, any two beside each other; written to `path` when given.

        That of shares by position is a map of all layers and channels by position, each cell with its interval.

        Args:
            path: File to write, if any.
            layer: Layer to open at, negative ones from the end; None means the first, of signed maps that of the largest cell.
            channel: Channel to open at; None means after the feed-forward where there is such a scope, else the first.

        Raises:
            InputError: if layer or channel are not there, or of shares by position are asked for, or the folder of `path`
                does not exist.
        """
        runs = self._ends()
        labels = self._page_labels()
        interval = "95 % interval (bootstrap over prompts)"
        if self.by_position:
            refuse_choices(layer=layer, channel=channel)
            html = shares_page(
                position_page(runs, labels, f"Mean of {len(self.values)} prompts, with each cell's {interval}.")
            )
        else:
            statement = f"Mean of {len(self.values)} prompts; low and high are the ends of each cell's {interval}."
            if self.shares is not None:
                shares = self.as_shares()._ends()
                data = token_maps_page(shares, runs, layer=layer, channel=channel, labels=labels, named=self._named())
            else:
                data = token_maps_page(runs, layer=layer, channel=channel, labels=labels, named=self._named())
            html = page(replace(data, statement=statement))
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def _ends(self) -> dict[str, TokenMaps]:
        """The mean and both ends of its interval, of which no shares are made: those of each prompt are averaged."""
        ends = {"mean": self.mean, "low": self.interval.low, "high": self.interval.high}
        return {name: replace(self.token_maps(), values=values, whole=False) for name, values in ends.items()}

    def _named(self) -> bool:
        """Whether positions were given names."""
        return not all(name.isdecimal() for name in self.keys)

    def _page_labels(self) -> tuple[str, ...]:
        """What stands at each position: its tokens, behind its name where it was given one."""
        named = zip(self.keys, self.labels, strict=True)
        return tuple(label if name.isdecimal() else f"{name}:{label}" for name, label in named)

    def __repr__(self) -> str:
        axes = {self.column: self.keys} if self.by_position else {"queries": self.queries, "keys": self.keys}
        named = {"channels": self.channels, **axes}
        return "\n".join(
            [
                f"AverageMaps: {self.kind} of {self.model} · {len(self.values)} prompts · layers {spans(self.layers)}",
                *(f"  {axis:<8}  {', '.join(labels)}" for axis, labels in named.items()),
            ]
        )
