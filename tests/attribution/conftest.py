"""Prompts, targets and models that these tests share, and how a table of refused calls is read."""

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import Case

DIFFERENCE = ffb.logit(7, minus=11)
"""A logit difference of two tokens at the last position."""
Refused = tuple[Callable[[], Any], type[Exception], str]
"""A call, the class of its error, and an expression that its message holds: what is wrong, or what to do."""


def double(family: str, api: str = "bridge") -> Any:
    """The float64 model of a family that all tests share, or a skip where TransformerLens cannot run it."""
    return Case(family, api).model(torch.float64)


def prompts(family: str, n: int = 7) -> Tensor:
    """Two sequences [batch pos]."""
    return torch.stack([tiny.tokens(family, n, seed) for seed in (0, 1)])


def pair(family: str, n: int = 6) -> tuple[Tensor, Tensor]:
    """Two prompts [pos] that differ in two tokens."""
    clean = tiny.tokens(family, n)
    corrupted = clean.clone()
    corrupted[2:4] = torch.tensor([40, 33])
    return clean, corrupted


def direction(layer: int, at: int = -1, seed: int = 0) -> Any:
    """A random direction at a layer's input."""
    generator = torch.Generator().manual_seed(seed)
    return ffb.direction(torch.randn(32, dtype=torch.float64, generator=generator), layer=layer, at=at)


def assert_refused(call: Callable[[], Any], error: type[Exception], said: str) -> None:
    """By that class, in words that the expression finds."""
    with pytest.raises(error) as raised:
        call()
    assert re.search(said, str(raised.value), re.DOTALL), str(raised.value)
