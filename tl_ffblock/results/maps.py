"""ContributionMaps: the labelled result, one sequence through one model.

A map is `[query, key]`: row = the position whose vector is written as a sum (destination), column =
the source token. Values are norms `||F_i(x_j)||` in residual-stream units, always >= 0; only a
difference of two results is signed. Every map carries the norm of its bias part, the norm of its
remainder (the effect of edits made inside the block by the user's own hooks, else 0) and its
completeness error, so nothing of the layer's vector is out of sight.
"""

import dataclasses
import operator
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import torch
from jaxtyping import Bool
from torch import Tensor

from tl_ffblock.errors import CallError, InputError, brief
from tl_ffblock.files import TensorFile
from tl_ffblock.layer.positions import several, spans
from tl_ffblock.layer.scopes import Order
from tl_ffblock.numerals import scientific
from tl_ffblock.result import Result, as_described, views
from tl_ffblock.results.intervals import identity_of
from tl_ffblock.results.tables import TABLES, Arithmetic, ExpertTable, HeadTable, ScopeTable, alike, combined, pairwise
from tl_ffblock.results.token_maps import TokenMaps, reachable_cells
from tl_ffblock.results.tokens import BETWEEN_SIDES, shortened, sides_of, visible
from tl_ffblock.signatures import real, strict

# Sums, differences and means of maps; of several completeness errors the worst is kept.
_COMBINED = Arithmetic(
    same=("layers", "scopes", "queries", "order", "causal", "heads.channels", "experts.channels"),
    joined=("tokens", "model", "provenance"),
    numbers=("values", "bias", "remainder", "heads", "experts"),
    largest=("completeness", "signed"),
)
# Under which names a difference's provenance has what it is of.
SIDES = ("difference of", "minus")


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class ContributionMaps(Result):
    """Contributions of every source token to every asked position, by scope and layer.

    `maps[scope]` is `Float[layer query key]`, `maps[scope, layer]` is `Float[query key]` with the
    model's own layer number, negative ones counted from the last layer held. Rows are the positions
    in `queries` (all of them unless asked otherwise), columns all tokens. `bias`, `remainder` and
    `completeness` are indexed the same way and give one number per query. Where heads were asked for,
    `maps.heads[scope, layer]` is `Float[head query key]`, its first axis named by `maps.heads.channels`; so are `maps.experts` of
    a mixture of experts.

    Results of equally many tokens, the same layers, scopes and queries can be added, subtracted and
    averaged (`ContributionMaps.mean`); `==` compares all labels and numbers.
    """

    tokens: tuple[str, ...]
    """The tokens as the tokenizer shows them, or ids as text where there is no tokenizer."""
    layers: tuple[int, ...]
    """Layer numbers of the model, ascending."""
    order: Order
    """Where the norms stand, a key of `tl_ffblock.layer.scopes.PROGRAMS` such as "post_ln" or "pre_ln"."""
    queries: tuple[int, ...]
    """Position of each row."""
    causal: bool
    """Whether a position sees only itself and earlier ones."""
    values: ScopeTable
    """Float[layer query key] by scope: the contributions."""
    bias: ScopeTable
    """Float[layer query] by scope: norm of the bias part."""
    remainder: ScopeTable
    """Float[layer query] by scope: norm of the effect of edits inside the block."""
    completeness: ScopeTable
    """Float[layer query] by scope: relative completeness error against the model's own tensor."""
    model: str = "model"
    """Name of the model, for labels."""
    signed: bool = False
    """True where numbers can be negative, as in a difference of two results."""
    heads: HeadTable = dataclasses.field(default_factory=HeadTable)
    """Float[layer head query key] by scope: contributions through each head and the residual, where they were asked for."""
    experts: ExpertTable = dataclasses.field(default_factory=ExpertTable)
    """Float[layer expert query key] by scope: contributions through each expert and through none, where they were asked for."""
    provenance: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """How the numbers were made: method, value_bias, rtol, dtype, versions."""

    @property
    def identity(self) -> Mapping[str, str]:
        """What must be the same of results of which there is a mean: quantity, model and weights, how they were made."""
        return identity_of("difference of " * self.signed + "contributions", self.model, self.provenance)

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes present, in the order they follow each other in the layer."""
        return tuple(self.values)

    def __getitem__(self, key: str | tuple[str, int]) -> Tensor:
        return self.values[key]

    def __iter__(self) -> Iterator[str]:
        """Refuse, always: over scopes, layers or rows would be a guess."""
        raise CallError(
            "these are the maps of one sequence: iterate over maps.scopes or maps.layers, and index maps[scope, layer]. "
            "A list of results comes from a list of texts."
        )

    @property
    def sides(self) -> tuple[str, ...]:
        """Of a difference: names of the two that it is of, the first less the second; empty where they are not known."""
        return tuple(self.provenance[side] for side in SIDES if side in self.provenance)

    @strict
    def faults(self) -> Iterator[str]:
        """Tables of other layers, scopes, queries or tokens than the maps."""
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
        """The largest completeness error with its scope, layer and query position."""
        scope = max(self.scopes, key=lambda scope: float(self.completeness[scope].max().nan_to_num(-1.0)))
        table = self.completeness[scope]
        row, column = divmod(int(table.argmax()), table.shape[1])
        return float(table[row, column]), scope, self.layers[row], self.queries[column]

    def reachable(self) -> Bool[Tensor, "query key"]:
        """The cells that can be non-zero: all, or key <= query in a causal model."""
        return reachable_cells(self.queries, len(self.tokens), self.causal)

    def token_maps(
        self, scopes: Sequence[str] | str | None = None, *, heads: bool = False, experts: bool = False
    ) -> TokenMaps:
        """The maps of some scopes (None: all) as one tensor [layer channel query key], the scopes as channels.

        Args:
            scopes: Which scopes, in this order.
            heads: Whether the channels are the heads and the residual, of one scope.
            experts: Whether the channels are the experts and what goes through none, of one scope.

        Raises:
            ScopeKeyError: if a scope is missing, or the maps were made without heads or experts.
            InputError: if no scope is given, or several where channels are the heads or experts of one, or both are asked for.
        """
        named = self.scopes if scopes is None else tuple(several(scopes))
        if not named:
            raise InputError(f"scopes={scopes!r}: no scope given; there are {', '.join(self.scopes)}.")
        if heads and experts:
            raise InputError(
                "heads=True with experts=True: channels are the heads or the experts. Give one of the two."
            )
        by = "experts" if experts else "heads"
        if (heads or experts) and len(named) > 1:
            raise InputError(f"{by}=True of {len(named)} scopes: channels are the {by} of one, such as {named[0]!r}.")
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
        """Cell by cell sum of two results; tokens that differ are labelled with both.

        Raises:
            InputError: if the two do not describe the same cells.
        """
        if not isinstance(other, ContributionMaps):
            return NotImplemented
        return combined([self, other], pairwise(torch.add), "|", "add", _COMBINED)

    def __sub__(self, other: "ContributionMaps") -> "ContributionMaps":
        """Signed difference of two results; tokens that differ are labelled "first / second", and `sides` names both.

        Raises:
            InputError: if the two do not describe the same cells.
        """
        if not isinstance(other, ContributionMaps):
            return NotImplemented
        difference = combined([self, other], pairwise(torch.sub), BETWEEN_SIDES, "subtract", _COMBINED)
        names = sides_of(self.tokens, other.tokens, (self.model, other.model))
        return dataclasses.replace(
            difference, signed=True, provenance={**difference.provenance, **dict(zip(SIDES, names, strict=True))}
        )

    def __mul__(self, number: int | float) -> "ContributionMaps":
        """Every norm times a number; completeness errors are relative and stay."""
        return self._scaled(operator.mul, number)

    __rmul__ = __mul__

    def __truediv__(self, number: int | float) -> "ContributionMaps":
        """Every norm divided by a number; completeness errors are relative and stay.

        Raises:
            ZeroDivisionError: for 0.
        """
        if isinstance(number, Real) and number == 0:
            raise ZeroDivisionError("contribution maps divided by zero")
        return self._scaled(operator.truediv, number)

    @staticmethod
    def mean(results: "Iterable[ContributionMaps]") -> "ContributionMaps":
        """The mean of results of equally many tokens; tokens that differ are labelled with each, "she|he".

        Completeness is the worst of all.

        Raises:
            InputError: if there is none, or they do not describe the same cells, or are of different models or kinds.
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
        """Long form: one row per scope, layer, query and key, with both tokens and the value; with `heads` one per head too.

        Raises:
            ScopeKeyError: for heads of maps that were made without.
        """
        if not heads:
            return self.token_maps().to_dataframe().rename(columns={"channel": "scope"})
        frames = {scope: self.token_maps(scope, heads=True).to_dataframe() for scope in self.scopes}
        joint = pd.concat(frames, names=["scope", None]).reset_index("scope")
        return joint.rename(columns={"channel": "head"}).reset_index(drop=True)

    @classmethod
    def from_file(cls, file: TensorFile, path: Path) -> "ContributionMaps":
        """A result from what a file holds, one of tl_ffblock 0.2.0 (version 1) included.

        Raises:
            MapFileError: if the file is of another version, or something is missing from it.
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
        """One self-contained page of the run: its HTML, or with `path` the path of the file written.

        Args:
            path: File to write; None returns the HTML.
            layer: Layer to open at, negative ones from the end; None means the one the step changed most.
            scope: Step to open at, named by the scope it ends in; None means the feed-forward block.
            query: Destination to open at, a position or a token as the tokenizer shows it; None means the one that changed most.
            view: "overview" of all layers, "maps" of one, or of maps made with heads "heads" (lines between tokens) or "all" (every
                layer and head), or "memories" with a card in a panel; None means the overview, with `layer` the maps.
            segments: Where each part of the text begins, by its name, such as `{"prompt": 0, "generated": 12}`: the view of heads
                can show the lines between two of them alone. None means the sentences A and B where one separator (`[SEP]`)
                stands between two.
            beside: Panels beside them, of the same text: maps to compare with, such as those of `attention_maps`; results of
                `ffb.attribute`; cards of memories.
            against: Another run of equally many tokens, layers, scopes and queries, such as of another checkpoint: the page has
                both, each beside the other, and their difference.

        Raises:
            InputError: if what is asked for is not in the result, `beside` is of another text, `segments` do not fit it, or the
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
        """The page in a notebook cell, inside a frame of its own; options as in `to_html`, CircuitsVis left out.

        Where Matplotlib is installed a still picture of the opening view lies beside it, for readers without frames.

        Args:
            height: Pixels of the frame until the page says how high it is, and where notebooks run no scripts.
            layer: As in `to_html`.
            scope: As in `to_html`.
            query: As in `to_html`.
            view: As in `to_html`.
            segments: As in `to_html`.
            beside: As in `to_html`.
            against: As in `to_html`.

        Raises:
            InputError: as `to_html`, and if `height` is not positive.
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
        """One map, or two and their difference, as a Matplotlib figure: shares of the others, colours of the page.

        Args:
            layer: Layer number, negative ones from the end.
            scope: The scope shown.
            against: Another to compare with; None means `scope` alone.
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
        self, scope: str, layer: int, *, kind: Literal["pattern", "heads"] = "pattern", height: int = 640
    ) -> Any:
        """One map by CircuitsVis's `AttentionPattern`, or all heads of it by `AttentionHeads`.

        Its Python functions are not used: they ask the network at every display and run what tokens say. Here its script comes
        from the installed wheel, tokens are visible and inert, the mask is the model's and the scale the data's.

        Args:
            scope: Which scope.
            layer: Layer number, negative ones from the end.
            kind: "pattern", or "heads" of maps that were made with heads.
            height: Pixels of the frame in a notebook.

        Raises:
            InputError: for an unknown layer or `kind`, or maps with a choice of queries.
            ScopeKeyError: if a scope is missing, or the maps were made without heads.
            ModuleNotFoundError: if CircuitsVis is not installed.
        """
        return views().circuitsvis_view(self, scope, layer, kind, height)

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
