"""The methods that docs/results/faithfulness.py compares obey the laws of their definitions, on a tiny Llama."""

from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest
import torch

import tl_ffblock as ffb
from docs.results import (
    faithfulness as benchmark,
    faithfulness_components as components,
    faithfulness_lxt,
    faithfulness_methods as methods,
    faithfulness_rule as rule,
)
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
    """Attention's and the embedding's part of the logits: with the feed-forwards' part it is the target."""
    scores = methods.alti_logit(model, example)
    result = ffb.attribute(model, example.tokens, example.target, of=())
    _, cache = model.run_with_cache(example.tokens[None])
    logits = model(example.tokens[None]).detach().requires_grad_()
    (slope,) = torch.autograd.grad(example.target(logits).sum(), logits)
    end, norm = cache["blocks.1.hook_resid_post"][0, -1], model.ln_final.original_component
    w = torch.rsqrt((end**2).mean() + norm.variance_epsilon) * norm.weight * (model.W_U @ slope[0, -1])
    written = sum(float((cache[f"blocks.{layer}.hook_mlp_out"][0, -1] @ w).detach()) for layer in range(2))
    assert float(scores.sum()) + written == pytest.approx(result.value, rel=1e-4, abs=1e-4)


def test_patching_the_differing_embedding_is_the_other_run(model: Any, example: Example) -> None:
    """The residual stream before the first layer, where alone the prompts differ, makes the whole change; behind it nothing."""
    other = example.tokens.clone()
    other[2] = 40
    truth = components.patched(model, example.tokens, other, example.target)
    before, after = (float(example.target(model(tokens[None]).detach())) for tokens in (example.tokens, other))
    assert float(truth["residual"][0, 0]) == pytest.approx(after - before, rel=1e-4)
    assert float(truth["residual"][0, 1:].abs().max()) < 1e-9
    assert float(truth["heads"].abs().max()) > 0


def test_a_method_that_comes_later_gets_the_rows_it_would_have_had(
    model: Any, example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scores and removals of methods one after the other are those of methods at once, references once in each."""
    monkeypatch.setitem(benchmark.SETS, "tiny", ("llama", lambda model, data: [example, example]))
    monkeypatch.setattr(ffb, "load_model", lambda name, device: model)

    def run(folder: str, chosen: list[str]) -> None:
        options = Namespace(
            work=tmp_path / folder, data=None, device="cpu", methods=chosen, removal=["mask", "mean"], prompts=2
        )
        benchmark.run_tokens("tiny", options)

    run("at once", ["path", "patching"])
    run("after", ["path"])
    for _ in range(2):  # what is there is not made again
        run("after", ["patching"])
    for removal in ("mask", "mean"):
        at_once, after = (
            (tmp_path / folder / f"removals_tiny_{removal}.csv").read_text().splitlines()
            for folder in ("at once", "after")
        )
        assert len(at_once) > 2 * 5 * 5
        assert sorted(at_once) == sorted(after)


def test_hidden_keys_are_what_one_layer_of_attention_loses() -> None:
    """Each token's score is the target's fall when the others' patterns without it are scaled to 1; to first order it is not."""
    toy = tiny.toy("attn_only_no_norms", "bridge", n_layers=1).double()
    example = Example(tiny.tokens("llama", N), ffb.logit(7, minus=11))
    result, pattern = ffb.attribute(toy, example.tokens, example.target), rule.pattern_of(toy, example)
    _, cache = toy.run_with_cache(example.tokens[None])
    values, attention = cache["blocks.0.attn.hook_v"][0], toy.blocks[0].attn
    lost = []
    for key in range(N - 1):
        without = pattern[0, :, -1].clone()
        without[:, key] = 0
        change = pattern[0, :, -1] - without / without.sum(dim=-1, keepdim=True)
        written = torch.einsum("hk,khe,hem->m", change, values.reshape(N, len(change), -1), attention.W_O)
        lost.append(written @ (toy.W_U[:, 7] - toy.W_U[:, 11]))
    scores, slopes = (rule.when_hidden(result, pattern, at_once=at_once) for at_once in (True, False))
    torch.testing.assert_close(rule.hidden_keys(toy, example), scores)
    torch.testing.assert_close(scores[:-1], torch.stack(lost).detach())
    assert not torch.allclose(slopes, scores, rtol=1e-2)


@pytest.mark.skipif(not faithfulness_lxt.there(), reason="lxt is not installed: pip install --no-deps lxt==2.1")
def test_lxt_is_run_on_the_same_model_and_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Relevance is linear in the target, none is where the target cannot look, and the model's own gradient is as before."""
    from transformers.models.llama import modeling_llama

    own, model = tiny.hf_model("llama_nobias").requires_grad_(False), tiny.bridge("llama_nobias")
    own.config._attn_implementation = "eager"
    monkeypatch.setattr(faithfulness_lxt, "of_transformers", lambda: own)
    tokens = tiny.tokens("llama_nobias", N)

    def plain() -> torch.Tensor:
        embedded = own.get_input_embeddings()(tokens[None]).detach().requires_grad_()
        return torch.autograd.grad(own(inputs_embeds=embedded).logits[0, -1, 7], embedded)[0]

    def relevance(target: Any) -> torch.Tensor:
        return faithfulness_lxt.attnlrp(model, Example(tokens, target))

    before, forward, gradient = dict(vars(modeling_llama)), modeling_llama.LlamaRMSNorm.forward, plain()
    first, second = (relevance(lambda logits, at=at: logits[:, 2, at]) for at in (7, 11))
    torch.testing.assert_close(relevance(lambda logits: logits[:, 2, 7] - logits[:, 2, 11]), first - second)
    assert first[:3].abs().min() > 0
    assert not first[3:].any()
    assert dict(vars(modeling_llama)) == before
    assert modeling_llama.LlamaRMSNorm.forward is forward
    assert torch.equal(plain(), gradient)
