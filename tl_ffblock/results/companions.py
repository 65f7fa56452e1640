"""What stands beside maps on their page: further maps, attributions, cards of memories; refused where it is of another text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import spans
from tl_ffblock.page import PageBlock, PageRun, PageText
from tl_ffblock.results.intervals import UNKNOWN
from tl_ffblock.results.page_blocks import BETWEEN_TOKENS, ChannelMaps, token_maps_block
from tl_ffblock.results.tokens import shortened


@runtime_checkable
class PageBlocks(Protocol):
    """What hands over several blocks of one text: an attribution, with its signed maps."""

    @property
    def kind(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def identity(self) -> Mapping[str, str]: ...
    def page_blocks(self, text: PageText, name: str, first: Sequence[str]) -> Mapping[str, PageBlock]: ...


Companion = ChannelMaps | PageBlock | PageBlocks
"""Further maps, an attribution, or a block with a view of its own, such as a memory's card."""
Beside = Companion | Sequence[Companion]
"""What a caller may put beside maps: one thing or several."""


@runtime_checkable
class MapsOfText(Protocol):
    """What must be the same of maps and of what stands beside them."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def layers(self) -> tuple[int, ...]: ...
    @property
    def queries(self) -> tuple[int, ...]: ...
    @property
    def identity(self) -> Mapping[str, str]: ...


def with_companions(run: PageRun, maps: MapsOfText, beside: Beside, text: PageText, first: Sequence[str]) -> PageRun:
    """A run with further blocks, each under a name of its own.

    Args:
        run: With the blocks of its maps.
        maps: What it was made of.
        beside: What stands beside them.
        text: The page's.
        first: Scopes that the page opens with.

    Raises:
        InputError: if something is of another text, model, or other layers.
    """
    blocks = dict(run.blocks)
    several: Iterable[object] = beside if isinstance(beside, list | tuple) else (beside,)
    for further in several:
        if not isinstance(further, ChannelMaps | PageBlock | PageBlocks):
            raise InputError(
                f"beside is a {type(further).__name__}: expected TokenMaps such as those of ffb.attention_maps or "
                "maps.token_maps(), an attribution, or the card of a memory; one, or a list."
            )
        name = further.kind if further.kind not in blocks else f"{further.kind} {len(blocks)}"
        if isinstance(further, ChannelMaps):
            _refuse_other_text(maps, further)
            _refuse_other_model(f"{further.kind} maps are", maps.identity, further.identity)
            blocks[name] = token_maps_block(further, maps.layers, maps.queries)
        elif isinstance(further, PageBlocks):
            _refuse_other_run(maps, further)
            blocks |= further.page_blocks(text, name, first)
        else:
            blocks[name] = further
    return replace(run, blocks=blocks)


def _refuse_other_text(maps: MapsOfText, further: ChannelMaps) -> None:
    """Refuse maps of another text, or without a layer or a query of these."""
    if further.column != BETWEEN_TOKENS:
        raise InputError(
            f"beside: the {further.kind} are numbers by position, {further.column} each, and no maps between tokens: put the "
            'attribution itself beside the maps, or its token_maps("edges").'
        )
    if further.tokens != maps.tokens:
        raise InputError(
            f"beside: the {further.kind} maps are of {len(further.tokens)} tokens ({shortened(further.tokens)}), these of "
            f"{len(maps.tokens)} ({shortened(maps.tokens)}): make them of the same text."
        )
    for name, mine, theirs in (
        ("layers", maps.layers, further.layers),
        ("queries", maps.queries, further.queries),
    ):
        if missing := [number for number in mine if number not in theirs]:
            raise InputError(
                f"beside: the {further.kind} maps lack {name} {spans(missing)} of these: they have {spans(theirs)}. Make one of both "
                f"with other {name}=."
            )


def _refuse_other_run(maps: MapsOfText, further: PageBlocks) -> None:
    """Refuse shares whose tokens or model are not the maps'."""
    if further.labels != maps.tokens:
        raise InputError(
            f"beside: the attribution is of {len(further.labels)} tokens ({shortened(further.labels)}), these maps are of "
            f"{len(maps.tokens)} ({shortened(maps.tokens)}): attribute the same text."
        )
    _refuse_other_model("attribution is", maps.identity, further.identity)


def _refuse_other_model(what: str, mine: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Refuse what is of a model of another name, or of other weights where both are known."""
    for name in ("model", "fingerprint"):
        if mine[name] != theirs[name] and mine[name] not in UNKNOWN and theirs[name] not in UNKNOWN:
            weights = " (its weights, by their fingerprint)" * (name == "fingerprint")
            raise InputError(
                f"beside: the {what} of {theirs[name]}, these maps are of {mine[name]}{weights}: make both of the same model."
            )
