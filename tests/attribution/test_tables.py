"""Tables of an attribution: every share that it holds, largest first, with tokens in words."""

from types import ModuleType
from typing import Any

import pytest
import torch

from tests import tiny


@pytest.fixture(scope="module")
def result(ffb: ModuleType) -> Any:
    """Of a float64 GPT-2, with all parts."""
    model = tiny.bridge("gpt2", dtype=torch.float64)
    return ffb.attribute(model, tiny.tokens("gpt2", 5), ffb.logit(7), of=("heads", "neurons", "edges", "maps"))


def test_a_table_has_every_share_largest_first(result: Any) -> None:
    """Of heads and neurons by position, of edges by query and key; what is 0 has no row."""
    heads, neurons, edges = (result.to_dataframe(of) for of in ("heads", "neurons", "edges"))
    assert list(heads) == ["layer", "head", "position", "token", "value"]
    assert list(neurons) == ["layer", "neuron", "position", "token", "value"]
    assert list(edges) == ["layer", "head", "query", "key", "query_token", "key_token", "value"]
    for row in heads.itertuples():
        assert row.value == float(result.heads[row.layer, row.head, row.position])
        assert row.token == result.labels[row.position]
    for row in edges.itertuples():
        assert row.value == float(result.edges[row.layer, row.head, row.query, row.key])
        assert (row.query_token, row.key_token) == (result.labels[row.query], result.labels[row.key])
    for row in neurons[:50].itertuples():
        assert row.value == float(result.neurons(row.layer)[row.position, row.neuron])
    stacked = torch.stack([result.neurons(layer) for layer in range(result.n_layers)])
    for frame, shares in ((heads, result.heads), (neurons, stacked), (edges, result.edges)):
        assert len(frame) == int(shares.count_nonzero())
        assert frame["value"].abs().is_monotonic_decreasing
        assert frame["value"].sum() == pytest.approx(float(shares.sum()))


def test_so_many_rows_are_the_largest(result: Any) -> None:
    """The first of all; summands, which stand in the text's order, are sorted for it."""
    for of in ("heads", "neurons", "edges"):
        assert result.to_dataframe(of, 7).equals(result.to_dataframe(of)[:7])
    summands = result.to_dataframe()
    assert result.to_dataframe(k=3)["value"].tolist() == sorted(summands["value"], key=abs, reverse=True)[:3]
    assert summands["value"].sum() == pytest.approx(result.value)


def test_the_short_form_names_the_largest_heads(ffb: ModuleType, result: Any) -> None:
    """Summed over positions, where heads were asked for; JSON has them by position."""
    by_head = result.heads.sum(-1)
    layer, head = divmod(int(by_head.abs().argmax()), by_head.shape[1])
    (line,) = (line for line in repr(result).split("\n") if line.startswith("  heads "))
    assert line.split()[1] == f"L{layer}H{head}"
    assert result.to_dict()["heads"] == result.heads.tolist()
    without = ffb.Attribution(**{**vars(result), "parts": {}})
    assert "  heads " not in repr(without) and "heads" not in without.to_dict()


def test_tables_of_scopes_say_what_they_hold(result: Any) -> None:
    """Scopes, layers and the shape of each; the maps end at the layer's output."""
    assert repr(result.maps) == "ScopeTable: Attn, Atb, AtbLn, AtbLnFf, AtbLnFfRes · layers 0-2, each [3, 5, 5]"


@pytest.mark.wrong_types
def test_other_tables_are_refused(ffb: ModuleType, result: Any) -> None:
    """Those there are, are named; parts that were not asked for say how to."""
    with pytest.raises(ffb.errors.InputError, match='"summands", "heads", "neurons" or "edges"'):
        result.to_dataframe("tokens")
    with pytest.raises(ffb.errors.InputError, match="k=0"):
        result.to_dataframe("heads", 0)
    without = ffb.Attribution(**{**vars(result), "parts": {}})
    for of in ("heads", "neurons", "edges"):
        with pytest.raises(ffb.errors.ScopeKeyError, match="ask with"):
            without.to_dataframe(of)
