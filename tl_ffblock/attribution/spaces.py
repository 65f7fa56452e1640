"""Says where a target seems to lack a space: "Mary" and " Mary" are two tokens, and a text goes on with the second."""

import warnings

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.bridge.inputs import single_token
from tl_ffblock.bridge.model import Model
from tl_ffblock.bridge.traced import Traced
from tl_ffblock.errors import InputError, MissingSpaceWarning
from tl_ffblock.layer.positions import one_position
from tl_ffblock.metrics import AnswerMetric, Metric
from tl_ffblock.numerals import significant

EXPECTED = 10
"""A token is expected where its logit is one of so many largest."""


def warn_of_missing_spaces(model: Model, traced: Traced, target: Metric) -> None:
    """Warn, once a batch, of a word that is not expected where it is read, while it is with a space before it.

    Nothing is said of token ids, of words that begin with white space, and where one of an answer's several tokens is expected.

    Args:
        model: Its tokenizer says what a word with a space before it is.
        traced: The run.
        target: As it was given, its words not yet looked up.

    Warns:
        MissingSpaceWarning: with both tokens, their ranks and logits.
    """
    if not isinstance(target, AnswerMetric):
        return
    for index, number in enumerate(traced.batch.numbers):
        real = traced.batch.real(index)
        own = traced.logits[index].detach() if real is None else traced.logits[index].detach()[real]
        row = own[one_position(target.at, len(own), "at")]
        for side in (target.answers, target.minus):
            words = () if side is None else side.of_prompt(number).prompts[0]
            for word in words if len(words) == 1 else ():
                said = _said(model, row, word)
                if said:
                    warnings.warn(said, MissingSpaceWarning, stacklevel=5)
                    return


def _said(model: Model, row: Float[Tensor, " d_vocab"], word: str | int) -> str:
    """What to say of a word; nothing where nothing seems amiss."""
    if not isinstance(word, str) or word[:1].isspace():
        return ""
    try:
        given, spaced = single_token(model, word), single_token(model, f" {word}")
    except InputError:
        return ""
    given_rank, spaced_rank = (1 + int((row > row[token]).sum()) for token in (given, spaced))
    if given == spaced or spaced_rank > EXPECTED or given_rank <= EXPECTED:
        return ""
    given_logit, spaced_logit = (significant(float(row[token])) for token in (given, spaced))
    return (
        f"target {word!r}: the model does not expect this token here (logit {given_logit}, rank {given_rank}), but the one with a "
        f"space before it, {f' {word}'!r} (logit {spaced_logit}, rank {spaced_rank}). They are two tokens: was a space forgotten?"
    )
