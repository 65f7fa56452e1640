"""The study of memories: its tables are those of the public functions, however the run was cut, killed or shared."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.corpora import assert_kills_change_nothing
from tl_ffblock import memories
from tl_ffblock.bridge.model import identify
from tl_ffblock.errors import InputError
from tl_ffblock.experiments import Config, run_studies, study

Runs = Callable[..., Config]
SPEC = study("memories", keys=6, top_triggers=4)


def test_triggers_and_agreement_are_those_of_the_public_functions(
    config_of: Runs, loaded: Callable[[str], Any], corpus: Path
) -> None:
    """The same positions as a search of the whole corpus, and the same share of values that agree."""
    model = loaded("llama")
    tables = run_studies([SPEC], config_of(family="llama"), model=model).tables
    table = tables["memories_triggers"]
    names = [f"{row.layer}:{row.neuron}" for row in table.itertuples()]
    texts = corpus.read_text().splitlines()
    for sign in ("positive", "negative"):
        found = memories.find_triggers(model, texts, memories=set(names), k=4, sign=sign, skip_first=1)
        values = memories.value_tokens(model, memories=set(names), sign=sign)
        for name in set(names):
            layer, neuron = map(int, name.split(":"))
            rows = table[(table["layer"] == layer) & (table["neuron"] == neuron) & (table["sign"] == sign)]
            triggers = found.of(name)
            assert list(zip(rows["sequence"], rows["position"], strict=True)) == [
                (t.sequence, t.position) for t in triggers
            ]
            np.testing.assert_allclose(rows["coefficient"], [t.coefficient for t in triggers], rtol=1e-3)
            assert [text.split()[-1] for text in rows["prefix"]] == [t.prefix[-1] for t in triggers]
        agreeing = memories.agreement(found, values).groupby("layer")["agrees"].mean()
        rows = tables["memories_agreement"].query("sign == @sign and reading == 'final_norm'").set_index("layer")
        np.testing.assert_allclose(rows["first"].dropna(), agreeing.dropna())


@torch.no_grad()
def test_refinement_ends_with_the_models_own_token(config_of: Runs, loaded: Callable[[str], Any]) -> None:
    """Outcomes are shares of all positions; composition and refinement have a position a sequence."""
    tables = run_studies([SPEC], config_of(family="llama"), model=loaded("llama")).tables
    refinement, composition = tables["memories_refinement"], tables["memories_composition"]
    np.testing.assert_allclose(refinement[["residual", "feed-forward", "agreement", "composition"]].sum(axis=1), 1)
    assert refinement["positions"].eq(30).all() and composition["positions"].eq(30).all()
    last = refinement.query("layer == layer.max()")
    np.testing.assert_allclose(last["final"], last["residual"] + last["agreement"])
    assert composition[["active", "zero_agreement", "zero_agreement_with_sum"]].stack().between(0, 1).all()


@pytest.mark.parametrize("family", ["llama", "bert"])
def test_however_the_corpus_is_cut(
    family: str, config_of: Runs, loaded: Callable[[str], Any], tables_of: Callable[[Path], dict[str, bytes]]
) -> None:
    """One shard or thirty: the same triggers, byte for byte, and the same means."""
    runs = [
        run_studies([SPEC], config_of(family=family, out=str(size), shard_size=size), model=loaded(family))
        for size in (1, 7, 30)
    ]
    first, *rest = (tables_of(run.folder) for run in runs)
    for tables in rest:
        for name in (
            "memories_triggers.csv",
            "memories_ngrams.csv",
            *(["memories_agreement.csv"] * (family == "llama")),
        ):
            assert tables[name] == first[name]
    for run in runs[1:]:
        columns = ["active", "zero_agreement"]
        np.testing.assert_allclose(
            run.tables["memories_composition"][columns], runs[0].tables["memories_composition"][columns]
        )


def test_an_encoder_without_its_head_has_triggers_alone(config_of: Runs, loaded: Callable[[str], Any]) -> None:
    """Nothing is read as tokens, since its head would be random numbers."""
    model = loaded("bert")
    config = identify(model).hooked.original_model.config
    config.untrained_head = True
    try:
        tables = run_studies([SPEC], config_of(limit=4), model=model).tables
    finally:
        config.untrained_head = False
    assert {name for name in tables if name.startswith("memories")} == {"memories_triggers", "memories_ngrams"}
    assert len(tables["memories_triggers"])


def test_options_out_of_range_are_refused() -> None:
    """A pattern needs three triggers."""
    for wrong in (dict(keys=0), dict(top_triggers=2), dict(skip_first=-1), dict(every=0)):
        with pytest.raises(InputError):
            study("memories", **wrong)


def test_killed_runs_end_as_uninterrupted_ones(config_of: Runs, loaded: Callable[[str], Any]) -> None:
    """Killed at random moments, then started a last time: the tables are those of an uninterrupted run, byte for byte."""
    assert_kills_change_nothing("memories", config_of(family="llama", shard_size=1), loaded("llama"), kills=3)
