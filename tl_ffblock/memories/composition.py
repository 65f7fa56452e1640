"""How memories make up a layer's output, and what that does to the residual (Geva et al. 2021, sections 5.1 and 5.2).

Composition: a layer's output is a sum over memories; does the token that it promotes most belong to one of them?
Refinement: the residual has a top token already; what does the feed-forward's output make of it?
"""

from typing import Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.signatures import strict

ActiveRule: TypeAlias = Literal["positive", "mass"]
"""Which memories count as active: "positive" those with `m_i > 0`, the paper's rule, in which ReLU's zeros are silent;
"mass" the smallest set with 90 % of `sum_i |m_i| ||v_i||`, for activations that are never silent (GELU, gated)."""
MASS = 0.9
OUTCOMES = ("residual", "feed-forward", "agreement", "composition")
"""Whose top token the sum's is: the residual's alone, the feed-forward's alone, of both, or of neither (a compromise)."""


@strict
def active(
    coefficients: Float[Tensor, "*lead neuron"], lengths: Float[Tensor, " neuron"], rule: ActiveRule
) -> Bool[Tensor, "*lead neuron"]:
    """Which memories take part in a layer's output.

    Args:
        coefficients: `m_i`.
        lengths: `||v_i||`.
        rule: See `ActiveRule`.

    Raises:
        InputError: for another rule.
    """
    _refuse_others(coefficients=coefficients, lengths=lengths)
    if rule == "positive":
        return (coefficients > 0) & (lengths > 0)
    sizes, order = (coefficients.abs() * lengths).sort(dim=-1, descending=True, stable=True)
    before = sizes.cumsum(dim=-1) - sizes
    wanted = (before < MASS * sizes.sum(dim=-1, keepdim=True)) & (sizes > 0)
    return torch.zeros_like(wanted).scatter(-1, order, wanted)


@strict
def zero_agreement(
    coefficients: Float[Tensor, "*lead neuron"],
    chosen: Bool[Tensor, "*lead neuron"],
    tops: Int[Tensor, "side neuron"],
    token: Int[Tensor, "*lead"],
) -> Bool[Tensor, "*lead"]:
    """Whether no active memory promotes a token most: the layer says something that none of its memories says.

    A memory of negative coefficient writes `-|m| v`, so its top token is that of `-v`.

    Args:
        coefficients: `m_i`.
        chosen: The active ones.
        tops: Top token of every `v_i`, and of every `-v_i`, in the direction's reading, where no size changes it.
        token: The layer's: the paper's text has the top token of the feed-forward's output, its program that of the output
            plus the residual.
    """
    _refuse_others(coefficients=coefficients, chosen=chosen, tops=tops, token=token)
    says = torch.where(coefficients > 0, tops[0], tops[1])
    return ~((says == token[..., None]) & chosen).any(dim=-1)


@strict
def outcomes(
    residual: Int[np.ndarray, "*lead"], feed_forward: Int[np.ndarray, "*lead"], output: Int[np.ndarray, "*lead"]
) -> Int[np.ndarray, "*lead"]:
    """For each case the number of its outcome in `OUTCOMES`, of three top tokens."""
    shapes = [np.shape(tokens) for tokens in (residual, feed_forward, output)]
    if len(set(shapes)) > 1:
        raise InputError(
            f"residual, feed_forward and output have shapes {brief(shapes)}: expected a top token each, of the same cases."
        )
    of_residual, of_feed_forward = output == residual, output == feed_forward
    return np.select([of_residual & of_feed_forward, of_residual, of_feed_forward], [2, 0, 1], default=3)


def _refuse_others(**tensors: object) -> None:
    for name, given in tensors.items():
        if not isinstance(given, Tensor):
            raise InputError(
                f"{name} is a {type(given).__name__}: expected a tensor; torch.as_tensor makes one of an array."
            )
