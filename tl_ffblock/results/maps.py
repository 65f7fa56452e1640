"""ContributionMaps: contribution maps of one sequence, with labels.

A map is `[query, key]`: a row is the position whose vector is decomposed (destination), a column is the source token. Values are
norms `||F_i(x_j)||` in units of the residual stream, and are not negative; a difference of two results is signed. Every map has its
completeness error, and the norms of its bias term and remainder (the effect of your hooks inside the block, else 0).
"""

import dataclasses
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal, SupportsIndex

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from tl_ffblock.errors import CallError, InputError, brief
from tl_ffblock.files import TensorFile
from tl_ffblock.layer.positions import several, spans
from tl_ffblock.layer.scopes import Order
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result, as_described
from tl_ffblock.results.image_map import ImageMap
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.tables import TABLES, Arithmetic, ExpertTable, HeadTable, ScopeTable, alike, combined, pairwise
from tl_ffblock.results.token_maps import TokenMaps, reachable_cells
from tl_ffblock.results.tokens import BETWEEN_SIDES, shortened, sides_of, visible
from tl_ffblock.signatures import real, strict

# Arithmetic of maps: sums, differences and means; of several completeness errors the largest is kept.
_COMBINED = Arithmetic(
    same=("layers", "scopes", "queries", "order", "causal", "heads.channels", "experts.channels"),
    joined=("tokens", "model", "provenance"),
    numbers=("values", "bias", "remainder", "heads", "experts"),
    largest=("completeness", "signed"),
)
# Provenance keys of the two sides of a difference.
SIDES = ("difference of", "minus")


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ContributionMaps(Result):
    """Contributions of every source token to every query, by scope and layer.

    `maps[scope]` is `Float[layer query key]`. `maps[scope, layer]` is `Float[query key]`, with the model's layer number or a
    negative one from the last layer. Rows are the positions in `queries` (all by default), columns are all tokens. `bias`,
    `remainder` and `completeness` are indexed in the same way and have one number per query. With `heads=`,
    `maps.heads[scope, layer]` is `Float[head query key]`, and `maps.heads.channels` names its first axis. `maps.experts` is the
    same for a mixture of experts.

    Results with equally many tokens and the same layers, scopes and queries can be added, subtracted and averaged
    (`ContributionMaps.mean`). `==` compares all labels and numbers.
    """

    tokens: tuple[str, ...]
    """Tokens as the tokenizer shows them, or ids as text without a tokenizer."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    order: Order
    """Order of norms and blocks, a key of `tl_ffblock.layer.scopes.PROGRAMS` such as "post_ln" or "pre_ln"."""
    queries: tuple[int, ...]
    """Position of each row."""
    causal: bool
    """Whether a position attends only to itself and earlier ones."""
    values: ScopeTable
    """Float[layer query key] by scope: contributions."""
    bias: ScopeTable
    """Float[layer query] by scope: norm of the bias term."""
    remainder: ScopeTable
    """Float[layer query] by scope: norm of the effect of hooks inside the block."""
    completeness: ScopeTable
    """Float[layer query] by scope: relative completeness error."""
    model: str = "model"
    """Name of the model, for labels."""
    signed: bool = False
    """True if numbers can be negative, as in a difference of two results."""
    heads: HeadTable = dataclasses.field(default_factory=HeadTable)
    """Float[layer head query key] by scope: contributions through each head and the residual, with `heads=`."""
    experts: ExpertTable = dataclasses.field(default_factory=ExpertTable)
    """Float[layer expert query key] by scope: contributions through each expert and through none, with `experts=`."""
    provenance: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Settings of the computation: method, value_bias, rtol, dtype, versions."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What results must have in common to be averaged: quantity, model and weights, settings."""
        return identity_of("difference of " * self.signed + "contributions", self.model, self.provenance)

    @property
    def scopes(self) -> tuple[str, ...]:
        """Scopes of the result, in the order of the layer."""
        return tuple(self.values)

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        return self.values[key]

    def __iter__(self) -> Iterator[str]:
        """Refused, since scopes, layers or rows could be meant."""
        raise CallError(
            "these are the maps of one sequence: iterate over maps.scopes or maps.layers, and index maps[scope, layer]. "
            "A list of texts returns a list of results."
        )

    @property
    def sides(self) -> tuple[str, ...]:
        """Names of both sides of a difference, first minus second; empty if they are not known."""
        return tuple(self.provenance[side] for side in SIDES if side in self.provenance)

    @strict
    def faults(self) -> Iterator[str]:
        """Tables whose layers, scopes, queries or tokens differ from the maps."""
        n_queries, n_tokens = len(self.queries), len(self.tokens)
        if not all(0 <= query < n_tokens for query in self.queries):
            yield f"queries={brief(self.queries)}, expected positions of {n_tokens} tokens"
        sides: dict[str, tuple[int, ...]] = dict.fromkeys(TABLES, (n_queries,)) | {
            "values": (n_queries, n_tokens),
            "heads": (len(self.heads.channels), n_queries, n_tokens),
            "experts": (len(self.experts.channels), n_queries, n_tokens),
        }
        for name, side in sides.items():
            table = getattr(self, name)
            if table and (table.layers != tuple(self.layers) or set(table) != set(self.values)):
                yield f"{name} is of layers {brief(table.layers)} and scopes {', '.join(table)}, unlike the maps"
            for scope, rows in table.items():
                if tuple(rows.shape[1:]) != side:
                    yield f"{name} of {scope} has shape {tuple(rows.shape)}, expected {(len(self.layers), *side)}"

    def worst_completeness(self) -> tuple[float, str, int, int]:
        """Largest completeness error, with its scope, layer and query position."""
        scope = max(self.scopes, key=lambda scope: float(self.completeness[scope].max().nan_to_num(-1.0)))
        table = self.completeness[scope]
        row, column = divmod(int(table.argmax()), table.shape[1])
        return float(table[row, column]), scope, self.layers[row], self.queries[column]

    def reachable(self) -> Bool[Tensor, "query key"]:
        """Cells that can be non-zero: all, or key <= query in a causal model."""
        return reachable_cells(self.queries, len(self.tokens), self.causal)

    def image_map(
        self,
        picture: Any = None,
        *,
        query: SupportsIndex = -1,
        layer: SupportsIndex = -1,
        scope: str | None = None,
        image: SupportsIndex = 1,
    ) -> ImageMap:
        """One row's image tokens by their rows and columns in the image; see `TokenMaps.image_map`.

        Args:
            picture: The picture as the processor has cropped it; None means none.
            query: Position of the row, negative from the end.
            layer: Layer, negative from the end.
            scope: Scope, such as "Atb"; None means the last.
            image: Number of the image in the prompt, from 1.

        Raises:
            InputError: if the prompt has no such image with rows and columns, there is no such row, or the picture cannot be read.
            ScopeKeyError: if there is no such scope.
        """
        return self.token_maps(scope).image_map(picture, query=query, layer=layer, image=image)

    def token_maps(
        self, scopes: Sequence[str] | str | None = None, *, heads: bool = False, experts: bool = False
    ) -> TokenMaps:
        """Maps of some scopes (None: all) as one tensor [layer channel query key], with scopes as channels.

        Args:
            scopes: Scopes, in this order.
            heads: Whether channels are the heads and the residual, for one scope.
            experts: Whether channels are the experts and "no expert", for one scope.

        Raises:
            ScopeKeyError: if a scope is missing, or if the result has no heads or experts.
            InputError: if there is no scope, several scopes with `heads` or `experts`, or both of these.
        """
        named = self.scopes if scopes is None else tuple(several(scopes))
        if not named:
            raise InputError(f"scopes={scopes!r}: expected one or more of {', '.join(self.scopes)}.")
        if heads and experts:
            raise InputError("heads=True with experts=True: channels are the heads or the experts. Use one of the two.")
        by = "experts" if experts else "heads"
        if (heads or experts) and len(named) > 1:
            raise InputError(f"{by}=True of {len(named)} scopes: expected one scope, such as {named[0]!r}.")
        split = self.experts if experts else self.heads if heads else None
        return TokenMaps(
            values=torch.stack([self[scope] for scope in named], dim=1) if split is None else split[named[0]],
            tokens=self.tokens,
            layers=self.layers,
            channels=named if split is None else split.channels,
            queries=self.queries,
            causal=self.causal,
            model=self.model,
            signed=self.signed,
            sides=self.sides if self.signed else (),
            kind="difference of " * self.signed
            + ("contributions" if split is None else f"{named[0]} contributions by {by[:-1]}"),
            provenance=self.provenance,
        )

    def __add__(self, other: "ContributionMaps") -> "ContributionMaps":
        """Sum of two results, cell by cell; the label of a token that differs has both.

        Raises:
            InputError: if the results have different cells.
        """
        if not isinstance(other, ContributionMaps):
            return NotImplemented
        return combined([self, other], pairwise(torch.add), "|", "add", _COMBINED)

    def __sub__(self, other: "ContributionMaps") -> "ContributionMaps":
        """Signed difference of two results; the label of a token that differs is "first / second", and `sides` names both.

        Raises:
            InputError: if the results have different cells.
        """
        if not isinstance(other, ContributionMaps):
            return NotImplemented
        difference = combined([self, other], pairwise(torch.sub), BETWEEN_SIDES, "subtract", _COMBINED)
        names = sides_of(self.tokens, other.tokens, (self.model, other.model))
        return dataclasses.replace(
            difference, signed=True, provenance={**difference.provenance, **dict(zip(SIDES, names, strict=True))}
        )

    def __mul__(self, number: int | float) -> "ContributionMaps":
        """All norms times a number; completeness errors are relative and do not change."""
        return self._scaled(operator.mul, number)

    __rmul__ = __mul__

    def __truediv__(self, number: int | float) -> "ContributionMaps":
        """All norms divided by a number; completeness errors are relative and do not change.

        Raises:
            ZeroDivisionError: for 0.
        """
        if isinstance(number, Real) and number == 0:
            raise ZeroDivisionError("contribution maps divided by zero")
        return self._scaled(operator.truediv, number)

    @staticmethod
    def mean(results: "Iterable[ContributionMaps]") -> "ContributionMaps":
        """Mean of results with equally many tokens; the label of tokens that differ is "she|he".

        The completeness error is the largest of all.

        Raises:
            InputError: if there is no result, or if results differ in cells, model or kind.
        """
        given = alike(results, ContributionMaps, "contribution_maps")
        return combined(given, pairwise(torch.add), "|", "average", _COMBINED) / len(given)

    def _scaled(self, operation: Callable[[Tensor, float], Tensor], number: Any) -> "ContributionMaps":
        if not isinstance(number, Real):
            return NotImplemented
        if real(number) is None:
            verb = "divided by" if operation is operator.truediv else "times"
            raise InputError(f"contribution maps {verb} {number}: expected a finite number.")
        turned = dict(zip(SIDES, reversed(self.sides), strict=False)) if number < 0 else {}
        scaled = {
            name: getattr(self, name).each(lambda rows: operation(rows, float(number))) for name in _COMBINED.numbers
        }
        return dataclasses.replace(
            self, provenance={**self.provenance, **turned}, signed=self.signed or number < 0, **scaled
        )

    def to_dataframe(self, *, heads: bool = False) -> pd.DataFrame:
        """Long form: one row per scope, layer, query and key, with both tokens and the value; with `heads` one row per head too.

        Raises:
            ScopeKeyError: with `heads`, if the result has none.
        """
        if not heads:
            return self.token_maps().to_dataframe().rename(columns={"channel": "scope"})
        frames = {scope: self.token_maps(scope, heads=True).to_dataframe() for scope in self.scopes}
        joint = pd.concat(frames, names=["scope", None]).reset_index("scope")
        return joint.rename(columns={"channel": "head"}).reset_index(drop=True)

    @classmethod
    def from_file(cls, file: TensorFile, path: Path) -> "ContributionMaps":
        """Result from a file, including files of tl_ffblock 0.2.0 (version 1).

        Raises:
            MapFileError: if the file is of another version, or incomplete.
        """
        if file.version != 1:
            return super().from_file(file, path)
        labels: dict[str, Any] = {
            name: tuple(held) if isinstance(held, list) else held for name, held in file.labels.items()
        }

        def made() -> ContributionMaps:
            scopes, channels, layers = labels.pop("scopes"), labels.pop("heads", ()), labels["layers"]
            names = (*TABLES, *("heads",) * bool(channels))
            data: dict[str, Any] = {
                name: {scope: file.tensors[f"{name}.{scope}"] for scope in scopes} for name in names
            }
            heads = HeadTable(data.pop("heads"), layers, channels) if channels else HeadTable()
            return cls(**labels | {name: ScopeTable(held, layers) for name, held in data.items()}, heads=heads)

        return as_described(made, cls, path)

    def to_html(  # type: ignore[override]  # of the options that there are
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        layer: int | None = None,
        scope: str | None = None,
        query: int | str | None = None,
        view: str | None = None,
        segments: Mapping[str, int] | None = None,
        beside: Any = (),
        against: "ContributionMaps | None" = None,
    ) -> Any:
        """Self-contained page of the maps: its HTML, or with `path` the path of the written file.

        Args:
            path: File to write; None returns the HTML.
            layer: Layer at which the page opens, negative ones from the end; None means the layer that the step changes most.
            scope: Step at which it opens, by the scope that it ends in; None means the feed-forward block.
            query: Query at which it opens, a position or a token; None means the query that changes most.
            view: "overview" (all layers), "maps" (one layer), "memories" (a card in a panel), or for maps with heads "heads" (lines
                between tokens) or "all" (every layer and head). None means the overview, and with `layer` the maps.
            segments: Start position of each part of the text, by name, such as `{"prompt": 0, "generated": 12}`. The view of
                heads can show only lines between two of them. None means sentences A and B if one separator (`[SEP]`) is
                between two texts.
            beside: Panels of the same text: maps to compare with, such as those of `attention_maps`; results of
                `ffb.attribute`; cards of memories.
            against: Another result with equally many tokens and the same layers, scopes and queries, such as of another
                checkpoint. The page shows both and their difference.

        Raises:
            InputError: if an option does not fit the result, `beside` is of another text, `segments` do not fit it, or the
                folder of `path` does not exist.
            ModuleNotFoundError: if CircuitsVis is not installed and the text is short enough for it.
        """
        where: dict[str, Any] = {"layer": layer, "scope": scope, "query": query, "view": view, "segments": segments}
        return super().to_html(path, **where, beside=beside, against=against)

    def show(  # type: ignore[override]  # of the options that there are
        self,
        *,
        height: int = 820,
        layer: int | None = None,
        scope: str | None = None,
        query: int | str | None = None,
        view: str | None = None,
        segments: Mapping[str, int] | None = None,
        beside: Any = (),
        against: "ContributionMaps | None" = None,
    ) -> Any:
        """The page in a notebook cell; options as in `to_html`, without CircuitsVis.

        With Matplotlib, a still picture of the opening view is next to it, for readers that show no frames.

        Args:
            height: Height of the frame in pixels, until the page reports its own.
            layer: As in `to_html`.
            scope: As in `to_html`.
            query: As in `to_html`.
            view: As in `to_html`.
            segments: As in `to_html`.
            beside: As in `to_html`.
            against: As in `to_html`.

        Raises:
            InputError: as in `to_html`, and if `height` is not positive.
        """
        where: dict[str, Any] = {"layer": layer, "scope": scope, "query": query, "view": view, "segments": segments}
        return super().show(height=height, **where, beside=beside, against=against)

    def figure(  # type: ignore[override]  # these have no figure without a layer
        self,
        *,
        layer: int,
        scope: str,
        against: str | None = None,
        width: float | None = None,
        title: str | bool | None = True,
        caption: str | bool | None = True,
    ) -> Any:
        """One map, or two and their difference, as a Matplotlib figure: shares of each row without its own token.

        Args:
            layer: Layer number, negative ones from the end.
            scope: Scope of the map.
            against: Another scope to compare with; None means `scope` alone.
            width: Inches; None means one column of a paper for one map, two for three.
            title: Text above the figure; True means its own, None means none.
            caption: Text below the figure; True means its own, None means none.

        Raises:
            ScopeKeyError: if a scope is missing.
            InputError: if there is no such layer.
            ModuleNotFoundError: if Matplotlib is not installed.
        """
        drawn: dict[str, Any] = {"layer": layer, "scope": scope, "against": against, "width": width}
        return super().figure(title=title, caption=caption, **drawn)

    def to_circuitsvis(
        self,
        scope: str,
        layer: int,
        *,
        head: int | None = None,
        kind: Literal["pattern", "heads"] = "pattern",
        height: int = 640,
    ) -> Any:
        """One map, of all heads or of one, as CircuitsVis's `AttentionPattern`, or the heads as `AttentionHeads`.

        CircuitsVis's Python functions are not used, since they use the network at every display and execute tokens as HTML. The
        script is that of the installed wheel, tokens are visible and escaped, the mask is the model's and the scale the data's.

        Args:
            scope: Scope of the map.
            layer: Layer number, negative ones from the end.
            head: A head, for maps with heads; None means the map of the layer.
            kind: "pattern", or "heads" for all heads of maps with heads.
            height: Height of the frame in pixels.

        Raises:
            InputError: for an unknown layer or `kind`, or maps with a choice of queries.
            ScopeKeyError: if a scope is missing, or the maps have no heads.
            ModuleNotFoundError: if CircuitsVis is not installed.
        """
        maps = self.token_maps(scope, heads=kind == "heads" or head is not None)
        channel = scope if kind == "pattern" else None
        return maps.to_circuitsvis(layer, channel if head is None else f"head {head}", height=height)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        error, scope, layer, query = self.worst_completeness()
        rows = "" if len(self.queries) == len(self.tokens) else f" · {len(self.queries)} queries"
        dtype = str(next(iter(self.values.values())).dtype).removeprefix("torch.")
        kind = "difference of contribution maps" if self.signed else "contribution maps"
        place = f"{scope}, layer {layer}, query {query} {visible(self.tokens[query])!r}"
        return (
            f"{kind} of {self.model} ({self.order}) · {len(self.tokens)} tokens{rows} · layer{'s' * (len(self.layers) > 1)} "
            f"{spans(self.layers)} · {dtype}",
            {
                "tokens": shortened(self.tokens),
                "scopes": ", ".join(self.scopes),
                "completeness": f"worst relative error {scientific(error)} ({place})",
            },
        )
