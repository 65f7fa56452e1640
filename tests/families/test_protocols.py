"""What the package says it needs of a TransformerLens model is what TransformerLens' classes have."""

from types import ModuleType
from typing import Any

import pytest
from torch import nn

from tests import tiny

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so


@pytest.fixture(scope="module")
def protocols() -> ModuleType:
    """bridge/protocols.py."""
    from tl_ffblock.bridge import taps as protocols

    return protocols


def _hooked(family: str) -> Any:
    try:
        return tiny.hooked(family)
    except RuntimeError as error:
        pytest.skip(f"no HookedTransformer here: {error}")


@pytest.mark.parametrize("make", [tiny.bridge, _hooked], ids=["bridge", "hooked"])
@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_every_class_has_it(protocols: ModuleType, make: Any, family: str) -> None:
    """TransformerBridge, HookedTransformer, HookedEncoder and each of their HookPoints."""
    model = make(family)
    assert isinstance(model, protocols.HookedModel)
    assert all(isinstance(point, protocols.HookPoint) for point in model.hook_dict.values())


def test_another_module_has_it_not(protocols: ModuleType) -> None:
    """A module of torch is neither."""
    assert not isinstance(nn.Linear(2, 2), (protocols.HookedModel, protocols.HookPoint))
