"""Results come in the order in which memories are named, and two results say whether they are equal."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tl_ffblock import memories
from tl_ffblock.errors import InputError

Models = Callable[..., Any]
NAMED = ["2:7", "0:40", "1:3", "0:2", "-1:5"]
"""Neither by layer nor by number."""


def texts(family: str) -> list[torch.Tensor]:
    """Three texts of ids."""
    return [tiny.tokens(family, n) for n in (5, 7, 6)]


def test_values_are_in_the_order_given(model_of: Models) -> None:
    """Row by row what each memory's own call says; they were sorted by layer before."""
    found = memories.value_tokens(model_of("gpt2"), memories=NAMED, targets=[9])
    assert [str(name) for name in found.memories] == ["2:7", "0:40", "1:3", "0:2", "2:5"]
    for row, name in enumerate(NAMED):
        alone = memories.value_tokens(model_of("gpt2"), memories=name, targets=[9])
        for field in ("top_ids", "bottom_ids", "target_ranks"):
            np.testing.assert_array_equal(getattr(found, field)[row], getattr(alone, field)[0])
        np.testing.assert_allclose(found.probability[row], alone.probability[0], rtol=1e-5)


def test_parts_are_in_the_order_given(model_of: Models) -> None:
    """Parts, bias, remainder, coefficient and what errors are measured by."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    found = memories.token_parts(model, tokens, NAMED, query=3)
    for row, name in enumerate(NAMED):
        alone = memories.token_parts(model, tokens, name, query=3)
        for field in ("parts", "bias", "remainder", "coefficient", "largest"):
            torch.testing.assert_close(getattr(found, field)[row], getattr(alone, field)[0], rtol=1e-5, atol=1e-6)
    assert float(found.error.max()) < 1e-4


@pytest.mark.parametrize("family", ["gpt2", "mixtral"])
def test_triggers_are_in_the_order_given(model_of: Models, family: str) -> None:
    """Experts' too."""
    named = NAMED if family == "gpt2" else ["1:2:3", "0:3:1", "1:0:5", "0:0:5"]
    found = memories.find_triggers(model_of(family), texts(family), memories=named, k=3)
    for row, name in enumerate(named):
        alone = memories.find_triggers(model_of(family), texts(family), memories=name, k=3)
        np.testing.assert_allclose(found.coefficient[row], alone.coefficient[0], rtol=1e-5)
        np.testing.assert_array_equal(found.position[row], alone.position[0])


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


def test_results_of_memories_say_whether_they_are_equal(model_of: Models) -> None:
    """`==` of arrays and tensors answers; one number more makes another result."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 6)
    makes: list[tuple[Callable[[], Any], str]] = [
        (lambda: memories.token_parts(model, tokens, NAMED), "parts"),
        (lambda: memories.value_tokens(model, memories=NAMED), "top_ids"),
        (lambda: memories.find_triggers(model, texts("gpt2"), memories=NAMED, k=9), "coefficient"),
        (lambda: memories.carried(ffb.attribute(model, tokens, ffb.logit(7)), NAMED), "shares"),
    ]
    for make, field in makes:
        first = make()
        assert first == make()
        assert (first != make()) is False
        assert first != dataclasses.replace(first, **{field: getattr(first, field) + 1})
        assert first != "something else"
