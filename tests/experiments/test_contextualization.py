"""Changes of mixing, against numbers made by hand."""

import pytest
import torch

from tests.experiments.hand_made import CONFIG, facts, observed, tables_of_shards, tokenised
from tl_ffblock.bridge.model import Model
from tl_ffblock.experiments.kobayashi.contextualization import Contextualization
from tl_ffblock.layer.scopes import STEPS


def test_changes_are_averaged_over_sequences(bert: Model) -> None:
    """1 - Spearman of each sequence, then their mean: 0 for the same order, 2 for the reverse."""
    study = Contextualization(CONFIG, facts())
    up = torch.arange(4.0).reshape(2, 2)
    same = dict.fromkeys(("Attn", "AttnRes", "Atb", "AtbFf", "AtbFfRes", "AtbFfResLn"), up)
    turned = {**same, "AtbFf": -up}
    tables = tables_of_shards(study, *([observed(bert, study, maps, tokenised([10, 11]))] for maps in (same, turned)))
    changes = tables["changes"].query("cells == 'all'").set_index("after")["change"]
    assert changes.to_dict() == pytest.approx(
        {"AttnRes": 0, "Atb": 0, "AtbFf": 1, "AtbFfRes": 1, "AtbFfResLn": 0}, abs=1e-12
    )
    cumulative = tables["cumulative"].query("cells == 'all'").set_index("component")["change"]
    assert cumulative.to_dict() == pytest.approx({"+FF": 1, "+RES": 0, "+LN": 0}, abs=1e-12)
    assert (tables["changes"]["sequences"] == 2).all()


def test_cumulative_changes_start_before_the_feed_forward() -> None:
    """And where a norm precedes it inside the block, before that norm too."""
    for order in STEPS.keys() - {"attn_only"}:  # which has no feed-forward
        bases = ("AtbLn", "Atb") if order in ("pre_ln", "sandwich") else ("Atb",)
        assert Contextualization(CONFIG, facts(order)).bases() == bases
