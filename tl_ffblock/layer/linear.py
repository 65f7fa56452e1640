"""One layer at one run as a linear map: value, jvp, vjp and constant of every step.

With pattern, norm scales, router weights and path coefficients those of the run, a layer is linear in what flows, up to
constants. C is the centring, s the scale, r, u B and A the path coefficients (activations.py):

    step       jvp of v                                     constant   vjp of a cotangent g
    add        v1 + v2                                                 g to both operands
    normalise  gain * C v / s                               shift      C (g gain) / s
    feed       (r * v W_in) W_out                           biases     ((g W_out^T) r) W_in^T
      gated    (u B * v W_gate + A * v W_in) W_out          biases     ((g W_out^T) u B) W_gate^T + ((g W_out^T) A) W_in^T
    attend     sum_h P_ij v_j W_V^h W_O^h                   eq. 21     of cell (i, j): sum_h P_ij <v_j - constant, W_O^h g_i>

The jvp takes a vector as a sum (`Parts`): every source token's part through the linear map, constants to the bias part.
The vjp leads from a target's derivative by the layer's output to that by every scope and by the input. If g is the derivative
at a scope, `F_i(x_j)` carries `<F_i(x_j), g_i>` of the target; that takes one vjp and no vectors, whatever the number of
pairs. A new kind of step is one more arm in `value`, `jvp` and `_vjp_of`, and one in the plan of fast/vector_norms.py. Equation
numbers are those of Kobayashi et al. 2024.

`Decomposition` is the reference implementation: every source token goes through the jvp alone, and after every step the sum of
the parts can be compared with the model's own tensor. `fast/vector_norms.py` gives the norms of the same vectors without making them.

At the end of the file are values that keep their numbers and get another vjp, for a backward pass through replaced local rules:

* `carried(value, form)` is `value`; its cotangent goes to `form`, a local linear form of equal value. `normed` and `activated`
  are the same for the linearised norm and activation of every layer, whose backward passes keep the coefficients alone.
* A **gate of ones** is a leaf of zeros, one number per position: `scaled(x, gate)` is `x (1 + gate)` and `added(y, gate, b)` is
  `y + gate b`, at a gate of zero x and y themselves. A target's derivative by a gate is the share of what the gate
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
"""Below this share of its largest term a sum has cancelled."""


@dataclass(frozen=True, eq=False)
class Parts(Values):
    """A vector at every query, written as a sum over source tokens, bias and remainder.

    `y_i = sum_j F_i(x_j) + b_i + e_i`: e is the effect of edits made inside the block, else zero.
    """

    tokens: Float[Tensor, "query key d"]
    bias: Float[Tensor, "query d"]
    remainder: Float[Tensor, "query d"] | None = None
    """None stands for zero: no edit inside the block."""

    def total(self) -> Float[Tensor, "query d"]:
        """The sum of all parts."""
        total = self.tokens.sum(dim=1) + self.bias
        return total if self.remainder is None else total + self.remainder

    def error(self, whole: Float[Tensor, "query d"]) -> Float[Tensor, " query"]:
        """Relative completeness error: what the parts' sum misses, by the norm of the model's own tensor.

        Where that tensor is less than a thousandth of what cancels in it (all contributions subtracted
        by a hook, say), rounding is all that is left, and a thousandth of the largest term stands for it.
        """
        terms = torch.stack([self.tokens.sum(dim=1), self.bias, *([] if self.remainder is None else [self.remainder])])
        return completeness_errors(terms, whole)

    def map(self, linear: Callable[[Tensor], Tensor]) -> "Parts":
        """Apply a linear function of query and last axis to every part; it gets `[query player d]`."""
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
    """The relative completeness error (`Parts.error`) of sums of some terms, for one scope or for several at once.

    Args:
        terms: What is summed.
        whole: The model's own tensors.
        sizes: The terms' norms, where they are known.
    """
    largest = (terms.norm(dim=-1) if sizes is None else sizes).amax(dim=0)
    size = torch.maximum(whole.norm(dim=-1), CANCELLED * largest)
    return (reduce(add, terms.unbind()) - whole).norm(dim=-1) / torch.where(size == 0, 1, size)


def alone(x: Float[Tensor, "query d"]) -> Parts:
    """X as the only part of every query: the "key" axis has length one."""
    return Parts(x[:, None], torch.zeros_like(x))


def residual(x: Float[Tensor, "query d"], queries: Int[Tensor, " query"], n_keys: int) -> Parts:
    """x_i as the part of key j = i: the residual connection (eq. 26-27)."""
    tokens = x.new_zeros(len(x), n_keys, x.shape[-1])
    tokens[torch.arange(len(x), device=x.device), queries] = x
    return Parts(tokens, torch.zeros_like(x))


def attend(record: LayerRecord, *, value_bias: str) -> Parts:
    """Attention as a sum over source tokens (eq. 18-21).

    `F_i(x_j) = sum_h alpha[h,i,j] v[h,j] W_O[h]` with v without its constant, see `token_values`. The
    constant goes to the bias times the row sum of the pattern: 1 unless there are attention sinks.
    """
    value, constant = token_values(record, value_bias)
    written = einsum(value, record.block.attention.w_o, "key head d_head, head d_head d -> head key d")
    tokens = einsum(record.pattern, written, "head query key, head key d -> query key d")
    return Parts(tokens, attention_bias(record, constant))


def token_values(
    record: LayerRecord, value_bias: str
) -> tuple[Float[Tensor, "key head d_head"], Float[Tensor, "head d_head"]]:
    """The values that tokens contribute, for every head, and the constant taken out of them.

    The constant is b_V and the norm's beta through W_V (eq. 7, 21); `value_bias="token"` leaves it in.
    """
    constant = value_constant(record, value_bias)
    return record.head_values - constant, constant


def value_constant(record: LayerRecord, value_bias: str) -> Float[Tensor, "head d_head"]:
    """What of every value is the bias part's and no token's."""
    learned = record.block.value_constant
    return torch.zeros_like(learned) if value_bias == "token" else learned


def attention_bias(record: LayerRecord, constant: Float[Tensor, "head d_head"]) -> Float[Tensor, "query d"]:
    """`sum_h rowsum(alpha[h,i]) constant[h] W_O[h] + b_O`."""
    weights = record.block.attention
    written = einsum(constant, weights.w_o, "head d_head, head d_head d -> head d")
    return einsum(record.pattern_sums, written, "head query, head d -> query d") + weights.b_o


def normalise(parts: Parts, norm: Norm, scale: Float[Tensor, "query 1"]) -> Parts:
    """LayerNorm or RMSNorm with the scale of the real, whole vector (eq. 28-34); beta joins the bias."""
    scaled = parts.map(lambda vector: norm.linear(vector) / scale[:, None])
    return replace(scaled, bias=scaled.bias + norm.shift)


def project(parts: Parts, weight: Float[Tensor, "d e"], bias: Float[Tensor, " e"]) -> Parts:
    """A linear layer; its bias joins the bias part."""
    mapped = parts.map(lambda vector: vector @ weight)
    return replace(mapped, bias=mapped.bias + bias)


def weigh(parts: Parts, weight: Float[Tensor, "query d"]) -> Parts:
    """Multiply every part of a query elementwise by the same weights."""
    return parts.map(lambda vector: vector * weight[:, None])


def reconcile(parts: Parts, whole: Float[Tensor, "query d"], rtol: float) -> Parts:
    """Give the remainder what is missing to the model's own tensor, at queries where more than rtol is."""
    gap = whole - parts.total()
    gap = gap * (parts.error(whole) > rtol)[:, None]
    return replace(parts, remainder=gap if parts.remainder is None else parts.remainder + gap)


def captum_shares(activation: Activation, players: Sequence[Parts], n_steps: int) -> Parts:
    """Attribute the activation's output to the players of its pre-activation(s) by captum's Gauss-Legendre rule (appendix E).

    The players of one position are one example: tokens, bias and remainder by neuron. The function
    is the sum of all neurons' outputs, whose gradient with respect to a player's neuron is that
    neuron's own, so one call gives all attributions.
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
    """The derivative of a norm at every position of one run.

    With n = C x / s the derivative of `gain * n + shift` is

        frozen scale    J v = gain * C v / s
        its gradient    J v = gain * (C v - n mean(n * C v)) / s

    since `ds = mean(n * C v)`. C is symmetric, so J's transpose has the same form with the gain first.
    """

    norm: Norm
    scale: Float[Tensor, "pos 1"]
    normalised: Float[Tensor, "pos d"] | None = None
    """n, where the scale is not constant."""

    @classmethod
    def of(cls, norm: Norm, x: Float[Tensor, "pos d"], *, frozen: bool) -> "LinearNorm":
        """The derivative at the norm's input x, with the scale as a constant or not."""
        centred, scale = norm.centred_and_scale(x)
        return cls(norm, scale, None if frozen or not norm.divides else centred / scale)

    def jvp(self, tangent: Float[Tensor, "pos *more d"]) -> Float[Tensor, "pos *more d"]:
        """`J v`."""
        return self._core(tangent) * self.norm.gain

    def vjp(self, cotangent: Float[Tensor, "pos *more d"]) -> Float[Tensor, "pos *more d"]:
        """`J^T g`."""
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
    """One layer at one run, frozen.

    Args:
        record: The run of one sequence.
        settings: How the decomposition is made.
        attention: Attention's output as a sum; None means over all source tokens (`attend`).
        entering: The layer's input as a sum; None means of every query's own token (`residual`).
    """

    def __init__(
        self,
        record: LayerRecord,
        settings: Settings,
        attention: Parts | None = None,
        entering: Parts | None = None,
    ) -> None:
        self.record = record
        self.block = record.block
        self.settings = settings
        # The steps up to the layer's output, which the vjp takes.
        self.steps = steps_to_output(record.block.order)
        # Path coefficients at every query by number of the expert, as far as they were made.
        self.paths: dict[int, PathCoefficients] = {}
        self._attention = attention
        self._entering = entering

    @torch.no_grad()
    def value(self, operation: Operation) -> Float[Tensor, "query d"]:
        """What a step makes of the model's own tensors."""
        record, attention = self.record, self.block.attention
        match operation:
            case Attend():
                z = einsum(record.pattern, record.head_values, "head query key, key head e -> query head e")
                return einsum(z, attention.w_o, "query head e, head e d -> query d") + attention.b_o
            case Add(left, right):
                return record.tensor(left) + record.tensor(right)
            case Normalise(of, name):
                return self.block.norm(name)(record.tensor(of))
            case Feed(of):
                x, total = record.tensor(of), torch.zeros_like(record.tensor(of))
                for _, ff, weight in record.feed_forwards():
                    post = record.post if weight is None else ff.activation.output(*ff.pre_activations(x))
                    assert post is not None, "neither activations nor a router"
                    out = post @ ff.w_out + ff.b_out
                    total += out if weight is None else weight[:, None] * out
                return total

    def parts(self, asked: Sequence[str] | None = None) -> dict[str, Parts]:
        """Every scope's vector as a sum, in the model's order: the jvp of all source tokens, with constants.

        The norm before attention is not among these steps: it is taken at the keys, where a token is still
        alone, and the values after it were captured.

        Args:
            asked: Scopes, with the last of which it ends; None means all.
        """
        done: dict[str, Parts] = {}
        for step in STEPS[self.block.order]:
            done[step.scope] = self.settle(step.scope, self.jvp(step.operation, done))
            if asked is not None and done.keys() >= set(asked):
                break
        return done

    def jvp(self, operation: Operation, done: Mapping[str, Parts]) -> Parts:
        """One step of the scopes before it: of every part, with the step's constant in the bias part."""

        def operand(name: str) -> Parts:
            return self.input() if name == INPUT else done[name]

        match operation:
            case Attend():
                given = self._attention
                return attend(self.record, value_bias=self.settings.value_bias) if given is None else given
            case Add(left, right):
                return operand(left) + operand(right)
            case Normalise(of, name):
                return normalise(operand(of), self.block.norm(name), self.record.scale(of, name))
            case Feed(of):
                return self.feed_forward(operand(of), self.record.tensor(of))

    def settle(self, scope: str, parts: Parts) -> Parts:
        """With edits inside the block: what the edit added becomes the remainder."""
        return reconcile(parts, self.record.whole[scope], self.settings.rtol) if self.record.edited else parts

    def input(self) -> Parts:
        """The layer's input, all of it its own token's."""
        record, given = self.record, self._entering
        return residual(record.tensor(INPUT), record.queries, len(record.resid_pre)) if given is None else given

    def feed_forward(self, parts: Parts, x: Float[Tensor, "query d"]) -> Parts:
        """Feed-forward of parts whose whole is x; experts each on their own, weighed by the frozen router."""
        out = None
        for number, ff, weight in self.record.feed_forwards():
            dense = project(self.neuron_shares(parts, number, ff, x), ff.w_out, ff.b_out)
            if weight is None:
                return dense
            weighed = weigh(dense, weight[:, None])
            out = weighed if out is None else out + weighed
        return Parts(torch.zeros_like(parts.tokens), torch.zeros_like(parts.bias)) if out is None else out

    def neuron_shares(self, parts: Parts, number: int, ff: FeedForward, x: Float[Tensor, "query d"]) -> Parts:
        """Every neuron's output as a sum over source tokens: Integrated Gradients through the activation (eq. 12-14, 44)."""
        pairs = zip(ff.inputs, self.record.pre_activations(ff, x), strict=False)
        players = [self.players(parts, w, b, real) for (_, w, b), real in pairs if real is not None]
        if self.settings.method == "captum":
            return captum_shares(ff.activation, players, self.settings.n_steps)
        path = self.path(number, ff, x)
        shared = reduce(add, [weigh(of, factor) for of, factor in zip(players, path.factors, strict=True)])
        return replace(shared, bias=shared.bias + path.baseline)

    def path(self, number: int, ff: FeedForward, x: Float[Tensor, "query d"]) -> PathCoefficients:
        """What Integrated Gradients multiplies the parts of the pre-activations by, for the expert of a number."""
        if number not in self.paths:
            self.paths[number] = ff.activation.coefficients(*self.record.pre_activations(ff, x))
        return self.paths[number]

    def players(
        self,
        parts: Parts,
        weight: Float[Tensor, "d d_mlp"],
        bias: Float[Tensor, " d_mlp"],
        real: Float[Tensor, "query d_mlp"],
    ) -> Parts:
        """The parts of a pre-activation, whose real value is known."""
        players = project(parts, weight, bias)
        return reconcile(players, real, self.settings.rtol) if self.record.edited else players

    def vjp(self, by_output: Float[Tensor, "query d"]) -> dict[str, Float[Tensor, "query d"]]:
        """A target's derivative by the tensor at every scope and by the layer's input, from that by its output.

        All positions are queries.
        """
        return self._pull(self.steps[-1].scope, by_output, to_keys=True)

    def vjp_cells(self, scope: str, by_scope: Float[Tensor, "query d"]) -> Float[Tensor, "query key"]:
        """`<F_i(x_j), g_i>` at a scope, signed: what each contribution carries to the target whose derivative g is."""
        record, found = self.record, self._pull(scope, by_scope, to_keys=False)
        cells = by_scope.new_zeros(len(by_scope), len(record.resid_pre))
        (attend_step,) = (step for step in self.steps if isinstance(step.operation, Attend))
        if attend_step.scope in found:
            cells += self.attention_cells(found[attend_step.scope])
        if INPUT in found:
            cells[torch.arange(len(cells)), record.queries] += (record.tensor(INPUT) * found[INPUT]).sum(dim=-1)
        return cells

    def _pull(self, scope: str, by_scope: Tensor, *, to_keys: bool) -> dict[str, Tensor]:
        """Derivatives by all that a scope is made of, in its own row; with what attention reads at keys if asked."""
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
            case Add(left, right):
                return [(left, cotangent), (right, cotangent)]
            case Normalise(of, name):
                return [(of, LinearNorm.of(self.block.norm(name), self.record.tensor(of), frozen=True).vjp(cotangent))]
            case Feed(of):
                return [(of, self.vjp_feed_forward(cotangent, self.record.tensor(of)))]

    def _by_head(self, cotangent: Float[Tensor, "query d"]) -> Float[Tensor, "query head e"]:
        return einsum(cotangent, self.block.attention.w_o, "query d, head e d -> query head e")

    def attention_cells(self, cotangent: Float[Tensor, "query d"]) -> Float[Tensor, "query key"]:
        """`sum_h P_ij <v_j - constant, W_O^h g_i>`: what every source token's part of attention carries."""
        values = self.record.head_values - self.block.value_constant
        products = einsum(self._by_head(cotangent), values, "query head e, key head e -> head query key")
        return (self.record.pattern * products).sum(dim=0)

    def vjp_attention(self, cotangent: Float[Tensor, "query d"]) -> Float[Tensor, "key d"]:
        """By what attention reads at each key, through its values."""
        w_v = self.block.attention.w_v
        by_value = einsum(self.record.pattern, self._by_head(cotangent), "head query key, query head e -> key head e")
        shared = by_value.reshape(len(by_value), len(w_v), -1, by_value.shape[-1]).sum(dim=2)
        return einsum(shared, w_v, "key kv_head e, kv_head d e -> key d")

    def vjp_feed_forward(
        self, cotangent: Float[Tensor, "query d"], x: Float[Tensor, "query d"]
    ) -> Float[Tensor, "query d"]:
        """By what the feed-forward reads, x."""
        total = torch.zeros_like(cotangent)
        for number, ff, weight in self.record.feed_forwards():
            by_post = (cotangent if weight is None else cotangent * weight[:, None]) @ ff.w_out.T
            pairs = zip(ff.inputs, self.path(number, ff, x).factors, strict=True)
            total += reduce(add, [(by_post * factor) @ w.T for (_, w, _), factor in pairs])
        return total


@strict
@dataclass(frozen=True, repr=False, eq=False)
class Decomposition(Result):
    """One layer's vectors of one sequence: parts, bias, remainder and the model's own tensor, by scope.

    For every scope and query: `parts.sum(1) + bias + remainder = whole`, up to `completeness`.
    """

    layer: int
    order: Order
    queries: tuple[int, ...]
    """Position of each row."""
    sums: Mapping[str, Parts]
    """By scope; `parts(scope)`, `bias(scope)` and `remainder(scope)` read them."""
    tensors: Mapping[str, Float[Tensor, "query d_model"]]
    """By scope, the model's own; `whole(scope)` reads them."""
    channels: tuple[str, ...] = ()
    """Names of the head axis of `heads`: "head 0", ..., and "residual", last; empty where heads were not asked for."""
    by_head: Mapping[str, Float[Tensor, "head query key d_model"]] = field(default_factory=dict)
    """By scope; `heads(scope)` reads them."""
    expert_channels: tuple[str, ...] = ()
    """Names of the first axis of `experts`: "expert 0", ..., and "no expert", last; empty where experts were not asked for."""
    by_expert: Mapping[str, Float[Tensor, "expert query key d_model"]] = field(default_factory=dict)
    """By scope; `experts(scope)` reads them."""

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes in sequence."""
        return tuple(self.sums)

    def parts(self, scope: str) -> Float[Tensor, "query key d_model"]:
        """The vectors `F_i(x_j)`."""
        return self._at(scope).tokens

    def heads(self, scope: str) -> Float[Tensor, "head query key d_model"]:
        """The vectors through each head, then the residual connection, as `channels` names them; they sum to `parts`.

        Raises:
            InputError: if heads were not asked for.
        """
        self._at(scope)
        if not self.by_head:
            raise InputError("no heads here: decompose(model, input, layer=..., heads=True) keeps their vectors.")
        return self.by_head[scope]

    def experts(self, scope: str) -> Float[Tensor, "expert query key d_model"]:
        """The vectors through each expert, then through none, as `expert_channels` names them; with all experts they sum to `parts`.

        Raises:
            InputError: if experts were not asked for.
        """
        self._at(scope)
        if not self.by_expert:
            raise InputError("no experts here: decompose(model, input, layer=..., experts=True) keeps their vectors.")
        return self.by_expert[scope]

    def bias(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The bias part."""
        return self._at(scope).bias

    def remainder(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The effect of edits that other hooks made inside the block, else zero."""
        part = self._at(scope)
        return torch.zeros_like(part.bias) if part.remainder is None else part.remainder

    def whole(self, scope: str) -> Float[Tensor, "query d_model"]:
        """The model's own tensor at this point."""
        self._at(scope)
        return self.tensors[scope]

    def completeness(self, scope: str) -> Float[Tensor, " query"]:
        """Relative completeness error `||sum of parts + bias + remainder - whole|| / ||whole||` (`Parts.error`)."""
        return self._at(scope).error(self.whole(scope))

    def _at(self, scope: str) -> Parts:
        if scope not in self.sums:
            raise ScopeKeyError(missing_scope(scope, self.sums))
        return self.sums[scope]

    def to_dataframe(self) -> pd.DataFrame:
        """One row per scope, query and key: the layer, and as the value the norm of the contribution."""
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
    """All scopes of one sequence's record (without batch axis)."""
    sums, queries = LinearLayer(record, settings).parts(), tuple(record.queries.tolist())
    return Decomposition(record.layer, record.block.order, queries, sums, record.whole)


def carried(value: Float[Tensor, "*shape"], form: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`value` with the gradient of `form`."""
    return _linearised(value.detach(), partial(_vjp_of_form, form.dtype, form.shape), [form])


def scaled(x: Float[Tensor, "..."], gate: Float[Tensor, "batch pos"]) -> Float[Tensor, "..."]:
    """`x` with a gate of ones on it; x is [batch pos ...], or laid out so in memory."""
    return _linearised(x.detach(), partial(_vjp_of_gate, gate.shape), [x, gate], x.detach())


def added(
    y: Float[Tensor, "..."], gate: Float[Tensor, "*position"], bias: Float[Tensor, " width"]
) -> Float[Tensor, "..."]:
    """`y` with a gate of ones on a bias that is in it; y is [batch pos width], or laid out so in memory."""
    gated = _linearised(y.detach(), partial(_vjp_of_bias, gate.shape), [y, gate], bias.to(y))
    return gated.clone()  # what follows a bias may be added to in place (Falcon)


def normed(
    value: Float[Tensor, "..."], norm: Norm, x: Float[Tensor, "*lead d"]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "*lead d"]]:
    """A norm's output, and its form that is linear in the input: the scale is the run's own number (eq. 28-34 for one part).

    `value` comes back with the form's vjp, the form without any.
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
    """An activation's output with the vjp of `shared`, and that form without any."""
    inputs = [pre] if pre_linear is None else [pre, pre_linear]
    onward = _linearised(value.detach(), _vjp_of_products, inputs, *coefficients.factors)
    with torch.no_grad():
        return onward, shared(coefficients, pre, pre_linear)


def shared(
    coefficients: PathCoefficients, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
) -> Float[Tensor, "*shape"]:
    """An activation's output as the linear form of its pre-activations that Integrated Gradients make of it."""
    form = pre * coefficients.on_pre + coefficients.baseline
    on_linear = coefficients.on_linear
    return form if pre_linear is None or on_linear is None else torch.addcmul(form, pre_linear, on_linear)


def secant(value: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """An elementwise function's output as `x (g(x) / x)`, for g(0) = 0: its Integrated Gradients from zero."""
    slope = value.detach() / torch.where(x == 0, 1, x.detach())
    return x * torch.where(x.detach() == 0, 1, slope)


def _linearised(
    value: Tensor, vjp: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor], *constants: Tensor
) -> Tensor:
    return _Linearised.apply(value, vjp, len(inputs), *inputs, *constants)  # type: ignore[no-untyped-call]


class _Linearised(torch.autograd.Function):
    """A value whose cotangent goes to some inputs as `vjp(cotangent, *constants)` says, whatever made the value."""

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
