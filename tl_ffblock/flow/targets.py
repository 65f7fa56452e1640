"""What a flow graph's colours are shares of: targets, and their derivatives by the residual stream at every layer."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex, TypeAlias

from jaxtyping import Float
from torch import Tensor

from tl_ffblock.attribution import Attribution, Direction
from tl_ffblock.attribution.attribute import KEEPS, Shares
from tl_ffblock.attribution.targets import Cotangents, Target, cotangents, for_prompts
from tl_ffblock.bridge.linearised import RULES
from tl_ffblock.bridge.runs import Run
from tl_ffblock.bridge.traced import Traced, difference_of_logits, trace, with_gradients
from tl_ffblock.errors import InputError, brief
from tl_ffblock.metrics import logit

FlowTargets: TypeAlias = str | SupportsIndex | Target | Sequence[str | SupportsIndex | Target] | None
"""A token, a metric, a direction, or several of them; None means the token that the model expects at the position."""


@dataclass(frozen=True)
class Propagated:
    """A target with its certified attribution."""

    attribution: Attribution
    by_stream: Float[Tensor, "boundary pos d_model"]
    """The target's derivative by the residual stream at each layer's input and at the end."""
    token: int | None
    """The token whose logit raises the target most; None where it reads no logits."""


def propagated(run: Run, targets: FlowTargets, position: int) -> list[Propagated]:
    """Share the targets out: one forward pass, a backward pass each.

    Args:
        run: Of one sequence.
        targets: What is asked for.
        position: The position whose logits a token is read at.

    Raises:
        InputError: for a target that cannot be read.
        CompletenessError: if shares do not sum up.
    """
    difference = difference_of_logits(run.model, "path")
    with with_gradients():
        traced = trace(run, run.batches[0], RULES["path"], frozenset(KEEPS["maps"]))
        asked = _asked(traced, targets, position)
        found = []
        for number, target in enumerate(asked):
            begin = cotangents(run, traced, for_prompts(target, 1))
            back = traced.backward(begin.tensor, begin.gradient, again=number + 1 < len(asked))
            shares = Shares(run, traced, back, begin, ())
            token = _token_of(begin, traced, position, target)
            found.append(Propagated(shares.attribution(difference), shares.by_stream(), token))
    return found


def _asked(traced: Traced, targets: FlowTargets, position: int) -> list[Target]:
    if targets is None:
        real = traced.batch.real(0)
        row = position if real is None else int(real[position])
        return [logit(int(traced.logits[0, row].argmax()), at=position)]
    given: list[Any] = list(targets) if isinstance(targets, Sequence) and not isinstance(targets, str) else [targets]
    if not given or any(isinstance(item, bool | float) for item in given):
        raise InputError(f"target={brief(targets)}: expected a token, a metric, a direction, or several of them.")
    return [logit(item, at=position) if isinstance(item, str | SupportsIndex) else item for item in given]


def _token_of(begin: Cotangents, traced: Traced, position: int, target: Target) -> int | None:
    """The token whose logit raises the target most, at the position or else where it reads most."""
    if isinstance(target, Direction):
        return None
    gradient = begin.gradient[0]
    real = traced.batch.real(0)
    row = position if real is None else int(real[position])
    if not bool(gradient[row].any()):
        row = int(gradient.abs().amax(dim=-1).argmax())
    token = int(gradient[row].argmax())
    return token if float(gradient[row, token]) > 0 else None
