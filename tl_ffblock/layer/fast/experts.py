"""A layer's feed-forward as the rows need it: matrices, and what Integrated Gradients multiplies them by.

A dense feed-forward is one expert that serves every row. At query i its coefficients are numbers per
neuron, the same for every source token, so everything that depends on the query alone is multiplied once
and not once a pair: `coefficient_i = r_i * scale_i * router_i`, with r of the closed form (activations.py),
the head sum's scale and the router's weight.
"""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.activations import PathCoefficients
from tl_ffblock.layer.fast.head_sums import HeadSum, ReachablePairs, Tile
from tl_ffblock.layer.fast.products import (
    InputMatrix,
    ProductKey,
    Products,
    product_pays,
    worth_keeping,
)
from tl_ffblock.layer.records import FeedForward
from tl_ffblock.layer.scopes import NormName


@dataclass(frozen=True)
class FeedForwardInput:
    """What goes into a layer's feed-forward."""

    pairs: ReachablePairs
    head_sum: HeadSum
    """As a sum of parts."""
    x: Float[Tensor, "query d_model"]
    """As the real run had it."""
    paths: dict[int, PathCoefficients] = field(default_factory=dict)
    """The coefficients of Integrated Gradients by number of the expert, where they were made before."""


@dataclass(frozen=True)
class Branch:
    """One input matrix of a feed-forward: W_in, or W_gate and W_in of a gated one, whose rows are summed."""

    buffer: tuple[InputMatrix, int]
    """Where the heads' pre-activations are kept: branches that are in use at a time have different buffers."""
    w: Float[Tensor, "d_model d_mlp"]
    coefficient: Float[Tensor, "query d_mlp"]
    """What the heads' pre-activations are multiplied by (above)."""
    product: Float[Tensor, "head d_head d_mlp"] | None
    """The head product with W, where it pays."""

    def heads(self, tile: Tile, norms: tuple[NormName, ...]) -> Float[Tensor, "matrix head d_mlp"]:
        """The heads' pre-activations of a tile's source tokens."""
        if self.product is None:
            return tile.group.pre_activations(self.buffer, self.w, norms)[tile.keys_in_group]
        return tile.group.pre_activations_by_product(self.buffer, self.product)[tile.keys_in_group]


@dataclass(frozen=True)
class Expert:
    """One feed-forward with its coefficients at every row."""

    number: int
    """In its layer."""
    path: PathCoefficients
    """The coefficients of Integrated Gradients alone, without the scale and the router's weight."""
    w_out: Float[Tensor, "d_mlp d_model"]
    branches: list[Branch]
    residual: Float[Tensor, "query d_mlp"] | None
    """The weighed pre-activation of what the residual brought to every query's own token; None where nothing."""
    rows: list[int] | None
    """Which rows the router sent here; None means all, of a dense feed-forward."""

    def rows_in(self, neighbours: slice) -> Sequence[int]:
        """Which of some neighbouring rows it serves."""
        if self.rows is None:
            return range(neighbours.start, neighbours.stop)
        return self.rows[bisect_left(self.rows, neighbours.start) : bisect_left(self.rows, neighbours.stop)]


@dataclass(frozen=True)
class _Served:
    """Which expert of a layer, and how much every query takes of it."""

    number: int
    """In the layer."""
    slot: int
    """Among those in use, which share the buffers of a run: number 57 of 64 may be the third in use."""
    router: Float[Tensor, " query"] | None
    """None: a dense feed-forward, of which every query takes all."""


def experts_of(given: FeedForwardInput, products: Products) -> list[Expert]:
    """The layer's feed-forward, or those of its experts that any query was sent to."""
    record = given.pairs.record
    ff, routing = record.block.feed_forward, record.routing
    if isinstance(ff, FeedForward):
        return [_expert(given, ff, _Served(0, 0, None), products)]
    assert ff is not None and routing is not None
    used = [number for number, weight in enumerate(routing.T) if bool(weight.any())]
    served = [_Served(number, slot, routing[:, number]) for slot, number in enumerate(used)]
    return [_expert(given, ff.experts[expert.number], expert, products) for expert in served]


def _expert(given: FeedForwardInput, ff: FeedForward, served: _Served, products: Products) -> Expert:
    head_sum = given.head_sum
    assert head_sum.scale is not None
    if served.number not in given.paths:
        pre_activations = given.pairs.record.pre_activations(ff, given.x)
        given.paths[served.number] = ff.activation.coefficients(*pre_activations)
    coefficients = given.paths[served.number]
    # Without a gate r is of W_in's pre-activation; with one there are two, B(a) u of W_gate's and A(a) of W_in's.
    matrices: list[tuple[InputMatrix, Tensor, Tensor]]
    if ff.w_gate is None:
        matrices = [("in", ff.w_in, coefficients.on_pre)]
    else:
        assert coefficients.on_linear is not None
        matrices = [("gate", ff.w_gate, coefficients.on_pre), ("in", ff.w_in, coefficients.on_linear)]
    router = 1 if served.router is None else served.router[:, None]
    residual: Tensor | None = None
    if head_sum.residual is not None:
        # It is divided by all scales already (HeadSum.normalised), so only r and the router's weight are left.
        for _, w, r in matrices:
            weighed = (head_sum.residual @ w).mul_(r * router)
            residual = weighed if residual is None else residual.add_(weighed)
    return Expert(
        number=served.number,
        path=coefficients,
        w_out=ff.w_out,
        branches=[
            Branch(
                buffer=(matrix, served.slot),
                w=w,
                coefficient=r * (head_sum.scale * router),
                product=_head_product(given, ProductKey(given.pairs.record.layer, served.number, matrix), w, products),
            )
            for matrix, w, r in matrices
        ],
        residual=residual,
        rows=None if served.router is None else served.router.nonzero()[:, 0].tolist(),
    )


def _head_product(
    given: FeedForwardInput,
    key: ProductKey,
    w: Float[Tensor, "d_model d_mlp"],
    products: Products,
) -> Float[Tensor, "head d_head d_mlp"] | None:
    """The heads' output matrices and W in one, where that is less work than every head's vector through W."""
    block = given.pairs.record.block
    w_o = block.attention.w_o
    keep = worth_keeping(given.pairs.count(), d_model=w_o.shape[2])
    if not product_pays(given.pairs.n_sequences * given.pairs.n_keys, w_o, keep=keep):
        return None
    return products.product(key, w_o, [block.norm(name) for name in given.head_sum.norms], w, keep=keep)
