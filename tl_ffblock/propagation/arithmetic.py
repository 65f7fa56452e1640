"""One attribution of several, share by share: a difference, a mean."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.results.tokens import joined

if TYPE_CHECKING:
    from tl_ffblock.propagation.attribution import Attribution

_TENSORS = ("tokens", "positions", "token_types", "residual", "bias_shares")


def combined(results: "Sequence[Attribution]", factors: Sequence[float], between: str, verb: str) -> "Attribution":
    """Results times factors, summed.

    Args:
        results: One or more.
        factors: One for each.
        between: What joins labels and targets that differ.
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
    for name in ("target", "quantity", "model"):
        changed[name] = joined([getattr(result, name) for result in results], between)
    return dataclasses.replace(
        first,
        labels=tuple(joined(names, between) for names in zip(*(result.labels for result in results), strict=True)),
        edits={name: sum(factor * result.edits[name] for factor, result in weighed) for name in first.edits},
        parts={name: tensor(result.parts[name] for result in results) for name in first.parts},
        certificate=None,
        **changed,
    )
