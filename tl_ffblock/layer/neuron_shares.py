"""Which neurons of a feed-forward carry a contribution, from the closed form that makes it.

At one query the feed-forward adds neuron n's value v_n with the coefficient m_n (neurons.py). Integrated Gradients write m_n as
a sum over source tokens and bias,

    m_n = sum_j m_n(j) + m_n(bias)        so that        F(x_j) = sum_n m_n(j) v_n ,

and along the direction u = F(x_j) / ||F(x_j)|| of that part every neuron has a signed share

    s_n(j) = m_n(j) <v_n, u> ,            sum_n s_n(j) = ||F(x_j)|| .
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.layer.neurons import coefficients_in, feed_forwards, located, weighed_shares
from tl_ffblock.layer.parts import Parts
from tl_ffblock.layer.records import Block, FeedForward, LayerRecord
from tl_ffblock.layer.scopes import feed_step
from tl_ffblock.layer.settings import Settings
from tl_ffblock.layer.vectors import LayerWalk, walk


@dataclass(frozen=True)
class RowNeurons:
    """The neurons of one query's row and some of its keys; of experts those that the query was sent to."""

    numbers: Int[Tensor, " neuron"]
    """Among all neurons of the layer, experts one after the other."""
    coefficients: Float[Tensor, " neuron"]
    """m_n, the model's own."""
    bias_shares: Float[Tensor, " neuron"]
    """m_n(bias), with the effect of edits inside the block."""
    token_shares: Float[Tensor, "key neuron"]
    """m_n(j) of the keys asked for."""
    shares: Float[Tensor, "key neuron"]
    """s_n(j), residual-stream units."""
    norms: Float[Tensor, " key"]
    """||F(x_j)||, of the vectors that the decomposition gives."""
    coefficient_error: float
    """How well all tokens' shares and the bias' sum to m_n: norm of the gap over all neurons by the norm of m."""
    share_errors: Float[Tensor, " key"]
    """How well the neurons' shares sum to the norm, relative to it."""
    feed: Parts
    """The row's decomposition after the feed-forward, to be held against the model's tensor."""


def neuron_name(block: Block, number: int) -> str:
    """What a neuron is called, as memories are: "9:512", in a mixture of experts "9:3:512" (layer, expert, neuron)."""
    expert, inside = located(block, number)
    return f"{block.layer}:{inside}" if len(feed_forwards(block)) == 1 else f"{block.layer}:{expert}:{inside}"


def neurons_of_row(record: LayerRecord, settings: Settings, keys: Int[Tensor, " key"]) -> RowNeurons:
    """Which neurons carry the contributions of some keys to a query.

    Args:
        record: One layer of one sequence, of one query.
        settings: How the decomposition is made.
        keys: Positions of the source tokens.

    Raises:
        UnsupportedModelError: if the layer has no feed-forward.
    """
    neuron_walk, scope = _NeuronWalk(record, settings), feed_step(record.block.order).scope
    feed = next(parts for name, parts in walk(neuron_walk) if name == scope)
    experts = sorted(neuron_walk.kept)
    kept = [neuron_walk.kept[expert] for expert in experts]
    tokens = torch.cat([parts.tokens[0] for parts in kept], dim=-1)
    bias = torch.cat([(parts.total() - parts.tokens.sum(dim=1))[0] for parts in kept], dim=-1)
    own = torch.cat([coefficients_in(record, expert)[0] for expert in experts])
    vectors = feed.tokens[0, keys]
    norms = vectors.norm(dim=-1)
    directions = vectors / torch.where(norms == 0, 1, norms)[:, None]
    along = [directions @ feed_forwards(record.block)[expert].w_out.T for expert in experts]
    shares = tokens[keys] * torch.cat(along, dim=-1)
    gap = tokens.sum(dim=0) + bias - own
    return RowNeurons(
        numbers=torch.cat([neuron_walk.numbers(expert) for expert in experts]),
        coefficients=own,
        bias_shares=bias,
        token_shares=tokens[keys],
        shares=shares,
        norms=norms,
        coefficient_error=float(gap.norm() / own.norm().clamp(min=torch.finfo(own.dtype).tiny)),
        share_errors=(shares.sum(dim=-1) - norms).abs() / torch.where(norms == 0, 1, norms),
        feed=feed,
    )


class _NeuronWalk(LayerWalk):
    """A layer walked as always, the shares of every feed-forward's neurons kept on the way, weighed by the router."""

    def __init__(self, record: LayerRecord, settings: Settings) -> None:
        super().__init__(record, settings)
        self.kept: dict[int, Parts] = {}

    def neuron_shares(self, parts: Parts, ff: FeedForward, x: Float[Tensor, "query d"], expert: int) -> Parts:
        shared = super().neuron_shares(parts, ff, x, expert)
        own = coefficients_in(self.record, expert)
        self.kept[expert] = weighed_shares(self.record, shared, self.settings, own, expert)
        return shared

    def numbers(self, expert: int) -> Int[Tensor, " neuron"]:
        """The numbers of an expert's neurons among all of the layer."""
        widths = [len(ff.w_out) for ff in feed_forwards(self.block)]
        return torch.arange(widths[expert], device=self.record.resid_pre.device) + sum(widths[:expert])
