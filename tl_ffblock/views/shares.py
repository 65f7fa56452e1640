"""Pages of signed shares and of tables: attributions, continuations, numbers by position, and any other result by its table."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.certificate import VANISHED
from tl_ffblock.attribution.continuation import ContinuationAttribution
from tl_ffblock.errors import InputError
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.page import DataBlock, MapsBlock, PageBlock, PageText, SharesData, maps_labels, shares_map
from tl_ffblock.page.data import MAP_DIGITS
from tl_ffblock.page.numbers import rounded
from tl_ffblock.result import Result
from tl_ffblock.results.ranks import largest
from tl_ffblock.results.tokens import told_apart, visible
from tl_ffblock.views.maps import FINE_TOKENS, channel, refuse_other_run, size_track
from tl_ffblock.views.registry import page_of, panel_of

# Of a table.
OVERLAP = (
    "Heads and neurons are no further summands: in one layer its heads and what goes past them, with the biases that enter "
    "later, are the whole target again, and so are its neurons and what goes past those. Later layers read earlier ones and "
    "neurons read heads, so shares of different layers, and of heads and neurons, overlap."
)
"""What sums to what."""
MOST_ENTRIES = 20
# Of a result's table.
MOST_ROWS = 100
# What a table says where there is none, such as the head of a feed-forward.
NONE = -1
# Of a head, named where it is pointed at.
MOST_EDGES = 6
# Room for signed maps on a page, before they are deflated; scopes beyond it are left out, but for the first.
SIGNED_BYTES = 400_000
# How each kind of rules attributes a target, for captions.
METHODS = {
    "path": "attribution by one backward pass: attention patterns and norm scales as in the run, activations by Integrated Gradients",
    "patching": "attribution by one backward pass: queries and keys with their gradient, norm scales as in the run, activations by Integrated Gradients",
    "gradient": "attribution by gradient × input",
}
OF_NEURONS = "Like heads they are no further summands: they read heads, and later layers read them."


@page_of.register
def attribution_page(result: Attribution) -> SharesData:
    """The page of one target: its tokens, the residual stream by layer and position, heads, biases, neurons."""
    tokens = told_apart(result.labels)
    facts = f"{result.model} · rules “{result.rules}” · {len(result.labels)} tokens · {result.n_layers} layers"
    row = _row(result.target, result.value, result.entering, result.sums())
    return SharesData(
        heading=f"{result.target} = {significant(result.value, 4, '-')}",
        facts=f"{facts} · {VANISHED}" if result.vanishes else facts,
        tokens=tokens,
        rows=(row,),
        maps=tuple(_maps(result, tokens)),
        tables=tuple(_tables(result, tokens)),
        certificate=str(result.certificate or "No certificate: a difference or a mean of results."),
    )


@page_of.register
def continuation_page(result: ContinuationAttribution) -> SharesData:
    """The page of every token of a continuation: a matrix [target, source]."""
    tokens = told_apart(result.labels)
    rows = tuple(
        _row(name, float(result.values[number]), result.shares[number], result.sums(number))
        for number, name in enumerate(tokens[result.n_prompt :])
    )
    return SharesData(
        heading=f"{result.reading} of every token of a continuation",
        facts=f"{result.model} · rules “{result.rules}” · {result.n_prompt} tokens of a prompt, {len(rows)} behind it",
        tokens=tokens,
        rows=rows,
        certificate=f"Largest error of a row, over the sum of sizes: {scientific(float(result.errors.max()))}.",
    )


@page_of.register
def table_page(result: Result) -> SharesData:
    """The page of any other result: its numbers as a map where they are one per row and column, else the largest in a table."""
    headline, facts = result.summary()
    frame = result.to_dataframe()
    numbers = [name for name in frame if pd.api.types.is_float_dtype(frame[name])]
    labels = [name for name in frame if name not in numbers and frame[name].nunique() > 1]
    value = next((name for name in ("value", "share", "rho") if name in numbers), numbers[0] if numbers else None)
    page = SharesData(
        heading=f"{type(result).__name__}: {headline}",
        facts=" · ".join(f"{name} {fact}" for name, fact in facts.items()),
    )
    if value is None:
        return page
    if len(labels) == 2 and 1 < len(frame) == frame[labels[0]].nunique() * frame[labels[1]].nunique():
        return replace(page, maps=(_grid(frame, labels, value),))
    return replace(page, tables=(_listed(frame, labels, value),))


@panel_of.register
def logit_panel(
    result: Attribution, maps: Any, text: PageText, name: Callable[[str], str], first: Sequence[str]
) -> dict[str, PageBlock]:
    """Its shares, and where they were asked for its signed layer maps."""
    refuse_other_run("attribution is", result.labels, result.identity, maps)
    if text.layers[-1] >= result.n_layers:
        raise InputError(f"the attribution has {result.n_layers} layers, the page layer {text.layers[-1]}.")
    own = name("logit")
    signed = (
        {f"{own} maps": _signed(result, text, first)} if any(part.startswith("maps.") for part in result.parts) else {}
    )
    biases = zip(result.biases.items(), result.bias_layers, strict=True)
    edits = ((f"edit at {name}", result.edit_layers[name], share) for name, share in result.edits.items())
    numbers = {
        "value": result.value,
        "sums": [*result.sums().items()],
        "entering": result.entering,
        "residual": result.residual,
        "biases": [*((bias, layer, share) for (bias, share), layer in biases), *edits],
        "heads": result.heads.sum(dim=-1) if "heads" in result.parts else None,
        "edges": largest_edges(result) if "edges" in result.parts else {},
    }
    json = {
        "kind": "logit",
        "target": result.target,
        "unit": "logits" if result.quantity.startswith("logit") else "",
        "rules": result.rules,
        "method": METHODS.get(
            result.rules, f"attribution by one backward pass under rules of the caller's own, {result.rules!r}"
        ),
        "complete": result.rules == "path",
        "certificate": _certificate(result),
        "maps": next(iter(signed), ""),
    }
    return {own: DataBlock(json | rounded(numbers, MAP_DIGITS), 0.5 * 10.0 ** (1 - MAP_DIGITS)), **signed}


def largest_first(entries: Iterable[tuple[str, float]], most: int) -> Iterator[tuple[str, float]]:
    """So many names with their shares, largest first, then the sum of all smaller ones, where there are any."""
    ordered = sorted(entries, key=lambda entry: -abs(entry[1]))
    yield from ordered[:most]
    if smaller := ordered[most:]:
        yield f"{len(smaller)} smaller ones", sum(share for _, share in smaller)


def largest_edges(result: Attribution) -> dict[str, list[tuple[int, int, float]]]:
    """By "layer,head": the largest of what it carries, as query, key and share; of an attribution with edges."""
    n = len(result.labels)
    return {
        f"{layer},{head}": [
            (*divmod(cell, n), float(edges.reshape(-1)[cell])) for cell in largest(edges, MOST_EDGES).tolist()
        ]
        for layer, of_layer in enumerate(result.edges)
        for head, edges in enumerate(of_layer)
    }


def _certificate(result: Attribution) -> str:
    held = result.certificate
    if held is None:
        return "A difference or a mean of results, which has no certificate of its own."
    if not held.complete:
        return f"Rules {result.rules}: {held.attributed_in_words()}."
    error, of = float(held.layer_inputs.max()), "'s first-order form" if held.has_nonlinear_part else ""
    sums = f"✓ At every layer what flows and the biases that enter later sum to the target{of}, to {scientific(error)} of their sizes"
    return f"{sums}; {held.attributed_in_words()}." if of else f"{sums}."


def _signed(result: Attribution, text: PageText, first: Sequence[str]) -> MapsBlock:
    """Its layer maps at the page's layers and rows: those of `first` before the rest, as many as there is room for."""
    cells = text.reachable()
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
            title=f"shares of the {result.target}",
            short="share",
            unit=f"signed share of the {result.target}",
            meaning=f"what the contribution of the column's token to the row's vector carries to the {result.target}",
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


def _maps(result: Attribution, tokens: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    boundaries = (*map(str, range(result.n_layers)), "end")
    note = "What reaches the target through the residual stream of each position, at each layer's input and at the end."
    yield shares_map("Through the layers", note, ("layer", boundaries), ("position", tokens), result.residual)
    if "heads" in result.parts:
        by_head = result.heads.sum(dim=-1)
        total = significant(float(by_head.sum()))
        note = f"What each head writes, summed over positions; point at one for the largest of its parts. All heads sum to {total}. {OVERLAP}"
        heads = tuple(map(str, range(by_head.shape[1])))
        yield shares_map("Heads", note, ("layer", boundaries[:-1]), ("head", heads), by_head, _details(result, tokens))


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
        "What the tokens' shares are of": [*result.embedding_sums().items()],
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
        yield {"title": title, "note": f"All of them sum to {significant(total)}. {OF_NEURONS}", "entries": entries}


def _grid(frame: pd.DataFrame, labels: Sequence[str], value: str) -> dict[str, Any]:
    cells = frame.pivot(index=labels[0], columns=labels[1], values=value)
    values = torch.tensor(cells.to_numpy(dtype=float))
    down, across = (
        (name, [str(label) for label in held]) for name, held in zip(labels, (cells.index, cells.columns), strict=True)
    )
    return shares_map(value, "", down, across, values)


def _listed(frame: pd.DataFrame, labels: Sequence[str], value: str) -> dict[str, Any]:
    known = frame.dropna(subset=value).sort_values(value, key=abs, ascending=False, kind="stable")[:MOST_ROWS]
    name: Callable[[Any], str] = lambda row: ", ".join(  # noqa: E731
        visible(row[label]) if isinstance(row[label], str) else f"{label} {row[label]}"
        for label in labels
        if row[label] != NONE
    )
    entries = [(name(row), float(row[value])) for row in known.to_dict("records")]
    note = "" if len(known) == len(frame) else f"The {len(known)} largest of {len(frame)}."
    return {"title": value, "note": note, "entries": entries}
