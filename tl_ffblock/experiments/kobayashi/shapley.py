"""Shapley values of the feed-forward's players, the tokens' parts and the bias part (appendix E).

The game at one position: a coalition's worth is the feed-forward's output, [d_model] at once, when only
its players' pre-activations are summed. Shapley values are linear in the worth, so attributing after
the output matrix is attributing before it and multiplying.
"""

import math
from collections.abc import Callable
from functools import cache
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import UnsupportedModelError
from tl_ffblock.layer.linear import LinearLayer, Parts, project
from tl_ffblock.layer.records import FeedForward, LayerRecord
from tl_ffblock.layer.settings import Settings

Game: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Worth of coalitions: [coalition player], 1 where a player takes part -> [coalition d]."""
Estimate: TypeAlias = Literal["sampling", "kernel"]
Values: TypeAlias = Callable[[Game, int], Float[np.ndarray, "player d"]]
"""A game and its number of players -> the share of each."""


def exact_values(game: Game, players: int) -> Float[np.ndarray, "player d"]:
    """Share by enumeration of all coalitions."""
    coalitions, weights = _enumeration(players)
    return weights @ game(coalitions)


def estimated_values(kind: Estimate, samples: int, seed: int) -> Values:
    """Share by the `shap` package: permutations sampled with their reverses, or KernelSHAP (Lundberg and Lee 2017)."""

    def values(game: Game, players: int) -> Float[np.ndarray, "player d"]:
        import shap

        absent, present = np.zeros((1, players)), np.ones((1, players))
        state = np.random.get_state()
        np.random.seed(seed)  # shap draws from numpy's global generator
        try:
            if kind == "sampling":
                explainer: Any = shap.explainers.Permutation(game, absent, seed=seed)
                shares = explainer(present, max_evals=max(samples, 2 * players + 1), silent=True).values
            else:
                explainer = shap.KernelExplainer(game, absent)
                shares = explainer.shap_values(present, nsamples=samples, l1_reg=False, silent=True)
        finally:
            np.random.set_state(state)
        return np.asarray(shares).reshape(players, -1)

    return values


class ShapleyLayer(LinearLayer):
    """A layer's run whose feed-forward shares its output by Shapley values instead of Integrated Gradients."""

    def __init__(self, record: LayerRecord, settings: Settings, values: Values = exact_values) -> None:
        super().__init__(record, settings)
        self._values = values

    def feed_forward(self, parts: Parts, x: Tensor) -> Parts:
        ff = self.block.feed_forward
        if not isinstance(ff, FeedForward):
            raise UnsupportedModelError("Shapley values are computed for a dense feed-forward, not for experts.")
        gate = None if ff.w_gate is None or ff.b_gate is None else project(parts, ff.w_gate, ff.b_gate)
        linear = project(parts, ff.w_in, ff.b_in)
        rows = [self._row(ff, linear, gate, query) for query in range(len(parts.bias))]
        shared = torch.stack(rows)
        keys = parts.tokens.shape[1]
        start = ff.activation.output(
            torch.zeros_like(linear.bias), None if gate is None else torch.zeros_like(linear.bias)
        )
        return Parts(shared[:, :keys], shared[:, keys] + start @ ff.w_out + ff.b_out)

    def _row(self, ff: FeedForward, linear: Parts, gate: Parts | None, query: int) -> Float[Tensor, "player d"]:
        """The shares at one position; players that bring nothing are left out of the game.

        Without a gate the activation reads the linear branch, which then stands in the gate's place.
        """
        stacked = [torch.cat([p.tokens[query], p.bias[query][None]]) for p in (gate or linear, linear)]
        active = stacked[0].abs().sum(dim=1) + stacked[1].abs().sum(dim=1) > 0
        gated, linear_parts = (players[active] for players in stacked)

        def game(coalitions: np.ndarray) -> np.ndarray:
            chosen = torch.as_tensor(np.asarray(coalitions), dtype=gated.dtype)
            out = ff.activation.output(chosen @ gated, None if gate is None else chosen @ linear_parts)
            return (out @ ff.w_out).numpy()

        shares = self._values(game, int(active.sum()))
        row = torch.zeros(len(active), ff.w_out.shape[1], dtype=gated.dtype)
        row[active] = torch.as_tensor(np.ascontiguousarray(shares), dtype=gated.dtype)
        return row


@cache
def _enumeration(
    players: int,
) -> tuple[Int[np.ndarray, "coalition player"], Float[np.ndarray, "player coalition"]]:
    """All coalitions, and the factor of each one's worth in each player's value."""
    coalitions = (np.arange(2**players)[:, None] >> np.arange(players)) & 1
    size = coalitions.sum(axis=1)
    factorial = [math.factorial(k) for k in range(players + 1)]
    joined = np.array([factorial[max(s - 1, 0)] * factorial[players - s] / factorial[players] for s in size])
    without = np.array([factorial[s] * factorial[max(players - s - 1, 0)] / factorial[players] for s in size])
    return coalitions, np.where(coalitions.T == 1, joined, -without)
