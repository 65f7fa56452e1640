"""Single neurons of a feed-forward: their keys and values, their coefficients in a run, and what these are made of.

A neuron writes `m_i v_i` into the feed-forward's output: its coefficient m_i times its value, a row of W_out
(Geva et al. 2021). `m_i = g(k_i x + b_i)`, gated `g(k_i x + b_i) (k'_i x + b'_i)` with two keys. Experts' neurons are
numbered one expert after the other, and what the router multiplies an expert by is part of the coefficient; so always

    sum_i m_i v_i + b_out = the feed-forward's output      (b_out weighed by the router, too)

The coefficient is one number of the layer's decomposition before W_out, so it is a sum over source tokens and a bias,
by the same Integrated Gradients (eq. 12-14 of Kobayashi et al. 2024): `coefficient_parts`.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.parts import Parts, weigh
from tl_ffblock.layer.records import Block, FeedForward, LayerRecord
from tl_ffblock.layer.scopes import PROGRAMS, Feed
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk, walk


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
    if record.routing is None:
        assert record.post is not None, "neither activations nor a router"
        return record.post
    x = record.tensor(_feed(record)[1])
    by_expert = [
        ff.activation.output(*ff.pre_activations(x)) * weight[:, None]
        for ff, weight in zip(feed_forwards(record.block), record.routing.T, strict=True)
    ]
    return torch.cat(by_expert, dim=-1)


def coefficient_parts(record: LayerRecord, settings: Settings, neurons: Sequence[int]) -> Parts:
    """Coefficients as sums over source tokens, [query key neuron], and a bias part.

    Law: `parts.total() = coefficients(record)[:, neurons]`. The bias part holds what no token brings: biases on the way,
    and what the activation gives at zero.
    """
    by_expert: dict[int, list[int]] = {}
    places = [located(record.block, neuron) for neuron in neurons]
    for expert, inside in places:
        by_expert.setdefault(expert, []).append(inside)
    parts = {expert: _parts_of_expert(record, settings, expert, inside) for expert, inside in by_expert.items()}
    columns = [(expert, by_expert[expert].index(inside)) for expert, inside in places]

    def chosen(name: str) -> Tensor:
        return torch.stack([getattr(parts[expert], name)[..., column] for expert, column in columns], dim=-1)

    edited = all(part.remainder is not None for part in parts.values())
    return Parts(chosen("tokens"), chosen("bias"), chosen("remainder") if edited else None)


def _parts_of_expert(record: LayerRecord, settings: Settings, expert: int, inside: Sequence[int]) -> Parts:
    """The same for some neurons of one expert, or of the feed-forward: the layer's walk as far as there, without W_out."""
    scope, _ = _feed(record)
    layer_walk = LayerWalk(_of_neurons(record, expert, inside), settings)
    parts = next(parts for name, parts in walk(layer_walk) if name == scope)
    return parts if record.routing is None else weigh(parts, record.routing[:, expert, None])


def _of_neurons(record: LayerRecord, expert: int, inside: Sequence[int]) -> LayerRecord:
    """The same run of a layer whose feed-forward is some of its neurons, and gives their coefficients as they are."""
    chosen = torch.as_tensor(inside, device=record.resid_pre.device)
    ff = feed_forwards(record.block)[expert]
    own = replace(
        ff,
        w_in=ff.w_in[:, chosen],
        b_in=ff.b_in[chosen],
        w_out=torch.eye(len(chosen), dtype=ff.w_out.dtype, device=ff.w_out.device),
        b_out=ff.b_out.new_zeros(len(chosen)),
        w_gate=None if ff.w_gate is None else ff.w_gate[:, chosen],
        b_gate=None if ff.b_gate is None else ff.b_gate[chosen],
    )
    scope, of = _feed(record)
    if record.post is None:
        whole = own.activation.output(*own.pre_activations(record.tensor(of)))
    else:
        whole = record.post[:, chosen]
    return replace(
        record,
        block=replace(record.block, feed_forward=own),
        pre=None if record.pre is None else record.pre[:, chosen],
        pre_linear=None if record.pre_linear is None else record.pre_linear[:, chosen],
        post=None if record.post is None else whole,
        whole={**record.whole, scope: whole},
        routing=None,
    )


def _feed(record: LayerRecord) -> tuple[str, str]:
    """The feed-forward's scope, and what it reads."""
    for step in PROGRAMS[record.block.order]:
        if isinstance(step.operation, Feed):
            return step.scope, step.operation.of
    raise AssertionError(f"a {record.block.order} block has no feed-forward")
