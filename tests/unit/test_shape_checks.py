"""The step "shapes" checks what the annotations say: without this it could pass because its hook is not there."""

import beartype.roar
import jaxtyping
import pytest
import torch

from tl_ffblock.layer.records import Norm


def test_the_hook_refuses_wrong_shapes(pytestconfig: pytest.Config) -> None:
    """A gain of two axes is no gain [d_model], in the step that says it would see that."""
    if not pytestconfig.getoption("--jaxtyping-packages"):
        pytest.skip("only the step `shapes` has the hook")
    with pytest.raises((jaxtyping.TypeCheckError, beartype.roar.BeartypeException)):
        Norm(torch.ones(3, 3), torch.zeros(3), 1e-5, centred=True)
