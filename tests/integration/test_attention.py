"""Attention patterns as labelled maps."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.cases import model_of
from tl_ffblock import TokenMaps, attention_maps, capture, contribution_maps
from tl_ffblock.errors import InputError

Models = Callable[..., Any]


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "gemma2", "phi"])
def test_patterns_are_those_of_the_hugging_face_model(name: str) -> None:
    """Head by head what the wrapped model's own code returns as its attentions."""
    tokens = tiny.tokens(name, 7)
    with torch.no_grad():
        expected = tiny.hf_model(name)(tokens[None], output_attentions=True, attention_mask=torch.ones(1, 7)).attentions
    maps = attention_maps(model_of(name), tokens)
    assert isinstance(maps, TokenMaps)
    for layer in maps.layers:
        for head, channel in enumerate(maps.channels):
            torch.testing.assert_close(maps[channel, layer], expected[layer][0, head], rtol=1e-4, atol=1e-5)


def test_labels_are_those_of_contribution_maps(family: str) -> None:
    """Tokens, layers, queries, model and reach are the same, in the order asked for; rows are the asked ones of all."""
    model, tokens = model_of(family), tiny.tokens(family, 6)
    options: dict[str, Any] = dict(layers=[-1, 0], queries=[4, -6, 4])
    maps, contributions = attention_maps(model, tokens, **options), contribution_maps(model, tokens, **options)
    for label in ("tokens", "layers", "queries", "causal", "model", "signed"):
        assert getattr(maps, label) == getattr(contributions, label)
    assert maps.kind == "attention"
    whole = attention_maps(model, tokens)
    assert maps["head 1", -1].equal(whole["head 1", -1][[4, 0, 4]])
    assert not whole.values[..., ~whole.reachable()].any()


def test_several_sequences_are_each_alone() -> None:
    """A list or a padded batch gives one result a sequence, equal to that of the sequence alone."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)
    batch = torch.stack([tokens, torch.cat([tokens[:3], torch.zeros(2, dtype=torch.long)])])
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])
    first, second = attention_maps(model, batch, attention_mask=mask)
    torch.testing.assert_close(first.values, attention_maps(model, tokens).values)
    torch.testing.assert_close(second.values, attention_maps(model, tokens[:3]).values)
    assert len(second.tokens) == 3


def test_edits_of_a_pattern_are_seen() -> None:
    """A hook's edit is in the map, as it was in the run; the records of a capture give the same map."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)

    def uniform(pattern: Tensor, hook: Any) -> Tensor:
        return torch.ones_like(pattern).tril() / torch.arange(1, 6)[:, None]

    maps = attention_maps(model, tokens, fwd_hooks=[("blocks.1.attn.hook_pattern", uniform)])
    torch.testing.assert_close(maps["head 0", 1], torch.ones(5, 5).tril() / torch.arange(1, 6)[:, None])
    with capture(model, [1]) as records:
        model(tokens[None])
    cached = attention_maps(model, tokens, cache=records)
    assert cached.layers == (1,)
    torch.testing.assert_close(cached.values, attention_maps(model, tokens, layers=1).values)


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "gptj"])
def test_value_weighted_attention_is_what_heads_write(name: str) -> None:
    """`alpha ||v W_O||`: each head's contribution at `Attn` where the value's bias stays with its token."""
    model, tokens = model_of(name, torch.float64), tiny.tokens(name, 6)
    maps = attention_maps(model, tokens, kind="value-weighted", queries=[5, 2])
    contributions = contribution_maps(model, tokens, scopes="Attn", heads=True, value_bias="token", queries=[5, 2])
    assert maps.kind == "value-weighted attention"
    assert maps.channels == contributions.heads.channels[:-1]
    torch.testing.assert_close(maps.values, contributions.heads["Attn"][:, :-1], rtol=1e-6, atol=1e-9)


@pytest.mark.wrong_types
def test_options_that_cannot_be_used_are_refused() -> None:
    """Layers and queries that are not there, and options of a decomposition, which a pattern does not have."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)
    with pytest.raises(InputError, match="no layer 9 in"):
        attention_maps(model, tokens, layers=9)
    with pytest.raises(InputError, match=r"queries=5: expected positions from -5 to 4"):
        attention_maps(model, tokens, queries=5)
    with pytest.raises(InputError, match=r'kind=\'rollout\': expected "pattern" or "value-weighted"'):
        attention_maps(model, tokens, kind="rollout")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="no argument `method`"):
        attention_maps(model, tokens, method="exact")  # type: ignore[call-overload]
