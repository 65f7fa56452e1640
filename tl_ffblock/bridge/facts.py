"""What a model is, in numbers: its sizes, the longest input it reads, its embeddings, a digest of its weights."""

import hashlib
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.linears import responses_of
from tl_ffblock.bridge.model import MODULES_AFTER_LAST_LAYER, Model
from tl_ffblock.errors import UntrainedHeadError


@dataclass(frozen=True)
class ModelSizes:
    """What its cost depends on."""

    d_model: int
    d_mlp: int
    heads: int
    parameters: int


def model_sizes(model: Model) -> ModelSizes:
    """Read a model's sizes."""
    cfg = model.hooked.cfg
    parameters = sum(parameter.numel() for parameter in model.hooked.parameters())
    return ModelSizes(int(cfg.d_model), int(cfg.d_mlp), int(cfg.n_heads), parameters)


def longest_input(model: Model) -> int | None:
    """Tokens that a model reads at most; None where it sets no limit."""
    return getattr(model.hooked.cfg, "n_ctx", None)


def refuse_untrained_head(model: Model) -> None:
    """Refuse to read logits of a model whose head came without weights.

    Raises:
        UntrainedHeadError: if they are those of random weights.
    """
    if not model.has_trained_head:
        raise UntrainedHeadError(
            f"{model.name} came without weights for its unembedding (it was saved without its head for masked words): its "
            "logits are those of random weights, so neither a metric nor a vector can be read as tokens. Use a model with a "
            "language-model head, or read directions in its residual stream."
        )


def token_vectors(model: Model, ids: Int[Tensor, " token"]) -> Float[Tensor, "token d_model"]:
    """Read the rows of the embedding matrix: what a token is before its position and all layers."""
    return model.hooked.W_E.detach()[ids.to(model.hooked.W_E.device)].float().cpu()


def weights_digest(model: Model, *, head: bool = False) -> str:
    """Digest every parameter up to the last layer, or with the head, by name, shape and bytes.

    A head that nobody trained has other random weights at every loading and says nothing: it is left out.
    """
    with_head = head and model.has_trained_head
    digest = hashlib.sha256(model.family.name.encode())
    for name, tensor in sorted(model.hooked.state_dict().items()):
        if name.startswith(MODULES_AFTER_LAST_LAYER) and not with_head:
            continue
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    for name, response in responses_of(model.hooked).items():  # an adapter's scale is no parameter
        digest.update(f"{name} {response.cpu().tolist()}".encode())
    return digest.hexdigest()
