"""Models whose runs are edited."""

import pytest

from tests import cases, tiny

HOOKED = [cases.Case(name, "hooked") for name in ("gpt2", "llama_nobias", "gpt_neox", "phi", "bert")]
"""They show norms before their gain; the dose counts all the same."""


OF_SOFTMAX = [cases.Case(name) for name in tiny.FAMILIES if name not in cases.MIXERS]


@pytest.fixture(
    params=cases.slow_beyond([*OF_SOFTMAX, *HOOKED], [*map(cases.Case, cases.COVERING), *HOOKED]),
    ids=str,
)
def edited(request: pytest.FixtureRequest) -> cases.Case:
    """Every family that the oracle knows, those that take no code path of their own as slow tests, and other classes."""
    return request.param
