"""Pages and figures of attributions, continuations, patching and knock-outs; tables of any other result."""

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.average_shares import Averages, AverageShares
from tl_ffblock.attribution.certificate import VANISHED
from tl_ffblock.attribution.continuation import ContinuationAttribution
from tl_ffblock.attribution.direct import DirectLogitAttribution, LogitLens
from tl_ffblock.attribution.faithfulness import Faithfulness
from tl_ffblock.attribution.patching import PatchingEstimates
from tl_ffblock.errors import InputError
from tl_ffblock.heads.scores import AttentionHeadScores
from tl_ffblock.interventions.activation_patching import ActivationPatching, PatchingComparison
from tl_ffblock.interventions.attention_knockout import AttentionKnockout
from tl_ffblock.interventions.circuits import CircuitFaithfulness
from tl_ffblock.interventions.sweeps import ContributionSweep
from tl_ffblock.layer.positions import spans
from tl_ffblock.metrics import CENTRED_LOGIT
from tl_ffblock.numerals import percent, scientific, significant, typographic, typographic_words
from tl_ffblock.page import (
    DataBlock,
    MapsBlock,
    NumbersBlock,
    PageBlock,
    PageData,
    PageRun,
    PageStart,
    PageText,
    maps_labels,
    numbers_page,
    shares_map,
)
from tl_ffblock.page.data import MAP_DIGITS, SHOWN_DIGITS
from tl_ffblock.page.numbers import rounded
from tl_ffblock.result import Result, long_form
from tl_ffblock.results.ranks import largest
from tl_ffblock.results.tokens import shortened, special_positions, told_apart, visible, word_numbers
from tl_ffblock.signatures import PLURAL, by_plural, in_plural, refuse_options, refuse_value
from tl_ffblock.views.figures import headline_and_facts, lines, map_figure, page_figure, scatter, signs
from tl_ffblock.views.maps import FINE_TOKENS, channel, refuse_other_run, run_names, size_track, token_maps_page
from tl_ffblock.views.registry import figure_of, page_of, panel_of

OVERLAP = (
    "Heads and neurons are another decomposition of the same total. Within a layer, heads, residual stream and later biases sum "
    "to the target, and so do neurons, residual stream and later biases. Attributions of different layers, and of heads and "
    "neurons, overlap, because later layers read earlier ones and neurons read heads."
)
"""Which attributions sum to the target, for pages."""
DIRECT = (
    "Heads, feed-forwards, embeddings and biases are terms of one sum, the target: these are direct contributions, without "
    "paths through later heads and feed-forwards. Neurons are the terms of their feed-forward."
)
"""The same for direct contributions."""
# Entries of a table of components, and rows of a result's table, on a page.
MOST_ENTRIES = 20
MOST_ROWS = 100
# Value of a column that does not apply, such as the head of a feed-forward.
NONE = -1
# Columns that identify a component.
PLACES = ("kind", "layer", "head", "neuron", "bias", "position", "query", "key", "channel", "scope")
# Name of the remainder of a layer on pages of named positions, and what it consists of.
OTHERS, REMAINDER = "others", "other positions, later biases and all else that the target has"
# Results whose numbers may be summed over heads and positions; measured effects of patching may not.
SUMMED = (Attribution, Averages, AverageShares, PatchingEstimates)
# Columns of numbers that are names, which have no order.
NUMBERED = ("head", "neuron", "memory")
# Meaning of a cell, by class of the result; {} is the kind of component. Each kind has its own colour scale.
NOTES: Mapping[type, str] = {
    ActivationPatching: "Measured change of the target with {} replaced.",
    PatchingEstimates: "Estimated change of the target if {} were the corrupted run's.",
    ContributionSweep: "Measured change of the metric with one contribution changed.",
}
# By kind: name, and the place of a number in a sentence.
STREAMS_OF = {
    "residual": ("residual stream", "the residual stream at the input of layer {layer}"),
    "residual_mid": ("residual stream after attention", "the residual stream after attention of layer {layer}"),
    "attention": ("attention", "the attention output of layer {layer}"),
    "mlp": ("feed-forwards", "the feed-forward of layer {layer}"),
}
HEADS_OF = {
    "head": ("heads", "L{layer}H{head}"),
    "pattern": ("attention patterns", "the attention pattern of L{layer}H{head}"),
    "q": ("queries", "the queries of L{layer}H{head}"),
    "k": ("keys", "the keys of L{layer}KV{head}"),
    "v": ("values", "the values of L{layer}KV{head}"),
}
# Name of the only column of components that were changed at all positions at once.
EVERYWHERE = "all positions"
# Largest distance from 1 of a faithfulness that a heading names.
NEAR = 0.1
# Names of columns in the plural.
AXES: Mapping[str | None, str] = {"position": "positions", "source": "sources", None: "heads"}
# What an overview says of measured numbers unless their result says otherwise.
SAID: dict[str, Any] = {
    "verb": "",
    "column": "change",
    "base": None,
    "facts": [],
    "unit": "",
    "answer": "",
    "how": "",
}
# Meanings of bands, and of a curve of faithfulness.
HOW_DIRECT = "Width and colour: direct contribution to the answer; “sum so far” is that of all before the layer."
FAITHFUL = "1: the circuit gives the model's own value; 0: that of the ablated model. Shaded: the area of CMD."
HOW_PATCHED = "Width and colour: change of the answer, {name} {done} one at a time."
HOW_ESTIMATED = "Width and colour: estimated change of the answer, {name} patched one at a time."
HOW_BLOCKED = "Width and colour: change of the answer with attention blocked in a window of layers."
# Largest number of columns of such an overview.
MOST_COLUMNS = 400
MASKING = (
    (
        "Rank correlation",
        "Spearman's rho of the scores with the fall of the target as each token alone is masked.",
        ("correlation",),
    ),
    (
        "Fall of the target",
        "Mean fall as tokens are masked, largest scores first (MoRF) or smallest first (LeRF); area: MoRF minus LeRF.",
        ("MoRF", "LeRF", "area"),
    ),
    ("Rank of the cause", "1 / rank of the token that is the cause.", ("cause",)),
)
"""Of a masking test: title, note and measures of each map."""
KINDS = {
    "residual": "the residual stream",
    "residual_mid": "the residual stream after attention",
    "attention": "attention's output",
    "mlp": "a feed-forward's output",
    "head": "a head's output",
    "pattern": "a head's attention pattern",
    "q": "a head's queries",
    "k": "a head's keys",
    "v": "a head's values",
}
"""Kinds of components as parts of a sentence."""
# Numbers of a continuation's overviews on a page, of up to nine bytes each.
STREAMS = 200_000
# Name of a target's block.
LOGIT = "logit"
# Keys of an overview's block, and their values for results that lack them.
LAYERS: Mapping[str, Any] = {
    "kind": "logit", "value": None, "answer": "", "unit": "", "sums": (), "entering": None, "ends": None, "biases": (), "heads": None,
    "head_ends": None, "edges": {}, "neurons": (), "rules": "", "method": "", "complete": False, "certificate": "", "maps": "",
}  # fmt: skip
# Number of layers with a label along an axis.
MOST_LABELS = 12
# Number of a head's edges, or of a layer's neurons, in the details of a page.
MOST_EDGES = 6
# Bytes for signed maps on a page, before compression; further scopes than the first are omitted above.
SIGNED_BYTES = 400_000
# Method of attribution by name of the rules, for captions.
METHODS = {
    "path": "attribution by one backward pass: attention patterns and norm scales as in the run, activations by Integrated Gradients",
    "patching": "attribution by one backward pass: queries and keys with their gradient, norm scales as in the run, activations by "
    "Integrated Gradients",
    "gradient": "attribution by gradient × input",
    "direct": "direct logit attribution: what components write to the residual stream, norm scales as in the run",
}
OF_NEURONS = "Like heads they are another decomposition of the same total: they read heads, and later layers read them."


@page_of.register
def attribution_page(result: Attribution, *, against: Attribution | None = None) -> PageData:
    """Page of the attribution of one target: overview, tables, and with edges the maps of heads between tokens.

    Args:
        result: The attribution.
        against: Another attribution with equally many tokens and the same tables, such as of another checkpoint. The page shows
            both and their difference.

    Raises:
        InputError: if the two attributions cannot be subtracted.
    """
    if against is not None:
        names = (*run_names(result.labels, against.labels, (result.model, against.model)), "difference")
        pages = [attribution_page(one) for one in (result, against, result - against)]
        held = _alike([dict(page.runs[0].blocks) for page in pages])
        runs = tuple(
            PageRun(name, page.runs[0].tokens, blocks) for name, page, blocks in zip(names, pages, held, strict=True)
        )
        statement = " ".join(f"{name}: {page.statement}" for name, page in zip(names, pages[:2], strict=False))
        return replace(pages[0], runs=runs, statement=statement)
    tokens = told_apart(result.labels)
    parts = ("mlps",) if "edges" in result.parts else ("heads", "mlps")
    numbers = NumbersBlock(maps=tuple(_maps(result, tokens, parts)), tables=tuple(_tables(result, tokens)))
    blocks: dict[str, PageBlock] = {"numbers": numbers} if numbers.maps or numbers.tables else {}
    statement = f"{VANISHED}. " * result.vanishes + _statement(result)
    if "edges" in result.parts:
        edges = result.token_maps("edges")
        if edges.values.numel() * 2 > SIGNED_BYTES:
            edges = replace(edges, values=edges.values.sum(dim=1, keepdim=True), channels=("all heads",))
        page = token_maps_page({"run": edges}, view="overview", beside=result)
        (run,) = page.runs
        return replace(page, runs=(replace(run, blocks={**run.blocks, **blocks}),), statement=statement)
    heading = f"attributions of the {result.quantity}, rules “{result.rules}”"
    blocks = {LOGIT: _logit_block(result, ""), **blocks}
    heads = result.heads.sum(dim=-1) if "heads" in result.parts else None
    return _target_page(result.model, result.labels, result.residual, blocks, heading, statement, heads)


def _alike(pages: list[dict[str, PageBlock]]) -> list[dict[str, PageBlock]]:
    """Blocks of pages under the names of the first; a page without tables and maps of numbers has empty ones where another has some."""
    numbers = [page.pop("numbers", None) for page in pages]
    named = [dict(zip(pages[0], page.values(), strict=True)) for page in pages]
    if any(block is not None for block in numbers):
        named = [page | {"numbers": block or NumbersBlock()} for page, block in zip(named, numbers, strict=True)]
    return named


@page_of.register
def direct_page(result: DirectLogitAttribution) -> PageData:
    """Page of the direct contributions to one target by layer: heads, feed-forwards, biases, and the sum so far.

    The sum at a layer is that of the residual stream at its input; at the end it is the target.
    """
    rows, whole = result.n_layers + 1, torch.zeros(1)
    biases = torch.zeros(rows)
    for (_, share), layer in zip(result.biases.items(), result.bias_layers, strict=True):
        biases[max(0, layer)] += share * (layer >= 0)
    any_bias = bool(biases.any())
    so_far = torch.cat([result.residual[:-1].sum(dim=1), torch.tensor([result.value])])
    written = [torch.cat([part.flatten(1).sum(dim=1), whole * torch.nan]) for part in (result.heads, result.mlps)]
    block = _layers_block(
        torch.stack([*written, *([biases] if any_bias else []), so_far], dim=1),
        value=result.value,
        heads=torch.cat([result.heads.sum(dim=-1), torch.full((1, result.heads.shape[1]), torch.nan)]),
        neurons=[*_largest_neurons(result)],
        target=typographic_words(result.target),
        question=_question(result),
        unit=_unit(result.quantity),
        rules=result.rules,
        method=_method(result.rules),
        certificate=f"{_certificate(result)} {DIRECT}",
        scale="signed",
        one_scale=True,
        axis="components",
        measure=SAID
        | {"column": "writes", "stream": "layer {layer}, {column}", "head": HEADS_OF["head"][1], "how": HOW_DIRECT},
    )
    names = ("attention heads", "feed-forward", *(["biases"] if any_bias else []), "sum so far")
    tables = tuple(_tables(result, told_apart(result.labels)))
    heading = f"direct contributions to the {typographic_words(result.target)}"
    return _columns_page(
        result.model, names, {LOGIT: block}, heading=heading, details=names, tables=tables, statement=_statement(result)
    )


@page_of.register
def continuation_page(result: ContinuationAttribution) -> PageData:
    """Page of all tokens of a continuation: overview of the chosen token, and all attributions as a matrix [target source].

    Only the first tokens, up to `STREAMS` numbers, have an overview. Results of older files have none.
    """
    tokens = told_apart(result.labels)
    rows = tuple(
        _row(name, float(result.values[number]), result.shares[number], result.sums(number))
        for number, name in enumerate(tokens[result.n_prompt :])
    )
    block = NumbersBlock(
        heading=f"{result.reading} of every token of a continuation",
        facts=f"{result.model} · rules “{result.rules}” · {result.n_prompt} tokens of a prompt, {len(rows)} after it",
        rows=rows,
    )
    statement = f"Largest error of a row, over the sum of sizes: {typographic(scientific(float(result.errors.max())))}."
    if result.residual is None:
        return numbers_page(result.model, block, tokens, statement=statement)
    shown = min(len(rows), max(1, STREAMS // result.residual[0].numel()))
    if shown < len(rows):
        statement += f" Overviews are of the first {shown} tokens of {len(rows)}."
    made: dict[str, PageBlock] = {f"{LOGIT} {result.n_prompt + row}": _continued(result, row) for row in range(shown)}
    blocks = {**made, "numbers": block}
    return _target_page(result.model, result.labels, result.residual[0], blocks, block.heading, statement)


@page_of.register
def averages_page(result: Averages) -> PageData:
    """Page of mean attributions at named positions: overview with intervals; without targets or tokens, the table."""
    flows, heads = result.kinds.get("residual"), result.kinds.get("head")
    if flows is None or not flows.targets or not flows.tokens:
        return table_page(result)
    flows, named = _with_others(flows), flows.mean
    value, n = float(np.mean(flows.targets)), len(flows.values)
    stream = flows.mean
    block = _layers_block(
        stream,
        value=value,
        sums=[*zip(flows.tokens, stream[0].tolist(), strict=True)],
        entering=stream[0],
        ends=[flows.interval.low, flows.interval.high] if n > 1 else None,
        **{} if heads is None else _head_means(heads),
        target=f"mean {flows.quantity} of {n} prompts",
        question=f"What makes the {flows.quantity}? Mean of {n} prompts:",
        unit=_unit(flows.quantity),
        rules=flows.rules,
        method=_method(flows.rules),
        others=True,
        certificate="Each prompt's own attribution has a certificate; a mean has none.",
    )
    further = dict([*_layered(result)[0].items()][1:])
    page = _target_page(
        flows.model,
        tuple(flows.tokens),
        named,
        {LOGIT: block, **further},
        headline_and_facts(result)[0],
        "",
        None if heads is None else heads.mean,
    )
    return replace(page, text=replace(page.text, named=True, details=tuple(map(visible, flows.tokens.values()))))


def _head_means(heads: AverageShares) -> dict[str, Any]:
    """Means of heads [layer head position] with their intervals, and no number for the other positions."""

    def padded(numbers: Tensor) -> Tensor:
        return torch.cat([numbers, torch.full((*numbers.shape[:2], 1), torch.nan)], dim=-1)

    ends = [padded(heads.interval.low), padded(heads.interval.high)] if len(heads.values) > 1 else None
    return {"heads": padded(heads.mean), "head_ends": ends}


def _with_others(shares: AverageShares) -> AverageShares:
    """The residual stream at named positions, and as a last position the remainder of each layer: all sum to the target.

    Other results, and those without targets or named positions, stay as they are.
    """
    if shares.of != "residual" or not shares.targets or not shares.tokens:
        return shares
    name = OTHERS
    while name in shares.tokens:
        name = f"all-{name}"
    targets = torch.tensor(shares.targets, dtype=shares.values.dtype)[:, None]
    remaining = (targets - shares.values.sum(dim=-1))[..., None]
    return replace(
        shares,
        values=torch.cat([shares.values, remaining], dim=-1),
        places={**shares.places, "position": (*shares.places["position"], name)},
        tokens={**shares.tokens, name: REMAINDER},
    )


@page_of.register
def lens_page(result: LogitLens) -> PageData:
    """Page of a logit lens: the most probable token of every layer and position, and the target followed through the layers."""
    whole = result.positions == tuple(range(len(result.labels)))
    apart = told_apart(result.labels)
    columns = result.labels if whole else tuple(apart[position] for position in result.positions)
    blocks: dict[str, DataBlock] = {}
    for name, after in (("at each layer's input", False), ("after each layer's attention", True)):
        rows = [row for row, said in enumerate(result.names) if said.endswith("after attention") == after]
        if rows:
            blocks[f"{LOGIT} {name}" if blocks else LOGIT] = _lens_block(result, rows, name)
    last = f"The last row is the model's own logits, to {typographic(scientific(result.error))} of the largest."
    details = () if whole else columns
    return _columns_page(
        result.model,
        columns,
        blocks,
        heading="logit lens",
        details=details,
        statement=last,
        opening=(-2, len(columns) - 1),
    )


def _lens_block(result: LogitLens, rows: Sequence[int], name: str) -> DataBlock:
    """Overview of some rows of a lens: probabilities of the most probable tokens, and the target beside them."""
    ends = [result.layers[row] for row in rows]
    end = result.names[rows[-1]] == "output"
    said = [
        [[*zip(map(visible, tokens), chances, strict=True)] for tokens, chances in zip(row, of_row, strict=True)]
        for row, of_row in ((result.top_tokens[row], result.top_probabilities[row].tolist()) for row in rows)
    ]
    strip = None
    if result.values is not None:
        strip = {"name": typographic_words(result.target), "values": result.values[list(rows)]}
    return _layers_block(
        result.top_probabilities[list(rows), :, 0],
        layers=[*ends[:-1], None] if end else ends,
        names=[*map(str, ends[:-1]), "end"] if end else [*map(str, ends)],
        says=said,
        entropy=result.entropy[list(rows)],
        strip=strip,
        choice=name,
        target=typographic_words(result.target) or "next token",
        question="What would the model say at each layer?",
        scale="contribution",
        method="logit lens: the residual stream, normalised with its own scale, times the unembedding",
        measure=SAID
        | {
            "column": "probability",
            "stream": f"Read {name.replace('each layer', 'layer {layer}')} at {{column}}",
            "head": "",
        }
        | {"how": f"The most probable next token {name}; colour: its probability."},
    )


@figure_of.register(AttentionKnockout)
def knockout_figure(result: AttentionKnockout, *, width: float | None = None, **options: Any) -> Any:
    """Figure of the target's change by the centre of the window, one line per source, with 95 % intervals over prompts.

    Args:
        result: The knock-outs.
        width: Inches; None means one column of a paper.
        **options: Options of `result_figure`: of, against, by_layer.
    """
    if options:
        return result_figure(result, width=width, **options)
    sources = {name: result.effect[:, number] for number, name in enumerate(result.sources)}
    every = -(-len(result.layers) // MOST_LABELS)
    labels = [str(layer) if number % every == 0 else "" for number, layer in enumerate(result.layers)]
    title = f"{typographic_words(result.target)}, attention knockout from {result.query_tokens.strip()!r}"
    note = "Change of the target when attention to the source is blocked in a window of layers."
    axis = {"xlabel": "layer, centre of the window", "ylabel": "change of the target"}
    figure = lines(sources, title=title, x=labels, width=width, caption=f"{result.model}. {note}", **axis)
    place = figure.axes[0]
    if len(result.by_prompt) > 1:
        for number, line in enumerate(place.get_lines()[: len(sources)]):
            ends = (end[:, number].numpy() for end in (result.interval.low, result.interval.high))
            place.fill_between(range(len(result.layers)), *ends, color=line.get_color(), alpha=0.2, linewidth=0)
        place.autoscale(axis="y")
    return figure


@page_of.register
def masking_page(result: Faithfulness) -> PageData:
    """Correlations of each method, and its falls of the target, which have another unit and so another scale."""
    frame = result.to_dataframe()
    maps = []
    for title, note, measures in MASKING:
        shown = frame[frame["measure"].isin(measures)]
        cells = shown.pivot(index="method", columns="measure", values="value")
        cells = cells.reindex(index=[*result.methods], columns=[name for name in measures if name in cells])
        ends = {(row.method, row.measure): [("low", row.low), ("high", row.high)] for row in shown.itertuples()}
        details = {
            f"{row},{column}": ends[method, measure]
            for row, method in enumerate(cells.index)
            for column, measure in enumerate(cells)
            if (method, measure) in ends and not np.isnan(ends[method, measure][0][1])
        }
        if cells.size:
            rows, columns = ("method", result.methods), ("measure", tuple(cells))
            values = torch.tensor(cells.to_numpy(dtype=float))
            maps.append(shares_map(title, note, rows, columns, values, details, signed="cause" not in cells))
    block = NumbersBlock(f"Masking test: {headline_and_facts(result)[0]}", result.model, maps=tuple(maps))
    return numbers_page(result.model, block)


@page_of.register
def sizes_page(result: CircuitFaithfulness) -> PageData:
    """Page of faithfulness by size of the circuit: the curve with its intervals, CMD as the area between it and 1."""
    frame = result.to_dataframe().sort_values("edges", kind="stable")
    several = frame["edges"].nunique() > 1 and frame["edges"].max() == result.n_possible
    areas = f"CMD {significant(result.cmd, 3, '-')} · CPR {significant(result.cpr, 3, '-')}" if several else ""
    near = frame[(frame["value"] - 1).abs() <= NEAR]
    found = (
        f" {near['edges'].iloc[0]:,} of {result.n_possible:,} have faithfulness {significant(near['value'].iloc[0], 3, '-')}."
        if len(near)
        else ""
    )
    curve = {
        "title": "Faithfulness by number of edges",
        "note": FAITHFUL + " Lines: 95 % intervals over pairs." * (len(result.clean) > 1),
        "x": frame["fraction"].tolist(),
        **{name: frame[column].tolist() for name, column in (("y", "value"), ("low", "low"), ("high", "high"))},
        "names": [f"{edges:,} edges, {percent(fraction)}" for edges, fraction in zip(frame["edges"], frame["fraction"], strict=True)],
        "axis": "edges of the circuit, per cent of all",
        "label": areas,
    }  # fmt: skip
    facts = [
        result.model,
        typographic_words(result.target),
        f"ablation {result.ablation}",
        areas,
        f"{len(result.clean)} pairs" * (len(result.clean) > 1),
    ]
    block = NumbersBlock(
        f"How many edges does the answer need?{found}", " · ".join(filter(None, facts)), curves=(curve,)
    )
    return numbers_page(result.model, block, statement=str(result.certificate))


@page_of.register
def table_page(result: Result) -> PageData:
    """Page of any other result: an overview if numbers are by layer, else a map or a table of the largest numbers."""
    headline, facts = headline_and_facts(result)
    blocks, names, details = _layered(result)
    model = str(
        getattr(result, "model", "") or getattr(next(iter(getattr(result, "kinds", {}).values()), None), "model", "")
    )
    if blocks:
        return _columns_page(
            model, names, blocks, heading=headline, details=details, provenance={"result": f"{headline} · {facts}"}
        )
    frame, labels, value = _numbers_of(result)
    maps = tuple(_grids(result)) if value is not None else ()
    block = NumbersBlock(
        heading=f"{_in_words(type(result))}: {headline}",
        facts=facts,
        maps=maps,
        tables=() if value is None or maps else (_listed(frame, labels, value) | {"removal": is_removal(result)},),
    )
    return numbers_page(model, block)


@page_of.register(ActivationPatching)
@page_of.register(PatchingEstimates)
def patching_page(result: ActivationPatching | PatchingEstimates, *, beside: Any = ()) -> PageData:
    """Page of a target under patches, or of estimates of it: an overview per kind of component, layers by positions and heads.

    Args:
        result: Measured or estimated changes.
        beside: Attribution, measurement or estimates of the same text, or several: further overviews of the page.

    Raises:
        InputError: if a result is of another text, or neither of these.
    """
    data = table_page(result)
    further = [*beside] if isinstance(beside, list | tuple) else [beside]
    if not further:
        return data
    run, blocks = data.runs[0], dict(data.runs[0].blocks)
    own = {result.labels, getattr(result, "clean_labels", ())} - {()}
    for number, other in enumerate(further, 1):
        if not isinstance(other, Attribution | ActivationPatching | PatchingEstimates):
            raise InputError(
                f"beside={type(other).__name__}: expected an attribution, or measured or estimated patching of the same text."
            )
        if data.text.named or not own & {other.labels, getattr(other, "clean_labels", ())}:
            raise InputError(
                f"beside: the {_in_words(type(other)).lower()} is of {shortened(other.labels)}, this page of "
                f"{shortened(result.labels) if result.labels else 'named positions'}. Use results of one text, at all positions."
            )
        made = {LOGIT: _logit_block(other, "")} if isinstance(other, Attribution) else _layered(other)[0]
        blocks |= {f"{name} beside {number}": block for name, block in made.items()}
    return replace(data, runs=(replace(run, blocks=blocks),))


def _layered(result: Result) -> tuple[dict[str, DataBlock], tuple[str, ...], tuple[str, ...]]:
    """Overviews of a table with a column of layers, one per target and kind, with labels and details of their columns.

    Empty if rows are not identified by layer, head and one further column. The numbers of the last column are those of
    `_numbers_of`.
    """
    frame, labels, value = _numbers_of(result)
    others = [name for name in labels if name not in ("kind", "target", "layer", "head", "token", "window", "n")]
    read = (name for name in ("position", "source") if name in frame and (frame[name] != NONE).any())
    axis = others[0] if others else next(read, None)
    places = [name for name in ("target", "kind", "layer", "head", axis) if name in frame]
    if value is None or "layer" not in frame or axis in NUMBERED or len(others) > 1 or frame.duplicated(places).any():
        return {}, (), ()
    if frame["layer"].nunique() < 2 and axis not in ("position", "source", None):
        return {}, (), ()
    if isinstance(result, AverageShares):
        kinds = by_plural([*STREAMS_OF, *HEADS_OF])
        frame = frame.assign(kind=kinds.get(result.of, result.of))
    end = "kind" in frame and bool((frame["kind"] == "residual").any()) and _has_end(result, frame)
    if isinstance(result, SUMMED) and axis == "position" and pd.api.types.is_integer_dtype(frame["position"]):
        frame = _heads_summed(frame, value)
    frame, rows = _with_columns(frame, axis), tuple(sorted(frame["layer"].unique().tolist()))
    keys, names, details = _labelled(frame, axis)
    if len(keys) > MOST_COLUMNS:
        return {}, (), ()
    blocks: dict[str, DataBlock] = {}
    for number, target in enumerate(result.targets if isinstance(result, ActivationPatching) else ("",)):
        of_target = frame[frame["target"] == target] if "target" in labels else frame
        tables = {
            str(kind): _dense(group, value, rows, keys)
            for kind, group in (of_target.groupby("kind", sort=False) if "kind" in frame else [("", of_target)])
        }
        for stream, head in _pairs(tables):
            block = _measured(
                result, tables, (stream, head), rows, number, end=end, axis=AXES.get(axis, str(axis)) if details else ""
            )
            blocks[f"{LOGIT} {len(blocks)}" if blocks else LOGIT] = block
    return blocks, names, details


def _heads_summed(frame: pd.DataFrame, value: str) -> pd.DataFrame:
    """The table with one row per head, the sum over its positions."""
    heads = frame[frame["head"] != NONE]
    summed = heads.groupby(["kind", "layer", "head"], as_index=False, sort=False)[value].sum().assign(position=NONE)
    return pd.concat([frame[frame["head"] == NONE], summed], ignore_index=True)


def _pairs(tables: Mapping[str, Mapping[str, Any]]) -> list[tuple[str | None, str | None]]:
    """Kinds by position and by head that are shown together: each kind once, the first of the others beside it."""
    streams = [kind for kind, table in tables.items() if not table["heads"]]
    heads = [kind for kind, table in tables.items() if table["heads"]]
    if not streams:
        return [(None, head) for head in heads]
    return [*((stream, heads[0] if heads else None) for stream in streams), *((streams[0], head) for head in heads[1:])]


def _with_columns(frame: pd.DataFrame, axis: str | None) -> pd.DataFrame:
    """The table with the key of each row's column; empty for heads that have one number for all columns.

    Heads alone, without a further axis, are the columns.
    """
    head = frame["head"] != NONE if "head" in frame else pd.Series(False, index=frame.index)
    column = pd.Series(EVERYWHERE, index=frame.index, dtype=object)
    if axis is None and head.all():
        return frame.assign(column="H" + frame["head"].astype(str), head=NONE, by_head=True)
    if axis is not None:
        column = frame[axis].astype(object).where(frame[axis] != NONE, EVERYWHERE)
    column = column.mask(head & (column == EVERYWHERE), "")
    return frame.assign(column=column, head=frame.get("head", NONE), by_head=False)


def _labelled(frame: pd.DataFrame, axis: str | None) -> tuple[list[Any], tuple[str, ...], tuple[str, ...]]:
    """Keys, labels and details of the columns; a whole text has its tokens as labels and no details."""
    keys = [key for key in frame["column"].unique() if key != ""]
    numbers = sorted(key for key in keys if not isinstance(key, str))
    keys = [*numbers, *(key for key in keys if isinstance(key, str))]
    tokens: dict[Any, str] = {}
    if "token" in frame:
        tokens = frame.drop_duplicates("column").set_index("column")["token"].to_dict()
    if axis == "position" and numbers:
        if keys == [*range(len(keys))]:
            return keys, tuple(tokens[key] for key in keys), ()
        whole = numbers == [*range(len(numbers))]
        apart = (
            told_apart([tokens[key] for key in numbers])
            if whole
            else [f"{visible(tokens[key])}@{key}" for key in numbers]
        )
        names = (*apart, *map(str, keys[len(numbers) :]))
    else:
        names = tuple(map(str, keys))
    return keys, names, tuple(visible(tokens.get(key) or name) for key, name in zip(keys, names, strict=True))


def _dense(group: pd.DataFrame, value: str, rows: Sequence[int], keys: Sequence[Any]) -> dict[str, Any]:
    """Numbers of one kind [row column], [row head] or [row head column], NaN where there is none, and ends of their intervals."""
    heads = sorted(set(group["head"].tolist()) - {NONE})
    axes: dict[str, Sequence[Any]] = {"layer": rows, **({"head": heads} if heads else {})}
    axes |= {} if (group["column"] == "").all() else {"column": keys}
    at = tuple(pd.Categorical(group[name], categories=list(held)).codes for name, held in axes.items())
    table: dict[str, Any] = {"heads": heads, "by_head": bool(group["by_head"].iloc[0])}
    for name, column in {"values": value, "low": "low", "high": "high"}.items():
        if column in group:
            cells = np.full([len(held) for held in axes.values()], np.nan)
            cells[at] = group[column].to_numpy(dtype=float)
            table[name] = torch.from_numpy(cells)
    if "low" in table and bool(table["low"].isnan().all()):
        del table["low"], table["high"]
    return table


def _measured(
    result: Result,
    tables: Mapping[str, dict[str, Any]],
    kinds: tuple[str | None, str | None],
    rows: Sequence[int],
    number: int,
    *,
    end: bool,
    axis: str,
) -> DataBlock:
    """Block of measured numbers of one target: a kind by column, and a kind by head."""
    table, beside = (None if kind is None else tables[kind] for kind in kinds)
    stream, head = (kind or "" for kind in kinds)
    words, names = _measure(result, number), [*map(str, rows)]
    if isinstance(result, AttentionKnockout):
        names = [spans(window) for window in result.windows]
    places = _head_words(head) if table is None else _stream_words(stream, table)
    of_head = f"{HEADS_OF.get(head, HEADS_OF['head'])[1]}{' at {column}' * (beside is not None and beside['values'].ndim == 3)}"
    several = f" · {words['target']}" if isinstance(result, ActivationPatching) and len(result.targets) > 1 else ""
    first = next((kind for kind, of in tables.items() if of["heads"]), head)
    name = places[0] if head in ("", first) else _head_words(head)[0]
    sentences = {"stream": places[1] if "{column}" not in words["verb"] else "", "head": of_head}
    shown = _largest_heads(tables[head]["values"]) if table is None else table["values"]
    one_sign = not words["unit"] and float(shown.nan_to_num(0.0).min()) >= 0
    return _layers_block(
        shown,
        layers=[*rows[:-1], None] if end else [*rows],
        names=[*names[:-1], "end"] if end else names,
        heads=None if beside is None else beside["values"],
        axis=axis,
        heads_name=_head_words(head)[0],
        choice=f"{name or words['column']}{several}",
        scale="removal" if is_removal(result) else "contribution" if one_sign else "signed",
        measure=words
        | {"how": words["how"].format(name=places[0] or "the components")}
        | {name: f"{words['verb']}{said}" for name, said in sentences.items()},
        **{key: [of["low"], of["high"]] for key, of in (("ends", table), ("head_ends", beside)) if of and "low" in of},
        **{key: words[key] for key in ("target", "question", "answer", "unit")},
    )


def _largest_heads(values: Float[Tensor, "row head column"]) -> Float[Tensor, "row column"]:
    """The largest head of each row and column, with its sign."""
    at = values.abs().nan_to_num(-1.0).argmax(dim=1, keepdim=True)
    return values.gather(1, at)[:, 0]


def _stream_words(kind: str, table: Mapping[str, Any]) -> tuple[str, str]:
    """Name of a kind by column, and the place of a number in a sentence."""
    if table["by_head"]:
        name, place = HEADS_OF.get(kind, HEADS_OF["head"])
        return name, place.replace("KV{head}", "{column}").replace("H{head}", "{column}")
    name, place = STREAMS_OF.get(kind, ("", "layer {layer}"))
    return name, f"{place} at {{column}}"


def _head_words(kind: str) -> tuple[str, str]:
    """The same for a kind by head and column, of which the largest head of each layer and column is drawn."""
    name, _ = HEADS_OF.get(kind, HEADS_OF["head"])
    return name, f"the largest of the {name} of layer {{layer}} at {{column}}"


def _measure(result: Result, number: int) -> dict[str, Any]:
    """What an overview says of measured numbers: question, answer, verb, and the numbers with which they are compared."""
    further = ""
    match result:
        case ActivationPatching():
            done = "patched" if result.replacement == "run" else "ablated"
            ends = {"clean": float(result.clean[number]), "corrupted": float(result.corrupted[number])}
            before = "clean" if result.direction == "noising" or done == "ablated" else "corrupted"
            target, quantity = result.targets[number], result.quantities[number]
            verb = "Patching " if done == "patched" else f"Ablating ({result.replacement}) "
            asked, how = f"What changes the answer when it is {done}?", HOW_PATCHED.replace("{done}", done)
        case PatchingEstimates():
            ends, before = {"clean": result.clean, "corrupted": result.corrupted}, "clean"
            target, quantity, further = result.target, result.quantity, " · estimated"
            verb, asked, how = "Estimated for ", "What would change the answer if it were patched?", HOW_ESTIMATED
        case AttentionKnockout():
            ends, before, target, quantity = {"baseline": result.baseline}, "baseline", result.target, result.target
            verb, asked = "Blocking attention to {column} in layers {name}", "Which attention does the answer need?"
            how, further = HOW_BLOCKED, f" · from {visible(result.query_tokens)}"
        case _:
            return SAID | _read(result)
    known, unit = {name: end for name, end in ends.items() if not np.isnan(end)}, _unit(quantity)
    answer = " → ".join(typographic(significant(known[name])) for name in dict.fromkeys((before, *known)))
    short = typographic_words(target.removeprefix(quantity).strip() or target)
    said = {"verb": verb, "question": asked, "how": how, "base": ends[before], "facts": [*known.items()], "unit": unit}
    return SAID | said | {"answer": f"{answer} {unit}".strip(), "target": f"{short}{further}"}


def _read(result: Result) -> dict[str, Any]:
    """The same for means over prompts, and for any other numbers by layer."""
    each = next(iter(result.kinds.values())) if isinstance(result, Averages) else result
    if isinstance(each, AverageShares):
        n = len(each.values)
        asked = f"What {'would change' if is_removal(each) else 'makes'} the {each.quantity}?{f' Mean of {n} prompts:' * (n > 1)}"
        answer = typographic(significant(float(np.mean(each.targets)))) if each.targets else ""
        unit = _unit(each.quantity)
        how = f"Width and colour: mean over {n} prompts{', of {name}' * bool(n)}."
        return {
            "how": how,
            "column": "mean",
            "question": asked,
            "target": each.quantity,
            "unit": unit,
            "answer": f"{answer} {unit}".strip() if answer else "",
        }
    headline, _ = headline_and_facts(result)
    if isinstance(result, AttentionHeadScores):
        asked = f"Which heads have the largest {result.score} scores?"
        how = f"Width and colour: mean {result.score} score over {len(result.tokens)} sequences."
        return {
            "how": how,
            "column": "score",
            "question": asked,
            "target": headline,
            "verb": f"{result.score.capitalize()} score of ".replace("_", " "),
        }
    return {
        "how": "Width and colour: value.",
        "column": "value",
        "question": f"{_in_words(type(result))}: {headline}",
        "target": headline,
    }


def _in_words(kind: type) -> str:
    """Name of a class as words: "Patching estimates"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__).capitalize()


@figure_of.register(Result)
def result_figure(
    result: Result,
    *,
    of: str | None = None,
    against: Any = None,
    by_layer: bool = False,
    width: float | None = None,
    **options: Any,
) -> Any:
    """Figure of the opening view of a result's page, or a heat map, scatter plot or lines of its table.

    Args:
        result: Any result.
        of: Kind of component to draw as a heat map, such as "heads". With `against` or `by_layer`, None means all kinds.
        against: Another result for a scatter plot, on the vertical axis, matched by layer, head and position.
        by_layer: Whether to draw lines: for each kind, the sum over heads and positions of every layer. For the residual stream,
            this sum is at the layer's input.
        width: Inches, such as 3.3 for one column of a paper and 6.8 for two; None means the default of the kind of figure.
        **options: Options of the page, without `of`, `against` and `by_layer`.

    Raises:
        InputError: if there is no such kind, if the results have no component in common, if numbers of the result may not be
            summed, or if there are none to draw.
    """
    own = ("of", "against", "by_layer", "width", "title", "caption")
    if of is None and against is None and not by_layer:
        refuse_options(f"{type(result).__name__}.figure", page_of.dispatch(type(result)), options, own)
        data = page_of(result, **options)
        numbers = data.runs[0].blocks.get("numbers")
        if isinstance(numbers, NumbersBlock) and data.start.view == "numbers":
            drawn = numbers.maps or numbers.rows or (numbers.tables and numbers.tables[0]["entries"])
        else:
            drawn = True
        if not drawn:
            raise InputError(f"{type(result).__name__}.figure: the table has no values to draw. Use to_dataframe().")
        return page_figure(data, width)
    refuse_options(f"{type(result).__name__}.figure", table_page, options, own)
    heading, _ = headline_and_facts(result)
    if against is not None:
        return _scatter(result, against, of, heading, width)
    grids = {grid["title"]: grid for grid in _grids(result)}
    kind = _kind(of, grids)
    if by_layer:
        if not isinstance(result, SUMMED) or any(grid["row"] != "layer" for grid in grids.values()) or not grids:
            raise InputError(
                f"by_layer=True: numbers of {type(result).__name__} have no sum over heads and positions. Omit by_layer."
            )
        shown = {name: grid["values"].nansum(dim=1) for name, grid in grids.items() if kind in (None, name)}
        return lines(shown, title=f"{heading}\nsums over heads and positions", width=width)
    drawn, name = grids[kind], PLURAL.get(kind, kind)
    return map_figure(drawn, f"{heading}: {name}", drawn["note"], width)


def _kind(of: Any, kinds: Iterable[str]) -> Any:
    """Kind of component as tables name it, from an argument in the plural or singular; None stays None."""
    names = by_plural(kinds)
    asked = in_plural(of, "of")
    if asked is not None and not (isinstance(asked, str) and asked in names):
        refuse_value("of", of, tuple(f'"{name}"' for name in names) or ("None",))
    return None if asked is None else names[asked]


@figure_of.register(PatchingComparison)
def comparison_figure(result: PatchingComparison, *, width: float | None = None, **options: Any) -> Any:
    """Scatter plot of estimated and measured changes, with the diagonal.

    Args:
        result: The comparison.
        width: Inches; None means one column of a paper.
        **options: Options of `result_figure`: of, against, by_layer.
    """
    if options:
        return result_figure(result, width=width, **options)
    table = result.to_dataframe()
    names = [
        _component({name: row[name] for name in ("kind", "layer", "head", "position") if row[name] != NONE})
        for row in table.to_dict("records")
    ]
    ends = ("estimated", "measured")
    return scatter(
        result.estimates,
        result.measured,
        names=ends,
        labels=names,
        title=headline_and_facts(result)[0],
        width=width,
    )


def _scatter(first: Result, second: Any, of: str | None, heading: str, width: float | None) -> Any:
    """Scatter plot of the numbers of two results at the same components."""
    if not isinstance(second, Result):
        raise InputError(f"against is of type {type(second).__name__}: expected a result of the same components.")
    (mine, one, x), (theirs, two, y) = _numbers_of(first), _numbers_of(second)
    common = [name for name in mine if name in PLACES and name in theirs]
    apart = [name for name in PLACES if (name in one) != (name in two)]
    if x is None or y is None or not common or apart:
        named = (", ".join(labels) or "nothing" for labels in (one, two))
        raise InputError(f"against: numbers are by {' and by '.join(named)}, expected results of the same components.")
    both = mine.rename(columns={x: "first"}).merge(theirs.rename(columns={y: "second"})[[*common, "second"]], on=common)
    kind = _kind(of, mine["kind"].unique() if "kind" in common else ())
    both = both if kind is None else both[both["kind"] == kind]
    if both.empty:
        raise InputError(
            "against: the two results have no component in common. Use results with the same kinds, layers and positions."
        )
    names = [_component({name: row[name] for name in common}) for row in both.to_dict("records")]
    kinds = type(first).__name__, type(second).__name__
    sides = kinds if kinds[0] != kinds[1] else (f"first {kinds[0]}", f"second {kinds[1]}")
    return scatter(
        both["first"].to_numpy(), both["second"].to_numpy(), names=sides, labels=names, title=heading, width=width
    )


@panel_of.register
def logit_panel(
    result: Attribution, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]
) -> dict[str, PageBlock]:
    """Panel of an attribution, and of its signed layer maps if it has them.

    Raises:
        InputError: if the attribution is of another text or model, or has fewer layers than the page.
    """
    refuse_other_run("attribution is", result.labels, result.identity, maps)
    if text.layers[-1] >= result.n_layers:
        raise InputError(
            f"beside: the attribution has {result.n_layers} layers, the page layer {text.layers[-1]}. Use the same model for both."
        )
    own = name("logit")
    signed = (
        {f"{own} maps": _signed(result, text, first)} if any(part.startswith("maps.") for part in result.parts) else {}
    )
    return {own: _logit_block(result, next(iter(signed), "")), **signed}


@panel_of.register
def effects_panel(
    result: ActivationPatching | PatchingEstimates | ContributionSweep,
    maps: Any,
    text: PageText,
    name: Callable[[str], str],
    first: Sequence[str],
) -> dict[str, PageBlock]:
    """Panel of a target's change under patches of components or edits of contributions.

    Raises:
        InputError: if the result is of another text or model, or of several prompts.
    """
    labels = result.tokens[0] if isinstance(result, ContributionSweep) else result.clean_labels or result.labels
    alone = not isinstance(result, ContributionSweep) or len(result.tokens) == 1
    if not (alone and tuple(labels) == tuple(maps.tokens)):
        raise InputError(
            f"beside: the {_in_words(type(result)).lower()} is of {'' if alone else 'several prompts, the first of '}{len(labels)} "
            f"tokens ({shortened(labels)}), these maps are of {len(maps.tokens)} ({shortened(maps.tokens)}). Use the same text for both."
        )
    held: dict[str, Any] = {}
    if isinstance(result, ContributionSweep):
        axes = [[*axis] for axis in (result.layers, result.heads or (NONE,), result.queries, result.keys)]
        held["cell"] = {"axes": axes, "values": result.by_prompt[0] - result.baselines[0]}
        short, target = "if removed", result.metric
    else:
        refuse_other_run("patching is", maps.tokens, {"model": result.model, "fingerprint": result.fingerprint}, maps)
        estimated = isinstance(result, PatchingEstimates)
        removed = isinstance(result, ActivationPatching) and result.replacement != "run"
        short = "if removed" if removed else "if replaced, estimated" if estimated else "if replaced"
        targets = (result.target,) if isinstance(result, PatchingEstimates) else result.targets
        if len(targets) > 1:  # each with a column of its own
            return {
                f"{name('effects')}.{number}": _effects_block(
                    f"{short}: {typographic_words(target)}", target, _of_components(result, number)
                )
                for number, target in enumerate(targets)
            }
        held, target = _of_components(result), targets[0]
    return {name("effects"): _effects_block(short, target, held)}


def _effects_block(short: str, target: str, held: Mapping[str, Any]) -> DataBlock:
    """Block of changes of one target; `short` is the heading of their column."""
    shown = rounded({kind: table["values"] for kind, table in held.items()}, SHOWN_DIGITS)
    tables = {kind: table | {"values": shown[kind]} for kind, table in held.items()}
    json = {"kind": "effects", "short": short, "target": typographic_words(target), "tables": tables}
    return DataBlock(json, 0.5 * 10.0 ** (1 - SHOWN_DIGITS))


def _of_components(result: ActivationPatching | PatchingEstimates, target: int = 0) -> dict[str, Any]:
    """By kind of component: numbers of each axis, and changes of one of the targets."""
    several = isinstance(result, ActivationPatching) and len(result.targets) > 1
    held: dict[str, Any] = {}
    for kind in ("residual", "head", "mlp"):
        if kind in result.values:
            values = result.values[kind][target] if several else result.values[kind]
            layers = result.layers[kind] if isinstance(result, ActivationPatching) else range(len(values))
            heads = [range(values.shape[1])] if kind == "head" else []
            places = result.positions if isinstance(result, ActivationPatching) else range(len(result.labels))
            at = [places] if values.ndim > 1 + len(heads) else []
            held[kind] = {"axes": [[*axis] for axis in (layers, *heads, *at)], "values": values}
    return held


def _logit_block(result: Attribution, maps: str) -> DataBlock:
    """Block of an attribution for the overview; `maps` is the name of the block of signed layer maps, or empty."""
    biases = zip(result.biases.items(), result.bias_layers, strict=True)
    edits = ((f"edit at {name}", result.edit_layers[name], share) for name, share in result.edits.items())
    return _layers_block(
        result.residual,
        value=result.value,
        sums=[*result.sums().items()],
        entering=result.token_attributions,
        biases=[*((bias, layer, share) for (bias, share), layer in biases), *edits],
        heads=result.heads.sum(dim=-1) if "heads" in result.parts else None,
        edges=largest_edges(result) if "edges" in result.parts else {},
        neurons=[*_largest_neurons(result)],
        target=typographic_words(result.target),
        question=_question(result),
        unit=_unit(result.quantity),
        rules=result.rules,
        method=_method(result.rules),
        complete=result.rules in ("path", "direct"),
        certificate=_certificate(result),
        maps=maps,
    )


def _continued(result: ContinuationAttribution, row: int) -> DataBlock:
    """Block of one token of a continuation for the overview."""
    assert result.residual is not None and result.constants is not None and result.heads is not None
    token, position = result.targets[row], result.n_prompt + row
    linear = result.reading == "logit"
    biases = [
        (f"entering at layer {layer}", layer, share)
        for layer, share in enumerate(result.constants[row].tolist(), -1)
        if share
    ]
    complete, certificate = result.rules == "path", _sums_up(float(result.errors[row]), linear)
    return _layers_block(
        result.residual[row],
        value=float(result.values[row]),
        sums=[*result.sums(row).items()],
        entering=result.shares[row],
        biases=biases,
        heads=result.heads[row],
        target=f"{result.reading} {token!r}",
        question=f"Why “{visible(token)}”?",
        unit="logits" if linear else "nats",
        rules=result.rules,
        method=_method(result.rules),
        complete=complete,
        certificate=certificate if complete else f"Rules {result.rules}.",
        position=position,
    )


def _layers_block(residual: Tensor, **given: Any) -> DataBlock:
    """Block of the overview from numbers [layer column], and what else each layer has; the last row is the end unless `layers` says so."""
    numbered = range(len(residual) - 1)
    rows = {"layers": (*numbered, None), "names": (*map(str, numbered), "end")}
    json = rounded({**LAYERS, **rows, "residual": residual, **given}, MAP_DIGITS)
    return DataBlock(json, 0.5 * 10.0 ** (1 - MAP_DIGITS))


def _target_page(
    model: str,
    labels: tuple[str, ...],
    residual: Float[Tensor, "boundary pos"],
    blocks: Mapping[str, PageBlock],
    heading: str,
    statement: str,
    heads: Tensor | None = None,
) -> PageData:
    """Page of the overview of targets without maps.

    It opens at the largest of `heads` [layer head] or [layer head pos], without heads at the largest of `residual`.
    """
    n, n_layers = len(labels), len(residual) - 1
    words, special = word_numbers(labels), special_positions(labels)
    text = PageText(tuple(range(n)), tuple(range(n_layers)), False, words, special)
    layer, position = map(int, np.unravel_index(int(residual.abs().argmax()), tuple(residual.shape)))
    head = ""
    if heads is not None and bool(heads.any()):
        layer, number, *at = map(int, np.unravel_index(int(heads.abs().nan_to_num(-1.0).argmax()), tuple(heads.shape)))
        head, position = str(number), at[0] if at else int(residual[layer].abs().argmax())
    start = PageStart(min(layer, n_layers - 1), "", position, position, view="overview", heads=head)
    run = PageRun("run", tuple(map(visible, labels)), blocks)
    return PageData(model, heading, text, (run,), start, statement=statement)


def _columns_page(
    model: str,
    columns: Sequence[str],
    blocks: Mapping[str, DataBlock],
    *,
    heading: str,
    details: Sequence[str] = (),
    statement: str = "",
    tables: Sequence[Mapping[str, Any]] = (),
    provenance: Mapping[str, str] | None = None,
    opening: tuple[int, int] | None = None,
) -> PageData:
    """Page of overviews whose columns have names, or are the tokens of a text (without `details`); it opens at the largest number."""
    first, named = next(iter(blocks.values())).json, bool(details)
    numbers = np.array(first["residual"], dtype=float)
    known = np.nan_to_num(np.abs(numbers), nan=-1.0)[[layer is not None for layer in first["layers"]]]
    row, column = opening or map(int, np.unravel_index(int(known.argmax()), known.shape))
    layers = sorted({layer for block in blocks.values() for layer in block.json["layers"] if layer is not None})
    n = len(columns)
    words, special = (range(n), ()) if named else (word_numbers(columns), special_positions(columns))
    text = PageText(tuple(range(n)), tuple(layers), False, tuple(words), special, named=named, details=tuple(details))
    shown = tuple(columns) if named else tuple(map(visible, columns))
    held: dict[str, PageBlock] = {**blocks, **({"numbers": NumbersBlock(tables=tuple(tables))} if tables else {})}
    start = PageStart(first["layers"][row], "", column, column, view="overview")
    run = PageRun("run", shown, held)
    return PageData(model, heading, text, (run,), start, provenance=provenance or {}, statement=statement)


def largest_first(entries: Iterable[tuple[str, float]], most: int) -> Iterator[tuple[str, float]]:
    """The `most` entries with the largest absolute attributions, in this order, then the sum of the others if there are any."""
    ordered = sorted(entries, key=lambda entry: -abs(entry[1]))
    yield from ordered[:most]
    if smaller := ordered[most:]:
        yield f"{len(smaller)} smaller ones", sum(share for _, share in smaller)


def largest_edges(result: Attribution) -> dict[str, list[tuple[int, int, float]]]:
    """By "layer,head": the largest edges of the head as (query, key, attribution), for an attribution with edges."""
    n = len(result.labels)
    return {
        f"{layer},{head}": [
            (*divmod(cell, n), float(edges.reshape(-1)[cell])) for cell in largest(edges, MOST_EDGES).tolist()
        ]
        for layer, of_layer in enumerate(result.edges)
        for head, edges in enumerate(of_layer)
    }


def _largest_neurons(result: Attribution) -> Iterator[list[tuple[int, float]]]:
    """By layer: neurons with the largest absolute attributions, summed over positions; nothing without tables of neurons."""
    if any(part.startswith("neurons.") for part in result.parts):
        for layer in range(result.n_layers):
            shares = result.neurons(layer).sum(dim=0) if f"neurons.{layer}" in result.parts else torch.zeros(0)
            yield [(neuron, float(shares[neuron])) for neuron in largest(shares, MOST_EDGES).tolist()]


def _question(result: Attribution) -> str:
    """Question of the page: "Why “ Mary” and not “ John”?" for logits of one or two tokens, else "What makes the target?"."""
    target, quantity = (name.removeprefix("difference of ") for name in (result.target, result.quantity))
    asked = [f"“{visible(token)}”" for token in _quoted(target.removeprefix(quantity).strip())]
    if asked and quantity in ("logit", "logit difference", CENTRED_LOGIT):
        return f"Why {' and not '.join(asked)}?{' Difference:' * (target != result.target)}"
    return f"What makes the {typographic_words(result.target)}?"


def _quoted(words: str) -> list[str]:
    """The one or two tokens of a target's name, `' Mary' - ' John'`, which are Python's literals; empty for other names."""
    with suppress(SyntaxError, ValueError):
        named = ast.parse(words, mode="eval").body
        sides = [named.left, named.right] if isinstance(named, ast.BinOp) and isinstance(named.op, ast.Sub) else [named]
        tokens = [side.value for side in sides if isinstance(side, ast.Constant) and isinstance(side.value, str)]
        if len(tokens) == len(sides) and words == " - ".join(map(repr, tokens)):
            return tokens
    return []


def _statement(result: Attribution) -> str:
    return str(result.certificate or "No certificate: a difference or a mean of results.")


def _certificate(result: Attribution) -> str:
    held = result.certificate
    if held is None:
        return "A difference or a mean of results, which has no certificate of its own."
    if not held.complete:
        return f"Rules {result.rules}: {held.attributed_in_words()}."
    sums = _sums_up(float(held.layer_inputs.max()), not held.has_nonlinear_part)
    return f"{sums[:-1]}; {held.attributed_in_words()}." if held.has_nonlinear_part else sums


def _sums_up(error: float, linear: bool) -> str:
    """Sentence on the sums at all layers and their largest relative error, for complete rules."""
    of = "" if linear else "'s first-order form"
    exact = typographic(scientific(error))
    return f"✓ At every layer the attributions of all positions and later biases sum to the target{of}, to {exact} of their sizes."


def _unit(quantity: str) -> str:
    return "logits" if quantity.removeprefix("difference of ").startswith("logit") else ""


def _method(rules: str) -> str:
    """Method of attribution of some rules, in words."""
    return METHODS.get(rules, f"attribution by one backward pass under rules of the caller's own, {rules!r}")


def _signed(result: Attribution, text: PageText, first: Sequence[str]) -> MapsBlock:
    """Block of signed layer maps at the page's layers and queries: scopes of `first` first, up to `SIGNED_BYTES`."""
    cells, target = text.reachable(), typographic_words(result.target)
    coarse = len(text.words) > FINE_TOKENS
    most = max(1, SIGNED_BYTES // (int(cells.sum()) * len(text.layers) * (1 if coarse else 2)))
    ordered = sorted(result.maps, key=lambda scope: scope not in first)[:most]
    values = {
        scope: torch.stack([result.maps[scope, layer][list(text.queries)] for layer in text.layers])
        for scope in result.maps
        if scope in ordered
    }
    return MapsBlock(
        labels=maps_labels(
            title=f"attributions of the {target}",
            short="share",
            unit=f"signed share of the {target}",
            meaning=f"the attribution of the {target} to the contribution of the column's token to the row",
            signed=True,
            cells="none",
        ),
        channels=tuple(channel(scope) for scope in values),
        values=values,
        tracks=(size_track(values, cells),),
        coarse=coarse,
    )


def _row(name: str, value: float, shares: Tensor, sums: Mapping[str, float]) -> dict[str, Any]:
    return {"name": name, "value": value, "shares": shares, "sums": [*sums.items()]}


def _maps(result: Attribution, tokens: tuple[str, ...], parts: Sequence[str]) -> Iterator[dict[str, Any]]:
    boundaries = (*map(str, range(result.n_layers)), "end")
    if "heads" in parts and "heads" in result.parts:
        by_head = result.heads.sum(dim=-1)
        total = typographic(significant(float(by_head.sum())))
        note = f"Attribution of each head, summed over positions; point at a head for its largest terms. Sum of all: {total}. {OVERLAP}"
        heads = tuple(map(str, range(by_head.shape[1])))
        yield shares_map("Heads", note, ("layer", boundaries[:-1]), ("head", heads), by_head, _details(result, tokens))
    if "mlps" in result.parts:
        note = f"Attribution of each feed-forward at each position. All sum to {typographic(significant(float(result.mlps.sum())))}."
        yield shares_map("Feed-forwards", note, ("layer", boundaries[:-1]), ("position", tokens), result.mlps)


def _details(result: Attribution, tokens: tuple[str, ...]) -> dict[str, Any]:
    if "edges" in result.parts:
        return {
            place: [(f"{tokens[query]} ← {tokens[key]}", share) for query, key, share in edges]
            for place, edges in largest_edges(result).items()
        }
    return {
        f"{layer},{head}": [
            (f"at {tokens[cell]}", float(shares[cell])) for cell in largest(shares, MOST_EDGES).tolist()
        ]
        for layer, of_layer in enumerate(result.heads)
        for head, shares in enumerate(of_layer)
    }


def _tables(result: Attribution, tokens: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    named = {
        "Terms of the tokens' attributions": [*result.embedding_sums().items()],
        "Biases": [*largest_first(result.biases.items(), MOST_ENTRIES)],
        "Edits of your hooks": [*largest_first(result.edits.items(), MOST_ENTRIES)],
    }
    yield from ({"title": title, "note": "", "entries": entries} for title, entries in named.items() if entries)
    layers = {layer: result.neurons(layer) for layer in range(result.n_layers) if f"neurons.{layer}" in result.parts}
    if layers:
        entries = []
        for layer, shares in layers.items():
            for place in largest(shares, MOST_ENTRIES).tolist():
                position, neuron = divmod(place, shares.shape[1])
                name = f"layer {layer}, neuron {neuron}, at {tokens[position]}"
                entries.append((name, float(shares[position, neuron])))
        entries = sorted(entries, key=lambda entry: -abs(entry[1]))[:MOST_ENTRIES]
        n, total = sum(map(torch.numel, layers.values())), sum(float(shares.sum()) for shares in layers.values())
        title = f"Neurons, each at its position: the {len(entries)} largest of {n}"
        sums = DIRECT if isinstance(result, DirectLogitAttribution) else OF_NEURONS
        yield {
            "title": title,
            "note": f"All of them sum to {typographic(significant(total))}. {sums}",
            "entries": entries,
        }


def _component(places: dict[str, Any]) -> str:
    """Name of a component: "L23H3@14", "L23.mlp@14", followed by the values of other columns."""
    layer, head, kind = places.pop("layer", ""), places.pop("head", NONE), places.pop("kind", "")
    at = f"@{places.pop('position')}" if "position" in places else ""
    of = f".{kind}" if kind not in ("", "head") else ""
    of_layer = f"L{layer}{of}" if kind else f"layer {layer}" if layer != "" else ""
    name = f"L{layer}H{head}{of}" if head != NONE else of_layer
    return ", ".join([name + at, *(f"{column} {place}" for column, place in places.items())]).removeprefix(", ")


def _numbers_of(result: Result) -> tuple[pd.DataFrame, list[str], str | None]:
    """Table of a result, its label columns with more than one value, and the name of its number column or None."""
    if isinstance(result, Attribution):
        heads = "heads" in result.parts
        of_kind = {"residual": result.token_maps(), **({"head": result.token_maps("heads")} if heads else {})}
        frame = pd.concat([maps.to_dataframe().assign(kind=kind) for kind, maps in of_kind.items()], ignore_index=True)
        frame["head"] = frame.pop("channel").str.extract(r"(\d+)", expand=False).astype(float).fillna(NONE).astype(int)
        if "mlps" in result.parts:
            axes = {"layer": range(result.n_layers), "position": range(len(result.labels))}
            mlps = long_form(result.mlps, axes, result.labels).assign(kind="mlp", head=NONE)
            frame = pd.concat([frame, mlps], ignore_index=True)
        frame = frame[["kind", "layer", "head", "position", "token", "value"]]
    elif isinstance(result, AverageShares | Averages):
        frame = _means(result)
    else:
        frame = result.to_dataframe()
    numbers = [name for name in frame if pd.api.types.is_float_dtype(frame[name])]
    labels = [name for name in frame if name not in numbers and frame[name].nunique() > 1]
    if "position" in frame and not pd.api.types.is_integer_dtype(frame["position"]):  # tokens at a name may be alike
        labels = [name for name in labels if name != "token"]
    first = ("effect",) if isinstance(result, ContributionSweep | AttentionKnockout) else ()
    shown = (n for n in (*first, "value", "share", "rho") if n in numbers)
    return frame, labels, next(shown, numbers[0] if numbers else None)


def _means(result: AverageShares | Averages) -> pd.DataFrame:
    """Table of means in the order of layers, heads and named positions, with the remainder of the residual stream."""
    if isinstance(result, Averages):
        kinds = {kind: _with_others(each) for kind, each in result.kinds.items()}
        frame, names = Averages(kinds).to_dataframe(), [name for each in kinds.values() for name in each.tokens]
    else:
        frame, names = _with_others(result).to_dataframe(), [*_with_others(result).tokens]
    axes = [axis for axis in ("kind", "layer", "head", "position") if axis in frame]
    order = {axis: [*dict.fromkeys(frame[axis])] for axis in axes if axis == "kind"} | {
        "position": [*dict.fromkeys(names)]
    }
    if not {"layer", "position"} & {*axes}:
        return frame

    def placed(column: pd.Series) -> pd.Series:
        return column.map(order[str(column.name)].index) if order.get(str(column.name)) else column

    return frame.sort_values(axes, key=placed, kind="stable", ignore_index=True)


def _grids(result: Result) -> Iterator[dict[str, Any]]:
    """Maps of a table with one number per row and column; with a column of kinds, one map per kind.

    Heads by position are summed over positions for results in `SUMMED`, else every head is a row.
    """
    frame, labels, value = _numbers_of(result)
    kinds = frame.groupby("kind", sort=False) if "kind" in frame else [(value, frame)]
    for kind, group in kinds:
        if value is None:
            return
        axes = [name for name in labels if group[name].nunique() > 1 and not (name == "token" and "position" in labels)]
        named = "position" in axes and not pd.api.types.is_integer_dtype(group["position"])
        if axes == ["layer", "head", "position"] and isinstance(result, SUMMED) and not named:
            axes = axes[:2]
            group = group.groupby(axes, as_index=False)[[value]].sum()
        elif axes == ["layer", "head", "position"]:
            names = [f"L{layer}H{head}" for layer, head in zip(group["layer"], group["head"], strict=True)]
            group, axes = group.assign(head=pd.Categorical(names, categories=dict.fromkeys(names))), axes[1:]
        if len(axes) == 2 and 1 < len(group) == group[axes[0]].nunique() * group[axes[1]].nunique():
            note = NOTES.get(type(result), "").format(KINDS.get(str(kind), kind))
            removal = is_removal(result)
            note = " ".join(filter(None, [note, signs(removal) if note or removal else ""]))
            grid = _grid(group, axes, value, str(kind), note) | {"removal": removal}
            if kind == "residual" and axes[0] == "layer" and _has_end(result, frame):
                grid["rows"][-1] = "end"
            yield grid


def _has_end(result: Result, frame: pd.DataFrame) -> bool:
    """Whether the last row of the residual stream is after the last layer: no other kind of component has one there."""
    others = frame[frame["kind"] != "residual"]
    if others.empty:
        return isinstance(result, SUMMED)
    return bool(frame["layer"].max() > others["layer"].max())


def _grid(frame: pd.DataFrame, labels: Sequence[str], value: str, title: str, note: str) -> dict[str, Any]:
    texts = [
        name for name in labels if pd.api.types.is_string_dtype(frame[name])
    ]  # in the table's order, not alphabetically
    frame = frame.assign(**{name: pd.Categorical(frame[name], categories=frame[name].unique()) for name in texts})
    cells = frame.pivot(index=labels[0], columns=labels[1], values=value)
    values = torch.tensor(cells.to_numpy(dtype=float))
    shown = [[str(label) for label in held] for held in (cells.index, cells.columns)]
    if labels[1] == "position" and "token" in frame and pd.api.types.is_integer_dtype(frame["position"]):
        tokens = frame.drop_duplicates("position").set_index("position")["token"]
        shown[1] = [f"{visible(tokens[at])}@{at}" for at in cells.columns]
    return shares_map(title, note, (labels[0], shown[0]), (labels[1], shown[1]), values)


def _listed(frame: pd.DataFrame, labels: Sequence[str], value: str) -> dict[str, Any]:
    """A table of the largest numbers, in their order; rows along one axis, such as sizes or layers, in that of the axis."""
    known = frame.dropna(subset=value).sort_values(value, key=abs, ascending=False, kind="stable")[:MOST_ROWS]
    if labels and labels[0] not in NUMBERED and pd.api.types.is_numeric_dtype(known[labels[0]]):
        known = known.sort_values(labels[0], kind="stable") if known[labels[0]].is_unique else known
    name: Callable[[Any], str] = lambda row: ", ".join(  # noqa: E731
        visible(row[label]) if isinstance(row[label], str) else f"{label} {row[label]}"
        for label in labels
        if row[label] != NONE
    )
    entries = [(name(row), float(row[value])) for row in known.to_dict("records")]
    note = "" if len(known) == len(frame) else f"The {len(known)} largest of {len(frame)}."
    return {"title": value, "note": note, "entries": entries}


def is_removal(result: Result) -> bool:
    """Whether numbers are changes of a target without a component: negative ones then say that it supports the target."""
    if isinstance(result, Averages):
        return all(map(is_removal, result.kinds.values()))
    if isinstance(result, ActivationPatching):
        return result.direction == "noising"
    return isinstance(result, PatchingEstimates | AttentionKnockout) or (
        isinstance(result, AverageShares) and not result.targets  # a mean of estimates
    )
