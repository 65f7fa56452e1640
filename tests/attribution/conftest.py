"""Tiny models, targets and the sums that must hold."""

from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny

SINCE_4 = ("roberta", "gpt_oss", "hunyuan", "cohere", "cohere2")
"""Families that TransformerLens 3.9 cannot run, or not as Hugging Face does."""


@pytest.fixture(scope="session")
def model_of_any() -> Callable[..., Any]:
    """`model_of_any(family, api, dtype)`: a fresh tiny model, or a skip."""

    def build(family: str, api: str = "bridge", dtype: torch.dtype = torch.float32) -> Any:
        if family in SINCE_4 and version("transformer-lens").startswith("3."):
            pytest.skip("TransformerLens 3 cannot run it")
        if api == "bridge":
            return tiny.bridge(family, dtype=dtype)
        try:
            return tiny.hooked(family, dtype=dtype)
        except RuntimeError as error:
            pytest.skip(str(error))

    return build


@pytest.fixture(scope="session")
def difference(ffb: ModuleType) -> Any:
    """A logit difference of two tokens at the last position."""
    return ffb.logit(7, minus=11)


def prompts(family: str, n: int = 7) -> Tensor:
    """Two sequences [batch pos]."""
    return torch.stack([tiny.tokens(family, n, seed) for seed in (0, 1)])
