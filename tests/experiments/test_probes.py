"""The study of probes: kept in shards and trained from them; baselines are those that are counted by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from tests.corpora import OF_TREEBANK, TREEBANK, stored_tables
from tl_ffblock.bridge.model import identify
from tl_ffblock.corpus.runs import CorpusRun
from tl_ffblock.corpus.texts import read_conllu
from tl_ffblock.experiments import study

Run = Callable[..., CorpusRun]


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_probes_are_trained_and_baselines_counted(family: str, run: Run) -> None:
    """Every kind of map by both probes; right-branching by hand; cut into other shards the table is the same, byte for byte."""
    spec = study("probes")
    runs = [run([spec], family=family, out=f"run{n}", **OF_TREEBANK | {"shard_size": n}) for n in (1, 4)]
    assert stored_tables(runs[0].folder) == stored_tables(runs[1].folder)
    table = runs[0].tables["probes_attachment"].set_index(["probe", "maps"])
    kinds = table.loc["maps"].index.tolist()
    assert kinds[0] == "attention" and kinds[-2:] == ["all of these", "random weights"] and len(kinds) == 7
    assert (table.loc[("maps", "attention"), ["minus_attention_low", "minus_attention_high"]] == 0).all()
    arcs = [arc for text in read_conllu(TREEBANK) for arc in text.relations if arc.name != "punct"]
    assert (table["words"] == len(arcs)).all()
    branching = sum(arc.head == arc.dependent + 1 for arc in arcs) / len(arcs)
    assert table.loc[("right-branching", ""), "attachment"].item() == pytest.approx(branching)


def test_texts_without_relations_are_left_out(run: Run) -> None:
    """Each is a problem that says what is needed, and nothing can be measured."""
    finished = run("probes", limit=2, mask_fraction=0.0)
    assert finished.status == 1 and "probes need a treebank" in finished.tables["problems"]["why"].iloc[0]


@pytest.mark.parametrize("family", ["bert", "llama"])
def test_random_weights_are_those_of_a_seed(family: str, loaded: Callable[[str], Any]) -> None:
    """Every matrix is another with the same mean and deviation, and the model itself is as it was."""
    model = identify(loaded(family))
    before = {name: tensor.clone() for name, tensor in model.hooked.state_dict().items()}
    drawn = model.with_random_weights(3).hooked.state_dict()
    again = model.with_random_weights(3).hooked.state_dict()
    for name, tensor in model.hooked.state_dict().items():
        assert torch.equal(tensor, before[name]) and torch.equal(drawn[name], again[name])
        if tensor.is_floating_point() and tensor.numel() > 1000:
            assert not torch.equal(tensor, drawn[name])
            assert drawn[name].std() == pytest.approx(float(tensor.std()), rel=0.2)


def test_token_vectors_are_rows_of_the_embedding(loaded: Callable[[str], Any]) -> None:
    """As the model's matrix has them."""
    model = loaded("llama")
    rows = identify(model).token_vectors(torch.tensor([3, 1]))
    np.testing.assert_array_equal(rows.numpy(), model.W_E[[3, 1]].detach().numpy())
