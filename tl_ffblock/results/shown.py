"""What every result of contributions can do to be seen: a page, a notebook cell, CircuitsVis, a figure of Matplotlib."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.files import write_atomically
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.scopes import missing_scope
from tl_ffblock.page import PageView, View, component_page, iframe, page
from tl_ffblock.results.companions import Beside
from tl_ffblock.results.map_figure import map_figure
from tl_ffblock.results.page_blocks import steps_of
from tl_ffblock.results.page_data import Result, page_data
from tl_ffblock.results.stills import has_figures, png
from tl_ffblock.results.tokens import visible
from tl_ffblock.signatures import spelled_out, strict

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class PageOptions(TypedDict, total=False):
    """Where a page of maps opens, and what stands beside them."""

    layer: int | None
    scope: str | None
    query: int | str | None
    view: View
    segments: Mapping[str, int] | None
    beside: Beside


_OPENING = {"layer": None, "scope": None, "query": None, "view": "maps", "segments": None, "beside": ()}


@strict
class ShownMaps:
    """Methods of `ContributionMaps`, three ways to draw the same maps.

    The page (`to_html`, `show`) draws any size, compares any two scopes and is interactive. CircuitsVis (`to_circuitsvis`) is
    what a reader of other TransformerLens work knows; it draws every cell as an object, so up to some 64 tokens. Matplotlib
    (`figure`) makes a still picture that other figures can stand beside.
    """

    @spelled_out(PageOptions, _OPENING)
    def to_html(self: Result, path: str | os.PathLike[str] | None = None, **options: Unpack[PageOptions]) -> str:
        """One self-contained page of the run; written to `path` when given.

        Args:
            path: File to write, if any.
            layer: Layer to open at, negative ones from the end; None means the one the step changed most.
            scope: Step to open at, named by the scope it ends in; None means the feed-forward block.
            query: Destination to open at, a position or a token as the tokenizer shows it; None means the one that changed most.
            view: "maps", or of maps made with heads "heads" (lines between tokens) or "all" (every layer and head), or
                "memories" where a card of one stands beside, or "logit" where an attribution does.
            segments: Where each part of the text begins, by its name, such as `{"prompt": 0, "generated": 12}`: the view of heads
                can show the lines between two of them alone. None means the sentences A and B where one separator (`[SEP]`)
                stands between two.
            beside: What stands beside them, of the same text: maps to compare with, such as those of `attention_maps`; results of
                `ffb.attribute`; cards of memories.

        Raises:
            InputError: if what is asked for is not in the result, `beside` is of another text, `segments` do not fit it, or the
                folder of `path` does not exist.
            ModuleNotFoundError: if CircuitsVis is not installed and the text is short enough for it.
        """
        html = page(page_data({"run": self}, **options), circuitsvis=True)
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    @spelled_out(PageOptions, _OPENING)
    def show(self: Result, *, height: int = 820, **options: Unpack[PageOptions]) -> PageView:
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

        Raises:
            InputError: as `to_html`, and if `height` is not positive.
        """
        data = page_data({"run": self}, **options)
        before = steps_of(self.order, self.values, self.signed)[data.start.scope][1]
        still = _still(self, data.start.layer, data.start.scope, before)
        return iframe(page(data), height=height, still=still)

    def to_circuitsvis(
        self: Result, scope: str, layer: int, *, kind: Literal["pattern", "heads"] = "pattern", height: int = 640
    ) -> PageView:
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
        if kind not in ("pattern", "heads"):
            raise InputError(f'kind={kind!r}: expected "pattern" or "heads".')
        if len(self.queries) != len(self.tokens):
            raise InputError(
                f"CircuitsVis draws square maps; these hold {len(self.queries)} queries of {len(self.tokens)} tokens. "
                "Make maps of all queries, or use to_html."
            )
        number = layer_number(layer, self.layers)
        cells = (self.heads if kind == "heads" else self.values)[scope, number].detach().cpu().float()
        limit = float(cells.abs().max()) or 1.0
        properties = {
            "attention": cells.tolist(),
            "tokens": [visible(token) for token in self.tokens],
            "maxValue": limit,
            "minValue": -limit if self.signed else 0.0,
            "maskUpperTri": self.causal,
        }
        if kind == "heads":
            properties["attentionHeadNames"] = list(self.heads.channels)
        component: Literal["AttentionHeads", "AttentionPattern"] = (
            "AttentionHeads" if kind == "heads" else "AttentionPattern"
        )
        heading = f"{self.model}, layer {number}, {scope}{' by head' if kind == 'heads' else ''}"
        html = component_page(component, properties, heading=heading)
        return iframe(html, height=height, title=heading, still=_still(self, number, scope, None))

    def figure(
        self: Result, *, layer: int, scope: str, against: str | None = None, width: float | None = None
    ) -> "Figure":
        """One map, or two and their difference, as a Matplotlib figure: shares of the others, colours of the page.

        Args:
            layer: Layer number, negative ones from the end.
            scope: The scope shown.
            against: Another to compare with; None means `scope` alone.
            width: Inches; None means one column of a paper for one map, two for three.

        Raises:
            ScopeKeyError: if a scope is missing.
            InputError: if there is no such layer.
            ModuleNotFoundError: if Matplotlib is not installed.
        """
        missing = [name for name in (scope, against) if name is not None and name not in self.values]
        if missing:
            raise ScopeKeyError(missing_scope(missing[0], self.values))
        return map_figure(self, layer_number(layer, self.layers), scope, against, width)


def _still(maps: Result, layer: int, scope: str, against: str | None) -> bytes | None:
    """Maps as a PNG; None without Matplotlib."""
    return png(map_figure(maps, layer, scope, against, None)) if has_figures() else None
