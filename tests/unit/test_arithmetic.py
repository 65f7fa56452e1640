"""Several results as one: what must agree, what is named, what is computed."""

import dataclasses
from collections.abc import Mapping

import pytest
import torch
from torch import Tensor

from tl_ffblock.errors import InputError
from tl_ffblock.result import Result
from tl_ffblock.results.tables import Arithmetic, combined, weighed

FIELDS = Arithmetic(
    same=("rules",),
    joined=("labels", "provenance"),
    numbers=("value", "shares", "edits", "extra"),
    largest=("error", "signed"),
    rows=("names", "places", "biases"),
)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Shared(Result):
    """One number of each kind."""

    value: float
    shares: Tensor
    edits: Mapping[str, float]
    names: tuple[str, ...] = ("b1",)
    places: tuple[int, ...] = (0,)
    biases: Tensor = dataclasses.field(default_factory=lambda: torch.ones(1, 2))
    labels: tuple[str, ...] = ("a", "b")
    provenance: Mapping[str, str] = dataclasses.field(default_factory=dict)
    rules: str = "path"
    error: float = 0.0
    signed: bool = False
    extra: Tensor | None = None


FIRST = Shared(3.0, torch.tensor([1.0, 2.0]), {"x": 1.0}, provenance={"dtype": "float32"})
SECOND = Shared(1.0, torch.tensor([0.5, 0.25]), {"y": 2.0}, labels=("a", "c"), error=0.5, signed=True)


def subtracted(first: Shared, second: Shared) -> Shared:
    """The first less the second."""
    return combined([first, second], weighed((1.0, -1.0)), " / ", "subtract", FIELDS)


def test_each_field_has_its_rule() -> None:
    """Numbers are computed, a table's missing ones 0; labels that differ are named; the largest error is kept."""
    found = subtracted(FIRST, SECOND)
    assert (found.value, found.edits, found.error, found.signed) == (2.0, {"x": 1.0, "y": -2.0}, 0.5, True)
    assert found.shares.tolist() == [0.5, 1.75]
    assert (found.labels, found.provenance) == (("a", "b / c"), {"dtype": "float32 / ?"})
    assert found.extra is None


def test_rows_that_one_lacks_are_zero() -> None:
    """Such as the biases of a checkpoint that has none."""
    none = dataclasses.replace(SECOND, names=(), places=(), biases=torch.zeros(0, 2))
    more = dataclasses.replace(SECOND, names=("b2", "b1"), places=(1, 0), biases=torch.tensor([[3.0, 4.0], [5.0, 6.0]]))
    for first, second, names, numbers in (
        (FIRST, none, ("b1",), [[1.0, 1.0]]),
        (none, FIRST, ("b1",), [[-1.0, -1.0]]),
        (none, none, (), []),
        (FIRST, more, ("b1", "b2"), [[-4.0, -5.0], [-3.0, -4.0]]),
    ):
        found = subtracted(first, second)
        assert (found.names, found.biases.tolist()) == (names, numbers)
    assert found.places == (0, 1)


def test_rows_of_one_name_stay_apart() -> None:
    """The second row of a name is subtracted from the second, not from the first."""
    twice = {"names": ("b1", "b1"), "places": (0, 0)}
    first = dataclasses.replace(FIRST, **twice, biases=torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    second = dataclasses.replace(SECOND, **twice, biases=torch.tensor([[1.0, 1.0], [1.0, 1.0]]))
    found = subtracted(first, second)
    assert (found.names, found.biases.tolist()) == (("b1", "b1"), [[0.0, 1.0], [2.0, 3.0]])


def test_other_cells_are_refused() -> None:
    """By the name of what differs, with both values."""
    with pytest.raises(InputError, match="cannot subtract results with different rules: 'path' against 'gradient'"):
        subtracted(FIRST, dataclasses.replace(SECOND, rules="gradient"))
    with pytest.raises(InputError, match="of 2 and of 1 tokens"):
        subtracted(FIRST, dataclasses.replace(SECOND, labels=("a",)))
