"""Contribution maps straight from Hugging Face modules: slow, obvious, independent.

Neither TransformerLens nor `tl_ffblock` is used, and none of the closed forms that the library rests on:

1. A float64 copy of the model runs once. Hooks record the input and output of every module; the attention weights,
   the scales of the norms and the weights of the router are those of this run, the very run that a TransformerBridge
   over the model repeats. RMSNorm, softmax and rotary tables are float32 in it, as Hugging Face computes them.
2. Per layer all n * (n + 1) vectors are made, [query, key or bias, d_model], by the linear steps of the layer.
3. Activations are split by Integrated Gradients as it is defined: the gradient of the model's own activation,
   averaged over the straight path from zero with 200 Gauss-Legendre nodes (between the kinks, where there are any).
4. At every scope the vectors must sum to the module's real output, to 1e-9 of its norm; the one scope without a real
   output is `Atb` of parallel blocks, compared with input + attention output. (RMSNorm in float32 leaves 1e-7, so the
   bound of models that have it is 1e-5.)

What cannot be told from the definition is settled so: the first residual belongs to the query's own column, the
second one to every column; router weights, and the sigmoid that weighs the shared expert of Qwen2-MoE, are constants.

A mixer without a softmax (Mamba, delta nets) runs its own recurrence, a token at a time, once for each source: decays,
writes, reads and the factor of the gate and norm are those of the run, the values those of one source token.
"""

import copy
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import reduce
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

ValueBias = Literal["bias", "token"]
Order = Literal["post_ln", "pre_ln", "sandwich", "parallel", "norm_after", "attn_only"]
N_NODES = 200
COMPLETENESS = 1e-9  # float64 norms: rounding, worst seen 5e-15
COMPLETENESS_FLOAT32 = 1e-5  # float32 inside the norms


def oracle_maps(
    hf_model: nn.Module, input_ids: Tensor, value_bias: ValueBias = "bias", **media: Tensor
) -> dict[str, Tensor]:
    """Norms of the parts at every scope: "L{layer}.{scope}" -> float64 [query, key], the bias part in the last column.

    Args:
        hf_model: A Hugging Face model of one of the families in `tiny` (left as it is), with or without a head.
        input_ids: Token ids, [pos] or [1, pos].
        value_bias: Whether the value bias, and in Pre-LN models the beta of the norm before the attention, belong to
            the bias part or to the token.
        **media: Further arguments of the model, such as `pixel_values`; its layers of text are decomposed.

    Raises:
        AssertionError: if the parts at some scope do not sum to the model's own tensor.
        NotImplementedError: for a model type or variant without an entry here.
    """
    steps = _decompose(_Run(hf_model, input_ids, media), value_bias)
    return {key: parts.norm(dim=-1) for key, parts in steps}


def completeness(parts: Tensor, whole: Tensor) -> Tensor:
    """Distance of the sum of the parts from the whole, relative to the whole's norm, [query]."""
    return (parts.sum(1) - whole).norm(dim=-1) / whole.norm(dim=-1)


def _decompose(run: "_Run", value_bias: ValueBias) -> Iterator[tuple[str, Tensor]]:
    """Key and parts at every scope of every layer, checked against the whole."""
    bound = COMPLETENESS_FLOAT32 if any(map(_is_rms, run.model.modules())) else COMPLETENESS
    for index in range(len(run.layers)):
        for scope, parts, whole in _WALKS[run.paths.order](run.layer(index), value_bias):
            key = f"L{index}.{scope}"
            error = completeness(parts, whole).max()
            assert error < bound, f"{key}: the parts miss the whole by {error:.1e}"
            yield key, parts


# --- linear steps on parts [query, key or bias, d_model] --------------------------------------------------------


@dataclass(frozen=True)
class Affine:
    """x -> x @ weight + bias, weight [in, out]."""

    weight: Tensor
    bias: Tensor

    def __call__(self, parts: Tensor) -> Tensor:
        """Every part by the matrix, the constant to the bias part."""
        return _add_to_bias(parts @ self.weight, self.bias)


@dataclass(frozen=True)
class Norm:
    """LayerNorm (centred) or RMSNorm."""

    gain: Tensor
    bias: Tensor
    eps: float
    centred: bool

    def linear(self, parts: Tensor, whole: Tensor) -> Tensor:
        """Every part centred, divided by the scale of the whole vector it is a part of, times the gain; no beta."""
        if self.centred:
            parts = parts - parts.mean(-1, keepdim=True)
            whole = whole - whole.mean(-1, keepdim=True)
        return parts / (whole.square().mean(-1, keepdim=True) + self.eps).sqrt() * self.gain

    def split(self, parts: Tensor, whole: Tensor) -> Tensor:
        """The same for all parts of one vector per query, beta to the bias part."""
        return _add_to_bias(self.linear(parts, whole[:, None]), self.bias)


class NoNorm(Norm):
    """The identity in a norm's place."""

    def linear(self, parts: Tensor, whole: Tensor) -> Tensor:
        """The parts themselves."""
        return parts


def _add_to_bias(parts: Tensor, constant: Tensor) -> Tensor:
    """Add to the last column."""
    return torch.cat([parts[:, :-1], parts[:, -1:] + constant.expand_as(parts[:, -1])[:, None]], dim=1)


def _diagonal(vectors: Tensor) -> Tensor:
    """Parts of vectors [query, d] each of which is due to its own position alone; the bias part is zero."""
    n, width = vectors.shape
    parts = vectors.new_zeros(n, n + 1, width)
    parts[range(n), range(n)] = vectors
    return parts


# --- attention --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attention:
    """Attention with its pattern taken from the run."""

    pattern: Tensor  # [head, query, key]
    value_weight: Tensor  # [head, d_model, d_head]
    value_bias: Tensor  # [head, d_head]
    out_weight: Tensor  # [head, d_head, d_model]
    out_bias: Tensor  # [d_model]
    latent: tuple[Tensor, Norm] | None = None  # to the latent vector [d_model, rank], and its norm
    gate: Tensor | None = None  # [query, head, d_head or 1]
    value_eps: float | None = None  # of a norm of each head's values, which has no gain

    def split(self, x: Tensor, norm: Norm | None, value_bias: ValueBias) -> Tensor:
        """Parts by source token of the attention output, for block input x [pos, d_model]."""
        source = x if norm is None else norm.linear(x, x)
        if self.latent is not None:
            down, latent_norm = self.latent
            source = latent_norm.linear(source @ down, source @ down)
        value = torch.einsum("jd,hde->hje", source, self.value_weight)
        if self.value_eps is not None:
            value = value / (value.square().mean(-1, keepdim=True) + self.value_eps).sqrt()
        constant = self.value_bias
        if norm is not None and self.latent is None:
            constant = constant + torch.einsum("d,hde->he", norm.bias, self.value_weight)
        if value_bias == "token":
            value = value + constant[:, None]
            constant = torch.zeros_like(constant)
        gate = torch.ones(1) if self.gate is None else self.gate
        gate = gate.expand(*self.pattern.shape[1::-1], value.shape[-1]).to(value)
        by_token = torch.einsum("hij,ihe,hje,hed->ijd", self.pattern, gate, value, self.out_weight)
        by_bias = (
            torch.einsum("hi,ihe,he,hed->id", self.pattern.sum(-1), gate, constant, self.out_weight) + self.out_bias
        )
        return torch.cat([by_token, by_bias[:, None]], dim=1)


# --- token mixers without a softmax -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Recurrence:
    """A mixer whose state is carried from token to token, all but its values taken from the run."""

    value: Affine
    taps: Tensor  # [channel, tap], the present token last
    tap_bias: Tensor  # [channel]
    scan: Callable[[Tensor], Tensor]  # [pos, player, channel] -> [pos, player, channel], linear
    factor: Tensor  # [pos, channel]: the output after gate and norm over that before them
    out: Affine

    def split(self, x: Tensor, norm: Norm | None, value_bias: ValueBias) -> Tensor:
        """Parts by source token of the mixer's output, for block input x [pos, d_model]."""
        assert norm is not None and not norm.bias.any()
        values = _diagonal(norm.linear(x, x)) @ self.value.weight
        own, bias = _diagonal(self.value.bias.expand(len(x), -1)), self.value.bias
        values = values + own if value_bias == "token" else _add_to_bias(values, bias)
        convolved = _add_to_bias(_convolution(values, self.taps), self.tap_bias)
        active = integrated_gradients(convolved[None], lambda pre: nn.functional.silu(pre[0]))
        return self.out(self.scan(active) * self.factor[:, None])


def _convolution(values: Tensor, taps: Tensor) -> Tensor:
    """Every channel of [pos, ..., channel] with the values before it; nothing precedes the first token."""
    found = torch.zeros_like(values)
    for position in range(len(values)):
        for back in range(min(taps.shape[1], position + 1)):
            found[position] += values[position - back] * taps[:, -1 - back]
    return found


def delta_rule(values: Tensor, q: Tensor, k: Tensor, beta: Tensor, decay: Tensor) -> Tensor:
    """`S <- a S (I - b k k^T) + b v k^T`, read by q: values [pos, player, head, e], q and k [pos, head, n], others [pos, head]."""
    state, read = values.new_zeros(*values.shape[1:], k.shape[-1]), []
    for v, q_t, k_t, b, a in zip(values, q, k, beta, decay, strict=True):
        state = a[:, None, None] * state
        erased = torch.einsum("phen,hn->phe", state, k_t)
        state = state + torch.einsum("h,phe,hn->phen", b, v - erased, k_t)
        read.append(torch.einsum("phen,hn->phe", state, q_t))
    return torch.stack(read)


def state_space(values: Tensor, write: Tensor, read: Tensor, dt: Tensor, decay: Tensor, skip: Tensor) -> Tensor:
    """`S <- a S + dt v B^T`, `S C + D v`: values [pos, player, head, e]; B, C and a [pos, head, n]; dt [pos, head]; D [head]."""
    state, found = values.new_zeros(*values.shape[1:], write.shape[-1]), []
    for v, b, c, step, a in zip(values, write, read, dt, decay, strict=True):
        state = state * a[:, None] + torch.einsum("h,phe,hn->phen", step, v, b)
        found.append(torch.einsum("phen,hn->phe", state, c) + skip[:, None] * v)
    return torch.stack(found)


# --- feed-forward -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FeedForward:
    """Pre-activations (one, or gate and up), the function that joins them, the output matrix."""

    branches: tuple[Affine, ...]
    join: Callable[[Tensor], Tensor]  # [branch, ..., d_mlp] -> [..., d_mlp]
    out: Affine
    weight: Tensor | float = 1.0  # [query], of an expert
    limit: float | None = None  # |pre-activation| at which `join` has a kink
    factor: Tensor | None = None  # of every unit, [query, d_mlp]
    input_weight: Tensor | None = None  # [query], of an expert's input

    def __call__(self, parts: Tensor) -> Tensor:
        """Every part through the layer; the baseline's output and the constants go to the bias part."""
        if self.input_weight is not None:
            parts = parts * self.input_weight[:, None, None]
        players = torch.stack([branch(parts) for branch in self.branches])
        hidden = integrated_gradients(players, self.join, self.limit)
        hidden = _add_to_bias(hidden, self.join(torch.zeros_like(players[:, :, 0])))
        if self.factor is not None:
            hidden = hidden * self.factor[:, None]
        weight = torch.as_tensor(self.weight, dtype=parts.dtype)  # of the output
        return self.out(hidden) * weight.reshape(-1, 1, 1)


def integrated_gradients(players: Tensor, join: Callable[[Tensor], Tensor], limit: float | None = None) -> Tensor:
    """Share of each player in `join` at the sum of the players, on the straight path from zero.

    Args:
        players: [branch, query, player, unit]; a unit's output depends on its own branches only.
        join: [branch, ..., unit] -> [..., unit].
        limit: Where a branch reaches this absolute value the path is cut, as `join` may have a kink there.

    Returns:
        [query, player, unit]; summed over players join(sum of players) - join(0).
    """
    end = players.sum(2)
    nodes, weights = (torch.from_numpy(array) for array in np.polynomial.legendre.leggauss(N_NODES))
    cuts = [torch.zeros_like(end[0]), torch.ones_like(end[0])]
    if limit is not None:
        cuts += list((limit / end.abs()).clamp(max=1))
    edges = torch.stack(cuts).sort(dim=0).values
    gradient = torch.zeros_like(end)
    for start, stop in pairwise(edges):
        half = (stop - start) / 2
        place = (start + stop) / 2 + nodes[:, None, None] * half  # [node, query, unit]
        slope = _slope(join, end[:, None] * place)
        gradient += half * torch.einsum("q,bqiu->biu", weights, slope)
    return torch.einsum("biku,biu->iku", players, gradient)


def _slope(join: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """Partial derivatives of each unit by each of its branches."""
    at = at.detach().requires_grad_()
    with torch.enable_grad():
        return torch.autograd.grad(join(at).sum(), at)[0]


# --- the orders: scope, parts, the model's own tensor -------------------------------------------------------------


@dataclass(frozen=True)
class Layer:
    """One block of one run. Tensors are the model's own, [pos, d_model]."""

    x: Tensor
    y: Tensor
    attention: Attention | Recurrence
    attention_out: Tensor
    ff: tuple[FeedForward, ...]  # one, or one for each expert
    ff_out: Tensor
    norms: Mapping[str, tuple[Norm, Tensor, Tensor]]  # role -> norm, its input, its output
    mid: Tensor | None = None  # input of the FF where no norm precedes it
    multiplier: float = 1.0  # of both branches, where they are added
    scalar: float = 1.0  # of the layer's output
    adds: bool = False  # whether the model adds features of an image after some layers (Qwen3-VL)

    def feed(self, parts: Tensor) -> Tensor:
        """Parts of the FF output."""
        return sum((ff(parts) for ff in self.ff), start=torch.zeros_like(parts))


Walk = Iterator[tuple[str, Tensor, Tensor]]


def _post_ln(layer: Layer, value_bias: ValueBias) -> Walk:
    ln1, before_ln1, after_ln1 = layer.norms["attn_post"]
    ln2, before_ln2, after_ln2 = layer.norms["ff_post"]
    attn = layer.attention.split(layer.x, None, value_bias)
    yield "Attn", attn, layer.attention_out
    attn_res = attn + _diagonal(layer.x)
    yield "AttnRes", attn_res, before_ln1
    atb = ln1.split(attn_res, before_ln1)
    yield "Atb", atb, after_ln1
    ff = layer.feed(atb)
    yield "AtbFf", ff, layer.ff_out
    yield "AtbFfRes", ff + atb, before_ln2
    yield "AtbFfResLn", ln2.split(ff + atb, before_ln2), after_ln2
    assert torch.equal(after_ln2, layer.y)


def _pre_ln(layer: Layer, value_bias: ValueBias) -> Walk:
    ln1, before_ln1, _ = layer.norms["attn"]
    ln2, before_ln2, after_ln2 = layer.norms["ff"]
    assert torch.equal(before_ln1, layer.x)
    attn = layer.attention.split(layer.x, ln1, value_bias)
    yield "Attn", attn, layer.attention_out
    if "attn_post" in layer.norms:
        norm, before, after = layer.norms["attn_post"]
        attn = norm.split(attn, before)
        yield "AttnLn", attn, after
    atb = layer.multiplier * attn + _diagonal(layer.x)
    yield "Atb", atb, before_ln2
    atb_ln = ln2.split(atb, before_ln2)
    yield "AtbLn", atb_ln, after_ln2
    ff = layer.feed(atb_ln)
    yield "AtbLnFf", ff, layer.ff_out
    if "ff_post" in layer.norms:
        norm, before, after = layer.norms["ff_post"]
        ff = norm.split(ff, before)
        yield "AtbLnFfLn", ff, after
    yield from _layer_output("AtbLnFfRes", layer.scalar * (layer.multiplier * ff + atb), layer)


def _parallel(layer: Layer, value_bias: ValueBias) -> Walk:
    ln1, before_ln1, _ = layer.norms["attn"]
    ln2, before_ln2, after_ln2 = layer.norms["ff"]
    assert torch.equal(before_ln1, layer.x)
    assert torch.equal(before_ln2, layer.x)
    attn = layer.attention.split(layer.x, ln1, value_bias)
    yield "Attn", attn, layer.attention_out
    atb = attn + _diagonal(layer.x)
    yield "Atb", atb, layer.x + layer.attention_out
    ln = ln2.split(_diagonal(layer.x), before_ln2)
    yield "AtbLn", ln, after_ln2
    ff = layer.feed(ln)
    yield "AtbLnFf", ff, layer.ff_out
    yield from _layer_output("AtbLnFfRes", ff + atb, layer)


def _norm_after(layer: Layer, value_bias: ValueBias) -> Walk:
    ln1, before_ln1, after_ln1 = layer.norms["attn_post"]
    ln2, before_ln2, after_ln2 = layer.norms["ff_post"]
    attn = layer.attention.split(layer.x, None, value_bias)
    yield "Attn", attn, layer.attention_out
    attn_ln = ln1.split(attn, before_ln1)
    yield "AttnLn", attn_ln, after_ln1
    atb = attn_ln + _diagonal(layer.x)
    yield "Atb", atb, layer.mid
    ff = layer.feed(atb)
    yield "AtbFf", ff, layer.ff_out
    ff_ln = ln2.split(ff, before_ln2)
    yield "AtbFfLn", ff_ln, after_ln2
    if "next" in layer.norms:  # the last layer: the model's final norm reads its output
        yield from _layer_output("AtbFfRes", ff_ln + atb, layer)
    else:
        yield "AtbFfRes", ff_ln + atb, layer.y
        yield "AtbFfResLn", ff_ln + atb, layer.y


def _attn_only(layer: Layer, value_bias: ValueBias) -> Walk:
    ln1, before_ln1, _ = layer.norms["attn"]
    assert torch.equal(before_ln1, layer.x)
    attn = layer.attention.split(layer.x, ln1, value_bias)
    yield "Attn", attn, layer.attention_out
    yield from _layer_output("Atb", attn + _diagonal(layer.x), layer)


def _layer_output(scope: str, parts: Tensor, layer: Layer) -> Walk:
    """The layer's output, and the same after the norm that reads it."""
    yield scope, parts, layer.y
    norm, before, after = layer.norms["next"]
    added = before - layer.y  # features of an image, a term that is no token's
    assert layer.adds or not added.any()
    yield scope + "Ln", norm.split(parts, before), after - norm.linear(added, before)


_WALKS: dict[Order, Callable[[Layer, ValueBias], Walk]] = {
    "post_ln": _post_ln,
    "pre_ln": _pre_ln,
    "sandwich": _pre_ln,
    "parallel": _parallel,
    "norm_after": _norm_after,
    "attn_only": _attn_only,
}


# --- where Hugging Face keeps things --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Paths:
    """Module paths of one model type: `layers` and `last_norm` from the base model, the others from a layer."""

    order: Order
    layers: str
    last_norm: str  # read only where a norm precedes the attention
    value: str
    out: str
    norms: Mapping[str, str]  # role (attn, attn_post, ff, ff_post) -> path
    ff_in: tuple[str, ...]
    act: str
    ff_out: str
    moe: str = ""


_GATED = {"ff_in": ("mlp.gate_proj", "mlp.up_proj"), "act": "mlp.act_fn", "ff_out": "mlp.down_proj", "moe": "mlp"}
_LLAMA_LIKE = dict(layers="layers", last_norm="norm", value="self_attn.v_proj", out="self_attn.o_proj", **_GATED)
_LLAMA = Paths("pre_ln", norms={"attn": "input_layernorm", "ff": "post_attention_layernorm"}, **_LLAMA_LIKE)
_BOTH_SIDES = {
    "attn": "input_layernorm",
    "attn_post": "post_attention_layernorm",
    "ff": "pre_feedforward_layernorm",
    "ff_post": "post_feedforward_layernorm",
}
_AFMOE_NORMS = {**_BOTH_SIDES, "ff": "pre_mlp_layernorm", "ff_post": "post_mlp_layernorm"}
_GEMMA2 = Paths("sandwich", norms=_BOTH_SIDES, **_LLAMA_LIKE)
_OLMO2 = Paths(
    "norm_after",
    norms={"attn_post": "post_attention_layernorm", "ff_post": "post_feedforward_layernorm"},
    **_LLAMA_LIKE,
)
_BERT = Paths(
    "post_ln",
    layers="encoder.layer",
    last_norm="",
    value="attention.self.value",
    out="attention.output.dense",
    norms={"attn_post": "attention.output.LayerNorm", "ff_post": "output.LayerNorm"},
    ff_in=("intermediate.dense",),
    act="intermediate.intermediate_act_fn",
    ff_out="output.dense",
)
_BIG_SCIENCE = {  # Bloom, Falcon
    "layers": "h",
    "last_norm": "ln_f",
    "value": "self_attention.query_key_value",
    "out": "self_attention.dense",
    "ff_in": ("mlp.dense_h_to_4h",),
    "ff_out": "mlp.dense_4h_to_h",
}
_TWO_NORMS = {"attn": "input_layernorm", "ff": "post_attention_layernorm"}
_ONE_NORM = {"attn": "input_layernorm", "ff": "input_layernorm"}
_GPT_NEOX = {
    "layers": "layers",
    "last_norm": "final_layer_norm",
    "value": "attention.query_key_value",
    "out": "attention.dense",
    "norms": _TWO_NORMS,
    "ff_in": ("mlp.dense_h_to_4h",),
    "act": "mlp.act",
    "ff_out": "mlp.dense_4h_to_h",
}
_LFM2 = Paths(
    "pre_ln",
    layers="layers",
    last_norm="embedding_norm",
    value="self_attn.v_proj",
    out="self_attn.out_proj",
    norms={"attn": "operator_norm", "ff": "ffn_norm"},
    ff_in=("feed_forward.w1", "feed_forward.w3"),
    act="",
    ff_out="feed_forward.w2",
    moe="feed_forward",
)
_HYBRID = Paths(
    "pre_ln",
    layers="layers",
    last_norm="final_layernorm",
    value="self_attn.v_proj",
    out="self_attn.o_proj",
    norms={"attn": "input_layernorm", "ff": "pre_ff_layernorm"},
    ff_in=("feed_forward.gate_proj", "feed_forward.up_proj"),
    act="feed_forward.act_fn",
    ff_out="feed_forward.down_proj",
    moe="feed_forward",
)
_MAMBA = Paths(
    "attn_only",
    layers="layers",
    last_norm="norm_f",
    value="",
    out="",
    norms={"attn": "norm"},
    ff_in=(),
    act="",
    ff_out="",
)
_MIXERS = ("linear_attn", "mamba", "mixer")
_PATHS: dict[str, Paths] = {
    "gpt2": Paths(
        "pre_ln",
        layers="h",
        last_norm="ln_f",
        value="attn.c_attn",
        out="attn.c_proj",
        norms={"attn": "ln_1", "ff": "ln_2"},
        ff_in=("mlp.c_fc",),
        act="mlp.act",
        ff_out="mlp.c_proj",
    ),
    "opt": Paths(
        "pre_ln",
        layers="decoder.layers",
        last_norm="decoder.final_layer_norm",
        value="self_attn.v_proj",
        out="self_attn.out_proj",
        norms={"attn": "self_attn_layer_norm", "ff": "final_layer_norm"},
        ff_in=("fc1",),
        act="activation_fn",
        ff_out="fc2",
    ),
    **dict.fromkeys(("llama", "mistral", "qwen2", "qwen3", "gemma"), _LLAMA),
    **dict.fromkeys(("mixtral", "qwen2_moe", "qwen3_moe", "gpt_oss"), _LLAMA),
    **dict.fromkeys(("ernie4_5_moe", "glm4_moe", "minimax_m2", "phimoe"), _LLAMA),
    **dict.fromkeys(("deepseek_v2", "deepseek_v3", "glm4_moe_lite", "youtu", "laguna", "qwen3_next"), _LLAMA),
    **dict.fromkeys(("qwen3_5_text", "qwen3_5_moe_text"), _LLAMA),
    **dict.fromkeys(("bamba", "jamba"), _HYBRID),
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba"), _MAMBA),
    "afmoe": replace(_GEMMA2, norms=_AFMOE_NORMS),
    "granitemoe": replace(_LLAMA, moe="block_sparse_moe"),
    "bitnet": _LLAMA,
    **dict.fromkeys(("lfm2", "lfm2_moe"), _LFM2),
    "llama4_text": replace(
        _LLAMA,
        ff_in=("feed_forward.gate_proj", "feed_forward.up_proj"),
        act="feed_forward.activation_fn",
        ff_out="feed_forward.down_proj",
        moe="feed_forward",
    ),
    "modernbert-decoder": Paths(
        "pre_ln",
        layers="layers",
        last_norm="final_norm",
        value="attn.v_proj",
        out="attn.Wo",
        norms={"attn": "attn_norm", "ff": "mlp_norm"},
        ff_in=("mlp.Wi",),
        act="mlp.act",
        ff_out="mlp.Wo",
    ),
    **dict.fromkeys(("qwen2_5_vl_text", "qwen3_vl_text", "qwen3_vl_moe_text"), _LLAMA),
    **dict.fromkeys(("gemma2", "gemma3_text", "gemma4_text"), _GEMMA2),
    "olmo2": _OLMO2,
    "gpt_neox": Paths("parallel", **_GPT_NEOX),
    "gpt_neox_serial": Paths("pre_ln", **_GPT_NEOX),
    "phi": Paths(
        "parallel",
        layers="layers",
        last_norm="final_layernorm",
        value="self_attn.v_proj",
        out="self_attn.dense",
        norms=_ONE_NORM,
        ff_in=("mlp.fc1",),
        act="mlp.activation_fn",
        ff_out="mlp.fc2",
    ),
    "gptj": Paths(
        "parallel",
        layers="h",
        last_norm="ln_f",
        value="attn.v_proj",
        out="attn.out_proj",
        norms={"attn": "ln_1", "ff": "ln_1"},
        ff_in=("mlp.fc_in",),
        act="mlp.act",
        ff_out="mlp.fc_out",
    ),
    "falcon": Paths("parallel", norms=_ONE_NORM, act="mlp.act", **_BIG_SCIENCE),
    "bloom": Paths("pre_ln", norms=_TWO_NORMS, act="mlp.gelu_impl", **_BIG_SCIENCE),
    **dict.fromkeys(("bert", "roberta"), _BERT),
}


def _find_paths(config: Any) -> Paths:
    """The entry of a model, unless it is a variant that is built otherwise."""
    kind = config.model_type
    if kind == "gpt_neox" and not config.use_parallel_residual:
        kind = "gpt_neox_serial"
    odd = (
        (kind == "opt" and not config.do_layer_norm_before)
        or (kind == "falcon" and (config.new_decoder_architecture or not config.parallel_attn))
        or (kind == "bloom" and config.apply_residual_connection_post_layernorm)
    )
    if kind not in _PATHS or odd:
        raise NotImplementedError(f"the oracle has no entry for this {config.model_type}; it has {sorted(_PATHS)}")
    return _PATHS[kind]


def _at(root: nn.Module, path: str) -> nn.Module:
    """The submodule at a dotted path."""
    return reduce(getattr, path.split("."), root)


# --- one run, and its layers ----------------------------------------------------------------------------------------


class _Run:
    """A forward pass of a float64 copy, with everything the modules said."""

    def __init__(self, hf_model: nn.Module, input_ids: Tensor, media: Mapping[str, Tensor]) -> None:
        base = hf_model.base_model  # of Llama-4 it is the whole, for it is made as a part of a model of images
        base = base.model if base is hf_model and hasattr(base, "lm_head") else base
        whole = copy.deepcopy(base).to("cpu", torch.float64).eval().requires_grad_(False)
        whole.set_attn_implementation("eager")
        self.model = getattr(whole, "language_model", getattr(whole, "text_model", whole))
        self.adds = any("deepstack" in name for name, _ in whole.named_modules()) and bool(media)
        self.config = self.model.config
        self.paths = _find_paths(self.config)
        self.layers = list(_at(self.model, self.paths.layers))
        self.said: dict[nn.Module, tuple[Tensor, list[Any]]] = {}
        for module in self.model.modules():
            module.register_forward_hook(self._listen, with_kwargs=True)
        wide = {name: value.double() if value.is_floating_point() else value for name, value in media.items()}
        answer = whole(input_ids=input_ids.reshape(1, -1).cpu(), output_attentions=True, use_cache=False, **wide)
        attends = [layer for layer in self.layers if not any(hasattr(layer, name) for name in _MIXERS)]
        self.attentions = dict(zip(attends, answer.attentions[-len(attends) :], strict=True)) if attends else {}

    def _listen(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        """Keep copies: Falcon adds to its FF output in place."""
        tensors = (value for value in (*args, *kwargs.values()) if isinstance(value, Tensor))
        heard = next(tensors, torch.empty(0)).clone()
        outputs = output if isinstance(output, tuple) else (output,)
        self.said[module] = heard, [value.clone() if isinstance(value, Tensor) else value for value in outputs]

    def heard(self, module: nn.Module) -> Tensor:
        """Input of a module, [pos, width]."""
        return self.said[module][0].flatten(0, -2)

    def answer(self, module: nn.Module, index: int = 0) -> Tensor:
        """Output of a module, [pos, width]."""
        return self.said[module][1][index].flatten(0, -2)

    def layer(self, index: int) -> Layer:
        """What the decomposition of a layer needs."""
        block, paths = self.layers[index], self.paths
        norms = {role: self._norm(_at(block, path)) for role, path in paths.norms.items()}
        last = index + 1 == len(self.layers)
        if paths.last_norm and last:
            norms["next"] = self._norm(_at(self.model, paths.last_norm))
        elif "attn" in norms:
            norms["next"] = self._norm(_at(self.layers[index + 1], paths.norms["attn"]))
        ff, ff_out = self._feed_forward(block) if paths.ff_out else ((), torch.empty(0))
        mixer = next((getattr(block, name) for name in _MIXERS if hasattr(block, name)), None)
        if mixer is None:
            attention: Attention | Recurrence = self._attention(block, self.attentions[block][0])
        else:
            attention = self._recurrence(mixer)
        return Layer(
            x=self.heard(block),
            y=self.answer(block),
            attention=attention,
            attention_out=self.answer(_at(block, paths.out) if mixer is None else mixer),
            ff=ff,
            ff_out=ff_out,
            norms=norms,
            mid=self.heard(block.mlp) if paths.order == "norm_after" else None,
            multiplier=getattr(self.config, "residual_multiplier", 1.0),
            scalar=float(getattr(block, "layer_scalar", 1.0)),
            adds=self.adds,
        )

    def _norm(self, module: nn.Module) -> tuple[Norm, Tensor, Tensor]:
        heard = self.heard(module)
        if isinstance(module, nn.Identity):
            return NoNorm(torch.ones(()), torch.zeros_like(heard[0]), 0.0, centred=False), heard, heard
        return _read_norm(module), heard, self.answer(module)

    def _attention(self, block: nn.Module, pattern: Tensor) -> Attention:
        heads = pattern.shape[0]
        if hasattr(getattr(block, "self_attn", None), "kv_b_proj"):
            return self._latent_attention(block.self_attn, pattern)
        joint = _at(block, self.paths.value) or block.self_attn.k_proj  # keys are values in some layers of Gemma-4
        value, out = _value(joint, self.config), _affine(_at(block, self.paths.out))
        width = out.weight.shape[0] // heads
        groups = value.weight.shape[1] // width  # heads that have values of their own
        share = heads // groups
        weight = value.weight.unflatten(1, (groups, width)).transpose(0, 1).repeat_interleave(share, dim=0)
        bias = value.bias.unflatten(0, (groups, width)).repeat_interleave(share, dim=0)
        out_weight = out.weight.unflatten(0, (heads, width))
        return Attention(
            pattern,
            weight,
            bias,
            out_weight,
            out.bias,
            gate=self._gate(getattr(block, "self_attn", None), heads, width),
            value_eps=block.self_attn.v_norm.eps if self.config.model_type == "gemma4_text" else None,
        )

    def _recurrence(self, mixer: nn.Module) -> Recurrence:
        """A mixer without a softmax, recognised by its type."""
        kind = type(mixer).__name__
        if "DeltaNet" in kind:
            return self._delta_net(mixer)
        return self._selective_scan(mixer) if hasattr(mixer, "x_proj") else self._state_space(mixer)

    def _gated_norm(self, norm: nn.Module, width: int) -> Tensor:
        """Factor [pos, channel] of a norm with a gate, which it has before or after it."""
        return (self.said[norm][1][0] / self.said[norm][0]).reshape(-1, width)

    def _delta_net(self, mixer: nn.Module) -> Recurrence:
        keys, values = mixer.key_dim, mixer.value_dim
        columns = torch.arange(len(mixer.conv1d.weight))
        if hasattr(mixer, "in_proj_qkvz"):  # the columns of query, key, value and gate of each key head in turn
            numbers = torch.arange(mixer.in_proj_qkvz.out_features)[None, None]
            ba = self.said[mixer.in_proj_ba][1][0]
            q, k, v, _, b, a = mixer.fix_query_key_value_ordering(numbers.expand(*ba.shape[:2], -1), ba)
            columns = torch.cat([part[0, 0].flatten() for part in (q, k, v)])
            joint, beta, decay = mixer.in_proj_qkvz, b[0], a[0]
        else:
            joint, beta, decay = mixer.in_proj_qkv, self.answer(mixer.in_proj_b), self.answer(mixer.in_proj_a)
        weight = _affine(joint).weight[:, columns]
        taps = mixer.conv1d.weight[:, 0]
        active = nn.functional.silu(_convolution(self.heard(joint) @ weight, taps))
        share = mixer.num_v_heads // mixer.num_k_heads
        q, k = (
            (part / (part.square().sum(-1, keepdim=True) + 1e-6).sqrt()).repeat_interleave(share, dim=1)
            for part in active[:, : 2 * keys].unflatten(1, (2, mixer.num_k_heads, mixer.head_k_dim)).unbind(1)
        )
        decay = (-mixer.A_log.exp() * nn.functional.softplus(decay + mixer.dt_bias)).exp()
        beta, q = beta.sigmoid(), q / mixer.head_k_dim**0.5

        def scan(players: Tensor) -> Tensor:
            by_head = players.unflatten(-1, (mixer.num_v_heads, mixer.head_v_dim))
            return delta_rule(by_head, q, k, beta, decay).flatten(2)

        return Recurrence(
            Affine(weight[:, 2 * keys :], weight.new_zeros(values)),
            taps[2 * keys :],
            taps.new_zeros(values),
            scan,
            self._gated_norm(mixer.norm, values),
            _affine(mixer.out_proj),
        )

    def _state_space(self, mixer: nn.Module) -> Recurrence:
        """Mamba-2: gate, values, B, C and dt from one matrix; B and C of a group of heads."""
        width, states, groups = mixer.intermediate_size, mixer.ssm_state_size, mixer.n_groups
        joint, taps, bias = _affine(mixer.in_proj), mixer.conv1d.weight[:, 0], _bias_of(mixer.conv1d)
        made = self.answer(mixer.in_proj)
        convolved = nn.functional.silu(_convolution(made[:, width : width + len(taps)], taps) + bias)
        b, c = (
            part.unflatten(1, (groups, states)).repeat_interleave(mixer.num_heads // groups, dim=1)
            for part in convolved[:, width:].chunk(2, dim=1)
        )
        dt = nn.functional.softplus(made[:, width + len(taps) :] + mixer.dt_bias).clamp(*mixer.time_step_limit)
        decay = (-mixer.A_log.exp() * dt).exp()[..., None].expand(-1, -1, states)

        def scan(players: Tensor) -> Tensor:
            by_head = players.unflatten(-1, (mixer.num_heads, -1))
            return state_space(by_head, b, c, dt, decay, mixer.D).flatten(2)

        value = slice(width, 2 * width)
        return Recurrence(
            Affine(joint.weight[:, value], joint.bias[value]),
            taps[:width],
            bias[:width],
            scan,
            self._gated_norm(mixer.norm, width),
            _affine(mixer.out_proj),
        )

    def _selective_scan(self, mixer: nn.Module) -> Recurrence:
        """Mamba: every channel has its own decays; dt, B and C are made of the convolved values."""
        width, rank, states = mixer.intermediate_size, mixer.time_step_rank, mixer.ssm_state_size
        joint, made = _affine(mixer.in_proj), self.answer(mixer.in_proj)
        taps, bias = mixer.conv1d.weight[:, 0], _bias_of(mixer.conv1d)
        convolved = nn.functional.silu(_convolution(made[:, :width], taps) + bias)
        assert (convolved - self.heard(mixer.x_proj)).abs().max() < COMPLETENESS * convolved.abs().max()
        dt, b, c = self.answer(mixer.x_proj).split([rank, states, states], dim=-1)
        if hasattr(mixer, "dt_layernorm"):
            dt, b, c = (self.answer(norm) for norm in (mixer.dt_layernorm, mixer.b_layernorm, mixer.c_layernorm))
        dt = nn.functional.softplus(dt @ mixer.dt_proj.weight.T + mixer.dt_proj.bias)
        decay = (-mixer.A_log.exp() * dt[..., None]).exp()

        def scan(players: Tensor) -> Tensor:
            b_, c_ = (part[:, None].expand(-1, width, -1) for part in (b, c))
            return state_space(players[..., None], b_, c_, dt, decay, mixer.D)[..., 0]

        return Recurrence(
            Affine(joint.weight[:, :width], joint.bias[:width]),
            taps,
            bias,
            scan,
            nn.functional.silu(made[:, width:]),
            _affine(mixer.out_proj),
        )

    def _latent_attention(self, module: nn.Module, pattern: Tensor) -> Attention:
        """DeepSeek's: values from a latent vector with a norm of its own; the keys' part of each head comes before the values'."""
        heads, rank, width = len(pattern), module.kv_lora_rank, module.v_head_dim
        down = module.kv_a_proj_with_mqa.weight.T[:, :rank]
        weight = module.kv_b_proj.weight.T.unflatten(1, (heads, -1))[..., -width:].transpose(0, 1)
        out, bias = _affine(module.o_proj), weight.new_zeros(heads, width)
        latent = down, _read_norm(module.kv_a_layernorm)
        return Attention(pattern, weight, bias, out.weight.unflatten(0, (heads, width)), out.bias, latent)

    def _gate(self, module: nn.Module | None, heads: int, width: int) -> Tensor | None:
        """What every query multiplies its weighted values by, before the output matrix."""
        if hasattr(module, "g_proj"):
            return nn.functional.softplus(self.answer(module.g_proj).float()).unflatten(1, (heads, -1))
        if hasattr(module, "gate_proj"):
            return self.answer(module.gate_proj).sigmoid().unflatten(1, (heads, width))
        if hasattr(module, "attn_sub_norm"):  # BitNet's, over all heads
            return self._factor(module.attn_sub_norm).unflatten(1, (heads, width))
        if self.config.model_type.startswith(("qwen3_next", "qwen3_5")):  # the query and the gate of each head in turn
            return self.answer(module.q_proj).unflatten(1, (heads, 2, width))[:, :, 1].sigmoid()
        return None

    def _factor(self, module: nn.Module) -> Tensor:
        """Gain over scale of an RMSNorm, for the input that it had."""
        return _read_norm(module).linear(torch.ones_like(self.heard(module)), self.heard(module))

    def _feed_forward(self, block: nn.Module) -> tuple[tuple[FeedForward, ...], Tensor]:
        """The FF, or the chosen experts, and the real output."""
        moe = _at(block, self.paths.moe) if self.paths.moe else None
        if moe is not None and hasattr(moe, "experts"):
            return self._experts(moe), self.answer(moe)
        branches = tuple(_affine(_at(block, path)) for path in self.paths.ff_in)
        out = _at(block, self.paths.ff_out)
        if self.config.model_type == "modernbert-decoder":  # the gate's matrix, then the other one
            (joint,) = branches
            halves = zip(joint.weight.chunk(2, dim=1), joint.bias.chunk(2), strict=True)
            branches = tuple(Affine(weight, bias) for weight, bias in halves)
        factor = (
            self._factor(block.mlp.ffn_sub_norm)
            if hasattr(block, "mlp") and hasattr(block.mlp, "ffn_sub_norm")
            else None
        )
        act = _at(block, self.paths.act) if self.paths.act else nn.functional.silu  # LFM2's is no module
        ff = FeedForward(branches, _join(act), _affine(out), factor=factor)
        return (ff,), self.answer(out)

    def _experts(self, moe: nn.Module) -> tuple[FeedForward, ...]:
        """Every expert with the weight that the router gave it, zero where it was not chosen."""
        if self.config.model_type == "llama4_text":
            return self._experts_of_scaled_inputs(moe)
        router = moe.gate if hasattr(moe, "gate") else moe.router
        scores, chosen = self.answer(router, 1), self.answer(router, 2)
        logits = self.answer(router, 0)
        scores = scores * getattr(moe, "routed_scaling_factor", 1.0)  # Laguna's, after the experts
        weights = torch.zeros_like(logits).scatter_add_(1, chosen, scores.to(logits.dtype))
        experts = tuple(_expert(moe.experts, index, weight) for index, weight in enumerate(weights.T))
        shared = getattr(moe, "shared_expert", getattr(moe, "shared_experts", None))
        if shared is None:
            return experts
        branches = (_affine(shared.gate_proj), _affine(shared.up_proj))
        gated = hasattr(moe, "shared_expert_gate")
        weight = self.answer(moe.shared_expert_gate)[:, 0].sigmoid() if gated else 1.0
        return *experts, FeedForward(branches, _join(shared.act_fn), _affine(shared.down_proj), weight)

    def _experts_of_scaled_inputs(self, moe: nn.Module) -> tuple[FeedForward, ...]:
        """Llama-4: every expert reads its input times the router's weight; the shared one reads the input."""
        found = []
        for index, weight in enumerate(self.answer(moe.router).T):
            gate, up = moe.experts.gate_up_proj[index].chunk(2, dim=1)
            down, join = moe.experts.down_proj[index], _join(moe.experts.act_fn)
            branches = tuple(Affine(matrix, matrix.new_zeros(matrix.shape[1])) for matrix in (gate, up))
            out = Affine(down, down.new_zeros(down.shape[1]))
            found.append(FeedForward(branches, join, out, input_weight=weight))
        shared = moe.shared_expert
        branches = (_affine(shared.gate_proj), _affine(shared.up_proj))
        return *found, FeedForward(branches, _join(shared.activation_fn), _affine(shared.down_proj))


# --- reading modules --------------------------------------------------------------------------------------------


def _affine(module: nn.Module) -> Affine:
    """A Linear (weight [out, in]) or Conv1D (weight [in, out])."""
    weight = module.weight if type(module).__name__ == "Conv1D" else module.weight.T
    bias = module.bias if module.bias is not None else weight.new_zeros(weight.shape[1])
    return Affine(weight, bias)


def _value(module: nn.Module, config: Any) -> Affine:
    """The value matrix, cut out of the joint one of queries, keys and values where there is one."""
    joint = _affine(module)
    heads, width = config.num_attention_heads, config.hidden_size // config.num_attention_heads
    if config.model_type == "gpt2":  # all queries, all keys, all values
        columns = slice(2 * config.hidden_size, None)
        return Affine(joint.weight[:, columns], joint.bias[columns])
    if config.model_type in ("gpt_neox", "bloom") or (config.model_type == "falcon" and not config.multi_query):
        by_head = joint.weight.unflatten(1, (heads, 3, width))[:, :, 2].flatten(1)  # query, key, value of each head
        return Affine(by_head, joint.bias.unflatten(0, (heads, 3, width))[:, 2].flatten())
    if config.model_type == "falcon":  # all queries, one key, one value
        return Affine(joint.weight[:, -width:], joint.bias[-width:])
    return joint


def _bias_of(module: nn.Conv1d) -> Tensor:
    return module.weight.new_zeros(len(module.weight)) if module.bias is None else module.bias


def _is_rms(module: nn.Module) -> bool:
    return type(module).__name__.endswith("RMSNorm")


def _read_norm(module: nn.Module) -> Norm:
    """LayerNorm, RMSNorm, or Gemma's, Qwen3-Next's and Qwen3.5's RMSNorm, whose gain is 1 + weight."""
    offset = (
        "GemmaRMSNorm",
        "Gemma2RMSNorm",
        "Gemma3RMSNorm",
        "Qwen3NextRMSNorm",
        "Qwen3_5RMSNorm",
        "Qwen3_5MoeRMSNorm",
    )
    gain = 1 + module.weight if type(module).__name__ in offset else module.weight
    if _is_rms(module):
        eps = module.eps if hasattr(module, "eps") else module.variance_epsilon
        return Norm(gain, torch.zeros_like(gain), eps, centred=False)
    bias = torch.zeros_like(gain) if module.bias is None else module.bias
    return Norm(gain, bias, module.eps, centred=True)


def _join(act: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """act(pre), or act(gate) * up."""
    if type(act).__name__ == "BloomGelu":  # its own backward pass is not the derivative to more than 1e-9
        from transformers.models.bloom.modeling_bloom import bloom_gelu_forward as act
    return lambda pre: act(pre[0]) * pre[1] if len(pre) == 2 else act(pre[0])


def _expert(experts: nn.Module, index: int, weight: Tensor) -> FeedForward:
    """One expert: gate above up in one matrix, or, in gpt_oss, gate and up columns in turn."""
    joint, down = experts.gate_up_proj[index], experts.down_proj[index]
    if hasattr(experts, "limit"):
        bias, down_bias = experts.gate_up_proj_bias[index], experts.down_proj_bias[index]
        branches = tuple(Affine(joint[:, start::2], bias[start::2]) for start in (0, 1))
        return FeedForward(
            branches,
            lambda pre: experts._apply_gate(torch.stack(tuple(pre), dim=-1).flatten(-2)),
            Affine(down, down_bias),
            weight,
            experts.limit,
        )
    branches = tuple(Affine(part.T, part.new_zeros(part.shape[0])) for part in joint.chunk(2))
    return FeedForward(branches, _join(experts.act_fn), Affine(down.T, down.new_zeros(down.shape[0])), weight)
