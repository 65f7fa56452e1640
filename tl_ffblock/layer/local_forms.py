"""Values that keep their numbers and get another vjp: what a backward pass through replaced local rules is made of.

* `carried(value, form)` is `value`; its cotangent goes to `form`, a local linear form of equal value. `normed` and `activated`
  are the same for the linearised norm and activation of every layer, whose backward passes keep the coefficients alone.
* A **gate of ones** is a leaf of zeros, one number per position: `scaled(x, gate)` is `x (1 + gate)` and `added(y, gate, b)` is
  `y + gate b`, at a gate of zero x and y themselves. A target's derivative by a gate is the share of what the gate
  multiplies: `df/d gate = <x, df/dx>`, `<b, df/dy>` (gradient x input; Michel et al. 2019).
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.records import Norm


def carried(value: Float[Tensor, "*shape"], form: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`value` with the gradient of `form`."""
    return _linearised(value.detach(), partial(_vjp_of_form, form.dtype, form.shape), [form])


def scaled(x: Float[Tensor, "..."], dial: Float[Tensor, "batch pos"]) -> Float[Tensor, "..."]:
    """`x` with a gate of ones on it; x is [batch pos ...], or laid out so in memory."""
    return _linearised(x.detach(), partial(_vjp_of_gate, dial.shape), [x, dial], x.detach())


def added(
    y: Float[Tensor, "..."], dial: Float[Tensor, "*position"], bias: Float[Tensor, " width"]
) -> Float[Tensor, "..."]:
    """`y` with a gate of ones on a bias that is in it; y is [batch pos width], or laid out so in memory."""
    gated = _linearised(y.detach(), partial(_vjp_of_bias, dial.shape), [y, dial], bias.to(y))
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
    vjp = partial(_vjp_of_norm, x.shape, norm.centred)
    return _linearised(value.detach(), vjp, [wide], norm.gain, scale), form


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
    if pre_linear is None or coefficients.on_linear is None:
        return form
    return torch.addcmul(form, pre_linear, coefficients.on_linear)


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
