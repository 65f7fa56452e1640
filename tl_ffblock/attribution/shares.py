"""One backward pass of a batch -> the attribution of each of its sequences, with a certificate.

Shares are `<tensor, df/d tensor>`: of biases, embeddings and the residual stream by gates of ones (bridge/tape.py), of heads, edges
and neurons by kept tensors.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.certificate import Certificate, relative
from tl_ffblock.attribution.targets import Cotangents
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.sites import is_stream, norm_module, owner_of_bias
from tl_ffblock.bridge.tape import Kind
from tl_ffblock.bridge.traced import Backward, Traced
from tl_ffblock.bridge.weights import read_block

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
    """What a backward pass says of the sequence number `index` of its batch; `of` are the parts that were asked for."""

    run: Run
    traced: Traced
    back: Backward
    cotangents: Cotangents
    of: tuple[Part, ...]
    index: int = 0

    def attribution(self, difference_of_logits: float) -> Attribution:
        """The sequence's attribution.

        Raises:
            CompletenessError: if its errors are above the tolerance.
        """
        run, begin = self.run, self.cotangents
        sums = {kind: self._by_position(kind) for kind in ("token", "position", "token type")}
        streams = {place.layer: self._cut(gate) for place, gate in self.back.dials.items() if place.kind == "residual"}
        residual = torch.stack([streams[layer] for layer in range(run.model.n_layers + 1)])
        if self.traced.tape.unseen_positions:
            sums["position"] = residual[0] - sums["token"] - sums["token type"]
        biases = {place: self._cut(gate) for place, gate in self.back.dials.items() if place.kind == "bias"}
        edits = {place: float(self.back.dials[place][self.index].sum()) for place in self.traced.tape.edited}
        result = Attribution(
            labels=run.sequences[self.traced.batch.numbers[self.index]].labels,
            target=begin.words[self.index],
            quantity=begin.name,
            rules=self.traced.rules.name,
            value=float(begin.values[self.index]),
            first_order=float(begin.first_order[self.index]),
            tokens=sums["token"],
            positions=sums["position"],
            token_types=sums["token type"],
            residual=residual,
            bias_names=tuple(place.name for place in biases),
            bias_layers=tuple(place.layer for place in biases),
            bias_shares=torch.stack([*biases.values()]) if biases else residual.new_zeros(0, residual.shape[1]),
            edits={place.name: share for place, share in edits.items()},
            edit_layers={place.name: place.layer for place in edits},
            parts=dict(self._parts()),
            model=run.model.name,
            fingerprint=run.model.fingerprint,
        )
        certificate = self._certificate(result, difference_of_logits)
        certificate.refuse(run.model.name, self.traced.rules.name)
        return replace(result, certificate=certificate)

    def by_stream(self) -> Float[Tensor, "boundary pos d_model"]:
        """Derivatives of the target by the residual stream; to be had with "maps"."""
        layers = range(self.run.model.n_layers + 1)
        return torch.stack([self._cut(self.back.kept["residual", layer]) for layer in layers])

    def _certificate(self, result: Attribution, difference_of_logits: float) -> Certificate:
        gaps, kept = self.traced.tape.gaps_of(self.index), self.traced.tape.kept
        worst = max(gaps, key=gaps.__getitem__, default="")
        as_made = [layer for layer in range(result.n_layers) if ("z_made", layer) not in kept]  # no hook sees z there
        return Certificate(
            logits=difference_of_logits,
            forms=gaps.get(worst, 0.0),
            worst_form=worst,
            layer_inputs=result.boundary_errors(self.cotangents.layer),
            edges=_edge_error(result, as_made),
            attributed=result.total() / result.value if result.value else math.nan,
            complete=self.traced.rules.complete,
            rtol=self.run.settings.rtol,
            nonlinear=result.nonlinear / result.value if result.value else math.copysign(math.inf, result.nonlinear),
        )

    def _cut(self, tensor: Float[Tensor, "batch pos ..."]) -> Float[Tensor, "real ..."]:
        """The sequence without padding, in the result's arithmetic."""
        real = self.traced.batch.real(self.index)
        own = tensor.detach()[self.index].to(self.run.settings.dtype)
        return (own if real is None else own[real.to(own.device)]).cpu()

    def _by_position(self, kind: Kind) -> Float[Tensor, " pos"]:
        """The shares of all gates of a kind; zero where there is none."""
        gates = [gate for place, gate in self.back.dials.items() if place.kind == kind]
        return self._cut(sum(gates, torch.zeros_like(next(iter(self.back.dials.values())))))

    def _parts(self) -> Iterator[tuple[str, Tensor]]:
        kept, layers = self.traced.tape.kept, range(self.run.model.n_layers)
        for layer in layers if "neurons" in self.of else ():
            if ("post", layer) in kept:
                shares = kept["post", layer].detach() * self.back.kept["post", layer]
                yield f"neurons.{layer}", self._cut(shares.reshape(*self.traced.tape.size, -1))
        if {"heads", "edges", "graph"} & set(self.of):
            of_layers = [(kept["z", layer].detach() * self.back.kept["z", layer]).sum(dim=-1) for layer in layers]
            yield "heads", torch.stack([self._cut(shares).T for shares in of_layers])
        if "edges" in self.of:
            edges = self._edges(0)
            table = edges.new_empty(len(layers), *edges.shape)  # one copy: edges grow with the square of the text
            for layer in layers:
                table[layer] = self._edges(layer) if layer else edges
            yield "edges", table
        if "graph" in self.of:
            yield from self._flows(layers[: self.cotangents.layer])

    def _edges(self, layer: int) -> Float[Tensor, "head query key"]:
        """`P_ij <v_j, df/dz_i>`, the derivative by z as attention made it: summed over keys the share of that.

        Of the last sequence in place of the layer's pattern, which is forgotten: both grow with the square of the text.
        """
        pattern, gradient, value = self._attention(layer)
        edges = einsum(gradient, value, "query head e, key head e -> head query key").mul_(pattern)
        if "graph" not in self.of and self.index + 1 == len(self.traced.batch.numbers):
            del self.traced.tape.kept["pattern", layer]
        return edges

    def _flows(self, layers: range) -> Iterator[tuple[str, Tensor]]:
        """What a graph of some layers is made of, by name.

        Edges of tokens, what heads' values contribute beside them, what enters and leaves feed-forwards, and named biases by
        what adds them.
        """
        dtype, n_heads = self.run.settings.dtype, self.run.model.n_heads
        n = len(self.run.sequences[self.traced.batch.numbers[self.index]].tokens)
        edges = torch.zeros(len(layers), n_heads, n, n, dtype=dtype)
        biases = torch.zeros(len(layers), n_heads, n, dtype=dtype)
        inputs, outputs, shifts = torch.zeros(3, len(layers), n, dtype=dtype)
        for layer in layers:
            block = read_block(self.run.model, layer, dtype)
            pattern, gradient, value = self._attention(layer)
            constant = block.value_constant.to(value)
            by_key = einsum(gradient, value - constant, "query head e, key head e -> head query key")
            edges[layer] = pattern * by_key
            biases[layer] = pattern.sum(dim=-1) * einsum(gradient, constant, "query head e, head e -> head query")
            if ("ff_in", layer) in self.back.kept:
                read, by_read = self._positions("ff_in", layer)
                shift = read.new_zeros(read.shape[-1]) if block.ff_norm is None else block.ff_norm.shift.to(read)
                shifts[layer] = by_read @ shift
                inputs[layer] = (read * by_read).sum(dim=-1) - shifts[layer]
                outputs[layer] = torch.linalg.vecdot(*self._positions("mlp_out", layer))
        own = self._named_biases(layers, shifts)
        flows = {"edges": edges, "head_biases": biases, "mlp_inputs": inputs, "mlps": outputs}
        yield from ((f"graph.{name}", shares) for name, shares in {**flows, **own}.items())

    def _named_biases(self, layers: range, shifts: Float[Tensor, "layer pos"]) -> dict[str, Float[Tensor, "layer pos"]]:
        """Named biases by what adds them, and edits of users' hooks in the residual stream.

        Args:
            layers: All up to the target.
            shifts: What the shift of the norm before a feed-forward contributes through that alone; a norm that attention reads
                too has one gate.
        """
        model = self.run.model
        serial = model.family.order not in ("parallel", "attn_only")
        own = {owner: torch.zeros_like(shifts) for owner in ("head", "mlp", "stream", *(["mid"] if serial else []))}
        for place, gate in self.back.dials.items():
            if place.layer not in layers:
                continue
            if place.kind == "bias":
                own[owner_of_bias(model, place.layer, place.name)][place.layer] += self._cut(gate)
            elif place in self.traced.tape.edited and is_stream(place.name):
                own["stream"][place.layer] += self._cut(gate)
        for layer in layers if model.family.order == "parallel" else ():
            if norm_module(model, layer, "ff_norm") == norm_module(model, layer, "attn_norm"):
                own["head"][layer] -= shifts[layer]
                own["mlp"][layer] += shifts[layer]
        return {f"own.{owner}": shares for owner, shares in own.items()}

    def _attention(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Pattern [head query key], the derivative by z [query head d_head] and values [key head d_head]."""
        kept = self.traced.tape.kept
        gradient = self._cut(self.back.kept.get(("z_made", layer), self.back.kept["z", layer]))
        # z has no axis of heads before its HookPoint converts it.
        gradient = gradient.reshape(len(gradient), self.run.model.n_heads, -1)
        value = self._cut(kept["value", layer])
        value = value.repeat_interleave(gradient.shape[1] // value.shape[1], dim=1)
        pattern = kept["pattern", layer].detach()[self.index].to(gradient)
        real = self.traced.batch.real(self.index)
        return pattern if real is None else pattern[:, real][:, :, real], gradient, value

    def _positions(self, name: str, layer: int) -> tuple[Float[Tensor, "pos d_model"], Float[Tensor, "pos d_model"]]:
        """A tensor of a layer and the derivative by it; experts have theirs without an axis of the batch."""
        held = (self.traced.tape.kept[name, layer], self.back.kept[name, layer])
        first, second = (self._cut(tensor.reshape(*self.traced.tape.size, -1)) for tensor in held)
        return first, second


def _edge_error(result: Attribution, as_made: list[int]) -> float:
    """The largest miss of edges in layers whose z no hook of a user's sees."""
    if "edges" not in result.parts or not as_made:
        return 0.0
    of_layers = [(result.parts["edges"][layer], result.parts["heads"][layer]) for layer in as_made]
    misses = torch.stack([(edges.sum(dim=-1) - heads).abs().max() for edges, heads in of_layers])
    sizes = torch.stack([torch.linalg.vector_norm(edges, ord=1, dim=-1).max() for edges, _ in of_layers])
    return float(relative(misses.max(), sizes.max()))
