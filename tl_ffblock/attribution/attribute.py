"""`ffb.attribute`: attribute a target of each prompt to tokens, biases, heads, edges and neurons.

One forward pass with linearised modules and one backward pass per batch of prompts (bridge/linearised.py). An attribution is
`<tensor, df/d tensor>`: for biases, embeddings and the residual stream by gates of ones, for heads, edges and neurons by
cached tensors. Attributions that do not sum to the target are refused.
"""

import math
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, TypedDict, TypeVar, Unpack, get_args, overload

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.attribution.certificate import Certificate, relative
from tl_ffblock.attribution.signed_maps import PREFIX, signed_maps
from tl_ffblock.attribution.targets import Cotangents, Direction, Target, cotangents, for_prompts, positions_read
from tl_ffblock.bridge.attention import by_rows_differs
from tl_ffblock.bridge.gradient_cache import Kind
from tl_ffblock.bridge.inputs import Batch, memory_given_back, prompt_of
from tl_ffblock.bridge.layers import is_stream
from tl_ffblock.bridge.linearised import RuleName, Rules
from tl_ffblock.bridge.media import media_positions
from tl_ffblock.bridge.memory import Asked, fitted
from tl_ffblock.bridge.runs import DEFAULTS, Hooks, Ids, InputOptions, MaxMemory, Run, Texts, Tokens, open_run
from tl_ffblock.bridge.traced import (
    Backward,
    Traced,
    batches_to_trace,
    difference_of_logits,
    layers_run_twice,
    trace,
    with_gradients,
)
from tl_ffblock.errors import InputError, ProcessedWeightsWarning, brief, did_you_mean
from tl_ffblock.layer.heads import stacked_heads
from tl_ffblock.layer.mixers import convolved, token_edges
from tl_ffblock.layer.positions import several
from tl_ffblock.layer.records import on_cpu
from tl_ffblock.metrics import Metric
from tl_ffblock.progress import Progress
from tl_ffblock.result import Results
from tl_ffblock.signatures import in_plural, spelled_out

One = TypeVar("One", bound=Attribution)
Name = TypeVar("Name", bound=str)
Part: TypeAlias = Literal["heads", "edges", "neurons", "mlps", "masking", "maps", "graph"]
PARTS: tuple[Part, ...] = get_args(Part)
"""Values of `of`. Tokens, positions, biases and the residual stream are always present."""
KEEPS: dict[Part, tuple[str, ...]] = {
    "heads": ("z",),
    "edges": ("z", "z_made", "value", "pattern"),
    "neurons": ("post",),
    "mlps": ("post", "mlp_out"),
    "masking": ("z", "z_made", "value", "pattern"),
    "maps": ("residual",),
    "graph": ("z", "z_made", "value", "pattern", "mlp_out", "ff_in"),
}
"""By value of `of`: the tensors of a layer that are cached for it."""
_MIXING = ("pattern", "value", "taps", "offset")
"""Tensors of a layer by which it mixes tokens."""


class ForwardOptions(TypedDict, total=False):
    """Options of the forward pass of a prompt without padding and segments."""

    fwd_hooks: Hooks
    """Hooks for this forward pass, as in `run_with_hooks`: what they add is attributed separately."""
    rtol: float | None
    """Largest accepted relative error; None means 1e-4 for float32 models, 1e-6 for float64, more for half precision."""


class AttributeOptions(InputOptions, ForwardOptions, total=False):
    """Options of the forward pass."""


USUAL: tuple[Part, ...] = ("heads", "edges", "neurons")
"""Default of `of`."""


@overload
def attribute(
    model: Any,
    prompts: str | Ids,
    target: Target,
    *,
    rules: RuleName | Rules = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Attribution: ...
@overload
def attribute(
    model: Any,
    prompts: Texts,
    target: Target,
    *,
    rules: RuleName | Rules = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Results[Attribution]: ...
@overload
def attribute(
    model: Any,
    prompts: Tokens,
    target: Target,
    *,
    rules: RuleName | Rules = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Any: ...
@spelled_out(AttributeOptions, DEFAULTS)
def attribute(
    model: Any,
    prompts: str | Texts | Ids | Tokens,
    target: Target,
    *,
    rules: RuleName | Rules = "path",
    of: Sequence[Part] | Part = USUAL,
    checkpoint: bool | None = None,
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Attribution | Results[Attribution]:
    """Attribute a target, such as a logit, to tokens and biases through all layers, and to heads, edges and neurons.

    The result is an `Attribution`, whose numbers are signed and in the target's units. Costs one forward and one backward pass.
    Three rules say how modules are linearised:

    - `"path"`: attention patterns, norm scales and router weights are frozen. Activations are attributed by Integrated Gradients
      from zero, as in `contribution_maps` (Kobayashi et al. 2024, eq. 12-14). Attributions of tokens and biases sum to the target.
    - `"patching"`: as "path", but attention patterns are differentiated. Attributions need not sum to the target. Use it to
      predict the effect of a changed prompt.
    - `"gradient"`: gradient x input. Attributions need not sum to the target.

    Tokens, positions, token types and biases (with edits and the nonlinear part) sum to the target. Do not add attributions of
    heads or neurons to them: these are another decomposition of the same number. Attributions of different layers overlap,
    and so do those of heads and neurons.

    Completeness does not imply faithfulness: the sum does not say what the model predicts without a token.

    Args:
        model: TransformerBridge, HookedTransformer or HookedEncoder, in eval mode.
        prompts: A text, a list of texts, token ids, a tokenizer's output, or for an encoder a tuple of two sentences; for a
            vision-language model a processor's output for one prompt. Attributions of image tokens are those of the encoder's outputs.
        target: The number to attribute. It can be `ffb.logit(" Mary", minus=" John")`; a token as text or id, whose logit at the
            last position is read; any differentiable function of logits [batch pos d_vocab] to one number per prompt; or
            `ffb.direction(vector, layer=...)` in the residual stream. If it is not linear in the logits, `<logits, gradient>`
            is attributed, and the remainder is `Attribution.nonlinear`.
        rules: "path", "patching", "gradient", or `Rules` of your own.
        of: Tables to compute: "heads" [layer head pos], "edges" [layer head query key], "neurons" [pos d_mlp] of each layer,
            "mlps" [layer pos], "masking" [pos] (`Attribution.masking`), "maps" (`Attribution.maps`) and "graph"
            (`Attribution.graph`). Tokens, residual stream and biases are always there. "maps" needs `rules="path"`, one more
            forward pass, and one vjp per layer and scope.
        attention_mask: 1 at real tokens of a padded batch. Each sequence has the same result as without padding.
        token_type_ids: The segment of each token, for BERT.
        checkpoint: Whether layers keep only their inputs and run again in the backward pass. This needs one more forward pass
            and much less memory. The numbers are the same to the bit. None means above 1024 tokens, unless a hook of yours
            would see a tensor twice.
        max_memory: Bytes, or a text such as "4GB", that the call may allocate in addition to the model. Less memory means smaller
            batches and layers that run twice; numbers change by rounding at most. None means the free memory.
        progress: Whether a long call shows a progress bar in a terminal or notebook.
        fwd_hooks: Hooks for this forward pass, as in `run_with_hooks`.
        rtol: Largest relative error accepted in the certificate.

    Returns:
        One `Attribution` for a text or [pos] tokens; `Results`, a list of them, for a list of texts or a [batch, pos] tensor.

    Raises:
        InputError: for input, a target or options that cannot be used.
        UnsupportedModelError: for models that cannot be decomposed.
        IdentityError: if cached activations do not fulfil the equations of the model.
        CompletenessError: if a linearised module differs from the model's own, or if complete attributions do not sum to the target.
        OutOfMemoryError: if the call does not fit `max_memory`, before a forward pass.
    """
    chosen, parts = Rules.of(rules), read_parts(of, PARTS)
    if "maps" in parts and not chosen.complete:
        raise InputError(
            f'of="maps" with rules={chosen.name!r}: signed maps are complete only with rules="path". Use these rules.'
        )
    run = open_attribution_run(model, prompts, reads_media=True, **options)
    return attributed(Attribution, chosen, parts, run, target, checkpoint, progress, max_memory)


def attributed(
    kind: type[One],
    rules: Rules,
    parts: tuple[Part, ...],
    run: Run,
    target: Target,
    checkpoint: bool | None,
    progress: bool,
    max_memory: MaxMemory = None,
) -> One | Results[One]:
    """Results of `attribute` and `direct_logit_attribution` by their rules: see `attribute`."""
    run = replace(run, batches=tuple(batches_to_trace(run)))
    run, checkpoint = fitted(run, Asked("attribute", frozenset(parts), checkpoint=checkpoint), max_memory)
    metric = for_prompts(target, len(run.sequences))
    difference = difference_of_logits(run.model, rules)
    results: dict[int, One] = {}
    by_stream: dict[int, Tensor] = {}
    given_back = memory_given_back(run.model, run.batches)
    with Progress(run.model.name, len(run.batches), "batches", shown=progress) as bar, with_gradients(), given_back:
        for batch in run.batches:
            twice = layers_run_twice(run, batch, checkpoint)
            for number, (one, streams) in _of_batch(kind, rules, parts, run, batch, metric, difference, twice).items():
                results[number] = one
                if streams is not None:
                    by_stream[number] = streams
            bar.step()
    for number, maps in signed_maps(run, by_stream, run.settings.rtol).items() if "maps" in parts else ():
        named = {PREFIX + scope: cells for scope, cells in maps.items()}
        results[number] = replace(results[number], parts={**results[number].parts, **named})
    return results[0] if run.single else Results(results[number] for number in range(len(run.sequences)))


def _of_batch(
    kind: type[One],
    rules: Rules,
    parts: tuple[Part, ...],
    run: Run,
    batch: Batch,
    metric: Metric | Direction,
    difference: float,
    twice: bool,
) -> dict[int, tuple[One, Tensor | None]]:
    """By prompt number: the results of a batch, and derivatives by the residual stream for maps. Frees the batch's graph."""
    keeps = frozenset(name for part in parts for name in KEEPS[part])
    last = positions_read(metric, batch) if twice else None
    traced = trace(run, batch, rules, keeps, twice=twice, last=last, check=False)  # `cotangents` reads the logits
    begin = cotangents(run, traced, metric)
    back = traced.backward(begin.tensor, begin.gradient, read=begin.read)
    differs = max(difference, by_rows_differs(run.model)) if traced.by_rows else difference
    maps = "maps" in parts
    return {
        number: (shares.attribution(differs, kind), shares.by_stream() if maps else None)
        for number, shares in zip(batch.numbers, Shares.of_batch(run, traced, back, begin, parts), strict=True)
    }


def open_attribution_run(model: Any, prompts: str | Texts | Ids | Tokens, **options: Any) -> Run:
    """Checked model and prompts, ready for forward passes. Processed weights need no warning here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ProcessedWeightsWarning)
        return open_run(model, prompts, **options)


def read_parts(
    of: Sequence[Name] | Name,
    known: tuple[Name, ...],
    always: str = "tokens and biases",
    *,
    name: str = "of",
    singular: bool = False,
) -> tuple[Name, ...]:
    """Values of an argument such as `of`, each once.

    Args:
        of: One or several.
        known: Possible values.
        always: Results that need no `of`, named in the error; without any, one value or more is expected.
        name: Name of the argument.
        singular: Whether the call accepted names in the singular before; they work and warn.

    Raises:
        InputError: for an unknown value.
    """
    asked: list[Any] = [in_plural(part, name) if singular else part for part in several(of)]
    unknown = [part for part in asked if part not in known]
    if unknown or not (asked or always):
        there = f"; {always} are always computed" if always else ""
        meant = did_you_mean(unknown[0], known) if unknown else ""
        raise InputError(f"{name}={brief(of)}: expected some of {', '.join(map(repr, known))}{there}. {meant}".rstrip())
    return tuple(dict.fromkeys(asked))


@dataclass(frozen=True)
class Shares:
    """Attributions of one sequence, number `index` of its batch, from a backward pass.

    `of` are the requested tables. `whole` has attributions of the whole batch by table and layer, on the CPU.
    """

    run: Run
    traced: Traced
    back: Backward
    cotangents: Cotangents
    of: tuple[Part, ...]
    index: int = 0
    whole: dict[tuple[str, int], Tensor] = field(default_factory=dict)
    edge_errors: list[Float[Tensor, " two"]] = field(default_factory=list)
    """By layer: largest difference of the sum of edges from their head, and largest sum of absolute values."""

    @classmethod
    def of_batch(
        cls, run: Run, traced: Traced, back: Backward, begin: Cotangents, of: tuple[Part, ...]
    ) -> "list[Shares]":
        """One per sequence of a batch. Tensors are computed on the model's device and copied to the CPU together."""
        made: dict[tuple[str, int], Tensor] = dict(cls(run, traced, back, begin, of).of_layers())
        streams = {key: held for key, held in back.kept.items() if key[0] == "residual"}
        tables = [*back.gates.values(), *made.values(), *streams.values(), begin.first_order]
        there = iter(on_cpu([table.detach() for table in (*tables, *traced.cache.compared_tensors())]))
        gates = {place: next(there) for place in back.gates}
        whole, streams = ({key: next(there) for key in held} for held in (made, streams))
        begin = replace(begin, first_order=next(there))
        traced.cache.compared_on_cpu(there)
        back = replace(back, gates=gates, kept={**back.kept, **streams})
        return [cls(run, traced, back, begin, of, index, whole) for index in range(len(traced.batch.numbers))]

    def attribution(self, difference_of_logits: float, kind: type[One]) -> One:
        """The sequence's attribution, as an instance of its class.

        Raises:
            CompletenessError: if its errors are above the tolerance.
        """
        run, begin = self.run, self.cotangents
        sums = {kind: self._by_position(kind) for kind in ("token", "position", "token type")}
        streams = {place.layer: self._cut(gate) for place, gate in self.back.gates.items() if place.kind == "residual"}
        residual = torch.stack([streams[layer] for layer in range(run.model.n_layers + 1)])
        if self.traced.cache.unseen_positions:
            sums["position"] = residual[0] - sums["token"] - sums["token type"]
        replaced = self._cut(
            media_positions(run.model, self.traced.batch)
        ).bool()  # after the gate, by an encoder's outputs
        sums["token"] = torch.where(replaced, residual[0] - sums["position"] - sums["token type"], sums["token"])
        biases = {place: self._cut(gate) for place, gate in self.back.gates.items() if place.kind == "bias"}
        edits = {place: float(self.back.gates[place][self.index].sum()) for place in self.traced.cache.edited}
        sequence = run.sequences[self.traced.batch.numbers[self.index]]
        result = kind(
            labels=sequence.labels,
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
            prompt=prompt_of(run.model, sequence),
        )
        certificate = self._certificate(result, difference_of_logits)
        certificate.refuse(run.model.name, self.traced.rules.name, run.remedy)
        return replace(result, certificate=certificate)

    def by_stream(self) -> Float[Tensor, "boundary pos d_model"]:
        """Derivatives of the target by the residual stream, at layer inputs and at the end; needs "maps" in `of`."""
        layers = range(self.run.model.n_layers + 1)
        return torch.stack([self._cut(self.back.kept["residual", layer]) for layer in layers])

    def _certificate(self, result: Attribution, difference_of_logits: float) -> Certificate:
        gaps = self.traced.cache.gaps_of(self.index)
        worst = max(gaps, key=gaps.__getitem__, default="")
        return Certificate(
            logits=difference_of_logits,
            forms=gaps.get(worst, 0.0),
            worst_form=worst,
            layer_inputs=result.boundary_errors(self.cotangents.layer),
            edges=float(relative(*torch.stack(self.edge_errors).amax(dim=0))) if self.edge_errors else 0.0,
            attributed=result.total() / result.value if result.value else math.nan,
            complete=self.traced.rules.complete,
            rtol=self.run.settings.rtol,
            nonlinear=result.nonlinear / result.value if result.value else math.copysign(math.inf, result.nonlinear),
        )

    def _cut(self, tensor: Shaped[Tensor, "batch pos ..."]) -> Shaped[Tensor, "real ..."]:
        """The sequence without padding, in the result's arithmetic."""
        return self.traced.batch.own(self.index, tensor.detach()).to(self.run.settings.dtype).cpu()

    def _by_position(self, kind: Kind) -> Float[Tensor, " pos"]:
        """Sum of attributions to all gates of a kind [pos]; zero if there is no gate."""
        gates = [gate for place, gate in self.back.gates.items() if place.kind == kind]
        return self._cut(sum(gates, torch.zeros_like(next(iter(self.back.gates.values())))))

    def _parts(self) -> Iterator[tuple[str, Tensor]]:
        layers = range(self.run.model.n_layers)
        for layer in layers:
            if ("neurons", layer) in self.whole:
                yield f"neurons.{layer}", self._cut(self.whole["neurons", layer])
        if "mlps" in self.of:
            yield "mlps", torch.stack([self._cut(self.whole["mlps", layer]) for layer in layers])
        if ("heads", 0) in self.whole:
            yield "heads", stacked_heads([self._cut(self.whole["heads", layer]).T for layer in layers])
        if {"edges", "masking"} & set(self.of):
            yield from self._by_keys(layers).items()
        if "graph" in self.of:
            yield from self._flows(layers[: self.cotangents.layer])

    def of_layers(self) -> Iterator[tuple[tuple[str, int], Float[Tensor, "batch ..."]]]:
        """By table and layer: attributions of the whole batch, on the model's device."""
        kept, back, size = self.traced.cache.kept, self.back.kept, self.traced.cache.size
        for layer in range(self.run.model.n_layers):
            if "neurons" in self.of and ("post", layer) in kept:
                shares = kept["post", layer].detach() * back["post", layer]
                yield ("neurons", layer), shares.reshape(*size, -1)
            if "mlps" in self.of:
                yield ("mlps", layer), self._written_by_feed_forward(layer)
            if {"heads", "edges", "graph"} & set(self.of):
                yield ("heads", layer), (kept["z", layer].detach() * back["z", layer]).sum(dim=-1)
            if {"edges", "masking"} & set(self.of):
                yield from self._of_keys(layer)

    def _of_keys(self, layer: int) -> Iterator[tuple[tuple[str, int], Tensor]]:
        """One layer's edges of the whole batch, and each sequence's masking estimate, and errors of edges if these are not kept."""
        softmax = not self.run.model.layers[layer].is_recurrent
        edges, pattern, writes = self._token_edges(layer, writes="masking" in self.of and not softmax)
        if "edges" in self.of:
            yield ("edges", layer), edges
        for index in range(len(edges)) if "masking" in self.of else ():
            of_prompt = replace(self, index=index)
            own, weights = of_prompt.cells(edges), of_prompt.cells(pattern)
            lost = (
                lost_by_masking(weights, own, self.run.settings.rtol) if softmax else others_of(of_prompt.cells(writes))
            )
            yield (f"masking.{index}", layer), lost
            z, by_z = (held["z", layer].detach() for held in (self.traced.cache.kept, self.back.kept))
            if "edges" not in self.of:
                shares = self.traced.batch.own(index, (z * by_z).sum(dim=-1)).to(own)
                yield (f"edge errors.{index}", layer), edge_errors(own, shares.T)

    def cells(self, table: Float[Tensor, "batch head query key"]) -> Float[Tensor, "head query key"]:
        """Rows and columns of the sequence, without padding."""
        real, own = self.traced.batch.real(self.index), table[self.index]
        if real is None:
            return own
        real = real.to(own.device)
        return own[:, real][:, :, real]

    def _by_keys(self, layers: range) -> dict[str, Tensor]:
        """Edges [layer head query key] and masking [pos] of all layers, if `of` has them. Appends errors of edges.

        The last sequence frees the batch's edges layer by layer: their size is quadratic in the number of tokens.
        """
        found: dict[str, Tensor] = {}
        take = self.whole.pop if self.index + 1 == len(self.traced.batch.numbers) else self.whole.__getitem__
        for layer in layers:
            as_made = ("z_made", layer) not in self.traced.cache.kept  # no user hook at z
            if "edges" in self.of:
                edges = self.cells(take(("edges", layer)))
                shape = len(layers), self.run.model.n_heads, *edges.shape[1:]
                found.setdefault("edges", edges.new_zeros(shape))[layer, : len(edges)] = edges
                if as_made:
                    self.edge_errors.append(edge_errors(edges, self._cut(self.whole["heads", layer]).T))
            elif as_made:
                self.edge_errors.append(self.whole[f"edge errors.{self.index}", layer])
            if "masking" in self.of:
                found["masking"] = found.get("masking", 0) + self.whole[f"masking.{self.index}", layer]
        return found

    def _written_by_feed_forward(self, layer: int) -> Float[Tensor, "batch pos"]:
        """Attribution to all neurons of a layer, without the output bias; with biases for experts; 0 without feed-forward."""
        kept, dtype = self.traced.cache.kept, self.run.settings.dtype
        name = "post" if ("post", layer) in kept else "mlp_out"
        if (name, layer) not in kept:
            return torch.zeros_like(next(iter(self.back.gates.values())))
        held = (kept[name, layer].detach(), self.back.kept[name, layer])
        return torch.linalg.vecdot(*(tensor.reshape(*self.traced.cache.size, -1).to(dtype) for tensor in held))

    def _token_edges(self, layer: int, *, writes: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Edges `P_ij <v_j, df/dz_i>`, with z before any user hook, and the pattern; both are [batch head query key].

        With `writes`, the last tensor has values after the convolution of a mixer without a softmax, else it is that of edges.

        Summed over keys, edges give the attribution to z_i. The cached pattern is freed: its size is quadratic in the tokens.
        """
        kept, dtype = self.traced.cache.kept, self.run.settings.dtype
        gradient = self._by_weighted(layer).to(dtype)
        tensors = {name: held.detach().to(dtype) for name in _MIXING if (held := kept.get((name, layer))) is not None}
        value, pattern, taps = _of_heads(tensors["value"], gradient), tensors["pattern"], tensors.get("taps")
        edges = token_edges(pattern, gradient, value, taps)
        if "offset" in tensors:
            edges += token_edges(pattern, gradient, tensors["offset"], None)
        if "graph" not in self.of:
            del kept["pattern", layer]
        if not writes or taps is None:
            return edges, pattern, edges
        return edges, pattern, token_edges(pattern, gradient, convolved(value, taps, tensors.get("offset")), None)

    def _by_weighted(self, layer: int) -> Float[Tensor, "batch query head e"]:
        """Derivative by the weighted values before the gate, with z before any user hook."""
        by_z = self.back.kept.get(("z_made", layer), self.back.kept["z", layer])
        # z has no axis of heads before its HookPoint converts it.
        return self._gated(layer, by_z.reshape(*self.traced.cache.size, self.run.model.layers[layer].n_heads, -1))

    def _gated(self, layer: int, by_z: Float[Tensor, "batch query head e"]) -> Float[Tensor, "batch query head e"]:
        """Derivative by the weighted values before the gate of attention or a norm before W_O, from that by z."""
        kept, bound = self.traced.cache.kept, self.run.model.layers[layer]
        if bound.values_norm is not None:
            attention = bound.attention(self.run.settings.dtype)
            scale = attention.reciprocal_scale(kept["pattern", layer].detach(), kept["value", layer].detach())
            return by_z * (scale * attention.gain).to(by_z)
        gate = kept.get(("gate", layer))
        return by_z if gate is None else by_z * bound.gate(gate.detach()).to(by_z)

    def _flows(self, layers: range) -> Iterator[tuple[str, Tensor]]:
        """Tensors of an attribution graph of some layers, by name.

        Edges of tokens, constants of heads' values, inputs and outputs of feed-forwards, and named biases by component.
        """
        dtype, n_heads = self.run.settings.dtype, self.run.model.n_heads
        n = len(self.run.sequences[self.traced.batch.numbers[self.index]].tokens)
        edges = torch.zeros(len(layers), n_heads, n, n, dtype=dtype)
        biases = torch.zeros(len(layers), n_heads, n, dtype=dtype)
        inputs, outputs, shifts = torch.zeros(3, len(layers), n, dtype=dtype)
        for layer in layers:
            block = self.run.model.layers[layer].read(dtype)
            tensors, gradient = self._attention(layer)
            pattern, value = tensors["pattern"], tensors["value"]
            constant = block.value_constant.to(value)
            own = token_edges(pattern, gradient, value - constant, tensors.get("taps"))
            whole = token_edges(pattern, gradient, value, tensors.get("taps")).sum(dim=-1)
            if "offset" in tensors:
                whole += token_edges(pattern, gradient, tensors["offset"], None).sum(dim=-1)
            edges[layer, : len(own)], biases[layer, : len(own)] = own, whole - own.sum(dim=-1)
            if ("ff_in", layer) in self.back.kept:
                read, by_read = self._positions("ff_in", layer)
                shift = read.new_zeros(read.shape[-1]) if block.ff_norm is None else block.ff_norm.shift.to(read)
                shifts[layer] = by_read @ shift
                inputs[layer] = (read * by_read).sum(dim=-1) - shifts[layer]
                outputs[layer] = torch.linalg.vecdot(*self._positions("mlp_out", layer))
        flows = {"edges": edges, "head_biases": biases, "mlp_inputs": inputs, "mlps": outputs}
        flows |= self._named_biases(layers, shifts)
        yield from ((f"graph.{name}", shares) for name, shares in flows.items())

    def _named_biases(self, layers: range, shifts: Float[Tensor, "layer pos"]) -> dict[str, Float[Tensor, "layer pos"]]:
        """Attributions to named biases by the component that adds them, and to user edits of the residual stream.

        Args:
            layers: All layers before the target.
            shifts: Attribution to the shift of the norm before a feed-forward, through the feed-forward alone. A norm that
                attention also reads has one gate for both.
        """
        model = self.run.model
        serial = model.family.order not in ("parallel", "attn_only")
        own = {owner: torch.zeros_like(shifts) for owner in ("head", "mlp", "stream", *(["mid"] if serial else []))}
        for place, gate in self.back.gates.items():
            if place.layer not in layers:
                continue
            if place.kind == "bias":
                own[model.layers[place.layer].owner_of_bias(place.name)][place.layer] += self._cut(gate)
            elif place in self.traced.cache.edited and is_stream(place.name):
                own["stream"][place.layer] += self._cut(gate)
        for layer in layers if model.family.order == "parallel" else ():
            if model.layers[layer].norm_modules["ff_norm"] == model.layers[layer].norm_modules["attn_norm"]:
                own["head"][layer] -= shifts[layer]
                own["mlp"][layer] += shifts[layer]
        return {f"own.{owner}": shares for owner, shares in own.items()}

    def _attention(self, layer: int) -> tuple[dict[str, Tensor], Tensor]:
        """Tensors by which a layer mixes tokens, and the derivative by the weighted values [query head d_head]."""
        kept, gradient = self.traced.cache.kept, self._cut(self._by_weighted(layer))
        tensors = {
            name: self._cut(kept[name, layer]) for name in _MIXING if name != "pattern" and (name, layer) in kept
        }
        tensors["value"] = _of_heads(tensors["value"], gradient)
        pattern = kept["pattern", layer].detach()[self.index].to(gradient)
        real = self.traced.batch.real(self.index)
        return {**tensors, "pattern": pattern if real is None else pattern[:, real][:, :, real]}, gradient

    def _positions(self, name: str, layer: int) -> tuple[Float[Tensor, "pos d_model"], Float[Tensor, "pos d_model"]]:
        """A cached tensor of a layer and the derivative by it. Tensors of experts have no batch axis."""
        held = (self.traced.cache.kept[name, layer], self.back.kept[name, layer])
        first, second = (self._cut(tensor.reshape(*self.traced.cache.size, -1)) for tensor in held)
        return first, second


def _of_heads(value: Float[Tensor, "... key kv_head e"], like: Float[Tensor, "... query head e"]) -> Tensor:
    return value.repeat_interleave(like.shape[-2] // value.shape[-2], dim=-2)


def edge_errors(edges: Float[Tensor, "head query key"], shares: Float[Tensor, "head query"]) -> Float[Tensor, " two"]:
    """Two numbers: the largest difference of the sum of edges from their head, and the largest sum of absolute values."""
    miss = (edges.sum(dim=-1) - shares).abs().max()
    return torch.stack([miss, torch.linalg.vector_norm(edges, ord=1, dim=-1).max()])


def lost_by_masking(
    pattern: Float[Tensor, "head query key"], edges: Float[Tensor, "head query key"], rtol: float
) -> Float[Tensor, " key"]:
    """Estimated fall of a target through one layer's heads if no other token attends to a key: see `Attribution.masking`.

    Args:
        pattern: Attention pattern P.
        edges: `P_ij <g_i, v_j>`.
        rtol: Tolerance for rows of P that sum to 1. If the difference is larger, it is the weight of an attention sink.
    """
    sink = 1 - pattern.sum(dim=-1, keepdim=True)
    weights, kept = _without_each(pattern) + sink * (sink > rtol), _without_each(edges)
    # A head that attends only to this key loses its whole output.
    lost = edges.sum(dim=-1, keepdim=True) - torch.where(weights > 0, kept / weights, 0.0)
    return others_of(lost * (pattern > 0))


def others_of(edges: Float[Tensor, "head query key"]) -> Float[Tensor, " key"]:
    """Sum over heads and all queries but the key itself: the fall of a target without a key's writes, if other weights stay."""
    return (edges * (1 - torch.eye(len(edges[0]), dtype=edges.dtype, device=edges.device))).sum(dim=(0, 1))


def _without_each(values: Float[Tensor, "head query key"]) -> Float[Tensor, "head query key"]:
    """Sums over all other keys, added from both sides: subtraction from the whole sum would cancel small weights."""
    before = values.cumsum(dim=-1).roll(1, dims=-1)
    after = values.flip(-1).cumsum(dim=-1).flip(-1).roll(-1, dims=-1)
    before[..., 0] = after[..., -1] = 0.0
    return before + after
