"""Metrics of answers: the logit, probability or rank of a token at one position.

Words are looked up by a model's tokenizer: `model=` at once, else by whoever runs the model when it is known. Where
prompts have answers of their own, row i of the logits is read with prompt i's; `of_prompt` gives the metric of any number
of runs of one prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import single_token
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import one_position, several
from tl_ffblock.metrics.metric import CleanRun, Metric
from tl_ffblock.signatures import strict, whole

Answer: TypeAlias = str | SupportsIndex | Sequence[str | SupportsIndex]
"""A token as text or id, or several that count as one answer."""
Given: TypeAlias = str | SupportsIndex | Sequence[Answer] | Int[Tensor, " batch"]
"""An answer for all prompts, or a list with one entry a prompt."""


@dataclass(frozen=True)
class Answers:
    """The tokens that a metric reads: of each prompt one or several that count as one answer, each counted once."""

    prompts: tuple[tuple[str | int, ...], ...]
    """By prompt."""
    shared: bool
    """Whether there is one answer for all prompts."""

    @classmethod
    def given(cls, answers: Given, name: str) -> "Answers":
        """Answers as callers name them: a word or an id for all prompts, or a list with one entry a prompt.

        Raises:
            InputError: for an empty list, and for what is neither word nor id.
        """
        plain = answers.tolist() if isinstance(answers, Tensor) else answers
        if isinstance(plain, str) or whole(plain) is not None:
            return cls((_tokens(plain, name),), shared=True)  # type: ignore[arg-type]  # one number
        if not isinstance(plain, Sequence) or not plain:
            raise InputError(
                f"{name}={brief(answers)}: expected a word, a token id, or a list with one entry a prompt."
            )
        return cls(tuple(_tokens(entry, name) for entry in plain), shared=False)

    def bound_to(self, model: Any) -> "Answers":
        """The same as token ids."""
        prompts = (dict.fromkeys(single_token(model, word) for word in words) for words in self.prompts)
        return replace(self, prompts=tuple(tuple(ids) for ids in prompts))

    def refuse_other_number(self, number: int) -> None:
        """A list has one entry a prompt.

        Raises:
            InputError: if it is of more or fewer prompts.
        """
        if self.shared or len(self.prompts) == number:
            return
        listed = brief([tokens[0] if len(tokens) == 1 else list(tokens) for tokens in self.prompts])
        several = f" Several tokens that count as one answer are a list in the list: [{listed}]." if number == 1 else ""
        raise InputError(
            f"the metric has answers for {len(self.prompts)} prompts, {listed}; there {'is' if number == 1 else 'are'} "
            f"{number}: expected one entry a prompt.{several}"
        )

    def of_prompt(self, number: int) -> "Answers":
        """The answer of one prompt, shared by all its runs.

        Raises:
            InputError: if there is none.
        """
        if self.shared:
            return self
        if number >= len(self.prompts):
            raise InputError(
                f"the metric has answers for {len(self.prompts)} prompts, there is a prompt number {number}."
            )
        return Answers((self.prompts[number],), shared=True)

    def ids(self, n_runs: int) -> list[list[int]]:
        """Token ids by run; one list for all runs where they share it.

        Raises:
            InputError: if words are not looked up yet, or there are not as many runs as prompts.
        """
        words = [word for prompt in self.prompts for word in prompt if isinstance(word, str)]
        if words:
            raise InputError(
                f"the metric reads {words[0]!r}, and no tokenizer has said yet which token that is: make it with model=..., or "
                "take metric.bound_to(model)."
            )
        if not self.shared and len(self.prompts) != n_runs:
            raise InputError(
                f"the metric has answers for {len(self.prompts)} prompts, the logits are of {n_runs} runs."
            )
        return [[int(token) for token in prompt] for prompt in self.prompts]


Reading: TypeAlias = Callable[[Float[Tensor, "*run d_vocab"], list[int]], Float[Tensor, "*run"]]
"""Reads an answer's number off logits of one position."""


@strict
@dataclass(frozen=True)
class AnswerMetric(Metric):
    """What one position says of an answer, less what it says of another."""

    name: str
    reading: Reading
    """What is read of an answer's tokens."""
    answers: Answers
    minus: Answers | None = None
    """What to compare with; None means nothing."""
    at: int = -1

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        rows = _rows(logits, self.at)
        read = self._read(rows, self.answers)
        return read if self.minus is None else read - self._read(rows, self.minus)

    def bound_to(self, model: Any) -> "AnswerMetric":
        minus = None if self.minus is None else self.minus.bound_to(model)
        bound = replace(self, answers=self.answers.bound_to(model), minus=minus)
        bound._refuse_equal()
        return bound

    def for_prompts(self, number: int) -> "AnswerMetric":
        for side in (self.answers, self.minus):
            if side is not None:
                side.refuse_other_number(number)
        return self

    def of_prompt(self, run: CleanRun) -> "AnswerMetric":
        minus = None if self.minus is None else self.minus.of_prompt(run.number)
        return replace(self, answers=self.answers.of_prompt(run.number), minus=minus)

    def answers_in_words(self, quoted: Callable[[Sequence[int]], Sequence[str]]) -> str:
        sides = [self.answers] if self.minus is None else [self.answers, self.minus]
        if any(len(side.prompts) > 1 for side in sides):
            return ""
        words = [quoted([int(token) for token in side.prompts[0]]) for side in sides]
        return " − ".join(names[0] if len(names) == 1 else f"({', '.join(names)})" for names in words)

    def _read(self, rows: Float[Tensor, "batch d_vocab"], answers: Answers) -> Float[Tensor, " batch"]:
        ids = answers.ids(len(rows))
        unknown = next((token for tokens in ids for token in tokens if not 0 <= token < rows.shape[-1]), None)
        if unknown is not None:
            raise InputError(f"the metric reads token {unknown}; the logits are of tokens 0 to {rows.shape[-1] - 1}.")
        if answers.shared:
            return self.reading(rows, ids[0])
        return torch.stack([self.reading(row, tokens) for row, tokens in zip(rows, ids, strict=True)])

    def _refuse_equal(self) -> None:
        if self.minus is None:
            return
        first, second = self.answers.prompts, self.minus.prompts
        for number in range(max(len(first), len(second))):
            right, wrong = (prompts[number % len(prompts)] for prompts in (first, second))
            if set(right) == set(wrong):
                raise InputError(
                    f"prompt {number}: the answer and what is subtracted are the same token {list(right)}."
                )


@strict
def logit(
    answers: Given,
    *,
    minus: Given | None = None,
    at: int = -1,
    model: Any = None,
) -> AnswerMetric:
    """The logit of an answer at one position, less another's: a difference of logits is one of log-odds, in nats.

    The logit of several tokens is the mean of theirs, so that the metric is linear in the logits.

    Args:
        answers: A token as text or id, the same for all prompts; or a list with one entry a prompt, each a token or
            several that count as one answer.
        minus: What to subtract, likewise.
        at: Position to read, the last by default.
        model: Its tokenizer reads the words; may be left out where the metric is given to a call that knows the model.

    Raises:
        InputError: if there are not as many answers as there is to subtract, a pair is the same token, or a text is not
            one token.
    """
    right = Answers.given(answers, "answers")
    wrong = None if minus is None else Answers.given(minus, "minus")
    if wrong is not None and not (right.shared or wrong.shared) and len(right.prompts) != len(wrong.prompts):
        raise InputError(
            f"{len(right.prompts)} answers and {len(wrong.prompts)} to subtract: expected one pair a prompt."
        )
    metric = AnswerMetric("logit" if wrong is None else "logit difference", _mean_logit, right, wrong, at)
    metric._refuse_equal()
    return _bound(metric, model)


@strict
def logit_difference(
    right: Given,
    wrong: Given,
    *,
    at: int = -1,
    model: Any = None,
) -> AnswerMetric:
    """The logit of one answer minus that of another: `logit(right, minus=wrong)`.

    Args:
        right: A word that is one token, a token id, or several that count as one; a list has one entry a prompt.
        wrong: Likewise.
        at: The position that is read.
        model: With it words are looked up at once, as other people's functions need it.

    Raises:
        InputError: as `logit`.
    """
    return logit(right, minus=wrong, at=at, model=model)


@strict
def probability(answers: Given, *, at: int = -1, model: Any = None) -> AnswerMetric:
    """The probability of an answer at one position, from 0 to 1; of several tokens the sum of theirs.

    Arguments and errors are those of `logit`.
    """
    return _bound(AnswerMetric("probability", _probability, Answers.given(answers, "answers"), at=at), model)


@strict
def rank(answers: Given, *, at: int = -1, model: Any = None) -> AnswerMetric:
    """The rank of an answer among all tokens at one position, 1 for the largest logit; of several tokens the best.

    Arguments and errors are those of `logit`.
    """
    return _bound(AnswerMetric("rank", _rank, Answers.given(answers, "answers"), at=at), model)


def _tokens(entry: Answer, name: str) -> tuple[str | int, ...]:
    words = several(entry)
    tokens = tuple(word if isinstance(word, str) else whole(word) for word in words)
    if not tokens or any(token is None for token in tokens):
        raise InputError(f"{name}: {brief(entry)} is not an answer; expected a word, a token id, or several of these.")
    return tuple(dict.fromkeys(tokens))  # type: ignore[arg-type]  # None was refused


def _bound(metric: AnswerMetric, model: Any) -> AnswerMetric:
    if isinstance(model, str | int):
        raise InputError(f"model={brief(model)}: expected a model, such as ffb.load_model({model!r}), or None.")
    return metric if model is None else metric.bound_to(model)


def _rows(logits: Float[Tensor, "batch pos d_vocab"], at: int) -> Float[Tensor, "batch d_vocab"]:
    if logits.ndim != 3:
        raise InputError(
            f"logits have shape {tuple(logits.shape)}: expected [batch pos d_vocab], as the model gives them for a batch; of one "
            "run give logits[None]."
        )
    return logits[:, one_position(at, logits.shape[1], "at")]


def _mean_logit(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    return rows[..., ids].mean(dim=-1)


def _probability(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    return rows.double().softmax(dim=-1)[..., sorted(set(ids))].sum(dim=-1)


def _rank(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    best = rows[..., ids].amax(dim=-1, keepdim=True)
    return 1.0 + (rows > best).sum(dim=-1).to(rows.dtype)
