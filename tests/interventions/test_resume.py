"""Runs that begin at their edit give the logits of whole runs, or are not made."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock.bridge.edited import ResumedRuns
from tl_ffblock.bridge.model import identify

Models = Callable[..., Any]
N = 6
FROM_CACHE = dict(rtol=1e-5, atol=1e-6)
"""float64, but Hugging Face's rotary angles and RMSNorm are float32: from a cache they are rounded in another order."""


def runs_of(model: Any, tokens: Tensor, first: int, **options: Any) -> ResumedRuns:
    """Runs of a prompt that know its clean logits."""
    with torch.no_grad():
        return ResumedRuns(identify(model), tokens, model(tokens), starts=[[first]] * len(tokens), **options)


def shifting(row: int, at: int) -> Callable[..., Tensor]:
    """A hook function that edits one row at one position of what passes."""

    def shift(tensor: Tensor, hook: Any) -> Tensor:
        tensor = tensor.clone()
        tensor[row, at] += 0.5 * tensor[row, at].roll(1, -1)
        return tensor

    return shift


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen2", "gemma2", "gpt_neox"])
def test_a_resumed_run_gives_the_rest_of_the_whole_runs_logits(model_of: Models, family: str) -> None:
    """From every position on, side by side, each row with its own edit: the logits of whole runs from there on."""
    model, tokens = model_of(family, torch.float64), tiny.tokens(family, N)[None]
    runs = runs_of(model, tokens, first=1)
    assert runs.resumes
    for start in (4, 1, 5, 0):
        names = ("blocks.0.hook_mlp_out", "blocks.1.hook_attn_out")
        rest = runs.logits(start, [0, 0], [(name, shifting(row, 0)) for row, name in enumerate(names)])
        assert rest.shape[:2] == (2, N - start)
        for row, name in enumerate(names):
            with torch.no_grad():
                whole = model.run_with_hooks(tokens, fwd_hooks=[(name, shifting(0, start))])
            torch.testing.assert_close(rest[row], whole[0, start:], **FROM_CACHE)


def test_runs_without_edits_do_not_change_what_comes_after(model_of: Models) -> None:
    """Keys and values of the prefix are kept, and no run adds its own to them."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)[None]
    runs = runs_of(model, tokens, first=2)
    first = runs.logits(3, [0], [])
    runs.logits(3, [0, 0, 0, 0], [("blocks.0.hook_mlp_out", shifting(2, 0))])
    torch.testing.assert_close(runs.logits(3, [0], []), first, rtol=0, atol=0)


def test_whoever_sees_later_tokens_runs_whole_prompts(model_of: Models) -> None:
    """An encoder's prefix depends on what follows it."""
    assert not runs_of(model_of("bert", torch.float64), tiny.tokens("bert", N)[None], first=2).resumes


def test_nothing_is_resumed_that_does_not_give_the_clean_logits(model_of: Models) -> None:
    """Clean logits that a run from the cache misses by 1 %, no position left to compare, or no wish to: whole prompts."""
    model, tokens = model_of("llama", torch.float64), tiny.tokens("llama", N)[None]
    with torch.no_grad():
        clean = model(tokens)
    assert ResumedRuns(identify(model), tokens, clean, starts=[[2]]).resumes
    assert not ResumedRuns(identify(model), tokens, 1.01 * clean, starts=[[2]]).resumes
    assert not ResumedRuns(identify(model), tokens, clean, starts=[[N]]).resumes
    assert not ResumedRuns(identify(model), tokens, clean, starts=[[2]], resume=False).resumes


def test_a_model_that_cannot_go_on_from_a_cache_runs_whole_prompts(model_of: Models) -> None:
    """An error of the run from the cache, whatever its kind, is no error of the caller's."""
    model, tokens = model_of("gpt2", torch.float64), tiny.tokens("gpt2", N)[None]

    def refuse(tensor: Tensor, hook: Any) -> Tensor:
        if tensor.shape[1] < N:
            raise RuntimeError("no part of a prompt is run here")
        return tensor

    with model.hooks(fwd_hooks=[("blocks.0.hook_resid_pre", refuse)]):
        assert not runs_of(model, tokens, first=2).resumes
