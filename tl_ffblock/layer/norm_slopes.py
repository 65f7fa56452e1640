"""A norm to first order about one run: where a change of its input goes, and where a derivative by its output comes from.

With n = C x / s, C the centring and s the scale, the derivative of `gain * n + shift` is

    frozen scale    J v = gain * C v / s
    its gradient    J v = gain * (C v - n mean(n * C v)) / s

since `ds = mean(n * C v)`. C is symmetric, so J's transpose has the same form with the gain first.
"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.records import Norm


@dataclass(frozen=True)
class NormSlope:
    """The derivative of a norm at every position of one run."""

    norm: Norm
    scale: Float[Tensor, "pos 1"]
    normalised: Float[Tensor, "pos d"] | None = None
    """n, where the scale is no constant."""

    @classmethod
    def of(cls, norm: Norm, x: Float[Tensor, "pos d"], *, frozen: bool) -> "NormSlope":
        """The derivative at what entered the norm, with the scale as a constant or not."""
        centred, scale = norm.centred_and_scale(x)
        return cls(norm, scale, None if frozen or not norm.divides else centred / scale)

    def push(self, change: Float[Tensor, "pos *more d"]) -> Float[Tensor, "pos *more d"]:
        """`J v`: what a change of the input becomes."""
        return self._core(change) * self.norm.gain

    def pull(self, derivative: Float[Tensor, "pos *more d"]) -> Float[Tensor, "pos *more d"]:
        """`J^T g`: the derivative by the input, from that by the output."""
        return self._core(derivative * self.norm.gain)

    def _core(self, v: Tensor) -> Tensor:
        between = (len(self.scale), *[1] * (v.ndim - 2))
        if self.norm.centred:
            v = v - v.mean(dim=-1, keepdim=True)
        if self.normalised is not None:
            n = self.normalised.reshape(*between, -1)
            v = v - n * (n * v).mean(dim=-1, keepdim=True)
        return v / self.scale.reshape(*between, 1)
