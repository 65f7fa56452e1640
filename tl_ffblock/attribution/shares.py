"""One backward pass of a batch -> the shares of each of its sequences, and how well they sum up."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.certificate import Certificate, relative
from tl_ffblock.attribution.sequence_shares import SequenceShares
from tl_ffblock.attribution.targets import Seeds
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.tape import Kind
from tl_ffblock.bridge.traced import Backward, Traced

Part: TypeAlias = Literal["heads", "edges", "neurons", "maps", "graph"]
PARTS: tuple[Part, ...] = get_args(Part)
"""What can be asked for beside tokens, positions, biases and the residual stream."""
KEEPS: dict[Part, tuple[str, ...]] = {
    "heads": ("z",),
    "edges": ("z", "z_made", "value", "pattern"),
    "neurons": ("post",),
    "maps": ("residual",),
    "graph": ("z", "z_made", "value", "pattern", "mlp_out", "ff_in"),
}
"""Which tensors of a layer each of them needs."""


@dataclass(frozen=True)
class Shares:
    """What a batch's backward pass says, sequence by sequence."""

    run: Run
    traced: Traced
    back: Backward
    seeds: Seeds
    of: tuple[Part, ...]

    def results(self, difference_of_logits: float) -> Iterator[tuple[int, Attribution]]:
        """Each sequence's number in the input, and its attribution without the certificate's refusal."""
        for index, number in enumerate(self.traced.batch.numbers):
            result = self._without_certificate(index, number)
            yield number, replace(result, certificate=self._certificate(index, result, difference_of_logits))

    def _without_certificate(self, index: int, number: int) -> Attribution:
        run, first_order = self.run, float(self.seeds.first_order[index])
        sums = {kind: self._by_position(kind, index) for kind in ("token", "position", "token type")}
        residual = torch.stack([self._of("residual", layer, index) for layer in range(run.model.n_layers + 1)])
        if self.traced.tape.unseen_positions:
            sums["position"] = residual[0] - sums["token"] - sums["token type"]
        biases = {place: self._cut(dial, index) for place, dial in self.back.dials.items() if place.kind == "bias"}
        edits = {place: self.back.dials[place][index].sum().cpu() for place in self.traced.tape.edited}
        return Attribution(
            labels=run.sequences[number].labels,
            target=self.seeds.in_words(index),
            quantity=self.seeds.name,
            rules=self.traced.rules.name,
            value=float(self.seeds.values[index]),
            first_order=first_order,
            tokens=sums["token"],
            positions=sums["position"],
            token_types=sums["token type"],
            residual=residual,
            bias_names=tuple(place.name for place in biases),
            bias_layers=tuple(place.layer for place in biases),
            bias_shares=torch.stack([*biases.values()]) if biases else residual.new_zeros(0, residual.shape[1]),
            edits={place.name: float(share) for place, share in edits.items()},
            edit_layers={place.name: place.layer for place in edits},
            parts=dict(self._parts(index)),
            model=run.model.name,
            fingerprint=run.model.fingerprint,
        )

    def _of(self, kind: Kind, layer: int, index: int) -> Float[Tensor, " pos"]:
        shares = [dial for place, dial in self.back.dials.items() if (place.kind, place.layer) == (kind, layer)]
        return self._cut(shares[0], index)

    def _by_position(self, kind: Kind, index: int) -> Float[Tensor, " pos"]:
        """The shares of all dials of a kind; zero where there is none."""
        dials = [dial for place, dial in self.back.dials.items() if place.kind == kind]
        like = next(iter(self.back.dials.values()))
        return self._cut(sum(dials, torch.zeros_like(like)), index)

    def _of_sequence(self, index: int) -> SequenceShares:
        return SequenceShares(self.run, self.traced, self.back, index)

    def _cut(self, tensor: Float[Tensor, "batch pos ..."], index: int) -> Float[Tensor, "real ..."]:
        """One sequence without padding, in the result's arithmetic."""
        return self._of_sequence(index).cut(tensor)

    def _parts(self, index: int) -> Iterator[tuple[str, Tensor]]:
        kept, size = self.traced.tape.kept, self.traced.tape.size
        layers = range(self.run.model.n_layers)
        if "neurons" in self.of:
            for layer in layers:
                if ("post", layer) in kept:
                    shares = (kept["post", layer].detach() * self.back.kept["post", layer]).reshape(*size, -1)
                    yield f"neurons.{layer}", self._cut(shares, index)
        if {"heads", "edges", "graph"} & set(self.of):
            of_layers = [(kept["z", layer].detach() * self.back.kept["z", layer]).sum(dim=-1) for layer in layers]
            yield "heads", torch.stack([self._cut(shares, index).T for shares in of_layers])
        if "edges" in self.of:
            yield "edges", _stacked(len(layers), (self._edges(layer, index) for layer in layers))
        if "graph" in self.of:
            yield from self._of_sequence(index).flows(layers[: self.seeds.layer])

    def _edges(self, layer: int, index: int) -> Float[Tensor, "head query key"]:
        """Those of a layer, in whose place its pattern is forgotten: both grow with the square of the text."""
        edges = self._of_sequence(index).edges(layer)
        if "graph" not in self.of and index + 1 == len(self.traced.batch.numbers):
            del self.traced.tape.kept["pattern", layer]
        return edges

    def by_stream(self, index: int) -> Float[Tensor, "boundary pos d_model"]:
        """One sequence's derivatives of the target by the residual stream; to be had with "maps"."""
        layers = range(self.run.model.n_layers + 1)
        return torch.stack([self._cut(self.back.kept["residual", layer], index) for layer in layers])

    def _certificate(self, index: int, result: Attribution, difference_of_logits: float) -> Certificate:
        gaps = self.traced.tape.gaps_of(index)
        layers = range(self.run.model.n_layers)
        worst = max(gaps, key=gaps.__getitem__, default="")
        handed_out = result.total() / result.first_order if result.first_order else float("nan")
        return Certificate(
            logits=difference_of_logits,
            forms=gaps.get(worst, 0.0),
            worst_form=worst,
            boundaries=result.boundary_errors(self.seeds.layer),
            edges=_edge_error(result, [layer for layer in layers if ("z_made", layer) not in self.traced.tape.kept]),
            handed_out=handed_out,
            complete=self.traced.rules.complete,
            rtol=self.run.settings.rtol,
            nonlinear=result.nonlinear / result.value if result.value else math.copysign(math.inf, result.nonlinear),
        )


def _stacked(n_layers: int, of_layers: Iterator[Tensor]) -> Float[Tensor, "layer ..."]:
    """Tables of layers as one, of which no second copy is made: edges grow with the square of the text."""
    first = next(of_layers)
    table = first.new_empty(n_layers, *first.shape)
    table[0] = first
    for layer, of_layer in enumerate(of_layers, start=1):
        table[layer] = of_layer
    return table


def _edge_error(result: Attribution, as_made: list[int]) -> float:
    """The largest miss of edges in layers whose z no callback of a user's sees."""
    if "edges" not in result.parts or not as_made:
        return 0.0
    of_layers = [(result.parts["edges"][layer], result.parts["heads"][layer]) for layer in as_made]
    misses = torch.stack([(edges.sum(dim=-1) - heads).abs().max() for edges, heads in of_layers])
    sizes = torch.stack([torch.linalg.vector_norm(edges, ord=1, dim=-1).max() for edges, _ in of_layers])
    return float(relative(misses.max(), sizes.max()))
