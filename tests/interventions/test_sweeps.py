"""A sweep changes every contribution alone, and its table joins with the maps' and the validation's."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests import tiny
from tl_ffblock.interventions import SamplePlan, contribution_sweep
from tl_ffblock.metrics import logit

Models = Callable[..., Any]
N = 4
CELL = ["layer", "query", "key"]


@pytest.fixture
def clean_and_corrupted(ffb: ModuleType, model_of: Models) -> tuple[Any, Any]:
    """Two runs of one model."""
    model = model_of("gpt2", torch.float64)
    clean, corrupted = (ffb.Contributions(model, tiny.tokens("gpt2", N, seed=seed)) for seed in (0, 1))
    return clean, corrupted


def test_generic_activation_patch_gives_the_familiar_tensor(clean_and_corrupted: tuple[Any, Any]) -> None:
    """A sweep over (layer, query, key) by TransformerLens's own function equals ours, each with its own and the other's metric."""
    from transformer_lens import patching

    clean, corrupted = clean_and_corrupted
    model = clean.model.hooked
    _, cache = model.run_with_cache(clean.tokens)

    def theirs(logits: Tensor) -> Tensor:
        return logits[0, -1, 7] - logits[0, -1, 9]

    for donor, metric, our_metric in ((clean, theirs, logit(7, minus=9)), (None, logit(7, minus=9).mean, theirs)):
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
        assert swept.shape == (3, N, N)
        assert list(frame.columns) == ["layer", "dest_pos", "src_pos"]
        ours = contribution_sweep(corrupted, our_metric, "AtbLnFf", donor=donor)
        reachable = torch.ones(N, N).tril().bool()
        torch.testing.assert_close(swept[:, reachable], ours.values[:, reachable], rtol=1e-5, atol=1e-5)
        assert ours.values[:, ~reachable].isnan().all()
    with pytest.raises(ValueError, match=r"AtbLn is changed at .*\.hook_out"):
        corrupted.activation_name("AtbLn")
    with pytest.raises(ValueError, match="axes="):
        corrupted.patch_setter("AtbLnFf", axes=("dest_pos", "layer"))


def test_rows_and_columns_come_as_they_were_asked_for(clean_and_corrupted: tuple[Any, Any]) -> None:
    """Positions in any order, repeated, from the end, as numpy's numbers; layers from the end: cells of the whole sweep."""
    clean, corrupted = clean_and_corrupted
    metric = logit(7, minus=9)
    whole = contribution_sweep(corrupted, metric, "Attn", donor=clean)
    some = contribution_sweep(
        corrupted, metric, "Attn", donor=clean, layers=-1, queries=[-1, 2, -1], keys=np.array([1, 0])
    )
    assert (some.layers, some.queries, some.keys) == ((2,), (3, 2, 3), (1, 0))
    torch.testing.assert_close(some.values, whole.values[2:][:, [3, 2, 3]][:, :, [1, 0]], rtol=1e-4, atol=1e-5)
    kept = type(corrupted)(corrupted.model.hooked, corrupted.tokens, layers=[1])
    assert contribution_sweep(kept, metric, "Attn", queries=0).layers == (1,)  # all that were kept
    with pytest.raises(ValueError, match="queries=4"):
        contribution_sweep(corrupted, metric, "Attn", queries=4)
    with pytest.raises(ValueError, match="3"):
        contribution_sweep(corrupted, metric, "Attn", layers=3)


def test_tables_of_maps_sweeps_and_validations_join(ffb: ModuleType, clean_and_corrupted: tuple[Any, Any]) -> None:
    """On layer, query and key the same row is the same cell: tokens, map values and effects of the three agree."""
    run, _ = clean_and_corrupted
    model, metric = run.model.hooked, logit(7, minus=9)
    maps = ffb.contribution_maps(model, run.tokens[0]).to_dataframe()
    sweep = contribution_sweep(run, metric, "Attn").to_dataframe()
    plan = SamplePlan(n_cells=4, n_bootstrap=10)
    cells = ffb.causal_validation(model, [run.tokens[0]], metric, scope="Attn", plan=plan).cells_dataframe()

    joined = maps.merge(sweep, on=["scope", *CELL], suffixes=("_map", "_sweep"), validate="one_to_one")
    assert len(joined) == len(sweep) == 3 * N * (N + 1) // 2
    for token in ("query_token", "key_token"):
        assert (joined[f"{token}_map"] == joined[f"{token}_sweep"]).all()
    np.testing.assert_allclose(joined["effect"], joined["value_sweep"] - float(metric_of(run)), rtol=0, atol=1e-6)

    joined = cells.merge(joined, on=CELL, validate="one_to_one")
    assert len(joined) == len(cells) > 0
    np.testing.assert_allclose(joined["map Attn"], joined["value_map"], rtol=1e-6)
    np.testing.assert_allclose(joined["effect Attn"], joined["effect"], rtol=1e-4, atol=1e-5)


def metric_of(run: Any) -> Tensor:
    """The logit difference of a run, by hand."""
    return run.logits[0, -1, 7] - run.logits[0, -1, 9]


def test_a_sweep_says_what_stands_out(clean_and_corrupted: tuple[Any, Any]) -> None:
    """Short form: what was read and changed, its size, the baseline and the three largest effects, largest first."""
    _, run = clean_and_corrupted
    sweep = contribution_sweep(run, logit(7, minus=9), "AtbLnFf")
    lines = repr(sweep).splitlines()
    assert len(lines) == 5
    assert "logit difference with one contribution at AtbLnFf" in lines[0]
    assert "3 layers x 4 queries x 4 keys (layers 0-2)" in lines[0]
    assert f"{sweep.baseline:.4g}" in lines[1]
    effects = sweep.effect.nan_to_num().flatten()
    largest = effects[effects.abs().argsort(descending=True)[:3]].tolist()
    for line, effect in zip(lines[2:], largest, strict=True):
        assert f"{effect:+.4g} layer" in line
    row, column = divmod(int(sweep.effect.nan_to_num().abs().argmax()) % (N * N), N)
    assert f"{run.labels()[row]}@{row} from {run.labels()[column]}@{column}" in lines[2]
