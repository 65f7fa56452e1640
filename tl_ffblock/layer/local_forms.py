"""Values that keep their numbers and get another slope: what a backward pass through replaced local rules is made of.

* `carried(value, form)` is `value`; its gradient goes to `form`, a local linear form of equal value. `normed` and `activated`
  are the same for the two forms of every layer, whose backward passes keep slopes alone.
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


def normed(
    value: Float[Tensor, "..."], norm: Norm, x: Float[Tensor, "*lead d"]
) -> tuple[Float[Tensor, "..."], Float[Tensor, "*lead d"]]:
    """A norm's output, and its form that is linear in the input: the scale is the run's own number (eq. 28-34 for one part).

    `value` comes back with the form's slope, the form without any.
    """
    wide = x.to(norm.gain.dtype)
    with torch.no_grad():
        centred, scale = norm.centred_and_scale(wide.detach())
        form = (centred / scale).mul_(norm.gain).add_(norm.shift)
    return _Normed.apply(value.detach(), wide, norm.gain, scale, norm.centred), form  # type: ignore[no-untyped-call]


def activated(
    value: Float[Tensor, "..."],
    coefficients: PathCoefficients,
    pre: Float[Tensor, "*shape"],
    pre_linear: Float[Tensor, "*shape"] | None,
) -> tuple[Float[Tensor, "..."], Float[Tensor, "*shape"]]:
    """An activation's output with the slopes of `shared`, and that form without any."""
    on_linear = None if pre_linear is None else coefficients.on_linear
    onward = _Activated.apply(value.detach(), pre, coefficients.on_pre, pre_linear, on_linear)  # type: ignore[no-untyped-call]
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


class _Carried(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, form: Tensor) -> Tensor:
        ctx.form = form.dtype, form.shape
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        dtype, shape = ctx.form
        return None, gradient.to(dtype).reshape(shape)


class _Normed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: Tensor, x: Tensor, gain: Tensor, scale: Tensor, centred: bool) -> Tensor:
        ctx.save_for_backward(gain, scale)
        ctx.form = x.dtype, x.shape, centred
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, None, None]:
        gain, scale = ctx.saved_tensors
        dtype, shape, centred = ctx.form
        by_centred = gradient.to(dtype).reshape(shape) * gain / scale
        by_x = by_centred - by_centred.mean(dim=-1, keepdim=True) if centred else by_centred
        return None, by_x, None, None, None


class _Activated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, value: Tensor, pre: Tensor, on_pre: Tensor, linear: Tensor | None, on_linear: Tensor | None
    ) -> Tensor:
        ctx.save_for_backward(on_pre, on_linear)
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor, None, Tensor | None, None]:
        on_pre, on_linear = ctx.saved_tensors
        gradient = gradient.to(on_pre.dtype).reshape(on_pre.shape)
        return None, gradient * on_pre, None, None if on_linear is None else gradient * on_linear, None


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
