"""`ffb.attribution_patching`: estimated effect on a target of replacing clean activations by corrupted ones, to first order.

The estimate for a tensor a is `<a_corrupted - a_clean, df/da>`. The derivative is that of the linearised clean forward pass
(Nanda 2023, with the model's gradient), or its mean over integration steps. One backward pass gives all estimates.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, SupportsIndex, TypeAlias, Unpack, get_args, overload

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution.attribute import AttributeOptions, open_attribution_run, read_parts
from tl_ffblock.attribution.average_shares import (
    BETWEEN,
    Averages,
    Places,
    at_positions,
    averages,
    neurons_at,
    numbered,
)
from tl_ffblock.attribution.certificate import refuse_forms, relative
from tl_ffblock.attribution.edge_attribution import KEEPS as OF_EDGES, Derivatives, EdgeSums
from tl_ffblock.attribution.signed_maps import estimated_cells
from tl_ffblock.attribution.targets import Direction, Target, bound_to_run, cotangents, values_of
from tl_ffblock.bridge.edited import refuse_normed_values
from tl_ffblock.bridge.inputs import Prompt, memory_given_back, prompts_of, refuse_unequal, warn_of_equal_pair
from tl_ffblock.bridge.linearised import RuleName, Rules, token_embedding_name
from tl_ffblock.bridge.memory import Asked, fitted
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.runs import DEFAULTS, Ids, MaxMemory, Run, Texts, Tokens
from tl_ffblock.bridge.traced import Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import CompletenessError, InputError, ScopeKeyError, brief
from tl_ffblock.graphs.edge_estimates import EdgeEstimates
from tl_ffblock.graphs.graph import GraphTarget
from tl_ffblock.layer.heads import stacked_heads
from tl_ffblock.layer.positions import NamedPositions, layer_number, whole_number
from tl_ffblock.metrics import Metric
from tl_ffblock.numerals import significant
from tl_ffblock.progress import Progress
from tl_ffblock.result import ByKind, Result, Results, long_form
from tl_ffblock.results.intervals import N_DRAWS, identity_of
from tl_ffblock.results.ranks import largest
from tl_ffblock.results.tables import ScopeTable, alike
from tl_ffblock.results.tokens import joined, shortened
from tl_ffblock.signatures import by_plural, spelled_out, strict

KEEPS = frozenset({"residual", "z", "mlp_out", "post"})
EstimateKind: TypeAlias = Literal["residual", "residual_mid", "attention", "mlp", "head", "q", "k", "v"]
"""Kinds of tensors of a layer, as the tables name them."""
EstimatesOf: TypeAlias = Literal["residual", "residual_mid", "attention", "mlps", "heads", "q", "k", "v"]
"""What is estimated: of all heads, all feed-forwards ..."""
USUAL: tuple[EstimatesOf, ...] = ("residual", "mlps", "heads")
"""What every call estimates, and neurons."""
_KEPT: dict[EstimateKind, str] = {
    "residual": "residual",
    "mlp": "mlp_out",
    "head": "z",
    "residual_mid": "attn_added",
    "attention": "attn_out",
    "q": "q",
    "k": "k",
    "v": "v",
}
"""By kind: the cached tensor whose derivative is used."""
_BY_HEAD = ("head", "q", "k", "v")
AskedEdges: TypeAlias = bool | Literal["positions"]
"""Whether edges are estimated, and whether by position."""
Receivers: TypeAlias = Literal["linear", "exact"]
"""Whether an edge's receiver is linearised, or evaluated with the sender's change added to its input."""


@strict
@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class PatchingEstimates(Result):
    """Estimated changes of a target, in its units, if one activation of the clean prompt is replaced by the corrupted one."""

    labels: tuple[str, ...]
    """The tokens, "clean→corrupted" where they differ."""
    target: str
    """The target in words: "logit difference ' Mary' - ' John'"."""
    quantity: str
    """Kind of the target: "logit difference"."""
    rules: str
    clean: float
    """Target of the clean prompt."""
    corrupted: float
    """Target of the corrupted prompt."""
    residual: Float[Tensor, "boundary pos"]
    """The residual stream at each layer's input and at the end."""
    heads: Float[Tensor, "layer head pos"]
    """Each head's output before its output matrix."""
    mlps: Float[Tensor, "layer pos"]
    """Output of each feed-forward; 0 in attention-only models."""
    neuron_shares: Mapping[int, Float[Tensor, "pos d_mlp"]]
    """By layer: estimates of neurons; a mixture of experts has none."""
    model: str = "model"
    fingerprint: str = ""
    """Fingerprint of the model's weights; empty if it is not known."""
    cells: Mapping[str, Float[Tensor, "layer query key"]] = dataclasses.field(default_factory=dict)
    """By scope: estimates of the cells of layer maps, with `maps=True`."""
    edge_estimates: EdgeEstimates | None = None
    """Estimates of edges, with `edges=`."""
    steps: int = 0
    """Number of integration steps; 0 if it is not known."""
    further: Mapping[str, Float[Tensor, "layer *head pos"]] = dataclasses.field(default_factory=dict)
    """By kind, if `of=` asked for it: "residual_mid" and "attention" [layer pos], "q" [layer head pos], "k" and "v" of each
    key-value head."""
    clean_labels: tuple[str, ...] = ()
    """The tokens of the clean prompt alone; empty in older files."""

    @property
    def values(self) -> ByKind[Float[Tensor, "layer *head pos"]]:
        """All but neurons by kind: `values["heads"]` is `heads`; the residual stream has a layer more, the end."""
        return ByKind({"residual": self.residual, "mlp": self.mlps, "head": self.heads, **self.further})

    def __getitem__(self, kind: str) -> Float[Tensor, "layer *head pos"]:
        """One kind: `estimates["q"]`, `estimates["heads"]`.

        Raises:
            ScopeKeyError: if `of=` did not ask for it.
        """
        values = self.values
        if kind in _KEPT and kind not in values:
            raise ScopeKeyError(f"no {kind!r} here: pass of={kind!r}. There are {', '.join(values)}.")
        return values[kind]

    @property
    def identity(self) -> Mapping[str, str]:
        """What estimates must have in common to be averaged: quantity, model and weights, rules."""
        made = {"fingerprint": self.fingerprint, "rules": self.rules}
        return identity_of(self.quantity, self.model, made) | {"steps": str(self.steps or "")}

    @property
    def neuron_layers(self) -> tuple[int, ...]:
        """Layers with estimates of neurons; a mixture of experts has none."""
        return tuple(sorted(self.neuron_shares))

    @property
    def edges(self) -> EdgeEstimates:
        """Estimates of edges from senders to receivers: `edges["L3H5", "L7.mlp"]`.

        Raises:
            ScopeKeyError: without `edges=`.
        """
        if self.edge_estimates is None:
            raise ScopeKeyError("these estimates have no edges: pass edges=True.")
        return self.edge_estimates

    @property
    def maps(self) -> ScopeTable:
        """Estimates of the contributions of layer maps: `maps["AtbLnFf", 9]` is `Float[query key]`.

        Raises:
            ScopeKeyError: without `maps=True`.
        """
        if not self.cells:
            raise ScopeKeyError("these estimates have no maps: pass maps=True.")
        return ScopeTable(self.cells, tuple(range(len(self.heads))))

    def neurons(self, layer: int) -> Float[Tensor, "pos d_mlp"]:
        """Estimates of each neuron's output.

        Raises:
            LayerError: if there is no such layer.
            InputError: if it is a mixture of experts, or has no feed-forward.
        """
        number = layer_number(layer, len(self.heads))
        if number not in self.neuron_shares:
            raise InputError(
                f"layer {number} has no neurons: it is a mixture of experts or attention-only. Use another layer."
            )
        return self.neuron_shares[number]

    def by_component(self, of: str, at: Sequence[int] | None) -> tuple[Places, Float[Tensor, "*place"]]:
        """Axes and estimates of one kind, summed over positions or at some, for `ffb.average_shares`.

        Raises:
            InputError: if estimates have no such kind, or edges have no positions.
            ScopeKeyError: if `of=` did not ask for it.
        """
        if of == "biases":
            raise InputError("of='biases': estimates of patching have no biases. Use results of ffb.attribute.")
        if of == "neurons":
            return neurons_at(self, at)
        if of == "edges":
            names = [node.name for node in self.edges.nodes]
            ends = tuple(BETWEEN.join(names[end] for end in edge) for edge in self.edges.ends.tolist())
            if at is None:
                return {"edge": ends}, self.edges.weights[:, 0]
            if self.edges.at_positions is None:
                raise InputError(
                    "of='edges' at named positions: these edges are summed over positions. Use edges='positions'."
                )
            return {"edge": ends}, at_positions(self.edges.at_positions, at)
        values = self[of]
        return numbered(values, "layer", "head"), at_positions(values, at)

    @staticmethod
    def mean(
        results: Sequence["PatchingEstimates"],
        positions: NamedPositions | None = None,
        *,
        n_draws: int = N_DRAWS,
        seed: int = 0,
    ) -> Averages:
        """Means over pairs of all kinds except neurons and edges, with 95 % intervals. For these use `ffb.average_shares`.

        Args:
            results: One per pair.
            positions: Names of positions, as in `ffb.average_shares`; None sums over positions.
            n_draws: Number of bootstrap samples.
            seed: Seed of the bootstrap.

        Raises:
            InputError: if there is no result, if results differ in target, rules or model, or if a position does not exist.
            ScopeKeyError: if a result does not have a kind of the first one.
        """
        several = alike(results, PatchingEstimates, "ffb.attribution_patching")
        return averages(several, tuple(several[0].values), positions, n_draws, seed)

    def to_dataframe(self) -> pd.DataFrame:
        """One row per component and position: kind ("residual", "head", "q"), layer, head, position, token, value.

        Head is -1 where a kind has no heads.
        """
        frames = []
        for kind, values in self.values.items():
            table = values if values.ndim == 3 else values[:, None]
            heads = range(table.shape[1]) if values.ndim == 3 else (-1,)
            axes = {"layer": range(len(table)), "head": heads, "position": range(len(self.labels))}
            frames.append(long_form(table, axes, self.labels))
            frames[-1].insert(0, "kind", kind)
        return pd.concat(frames, ignore_index=True)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        change, told = self.corrupted - self.clean, float(self.residual[0].sum())
        far = abs(told - change) > abs(change) / 2
        hint = "; too coarse for early layers: use more steps" if far else ""
        lines = {
            "text": shortened(self.labels),
            "embeddings": f"{significant(told)} of {significant(change)}{hint}",
        }
        for kind, values in {"head": self.heads, "mlp": self.mlps, **self.further}.items():
            table = values if values.ndim == 3 else values[:, None]
            layer, head, position = np.unravel_index(int(largest(table, 1)), tuple(table.shape))
            of_head = f"L{layer}{'H' if table.shape[1] == self.heads.shape[1] else 'KV'}{head}"
            by_head = of_head if kind == "head" else f"{of_head}.{kind}"
            name = by_head if values.ndim == 3 else {"mlp": "feed-forward"}.get(kind, kind) + f" of layer {layer}"
            value = significant(float(table[layer, head, position]))
            lines[f"largest {kind}"] = f"{name} at {position} {self.labels[position]!r}: {value}"
        ends = f"{significant(self.clean, 4, '-')} → {significant(self.corrupted, 4, '-')}"
        return f"{self.target} {ends} of {self.model}, rules={self.rules!r}", lines


@overload
def attribution_patching(
    model: Any,
    clean: str | Ids,
    corrupted: str | Ids,
    target: Target,
    *,
    rules: RuleName | Rules = "patching",
    steps: SupportsIndex = 1,
    of: Sequence[EstimatesOf] | EstimatesOf = USUAL,
    maps: bool = False,
    edges: AskedEdges = False,
    receivers: Receivers = "linear",
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> PatchingEstimates: ...
@overload
def attribution_patching(
    model: Any,
    clean: Texts,
    corrupted: Texts,
    target: Target,
    *,
    rules: RuleName | Rules = "patching",
    steps: SupportsIndex = 1,
    of: Sequence[EstimatesOf] | EstimatesOf = USUAL,
    maps: bool = False,
    edges: AskedEdges = False,
    receivers: Receivers = "linear",
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Results[PatchingEstimates]: ...
@overload
def attribution_patching(
    model: Any,
    clean: Tokens,
    corrupted: Tokens,
    target: Target,
    *,
    rules: RuleName | Rules = "patching",
    steps: SupportsIndex = 1,
    of: Sequence[EstimatesOf] | EstimatesOf = USUAL,
    maps: bool = False,
    edges: AskedEdges = False,
    receivers: Receivers = "linear",
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> Any: ...
@spelled_out(AttributeOptions, DEFAULTS)
def attribution_patching(
    model: Any,
    clean: str | Texts | Ids | Tokens,
    corrupted: str | Texts | Ids | Tokens,
    target: Target,
    *,
    rules: RuleName | Rules = "patching",
    steps: SupportsIndex = 1,
    of: Sequence[EstimatesOf] | EstimatesOf = USUAL,
    maps: bool = False,
    edges: AskedEdges = False,
    receivers: Receivers = "linear",
    max_memory: MaxMemory = None,
    progress: bool = True,
    **options: Unpack[AttributeOptions],
) -> PatchingEstimates | Results[PatchingEstimates]:
    """Attribution patching: estimated change of a target if a component's activation is replaced by that of another prompt.

    Components are heads, feed-forwards, neurons and the residual stream. `rules="gradient"` is attribution patching as in Nanda
    2023. `rules="patching"` freezes norm scales and uses Integrated Gradients for activations, which gives better estimates of
    feed-forwards and of the residual stream. In early layers the error can still be a tenth of the measured value. Compare the
    sum of the embeddings' estimates with the whole change (`print` shows both).

    With `steps` above 1 the derivative is the mean over Gauss-Legendre nodes between the token embeddings of both prompts
    (integration steps, EAP-IG). This is more accurate; each step costs one forward and one backward pass. An estimate is not a
    measurement: measure important components with `ffb.activation_patching`.

    Args:
        model: As in `ffb.attribute`.
        clean: A text or token ids, or a list of texts or a [batch, pos] tensor: the clean prompt of each pair.
        corrupted: The corrupted prompt of each pair, of equally many tokens.
        target: As in `ffb.attribute`. `ffb.kl_divergence()` compares with the clean prompt.
        rules: "patching", "path" or "gradient".
        steps: Forward passes whose derivatives are averaged; 1 is the clean one alone.
        of: Kinds beside "residual", "mlps", "heads" and neurons, at the HookPoints of these names: "q" and, of each key-value head,
            "k" and "v" (`attn.hook_q` ..., before any rotation or norm of their own); "attention", the output of attention
            (before a norm of its branch); "residual_mid", the residual stream between attention and feed-forward, before any norm.
        maps: Whether every contribution of the layer maps is estimated, too (not with rules="gradient"); two more forward
            passes, and two vjps through each layer per scope.
        edges: Whether edges are estimated, too, from every sender (embeddings, heads, feed-forwards) to every later receiver
            (query, key and value inputs of heads, feed-forwards, the target): edge attribution patching, with steps EAP-IG.
            Summed over positions, or with "positions" one number per position.
        receivers: How the receiver of an edge responds to the sender's change: "linear" is its derivative by the rules; "exact"
            evaluates the receiver itself, softmax, norm and activation included, and takes the rules for what follows it: right
            where attention is saturated, for five more runs per sender. Edges into the target are measured then.
        attention_mask: As in `ffb.attribute`; all ones.
        token_type_ids: As in `ffb.attribute`.
        max_memory: Bytes, or a text such as "4GB", that the call may allocate in addition to the model. A call that needs more is
            refused before anything runs. None means the free memory.
        progress: Whether a long call shows a progress bar in a terminal or notebook.
        fwd_hooks: As in `ffb.attribute`, in both forward passes.
        rtol: As in `ffb.attribute`.

    Returns:
        One `PatchingEstimates` for two prompts; `Results`, a list of them, for lists, one per pair.

    Raises:
        InputError: for input that cannot be used, such as pairs of different lengths.
        CompletenessError: if estimates of heads do not sum to that of attention, if both are computed.
        OutOfMemoryError: if a pair does not fit `max_memory`.
        FFBlockError: all other errors of `ffb.attribute`.
    """
    chosen = Rules.of(rules)
    if maps and not (chosen.norms and chosen.feed_forward):
        raise InputError(
            f'maps=True with rules={chosen.name!r}: layer maps have Integrated Gradients. Use rules="patching" or "path".'
        )
    kinds, n_steps = _read_kinds(of, chosen), whole_number(steps, "steps", at_least=1)
    if receivers == "exact":
        _refuse_not_exact(edges, n_steps, options)
    estimates = partial(_estimates, chosen, n_steps, kinds, maps, edges, receivers)
    known = identify(model)
    single, pairs = pairs_of(known, clean, corrupted)
    opened = [_opened(known, pair, options, None if single else number) for number, pair in enumerate(pairs)]
    for number, (runs, pair) in enumerate(zip(opened, pairs, strict=True)):
        _refuse_other_inputs(runs, pair, "" if single else f"[{number}]")
    _refuse_large(opened, maps, edges, receivers, max_memory)
    results = Results[PatchingEstimates]()
    with Progress("attribution patching", len(pairs), "pairs", shown=progress and not single) as bar:
        for number, runs in enumerate(opened):
            results.append(estimates(runs, target, number, len(pairs)))
            bar.step()
    return results[0] if single else results


def _opened(model: Model, pair: Sequence[Any], options: Mapping[str, Any], number: int | None) -> list[Run]:
    """Opened inputs of a pair; `number` is the row of options such as token_type_ids [pair pos]."""
    of_pair = {
        name: value[number] if number is not None and isinstance(value, Tensor) and value.ndim == 2 else value
        for name, value in options.items()
    }
    return [open_attribution_run(model, prompt, **of_pair) for prompt in pair]


def _refuse_large(
    opened: Sequence[Sequence[Run]], maps: bool, edges: AskedEdges, receivers: Receivers, max_memory: MaxMemory
) -> None:
    """Refuse pairs that need more memory than allowed, with the results of all pairs."""
    other = {"maps": maps, "positions": edges == "positions", "exact": receivers == "exact"}
    parts = frozenset(name for name, given in (other | {"edges": bool(edges)}).items() if given)
    clean = [runs[0] for runs in opened]
    whole = dataclasses.replace(
        clean[0],
        batches=tuple(
            dataclasses.replace(batch, numbers=(number,)) for number, run in enumerate(clean) for batch in run.batches
        ),
        sequences=tuple(run.sequences[0] for run in clean),
    )
    fitted(whole, Asked("attribution_patching", parts), max_memory)


def _refuse_not_exact(edges: AskedEdges, steps: int, options: Mapping[str, Any]) -> None:
    """Refuse options that exact receivers cannot use: they are evaluated without hooks in the clean forward pass."""
    if edges is not True:
        raise InputError(f"receivers='exact' with edges={edges!r}: expected edges=True, which sums over positions.")
    if steps > 1:
        raise InputError(
            f"receivers='exact' with steps={steps}: receivers are evaluated for the clean prompt. Use steps=1."
        )
    if options.get("fwd_hooks"):
        raise InputError(
            "receivers='exact' with fwd_hooks: receivers are evaluated without your hooks. Omit fwd_hooks."
        )


def _read_kinds(of: Sequence[EstimatesOf] | EstimatesOf, rules: Rules) -> tuple[EstimateKind, ...]:
    """Kinds to estimate.

    Raises:
        InputError: for an unknown kind, or one that the rules freeze.
    """
    asked = read_parts(of, get_args(EstimatesOf), "residual, mlps, heads and neurons", singular=True)
    kind_of = by_plural(_KEPT)
    kinds = tuple(dict.fromkeys(kind_of[name] for name in (*USUAL, *asked)))
    frozen = [kind for kind in kinds if kind in ("q", "k") and rules.attention]
    if frozen:
        raise InputError(
            f"of={brief(frozen)} with rules={rules.name!r}: attention patterns are frozen, so the target does not depend on queries "
            'and keys. Use rules="patching" or "gradient".'
        )
    return kinds


def _estimates(
    rules: Rules,
    steps: int,
    kinds: tuple[EstimateKind, ...],
    maps: bool,
    edges: AskedEdges,
    receivers: Receivers,
    runs: list[Run],
    target: Target,
    number: int = 0,
    of: int = 1,
) -> PatchingEstimates:
    """Estimates of one pair, the clean prompt first; the target has answers for `of` pairs, and this is number `number`."""
    _refuse_missing(runs[0].model, kinds)
    difference_of_logits(runs[0].model, rules)
    with with_gradients(), memory_given_back(runs[0].model, runs[0].batches):
        keeps = KEEPS | {_KEPT[kind] for kind in kinds} | (OF_EDGES if edges else frozenset())
        traced = [_traced(run, rules, keeps) for run in runs]
        metric = bound_to_run(runs[0], traced[0], target, number, of)
        ends = [values_of(run, of_run, metric) for run, of_run in zip(runs, traced, strict=True)]
        sums = EdgeSums(runs[0], *traced, by_position=edges == "positions") if edges else None
        derivatives = _mean_derivatives(runs[0], traced, metric, steps, sums, receivers)
        products = _products(runs[0], traced, derivatives, kinds)
    labels = tuple(joined(pair, "→") for pair in zip(*(run.sequences[0].labels for run in runs), strict=True))
    by_stream = {layer: by[0].detach() for (name, layer), by in derivatives.items() if name == "residual"}
    attributed = GraphTarget(ends[0][1][0], float(ends[0][0][0]), quantity=_quantity(runs[0].model, metric))
    return PatchingEstimates(
        labels=labels,
        target=attributed.name,
        quantity=attributed.quantity,
        rules=rules.name,
        clean=attributed.value,
        corrupted=float(ends[1][0][0]),
        **_summed(runs[0], products, kinds),
        model=runs[0].model.name,
        fingerprint=runs[0].model.fingerprint,
        steps=steps,
        edge_estimates=None if sums is None else sums.labelled(labels, attributed),
        clean_labels=runs[0].sequences[0].labels,
        cells=estimated_cells(runs[0], runs[1], by_stream) if maps else {},
    )


def _quantity(model: Model, metric: Metric | Direction) -> str:
    """Kind of a target: "logit difference"."""
    return metric.place_in(model)[1] if isinstance(metric, Direction) else metric.name


def pairs_of(
    model: Model, clean: Any, corrupted: Any, name: str = "clean"
) -> tuple[bool, list[tuple[Prompt, Prompt | None]]]:
    """Whether there is a single pair, and the clean and the corrupted prompt of each pair; None for each without `corrupted`.

    Args:
        model: The model.
        clean: One clean prompt or several.
        corrupted: The corrupted prompts, or None.
        name: The caller's argument of the clean prompts, for errors.

    Raises:
        InputError: if one is a prompt and the other a list, if lists have different lengths, or for input that cannot be read.
    """
    single, firsts = prompts_of(model, clean, name)
    if corrupted is None:
        return single, [(prompt, None) for prompt in firsts]
    other_single, seconds = prompts_of(model, corrupted, "corrupted")
    if single != other_single or len(firsts) != len(seconds):
        first, second = (
            "one prompt" if alone else f"a list of {len(of)}"
            for of, alone in ((firsts, single), (seconds, other_single))
        )
        raise InputError(
            f"{name} is {first}, corrupted is {second}: expected two prompts, or two lists of equally many prompts, the corrupted "
            "ones in the order of the clean ones."
        )
    return single, list(zip(firsts, seconds, strict=True))


def _refuse_other_inputs(runs: list[Run], given: Sequence[Any], which: str) -> None:
    """Refuse a pair with padding, or with different numbers of tokens; warn of an equal one."""
    for name, run in zip(("clean", "corrupted"), runs, strict=True):
        if run.batches[0].mask is not None:
            raise InputError(f"attention_mask hides tokens of {name}{which}: expected a prompt without padding.")
    clean, corrupted = (run.sequences[0].tokens for run in runs)
    refuse_unequal(runs[0].model, (clean, corrupted), given, which)
    warn_of_equal_pair(clean, corrupted, which)


def _traced(run: Run, rules: Rules, keeps: frozenset[str]) -> Traced:
    """Forward pass of one prompt with linearised modules, whose outputs are checked."""
    traced = trace(run, run.batches[0], rules, keeps)
    refuse_forms(traced.cache.gaps_of(0), run.settings.rtol, run.model.name, rules.name)
    return traced


def _mean_derivatives(
    run: Run, traced: list[Traced], target: Metric | Direction, steps: int, sums: EdgeSums | None, receivers: Receivers
) -> dict[tuple[str, int], Float[Tensor, "..."]]:
    """Derivatives of the target by every cached tensor, averaged over integration steps from the clean to the corrupted prompt."""
    total: dict[tuple[str, int], Tensor] = {}
    for of_step, weight in _integration_steps(run, traced, steps):
        begin = cotangents(run, of_step, target)
        derivatives = of_step.backward(begin.tensor, begin.gradient).kept
        if sums is not None:
            sums.add(of_step, derivatives, begin.layer, weight)
        for key, derivative in derivatives.items():
            total[key] = total.get(key, torch.zeros_like(derivative)) + weight * derivative
    if sums is not None and receivers == "exact":
        sums.make_exact(total, target)
    return total


def _integration_steps(run: Run, traced: list[Traced], steps: int) -> Iterator[tuple[Traced, float]]:
    """Forward passes at the integration steps, with weights (EAP-IG, Hanna et al. 2024); one step is the clean prompt."""
    if steps == 1:
        yield traced[0], 1.0
        return
    clean, corrupted = (of_run.cache.embedded for of_run in traced)
    assert clean is not None and corrupted is not None, "every forward pass embeds its tokens"
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        between = torch.lerp(clean, corrupted, float(node))
        hook = (token_embedding_name(run.model), lambda tensor, hook, between=between: tensor * 0 + between)
        there = dataclasses.replace(run, fwd_hooks=(*run.fwd_hooks, hook))
        yield _traced(there, traced[0].rules, traced[0].cache.keeps), float(weight)


def _refuse_missing(model: Model, kinds: tuple[EstimateKind, ...]) -> None:
    """Refuse "residual_mid" of parallel and attention-only layers, which have no such point."""
    refuse_normed_values(model, *kinds)
    if "residual_mid" in kinds and model.layers[0].adds_attention is None:
        raise InputError(
            f"of='residual_mid': {model.name} ({model.family.name}) has {model.family.order} layers, without a residual stream between "
            "attention and feed-forward. Omit it."
        )


def _products(
    run: Run, traced: list[Traced], derivatives: Derivatives, kinds: tuple[EstimateKind, ...]
) -> dict[tuple[str, int], Tensor]:
    """Products of changes and derivatives of cached tensors.

    Raises:
        CompletenessError: if heads do not sum to attention, if both are estimated and no hook edits.
    """
    change = {key: traced[1].cache.kept[key].detach() - traced[0].cache.kept[key].detach() for key in derivatives}
    for layer in range(run.model.n_layers if "residual_mid" in kinds else 0):
        # residual_mid = residual + m attention output, which has no other reader: its derivative is 1 / m of attention's.
        factor = run.model.layers[layer].multipliers.get("attn", 1.0)
        change["attn_added", layer] = change["attn_added", layer] + change["residual", layer] / factor
    products = {key: change[key] * derivatives[key] for key in derivatives}
    if "attention" in kinds and not traced[0].cache.edited | traced[1].cache.edited:
        _refuse_other_sums(run, products)
    return products


def _refuse_other_sums(run: Run, products: Mapping[tuple[str, int], Tensor]) -> None:
    """Refuse estimates of heads that do not sum to that of attention, at every position; attention is linear in its heads."""
    for layer in range(run.model.n_layers):
        heads, attention = (
            products[name, layer].to(run.settings.dtype).flatten(start_dim=2) for name in ("z", "attn_out")
        )
        sizes = heads.abs().sum(dim=-1) + attention.abs().sum(dim=-1)
        error = float(relative((heads.sum(dim=-1) - attention.sum(dim=-1)).abs(), sizes).max())
        if not error <= run.settings.rtol:
            raise CompletenessError(
                f"{run.model.name}: in layer {layer} the estimates of heads differ from that of attention by {error:.1e} of the sum "
                f"of absolute values (tolerance {run.settings.rtol:.0e}). {run.remedy}"
            )


def _summed(run: Run, products: Mapping[tuple[str, int], Tensor], kinds: tuple[EstimateKind, ...]) -> dict[str, Any]:
    """Estimates of components at positions: products summed over the model's width."""
    n_layers, wide, n_positions = run.model.n_layers, run.settings.dtype, len(run.sequences[0].tokens)

    def rows(name: str, layer: int) -> Float[Tensor, "pos d"]:
        product = products.get((name, layer), torch.zeros(n_positions, 1))
        return product.to(wide).reshape(n_positions, -1)

    def of_kind(kind: EstimateKind, layer: int) -> Float[Tensor, "*head pos"]:
        name = _KEPT[kind]
        if kind in _BY_HEAD:
            return products[name, layer][0].to(wide).sum(dim=-1).T.cpu()
        return rows(name, layer).sum(dim=-1).cpu()

    by_kind = {
        kind: (stacked_heads if kind in _BY_HEAD else torch.stack)(
            [of_kind(kind, layer) for layer in range(n_layers + (kind == "residual"))]
        )
        for kind in kinds
    }
    with_neurons = [layer for layer in range(n_layers) if ("post", layer) in products]
    return {
        "residual": by_kind.pop("residual"),
        "heads": by_kind.pop("head"),
        "mlps": by_kind.pop("mlp"),
        "neuron_shares": {layer: rows("post", layer).cpu() for layer in with_neurons},
        "further": by_kind,
    }
