"""Values that keep their numbers and get another slope: what a backward pass through replaced local rules is made of.

* `carried(value, form)` is `value`; its gradient goes to `form`, a local linear form of equal value.
* A **dial** is a leaf of zeros, one number a position. `scaled(x, dial)` is `x (1 + dial)` and `added(y, dial, b)` is
  `y + dial b`, at a dial of zero: x and y themselves. A target's derivative by a dial is the share of what the dial
  multiplies: `df/d dial = <x, df/dx>`, `<b, df/dy>`.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.records import Norm


def carried(value: Float[Tensor, "*shape"], form: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """`value` with the gradient of `form`."""
    return _Carried.apply(value.detach(), form)  # type: ignore[no-untyped-call]


def scaled(x: Float[Tensor, "..."], dial: Float[Tensor, "batch pos"]) -> Float[Tensor, "..."]:
    """`x` with a dial on it; x is [batch pos ...], or laid out so in memory."""
    return _Scaled.apply(x, dial)  # type: ignore[no-untyped-call]


def added(
    y: Float[Tensor, "..."], dial: Float[Tensor, "*position"], bias: Float[Tensor, " width"]
) -> Float[Tensor, "..."]:
    """`y` with a dial on a bias that is in it; y is [batch pos width], or laid out so in memory."""
    return _Added.apply(y, dial, bias.to(y))  # type: ignore[no-untyped-call]


def frozen_norm(norm: Norm, x: Float[Tensor, "*lead d"]) -> Float[Tensor, "*lead d"]:
    """A norm's output as a linear form of its input: the scale is the run's own number (eq. 28-34 for one part)."""
    wide = x.to(norm.gain.dtype)
    slope = norm.gain / norm.scale(wide.detach())
    centred = wide - wide.mean(dim=-1, keepdim=True) if norm.centred else wide
    return centred * slope + norm.shift


def shared(
    coefficients: PathCoefficients, pre: Float[Tensor, "*shape"], pre_linear: Float[Tensor, "*shape"] | None
) -> Float[Tensor, "*shape"]:
    """An activation's output as the linear form of its pre-activations that Integrated Gradients make of it."""
    form = pre * coefficients.on_pre + coefficients.baseline
    if pre_linear is None or coefficients.on_linear is None:
        return form
    return form + pre_linear * coefficients.on_linear


def secant(value: Float[Tensor, "*shape"], x: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """An elementwise function's output as `x (g(x) / x)`, for g(0) = 0: its Integrated Gradients from zero."""
    slope = value.detach() / torch.where(x == 0, 1, x.detach())
    return x * torch.where(x.detach() == 0, 1, slope)


class _Carried(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, form: Tensor) -> Tensor:
        ctx.form = form.dtype, form.shape
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        dtype, shape = ctx.form
        return None, gradient.to(dtype).reshape(shape)


class _Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dial: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        ctx.size = dial.shape
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        (x,) = ctx.saved_tensors
        return gradient, (gradient * x).reshape(*ctx.size, -1).sum(dim=-1)


class _Added(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, y: Tensor, dial: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(bias)
        ctx.size = dial.shape
        return y.clone()  # what follows a bias may be added to in place (Falcon)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        (bias,) = ctx.saved_tensors
        return gradient, gradient.reshape(*ctx.size, -1) @ bias.reshape(-1), None
