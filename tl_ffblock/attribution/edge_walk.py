"""Some positions of two runs walked through the layers, senders meeting receivers.

1. Senders' changes lie below each other in one buffer, [pos sender d], and go along each layer's program: sums append to it,
   norms of branches and of the stream are taken to first order (LinearNorm).
2. At a receiver the derivatives by queries, keys and values, times W_Q, W_K and W_V and through the norm before, are those by
   the inputs that TransformerLens splits with `use_split_qkv_input`; their products with the buffer are the edges.
3. The same derivatives go back to the layer's input along sums and norms: there they are the derivative by the stream.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.certificate import relative
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.layer.linear import LinearNorm
from tl_ffblock.layer.records import Block
from tl_ffblock.layer.scopes import INPUT, Add, Attend, Feed, Normalise, NormName, output_step, steps_to_output

if TYPE_CHECKING:
    from tl_ffblock.attribution.edges import EdgeSums

_BEFORE_BRANCH: tuple[NormName, ...] = ("attn_norm", "ff_norm")
_IN_BRANCH: tuple[NormName, ...] = ("attn_out_norm", "ff_out_norm")

Derivatives: TypeAlias = Mapping[tuple[str, int], Tensor]
"""A target's derivatives by kept tensors of a run, by name and layer."""


@dataclass
class EdgeWalk:
    """Some positions walked through the layers."""

    sums: "EdgeSums"
    traced: Traced
    derivatives: Derivatives
    positions: slice
    weight: float
    received: int = 0
    """Receivers that were reached."""
    sent: int = 1
    """Senders in the stream."""
    buffer: Float[Tensor, "pos sender d"] = field(init=False)

    def through(self, read_at: int) -> None:
        """All layers before the target, and the target."""
        embedded = self.sums.change("residual", 0, self.positions)
        self.buffer = embedded.new_zeros(len(embedded), len(self.sums.senders) - 1, embedded.shape[-1])
        self.buffer[:, 0] = embedded
        for layer in range(read_at):
            _LayerWalk(self, layer).through()
        by_end = self.sums.own(self.derivatives["residual", read_at], self.positions)
        self.received = len(self.sums.receivers) - 1
        self.receive(self.stream, self.whole("residual", read_at), by_end[:, None])

    @property
    def stream(self) -> Float[Tensor, "pos sender d"]:
        """What all senders so far changed in the residual stream."""
        return self.buffer[:, : self.sent]

    def send(self, changes: Float[Tensor, "pos new d"]) -> Float[Tensor, "pos sender d"]:
        """Add senders to the stream."""
        first, self.sent = self.sent, self.sent + changes.shape[1]
        self.buffer[:, first : self.sent] = changes
        return self.stream

    def whole(self, name: str, layer: int) -> tuple[Tensor, Tensor]:
        """The model's own tensor in the clean run, and its change."""
        clean = self.sums.clean.tape.kept[name, layer]
        return self.sums.own(clean, self.positions), self.sums.change(name, layer, self.positions)

    def receive(
        self,
        changes: Float[Tensor, "pos sender d"],
        whole: tuple[Float[Tensor, "pos d"], Float[Tensor, "pos d"]],
        by_inputs: Float[Tensor, "pos receiver d"],
    ) -> None:
        """The edges into some receivers that read the same stream."""
        sums, (clean, change) = self.sums, whole
        columns = slice(self.received, self.received + by_inputs.shape[1])
        self.received = columns.stop
        cells = changes @ by_inputs.transpose(1, 2)
        rest = einsum(change, by_inputs, "pos d, pos receiver d -> pos receiver") - cells.sum(dim=1)
        gap = relative((change - changes.sum(dim=1)).norm(dim=-1), clean.norm(dim=-1))
        sums.streams = max(sums.streams, float(gap.max()))
        n_senders = changes.shape[1]
        sums.possible[:n_senders, columns] = True
        sums.possible[-1, columns] = True
        for rows, estimates in ((slice(n_senders), cells), (slice(-1, None), rest[:, None])):
            weighed = self.weight * estimates.cpu()
            if sums.values.ndim == 3:
                sums.values[rows, columns, self.positions] += weighed.permute(1, 2, 0)
            else:
                sums.values[rows, columns] += weighed.sum(dim=0)


class _LayerWalk:
    """One layer of a walk along its program."""

    def __init__(self, walk: EdgeWalk, layer: int) -> None:
        self.walk, self.layer = walk, layer
        model = walk.traced.model
        self.block: Block = model.layers[layer].read(walk.sums.values.dtype)
        self.steps = steps_to_output(model.family.order)
        self.at: dict[str, Tensor] = {INPUT: walk.stream}
        """Changes by scope, of the senders that are in it."""
        self.by: dict[str, Tensor] = defaultdict(lambda: torch.zeros(()))
        """Derivatives by the residual stream at a scope."""
        self.entries: dict[str, tuple[str, LinearNorm]] = {}
        """Norms before a branch: the scope that they read."""

    def through(self) -> None:
        """The changes go on to the layer's output, and the derivatives back to its input."""
        for step in self.steps:
            match step.operation:
                case Normalise(of, norm) if norm in _BEFORE_BRANCH:
                    self.entries[step.scope] = of, self._slope(norm)
                case Normalise(of, norm) if norm in _IN_BRANCH:
                    self.at[step.scope] = self._slope(norm).jvp(self.at[of])
                case Normalise(of, norm):
                    self.at[of].copy_(self._slope(norm).jvp(self.at[of]))
                    self.at[step.scope] = self.at[of]
                case Attend(of):
                    self._receive(of, self._by_attention())
                    self.at[step.scope] = self._of_heads()
                case Feed(of):
                    self._receive(of, self._own("ff_in").reshape(len(self.at[INPUT]), 1, -1))
                    self.at[step.scope] = self._change("mlp_out").reshape(len(self.at[INPUT]), 1, -1)
                case Add(left, _):
                    self.at[step.scope] = self.walk.send(self.at[left])
        self._measure_derivatives()

    def _receive(self, of: str, by_branch: Float[Tensor, "pos receiver d"]) -> None:
        point, slope = self.entries.get(of, (of, None))
        by_inputs = by_branch if slope is None else slope.vjp(by_branch)
        self.walk.receive(self.at[point], self._whole(point), by_inputs)
        self.by[point] = self.by[point] + by_inputs.sum(dim=1)

    def _whole(self, point: str) -> tuple[Tensor, Tensor]:
        """The stream where a branch reads it, in the clean run, and its change."""
        if point == INPUT:
            return self.walk.whole("residual", self.layer)
        name = self.walk.traced.model.layers[self.layer].norm_modules["ff_norm"] if "AtbLn" in self.entries else None
        if name is None:
            return self.walk.whole("ff_in", self.layer)
        clean, corrupted = (self._norm_input(run, name) for run in (self.walk.sums.clean, self.walk.sums.corrupted))
        return clean, corrupted - clean

    def _by_attention(self) -> Float[Tensor, "pos receiver d"]:
        """By what queries, keys and values are made of, head by head."""
        weights = self.walk.traced.model.layers[self.layer].query_keys(self.walk.sums.values.dtype)
        by_values = self._own("v")
        n_kv = by_values.shape[1]
        matrices = {"q": weights.w_q, "k": _by_heads(weights.w_k, n_kv), "v": _by_heads(self.block.attention.w_v, n_kv)}
        none = by_values.new_zeros(())
        made = []
        for name, matrix in matrices.items():
            kept = ("v", self.layer) if name == "v" else (name, self.layer)
            by_heads = (
                self._own(name) if kept in self.walk.derivatives else none.expand(len(by_values), *matrix.shape[::2])
            )
            made.append(einsum(by_heads, matrix, "pos head e, head d e -> pos head d"))
        return torch.cat(made, dim=1)

    def _of_heads(self) -> Float[Tensor, "pos head d"]:
        return einsum(self._change("z"), self.block.attention.w_o, "pos head e, head e d -> pos head d")

    def _slope(self, role: NormName) -> LinearNorm:
        name, norm = self.walk.traced.model.layers[self.layer].norm_modules[role], self.block.norm(role)
        x = self.at[INPUT][:, 0] if name is None else self._norm_input(self.walk.traced, name)
        return LinearNorm.of(norm, x, frozen=self.walk.traced.rules.norms)

    def _norm_input(self, traced: Traced, name: str) -> Float[Tensor, "pos d"]:
        x = traced.tape.norm_inputs[name]
        copies = x.reshape(
            *traced.tape.size, -1, self.at[INPUT].shape[-1]
        )  # one each for queries, keys, values of heads
        return self.walk.sums.own(copies[:, :, 0], self.walk.positions)

    def _own(self, name: str) -> Tensor:
        derivative = self.walk.derivatives[name, self.layer]
        return self.walk.sums.own(
            derivative.reshape(*self.walk.traced.tape.size, *derivative.shape[2:]), self.walk.positions
        )

    def _change(self, name: str) -> Tensor:
        return self.walk.sums.change(name, self.layer, self.walk.positions)

    def _measure_derivatives(self) -> None:
        by, sums = self.by, self.walk.sums
        end = output_step(self.block.order).scope
        by[end] = by[end] + sums.own(self.walk.derivatives["residual", self.layer + 1], self.walk.positions)
        for step in reversed(self.steps):
            match step.operation:
                case Add(_, stream):
                    by[stream] = by[stream] + by[step.scope]
                case Normalise(of, norm) if norm not in _BEFORE_BRANCH + _IN_BRANCH:
                    by[of] = by[of] + self._slope(norm).vjp(by[step.scope])
        expected = sums.own(self.walk.derivatives["residual", self.layer], self.walk.positions)
        sums.derivatives = max(sums.derivatives, float(relative((by[INPUT] - expected).norm(), expected.norm())))


def _by_heads(matrix: Float[Tensor, "head d e"], n_heads: int) -> Float[Tensor, "kv_head d e"]:
    """Of matrices repeated for the heads that share them one each."""
    return matrix[:: len(matrix) // n_heads]
