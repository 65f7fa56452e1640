"""Effects are those of runs by hand, knockouts those of masked scores, correlations those of scipy."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr
from torch import Tensor

from tests import tiny

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
Models = Callable[..., Any]
N = 6
BY_HAND = dict(rtol=1e-4, atol=1e-5)
"""float64 runs, one of them from cached keys and values; the metric is stored in float32."""


def metric_of(model: Any) -> Any:
    """A logit difference that any tiny model has."""
    from tl_ffblock.interventions import logit_difference

    return logit_difference(model, [7] * 9, [9] * 9)


def prompts_of(family: str, number: int = 3) -> list[Tensor]:
    """Token prompts of different lengths."""
    return [tiny.tokens(family, N + seed, seed=seed) for seed in range(number)]


def test_effects_are_those_of_runs_by_hand(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """Batched, and in part from cached keys and values: the same as one run_with_hooks after the other."""
    from tl_ffblock.interventions import effects, removal

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


@pytest.mark.parametrize("any_family", ["gpt2", "llama", "qwen3", "phi", "gpt_oss"], indirect=True)
def test_a_knockout_is_a_masked_score(ffb: ModuleType, model_of: Models, any_family: str) -> None:
    """Cutting an edge at z equals setting its attention scores to minus infinity in all heads."""
    from tl_ffblock.interventions import effects, knockout

    model = model_of(any_family, torch.float64)
    run = ffb.Contributions(model, tiny.tokens(any_family, N))
    edit = knockout(run, 1, N - 1, 3)
    assert edit is not None
    (found,) = effects(run, [edit], metric_of(model))

    def mask(scores: Tensor, hook: Any) -> Tensor:
        scores = scores.clone()
        scores[:, :, N - 1, 3] = torch.finfo(scores.dtype).min
        return scores

    logits = model.run_with_hooks(run.tokens, fwd_hooks=[("blocks.1.attn.hook_attn_scores", mask)])
    torch.testing.assert_close(found, (logits[0, -1, 7] - logits[0, -1, 9]).float(), **BY_HAND)
    assert knockout(run, 1, 0, 0) is None or any_family == "gpt_oss"


@pytest.mark.parametrize("family", ["gpt2", "llama", "mistral", "qwen2", "gemma2", "gpt_neox"])
def test_only_the_rest_of_the_prompt_is_run(ffb: ModuleType, model_of: Models, family: str) -> None:
    """From the edited position on, from cached keys and values; a model that cannot runs all, with the same effects."""
    from tl_ffblock.interventions import effects, removal
    from tl_ffblock.interventions.edits import _Runs

    model = model_of(family, torch.float64)
    run = ffb.Contributions(model, tiny.tokens(family, N))
    edits = [removal(run, layer, "AtbLnFf", query, query) for layer in (0, 1) for query in (N - 2, N - 1)]
    lengths: list[int] = []
    with model.hooks(fwd_hooks=[("blocks.0.hook_resid_pre", lambda tensor, hook: lengths.append(tensor.shape[1]))]):
        found = effects(run, edits, metric_of(model))
        assert N not in lengths
        assert {1, 2} <= set(lengths)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_Runs, "_resumes", lambda self, first: False)
            lengths.clear()
            whole = effects(run, edits, metric_of(model))
        assert set(lengths) == {N}
    torch.testing.assert_close(found, whole, **BY_HAND)


def test_a_cache_that_gives_other_logits_is_not_used(ffb: ModuleType, model_of: Models) -> None:
    """Where going on from the cache changes the clean logits, whole prompts are run."""
    from tl_ffblock.interventions import effects, removal
    from tl_ffblock.interventions.edits import _Runs

    model = model_of("llama", torch.float64)
    run = ffb.Contributions(model, tiny.tokens("llama", N))
    edits = [removal(run, 1, "AtbLnFf", N - 1, N - 1)]
    expected = effects(run, edits, metric_of(model))
    rest = _Runs._from

    def wrong(self: Any, start: int, n_rows: int, hooks: Any) -> Tensor:
        logits = rest(self, start, n_rows, hooks)
        return logits if start == 0 else 1.01 * logits

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Runs, "_from", wrong)
        torch.testing.assert_close(effects(run, edits, metric_of(model)), expected, **BY_HAND)


@pytest.mark.parametrize("family", ["gpt2", "llama_nobias", "gpt_neox", "phi", "bert"])
def test_hooked_models_give_the_same_effects(ffb: ModuleType, family: str) -> None:
    """HookedTransformer and HookedEncoder: removals and knockouts, batched, are those of runs by hand."""
    from tl_ffblock.interventions import effects, knockout, removal

    try:
        model = tiny.hooked(family, dtype=torch.float64)
    except RuntimeError as error:
        pytest.skip(str(error))
    run = ffb.Contributions(model, tiny.tokens(family, N))
    scopes = run.decomposition(1)[0].scopes
    edge = knockout(run, 1, N - 1, 2)
    assert edge is not None
    *removed, cut = effects(run, [removal(run, 1, scope, N - 1, N - 1) for scope in scopes] + [edge], metric_of(model))
    for scope, value in zip(scopes, removed, strict=True):
        hook = run.subtract(1, scope, query=-1, source=-1)
        logits = model.run_with_hooks(run.tokens, fwd_hooks=[hook])
        torch.testing.assert_close(value, (logits[0, -1, 7] - logits[0, -1, 9]).float(), **BY_HAND)

    def masked(pattern: Tensor, hook: Any) -> Tensor:
        pattern = pattern.clone()
        pattern[:, :, N - 1, 2] = 0
        return pattern / pattern.sum(dim=-1, keepdim=True)

    logits = model.run_with_hooks(run.tokens, fwd_hooks=[("blocks.1.attn.hook_pattern", masked)])
    torch.testing.assert_close(cut, (logits[0, -1, 7] - logits[0, -1, 9]).float(), **BY_HAND)


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "bert"])
def test_every_number_of_a_cell_is_right(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Predictors from TransformerLens's own cache, effects from runs by hand, of every sampled cell."""
    from tl_ffblock.interventions import Plan

    model, prompts = model_of(family, torch.float64), prompts_of(family, 2)
    found = ffb.causal_validation(model, prompts, metric_of(model), plan=Plan(n_cells=3))
    runs = [ffb.Contributions(model, tokens) for tokens in prompts]
    caches = [model.run_with_cache(tokens[None])[1] for tokens in prompts]
    clean = [float(run.logits[0, -1, 7] - run.logits[0, -1, 9]) for run in runs]
    np.testing.assert_allclose(found.clean, clean, rtol=1e-6)
    n_heads, table = model.cfg.n_heads, found.cells_dataframe()
    for _, cell in table.iterrows():
        number, layer, query, source = (int(cell[name]) for name in ("prompt", "layer", "query", "source"))
        alpha = caches[number]["pattern", layer][0, :, query, source]
        value = caches[number]["v", layer][0, source]
        norms = torch.stack([value[head * len(value) // n_heads].norm() for head in range(n_heads)])
        assert cell["map attention"] == pytest.approx(float(alpha.mean()), rel=1e-6)
        assert cell["map attention x value norm"] == pytest.approx(float((alpha * norms).mean()), rel=1e-6)
        part = runs[number].decomposition(layer)[0]
        for scope in part.scopes:
            assert cell[f"map {scope}"] == pytest.approx(float(part.parts(scope)[query, source].norm()), rel=1e-9)
            hook = runs[number].subtract(layer, scope, query=query, source=source)
            with torch.no_grad():
                logits = model.run_with_hooks(runs[number].tokens, fwd_hooks=[hook])
            change = float(logits[0, -1, 7] - logits[0, -1, 9]) - clean[number]
            assert cell[f"effect {scope}"] == pytest.approx(change, rel=1e-4, abs=1e-5)


def sample_of(effect: np.ndarray[Any, Any], prediction: np.ndarray[Any, Any], n_prompts: int, **columns: Any) -> Any:
    """A result with given numbers: three layers, all cells off the diagonal."""
    from tl_ffblock.interventions import CausalValidation, Plan

    n = len(effect)
    given = {"prompt": np.arange(n) % n_prompts, "layer": np.arange(n) % 3, "query": np.ones(n), "source": np.zeros(n)}
    given = {name: np.asarray(values, dtype=np.float64) for name, values in (given | columns).items()}
    return CausalValidation(
        model="tiny",
        metric="logit difference",
        tokens=(("a", "b"),) * n_prompts,
        clean=np.zeros(n_prompts),
        columns=given | {"reads": np.ones(n)},
        predictions={"Attn": prediction, "attention": prediction[::-1].copy()},
        effects={"Attn": effect},
        plan=Plan(),
    )


def test_the_placebo_knows_nothing() -> None:
    """A map that is the effect correlates perfectly; its shuffle, with the same values in every layer, does not."""
    generator = np.random.default_rng(0)
    effect = generator.normal(size=900)
    effect += 10 * (np.arange(900) % 3)  # layers differ in size: a shuffle across layers would not show as one
    found = sample_of(effect, np.abs(effect), 100)
    assert found.correlation("Attn", "Attn").mean()[0] == pytest.approx(1)
    rho, low, high = found.correlation("Attn", "placebo").mean()
    assert low < 0 < high
    assert abs(rho) < 0.12  # 900 cells: three standard errors are 0.1
    difference, low, high = found.compare("Attn", "Attn", "placebo")
    assert low > 0.8
    assert difference == pytest.approx(1 - rho)
    shuffled = found._placebo("Attn")
    for layer in range(3):
        here = found.columns["layer"] == layer
        np.testing.assert_array_equal(np.sort(shuffled[here]), np.sort(np.abs(effect)[here]))


def test_cells_are_chosen_by_name() -> None:
    """The diagonal counts only in "all"; "read row" and "beyond first" each leave out what their names say."""
    effect = np.arange(12.0)
    found = sample_of(effect, effect, 4, query=np.full(12, 2), source=[0, 1, 2, 0, 1, 2, 0, 0, 1, 1, 1, 1])
    found.columns["reads"][:6] = 0
    for cells, n in (("all", 12), ("off-diagonal", 10), ("read row", 6), ("beyond first", 6)):
        assert int(found.correlation("Attn", "Attn", cells=cells).counts.sum()) == n


def test_samples_add_up() -> None:
    """Two samples as one: prompts of the second come after, correlations are those of all cells; others are refused."""
    generator = np.random.default_rng(0)
    effects, predictions = generator.normal(size=(2, 2, 90))
    first, second = (sample_of(*pair, 30) for pair in zip(effects, predictions, strict=True))
    both = first + second
    assert len(both.tokens) == len(both.clean) == 60
    assert set(both.columns["prompt"][:90]) == set(range(30))
    assert set(both.columns["prompt"][90:]) == set(range(30, 60))
    layer = np.arange(90) % 3
    for one in range(3):
        expected = spearmanr(predictions[:, layer == one].ravel(), np.abs(effects[:, layer == one]).ravel()).statistic
        assert both.correlation("Attn", "Attn").of_layer(one)[0] == pytest.approx(expected)
    with pytest.raises(ValueError, match="cannot join: metric is 'loss' here, there 'logit difference'"):
        replace(first, metric="loss") + second


def test_errors_inside_leave_no_hook(ffb: ModuleType, callbacks: Callable[[Any], dict[str, int]]) -> None:
    """A metric that fails in the middle of a validation leaves the model as it was."""
    from tl_ffblock.interventions import Metric, Outcome

    model = tiny.bridge("gpt2")
    ffb.contribution_maps(model, prompts_of("gpt2")[0])
    before = callbacks(model)
    calls: list[int] = []

    def fail(outcome: Outcome) -> Tensor:
        calls.append(len(outcome.logits))
        return outcome.logits[:, -1, 0] / (1 if len(calls) == 1 else 0 // 0)

    with pytest.raises(ZeroDivisionError):
        ffb.causal_validation(model, prompts_of("gpt2"), Metric("failing", fail), scope="Attn")
    assert len(calls) == 2
    assert callbacks(model) == before


@pytest.mark.parametrize("kind", ["kl", "loss"])
def test_metrics_by_name(ffb: ModuleType, model_of: Models, kind: str) -> None:
    """KL of the clean run with itself is 0 and else positive; the loss is TransformerLens's own."""
    from tl_ffblock.interventions import Outcome, kl_divergence, loss

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
    from tl_ffblock.interventions import Plan

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
    assert set(table["cells"]) == {"all", "off-diagonal", "read row", "beyond first"}
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
    from tl_ffblock.results.correlation import bootstrap_weights, rank_correlation

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
    from tl_ffblock.results.correlation import bootstrap_weights, rank_correlation

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


@pytest.mark.wrong_types
def test_what_cannot_be_validated_is_refused(ffb: ModuleType, model_of: Models) -> None:
    """Metrics, prompts, scopes and names that do not fit say what would."""
    from tl_ffblock.interventions import Plan, logit_difference

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
