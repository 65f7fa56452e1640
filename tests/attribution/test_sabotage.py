"""Every certificate and every refusal has been seen to refuse: one function is one per cent wrong, and no result comes out.

A row of `FAULTS` says which function is broken, what of its result, what is made with it, and which quantity the error
must name. A certificate that is switched off, or measures something else, fails here and nowhere else: in a run that is
right all errors are rounding, and a certificate of zeros would pass.
"""

import dataclasses
import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import bridge_of

BROKEN = 1.01
N = 6
Spoil = Callable[[Any], Any]


def every(result: Any) -> Any:
    """One per cent too much in every tensor and number of a result."""
    if isinstance(result, Tensor | float):
        return result * BROKEN
    if isinstance(result, dict):
        return {name: every(value) for name, value in result.items()}
    if isinstance(result, tuple | list):
        return type(result)(every(value) for value in result)
    if dataclasses.is_dataclass(result):
        return only(*(field.name for field in dataclasses.fields(result)))(result)
    return result


def only(*names: str) -> Spoil:
    """In some fields of a dataclass, where they are tensors."""

    def spoil(result: Any) -> Any:
        tensors = {name: getattr(result, name) for name in names}
        changed = {name: every(value) for name, value in tensors.items() if isinstance(value, Tensor)}
        return dataclasses.replace(result, **changed)

    return spoil


def last_query(parts: Any) -> Any:
    """In the parts of the last query alone."""
    tokens = parts.tokens.clone()
    tokens[-1] *= BROKEN
    return dataclasses.replace(parts, tokens=tokens)


def swapped(halves: dict[str, Tensor]) -> dict[str, Tensor]:
    """Two tensors under each other's name."""
    return dict(zip(halves, reversed(halves.values()), strict=True))


def one_row(rows: Tensor) -> Tensor:
    """In one of the rows of a table."""
    rows = rows.clone()
    rows[3] *= BROKEN
    return rows


def at(place: int) -> Spoil:
    """In one member of a tuple."""
    return lambda result: tuple(every(value) if number == place else value for number, value in enumerate(result))


def more(amount: float) -> Spoil:
    """A number that is larger."""
    return lambda result: result + amount


def of_vectors(decomposition: Any) -> Any:
    """In all vectors of a `Decomposition`."""
    return dataclasses.replace(decomposition, sums=every(decomposition.sums))


def of_weights(name: str) -> Spoil:
    """In one weight of every feed-forward."""
    return lambda weights: tuple(only(name)(ff) for ff in weights)


def next_expert(record: Any) -> Any:
    """A router that sends every query to the expert after the one it chose."""
    return dataclasses.replace(record, routing=record.routing.roll(1, dims=1))


def twice(part: str) -> Spoil:
    """One of the parts, by name, counted twice in its first layer."""

    def spoil(parts: Any) -> Any:
        for name, shares in parts:
            if name == part:
                shares[0] *= 2
            yield name, shares

    return spoil


def of_tensor(name: str) -> Spoil:
    """In the derivatives by one tensor of the layers."""
    return lambda derivatives: {key: every(value) if key[0] == name else value for key, value in derivatives.items()}


@dataclass(frozen=True)
class Fault:
    """One function that is wrong."""

    broken: str
    """Its path in the package, in the module where it is used."""
    spoil: Spoil
    """What it gives instead."""
    made: str
    """What is made with it, a name of `MADE`."""
    says: str
    """What the error must name."""
    family: str = "gpt2"
    error: str = "CompletenessError"

    def __str__(self) -> str:
        return f"{self.made}-{self.broken}-{self.family}-{self.says}".replace(" ", "_")


MADE: dict[str, Callable[[Any, Tensor], Any]] = {
    "maps": ffb.contribution_maps,
    "maps by head": lambda m, ids: ffb.contribution_maps(m, ids, heads=True),
    "maps by captum": lambda m, ids: ffb.contribution_maps(m, ids, method="captum"),
    "vectors": lambda m, ids: ffb.decompose(m, ids, layer=0),
    "vectors by head": lambda m, ids: ffb.decompose(m, ids, layer=0, heads=[1, 3]),
    "maps by expert": lambda m, ids: ffb.contribution_maps(m, ids, experts=True),
    "vectors by expert": lambda m, ids: ffb.decompose(m, ids, layer=0, experts=True),
    "neurons": lambda m, ids: ffb.neurons(m, ids, layer=0, query=-1),
    "ALTI": ffb.aggregation.alti,
    "GlobEnc": ffb.aggregation.globenc,
    "rollout": lambda m, ids: ffb.aggregation.rollout(ffb.attention_maps(m, ids)),
    "coefficients": lambda m, ids: ffb.memories.token_parts(m, ids, ["0:3", "1:5"]),
    "scores": ffb.attention_scores,
    "shares": lambda m, ids: ffb.attribute(m, ids, ffb.logit(7)),
    "direct contributions": lambda m, ids: ffb.direct_logit_attribution(m, ids, ffb.logit(7)),
    "lens": lambda m, ids: ffb.logit_lens(m, ids, k=2),
    "edges": lambda m, ids: ffb.attribute(m, ids, ffb.logit(7), of=("edges", "heads")),
    "signed maps": lambda m, ids: ffb.attribute(m, ids, ffb.logit(7), of=("maps",)),
    "graph": lambda m, ids: ffb.attribute(m, ids, ffb.logit(7), of=("graph",)).graph(),
    "continuation": lambda m, ids: ffb.attribute_continuation(m, ids.tolist(), generate=2),
    "flow": lambda m, ids: ffb.flow_graph(m, ids, target=7),
    "estimated edges": lambda m, ids: ffb.attribution_patching(m, ids, ids.flip(0), ffb.logit(7), edges=True),
    "estimates": lambda m, ids: ffb.attribution_patching(m, ids, ids.flip(0), ffb.logit(7), of="attention"),
    "read-out": lambda m, ids: ffb.memories.value_tokens(m, memories=["0:3"]),
    "masking": lambda m, ids: ffb.faithfulness(m, ids, ffb.logit(7), {"mine": torch.rand(N)}, removal="mask"),
    "mean embedding": lambda m, ids: ffb.faithfulness(m, ids, ffb.logit(7), {"mine": torch.rand(N)}, removal="mean"),
    "tested shares": lambda m, ids: ffb.faithfulness(m, ids, ffb.logit(7), ffb.attribute(m, ids, ffb.logit(7))),
}
"""What is made of a model and token ids [pos]."""

NORMS_OF = "norms of contributions of"
MISS = "scope AtbLnFf: contributions and bias differ"
# fmt: off
REFERENCE = (
    Fault("layer.linear.attend", only("tokens"), "vectors", "scope Attn: contributions and bias differ"),
    Fault("layer.linear.attend", only("bias"), "vectors", "scope Attn: contributions and bias differ"),
    Fault("layer.linear.attend", last_query, "vectors", "scope Attn: contributions and bias differ from the model's own activation"),
    Fault("layer.linear.residual", every, "vectors", "scope Atb: contributions and bias differ"),
    Fault("layer.linear.Parts.__add__", every, "vectors", "scope Atb: contributions and bias differ"),
    Fault("layer.linear.normalise", only("tokens"), "vectors", "scope AtbLn: contributions and bias differ"),
    Fault("layer.linear.normalise", only("bias"), "vectors", "scope AtbLn: contributions and bias differ"),
    Fault("layer.linear.normalise", every, "vectors", "scope Atb: contributions and bias differ", "bert"),
    Fault("layer.linear.project", only("tokens"), "vectors", MISS),
    Fault("layer.linear.project", only("bias"), "vectors", MISS),
    Fault("layer.linear.weigh", every, "vectors", MISS, "mixtral"),
    Fault("layer.records.LayerRecord.input_weight", every, "maps", "scope AtbLnFf: contributions and bias differ", "llama4"),
    Fault("layer.linear.LinearLayer.multiplied", only("tokens"), "vectors", "scope Atb: contributions and bias differ", "granite"),
    Fault("layer.activations.Activation.coefficients", only("on_pre"), "vectors", MISS),
    Fault("layer.activations.Activation.coefficients", only("on_pre"), "vectors", MISS, "llama"),
    Fault("layer.activations.Activation.coefficients", only("on_linear"), "vectors", MISS, "llama"),
    Fault("layer.linear.captum_shares", only("tokens"), "maps by captum", MISS),
    Fault("layer.linear.captum_shares", only("bias"), "maps by captum", MISS),
    Fault("layer.linear.attend", every, "maps by captum", "scope Attn: contributions and bias differ"),
    Fault("layer.heads.of_heads", only("value"), "vectors by head", f"scope Attn: {NORMS_OF} head 1"),
    Fault("layer.heads.decompose_record", of_vectors, "vectors by head", f"scope Attn: {NORMS_OF} head 1"),
    Fault("layer.heads._residual_vectors", every, "vectors by head", f"scope Atb: {NORMS_OF} residual"),
)
"""Vectors by the reference implementation: attention, residual, norms, activations, gates, experts, W_out, biases, heads."""

OPTIMISED = (
    Fault("layer.fast.vector_norms.token_values", at(0), "maps", "scope Attn: contributions and bias differ"),
    Fault("layer.fast.vector_norms.attention_bias", every, "maps", "scope Attn: contributions and bias differ"),
    Fault("layer.fast.vector_norms.alone", every, "maps", "scope Atb: contributions and bias differ"),
    Fault("layer.linear.normalise", only("tokens"), "maps", "scope AtbLn: contributions and bias differ"),
    Fault("layer.linear.project", only("bias"), "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.head_sums.BiasFactors.through", every, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.head_sums.BiasFactors.normalised", every, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.head_sums.BiasFactors.of_attention", every, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.head_sums.KeyGroup.pre_activations", every, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.vector_norms.part_norms", every, "maps", f"scope Attn: {NORMS_OF} token 2"),
    Fault("layer.fast.vector_norms.NormsOfPairs._of_head_sums", every, "maps", f"scope Attn: {NORMS_OF} token 2"),
    Fault("layer.fast.head_sums.HeadSum.__add__", only("residual"), "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.head_sums.HeadSum.normalised", only("scale"), "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.head_sums.HeadSum.times", only("scale"), "maps", "scope AtbLnFf: contributions and bias differ", "granite"),
    Fault("layer.fast.head_sums.KeyGroup.weights", every, "maps", "scope AtbLnFfResLn: contributions and bias differ"),
    Fault("layer.fast.head_sums.KeyGroup.basis", every, "maps", "scope AtbFfResLn: contributions and bias differ", "bert"),
    Fault("layer.fast.vector_norms.PairRows._pack", every, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.vector_norms.PairRows._feed_forward", every, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.vector_norms.PairRows._multiply", one_row, "maps", "scope AtbLnFf: contributions and bias differ"),
    Fault("layer.fast.vector_norms.PairRows._multiply", every, "maps", "scope AtbLnFf: contributions and bias differ", "llama"),
    Fault("layer.fast.vector_norms.Branch.heads", every, "maps", "scope AtbLnFf: contributions and bias differ", "mixtral"),
    Fault(
        "layer.activations.Activation.coefficients",
        only("on_pre"),
        "maps",
        "scope AtbLnFf: contributions and bias differ",
        "gpt2",
    ),
    Fault(
        "layer.activations.Activation.coefficients",
        only("on_linear"),
        "maps",
        "scope AtbLnFf: contributions and bias differ",
        "llama",
    ),
    Fault("layer.heads.NormsOfPairs.measure", every, "maps by head", f"scope Attn: {NORMS_OF} head 0"),
    Fault("layer.heads.of_heads", only("value"), "maps by head", f"scope Attn: {NORMS_OF} head 0"),
    Fault("layer.heads._residual_vectors", every, "maps by head", f"scope Atb: {NORMS_OF} residual"),
    Fault("layer.heads.of_expert", next_expert, "maps by expert", f"scope AtbLnFf: {NORMS_OF} all experts", "mixtral"),
    Fault("layer.heads.of_expert", next_expert, "vectors by expert", f"scope AtbLnFf: {NORMS_OF} all experts", "mixtral"),
)
"""Norms by the optimised implementation."""

IDENTITIES = tuple(
    Fault(broken, spoil, "maps", says, family, "IdentityError")
    for broken, spoil, says, family in (
        ("bridge.selfcheck._error_after_query", more(1), "pattern is zero after the query", "gpt2"),
        ("layer.records.AttentionWeights.values", every, "norm(layer input) W_V + b_V = value", "gpt2"),
        ("layer.records.AttentionWeights.values", every, "layer input W_V + b_V = value", "bert"),
        ("layer.records.Norm.__call__", every, "norm(layer input) W_V + b_V = value", "llama"),
        ("layer.records.Norm.__call__", every, "mid_norm(AttnRes) = Atb", "bert"),
        ("layer.records.LayerRecord.head_values", every, "= attention output", "gpt2"),
        ("layer.records.LayerRecord.tensor", every, "Attn + resid_pre = Atb", "gpt2"),
        ("layer.records.FeedForward.pre_activations", at(0), "feed-forward input W_in + b_in = pre", "gpt2"),
        ("layer.records.FeedForward.pre_activations", at(0), "feed-forward input W_gate + b_gate = pre", "llama"),
        ("layer.records.FeedForward.pre_activations", at(1), "feed-forward input W_in + b_in = pre_linear", "llama"),
        ("layer.activations.Activation.output", every, "gelu_tanh(pre) = post", "gpt2"),
        ("bridge.layers.BoundLayer._feed_forward", only("w_out"), "post W_out + b_out = feed-forward output", "gpt2"),
        ("bridge.layers.BoundLayer._feed_forward", only("b_out"), "post W_out + b_out = feed-forward output", "gpt2"),
        ("bridge.layers.BoundLayer.routing_weights", every, "sum over experts of router weight x expert output", "mixtral"),
        ("bridge.layers.BoundLayer._scattered", every, "sum over experts of router weight x expert output", "minimax_m2"),
        ("bridge.layers.BoundLayer._with_shared", every, "sum over experts of router weight x expert output", "ernie4_5_moe"),
        ("bridge.layers.BoundLayer.gate", every, "pattern x value W_O + b_O = attention output", "afmoe"),
        ("layer.records.AttentionWeights.reciprocal_scale", every, "pattern x value W_O + b_O = attention output", "bitnet"),
        ("bridge.layers.BoundLayer.post_factor", every, "relu2(pre) = post", "bitnet"),
        ("layer.records.FeedForward.weighed", every, "sum over experts of router weight x expert output", "llama4"),
        ("bridge.layers.BoundLayer.halves", swapped, "feed-forward input W_gate + b_gate = pre", "modernbert_decoder"),
        ("layer.records.Block.factors", at(1), "AttnLn + 1.01 resid_pre = Atb", "gemma4"),
        ("bridge.layers.BoundLayer._attention_of_normed_values", only("w_o"), "pattern x value W_O + b_O = attention output", "gemma4"),
        ("layer.records.Block.factors", at(0), "Attn + resid_pre = Atb", "granite"),
        ("bridge.layers.BoundLayer._latent_attention", only("w_v"), "norm(layer input) W_V + b_V = value", "deepseek_v3"),
    )
)
"""What the captured tensors and the weights must be to one another."""

SUMS = (
    Fault("layer.neurons._parts_in", every, "neurons", "shares of neurons differ from the contribution's norm"),
    Fault("layer.neurons.feed_forwards", of_weights("w_out"), "neurons", "shares of neurons differ"),
    Fault("layer.neurons.coefficients_in", every, "neurons", "contributions of tokens and biases differ from the neurons' activations"),
    Fault("layer.linear.LinearLayer.neuron_shares", every, "neurons", "contributions and bias differ"),
    Fault("layer.linear.attend", only("tokens"), "ALTI", "scope Attn: contributions and bias differ"),
    Fault("layer.linear.normalise", only("tokens"), "GlobEnc", "scope Atb: contributions and bias differ", "bert"),
    Fault("aggregation.shares", every, "rollout", "rows of the product differ"),
    Fault("aggregation.shares", every, "ALTI", "rows of the product differ"),
    Fault("memories.causes.coefficient_parts", only("tokens"), "coefficients", "memory 0:3: token parts and bias differ"),
    Fault("memories.causes.coefficient_parts", only("bias"), "coefficients", "memory 0:3: token parts and bias differ"),
    Fault("memories.causes.coefficients", every, "coefficients", "token parts and bias differ from its activation"),
    Fault("layer.heads._softmax_error", more(1e-3), "scores", "softmax of query times key", error="UnsupportedModelError"),
    Fault("bridge.readout._own_logits", every, "read-out", "misses its own logits", error="IdentityError"),
    Fault("bridge.edited._hide", lambda scores: scores * 0, "masking", "to tokens that were hidden", error="UnsupportedModelError"),
    Fault("attribution.faithfulness.words_of", lambda words: words + "?", "tested shares", "Expected attributions of the same target", error="InputError"),
    Fault("attribution.faithfulness.Removals._run", every, "tested shares", "Expected attributions of the same target", error="InputError"),
)
"""Neurons, coefficients, scores, the read-out, removals of tokens."""

SHARES = tuple(
    Fault(broken, spoil, made, says, family, error)
    for broken, spoil, made, says, family, error in (
        ("bridge.linearised.normed", at(0), "shares", "its logits differ by", "gpt2", "IdentityError"),
        ("bridge.linearised.normed", at(1), "shares", "linearised output of blocks.", "gpt2", None),
        ("bridge.linearised.activated", at(1), "shares", "mlp.hook_post differs", "gpt2", None),
        ("layer.activations.PathCoefficients.times", only("on_pre"), "shares", "mlp.hook_post differs", "bitnet", None),
        ("bridge.linearised.shared", every, "shares", "linearised output of blocks.", "mixtral", None),
        ("bridge.linearised.shared", every, "shares", "linearised output of mlm_head differs", "bert", None),
        ("layer.linear._vjp_of_norm", every, "shares", "attributions at the input of layer 2 differ", "gpt2", None),
        ("layer.linear._vjp_of_products", every, "shares", "attributions at the ", "gpt2", None),
        ("layer.linear._vjp_of_form", every, "shares", "attributions at the embeddings differ", "mixtral", None),
        ("layer.linear._vjp_of_gate", at(1), "shares", "attributions at the input of layer 3 differ", "gpt2", None),
        ("layer.linear._vjp_of_bias", at(1), "shares", "attributions at the input of layer 1 differ", "gpt2", None),
        ("bridge.traced.Traced._from_unembedding", at(1), "shares", "attributions at the input of layer", "gpt2", None),
        ("bridge.traced.Traced._from_unembedding", at(2), "shares", "attributions at the input of layer", "gptj", None),
        ("attribution.attribute.Shares._by_position", every, "shares", "attributions at the embeddings differ", "gpt2", None),
        ("bridge.linearised.normed", at(1), "direct contributions", "linearised output of ln_final differs", "gpt2", None),
        ("layer.linear._vjp_of_norm", every, "direct contributions", "attributions at the embeddings differ", "gpt2", None),
        ("bridge.gradient_cache.GradientCache.biased", lambda change: None, "direct contributions", "attributions at the embeddings differ", "gpt2", None),
        ("attribution.attribute.Shares._parts", twice("heads"), "direct contributions", "attributions at the embeddings differ", "gpt2", None),
        ("attribution.attribute.Shares._parts", twice("mlps"), "direct contributions", "attributions at the embeddings differ", "bert", None),
        ("attribution.attribute.Shares._written_by_feed_forward", every, "direct contributions", "attributions at the", "mixtral", None),
        ("bridge.readout.ReadOut.__call__", every, "lens", "differ from the logits of this forward pass", "gpt2", "IdentityError"),
        ("attribution.attribute.Shares._token_edges", every, "edges", "sums of edges differ", "gpt2", None),
        ("attribution.attribute.Shares.cells", every, "edges", "sums of edges differ", "gpt2", None),
        ("layer.linear._vjp_of_norm", every, "continuation", "attributions of token 6 differ from its logit", "gpt2", None),
        ("layer.linear._vjp_of_products", every, "continuation", "differ from its logit", "gpt2", None),
        ("layer.linear._vjp_of_bias", at(1), "continuation", "differ from its logit", "gpt2", None),
        ("bridge.linearised.normed", at(1), "continuation", "linearised output of blocks", "gpt2", None),
        ("layer.linear.LinearNorm.vjp", every, "signed maps", "vjp differs from the derivative", "gpt2", None),
        ("layer.linear.LinearLayer.vjp_feed_forward", every, "signed maps", "vjp differs from the derivative", "gpt2", None),
        ("layer.linear.LinearLayer.vjp_attention", every, "signed maps", "vjp differs from the derivative", "gpt2", None),
        ("layer.linear.LinearLayer.attention_cells", every, "signed maps", "cells of a signed map differ", "gpt2", None),
        ("layer.linear.LinearLayer.vjp_cells", every, "signed maps", "cells of a signed map differ", "llama", None),
    )
    for error in (error or "CompletenessError",)
)
"""Attributions to a target: linear forms, layer sums, edges, continuations, signed maps."""

GRAPHS = (
    Fault("attribution.attribute.Shares._attention", at(0), "graph", "intercept of each head"),
    Fault("attribution.attribute.Shares._positions", at(0), "graph", "intercept of the feed-forward"),
    Fault("layer.records.Block.value_constant", every, "graph", "intercept of all heads together"),
    Fault("layer.linear.LinearNorm.vjp", every, "flow", "vjps of the layers differ"),
    Fault("layer.linear.LinearLayer.vjp_attention", every, "flow", "vjps of the layers differ"),
    Fault("graphs.flow.neurons_at", only("keys"), "flow", "edges into L2N13.k differ"),
    Fault("graphs.flow.neurons_at", only("values"), "flow", "edges into L2.mlp differ"),
    *(Fault("graphs.flow.Draft._shares", at(n), "flow", "attributions of the edges into a node differ") for n in range(4)),
    Fault("graphs.flow.Draft._share", every, "flow", "attributions of the edges into a node differ"),
    Fault("attribution.edge_attribution.EdgeSums.change", every, "estimated edges", "the changes of all senders differ"),
    Fault("attribution.edge_attribution._LayerPropagation._of_heads", every, "estimated edges", "the changes of all senders differ"),
    Fault("attribution.edge_attribution._LayerPropagation._by_attention", every, "estimated edges", "derivatives by the inputs"),
    Fault("layer.linear.LinearNorm.vjp", every, "estimated edges", "derivatives by the inputs"),
    Fault("attribution.patching._mean_derivatives", of_tensor("attn_out"), "estimates", "heads differ from that of attention"),
)
"""Graphs: conserved flows, vectors at a position, edges between heads and feed-forwards."""
# fmt: on

MIXERS = (
    *(
        Fault(
            f"layer.mixers.{broken}",
            every,
            "maps",
            "pattern x value W_O + b_O = attention output",
            family,
            "IdentityError",
        )
        for broken, family in (
            ("_decays", "qwen3_5"),
            ("_decays", "mamba2"),
            ("SelectiveScan._of_channels", "mamba"),
            ("DeltaNet.gate", "qwen3_5"),
            ("SelectiveScan.gate", "mamba"),
            ("GatedNorm.scale", "mamba2"),
            ("Convolution.slope", "mamba"),
            ("Convolution.__call__", "mamba2"),
            ("_unit", "qwen3_5"),
            ("Mixer._taps", "mamba2"),
            ("Mixed.constant", "mamba"),
        )
    ),
    Fault("layer.mixers._unit", every, "maps", "The block differs from this family's", "qwen3_5", "IdentityError"),
    Fault("layer.mixers.Mixer.output", every, "shares", "linearised output of blocks.0.mixer differs", "mamba2"),
    Fault(
        "layer.mixers.Mixer.output",
        every,
        "direct contributions",
        "linearised output of blocks.0.linear_attn differs",
        "qwen3_5",
    ),
    Fault("attribution.attribute.token_edges", every, "edges", "sums of edges differ", "mamba2"),
    Fault("attribution.attribute.token_edges", every, "graph", "intercept of each head", "mamba"),
)
"""Token mixers without a softmax: coefficients, gates, norms, convolutions and their taps."""

FAULTS = (*REFERENCE, *OPTIMISED, *IDENTITIES, *SUMS, *SHARES, *GRAPHS, *MIXERS)


def break_it(monkeypatch: pytest.MonkeyPatch, path: str, spoil: Spoil) -> None:
    """Let a function, method or property of the package give something else."""
    place, name = f"tl_ffblock.{path}".rsplit(".", 1)
    owner: Any = resolve_name(place)
    kind, right = inspect.getattr_static(owner, name), getattr(owner, name)
    read = kind.fget if isinstance(kind, property) else kind.func if isinstance(kind, cached_property) else None
    if read is not None:
        monkeypatch.setattr(owner, name, property(lambda self: spoil(read(self))))
        return

    def wrong(*args: Any, **options: Any) -> Any:
        return spoil(right(*args, **options))

    monkeypatch.setattr(owner, name, staticmethod(wrong) if isinstance(kind, staticmethod | classmethod) else wrong)


@pytest.mark.wrong_types
@pytest.mark.parametrize("fault", FAULTS, ids=str)
def test_what_is_wrong_is_refused(monkeypatch: pytest.MonkeyPatch, fault: Fault) -> None:
    """One per cent too much in one place, and the error names what misses what."""
    model = bridge_of(fault.family)
    break_it(monkeypatch, fault.broken, fault.spoil)
    with pytest.raises(getattr(ffb.errors, fault.error), match=re.escape(fault.says)):
        MADE[fault.made](model, tiny.tokens(fault.family, N))


@pytest.mark.parametrize(("made", "family"), sorted({(fault.made, fault.family) for fault in FAULTS}))
def test_what_is_right_is_not(made: str, family: str) -> None:
    """The same calls without the fault."""
    MADE[made](bridge_of(family), tiny.tokens(family, N))


def test_a_mean_embedding_needs_rows_of_the_matrix() -> None:
    """A hook that changes each embedding in its own way leaves no matrix whose rows could be averaged."""
    model, ids = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    model.add_hook("embed.hook_out", lambda x, hook: x + torch.rand_like(x))
    with pytest.raises(ffb.errors.UnsupportedModelError, match='does not embed tokens by rows.*removal="mask"'):
        MADE["mean embedding"](model, ids)


def test_a_bridge_that_is_another_model_is_refused() -> None:
    """Logits one per cent from Hugging Face's, by a module that was changed outside its HookPoints."""
    model, ids = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    plain = model.unembed.forward
    # Not `setattr`: a component of TransformerLens 4 hands attributes that are set on to the module that it wraps.
    model.unembed.__dict__["forward"] = lambda *args, **options: plain(*args, **options) * BROKEN
    with pytest.raises(ffb.errors.UnsupportedModelError, match="not the Hugging Face model that it wraps.*1.0e-02"):
        ffb.contribution_maps(model, ids)


@pytest.mark.parametrize("site", ["attn.hook_z", "mlp.hook_post", "hook_attn_out", "hook_mlp_out"])
def test_an_edit_of_a_user_is_a_remainder(site: str) -> None:
    """One per cent by a hook of the call is no fault: what the parts then miss of the run is the remainder's, and no more."""
    model, ids = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    clean = ffb.contribution_maps(model, ids)
    maps = ffb.contribution_maps(model, ids, fwd_hooks=[(f"blocks.1.{site}", lambda x, hook: x * BROKEN)])
    assert all(not clean.remainder[scope, layer].any() for scope in clean.scopes for layer in clean.layers)
    assert not any(maps.remainder[scope, layer].any() for scope in maps.scopes for layer in (0, 2))
    assert maps.remainder["AtbLnFfRes", 1].all()
    assert float(maps.completeness["AtbLnFfRes", 1].max()) < 1e-6


def test_an_edit_inside_a_layer_is_a_share_of_its_own() -> None:
    """A hook that is not linear in what it gets: what it adds is counted, and all shares sum to the target."""
    model, ids = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    square = ("blocks.1.hook_mlp_out", lambda x, hook: x + x**2)
    result = ffb.attribute(model, ids, ffb.logit(7), fwd_hooks=[square])
    assert any(result.edits.values())
    assert result.total() == pytest.approx(result.first_order, rel=1e-4)


def test_a_later_run_that_sees_what_comes_after_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mask is a run's own: it is checked in runs of layers whose other identities were checked before."""
    model, ids = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    ffb.contribution_maps(model, ids)
    break_it(monkeypatch, "bridge.selfcheck._error_after_query", more(1e-9))
    with pytest.raises(
        ffb.errors.IdentityError, match="pattern is zero after the query .in this run; it was in others"
    ):
        ffb.contribution_maps(model, ids)


def test_a_check_says_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check_model` raises nothing: the result is not ok, and names the equation."""
    model, ids = tiny.bridge("gpt2"), tiny.tokens("gpt2", N)
    assert ffb.check.check_model(model, ids).ok
    break_it(monkeypatch, "layer.activations.Activation.coefficients", only("on_pre"))
    found = ffb.check.check_model(model, ids)
    assert not found.ok and {failure.name for failure in found.failures} == {"AtbLnFf", "AtbLnFfRes", "AtbLnFfResLn"}
    assert "No maps of this model are returned" in found.verdict()
