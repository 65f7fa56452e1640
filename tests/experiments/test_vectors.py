"""Studies of the model's own vectors, against TransformerLens' cache of the same run."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.experiments.hand_made import CONFIG, tables_of_shards, tokenised
from tl_ffblock.bridge.model import identify
from tl_ffblock.contributions import contribution_maps
from tl_ffblock.corpus.study import ModelFacts, observe
from tl_ffblock.experiments.kobayashi.bypass import Bypass
from tl_ffblock.experiments.kobayashi.outliers import Outliers, OutliersOptions
from tl_ffblock.results.measures import contextualization_change

IDS = [5, 6, 7, 8, 9, 10, 11]
BYPASS = {"bert": "ln1.hook_out", "llama": "hook_resid_mid"}


def cached(hooked: Any, name: str) -> Tensor:
    """One HookPoint of every layer, [layer pos d_model]."""
    with torch.no_grad():
        cache = hooked.run_with_cache(torch.tensor(IDS)[None])[1]
    return torch.stack([cache[f"blocks.{layer}.{name}"][0] for layer in range(hooked.cfg.n_layers)]).double()


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_norms_of_feed_forward_and_bypass(family: str, loaded: Callable[[str], Any]) -> None:
    """Means of the vectors' lengths over all tokens, and over those of text: a causal model's first one is none."""
    hooked, model = loaded(family), identify(loaded(family))
    study = Bypass(CONFIG, ModelFacts.of(model))
    (observation,) = observe(model, [tokenised(IDS, special=[2])], ())
    table = tables_of_shards(study, [observation])["norms"].set_index(["tokens", "layer"])
    feed_forward, bypass = (cached(hooked, name).norm(dim=-1) for name in ("hook_mlp_out", BYPASS[family]))
    kept = [i for i in range(len(IDS)) if i != 2 and not (family == "llama" and i == 0)]
    for tokens, keep in (("all", slice(None)), ("not special", kept)):
        rows = table.loc[tokens]
        np.testing.assert_allclose(rows["ff"], feed_forward[:, keep].mean(1), rtol=1e-5)
        np.testing.assert_allclose(rows["bypass"], bypass[:, keep].mean(1), rtol=1e-5)
        np.testing.assert_allclose(rows["ratio"], bypass[:, keep].mean(1) / feed_forward[:, keep].mean(1), rtol=1e-5)
        twice = (bypass > 2 * feed_forward)[:, keep].double().mean(1)
        np.testing.assert_allclose(rows["more_than_twice"], twice)
        assert (rows["count"] == feed_forward[0, keep].numel()).all()


def test_norms_by_place(loaded: Callable[[str], Any]) -> None:
    """The first token, a special last one and masks in between have rows of their own; text at the end has none."""
    hooked, model = loaded("bert"), identify(loaded("bert"))
    study = Bypass(CONFIG, ModelFacts.of(model))
    feed_forward = cached(hooked, "hook_mlp_out").norm(dim=-1)
    for special, places in (([0, 2, 6], {"first": 0, "special in between": 2, "special last": 6}), ([2], {})):
        (observation,) = observe(model, [tokenised(IDS, special=special)], ())
        table = tables_of_shards(study, [observation])["norms"].set_index(["tokens", "layer"])
        for place, position in places.items():
            np.testing.assert_allclose(table.loc[place, "ff"], feed_forward[:, position], rtol=1e-5)
        for empty in {"first", "special last"} - set(places):
            assert (table.loc[empty, "count"] == 0).all()
            assert table.loc[empty, "ff"].isna().all()


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_outliers_against_the_next_gain(family: str, loaded: Callable[[str], Any]) -> None:
    """Mean absolute values of FF's output by dimension, the weight of the norm behind it, and their correlation."""
    hooked, model = loaded(family), identify(loaded(family))
    study = Outliers(CONFIG, ModelFacts.of(model), OutliersOptions(ignored_dimensions=0.0))
    (observation,) = observe(model, [tokenised(IDS)], ())
    tables = tables_of_shards(study, [observation])
    blocks = hooked.blocks
    behind = [block.ln2 for block in blocks] if family == "bert" else [*(b.ln1 for b in blocks[1:]), hooked.ln_final]
    sizes = cached(hooked, "hook_mlp_out").abs().mean(1)
    for layer, norm in enumerate(behind):
        dimensions = tables["dimensions"].query("layer == @layer")
        gain = norm.weight.detach().double()
        np.testing.assert_allclose(dimensions["gain"], gain, rtol=1e-6)
        np.testing.assert_allclose(dimensions["output"], sizes[layer], rtol=1e-5)
        row = tables["correlation"].query("of == 'output' and layer == @layer").iloc[0]
        assert row["pearson"] == pytest.approx(np.corrcoef(sizes[layer], gain)[0, 1], rel=1e-4)


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_all_dimensions_give_the_change_of_the_maps(family: str, loaded: Callable[[str], Any]) -> None:
    """The reference implementation of `ignored` agrees with contextualization where nothing is ignored, over both sets of cells."""
    model = identify(loaded(family))
    study = Outliers(CONFIG, ModelFacts.of(model), OutliersOptions())
    (observation,) = observe(model, [tokenised(IDS)], ())
    step = study.facts.feed_forward
    maps: Any = contribution_maps(model.hooked, torch.tensor(IDS))
    measured = study.measure(observation)["changes"].mean
    for kind, (all_dimensions, *less) in zip(study.facts.cells, measured, strict=True):
        expected = contextualization_change(maps, str(step.before), step.scope, cells=kind)
        np.testing.assert_allclose(all_dimensions, expected, atol=1e-6)
        assert all(np.abs(change - all_dimensions).max() > 1e-4 for change in less), "a control that ignores nothing"
    assert len(measured) == (2 if family == "llama" else 1)
