"""Do two vectors say the same tokens? `I_k(a, b)`, the share that their k first tokens have in common (Katz and Belinkov 2023)."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.model import identify
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.errors import InputError
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.signatures import strict


@strict
def top_tokens(
    model: Any, vectors: Float[Tensor, "vector d_model"], k: int = 50, *, reading: Reading = "final_norm"
) -> Int[Tensor, "vector k"]:
    """The ids of the k tokens that each vector says most, largest logit first.

    Args:
        model: As in `flow_graph`.
        vectors: Of the residual stream, such as `graph.vectors.nodes`.
        k: How many.
        reading: By the model's own read-out, or "direction": by the unembedding alone.

    Raises:
        InputError: if `k` is not positive, or `reading` unknown.
        UnsupportedModelError: for a model whose vectors say no tokens.
    """
    whole_number(k, "k", at_least=1)
    known = identify(model)
    readout, width = read_out(known, reading), known.sizes.d_model
    if not isinstance(vectors, Tensor) or vectors.ndim != 2 or vectors.shape[1] != width:
        given = f"has shape {tuple(vectors.shape)}" if isinstance(vectors, Tensor) else f"is a {type(vectors).__name__}"
        raise InputError(
            f"vectors {given}: expected a tensor [vector, {width}] of {known.name}; of one vector give vector[None]."
        )
    if not bool(vectors.isfinite().all()):
        raise InputError("vectors holds NaN or infinity: no token is more probable than another.")
    return torch.cat([logits.topk(min(k, logits.shape[-1])).indices.cpu() for logits in readout.in_chunks(vectors, 64)])


@strict
def overlap(first: Int[Tensor, "pair k"], second: Int[Tensor, "pair k"]) -> Float[Tensor, " pair"]:
    """`I_k` of each pair: the share of the first's tokens that are among the second's.

    1 for a vector and itself, symmetric; two vectors that have nothing to do with each other share `k / d_vocab` of theirs
    on average only if all tokens are as likely: hold it against random vectors, whose first tokens the model's norm and
    unembedding choose.

    Args:
        first: Of `top_tokens`.
        second: Of `top_tokens`, with the same k.

    Raises:
        InputError: if the two are not of equal shape.
    """
    for name, ids in (("first", first), ("second", second)):
        if not isinstance(ids, Tensor) or ids.ndim != 2 or ids.is_floating_point():
            given = (
                f"has shape {tuple(ids.shape)} of {ids.dtype}"
                if isinstance(ids, Tensor)
                else f"is a {type(ids).__name__}"
            )
            raise InputError(f"{name} {given}: expected token ids [pair, k], as top_tokens gives them.")
    if first.shape != second.shape:
        raise InputError(f"shapes {tuple(first.shape)} and {tuple(second.shape)}: expected as many tokens of as many.")
    shared = (first[:, :, None] == second[:, None, :]).any(dim=-1)
    return shared.double().mean(dim=-1)
