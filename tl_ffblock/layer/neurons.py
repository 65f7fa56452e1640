"""Single neurons of a feed-forward: their keys and values, their coefficients in a run, and what these are made of.

A neuron writes `m_i v_i` into the feed-forward's output: its coefficient m_i times its value, a row of W_out
(Geva et al. 2021). `m_i = g(k_i x + b_i)`, gated `g(k_i x + b_i) (k'_i x + b'_i)` with two keys. Experts' neurons are
numbered one expert after the other, and what the router multiplies an expert by is part of the coefficient; so always

    sum_i m_i v_i + b_out = the feed-forward's output      (b_out weighed by the router, too)

The coefficient is one number of the layer's decomposition before W_out, so it is a sum over source tokens and a bias,
by the same Integrated Gradients (eq. 12-14 of Kobayashi et al. 2024): `coefficient_parts`.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.parts import Parts, reconcile, weigh
from tl_ffblock.layer.records import Block, FeedForward, LayerRecord
from tl_ffblock.layer.scopes import feed_step
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk, walk

_GATE_ROUNDING = 4
"""Absolute error of an activation's gate in units of eps: see `coefficient_rounding`."""


def feed_forwards(block: Block) -> tuple[FeedForward, ...]:
    """The layer's feed-forward, or its experts; none in a model of attention alone."""
    ff = block.feed_forward
    return () if ff is None else (ff,) if isinstance(ff, FeedForward) else ff.experts


def neuron_values(block: Block) -> Float[Tensor, "neuron d"]:
    """What each neuron writes where its coefficient is 1: the rows of W_out."""
    return torch.cat([ff.w_out for ff in feed_forwards(block)])


def located(block: Block, neuron: int) -> tuple[int, int]:
    """The feed-forward or expert of a neuron, and its number in there."""
    for expert, ff in enumerate(feed_forwards(block)):
        if neuron < len(ff.w_out):
            return expert, neuron
        neuron -= len(ff.w_out)
    raise IndexError(neuron)


def coefficients(record: LayerRecord) -> Float[Tensor, "query neuron"]:
    """What every neuron's value is multiplied by; of experts that were not chosen, 0."""
    experts = range(len(feed_forwards(record.block)))
    return torch.cat([coefficients_in(record, expert) for expert in experts], dim=-1)


def coefficients_in(record: LayerRecord, expert: int) -> Float[Tensor, "query neuron"]:
    """The same of one expert's neurons, or of those of the only feed-forward."""
    if record.routing is None:
        assert record.post is not None, "neither activations nor a router"
        return record.post
    ff, weight = feed_forwards(record.block)[expert], record.routing[:, expert]
    chosen = weight.nonzero()[:, 0]
    x = record.tensor(_operand(record))[chosen]
    own = x.new_zeros(len(weight), len(ff.w_out))
    own[chosen] = ff.activation.output(*ff.pre_activations(x)) * weight[chosen, None]
    return own


def coefficient_rounding(record: LayerRecord, eps: float) -> Float[Tensor, "query neuron"]:
    """How far rounding may put a model's own coefficients from exact ones.

    An activation is `g(s) = s Phi(s)` with a gate Phi in [0, 1], such as `(1 + erf(s / sqrt(2))) / 2` of exact GELU. The gate is
    computed with an absolute error of some eps, however small it is, so in its tail no digit of the coefficient is exact:

        |fl(g(s)) - g(s)| <= 4 eps |s|        gated: 4 eps |s u|, of an expert times its weight

    torch's vectorised erf (polynomial 7.1.26 of Abramowitz and Stegun) needs 2.9 of the 4 in float32; others less than 1.

    Args:
        record: The run.
        eps: Of the model's dtype, as in `torch.finfo`.
    """
    x, bounds = record.tensor(_operand(record)), []
    for expert, ff in enumerate(feed_forwards(record.block)):
        pre, linear = record.pre_activations(ff, x)
        bound = _GATE_ROUNDING * eps * (pre.abs() if linear is None else (pre * linear).abs())
        bounds.append(bound if record.routing is None else bound * record.routing[:, expert, None])
    return torch.cat(bounds, dim=-1)


def weighed_shares(
    record: LayerRecord, shares: Parts, settings: Settings, own: Float[Tensor, "query neuron"], expert: int
) -> Parts:
    """Shares of activations as shares of coefficients: times the router's weight, what edits brought in the remainder.

    Args:
        record: The run.
        shares: Of some neurons' activations (`LayerWalk.neuron_shares`).
        settings: How the decomposition is made.
        own: The coefficients of these neurons.
        expert: The expert whose neurons they are.
    """
    weighed = shares if record.routing is None else weigh(shares, record.routing[:, expert, None])
    return reconcile(weighed, own, settings.rtol) if record.edited else weighed


def coefficient_parts(record: LayerRecord, settings: Settings, neurons: Sequence[int]) -> Parts:
    """Coefficients as sums over source tokens, [query key neuron], and a bias part.

    Law: `parts.total() = coefficients(record)[:, neurons]`. The bias part holds what no token brings: biases on the way,
    and what the activation gives at zero.
    """
    by_expert: dict[int, list[int]] = {}
    places = [located(record.block, neuron) for neuron in neurons]
    for expert, inside in places:
        by_expert.setdefault(expert, []).append(inside)
    operand = _operand(record)
    read = next(parts for scope, parts in walk(LayerWalk(record, settings)) if scope == operand)
    parts = {expert: _parts_in(record, settings, read, expert, inside) for expert, inside in by_expert.items()}
    columns = [(expert, by_expert[expert].index(inside)) for expert, inside in places]

    def chosen(name: str) -> Tensor:
        return torch.stack([getattr(parts[expert], name)[..., column] for expert, column in columns], dim=-1)

    edited = all(part.remainder is not None for part in parts.values())
    return Parts(chosen("tokens"), chosen("bias"), chosen("remainder") if edited else None)


def _parts_in(record: LayerRecord, settings: Settings, read: Parts, expert: int, inside: Sequence[int]) -> Parts:
    """The same for some neurons of one expert, or of the feed-forward, from the parts of what it reads."""
    chosen = torch.as_tensor(inside, device=record.resid_pre.device)
    layer_walk, ff = LayerWalk(record.neurons(chosen), settings), feed_forwards(record.block)[expert].neurons(chosen)
    shares = layer_walk.neuron_shares(read, ff, record.tensor(_operand(record)), expert)
    return weighed_shares(record, shares, settings, coefficients_in(record, expert)[:, chosen], expert)


def _operand(record: LayerRecord) -> str:
    """What the feed-forward reads."""
    (operand,) = feed_step(record.block.order).operands
    return operand
