"""What a metric is: a function of a run's logits that gives one number a run, as TransformerLens's patching functions take.

Any function of logits may be given wherever a metric is; `as_metric` makes one of it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from jaxtyping import Float, Int
from torch import Tensor

from tl_ffblock.errors import InputError, brief
from tl_ffblock.signatures import strict

LogitFunction: TypeAlias = Callable[[Float[Tensor, "batch pos d_vocab"]], Float[Tensor, "*batch"]]
"""A metric as TransformerLens has them: logits to one number a run, or one for all runs together."""


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
    """A number for every run, read off its logits."""

    name: str
    """What it is called in results and on figures."""
    at: int | None
    """Position where the logits are read, negative ones from the end; None means at more than one."""

    @abstractmethod
    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "*batch"]:
        """One number a run.

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
        """The tokens that are read, such as `' Mary' − ' John'`; empty where none in particular are, or each prompt has its own.

        Args:
            quoted: Makes words of token ids.
        """
        return ""


@strict
@dataclass(frozen=True)
class PlainMetric(Metric):
    """A function of logits that somebody else wrote; it is given whole runs, and all prompts that it knows at once."""

    function: LogitFunction
    name: str
    at: int | None = None

    def __call__(self, logits: Float[Tensor, "batch pos d_vocab"]) -> Float[Tensor, "*batch"]:
        value = self.function(logits)
        if not isinstance(value, Tensor) or tuple(value.shape) not in ((), (len(logits),)):
            shape = (
                f"a tensor of shape {tuple(value.shape)}" if isinstance(value, Tensor) else f"a {type(value).__name__}"
            )
            raise InputError(
                f"the metric {self.name} gave {shape} for logits of {len(logits)} runs; expected a tensor with one number, or "
                "with one a run."
            )
        return value


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
    if isinstance(metric, PlainMetric):
        return torch.stack([metric(run[None]).reshape(()) for run in logits])
    return metric(logits)
