"""Estimates of patching: to first order, by one backward pass, and exact where the path between the runs is followed."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny

Models = Callable[..., Any]
N = 6


def pair(family: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Two prompts that differ in one token."""
    clean = tiny.tokens(family, N)
    corrupted = clean.clone()
    corrupted[2] = 40
    return clean, corrupted


@pytest.mark.parametrize("family", ["gpt2", "llama", "bert", "gemma2", "opt"])
def test_gradient_is_attribution_patching_as_it_is_known(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """`<corrupted - clean, df/d clean>` by autograd through the model."""
    model = model_of_any(family, dtype=torch.float64)
    clean, corrupted = pair(family)
    result = ffb.attribution_patching(model, clean, corrupted, difference, rules="gradient")
    values: list[Any] = []
    for tokens in (clean, corrupted):
        with ffb.capture(model) as records:
            logits = model(tokens[None])
        values.append([records[layer] for layer in records])
        if tokens is clean:
            target = difference(logits).sum()
            sites = [t for record in values[0] for t in (record.resid_pre, record.post)]
            gradients = torch.autograd.grad(target, sites)
            assert result.clean == pytest.approx(float(target.detach()))
    for layer, (first, second) in enumerate(zip(*values, strict=True)):
        stream = ((second.resid_pre - first.resid_pre) * gradients[2 * layer]).sum(-1)[0].detach()
        torch.testing.assert_close(result.residual[layer], stream, rtol=1e-9, atol=1e-12)
        neurons = ((second.post - first.post) * gradients[2 * layer + 1]).reshape(N, -1).detach()
        torch.testing.assert_close(result.neurons(layer), neurons, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_steps_follow_the_path_to_the_other_run(
    ffb: ModuleType, model_of_any: Models, difference: Any, family: str
) -> None:
    """With the model's gradient the embeddings' estimates sum to the change of the target (the path integral of the gradient)."""
    model = model_of_any(family, dtype=torch.float64)
    clean, corrupted = pair(family)
    result = ffb.attribution_patching(model, clean, corrupted, difference, rules="gradient", steps=24)
    if family == "gpt2":
        assert float(result.residual[0].sum()) == pytest.approx(result.corrupted - result.clean, rel=1e-5)
    assert float(result.residual[0, [0, 1, 3, 4, 5]].abs().max()) < 1e-12
    few = [ffb.attribution_patching(model, clean, corrupted, difference, steps=steps) for steps in (12, 16)]
    torch.testing.assert_close(few[0].mlps, few[1].mlps, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("rules", ["path", "patching", "gradient"])
def test_the_same_prompt_changes_nothing(ffb: ModuleType, model_of: Models, difference: Any, rules: str) -> None:
    """Zero everywhere."""
    tokens = tiny.tokens("llama", N)
    result = ffb.attribution_patching(model_of("llama"), tokens, tokens, difference, rules=rules)
    assert not result.residual.any()
    assert not result.heads.any()
    assert not result.mlps.any()


@pytest.mark.parametrize("family", ["gpt2", "gemma2", "gpt_neox"])
def test_the_last_streams_estimate_is_linear(ffb: ModuleType, model_of_any: Models, family: str) -> None:
    """A direction behind the last layer is linear in what heads and feed-forward write there, so estimates are exact."""
    model = model_of_any(family, dtype=torch.float64)
    clean, corrupted = pair(family)
    vector = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    result = ffb.attribution_patching(model, clean, corrupted, ffb.direction(vector, layer=-1), steps=1)
    assert float(result.residual[-1].sum()) == pytest.approx(result.corrupted - result.clean)
    frame = result.to_dataframe()
    assert frame[(frame.kind == "residual") & (frame.layer == 3)]["value"].sum() == pytest.approx(
        float(result.residual[3].sum()) if len(result.residual) > 3 else 0.0
    )


@pytest.mark.parametrize("target", ["kl_divergence", "loss"])
def test_what_compares_with_a_run_compares_with_the_clean_one(ffb: ModuleType, model_of: Models, target: str) -> None:
    """Of divergence and loss, too, the embeddings' estimates sum to the change: the corrupted run read by the clean run's terms."""
    model = model_of("gpt2", dtype=torch.float64)
    clean, corrupted = pair("gpt2")
    with torch.no_grad():
        before, after = (model(tokens[None])[0].double().log_softmax(-1) for tokens in (clean, corrupted))
    expected = {
        "kl_divergence": (0.0, float((before[-1].exp() * (before[-1] - after[-1])).sum())),
        "loss": tuple(-float(logs[:-1].gather(1, clean[1:, None]).mean()) for logs in (before, after)),
    }[target]
    metric = getattr(ffb, target)() if hasattr(ffb, target) else getattr(ffb.metrics, target)()
    result = ffb.attribution_patching(model, clean, corrupted, metric, rules="gradient", steps=32)
    assert (result.clean, result.corrupted) == pytest.approx(expected, abs=1e-9)
    assert float(result.residual[0].sum()) == pytest.approx(expected[1] - expected[0], rel=1e-3)


@pytest.mark.wrong_types
def test_bad_pairs_are_refused(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """Other lengths, padding, several prompts, no steps or half ones, a divergence at its minimum, neurons of experts."""
    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)
    with pytest.raises(ffb.errors.InputError, match="have 6 and 4 tokens"):
        ffb.attribution_patching(model, tokens, tokens[:4], difference)
    with pytest.raises(ffb.errors.InputError, match="steps=0"):
        ffb.attribution_patching(model, tokens, tokens, difference, steps=0)
    with pytest.raises(ffb.errors.InputError, match=r"steps=1\.5: expected a whole number"):
        ffb.attribution_patching(model, tokens, tokens, difference, steps=1.5)
    both = torch.stack([tokens, tokens])
    with pytest.raises(ffb.errors.InputError, match="clean holds a list of 2, corrupted one prompt"):
        ffb.attribution_patching(model, both, tokens, difference)
    with pytest.raises(ffb.errors.InputError, match="clean holds a list of 2, corrupted a list of 3"):
        ffb.attribution_patching(model, both, torch.stack([tokens] * 3), difference)
    mask = torch.tensor([0, 0, 1, 1, 1, 1])
    with pytest.raises(ffb.errors.InputError, match="attention_mask hides tokens of clean"):
        ffb.attribution_patching(model, tokens, tokens, difference, attention_mask=mask)
    with pytest.raises(ffb.errors.InputError, match="a run is compared with itself"):
        ffb.attribution_patching(model, *pair("gpt2"), ffb.kl_divergence())
    result = ffb.attribution_patching(model_of("mixtral"), tokens, tokens, difference)
    with pytest.raises(ffb.errors.InputError, match="mixture of experts"):
        result.neurons(0)


@pytest.mark.parametrize("family", ["gpt2", "bert", "llama"])
def test_a_contributions_estimate_is_exact_where_the_target_reads_it(
    ffb: ModuleType, model_of_any: Models, family: str
) -> None:
    """A direction at a layer's output is linear in its contributions: `<F_i(x_j) of the other run - F_i(x_j), v>`, by the vectors."""
    model = model_of_any(family, dtype=torch.float64)
    clean, corrupted = pair(family)
    vector = torch.randn(32, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    result = ffb.attribution_patching(model, clean, corrupted, ffb.direction(vector, layer=2, at=4), maps=True)
    first, second = (ffb.decompose(model, tokens, layer=1) for tokens in (clean, corrupted))
    output = "AtbFfResLn" if family == "bert" else "AtbLnFfRes"
    expected = torch.zeros(N, N, dtype=torch.float64)
    expected[4] = (second.parts(output) - first.parts(output))[4] @ vector
    torch.testing.assert_close(result.maps[output, 1], expected, rtol=1e-8, atol=1e-11)
    assert not result.maps[output, 2].any()


@pytest.mark.parametrize("rules", ["path", "patching"])
def test_estimates_of_contributions_sum_to_the_streams(
    ffb: ModuleType, model_of_any: Models, difference: Any, rules: str
) -> None:
    """Without biases all contributions to a layer's output are the residual stream behind it, with any number of steps."""
    model = model_of_any("llama_nobias", dtype=torch.float64)
    result = ffb.attribution_patching(model, *pair("llama_nobias"), difference, rules=rules, steps=2, maps=True)
    summed = result.maps["AtbLnFfRes"].sum(-1)
    torch.testing.assert_close(summed, result.residual[1:], rtol=1e-5, atol=1e-6)  # Llama's norms compute in float32


def test_estimates_of_contributions_have_to_be_asked_for(ffb: ModuleType, model_of: Models, difference: Any) -> None:
    """And go with rules that share activations."""
    model, tokens = model_of("llama"), tiny.tokens("llama", N)
    with pytest.raises(ffb.errors.ScopeKeyError, match="maps=True"):
        ffb.attribution_patching(model, tokens, tokens, difference).maps["Atb"]
    with pytest.raises(ffb.errors.ScopeKeyError, match="expected a sender and a receiver"):
        ffb.attribution_patching(model, tokens, tokens, difference, edges=True).edges[("input",)]
    with pytest.raises(ffb.errors.InputError, match="share activations"):
        ffb.attribution_patching(model, tokens, tokens, difference, rules="gradient", maps=True)


def test_lists_are_pairs(ffb: ModuleType, model_of: Models) -> None:
    """Each clean prompt with its corrupted one, with its own answer and segments: what a call for the pair gives."""
    model, (clean, corrupted) = model_of("bert"), pair("bert")
    segments = torch.tensor([[0, 0, 0, 1, 1, 1], [0, 1, 1, 1, 1, 1]])
    left, right = torch.stack([clean, corrupted]), torch.stack([corrupted, clean.flip(0)])
    results = ffb.attribution_patching(model, left, right, ffb.logit([7, 8], minus=9, at=2), token_type_ids=segments)
    assert len(results) == 2
    for number, (result, answer) in enumerate(zip(results, (7, 8), strict=True)):
        target = ffb.logit(answer, minus=9, at=2)
        alone = ffb.attribution_patching(
            model, left[number], right[number], target, token_type_ids=segments[number, None]
        )
        assert (result.target, result.clean, result.corrupted) == (alone.target, alone.clean, alone.corrupted)
        for name in ("residual", "heads", "mlps"):
            torch.testing.assert_close(getattr(result, name), getattr(alone, name), rtol=0, atol=0)
    with pytest.raises(ffb.errors.InputError, match="answers for 3 prompts"):
        ffb.attribution_patching(model, left, right, ffb.logit([7, 8, 9], at=2), token_type_ids=segments)


def test_what_is_far_off_is_said(ffb: ModuleType, model_of_any: Models, difference: Any) -> None:
    """Where the embeddings' estimates sum to less than half of the change, or more than one and a half times; else not."""
    model = model_of_any("gpt2", dtype=torch.float64)
    for steps in (1, 24):
        result = ffb.attribution_patching(model, *pair("gpt2"), difference, rules="gradient", steps=steps)
        change, told = result.corrupted - result.clean, float(result.residual[0].sum())
        assert ("far off" in repr(result)) is (abs(told - change) > abs(change) / 2)
    assert "far off" not in repr(result)  # of 24 steps, which sum to the change
