"""What is read of a run: one number, such as how far the right answer's logit is above the wrong one's.

A metric reads the logits of many runs of one prompt at once, each edited in its own way, beside the
logits of the run without edits.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.token_spans import first_token
from tl_ffblock.errors import InputError


@dataclass(frozen=True)
class Outcome:
    """What a metric is given to read: the edited runs of one prompt, and its run without edits."""

    logits: Float[Tensor, "run read d_vocab"]
    """One row a run; the last positions only, where these are all that is read."""
    clean: Float[Tensor, "1 pos d_vocab"]
    """The prompt's run without edits, at every position."""
    tokens: Int[Tensor, "1 pos"]
    """The prompt."""
    prompt: int
    """Its number in the list of prompts: which of a metric's right and wrong tokens are its own."""


@dataclass(frozen=True)
class Metric:
    """A number for every run, and the position at which the logits are read for it."""

    name: str
    """What it is called in results and on figures."""
    read: Callable[[Outcome], Float[Tensor, " run"]]
    """The function that reads the number off each run."""
    position: int | None = -1
    """Where the logits are read; None means at more than one position."""

    def __call__(self, outcome: Outcome) -> Float[Tensor, " run"]:
        return self.read(outcome)


def logit_difference(
    model: Any, right: Sequence[str | int], wrong: Sequence[str | int], *, position: int = -1
) -> Metric:
    """`logit(right) - logit(wrong)` at one position, in nats of log-odds.

    Args:
        model: Its tokenizer reads the words.
        right: One token a prompt, as id or as text; of a longer text the first token counts.
        wrong: The tokens to compare with.
        position: Where to read, the last position by default.

    Raises:
        InputError: if there are not as many right as wrong tokens, or a pair is the same token.
    """
    if len(right) != len(wrong) or not right:
        raise InputError(f"{len(right)} right and {len(wrong)} wrong tokens: expected one pair a prompt.")
    pairs = [(first_token(model, a), first_token(model, b)) for a, b in zip(right, wrong, strict=True)]
    same = next((number for number, (a, b) in enumerate(pairs) if a == b), None)
    if same is not None:
        raise InputError(f"prompt {same}: {right[same]!r} and {wrong[same]!r} begin with the same token.")

    def read(outcome: Outcome) -> Float[Tensor, " run"]:
        if outcome.prompt >= len(pairs):
            raise InputError(f"the metric has {len(pairs)} pairs, there is a prompt number {outcome.prompt}.")
        a, b = pairs[outcome.prompt]
        logits = outcome.logits[:, position]
        return logits[:, a] - logits[:, b]

    return Metric("logit difference", read, position)


def kl_divergence(*, position: int = -1) -> Metric:
    """`KL(clean || edited)` of the next token's distribution at one position, in nats."""

    def read(outcome: Outcome) -> Float[Tensor, " run"]:
        clean = outcome.clean[:, position].double().log_softmax(dim=-1)
        edited = outcome.logits[:, position].double().log_softmax(dim=-1)
        return (clean.exp() * (clean - edited)).sum(dim=-1)

    return Metric("KL divergence", read, position)


def loss() -> Metric:
    """Mean next-token cross-entropy over the prompt, in nats."""

    def read(outcome: Outcome) -> Float[Tensor, " run"]:
        following = outcome.tokens[:, 1:].expand(len(outcome.logits), -1)
        log_probabilities = outcome.logits[:, :-1].double().log_softmax(dim=-1)
        return -log_probabilities.gather(-1, following[..., None])[..., 0].mean(dim=-1)

    return Metric("loss", read, None)
