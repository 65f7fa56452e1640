"""Maps of many prompts as one: the mean of every cell with its 95 % interval, and each prompt's own.

Prompts of equally many tokens are averaged position by position. Others are aligned by name: with
`positions={"IO": [4, 2], "END": -1}` a cell is (query "END", key "IO"), wherever these stand in a prompt.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import NamedPositions, aligned, spans
from tl_ffblock.page import page
from tl_ffblock.results.files import write_atomically
from tl_ffblock.results.intervals import N_DRAWS, MeanInterval, mean_interval
from tl_ffblock.results.page_data import token_maps_page
from tl_ffblock.results.token_maps import TokenMaps
from tl_ffblock.results.tokens import joined

if TYPE_CHECKING:
    import pandas


@runtime_checkable
class AsTokenMaps(Protocol):
    """A result that is token maps in a form of its own: `ContributionMaps`, `Attribution`."""

    def token_maps(self) -> TokenMaps: ...


AnyMaps = AsTokenMaps | TokenMaps
_EXPECTED = "average: expected one result or more, as contribution_maps gives them for a list of texts."


@dataclass(frozen=True, repr=False, eq=False)
class AverageMaps:
    """The mean of several prompts' maps, cell by cell: `mean`, `low`, `high`, `counts` are [layer channel query key].

    `average["Atb"]` is the mean [layer query key], `average["Atb", 3]` that of one layer. `a - b` of the same prompts is
    the mean of the prompts' own differences, with its paired interval.
    """

    values: Float[Tensor, "prompt layer channel query key"]
    """Each prompt's own; NaN where a causal model has no such cell in it."""
    layers: tuple[int, ...]
    channels: tuple[str, ...]
    """Scopes, or attention heads."""
    queries: tuple[str, ...]
    """Names of the rows: as they were given, else position numbers."""
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

    @cached_property
    def interval(self) -> MeanInterval:
        """Mean, low, high and counts of every cell."""
        return mean_interval(self.values, n_draws=self.n_draws, seed=self.seed)

    @property
    def mean(self) -> Float[Tensor, "layer channel query key"]:
        """The mean over the prompts that have the cell."""
        return self.interval.mean

    def token_maps(self) -> TokenMaps:
        """The means as maps whose tokens are the columns, for measures, figures and pages."""
        numbers = [self.keys.index(query) for query in self.queries]
        return TokenMaps(
            values=self.mean,
            tokens=self.keys,
            layers=self.layers,
            channels=self.channels,
            queries=tuple(numbers),
            causal=self.causal,
            model=self.model,
            signed=self.signed,
            kind=self.kind,
            layered=self.layered,
        )

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        return self.token_maps()[key]

    def __sub__(self, other: "AverageMaps") -> "AverageMaps":
        """The mean of the prompts' differences, with its paired interval.

        Raises:
            InputError: if the two are not of as many prompts and the same cells.
        """
        if not isinstance(other, AverageMaps):
            return NotImplemented
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
        labels = tuple(joined(pair, "→") for pair in zip(self.labels, other.labels, strict=True))
        model = joined([self.model, other.model], "→")
        kind = f"difference of {joined([self.kind, other.kind], '→')}"
        changed = replace(self, labels=labels, model=model, kind=kind, causal=self.causal or other.causal)
        return replace(changed, values=self.values - other.values, signed=True)

    def to_dataframe(self, *, by_prompt: bool = False) -> "pandas.DataFrame":
        """Long form, cells that exist: layer, channel, query, key, their tokens, value (the mean), low, high, n.

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

        Args:
            path: File to write, if any.
            layer: Layer to open at, negative ones from the end; None means the first.
            channel: Channel to open at; None means after the feed-forward where there is such a scope, else the first.

        Raises:
            InputError: if layer or channel are not there, or the folder of `path` does not exist.
        """
        ends = {"mean": self.mean, "low": self.interval.low, "high": self.interval.high}
        runs = {name: replace(self.token_maps(), values=values) for name, values in ends.items()}
        data = token_maps_page(runs, layer=layer, channel=channel, labels=self._page_labels())
        statement = f"Mean of {len(self.values)} prompts; low and high are the ends of each cell's 95 % interval (bootstrap over prompts)."
        html = page(replace(data, statement=statement))
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def _page_labels(self) -> tuple[str, ...]:
        """What stands at each position: its tokens, behind its name where it was given one."""
        named = zip(self.keys, self.labels, strict=True)
        return tuple(label if name.isdecimal() else f"{name}:{label}" for name, label in named)

    def __repr__(self) -> str:
        return "\n".join(
            [
                f"AverageMaps: {self.kind} of {self.model} · {len(self.values)} prompts · layers {spans(self.layers)}",
                f"  channels  {', '.join(self.channels)}",
                f"  queries   {', '.join(self.queries)}",
                f"  keys      {', '.join(self.keys)}",
            ]
        )


def average(
    maps: Sequence[AnyMaps], positions: NamedPositions | None = None, *, n_draws: int = N_DRAWS, seed: int = 0
) -> AverageMaps:
    """The mean of several prompts' maps with its 95 % interval (percentile bootstrap over prompts).

    Args:
        maps: One result a prompt, as `contribution_maps` and `attribute` give them for a list of texts, or their `token_maps`.
        positions: Names by which the prompts are aligned, each one position for all or one a prompt. Rows are those of
            the names that are queries of the maps. None aligns prompts of equally many tokens by position.
        n_draws: Draws of the bootstrap.
        seed: Same seed, same intervals.

    Raises:
        InputError: if there is no result, they differ in layers, channels, queries or (without names) in length, or a
            position does not exist or is a query of some of the maps only.
    """
    several = [_as_maps(result) for result in maps]
    if not several:
        raise InputError(_EXPECTED)
    first, lengths = several[0], [len(result.tokens) for result in several]
    _refuse_unlike(several, named=positions is not None)
    named = {str(place): place for place in range(lengths[0])} if positions is None else positions
    keys = aligned(named, lengths)
    rows = _rows(several, keys)
    cells = [_cells(result, number, rows, keys) for number, result in enumerate(several)]
    labels = [joined([result.tokens[at[number]] for number, result in enumerate(several)], "|") for at in keys.values()]
    return AverageMaps(
        values=torch.stack(cells),
        layers=first.layers,
        channels=first.channels,
        queries=tuple(rows),
        keys=tuple(keys),
        labels=tuple(labels),
        model=joined([result.model for result in several], "|"),
        kind=joined([result.kind for result in several], "|"),
        signed=any(result.signed for result in several),
        causal=positions is None and first.causal,
        n_draws=n_draws,
        seed=seed,
        layered=first.layered,
    )


def _as_maps(result: AnyMaps) -> TokenMaps:
    if isinstance(result, TokenMaps):
        return result
    if isinstance(result, AsTokenMaps) and not isinstance(result, AverageMaps):
        return result.token_maps()
    raise InputError(_EXPECTED)


def _refuse_unlike(several: Sequence[TokenMaps], *, named: bool) -> None:
    """Maps whose layers or channels are not the same, and without names whose positions are not."""
    lengths = sorted({len(result.tokens) for result in several})
    if not named and len(lengths) > 1:
        raise InputError(
            f"average: the maps have {', '.join(map(str, lengths))} tokens. Align them by name, "
            'positions={"subject": [2, 3, ...], "END": -1}, or average prompts of equally many.'
        )
    same = ("layers", "layered", "channels", "causal")
    for name in same if named else (*same, "queries"):
        first, *others = (getattr(result, name) for result in several)
        if different := [theirs for theirs in others if theirs != first]:
            raise InputError(
                f"cannot average maps with different {name}: {brief(first)} against {brief(different[0])}."
            )


def _rows(several: Sequence[TokenMaps], keys: dict[str, list[int]]) -> dict[str, list[int]]:
    """Of every name that is a query of all maps, the number of its row in each."""
    rows: dict[str, list[int]] = {}
    for name, places in keys.items():
        present = [place in result.queries for place, result in zip(places, several, strict=True)]
        if all(present):
            rows[name] = [result.queries.index(place) for place, result in zip(places, several, strict=True)]
        elif any(present):
            number = present.index(False)
            raise InputError(
                f"average: position {places[number]} ({name!r}) is no query of maps {number}, though {name!r} is one of others: "
                "make all with the same names as queries, or with all queries."
            )
    if not rows:
        raise InputError(
            f"average: none of {', '.join(map(repr, keys))} is a query of the maps (positions {brief(several[0].queries)}): there "
            "is no row to average."
        )
    return rows


def _cells(
    result: TokenMaps, number: int, rows: dict[str, list[int]], keys: dict[str, list[int]]
) -> Float[Tensor, "layer channel query key"]:
    """One prompt's values at the named cells; NaN at those that do not exist in it."""
    chosen_rows, chosen_keys = ([places[number] for places in names.values()] for names in (rows, keys))
    values = result.values[:, :, chosen_rows][..., chosen_keys].detach().cpu().double()
    reached = result.reachable()[chosen_rows][:, chosen_keys]
    return values.masked_fill(~reached, float("nan"))
