"""What methods say of the tokens of prompts, each held against the run that is measured: scores of another target are refused."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from tl_ffblock.attribution.attribution import Attribution
from tl_ffblock.bridge.inputs import RunSequence
from tl_ffblock.bridge.runs import Run
from tl_ffblock.errors import InputError, brief

Scores: TypeAlias = Attribution | Shaped[Tensor, " pos"]
"""What a method says of a prompt's tokens."""
Results: TypeAlias = (
    Mapping[str, Scores | Sequence[Scores] | Shaped[Tensor, "prompt pos"]] | Sequence[Attribution] | Attribution
)
"""By a method's name what it says of each prompt; attributions alone go by the name of their rules."""
LEAVE_ONE_OUT, RANDOM, RECENCY = "leave one out", "random", "recency"


@dataclass(frozen=True)
class CleanTarget:
    """The target of one prompt in the run without any removal."""

    quantity: str
    """What kind of number it is."""
    words: str
    """The same with the tokens that it reads."""
    value: float
    rounding: float
    """How far the same target of the same model may be from the value."""
    noise: float
    """How far apart batches of other shapes put the same number."""
    model: str


@dataclass(frozen=True)
class MethodScores:
    """What one method says of every prompt."""

    name: str
    by_prompt: tuple[Scores, ...]

    @classmethod
    def of(cls, name: str, given: Scores | Sequence[Scores] | Shaped[Tensor, "prompt pos"], run: Run) -> "MethodScores":
        """One entry for each prompt of a run.

        Raises:
            InputError: if they are not of these prompts.
        """
        several: list[Any] = [given]
        if isinstance(given, list | tuple) or (isinstance(given, Tensor | np.ndarray) and given.ndim > 1):
            several = list(given)
        elif not isinstance(given, Attribution | Tensor | np.ndarray):
            raise InputError(
                f"results[{name!r}] is a {type(given).__name__}: expected Attributions of ffb.attribute, or scores [pos] of each prompt."
            )
        if len(several) != len(run.sequences):
            raise InputError(f"results[{name!r}] has scores of {len(several)} prompts, there are {len(run.sequences)}.")
        for number, (scores, sequence) in enumerate(zip(several, run.sequences, strict=True)):
            _refuse_other_tokens(f"results[{name!r}][{number}]", scores, sequence)
        return cls(name, tuple(several))

    def of_prompt(self, number: int, target: CleanTarget) -> Float[Tensor, " pos"]:
        """The scores of a prompt whose target is known; NaN of an attribution that is nothing but rounding.

        Raises:
            InputError: if they attribute another one.
        """
        scores = self.by_prompt[number]
        if isinstance(scores, Attribution):
            same = scores.quantity != target.quantity or scores.target == target.words
            if not (same and abs(scores.value - target.value) <= target.rounding):  # NaN is refused too
                raise InputError(
                    f"results[{self.name!r}][{number}] attributes {scores.target} = {scores.value:.6g} of {scores.model}; what tokens "
                    f"are removed from is {target.words} = {target.value:.6g} of {target.model}. Expected attributions of the same "
                    "target, of the same model without hooks; those of another one can be given as numbers, result.tokens."
                )
            if scores.vanishes:
                return torch.full_like(_on_tokens(scores), torch.nan)
        return _on_tokens(scores)


def read_results(results: Results, run: Run) -> list[MethodScores]:
    """The scores of each method.

    Raises:
        InputError: if they are not of these prompts.
    """
    if isinstance(results, Attribution):
        results = [results]
    if not isinstance(results, Mapping):
        given = list(results) if isinstance(results, Sequence) else []
        if not given or not all(isinstance(result, Attribution) for result in given):
            kinds = ", ".join(sorted({type(result).__name__ for result in given})) or type(results).__name__
            raise InputError(
                f"results holds {kinds}: expected Attributions, as ffb.attribute makes them, or by a method's name one for each prompt."
            )
        if len({result.rules for result in given}) > 1:
            named = ", ".join(sorted({repr(result.rules) for result in given}))
            raise InputError(
                f"results: attributions by rules {named} in one list; expected a mapping, a method's name to its own."
            )
        results = {given[0].rules: given}
    if others := [name for name in results if not isinstance(name, str)]:
        raise InputError(f"results has the key {others[0]!r}: expected a method's name as text.")
    taken = {LEAVE_ONE_OUT, RANDOM, RECENCY} & set(results)
    if not results or taken:
        raise InputError(f"results: {', '.join(map(repr, taken)) or 'no method'}; expected methods of other names.")
    return [MethodScores.of(name, given, run) for name, given in results.items()]


def _refuse_other_tokens(place: str, scores: Scores, sequence: RunSequence) -> None:
    if isinstance(scores, Attribution) and scores.labels != sequence.labels:
        raise InputError(f"{place} is of another text: {brief(''.join(scores.labels))}.")
    if not isinstance(scores, Attribution | Tensor | np.ndarray | list | tuple):
        raise InputError(
            f"{place} is a {type(scores).__name__}: expected an Attribution of ffb.attribute, or scores [pos]."
        )
    tensor = _on_tokens(scores)
    if bool(tensor.isnan().any()):
        raise InputError(f"{place} holds NaN: expected a finite score for each of {len(sequence.tokens)} tokens.")
    if tuple(tensor.shape) != (len(sequence.tokens),) or not bool(tensor.isfinite().all()):
        raise InputError(
            f"{place} has shape {tuple(tensor.shape)}: expected a finite score for each of {len(sequence.tokens)} tokens."
        )


def _on_tokens(scores: Scores) -> Tensor:
    entering = scores.entering if isinstance(scores, Attribution) else scores
    return torch.as_tensor(entering).detach().cpu().double()
