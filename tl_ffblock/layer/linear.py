"""One layer of one forward pass as a linear map: value, jvp, vjp and constant of every step.

Attention pattern, norm scales, router weights and path coefficients are those of the forward pass. With these fixed, a layer is
linear in its input vectors, up to constants. C is the centring, s the scale; m and n are the factors of a sum, mostly 1; r, u B and A
are the path coefficients (activations.py):

    step       jvp of v                                     constant   vjp of a cotangent g
    add        m v1 + n v2                                             m g to the branch, n g to the stream
    normalise  gain * C v / s                               shift      C (g gain) / s
    feed       (r * v W_in) W_out                           biases     ((g W_out^T) r) W_in^T
      gated    (u B * v W_gate + A * v W_in) W_out          biases     ((g W_out^T) u B) W_gate^T + ((g W_out^T) A) W_in^T
    attend     sum_h P_ij v_j W_V^h W_O^h                   eq. 21     of cell (i, j): sum_h P_ij <v_j - constant, W_O^h g_i>

The jvp maps a vector that is a sum (`Parts`): each source token's contribution through the linear map, constants into the bias
part. The vjp maps a target's derivative by the layer's output to its derivatives by every scope and by the layer's input. If g
is the derivative at a scope, `<F_i(x_j), g_i>` is the attribution of the target to `F_i(x_j)`. That takes one vjp and no
contribution vectors, whatever the number of pairs. A new kind of step needs one more case in `value`, `jvp` and `_vjp_of`, and
one in fast/vector_norms.py. Equation numbers are those of Kobayashi et al. 2024.

`Decomposition` is the reference implementation: it maps each source token's vector by the jvp. After every step the sum of the
contributions can be compared with the model's own tensor. `fast/vector_norms.py` computes the norms of the same vectors without
making them.

The autograd functions at the end of the file keep their value in the forward pass and replace the vjp, for backward passes with
linearised rules:

* `carried(value, form)` is `value`; its cotangent goes to `form`, a local linear form of equal value. `normed` and `activated`
  do the same for the linearised norm and activation of a layer; their backward passes store the coefficients only.
* A **gate of ones** is a leaf of zeros, one number per position: `scaled(x, gate)` is `x (1 + gate)` and `added(y, gate, b)` is
  `y + gate b`, at a gate of zero x and y themselves. A target's derivative by a gate is the attribution to what the gate
  multiplies: `df/d gate = <x, df/dx>`, `<b, df/dy>` (gradient x input; Michel et al. 2019).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import add
from typing import Any

import pandas as pd
import torch
from einops import einsum
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, ScopeKeyError
from tl_ffblock.layer.activations import Activation, PathCoefficients
from tl_ffblock.layer.records import FeedForward, LayerRecord, Norm, Settings
from tl_ffblock.layer.scopes import (
    INPUT,
    STEPS,
    Add,
    Attend,
    Feed,
    Normalise,
    Operation,
    Order,
    Step,
    missing_scope,
    steps_to_output,
)
from tl_ffblock.result import Result, Values, long_form
from tl_ffblock.signatures import strict

CANCELLED = 1e-3
"""A sum has cancelled if its norm is below this fraction of its largest term's norm."""


@dataclass(frozen=True, eq=False)
class Parts(Values):
    """Vectors of all queries at one scope, each a sum over source tokens, bias part and remainder.

    `y_i = sum_j F_i(x_j) + b_i + e_i`. e is the effect of edits made inside the block, else zero.
    """

    tokens: Float[Tensor, "query key d"]
    bias: Float[Tensor, "query d"]
    remainder: Float[Tensor, "query d"] | None = None
    """None means zero: no edit inside the block."""

    def total(self) -> Float[Tensor, "query d"]:
        """Sum over source tokens, bias part and remainder, [query d]."""
        total = self.tokens.sum(dim=1) + self.bias
        return total if self.remainder is None else total + self.remainder

    def error(self, whole: Float[Tensor, "query d"]) -> Float[Tensor, " query"]:
        """Relative completeness error [query]: `||total - whole|| / ||whole||`.

        A norm of `whole` below `CANCELLED` of the largest term's norm is replaced by this bound. Such a tensor has cancelled,
        as if a hook had subtracted all contributions, and only rounding remains in it.
        """
        terms = torch.stack([self.tokens.sum(dim=1), self.bias, *([] if self.remainder is None else [self.remainder])])
        return completeness_errors(terms, whole)

    def map(self, linear: Callable[[Tensor], Tensor]) -> "Parts":
        """Result of a linear function of query and last axis on every part; the function gets `[query player d]`."""
        remainder = None if self.remainder is None else linear(self.remainder[:, None])[:, 0]
        return Parts(linear(self.tokens), linear(self.bias[:, None])[:, 0], remainder)

    def __add__(self, other: "Parts") -> "Parts":
        first, second = self.remainder, other.remainder
        remainder = second if first is None else first if second is None else first + second
        return Parts(self.tokens + other.tokens, self.bias + other.bias, remainder)


def completeness_errors(
    terms: Float[Tensor, "term *shape d"],
    whole: Float[Tensor, "*shape d"],
    sizes: Float[Tensor, "term ..."] | None = None,
) -> Float[Tensor, "*shape"]:
    """Relative completeness errors (`Parts.error`) of sums of terms, for one scope or several at once.

    Args:
        terms: Terms of each sum.
        whole: The model's own tensors.
        sizes: Norms of the terms; None computes them.
    """
    largest = (terms.norm(dim=-1) if sizes is None else sizes).amax(dim=0)
    size = torch.maximum(whole.norm(dim=-1), CANCELLED * largest)
    return (reduce(add, terms.unbind()) - whole).norm(dim=-1) / torch.where(size == 0, 1, size)


def alone(x: Float[Tensor, "query d"]) -> Parts:
    """Parts with x as the only contribution of every query; the "key" axis has length one."""
    return Parts(x[:, None], torch.zeros_like(x))


def residual(x: Float[Tensor, "query d"], queries: Int[Tensor, " query"], n_keys: int) -> Parts:
    """Contributions of the residual connection: x_i at key j = i, zero elsewhere (eq. 26-27)."""
    tokens = x.new_zeros(len(x), n_keys, x.shape[-1])
    tokens[torch.arange(len(x), device=x.device), queries] = x
    return Parts(tokens, torch.zeros_like(x))


def attend(record: LayerRecord, *, value_bias: str) -> Parts:
    """Attention output as a sum over source tokens (eq. 18-21).

    `F_i(x_j) = sum_h alpha[h,i,j] v[h,j] W_O[h]` with v without its constant, see `token_values`. The constant goes to the bias
    part, times the row sum of the pattern, which is 1 unless there are attention sinks.
    """
    (value, constant), w_o = token_values(record, value_bias), record.block.attention.w_o
    if w_o.shape[1] == 1:  # many heads of width 1: their vectors at every source token would be larger than the result
        z = einsum(record.pattern, value[..., 0], "head query key, key head -> query key head")
        return Parts(z @ w_o[:, 0], attention_bias(record, constant))
    written = einsum(value, w_o, "key head d_head, head d_head d -> head key d")
    tokens = einsum(record.pattern, written, "head query key, head key d -> query key d")
    return Parts(tokens, attention_bias(record, constant))


def token_values(
    record: LayerRecord, value_bias: str
) -> tuple[Float[Tensor, "key head d_head"], Float[Tensor, "head d_head"]]:
    """Value vectors of all heads without their constant, and that constant.

    The constant is b_V and the shift (beta) of the norm before attention, multiplied by W_V (eq. 7, 21). With
    `value_bias="token"` it stays in the values, and the constant is zero.
    """
    constant = value_constant(record, value_bias)
    return record.head_values - constant, constant


def value_constant(record: LayerRecord, value_bias: str) -> Float[Tensor, "head d_head"]:
    """Constant of the value vectors, which belongs to the bias part; zero with `value_bias="token"`."""
    learned = record.block.value_constant
    return torch.zeros_like(learned) if value_bias == "token" else learned


def attention_bias(record: LayerRecord, constant: Float[Tensor, "head d_head"]) -> Float[Tensor, "query d"]:
    """Bias part of attention: `sum_h rowsum(alpha[h,i]) constant[h] W_O[h] + b_O` (eq. 21), and the record's constant."""
    weights = record.block.attention
    written = einsum(constant, weights.w_o, "head d_head, head d_head d -> head d")
    bias = einsum(record.pattern_sums, written, "head query, head d -> query d") + weights.b_o
    return bias if record.constant is None else bias + _written(record.constant, weights.w_o)


def _written(z: Float[Tensor, "query head e"], w_o: Float[Tensor, "head e d"]) -> Float[Tensor, "query d"]:
    return einsum(z, w_o, "query head e, head e d -> query d")


def normalise(parts: Parts, norm: Norm, scale: Float[Tensor, "query 1"]) -> Parts:
    """Parts after LayerNorm or RMSNorm with the scale of the whole vector (eq. 28-34); the shift goes to the bias part."""
    scaled = parts.map(lambda vector: norm.linear(vector) / scale[:, None])
    return replace(scaled, bias=scaled.bias + norm.shift)


def project(parts: Parts, weight: Float[Tensor, "d e"], bias: Float[Tensor, " e"]) -> Parts:
    """Parts after a linear layer; its bias goes to the bias part."""
    mapped = parts.map(lambda vector: vector @ weight)
    return replace(mapped, bias=mapped.bias + bias)


def weigh(parts: Parts, weight: Float[Tensor, "query d"]) -> Parts:
    """Parts of each query times the same weights, elementwise."""
    return parts.map(lambda vector: vector * weight[:, None])


def reconcile(parts: Parts, whole: Float[Tensor, "query d"], rtol: float) -> Parts:
    """Parts whose remainder also has the gap to the model's own tensor, at queries where the relative gap exceeds `rtol`."""
    gap = whole - parts.total()
    gap = gap * (parts.error(whole) > rtol)[:, None]
    return replace(parts, remainder=gap if parts.remainder is None else parts.remainder + gap)


def captum_shares(activation: Activation, players: Sequence[Parts], n_steps: int) -> Parts:
    """Attributions of the activation's output to the terms of its pre-activation(s), by Captum's Gauss-Legendre rule (appendix E).

    The terms at one position are one example: tokens, bias and remainder by neuron. The function is the sum of all neurons'
    outputs. Its gradient by a term at one neuron depends on that neuron only, so one call gives all attributions.

    Args:
        activation: The activation function.
        players: Terms of the pre-activation, and of the linear branch of a gated feed-forward.
        n_steps: Quadrature nodes.
    """
    from captum.attr import IntegratedGradients

    def output(*factors: Tensor) -> Tensor:
        pre, *gated = (factor.sum(dim=1) for factor in factors)
        return activation.output(pre, gated[0] if gated else None).sum(dim=-1)

    def stacked(parts: Parts) -> Float[Tensor, "query player d_mlp"]:
        others = [part[:, None] for part in (parts.bias, parts.remainder) if part is not None]
        return torch.cat([parts.tokens, *others], dim=1)

    rows = []
    for row in zip(*(stacked(parts).detach() for parts in players), strict=True):
        inputs = tuple(player[None] for player in row)
        with torch.enable_grad():
            attributed = IntegratedGradients(output).attribute(
                inputs, n_steps=n_steps, method="gausslegendre", internal_batch_size=8
            )
        rows.append(torch.stack([a[0] for a in attributed]).sum(dim=0).to(inputs[0].dtype))
    shared, keys = torch.stack(rows), players[0].tokens.shape[1]
    bias = shared[:, keys] + activation.at_zero(shared) if len(players) == 1 else shared[:, keys]
    return Parts(shared[:, :keys], bias, shared[:, keys + 1] if shared.shape[1] > keys + 1 else None)


@dataclass(frozen=True)
class LinearNorm:
    """Derivative of a norm at every position of one forward pass.

    With n = C x / s the derivative of `gain * n + shift` is

        frozen scale    J v = gain * C v / s
        its gradient    J v = gain * (C v - n mean(n * C v)) / s

    since `ds = mean(n * C v)`. C is symmetric, so the transpose of J has the same form with the gain first.
    """

    norm: Norm
    scale: Float[Tensor, "pos 1"]
    normalised: Float[Tensor, "pos d"] | None = None
    """n; None if the scale is constant."""

    @classmethod
    def of(cls, norm: Norm, x: Float[Tensor, "pos d"], *, frozen: bool) -> "LinearNorm":
        """Derivative at the norm's input x, with the scale as a constant (`frozen`) or as a function of x."""
        centred, scale = norm.centred_and_scale(x)
        return cls(norm, scale, None if frozen or not norm.divides else centred / scale)

    def jvp(self, tangent: Float[Tensor, "pos *more d"]) -> Float[Tensor, "pos *more d"]:
        """`J v`, of the shape of v."""
        return self._core(tangent) * self.norm.gain

    def vjp(self, cotangent: Float[Tensor, "pos *more d"]) -> Float[Tensor, "pos *more d"]:
        """`J^T g`, of the shape of g."""
        return self._core(cotangent * self.norm.gain)

    def _core(self, v: Tensor) -> Tensor:
        between = (len(self.scale), *[1] * (v.ndim - 2))
        if self.norm.centred:
            v = v - v.mean(dim=-1, keepdim=True)
        if self.normalised is not None:
            n = self.normalised.reshape(*between, -1)
            v = v - n * (n * v).mean(dim=-1, keepdim=True)
        return v / self.scale.reshape(*between, 1)


class LinearLayer:
    """One layer of one forward pass, linearised.

    Args:
        record: The layer record of one sequence.
        settings: Options of the decomposition.
        attention: Attention output as a sum; None means over all source tokens (`attend`).
        entering: The layer's input as a sum; None means each query's own token (`residual`).
    """

    def __init__(
        self,
        record: LayerRecord,
        settings: Settings,
        attention: Parts | None = None,
        entering: Parts | None = None,
    ) -> None:
        self.record = record.by_channel if attention is None else record
        self.block = self.record.block
        self.settings = settings
        # Steps up to the layer's output, which the vjp propagates through.
        self.steps = steps_to_output(record.block.order)
        # Cache of path coefficients at all queries, by number of the expert.
        self.paths: dict[int, PathCoefficients] = {}
        self._attention = attention
        self._entering = entering

    @torch.no_grad()
    def value(self, operation: Operation) -> Float[Tensor, "query d"]:
        """Output of a step, computed from the model's own tensors."""
        record, attention = self.record, self.block.attention
        match operation:
            case Attend():
                return _written(record.z, attention.w_o) + attention.b_o
            case Add(left, right) as added:
                by_branch, by_stream = self.block.factors(added)
                return by_branch * record.tensor(left) + by_stream * record.tensor(right)
            case Normalise(of, name):
                return self.block.norm(name)(record.tensor(of))
            case Feed(of):
                x, total = record.tensor(of), torch.zeros_like(record.tensor(of))
                for _, ff, weight in record.feed_forwards():
                    post = record.post if weight is None else ff.weighed(x, weight)
                    assert post is not None, "neither activations nor a router"
                    total += post @ ff.w_out + (ff.b_out if weight is None else weight[:, None] * ff.b_out)
                return total

    def parts(self, asked: Sequence[str] | None = None) -> dict[str, Parts]:
        """Vectors of every scope as sums, in the model's order: the jvp of all source tokens, with constants.

        The norm before attention is not among these steps. It is applied at the keys, where tokens are not mixed yet, and
        values were captured after it.

        Args:
            asked: Scopes after the last of which the computation ends; None means all scopes of the order.
        """
        done: dict[str, Parts] = {}
        for step in STEPS[self.block.order]:
            done[step.scope] = self.settle(step.scope, self.jvp(step.operation, done))
            if asked is not None and done.keys() >= set(asked):
                break
        return done

    def jvp(self, operation: Operation, done: Mapping[str, Parts]) -> Parts:
        """Parts after one step, from those of the scopes before it; the step's constant is in the bias part."""

        def operand(name: str) -> Parts:
            return self.input() if name == INPUT else done[name]

        match operation:
            case Attend():
                given = self._attention
                return attend(self.record, value_bias=self.settings.value_bias) if given is None else given
            case Add(left, right) as added:
                by_branch, by_stream = self.block.factors(added)
                return self.multiplied(operand(left), by_branch) + self.multiplied(operand(right), by_stream)
            case Normalise(of, name):
                return normalise(operand(of), self.block.norm(name), self.record.scale(of, name))
            case Feed(of):
                return self.feed_forward(operand(of), self.record.tensor(of))

    def multiplied(self, parts: Parts, factor: float) -> Parts:
        """Parts of a term of a sum times its factor."""
        return parts if factor == 1 else parts.map(lambda vector: factor * vector)

    def settle(self, scope: str, parts: Parts) -> Parts:
        """Parts of a scope; if the block was edited, the effect of the edit becomes the remainder."""
        return reconcile(parts, self.record.whole[scope], self.settings.rtol) if self.record.edited else parts

    def input(self) -> Parts:
        """The layer's input as a sum: all of it is the contribution of the query's own token."""
        record, given = self.record, self._entering
        return residual(record.tensor(INPUT), record.queries, len(record.resid_pre)) if given is None else given

    def feed_forward(self, parts: Parts, x: Float[Tensor, "query d"]) -> Parts:
        """Parts after the feed-forward. Experts are summed with the fixed router weights.

        Args:
            parts: The feed-forward's input as a sum.
            x: The model's own tensor of that input.
        """
        out = None
        for number, ff, weight in self.record.feed_forwards():
            dense = project(self.neuron_shares(parts, number, ff, x), ff.w_out, ff.b_out)
            if weight is None:
                return dense
            weighed = weigh(dense, weight[:, None])
            out = weighed if out is None else out + weighed
        return Parts(torch.zeros_like(parts.tokens), torch.zeros_like(parts.bias)) if out is None else out

    def neuron_shares(self, parts: Parts, number: int, ff: FeedForward, x: Float[Tensor, "query d"]) -> Parts:
        """Activations of all neurons as sums over source tokens: Integrated Gradients through the activation (eq. 12-14, 44)."""
        pairs = zip(ff.inputs, self.record.pre_activations(ff, x), strict=False)
        players = [self.players(parts, w, b, real) for (_, w, b), real in pairs if real is not None]
        if self.settings.method == "captum":
            return self._by_captum(number, ff, players)
        path = self.path(number, ff, x)
        shared = reduce(add, [weigh(of, factor) for of, factor in zip(players, path.factors, strict=True)])
        return replace(shared, bias=shared.bias + path.baseline)

    def _by_captum(self, number: int, ff: FeedForward, players: Sequence[Parts]) -> Parts:
        factor, weight = self.record.post_factor, self.record.input_weight(number, ff)
        if weight is not None:  # multiplied here, and later as a factor of the output
            players = [weigh(of, weight) for of in players]
            factor = 1 / torch.where(weight == 0, 1, weight)
        integrated = captum_shares(ff.activation, players, self.settings.n_steps)
        return integrated if factor is None else weigh(integrated, factor)

    def path(self, number: int, ff: FeedForward, x: Float[Tensor, "query d"]) -> PathCoefficients:
        """Path coefficients of Integrated Gradients at all queries, of the expert of a number."""
        if number not in self.paths:
            self.paths[number] = self.record.coefficients(number, ff, x)
        return self.paths[number]

    def players(
        self,
        parts: Parts,
        weight: Float[Tensor, "d d_mlp"],
        bias: Float[Tensor, " d_mlp"],
        real: Float[Tensor, "query d_mlp"],
    ) -> Parts:
        """Terms of a pre-activation; if the block was edited, the gap to its value `real` becomes the remainder."""
        players = project(parts, weight, bias)
        return reconcile(players, real, self.settings.rtol) if self.record.edited else players

    def vjp(self, by_output: Float[Tensor, "query d"]) -> dict[str, Float[Tensor, "query d"]]:
        """Derivatives of a target by the tensor at every scope and by the layer's input, from that by the layer's output.

        The record must have all positions as queries.
        """
        return self._pull(self.steps[-1].scope, by_output, to_keys=True)

    def vjp_cells(self, scope: str, by_scope: Float[Tensor, "query d"]) -> Float[Tensor, "query key"]:
        """Attributions `<F_i(x_j), g_i>` at a scope [query key], signed; g is the target's derivative by the scope's tensor."""
        record, found = self.record, self._pull(scope, by_scope, to_keys=False)
        cells = by_scope.new_zeros(len(by_scope), len(record.resid_pre))
        (attend_step,) = (step for step in self.steps if isinstance(step.operation, Attend))
        if attend_step.scope in found:
            cells += self.attention_cells(found[attend_step.scope])
        if INPUT in found:
            cells[torch.arange(len(cells)), record.queries] += (record.tensor(INPUT) * found[INPUT]).sum(dim=-1)
        return cells

    def _pull(self, scope: str, by_scope: Tensor, *, to_keys: bool) -> dict[str, Tensor]:
        """Derivatives by all operands of a scope in its own row; with `to_keys` also by attention's input at the keys."""
        found = {scope: by_scope}
        for step in reversed(self.steps):
            if step.scope in found and (to_keys or not isinstance(step.operation, Attend)):
                for name, by_operand in self._vjp_of(step, found[step.scope]):
                    found[name] = found[name] + by_operand if name in found else by_operand
        return found

    def _vjp_of(self, step: Step, cotangent: Float[Tensor, "query d"]) -> list[tuple[str, Float[Tensor, "query d"]]]:
        match step.operation:
            case Attend(of):
                return [(of, self.vjp_attention(cotangent))]
            case Add(left, right) as added:
                by_branch, by_stream = self.block.factors(added)
                return [(left, by_branch * cotangent), (right, by_stream * cotangent)]
            case Normalise(of, name):
                return [(of, LinearNorm.of(self.block.norm(name), self.record.tensor(of), frozen=True).vjp(cotangent))]
            case Feed(of):
                return [(of, self.vjp_feed_forward(cotangent, self.record.tensor(of)))]

    def _by_head(self, cotangent: Float[Tensor, "query d"]) -> Float[Tensor, "query head e"]:
        return einsum(cotangent, self.block.attention.w_o, "query d, head e d -> query head e")

    def attention_cells(self, cotangent: Float[Tensor, "query d"]) -> Float[Tensor, "query key"]:
        """Attributions to each source token's contribution by attention: `sum_h P_ij <v_j - constant, W_O^h g_i>`."""
        values = self.record.head_values - self.block.value_constant
        products = einsum(self._by_head(cotangent), values, "query head e, key head e -> head query key")
        return (self.record.pattern * products).sum(dim=0)

    def vjp_attention(self, cotangent: Float[Tensor, "query d"]) -> Float[Tensor, "key d"]:
        """Derivatives by attention's input at each key, through its values."""
        w_v = self.block.attention.w_v
        by_value = einsum(self.record.pattern, self._by_head(cotangent), "head query key, query head e -> key head e")
        shared = by_value.reshape(len(by_value), len(w_v), -1, by_value.shape[-1]).sum(dim=2)
        latent, norm, value_norm = self.block.attention.latent, self.block.attn_norm, self.block.attention.value_norm
        x = self.record.resid_pre if norm is None else norm(self.record.resid_pre)
        if value_norm is not None:
            values = einsum(x, w_v, "key d, kv_head d e -> key kv_head e")
            linear = LinearNorm.of(value_norm, values.flatten(0, 1), frozen=True)
            shared = linear.vjp(shared.flatten(0, 1)).view(shared.shape)
        by_input = einsum(shared, w_v, "key kv_head e, kv_head d e -> key d")
        if latent is None:
            return by_input
        return LinearNorm.of(latent.norm, x @ latent.w_down, frozen=True).vjp(by_input) @ latent.w_down.T

    def vjp_feed_forward(
        self, cotangent: Float[Tensor, "query d"], x: Float[Tensor, "query d"]
    ) -> Float[Tensor, "query d"]:
        """Derivatives by the feed-forward's input x."""
        total = torch.zeros_like(cotangent)
        for number, ff, weight in self.record.feed_forwards():
            by_post = (cotangent if weight is None else cotangent * weight[:, None]) @ ff.w_out.T
            pairs = zip(ff.inputs, self.path(number, ff, x).factors, strict=True)
            total += reduce(add, [(by_post * factor) @ w.T for (_, w, _), factor in pairs])
        return total


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Decomposition(Result):
    """Contribution vectors of one layer and one sequence, by scope: parts, bias part, remainder and the model's own tensor.

    At every scope and query `parts.sum(1) + bias + remainder = whole`, up to the error that `completeness` gives.
    """

    layer: int
    order: Order
    queries: tuple[int, ...]
    """Positions of the rows."""
    sums: Mapping[str, Parts]
    """Sums by scope; `parts(scope)`, `bias(scope)` and `remainder(scope)` return their tensors."""
    tensors: Mapping[str, Float[Tensor, "query d_model"]]
    """The model's own tensors by scope; `whole(scope)` returns them."""
    channels: tuple[str, ...] = ()
    """Names of the first axis of `heads`: "head 0", ..., and "residual", last; empty if heads were not asked for."""
    by_head: Mapping[str, Float[Tensor, "head query key d_model"]] = field(default_factory=dict)
    """Vectors through each head, by scope; `heads(scope)` returns them."""
    expert_channels: tuple[str, ...] = ()
    """Names of the first axis of `experts`: "expert 0", ..., and "no expert", last; empty if experts were not asked for."""
    by_expert: Mapping[str, Float[Tensor, "expert query key d_model"]] = field(default_factory=dict)
    """Vectors through each expert, by scope; `experts(scope)` returns them."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """Names of the scopes, in sequence."""
        return tuple(self.sums)

    def parts(self, scope: str) -> Float[Tensor, "query key d_model"]:
        """Contribution vectors `F_i(x_j)` of source token j to query i.

        Raises:
            ScopeKeyError: if the layer has no such scope.
        """
        return self._at(scope).tokens

    def heads(self, scope: str) -> Float[Tensor, "head query key d_model"]:
        """Contribution vectors through each head, then the residual connection, in the order of `channels`.

        With all heads they sum to `parts`.

        Raises:
            ScopeKeyError: if the layer has no such scope.
            InputError: if heads were not asked for.
        """
        self._at(scope)
        if not self.by_head:
            raise InputError(
                "no heads here. Use decompose(model, input, layer=..., heads=True), which keeps their vectors."
            )
        return self.by_head[scope]

    def experts(self, scope: str) -> Float[Tensor, "expert query key d_model"]:
        """Contribution vectors through each expert, then through none, in the order of `expert_channels`.

        With all experts they sum to `parts`.

        Raises:
            ScopeKeyError: if the layer has no such scope.
            InputError: if experts were not asked for.
        """
        self._at(scope)
        if not self.by_expert:
            raise InputError(
                "no experts here. Use decompose(model, input, layer=..., experts=True), which keeps their vectors."
            )
        return self.by_expert[scope]

    def bias(self, scope: str) -> Float[Tensor, "query d_model"]:
        """Bias part b_i, the contribution of no token.

        Raises:
            ScopeKeyError: if the layer has no such scope.
        """
        return self._at(scope).bias

    def remainder(self, scope: str) -> Float[Tensor, "query d_model"]:
        """Effect of edits that user hooks made inside the block, else zero.

        Raises:
            ScopeKeyError: if the layer has no such scope.
        """
        part = self._at(scope)
        return torch.zeros_like(part.bias) if part.remainder is None else part.remainder

    def whole(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The model's own tensor at this scope.

        Raises:
            ScopeKeyError: if the layer has no such scope.
        """
        self._at(scope)
        return self.tensors[scope]

    def completeness(self, scope: str) -> Float[Tensor, " query"]:
        """Relative completeness error `||sum of parts + bias + remainder - whole|| / ||whole||` (see `Parts.error`).

        Raises:
            ScopeKeyError: if the layer has no such scope.
        """
        return self._at(scope).error(self.whole(scope))

    def _at(self, scope: str) -> Parts:
        if scope not in self.sums:
            raise ScopeKeyError(missing_scope(scope, self.sums))
        return self.sums[scope]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per scope, query and key: the layer, and as value the norm of the contribution vector."""
        norms = torch.stack([sums.tokens.norm(dim=-1) for sums in self.sums.values()])[:, None]
        axes: dict[str, Sequence[int | str]] = {
            "scope": self.scopes,
            "layer": (self.layer,),
            "query": self.queries,
            "key": range(norms.shape[-1]),
        }
        return long_form(norms, axes)

    def summary(self) -> tuple[str, Mapping[str, object]]:
        """The layer, the shape of its vectors, and its scopes."""
        shape = " x ".join(map(str, next(iter(self.sums.values())).tokens.shape))
        return f"layer {self.layer} ({self.order}), [query key d_model] = {shape}", {"scopes": ", ".join(self.scopes)}


def decompose_record(record: LayerRecord, settings: Settings) -> Decomposition:
    """Decomposition of one sequence's record (no batch axis) at all scopes."""
    sums, queries = LinearLayer(record, settings).parts(), tuple(record.queries.tolist())
    return Decomposition(record.layer, record.block.order, queries, sums, record.whole)


def carried(value: Float[Tensor, "*shape"], form: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`value` with the gradient of `form`."""
    return _linearised(value.detach(), partial(_vjp_of_form, form.dtype, form.shape), [form])


def scaled(x: Float[Tensor, "..."], gate: Float[Tensor, "batch pos"]) -> Float[Tensor, "..."]:
    """`x` with a gate of ones on it; x is [batch pos ...], or has this memory layout."""
    return _linearised(x.detach(), partial(_vjp_of_gate, gate.shape), [x, gate], x.detach())


def added(
    y: Float[Tensor, "..."], gate: Float[Tensor, "*position"], bias: Float[Tensor, " width"]
) -> Float[Tensor, "..."]:
    """`y` with a gate of ones on a bias that it contains; y is [batch pos width], or has this memory layout."""
    gated = _linearised(y.detach(), partial(_vjp_of_bias, gate.shape), [y, gate], bias.to(y))
    return gated.clone()  # the model may add in place to the output of a bias (Falcon)


def normed(
    value: Float[Tensor, "..."], norm: Norm, x: Float[Tensor, "*lead d"]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "*lead d"]]:
    """A norm's output with the vjp of its linear form, and that form without a vjp.

    The form is linear in the input: the scale is a constant of the forward pass (eq. 28-34 for one part).
    """
    wide = x.to(norm.gain.dtype)
    with torch.no_grad():
        centred, scale = norm.centred_and_scale(wide.detach())
        form = (centred / scale).mul_(norm.gain).add_(norm.shift)
    return _linearised(value.detach(), partial(_vjp_of_norm, x.shape, norm.centred), [wide], norm.gain, scale), form


def activated(
    value: Float[Tensor, "..."],
    coefficients: PathCoefficients,
    pre: Float[Tensor, "*shape"],
    pre_linear: Float[Tensor, "*shape"] | None,
) -> tuple[Float[Tensor, "..."], Float[Tensor, "*shape"]]:
    """An activation's output with the vjp of `shared`, and that linear form without a vjp."""
    inputs = [pre] if pre_linear is None else [pre, pre_linear]
    onward = _linearised(value.detach(), _vjp_of_products, inputs, *coefficients.factors)
    with torch.no_grad():
        return onward, shared(coefficients, pre, pre_linear)


def shared(
    coefficients: PathCoefficients, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
) -> Float[Tensor, "*shape"]:
    """An activation's output as the linear form of its pre-activations given by Integrated Gradients."""
    form = pre * coefficients.on_pre + coefficients.baseline
    on_linear = coefficients.on_linear
    return form if pre_linear is None or on_linear is None else torch.addcmul(form, pre_linear, on_linear)


def secant(value: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """Output of an elementwise function g with g(0) = 0 and g'(0) = 1, as `x (g(x) / x)`: Integrated Gradients from zero."""
    slope = value.detach() / torch.where(x == 0, 1, x.detach())
    return x * torch.where(x.detach() == 0, 1, slope)


def _linearised(
    value: Tensor, vjp: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor], *constants: Tensor
) -> Tensor:
    return _Linearised.apply(value, vjp, len(inputs), *inputs, *constants)


class _Linearised(torch.autograd.Function):
    """A value whose cotangent goes to the inputs by `vjp(cotangent, *constants)`, whatever computed the value."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, vjp: Callable[..., tuple[Tensor, ...]], n: int, *tensors: Tensor) -> Tensor:
        ctx.save_for_backward(*tensors[n:])
        ctx.vjp = vjp
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, cotangent: Tensor) -> tuple[Tensor | None, ...]:
        constants = ctx.saved_tensors
        return None, None, None, *ctx.vjp(cotangent, *constants), *(None for _ in constants)


def _vjp_of_form(dtype: torch.dtype, shape: torch.Size, cotangent: Tensor) -> tuple[Tensor]:
    return (cotangent.to(dtype).reshape(shape),)


def _vjp_of_norm(shape: torch.Size, centred: bool, cotangent: Tensor, gain: Tensor, scale: Tensor) -> tuple[Tensor]:
    by_centred = cotangent.to(gain.dtype).reshape(shape) * gain / scale
    return (by_centred - by_centred.mean(dim=-1, keepdim=True) if centred else by_centred,)


def _vjp_of_products(cotangent: Tensor, *factors: Tensor) -> tuple[Tensor, ...]:
    wide = cotangent.to(factors[0].dtype).reshape(factors[0].shape)
    return tuple(wide * factor for factor in factors)


def _vjp_of_gate(shape: torch.Size, cotangent: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    return cotangent, (cotangent * x).reshape(*shape, -1).sum(dim=-1)


def _vjp_of_bias(shape: torch.Size, cotangent: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    return cotangent, cotangent.reshape(*shape, -1) @ bias.reshape(-1)
