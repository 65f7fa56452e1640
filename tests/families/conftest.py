"""Tiny models of every family; a family that this TransformerLens cannot run is skipped with the reason."""

from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from tests import tiny

settings.register_profile(
    "families",
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # shrinking boots hundreds of models, and these are small already
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

SINCE_4 = {
    "roberta": "it has no bridge for RoBERTa",
    "gpt_oss": "its router has no HookPoint",
    "hunyuan": "its bridge normalises queries and keys in the wrong place",
    "cohere": "its bridge rotates queries and keys in the wrong order",
    "cohere2": "its bridge rotates queries and keys in the wrong order",
}
"""Families that TransformerLens 3.9 cannot run, or not as Hugging Face does: refused there (test_refusals)."""


@pytest.fixture(scope="session")
def bridge_of() -> Callable[..., Any]:
    """`bridge_of(family, **options)` as `tiny.bridge`, or a skip."""

    def build(family: str, **options: Any) -> Any:
        if family in SINCE_4 and version("transformer-lens").startswith("3."):
            pytest.skip(f"TransformerLens 3: {SINCE_4[family]}")
        return tiny.bridge(family, **options)

    return build


@pytest.fixture(params=tuple(tiny.ALL_FAMILIES))
def every_family(request: pytest.FixtureRequest) -> str:
    """Every family of `tests.tiny`, with an oracle or without."""
    return request.param


@pytest.fixture(scope="session")
def families() -> ModuleType:
    """The table of families."""
    from tl_ffblock.bridge import families

    return families


@pytest.fixture(scope="session")
def identify() -> Callable[[Any], Any]:
    """What recognises a model."""
    from tl_ffblock.bridge.model import identify

    return identify
