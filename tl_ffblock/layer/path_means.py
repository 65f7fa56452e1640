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
# How many numbers are worked on at a time, lest a sum over nodes goes through memory once a node.
_BLOCK = 2**16


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
    size = a.abs()
    few, large = _NODES[0][0], size > _NODES[0][0]
    n_large = int(large.sum())
    nodes = _nodes_for(a, float(size.max()) if n_large else few)
    if 2 * n_large >= a.numel():
        return path_mean(gate, a, nodes, power=1)
    result = path_mean(gate, a, _nodes_for(a, few), power=1)
    if n_large:
        result[large] = path_mean(gate, a[large], nodes, power=1)
    return result


def path_mean(function: Elementwise, a: Tensor, nodes: int, power: int = 0) -> Tensor:
    """integral_0^1 t^power f(t a) dt."""
    total = torch.zeros_like(a, memory_format=torch.contiguous_format)
    block = _BLOCK if a.device.type == "cpu" else max(1, a.numel())
    for numbers, sums in zip(torch.split(a.reshape(-1), block), torch.split(total.view(-1), block), strict=True):
        for node, weight in gauss_legendre(nodes):
            sums.add_(function(node * numbers), alpha=weight * node**power)
    return total
