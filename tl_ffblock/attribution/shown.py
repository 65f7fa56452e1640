"""Attributions as pages: tokens tinted by signed share, layers by positions, heads, biases, the certificate at the foot."""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, cast

from tl_ffblock.attribution.certificate import VANISHED
from tl_ffblock.files import write_atomically
from tl_ffblock.numerals import scientific, significant
from tl_ffblock.page import PageView, SharesData, SharesMap, SharesRow, SharesTable, iframe, shares_page
from tl_ffblock.results.ranks import largest
from tl_ffblock.results.stills import still_of
from tl_ffblock.results.tokens import told_apart
from tl_ffblock.signatures import strict

if TYPE_CHECKING:
    from tl_ffblock.attribution.attribution import Attribution
    from tl_ffblock.attribution.continuation import ContinuationAttribution

MOST_ENTRIES = 20
"""Of a table."""
MOST_EDGES = 6
"""Of a head, named where it is pointed at."""
OVERLAP = (
    "Heads and neurons are no further summands: in one layer its heads and what goes past them, with the biases that enter "
    "later, are the whole target again, and so are its neurons and what goes past those. Later layers read earlier ones and "
    "neurons read heads, so shares of different layers, and of heads and neurons, overlap."
)
"""What sums to what."""
OF_NEURONS = "Like heads they are no further summands: they read heads, and later layers read them."


@strict
class ShownShares(ABC):
    """Methods of results that are pages of shares."""

    @abstractmethod
    def page_data(self) -> SharesData:
        """What the page shows."""

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str:
        """One self-contained page; written to `path` when given.

        Raises:
            InputError: if the folder does not exist.
        """
        html = shares_page(self.page_data())
        if path is not None:
            write_atomically(Path(path), html.encode("utf-8"))
        return html

    def show(self, *, height: int = 820) -> PageView:
        """The page in a notebook cell.

        Args:
            height: Pixels of the frame before the page says how high it is.

        Raises:
            InputError: if it is not positive.
        """
        data = self.page_data()
        return iframe(shares_page(data), height, "attribution", still_of(data))


@strict
class ShownAttribution(ShownShares):
    """The page of one target."""

    def page_data(self) -> SharesData:
        return attribution_data(cast("Attribution", self))


@strict
class ShownContinuation(ShownShares):
    """The page of every token of a continuation."""

    def page_data(self) -> SharesData:
        return continuation_data(cast("ContinuationAttribution", self))


def attribution_data(result: "Attribution") -> SharesData:
    """What the page of an attribution shows."""
    tokens = told_apart(result.labels)
    return SharesData(
        heading=f"{result.target} = {significant(result.value, 4, '-')}",
        facts=_facts(result),
        tokens=tokens,
        rows=(SharesRow(result.target, result.value, result.entering, result.sums()),),
        maps=tuple(_maps(result, tokens)),
        tables=tuple(_tables(result, tokens)),
        certificate=str(result.certificate or "No certificate: a difference or a mean of results."),
    )


def _facts(result: "Attribution") -> str:
    facts = f"{result.model} · rules “{result.rules}” · {len(result.labels)} tokens · {result.n_layers} layers"
    return f"{facts} · {VANISHED}" if result.vanishes else facts


def largest_edges(result: "Attribution") -> Iterator[tuple[tuple[int, int], tuple[tuple[int, int, float], ...]]]:
    """By layer and head: the largest of what it carries, as query, key and share; of an attribution with edges."""
    n = len(result.labels)
    for layer, of_layer in enumerate(result.edges):
        for head, edges in enumerate(of_layer):
            cells = edges.reshape(-1)
            yield (
                (layer, head),
                tuple((*divmod(cell, n), float(cells[cell])) for cell in largest(cells, MOST_EDGES).tolist()),
            )


def continuation_data(result: "ContinuationAttribution") -> SharesData:
    """What the page of a continuation shows."""
    tokens = told_apart(result.labels)
    rows = [
        SharesRow(name, float(result.values[number]), result.shares[number], result.sums(number))
        for number, name in enumerate(tokens[result.n_prompt :])
    ]
    return SharesData(
        heading=f"{result.reading} of every token of a continuation",
        facts=f"{result.model} · rules “{result.rules}” · {result.n_prompt} tokens of a prompt, {len(rows)} behind it",
        tokens=tokens,
        rows=tuple(rows),
        certificate=f"Largest error of a row, over the sum of sizes: {scientific(float(result.errors.max()))}.",
    )


def _maps(result: "Attribution", tokens: tuple[str, ...]) -> Iterator[SharesMap]:
    boundaries = (*map(str, range(result.n_layers)), "end")
    yield SharesMap(
        title="Through the layers",
        note="What reaches the target through the residual stream of each position, at each layer's input and at the end.",
        row="layer",
        column="position",
        rows=boundaries,
        columns=tokens,
        values=result.residual,
    )
    if "heads" in result.parts:
        by_head = result.heads.sum(dim=-1)
        yield SharesMap(
            title="Heads",
            note=f"What each head writes, summed over positions; point at one for the largest of its parts. All heads sum to {significant(float(by_head.sum()))}. {OVERLAP}",
            row="layer",
            column="head",
            rows=boundaries[:-1],
            columns=tuple(map(str, range(by_head.shape[1]))),
            values=by_head,
            details=dict(_details(result, tokens)),
        )


def _details(
    result: "Attribution", tokens: tuple[str, ...]
) -> Iterator[tuple[tuple[int, int], tuple[tuple[str, float], ...]]]:
    """By layer and head: its largest edges, or positions where edges are not known."""
    if "edges" in result.parts:
        for place, edges in largest_edges(result):
            yield place, tuple((f"{tokens[query]} ← {tokens[key]}", share) for query, key, share in edges)
        return
    for layer, of_layer in enumerate(result.heads):
        for head, shares in enumerate(of_layer):
            yield (
                (layer, head),
                tuple((f"at {tokens[cell]}", float(shares[cell])) for cell in largest(shares, MOST_EDGES).tolist()),
            )


def _tables(result: "Attribution", tokens: tuple[str, ...]) -> Iterator[SharesTable]:
    if embeddings := result.embedding_sums():
        yield SharesTable("What the tokens' shares are of", tuple(embeddings.items()))
    if result.biases:
        yield SharesTable("Biases", tuple(largest_first(result.biases.items(), MOST_ENTRIES)))
    if result.edits:
        yield SharesTable("Edits of your hooks", tuple(largest_first(result.edits.items(), MOST_ENTRIES)))
    if layers := result.neuron_layers:
        named = tuple(_neurons(result, tokens, layers))
        sizes = [result.neurons(layer) for layer in layers]
        n, total = sum(shares.numel() for shares in sizes), sum(float(shares.sum()) for shares in sizes)
        title = f"Neurons, each at its position: the {len(named)} largest of {n}"
        yield SharesTable(title, named, f"All of them sum to {significant(total)}. {OF_NEURONS}")


def _neurons(result: "Attribution", tokens: tuple[str, ...], layers: Iterable[int]) -> list[tuple[str, float]]:
    named = []
    for layer in layers:
        shares = result.neurons(layer)
        for place in largest(shares, MOST_ENTRIES).tolist():
            position, neuron = divmod(place, shares.shape[1])
            named.append((f"layer {layer}, neuron {neuron}, at {tokens[position]}", float(shares[position, neuron])))
    return sorted(named, key=lambda entry: -abs(entry[1]))[:MOST_ENTRIES]


def largest_first(entries: Iterable[tuple[str, float]], most: int) -> Iterator[tuple[str, float]]:
    """So many names with their shares, largest first, then the sum of all smaller ones, where there are any."""
    ordered = sorted(entries, key=lambda entry: -abs(entry[1]))
    yield from ordered[:most]
    if smaller := ordered[most:]:
        yield f"{len(smaller)} smaller ones", sum(share for _, share in smaller)
