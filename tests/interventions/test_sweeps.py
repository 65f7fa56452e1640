"""A sweep changes every contribution alone; of many prompts it is a sweep of each, with its mean and interval."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from transformer_lens import patching

import tl_ffblock as ffb
from tests import tiny
from tests.cases import model_of
from tl_ffblock.interventions import SamplePlan, contribution_sweep
from tl_ffblock.metrics import CleanRun, logit
from tl_ffblock.results.intervals import mean_interval

N = 4
CELL = ["layer", "query", "key"]
LENGTHS = (4, 5, 4)
PLACES = {"name": [1, 3, 2], "subject": [2, 1, 0], "END": -1}
ANSWERS, OTHERS = [7, 9, 11], [9, 7, 5]
METRIC = logit(7, minus=9)
LOOP = dict(rtol=1e-4, atol=1e-5)
"""float64 runs, some from cached keys and values; metrics are stored in float32."""
TOGETHER = dict(rtol=1e-6, atol=1e-6)
"""float64 runs in batches of other sizes: sums in another order; metrics are stored in float32."""


def runs_of(model: Any, family: str = "gpt2", lengths: tuple[int, ...] = LENGTHS) -> tuple[Any, Any]:
    """Clean and corrupted runs of as many prompts."""
    clean, corrupted = (
        ffb.Contributions(model, [tiny.tokens(family, n, seed=seed + first) for seed, n in enumerate(lengths)])
        for first in (0, 10)
    )
    return clean, corrupted


@pytest.fixture
def clean_and_corrupted() -> tuple[Any, Any]:
    """Two runs of one model."""
    return runs_of(model_of("gpt2", torch.float64), lengths=(N,))


def each(logits: Tensor) -> Tensor:
    """The difference of every prompt's answers, by hand."""
    rows = torch.arange(len(logits))
    return logits[rows, -1, torch.tensor(ANSWERS)[rows]] - logits[rows, -1, torch.tensor(OTHERS)[rows]]


@pytest.mark.parametrize("lengths", [(N,), (3, 3)], ids=["one", "two"])
def test_generic_activation_patch_gives_the_familiar_tensor(lengths: tuple[int, ...]) -> None:
    """TransformerLens's own sweep of (layer, query, key) equals ours, each with its own and the other's metric."""
    clean, corrupted = runs_of(model_of("gpt2", torch.float64), lengths=lengths)
    model, n = clean.model.hooked, lengths[0]
    _, cache = model.run_with_cache(clean.tokens)
    ours_by_name = logit(ANSWERS[: len(lengths)], minus=OTHERS[: len(lengths)])
    for donor, metric, our_metric in (
        (clean, lambda logits: each(logits).mean(), ours_by_name),
        (None, ours_by_name.mean, each),
    ):
        swept, frame = patching.generic_activation_patch(
            model,
            corrupted.tokens,
            cache,
            metric,
            patch_setter=corrupted.patch_setter("AtbLnFf", donor),
            activation_name=corrupted.activation_name("AtbLnFf"),
            index_axis_names=("layer", "dest_pos", "src_pos"),
            return_index_df=True,
        )
        assert swept.shape == (3, n, n) and list(frame.columns) == ["layer", "dest_pos", "src_pos"]
        ours = contribution_sweep(corrupted, our_metric, "AtbLnFf", donor=donor)
        reachable = torch.ones(n, n).tril().bool()
        torch.testing.assert_close(swept[:, reachable], ours.values[:, reachable], **LOOP)
        assert ours.values[:, ~reachable].isnan().all()


def test_rows_and_columns_come_as_they_were_asked_for(clean_and_corrupted: tuple[Any, Any]) -> None:
    """Positions in any order, repeated, from the end, as numpy's numbers; layers from the end: cells of the whole sweep."""
    clean, corrupted = clean_and_corrupted
    whole = contribution_sweep(corrupted, METRIC, "Attn", donor=clean)
    some = contribution_sweep(
        corrupted, METRIC, "Attn", donor=clean, layers=-1, queries=[-1, 2, -1], keys=np.array([1, 0])
    )
    assert (some.layers, some.queries, some.keys) == ((2,), (3, 2, 3), (1, 0))
    torch.testing.assert_close(some.values, whole.values[2:][:, [3, 2, 3]][:, :, [1, 0]], **LOOP)
    kept = ffb.Contributions(corrupted.model.hooked, corrupted.tokens, layers=[1])
    assert contribution_sweep(kept, METRIC, "Attn", queries=0).layers == (1,)  # all that were kept


def test_tables_of_maps_sweeps_and_validations_join(clean_and_corrupted: tuple[Any, Any]) -> None:
    """On layer, query and key the same row is the same cell: tokens, map values and effects of the three agree."""
    run, _ = clean_and_corrupted
    model = run.model.hooked
    maps = ffb.contribution_maps(model, run.tokens[0]).to_dataframe()
    sweep = contribution_sweep(run, METRIC, "Attn").to_dataframe()
    plan = SamplePlan(n_cells=4, n_bootstrap=10)
    cells = ffb.causal_validation(model, [run.tokens[0]], METRIC, scope="Attn", plan=plan).cells_dataframe()

    joined = maps.merge(sweep, on=["scope", *CELL], suffixes=("_map", "_sweep"), validate="one_to_one")
    assert len(joined) == len(sweep) == 3 * N * (N + 1) // 2
    for token in ("query_token", "key_token"):
        assert (joined[f"{token}_map"] == joined[f"{token}_sweep"]).all()
    np.testing.assert_allclose(joined["effect"], joined["value_sweep"] - float(each(run.logits)), rtol=0, atol=1e-6)

    joined = cells.merge(joined, on=CELL, validate="one_to_one")
    assert len(joined) == len(cells) > 0
    np.testing.assert_allclose(joined["map Attn"], joined["value_map"], rtol=1e-6)
    np.testing.assert_allclose(joined["effect Attn"], joined["effect"], **LOOP)


def test_a_sweep_says_what_stands_out(clean_and_corrupted: tuple[Any, Any]) -> None:
    """Short form: what was read and changed, its size, the baseline and the three largest effects, largest first."""
    _, run = clean_and_corrupted
    sweep = contribution_sweep(run, METRIC, "AtbLnFf")
    lines = repr(sweep).splitlines()
    assert len(lines) == 5
    assert "logit difference with one contribution at AtbLnFf" in lines[0]
    assert "3 layers x 4 queries x 4 keys (layers 0-2)" in lines[0]
    assert f"{sweep.baseline:.4g}" in lines[1]
    effects = sweep.effect.nan_to_num().flatten()
    order = effects.abs().argsort(descending=True)[:3]
    for line, effect in zip(lines[2:], effects[order].tolist(), strict=True):
        assert f"{effect:+.4g} layer" in line
    row, column = divmod(int(order[0]) % (N * N), N)
    assert f"{run.labels()[row]}@{row} from {run.labels()[column]}@{column}" in lines[2]


# --- several prompts --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["gpt2", "llama", "gemma2", "gpt_neox", "bert"])
@pytest.mark.parametrize(("number", "given", "batch_size"), [(0, True, 2), (0, False, 64), (3, True, 64)])
def test_many_prompts_are_each_alone(family: str, number: int, given: bool, batch_size: int) -> None:
    """Named cells at other positions of each prompt, lengths mixed, in batches within a prompt and across: as of each alone."""
    lengths, right, wrong = (5, 4, 5, 5), [7, 9, 11, 13], [9, 7, 5, 3]
    places: dict[str, Any] = {"name": [3, 2, 1, 3], "subject": [2, 1, 0, 0], "END": -1}
    model = model_of(family, torch.float64)
    clean, corrupted = runs_of(model, family, lengths)
    scope, metric = clean.decomposition(0)[0].scopes[number], logit(right, minus=wrong)
    chosen: dict[str, Any] = {"layers": [0, -1], "batch_size": batch_size}
    named: dict[str, Any] = chosen | {"queries": ["END", "name"]}
    found = contribution_sweep(corrupted, metric, scope, donor=clean if given else None, positions=places, **named)
    assert (found.queries, found.keys, found.layers) == (("END", "name"), tuple(places), (0, model.cfg.n_layers - 1))
    for prompt, n in enumerate(lengths):
        run, donor = corrupted.prompt(prompt), clean.prompt(prompt) if given else None
        at = {name: place if place == -1 else place[prompt] for name, place in places.items()}
        own = metric.of_prompt(CleanRun(prompt, run.tokens[0], run.logits[0]))
        alone = contribution_sweep(run, own, scope, donor=donor, positions=at, **named)
        torch.testing.assert_close(found.by_prompt[prompt], alone.by_prompt[0], equal_nan=True, **TOGETHER)
        by_place = contribution_sweep(run, logit(right[prompt], minus=wrong[prompt]), scope, donor=donor, **chosen)
        expected = by_place.values[:, [n - 1, at["name"]]][:, :, [at[name] % n for name in places]]
        torch.testing.assert_close(found.by_prompt[prompt, :, 0], expected, equal_nan=True, **LOOP)
        assert float(found.baselines[prompt]) == pytest.approx(by_place.baseline, rel=1e-5)
        assert not found.by_prompt[prompt].isnan().all()
    assert (found.by_prompt.isnan().any() == (family != "bert")).item()


@pytest.mark.parametrize("family", ["gpt2", "bert"])
def test_prompts_of_one_length_cost_the_forward_passes_of_one(family: str) -> None:
    """Six prompts whose edits fit one batch: as many passes as one prompt takes; of another length, as many again."""
    model = model_of(family)
    passes: list[int] = []

    def passes_of(lengths: tuple[int, ...]) -> int:
        with model.hooks(fwd_hooks=[("hook_embed", lambda tensor, hook: passes.append(len(tensor)))]):
            _, corrupted = runs_of(model, family, lengths)
            passes.clear()
            contribution_sweep(corrupted, METRIC, "Attn", layers=0, positions={"END": -1})
        return len(passes)

    alone = passes_of((5,))
    assert alone == (3 if family == "gpt2" else 1)  # keys and values, a run without edits, the edited runs
    assert passes_of((5,) * 6) == alone
    assert passes_of((5, 4, 5, 4)) == 2 * alone


def test_mean_and_interval_are_over_the_prompts_that_have_the_cell() -> None:
    """The name stands before the subject in one prompt of three: there alone the subject reads it, and no interval is made of one."""
    _, corrupted = runs_of(model_of("gpt2", torch.float64))
    found = contribution_sweep(corrupted, METRIC, "Attn", positions=PLACES, layers=0)
    effects = found.by_prompt - found.baselines[:, None, None, None, None]
    means = np.ma.masked_invalid(effects[:, :, 0].numpy()).mean(axis=0).filled(np.nan)
    np.testing.assert_allclose(found.effect, means, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(found.interval.low, mean_interval(effects[:, :, 0]).low, equal_nan=True)
    row, column = found.queries.index("subject"), found.keys.index("name")
    assert found.interval.counts[0, row, column] == 1
    assert bool(found.interval.high[0, row, column].isnan())
    row = found.queries.index("END")
    assert (found.interval.counts[0, row] == 3).all()
    table, by_prompt = found.to_dataframe(), found.to_dataframe(by_prompt=True)
    cell, of_cell = (rows[(rows["query"] == "END") & (rows["key"] == "name")] for rows in (table, by_prompt))
    cell = cell.iloc[0]
    assert cell["effect"] == pytest.approx(float(found.effect[0, row, column]))
    assert cell["low"] <= cell["effect"] <= cell["high"]
    assert list(of_cell["prompt"]) == [0, 1, 2]
    assert of_cell["effect"].mean() == pytest.approx(cell["effect"], rel=1e-5)
    assert "mean over 3 prompts" in repr(found)
    assert f"[{table['low'].loc[table['effect'].abs().idxmax()]:.4g}, " in repr(found)


@pytest.mark.parametrize("family", ["gpt2", "qwen2"])
def test_heads_are_an_axis(family: str) -> None:
    """One head's contribution exchanged at a time: what its hook does in a run by hand."""
    model = model_of(family, torch.float64)
    clean, corrupted = runs_of(model, family, (5, 5))
    chosen: dict[str, Any] = {"donor": clean, "layers": 1, "heads": [0, -1], "queries": -1, "keys": [3, 1]}
    for scope in ("Attn", "AtbLnFf"):
        found = contribution_sweep(corrupted, METRIC, scope, **chosen)
        assert found.heads == (0, 3)
        assert tuple(found.values.shape) == (1, 2, 1, 2)
        for (row, head), (column, key) in itertools.product(enumerate(found.heads), enumerate(found.keys)):
            hook = corrupted.replace(clean, 1, scope, query=-1, key=key, head=head)
            by_hand = METRIC(model.run_with_hooks(corrupted.tokens, fwd_hooks=[hook])).float()
            torch.testing.assert_close(found.by_prompt[:, 0, row, 0, column], by_hand.detach(), **LOOP)
    assert set(found.to_dataframe()["head"]) == {0, 3}
    assert " head " in repr(found)


def test_a_function_of_all_prompts_sees_all_prompts() -> None:
    """As in TransformerLens: one cell is changed in every prompt, and the function gives one number, or one a prompt."""
    clean, corrupted = runs_of(model_of("gpt2", torch.float64), lengths=(4, 4, 4))
    chosen: dict[str, Any] = {"donor": clean, "layers": [0, 2], "batch_size": 7}
    ours = contribution_sweep(corrupted, logit(ANSWERS, minus=OTHERS), "AtbLnFf", **chosen)
    theirs = contribution_sweep(corrupted, each, "AtbLnFf", **chosen)
    torch.testing.assert_close(theirs.by_prompt, ours.by_prompt, equal_nan=True, **LOOP)
    torch.testing.assert_close(theirs.effect, ours.effect, equal_nan=True, rtol=1e-3, atol=1e-5)
    as_one = contribution_sweep(corrupted, lambda logits: each(logits).mean(), "AtbLnFf", **chosen)
    assert tuple(as_one.by_prompt.shape) == (1, 2, 1, 4, 4)
    torch.testing.assert_close(as_one.values, ours.values, equal_nan=True, **LOOP)
    assert as_one.interval.low.isnan().all()
    assert as_one.baseline == pytest.approx(ours.baseline, rel=1e-5)


def test_prompts_of_one_run_are_taken_apart() -> None:
    """`prompt(i)` is the run of that prompt; what is of all at once needs equal lengths; cells are rows of the decomposition."""
    model = model_of("gpt2", torch.float64)
    several, _ = runs_of(model)
    assert (len(several), several.lengths) == (3, LENGTHS)
    assert "3 sequences of 4 to 5 tokens" in repr(several)
    alone = ffb.Contributions(model, tiny.tokens("gpt2", 5, seed=1))
    assert several.prompt(1).logits.equal(alone.logits)
    assert several.prompt(1).labels() == alone.labels() == several.labels(1)
    torch.testing.assert_close(several.prompt(1).vector(1, "AtbLnFf"), alone.vector(1, "AtbLnFf"))
    cells = [(4, 1), (2, 2), (4, 4)]
    parts = alone.decomposition(2)[0].parts("AtbLnFfRes")
    torch.testing.assert_close(alone.cells(2, "AtbLnFfRes", cells), torch.stack([parts[cell] for cell in cells]))
