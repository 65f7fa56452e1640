"""Every number of a sampled cell is right, correlations are scipy's, and the placebo knows nothing."""

import itertools
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import bootstrap, spearmanr
from torch import Tensor

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import EqualPairWarning
from tl_ffblock.interventions import CausalValidation, SamplePlan
from tl_ffblock.interventions.validation import drawn_cells
from tl_ffblock.metrics import logit
from tl_ffblock.results.intervals import bootstrap_weights, rank_correlation

pytestmark = pytest.mark.filterwarnings("ignore:Hooked.* is deprecated:DeprecationWarning")  # TransformerLens 3 says so
N = 6
METRIC = logit(7, minus=9)


def prompts_of(family: str, number: int = 3) -> list[Tensor]:
    """Token prompts of different lengths."""
    return [tiny.tokens(family, N + seed, seed=seed) for seed in range(number)]


def effects_by_hand(table: Any, hook_of: Callable[..., Any], runs: list[Any], answers: list[tuple[int, int]]) -> None:
    """Checks every effect of every sampled cell: the change of its prompt's logit difference under the cell's hook."""
    for (_, cell), scope in itertools.product(table.iterrows(), runs[0].decomposition(0)[0].scopes):
        number, where = int(cell["prompt"]), {name: int(cell[name]) for name in ("layer", "query", "key")}
        run, (right, wrong) = runs[number], answers[number]
        with torch.no_grad():
            hooks = [hook_of(number, scope=scope, **where)]
            edited = run.model.hooked.run_with_hooks(run.tokens, fwd_hooks=hooks)[0, -1] - run.logits[0, -1]
        assert cell[f"effect {scope}"] == pytest.approx(float(edited[right] - edited[wrong]), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "bert"])
def test_every_number_of_a_cell_is_right(family: str) -> None:
    """Predictors from TransformerLens's own cache, effects from runs by hand, of every sampled cell."""
    model, prompts = model_of(family, torch.float64), prompts_of(family, 2)
    found = ffb.causal_validation(model, prompts, METRIC, plan=SamplePlan(n_cells=3))
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
    effects_by_hand(table, lambda number, **cell: runs[number].subtract(**cell), runs, [(7, 9)] * 2)


@pytest.mark.parametrize("family", ["gpt2", "qwen2", "bert"])
def test_every_exchanged_cell_is_right(family: str) -> None:
    """Of pairs of prompts: effects are those of hooks that exchange one cell, changes are norms of differences of vectors."""
    model, right, wrong = model_of(family, torch.float64), [7, 11], [9, 5]
    clean, corrupted = ([tiny.tokens(family, N + n, seed=n + first) for n in range(2)] for first in (0, 10))
    chosen: dict[str, Any] = {"layers": [0, -1], "plan": SamplePlan(n_cells=3, n_bootstrap=20)}
    found, alone = (
        ffb.causal_validation(model, clean, logit(right, minus=wrong), corrupted=others, **chosen)
        for others in (corrupted, None)
    )
    for mine, own in ((found.columns, alone.columns), (found.predictions, alone.predictions)):
        for name, values in own.items():  # the same cells are drawn, and they are those of the clean run
            np.testing.assert_array_equal(mine[name], values)
    runs, donors = ([ffb.Contributions(model, tokens) for tokens in texts] for texts in (clean, corrupted))
    read = [
        [run.logits[0, -1, right[n]] - run.logits[0, -1, wrong[n]] for n, run in enumerate(of)] for of in (runs, donors)
    ]
    np.testing.assert_allclose([found.clean, found.corrupted], torch.tensor(read), rtol=1e-6)
    table = found.cells_dataframe()
    for _, cell in table.iterrows():
        number, layer, query, key = (int(cell[name]) for name in ("prompt", "layer", "query", "key"))
        pair = runs[number], donors[number]
        own, put_in = (run.decomposition(layer)[0] for run in pair)
        for scope in own.scopes:
            difference = own.parts(scope)[query, key] - put_in.parts(scope)[query, key]
            assert cell[f"map change of {scope}"] == pytest.approx(float(difference.norm()), rel=1e-9)
        alphas = [run.record(layer).pattern[:, query, key] for run in pair]
        assert cell["map change of attention"] == pytest.approx(float((alphas[0] - alphas[1]).abs().mean()), rel=1e-9)
    answers = list(zip(right, wrong, strict=True))
    effects_by_hand(table, lambda number, **cell: runs[number].replace(donors[number], **cell), runs, answers)


def test_an_exchange_behind_the_last_norm_has_a_closed_form() -> None:
    """What the final norm gives meets the unembedding alone: the effect is the difference of the two vectors times its columns."""
    model = model_of("gpt2", torch.float64)
    clean, corrupted = ([tiny.tokens("gpt2", N, seed=n + first) for n in range(3)] for first in (0, 10))
    scope = "AtbLnFfResLn"
    found = ffb.causal_validation(
        model, clean, METRIC, corrupted=corrupted, scope=scope, layers=-1, plan=SamplePlan(n_cells=6)
    )
    direction = model.W_U[:, 7] - model.W_U[:, 9]
    cells = found.cells_dataframe()
    for number in range(3):
        first, second = (ffb.decompose(model, given[number], layer=-1) for given in (clean, corrupted))
        expected = (second.parts(scope) - first.parts(scope)) @ direction
        of_prompt = cells[cells["prompt"] == number]
        at = of_prompt["query"].to_numpy(), of_prompt["key"].to_numpy()
        np.testing.assert_allclose(of_prompt[f"effect {scope}"], expected.detach().numpy()[at], rtol=1e-5, atol=1e-6)


def test_nothing_changes_where_nothing_was_corrupted() -> None:
    """A prompt as its own corrupted one: every exchange and every change is zero, and only the knockout does something."""
    model, prompts = model_of("gpt2", torch.float64), prompts_of("gpt2", 2)
    with pytest.warns(EqualPairWarning, match="the same"):
        found = ffb.causal_validation(model, prompts, METRIC, corrupted=prompts, layers=[0, 1])
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


def test_errors_inside_leave_no_hook() -> None:
    """A metric that fails in the middle of a validation, after both checks of it, leaves the model as it was, which a fixture checks."""
    calls: list[int] = []

    def failing(logits: Tensor) -> Tensor:
        calls.append(len(logits))
        return logits[:, -1, 0] / (1 if len(calls) <= 11 else 0 // 0)

    with pytest.raises(ZeroDivisionError):
        ffb.causal_validation(model_of("gpt2"), prompts_of("gpt2"), failing, scope="Attn")
    assert len(calls) == 12


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_the_result_is_labelled(family: str) -> None:
    """Every cell reachable; all predictors beside each effect; another seed draws others; the figure says of how many cells."""
    model, prompts = model_of(family), prompts_of(family)
    first = ffb.causal_validation(model, prompts, METRIC, plan=SamplePlan(n_cells=4, n_bootstrap=50))
    assert family == "bert" or (first.columns["key"] <= first.columns["query"]).all()
    last = first.columns["layer"] == model.cfg.n_layers - 1
    assert (first.columns["reads"][last] == 1).all()
    maps = ffb.contribution_maps(model, prompts[0])
    assert first.predictors == (*maps.scopes, "attention", "attention x value norm", "placebo")
    assert tuple(first.effects) == (*maps.scopes, "edge knockout")
    table = first.to_dataframe()
    assert table["cells"].iloc[0] == "off-diagonal"  # what `correlation` takes unless told otherwise
    assert set(table["cells"]) == {"reachable", "off-diagonal", "read row", "beyond first"}
    assert set(table["layer"]) == {"mean", *map(str, range(model.cfg.n_layers))}
    assert table["rho"].dropna().between(-1.000001, 1.000001).all()
    cells = first.cells_dataframe()
    assert len(cells) == len(first.columns["layer"])
    off_diagonal = first.columns["query"] != first.columns["key"]
    counts = [int((off_diagonal & ~np.isnan(effect)).sum()) for effect in first.effects.values()]
    measured = f"{first.model} · {len(first.tokens)} prompts · {max(counts)} off-diagonal cells at most a panel."
    assert " ".join(first.figure().get_supxlabel().split()).endswith(measured)
    titled = first.figure(title="a title that is as long as the figure is wide " * 2)
    texts = (titled._suptitle, titled.legends[0], titled.axes[1].title)
    tops = [text.get_window_extent(titled.canvas.get_renderer()) for text in texts]
    assert tops[0].y0 >= tops[1].y0 and not any(a.overlaps(b) for a, b in pairwise(tops))
    other = ffb.causal_validation(model, prompts, METRIC, plan=SamplePlan(n_cells=4, seed=1), scope="Attn")
    assert any((other.columns[name] != first.columns[name]).any() for name in ("query", "key"))


def test_an_effect_that_could_not_be_measured_is_no_number() -> None:
    """The only edge of the first token cannot be cut: NaN there and nowhere else, and left out of the correlation."""
    model, prompts = model_of("gpt2"), prompts_of("gpt2", 1)
    metric = logit(7, minus=9, at=0)
    found = ffb.causal_validation(model, prompts, metric, scope="Attn", plan=SamplePlan(n_bootstrap=10))
    assert found.columns["query"].tolist() == found.columns["key"].tolist() == [0, 0, 0]
    assert np.isnan(found.effects["edge knockout"]).all()
    assert not np.isnan(found.effects["Attn"]).any()
    assert found.correlation("edge knockout", "Attn", cells="reachable").counts.sum() == 0
    assert found.correlation("Attn", "Attn", cells="reachable").counts.sum() == 3
    columns = ffb.causal_validation(model, prompts, logit(7, at=2), scope="Attn", edge_knockout=False).columns
    assert ((columns["query"] == 2) == columns["reads"].astype(bool)).all() and columns["query"].max() == 2


def test_correlations_are_scipys() -> None:
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
    x, y = np.random.default_rng(0).normal(size=(2, 30))
    widths = []
    for copies in (1, 10):
        cells = [np.repeat(values, copies) for values in (x, y, np.zeros(30), np.arange(30))]
        widths.append(np.ptp(rank_correlation(*cells, bootstrap_weights(30, 2000, 0)).mean()[1:]))
    assert widths[1] == pytest.approx(widths[0], rel=0.05)


@pytest.mark.parametrize(("family", "read"), [("gpt2", 4), ("gpt2", 0), ("gpt2", 6), ("bert", 4), ("bert", 6)])
def test_the_second_row_of_a_prompt_reaches_the_metric(family: str, read: int) -> None:
    """Beside the row that is read another, before it in a causal model, over many draws every one; in the last layer none."""
    plan, generator, rows = SamplePlan(n_cells=5), np.random.default_rng(0), []
    others = set(range(read if family == "gpt2" else 7)) - {read}
    for _ in range(200):
        cells = drawn_cells(identify(model_of(family)), 7, (0, 1, 2), read, plan, generator)
        assert len({(cell.layer, cell.query, cell.key) for cell in cells}) == len(cells)
        assert all(cell.reads == (cell.query == read) for cell in cells)
        seconds = {cell.query for cell in cells if not cell.reads}
        assert len(seconds) == bool(others) and all(cell.reads for cell in cells if cell.layer == 2)
        rows.extend(seconds)
        if others:  # 60 % of five
            n_read = [sum(cell.reads for cell in cells if cell.layer == layer) for layer in (0, 1)]
            assert n_read == [min(3, read + 1 if family == "gpt2" else 7)] * 2
    assert set(rows) == others
    assert all(rows.count(row) > 200 / len(others) / 3 for row in others)
