"""Products of weights that are made once per model: `A[h] = lin(W_O[h]) W`, from a head's values to pre-activations.

`lin` is the linear part of the norms between attention and the feed-forward's input matrix W. Without
the product, a source token j needs its heads' vectors `B[h,j] = lin(v[h,j] W_O[h])` times W; with it,
`v[h,j] A[h]`, which has d_head rows of W to go through instead of d_model:

    without   n_heads * d_model * d_mlp   operations a source token
    with      n_heads * d_head  * d_mlp = d_model * d_mlp        (as n_heads * d_head = d_model)
    making A  n_heads * d_head  * d_model * d_mlp = d_model^2 * d_mlp, once

So making it pays from `n_keys * (d_model - d_head) = d_head * d_model` source tokens on (`product_pays`), of one head as of all. What is kept is
checked against the weights at every use and made again when they changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import torch
from einops import einsum
from jaxtyping import Float
from torch import Tensor

from tl_ffblock.layer.records import InputMatrix, Norm

KEPT_BYTES = 256 * 2**20
"""How much a model's products may occupy; those of further layers are made anew at every call."""

_ROWS_A_MODEL_WIDTH = 32
"""Up to this many pairs for each of d_model, making a product is felt: it takes d_model rows through W, and the
pairs take theirs through W_out. Beyond, it is less than a thirtieth of the work, and not worth the memory."""

_CALLS_EXPECTED = 4
"""A product that is kept serves further calls: it pays from a fourth of the source tokens on."""

MakeProduct: TypeAlias = Callable[..., Float[Tensor, "head d_head d_mlp"]]
"""`HeadProducts.product`, or the same of some heads."""


class ProductKey(NamedTuple):
    """Which input matrix of a model a product is of."""

    layer: int
    expert: int
    """Number of the expert in its layer; 0 for a feed-forward without experts."""
    matrix: InputMatrix


@dataclass
class HeadProducts:
    """The head products of one model; whoever owns the model keeps them."""

    limit_bytes: int = KEPT_BYTES
    _kept: dict[ProductKey, tuple[Float[Tensor, "head d_head d_mlp"], Float[Tensor, " number"]]] = field(
        default_factory=dict
    )
    """With fingerprints: products of the weights with fixed vectors, of which other weights give others."""

    def product(
        self,
        key: ProductKey,
        w_o: Float[Tensor, "head d_head d_model"],
        norms: Sequence[Norm],
        w: Float[Tensor, "d_model d_mlp"],
        *,
        keep: bool,
    ) -> Float[Tensor, "head d_head d_mlp"]:
        """`A[h] = lin(W_O[h]) W`, as it was kept, or made now.

        Args:
            key: Which input matrix W is.
            w_o: The heads' output matrices.
            norms: What lies between attention and W; only their linear parts count.
            w: An input matrix of the feed-forward.
            keep: Whether the product will be needed again soon.
        """
        kept = self._kept.get(key)
        # A model may be edited in place between two calls (weights processed, a layer replaced), unseen by any key.
        fingerprint = _fingerprint(w_o, norms, w) if keep or kept is not None else None
        # The same rows as fewer, wider heads (`as_one_head`) have the same fingerprint, and a product of another shape.
        fits = kept is not None and kept[0].shape[:2] == w_o.shape[:2]
        if kept is not None and fits and fingerprint is not None and _equal(kept[1], fingerprint):
            return kept[0]
        product = einsum(linear_parts(norms, w_o), w, "head d_head d, d d_mlp -> head d_head d_mlp")
        self._kept.pop(key, None)
        if keep and fingerprint is not None and self.n_bytes() + product.nbytes <= self.limit_bytes:
            self._kept[key] = product, fingerprint
        return product

    def n_bytes(self) -> int:
        """How many bytes are kept."""
        return sum(product.nbytes for product, _ in self._kept.values())


def product_pays(n_keys: int, n_pairs: int, w_o: Float[Tensor, "head d_head d_model"]) -> tuple[bool, bool]:
    """Whether so many source tokens are less work with the product, and so few pairs that it is worth keeping."""
    _, d_head, d_model = w_o.shape
    keep = n_pairs < _ROWS_A_MODEL_WIDTH * d_model
    return n_keys * (d_model - d_head) >= d_head * d_model // (_CALLS_EXPECTED if keep else 1), keep


def linear_parts(norms: Sequence[Norm], vectors: Float[Tensor, "*lead d_model"]) -> Float[Tensor, "*lead d_model"]:
    """Vectors through the linear parts of some norms: centred and times the gain, divided by no scale."""
    for norm in norms:
        vectors = norm.linear(vectors)
    return vectors


def _fingerprint(
    w_o: Float[Tensor, "head d_head d_model"], norms: Sequence[Norm], w: Float[Tensor, "d_model d_mlp"]
) -> Float[Tensor, " number"]:
    d_model, d_mlp = w.shape
    across_d_mlp, across_d_model = (
        torch.linspace(0.5, 1.5, size, dtype=w.dtype, device=w.device) for size in (d_mlp, d_model)
    )
    return torch.cat([w @ across_d_mlp, (w_o @ across_d_model).flatten(), *(norm.gain for norm in norms)])


def _equal(first: Float[Tensor, " number"], second: Float[Tensor, " some"]) -> bool:
    return first.shape == second.shape and first.dtype == second.dtype and bool((first == second).all())
