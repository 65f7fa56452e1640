"""What pages are made of: a text with runs and named blocks; nothing of how they were made."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.page.numbers import FULL_DIGITS, pack, pack_reachable, rounded

View: TypeAlias = Literal["overview", "maps", "heads", "all", "scores", "memories", "numbers", "graph", "logit"]
"""Ways to look at a page's data: the overview of a target, or of maps, through all layers, maps of one layer, lines of heads, every
layer and head, attention scores term by term, cards of memories, numbers by component, a layered graph; "logit" is the former name
of "overview"."""
_HEADS = "maps by head: make them with heads=True, or put attention_maps beside them"
# The kind of block that each view shows, and what a page without one lacks.
_NEEDED = {
    "maps": ("maps", "maps"),
    "heads": ("maps", _HEADS),
    "all": ("maps", _HEADS),
    "scores": ("scores", "attention scores: put attention_scores beside the maps"),
    "memories": ("memory", "a memory's card: put one beside the maps"),
    "numbers": ("numbers", "numbers by component"),
    "graph": ("graph", "a graph: put one of the same text (ffb.flow_graph) beside the maps"),
    "overview": (
        "logit",
        "several layers, or an attribution: put one of the same text (ffb.attribute) beside the maps",
    ),
}
# Significant digits of shares that are read.
SHOWN_DIGITS = 4
# Of numbers of maps and graphs, as they are sent: two more than are read, so that rounding twice gives another digit
# to one in hundreds.
MAP_DIGITS = 6
# Of rails: all that a double holds.
EXACT_DIGITS = 17


@dataclass(frozen=True)
class PageText:
    """The positions that all blocks and runs of a page share.

    `queries` are the positions of rows, `words` has for each position the number of its word, `special` the positions of special
    tokens, `segments` the names of parts that readers tell apart, such as two sentences, and where each begins. Cells that a
    `causal` model cannot reach are not sent. `named` says that labels are names of positions, whose numbers say nothing; `details`
    are then the tokens that stand there.
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
        """Whether all positions are rows, and they are no more than `most`."""
        return len(self.words) <= most and self.queries == tuple(range(len(self.words)))

    def reachable(self) -> Bool[Tensor, "query key"]:
        """The cells that are sent."""
        keys, rows = torch.arange(len(self.words)), torch.tensor(self.queries)[:, None]
        return keys <= rows if self.causal else torch.ones(len(rows), len(keys), dtype=torch.bool)


@dataclass(frozen=True)
class DataBlock:
    """A block with a view of its own, as JSON can hold it: scores, a memory's card, a target attributed.

    `json["kind"]` is the form that a view of the page's scripts reads; `precision` is the largest relative error of its numbers.
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
    """What a page says of maps.

    Args:
        title: What the maps are: "contributions".
        short: One of their numbers, in a word: "norm".
        unit: The same with its unit.
        meaning: What a cell says, as the end of the sentence "A cell: ...".
        axis: What the channels are.
        of: Of heads and experts: the scope whose maps they add up to.
        signed: Whether values can be negative; then there are no shares.
        sides: Of a difference: what it is of.
        cells: What cells are shown as when the page opens: shares of a row's sum over other tokens, or the values.
        shares: What the values themselves are shares of; then the page makes none.
        whole: Whether all sources of a row are on the page; else the page makes no shares of rows or columns.
        exact: Whether they are contributions of the layers, of which the page's certificate speaks.
    """
    return {"kind": "maps", **locals()}


@dataclass(frozen=True)
class MapsBlock:
    """Maps of tokens by channel and layer: contributions by scope, head or expert, attention patterns, signed attributions.

    `labels` are as `maps_labels` makes them. Each of `channels` has a name, a label in words, the channel before it, which it is
    compared with, and the component between the two. `columns` are further numbers of each row, by name and channel. Each of
    `tracks`, the rail of layers, has a title, a note, columns (channel, ref, label, words), values by channel, and whether
    colours are stretched and columns cumulative. `coarse` says whether two digits are enough, in half the space.
    """

    labels: Mapping[str, Any]
    channels: Sequence[Mapping[str, str | None]]
    values: Mapping[str, Float[Tensor, "layer query key"]]
    columns: Mapping[str, Mapping[str, Float[Tensor, "layer query"]]] = field(default_factory=dict)
    tracks: Sequence[dict[str, Any]] = ()
    coarse: bool = False

    def payload(self, text: PageText) -> DataBlock:
        """Labels, and each channel's numbers packed.

        Raises:
            InputError: if a table has another shape than the labels say.
        """
        cells = text.reachable()
        shape = (len(text.layers), *cells.shape)
        by_name = {str(channel["name"]): self.values[str(channel["name"])] for channel in self.channels}
        for name, maps in by_name.items():
            if tuple(maps.shape) != shape:
                raise InputError(
                    f"values of {name} have shape {tuple(maps.shape)}, the page's labels say [layer query key] = {shape}."
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
    """Numbers by component: shares of targets by position, maps whose rows may be layers, tables.

    One of `rows` (name, value, shares by position, sums as pairs of words and share) is an attribution, several are a
    continuation's tokens, drawn as a matrix [target, source]. Each of `maps` is as `shares_map` makes it. Each of `tables`
    has title, note and entries. `heading` and `facts` head a page that has nothing else.
    """

    heading: str = ""
    facts: str = ""
    rows: tuple[Mapping[str, Any], ...] = ()
    maps: tuple[dict[str, Any], ...] = ()
    tables: tuple[Mapping[str, Any], ...] = ()

    def payload(self, _: PageText) -> DataBlock:
        """As JSON can hold it."""
        maps = [rounded(each, FULL_DIGITS) | {"values": rounded(each["values"], MAP_DIGITS)} for each in self.maps]
        shown = {"rows": rounded(self.rows, FULL_DIGITS), "maps": maps, "tables": rounded(self.tables, FULL_DIGITS)}
        json = {"kind": "numbers", "heading": self.heading, "facts": self.facts, **shown}
        return DataBlock(json, 0.5 * 10.0 ** (1 - MAP_DIGITS))


@dataclass(frozen=True)
class PageNode:
    """A node of a graph, where it lies, and what its card says.

    `label` is a word (a token), `short` what it is in a word or two, `name` the same in words, `says` the tokens that it says. By
    target there are `shares`, its own (`own_shares`) and those that enter it from `unseen` terms that are not on the page
    (`rest_shares`), and `ranks` (1 is the first, 0 none) and `probabilities` of the target's token. `entropy` is that of the
    tokens, in nats; None where it says none.
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
    """What one node gives to another, by target `shares` and, for the slider, `weights`; some are `always` shown."""

    source: int
    target: int
    unit: str
    size: float
    shares: tuple[float, ...]
    weights: tuple[float, ...]
    always: bool = False


@dataclass(frozen=True)
class PageTarget:
    """A number that is attributed; nodes have rank and probability of its `token`."""

    name: str
    value: float
    token: str = ""


@dataclass(frozen=True)
class GraphBlock:
    """A layered graph.

    `meaning` says what lines and colours are; `columns` are headings, `widths` units whose sizes are drawn as widths, in words;
    without `targets` the slider goes by size. At most `shown` edges are drawn at first beside those that always are; `position`
    is the token that is marked, `start` the node in the middle where the picture is larger than its place; -1 is none.
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

    def payload(self, _: PageText) -> DataBlock:
        """As JSON can hold it, numbers rounded to six digits, what is not finite null."""
        json: dict[str, Any] = {"kind": "graph", **rounded(asdict(self), MAP_DIGITS)}
        return DataBlock(json, 0.5 * 10.0 ** (1 - MAP_DIGITS))


PageBlock: TypeAlias = MapsBlock | NumbersBlock | GraphBlock | DataBlock
"""What a page can show of its text."""


def _kind_of(block: PageBlock, view: View) -> str:
    """The kind of a block, where the view can show it."""
    if isinstance(block, MapsBlock):
        return "maps" if view in ("maps", "overview") or block.labels["axis"] == "head" else ""
    if isinstance(block, GraphBlock):
        return "graph"
    return "numbers" if isinstance(block, NumbersBlock) else str(block.json["kind"])


@dataclass(frozen=True)
class PageStart:
    """Where the page opens: a channel of the first block, the positions of a row and a column, a run and the one compared with.

    `heads` are the numbers of heads that are chosen, "3" or "3.7"; "" means none.
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
    """One forward pass: a name such as "clean", tokens made visible, blocks by name; the first one's channels need no name before them."""

    name: str
    tokens: tuple[str, ...]
    blocks: Mapping[str, PageBlock]


@dataclass(frozen=True)
class PageData:
    """A page: several runs have the same blocks and channels. One without maps shows a target's overview, or numbers alone.

    `certificate` is the largest completeness error with its place, None where it is unknown; `statement` is said in its place.
    `layered` is False where the one layer is that of the whole model; then the page speaks of none. `circuitsvis` says whether
    readers may have square maps drawn by CircuitsVis, too.
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
        """Refuse what could not be drawn.

        Raises:
            InputError: if runs differ in tokens or blocks, or the page opens in a view of what is not there.
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
        """Labels and packed numbers as JSON can hold them, under the names that the page's scripts read."""
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
                    "blocks": {name: dict(block.json) for name, block in blocks.items()},
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


def numbers_page(
    model: str,
    block: NumbersBlock,
    tokens: tuple[str, ...] = (),
    *,
    statement: str = "",
) -> PageData:
    """The page of numbers alone.

    Args:
        model: The model's name.
        block: The numbers.
        tokens: Of the text, made visible; none where numbers are of no text, or of several.
        statement: What is known of the numbers, in a sentence.
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
) -> dict[str, Any]:
    """A signed map of a `NumbersBlock`.

    Args:
        title: Of the map.
        note: What a cell is.
        rows: What a row is called, and the rows' names.
        columns: Likewise.
        values: [row column].
        details: By "row,column" the names and numbers of what a cell is made of.
    """
    named = {"title": title, "note": note, "row": rows[0], "column": columns[0], "rows": rows[1], "columns": columns[1]}
    return named | {"values": values, "details": details or {}}


def graph_page(model: str, block: GraphBlock, tokens: tuple[str, ...], provenance: Mapping[str, str]) -> PageData:
    """The page of a graph alone.

    Args:
        model: The model's name.
        block: The graph.
        tokens: Of the text, made visible; none where the graph is of several.
        provenance: What made it.
    """
    text = PageText(queries=(), layers=(0,), causal=False, words=tuple(range(len(tokens))))
    at = max(0, block.position)
    start = PageStart(0, "", at, at, view="graph")
    runs = (PageRun("run", tokens, {"graph": block}),)
    return PageData(
        model, block.heading, text, runs, start, provenance=provenance, layered=False, statement=block.certificate
    )
