# Noun: edge ablation, as evaluations of circuits use it (Hanna et al. 2024; Mueller et al. 2025, MIB).
"""Edge ablation: forward passes in which receivers read ablated outputs of some of their senders.

    input of r = sum over senders s of (ablated output of s + kept[s, r] (output of s - ablated output of s)) + biases

Senders are the residual stream at the first layer, heads (z W_O) and feed-forwards. Receivers are the query, key and value inputs
of heads, the inputs of feed-forwards, and the residual stream after the last layer. Inputs of heads and feed-forwards are those
before their norm. The residual stream itself is the sum of all senders' outputs in this pass, so an ablated edge changes only its
receiver.

1. Outputs of senders are read at z and after the feed-forward. A buffer [run sender pos d] has their differences from the ablated
   outputs.
2. Queries, keys and values of a receiver with an ablated edge are `norm(input) W + b`, set before any rotation or QK norm. The
   feed-forward's input is set after its norm, and the last residual stream at the last layer's output.
3. A norm in a branch (Gemma 2) normalises all heads of a layer together. A receiver then reads the norm of their sum of kept and
   ablated outputs. The identities below also hold there.
4. In Post-LN, the residual stream is normalised and is not a sum of senders' outputs: such models are refused.

Three identities are checked for every prompt, with every receiver's input recomputed. Without ablated edges, logits are the
model's own. With all edges ablated, they are those of the corrupted prompt, or of the sum of ablated outputs and biases. If heads
and feed-forwards read only the corrupted prompt's outputs, their outputs give the corrupted prompt's logits.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import get_args

import torch
from einops import einsum
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.bridge.edited import RUN_BYTES, logits_under
from tl_ffblock.bridge.layers import BoundLayer, QueryKeyWeights
from tl_ffblock.bridge.linearised import adds_position_embeddings, token_embedding_name
from tl_ffblock.bridge.linears import matrix
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.errors import CompletenessError, UnsupportedModelError
from tl_ffblock.layer.records import Block, Norm
from tl_ffblock.layer.scopes import Branch


@dataclass(frozen=True, eq=False)
class SenderOutputs:
    """Output of every sender in a forward pass of one prompt, before any norm of its branch, and the logits."""

    senders: Float[Tensor, "sender pos d"]
    logits: Float[Tensor, "pos d_vocab"]


@dataclass(frozen=True)
class _Branch:
    """Attention or feed-forward of a layer: its senders, and bias, norm and multiplier after the sum of their outputs."""

    senders: slice
    bias: Float[Tensor, " d"]
    norm: Norm | None
    multiplier: float

    @property
    def adds(self) -> bool:
        """Whether the senders' outputs themselves are added to the residual stream."""
        return self.norm is None and self.multiplier == 1

    def written(self, outputs: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
        """Term of the residual stream [... d] for a sum of the senders' outputs."""
        made = outputs + self.bias if self.norm is None else self.norm(outputs + self.bias)
        return made if self.multiplier == 1 else self.multiplier * made


@dataclass(frozen=True)
class _Weights:
    """Weights of one layer, in the dtype of the buffer."""

    block: Block
    keys: QueryKeyWeights
    branches: tuple[_Branch, ...]


@dataclass(frozen=True)
class EdgeAblation:
    """A model whose edges can be ablated. Numbers of senders and receivers are in the order of `graphs.edge_components`."""

    model: Model

    @classmethod
    def of(cls, model: Model) -> "EdgeAblation":
        """Edge ablation of a model whose receivers read sums of senders' outputs.

        Raises:
            UnsupportedModelError: for Post-LN, and for classes other than TransformerBridge.
        """
        if model.family.order == "post_ln":
            raise UnsupportedModelError(
                f"{model.name} ({model.family.name}) normalises its residual stream after every sum (Post-LN): inputs of receivers are "
                "not sums of senders' outputs, so single edges cannot be ablated. Ablate heads or feed-forwards instead."
            )
        if model.api != "TransformerBridge":
            raise UnsupportedModelError(
                f"{model.name} is a {model.api}: edge ablation expects a TransformerBridge. Use ffb.load_model, or "
                "TransformerBridge.boot_transformers."
            )
        model.refuse_recurrent("edges need the queries and keys of every layer. Ablate heads or feed-forwards instead")
        return cls(model)

    @property
    def fed(self) -> bool:
        """Whether layers have feed-forwards."""
        return self.model.layers[0].has_feed_forward

    @cached_property
    def n_kv(self) -> int:
        """Key-value heads per layer."""
        return len(matrix(self.model.layers[0].block.attn, "W_K"))

    def heads_of(self, layer: int) -> slice:
        """Indices of the senders that are heads of a layer; its feed-forward is next."""
        first = 1 + layer * (self.model.n_heads + self.fed)
        return slice(first, first + self.model.n_heads)

    def inputs_of(self, layer: int) -> dict[str, slice]:
        """Indices of the receivers of a layer, by "q", "k", "v" and "mlp"."""
        sizes = {"q": self.model.n_heads, "k": self.n_kv, "v": self.n_kv} | ({"mlp": 1} if self.fed else {})
        first, found = layer * sum(sizes.values()), {}
        for name, size in sizes.items():
            found[name] = slice(first, first + size)
            first += size
        return found

    def seen(self, layer: int, name: str) -> int:
        """Number of senders before a receiver of a layer."""
        heads = self.heads_of(layer)
        return heads.stop if name == "mlp" and self.model.family.order != "parallel" else heads.start

    @cached_property
    def possible(self) -> Bool[Tensor, "sender receiver"]:
        """Whether a sender's output is part of a receiver's input; the target is the last receiver."""
        n_layers = self.model.n_layers
        n_receivers = self.inputs_of(n_layers)["q"].start + 1
        possible = torch.zeros(self.heads_of(n_layers).start, n_receivers, dtype=torch.bool)
        possible[:, -1] = True
        for layer in range(n_layers):
            for name, receivers in self.inputs_of(layer).items():
                possible[: self.seen(layer, name), receivers] = True
        return possible

    @torch.no_grad()
    def outputs(
        self,
        tokens: Int[Tensor, " pos"],
        ablated_outputs: Float[Tensor, "sender pos d"] | None = None,
        kept: Bool[Tensor, "sender receiver"] | None = None,
    ) -> SenderOutputs:
        """Senders' outputs in one forward pass: without ablated edges, or with edges ablated as in `logits`."""
        every = torch.ones_like(self.possible) if kept is None else kept
        read = _Batch(self, every[None], ablated_outputs, every_sender=True)
        logits = self._run(tokens, read)
        senders = read.differences[0]
        return SenderOutputs(senders if ablated_outputs is None else senders + ablated_outputs, logits[0])

    @torch.no_grad()
    def position_embeddings(self, tokens: Int[Tensor, " pos"]) -> Float[Tensor, "pos d"]:
        """Position embeddings of a prompt [pos d]: its first residual stream minus its token embeddings; 0 if the model adds none."""
        model = self.model
        read: dict[str, Tensor] = {}
        names = (token_embedding_name(model), model.layers[0].sites["resid_pre"])
        hooks = [(name, lambda x, hook=None, name=name: read.update({name: x[0].detach()})) for name in names]
        logits_under(model, tokens[None], hooks)
        of_tokens, stream = (read[name].to(model.working_dtype) for name in names)
        return stream - of_tokens if adds_position_embeddings(model) else torch.zeros_like(stream)

    @torch.no_grad()
    def logits(
        self,
        tokens: Int[Tensor, " pos"],
        ablated_outputs: Float[Tensor, "sender pos d"],
        kept: Bool[Tensor, "run sender receiver"],
    ) -> Iterator[Float[Tensor, "run pos d_vocab"]]:
        """Logits of one prompt for every choice of kept edges, in batches.

        Args:
            tokens: The prompt.
            ablated_outputs: Outputs that receivers of ablated edges read instead of the senders'.
            kept: Kept edges of each forward pass; all other edges are ablated.
        """
        cfg = self.model.hooked.cfg
        of_run = (len(self.possible) + 3 * self.model.n_heads) * int(cfg.d_model) + int(getattr(cfg, "d_vocab", 0) or 0)
        for rows in torch.split(kept, self.model.at_once(RUN_BYTES, len(tokens) * of_run)):
            yield self._run(tokens, _Batch(self, rows, ablated_outputs))

    @torch.no_grad()
    def receiver_effects(
        self,
        tokens: Int[Tensor, " pos"],
        clean: SenderOutputs,
        corrupted: SenderOutputs,
        derivatives: Mapping[tuple[str, int], Tensor],
    ) -> tuple[Float[Tensor, "sender receiver"], float]:
        """Effects [sender receiver] of single edges on their receivers' outputs, times the target's derivative by these outputs.

            effect[s, r] = <g_r, f_r(x_r + d_s) - f_r(x_r)>

        f_r is the receiver's own function, with its norm and softmax; d_s is the corrupted minus the clean output of sender s.
        Costs four rows of a batch per sender: queries, keys, values and feed-forwards of all layers at once, since no receiver
        reads another's changed output. The target's column is 0.

        Args:
            tokens: The clean prompt.
            clean: Its outputs.
            corrupted: Outputs of the corrupted prompt.
            derivatives: The target's derivatives by ("z", layer) [1 pos head e] and ("mlp_out", layer) [1 pos d]. Layers
                without derivatives have no effects.

        Returns:
            The effects, and the error of `_check_receivers`.

        Raises:
            CompletenessError: if this error is above the tolerance.
        """
        effects = torch.zeros(self.possible.shape, dtype=self.model.working_dtype)
        sides = ("q", "k", "v", "mlp") if self.fed else ("q", "k", "v")
        rows = [(sender, side) for sender in range(len(self.possible)) for side in sides]
        cfg = self.model.hooked.cfg
        of_run = (len(self.possible) + 3 * self.model.n_heads) * int(cfg.d_model) + int(getattr(cfg, "d_vocab", 0) or 0)
        at_once = self.model.at_once(RUN_BYTES, len(tokens) * of_run)
        for first in range(0, len(rows), at_once):
            chosen = rows[first : first + at_once]
            kept = self.possible.repeat(1 + len(chosen), 1, 1)  # the first row is the clean prompt
            for run, (sender, side) in enumerate(chosen, start=1):
                for layer in range(self.model.n_layers):
                    kept[run, sender, self.inputs_of(layer)[side]] = False
            read = _Receivers(self, kept, clean.senders, corrupted.senders, derivatives)
            self._run(tokens, read)
            for run, (sender, side) in enumerate(chosen, start=1):
                for (name, layer), products in read.products.items():
                    if (name == "mlp_out") == (side == "mlp"):
                        receivers = self.inputs_of(layer)[side]  # a key or value input that heads share is one receiver
                        by_receiver = products[run].reshape(receivers.stop - receivers.start, -1).sum(dim=-1)
                        effects[sender, receivers] = by_receiver.to(effects)
        return effects * self.possible, self._check_receivers(tokens, clean, corrupted)

    def _check_receivers(self, tokens: Int[Tensor, " pos"], clean: SenderOutputs, corrupted: SenderOutputs) -> float:
        """Largest difference of receivers' outputs from a prompt's own if they read its senders, relative to the largest output.

        Raises:
            CompletenessError: if it is above the tolerance.
        """
        ends = torch.stack([self.possible, torch.zeros_like(self.possible)])
        read = _Receivers(self, ends, clean.senders, corrupted.senders, {})
        self._run(tokens, read)
        written = torch.cat([read.written[first] for first in sorted(read.written)], dim=1)
        expected = torch.stack([clean.senders, corrupted.senders])[:, 1:]
        gap = float((written - expected).abs().max() / expected.abs().max())
        if not gap <= self.model.tolerance:
            raise CompletenessError(
                f"{self.model.name}: outputs of heads and feed-forwards that read a prompt's senders differ from its own by {gap:.1e} "
                f"of the largest (tolerance {self.model.tolerance:.0e}). Receiver-exact edges are not available for this model."
            )
        return gap

    @torch.no_grad()
    def check(
        self,
        tokens: Int[Tensor, " pos"],
        clean: SenderOutputs,
        corrupted: SenderOutputs,
        ablated_outputs: Float[Tensor, "sender pos d"] | None = None,
    ) -> dict[str, float]:
        """Errors of the three identities of this module, with every receiver's input recomputed.

        Args:
            tokens: The prompt.
            clean: Its outputs.
            corrupted: Outputs of another prompt with equally many tokens.
            ablated_outputs: Outputs that receivers of ablated edges read; None means those of the corrupted prompt.

        Returns:
            Largest difference of logits from the expected ones, relative to the largest logit, by "full", "empty", "receivers".

        Raises:
            CompletenessError: if one of them is above the tolerance.
        """
        every, none = torch.ones_like(self.possible), torch.zeros_like(self.possible)
        written = none.clone()
        written[1:, -1] = True  # heads and feed-forwards read the corrupted prompt's outputs, the target reads theirs
        runs = _Batch(self, torch.stack([every, none, written]), corrupted.senders, every_receiver=True)
        found = dict(zip(("full", "empty", "receivers"), self._run(tokens, runs), strict=True))
        expected = {"full": clean.logits, "empty": corrupted.logits, "receivers": corrupted.logits}
        if ablated_outputs is not None:
            runs = _Batch(self, torch.stack([every, none]), ablated_outputs, every_receiver=True)
            found |= dict(zip(("full", "empty"), self._run(tokens, runs), strict=True))
            expected["empty"] = read_out(self.model, "final_norm")(self.ablated_stream(ablated_outputs))
        tolerance = self.model.tolerance
        largest = float(torch.stack([clean.logits, corrupted.logits]).abs().max())
        gaps = {name: float((found[name] - expected[name]).abs().max()) / largest for name in found}
        if not all(gap <= tolerance for gap in gaps.values()):
            raise CompletenessError(
                f"{self.model.name}: logits of the full circuit differ from the clean ones by {gaps['full']:.1e} of the largest, those "
                f"of the empty circuit from the ablated ones by {gaps['empty']:.1e}, those of receivers of the corrupted prompt from its "
                f"own by {gaps['receivers']:.1e} (tolerance {tolerance:.0e}). Senders do not sum to the residual stream, or an edit at "
                "a HookPoint has no effect. Remove your hooks that edit the residual stream."
            )
        return gaps

    def ablated_stream(
        self, outputs: Float[Tensor, "sender pos d"], n_seen: int | None = None
    ) -> Float[Tensor, "pos d"]:
        """Residual stream [pos d] as the sum of senders' outputs and biases.

        Args:
            outputs: Outputs of all senders.
            n_seen: Number of senders in the sum, whole branches at a time; None means all.
        """
        stream = outputs[0]
        for branch in self.branches:
            if n_seen is None or branch.senders.start < n_seen:
                stream = stream + branch.written(outputs[branch.senders].sum(dim=0))
        return stream

    @property
    def branches(self) -> tuple[_Branch, ...]:
        """Attention and feed-forward branches of all layers."""
        return tuple(branch for layer in self.weights for branch in layer.branches)

    @cached_property
    def weights(self) -> tuple[_Weights, ...]:
        """Weights of every layer."""
        return tuple(self._weights(layer) for layer in self.model.layers)

    def _weights(self, layer: BoundLayer) -> _Weights:
        block, heads = layer.read(self.model.working_dtype), self.heads_of(layer.number)
        by_attention, by_feed_forward = (block.multipliers.get(branch, 1.0) for branch in get_args(Branch))
        branches = [_Branch(heads, block.attention.b_o, block.attn_out_norm, by_attention)]
        if self.fed:
            last, none = slice(heads.stop, heads.stop + 1), torch.zeros_like(block.attention.b_o)
            branches.append(_Branch(last, none, block.ff_out_norm, by_feed_forward))
        return _Weights(block, layer.query_keys(self.model.working_dtype), tuple(branches))

    def _run(self, tokens: Int[Tensor, " pos"], batch: "_Batch") -> Float[Tensor, "run pos d_vocab"]:
        return logits_under(self.model, tokens.expand(len(batch.kept), -1), list(batch.hooks()))


class _Batch:
    """A batch of forward passes of one prompt, each with its own kept edges."""

    def __init__(
        self,
        edges: EdgeAblation,
        kept: Bool[Tensor, "run sender receiver"],
        ablated_outputs: Float[Tensor, "sender pos d"] | None,
        *,
        every_receiver: bool = False,
        every_sender: bool = False,
    ) -> None:
        self.edges, self.kept, self.ablated_outputs = edges, kept & edges.possible, ablated_outputs
        some_ablated = (edges.possible & ~kept).any(dim=(0, 1))
        self.active: Bool[Tensor, " receiver"] = torch.ones_like(some_ablated) if every_receiver else some_ablated
        """Receivers with a recomputed input: those with an ablated edge in a row of the batch, or all."""
        some_kept = self.kept[:, :, self.active].any(dim=(0, 2)) | every_sender
        self.used: list[int] = some_kept.nonzero()[:, 0].tolist()
        """Senders with a kept edge to a receiver with a recomputed input, ascending; with `every_sender` all."""
        self.differences = torch.empty(0)
        """[run used pos d]: outputs of this pass minus the ablated ones; the outputs if there are no ablated ones."""

    def hooks(self) -> Iterator[tuple[str, Callable[..., Tensor | None]]]:
        """Hooks that read senders and set receivers' inputs, with their HookPoint names."""
        edges = self.edges
        for layer in edges.model.layers:
            if layer.number == 0:
                yield layer.sites["resid_pre"], self._embedded
            for name, receivers in edges.inputs_of(layer.number).items():
                active = (self.active[receivers].nonzero()[:, 0] + receivers.start).tolist()
                if active and name == "mlp":
                    yield layer.ff_input_name, partial(self._feed_forward, layer.number)
                elif active:
                    yield layer.name(f"attn.hook_{name}"), partial(self._attention, layer.number, name, active)
            yield layer.values_name, partial(self._heads, layer.number)
            if edges.fed:
                yield layer.branch_output_name("mlp"), partial(self._fed, edges.heads_of(layer.number).stop)
        if bool(self.active[-1]):
            yield edges.model.output_name, self._target

    # Senders

    def _embedded(self, x: Tensor, hook: object = None) -> None:
        shape = (len(x), len(self.used), *x.shape[1:])
        self.differences = x.new_zeros(shape, dtype=self.edges.model.working_dtype)
        self._send(slice(0, 1), x[:, None])

    def _heads(self, layer: int, z: Tensor, hook: object = None) -> None:
        heads, w_o = self.edges.heads_of(layer), self.edges.weights[layer].block.attention.w_o
        if self.used[self._rows(heads)]:
            by_head = z.to(w_o).reshape(*z.shape[:2], len(w_o), -1)
            self._send(heads, einsum(by_head, w_o, "run pos head e, head e d -> run head pos d"))

    def _fed(self, sender: int, x: Tensor, hook: object = None) -> None:
        self._send(slice(sender, sender + 1), x.reshape(len(self.kept), 1, -1, x.shape[-1]))

    def _send(self, senders: slice, written: Float[Tensor, "run sender pos d"]) -> None:
        rows = self._rows(senders)
        for row, sender in zip(range(rows.start, rows.stop), self.used[rows], strict=True):
            output = written[:, sender - senders.start].to(self.differences)
            less = 0 if self.ablated_outputs is None else self.ablated_outputs[sender].to(output)
            self.differences[:, row] = output - less

    def _rows(self, senders: slice) -> slice:
        """Slice of some senders among the used ones."""
        return slice(*(bisect_left(self.used, end) for end in (senders.start, senders.stop)))

    # Receivers

    def _attention(self, layer: int, name: str, active: list[int], made: Tensor, hook: object = None) -> Tensor:
        weights, of_layer = self.edges.weights[layer], self.edges.inputs_of(layer)[name]
        keys, attention, n_heads = weights.keys, weights.block.attention, of_layer.stop - of_layer.start
        own = {"q": (keys.w_q, keys.b_q), "k": (keys.w_k, keys.b_k), "v": (attention.w_v, attention.b_v)}
        heads = [receiver - of_layer.start for receiver in active]
        weight, bias = (each[:: len(each) // n_heads][heads] for each in own[name])  # one per key-value head
        x = self._inputs(active, self.edges.seen(layer, name), weights.block.attn_norm)
        vectors = einsum(x, weight, "run head pos d, head d e -> run pos head e") + bias
        changed = made.clone(memory_format=torch.contiguous_format)
        changed.view(*made.shape[:2], n_heads, -1)[:, :, heads] = vectors.to(made)
        return changed

    def _feed_forward(self, layer: int, x: Tensor, hook: object = None) -> Tensor:
        norm, receiver = self.edges.weights[layer].block.ff_norm, self.edges.inputs_of(layer)["mlp"].start
        return self._inputs([receiver], self.edges.seen(layer, "mlp"), norm).reshape(x.shape).to(x)

    def _target(self, x: Tensor, hook: object = None) -> Tensor:
        n_senders, n_receivers = self.edges.possible.shape
        return self._inputs([n_receivers - 1], n_senders, None)[:, 0].to(x)

    def _inputs(self, receivers: list[int], n_seen: int, norm: Norm | None) -> Float[Tensor, "run receiver pos d"]:
        """Inputs of receivers [run receiver pos d], after a norm if there is one."""
        ablated = self.ablated_outputs
        assert ablated is not None, "receivers read ablated outputs"
        kept = self.kept[:, self.used][:, :, receivers].to(self.differences).transpose(1, 2)
        branches = [branch for branch in self.edges.branches if branch.senders.start < n_seen]
        if all(branch.adds for branch in branches):
            read = self.edges.ablated_stream(ablated, n_seen) + self._changes(kept, slice(0, n_seen))
        else:
            read = ablated[0] + self._changes(kept, slice(0, 1))
            for branch in branches:
                read = read + branch.written(ablated[branch.senders].sum(dim=0) + self._changes(kept, branch.senders))
        return read if norm is None else norm(read)

    def _changes(self, kept: Float[Tensor, "run receiver used"], senders: slice) -> Float[Tensor, "run receiver pos d"]:
        """Terms [run receiver pos d] that kept edges from some senders add to the sum of ablated outputs."""
        rows = self._rows(senders)
        differences = self.differences[:, rows]
        product = kept[:, :, rows] @ differences.flatten(2)
        return product.reshape(*product.shape[:2], *differences.shape[2:])


class _Receivers(_Batch):
    """A batch whose receivers read the clean prompt's outputs, and those of the corrupted prompt for ablated edges.

    They never read outputs of their own forward pass.
    """

    def __init__(
        self,
        edges: EdgeAblation,
        kept: Bool[Tensor, "run sender receiver"],
        clean: Float[Tensor, "sender pos d"],
        corrupted: Float[Tensor, "sender pos d"],
        derivatives: Mapping[tuple[str, int], Tensor],
    ) -> None:
        super().__init__(edges, kept, corrupted, every_receiver=True, every_sender=True)
        self.derivatives = derivatives
        self.differences = (clean - corrupted).expand(len(kept), *clean.shape)
        self.written: dict[int, Tensor] = {}
        """Without derivatives: outputs of senders in this pass [run sender pos d], by the index of the first sender."""
        self.products: dict[tuple[str, int], Tensor] = {}
        """Derivatives times changes from the first row, by name and layer: "z" [run head], "mlp_out" [run]."""

    def _embedded(self, x: Tensor, hook: object = None) -> None:
        """Nothing to do: receivers read the embeddings of the clean prompt."""

    def _heads(self, layer: int, z: Tensor, hook: object = None) -> None:
        heads, w_o = self.edges.heads_of(layer), self.edges.weights[layer].block.attention.w_o
        by_head = z.to(w_o).reshape(*z.shape[:2], len(w_o), -1)
        if not self.derivatives:
            self.written[heads.start] = einsum(by_head, w_o, "run pos head e, head e d -> run head pos d")
        elif ("z", layer) in self.derivatives:
            gradient = self.derivatives["z", layer].reshape(by_head.shape[1:]).to(by_head)
            self.products["z", layer] = ((by_head - by_head[:1]) * gradient).sum(dim=(1, 3))

    def _fed(self, sender: int, x: Tensor, hook: object = None) -> None:
        outputs = x.reshape(len(self.kept), -1, x.shape[-1]).to(self.differences)
        layer = (sender - 1) // (self.edges.model.n_heads + 1)
        if not self.derivatives:
            self.written[sender] = outputs[:, None]
        elif ("mlp_out", layer) in self.derivatives:
            gradient = self.derivatives["mlp_out", layer].reshape(outputs.shape[1:]).to(outputs)
            self.products["mlp_out", layer] = ((outputs - outputs[:1]) * gradient).sum(dim=(1, 2))
