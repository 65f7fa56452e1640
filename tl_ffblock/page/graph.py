"""A layered graph as a page of its own: columns by depth, lanes, a slider that says what is shown, a card of every node."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from tl_ffblock.errors import InputError
from tl_ffblock.page.document import asset, document, script_of
from tl_ffblock.page.numbers import rounded

GRAPH_SCRIPTS = (
    "shares",
    "colours",
    "svg",
    "graph_layout",
    "graph_words",
    "graph_view",
    "graph_overview",
    "graph_card",
    "graph_page",
)
"""In the order in which they stand on the page: each uses what scripts before it define, never after."""
DIGITS = 6
"""Significant digits of the numbers that are sent."""


@dataclass(frozen=True)
class PageNode:
    """A node, where it stands, and what its card says."""

    column: int
    lane: int
    label: str
    """A word: a token."""
    short: str
    """What it is, in a word or two."""
    name: str
    """What it is, in words."""
    says: tuple[str, ...]
    """Tokens that it says."""
    facts: tuple[tuple[str, float], ...]
    """Named numbers of its card."""
    shares: tuple[float, ...]
    """By target."""
    own_shares: tuple[float, ...]
    """What it brings itself, by target."""
    rest_shares: tuple[float, ...]
    """What enters it and is not on the page, by target."""
    unseen: int = 0
    """How many summands those are."""
    ranks: tuple[int, ...] = ()
    """Of each target's token; 1 is the first, 0 none."""
    probabilities: tuple[float, ...] = ()


@dataclass(frozen=True)
class PageEdge:
    """What one node gives to another."""

    source: int
    target: int
    unit: str
    size: float
    shares: tuple[float, ...]
    """By target."""
    weights: tuple[float, ...]
    """By target, what the slider goes by: the share that depends on this edge."""
    always: bool = False
    """Whether it is shown wherever the slider stands."""


@dataclass(frozen=True)
class PageTarget:
    """A number that is shared out."""

    name: str
    value: float
    token: str = ""
    """Whose rank and probability nodes have."""


@dataclass(frozen=True)
class GraphPage:
    """Everything that one page of a graph shows."""

    model: str
    heading: str
    """What is shown, in words."""
    tokens: tuple[str, ...]
    """The text, white space made visible."""
    meaning: str
    """What lines and colours say, in sentences."""
    columns: tuple[str, ...]
    """Heading of each column."""
    lanes: int
    nodes: tuple[PageNode, ...]
    edges: tuple[PageEdge, ...]
    targets: tuple[PageTarget, ...]
    """At least one, or none: then the slider goes by size."""
    certificate: str
    provenance: Mapping[str, str]
    widths: Mapping[str, str]
    """Units whose sizes are drawn as widths, and what a size is in words; others are dashed lines with a number."""
    shown: int = 400
    """Edges that are shown when the page opens, at most; those that always are not counted."""
    position: int = -1
    """The token that is marked in the text; none for -1."""
    start: int = -1
    """The node that is in the middle when the page opens, where the picture is larger than its place; -1 for its beginning."""

    def __post_init__(self) -> None:
        """Refuse what could not be drawn.

        Raises:
            InputError: if an edge leads out of the page, or a node stands in no column.
        """
        n, n_targets = len(self.nodes), len(self.targets)
        if any(not (0 <= edge.source < n and 0 <= edge.target < n) for edge in self.edges):
            raise InputError("an edge leads to a node that the page does not have.")
        if any(not (0 <= node.column < len(self.columns) and 0 <= node.lane < self.lanes) for node in self.nodes):
            raise InputError("a node stands in no column or lane of the page.")
        shares = [node.shares for node in self.nodes] + [edge.shares for edge in self.edges]
        if any(len(held) != n_targets for held in shares):
            raise InputError(f"nodes and edges need a share for each of {n_targets} targets.")

    def payload(self) -> dict[str, Any]:
        """As JSON can hold it, numbers rounded to six digits, what is not finite null."""
        payload: dict[str, Any] = rounded(asdict(self), DIGITS)
        return payload


def graph_page(data: GraphPage) -> str:
    """One HTML page that asks nothing of any network; tokens reach it as data only."""
    style = asset("page.css") + asset("graph_page.css")
    return document("graph_page.html", "Flow graph", data.payload(), script_of(GRAPH_SCRIPTS), style)
