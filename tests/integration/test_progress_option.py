"""`progress=False` wherever a call shows its progress."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock import progress

CALLS: dict[str, Callable[..., Any]] = {
    "contribution_maps": lambda ffb, model, prompt, **shown: ffb.contribution_maps(model, prompt, **shown),
    "attribute": lambda ffb, model, prompt, **shown: ffb.attribute(model, prompt, ffb.logit(7), of=(), **shown),
    "attribution_patching": lambda ffb, model, prompt, **shown: ffb.attribution_patching(
        model, torch.stack([prompt, prompt]), torch.stack([prompt.flip(0), prompt]), ffb.logit(7), **shown
    ),
    "faithfulness": lambda ffb, model, prompt, **shown: ffb.faithfulness(
        model, prompt, ffb.logit(7), {"mine": [torch.arange(float(len(prompt)))]}, **shown
    ),
    "contribution_sweep": lambda ffb, model, prompt, **shown: ffb.contribution_sweep(
        ffb.Contributions(model, prompt), ffb.logit(7), "Attn", layers=0, queries=-1, **shown
    ),
    "causal_validation": lambda ffb, model, prompt, **shown: ffb.causal_validation(
        model, [prompt], scope="Attn", layers=0, plan=ffb.interventions.SamplePlan(n_cells=2), **shown
    ),
}


@pytest.mark.wrong_types
@pytest.mark.parametrize("name", CALLS)
def test_a_call_shows_no_progress_where_it_is_told_to(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bar is told so by every such function; what is neither True nor False is refused."""
    told = []

    class Told(progress.Progress):
        def __init__(self, *args: Any, shown: bool = True, **kwargs: Any) -> None:
            told.append(shown)
            super().__init__(*args, shown=shown, **kwargs)

    call = CALLS[name]
    module = __import__(getattr(ffb, name).__module__, fromlist=["Progress"])
    monkeypatch.setattr(module, "Progress", Told)
    model, prompt = model_of("gpt2"), tiny.tokens("gpt2", 5, seed=0)
    call(ffb, model, prompt)
    call(ffb, model, prompt, progress=False)
    assert told == [True, False]
    with pytest.raises(ffb.errors.InputError, match="progress='no': expected True or False"):
        call(ffb, model, prompt, progress="no")
