"""Attention patterns as labelled maps, scores as sums of products of query and key, heads as an axis of results."""

from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tests.cases import model_of
from tl_ffblock import (
    TokenMaps,
    attention_maps,
    attention_scores,
    capture,
    contribution_maps,
    decompose,
)
from tl_ffblock.errors import InputError, ScopeKeyError, UnsupportedModelError


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


def test_maps_without_heads_say_so() -> None:
    """Asked for heads that nobody kept, a result names the call that keeps them."""
    maps = contribution_maps(model_of("gpt2"), tiny.tokens("gpt2", 3), layers=0)
    for read in (
        lambda: maps.heads["Atb", 0],
        lambda: maps.token_maps("Atb", heads=True),
        lambda: maps.to_dataframe(heads=True),
    ):
        with pytest.raises(ScopeKeyError, match="no heads.*heads=True"):
            read()
    with pytest.raises(InputError, match=r"decompose\(model, input, layer=..., heads=True\)"):
        decompose(model_of("gpt2"), tiny.tokens("gpt2", 3), layer=0).heads("Atb")


def test_heads_and_rows_are_those_asked_for() -> None:
    """Some heads and rows hold the numbers that all hold, under their own labels."""
    model, tokens = model_of("llama"), tiny.tokens("llama", 6)
    whole = attention_scores(model, tokens)
    some = attention_scores(model, tokens, layers=[0, -1], heads=[3, 1], queries=[5, 2])
    assert (some.heads, some.queries, some.layers) == ((1, 3), (5, 2), (0, whole.layers[-1]))
    assert some.score.equal(whole.score[[0, -1]][:, [1, 3]][:, :, [5, 2]])
    assert whole.value_norms is not None and some.value_norms.equal(whole.value_norms[[0, -1]][:, [1, 3]])


@pytest.mark.parametrize(
    ("name", "overrides", "scales"),
    [
        ("granite", {}, (0.2, 0.2)),
        ("gemma3", {}, (24**-0.5,) * 3),
        ("gemma2", {"attn_logit_softcapping": None}, (24**-0.5,) * 3),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, (8**-0.5, 8**-0.5 / 2, 8**-0.5 / 3)),
        ("llama", {}, (8**-0.5,) * 3),
        ("qwen3", {}, (0.25,) * 2),
        ("phi", {}, (8**-0.5,) * 2),
        ("gpt_neo", {}, (1.0, 1.0)),
        ("bert", {}, (8**-0.5,) * 3),
    ],
)
def test_products_sum_to_the_models_own_scores(name: str, overrides: dict[str, Any], scales: tuple[float, ...]) -> None:
    """Of plain, rotated, grouped and bidirectional attention, with the scale of every layer's module: what `hook_attn_scores` shows.

    A BERT bridge shows weights there: their logarithms are the scores, less one number per row. GPT-Neo's shows none.
    """
    model, tokens = model_of(name, **overrides), tiny.tokens(name, 6)
    scores, (_, cache) = attention_scores(model, tokens), model.run_with_cache(tokens[None])
    assert scores.scale == pytest.approx(scales)
    assert scores.error < 1e-6 and scores.token_maps().values.equal(attention_maps(model, tokens).values)
    for row, layer in enumerate(scores.layers if name != "gpt_neo" else ()):
        seen, own = scores.pattern[row] > 0, cache[f"blocks.{layer}.attn.hook_attn_scores"][0]
        mine = scores.score[row].log_softmax(dim=-1) if name == "bert" else scores.score[row]
        torch.testing.assert_close(mine[seen], own.log()[seen] if name == "bert" else own[seen], rtol=1e-4, atol=1e-5)
    summed = scores.products(-1, head=2, query=4, key=3).sum()
    torch.testing.assert_close(summed, scores.score[-1, 2, 4, 3])
    written = contribution_maps(model, tokens, scopes="Attn", heads=True, value_bias="token").heads["Attn"][:, :-1]
    torch.testing.assert_close(scores.value_weighted, written, rtol=1e-4, atol=1e-6)  # the norm of each head's vector


@pytest.mark.parametrize("name", ["gemma2", "bloom", "gpt_oss", "gpt2"])
def test_scores_that_are_no_scaled_products_are_refused(name: str) -> None:
    """Caps, position biases and sinks take part in the softmax, a hook edits the pattern: no number rather than a wrong one."""
    hooks = [("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern.flip(-1).tril())] if name == "gpt2" else []
    with pytest.raises(
        UnsupportedModelError, match="is not the pattern|has no rotated|has no HookPoint|edits the pattern"
    ):
        attention_scores(model_of(name), tiny.tokens(name, 5), fwd_hooks=hooks)


def test_scores_of_a_head_whose_output_has_no_norm_of_its_own_are_refused() -> None:
    """A norm of all heads before W_O (BitNet): what a token writes through a head depends on the others."""
    with pytest.raises(UnsupportedModelError, match=r"a gate or a norm before W_O.*value-weighted"):
        attention_scores(model_of("bitnet"), tiny.tokens("bitnet", 5))
