"""Metrics: functions of logits [batch pos d_vocab] to one number per row, such as the logit of an answer.

    metric = ffb.logit(" Mary", minus=" John", model=model)
    metric(model(tokens))  # [batch]

Any function of logits can be passed as a metric; `as_metric` wraps it. A subclass of `Metric` needs only `__call__`. It can also have
a position, a name, words to look up, and one clean forward pass per prompt.

Words are looked up with a model's tokenizer: that of `model=`, or that of the call that runs the model. If each prompt has its own
answer, row i of the logits is read with that of prompt i. `of_prompt` returns the metric for any number of rows of one prompt.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, SupportsIndex, TypeAlias

import torch
from jaxtyping import Float, Int, Shaped
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

_ALONE = (
    "Every prompt is read alone, as logits [1 pos d_vocab], so a function cannot have an answer per prompt. Use "
    "ffb.logit([...], minus=[...]), with one answer per prompt; or pass one prompt at a time with a function of its own."
)
"""What is expected of a function with several prompts, for errors."""
CHECKED_LOGITS = 2**25
"""Most numbers of a batch with which a function is checked."""
_SAME = 1e-2
"""Largest difference of a function of a batch from that of its rows, relative to the largest value: rounding, also of bfloat16."""
CENTRED_LOGIT = "mean-centred logit"
"""Name of a logit minus the mean of all logits."""
LogitFunction: TypeAlias = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "*batch"]]
"""A metric as in TransformerLens: logits to one number per row, or one for all rows together."""
Answer: TypeAlias = str | SupportsIndex | Sequence[str | SupportsIndex]
"""A token as text or id, or several that count as one answer."""
Given: TypeAlias = str | SupportsIndex | Sequence[Answer] | Int[Tensor, " batch"]
"""An answer for all prompts, or a list with one entry per prompt."""
RowReader: TypeAlias = Callable[[Float[Tensor, "*run d_vocab"], list[int]], Float[Tensor, "*run"]]
"""A function of logits at one position and an answer's token ids."""


@strict
@dataclass(frozen=True)
class CleanRun:
    """Forward pass of a prompt without edits, with which edited ones are compared."""

    number: int
    """Index of the prompt in the list of prompts, which selects the answer."""
    tokens: Int[Tensor, " pos"]
    """Token ids of the prompt."""
    logits: Float[Tensor, "pos d_vocab"]
    """Logits of the prompt."""


@strict
class Metric(ABC):
    """A function of logits to one number per row; a subclass needs only `__call__`."""

    name: str
    """Name in results and figures; by default the name of the class."""
    at: int | None = None
    """Position at which logits are read, negative ones from the end; None means several positions."""
    n_prompts: int = 1
    """Number of prompts of the call that reads it."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" not in vars(cls):
            cls.name = cls.__name__

    @abstractmethod
    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "*batch"]:
        """One number per row [batch].

        Raises:
            InputError: if answers or clean logits are not known, or if the position does not exist.
        """

    def mean(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, ""]:
        """Mean over rows: one number, the format of TransformerLens's patching functions."""
        return self(logits).mean()

    def bound_to(self, model: Any) -> "Metric":
        """The metric with words as token ids of a model.

        Raises:
            InputError: if there is no tokenizer, or a word is not one token.
        """
        return self

    def for_prompts(self, number: int) -> "Metric":
        """The metric for a number of prompts.

        Raises:
            InputError: if it has answers for another number of prompts.
        """
        read = copy(self)
        vars(read)["n_prompts"] = number
        return read

    def of_prompt(self, run: CleanRun) -> "Metric":
        """The metric for any number of rows of one prompt.

        Raises:
            InputError: if there are no answers for this prompt, or if the metric of a batch is not that of each row alone.
        """
        alone = isinstance(self, PlainMetric) and self.n_prompts == 1
        if run.number == 0 and not alone:  # other metrics read several rows of one prompt together
            _refuse_joint(self, run.logits, max(2, self.n_prompts))
        return self

    def answers_in_words(self, quoted: Callable[[Sequence[int]], Sequence[str]]) -> str:
        """The tokens that are read, such as `' Mary' - ' John'`; empty if there are none, or if each prompt has its own.

        Args:
            quoted: Function of token ids to texts.
        """
        return ""


@strict
@dataclass(frozen=True)
class PlainMetric(Metric):
    """An external function of logits; it gets a copy, which it may change in place."""

    function: LogitFunction
    name: str = "metric"
    at: int | None = None

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "*batch"]:
        return _numbers(self.function(logits.clone()), self.name, len(logits))


@strict
def as_metric(metric: Metric | LogitFunction, name: str = "metric") -> Metric:
    """A metric, or a function of logits wrapped as one.

    Args:
        metric: Either.
        name: The caller's argument, for the error.

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
    """One number per row of a prompt [run]. An external function gets one row at a time, since it may average over rows.

    Raises:
        InputError: if the metric cannot be read.
    """
    if not isinstance(metric, PlainMetric):
        values = _numbers(metric(logits), metric.name, len(logits))
        if values.ndim:
            return values
    return torch.stack([one_number(metric, run[None]) for run in logits])


@torch.no_grad()
def _refuse_joint(metric: Metric, logits: Float[Tensor, "pos d_vocab"], n_prompts: int) -> None:
    """Refuse a function of a batch that is not known from each row alone, such as one with answers in the order of the batch.

    Rows are the logits of one prompt, with rolled vocabularies, since prompts may differ in length. Accepted are one number per
    row, their mean or sum, and functions of the first or the last row.

    Raises:
        InputError: if it is another function, or cannot be read for one row.
    """
    n_rows = max(2, min(n_prompts, CHECKED_LOGITS // logits.numel()))
    batch = torch.stack([logits.roll(shift, dims=-1) for shift in range(n_rows)])
    (joint, _), (turned, _) = _tried(metric, batch), _tried(metric, batch.flip(0))
    for_one = (joint is None or turned is None) and n_rows == n_prompts  # it cannot be read for the call's batch
    rows = []
    for row in batch:
        value, error = _tried(metric, row[None])
        if value is None and for_one:
            return  # the call itself raises the caller's error
        if value is None:
            said = f"{type(error).__name__}: {brief(str(error), 160)}"
            raise InputError(f"the metric {metric.name} cannot be read for one prompt ({said}). {_ALONE}") from error
        rows.append(value.reshape(()))
    if for_one:
        return
    if not _by_row(torch.stack(rows), joint, turned):
        raise InputError(
            f"the metric {metric.name} of {n_rows} prompts together is not its value for each prompt alone. {_ALONE}"
        )


def _by_row(alone: Float[Tensor, " row"], joint: Tensor | None, turned: Tensor | None) -> bool:
    """Whether values of a batch, and of its rows in reversed order, are those of each row, their mean or sum, or an end's."""
    if joint is None or turned is None:
        return False
    largest = float(alone.nan_to_num().abs().max())
    close = partial(torch.allclose, rtol=0, atol=_SAME * largest, equal_nan=True)
    ends = [(alone[0], alone[-1]), (alone[-1], alone[0])]
    same = [(alone, alone.flip(0)), (alone.mean(), alone.mean()), (alone.sum(), alone.sum()), *ends]
    return any(joint.shape == one.shape and close(joint, one) and close(turned, other) for one, other in same)


def _tried(metric: Metric, logits: Float[Tensor, "row pos d_vocab"]) -> tuple[Tensor | None, Exception | None]:
    """Values of a metric in float64, or the exception that it raised."""
    try:
        return _numbers(metric(logits), metric.name, len(logits)).double(), None
    except Exception as error:  # the caller's function can raise anything
        return None, error


def one_number(metric: Metric, logits: Float[Tensor, "1 pos d_vocab"]) -> Float[Tensor, ""]:
    """The metric of one prompt.

    Raises:
        InputError: if it gave something else.
    """
    return _numbers(metric(logits), metric.name, 1).reshape(())


def _numbers(value: object, name: str, n_runs: int) -> Tensor:
    if not isinstance(value, Tensor) or tuple(value.shape) not in ((), (n_runs,)) or value.is_complex():
        shape = (
            f"a tensor of shape {tuple(value.shape)} and dtype {value.dtype}"
            if isinstance(value, Tensor)
            else f"a {type(value).__name__}"
        )
        raise InputError(
            f"the metric {name} gave {shape} for logits of {n_runs} rows; expected a tensor with one real number, or with one per row."
        )
    return value.float() if value.dtype == torch.bool else value


@dataclass(frozen=True)
class Answers:
    """Tokens that a metric reads: per prompt one, or several that count as one answer, each once."""

    prompts: tuple[tuple[str | int, ...], ...]
    """By prompt: its tokens."""
    shared: bool
    """Whether one answer is for all prompts."""

    @classmethod
    def given(cls, answers: Given, name: str) -> "Answers":
        """Answers from a caller's argument: a word or an id for all prompts, or a list with one entry per prompt.

        Raises:
            InputError: for an empty list, and for an entry that is not a word or an id.
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
        """The answers as token ids."""
        prompts = (dict.fromkeys(single_token(model, word) for word in words) for words in self.prompts)
        return replace(self, prompts=tuple(tuple(ids) for ids in prompts))

    def refuse_other_number(self, number: int) -> None:
        """Refuse answers for another number of prompts.

        Raises:
            InputError: if the numbers differ.
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
        """The answer of one prompt, for all its rows.

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
        """One number per row [batch]: the reading of its own answer, or of the shared one.

        Raises:
            InputError: if words are not looked up yet, if there are not as many rows as prompts, or for an unknown token id.
        """
        tokens = [token for prompt in self.prompts for token in prompt]
        words = [token for token in tokens if isinstance(token, str)]
        if words:
            raise InputError(
                f"the metric reads {words[0]!r}, expected token ids or a model's tokenizer. Pass model=..., or use "
                "metric.bound_to(model)."
            )
        if not self.shared and len(self.prompts) != len(rows):
            raise InputError(
                f"the metric has answers for {len(self.prompts)} prompts, the logits are of {len(rows)} rows: expected equally many."
            )
        if unknown := [token for token in tokens if not 0 <= int(token) < rows.shape[-1]]:
            raise InputError(
                f"the metric reads token {unknown[0]}: expected tokens 0 to {rows.shape[-1] - 1}, as in the logits."
            )
        ids = [[int(token) for token in prompt] for prompt in self.prompts]
        if self.shared:
            return reading(rows, ids[0])
        return torch.stack([reading(row, of_row) for row, of_row in zip(rows, ids, strict=True)])


@strict
@dataclass(frozen=True)
class AnswerMetric(Metric):
    """One number per row [batch]: the reading of an answer at one position, minus that of another answer."""

    reading: RowReader
    """Function of logits and an answer's token ids."""
    answers: Answers
    minus: Answers | None = None
    """Answer to subtract; None means none."""
    at: int = -1
    name: str = "logit"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if logits.ndim != 3:
            raise InputError(
                f"logits have shape {tuple(logits.shape)}: expected [batch pos d_vocab], as the model returns for a batch. For one "
                "row pass logits[None]."
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
            InputError: with the prompt.
        """
        first, second = self.answers.prompts, () if self.minus is None else self.minus.prompts
        for number in range(max(len(first), len(second)) if second else 0):
            right, wrong = (prompts[number % len(prompts)] for prompts in (first, second))
            if set(right) == set(wrong):
                raise InputError(
                    f"prompt {number}: the answer and the one to subtract are the same token {list(right)}. Use two answers."
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
    """Metric: the logit of an answer at one position, minus another's. For two tokens: the log ratio of their probabilities, in nats.

    The logit of several tokens is their mean, so that the metric is linear in the logits. A part of a single logit is common to
    all tokens; `minus="mean"` subtracts the mean of all logits.

    Args:
        answers: A token as text or id for all prompts, or a list with one entry per prompt. An entry is a token or several that
            count as one answer.
        minus: Answer to subtract, in the same format; or "mean" for the mean of all logits (pass the token "mean" as its id).
        at: Position to read, the last by default.
        model: Model whose tokenizer looks words up; optional if the metric is passed to a call with a model.

    Returns:
        A metric: logits [batch pos d_vocab] to one number per row [batch].

    Raises:
        InputError: if the numbers of answers differ, if an answer is subtracted from itself, or if a text is not one token.
    """
    right = Answers.given(answers, "answers")
    if isinstance(minus, str) and minus == "mean":
        return _bound(AnswerMetric(_centred_logit, right, None, at, CENTRED_LOGIT), model)
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
    """Metric: the logit of one answer minus that of another, `logit(right, minus=wrong)`.

    Args:
        right: A word that is one token, a token id, or several that count as one; a list has one entry per prompt.
        wrong: Answer to subtract, in the same format.
        at: Position to read.
        model: Model whose tokenizer looks words up now, as external functions need.

    Returns:
        A metric: logits [batch pos d_vocab] to one number per row [batch].

    Raises:
        InputError: as in `logit`.
    """
    return logit(right, minus=wrong, at=at, model=model)


@strict
def probability(answers: Given, *, at: int = -1, model: Any = None) -> AnswerMetric:
    """Metric: the probability of an answer at one position, from 0 to 1; for several tokens their sum.

    Arguments and errors are those of `logit`.
    """
    return _bound(AnswerMetric(_probability, Answers.given(answers, "answers"), None, at, "probability"), model)


@strict
def rank(answers: Given, *, at: int = -1, model: Any = None) -> AnswerMetric:
    """Metric: the rank of an answer among all tokens at one position, 1 for the largest logit; for several tokens the best.

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
    """Clean logits, one for all rows or one per row; None means those of each prompt's own clean forward pass."""
    at: int = -1
    name: str = "KL divergence"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if self.clean is None:
            raise InputError(
                "kl_divergence() compares with clean logits: pass them, kl_divergence(model(clean_tokens))."
            )
        if len(self.clean) not in (1, len(logits)):
            raise InputError(
                f"kl_divergence: {len(self.clean)} clean logits for {len(logits)} rows: expected one, or one per row."
            )
        if self.clean.shape[-1] != logits.shape[-1]:
            raise InputError(
                f"kl_divergence: clean logits of {self.clean.shape[-1]} tokens, the others of {logits.shape[-1]}: expected those of "
                "the same model."
            )
        clean, edited = (
            values[:, one_position(self.at, values.shape[1], "at")].double().log_softmax(dim=-1)
            for values in (self.clean, logits)
        )
        return (clean.exp() * (clean - edited)).sum(dim=-1)

    def for_prompts(self, number: int) -> "KLDivergence":
        _refuse_other_rows(self.name, self.clean, number)
        return self

    def of_prompt(self, run: CleanRun) -> "KLDivergence":
        return replace(self, clean=run.logits[None] if self.clean is None else _own_row(self.clean, run.number))


@strict
@dataclass(frozen=True)
class Loss(Metric):
    """Mean next-token cross-entropy over the prompt, in nats."""

    tokens: Int[Tensor, "batch pos"] | None
    """Token ids of the prompts, one for all rows or one per row; None means each prompt's own."""
    at: int | None = None
    name: str = "loss"

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, " batch"]:
        if self.tokens is None:
            raise InputError("loss() needs the tokens to predict: pass them, loss(tokens).")
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

    def for_prompts(self, number: int) -> "Loss":
        _refuse_other_rows(self.name, self.tokens, number)
        return self

    def of_prompt(self, run: CleanRun) -> "Loss":
        return replace(self, tokens=run.tokens[None] if self.tokens is None else _own_row(self.tokens, run.number))


def _refuse_other_rows(name: str, given: Tensor | None, number: int) -> None:
    if given is not None and len(given) not in (1, number):
        raise InputError(
            f"{name}: {len(given)} rows for {number} prompt{'s' * (number > 1)}: expected one, or one per prompt."
        )


def _own_row(given: Shaped[Tensor, "batch ..."], number: int) -> Shaped[Tensor, "1 ..."]:
    """The row of a prompt, or the one of all."""
    return given if len(given) == 1 else given[number][None]


@strict
def kl_divergence(clean: Float[Tensor, "batch pos d_vocab"] | None = None, *, at: int = -1) -> KLDivergence:
    """Metric: `KL(clean || run)` of the next token's distribution at one position, in nats.

    Args:
        clean: Clean logits. None means those of each prompt's own clean forward pass, in calls that run the model.
        at: Position to read, the last by default.

    Raises:
        InputError: if `clean` is not such a tensor, or has NaN.
    """
    if clean is not None and (not isinstance(clean, Tensor) or clean.ndim != 3 or not clean.is_floating_point()):
        raise InputError(
            f"clean={brief(clean)}: expected logits [batch pos d_vocab], such as model(clean_tokens), or None."
        )
    if clean is not None and bool(clean.isnan().any()):
        raise InputError("clean has NaN: expected finite logits.")
    return KLDivergence(clean, at)


@strict
def loss(tokens: Int[Tensor, "batch pos"] | None = None) -> Loss:
    """Metric: mean next-token cross-entropy over the prompt, in nats.

    Args:
        tokens: Token ids of the prompts. None means each prompt's own, in calls that run the model.

    Raises:
        InputError: if these are not token ids.
    """
    ids = isinstance(tokens, Tensor) and tokens.ndim == 2 and not tokens.is_floating_point()
    if tokens is not None and (not ids or tokens.dtype == torch.bool):
        raise InputError(
            f"tokens={brief(tokens)}: expected token ids [batch pos], such as model.to_tokens(texts), or None."
        )
    return Loss(tokens)
