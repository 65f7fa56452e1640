"""What a model says next: its own most probable tokens after a prompt, one forward pass a token."""

import torch
from jaxtyping import Int
from torch import Tensor

from tl_ffblock.bridge.batching import Batch
from tl_ffblock.bridge.facts import longest_input
from tl_ffblock.bridge.inputs import forward
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.runs import Run
from tl_ffblock.errors import InputError


def continued(run: Run, n_tokens: int) -> Int[Tensor, " pos"]:
    """The prompt's most probable continuation, at most so many tokens, under the run's hooks; it ends with the text.

    Raises:
        InputError: if it would be longer than the model reads.
    """
    tokens = run.sequences[0].tokens
    most = longest_input(run.model)
    if most is not None and len(tokens) + n_tokens > most:
        raise InputError(
            f"generate={n_tokens}: with a prompt of {len(tokens)} tokens that is more than the {most} that {run.model.name} reads."
        )
    end = getattr(run.model.hooked.tokenizer, "eos_token_id", None)
    said: list[int] = []
    with run.hooks():
        while len(said) < n_tokens and (not said or said[-1] != end):
            given = torch.cat([tokens, torch.tensor(said, dtype=tokens.dtype)])
            said.append(int(forward(run.model, Batch(given[None]))[0, -1].argmax()))
    return torch.tensor(said)


def tokens_of(model: Model, text: str) -> Int[Tensor, " pos"]:
    """A text's tokens, without any marks of a sequence's begin or end.

    Raises:
        InputError: if there is no tokenizer, or there are none.
    """
    tokenizer = model.hooked.tokenizer
    if tokenizer is None:
        raise InputError(f"the model has no tokenizer to read {text!r}: give token ids.")
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not ids:
        raise InputError(f"continuation={text!r} has no tokens.")
    return torch.tensor(ids)
