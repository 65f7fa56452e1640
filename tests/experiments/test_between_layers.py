"""Changes between layers are those of the maps, two by two."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tl_ffblock as ffb
from tests.experiments.hand_made import CONFIG, facts
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.experiments.kobayashi.between_layers import BetweenLayers
from tl_ffblock.layer.scopes import STEPS
from tl_ffblock.results.ranks import rank_change


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_every_pair_of_layers(
    family: str, shared_run: Callable[..., CorpusRun], loaded: Callable[[str], Any], corpus: Path
) -> None:
    """The mean over sequences of 1 - Spearman's rho over reachable cells, from the maps of each text alone."""
    run = shared_run("between-layers", family=family, limit=3, mask_fraction=0.0 if family == "bert" else None)
    table = run.tables["between-layers_pairs"].set_index(["scope", "layer", "other"])
    maps = [ffb.contribution_maps(loaded(family), text) for text in corpus.read_text().splitlines()[:3]]
    n_layers = len(maps[0].layers)
    assert len(table) == 2 * n_layers * (n_layers - 1) // 2
    for (scope, layer, other), row in table.iterrows():
        changes = [rank_change(m[scope, layer], m[scope, other], m.reachable()) for m in maps]
        assert row["change"] == pytest.approx(np.mean(changes), abs=1e-6)
        assert row["steps"] == other - layer and row["sequences"] == 3


def test_scopes_of_every_order() -> None:
    """After attention and at the output; in a model of attention alone these are one."""
    found = {order: BetweenLayers(CONFIG, facts(order)).scopes() for order in STEPS}
    assert found["post_ln"] == ("Atb", "AtbFfResLn") and found["pre_ln"] == ("Atb", "AtbLnFfRes")
    assert found["attn_only"] == ("Atb",)
    assert all(set(scopes) <= {step.scope for step in STEPS[order]} for order, scopes in found.items())
