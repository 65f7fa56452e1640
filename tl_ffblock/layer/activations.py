"""Integrated Gradients through an activation function, in closed form.

Integrated Gradients on the straight path from zero attribute the output g(s) to the terms p_j of a pre-activation `s = sum_j
p_j` (eq. 12-14 of Kobayashi et al. 2024; Sundararajan et al. 2017). With a zero baseline the path integral has a closed form,
so no quadrature over the terms is needed:

* one factor, out = g(s):            IG_j = p_j r(s),  r(s) = (g(s) - g(0)) / s,  r(0) = g'(0)
* two factors, out = g(a) u (gated): IG_j = u_j A(a) + a_j u B(a),
  A(a) = integral_0^1 g(t a) dt,  B(a) = (g(a) - A(a)) / a,  B(0) = g'(0) / 2

r, A and B are one number per (position, neuron), the same for all terms. g(0) is attributed to the bias. The gated form is
complete whatever the error of A, since `u A + a u B = u g(a)` identically.
"""

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from weakref import WeakKeyDictionary

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.errors import UnsupportedModelError

Elementwise = Callable[[Tensor], Tensor]

# Nodes of Gauss-Legendre quadrature for A(a), by the largest |a|: (upper bound of |a|, nodes in float32, nodes in float64).
# Largest errors relative to max(1, |a|), measured against mpmath (25 digits) for both GELUs, SiLU and quick-GELU:
#
#     |a| up to       2.5      5        10       15       20       30       40
#     float32         4e-10    3e-9     2e-9     4e-9     5e-9     2e-9     6e-9      (its own rounding: 1e-7)
#     float64         9e-17    2e-16    2e-16    5e-16    2e-16    3e-16    2e-16
#
# The largest |a| of a trained layer is 5 to 30. The time is proportional to the number of nodes.
_NODES: tuple[tuple[float, int, int], ...] = (
    (2.5, 8, 14),
    (5.0, 10, 20),
    (10.0, 14, 28),
    (15.0, 16, 32),
    (20.0, 18, 40),
    (30.0, 24, 48),
    (math.inf, 24, 56),
)
MOST_NODES = 56
"""Largest number of nodes in `_NODES`."""
SATURATED = 40.0
"""Beyond |a| = 40 every smooth gate of `KNOWN` is 0 or 1 to 1e-17, so g(a) is 0 or a."""
# Function evaluations per block, by device: one (number, node) pair each. Small blocks stay in the CPU's cache while they are
# summed over nodes.
_BLOCK = {"cpu": 2**16, "cuda": 2**24}
# `g(t a) = t^power g(a)` for t > 0, so the mean over the path is `g(a) / (power + 1)`.
_POWERS = {"relu": 1, "relu2": 2}
# Without a gate form, the secant loses digits near zero. For |s| below the first number the mean slope is a quadrature with few
# nodes instead, whose error (s / 4)^12 is far below rounding.
_SMALL, _FEW_NODES = 0.1, 6


@dataclass(frozen=True)
class Activation:
    """An elementwise activation function g with the coefficients of its path integral."""

    name: str
    function: Elementwise
    """g itself."""
    gate: Elementwise | None = None
    """`g(s) / s`, if g has the form `s * gate(s)` with a gate that saturates at 0 and 1, or is in `_POWERS`; r(s) then needs no
    division."""

    def __call__(self, s: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        return self.function(s)

    def output(
        self, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
    ) -> Float[Tensor, "*shape"]:
        """Input of W_out: `g(pre)`, gated `g(pre) * pre_linear`."""
        return self(pre) if pre_linear is None else self(pre) * pre_linear

    def coefficients(
        self, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
    ) -> "PathCoefficients":
        """Path coefficients in closed form: r(s) for one factor; `B(a) u` for the gate's terms and A(a) for the linear ones with two."""
        if pre_linear is None:
            return PathCoefficients(self.slope(pre), None, self.at_zero(pre))
        mean, rest = self.mean_and_rest(pre)
        return PathCoefficients(pre_linear * rest, mean, torch.zeros((), dtype=pre.dtype, device=pre.device))

    def at_zero(self, like: Tensor) -> Float[Tensor, "*one"]:
        """g(0), the output at the baseline; shape [1] if a parameter of the function has that shape, else a scalar."""
        zero = torch.zeros((), dtype=like.dtype, device=like.device)
        return self.function(zero) if self.gate is None else zero  # g(s) = s gate(s)

    def slope(self, s: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
        """`r(s) = (g(s) - g(0)) / s`, with the limit g'(0) at zero."""
        if self.gate is not None:
            return self.gate(s)
        small = s.abs() < _SMALL
        secant = (self.function(s) - self.at_zero(s)) / torch.where(small, 1, s)
        return torch.where(small, self._mean_slope(s, 0), secant)

    def mean_and_rest(self, a: Float[Tensor, "*shape"]) -> tuple[Float[Tensor, "*shape"], Float[Tensor, "*shape"]]:
        """A(a) and B(a) of the gated form.

        Raises:
            UnsupportedModelError: if no closed form is known and quadrature does not converge.
        """
        if self.gate is not None:
            # `g(t a) = a t gate(t a)`, so `A(a) = a Q(a)` and `B(a) = gate(a) - Q(a)`, also at a = 0: no division.
            gate_mean = self._gate_mean(a)
            return a * gate_mean, self.gate(a) - gate_mean
        mean = self._checked_mean(a)
        small = a.abs() < _SMALL
        return mean, torch.where(small, self._mean_slope(a, 1), (self.function(a) - mean) / torch.where(small, 1, a))

    def _gate_mean(self, a: Tensor) -> Tensor:
        """`Q(a) = integral_0^1 t gate(t a) dt`."""
        assert self.gate is not None
        if self.name in _POWERS:
            return self.gate(a) / (_POWERS[self.name] + 1)
        return gate_path_mean(self.gate, a)

    def _checked_mean(self, a: Tensor) -> Tensor:
        """A(a) by quadrature, for a function without a known form; its kinks may defeat the quadrature."""
        mean, finer = (path_mean(self.function, a, nodes) for nodes in (MOST_NODES, 2 * MOST_NODES))
        gap = float((mean - finer).abs().max()) if a.numel() else 0.0
        if gap > 1e-5 * max(1.0, float(finer.abs().max()) if a.numel() else 0.0):
            raise UnsupportedModelError(
                f"the gated activation {self.name} is not smooth enough for quadrature (its path mean moves by {gap:.1e} when "
                f"the nodes are doubled), and no closed form of it is known. In closed form: {', '.join(a.name for a in KNOWN)}."
            )
        return finer

    def _mean_slope(self, s: Tensor, power: int) -> Tensor:
        """`integral_0^1 t^power g'(t s) dt` for small s: r(s) for power 0, B(s) for power 1."""
        total = torch.zeros_like(s)
        for node, weight in gauss_legendre(_FEW_NODES):
            total += weight * node**power * self._derivative(node * s)
        return total

    def _derivative(self, s: Tensor) -> Tensor:
        # Identity hooks: tensors saved for this derivative are exempt from the saved-tensor hooks of activation checkpointing
        # (bridge/traced.py).
        as_it_is = torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, lambda tensor: tensor)
        with torch.inference_mode(False), torch.enable_grad(), as_it_is:
            at = s.detach().clone().requires_grad_()
            (slope,) = torch.autograd.grad(self.function(at).sum(), at)
        return slope


@dataclass(frozen=True)
class PathCoefficients:
    """Coefficients of Integrated Gradients through an activation, [query d_mlp].

    A term p of `pre` with a term q of `pre_linear` (gated feed-forward only) is attributed `p * on_pre (+ q * on_linear)` of
    the output. `baseline` is the output at zero, which is attributed to no term.
    """

    on_pre: Float[Tensor, "*shape"]
    on_linear: Float[Tensor, "*shape"] | None
    baseline: Float[Tensor, "*one"]

    def times(self, factor: Float[Tensor, "*shape"]) -> "PathCoefficients":
        """Coefficients of a gated output times a constant factor; its baseline is zero."""
        assert self.on_linear is not None, "without a gate, the baseline would be multiplied too"
        return PathCoefficients(factor * self.on_pre, factor * self.on_linear, self.baseline)

    @property
    def factors(self) -> tuple[Float[Tensor, "*shape"], ...]:
        """One coefficient per input matrix, in the order of `FeedForward.inputs`."""
        return (self.on_pre,) if self.on_linear is None else (self.on_pre, self.on_linear)


@dataclass(frozen=True)
class ClampedGate(Activation):
    """gpt_oss: `out = g(min(a, limit)) * (clamp(u, -limit, limit) + 1)` of the two pre-activations a and u.

    On the straight path the second factor changes only while `t |u| < limit`, hence up to `T = min(1, limit / |u|)`. The
    coefficient of u is `integral_0^T g(min(t a, limit)) dt`; that of a follows by completeness. Output and attributions are
    zero at the baseline, since g(0) = 0.
    """

    limit: float = 7.0

    def output(
        self, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
    ) -> Float[Tensor, "*shape"]:
        assert pre_linear is not None
        return self(pre.clamp(max=self.limit)) * (pre_linear.clamp(-self.limit, self.limit) + 1)

    def coefficients(
        self, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
    ) -> "PathCoefficients":
        assert pre_linear is not None
        until = (self.limit / pre_linear.abs()).clamp(max=1)
        on_linear = until * self._clamped_mean(until * pre)
        zero = pre == 0
        rest = (self.output(pre, pre_linear) - on_linear * pre_linear) / torch.where(zero, 1, pre)
        # At a = 0: g'(0) times the mean of the second factor along the path.
        clamped = pre_linear.clamp(-self.limit, self.limit)
        on_pre = torch.where(zero, self._derivative(torch.zeros_like(pre)) * (1 + clamped * (1 - until / 2)), rest)
        return PathCoefficients(on_pre, on_linear, torch.zeros((), dtype=pre.dtype, device=pre.device))

    def _clamped_mean(self, a: Tensor) -> Tensor:
        """`integral_0^1 g(min(t a, limit)) dt`."""
        inner = a.clamp(max=self.limit)
        mean = self._checked_mean(inner) if self.gate is None else inner * self._gate_mean(inner)
        beyond = (inner * mean + (a - inner) * self(inner)) / torch.where(a == 0, 1, a)
        return torch.where(a == inner, mean, beyond)


def _erf_gate(s: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-s / math.sqrt(2))


def _tanh_gate(s: Tensor) -> Tensor:
    # (1 + tanh z) / 2 = sigmoid(2 z)
    return torch.sigmoid(2 * math.sqrt(2 / math.pi) * (s + 0.044715 * s**3))


KNOWN: tuple[Activation, ...] = (
    Activation("relu", torch.relu, lambda s: (s > 0).to(s.dtype)),
    Activation("relu2", lambda s: torch.relu(s).square(), torch.relu),
    Activation("gelu", lambda s: s * _erf_gate(s), _erf_gate),
    Activation("gelu_tanh", lambda s: s * _tanh_gate(s), _tanh_gate),
    Activation("silu", lambda s: s * torch.sigmoid(s), torch.sigmoid),
    Activation("quick_gelu", lambda s: s * torch.sigmoid(1.702 * s), lambda s: torch.sigmoid(1.702 * s)),
)


# Recognised functions with their values on the grid, which are compared at every use. A layer's weights are read at every
# forward pass. Evaluating a function at 241 points one by one takes 2 ms, as long as a map of few tokens.
_recognised: WeakKeyDictionary[Elementwise, tuple[Float[Tensor, " point"], Activation]] = WeakKeyDictionary()


@torch.no_grad()
def recognise(function: Elementwise, where: str) -> Activation:
    """The activation function of a model, in closed form if it is one of `KNOWN`.

    It is recognised by its values, not by its name. A function that differs from all known ones by more than 1e-6 on a grid
    over [-12, 12] is used as it is, with divided differences and quadrature in place of the closed form.

    Args:
        function: The model's activation function.
        where: The module's name, for errors.

    Raises:
        UnsupportedModelError: if the function cannot be evaluated on its own, or is not elementwise (its output at one neuron
            depends on another): its path integral then has another form.
    """
    name = getattr(function, "__name__", type(function).__name__)
    grid = torch.linspace(-12, 12, 241, dtype=torch.float64)
    # An activation with parameters is evaluated on their device, any other on the CPU.
    own = [*function.parameters(), *function.buffers()] if isinstance(function, torch.nn.Module) else []
    there = grid.to(own[0].device if own else "cpu")
    try:
        values = function(there.clone()).cpu()
        with suppress(TypeError):  # an unhashable object is recognised again at every use
            before, known = _recognised.get(function, (values.new_empty(0), None))
            if known is not None and torch.equal(values, before):
                return known
        alone = torch.stack([function(x.clone().reshape(1)) for x in there]).reshape(-1).cpu()
    except Exception as error:
        raise UnsupportedModelError(
            f"{where}: the activation {name} cannot be evaluated on its own: {error}"
        ) from error
    if values.shape != grid.shape or not torch.allclose(values, alone, atol=1e-6):
        raise UnsupportedModelError(
            f"{where}: the activation {name} is not elementwise, its Integrated Gradients have no closed form. "
            f"Supported: any elementwise activation ({', '.join(a.name for a in KNOWN)} in closed form)."
        )
    for activation in KNOWN:
        if torch.allclose(values.double(), activation(grid), rtol=0, atol=1e-6):
            with suppress(TypeError):
                _recognised[function] = values, activation
            return activation
    return Activation(name, function)


@lru_cache
def gauss_legendre(count: int) -> tuple[tuple[float, float], ...]:
    """Nodes and weights of Gauss-Legendre quadrature on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return tuple(((n + 1) / 2, w / 2) for n, w in zip(nodes.tolist(), weights.tolist(), strict=True))


def _nodes_for(a: Tensor, largest: float) -> int:
    """Number of nodes for a largest |a| in the dtype of `a`; the table above gives the errors."""
    # NaN is below no bound, so the last row is used.
    _, in_float32, in_float64 = next((row for row in _NODES if largest <= row[0]), _NODES[-1])
    return in_float64 if a.dtype == torch.float64 else in_float32


def gate_path_mean(gate: Elementwise, a: Tensor) -> Tensor:
    """`integral_0^1 t gate(t a) dt` of a smooth gate, elementwise; the number of nodes depends on |a|."""
    numbers = a.reshape(-1)
    if a.device.type != "cpu":  # reading the largest |a| would wait for the device
        return _mean_of_large(gate, numbers, math.inf).view(a.shape)
    few = _NODES[0][0]
    large = (numbers.abs() > few).nonzero()[:, 0]
    if 2 * len(large) >= len(numbers):
        return _mean_of_large(gate, numbers, _largest(numbers)).view(a.shape)
    result = path_mean(gate, numbers, _nodes_for(a, few), power=1)
    if len(large):
        result[large] = _mean_of_large(gate, numbers[large], _largest(numbers[large]))
    return result.view(a.shape)


def _largest(a: Tensor) -> float:
    return float(a.abs().max()) if len(a) else 0.0


def _mean_of_large(gate: Elementwise, a: Tensor, largest: float) -> Tensor:
    """The same, with the nodes that the largest |a| needs, and in closed form beyond saturation."""
    if not largest > SATURATED:
        return path_mean(gate, a, _nodes_for(a, largest), power=1)
    inner = a.clamp(-SATURATED, SATURATED)
    mean = path_mean(gate, inner, _nodes_for(a, SATURATED), power=1)
    saturated = a != inner
    # Beyond saturation the antiderivative grows as that of g(t) = t for positive a and is constant for negative a.
    antiderivative = inner.square() * mean + (a.square() - inner.square()) / 2 * (a > 0)
    return torch.where(saturated, antiderivative / torch.where(saturated, a.square(), 1), mean)


def path_mean(function: Elementwise, a: Tensor, nodes: int, power: int = 0) -> Tensor:
    """`integral_0^1 t^power f(t a) dt` by Gauss-Legendre quadrature, one number per (position, neuron)."""
    total = torch.empty_like(a, memory_format=torch.contiguous_format)
    at, weights = torch.tensor(gauss_legendre(nodes), dtype=torch.float64).T
    at, weights = (each.to(a, non_blocking=True) for each in (at, weights * at**power))
    block = _BLOCK.get(a.device.type, _BLOCK["cuda"]) // nodes
    for numbers, means in zip(torch.split(a.reshape(-1), block), torch.split(total.view(-1), block), strict=True):
        torch.mv(function(torch.outer(at, numbers)).T, weights, out=means)
    return total
