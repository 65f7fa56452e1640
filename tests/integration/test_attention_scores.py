"""Scores of attention as sums of products of query and key, against the model's own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests import tiny
from tests.cases import model_of
from tl_ffblock import attention_maps, attention_scores
from tl_ffblock.errors import InputError, UnsupportedModelError

Models = Callable[..., Any]


@pytest.mark.parametrize("name", ["gpt2", "llama", "qwen3", "phi", "bert"])
def test_products_sum_to_the_models_own_scores(name: str) -> None:
    """Of plain, rotated, grouped and bidirectional attention: the sum over dimensions is what `hook_attn_scores` shows.

    A BERT bridge shows weights there: their logarithms are the scores, less one number a row.
    """
    model, tokens = model_of(name), tiny.tokens(name, 6)
    shown = {}

    def keep(scores: torch.Tensor, hook: Any) -> None:
        shown["scores"] = scores[0]

    scores = attention_scores(model, tokens, layers=1, fwd_hooks=[("blocks.1.attn.hook_attn_scores", keep)])
    seen = scores.pattern[0] > 0
    mine, own = (
        (scores.score[0].log_softmax(dim=-1), shown["scores"].log())
        if name == "bert"
        else (scores.score[0], shown["scores"])
    )
    torch.testing.assert_close(mine[seen], own[seen], rtol=1e-4, atol=1e-5)
    summed = scores.products(-1, head=2, query=4, key=3).sum()
    torch.testing.assert_close(summed, scores.score[0, 2, 4, 3])
    assert scores.error < 1e-6 and scores.token_maps().values.equal(attention_maps(model, tokens, layers=1).values)


@pytest.mark.parametrize(
    ("name", "overrides", "scales"),
    [
        ("granite", {}, (0.2, 0.2)),
        ("gemma3", {}, (24**-0.5,) * 3),
        ("gemma2", {"attn_logit_softcapping": None}, (24**-0.5,) * 3),
        ("gpt2", {"scale_attn_by_inverse_layer_idx": True}, (8**-0.5, 8**-0.5 / 2, 8**-0.5 / 3)),
        ("gpt_neo", {}, (1.0, 1.0)),
        ("bert", {}, (8**-0.5,) * 3),
    ],
)
def test_the_scale_is_the_models_own(name: str, overrides: dict[str, Any], scales: tuple[float, ...]) -> None:
    """Of every layer, read from its attention module; and the scores are those that the model shows."""
    model, tokens = model_of(name, **overrides), tiny.tokens(name, 6)
    scores = attention_scores(model, tokens)
    assert scores.scale == pytest.approx(scales)
    assert scores.error < 1e-6
    if name in ("bert", "gpt_neo"):
        return  # whose bridges show weights in their place
    _, cache = model.run_with_cache(tokens[None])
    for row, layer in enumerate(scores.layers):
        seen = scores.pattern[row] > 0
        own = cache[f"blocks.{layer}.attn.hook_attn_scores"][0]
        torch.testing.assert_close(scores.score[row][seen], own[seen], rtol=1e-4, atol=1e-5)
    summed = scores.products(-1, head=2, query=4, key=3).sum()
    torch.testing.assert_close(summed, scores.score[-1, 2, 4, 3])


def test_heads_and_rows_are_those_asked_for() -> None:
    """Some heads and rows hold the numbers that all hold, under their own labels."""
    model, tokens = model_of("llama"), tiny.tokens("llama", 6)
    whole = attention_scores(model, tokens)
    some = attention_scores(model, tokens, layers=[0, -1], heads=[3, 1], queries=[5, 2])
    assert (some.heads, some.queries, some.layers) == ((1, 3), (5, 2), (0, whole.layers[-1]))
    assert some.score.equal(whole.score[[0, -1]][:, [1, 3]][:, :, [5, 2]])
    first, second = attention_scores(model, torch.stack([tokens, tokens.flip(0)]))
    torch.testing.assert_close(first.score, whole.score)
    assert second.tokens == first.tokens[::-1]


@pytest.mark.parametrize("name", ["gemma2", "bloom", "gpt_oss"])
def test_scores_that_are_no_scaled_products_are_refused(name: str) -> None:
    """Caps, position biases and sinks take part in the softmax: no number rather than a wrong one."""
    with pytest.raises(UnsupportedModelError, match="is not the pattern|shows no"):
        attention_scores(model_of(name), tiny.tokens(name, 6))


def test_an_edited_pattern_has_no_scores() -> None:
    """Where a hook edits the pattern it is no softmax of the run's queries and keys."""
    hooks = [("blocks.0.attn.hook_pattern", lambda pattern, hook: pattern.flip(-1).tril())]
    with pytest.raises(UnsupportedModelError, match="a hook that edits the pattern"):
        attention_scores(model_of("gpt2"), tiny.tokens("gpt2", 5), fwd_hooks=hooks)


def test_what_is_not_there_is_named() -> None:
    """Heads that do not exist, none at all, and pairs that are not held."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", 5)
    for heads, text in ((99, "heads=99"), (False, "heads=False")):
        with pytest.raises(InputError, match=text):
            attention_scores(model, tokens, heads=heads)
    scores = attention_scores(model, tokens, layers=0, heads=[2], queries=[3])
    for wrong in (dict(head=0), dict(query=4), dict(key=5)):
        with pytest.raises(InputError, match=f"{next(iter(wrong))}="):
            scores.products(0, **{"head": 2, "query": 3, "key": 1} | wrong)
