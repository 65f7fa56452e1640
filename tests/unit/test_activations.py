"""The coefficients of Integrated Gradients through an activation: r(s), A(a), B(a)."""

import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.tolerances import (
    ALGEBRA,
    ARBITRARY_PRECISION,
    CLOSED_FORM,
    CLOSED_FORM_FLOAT32,
    PATH_MEAN,
    UNKNOWN_ACTIVATION,
)
from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.activations import ClampedGate, recognise

Elementwise = Callable[[Tensor], Tensor]

KNOWN: dict[str, Elementwise] = {
    "relu": nn.functional.relu,
    "relu2": lambda s: nn.functional.relu(s) ** 2,
    "gelu": nn.functional.gelu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "silu": nn.functional.silu,
    "quick_gelu": lambda s: s * torch.sigmoid(1.702 * s),
}
UNKNOWN: dict[str, Elementwise] = {
    "tanh": torch.tanh,
    "softplus": nn.functional.softplus,
    "identity": lambda s: 1.0 * s,
}
ALL = KNOWN | UNKNOWN

ZERO_AND_TINY = [0.0, 1e-300, 1e-12, 1e-8, 1e-6, 1e-5, 1e-4, 9.99e-4, 1.001e-3, 1e-2]
MODERATE = [0.1, 0.5, 1.0, 3.0, 7.0, 12.0, 25.0, 39.99]
SATURATED = [40.01, 57.0, 100.0, 300.0]


def both_signs(values: list[float], dtype: torch.dtype = torch.float64) -> Tensor:
    """The values and their negatives."""
    return torch.tensor([*values, *(-v for v in values)], dtype=dtype)


@cache
def path() -> tuple[Tensor, Tensor]:
    """500 Gauss-Legendre nodes on [0, 1] and their weights."""
    nodes, weights = (torch.from_numpy(array) for array in np.polynomial.legendre.leggauss(500))
    return (nodes + 1) / 2, weights / 2


def by_quadrature(function: Elementwise, a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """r, A and B by their definitions: float64 means over t in [0, 1] of g'(ta), g(ta) and t g'(ta)."""
    t, w = path()
    points = (a.double()[:, None] * t).requires_grad_()
    values = function(points)
    (slopes,) = torch.autograd.grad(values.sum(), points)
    return slopes @ w, values.detach() @ w, (slopes * t) @ w


@pytest.mark.parametrize("name", ALL)
def test_coefficients_are_the_path_integrals(name: str) -> None:
    """r, A and B equal the means they are defined by, at zero, near it, and, of closed forms, far beyond saturation."""
    activation, tolerance = recognise(ALL[name], "here"), CLOSED_FORM if name in KNOWN else UNKNOWN_ACTIVATION
    a = both_signs(ZERO_AND_TINY + MODERATE + SATURATED * (name in KNOWN))
    expected = by_quadrature(ALL[name], a)
    for found, integral in zip((activation.slope(a), *activation.mean_and_rest(a)), expected, strict=True):
        torch.testing.assert_close(found, integral, **tolerance)
    # float32 coefficients are the float64 ones to float32 precision
    a = a.float()
    expected = by_quadrature(ALL[name], a)
    for found, integral in zip((activation.slope(a), *activation.mean_and_rest(a)), expected, strict=True):
        torch.testing.assert_close(found, integral.float(), **CLOSED_FORM_FLOAT32)


@pytest.mark.parametrize("dtype", PATH_MEAN, ids=str)
@pytest.mark.parametrize("largest", [0.5, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 39.9])
@pytest.mark.parametrize("name", ["gelu", "gelu_tanh", "silu", "quick_gelu"])
def test_nodes_follow_the_largest_pre_activation(name: str, largest: float, dtype: torch.dtype) -> None:
    """Whatever the largest |a| of a tensor, A(a) of all its numbers is as accurate as the dtype."""
    a = torch.linspace(-largest, largest, 101, dtype=dtype)
    found, _ = recognise(KNOWN[name], "here").mean_and_rest(a)
    _, expected, _ = by_quadrature(KNOWN[name], a)
    assert ((found - expected).abs() / a.double().abs().clamp(min=1)).max() < PATH_MEAN[dtype]


@pytest.mark.parametrize("name", ALL)
def test_shares_are_complete(name: str) -> None:
    """S r(s) + g(0) = g(s), and gated u A + a u B = u g(a), to rounding, whatever s, a and u."""
    function = ALL[name]
    activation = recognise(function, "here")
    s = torch.cat(
        [both_signs(ZERO_AND_TINY + MODERATE + SATURATED), torch.linspace(-50, 50, 1001, dtype=torch.float64)]
    )
    alone = activation.coefficients(s, None)
    torch.testing.assert_close(s * alone.on_pre + alone.baseline, function(s), **ALGEBRA)
    u = torch.linspace(-3, 3, len(s), dtype=torch.float64)
    gated = activation.coefficients(s, u)
    torch.testing.assert_close(s * gated.on_pre + u * gated.on_linear + gated.baseline, u * function(s), **ALGEBRA)


@pytest.mark.parametrize("a", [-35.0, -3.0, -0.2, 1e-6, 0.2, 3.0, 35.0, 90.0])
@pytest.mark.parametrize("name", ["gelu", "silu"])
def test_path_mean_in_arbitrary_precision(name: str, a: float) -> None:
    """A(a) = (1/a) integral_0^a g agrees with 30 digits of mpmath."""
    mpmath = pytest.importorskip("mpmath")
    functions = {"gelu": lambda x: x * mpmath.ncdf(x), "silu": lambda x: x / (1 + mpmath.exp(-x))}
    with mpmath.workdps(30):
        cuts = [a * k / 16 for k in range(17)]
        expected = float(mpmath.quad(functions[name], cuts) / a)
    found, _ = recognise(KNOWN[name], "here").mean_and_rest(torch.tensor([a], dtype=torch.float64))
    torch.testing.assert_close(found, torch.tensor([expected], dtype=torch.float64), **ARBITRARY_PRECISION)


@pytest.mark.parametrize("a", [-20.0, -5.0, 5.0, 20.0])
@pytest.mark.parametrize("function", [nn.functional.hardswish, nn.functional.relu6], ids=["hardswish", "relu6"])
def test_a_kink_off_zero_costs_no_accuracy_unnoticed(function: Elementwise, a: float) -> None:
    """Quadrature across a kink converges slowly and completeness cannot see it: accurate to 1e-5, or refused."""
    at = torch.tensor([a], dtype=torch.float64)
    midpoints = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    try:
        mean, _ = recognise(function, "here").mean_and_rest(at)
    except UnsupportedModelError:
        return
    torch.testing.assert_close(mean, function(a * midpoints).mean()[None], rtol=1e-5, atol=1e-7)


HUGGING_FACE = {
    "relu": "relu", "relu2": "relu2", "gelu": "gelu", "gelu_python": "gelu", "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh", "gelu_fast": "gelu_tanh", "silu": "silu", "swish": "silu",
    "quick_gelu": "quick_gelu", "tanh": "Tanh", "mish": "MishActivation",
}  # fmt: skip


def test_activations_of_others_are_recognised_by_value() -> None:
    """Whatever a module is called, its values tell which closed form it is; TransformerLens' `gelu_fast` is the tanh one."""
    from transformers.activations import ACT2FN

    assert {key: recognise(ACT2FN[key], "here").name for key in HUGGING_FACE} == HUGGING_FACE
    functions = pytest.importorskip("transformer_lens.utilities.activation_functions").SUPPORTED_ACTIVATIONS
    for key in ("gelu_new", "gelu_fast", "silu"):
        assert recognise(functions[key], "here").name == HUGGING_FACE[key]


@pytest.mark.parametrize(
    "function",
    [lambda s: s.softmax(-1), lambda s: s * s.softmax(-1), lambda s: s - s.mean(), lambda s: s.cumsum(-1)],
    ids=["softmax", "solu", "centre", "cumsum"],
)
def test_functions_across_neurons_are_refused(function: Elementwise) -> None:
    """A function whose output at one neuron depends on another has another path integral."""
    with pytest.raises(UnsupportedModelError, match=r"layer 7: .* is not elementwise"):
        recognise(function, "layer 7")


def test_a_function_that_cannot_be_evaluated_alone_is_refused() -> None:
    """With its own error."""

    def glu(s: Tensor) -> Tensor:
        raise ValueError("needs two halves")

    with pytest.raises(UnsupportedModelError, match=r"layer 7: .*glu .*needs two halves"):
        recognise(glu, "layer 7")


def test_baseline_is_the_value_at_zero() -> None:
    """g(0) is the bias part's: log 2 for softplus, 0 for gelu."""
    like = torch.zeros(1, dtype=torch.float64)
    assert float(recognise(nn.functional.softplus, "here").at_zero(like)) == pytest.approx(math.log(2), rel=1e-15)
    assert float(recognise(nn.functional.gelu, "here").at_zero(like)) == 0


def test_coefficients_work_in_inference_mode() -> None:
    """The derivative near zero of an unknown function needs a gradient, which inference mode must not forbid."""
    with torch.inference_mode():
        s = both_signs(ZERO_AND_TINY)
        torch.testing.assert_close(recognise(torch.tanh, "here").slope(s), torch.ones_like(s), rtol=1e-3, atol=0)


def test_clamped_gate_is_the_path_integral() -> None:
    """gpt_oss clamps both factors: shares by the definition, in 200000 midpoints, on and beyond every kink."""
    known = recognise(KNOWN["quick_gelu"], "here")
    gate = ClampedGate(known.name, known.function, known.gate, limit=2.0)
    values = torch.tensor([-9.0, -2.0, -0.5, 0.0, 1e-5, 0.7, 2.0, 5.0], dtype=torch.float64)
    pre, linear = (x.flatten() for x in torch.meshgrid(values, values, indexing="ij"))
    t = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    expected = []
    for a, u in zip(pre, linear, strict=True):
        a_t, u_t = (t * a).requires_grad_(), (t * u).requires_grad_()
        slopes = torch.autograd.grad(gate.output(a_t, u_t).sum(), (a_t, u_t))
        expected.append(torch.stack([slope.mean() for slope in slopes]))
    on_pre, on_linear = torch.stack(expected).T
    shares = gate.coefficients(pre, linear)
    torch.testing.assert_close(pre * shares.on_pre, pre * on_pre, rtol=0, atol=1e-4)
    torch.testing.assert_close(linear * shares.on_linear, linear * on_linear, rtol=0, atol=1e-4)
    total = pre * shares.on_pre + linear * shares.on_linear + shares.baseline
    torch.testing.assert_close(total, gate.output(pre, linear), **ALGEBRA)


def test_a_function_that_changed_is_recognised_anew() -> None:
    """One object that computes a gelu and then a silu is one and then the other, however often it was seen before."""

    class Switched:
        function: Elementwise = staticmethod(nn.functional.gelu)

        def __call__(self, s: Tensor) -> Tensor:
            return self.function(s)

    switched = Switched()
    assert [recognise(switched, "here").name for _ in range(2)] == ["gelu", "gelu"]
    switched.function = nn.functional.silu
    assert [recognise(switched, "here").name for _ in range(2)] == ["silu", "silu"]
