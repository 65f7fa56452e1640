# Noun: edge attribution patching (Syed et al. 2023).
"""Edge attribution patching: estimated effect of a sender's change through one receiver's input.

    edge(s, r) = <J (out_s(corrupted) - out_s(clean)), df/d input_r>          Syed et al. 2023

df/d input_r is the derivative through the receiver and all later layers, by the linearised rules. J is the Jacobian from the
sender's output to the receiver's input along the residual stream, without attention and feed-forwards. It includes norms of
branches and of the stream. With several steps, edges are the mean over integration steps (EAP-IG, Hanna et al. 2024).

Two equations are checked. Changes of all senders sum to the change of the residual stream. Derivatives by all inputs of a layer,
plus that by the skip connection, sum to the derivative by the residual stream before it. Positions are propagated in blocks, so
that memory is bounded by the result and one buffer:

1. Changes of senders are rows of one buffer [pos sender d], and follow each layer's program: sums append to it, and norms of
   branches and of the stream are linearised (LinearNorm).
2. At a receiver, derivatives by queries, keys and values are multiplied by W_Q, W_K and W_V and propagated through the norm
   before. They are those by the inputs of TransformerLens's `use_split_qkv_input`. Their products with the buffer are the edges.
3. The same derivatives are propagated back to the layer's input along sums and norms, where they must equal that by the stream.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.certificate import relative
from tl_ffblock.attribution.targets import Direction
from tl_ffblock.bridge.edge_ablation import EdgeAblation
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import CompletenessError, UnsupportedModelError
from tl_ffblock.graphs.edge_estimates import RECEIVERS, SENDERS, EdgeEstimates, edge_components
from tl_ffblock.graphs.graph import GraphCertificate, GraphTarget
from tl_ffblock.layer.linear import LinearNorm
from tl_ffblock.layer.records import Block
from tl_ffblock.layer.scopes import INPUT, Add, Attend, Feed, Normalise, NormName, output_step, steps_to_output
from tl_ffblock.metrics import Metric, run_by_run

KEEPS = frozenset({"residual", "z", "mlp_out", "q", "k", "v", "ff_in", "norms"})
"""Tensors that a forward pass caches for edges."""
BUFFER_BYTES = 2**26
"""Largest size of the senders' changes at positions that are propagated together."""
_BEFORE_BRANCH: tuple[NormName, ...] = ("attn_norm", "ff_norm")
_IN_BRANCH: tuple[NormName, ...] = ("attn_out_norm", "ff_out_norm")

Derivatives: TypeAlias = Mapping[tuple[str, int], Tensor]
"""Derivatives of a target by cached tensors, by name and layer."""


class EdgeSums:
    """Edges between two prompts, summed over integration steps."""

    def __init__(self, run: Run, clean: Traced, corrupted: Traced, *, by_position: bool) -> None:
        model = run.model
        self.run, self.clean, self.corrupted = run, clean, corrupted
        n_heads, n_layers = model.n_heads, model.n_layers
        fed = model.family.order != "attn_only"
        _refuse_unseen(run, clean, n_layers if fed else 0)
        n_kv = clean.cache.kept["v", 0].shape[2]
        self.nodes = edge_components(n_layers, n_heads, n_kv, fed=fed)
        self.senders, self.receivers = (
            [number for number, node in enumerate(self.nodes) if node.kind in kinds] for kinds in (SENDERS, RECEIVERS)
        )
        shape = (len(self.senders), len(self.receivers), len(run.sequences[0].tokens))
        self.values = torch.zeros(shape if by_position else shape[:2], dtype=run.settings.dtype)
        self.possible = torch.zeros(shape[:2], dtype=torch.bool)
        self.streams = 0.0
        self.derivatives = 0.0
        self.rules = clean.rules.name
        self.receivers_gap: dict[str, float] = {}

    def add(self, traced: Traced, derivatives: Derivatives, read_at: int, weight: float) -> None:
        """Add the edges of one integration step.

        Args:
            traced: Its forward pass, whose norm scales are used.
            derivatives: Derivatives by its cached tensors.
            read_at: The layer at whose input the target is read; the number of layers is the end.
            weight: Weight of the step.

        Raises:
            CompletenessError: if derivatives by a layer's inputs do not sum to that by the residual stream, or if changes of
                senders do not sum to that of the residual stream.
        """
        n_positions, width = self.clean.cache.kept["residual", 0].shape[1:]
        each = len(self.senders) * width * self.values.element_size()
        at_once = max(1, BUFFER_BYTES // each)
        for first in range(0, n_positions, at_once):
            EdgePropagation(self, traced, derivatives, slice(first, first + at_once), weight).through(read_at)
        self._refuse_misses()

    def make_exact(self, derivatives: Derivatives, target: Metric | Direction) -> None:
        """Replace the estimates by those with exact receivers, which are evaluated instead of linearised.

            edge(s, r) = <g_r, f_r(x_r + d_s) - f_r(x_r)>        g_r: the target's derivative by the receiver's output

        Exact if the model is linear after the receiver; AtP* (Kramár et al. 2024) does so for queries and keys. Edges into the
        target are measured. Costs five forward passes per sender and four more (four per sender without feed-forwards).

        Raises:
            UnsupportedModelError: for Post-LN, and for classes other than TransformerBridge.
            CompletenessError: if senders do not sum to the receivers' inputs, or if set inputs have no effect.
        """
        edges = EdgeAblation.of(self.run.model)
        first, second = (traced.batch.tokens[0] for traced in (self.clean, self.corrupted))
        with torch.no_grad():
            clean, corrupted = edges.outputs(first), edges.outputs(second)
            gaps = edges.check(first, clean, corrupted)
            effects, gap = edges.receiver_effects(first, clean, corrupted, derivatives)
        effects = effects.to(self.values)
        effects[:, -1] = self.values[:-1, -1]
        if not isinstance(target, Direction):
            kept = edges.possible.repeat(len(effects), 1, 1)
            kept[torch.arange(len(effects)), torch.arange(len(effects)), -1] = False
            measured = [run_by_run(target, logits) for logits in edges.logits(first, corrupted.senders, kept)]
            effects[:, -1] = (torch.cat(measured) - run_by_run(target, clean.logits[None])).detach().to(effects)
        self.values[:-1], self.values[-1] = effects, 0.0
        self.possible[-1] = False
        self.rules = f"{self.clean.rules.name}, exact receivers"
        self.receivers_gap = {"receivers": max(gap, gaps["receivers"])}

    def labelled(self, labels: tuple[str, ...], target: GraphTarget) -> EdgeEstimates:
        """The edges as `EdgeEstimates`."""
        summed = self.values.sum(dim=-1) if self.values.ndim == 3 else self.values
        rows, columns = self.possible.nonzero(as_tuple=True)
        weights = summed[rows, columns]
        senders, receivers = torch.tensor(self.senders), torch.tensor(self.receivers)
        into, out = dict(zip(self.receivers, summed.sum(dim=0).tolist(), strict=True)), summed.sum(dim=1).tolist()
        shares = into | dict(zip(self.senders, out, strict=True))
        return EdgeEstimates(
            model=self.run.model.name,
            labels=labels,
            clean_labels=self.run.sequences[0].labels,
            targets=(target,),
            nodes=tuple(
                replace(node, shares=(shares[number],), own_shares=(0.0,)) for number, node in enumerate(self.nodes)
            ),
            ends=torch.stack([senders[rows], receivers[columns]], dim=1),
            weights=weights[:, None],
            sizes=weights.abs(),
            at_positions=self.values[rows, columns] if self.values.ndim == 3 else None,
            certificate=GraphCertificate(
                {"streams": self.streams, "derivatives": self.derivatives, **self.receivers_gap}, self.run.settings.rtol
            ),
            rules=self.rules,
            fingerprint=self.run.model.fingerprint,
        )

    def own(self, tensor: Float[Tensor, "1 length ..."], positions: slice) -> Float[Tensor, "pos ..."]:
        """Some positions of a tensor of a forward pass, in the result's arithmetic."""
        return tensor.detach()[0, positions].to(self.values.dtype)

    def change(self, name: str, layer: int, positions: slice) -> Float[Tensor, "pos ..."]:
        """A cached tensor of the corrupted prompt minus that of the clean one."""
        first, second = (traced.cache.kept[name, layer] for traced in (self.clean, self.corrupted))
        return self.own(second, positions) - self.own(first, positions)

    def _refuse_misses(self) -> None:
        run = self.run
        rtol, edited = run.settings.rtol, self.clean.cache.edited | self.corrupted.cache.edited
        if not self.derivatives <= rtol:
            raise CompletenessError(
                f"{run.model.name}: derivatives by the inputs of heads and feed-forwards differ from that by the residual stream by "
                f"{self.derivatives:.1e} (tolerance {rtol:.0e}). {run.remedy}"
            )
        plain = run.model.family.order in ("pre_ln", "parallel", "attn_only") and not edited
        if plain and not self.streams <= rtol:
            raise CompletenessError(
                f"{run.model.name}: the changes of all senders differ from that of the residual stream by {self.streams:.1e} of its "
                f"norm (tolerance {rtol:.0e}). Omit edges."
            )


def _refuse_unseen(run: Run, traced: Traced, n_fed: int) -> None:
    kept = [("v", layer) for layer in range(run.model.n_layers)]
    kept += [(name, layer) for layer in range(n_fed) for name in ("ff_in", "mlp_out")]
    missing = sorted({name for name, layer in kept if (name, layer) not in traced.cache.kept})
    if missing:
        raise UnsupportedModelError(
            f"{run.model.name} ({run.model.family.name}): edges need the HookPoints of {', '.join(missing)}, which its layers do not "
            "have. Omit edges."
        )


@dataclass
class EdgePropagation:
    """Propagation of changes at some positions through the layers."""

    sums: EdgeSums
    traced: Traced
    derivatives: Derivatives
    positions: slice
    weight: float
    received: int = 0
    """Number of receivers so far."""
    sent: int = 1
    """Number of senders in the residual stream so far."""
    buffer: Float[Tensor, "pos sender d"] = field(init=False)

    def through(self, read_at: int) -> None:
        """Propagate through all layers before the target, and to the target."""
        embedded = self.sums.change("residual", 0, self.positions)
        self.buffer = embedded.new_zeros(len(embedded), len(self.sums.senders) - 1, embedded.shape[-1])
        self.buffer[:, 0] = embedded
        for layer in range(read_at):
            _LayerPropagation(self, layer).through()
        by_end = self.sums.own(self.derivatives["residual", read_at], self.positions)
        self.received = len(self.sums.receivers) - 1
        self.receive(self.stream, self.whole("residual", read_at), by_end[:, None])

    @property
    def stream(self) -> Float[Tensor, "pos sender d"]:
        """Changes of all senders so far in the residual stream."""
        return self.buffer[:, : self.sent]

    def send(self, changes: Float[Tensor, "pos new d"]) -> Float[Tensor, "pos sender d"]:
        """Append senders to the buffer."""
        first, self.sent = self.sent, self.sent + changes.shape[1]
        self.buffer[:, first : self.sent] = changes
        return self.stream

    def whole(self, name: str, layer: int) -> tuple[Tensor, Tensor]:
        """The model's own tensor for the clean prompt, and its change."""
        clean = self.sums.clean.cache.kept[name, layer]
        return self.sums.own(clean, self.positions), self.sums.change(name, layer, self.positions)

    def receive(
        self,
        changes: Float[Tensor, "pos sender d"],
        whole: tuple[Float[Tensor, "pos d"], Float[Tensor, "pos d"]],
        by_inputs: Float[Tensor, "pos receiver d"],
    ) -> None:
        """Add the edges into receivers that read the same stream."""
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


class _LayerPropagation:
    """Propagation through one layer, step by step along its program."""

    def __init__(self, propagation: EdgePropagation, layer: int) -> None:
        self.propagation, self.layer = propagation, layer
        model = propagation.traced.model
        self.block: Block = model.layers[layer].read(propagation.sums.values.dtype)
        self.steps = steps_to_output(model.family.order)
        self.at: dict[str, Tensor] = {INPUT: propagation.stream}
        """By scope: changes of the senders at it."""
        self.by: dict[str, Tensor] = defaultdict(lambda: torch.zeros(()))
        """By scope: derivatives by the residual stream at it."""
        self.entries: dict[str, tuple[str, LinearNorm]] = {}
        """By norm before a branch: the scope that it reads."""

    def through(self) -> None:
        """Propagate changes to the layer's output, and derivatives back to its input."""
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
                case Add(left, _) as added:
                    self.at[step.scope] = self.propagation.send(self.block.factors(added)[0] * self.at[left])
        self._measure_derivatives()

    def _receive(self, of: str, by_branch: Float[Tensor, "pos receiver d"]) -> None:
        point, slope = self.entries.get(of, (of, None))
        by_inputs = by_branch if slope is None else slope.vjp(by_branch)
        self.propagation.receive(self.at[point], self._whole(point), by_inputs)
        self.by[point] = self.by[point] + by_inputs.sum(dim=1)

    def _whole(self, point: str) -> tuple[Tensor, Tensor]:
        """The stream at a branch's input for the clean prompt, and its change."""
        if point == INPUT:
            return self.propagation.whole("residual", self.layer)
        name = (
            self.propagation.traced.model.layers[self.layer].norm_modules["ff_norm"]
            if "AtbLn" in self.entries
            else None
        )
        if name is None:
            return self.propagation.whole("ff_in", self.layer)
        clean, corrupted = (
            self._norm_input(run, name) for run in (self.propagation.sums.clean, self.propagation.sums.corrupted)
        )
        return clean, corrupted - clean

    def _by_attention(self) -> Float[Tensor, "pos receiver d"]:
        """Derivatives by the inputs of queries, keys and values, by head."""
        weights = self.propagation.traced.model.layers[self.layer].query_keys(self.propagation.sums.values.dtype)
        by_values = self._own("v")
        n_kv = by_values.shape[1]
        matrices = {"q": weights.w_q, "k": _by_heads(weights.w_k, n_kv), "v": _by_heads(self.block.attention.w_v, n_kv)}
        by_heads = {
            # Frozen attention patterns do not depend on queries and keys.
            name: self._own(name)
            if (name, self.layer) in self.propagation.derivatives
            else by_values.new_zeros(len(by_values), *matrix.shape[::2])
            for name, matrix in matrices.items()
        }
        made = [einsum(by_heads[name], matrices[name], "pos head e, head d e -> pos head d") for name in matrices]
        return torch.cat(made, dim=1)

    def _of_heads(self) -> Float[Tensor, "pos head d"]:
        return einsum(self._change("z"), self.block.attention.w_o, "pos head e, head e d -> pos head d")

    def _slope(self, role: NormName) -> LinearNorm:
        name, norm = self.propagation.traced.model.layers[self.layer].norm_modules[role], self.block.norm(role)
        x = self.at[INPUT][:, 0] if name is None else self._norm_input(self.propagation.traced, name)
        return LinearNorm.of(norm, x, frozen=self.propagation.traced.rules.norms)

    def _norm_input(self, traced: Traced, name: str) -> Float[Tensor, "pos d"]:
        x = traced.cache.norm_inputs[name]
        copies = x.reshape(
            *traced.cache.size, -1, self.at[INPUT].shape[-1]
        )  # one copy each for queries, keys and values
        return self.propagation.sums.own(copies[:, :, 0], self.propagation.positions)

    def _own(self, name: str) -> Tensor:
        derivative = self.propagation.derivatives[name, self.layer]
        return self.propagation.sums.own(
            derivative.reshape(*self.propagation.traced.cache.size, *derivative.shape[2:]), self.propagation.positions
        )

    def _change(self, name: str) -> Tensor:
        return self.propagation.sums.change(name, self.layer, self.propagation.positions)

    def _measure_derivatives(self) -> None:
        by, sums = self.by, self.propagation.sums
        end = output_step(self.block.order).scope
        by[end] = by[end] + sums.own(
            self.propagation.derivatives["residual", self.layer + 1], self.propagation.positions
        )
        for step in reversed(self.steps):
            match step.operation:
                case Add(_, stream):
                    by[stream] = by[stream] + by[step.scope]
                case Normalise(of, norm) if norm not in _BEFORE_BRANCH + _IN_BRANCH:
                    by[of] = by[of] + self._slope(norm).vjp(by[step.scope])
        expected = sums.own(self.propagation.derivatives["residual", self.layer], self.propagation.positions)
        sums.derivatives = max(sums.derivatives, float(relative((by[INPUT] - expected).norm(), expected.norm())))


def _by_heads(matrix: Float[Tensor, "head d e"], n_heads: int) -> Float[Tensor, "kv_head d e"]:
    """One matrix per key-value head, from matrices repeated for query heads."""
    return matrix[:: len(matrix) // n_heads]
