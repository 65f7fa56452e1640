"""What a page is made of: a text, runs with named blocks, and where to open; nothing of how they were made."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias, get_args

from tl_ffblock.errors import InputError
from tl_ffblock.page.blocks import MapsBlock, PageBlock, PageText

View: TypeAlias = Literal["maps", "heads", "all", "scores", "memories", "logit"]
"""Ways to look at a page's data: maps, lines of heads, every layer and head, attention scores term by term, cards of memories, a
target shared out."""


def _shows(view: View, block: PageBlock) -> bool:
    """Whether a view can show a block."""
    kinds = {"scores": "scores", "memories": "memory", "logit": "logit"}
    if view in kinds:
        return block.kind == kinds[view]
    return isinstance(block, MapsBlock) and (view == "maps" or block.axis == "head")


_LACKING = {
    "heads": "maps by head: make them with heads=True, or put attention_maps beside them",
    "all": "maps by head: make them with heads=True, or put attention_maps beside them",
    "scores": "attention scores: put attention_scores beside the maps",
    "memories": "a memory's card: put one beside the maps",
    "logit": "an attribution: put one of the same text (ffb.attribute) beside the maps",
}
"""What a page lacks that cannot open in a view."""


@dataclass(frozen=True)
class PageStart:
    """Where the page opens; runs by their number."""

    layer: int
    scope: str
    """A channel of the first block."""
    to: int
    """Position whose row is selected."""
    from_: int
    """Position whose column is selected."""
    run: int = 0
    ref_run: int = 0
    """The run that is compared with."""
    view: View = "maps"

    def payload(self) -> dict[str, Any]:
        """Under the names of the page's selection."""
        fields = asdict(self)
        return fields | {"from": fields.pop("from_"), "refRun": fields.pop("ref_run")}


@dataclass(frozen=True)
class PageRun:
    """One forward pass."""

    name: str
    """How the reader tells it from others: "clean", "patched"."""
    tokens: tuple[str, ...]
    """Tokens with white space made visible."""
    blocks: Mapping[str, PageBlock]
    """What there is to see, by name; the first block's channels need no name before them."""


@dataclass(frozen=True)
class PageCertificate:
    """The largest completeness error, with its place."""

    error: float
    scope: str
    layer: int
    query: int
    run: int = 0


@dataclass(frozen=True)
class PageData:
    """Everything that one page shows."""

    model: str
    """Name of the model."""
    heading: str
    """What is shown: "contribution maps"."""
    text: PageText
    runs: tuple[PageRun, ...]
    """One or several, with the same blocks and channels."""
    start: PageStart
    certificate: PageCertificate | None
    """None where it is unknown."""
    provenance: Mapping[str, str]
    """How the numbers were made, as small print."""
    layered: bool = True
    """False where the one layer stands for the whole model; then the page speaks of none."""
    statement: str = ""
    """What is known of the numbers where there is no certificate of this kind, in a sentence."""

    def __post_init__(self) -> None:
        """Refuse what could not be drawn.

        Raises:
            InputError: if runs differ in tokens or blocks, or the page opens at what is not there or in a view of it.
        """
        n, names = len(self.text.words), list(self.runs[0].blocks) if self.runs else []
        for run in self.runs:
            if len(run.tokens) != n or list(run.blocks) != names:
                raise InputError(
                    f"run {run.name} has {len(run.tokens)} tokens and the blocks {', '.join(run.blocks)}: "
                    f"expected {n} tokens and {', '.join(names)}, as the first run."
                )
        if self.start.view not in get_args(View):
            raise InputError(f"view={self.start.view!r}: expected one of {', '.join(get_args(View))}.")
        if self.runs and not any(_shows(self.start.view, block) for block in self.runs[0].blocks.values()):
            raise InputError(f'view="{self.start.view}": this page lacks {_LACKING[self.start.view]}.')
        block = next(iter(self.runs[0].blocks.values()), None) if self.runs else None
        channels: list[str] = [channel.name for channel in block.channels] if isinstance(block, MapsBlock) else []
        start = self.start
        places = start.layer in self.text.layers and start.to in self.text.queries and 0 <= start.from_ < n
        if start.scope not in channels or not places or not {start.run, start.ref_run} <= set(range(len(self.runs))):
            raise InputError(
                f"a page with layers {self.text.layers} and maps {', '.join(channels) or 'none'} cannot open at {start}."
            )

    def payload(self) -> dict[str, Any]:
        """Labels and packed numbers as JSON can hold them, under the names that the page's scripts read."""
        precision = 0.0
        runs = []
        for run in self.runs:
            blocks = {name: block.payload(self.text) for name, block in run.blocks.items()}
            precision = max([precision, *(block.precision for block in blocks.values())])
            packed = {name: dict(block.json) for name, block in blocks.items()}
            runs.append({"name": run.name, "tokens": list(run.tokens), "blocks": packed})
        return {
            "model": self.model,
            "heading": self.heading,
            "runs": runs,
            **asdict(self.text),
            "start": self.start.payload(),
            "certificate": asdict(self.certificate) if self.certificate else None,
            "precision": precision,
            "layered": self.layered,
            "statement": self.statement,
            "provenance": dict(self.provenance),
        }
