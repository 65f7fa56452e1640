"""Vectors of every source pushed forward through a layer, written anew: the slow oracle of everything that goes backward."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

NODES, WEIGHTS = (torch.tensor(numbers) for numbers in np.polynomial.legendre.leggauss(80))


def path_mean(function: Callable[[Tensor], Tensor], at: Tensor) -> Tensor:
    """The mean of a function on the way from 0."""
    return sum(w / 2 * function((n + 1) / 2 * at) for n, w in zip(NODES, WEIGHTS, strict=True))


def path_derivative(function: Callable[[Tensor], Tensor], at: Tensor, factor: Tensor | None) -> tuple[Tensor, Tensor]:
    """Integrated Gradients' coefficients of `g(a)`, or of `g(a) u`, by nodes: on a, and on u."""

    def slope(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    if factor is None:
        return path_mean(slope, at), torch.zeros_like(at)
    steps = [((n + 1) / 2, w / 2) for n, w in zip(NODES, WEIGHTS, strict=True)]
    return sum(w * t * slope(t * at) for t, w in steps) * factor, path_mean(function, at)


class Vectors:
    """Every source's vector at every position, [source pos d]; the last source is all biases."""

    def __init__(self, record: Any, entering: Tensor) -> None:
        self.record = record
        self.at = {"resid_pre": entering}

    def walk(self) -> dict[str, Tensor]:
        """The layer's steps in the model's order, each written as what it does to a sum of vectors."""
        from tl_ffblock.layer.scopes import PROGRAMS

        for step in PROGRAMS[self.record.block.order]:
            work = getattr(self, type(step.operation).__name__.lower())
            self.at[step.scope] = work(step)
        return self.at

    def read(self, step: Any, operand: str) -> Tensor:
        """What a step reads of an operand."""
        return self.at[operand]

    def whole(self, name: str) -> Tensor:
        """The model's own tensor."""
        return self.record.resid_pre if name == "resid_pre" else self.record.whole[name]

    def constant(self, vectors: Tensor, bias: Tensor) -> Tensor:
        """The bias joins the last source."""
        vectors = vectors.clone()
        vectors[-1] += bias
        return vectors

    def attend(self, step: Any) -> Tensor:
        weights, pattern = self.record.block.attention, self.record.pattern
        shared = weights.w_o.shape[0] // weights.w_v.shape[0]
        w_v, b_v = (tensor.repeat_interleave(shared, 0) for tensor in (weights.w_v, weights.b_v))
        out = torch.zeros_like(self.at[step.operation.of])
        for head in range(len(w_v)):
            values = self.constant(self.read(step, step.operation.of) @ w_v[head], b_v[head])
            out += pattern[head] @ values @ weights.w_o[head]
        return self.constant(out, weights.b_o)

    def add(self, step: Any) -> Tensor:
        return self.read(step, step.operation.left) + self.read(step, step.operation.right)

    def normalise(self, step: Any) -> Tensor:
        norm, of = self.record.block.norm(step.operation.norm), step.operation.of
        vectors, whole = self.read(step, of), self.whole(of)
        if norm.centred:
            vectors, whole = (x - x.mean(-1, keepdim=True) for x in (vectors, whole))
        scale = (whole.square().mean(-1, keepdim=True) + norm.eps).sqrt()
        return self.constant(vectors / scale * norm.gain, norm.shift)

    def feed(self, step: Any) -> Tensor:
        """The feed-forward, or experts with the router's weights."""
        block, vectors = self.record.block, self.read(step, step.operation.of)
        if self.record.routing is None:
            return self.through(block.feed_forward, vectors)
        weighed = zip(self.record.routing.T, block.feed_forward, strict=True)
        return sum(weights[:, None] * self.through(expert, vectors) for weights, expert in weighed)

    def through(self, ff: Any, vectors: Tensor) -> Tensor:
        """One feed-forward."""
        gated = ff.w_gate is not None
        pre = self.constant(vectors @ (ff.w_gate if gated else ff.w_in), ff.b_gate if gated else ff.b_in)
        linear = self.constant(vectors @ ff.w_in, ff.b_in) if gated else None
        on_pre, on_linear = path_derivative(ff.activation, pre.sum(0), None if linear is None else linear.sum(0))
        post = pre * on_pre + (0 if linear is None else linear * on_linear)
        post = self.constant(post, post.new_zeros(()) if gated else ff.activation(torch.zeros_like(on_pre)))
        return self.constant(post @ ff.w_out, ff.b_out)
