"""What the vectors of nodes say as tokens: the model's own read-out (a logit lens), which correlates and proves nothing."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import label
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.readout import read_out
from tl_ffblock.errors import UnsupportedModelError

_CHUNK = 64
"""Vectors read at a time: a row of logits each."""


@dataclass(frozen=True)
class Readings:
    """What each vector says; no column where the model's vectors say no tokens."""

    top: tuple[tuple[str, ...], ...]
    """The tokens with the largest logits, by vector."""
    entropy: Float[Tensor, " vector"]
    """Of the softmax, in nats; NaN where there are no tokens."""
    ranks: Int[Tensor, "vector target"]
    """Of each target's token: 1 is the top token; 0 where a target is no token."""
    probabilities: Float[Tensor, "vector target"]
    """Of each target's token; NaN where a target is no token."""


def read_vectors(
    model: Model, vectors: Float[Tensor, "vector d"], targets: Sequence[int | None], n_tokens: int
) -> Readings:
    """Read vectors through the final norm, the head and the unembedding of the model.

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
        return _nothing(len(vectors), len(targets))
    known = torch.tensor([0 if target is None else target for target in targets], dtype=torch.long)
    unknown = torch.tensor([target is None for target in targets], dtype=torch.bool)
    top, entropy, ranks, probabilities = [], [], [], []
    for logits in readout.in_chunks(vectors, _CHUNK):
        log_probabilities = logits.cpu().double().log_softmax(dim=-1)  # some devices have no float64
        chosen = log_probabilities[:, known]
        top.append(log_probabilities.topk(min(n_tokens, log_probabilities.shape[-1])).indices)
        entropy.append(-(log_probabilities.exp() * log_probabilities).nansum(dim=-1))
        above = (log_probabilities[:, None, :] > chosen[:, :, None]).sum(dim=-1)
        ranks.append((above + 1).masked_fill(unknown, 0))
        probabilities.append(chosen.exp().masked_fill(unknown, float("nan")))
    ids = torch.cat(top)
    distinct = torch.tensor(sorted(set(ids.flatten().tolist())))
    names = dict(zip(distinct.tolist(), label(model, distinct), strict=True))
    return Readings(
        tuple(tuple(names[token] for token in row) for row in ids.tolist()),
        torch.cat(entropy),
        torch.cat(ranks),
        torch.cat(probabilities),
    )


def _nothing(n_vectors: int, n_targets: int) -> Readings:
    nan = float("nan")
    return Readings(
        ((),) * n_vectors,
        torch.full((n_vectors,), nan),
        torch.zeros(n_vectors, n_targets, dtype=torch.long),
        torch.full((n_vectors, n_targets), nan),
    )
