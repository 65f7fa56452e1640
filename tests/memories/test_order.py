"""Results come in the order in which memories are named."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests import tiny
from tl_ffblock import memories
from tl_ffblock.errors import InputError

Models = Callable[..., Any]
NAMED = ["2:7", "0:40", "1:3", "0:2", "-1:5"]
"""Neither by layer nor by number."""


def texts(family: str) -> list[torch.Tensor]:
    """Three texts of ids."""
    return [tiny.tokens(family, n) for n in (5, 7, 6)]


CALLS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "values": (
        lambda model, names: memories.value_tokens(model, memories=names, targets=[9]),
        ("top_ids", "bottom_ids", "target_ranks", "probability"),
    ),
    "parts": (
        lambda model, names: memories.token_parts(model, tiny.tokens("gpt2", 6), names, query=3),
        ("parts", "bias", "remainder", "coefficient", "largest"),
    ),
    "triggers": (
        lambda model, names: memories.find_triggers(model, texts("gpt2"), memories=names, k=3),
        ("coefficient", "position", "sequence"),
    ),
}
"""What has a row per memory, and the fields that have."""


@pytest.mark.parametrize(("call", "family"), [*((call, "gpt2") for call in CALLS), ("triggers", "mixtral")])
def test_rows_are_in_the_order_given(model_of: Models, call: str, family: str) -> None:
    """Row by row what each memory's own call says, experts' too; they were sorted by layer before."""
    named = NAMED if family == "gpt2" else ["1:2:3", "0:3:1", "1:0:5", "0:0:5"]
    make, fields = CALLS[call]
    found = make(model_of(family), named)
    assert [str(name) for name in found.memories] == [name.replace("-1:", "2:") for name in named]
    for row, name in enumerate(named):
        alone = make(model_of(family), name)
        for field in fields:
            np.testing.assert_allclose(getattr(found, field)[row], getattr(alone, field)[0], rtol=1e-5, atol=1e-6)


def test_means_and_knock_outs_follow_their_names(model_of: Models) -> None:
    """By name and not by place: an order is none of theirs."""
    model = model_of("gpt2")
    means = memories.mean_coefficients(model, texts("gpt2"), NAMED)
    backwards = memories.mean_coefficients(model, texts("gpt2"), NAMED[::-1])
    assert means == pytest.approx(backwards)
    tokens = tiny.tokens("gpt2", 6)[None]
    first, second = (
        model.run_with_hooks(tokens, fwd_hooks=memories.knock_out(model, names, to=means))
        for names in (NAMED, NAMED[::-1])
    )
    torch.testing.assert_close(first, second)
    assert not torch.equal(first, model(tokens))


def test_triggers_and_values_in_different_orders_agree_by_name(model_of: Models) -> None:
    """Agreement, effects: in the triggers' order, whatever that of the values."""
    model = model_of("gpt2")
    triggers = memories.find_triggers(model, texts("gpt2"), memories=NAMED, k=2)
    same, other = (memories.value_tokens(model, memories=names) for names in (NAMED, NAMED[::-1]))
    assert memories.agreement(triggers, same).equals(memories.agreement(triggers, other))
    effects = [memories.knock_out_effects(model, triggers, values, ranks=1) for values in (same, other)]
    assert effects[0].equals(effects[1])
    with pytest.raises(InputError, match="of other memories"):
        memories.agreement(triggers, memories.value_tokens(model, memories=NAMED[:-1]))


def test_a_memory_named_twice_is_refused(model_of: Models) -> None:
    """Every table has one row per memory; from the end and as numbers it is the same."""
    for twice in (["1:3", "1:3"], ["2:5", "-1:5"], [(1, 3), "1:3"]):
        with pytest.raises(InputError, match="is named twice; name each once"):
            memories.value_tokens(model_of("gpt2"), memories=twice)
