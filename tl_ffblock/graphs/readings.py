"""Tokens of vectors by the model's own read-out (a logit lens), which correlates and proves nothing.

`I_k(a, b)` of Katz and Belinkov 2023 is the share of their k top tokens that two vectors have in common.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import label
from tl_ffblock.bridge.model import Model, identify
from tl_ffblock.bridge.readout import Reading, read_out
from tl_ffblock.errors import InputError, UnsupportedModelError
from tl_ffblock.layer.positions import whole_number
from tl_ffblock.signatures import strict

_CHUNK = 64
"""Vectors read at a time: a row of logits each."""


def read_vectors(
    model: Model, vectors: Float[Tensor, "vector d"], targets: Sequence[int | None], n_tokens: int
) -> list[dict[str, Any]]:
    """Of each vector its top tokens, the entropy of the reading, and ranks and probabilities of targets, by name.

    The reading is through the final norm, the head and the unembedding of the model; where that gives no tokens, or a target
    is none, there are none, entropy and probabilities are NaN, and ranks 0.

    Args:
        model: The model.
        vectors: Of the residual stream's space.
        targets: Token ids to find; None for a target that is no token.
        n_tokens: How many top tokens.

    Raises:
        IdentityError: if the read-out of the model's last layer is not its logits.
    """
    try:
        readout = read_out(model, "final_norm")
    except UnsupportedModelError:  # no unembedding, or one that was never trained
        return [{"ranks": (0,) * len(targets), "probabilities": (float("nan"),) * len(targets)}] * len(vectors)
    known = torch.tensor([0 if target is None else target for target in targets], dtype=torch.long)
    unknown = torch.tensor([target is None for target in targets], dtype=torch.bool)
    rows: list[tuple[list[Any], ...]] = []
    for logits in readout.in_chunks(vectors, _CHUNK):
        log_probabilities = logits.cpu().double().log_softmax(dim=-1)  # some devices have no float64
        chosen = log_probabilities[:, known]
        above = (log_probabilities[:, None, :] > chosen[:, :, None]).sum(dim=-1)
        columns = (
            log_probabilities.topk(min(n_tokens, log_probabilities.shape[-1])).indices,
            -(log_probabilities.exp() * log_probabilities).nansum(dim=-1),
            (above + 1).masked_fill(unknown, 0),
            chosen.exp().masked_fill(unknown, float("nan")),
        )
        rows += zip(*(column.tolist() for column in columns), strict=True)
    distinct = sorted({token for ids, *_ in rows for token in ids})
    names = dict(zip(distinct, label(model, torch.tensor(distinct)), strict=True))
    return [
        {
            "tokens": tuple(names[token] for token in ids),
            "entropy": entropy,
            "ranks": tuple(ranks),
            "probabilities": tuple(probabilities),
        }
        for ids, entropy, ranks, probabilities in rows
    ]


@strict
def top_tokens(
    model: Any, vectors: Float[Tensor, "vector d_model"], k: int = 50, *, reading: Reading = "final_norm"
) -> Int[Tensor, "vector k"]:
    """The ids of the k tokens of the largest logits of each vector, largest logit first.

    Args:
        model: As in `flow_graph`.
        vectors: Of the residual stream, such as `graph.vectors.nodes`.
        k: How many.
        reading: By the model's own read-out, or "direction": by the unembedding alone.

    Raises:
        InputError: if `k` is not positive, or `reading` unknown.
        UnsupportedModelError: for a model without a trained head.
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
    return torch.cat(
        [logits.topk(min(k, logits.shape[-1])).indices.cpu() for logits in readout.in_chunks(vectors, _CHUNK)]
    )


@strict
def overlap(first: Int[Tensor, "pair k"], second: Int[Tensor, "pair k"]) -> Float[Tensor, " pair"]:
    """`I_k` of each pair: the share of the first's tokens that are among the second's.

    1 for a vector and itself, symmetric; two vectors that have nothing to do with each other share `k / d_vocab` of theirs
    on average only if all tokens are as likely: compare with random vectors, whose first tokens the model's norm and
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
