"""Rules of other papers for the backward pass, as hooks that change no value: GIM and AttnLRP. No part of the package.

GIM (Edin et al. 2025, arXiv 2505.17630; its package gim-explain): norm scales are constant; the softmax has the slope of a
softmax at temperature 2; queries and keys get a quarter of their gradient, values half, the factors of a gated feed-forward half.
AttnLRP (Achtibat et al. 2024; its package lxt): the same without the temperature, and activations `f(x) = (f(x) / x) x` with a
constant ratio. RelP (Rezaei Jafari et al. 2025) has constant patterns too: without gates its numbers are those of rules="path".

A head's output `z = P v` passes half of its gradient to v and P, and P half of that to queries and keys.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

import tl_ffblock as ffb

Hooks = list[tuple[str, Callable[..., Tensor | None]]]


class BackwardRules(NamedTuple):
    """What a paper changes in the backward pass."""

    rules: ffb.attribution.Rules
    """The package's part: norms with the run's scale, activations by their ratio where there are no gates."""
    temperature: float
    ratios: bool
    """Whether gated activations are linear by their ratio."""

    def hooks(self, model: Any) -> Hooks:
        """For every layer of a model: `fwd_hooks` of a forward pass under the package's part of the rules."""
        found: Hooks = []
        gated = "blocks.0.mlp.hook_pre_linear" in model.hook_dict
        for layer in range(model.cfg.n_layers):
            seen: dict[str, Tensor] = {}
            names = {"gate": "mlp.hook_pre", "up": "mlp.hook_pre_linear"}
            for name in names if gated and self.ratios else ():
                found.append((f"blocks.{layer}.{names[name]}", partial(_see, seen, name)))
            found.append((f"blocks.{layer}.attn.hook_pattern", partial(_pattern, self.temperature)))
            found.append((f"blocks.{layer}.attn.hook_z", _half))
            if gated:
                found.append((f"blocks.{layer}.mlp.hook_post", partial(_gated, seen)))
        return found


GIM = BackwardRules(ffb.attribution.Rules("GIM", norms=True, feed_forward=False, attention=False), 2.0, ratios=False)
ATTNLRP = BackwardRules(ffb.attribution.Rules("AttnLRP", norms=True, feed_forward=True, attention=False), 1.0, True)


class _SoftmaxAt(torch.autograd.Function):
    """A pattern whose softmax has the slope of `softmax(scores / temperature)`."""

    @staticmethod
    def forward(ctx: Any, pattern: Tensor, temperature: float) -> Tensor:
        ctx.save_for_backward(pattern)
        ctx.temperature = temperature
        return pattern.view_as(pattern)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:  # type: ignore[override]
        (pattern,), (gradient,) = ctx.saved_tensors, gradients
        if ctx.temperature == 1:
            return gradient, None
        # softmax(x / T) is P^(1/T) scaled to 1; a softmax's own slope turns g' into P (g' - P g').
        softer = pattern ** (1 / ctx.temperature)
        softer = softer / softer.sum(dim=-1, keepdim=True)
        wanted = softer * (gradient - (gradient * softer).sum(dim=-1, keepdim=True))
        return torch.where(pattern > 0, wanted / pattern, 0.0), None


def _see(seen: dict[str, Tensor], name: str, x: Tensor, hook: object) -> None:
    seen[name] = x


def _pattern(temperature: float, pattern: Tensor, hook: object) -> Tensor:
    changed: Tensor = _SoftmaxAt.apply(pattern, temperature)  # type: ignore[no-untyped-call]
    return _half(changed)


def _half(x: Tensor, hook: object = None) -> Tensor:
    return x.detach() + (x - x.detach()) / 2


def _gated(seen: dict[str, Tensor], post: Tensor, hook: object) -> Tensor:
    if not seen:
        return _half(post)
    product = seen["gate"] * seen["up"]
    ratio = torch.where(product == 0, 0.5, (post / product).detach())
    made = ratio * product
    return post.detach() + (made - made.detach()) / 2
