"""Metrics that compare a run with something: with the clean run, or with the prompt that is to be foretold."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import one_position
from tl_ffblock.metrics.metric import CleanRun, Metric
from tl_ffblock.signatures import strict


@strict
@dataclass(frozen=True)
class KLDivergence(Metric):
    """`KL(clean || run)` of the next token's distribution at one position, in nats."""

    clean: Float[Tensor, "batch pos d_vocab"] | None
    """The clean runs' logits, one for all runs or one a run; None means those of each prompt's own clean run."""
    at: int = -1
    name: str = "KL divergence"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if self.clean is None:
            raise InputError(
                "kl_divergence() compares with clean logits: give them, kl_divergence(model(clean_tokens))."
            )
        if len(self.clean) not in (1, len(logits)):
            raise InputError(f"kl_divergence: {len(self.clean)} clean runs, the logits are of {len(logits)} runs.")
        if self.clean.shape[-1] != logits.shape[-1]:
            raise InputError(
                f"kl_divergence: clean logits of {self.clean.shape[-1]} tokens, the run's of {logits.shape[-1]}: expected those of "
                "the same model."
            )
        clean, edited = (
            values[:, one_position(self.at, values.shape[1], "at")].double().log_softmax(dim=-1)
            for values in (self.clean, logits)
        )
        return (clean.exp() * (clean - edited)).sum(dim=-1)

    def of_prompt(self, run: CleanRun) -> "KLDivergence":
        return replace(self, clean=run.logits[None]) if self.clean is None else self


@strict
@dataclass(frozen=True)
class Loss(Metric):
    """Mean next-token cross-entropy over the prompt, in nats."""

    tokens: Int[Tensor, "batch pos"] | None
    """The prompts, one for all runs or one a run; None means each prompt's own."""
    at: int | None = None
    name: str = "loss"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if self.tokens is None:
            raise InputError("loss() needs the tokens that are to be foretold: give them, loss(tokens).")
        if len(self.tokens) not in (1, len(logits)) or self.tokens.shape[1] != logits.shape[1]:
            raise InputError(
                f"loss: tokens of shape {tuple(self.tokens.shape)}, logits of {tuple(logits.shape[:2])} [batch pos]."
            )
        if int(self.tokens.min()) < 0 or int(self.tokens.max()) >= logits.shape[-1]:
            raise InputError(
                f"loss: tokens from {int(self.tokens.min())} to {int(self.tokens.max())}; expected ids 0 to {logits.shape[-1] - 1}."
            )
        following = self.tokens[:, 1:].expand(len(logits), -1).to(logits.device)
        log_probabilities = logits[:, :-1].double().log_softmax(dim=-1)
        return -log_probabilities.gather(-1, following[..., None])[..., 0].mean(dim=-1)

    def of_prompt(self, run: CleanRun) -> "Loss":
        return replace(self, tokens=run.tokens[None]) if self.tokens is None else self


@strict
def kl_divergence(clean: Float[Tensor, "batch pos d_vocab"] | None = None, *, at: int = -1) -> KLDivergence:
    """`KL(clean || run)` of the next token's distribution at one position, in nats.

    Args:
        clean: Logits of the clean runs; None, for calls that run the model, means each prompt's own clean run.
        at: Position to read, the last by default.

    Raises:
        InputError: if `clean` is not such a tensor, or holds NaN.
    """
    if clean is not None and (not isinstance(clean, Tensor) or clean.ndim != 3 or not clean.is_floating_point()):
        raise InputError(
            f"clean={brief(clean)}: expected logits [batch pos d_vocab], such as model(clean_tokens), or None."
        )
    if clean is not None and bool(clean.isnan().any()):
        raise InputError("clean holds NaN: expected the logits of a run that is sound.")
    return KLDivergence(clean, at)


@strict
def loss(tokens: Int[Tensor, "batch pos"] | None = None) -> Loss:
    """Mean next-token cross-entropy over the prompt, in nats.

    Args:
        tokens: The prompts; None, for calls that run the model, means each prompt's own tokens.

    Raises:
        InputError: if these are not token ids.
    """
    ids = (
        isinstance(tokens, Tensor)
        and tokens.ndim == 2
        and not (tokens.is_floating_point() or tokens.dtype == torch.bool)
    )
    if tokens is not None and not ids:
        raise InputError(
            f"tokens={brief(tokens)}: expected token ids [batch pos], such as model.to_tokens(texts), or None."
        )
    return Loss(tokens)
