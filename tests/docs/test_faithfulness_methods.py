"""The methods that docs/results/faithfulness.py compares obey the laws of their definitions, on a tiny Llama."""

from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from docs.results import faithfulness_components as components
from docs.results import faithfulness_methods as methods
from docs.results.faithfulness_sets import Example
from tests import tiny

N = 5


@pytest.fixture(scope="module")
def model() -> Any:
    """Without biases, in float64; its norms compute in float32."""
    return tiny.bridge("llama_nobias", dtype=torch.float64)


@pytest.fixture(scope="module")
def example() -> Example:
    """A logit difference at the end."""
    return Example(tiny.tokens("llama_nobias", N), ffb.logit(7, minus=11), cause=1)


def test_the_embeddings_function_is_the_target(model: Any, example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    """And Integrated Gradients from the mean embedding sum to the target's change, with enough steps."""
    function = methods.Embedded(model, example)
    with torch.no_grad():
        value = float(example.target(model(example.tokens[None])))
        assert float(function(function.embeddings)) == pytest.approx(value)
    monkeypatch.setattr(methods, "STEPS", 400)
    summed = float(methods.integrated_gradients("mean")(model, example).sum())
    mean = model.W_E.mean(dim=0).expand_as(function.embeddings)
    assert summed == pytest.approx(value - float(function(mean).detach()), rel=1e-2, abs=1e-2)


def test_alti_logit_leaves_out_the_feed_forwards_alone(model: Any, example: Example) -> None:
    """Attention's and the embedding's part of the logits: with the feed-forwards' part it is the target. Rows of ALTI sum to 1."""
    scores = methods.alti_logit(model, example)
    result = ffb.attribute(model, example.tokens, example.target, of=())
    _, cache = model.run_with_cache(example.tokens[None])
    logits = model(example.tokens[None]).detach().requires_grad_()
    (slope,) = torch.autograd.grad(example.target(logits).sum(), logits)
    end, norm = cache["blocks.1.hook_resid_post"][0, -1], model.ln_final.original_component
    w = torch.rsqrt((end**2).mean() + norm.variance_epsilon) * norm.weight * (model.W_U @ slope[0, -1])
    written = sum(float((cache[f"blocks.{layer}.hook_mlp_out"][0, -1] @ w).detach()) for layer in range(2))
    assert float(scores.sum()) + written == pytest.approx(result.value, rel=1e-4, abs=1e-4)
    for product in methods.AttentionVectors(model, example).mixing():
        torch.testing.assert_close(product.sum(dim=1), torch.ones(N, dtype=torch.float64))


def test_patching_the_differing_embedding_is_the_other_run(model: Any, example: Example) -> None:
    """The residual stream before the first layer, where alone the prompts differ, makes the whole change; behind it nothing."""
    other = example.tokens.clone()
    other[2] = 40
    truth = components.patched(model, example.tokens, other, example.target)
    before, after = (float(example.target(model(tokens[None]).detach())) for tokens in (example.tokens, other))
    assert float(truth["residual"][0, 0]) == pytest.approx(after - before, rel=1e-4)
    assert float(truth["residual"][0, 1:].abs().max()) < 1e-9
    assert float(truth["heads"].abs().max()) > 0
