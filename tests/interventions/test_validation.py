"""Every number of a sampled cell is right, correlations are scipy's, and the placebo knows nothing."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap, spearmanr
from torch import Tensor

from tests import tiny
from tl_ffblock.bridge.model import identify
from tl_ffblock.interventions import CausalValidation, SamplePlan
from tl_ffblock.interventions.validation import drawn_cells
from tl_ffblock.metrics import logit
from tl_ffblock.results.intervals import bootstrap_weights, rank_correlation

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
Models = Callable[..., Any]
N = 6


def metric_of(model: Any) -> Any:
    """A logit difference that any tiny model has."""
    return logit(7, minus=9)


def prompts_of(family: str, number: int = 3) -> list[Tensor]:
    """Token prompts of different lengths."""
    return [tiny.tokens(family, N + seed, seed=seed) for seed in range(number)]


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "bert"])
def test_every_number_of_a_cell_is_right(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Predictors from TransformerLens's own cache, effects from runs by hand, of every sampled cell."""
    model, prompts = model_of(family, torch.float64), prompts_of(family, 2)
    found = ffb.causal_validation(model, prompts, metric_of(model), plan=SamplePlan(n_cells=3))
    runs = [ffb.Contributions(model, tokens) for tokens in prompts]
    caches = [model.run_with_cache(tokens[None])[1] for tokens in prompts]
    clean = [float(run.logits[0, -1, 7] - run.logits[0, -1, 9]) for run in runs]
    np.testing.assert_allclose(found.clean, clean, rtol=1e-6)
    n_heads, table = model.cfg.n_heads, found.cells_dataframe()
    for _, cell in table.iterrows():
        number, layer, query, key = (int(cell[name]) for name in ("prompt", "layer", "query", "key"))
        alpha = caches[number]["pattern", layer][0, :, query, key]
        value = caches[number]["v", layer][0, key]
        norms = torch.stack([value[head * len(value) // n_heads].norm() for head in range(n_heads)])
        assert cell["map attention"] == pytest.approx(float(alpha.mean()), rel=1e-6)
        assert cell["map attention x value norm"] == pytest.approx(float((alpha * norms).mean()), rel=1e-6)
        part = runs[number].decomposition(layer)[0]
        for scope in part.scopes:
            assert cell[f"map {scope}"] == pytest.approx(float(part.parts(scope)[query, key].norm()), rel=1e-9)
            hook = runs[number].subtract(layer, scope, query=query, key=key)
            with torch.no_grad():
                logits = model.run_with_hooks(runs[number].tokens, fwd_hooks=[hook])
            change = float(logits[0, -1, 7] - logits[0, -1, 9]) - clean[number]
            assert cell[f"effect {scope}"] == pytest.approx(change, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "bert"])
def test_every_exchanged_cell_is_right(ffb: ModuleType, model_of: Models, family: str) -> None:
    """Of pairs of prompts: effects are those of hooks that exchange one cell, changes are norms of differences of vectors."""
    model, metric = model_of(family, torch.float64), logit([7, 11], minus=[9, 5])
    clean, corrupted = ([tiny.tokens(family, N + n, seed=n + first) for n in range(2)] for first in (0, 10))
    plan = SamplePlan(n_cells=3, n_bootstrap=20)
    found = ffb.causal_validation(model, clean, metric, corrupted=corrupted, layers=[0, -1], plan=plan)
    alone = ffb.causal_validation(model, clean, metric, layers=[0, -1], plan=plan)
    for name, column in alone.columns.items():  # the same cells are drawn, and they are those of the clean run
        np.testing.assert_array_equal(column, found.columns[name])
    for name, values in alone.predictions.items():
        np.testing.assert_array_equal(values, found.predictions[name])
    pairs = [[ffb.Contributions(model, tokens) for tokens in pair] for pair in zip(clean, corrupted, strict=True)]
    right, wrong = [7, 11], [9, 5]
    read = [[float(run.logits[0, -1, right[n]] - run.logits[0, -1, wrong[n]]) for run in pairs[n]] for n in range(2)]
    np.testing.assert_allclose([found.clean, found.corrupted], np.transpose(read), rtol=1e-6)
    for _, cell in found.cells_dataframe().iterrows():
        number, layer, query, key = (int(cell[name]) for name in ("prompt", "layer", "query", "key"))
        run, donor = pairs[number]
        own, put_in = (of_run.decomposition(layer)[0] for of_run in (run, donor))
        for scope in own.scopes:
            difference = own.parts(scope)[query, key] - put_in.parts(scope)[query, key]
            assert cell[f"map change of {scope}"] == pytest.approx(float(difference.norm()), rel=1e-9)
            hook = run.replace(donor, layer, scope, query=query, key=key)
            with torch.no_grad():
                logits = model.run_with_hooks(run.tokens, fwd_hooks=[hook])
            change = float(logits[0, -1, right[number]] - logits[0, -1, wrong[number]]) - read[number][0]
            assert cell[f"effect {scope}"] == pytest.approx(change, rel=1e-4, abs=1e-5)
        alphas = [of_run.record(layer).pattern[:, query, key] for of_run in (run, donor)]
        assert cell["map change of attention"] == pytest.approx(float((alphas[0] - alphas[1]).abs().mean()), rel=1e-9)


def test_an_exchange_behind_the_last_norm_has_a_closed_form(ffb: ModuleType, model_of: Models) -> None:
    """What the final norm gives meets the unembedding alone: the effect is the difference of the two vectors times its columns."""
    model = model_of("gpt2", torch.float64)
    clean, corrupted = ([tiny.tokens("gpt2", N, seed=n + first) for n in range(3)] for first in (0, 10))
    scope = "AtbLnFfResLn"
    found = ffb.causal_validation(
        model, clean, logit(7, minus=9), corrupted=corrupted, scope=scope, layers=-1, plan=SamplePlan(n_cells=6)
    )
    direction = model.W_U[:, 7] - model.W_U[:, 9]
    cells = found.cells_dataframe()
    for number in range(3):
        first, second = (ffb.decompose(model, given[number], layer=-1) for given in (clean, corrupted))
        expected = (second.parts(scope) - first.parts(scope)) @ direction
        of_prompt = cells[cells["prompt"] == number]
        at = of_prompt["query"].to_numpy(), of_prompt["key"].to_numpy()
        np.testing.assert_allclose(of_prompt[f"effect {scope}"], expected.detach().numpy()[at], rtol=1e-5, atol=1e-6)


def test_nothing_changes_where_nothing_was_corrupted(ffb: ModuleType, model_of: Models) -> None:
    """A prompt as its own corrupted one: every exchange and every change is zero, and only the knockout does something."""
    model, prompts = model_of("gpt2", torch.float64), prompts_of("gpt2", 2)
    found = ffb.causal_validation(model, prompts, logit(7, minus=9), corrupted=prompts, layers=[0, 1])
    np.testing.assert_array_equal(found.clean, found.corrupted)
    for scope in ("Attn", "AtbLnFf", "AtbLnFfRes"):
        np.testing.assert_allclose(found.effects[scope], 0, atol=1e-6)
        assert (found.predictions[f"change of {scope}"] == 0).all()
    assert np.nanmax(np.abs(found.effects["edge knockout"])) > 1e-3
    assert "exchanged for those of corrupted runs" in repr(found)


def test_mean_effects_are_of_prompts_and_their_intervals_scipys() -> None:
    """Each prompt's mean over its cells, the mean over prompts, and a percentile bootstrap over prompts."""
    generator = np.random.default_rng(0)
    effect = generator.normal(1.0, 1.0, 400)
    effect[:40] = np.nan  # could not be measured
    found = replace(sample_of(effect, np.abs(effect), 20), corrupted=np.arange(20.0), plan=SamplePlan(n_bootstrap=4000))
    found.predictions["change of Attn"] = found.predictions.pop("Attn")
    by_prompt = found.effects_dataframe(by_prompt=True)
    means = [np.nanmean(effect[np.arange(400) % 20 == number]) for number in range(20)]
    np.testing.assert_allclose(by_prompt["change"], means)
    assert by_prompt["n"].sum() == 360
    assert by_prompt["corrupted"].tolist() == list(range(20))
    (row,) = found.effects_dataframe().itertuples()
    assert (row.effect, row.n) == ("Attn", 20)
    assert row.change == pytest.approx(np.mean(means))
    assert row.size == pytest.approx(by_prompt["size"].mean())
    assert row.size >= abs(row.change)
    expected = bootstrap((np.array(means),), np.mean, n_resamples=20000, method="percentile", random_state=0)
    assert row.low == pytest.approx(expected.confidence_interval.low, abs=0.01)
    assert row.high == pytest.approx(expected.confidence_interval.high, abs=0.01)
    shuffled = found.prediction("placebo", "Attn")
    np.testing.assert_array_equal(np.sort(shuffled), np.sort(found.predictions["change of Attn"]))
    both = found + found
    assert len(both.corrupted) == 40
    with pytest.raises(ValueError, match="contributions were removed in one"):
        found + replace(found, corrupted=None)


def sample_of(effect: np.ndarray[Any, Any], prediction: np.ndarray[Any, Any], n_prompts: int, **columns: Any) -> Any:
    """A result with given numbers: three layers, all cells off the diagonal."""
    n = len(effect)
    given = {"prompt": np.arange(n) % n_prompts, "layer": np.arange(n) % 3, "query": np.ones(n), "key": np.zeros(n)}
    given = {name: np.asarray(values, dtype=np.float64) for name, values in (given | columns).items()}
    return CausalValidation(
        model="tiny",
        metric="logit difference",
        tokens=(("a", "b"),) * n_prompts,
        clean=np.zeros(n_prompts),
        columns=given | {"reads": np.ones(n)},
        predictions={"Attn": prediction, "attention": prediction[::-1].copy()},
        effects={"Attn": effect},
        plan=SamplePlan(),
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
    shuffled = found.prediction("placebo", "Attn")
    for layer in range(3):
        of_layer = found.columns["layer"] == layer
        np.testing.assert_array_equal(np.sort(shuffled[of_layer]), np.sort(np.abs(effect)[of_layer]))


def test_cells_are_chosen_by_name() -> None:
    """The diagonal counts only in "reachable"; "read row" and "beyond first" each leave out what their names say."""
    effect = np.arange(12.0)
    found = sample_of(effect, effect, 4, query=np.full(12, 2), key=[0, 1, 2, 0, 1, 2, 0, 0, 1, 1, 1, 1])
    found.columns["reads"][:6] = 0
    for cells, n in (("reachable", 12), ("off-diagonal", 10), ("read row", 6), ("beyond first", 6)):
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
    for layer in range(3):
        of_layer = np.arange(90) % 3 == layer
        expected = spearmanr(predictions[:, of_layer].ravel(), np.abs(effects[:, of_layer]).ravel()).statistic
        assert both.correlation("Attn", "Attn").of_layer(layer)[0] == pytest.approx(expected)
    with pytest.raises(ValueError, match="cannot join: metric is 'loss' here, there 'logit difference'"):
        replace(first, metric="loss") + second


def test_errors_inside_leave_no_hook(ffb: ModuleType, callbacks: Callable[[Any], dict[str, int]]) -> None:
    """A metric that fails in the middle of a validation leaves the model as it was."""
    model = tiny.bridge("gpt2")
    ffb.contribution_maps(model, prompts_of("gpt2")[0])
    before = callbacks(model)
    calls: list[int] = []

    def failing(logits: Tensor) -> Tensor:
        calls.append(len(logits))
        return logits[:, -1, 0] / (1 if len(calls) == 1 else 0 // 0)

    with pytest.raises(ZeroDivisionError):
        ffb.causal_validation(model, prompts_of("gpt2"), failing, scope="Attn")
    assert len(calls) == 2
    assert callbacks(model) == before


def test_the_result_is_labelled_and_repeats(ffb: ModuleType, model_of: Models, family: str, tmp_path: Path) -> None:
    """Same seed, same cells and numbers; every cell reachable; all predictors beside each effect; a figure."""
    model, plan = model_of(family), SamplePlan(n_cells=4, n_bootstrap=50)
    made = [ffb.causal_validation(model, prompts_of(family), metric_of(model), plan=plan) for _ in range(2)]
    first, second = made
    for name, column in first.columns.items():
        np.testing.assert_array_equal(column, second.columns[name])
    for name, column in first.effects.items():
        np.testing.assert_allclose(column, second.effects[name], rtol=1e-4, atol=1e-5)
    if family != "bert":
        assert (first.columns["key"] <= first.columns["query"]).all()
    last = first.columns["layer"] == model.cfg.n_layers - 1
    assert (first.columns["reads"][last] == 1).all()
    scopes = ffb.contribution_maps(model, prompts_of(family)[0]).scopes
    assert first.predictors == (*scopes, "attention", "attention x value norm", "placebo")
    assert tuple(first.effects) == (*scopes, "edge knockout")
    table = first.to_dataframe()
    assert table["cells"].iloc[0] == "off-diagonal"  # what `correlation` takes unless told otherwise
    assert set(table["cells"]) == {"reachable", "off-diagonal", "read row", "beyond first"}
    assert set(table["layer"]) == {"mean", *map(str, range(model.cfg.n_layers))}
    assert table["rho"].dropna().between(-1.000001, 1.000001).all()
    cells = first.cells_dataframe()
    assert len(cells) == len(first.columns["layer"])
    maps = ffb.contribution_maps(model, prompts_of(family)[0])
    own = cells[cells["prompt"] == 0].iloc[0]
    query, key = int(own["query"]), int(own["key"])
    assert float(maps["Attn", int(own["layer"])][query, key]) == pytest.approx(own["map Attn"], rel=1e-4)
    figure = first.figure()
    off_diagonal = first.columns["query"] != first.columns["key"]
    counts = [int((off_diagonal & ~np.isnan(effect)).sum()) for effect in first.effects.values()]
    measured = f"{first.model} · {len(first.tokens)} prompts · {max(counts)} off-diagonal cells at most a panel"
    assert figure.get_supxlabel().endswith(measured)
    figure.savefig(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").stat().st_size > 5000
    other = ffb.causal_validation(
        model, prompts_of(family), metric_of(model), plan=SamplePlan(n_cells=4, seed=1), scope="Attn"
    )
    assert any((other.columns[name] != first.columns[name]).any() for name in ("query", "key"))
    assert "prompts" in repr(first)


@pytest.mark.parametrize("family", ["gpt2", "bert"])
@pytest.mark.parametrize("position", [-1, 2, 0])
def test_only_rows_that_reach_the_metric_are_sampled(
    ffb: ModuleType, model_of: Models, family: str, position: int
) -> None:
    """The read row and one more of each prompt, in a causal model before it; behind the last layer no other row reaches it."""
    model, prompts = model_of(family), prompts_of(family, 4)
    metric = logit(7, minus=9, at=position)
    plan = SamplePlan(n_cells=5, n_bootstrap=10)
    cells = ffb.causal_validation(
        model, prompts, metric, scope="Attn", edge_knockout=False, plan=plan
    ).cells_dataframe()
    assert not cells.duplicated(["prompt", "layer", "query", "key"]).any()
    for prompt, tokens in enumerate(prompts):
        of_prompt, read = cells[cells["prompt"] == prompt], position % len(tokens)
        assert (of_prompt["reads"] == (of_prompt["query"] == read)).all()
        second = set(of_prompt["query"]) - {read}
        if family == "gpt2" and read == 0:
            assert not second
            continue
        assert len(second) == 1
        assert family == "bert" or max(second) < read
        last = of_prompt["layer"] == model.cfg.n_layers - 1
        assert set(of_prompt[last]["query"]) == {read}
        assert set(of_prompt[~last]["query"]) == {read, *second}
        n_read = (of_prompt[~last]["reads"]).groupby(of_prompt["layer"]).sum()
        assert (n_read == min(3, read + 1 if family == "gpt2" else len(tokens))).all()  # 60 % of five


def test_an_effect_that_could_not_be_measured_is_no_number(ffb: ModuleType, model_of: Models) -> None:
    """The only edge of the first token cannot be cut: NaN there and nowhere else, and left out of the correlation."""
    model, prompts = model_of("gpt2"), prompts_of("gpt2", 1)
    metric = logit(7, minus=9, at=0)
    found = ffb.causal_validation(model, prompts, metric, scope="Attn", plan=SamplePlan(n_bootstrap=10))
    assert found.columns["query"].tolist() == found.columns["key"].tolist() == [0, 0, 0]
    assert np.isnan(found.effects["edge knockout"]).all()
    assert not np.isnan(found.effects["Attn"]).any()
    assert found.correlation("edge knockout", "Attn", cells="reachable").counts.sum() == 0
    assert found.correlation("Attn", "Attn", cells="reachable").counts.sum() == 3


def test_correlations_are_scipys(ffb: ModuleType) -> None:
    """Spearman's rho within each layer; a copy of the effect correlates perfectly, its negative inversely."""
    generator = np.random.default_rng(0)
    n = 400
    layer, prompt = generator.integers(0, 3, n), generator.integers(0, 20, n)
    effect = generator.normal(size=n).round(1)
    prediction = effect + generator.normal(size=n)
    weights = bootstrap_weights(20, 200, 0)
    assert (weights.sum(axis=1) == 20).all()
    found = rank_correlation(prediction, effect, layer, prompt, weights)
    for number, name in enumerate(found.layers):
        of_layer = layer == name
        value, low, high = found.of_layer(number)
        assert value == pytest.approx(spearmanr(prediction[of_layer], effect[of_layer]).statistic, abs=1e-9)
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
    model = model_of("gpt2")
    with pytest.raises(ValueError, match=r'metric=.entropy.: expected "kl", "loss" or a function of logits'):
        ffb.causal_validation(model, prompts_of("gpt2"), "entropy")
    with pytest.raises(ValueError, match="at least one"):
        ffb.causal_validation(model, [])
    with pytest.raises(ValueError, match="corrupted='a text': expected a list of texts"):
        ffb.causal_validation(model, prompts_of("gpt2"), corrupted="a text")
    with pytest.raises(ValueError, match="3 clean prompts and 2 corrupted: expected pairs"):
        ffb.causal_validation(model, prompts_of("gpt2"), corrupted=prompts_of("gpt2", 2))
    with pytest.raises(ValueError, match=r"clean\[0\] has 6 tokens, corrupted\[0\] 8"):
        ffb.causal_validation(model, prompts_of("gpt2"), corrupted=prompts_of("gpt2")[::-1])
    with pytest.raises(ValueError, match="unknown scope"):
        ffb.causal_validation(model, prompts_of("gpt2"), scope="AtbFf")
    with pytest.raises(ValueError, match="no tokenizer"):
        ffb.causal_validation(model, prompts_of("gpt2"), logit(" a", minus=" b"))
    for answers in ([7], [7] * 4):
        with pytest.raises(ValueError, match=f"answers for {len(answers)} prompts.*there are 3: expected one entry"):
            ffb.causal_validation(model, prompts_of("gpt2"), logit(answers), scope="Attn")
    with pytest.raises(ValueError, match="n_cells=0"):
        SamplePlan(n_cells=0)
    found = ffb.causal_validation(model, prompts_of("gpt2"), scope="Attn", edge_knockout=False)
    with pytest.raises(ValueError, match="effect='AtbLn': expected one of Attn"):
        found.correlation("AtbLn", "Attn")
    with pytest.raises(ValueError, match='cells=\'all\': expected "off-diagonal", "reachable"'):
        found.correlation("Attn", "Attn", cells="all")


def test_the_second_row_of_a_prompt_reaches_the_metric(model_of: Models) -> None:
    """Beside the row that is read another is sampled, before it in a causal model, and over many draws every one of them."""
    plan = SamplePlan(n_cells=6)
    for family, others in (("gpt2", {0, 1, 2, 3}), ("bert", {0, 1, 2, 3, 5, 6})):
        generator, rows = np.random.default_rng(0), []
        for _ in range(200):
            cells = drawn_cells(identify(model_of(family)), 7, (0, 1, 2), 4, plan, generator)
            seconds = {cell.query for cell in cells if not cell.reads}
            assert len(seconds) == 1 and all(cell.reads for cell in cells if cell.layer == 2)
            rows.extend(seconds)
        assert set(rows) == others
        assert min(rows.count(row) for row in others) > 200 / len(others) / 3
    alone = drawn_cells(identify(model_of("gpt2")), 7, (0, 1), 0, plan, np.random.default_rng(0))
    assert all(cell.query == 0 for cell in alone)
