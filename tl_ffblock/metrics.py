"""Metrics: functions of logits [batch pos d_vocab] to one number per run, such as the logit of an answer.

    metric = ffb.logit(" Mary", minus=" John", model=model)
    metric(model(tokens))  # [batch]

Any function of logits may be given wherever a metric is; `as_metric` makes one of it. A subclass of `Metric` needs `__call__`
alone, and adds what it knows: a position, a name, words to look up, a prompt's clean run.

Words are looked up by a model's tokenizer: `model=` at once, else by whoever runs the model when it is known. Where prompts
have answers of their own, row i of the logits is read with prompt i's; `of_prompt` gives the metric of any number of runs of
one prompt.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.bridge.inputs import single_token
from tl_ffblock.errors import InputError, brief
from tl_ffblock.layer.positions import one_position, several
from tl_ffblock.signatures import strict, whole

__all__ = [
    "CleanRun",
    "KLDivergence",
    "LogitFunction",
    "Metric",
    "PlainMetric",
    "as_metric",
    "kl_divergence",
    "logit",
    "logit_difference",
    "loss",
    "probability",
    "rank",
    "run_by_run",
]

LogitFunction: TypeAlias = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "*batch"]]
"""A metric as TransformerLens has them: logits to one number per run, or one for all runs together."""
Answer: TypeAlias = str | SupportsIndex | Sequence[str | SupportsIndex]
"""A token as text or id, or several that count as one answer."""
Given: TypeAlias = str | SupportsIndex | Sequence[Answer] | Int[Tensor, " batch"]
"""An answer for all prompts, or a list with one entry per prompt."""
RowReader: TypeAlias = Callable[[Float[Tensor, "*run d_vocab"], list[int]], Float[Tensor, "*run"]]
"""Reads an answer's number off logits of one position."""


@strict
@dataclass(frozen=True)
class CleanRun:
    """A prompt's run without edits: what its edited runs are compared with."""

    number: int
    """The prompt's number in the list of prompts: which of a metric's answers are its own."""
    tokens: Int[Tensor, " pos"]
    """The prompt."""
    logits: Float[Tensor, "pos d_vocab"]
    """What the model made of it."""


@strict
class Metric(ABC):
    """A number for every run, read off its logits; a subclass needs `__call__` alone."""

    name: str
    """What it is called in results and on figures; the name of the class unless it says another."""
    at: int | None = None
    """Position where the logits are read, negative ones from the end; None means at more than one."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abstractmethod
    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "*batch"]:
        """One number per run.

        Raises:
            InputError: if it is not known which answers or which clean run to read with, or the position does not exist.
        """

    def mean(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, ""]:
        """The mean over runs: one number, as TransformerLens's patching functions take it unless told otherwise."""
        return self(logits).mean()

    def bound_to(self, model: Any) -> "Metric":
        """The same with words as token ids of a model.

        Raises:
            InputError: if there is no tokenizer, or a word is not one token.
        """
        return self

    def for_prompts(self, number: int) -> "Metric":
        """The same, which has answers for so many prompts and no others.

        Raises:
            InputError: if it has answers for another number of prompts.
        """
        return self

    def of_prompt(self, run: CleanRun) -> "Metric":
        """The metric of any number of runs of one prompt.

        Raises:
            InputError: if there are no answers for this prompt.
        """
        return self

    def answers_in_words(self, quoted: Callable[[Sequence[int]], Sequence[str]]) -> str:
        """The tokens that are read, such as `' Mary' - ' John'`; empty where none in particular are, or each prompt has its own.

        Args:
            quoted: Makes words of token ids.
        """
        return ""


@strict
@dataclass(frozen=True)
class PlainMetric(Metric):
    """A function of logits that somebody else wrote; it is given whole runs, and all prompts that it knows at once."""

    function: LogitFunction
    name: str = "metric"
    at: int | None = None

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "*batch"]:
        return _numbers(self.function(logits), self.name, len(logits))


@strict
def as_metric(metric: Metric | LogitFunction, name: str = "metric") -> Metric:
    """A metric as it is; another function of logits as one.

    Args:
        metric: Either.
        name: What the caller's argument is called, for the error.

    Raises:
        InputError: if it cannot be called.
    """
    if isinstance(metric, Metric):
        return metric
    if not callable(metric) or isinstance(metric, type):
        example = repr(metric) if isinstance(metric, str | int) and not isinstance(metric, bool) else "..."
        raise InputError(f"{name}={brief(metric)}: expected a function of logits, such as ffb.logit({example}).")
    called = getattr(metric, "__name__", type(metric).__name__)
    return PlainMetric(metric, "metric" if called == "<lambda>" else called)


@strict
def run_by_run(metric: Metric, logits: Float[Tensor, "run pos d_vocab"]) -> Float[Tensor, " run"]:
    """A number for each run of one prompt; somebody else's function sees one run at a time, since it may average all it sees.

    Raises:
        InputError: if the metric cannot be read.
    """
    if not isinstance(metric, PlainMetric):
        values = _numbers(metric(logits), metric.name, len(logits))
        if values.ndim:
            return values
    return torch.stack([_numbers(metric(run[None]), metric.name, 1).reshape(()) for run in logits])


def _numbers(value: object, name: str, n_runs: int) -> Tensor:
    if not isinstance(value, Tensor) or tuple(value.shape) not in ((), (n_runs,)):
        shape = f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
        raise InputError(
            f"the metric {name} gave {shape} for logits of {n_runs} runs; expected a tensor with one number, or with one per run."
        )
    return value


@dataclass(frozen=True)
class Answers:
    """The tokens that a metric reads: of each prompt one or several that count as one answer, each counted once."""

    prompts: tuple[tuple[str | int, ...], ...]
    """By prompt."""
    shared: bool
    """Whether there is one answer for all prompts."""

    @classmethod
    def given(cls, answers: Given, name: str) -> "Answers":
        """Answers as callers name them: a word or an id for all prompts, or a list with one entry per prompt.

        Raises:
            InputError: for an empty list, and for what is neither word nor id.
        """
        plain = answers.tolist() if isinstance(answers, Tensor) else answers
        shared = isinstance(plain, str) or whole(plain) is not None
        if not shared and (not isinstance(plain, Sequence) or not plain):
            raise InputError(
                f"{name}={brief(answers)}: expected a word, a token id, or a list with one entry per prompt."
            )
        prompts = []
        for entry in [plain] if shared else plain:  # type: ignore[union-attr]  # a sequence, or refused above
            tokens = [word if isinstance(word, str) else whole(word) for word in several(entry)]
            if not tokens or None in tokens:
                raise InputError(
                    f"{name}: {brief(entry)} is not an answer; expected a word, a token id, or several of these."
                )
            prompts.append(tuple(dict.fromkeys(tokens)))
        return cls(tuple(prompts), shared)  # type: ignore[arg-type]  # None was refused

    def bound_to(self, model: Any) -> "Answers":
        """The same as token ids."""
        prompts = (dict.fromkeys(single_token(model, word) for word in words) for words in self.prompts)
        return replace(self, prompts=tuple(tuple(ids) for ids in prompts))

    def refuse_other_number(self, number: int) -> None:
        """A list has one entry per prompt.

        Raises:
            InputError: if it is of more or fewer prompts.
        """
        if self.shared or len(self.prompts) == number:
            return
        listed = brief([tokens[0] if len(tokens) == 1 else list(tokens) for tokens in self.prompts])
        alone = f" Several tokens that count as one answer are a list in the list: [{listed}]." if number == 1 else ""
        raise InputError(
            f"the metric has answers for {len(self.prompts)} prompts, {listed}; there {'is' if number == 1 else 'are'} "
            f"{number}: expected one entry per prompt.{alone}"
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

    def read(self, reading: RowReader, rows: Float[Tensor, "batch d_vocab"]) -> Float[Tensor, " batch"]:
        """A reading of every row: of its own answer, or of the one that all share.

        Raises:
            InputError: if words are not looked up yet, there are not as many runs as prompts, or a token is none of the model's.
        """
        tokens = [token for prompt in self.prompts for token in prompt]
        words = [token for token in tokens if isinstance(token, str)]
        if words:
            raise InputError(
                f"the metric reads {words[0]!r}, and no tokenizer has said yet which token that is: make it with model=..., or "
                "take metric.bound_to(model)."
            )
        if not self.shared and len(self.prompts) != len(rows):
            raise InputError(
                f"the metric has answers for {len(self.prompts)} prompts, the logits are of {len(rows)} runs."
            )
        if unknown := [token for token in tokens if not 0 <= int(token) < rows.shape[-1]]:
            raise InputError(
                f"the metric reads token {unknown[0]}; the logits are of tokens 0 to {rows.shape[-1] - 1}."
            )
        ids = [[int(token) for token in prompt] for prompt in self.prompts]
        if self.shared:
            return reading(rows, ids[0])
        return torch.stack([reading(row, of_row) for row, of_row in zip(rows, ids, strict=True)])


@strict
@dataclass(frozen=True)
class AnswerMetric(Metric):
    """What one position says of an answer, less what it says of another."""

    reading: RowReader
    """What is read of an answer's tokens."""
    answers: Answers
    minus: Answers | None = None
    """What to compare with; None means nothing."""
    at: int = -1
    name: str = "logit"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if logits.ndim != 3:
            raise InputError(
                f"logits have shape {tuple(logits.shape)}: expected [batch pos d_vocab], as the model gives them for a batch; of one "
                "run give logits[None]."
            )
        rows = logits[:, one_position(self.at, logits.shape[1], "at")]
        values = self.answers.read(self.reading, rows)
        return values if self.minus is None else values - self.minus.read(self.reading, rows)

    def bound_to(self, model: Any) -> "AnswerMetric":
        bound = self._by_side(lambda side: side.bound_to(model))
        bound.refuse_equal()
        return bound

    def for_prompts(self, number: int) -> "AnswerMetric":
        for side in self._sides:
            side.refuse_other_number(number)
        return self

    def of_prompt(self, run: CleanRun) -> "AnswerMetric":
        return self._by_side(lambda side: side.of_prompt(run.number))

    def answers_in_words(self, quoted: Callable[[Sequence[int]], Sequence[str]]) -> str:
        if any(len(side.prompts) > 1 for side in self._sides):
            return ""
        words = [quoted([int(token) for token in side.prompts[0]]) for side in self._sides]
        return " - ".join(names[0] if len(names) == 1 else f"({', '.join(names)})" for names in words)

    def refuse_equal(self) -> None:
        """Refuse the difference of an answer and itself.

        Raises:
            InputError: naming the prompt.
        """
        first, second = self.answers.prompts, () if self.minus is None else self.minus.prompts
        for number in range(max(len(first), len(second)) if second else 0):
            right, wrong = (prompts[number % len(prompts)] for prompts in (first, second))
            if set(right) == set(wrong):
                raise InputError(
                    f"prompt {number}: the answer and what is subtracted are the same token {list(right)}."
                )

    @property
    def _sides(self) -> list[Answers]:
        return [side for side in (self.answers, self.minus) if side is not None]

    def _by_side(self, change: Callable[[Answers], Answers]) -> "AnswerMetric":
        return replace(self, answers=change(self.answers), minus=None if self.minus is None else change(self.minus))


@strict
def logit(
    answers: Given,
    *,
    minus: Given | None = None,
    at: int = -1,
    model: Any = None,
) -> AnswerMetric:
    """The logit of an answer at one position, less another's: a difference of logits is one of log-odds, in nats.

    The logit of several tokens is the mean of theirs, so that the metric is linear in the logits. A single logit has a part that
    all tokens share; `minus="mean"` subtracts the mean of all logits.

    Args:
        answers: A token as text or id, the same for all prompts; or a list with one entry per prompt, each a token or
            several that count as one answer.
        minus: What to subtract, likewise; or "mean" for the mean of the logits of all tokens (the token "mean" is passed as its id).
        at: Position to read, the last by default.
        model: Its tokenizer reads the words; may be left out where the metric is given to a call that knows the model.

    Raises:
        InputError: if there are not as many answers as there is to subtract, a pair is the same token, or a text is not
            one token.
    """
    right = Answers.given(answers, "answers")
    if isinstance(minus, str) and minus == "mean":
        return _bound(AnswerMetric(_centred_logit, right, None, at, "logit over the mean logit"), model)
    wrong = None if minus is None else Answers.given(minus, "minus")
    if wrong is not None and not (right.shared or wrong.shared) and len(right.prompts) != len(wrong.prompts):
        raise InputError(
            f"{len(right.prompts)} answers and {len(wrong.prompts)} to subtract: expected one pair per prompt."
        )
    metric = AnswerMetric(_mean_logit, right, wrong, at, "logit" if wrong is None else "logit difference")
    metric.refuse_equal()
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
        right: A word that is one token, a token id, or several that count as one; a list has one entry per prompt.
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
    return _bound(AnswerMetric(_probability, Answers.given(answers, "answers"), None, at, "probability"), model)


@strict
def rank(answers: Given, *, at: int = -1, model: Any = None) -> AnswerMetric:
    """The rank of an answer among all tokens at one position, 1 for the largest logit; of several tokens the best.

    Arguments and errors are those of `logit`.
    """
    return _bound(AnswerMetric(_rank, Answers.given(answers, "answers"), None, at, "rank"), model)


def _bound(metric: AnswerMetric, model: Any) -> AnswerMetric:
    if isinstance(model, str | int):
        raise InputError(f"model={brief(model)}: expected a model, such as ffb.load_model({model!r}), or None.")
    return metric if model is None else metric.bound_to(model)


def _mean_logit(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    return _chosen(rows, ids).mean(dim=-1)


def _chosen(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run some"]:
    return rows[..., torch.tensor(ids).to(rows.device, non_blocking=True)]


def _centred_logit(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    return _chosen(rows, ids).mean(dim=-1) - rows.mean(dim=-1)


def _probability(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    return _chosen(rows.double().softmax(dim=-1), sorted(set(ids))).sum(dim=-1)


def _rank(rows: Float[Tensor, "*run d_vocab"], ids: list[int]) -> Float[Tensor, "*run"]:
    best = _chosen(rows, ids).amax(dim=-1, keepdim=True)
    return 1.0 + (rows > best).sum(dim=-1).to(rows.dtype)


@strict
@dataclass(frozen=True)
class KLDivergence(Metric):
    """`KL(clean || run)` of the next token's distribution at one position, in nats."""

    clean: Float[Tensor, "batch pos d_vocab"] | None
    """The clean runs' logits, one for all runs or one per run; None means those of each prompt's own clean run."""
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
    """The prompts, one for all runs or one per run; None means each prompt's own."""
    at: int | None = None
    name: str = "loss"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if self.tokens is None:
            raise InputError("loss() needs the tokens that are to be predicted: give them, loss(tokens).")
        if len(self.tokens) not in (1, len(logits)) or self.tokens.shape[1] != logits.shape[1]:
            raise InputError(
                f"loss: tokens of shape {tuple(self.tokens.shape)}, logits of {tuple(logits.shape[:2])} [batch pos]."
            )
        if int(self.tokens.min()) < 0 or int(self.tokens.max()) >= logits.shape[-1]:
            raise InputError(
                f"loss: tokens from {int(self.tokens.min())} to {int(self.tokens.max())}; expected ids 0 to {logits.shape[-1] - 1}."
            )
        following = self.tokens[:, 1:].expand(len(logits), -1).to(logits.device)
        return -logits[:, :-1].double().log_softmax(dim=-1).gather(-1, following[..., None])[..., 0].mean(dim=-1)

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
    ids = isinstance(tokens, Tensor) and tokens.ndim == 2 and not tokens.is_floating_point()
    if tokens is not None and (not ids or tokens.dtype == torch.bool):
        raise InputError(
            f"tokens={brief(tokens)}: expected token ids [batch pos], such as model.to_tokens(texts), or None."
        )
    return Loss(tokens)
