"""How many first tokens two vectors have in common."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny

Models = Callable[..., Any]


def test_first_tokens_are_those_of_the_models_logits(ffb: ModuleType, model_of: Models) -> None:
    """The last layer's output says what the model says; in the other reading a vector is its product with W_U."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", 6)
    logits, cache = model.run_with_cache(tokens[None])
    stream = cache["blocks.2.hook_resid_post"][0]
    assert torch.equal(ffb.flow.top_tokens(model, stream, 5), logits[0].topk(5).indices)
    products = (stream @ model.W_U).topk(5).indices
    assert torch.equal(ffb.flow.top_tokens(model, stream, 5, reading="direction"), products)


def test_overlap_is_one_on_itself_symmetric_and_counts(ffb: ModuleType) -> None:
    """Two of four in common, in whatever order, is a half."""
    first, second = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]]), torch.tensor([[4, 9, 1, 7], [1, 2, 3, 4]])
    assert ffb.flow.overlap(first, second).tolist() == [0.5, 0.0]
    assert torch.equal(ffb.flow.overlap(first, second), ffb.flow.overlap(second, first))
    assert ffb.flow.overlap(first, first.flip(1)).tolist() == [1.0, 1.0]
    with pytest.raises(ffb.errors.InputError, match="expected as many tokens"):
        ffb.flow.overlap(first, second[:1])
