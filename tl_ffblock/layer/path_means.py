"""Means of a function along the straight path from zero, by Gauss-Legendre nodes: `integral_0^1 t^power f(t a) dt`.

One number per (position, neuron), never per part. Beyond |a| = 40 every gate is saturated and activations.py takes the
antiderivative instead.
"""

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

Elementwise = Callable[[Tensor], Tensor]

# Gauss-Legendre nodes that A(a) needs where no |a| is above the first number: in float32, in float64. Measured against
# mpmath (25 digits) for both gelus, silu and quick_gelu, the worst of them over max(1, |a|):
#
#     |a| up to       2.5      5        10       15       20       30       40
#     float32         4e-10    3e-9     2e-9     4e-9     5e-9     2e-9     6e-9      (its own rounding: 1e-7)
#     float64         9e-17    2e-16    2e-16    5e-16    2e-16    3e-16    2e-16
#
# A real layer's largest |a| is 5 to 30, and the time goes with the nodes.
_NODES: tuple[tuple[float, int, int], ...] = (
    (2.5, 8, 14),
    (5.0, 10, 20),
    (10.0, 14, 28),
    (15.0, 16, 32),
    (20.0, 18, 40),
    (30.0, 24, 48),
    (math.inf, 24, 56),
)
MOST_NODES = 56
"""What no gate needs more than."""
SATURATED = 40.0
"""Beyond |a| = 40 every gate here is 0 or 1 to 1e-17, so g continues as 0 or as its own power."""
# How many numbers are worked on at a time, lest a sum over nodes goes through memory once a node.
_BLOCK = {"cpu": 2**16, "cuda": 2**24}


@lru_cache
def gauss_legendre(count: int) -> tuple[tuple[float, float], ...]:
    """Nodes and weights on [0, 1]."""
    nodes, weights = np.polynomial.legendre.leggauss(count)
    return tuple(((n + 1) / 2, w / 2) for n, w in zip(nodes.tolist(), weights.tolist(), strict=True))


def _nodes_for(a: Tensor, largest: float) -> int:
    """How many nodes a largest |a| needs in the dtype; the error is in the table above."""
    # Where there is NaN no bound holds, and the last row is taken.
    _, in_float32, in_float64 = next((row for row in _NODES if largest <= row[0]), _NODES[-1])
    return in_float64 if a.dtype == torch.float64 else in_float32


def gate_path_mean(gate: Elementwise, a: Tensor) -> Tensor:
    """integral_0^1 t gate(t a) dt of a smooth gate, by as many nodes as |a| needs: few for most numbers of a real layer."""
    numbers = a.reshape(-1)
    few = _NODES[0][0]
    large = (numbers.abs() > few).nonzero()[:, 0]
    if 2 * len(large) >= len(numbers):
        return _mean_of_large(gate, numbers).view(a.shape)
    result = path_mean(gate, numbers, _nodes_for(a, few), power=1)
    if len(large):
        result[large] = _mean_of_large(gate, numbers[large])
    return result.view(a.shape)


def _mean_of_large(gate: Elementwise, a: Tensor) -> Tensor:
    """The same by the nodes that the largest |a| needs; beyond saturation in closed form."""
    largest = float(a.abs().max()) if len(a) else 0.0
    if not largest > SATURATED:
        return path_mean(gate, a, _nodes_for(a, largest), power=1)
    inner = a.clamp(-SATURATED, SATURATED)
    mean = path_mean(gate, inner, _nodes_for(a, SATURATED), power=1)
    saturated = a != inner
    # The antiderivative grows as that of g(t) = t on the right and stays on the left.
    antiderivative = inner.square() * mean + (a.square() - inner.square()) / 2 * (a > 0)
    return torch.where(saturated, antiderivative / torch.where(saturated, a.square(), 1), mean)


def path_mean(function: Elementwise, a: Tensor, nodes: int, power: int = 0) -> Tensor:
    """integral_0^1 t^power f(t a) dt."""
    total = torch.empty_like(a, memory_format=torch.contiguous_format)
    at, weights = _nodes_like(a, nodes, power)
    block = _BLOCK.get(a.device.type, _BLOCK["cuda"]) // nodes
    for numbers, means in zip(torch.split(a.reshape(-1), block), torch.split(total.view(-1), block), strict=True):
        torch.mv(function(torch.outer(at, numbers)).T, weights, out=means)
    return total


def _nodes_like(a: Tensor, count: int, power: int) -> tuple[Tensor, Tensor]:
    """Nodes, and weights times their power, in the dtype and on the device of a."""
    nodes, weights = torch.tensor(gauss_legendre(count), dtype=torch.float64).T
    return nodes.to(a), (weights * nodes**power).to(a)
