"""Single neurons of a feed-forward: keys, values, activations, and the attribution of an activation to source tokens.

A neuron adds `m_n v_n` to the feed-forward's output: its activation m_n (memory coefficient in Geva et al. 2021) times its
value v_n, a row of W_out. `m_n = g(k_n x + b_n)`, gated `g(k_n x + b_n) (k'_n x + b'_n)` with two keys. Neurons of experts are
numbered one expert after the other, and the router's weight is a factor of the activation, so that always

    sum_n m_n v_n + b_out = the feed-forward's output      (b_out weighted by the router, too)

By the same Integrated Gradients as the layer's decomposition (eq. 12-14 of Kobayashi et al. 2024), an activation is a sum over
source tokens and a bias,

    m_n = sum_j m_n(j) + m_n(bias)        so that        F(x_j) = sum_n m_n(j) v_n ,

and along the direction u = F(x_j) / ||F(x_j)|| of this contribution every neuron has a signed attribution

    s_n(j) = m_n(j) <v_n, u> ,            sum_n s_n(j) = ||F(x_j)|| .
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.linear import LinearLayer, Parts, reconcile, weigh
from tl_ffblock.layer.records import Block, LayerRecord, Settings, feed_forwards as feed_forwards
from tl_ffblock.layer.scopes import feed_step

# Absolute error of an activation function's gate, in units of eps; see `coefficient_rounding`.
_GATE_ROUNDING = 4


@dataclass(frozen=True)
class RowNeurons:
    """Neurons of one query's row, and their attributions for some keys; of experts only those that the query was sent to.

    `numbers` count among all neurons of the layer, experts one after the other. `coefficients` are m_n, the model's own.
    `bias_shares` are m_n(bias), including the effect of edits inside the block. `token_shares` are m_n(j) of the keys asked
    for. `shares` are s_n(j), in residual-stream units. `norms` are ||F(x_j)|| of the decomposition's vectors.
    `coefficient_error` is the norm, over neurons, of the gap between m and the sum of all its terms, relative to the norm of m.
    `share_errors` are the gaps between ||F(x_j)|| and the sum of s_n(j), relative to ||F(x_j)||. `feed` is the row's
    decomposition after the feed-forward, to compare with the model's tensor.
    """

    numbers: Int[Tensor, " neuron"]
    coefficients: Float[Tensor, " neuron"]
    bias_shares: Float[Tensor, " neuron"]
    token_shares: Float[Tensor, "key neuron"]
    shares: Float[Tensor, "key neuron"]
    norms: Float[Tensor, " key"]
    coefficient_error: float
    share_errors: Float[Tensor, " key"]
    feed: Parts


def neuron_values(block: Block) -> Float[Tensor, "neuron d"]:
    """Value vectors of all neurons: the rows of W_out."""
    return torch.cat([ff.w_out for ff in feed_forwards(block)])


def located(block: Block, neuron: int) -> tuple[int, int]:
    """Number of the feed-forward or expert of a neuron, and the neuron's number in it.

    Raises:
        IndexError: if the layer has no such neuron.
    """
    for expert, ff in enumerate(feed_forwards(block)):
        if neuron < len(ff.w_out):
            return expert, neuron
        neuron -= len(ff.w_out)
    raise IndexError(neuron)


def neuron_name(block: Block, number: int) -> str:
    """Name of a neuron: "9:512" (layer, neuron), in a mixture of experts "9:3:512" (layer, expert, neuron)."""
    expert, inside = located(block, number)
    return f"{block.layer}:{inside}" if len(feed_forwards(block)) == 1 else f"{block.layer}:{expert}:{inside}"


def coefficients(record: LayerRecord) -> Float[Tensor, "query neuron"]:
    """Activations m_n of all neurons; 0 for experts that were not chosen."""
    return torch.cat([coefficients_in(record, expert) for expert in range(len(feed_forwards(record.block)))], dim=-1)


def coefficients_in(record: LayerRecord, expert: int) -> Float[Tensor, "query neuron"]:
    """Activations of one expert's neurons, or of the only feed-forward's."""
    if record.routing is None:
        assert record.post is not None, "neither activations nor a router"
        return record.post
    ff, weight = feed_forwards(record.block)[expert], record.routing[:, expert]
    chosen = weight.nonzero()[:, 0]
    x = record.tensor(_operand(record))[chosen]
    own = x.new_zeros(len(weight), len(ff.w_out))
    own[chosen] = ff.weighed(x, weight[chosen])
    return own


def coefficient_rounding(record: LayerRecord, eps: float) -> Float[Tensor, "query neuron"]:
    """Largest rounding error of a model's own activations m_n.

    The activation function is `g(s) = s Phi(s)` with a gate Phi in [0, 1], such as `(1 + erf(s / sqrt(2))) / 2` of exact GELU.
    The gate is computed with an absolute error of some eps, however small it is, so in its tail no digit of m_n is exact:

        |fl(g(s)) - g(s)| <= 4 eps |s|        gated: 4 eps |s u|, of an expert times its weight

    The vectorised erf of torch (polynomial 7.1.26 of Abramowitz and Stegun) needs 2.9 of the 4 in float32; others need less
    than 1.

    Args:
        record: The layer record.
        eps: Machine epsilon of the model's dtype, as in `torch.finfo`.
    """
    x, bounds = record.tensor(_operand(record)), []
    for expert, ff in enumerate(feed_forwards(record.block)):
        pre, linear = record.pre_activations(ff, x)
        bound = _GATE_ROUNDING * eps * (pre.abs() if linear is None else (pre * linear).abs())
        bound = bound if record.post_factor is None else bound * record.post_factor.abs()
        if record.routing is not None:
            weight = record.routing[:, expert, None]
            bound = bound * (weight ** len(ff.inputs) if ff.scaled_input else weight)
        bounds.append(bound)
    return torch.cat(bounds, dim=-1)


def coefficient_parts(record: LayerRecord, settings: Settings, neurons: Sequence[int]) -> Parts:
    """Activations m_n of some neurons as sums over source tokens, [query key neuron], and a bias part [query neuron].

    `parts.total()` equals `coefficients(record)[:, neurons]`. The bias part has what no token contributes: biases before the
    activation, and its value at zero.
    """
    places = [located(record.block, neuron) for neuron in neurons]
    by_expert: dict[int, list[int]] = {}
    for expert, inside in places:
        by_expert.setdefault(expert, []).append(inside)
    read = LinearLayer(record, settings).parts([_operand(record)])[_operand(record)]
    parts = {expert: _parts_in(record, settings, read, expert, inside) for expert, inside in by_expert.items()}
    columns = [(expert, by_expert[expert].index(inside)) for expert, inside in places]

    def chosen(name: str) -> Tensor:
        return torch.stack([getattr(parts[expert], name)[..., column] for expert, column in columns], dim=-1)

    edited = all(part.remainder is not None for part in parts.values())
    return Parts(chosen("tokens"), chosen("bias"), chosen("remainder") if edited else None)


def neurons_of_row(record: LayerRecord, settings: Settings, keys: Int[Tensor, " key"]) -> RowNeurons:
    """Neurons of one query's row, with their attributions for some keys.

    Args:
        record: One layer of one sequence, with one query.
        settings: Options of the decomposition.
        keys: Positions of the source tokens.

    Raises:
        UnsupportedModelError: if the layer has no feed-forward.
    """
    block, step = record.block, feed_step(record.block.order)
    at = LinearLayer(record, settings).parts([step.scope])
    feed, read = at[step.scope], at[_operand(record)]
    experts = [number for number, _, _ in record.feed_forwards()]
    parts = [_parts_in(record, settings, read, expert) for expert in experts]
    tokens = torch.cat([part.tokens[0] for part in parts], dim=-1)
    bias = torch.cat([(part.total() - part.tokens.sum(dim=1))[0] for part in parts], dim=-1)
    own = torch.cat([coefficients_in(record, expert)[0] for expert in experts])
    vectors = feed.tokens[0, keys]
    norms = vectors.norm(dim=-1)
    directions = vectors / torch.where(norms == 0, 1, norms)[:, None]
    shares = tokens[keys] * torch.cat([directions @ feed_forwards(block)[n].w_out.T for n in experts], dim=-1)
    gap = tokens.sum(dim=0) + bias - own
    numbers = torch.arange(sum(len(ff.w_out) for ff in feed_forwards(block)), device=own.device)
    of_expert = torch.split(numbers, [len(ff.w_out) for ff in feed_forwards(block)])
    return RowNeurons(
        numbers=torch.cat([of_expert[expert] for expert in experts]),
        coefficients=own,
        bias_shares=bias,
        token_shares=tokens[keys],
        shares=shares,
        norms=norms,
        coefficient_error=float(gap.norm() / own.norm().clamp(min=torch.finfo(own.dtype).tiny)),
        share_errors=(shares.sum(dim=-1) - norms).abs() / torch.where(norms == 0, 1, norms),
        feed=feed,
    )


def _parts_in(
    record: LayerRecord, settings: Settings, read: Parts, expert: int, inside: Sequence[int] | None = None
) -> Parts:
    """Activations of neurons of one expert or feed-forward, from the parts of its input; `inside` None means all neurons.

    They include the router's weight; the effect of edits is the remainder.
    """
    ff, some, own = feed_forwards(record.block)[expert], record, coefficients_in(record, expert)
    if inside is not None:
        chosen = torch.as_tensor(inside, device=record.resid_pre.device)
        ff, some, own = ff.neurons(chosen), record.neurons(chosen), own[:, chosen]
    shares = LinearLayer(some, settings).neuron_shares(read, expert, ff, record.tensor(_operand(record)))
    weighed = shares if record.routing is None else weigh(shares, record.routing[:, expert, None])
    return reconcile(weighed, own, settings.rtol) if record.edited else weighed


def _operand(record: LayerRecord) -> str:
    """Scope that the feed-forward reads."""
    (operand,) = feed_step(record.block.order).operands
    return operand
