"""One backward pass of a batch -> the shares of each of its sequences, and how well they sum up."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.tape import Kind
from tl_ffblock.bridge.traced import Backward, Traced
from tl_ffblock.bridge.weights import read_block
from tl_ffblock.propagation.attribution import Attribution
from tl_ffblock.propagation.certificate import Certificate, relative
from tl_ffblock.propagation.targets import Seeds

Part: TypeAlias = Literal["heads", "edges", "neurons", "maps", "graph"]
PARTS: tuple[Part, ...] = get_args(Part)
"""What can be asked for beside tokens, positions, biases and the residual stream."""
KEEPS: dict[Part, tuple[str, ...]] = {
    "heads": ("z",),
    "edges": ("z", "value", "pattern"),
    "neurons": ("post",),
    "maps": ("residual",),
    "graph": ("z", "value", "pattern", "mlp_out"),
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
        )

    def _of(self, kind: Kind, layer: int, index: int) -> Float[Tensor, " pos"]:
        shares = [dial for place, dial in self.back.dials.items() if (place.kind, place.layer) == (kind, layer)]
        return self._cut(shares[0], index)

    def _by_position(self, kind: Kind, index: int) -> Float[Tensor, " pos"]:
        """The shares of all dials of a kind; zero where there is none."""
        dials = [dial for place, dial in self.back.dials.items() if place.kind == kind]
        like = next(iter(self.back.dials.values()))
        return self._cut(sum(dials, torch.zeros_like(like)), index)

    def _cut(self, tensor: Float[Tensor, "batch pos ..."], index: int) -> Float[Tensor, "real ..."]:
        """One sequence without padding, in the result's arithmetic."""
        real = self.traced.batch.real(index)
        own = tensor.detach()[index].to(self.run.settings.dtype)
        return (own if real is None else own[real.to(own.device)]).cpu()

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
            yield "graph.edges", _stacked(len(layers), (self._edges(layer, index, of_tokens=True) for layer in layers))
            yield "graph.mlps", torch.stack([self._mlp(layer, index) for layer in layers])

    def _mlp(self, layer: int, index: int) -> Float[Tensor, " pos"]:
        """Share of what a feed-forward writes."""
        name, size = ("mlp_out", layer), self.traced.tape.size
        if name not in self.back.kept:
            length = len(self.run.sequences[self.traced.batch.numbers[index]].tokens)
            return torch.zeros(length, dtype=self.run.settings.dtype)
        shares = self.traced.tape.kept[name].detach() * self.back.kept[name]
        return self._cut(shares.reshape(*size, -1).sum(dim=-1), index)

    def _edges(self, layer: int, index: int, *, of_tokens: bool = False) -> Float[Tensor, "head query key"]:
        """`P_ij <v_j, df/dz_i>`, the derivative by a head's values: summed over keys the head's own share.

        With `of_tokens` without the part of v that no token brings: its bias, and the shift of the norm before.
        """
        kept = self.traced.tape.kept
        gradient = self._cut(self.back.kept["z", layer], index)
        value = self._cut(kept["value", layer], index)
        value = value.repeat_interleave(gradient.shape[1] // value.shape[1], dim=1)
        if of_tokens:
            value = value - read_block(self.run.model, layer, value.dtype).value_constant.to(value)
        pattern = kept["pattern", layer].detach()[index].to(gradient)
        real = self.traced.batch.real(index)
        if real is not None:
            pattern = pattern[:, real][:, :, real]
        return pattern * einsum(gradient, value, "query head e, key head e -> head query key")

    def by_stream(self, index: int) -> Float[Tensor, "boundary pos d_model"]:
        """One sequence's derivatives of the target by the residual stream; to be had with "maps"."""
        layers = range(self.run.model.n_layers + 1)
        return torch.stack([self._cut(self.back.kept["residual", layer], index) for layer in layers])

    def _certificate(self, index: int, result: Attribution, difference_of_logits: float) -> Certificate:
        gaps = self.traced.tape.gaps_of(index)
        worst = max(gaps, key=gaps.__getitem__, default="")
        handed_out = result.total() / result.first_order if result.first_order else float("nan")
        return Certificate(
            logits=difference_of_logits,
            forms=gaps.get(worst, 0.0),
            worst_form=worst,
            boundaries=result.boundary_errors(self.seeds.layer),
            edges=_edge_error(result),
            handed_out=handed_out,
            complete=self.traced.rules.complete,
            rtol=self.run.settings.rtol,
        )


def _stacked(n_layers: int, of_layers: Iterator[Tensor]) -> Float[Tensor, "layer ..."]:
    """Tables of layers as one, of which no second copy is made: edges grow with the square of the text."""
    first = next(of_layers)
    table = first.new_empty(n_layers, *first.shape)
    table[0] = first
    for layer, of_layer in enumerate(of_layers, start=1):
        table[layer] = of_layer
    return table


def _edge_error(result: Attribution) -> float:
    if "edges" not in result.parts:
        return 0.0
    as_made = [layer for layer in range(result.n_layers) if layer not in result.edit_layers.values()]
    if not as_made:
        return 0.0
    edges, heads = result.parts["edges"][as_made], result.parts["heads"][as_made]
    return float(relative((edges.sum(dim=-1) - heads).abs().max(), edges.abs().sum(dim=-1).max()))
