"""TokenMaps: maps of any channels, labelled."""

import dataclasses
from typing import Any

import pytest
import torch

from tests.page.screen import build_result
from tl_ffblock.errors import InputError
from tl_ffblock.results.token_maps import TokenMaps

HEADS = ("head 0", "head 1", "head 2")


@pytest.fixture
def patterns() -> TokenMaps:
    """Two layers, three heads, two of four queries; every value is another number."""
    return TokenMaps(
        values=torch.arange(2 * 3 * 2 * 4.0).reshape(2, 3, 2, 4),
        tokens=("a", " b", "c", "d"),
        layers=(1, 4),
        channels=HEADS,
        queries=(3, 1),
        causal=True,
        model="toy",
        kind="attention",
    )


def test_channels_and_layers_are_found_by_name_and_number(patterns: TokenMaps) -> None:
    """`[channel]` is all its layers, `[channel, layer]` one map by the model's number or counted from the end."""
    assert patterns["head 1"].equal(patterns.values[:, 1])
    assert patterns["head 2", 4].equal(patterns.values[1, 2])
    assert patterns["head 2", -1].equal(patterns.values[1, 2])
    assert patterns["head 0", -2].equal(patterns.values[0, 0])


def test_only_a_causal_model_has_cells_out_of_reach(patterns: TokenMaps) -> None:
    """Row r is position queries[r]: 3 reaches all four tokens, 1 the first two."""
    assert patterns.reachable().tolist() == [[True] * 4, [True, True, False, False]]
    assert dataclasses.replace(patterns, causal=False).reachable().all()


@pytest.mark.wrong_types
@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {"tokens": ("a", "b")},
            r"shape \(2, 3, 2, 4\): expected .* \(2, 3, 2, 2\) for 2 layers, 3 channels, 2 queries",
        ),
        ({"values": torch.zeros(2, 3, 4)}, r"shape \(2, 3, 4\): expected"),
        ({"values": torch.zeros(2, 0, 2, 4), "channels": ()}, "at least one of each"),
        ({"layers": (4, 1)}, r"layers=\(4, 1\): expected ascending numbers"),
        ({"layers": (4, 4)}, "each once"),
        ({"channels": ("head 0", "head 1", "head 0")}, "expected each name once"),
        ({"queries": (3, 4)}, r"queries=\(3, 4\): expected positions from 0 to 3"),
        ({"queries": (3, -1)}, "expected positions from 0 to 3"),
    ],
)
def test_labels_must_fit_the_numbers(patterns: TokenMaps, change: dict[str, Any], text: str) -> None:
    """Another shape than the labels', repeated names or positions that are not there are refused when it is made."""
    with pytest.raises(InputError, match=text):
        dataclasses.replace(patterns, **change)


def test_contribution_maps_are_token_maps_with_scopes_as_channels() -> None:
    """All labels and numbers stay; scopes can be chosen, in any order."""
    maps = build_result(4, layers=(2, 5), queries=(3, 0))
    tokens = maps.token_maps()
    assert tokens.channels == maps.scopes
    for name in ("tokens", "layers", "queries", "causal", "model", "signed"):
        assert getattr(tokens, name) == getattr(maps, name)
    for scope in maps.scopes:
        assert tokens[scope].equal(maps[scope])
    assert maps.token_maps("AtbLn")["AtbLn", 5].equal(maps["AtbLn", 5])
    assert maps.token_maps(("AtbLn", "Atb")).channels == ("AtbLn", "Atb")
    assert tokens.reachable().equal(maps.reachable())
    with pytest.raises(KeyError, match="no scope 'AtbFf' here"):
        maps.token_maps("AtbFf")
    with pytest.raises(InputError, match="expected one or more of Attn, Atb"):
        maps.token_maps(())


def test_dataframe_has_one_row_for_every_cell(patterns: TokenMaps) -> None:
    """Each row's value is the cell that its labels name."""
    frame = patterns.to_dataframe()
    assert list(frame) == ["layer", "channel", "query", "key", "query_token", "key_token", "value"]
    assert len(frame) == patterns.values.numel()
    for row in frame.itertuples():
        assert row.value == float(patterns[row.channel, row.layer][patterns.queries.index(row.query), row.key])
