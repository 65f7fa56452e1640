"""Data of pages: a text, and results ("runs") with named blocks; independent of how they were computed."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.page.numbers import FULL_DIGITS, pack, pack_reachable, rounded

View: TypeAlias = Literal["overview", "maps", "heads", "all", "scores", "memories", "numbers", "graph", "logit"]
"""Views of a page. "overview": a target or maps through all layers. "maps": maps of one layer. "heads": lines of heads. "all": every
layer and head. "scores": attention scores by term. "memories": cards of memories. "numbers": numbers by component. "graph": a
layered graph. "logit": former name of "overview"."""
_HEADS = "maps by head. Use heads=True, or attention_maps as beside="
# Kind of block that each view shows, and the end of the error without one.
_NEEDED = {
    "maps": ("maps", "maps"),
    "heads": ("maps", _HEADS),
    "all": ("maps", _HEADS),
    "scores": ("scores", "attention scores. Pass ffb.attention_scores of the same text as beside="),
    "memories": ("memory", "a memory's card. Pass one as beside="),
    "numbers": ("numbers", "numbers by component"),
    "graph": ("graph", "a graph. Pass one of the same text (ffb.flow_graph) as beside="),
    "overview": (
        "logit",
        "several layers, or an attribution. Pass one of the same text (ffb.attribute) as beside=",
    ),
}
# Significant digits of displayed attributions.
SHOWN_DIGITS = 4
# Significant digits of numbers of maps and graphs in the page: two more than displayed, so that double rounding changes the last
# digit of one number in hundreds.
MAP_DIGITS = 6
# Significant digits of tracks: all of a double.
EXACT_DIGITS = 17


@dataclass(frozen=True)
class PageText:
    """Positions of the text, common to all blocks and runs of a page.

    `queries` are the positions of rows. `words` has the word number of each position. `special` are the positions of special tokens.
    `segments` are names and first positions of segments, such as two sentences. Cells above the diagonal of a `causal` model are
    omitted. `named` means that labels are names of positions, which have no numbers; `details` are then the tokens at them.
    """

    queries: tuple[int, ...]
    layers: tuple[int, ...]
    causal: bool
    words: tuple[int, ...]
    special: tuple[int, ...] = ()
    segments: tuple[tuple[str, int], ...] = ()
    named: bool = False
    details: tuple[str, ...] = ()

    def is_square(self, most: int) -> bool:
        """Whether all positions are rows, and at most `most`."""
        return len(self.words) <= most and self.queries == tuple(range(len(self.words)))

    def reachable(self) -> Bool[Tensor, "query key"]:
        """Cells that the page has: all, or key <= query in a causal model."""
        keys, rows = torch.arange(len(self.words)), torch.tensor(self.queries)[:, None]
        return keys <= rows if self.causal else torch.ones(len(rows), len(keys), dtype=torch.bool)


@dataclass(frozen=True)
class DataBlock:
    """A block with its own view, as values for JSON: attention scores, a memory's card, an attribution.

    `json["kind"]` is the format that a view reads; `precision` is the largest relative error of the numbers.
    """

    json: Mapping[str, Any]
    precision: float


def maps_labels(
    *,
    title: str,
    short: str,
    unit: str,
    meaning: str,
    axis: Literal["scope", "head", "expert"] = "scope",
    of: str = "",
    signed: bool = False,
    sides: tuple[str, ...] = (),
    cells: Literal["others", "none"] = "others",
    shares: Literal["others", ""] = "",
    whole: bool = True,
    exact: bool = False,
) -> dict[str, Any]:
    """Labels of maps on a page.

    Args:
        title: Name of the maps: "contributions".
        short: Name of a number, in one word: "norm".
        unit: Name of a number with its unit.
        meaning: Meaning of a cell, as the end of the sentence "A cell: ...".
        axis: Kind of the channels.
        of: For heads and experts: the scope to whose contributions they sum.
        signed: Whether values can be negative; then there are no shares.
        sides: Names of both sides of a difference.
        cells: Opening display of cells: "others" (shares of the row without its own token) or "none" (values).
        shares: "others" if values are such shares; then the page computes none.
        whole: Whether rows have all their sources on the page; else the page computes no shares of rows or columns.
        exact: Whether values are contributions, to which the page's certificate applies.
    """
    return {"kind": "maps", **locals()}


@dataclass(frozen=True)
class MapsBlock:
    """Maps of tokens by channel and layer: contributions by scope, head or expert, attention patterns, signed attributions.

    `labels` are from `maps_labels`. Each of `channels` has a name, a label, the channel before it (for comparison), and the component
    between both. `columns` are further numbers of each row, by name and channel. Each of `tracks` (numbers per layer) has a title, a
    note, columns (channel, ref, label, words) and values by channel. Its flags are stretched colours and cumulative columns.
    `coarse` means two digits, in half the space.
    """

    labels: Mapping[str, Any]
    channels: Sequence[Mapping[str, str | None]]
    values: Mapping[str, Float[Tensor, "layer query key"]]
    columns: Mapping[str, Mapping[str, Float[Tensor, "layer query"]]] = field(default_factory=dict)
    tracks: Sequence[dict[str, Any]] = ()
    coarse: bool = False

    def payload(self, text: PageText) -> DataBlock:
        """Labels, and packed numbers of each channel.

        Raises:
            InputError: if a table does not have the shape [layer query key] of the text.
        """
        cells = text.reachable()
        shape = (len(text.layers), *cells.shape)
        by_name = {str(channel["name"]): self.values[str(channel["name"])] for channel in self.channels}
        for name, maps in by_name.items():
            if tuple(maps.shape) != shape:
                raise InputError(
                    f"values of {name} have shape {tuple(maps.shape)}, expected [layer query key] = {shape}."
                )
        opening = next((c["before"] for c in self.channels if c["component"] == "FF" and c["before"] in by_name), None)
        values = pack_reachable(by_name, cells, coarse=self.coarse, root=opening)
        columns = {name: {c: pack(rows) for c, rows in table.items()} for name, table in self.columns.items()}
        json = dict(self.labels) | {
            "channels": [_shortened(channel) for channel in self.channels],
            "tracks": [track | {"values": rounded(track["values"], EXACT_DIGITS)} for track in self.tracks],
            "values": {name: table.payload for name, table in values.items()},
            "columns": {n: {c: rows.payload for c, rows in table.items()} for n, table in columns.items()},
        }
        return DataBlock(json, max(t.precision for held in (values, *columns.values()) for t in held.values()))


def _shortened(channel: Mapping[str, str | None]) -> dict[str, str]:
    """A channel as it is sent: without what it lacks, and without a label that is its name."""
    return {key: value for key, value in channel.items() if value and (key, value) != ("label", channel["name"])}


@dataclass(frozen=True)
class NumbersBlock:
    """Numbers by component: attributions by position, maps with rows such as layers, tables.

    One of `rows` (name, value, attributions by position, sums as pairs of name and number) is an attribution. Several are tokens of a
    continuation, drawn as a matrix [target source]. `maps` are from `shares_map`. Each of `tables` has title, note and entries, and may
    say that its numbers are not `signed`, or changes by a `removal`. Each of `curves` has title, note, fractions x, values y with
    their low and high ends, a name per point, and a label of its area to 1.
    `heading` and `facts` are the head of a page without other blocks.
    """

    heading: str = ""
    facts: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    maps: tuple[dict[str, Any], ...] = ()
    tables: tuple[Mapping[str, Any], ...] = ()
    curves: tuple[Mapping[str, Any], ...] = ()

    def payload(self, _: PageText) -> DataBlock:
        """The block as values for JSON."""
        maps = [rounded(each, FULL_DIGITS) | {"values": rounded(each["values"], MAP_DIGITS)} for each in self.maps]
        shown = {"rows": rounded(self.rows, FULL_DIGITS), "maps": maps, "tables": rounded(self.tables, FULL_DIGITS)}
        shown |= {"curves": rounded(self.curves, FULL_DIGITS)} if self.curves else {}
        json = {"kind": "numbers", "heading": self.heading, "facts": self.facts, **shown}
        return DataBlock(json, 0.5 * 10.0 ** (1 - MAP_DIGITS))


@dataclass(frozen=True)
class PageNode:
    """A node of a graph, with its place and the text of its card.

    `label` is a token, `short` a short name, `name` the full name, `says` the node's top tokens. By target: its attribution `shares`,
    that of its own biases (`own_shares`), and that of `unseen` terms which are not on the page (`rest_shares`); `ranks` (from 1; 0
    for none) and `probabilities` of the target's token. `entropy` is that of the node's tokens, in nats; None without tokens.
    """

    column: int
    lane: int
    label: str
    short: str
    name: str
    says: tuple[str, ...]
    facts: tuple[tuple[str, float], ...]
    shares: tuple[float, ...]
    own_shares: tuple[float, ...]
    rest_shares: tuple[float, ...]
    unseen: int = 0
    ranks: tuple[int, ...] = ()
    probabilities: tuple[float, ...] = ()
    entropy: float | None = None


@dataclass(frozen=True)
class PageEdge:
    """An edge of a graph, with attributions `shares` and the slider's `weights` by target; some edges are `always` shown.

    `span` has the layers of the nodes that it stands for, such as "1-22"; empty for an edge of its own.
    """

    source: int
    target: int
    unit: str
    size: float
    shares: tuple[float, ...]
    weights: tuple[float, ...]
    always: bool = False
    span: str = ""


@dataclass(frozen=True)
class PageTarget:
    """A target; nodes have rank and probability of its `token`."""

    name: str
    value: float
    token: str = ""


@dataclass(frozen=True)
class GraphBlock:
    """A layered graph.

    `meaning` explains lines and colours, `columns` are headings, `widths` explain units that are drawn as line widths. Without
    `targets` the slider compares sizes. The page opens with at most `shown` edges in addition to those that are always shown.
    `position` is the marked token, `start` the node in the centre of a picture that is larger than its frame; -1 means none.
    `counts` are nodes and edges of the whole graph in words, `drawn` says which of them the page has. `n_edges` and `size` are the
    number of all edges and the sum of their absolute weights, 0 if it is not known. `signed` and `removal` are those of `shares_map`.
    """

    heading: str
    meaning: str
    columns: tuple[str, ...]
    lanes: int
    nodes: tuple[PageNode, ...]
    edges: tuple[PageEdge, ...]
    targets: tuple[PageTarget, ...]
    widths: Mapping[str, str]
    certificate: str = ""
    shown: int = 400
    position: int = -1
    start: int = -1
    counts: str = ""
    drawn: str = ""
    n_edges: int = 0
    size: float = 0.0
    signed: bool = True
    removal: bool = False

    def payload(self, _: PageText) -> DataBlock:
        """The block as values for JSON, rounded to six digits; NaN and infinity are null."""
        json: dict[str, Any] = {"kind": "graph", **rounded(asdict(self), MAP_DIGITS)}
        return DataBlock(json, 0.5 * 10.0 ** (1 - MAP_DIGITS))


PageBlock: TypeAlias = MapsBlock | NumbersBlock | GraphBlock | DataBlock
"""Blocks of a page."""


def _kind_of(block: PageBlock, view: View) -> str:
    """Kind of a block; empty for maps that the view cannot show."""
    if isinstance(block, MapsBlock):
        return "maps" if view in ("maps", "overview") or block.labels["axis"] == "head" else ""
    if isinstance(block, GraphBlock):
        return "graph"
    return "numbers" if isinstance(block, NumbersBlock) else str(block.json["kind"])


@dataclass(frozen=True)
class PageStart:
    """Opening state of a page: layer, channel of the first block, positions of row and column, run, run of comparison, view.

    `heads` are the chosen heads, such as "3" or "3.7"; "" means none.
    """

    layer: int
    scope: str
    to: int
    from_: int
    run: int = 0
    ref_run: int = 0
    view: View = "maps"
    heads: str = ""


@dataclass(frozen=True)
class PageRun:
    """One result on a page: its name such as "clean", visible tokens, and blocks by name.

    Channels of the first block are named without their block.
    """

    name: str
    tokens: tuple[str, ...]
    blocks: Mapping[str, PageBlock]


@dataclass(frozen=True)
class PageData:
    """Data of a page. All runs have the same blocks and channels. A page without maps has an overview of a target, numbers or a graph.

    `certificate` is the largest completeness error with its place; None if it is not known. `statement` is shown instead. `layered`
    is False if the only layer is the whole model; the page then shows no layer. `circuitsvis` allows CircuitsVis for square maps.
    """

    model: str
    heading: str
    text: PageText
    runs: tuple[PageRun, ...]
    start: PageStart
    certificate: Mapping[str, Any] | None = None
    provenance: Mapping[str, str] = field(default_factory=dict)
    layered: bool = True
    statement: str = ""
    circuitsvis: bool = False

    def __post_init__(self) -> None:
        """Check runs and the opening view.

        Raises:
            InputError: if runs differ in number of tokens or in blocks, or if there is no block for the opening view.
        """
        n, first = len(self.text.words), self.runs[0].blocks
        for run in self.runs:
            if len(run.tokens) != n or list(run.blocks) != list(first):
                raise InputError(
                    f"run {run.name} has {len(run.tokens)} tokens and the blocks {', '.join(run.blocks)}: "
                    f"expected {n} tokens and {', '.join(first)}, as the first run."
                )
        (kind, lacking), view = _NEEDED[self.start.view], self.start.view
        kinds = [_kind_of(block, view) for block in first.values()]
        through = view == "overview" and "maps" in kinds and self.layered and len(self.text.layers) > 1
        if kind not in kinds and not through:
            raise InputError(f'view="{view}": this page lacks {lacking}.')

    def payload(self) -> dict[str, Any]:
        """Labels and packed numbers as values for JSON, with the keys that the page's scripts read."""
        sent = [
            {name: b if isinstance(b, DataBlock) else b.payload(self.text) for name, b in run.blocks.items()}
            for run in self.runs
        ]
        renamed = {"from_": "from", "ref_run": "refRun"}
        return {
            "model": self.model,
            "heading": self.heading,
            "runs": [
                {
                    "name": run.name,
                    "tokens": run.tokens,
                    "blocks": _once({name: dict(block.json) for name, block in blocks.items()}),
                }
                for run, blocks in zip(self.runs, sent, strict=True)
            ],
            **asdict(self.text),
            "start": {renamed.get(name, name): value for name, value in asdict(self.start).items()},
            "certificate": self.certificate,
            "precision": max((block.precision for blocks in sent for block in blocks.values()), default=0.0),
            "layered": self.layered,
            "statement": self.statement,
            "provenance": dict(self.provenance),
        }


def _once(blocks: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Blocks in which a table that an earlier block has under the same name is `{"same": block}`, such as heads before and after adding."""
    held: dict[tuple[str, str], str] = {}
    for name, block in blocks.items():
        tables = block["values"] if block["kind"] == "maps" else {}
        for channel, table in tables.items():
            held.setdefault((channel, str(table)), name)
        if tables:
            shared = {channel: held[channel, str(table)] for channel, table in tables.items()}
            block["values"] = {
                channel: table if shared[channel] == name else {"same": shared[channel]}
                for channel, table in tables.items()
            }
    return blocks


def numbers_page(
    model: str,
    block: NumbersBlock,
    tokens: tuple[str, ...] = (),
    *,
    statement: str = "",
) -> PageData:
    """Data of a page with numbers only.

    Args:
        model: Name of the model.
        block: The numbers.
        tokens: Visible tokens of the text; none if numbers are of no text, or of several.
        statement: Sentence on the numbers.
    """
    text = PageText(queries=(), layers=(0,), causal=False, words=tuple(range(len(tokens))))
    start = PageStart(0, "", 0, 0, view="numbers")
    runs = (PageRun("run", tokens, {"numbers": block}),)
    return PageData(model, block.heading, text, runs, start, statement=statement, layered=False)


def shares_map(
    title: str,
    note: str,
    rows: tuple[str, Sequence[str]],
    columns: tuple[str, Sequence[str]],
    values: Tensor,
    details: Mapping[str, Any] | None = None,
    *,
    signed: bool = True,
    removal: bool = False,
) -> dict[str, Any]:
    """A map of a `NumbersBlock`.

    Args:
        title: Title of the map.
        note: Meaning of a cell.
        rows: Name of the row axis, and labels of the rows.
        columns: Name of the column axis, and labels of the columns.
        values: Numbers [row column].
        details: By "row,column": names and numbers of a cell's details.
        signed: Whether numbers can be negative; otherwise colours begin at zero.
        removal: Whether numbers are changes of a target without a component. Negative ones are orange, because it supports the target.
    """
    named = {"title": title, "note": note, "row": rows[0], "column": columns[0], "rows": rows[1], "columns": columns[1]}
    return named | {"values": values, "details": details or {}, "signed": signed, "removal": removal}


def graph_page(model: str, block: GraphBlock, tokens: tuple[str, ...], provenance: Mapping[str, str]) -> PageData:
    """Data of a page with a graph only.

    Args:
        model: Name of the model.
        block: The graph.
        tokens: Visible tokens of the text; none if the graph is of several texts.
        provenance: Settings of the computation.
    """
    text = PageText(queries=(), layers=(0,), causal=False, words=tuple(range(len(tokens))))
    at = max(0, block.position)
    start = PageStart(0, "", at, at, view="graph")
    runs = (PageRun("run", tokens, {"graph": block}),)
    return PageData(
        model, block.heading, text, runs, start, provenance=provenance, layered=False, statement=block.certificate
    )
