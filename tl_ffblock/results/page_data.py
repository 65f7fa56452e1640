"""Results as the page takes them: one or several runs, what can be compared, how much each step changed, where to open."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import layer_number
from tl_ffblock.layer.scopes import Order, Step
from tl_ffblock.page import PageBlock, PageCertificate, PageData, PageRun, PageStart, PageText, PageTrack, View
from tl_ffblock.results.companions import Beside, with_companions
from tl_ffblock.results.page_blocks import (
    Changes,
    ChannelMaps,
    contribution_block,
    head_blocks,
    size_track,
    step_changes,
    step_tracks,
    steps_of,
    token_maps_block,
)
from tl_ffblock.results.ranks import others_of, shares_of_others
from tl_ffblock.results.scope_table import HeadTable, ScopeTable
from tl_ffblock.results.tokens import special_positions, text_segments, visible, word_numbers


@runtime_checkable
class Result(Protocol):
    """What a page reads of a result (`ContributionMaps`, which can so call the page itself)."""

    @property
    def tokens(self) -> tuple[str, ...]: ...
    @property
    def layers(self) -> tuple[int, ...]: ...
    @property
    def order(self) -> Order: ...
    @property
    def queries(self) -> tuple[int, ...]: ...
    @property
    def causal(self) -> bool: ...
    @property
    def values(self) -> ScopeTable: ...
    @property
    def bias(self) -> ScopeTable: ...
    @property
    def remainder(self) -> ScopeTable: ...
    @property
    def completeness(self) -> ScopeTable: ...
    @property
    def heads(self) -> HeadTable: ...
    @property
    def model(self) -> str: ...
    @property
    def signed(self) -> bool: ...
    @property
    def sides(self) -> tuple[str, ...]: ...
    @property
    def provenance(self) -> Mapping[str, str]: ...
    @property
    def identity(self) -> Mapping[str, str]: ...
    def reachable(self) -> Bool[Tensor, "query key"]: ...
    def worst_completeness(self) -> tuple[float, str, int, int]: ...


def page_data(
    runs: Mapping[str, Result],
    *,
    layer: int | None = None,
    scope: str | None = None,
    query: int | str | None = None,
    compare: tuple[str, str] | None = None,
    view: View = "maps",
    segments: Mapping[str, int] | None = None,
    beside: Beside = (),
) -> PageData:
    """Labels, measures and numbers of one run or several, and where their page opens.

    Args:
        runs: Results by name, of the same positions, layers and scopes.
        layer: Layer to open at, negative ones from the end; None means the one the step changed most.
        scope: Step to open at, named by the scope it ends in; None means the feed-forward block.
        query: Destination to open at, a position or a token; None means the one that changed most.
        compare: The run to open with and the one to compare it with; None means the first alone.
        view: "maps", or of results with heads "heads" (lines) or "all" (every layer and head).
        segments: Where each part of the text begins, by its name; None means two sentences, where a separator is between.
        beside: Further maps of the same tokens and layers, such as attention patterns, attributions, or blocks with a view of
            their own; of one run only.

    Raises:
        InputError: if what is asked for is not in the results, or they do not fit each other.
    """
    names, first = list(runs), next(iter(runs.values()))
    if scope is not None and scope not in first.values:
        raise InputError(f"scope={scope!r}: these maps hold {', '.join(first.values)}.")
    run, ref_run = (0, 0) if compare is None else (names.index(compare[0]), names.index(compare[1]))
    steps = steps_of(first.order, first.values, first.signed)
    results = list(runs.values())
    changes = [step_changes(result.values, steps, result.reachable()) for result in results]
    scope = scope or _feed_forward(steps)
    layer = _start_layer(first, changes[0].by_step, layer, scope)
    before = scope if compare is not None else steps[scope][1]
    reference = results[ref_run].values[before, layer] if before is not None else None
    to, from_ = _start_cell(first, results[run].values[scope, layer], reference, query)
    preferred = [s for s in (scope, steps[scope][1]) if s]
    text = _page_text(first, segments)
    return PageData(
        model=first.model,
        heading="difference of two results" if first.signed else "contribution maps",
        text=text,
        runs=tuple(
            with_companions(_run(name, result, step_tracks(steps, of_run), preferred), result, beside, text, preferred)
            for (name, result), of_run in zip(runs.items(), changes, strict=True)
        ),
        start=PageStart(layer, scope, to, from_, run, ref_run, view),
        certificate=_worst(results),
        provenance={"order": first.order, **first.provenance},
    )


def token_maps_page(
    runs: Mapping[str, ChannelMaps],
    further: Mapping[str, ChannelMaps] | None = None,
    *,
    layer: int | None = None,
    channel: str | None = None,
    view: View = "maps",
    segments: Mapping[str, int] | None = None,
    labels: Sequence[str] | None = None,
    named: bool = False,
    beside: Sequence[PageBlock] = (),
) -> PageData:
    """The page of any token maps of the same positions, one run or several.

    Args:
        runs: Maps by name; the page opens at the first.
        further: Of the same runs and cells, maps of another kind beside them.
        layer: Layer to open at, negative ones from the end; None means the first, of signed maps that of the largest cell.
        channel: Channel to open at; None means after the feed-forward where there is such a scope, else as for layers.
        view: "maps", or of heads "heads" (lines) or "all" (every layer and head), or that of a block beside.
        segments: Where each part of the text begins, by its name; None means two sentences, where a separator is between.
        labels: What stands at each position; None means the tokens.
        named: Whether these are names of positions, which then have no numbers.
        beside: Blocks with a view of their own, of the same text.

    Raises:
        InputError: if layer or channel are not there, or the runs do not fit each other.
    """
    maps = next(iter(runs.values()))
    if channel is not None and channel not in maps.channels:
        raise InputError(f"channel={channel!r}: these maps hold {', '.join(maps.channels)}.")
    number, name = _start_map(maps, layer, channel)
    shown = maps.values[maps.layers.index(number), maps.channels.index(name)]
    to, from_ = _largest_cell(shown, maps.tokens, maps.queries, maps.causal)
    shown_labels = tuple(visible(token) for token in labels or maps.tokens)
    return PageData(
        model=maps.model,
        heading=next(iter((further or runs).values())).kind,
        text=replace(_page_text(maps, segments), named=named),
        runs=tuple(
            PageRun(
                run,
                shown_labels,
                {m.kind: token_maps_block(m) for m in (m, *([further[run]] if further else []))}
                | {block.kind: block for block in beside},
            )
            for run, m in runs.items()
        ),
        start=PageStart(number, name, to, from_, view=view),
        certificate=None,
        provenance={},
        layered=maps.layered,
    )


def _start_map(maps: ChannelMaps, layer: int | None, channel: str | None) -> tuple[int, str]:
    """Layer and channel that a page of token maps opens at: of signed maps, most of whose cells are near zero, the largest's."""
    feed_forward = [name for name in maps.channels if name.endswith("Ff")][-1:]
    channels = [channel] if channel else feed_forward or list(maps.channels)
    layers = list(maps.layers) if layer is None else [layer_number(layer, maps.layers, "in these maps")]
    if not maps.signed:
        return layers[0], channels[0]
    cells = maps.values.detach().cpu().abs().nan_to_num(0.0)
    rows, columns = [maps.layers.index(n) for n in layers], [maps.channels.index(name) for name in channels]
    sizes = cells[rows][:, columns].amax(dim=(-2, -1))
    row, column = divmod(int(sizes.argmax()), len(columns))
    return layers[row], channels[column]


def _page_text(maps: Result | ChannelMaps, segments: Mapping[str, int] | None) -> PageText:
    """The positions of maps, with what their tokens' forms say of them."""
    words, special = word_numbers(maps.tokens), special_positions(maps.tokens)
    return PageText(maps.queries, maps.layers, maps.causal, words, special, text_segments(maps.tokens, segments))


def _run(name: str, maps: Result, tracks: list[PageTrack], preferred: Sequence[str]) -> PageRun:
    """The blocks of one run: contributions by scope and by head."""
    steps = steps_of(maps.order, maps.values, maps.signed)
    cells = maps.reachable()
    tables = {"bias": maps.bias, "remainder": maps.remainder}
    columns = {n: t for n, t in tables.items() if any(bool(torch.count_nonzero(rows)) for rows in t.values())}
    if not tracks:
        tracks = [size_track(maps.values, {scope: scope for scope in steps}, cells)]
    blocks: dict[str, PageBlock] = {
        "contributions": contribution_block(
            maps.values, columns, steps, tracks, signed=maps.signed, sides=maps.sides if maps.signed else ()
        )
    }
    if not maps.signed:
        blocks |= head_blocks(maps.heads, maps.queries, preferred, int(cells.sum()) * len(maps.layers))
    return PageRun(name, tuple(visible(token) for token in maps.tokens), blocks)


def _start_layer(maps: Result, changes: Changes, layer: int | None, scope: str) -> int:
    """The layer asked for, else the one the step changed most."""
    if layer is not None:
        return layer_number(layer, maps.layers, "in these maps")
    sizes = changes.get(scope, torch.zeros(len(maps.layers))).nan_to_num(-math.inf)
    return maps.layers[int(sizes.argmax())]


def _feed_forward(steps: Mapping[str, tuple[Step, str | None]]) -> str:
    """The last feed-forward step that can be compared, else the last one, else the last step."""
    feed_forward = [scope for scope, (step, _) in steps.items() if step.component == "FF"]
    compared = [scope for scope in feed_forward if steps[scope][1] is not None]
    return (compared or feed_forward or list(steps))[-1]


def _start_cell(
    maps: Result,
    after: Float[Tensor, "query key"],
    before: Float[Tensor, "query key"] | None,
    query: int | str | None,
) -> tuple[int, int]:
    """Positions of the cell whose share of the others changed most, in the row asked for if any.

    Where no row has two others, as with two tokens of a causal model, it is the share of all that the row takes.
    """
    reachable = maps.reachable()
    others = others_of(reachable, maps.queries)
    changes = after.cpu().double().where(others, 0.0)
    if not maps.signed and before is not None:
        counted = others if int(others.sum(dim=-1).max()) > 1 else reachable
        changes = shares_of_others(after, counted) - shares_of_others(before, counted)
    return _largest_cell(changes, maps.tokens, maps.queries, maps.causal, _row_of(maps, query))


def _largest_cell(
    cells: Float[Tensor, "query key"],
    tokens: Sequence[str],
    queries: Sequence[int],
    causal: bool,
    row: int | None = None,
) -> tuple[int, int]:
    """Positions (to, from) of the cell that a page opens at: large, of another token, of two words where there are any."""
    sizes = cells.detach().cpu().double().abs().nan_to_num(0.0).clone()
    sizes[torch.arange(len(queries)), list(queries)] = 0.0
    if causal:  # Early rows have few cells and so large shares.
        sizes *= torch.tensor(queries, dtype=torch.float64)[:, None].sqrt()
    special = special_positions(tokens)
    words = [position not in special and any(c.isalpha() for c in token) for position, token in enumerate(tokens)]
    weights = torch.tensor([1.0 if word else 1e-3 for word in words], dtype=torch.float64)
    sizes *= weights[list(queries)][:, None] * weights
    row = int(sizes.max(dim=1).values.argmax()) if row is None else row
    largest = int(sizes[row].argmax())
    return queries[row], largest if float(sizes[row, largest]) > 0 else queries[row]


def _row_of(maps: Result, query: int | str | None) -> int | None:
    """The row of a position, negative ones from the end, or of the first token that is written so."""
    if query is None:
        return None
    positions = [query] if isinstance(query, int) else _positions_of(maps.tokens, query)
    rows = [maps.queries.index(p % len(maps.tokens)) for p in positions if p % len(maps.tokens) in maps.queries]
    inside = not isinstance(query, int) or -len(maps.tokens) <= query < len(maps.tokens)
    if not rows or not inside:
        raise InputError(
            f"query={query!r}: expected a position among {', '.join(map(str, maps.queries[:20]))} or one of their tokens, "
            f"such as {maps.tokens[maps.queries[-1]]!r}."
        )
    return rows[0]


def _positions_of(tokens: Sequence[str], word: str) -> list[int]:
    return [position for position, token in enumerate(tokens) if word in (token, token.strip(), visible(token))]


def _worst(results: Sequence[Result]) -> PageCertificate | None:
    worst = [(*result.worst_completeness(), run) for run, result in enumerate(results)]
    error, scope, layer, query, run = max(worst, key=lambda entry: entry[0])
    return PageCertificate(error, scope, layer, query, run) if math.isfinite(error) and scope else None
