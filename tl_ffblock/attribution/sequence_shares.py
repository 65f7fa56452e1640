"""One sequence of a backward pass: its edges, and the flows that a graph is made of."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.layers import is_stream
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Backward, Traced


@dataclass(frozen=True)
class SequenceShares:
    """What a backward pass says of one sequence of its batch."""

    run: Run
    traced: Traced
    back: Backward
    index: int

    def cut(self, tensor: Float[Tensor, "batch pos ..."]) -> Float[Tensor, "real ..."]:
        """The sequence without padding, in the result's arithmetic."""
        real = self.traced.batch.real(self.index)
        own = tensor.detach()[self.index].to(self.run.settings.dtype)
        return (own if real is None else own[real.to(own.device)]).cpu()

    def edges(self, layer: int) -> Float[Tensor, "head query key"]:
        """`P_ij <v_j, df/dz_i>`, the derivative by z as attention made it: summed over keys the share of that."""
        pattern, gradient, value = self._attention(layer)
        return einsum(gradient, value, "query head e, key head e -> head query key").mul_(pattern)

    def flows(self, layers: range) -> Iterator[tuple[str, Tensor]]:
        """What a graph of some layers is made of, by name.

        Edges of tokens, what heads' values bring beside them, what enters and leaves feed-forwards, and named biases by what
        brings them.
        """
        n, dtype = len(self.run.sequences[self.traced.batch.numbers[self.index]].tokens), self.run.settings.dtype
        n_heads = self.run.model.n_heads
        edges = torch.zeros(len(layers), n_heads, n, n, dtype=dtype)
        biases = torch.zeros(len(layers), n_heads, n, dtype=dtype)
        inputs, outputs, shifts = torch.zeros(3, len(layers), n, dtype=dtype)
        for layer in layers:
            block = self.run.model.layers[layer].read(dtype)
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
        yield "graph.edges", edges
        yield "graph.head_biases", biases
        yield "graph.mlp_inputs", inputs
        yield "graph.mlps", outputs
        yield from self._named(layers, shifts)

    def _named(self, layers: range, shifts: Float[Tensor, "layer pos"]) -> Iterator[tuple[str, Tensor]]:
        """Named biases by what brings them, and edits of users' hooks in the residual stream.

        Args:
            layers: All up to the target.
            shifts: What the shift of the norm before a feed-forward carries through that alone; a norm that attention reads
                too has one dial.
        """
        model = self.run.model
        serial = model.family.order not in ("parallel", "attn_only")
        own = {owner: torch.zeros_like(shifts) for owner in ("head", "mlp", "stream", *(["mid"] if serial else []))}
        for place, dial in self.back.dials.items():
            if place.layer not in layers:
                continue
            if place.kind == "bias":
                own[model.layers[place.layer].owner_of_bias(place.name)][place.layer] += self.cut(dial)
            elif place in self.traced.tape.edited and is_stream(place.name):
                own["stream"][place.layer] += self.cut(dial)
        for layer in layers if model.family.order == "parallel" else ():
            if model.layers[layer].norm_modules["ff_norm"] == model.layers[layer].norm_modules["attn_norm"]:
                own["head"][layer] -= shifts[layer]
                own["mlp"][layer] += shifts[layer]
        yield from ((f"graph.own.{owner}", shares) for owner, shares in own.items())

    def _attention(self, layer: int) -> tuple[Tensor, Tensor, Tensor]:
        """Pattern [head query key], the derivative by z [query head d_head] and values [key head d_head]."""
        kept = self.traced.tape.kept
        gradient = self.cut(self.back.kept.get(("z_made", layer), self.back.kept["z", layer]))
        gradient = gradient.reshape(
            len(gradient), self.run.model.n_heads, -1
        )  # no heads before its HookPoint converts it
        value = self.cut(kept["value", layer])
        value = value.repeat_interleave(gradient.shape[1] // value.shape[1], dim=1)
        pattern = kept["pattern", layer].detach()[self.index].to(gradient)
        real = self.traced.batch.real(self.index)
        return pattern if real is None else pattern[:, real][:, :, real], gradient, value

    def _positions(self, name: str, layer: int) -> tuple[Float[Tensor, "pos d_model"], Float[Tensor, "pos d_model"]]:
        """A tensor of a layer and the derivative by it; experts have theirs without an axis of the batch."""
        held = (self.traced.tape.kept[name, layer], self.back.kept[name, layer])
        first, second = (self.cut(tensor.reshape(*self.traced.tape.size, -1)) for tensor in held)
        return first, second
