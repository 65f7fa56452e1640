"""One attribution of several, share by share: a difference "a − b", a mean."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.results.intervals import refuse_mixed
from tl_ffblock.results.tokens import joined

if TYPE_CHECKING:
    from tl_ffblock.attribution.attribution import Attribution

_TENSORS = ("tokens", "positions", "token_types", "residual", "bias_shares")


def difference(first: "Attribution", second: "Attribution") -> "Attribution":
    """What one result says less what another says, with the target "a − b".

    Raises:
        InputError: if they do not describe the same shares.
    """
    names = (first.target, second.target)
    if first.target == second.target:
        target = f"difference of {first.target}"
    else:
        target = " − ".join(f"({name})" if " − " in name else name for name in names)
    combined = _combined([first, second], (1.0, -1.0), "−", "subtract")
    return dataclasses.replace(combined, target=target, quantity=f"difference of {combined.quantity}")


def mean(results: "Sequence[Attribution]") -> "Attribution":
    """The mean of results, with the target "mean of 3 targets: logit difference".

    Raises:
        InputError: if they do not describe the same shares.
    """
    refuse_mixed(results, "average")
    n, target = len(results), results[0].target
    average = _combined(results, (1 / n,) * n, "|", "average")
    if len({result.target for result in results}) > 1:
        target = f"mean of {n} targets: {average.quantity}"
    elif n > 1:
        target = f"mean of {n}: {target}"
    return dataclasses.replace(average, target=target)


def _combined(results: "Sequence[Attribution]", factors: Sequence[float], between: str, verb: str) -> "Attribution":
    """Results times factors, summed; the target is the first's.

    Args:
        results: One or more.
        factors: One for each.
        between: What joins labels, quantities and models that differ.
        verb: What is done, for the error.

    Raises:
        InputError: if they do not describe the same shares.
    """
    first = results[0]
    for result in results[1:]:
        for name, mine, theirs in (
            ("numbers of tokens", len(first.labels), len(result.labels)),
            ("rules", first.rules, result.rules),
            ("layers", first.n_layers, result.n_layers),
            ("parts", set(first.parts), set(result.parts)),
            ("biases", first.bias_names, result.bias_names),
            ("edits", set(first.edits), set(result.edits)),
        ):
            if mine != theirs:
                raise InputError(f"cannot {verb} attributions with different {name}: {mine} against {theirs}.")
    weighed = list(zip(factors, results, strict=True))

    def tensor(numbers: Iterable[Tensor]) -> Tensor:
        return torch.stack([factor * number for factor, number in zip(factors, numbers, strict=True)]).sum(dim=0)

    changed: dict[str, Any] = {name: tensor(getattr(result, name) for result in results) for name in _TENSORS}
    for name in ("value", "first_order"):
        changed[name] = sum(factor * getattr(result, name) for factor, result in weighed)
    for name in ("quantity", "model", "fingerprint"):
        changed[name] = joined([getattr(result, name) for result in results], between)
    return dataclasses.replace(
        first,
        labels=tuple(joined(names, between) for names in zip(*(result.labels for result in results), strict=True)),
        edits={name: sum(factor * result.edits[name] for factor, result in weighed) for name in first.edits},
        parts={name: tensor(result.parts[name] for result in results) for name in first.parts},
        certificate=None,
        **changed,
    )
