"""Effects are those of runs by hand, knockouts those of masked scores, correlations those of scipy."""

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from tests import tiny

Models = Callable[..., Any]
N = 6
BY_HAND = dict(rtol=1e-4, atol=1e-5)
"""float64 runs, one of them from cached keys and values; the metric is stored in float32."""


def metric_of(model: Any) -> Any:
    """A logit difference that any tiny model has."""
    from tl_ffblock.patching import logit_difference

    return logit_difference(model, [7] * 9, [9] * 9)


def prompts_of(family: str, number: int = 3) -> list[Tensor]:
    """Token prompts of different lengths."""
    return [tiny.tokens(family, N + seed, seed=seed) for seed in range(number)]


def test_effects_are_those_of_runs_by_hand(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """Batched, and in part from cached keys and values: the same as one run_with_hooks after the other."""
    from tl_ffblock.patching import effects, removal

    model = model_of(any_family, torch.float64)
    run = ffb.Contributions(model, tiny.tokens(any_family, N))
    scopes = run.decomposition(0)[0].scopes
    cells = [(layer, scope, query, query - 1) for layer in (0, 1) for scope in scopes for query in (2, N - 1)]
    found = effects(run, [removal(run, *cell) for cell in cells], metric_of(model), batch_size=5)
    for (layer, scope, query, source), value in zip(cells, found, strict=True):
        hook = run.subtract(layer, scope, query=query, source=source)
        logits = model.run_with_hooks(run.tokens, fwd_hooks=[hook])
        expected = (logits[0, -1, 7] - logits[0, -1, 9]).float()
        torch.testing.assert_close(value, expected, **BY_HAND)


@pytest.mark.parametrize("family", ["gpt2", "llama", "qwen3", "phi", "gpt_oss"])
def test_a_knockout_is_a_masked_score(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Cutting an edge at z equals setting its attention scores to minus infinity in all heads."""
    from tl_ffblock.patching import effects, knockout

    model = model_of(family, torch.float64)
    run = ffb.Contributions(model, tiny.tokens(family, N))
    edit = knockout(run, 1, N - 1, 3)
    assert edit is not None
    (found,) = effects(run, [edit], metric_of(model))

    def mask(scores: Tensor, hook: Any) -> Tensor:
        scores = scores.clone()
        scores[:, :, N - 1, 3] = torch.finfo(scores.dtype).min
        return scores

    logits = model.run_with_hooks(run.tokens, fwd_hooks=[("blocks.1.attn.hook_attn_scores", mask)])
    torch.testing.assert_close(found, (logits[0, -1, 7] - logits[0, -1, 9]).float(), **BY_HAND)
    assert knockout(run, 1, 0, 0) is None or family == "gpt_oss"


@pytest.mark.parametrize("kind", ["kl", "loss"])
def test_metrics_by_name(ffb: ModuleType, model_of: Models, kind: str) -> None:
    """KL of the clean run with itself is 0 and else positive; the loss is TransformerLens's own."""
    from tl_ffblock.patching import Outcome, kl_divergence, loss

    model, tokens = model_of("gpt2"), tiny.tokens("gpt2", N)[None]
    with torch.no_grad():
        logits, others = (
            model(tokens),
            model.run_with_hooks(tokens, fwd_hooks=[("blocks.0.hook_mlp_out", lambda tensor, hook: 2 * tensor)]),
        )
        expected = model(tokens, return_type="loss")
    if kind == "kl":
        values = kl_divergence()(Outcome(torch.cat([logits, others]), logits, tokens, 0))
        assert float(values[0]) == 0
        assert float(values[1]) > 1e-3
    else:
        torch.testing.assert_close(loss()(Outcome(logits, logits, tokens, 0))[0].float(), expected)
    found = ffb.causal_validation(model, prompts_of("gpt2"), kind, scope="AtbLnFf")
    assert found.effects["AtbLnFf"].any()


def test_the_result_is_labelled_and_repeats(ffb: ModuleType, model_of: Models, family: str, tmp_path: Path) -> None:
    """Same seed, same cells and numbers; every cell reachable; all predictors beside each effect; a figure."""
    from tl_ffblock.patching import Plan

    model, plan = model_of(family), Plan(n_cells=4, n_bootstrap=50)
    made = [ffb.causal_validation(model, prompts_of(family), metric_of(model), plan=plan) for _ in range(2)]
    first, second = made
    for name, column in first.columns.items():
        np.testing.assert_array_equal(column, second.columns[name])
    for name, column in first.effects.items():
        np.testing.assert_allclose(column, second.effects[name], rtol=1e-4, atol=1e-5)
    if family != "bert":
        assert (first.columns["source"] <= first.columns["query"]).all()
    last = first.columns["layer"] == model.cfg.n_layers - 1
    assert (first.columns["reads"][last] == 1).all()
    scopes = ffb.contribution_maps(model, prompts_of(family)[0]).scopes
    assert first.predictors == (*scopes, "attention", "attention x value norm", "placebo")
    assert tuple(first.effects) == (*scopes, "edge knockout")
    table = first.to_dataframe()
    assert set(table["cells"]) == {"all", "off-diagonal", "read row"}
    assert set(table["layer"]) == {"mean", *map(str, range(model.cfg.n_layers))}
    assert table["rho"].dropna().between(-1.000001, 1.000001).all()
    cells = first.cells_dataframe()
    assert len(cells) == len(first.columns["layer"])
    maps = ffb.contribution_maps(model, prompts_of(family)[0])
    own = cells[cells["prompt"] == 0].iloc[0]
    query, source = int(own["query"]), int(own["source"])
    assert float(maps["Attn", int(own["layer"])][query, source]) == pytest.approx(own["map Attn"], rel=1e-4)
    first.figure().savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    other = ffb.causal_validation(
        model, prompts_of(family), metric_of(model), plan=Plan(n_cells=4, seed=1), scope="Attn"
    )
    assert any((other.columns[name] != first.columns[name]).any() for name in ("query", "source"))
    assert "prompts" in repr(first)


def test_correlations_are_scipys(ffb: ModuleType) -> None:
    """Spearman's rho within each layer; a copy of the effect correlates perfectly, its negative inversely."""
    from tl_ffblock.patching.statistics import bootstrap_weights, rank_correlation

    generator = np.random.default_rng(0)
    n = 400
    layer, prompt = generator.integers(0, 3, n), generator.integers(0, 20, n)
    effect = generator.normal(size=n).round(1)
    prediction = effect + generator.normal(size=n)
    weights = bootstrap_weights(20, 200, 0)
    assert (weights.sum(axis=1) == 20).all()
    found = rank_correlation(prediction, effect, layer, prompt, weights)
    for number, one in enumerate(found.layers):
        here = layer == one
        value, low, high = found.of_layer(number)
        assert value == pytest.approx(spearmanr(prediction[here], effect[here]).statistic, abs=1e-9)
        assert low < value < high
    assert found.mean()[0] == pytest.approx(found.rho.mean())
    perfect = rank_correlation(effect, effect, layer, prompt, weights)
    assert perfect.mean()[0] == pytest.approx(1)
    better, low, high = perfect.minus(found)
    assert low < better < high
    assert better == pytest.approx(1 - found.mean()[0])
    assert np.isnan(rank_correlation(np.ones(n), effect, layer, prompt, weights).mean()[0])


def test_a_bootstrap_over_prompts_is_wider_where_prompts_differ() -> None:
    """Cells of one prompt that say the same count once: copies do not make the interval narrower."""
    from tl_ffblock.patching.statistics import bootstrap_weights, rank_correlation

    generator = np.random.default_rng(0)
    x, y = generator.normal(size=(2, 30))
    weights = bootstrap_weights(30, 2000, 0)

    def width(copies: int) -> float:
        prompt = np.repeat(np.arange(30), copies)
        layer = np.zeros_like(prompt)
        found = rank_correlation(np.repeat(x, copies), np.repeat(y, copies), layer, prompt, weights)
        _, low, high = found.mean()
        return high - low

    assert width(10) == pytest.approx(width(1), rel=0.05)


def test_what_cannot_be_validated_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """Metrics, prompts, scopes and names that do not fit say what would."""
    from tl_ffblock.patching import Plan, logit_difference

    model = model_of("gpt2")
    with pytest.raises(ValueError, match=r'metric=.entropy.: expected "kl", "loss" or a Metric'):
        ffb.causal_validation(model, prompts_of("gpt2"), "entropy")
    with pytest.raises(ValueError, match="at least one"):
        ffb.causal_validation(model, [])
    with pytest.raises(ValueError, match="unknown scope"):
        ffb.causal_validation(model, prompts_of("gpt2"), scope="AtbFf")
    with pytest.raises(ValueError, match="2 right and 1 wrong"):
        logit_difference(model, [1, 2], [3])
    with pytest.raises(ValueError, match="begin with the same token"):
        logit_difference(model, [1], [1])
    with pytest.raises(ValueError, match="no tokenizer"):
        logit_difference(model, [" a"], [" b"])
    with pytest.raises(ValueError, match="there is a prompt number 1"):
        ffb.causal_validation(model, prompts_of("gpt2"), logit_difference(model, [7], [9]), scope="Attn")
    with pytest.raises(ValueError, match="n_cells=0"):
        Plan(n_cells=0)
    found = ffb.causal_validation(model, prompts_of("gpt2"), scope="Attn", edge_knockout=False)
    with pytest.raises(ValueError, match="effect='AtbLn': expected one of Attn"):
        found.correlation("AtbLn", "Attn")
