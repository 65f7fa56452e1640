"""Pages of token maps: contributions, attention and its scores, averages, patched runs; their opening view and their panels."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError, brief, warn
from tl_ffblock.interventions.patched import PatchedMaps
from tl_ffblock.layer.heads import head_names
from tl_ffblock.layer.positions import layer_number, real_number, spans
from tl_ffblock.layer.scopes import STEPS, Step, missing_scope
from tl_ffblock.memories.card import MemoryCard
from tl_ffblock.numerals import significant, typographic
from tl_ffblock.page import (
    DataBlock,
    MapsBlock,
    NumbersBlock,
    PageBlock,
    PageData,
    PageRun,
    PageStart,
    PageText,
    PageView,
    View,
    component_page,
    iframe,
    maps_labels,
    numbers_page,
    shares_map,
)
from tl_ffblock.page.numbers import FULL_DIGITS, pack, rounded
from tl_ffblock.results.average import AverageMaps
from tl_ffblock.results.intervals import UNKNOWN
from tl_ffblock.results.maps import ContributionMaps
from tl_ffblock.results.ranks import others_of, shares, shares_of_others, unit_ranks
from tl_ffblock.results.tables import HeadTable
from tl_ffblock.results.token_maps import ATTENTION, EFFECTIVE_ATTENTION, SHARES, AttentionScores, TokenMaps
from tl_ffblock.results.tokens import (
    shortened,
    special_positions,
    text_segments,
    told_apart,
    visible,
    word_numbers,
)
from tl_ffblock.signatures import strict
from tl_ffblock.views.figures import maps_figure, still_of
from tl_ffblock.views.registry import figure_of, page_of, panel_of

# Number of tokens above which maps by head have two digits on the page.
FINE_TOKENS = 64
# Bytes for maps by head on a page; further scopes are omitted.
HEADS_BYTES = 3_000_000
# Number of positions up to which each has a map [layer head]; above there is one map [layer and head, position].
MOST_MAPS = 12
# Significant digits of a memory's card.
CARD_DIGITS = 5
CONTRIBUTES = "the length (norm) of the contribution vector of the column's token to the row"
NORM = "norm, in units of the residual stream"
_NAMED = {"Attn": "value-weighted attention", "Atb": "attention block"}

Changes = Mapping[str, Float[Tensor, " layer"]]
Steps = Mapping[str, tuple[Step, str | None]]
"""By scope: its step, and the scope before it, or None if both cannot be compared."""


@page_of.register
@strict
def contribution_page(
    maps: ContributionMaps,
    *,
    layer: int | None = None,
    scope: str | None = None,
    query: int | str | None = None,
    view: View | None = None,
    segments: Mapping[str, int] | None = None,
    beside: Any = (),
    against: ContributionMaps | None = None,
) -> PageData:
    """Page of one result, or of two with their difference. Options are those of `ContributionMaps.to_html`.

    Raises:
        InputError: if `beside` is passed with `against`, or results or options do not fit each other.
    """
    view = view or first_view(maps.layers, layer)
    if view == "logit":
        warn('view="logit" is view="overview" now', DeprecationWarning)
        view = "overview"
    where: dict[str, Any] = {"layer": layer, "scope": scope, "query": query, "view": view, "segments": segments}
    if against is None:
        return page_data({"run": maps}, **where, beside=beside)
    if beside != ():
        raise InputError("beside with against: panels are shown for one result. Omit one of the two.")
    _ = maps - against  # raises for results that cannot be compared
    runs = dict(zip(run_names(maps.tokens, against.tokens, (maps.model, against.model)), (maps, against), strict=True))
    names = tuple(runs)
    return page_data(runs, **where, compare=(names[0], names[1]))


@figure_of.register(ContributionMaps)
def contribution_figure(
    maps: ContributionMaps, *, layer: int, scope: str, against: str | None, width: float | None
) -> Any:
    """Figure of one map, or of two and their difference. Arguments are those of `ContributionMaps.figure`."""
    for name in (scope, against):
        if name is not None and name not in maps.values:
            raise ScopeKeyError(missing_scope(name, maps.values))
    wide = None if width is None else real_number(width, "width", above=0.0)
    run = PageRun("run", tuple(map(visible, maps.tokens)), {"contributions": contribution_block(maps, steps_of(maps))})
    start = PageStart(layer_number(layer, maps.layers), scope, maps.queries[0], maps.queries[0])
    return maps_figure(PageData(maps.model, "", _page_text(maps, {}), (run,), start), against, wide)


@page_of.register
@strict
def patched_page(
    maps: PatchedMaps, *, layer: int | None = None, scope: str | None = None, view: View | None = None
) -> PageData:
    """Page of clean, corrupted and patched maps, any two on one scale. It opens at the patched and the corrupted ones.

    Args:
        maps: Maps of the three forward passes.
        layer: Layer to open at; None means the last one, which is after every patch.
        scope: Scope to open at; None means the feed-forward block.
        view: "overview" of all layers or "maps" of one; None means the overview, with `layer` the maps.

    Raises:
        InputError: if layer or scope do not exist.
    """
    runs = {"clean": maps.clean, "corrupted": maps.corrupted, "patched": maps.patched}
    asked, layer = layer, maps.clean.layers[-1] if layer is None else layer
    view = view or first_view(maps.clean.layers, asked)
    return page_data(runs, layer=layer, scope=scope, compare=("patched", "corrupted"), view=view)


@page_of.register
@strict
def token_page(
    maps: TokenMaps,
    *,
    layer: int | None = None,
    channel: str | None = None,
    view: View | None = None,
    segments: Mapping[str, int] | None = None,
) -> PageData:
    """Page of token maps with any channels. For numbers by position, it shows all layers and channels at once.

    Args:
        maps: Maps, or numbers by position.
        layer: Layer to open at, negative from the end. None means the first one; for signed maps, the layer of the largest cell.
        channel: Channel to open at. None means the last feed-forward scope, or else the first channel. In views of heads it is
            marked: "heads" draws only its lines, "all" fades the other heads.
        view: "overview" (all layers), "maps", or for heads "heads" (lines between tokens) or "all" (every layer and head). None
            means "maps" with `layer`, "all" for heads without layer and channel, else the overview.
        segments: First position of each segment of the text, by name, such as `{"prompt": 0, "generated": 12}`. The view of heads
            can show only the lines between two segments. None means sentences A and B, if there is one separator (`[SEP]`)
            between two. BertViz's `sentence_b_start=k` is `{"A": 0, "B": k}`.

    Raises:
        InputError: if layer or channel do not exist, if `segments` do not fit the tokens, or if options are passed for numbers by
            position.
    """
    if not maps.by_position:
        by_head = layer is None and channel is None and any(name.startswith("head ") for name in maps.channels)
        opening: View = view or ("all" if by_head else first_view(maps.layers, layer, maps.layered))
        return token_maps_page({"run": maps}, layer=layer, channel=channel, view=opening, segments=segments)
    _refuse_choices(layer=layer, channel=channel, view=None if view == "maps" else view, segments=segments)
    return position_page({"run": maps}, told_apart(maps.tokens))


@page_of.register
@strict
def average_page(
    average: AverageMaps, *, layer: int | None = None, channel: str | None = None, view: View | None = None
) -> PageData:
    """Page of mean maps and of both ends of their intervals, any two next to each other.

    For numbers by position, it is a map of all layers and channels by position; each cell has its interval.

    Args:
        average: The mean.
        layer: Layer to open at, negative from the end. None means the first one; for signed maps, the layer of the largest cell.
        channel: Channel to open at. None means the last feed-forward scope, or else the first channel.
        view: "overview" of all layers or "maps" of one; None means the overview, with `layer` the maps.

    Raises:
        InputError: if layer or channel do not exist, or if options are passed for numbers by position.
    """
    runs, labels, interval = _ends(average), average.page_labels(), "95 % interval (bootstrap over prompts)"
    named = not all(name.isdecimal() for name in average.keys)
    names, tokens = (average.keys, average.labels) if named else (labels, ())
    if average.by_position:
        _refuse_choices(layer=layer, channel=channel, view=view)
        there = f" {', '.join(labels)}." if named else ""
        return position_page(runs, names, f"Mean of {len(average.values)} prompts, with each cell's {interval}.{there}")
    shown, further = (runs, None) if average.shares is None else (_ends(average.as_shares()), runs)
    view = view or first_view(average.layers, layer, average.layered)
    data = token_maps_page(shown, further, layer=layer, channel=channel, labels=names, details=tokens, view=view)
    statement = f"Mean of {len(average.values)} prompts; low and high are the ends of each cell's {interval}."
    return replace(data, statement=statement)


@page_of.register
@strict
def scores_page(scores: AttentionScores, *, layer: int | None = None) -> PageData:
    """Page of attention scores by term, with lines between tokens and maps.

    Args:
        scores: Scores of some heads.
        layer: Layer to open at, negative from the end; None means the first.

    Raises:
        InputError: if the layer does not exist.
    """
    return token_maps_page({"run": scores.token_maps()}, layer=layer, view="scores", beside=scores)


def page_data(
    runs: Mapping[str, ContributionMaps],
    *,
    layer: int | None = None,
    scope: str | None = None,
    query: int | str | None = None,
    compare: tuple[str, str] | None = None,
    view: View = "maps",
    segments: Mapping[str, int] | None = None,
    beside: Any = (),
) -> PageData:
    """Page data of contribution maps: labels, measures and numbers of one or several results, and the opening view.

    Args:
        runs: Results by name, with the same positions, layers and scopes.
        layer: Layer to open at, negative from the end; None means the one that the step changed most.
        scope: Step to open at, named by its last scope; None means the feed-forward block.
        query: Destination to open at, a position or a token; None means the one that the step changed most;
                in a causal model, among the last third.
        compare: Names of the result to open with and of the one to compare it with; None means the first only.
        view: "overview", "maps", or for results with heads "heads" (lines) or "all" (every layer and head).
        segments: First position of each segment of the text, by name; None means two sentences, if there is a separator.
        beside: Panels of the same tokens and layers, such as attention patterns, attributions, cards; for one result only.

    Raises:
        InputError: if layer, scope or query are not in the results, or if results or panels do not fit each other.
    """
    results, first = list(runs.values()), next(iter(runs.values()))
    if scope is not None and scope not in first.values:
        raise InputError(f"scope={scope!r}: expected a scope of these maps, {', '.join(first.values)}.")
    run, ref_run = (list(runs).index(name) for name in compare or (next(iter(runs)),) * 2)
    steps = steps_of(first)
    changes = [_step_changes(result, steps) for result in results]
    scope = scope or _feed_forward(steps)
    sizes = changes[0][0].get(scope, torch.zeros(len(first.layers))).nan_to_num(-math.inf)
    most = first.layers[int(sizes.argmax())]  # the layer that the step changed most
    number = most if layer is None else layer_number(layer, first.layers, "in these maps")
    before = scope if compare is not None else steps[scope][1]
    reference = results[ref_run].values[before, number] if before is not None else None
    to, from_ = _start_cell(first, results[run].values[scope, number], reference, query)
    at = _opening((number, to, from_), beside if layer is None and query is None else (), first, view)
    preferred = [s for s in (scope, steps[scope][1]) if s]
    text = _page_text(first, segments)
    return PageData(
        model=first.model,
        heading="difference of two results" if first.signed else "contribution maps",
        text=text,
        runs=tuple(
            _with_panels(_run(name, result, steps, of_run, preferred), result, beside, text, preferred)
            for (name, result), of_run in zip(runs.items(), changes, strict=True)
        ),
        start=PageStart(at[0], scope, *at[1:3], run, ref_run, view, at[3]),
        certificate=_worst(results),
        provenance={"order": first.order, **first.provenance},
        circuitsvis=True,
    )


def token_maps_page(
    runs: Mapping[str, TokenMaps],
    further: Mapping[str, TokenMaps] | None = None,
    *,
    layer: int | None = None,
    channel: str | None = None,
    view: View = "maps",
    segments: Mapping[str, int] | None = None,
    labels: Sequence[str] | None = None,
    details: Sequence[str] = (),
    beside: Any = (),
) -> PageData:
    """Page data of token maps of any kind, of one or several results with the same positions.

    Args:
        runs: Maps by name; the page opens at the first.
        further: Maps of another kind, of the same results and cells.
        layer: Layer to open at, negative from the end. None means the first one; for signed maps, the layer of the largest cell.
        channel: Channel to open at. None means the last feed-forward scope, or else as for layers.
        view: "overview", "maps", for heads "heads" (lines) or "all" (every layer and head), or the view of a panel.
        segments: First position of each segment of the text, by name; None means two sentences, if there is a separator.
        labels: Label of each position; None means its token.
        details: Tokens at the positions, if `labels` are names of positions; these are shown without numbers.
        beside: Panels, as in `page_data`.

    Raises:
        InputError: if layer or channel do not exist, or if results or panels do not fit each other.
    """
    maps = next(iter(runs.values()))
    if channel is not None and channel not in maps.channels:
        raise InputError(f"channel={channel!r}: expected a channel of these maps, {', '.join(maps.channels)}.")
    number, name = _start_map(maps, layer, channel)
    # Of named positions the last has the most others.
    to, from_ = _largest_cell(maps[name, number], maps, len(maps.queries) - 1 if details else None)
    number, to, from_, heads = _opening((number, to, from_), beside if layer is None else (), maps, view)
    heads = str(maps.channels.index(channel)) if channel is not None and view in ("heads", "all") else heads
    shown = tuple(visible(token) for token in labels or maps.tokens)
    text = replace(_page_text(maps, segments), named=bool(details), details=tuple(map(visible, details)))
    blocks = {
        run: {m.kind: token_maps_block(m) for m in (m, *([further[run]] if further else []))} for run, m in runs.items()
    }
    return PageData(
        model=maps.model,
        heading=next(iter((further or runs).values())).kind,
        text=text,
        runs=tuple(_with_panels(PageRun(run, shown, held), maps, beside, text, ()) for run, held in blocks.items()),
        start=PageStart(number, name, to, from_, view=view, heads=heads),
        layered=maps.layered,
    )


def position_page(runs: Mapping[str, TokenMaps], labels: Sequence[str], statement: str = "") -> PageData:
    """Page data of numbers by position; the heading is the largest number, and its map is first.

    Args:
        runs: The numbers, or their mean, first. The others, such as ends of intervals, are in the details of each cell.
        labels: Label of each position.
        statement: Sentence on the numbers.
    """
    first, names = next(iter(runs.values())), list(runs)[1:]
    places = tuple(visible(label) for label in labels)
    numbers = torch.stack([maps.values[:, :, 0] for maps in runs.values()])
    _, n_layers, n_channels, n_places = numbers.shape
    streams = first.channels == ("residual",)  # its last row is the end, not a layer's input
    layers = (*map(str, first.layers[:-1]), "end" if streams else str(first.layers[-1]))
    channels = tuple(name.removeprefix("head ") for name in first.channels)
    rows, columns = ("layer", layers), (first.column, places)
    if n_channels == 1:
        drawn = [(first.kind, rows, columns, numbers[:, :, 0])]
    elif n_places <= MOST_MAPS:
        heads = ("head", channels)
        order = numbers[0].abs().nan_to_num(0.0).amax((0, 1)).argsort(descending=True, stable=True).tolist()
        drawn = [(f"{first.column} {places[at]}", rows, heads, numbers[..., at]) for at in order]
    else:
        both = ("layer.head", tuple(f"{layer}.{channel}" for layer in layers for channel in channels))
        drawn = [(first.kind, both, columns, numbers.flatten(1, 2))]
    layer, channel, at = np.unravel_index(int(numbers[0].abs().nan_to_num(0.0).argmax()), numbers.shape[1:])
    number = typographic(significant(float(numbers[0, layer, channel, at])))
    where = "End" if layers[layer] == "end" else f"Layer {layers[layer]}"
    note = f"Each cell is the share {first.column} the position."
    block = NumbersBlock(
        heading=f"{where}, {first.channels[channel]}: {number} {first.column} “{places[at]}”",
        facts=f"{first.model} · {first.kind} · {n_layers} layers · {n_places} positions",
        maps=tuple(
            shares_map(title[:1].upper() + title[1:], note, down, across, cells[0], dict(_others(cells[1:], names)))
            for title, down, across, cells in drawn
        ),
    )
    return numbers_page(first.model, block, statement=statement)


def run_names(first: Sequence[str], second: Sequence[str], models: tuple[str, str]) -> tuple[str, str]:
    """Names of two compared results: "A: " and "B: " with the first tokens that differ, or else with their models."""
    pairs = [*zip(first, second, strict=True), models]
    one, two = next((pair for pair in pairs if pair[0] != pair[1]), ("", ""))
    return (f"A: {visible(one)}", f"B: {visible(two)}") if one or two else ("A", "B")


def first_view(layers: Sequence[int], asked: int | None, layered: bool = True) -> View:
    """View of a page of maps: "overview" if there are several layers and none is asked for, else "maps"."""
    return "overview" if asked is None and layered and len(layers) > 1 else "maps"


def steps_of(maps: ContributionMaps) -> Steps:
    """By scope: its step, and the scope before it, or None if both cannot be compared."""
    comparable = () if maps.signed else maps.scopes
    steps = (step for step in STEPS[maps.order] if step.scope in maps.scopes)
    return {step.scope: (step, step.before if step.before in comparable else None) for step in steps}


def steps_since(steps: Steps, base: str) -> list[str]:
    """Scopes after `base`, each of whose steps begins at the scope before it in the list."""
    chain = [base] if base in steps else []
    for scope, (_, before) in steps.items():
        if chain and before == chain[-1]:
            chain.append(scope)
    return chain[1:]


def contribution_block(
    maps: ContributionMaps, steps: Steps, columns: Mapping[str, Any] | None = None, tracks: Sequence[Any] = ()
) -> MapsBlock:
    """Block of contribution maps, with scopes as channels.

    Args:
        maps: Norms, or a signed difference of two results.
        steps: Steps of the maps, as from `steps_of`.
        columns: Further numbers of each row, such as norms of the bias term.
        tracks: Columns of numbers per layer.
    """
    signed, sides = maps.signed, maps.sides if maps.signed else ()
    title = " minus ".join(sides) or "first result minus second"
    return MapsBlock(
        labels=maps_labels(
            title=title if signed else "contributions",
            short="difference" if signed else "norm",
            unit=f"difference of norms: {title}" if signed else NORM,
            meaning=_more(sides) if signed else CONTRIBUTES,
            signed=signed,
            sides=sides,
            exact=True,
        ),
        channels=tuple(
            channel(scope, _NAMED.get(scope) or f"after {step.shows}", before, step.component)
            for scope, (step, before) in steps.items()
        ),
        values=maps.values,
        columns=columns or {},
        tracks=tracks,
    )


def token_maps_block(
    maps: TokenMaps, layers: Sequence[int] | None = None, queries: Sequence[int] | None = None
) -> MapsBlock:
    """Block of token maps of any kind, such as attention patterns.

    Args:
        maps: Maps with labels.
        layers: Layers of the page, each in the maps; None means all.
        queries: Queries of the page, each in the maps; None means all.
    """
    weights, shared = maps.kind in (ATTENTION, EFFECTIVE_ATTENTION), maps.kind.endswith(SHARES)
    kept = [maps.layers.index(layer) for layer in (maps.layers if layers is None else layers)]
    rows = [maps.queries.index(query) for query in (maps.queries if queries is None else queries)]
    cells = maps.values if len(rows) == len(maps.queries) else maps.values[:, :, rows]
    cells = cells if len(kept) == len(maps.layers) else cells[kept]
    values = {name: cells[:, number] for number, name in enumerate(maps.channels)}
    meanings = {
        ATTENTION: "the attention weight of the row's token to the column's",
        EFFECTIVE_ATTENTION: "the signed weight of the column's value in the row's output; layers with a softmax have their attention",
        SHARES: CONTRIBUTES,
    }
    other = _more(maps.sides) if maps.sides else f"the contribution of the column's token to the row ({maps.kind})"
    sized = maps.signed or not maps.whole
    return MapsBlock(
        labels=maps_labels(
            title=maps.kind,
            short="weight" if weights else "share" if shared else "value",
            unit=f"{maps.kind} weight" if weights else maps.kind,
            meaning=meanings.get(maps.kind, other),
            axis="head" if any(name.startswith("head ") for name in maps.channels) else "scope",
            signed=maps.signed,
            sides=maps.sides,
            cells="none" if weights or sized else "others",
            shares="others" if shared else "",
            whole=maps.whole,
        ),
        channels=tuple(channel(name) for name in maps.channels),
        values=values,
        tracks=(
            size_track(values, maps.reachable()[rows])
            if sized
            else others_track(values, [maps.queries[row] for row in rows]),
        ),
        coarse=len(maps.tokens) > FINE_TOKENS and len(maps.channels) > 1,
    )


def channel(
    name: str, label: str | None = None, before: str | None = None, component: str | None = None
) -> dict[str, str | None]:
    """A channel of a block: name, label, name of the channel before it, and the component between both."""
    return {"name": name, "label": label or name, "before": before, "component": component}


def size_track(
    values: Mapping[str, Float[Tensor, "layer query key"]], cells: Bool[Tensor, "query key"]
) -> dict[str, Any]:
    """Track of signed maps: by layer, the mean absolute value of reachable cells that are not NaN."""
    sizes = {name: maps.cpu()[:, cells].double().abs().nanmean(dim=1) for name, maps in values.items()}
    columns = [_column(name, None, name, f"mean size of a cell, {name}") for name in values]
    return _track("size", "Dark: large cells in the mean.", columns, sizes)


def others_track(values: Mapping[str, Float[Tensor, "layer query key"]], queries: Sequence[int]) -> dict[str, Any]:
    """Track: by layer, the mean share of rows that comes from positions other than their own.

    NaN counts as 0; rows of zeros, which have no shares, are skipped.
    """
    rows = torch.arange(len(queries))
    shared = {}
    for name, maps in values.items():
        cells = maps.cpu().double().nan_to_num(0.0)
        own = shares(cells, "row")[:, rows, list(queries)]
        shared[name] = 1 - own.where(cells.sum(dim=-1) != 0, torch.nan).nanmean(dim=1)
    columns = [_column(n, None, n.removeprefix("head "), f"share from other tokens, {n}") for n in values]
    note = "Dark: a larger share from other tokens (mean over rows)."
    return _track("from others", note, columns, shared, stretched=True) | {"values": rounded(shared, FULL_DIGITS)}


def circuitsvis_view(maps: TokenMaps, name: str | None, layer: int, height: int) -> PageView:
    """Page of one map by CircuitsVis, or of all channels of a layer. Arguments are those of `TokenMaps.to_circuitsvis`.

    Raises:
        InputError: if the maps are not square.
    """
    if len(maps.queries) != len(maps.tokens):
        raise InputError(
            f"CircuitsVis draws square maps, these have {len(maps.queries)} queries of {len(maps.tokens)} tokens. "
            "Compute maps of all queries, or use to_html."
        )
    number = layer_number(layer, maps.layers)
    heads = maps.channels if name is None else ()
    cells = (maps.values[maps.layers.index(number)] if name is None else maps[name, number]).detach().cpu().float()
    page = token_maps_page({"run": maps}, layer=number, channel=name)
    limit = float(cells.abs().max()) or 1.0
    properties = {
        "attention": cells.tolist(),
        "tokens": [visible(token) for token in maps.tokens],
        "maxValue": limit,
        "minValue": -limit if maps.signed else 0.0,
        "maskUpperTri": maps.causal,
    }
    by_head = {"attentionHeadNames": list(heads)} if heads else {}
    heading = f"{maps.model}, layer {number}, {maps.kind if name is None else name}"
    component: Any = "AttentionHeads" if heads else "AttentionPattern"
    html = component_page(component, properties | by_head, heading=heading)
    return iframe(html, height=height, title=heading, still=still_of(page))


@panel_of.register
def _maps_panel(further: TokenMaps, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]) -> Any:
    if further.by_position:
        raise InputError(
            f"beside: the {further.kind} are numbers by position, {further.column} each, expected maps between tokens. Use the "
            'attribution itself, or its token_maps("edges").'
        )
    refuse_other_run(f"{further.kind} maps are", further.tokens, further.identity, maps)
    for axis in ("layers", "queries"):
        held = getattr(further, axis)
        if missing := [number for number in getattr(maps, axis) if number not in held]:
            raise InputError(
                f"beside: the {further.kind} maps do not have {axis} {spans(missing)}, only {spans(held)}. Compute one of both with "
                f"other {axis}=."
            )
    return {name(further.kind): token_maps_block(further, maps.layers, maps.queries)}


@panel_of.register
def _scores_panel(
    scores: AttentionScores, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]
) -> Any:
    mine = (scores.queries, len(scores.tokens))
    if mine != (text.queries, len(text.words)) or not set(scores.layers) <= set(text.layers):
        raise InputError(
            f"these scores are of {len(scores.tokens)} tokens, {len(scores.queries)} queries and layers {scores.layers}; the page "
            f"is of {len(text.words)} tokens, {len(text.queries)} queries and layers {text.layers}. Use the same text for both."
        )
    cells, names = text.reachable(), head_names(scores.heads)
    values = scores.score.masked_fill(scores.pattern == 0, torch.nan)
    tables = {
        "query": scores.query,
        "key": scores.key,
        "score": values[..., cells],
        "weight": scores.pattern[..., cells],
        "value": scores.value_norms,
    }
    packed = {n: {head: pack(t[:, at]) for at, head in enumerate(names)} for n, t in tables.items() if t is not None}
    json = {"kind": "scores", "layers": scores.layers, "heads": names, "scale": scores.scale, "error": scores.error}
    sent = {n: {head: table.payload for head, table in heads.items()} for n, heads in packed.items()}
    precision = max(table.precision for heads in packed.values() for table in heads.values())
    return {name("scores"): DataBlock(json | sent, precision)}


@panel_of.register
def _card_panel(card: MemoryCard, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]) -> Any:
    if card.text is not None and len(card.text.tokens) != len(text.words):
        raise InputError(
            f"the card of memory {card.memory} is of a text of {len(card.text.tokens)} tokens, the page of {len(text.words)}."
        )

    def shown(value: Any) -> Any:
        if isinstance(value, Mapping):
            tokens = ("tokens", "top", "bottom")
            return {field: [*map(visible, held)] if field in tokens else shown(held) for field, held in value.items()}
        return [*map(shown, value)] if isinstance(value, list | tuple) else value

    json = {"kind": "memory", **rounded(shown(card.to_dict()), CARD_DIGITS)}
    return {name("memory"): DataBlock(json, 0.5 * 10.0 ** (1 - CARD_DIGITS))}


def refuse_other_run(what: str, tokens: Sequence[str], identity: Mapping[str, str], maps: Any) -> None:
    """Refuse a panel of other tokens, of a model with another name, or of other weights, if both fingerprints are known.

    Raises:
        InputError: with the first difference.
    """
    if tuple(tokens) != maps.tokens:
        raise InputError(
            f"beside: the {what} of {len(tokens)} tokens ({shortened(tokens)}), these maps are of {len(maps.tokens)} "
            f"({shortened(maps.tokens)}). Use the same text for both."
        )
    for name in ("model", "fingerprint"):
        mine, theirs = maps.identity[name], identity[name]
        if mine != theirs and mine not in UNKNOWN and theirs not in UNKNOWN:
            weights = " (its weights, by their fingerprint)" * (name == "fingerprint")
            raise InputError(
                f"beside: the {what} of {theirs}, these maps are of {mine}{weights}. Use the same model for both."
            )


def _with_panels(run: PageRun, maps: Any, beside: Any, text: PageText, first: Sequence[str]) -> PageRun:
    blocks = dict(run.blocks)

    def free(kind: str) -> str:
        return kind if kind not in blocks else f"{kind} {len(blocks)}"

    for further in beside if isinstance(beside, list | tuple) else (beside,):
        blocks |= panel_of(further, maps, text, free, first)
    return replace(run, blocks=blocks)


def _column(channel: str, ref: str | None, label: str, words: str) -> dict[str, str | None]:
    return {"channel": channel, "ref": ref, "label": label, "words": words}


def _track(
    title: str, note: str, columns: Sequence[Any], values: Changes, *, stretched: bool = False, cumulative: bool = False
) -> dict[str, Any]:
    of_track = {"title": title, "note": note, "columns": columns, "values": values}
    return of_track | {"stretched": stretched, "cumulative": cumulative}


def _more(sides: tuple[str, ...]) -> str:
    first, second = sides or ("the first result", "the second")
    return f"how much more the column's token contributes to the row's vector in {first} than in {second}"


def _step_changes(maps: ContributionMaps, steps: Steps) -> tuple[Changes, Changes]:
    """Contextualization changes (1 - Spearman's rho of cells) by scope, [layer]: of each step, and since the attention block."""
    cells = maps.reachable()

    @cache
    def ranked(scope: str) -> Float64[np.ndarray, "layer cell"]:
        return unit_ranks(maps[scope].cpu()[:, cells].double().numpy())

    def change(before: str, after: str) -> Float[Tensor, " layer"]:
        return torch.from_numpy(1 - (ranked(before) * ranked(after)).sum(axis=-1))

    by_step = {scope: change(before, scope) for scope, (_, before) in steps.items() if before is not None}
    return by_step, {scope: change("Atb", scope) for scope in steps_since(steps, "Atb")}


def _step_tracks(steps: Steps, by_step: Changes, since_block: Changes) -> list[dict[str, Any]]:
    """Tracks of the change by each step, and of the change since the attention block after every further step."""
    words = "change of the ranking of token pairs"
    columns = [
        _column(scope, before, step.component, f"{words} by {step.shows} ({before} → {scope})")
        for scope, (step, before) in steps.items()
        if before is not None
    ]
    if not columns:
        return []
    note = "Dark: the step changed the ranking of token pairs most (1 − Spearman's ρ between maps, up to {:.2g}; 0 is the same order)."
    largest = max(float(change.nan_to_num(0).max()) for change in (*by_step.values(), *since_block.values()))
    tracks = [_track("by each step", note.format(largest), columns, by_step)]
    if len(since_block) > 1:
        later = [
            _column(s, "Atb", f"+{steps[s][0].component}", f"{words} since the attention block (Atb → {s})")
            for s in since_block
        ]
        note = "Right: the change since attention. Lighter again: the next step undoes part of it."
        tracks.append(_track("since Atb", note, later, since_block, cumulative=True))
    return tracks


def _run(
    name: str, maps: ContributionMaps, steps: Steps, changes: tuple[Changes, Changes], preferred: Sequence[str]
) -> PageRun:
    cells = maps.reachable()
    tables = {"bias": maps.bias, "remainder": maps.remainder}
    columns = {n: t for n, t in tables.items() if any(bool(torch.count_nonzero(rows)) for rows in t.values())}
    tracks = _step_tracks(steps, *changes) or [size_track({scope: maps[scope] for scope in steps}, cells)]
    blocks: dict[str, PageBlock] = {"contributions": contribution_block(maps, steps, columns, tracks)}
    if not maps.signed:
        blocks |= _split_blocks(maps, "head", maps.heads, preferred)
        blocks |= _split_blocks(maps, "expert", maps.experts, preferred)
    return PageRun(name, tuple(visible(token) for token in maps.tokens), blocks)


def _split_blocks(
    maps: ContributionMaps, axis: Literal["head", "expert"], split: HeadTable, first: Sequence[str]
) -> dict[str, MapsBlock]:
    """Blocks of contributions by head or by expert: one per scope, those of `first` first, up to `HEADS_BYTES`.

    Scopes whose heads or experts contribute nothing are omitted, such as those before the feed-forward for experts.

    Args:
        maps: The maps.
        axis: "head" or "expert".
        split: Maps by head or by expert; empty if they were not computed.
        first: Scopes of the page's opening view.
    """
    coarse = len(maps.tokens) > FINE_TOKENS
    size = int(maps.reachable().sum()) * len(maps.layers) * len(split.channels) * (1 if coarse else 2)
    room = max(1, HEADS_BYTES // max(size, 1))
    there = [scope for scope in split if bool(split[scope][:, :-1].count_nonzero())]
    order = [*(scope for scope in first if scope in there), *(scope for scope in there if scope not in first)]
    blocks: dict[str, MapsBlock] = {}
    for scope in order[:room]:
        values = {name: split[scope][:, number] for number, name in enumerate(split.channels)}
        meaning, title = f"{CONTRIBUTES} through this {axis}", f"{scope} by {axis}"
        blocks[title] = MapsBlock(
            labels=maps_labels(title=title, short="norm", unit=NORM, meaning=meaning, axis=axis, of=scope, exact=True),
            channels=tuple(channel(name) for name in split.channels),
            values=values,
            tracks=(others_track(values, maps.queries),),
            coarse=coarse,
        )
    return blocks


def _ends(average: AverageMaps) -> dict[str, TokenMaps]:
    """Maps of the mean and of both ends of its interval, not whole: shares are those of each prompt, averaged."""
    ends = {"mean": average.mean, "low": average.interval.low, "high": average.interval.high}
    maps = average.token_maps()
    return {name: replace(maps, values=values, whole=False) for name, values in ends.items()}


def _others(numbers: Tensor, names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Pairs of "row,column" and the other results' numbers of this cell, for cells without NaN."""
    for row, of_row in enumerate(numbers.permute(1, 2, 0).tolist() if names else ()):
        for column, known in enumerate(of_row):
            if all(number == number for number in known):
                yield f"{row},{column}", [*zip(names, known, strict=True)]


def _refuse_choices(**choices: object) -> None:
    for name, choice in choices.items():
        if choice is not None:
            raise InputError(f"{name}={brief(choice)}: the page of numbers by position shows all layers. Omit it.")


def _page_text(maps: ContributionMaps | TokenMaps, segments: Mapping[str, int] | None) -> PageText:
    words, special = word_numbers(maps.tokens), special_positions(maps.tokens)
    return PageText(maps.queries, maps.layers, maps.causal, words, special, text_segments(maps.tokens, segments))


def _feed_forward(steps: Steps) -> str:
    """The last feed-forward step that can be compared, else the last one, else the last step."""
    feed_forward = [scope for scope, (step, _) in steps.items() if step.component == "FF"]
    compared = [scope for scope in feed_forward if steps[scope][1] is not None]
    return (compared or feed_forward or list(steps))[-1]


def _start_map(maps: TokenMaps, layer: int | None, channel: str | None) -> tuple[int, str]:
    """Layer and channel at which a page of token maps opens: for signed maps, those of the largest absolute cell."""
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


def _start_cell(
    maps: ContributionMaps,
    after: Float[Tensor, "query key"],
    before: Float[Tensor, "query key"] | None,
    query: int | str | None,
) -> tuple[int, int]:
    """Positions (query, key) of the cell whose share among other tokens changed most, in the row of `query` if it is given.

    If no row has two other tokens, as with two tokens in a causal model, shares are those among all tokens.
    """
    reachable = maps.reachable()
    others = others_of(reachable, maps.queries)
    changes = after.cpu().double().where(others, 0.0)
    if not maps.signed and before is not None:
        counted = others if int(others.sum(dim=-1).max()) > 1 else reachable
        changes = shares_of_others(after, counted) - shares_of_others(before, counted)
    return _largest_cell(changes, maps, None if query is None else _row_of(maps, query))


def _largest_cell(
    cells: Float[Tensor, "query key"], maps: ContributionMaps | TokenMaps, row: int | None = None
) -> tuple[int, int]:
    """Positions (query, key) of the cell at which a page opens: a large one of two different tokens, preferably words.

    In a causal model the query is in the last third.
    """
    queries = list(maps.queries)
    sizes = cells.detach().cpu().double().abs().nan_to_num(0.0).clone()
    sizes[torch.arange(len(queries)), queries] = 0.0
    late = torch.tensor(queries) >= 2 * len(maps.tokens) // 3
    if maps.causal and row is None and bool(sizes[late].any()):
        sizes *= late[
            :, None
        ]  # Early rows have few cells, so large shares, and an overview that is mostly out of reach.
    elif not maps.causal:  # So have rows of named positions with few others before them.
        sizes *= (~cells.detach().cpu().isnan()).sum(dim=-1, keepdim=True).double().sqrt()
    special = special_positions(maps.tokens)
    words = [position not in special and any(c.isalpha() for c in token) for position, token in enumerate(maps.tokens)]
    weights = torch.tensor([1.0 if word else 1e-3 for word in words], dtype=torch.float64)
    sizes *= weights[queries][:, None] * weights
    row = int(sizes.max(dim=1).values.argmax()) if row is None else row
    largest = int(sizes[row].argmax())
    return queries[row], largest if float(sizes[row, largest]) > 0 else queries[row]


def _opening(
    usual: tuple[int, int, int], beside: Any, maps: ContributionMaps | TokenMaps, view: View
) -> tuple[int, int, int, str]:
    """Layer, query, key and head at which a page opens; no head is an empty text.

    For an overview, this is the largest absolute attribution of one head's edge between two tokens, if the maps have this cell.
    For memories, it is the position where the first one is most active.
    """
    panels = beside if isinstance(beside, list | tuple) else (beside,)
    for card in panels if view == "memories" else ():
        if isinstance(card, MemoryCard) and card.text is not None:
            query = int(np.abs(card.text.along).argmax())
            return (usual[0], query, query, "") if query in maps.queries else (*usual, "")
    for result in panels if view == "overview" else ():
        if "edges" in getattr(result, "parts", {}):
            sizes = result.edges.abs()
            sizes.diagonal(dim1=-2, dim2=-1).zero_()
            layer, head, query, key = map(int, np.unravel_index(int(sizes.argmax()), sizes.shape))
            there = layer in maps.layers and query in maps.queries and float(sizes.max()) > 0
            return (layer, query, key, str(head)) if there else (*usual, "")
    return (*usual, "")


def _row_of(maps: ContributionMaps, query: int | str) -> int:
    """Row of a position, negative from the end, or of the first token with this text.

    Raises:
        InputError: if the maps have no such row.
    """
    n = len(maps.tokens)
    if isinstance(query, int):
        positions = [query % n] if -n <= query < n else []
    else:
        positions = [at for at, token in enumerate(maps.tokens) if query in (token, token.strip(), visible(token))]
    rows = [maps.queries.index(position) for position in positions if position in maps.queries]
    if not rows:
        raise InputError(
            f"query={query!r}: expected a position among {', '.join(map(str, maps.queries[:20]))} or one of their tokens, "
            f"such as {maps.tokens[maps.queries[-1]]!r}."
        )
    return rows[0]


def _worst(results: Sequence[ContributionMaps]) -> dict[str, Any] | None:
    worst = [(*result.worst_completeness(), run) for run, result in enumerate(results)]
    error, scope, layer, query, run = max(worst, key=lambda entry: entry[0])
    place = {"error": error, "scope": scope, "layer": layer, "query": query, "run": run}
    return place if math.isfinite(error) and scope else None
