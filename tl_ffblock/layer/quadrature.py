"""Integrated Gradients by captum's Gauss-Legendre rule: the paper's own way, and an independent oracle."""

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import Activation
from tl_ffblock.layer.parts import Parts


def captum_shares(activation: Activation, players: Parts, linear: Parts | None, n_steps: int) -> Parts:
    """Share the activation's output among its players with captum (appendix E of the paper).

    The players of one position are one example: tokens, bias and remainder by neuron. The function
    is the sum of all neurons' outputs, whose gradient with respect to a player's neuron is that
    neuron's own, so one call gives all attributions.
    """
    stacked = [_stack(p) for p in (players, linear) if p is not None]
    rows = [_one_query(activation, [s[i] for s in stacked], n_steps) for i in range(stacked[0].shape[0])]
    shared = torch.stack(rows)
    keys = players.tokens.shape[1]
    bias = shared[:, keys] + activation.at_zero(shared) if linear is None else shared[:, keys]
    return Parts(shared[:, :keys], bias, shared[:, keys + 1] if shared.shape[1] > keys + 1 else None)


def _stack(parts: Parts) -> Float[Tensor, "query player d_mlp"]:
    others = [p[:, None] for p in (parts.bias, parts.remainder) if p is not None]
    return torch.cat([parts.tokens, *others], dim=1)


def _one_query(activation: Activation, players: list[Float[Tensor, "player d_mlp"]], n_steps: int) -> Tensor:
    from captum.attr import IntegratedGradients

    def output(*factors: Tensor) -> Tensor:
        pre, *linear = (factor.sum(dim=1) for factor in factors)
        return activation.output(pre, linear[0] if linear else None).sum(dim=-1)

    inputs = tuple(p.detach()[None] for p in players)
    with torch.enable_grad():
        attributions = IntegratedGradients(output).attribute(
            inputs, n_steps=n_steps, method="gausslegendre", internal_batch_size=8
        )
    return torch.stack([a[0] for a in attributions]).sum(dim=0).to(players[0].dtype)
